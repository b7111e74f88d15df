//! FORWARD TSN (RFC 3758 section 3.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 192  |  Flags = 0x00 |       Length = Variable       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       New Cumulative TSN                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Stream-1           |       Stream Sequence-1       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Stream-N           |       Stream Sequence-N       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{self, chunk};
use super::opaque::Opaque;
use super::writer::Writer;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// A FORWARD TSN chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The cumulative TSN the receiver should have.
    pub new_cumulative_tsn: u32,
    /// Streams in which ordered messages were abandoned.
    pub streams: Box<[SkippedStream]>,
}

/// A stream in which ordered messages were abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedStream {
    /// Stream identifier.
    pub stream: u16,
    /// The largest stream sequence number that was abandoned.
    pub ssn: u16,
}

impl ForwardTsn {
    #[inline]
    pub(super) fn wire_size(&self) -> u32 {
        8 + 4 * self.streams.len() as u32
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::FORWARD_TSN, 0, |writer| {
            writer.out.u32(self.new_cumulative_tsn);
            for skipped in &self.streams {
                writer.out.u16(skipped.stream);
                writer.out.u16(skipped.ssn);
            }
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let new_cumulative_tsn = reader.u32()?;
        let count = reader.0.len() / 4;
        let mut next = || Some(SkippedStream { stream: reader.u16()?, ssn: reader.u16()? });
        Some(Self { new_cumulative_tsn, streams: (0..count).map(|_| next()).collect::<Option<_>>()? })
    }

    /// The report on a FORWARD TSN that was not agreed on. Its chunk type asks for one (RFC 9260 section
    /// 3.2).
    pub fn report(&self) -> Opaque {
        let mut chunk = Vec::with_capacity(8 + 4 * self.streams.len());
        let shown = self.streams.iter().take(codes::MOST_REPORTED / 4 - 2);
        chunk.u32(self.new_cumulative_tsn);
        shown.for_each(|skipped| {
            chunk.u16(skipped.stream);
            chunk.u16(skipped.ssn);
        });
        let length = 8 + 4 * self.streams.len() as u16;
        Opaque::reporting(chunk::FORWARD_TSN, 0, length, &chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let streams = [SkippedStream { stream: 2, ssn: 3 }].into();
        let bytes = [192, 0, 0, 12, 0, 0, 0, 1, 0, 2, 0, 3];
        assert_is(&bytes, &Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn: 1, streams }));
    }
}
