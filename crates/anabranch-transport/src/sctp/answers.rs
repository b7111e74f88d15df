//! Answers to the current packet. They share a packet (RFC 9260 section 6.10), and there are never so many
//! that a stranger could turn them against others. Answers to packets that belong to no association are here
//! as well (section 8.4).

use super::association::Association;
use crate::ground::PathId;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Abort, Chunk};
use crate::wire::{Body, Packet};

/// The answers to those chunks that a packet may hold any number of may exceed that packet by at most this
/// many bytes in all, headers included, so that packets with a forged source cannot be used to flood that
/// source.
const MOST_ANSWERED_MORE: u32 = 64;

/// The answers to the packet at hand.
#[derive(Debug, Default)]
pub(super) struct Answers {
    gathered: Option<Gathered>,
    /// Bytes that may still be sent in answer to the packet at hand.
    left: u32,
}

/// Answers that leave in one packet.
#[derive(Debug)]
struct Gathered {
    packet: Box<Packet>,
    /// The size in bytes that that packet has reached.
    size: u32,
    /// The position of the first answer among the outputs.
    position: usize,
}

impl Answers {
    /// Starts handling a packet of this many bytes.
    #[inline]
    pub(super) const fn begin(&mut self, size: u32) {
        self.left = size + MOST_ANSWERED_MORE;
    }

    /// Whether there is an answer to send.
    #[inline]
    pub(super) const fn is_any(&self) -> bool {
        self.gathered.is_some()
    }
}

/// The answer to a packet that belongs to no association, if it calls for one (RFC 9260 section 8.4). It
/// carries the packet's tag.
#[cold]
pub(super) fn answer_out_of_the_blue(packet: &SctpPacket) -> Option<Chunk> {
    match &packet.first {
        Chunk::Abort(_)
        | Chunk::CookieAck
        | Chunk::Error(_)
        | Chunk::Init(..)
        | Chunk::ShutdownComplete { .. } => None,
        Chunk::ShutdownAck => Some(Chunk::ShutdownComplete { tag_reflected: true }),
        _ => Some(Chunk::Abort(Abort { tag_reflected: true, cause: None })),
    }
}

impl Association {
    /// Answers the packet at hand with a chunk, in one packet with other answers and with a SACK that leaves
    /// at once (section 6.10). An answer that no packet has room for, or that there are too many of, is left
    /// out.
    pub(super) fn answer(&mut self, path: PathId, chunk: Chunk) {
        let (mtu, size) = (self.routing.paths[path.index()].mtu, chunk.wire_size());
        if self.outbox.answers.gathered.as_ref().is_some_and(|gathered| gathered.size + size > mtu) {
            self.send_answers(path);
        }
        let more = if self.outbox.answers.is_any() { size } else { self.local.headers_bytes + size };
        if more > mtu || !self.may_answer(more) {
            return;
        }
        if let Some(Gathered { packet, size, .. }) = &mut self.outbox.answers.gathered {
            *size += more;
            if let Body::Sctp(sctp) = &mut packet.body {
                sctp.rest.push(chunk);
            }
        } else {
            let packet = self.packet_with(self.state.peer_tag(), chunk);
            self.outbox.answers.gathered =
                Some(Gathered { packet, size: more, position: self.outbox.outputs.len() });
        }
    }

    /// Whether this many bytes may still be sent in answer to the current packet; if so, they count as sent.
    pub(super) fn may_answer(&mut self, size: u32) -> bool {
        let left = self.outbox.answers.left.checked_sub(size);
        self.outbox.answers.left = left.unwrap_or(self.outbox.answers.left);
        left.is_some()
    }

    /// Whether there is an answer with room for a chunk of this size.
    pub(super) fn answers_with(&self, path: PathId, size: u32) -> bool {
        let fits = |gathered: &Gathered| gathered.size + size <= self.routing.paths[path.index()].mtu;
        self.outbox.answers.gathered.as_ref().is_some_and(fits) && size <= self.outbox.answers.left
    }

    /// Sends the answers that have been gathered.
    pub(super) fn send_answers(&mut self, path: PathId) {
        let Some(Gathered { mut packet, size, position }) = self.outbox.answers.gathered.take() else {
            return;
        };
        if self.state.is_ended() {
            return;
        }
        // If the peer has restarted in the meantime, its tag is another one.
        if let Body::Sctp(sctp) = &mut packet.body {
            sctp.verification_tag = self.state.peer_tag();
        }
        let before = self.outbox.outputs.len();
        self.transmit(path, packet, size);
        // The answers leave before what was sent because of the packet's other chunks.
        if position < before && self.outbox.outputs.len() > before {
            self.outbox.outputs.make_contiguous()[position..].rotate_right(1);
        }
    }

    /// Answers a packet that does not belong to the association.
    #[cold]
    pub(super) fn out_of_the_blue(&mut self, path: PathId, packet: &SctpPacket) {
        let lives = self.state.is_alive();
        match answer_out_of_the_blue(packet) {
            // RFC 9260 section 8.5: an association that exists silently discards packets with a wrong tag.
            Some(_) if lives => {}
            None => {}
            Some(answer) => self.transmit_with_tag(path, packet.verification_tag, answer),
        }
    }
}
