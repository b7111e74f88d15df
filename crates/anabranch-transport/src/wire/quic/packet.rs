//! Packets, without protection (RFC 9000 section 17).

use smallvec::SmallVec;

use super::{ConnectionId, Frame, Level, Parameters, varint};

/// What protection adds to a packet (RFC 9001 section 5.3): every cipher has a tag of 16 bytes.
pub const TAG_BYTES: usize = 16;
/// Packet number and content have this many bytes together at least, so that there is something to sample
/// (RFC 9001 section 5.4.2).
pub const LEAST_SAMPLED: usize = 4;

/// A packet that is not protected (section 17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The level of protection, which says what the header looks like.
    pub level: Level,
    /// Where it goes to.
    pub destination: ConnectionId,
    /// Where it comes from; only long headers have it.
    pub source: ConnectionId,
    /// The token of an Initial packet.
    pub token: Box<[u8]>,
    /// The path ID that the destination is for, 0 without multipath (RFC 10069): it owns the packet number.
    pub path_id: u32,
    /// The packet number, all of it.
    pub number: u64,
    /// How many bytes of it are sent.
    pub number_bytes: u8,
    /// The key phase bit (RFC 9001 section 6), which only short headers have.
    pub key_phase: bool,
    /// How many updates of the keys came before, which is not on the wire: a receiver tries the keys, and one
    /// of a simulation, which has none, is told. 0 in a packet that was read from bytes.
    pub key_updates: u32,
    /// What it carries.
    pub frames: SmallVec<[Frame; 2]>,
    /// The transport parameters in the message of the handshake of which this packet has a part
    /// (RFC 9001 section 8.2).
    pub parameters: Option<Box<Parameters>>,
}

impl Packet {
    /// The length of header and tag, with the packet number and without frames, in bytes.
    pub fn overhead(&self) -> usize {
        let number = usize::from(self.number_bytes) + TAG_BYTES;
        if self.level == Level::OneRtt {
            return 1 + self.destination.len() + number;
        }
        let token = match self.level {
            Level::Initial => varint::size(self.token.len() as u64) + self.token.len(),
            _ => 0,
        };
        // First byte, version, two IDs with their lengths, and a length of two bytes.
        1 + 4 + 1 + self.destination.len() + 1 + self.source.len() + token + 2 + number
    }

    /// The length of its frames in bytes.
    pub fn content(&self) -> usize {
        self.frames.iter().map(Frame::size).sum()
    }

    /// Its length on the wire in bytes.
    pub fn wire_size(&self) -> usize {
        self.overhead() + self.content()
    }

    /// Whether the peer has to acknowledge it.
    pub fn elicits_ack(&self) -> bool {
        self.frames.iter().any(Frame::elicits_ack)
    }
}
