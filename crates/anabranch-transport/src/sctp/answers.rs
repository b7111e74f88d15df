//! Answers to the current packet. They share a packet (RFC 9260 section 6.10), and there are never so many
//! that a stranger could turn them against others. Answers to packets that belong to no association are here
//! as well (section 8.4).

mod gathering;

use crate::wire::Packet;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Abort, Chunk};

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
