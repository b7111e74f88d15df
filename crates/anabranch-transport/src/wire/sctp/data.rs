//! DATA (RFC 9260 section 3.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 0   |  Res  |I|U|B|E|             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                              TSN                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      Stream Identifier S      |    Stream Sequence Number n   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Payload Protocol Identifier                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                 User Data (seq n of Stream S)                 /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{cause, chunk, data_flag};
use super::fault::{Fault, SHORT};
use super::tlv::padded;
use super::writer::Writer;
use crate::flow::Payload;
use crate::wire::bytes::{Append as _, Piece, Reader};
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// Size of a DATA chunk's header in bytes (RFC 9260 section 3.3.1).
pub const DATA_HEADER_BYTES: u32 = 16;

/// A DATA chunk.
#[expect(clippy::struct_excessive_bools, reason = "the flags of RFC 9260 section 3.3.1")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; no meaning when unordered.
    pub ssn: u16,
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

impl Data {
    /// Length on the wire in bytes, padding included.
    pub const fn wire_size(&self) -> u32 {
        DATA_HEADER_BYTES + padded(self.payload.length)
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        let flags = data_flags([self.beginning, self.ending, self.unordered, self.immediate]);
        writer.with_header(chunk::DATA, flags, |writer| {
            writer.out.u32(self.tsn);
            writer.out.u16(self.stream);
            writer.out.u16(self.ssn);
            writer.out.u32(self.ppid);
            writer.sending.payload(self.payload, writer.out);
        });
    }

    pub(super) fn parse(
        flags: u8,
        mut reader: Reader<'_>,
        receiving: &mut impl SctpReceiving,
    ) -> Result<Self, Fault> {
        let mut header = || Some((reader.u32()?, reader.u16()?, reader.u16()?, reader.u32()?));
        let (tsn, stream, ssn, ppid) = header().ok_or(SHORT)?;
        Ok(Self {
            tsn,
            stream,
            ssn,
            ppid,
            unordered: flags & data_flag::UNORDERED != 0,
            beginning: flags & data_flag::BEGINNING != 0,
            ending: flags & data_flag::ENDING != 0,
            immediate: flags & data_flag::IMMEDIATE != 0,
            payload: keep_payload(Piece::Data { tsn }, reader, receiving)?,
        })
    }
}

/// Keeps the user data of a chunk.
pub(super) fn keep_payload(
    piece: Piece,
    reader: Reader<'_>,
    receiving: &mut impl SctpReceiving,
) -> Result<Payload, Fault> {
    if reader.is_empty() {
        // RFC 9260 section 6.2.
        let (Piece::Data { tsn } | Piece::IData { tsn, .. }) = piece else { return Err(SHORT.into()) };
        return Err(Fault::told(cause::NO_USER_DATA, &tsn.to_be_bytes()));
    }
    Ok(Payload { offset: receiving.keep(piece, reader.0), length: reader.0.len() as u32 })
}

/// The flags of DATA and I-DATA: B, E, U and I.
pub(super) fn data_flags([beginning, ending, unordered, immediate]: [bool; 4]) -> u8 {
    [
        (beginning, data_flag::BEGINNING),
        (ending, data_flag::ENDING),
        (unordered, data_flag::UNORDERED),
        (immediate, data_flag::IMMEDIATE),
    ]
    .into_iter()
    .filter(|&(is_set, _)| is_set)
    .fold(0, |flags, (_, flag)| flags | flag)
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn user_data_is_padded_to_four_bytes() {
        let size = |length| {
            let data = Data {
                tsn: 1,
                stream: 0,
                ssn: 0,
                ppid: 0,
                unordered: false,
                beginning: true,
                ending: true,
                immediate: false,
                payload: Payload { offset: 0, length },
            };
            data.wire_size()
        };
        assert_eq!([1, 4, 5].map(size), [20, 20, 24]);
    }

    #[test]
    fn bytes_are_as_in_the_picture() {
        let data = Data {
            tsn: 0x0102_0304,
            stream: 5,
            ssn: 6,
            ppid: 7,
            unordered: false,
            beginning: true,
            ending: false,
            immediate: true,
            payload: Payload { offset: 0, length: 1 },
        };
        let bytes = [0, 0b1010, 0, 17, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7, b'a', 0, 0, 0];
        assert_is(&bytes, &Chunk::Data(data));
    }
}
