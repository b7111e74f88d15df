//! Chunks of which only the header is interpreted (RFC 9260 section 3.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Chunk Type  |  Chunk Flags  |          Chunk Length         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                          Chunk Value                          /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes;
use super::error_cause::ErrorCause;
use super::tlv::padded;
use super::writer::Writer;
use crate::wire::bytes::Append as _;
use crate::wire::sctp::context::SctpSending;

/// A chunk of which only the header is interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// What follows the header, without padding.
    pub value: Box<[u8]>,
}

impl Opaque {
    pub(super) const fn wire_size(&self) -> u32 {
        4 + padded(self.value.len() as u32)
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        let Self { kind, flags, value } = self;
        writer.with_header(*kind, *flags, |writer| writer.out.extend(value));
    }

    /// The answer to the chunk, if it is a heartbeat (RFC 9260 section 8.3): its information as it came.
    pub fn heartbeat_ack(&self) -> Option<Self> {
        let kind = codes::chunk::HEARTBEAT_ACK;
        (self.kind == codes::chunk::HEARTBEAT).then(|| Self { kind, flags: 0, value: self.value.clone() })
    }

    /// The ERROR chunk that reports the chunk as unknown, if its type asks for that (section 3.2); it
    /// contains the chunk.
    pub fn report(&self) -> Option<Self> {
        if codes::is_known(self.kind) || self.kind & codes::REPORT == 0 {
            return None;
        }
        let shown = &self.value[..self.value.len().min(codes::MOST_REPORTED)];
        Some(Self::reporting(self.kind, self.flags, (4 + self.value.len()) as u16, shown))
    }

    /// An ERROR chunk that reports a chunk as unknown and shows this much of its value.
    pub(super) fn reporting(kind: u8, flags: u8, length: u16, shown: &[u8]) -> Self {
        let mut value = Vec::with_capacity(8 + shown.len());
        value.u16(codes::cause::UNRECOGNIZED_CHUNK);
        value.u16(8 + shown.len() as u16);
        value.extend([kind, flags]);
        value.u16(length);
        value.extend(shown);
        Self { kind: codes::chunk::ERROR, flags: 0, value: value.into() }
    }
}

/// A chunk that breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The chunk as it came.
    pub chunk: Opaque,
    /// The cause that an ABORT gives.
    pub cause: ErrorCause,
}

impl Illegal {
    /// Whether it is an INIT.
    pub const fn is_init(&self) -> bool {
        self.chunk.kind == codes::chunk::INIT
    }

    /// Whether it is an INIT ACK.
    pub const fn is_init_ack(&self) -> bool {
        self.chunk.kind == codes::chunk::INIT_ACK
    }

    /// The tag that its sender wants to see, if the chunk is an INIT or an INIT ACK that has one.
    pub fn initiate_tag(&self) -> Option<u32> {
        let tag = self.chunk.value.first_chunk().map(|tag| u32::from_be_bytes(*tag));
        tag.filter(|tag| *tag != 0 && (self.is_init() || self.is_init_ack()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let unknown = Opaque { kind: 0xfe, flags: 1, value: [2, 3, 4].into() };
        assert_is(&[0xfe, 1, 0, 7, 2, 3, 4, 0], &Chunk::Opaque(Box::new(unknown)));
    }
}
