//! I-DATA (RFC 8260 section 2.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 64   |  Res  |I|U|B|E|             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                              TSN                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       Stream Identifier       |            Reserved           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Message Identifier                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Payload Protocol Identifier / Fragment Sequence Number    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                           User Data                           /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{chunk, data_flag};
use super::data::{data_flags, keep_payload};
use super::fault::{Fault, SHORT};
use super::tlv::padded;
use super::writer::Writer;
use crate::flow::Payload;
use crate::wire::bytes::{Append as _, Piece, Reader};
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// Size of an I-DATA chunk's header in bytes (RFC 8260 section 2.1).
pub const I_DATA_HEADER_BYTES: u32 = 20;

/// An I-DATA chunk.
#[expect(clippy::struct_excessive_bools, reason = "the flags of RFC 8260 section 2.1")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IData {
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub stream: u16,
    /// Message Identifier: the message's number among those of its stream with the same U bit.
    pub mid: u32,
    /// Fragment Sequence Number; 0 in the first fragment, which has the payload protocol identifier in this
    /// place.
    pub fsn: u32,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// U bit.
    pub unordered: bool,
    /// B bit: first fragment of its message.
    pub beginning: bool,
    /// E bit: last fragment of its message.
    pub ending: bool,
    /// I bit: acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// The user data.
    pub payload: Payload,
}

impl IData {
    /// Length on the wire in bytes, padding included.
    pub const fn wire_size(&self) -> u32 {
        I_DATA_HEADER_BYTES + padded(self.payload.length)
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        let flags = data_flags([self.beginning, self.ending, self.unordered, self.immediate]);
        writer.with_header(chunk::I_DATA, flags, |writer| {
            writer.out.u32(self.tsn);
            writer.out.u16(self.stream);
            writer.out.u16(0);
            writer.out.u32(self.mid);
            writer.out.u32(if self.beginning { self.ppid } else { self.fsn });
            writer.sending.payload(self.payload, writer.out);
        });
    }

    pub(super) fn parse(
        flags: u8,
        mut reader: Reader<'_>,
        receiving: &mut impl SctpReceiving,
    ) -> Result<Self, Fault> {
        let mut header = || {
            let (tsn, stream) = (reader.u32()?, reader.u16()?);
            reader.u16()?;
            Some((tsn, stream, reader.u32()?, reader.u32()?))
        };
        let (tsn, stream, mid, last) = header().ok_or(SHORT)?;
        let beginning = flags & data_flag::BEGINNING != 0;
        let (ppid, fsn) = if beginning { (last, 0) } else { (0, last) };
        let unordered = flags & data_flag::UNORDERED != 0;
        Ok(Self {
            tsn,
            stream,
            mid,
            fsn,
            ppid,
            unordered,
            beginning,
            ending: flags & data_flag::ENDING != 0,
            immediate: flags & data_flag::IMMEDIATE != 0,
            payload: keep_payload(Piece::IData { tsn, stream, unordered, mid, fsn }, reader, receiving)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let first = IData {
            tsn: 0x0102_0304,
            stream: 5,
            mid: 6,
            fsn: 0,
            ppid: 7,
            unordered: true,
            beginning: true,
            ending: false,
            immediate: false,
            payload: Payload { offset: 0, length: 4 },
        };
        let mut bytes = *b"\x40\x06\x00\x18\x01\x02\x03\x04\0\x05\0\0\0\0\0\x06\0\0\0\x07abcd";
        assert_is(&bytes, &Chunk::IData(first));
        // The fragment sequence number is in the place of the protocol identifier.
        bytes[1] = 0b101;
        let last = IData { fsn: 7, ppid: 0, beginning: false, ending: true, ..first };
        assert_is(&bytes, &Chunk::IData(last));
    }
}
