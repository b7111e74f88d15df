//! The short way of packets that an end answers at once and that change little else: DATA in order where
//! nothing is missing and each packet is acknowledged, and heartbeats.

use super::association::Association;
use super::message::Whole;
use super::state::State;
use crate::endpoint::{Event, Response};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{Chunk, Data, SACK_HEADER_BYTES};
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
        if path.index() >= self.routing.status.len()
            || !sctp.rest.is_empty()
            || sctp.verification_tag != self.local.numbers.tag
            || self.parts.is_any
        {
            return Err(packet);
        }
        let State::Established(tcb) = &mut self.state else { return Err(packet) };
        let peer_tag = tcb.peer_tag;
        let (event, answer, path_back) = match sctp.first {
            Chunk::Data(data) => {
                let free = tcb.receiver.free_space(self.parameters.receive_buffer, self.unread);
                let is_plain = !tcb.uses_nr_sacks && tcb.receiver.received.duplicates.is_empty();
                if !is_plain || !tcb.receiver.is_next(&data, free == 0) {
                    return Err(packet);
                }
                let packets = tcb.receiver.delayed_sack.packets + 1;
                let packets = self.parts.packets_to_report(packets);
                let sack = tcb.receiver.take_next(path, free);
                self.stats.sacks_sent += 1;
                self.stats.data_chunks_received += 1;
                self.stats.messages_delivered += 1;
                let Data { stream, ppid, unordered, payload, .. } = data;
                let received = Whole { stream, ppid, unordered, payload };
                (Some(Event::Received(received.into())), Chunk::Sack(packets, sack), self.sack_path(path))
            }
            Chunk::Heartbeat(info) if info.pair.is_none() => (None, Chunk::HeartbeatAck(info), path),
            _ => return Err(packet),
        };
        self.last_now = now;
        self.routing.status[path.index()].last_heard = now;
        self.stats.packets_received += 1;
        self.stats.packets_sent += 1;
        [sctp.source_port, sctp.destination_port] = self.local.ports;
        sctp.verification_tag = peer_tag;
        // Neither DATA nor a heartbeat owns memory.
        std::mem::forget(std::mem::replace(&mut sctp.first, answer));
        (packet.path, packet.ecn) = (path_back, Ecn::NotEct);
        // A heartbeat is as long as its answer.
        if event.is_some() {
            packet.size = self.local.headers_bytes + SACK_HEADER_BYTES;
        }
        Ok(Response { event, packet })
    }
}
