//! SACK (RFC 9260 section 3.3.4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 3   |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Cumulative TSN Ack                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Advertised Receiver Window Credit (a_rwnd)          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Number of Gap Ack Blocks = N |  Number of Duplicate TSNs = M |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Gap Ack Block #1 Start    |      Gap Ack Block #1 End     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Gap Ack Block #N Start    |      Gap Ack Block #N End     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Duplicate TSN 1                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Duplicate TSN M                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use smallvec::SmallVec;

use super::codes::chunk;
use super::writer::Writer;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// Length of a SACK chunk without Gap Ack Blocks and duplicates (RFC 9260 section 3.3.4).
pub const SACK_HEADER_BYTES: u32 = 16;

/// A SACK chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sack {
    /// Last TSN received in sequence.
    pub cumulative_tsn: u32,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// Runs of TSNs received after a gap.
    pub gap_blocks: SmallVec<[GapBlock; 4]>,
    /// TSNs received more than once since the last SACK.
    pub duplicates: Box<[u32]>,
}

/// A run of received TSNs, as offsets from the cumulative TSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapBlock {
    /// Offset of the first TSN.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

impl Sack {
    #[inline]
    pub(super) fn wire_size(&self) -> u32 {
        SACK_HEADER_BYTES + 4 * (self.gap_blocks.len() + self.duplicates.len()) as u32
    }

    pub(super) fn emit(&self, packets: u8, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::SACK, packets, |writer| {
            let out = &mut *writer.out;
            out.u32(self.cumulative_tsn);
            out.u32(self.a_rwnd);
            out.u16(self.gap_blocks.len() as u16);
            out.u16(self.duplicates.len() as u16);
            emit_blocks(&[&self.gap_blocks], &self.duplicates, out);
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let (cumulative_tsn, a_rwnd) = (reader.u32()?, reader.u32()?);
        let counts = [reader.u16()?, 0, reader.u16()?];
        let ([gap_blocks, _], duplicates) = parse_blocks(&mut reader, counts)?;
        Some(Self { cumulative_tsn, a_rwnd, gap_blocks, duplicates })
    }
}

/// Blocks, and duplicates behind them.
pub(super) fn emit_blocks(blocks: &[&[GapBlock]], duplicates: &[u32], out: &mut Vec<u8>) {
    for block in blocks.iter().copied().flatten() {
        out.u16(block.start);
        out.u16(block.end);
    }
    for tsn in duplicates {
        out.u32(*tsn);
    }
}

type Blocks = SmallVec<[GapBlock; 4]>;

/// Blocks of two kinds and duplicates, of which there are so many.
#[inline]
pub(super) fn parse_blocks(reader: &mut Reader<'_>, counts: [u16; 3]) -> Option<([Blocks; 2], Box<[u32]>)> {
    // What the chunk announces does not count until it has been read.
    if reader.0.len() < 4 * counts.map(usize::from).iter().sum::<usize>() {
        return None;
    }
    let [renegable, non_renegable, duplicates] = counts;
    let mut blocks = |count: u16| {
        let mut blocks = SmallVec::with_capacity(count.into());
        for _ in 0..count {
            blocks.push(GapBlock { start: reader.u16()?, end: reader.u16()? });
        }
        Some(blocks)
    };
    let blocks = [blocks(renegable)?, blocks(non_renegable)?];
    let duplicates = (0..duplicates).map(|_| reader.u32()).collect::<Option<_>>()?;
    Some((blocks, duplicates))
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let sack = Sack {
            cumulative_tsn: 1,
            a_rwnd: 2,
            gap_blocks: smallvec![GapBlock { start: 3, end: 4 }, GapBlock { start: 6, end: 6 }],
            duplicates: [7].into(),
        };
        let bytes = [3, 0, 0, 28, 0, 0, 0, 1, 0, 0, 0, 2, 0, 2, 0, 1, 0, 3, 0, 4, 0, 6, 0, 6, 0, 0, 0, 7];
        assert_is(&bytes, &Chunk::Sack(0, sack));
    }
}
