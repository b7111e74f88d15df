//! Answers are gathered in one packet, and leave.

use super::{Gathered, answer_out_of_the_blue};
use crate::flow::PathId;
use crate::sctp::association::Association;
use crate::wire::Body;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::Chunk;

impl Association {
    /// Answers the packet at hand with a chunk, in one packet with other answers and with a SACK that leaves
    /// at once (section 6.10). An answer that no packet has room for, or that there are too many of, is left
    /// out.
    pub(in crate::sctp) fn answer(&mut self, path: PathId, chunk: Chunk) {
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
    pub(in crate::sctp) fn may_answer(&mut self, size: u32) -> bool {
        let left = self.outbox.answers.left.checked_sub(size);
        self.outbox.answers.left = left.unwrap_or(self.outbox.answers.left);
        left.is_some()
    }

    /// Whether there is an answer with room for a chunk of this size.
    pub(in crate::sctp) fn answers_with(&self, path: PathId, size: u32) -> bool {
        let fits = |gathered: &Gathered| gathered.size + size <= self.routing.paths[path.index()].mtu;
        self.outbox.answers.gathered.as_ref().is_some_and(fits) && size <= self.outbox.answers.left
    }

    /// Sends the answers that have been gathered.
    pub(in crate::sctp) fn send_answers(&mut self, path: PathId) {
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
    pub(in crate::sctp) fn out_of_the_blue(&mut self, path: PathId, packet: &SctpPacket) {
        let lives = self.state.is_alive();
        match answer_out_of_the_blue(packet) {
            // RFC 9260 section 8.5: an association that exists silently discards packets with a wrong tag.
            Some(_) if lives => {}
            None => {}
            Some(answer) => self.transmit_with_tag(path, packet.verification_tag, answer),
        }
    }
}
