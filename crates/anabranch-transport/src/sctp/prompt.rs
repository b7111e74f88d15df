//! The short way of packets that an end answers at once and that change little else: DATA in order where
//! nothing is missing and each packet is acknowledged, and heartbeats.

use smallvec::SmallVec;

use super::association::Association;
use crate::endpoint::{Event, Received};
use crate::ground::Ecn;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{Chunk, Data, SACK_HEADER_BYTES, Sack};
use crate::wire::{Body, Packet};

/// What follows from a packet to which an end [responds](Association::respond) at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Tell the application first.
    pub event: Option<Event>,
    /// Then send this packet on its path.
    pub packet: Box<Packet>,
}

impl Association {
    /// Whether a packet is one that [`Association::respond`] may take: a heartbeat, or a message that waits
    /// for no other, where SACKs are not delayed.
    #[inline]
    pub fn may_respond(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        self.parameters.sack_delay == Duration::ZERO
            && match &sctp.first {
                Chunk::Data(data) => data.unordered && data.beginning && data.ending,
                chunk => matches!(chunk, Chunk::Heartbeat(_)),
            }
    }

    /// Takes a packet from which nothing follows but one answer and perhaps an event, and which leaves the
    /// time of the next timeout as it was: there is nothing to poll. It is a short way for packets that would
    /// be an [`Input`](crate::endpoint::Input), for a caller that has polled everything before. The end then
    /// is as it would be after the long one, which alone says what follows from a packet.
    ///
    /// # Errors
    /// Any other packet, untouched.
    #[inline]
    pub fn respond(&mut self, now: Time, mut packet: Box<Packet>) -> Result<Answer, Box<Packet>> {
        if !self.may_respond(&packet) {
            return Err(packet);
        }
        let path = packet.path;
        let Body::Sctp(sctp) = &mut packet.body else { return Err(packet) };
        if !self.is_plain(sctp) || path.index() >= self.status.len() {
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

    /// Whether a chunk is the next one, and what acknowledges it is a plain SACK.
    #[inline]
    fn is_prompt(&self, data: &Data) -> bool {
        !self.uses_nr_sacks && self.received.duplicates.is_empty() && self.is_next(data)
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
