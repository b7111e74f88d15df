//! I-FORWARD-TSN (RFC 8260 section 2.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 194  |  Flags = 0x00 |       Length = Variable       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       New Cumulative TSN                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       Stream Identifier       |           Reserved          |U|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Message Identifier                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       Stream Identifier       |           Reserved          |U|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Message Identifier                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{self, SKIPPED_UNORDERED, chunk};
use super::opaque::Opaque;
use super::writer::Writer;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// An I-FORWARD-TSN chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The cumulative TSN the receiver should have.
    pub new_cumulative_tsn: u32,
    /// Streams in which messages were abandoned.
    pub messages: Box<[SkippedMessage]>,
}

/// A stream in which messages were abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// U bit: unordered messages.
    pub unordered: bool,
    /// The largest Message Identifier that was abandoned.
    pub mid: u32,
}

impl IForwardTsn {
    pub(super) fn wire_size(&self) -> u32 {
        // RFC 8260 section 2.3.1: 8 bytes for each stream.
        8 + 8 * self.messages.len() as u32
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::I_FORWARD_TSN, 0, |writer| {
            writer.out.u32(self.new_cumulative_tsn);
            for skipped in &self.messages {
                writer.out.u16(skipped.stream);
                writer.out.u16(if skipped.unordered { SKIPPED_UNORDERED } else { 0 });
                writer.out.u32(skipped.mid);
            }
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let new_cumulative_tsn = reader.u32()?;
        let count = reader.0.len() / 8;
        let mut next = || {
            let (stream, flags, mid) = (reader.u16()?, reader.u16()?, reader.u32()?);
            Some(SkippedMessage { stream, unordered: flags & SKIPPED_UNORDERED != 0, mid })
        };
        Some(Self { new_cumulative_tsn, messages: (0..count).map(|_| next()).collect::<Option<_>>()? })
    }

    /// The report on an I-FORWARD-TSN that was not agreed on. Its chunk type asks for one (RFC 9260 section
    /// 3.2).
    pub fn report(&self) -> Opaque {
        let mut chunk = Vec::with_capacity(8 + 8 * self.messages.len());
        let shown = self.messages.iter().take(codes::MOST_REPORTED / 8 - 1);
        chunk.u32(self.new_cumulative_tsn);
        shown.for_each(|skipped| {
            chunk.u16(skipped.stream);
            chunk.u16(if skipped.unordered { SKIPPED_UNORDERED } else { 0 });
            chunk.u32(skipped.mid);
        });
        let length = 8 + 8 * self.messages.len() as u16;
        Opaque::reporting(chunk::I_FORWARD_TSN, 0, length, &chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let messages = [SkippedMessage { stream: 2, unordered: true, mid: 3 }].into();
        let bytes = [194, 0, 0, 16, 0, 0, 0, 1, 0, 2, 0, 1, 0, 0, 0, 3];
        assert_is(&bytes, &Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn: 1, messages }));
    }
}
