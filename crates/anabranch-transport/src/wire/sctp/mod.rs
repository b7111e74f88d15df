//! SCTP packets (RFC 9260 section 3).

mod abort;
mod address;
mod asconf;
mod asconf_ack;
pub mod authentication;
pub mod chunk;
pub mod codes;
pub mod context;
mod cookie;
mod data;
mod emit;
mod error_cause;
mod fault;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
mod init_ack;
mod nr_sack;
mod opaque;
mod parse;
pub mod reconfig;
mod sack;
#[cfg(test)]
mod testing;
mod tlv;
mod writer;

use chunk::Chunk;

pub use parse::{ChunkHeader, Numbers, Parsed};

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
        let first = self.chunks().find(|chunk| !matches!(chunk, Chunk::Auth(_)));
        data.or(first).unwrap_or(&self.first).describe()
    }
}
