//! NR-SACK (draft-natarajan-tsvwg-sctp-nrsack section 4.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 16   |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Cumulative TSN Ack                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Advertised Receiver Window Credit (a_rwnd)          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Number of R Gap Ack Blocks = N|Number of NR Gap Ack Blocks = M|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Number of Duplicate TSNs = X |            Reserved           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    R Gap Ack Block #1 Start   |     R Gap Ack Block #1 End    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   NR Gap Ack Block #M Start   |    NR Gap Ack Block #M End    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Duplicate TSN 1                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Duplicate TSN X                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use smallvec::SmallVec;

use super::codes::chunk;
use super::sack::{GapBlock, Sack, emit_blocks, parse_blocks};
use super::writer::Writer;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// Length of an NR-SACK chunk without blocks and duplicates (draft-natarajan-tsvwg-sctp-nrsack section 4.2).
pub const NR_SACK_HEADER_BYTES: u32 = 20;

/// An NR-SACK chunk (draft-natarajan-tsvwg-sctp-nrsack section 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrSack {
    /// What it has in common with SACK. Its Gap Ack Blocks are those that the receiver may still withdraw.
    pub sack: Sack,
    /// The Non-Renegable Gap Ack Blocks: what they cover is never sent again.
    pub final_blocks: Box<[GapBlock]>,
}

impl NrSack {
    /// A SACK that acknowledges the same data, with blocks in order that do not overlap.
    pub fn to_sack(&self) -> Sack {
        let all = self.sack.gap_blocks.iter().chain(&self.final_blocks);
        let mut blocks: Vec<GapBlock> = all.copied().filter(|block| block.start <= block.end).collect();
        blocks.sort_unstable_by_key(|block| block.start);
        let mut gap_blocks: SmallVec<[GapBlock; 4]> = SmallVec::new();
        for block in blocks {
            match gap_blocks.last_mut() {
                Some(last) if u32::from(block.start) <= u32::from(last.end) + 1 => {
                    last.end = last.end.max(block.end);
                }
                _ => gap_blocks.push(block),
            }
        }
        Sack { gap_blocks, duplicates: self.sack.duplicates.clone(), ..self.sack }
    }

    pub(super) fn wire_size(&self) -> u32 {
        let Self { sack, final_blocks } = self;
        let entries = sack.gap_blocks.len() + final_blocks.len() + sack.duplicates.len();
        NR_SACK_HEADER_BYTES + 4 * entries as u32
    }

    pub(super) fn emit(&self, packets: u8, writer: &mut Writer<'_, impl SctpSending>) {
        let Self { sack, final_blocks } = self;
        writer.with_header(chunk::NR_SACK, packets, |writer| {
            let out = &mut *writer.out;
            out.u32(sack.cumulative_tsn);
            out.u32(sack.a_rwnd);
            out.u16(sack.gap_blocks.len() as u16);
            out.u16(final_blocks.len() as u16);
            out.u16(sack.duplicates.len() as u16);
            // Reserved.
            out.u16(0);
            emit_blocks(&[&sack.gap_blocks, final_blocks], &sack.duplicates, out);
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let (cumulative_tsn, a_rwnd) = (reader.u32()?, reader.u32()?);
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?];
        // Reserved.
        reader.u16()?;
        let ([gap_blocks, final_blocks], duplicates) = parse_blocks(&mut reader, counts)?;
        let sack = Sack { cumulative_tsn, a_rwnd, gap_blocks, duplicates };
        Some(Self { sack, final_blocks: final_blocks.into_vec().into() })
    }
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
            gap_blocks: smallvec![GapBlock { start: 3, end: 4 }],
            duplicates: [7].into(),
        };
        let final_blocks = [GapBlock { start: 5, end: 6 }, GapBlock { start: 8, end: 8 }].into();
        let bytes = [
            16, 0, 0, 36, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 2, 0, 1, 0, 0, 0, 3, 0, 4, 0, 5, 0, 6, 0, 8, 0, 8,
            0, 0, 0, 7,
        ];
        assert_is(&bytes, &Chunk::NrSack(0, Box::new(NrSack { sack, final_blocks })));
    }
}
