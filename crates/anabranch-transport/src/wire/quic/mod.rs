//! QUIC (RFC 9000, RFC 9221): frames, packet numbers, connection IDs, headers, transport parameters, packets
//! and datagrams, as structs and as bytes.
//!
//! Protection is a seam ([`Protection`]): [`Plain`] has the sizes of the real one, which the feature `quic`
//! brings.

mod codes;
mod connection_id;
mod content;
mod datagram;
mod frame;
mod header;
mod keys;
mod packet;
mod packet_number;
mod parameters;
mod protection;
mod sealed;
#[cfg(test)]
mod testing;
pub mod varint;

use crate::flow::Payload;
use crate::wire::bytes::Malformed;

pub use connection_id::{ConnectionId, MAX_BYTES as MAX_CONNECTION_ID_BYTES};
pub use content::{Content, LEAST_RESET_BYTES, MOST_PACKETS, Parsed};
pub use datagram::Datagram;
pub use frame::{Ack, Frame, MAX_ACK_RANGES, Stream};
pub use header::{Header, Level, LongHeader, ShortHeader, VERSION_1};
pub use keys::Keys;
pub use packet::{LEAST_SAMPLED, Packet, TAG_BYTES};
pub use packet_number::{decode as decode_packet_number, length as packet_number_length};
pub use parameters::{EarlyData, ParameterError, Parameters, PreferredAddress};
#[cfg(feature = "quic")]
pub use protection::Real;
pub use protection::{Envelope, Plain, Protection, SAMPLE_BYTES};

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "QUIC", problem }
}

/// What the bytes of a frame need that the frame does not have: the data that it carries.
pub trait Fields {
    /// What follows belongs to a packet of this level.
    fn begin(&mut self, _level: Level) {}

    /// Appends data.
    fn append(&mut self, part: Part, data: Payload, out: &mut Vec<u8>);

    /// Keeps data that begins at `position` of its stream, and returns the offset by which it can be asked
    /// for again.
    fn keep(&mut self, part: Part, position: u64, bytes: &[u8]) -> u64;

    /// Keeps data, as a payload.
    fn kept(&mut self, part: Part, position: u64, bytes: &[u8]) -> Payload {
        Payload { offset: self.keep(part, position, bytes), length: bytes.len() as u32 }
    }
}

/// What data belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The handshake.
    Crypto,
    /// A message.
    Datagram,
    /// The stream with this ID.
    Stream(u64),
}
