//! The short way of packets that an end answers at once and that change little else: DATA in order where
//! nothing is missing and each packet is acknowledged, and heartbeats.

use smallvec::SmallVec;

use super::association::{Association, State};
use crate::endpoint::{Event, Received, Response};
use crate::ground::Ecn;
use crate::time::{Duration, Time};
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Chunk, Data, SACK_HEADER_BYTES, Sack};
use crate::wire::{Body, Packet};

impl Association {
    /// Whether a packet is one that [`Association::answer_promptly`] may take: a heartbeat, or a message that
    /// waits for no other, where SACKs are not delayed.
    #[inline]
    pub(super) fn may_be_prompt(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        self.parameters.sack_delay == Duration::ZERO
            && match &sctp.first {
                Chunk::Data(data) => data.unordered && data.beginning && data.ending,
                chunk => matches!(chunk, Chunk::Heartbeat(_)),
            }
    }

    /// Takes a packet from which nothing follows but one answer and perhaps an event.
    ///
    /// # Errors
    /// Any other packet, untouched.
    #[inline]
    pub(super) fn answer_promptly(
        &mut self,
        now: Time,
        mut packet: Box<Packet>,
    ) -> Result<Response, Box<Packet>> {
        if !self.may_be_prompt(&packet) {
            return Err(packet);
        }
        let path = packet.path;
        let Body::Sctp(sctp) = &mut packet.body else { return Err(packet) };
        if !self.is_plain(sctp) || path.index() >= self.routing.status.len() {
            return Err(packet);
        }
        let (event, answer, path_back) = match sctp.first {
            Chunk::Data(data) if self.is_prompt(&data) => {
                self.tcb.receiver.delayed_sack.source = path;
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
        self.routing.status[path.index()].last_heard = now;
        self.stats.packets_received += 1;
        self.stats.packets_sent += 1;
        [sctp.source_port, sctp.destination_port] = self.local.ports;
        sctp.verification_tag = self.tcb.peer_tag;
        // Neither DATA nor a heartbeat owns memory.
        std::mem::forget(std::mem::replace(&mut sctp.first, answer));
        (packet.path, packet.ecn) = (path_back, Ecn::NotEct);
        // A heartbeat is as long as its answer.
        if event.is_some() {
            packet.size = self.local.headers_bytes + SACK_HEADER_BYTES;
        }
        Ok(Response { event, packet })
    }

    /// Whether a packet has one chunk, and is for an association that has nothing out of the ordinary.
    #[inline(always)]
    fn is_plain(&self, packet: &SctpPacket) -> bool {
        packet.rest.is_empty()
            && packet.verification_tag == self.local.numbers.tag
            && self.state == State::Established
            && !self.parts.is_any
    }

    /// Whether a chunk is the next one where nothing is missing.
    #[inline(always)]
    fn is_next(&self, data: &Data) -> bool {
        let tsn = self.tcb.receiver.received.cumulative + 1;
        data.tsn == tsn as u32
            && !self.tcb.receiver.received.has_gaps()
            && data.stream < self.tcb.receiver.inbound_streams
            && self.free_space() > 0
            && self.tcb.receiver.reassembly.continues(tsn, data)
    }

    /// Whether a chunk is the next one, and what acknowledges it is a plain SACK.
    #[inline]
    fn is_prompt(&self, data: &Data) -> bool {
        !self.tcb.uses_nr_sacks && self.tcb.receiver.received.duplicates.is_empty() && self.is_next(data)
    }

    /// Takes in a chunk that is the next one.
    #[inline]
    fn take_next(&mut self) {
        self.tcb.receiver.received.cumulative += 1;
        self.tcb.receiver.delayed_sack.packets += 1;
        self.stats.data_chunks_received += 1;
        self.stats.messages_delivered += 1;
    }

    /// The SACK of an end for which nothing is missing.
    #[inline]
    fn next_sack(&mut self) -> Sack {
        self.tcb.receiver.delayed_sack.sent();
        self.stats.sacks_sent += 1;
        self.tcb.receiver.advertised = self.free_space();
        Sack {
            cumulative_tsn: self.tcb.receiver.received.cumulative as u32,
            a_rwnd: self.tcb.receiver.advertised,
            gap_blocks: SmallVec::new(),
            duplicates: Box::default(),
        }
    }
}
