//! The short way of packets that an end answers at once and that change little else: DATA in order where
//! nothing is missing and each packet is acknowledged, and heartbeats.

use smallvec::SmallVec;

use super::association::{Association, State};
use crate::endpoint::{Answer, Event, Received};
use crate::ground::Ecn;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{Chunk, Data, SACK_HEADER_BYTES, Sack};
use crate::wire::{Body, Packet};

impl Association {
    /// Takes a packet with one chunk, and makes its answer in the same box. Whatever is not certain takes the
    /// long way, which alone says what follows from a packet.
    #[inline]
    pub(super) fn respond_at_once(
        &mut self,
        now: Time,
        mut packet: Box<Packet>,
    ) -> Result<Answer, Box<Packet>> {
        let path = packet.path;
        let is_open =
            self.state == State::Established && !self.has_rare_parts && path.index() < self.status.len();
        let Body::Sctp(sctp) = &mut packet.body else { return Err(packet) };
        if !is_open || sctp.verification_tag != self.local_tag || !sctp.rest.is_empty() {
            return Err(packet);
        }
        let (event, answer, path_back) = match sctp.first {
            Chunk::Data(data) if self.is_prompt(&data) => {
                self.delayed_sack.source = path;
                self.take_next();
                let packets = self.packets_to_report();
                let Data { stream, ppid, unordered, payload, .. } = data;
                let received = Received { stream, ppid, unordered, payload };
                (Some(Event::Received(received)), Chunk::Sack(packets, self.next_sack()), self.sack_path())
            }
            Chunk::Heartbeat(info) if info.pair.is_none() => (None, Chunk::HeartbeatAck(info), path),
            _ => return Err(packet),
        };
        self.last_now = now;
        self.status[path.index()].last_heard = now;
        self.stats.packets_received += 1;
        self.stats.packets_sent += 1;
        [sctp.source_port, sctp.destination_port] = self.ports;
        sctp.verification_tag = self.peer_tag;
        // Neither DATA nor a heartbeat owns memory.
        std::mem::forget(std::mem::replace(&mut sctp.first, answer));
        (packet.path, packet.ecn) = (path_back, Ecn::NotEct);
        // A heartbeat is as long as its answer.
        if event.is_some() {
            packet.size = self.headers_bytes + SACK_HEADER_BYTES;
        }
        Ok(Answer { event, packet })
    }

    /// Whether this chunk is a whole message, the next one where nothing is missing, and is acknowledged at
    /// once.
    #[inline]
    fn is_prompt(&self, data: &Data) -> bool {
        data.tsn == (self.received.cumulative as u32).wrapping_add(1)
            && self.parameters.sack_delay == Duration::ZERO
            && !self.uses_nr_sacks
            && !self.received.has_gaps()
            && self.received.duplicates.is_empty()
            && data.unordered
            && data.beginning
            && data.ending
            && data.stream < self.inbound_streams
            && self.reassembly.bytes == 0
            && self.free_space() > 0
    }

    /// Takes in a chunk that is the next one.
    #[inline]
    fn take_next(&mut self) {
        self.received.cumulative += 1;
        self.delayed_sack.packets += 1;
        self.stats.data_chunks_received += 1;
        self.stats.messages_delivered += 1;
    }

    /// The SACK of an end for which nothing is missing.
    #[inline]
    fn next_sack(&mut self) -> Sack {
        self.delayed_sack.sent();
        self.stats.sacks_sent += 1;
        self.advertised = self.free_space();
        Sack {
            cumulative_tsn: self.received.cumulative as u32,
            a_rwnd: self.advertised,
            gap_blocks: SmallVec::new(),
            duplicates: Box::default(),
        }
    }
}
