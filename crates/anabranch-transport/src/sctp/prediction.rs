//! A short way for the two packets that a transfer consists of while nothing goes wrong: the next DATA chunk
//! where nothing is missing, and a SACK without gaps of data that was sent on one path. It is to SCTP what
//! header prediction is to TCP.
//!
//! What SCTP does is said in [`Association::on_data`], [`Association::on_sack`] and what they call. For a
//! packet that is predicted, this does the same and leaves out what would find nothing to do; `properties.rs`
//! compares the two.

use super::association::{Association, State};
use super::outstanding::SentState;
#[cfg(test)]
use super::testing::note_predicted;
use crate::cc::{AckEvent, CongestionControl as _};
use crate::ground::PathId;
#[cfg(test)]
use crate::predicting::predicts as is_on;
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Chunk, Data, Sack};

/// Whether packets are predicted, which changes nothing; tests compare with the long way.
#[cfg(not(test))]
const fn is_on() -> bool {
    true
}

#[cfg(not(test))]
const fn note_predicted() {}

impl Association {
    /// Whether a packet has one chunk, and is for an association that may predict it.
    #[inline(always)]
    pub(super) fn is_plain(&self, packet: &SctpPacket) -> bool {
        is_on()
            && packet.rest.is_empty()
            && packet.verification_tag == self.local_tag
            && self.state == State::Established
            && !self.has_rare_parts
    }

    /// Whether a chunk is the next one where nothing is missing.
    #[inline(always)]
    pub(super) fn is_next(&self, data: &Data) -> bool {
        let tsn = self.received.cumulative + 1;
        data.tsn == tsn as u32
            && !self.received.has_gaps()
            && data.stream < self.inbound_streams
            && self.free_space() > 0
            && self.reassembly.continues(tsn, data)
    }

    /// Takes a packet of `size` bytes that is predicted, and whose chunk owns no memory. Returns whether it
    /// was; if not, nothing has been done but what is done for each packet.
    #[inline(always)]
    pub(super) fn take_predicted(&mut self, now: Time, path: PathId, size: u32, packet: &SctpPacket) -> bool {
        if !self.is_plain(packet) || self.load_sharing.is_some() {
            return false;
        }
        match &packet.first {
            Chunk::Data(data) => {
                self.hear(now, path, size);
                self.take_predicted_data(now, path, data)
            }
            Chunk::Sack(_, sack) => {
                self.hear(now, path, size);
                self.take_predicted_sack(now, path, sack)
            }
            _ => false,
        }
    }

    /// Takes the chunk that is next where nothing is missing.
    #[inline(never)]
    fn take_predicted_data(&mut self, now: Time, path: PathId, data: &Data) -> bool {
        if !self.is_next(data) {
            return false;
        }
        let tsn = self.received.cumulative + 1;
        self.received.cumulative = tsn;
        self.stats.data_chunks_received += 1;
        self.delayed_sack.source = path;
        self.delayed_sack.immediate |= data.immediate;
        self.deliver_data(tsn, data);
        // A message that is whole leaves the buffer as it was.
        if !(data.beginning && data.ending) && self.free_space() == 0 {
            self.deliver_parts();
            if self.is_over() {
                return true;
            }
        }
        self.acknowledge_packet(now);
        note_predicted();
        true
    }

    /// Takes a SACK of data in flight on one path, where nothing else is known to have arrived or to be lost,
    /// and where it says nothing about other paths.
    #[inline(never)]
    fn take_predicted_sack(&mut self, now: Time, from: PathId, sack: &Sack) -> bool {
        let outstanding = &self.outstanding;
        let first = outstanding.first_tsn;
        // Of an older SACK it is a large number.
        let count = sack.cumulative_tsn.wrapping_sub(first).wrapping_add(1) as usize;
        let is_plain = count > 0
            && count <= outstanding.chunks.len()
            && sack.gap_blocks.is_empty()
            && !sack.gap_blocks.spilled()
            && sack.duplicates.is_empty()
            && sack.a_rwnd > 0
            && outstanding.gap_acked.is_empty()
            && outstanding.lost() == 0
            && outstanding.abandoned() == 0;
        if !is_plain {
            return false;
        }
        let id = outstanding.chunks[0].path;
        let (mut bytes, mut window_bytes) = (0, 0);
        let (mut is_sure, mut probe_sent_at) = (false, None);
        let (probe, mut has_probe) = (self.paths[id.index()].rtt_probe, false);
        let takes_first_only = !self.parameters.procedures.retransmitted_data_clears_errors;
        for index in 0..count {
            let chunk = &outstanding.chunks[index];
            if chunk.state != SentState::InFlight || chunk.path != id {
                return false;
            }
            if takes_first_only && chunk.transmissions > 1 {
                return false;
            }
            bytes += u64::from(chunk.length);
            window_bytes += chunk.window_bytes;
            is_sure |= !chunk.on_several_paths;
            let is_probe = probe == Some(outstanding.tsn(index));
            has_probe |= is_probe;
            if is_probe || (self.parameters.samples_every_sack && chunk.transmissions == 1) {
                probe_sent_at = Some(chunk.departure);
            }
        }
        let restarts_others = self.parameters.procedures.cumulative_tsn_restarts_timers;
        for (index, path) in self.paths.iter().enumerate() {
            let is_idle = outstanding.on(PathId(index as u8)) == 0;
            let is_settled = path.fast_recovery_exit.is_none()
                && (index == id.index() || (path.t3.is_never() == is_idle && (is_idle || !restarts_others)));
            if !is_settled {
                return false;
            }
        }

        self.next_of_paths = None;
        self.stats.sacks_received += 1;
        let before = self.outstanding.on(id);
        self.outstanding.pop_in_flight(count, id, bytes, window_bytes);
        let in_flight = self.outstanding.on(id);
        let path = &mut self.paths[id.index()];
        if has_probe {
            path.rtt_probe = None;
        }
        path.cc.on_ack(&AckEvent::new(now, window_bytes, before));
        if let Some(sent_at) = probe_sent_at {
            self.take_rtt_sample(now, id, sent_at);
        }
        let path = &mut self.paths[id.index()];
        path.t3 =
            if in_flight == 0 { Time::NEVER } else { self.parameters.rto.clock.deadline(now, path.rto.rto) };
        self.clear_errors_by_sack(now, id, from, is_sure);
        self.peer_rwnd = u64::from(sack.a_rwnd).saturating_sub(self.outstanding.bytes()) as u32;
        self.advance_peer_ack_point();
        self.tell_writable();
        if self.advanced_peer_ack_point != sack.cumulative_tsn {
            self.send_forward_tsn(now);
        }
        self.send(now);
        note_predicted();
        true
    }
}
