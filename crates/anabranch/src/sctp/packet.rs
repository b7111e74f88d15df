//! SCTP packets (RFC 9260 section 3).

use super::chunk::Chunk;
use crate::packet::{Body, Ecn, Packet, PathId};

/// Size of the common header in bytes (RFC 9260 section 3.1).
pub const COMMON_HEADER_BYTES: u32 = 12;

/// An SCTP packet: common header and chunks. Its checksum is always right; corrupted packets are
/// lost packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SctpPacket {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Verification tag of the receiver.
    pub verification_tag: u32,
    /// The first chunk; in most packets there is no other.
    pub first: Chunk,
    /// The other chunks, in order.
    pub rest: Vec<Chunk>,
}

impl SctpPacket {
    /// Stands for a chunk in packets to be filled in; owns nothing.
    pub(super) const BLANK: Chunk = Chunk::CookieAck;

    /// A packet to be filled in.
    #[cold]
    pub(super) fn boxed() -> Box<Packet> {
        let (first, rest) = (Self::BLANK, Vec::new());
        let sctp = Self { source_port: 0, destination_port: 0, verification_tag: 0, first, rest };
        Box::new(Packet { path: PathId::default(), ecn: Ecn::default(), size: 0, body: Body::Sctp(sctp) })
    }

    /// All chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Length on the wire in bytes, without the IP header.
    pub fn wire_size(&self) -> u32 {
        COMMON_HEADER_BYTES + self.chunks().map(Chunk::wire_size).sum::<u32>()
    }

    /// The name of the chunk that matters most to a reader, and its TSN if it has one.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        let data = self.chunks().find(|chunk| matches!(chunk, Chunk::Data(_) | Chunk::IData(_)));
        let first = self.chunks().find(|chunk| !matches!(chunk, Chunk::Auth));
        data.or(first).unwrap_or(&self.first).describe()
    }
}
