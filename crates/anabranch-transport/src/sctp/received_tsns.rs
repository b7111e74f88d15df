//! The TSNs that have arrived: the cumulative TSN, the runs beyond it, and duplicates (RFC 9260 sections
//! 3.3.4 and 6.2).

use std::collections::VecDeque;

use super::gap_acked::{Blocks, collect, shift, shifted};
use crate::wire::sctp::chunk::GapBlock;

/// Arrived TSNs, with all their bits.
#[derive(Debug)]
pub(super) struct ReceivedTsns {
    /// Last TSN received in sequence.
    pub(super) cumulative: u64,
    /// Runs beyond it, in order, never adjacent, as they travel: offsets from `base`.
    ranges: Vec<GapBlock>,
    /// The cumulative TSN or an earlier one; it says something only while there are runs.
    base: u64,
    /// TSNs received again since the last SACK.
    pub(super) duplicates: Vec<u32>,
    /// The latest TSNs that a FORWARD TSN passed before they arrived, in order.
    overtaken: VecDeque<u64>,
}

/// The most duplicates that a SACK reports (Linux: `SCTP_MAX_DUP_TSNS`).
const MAX_DUPLICATES: usize = 16;
/// The most overtaken TSNs that are remembered; older ones count as never arriving.
const MAX_OVERTAKEN: usize = 1024;

impl ReceivedTsns {
    pub(super) fn new(peer_initial_tsn: u32) -> Self {
        // One wrap away from zero, so that a step back stays positive.
        let cumulative = (1 << 32) + u64::from(peer_initial_tsn) - 1;
        Self {
            cumulative,
            ranges: Vec::new(),
            base: cumulative,
            duplicates: Vec::new(),
            overtaken: VecDeque::new(),
        }
    }

    /// Records a TSN, which is not too far; returns false when it had arrived already.
    #[inline(always)]
    pub(super) fn insert(&mut self, tsn: u64) -> bool {
        if tsn == self.cumulative + 1 {
            self.cumulative = tsn;
            self.absorb();
            return true;
        }
        let is_new = tsn > self.cumulative && self.insert_beyond(tsn);
        if !is_new {
            self.duplicate(tsn);
        }
        is_new
    }

    fn insert_beyond(&mut self, tsn: u64) -> bool {
        debug_assert!(!self.is_too_far(tsn), "TSN {tsn} is too far from {}", self.cumulative);
        if self.ranges.is_empty() {
            self.base = self.cumulative;
        } else if tsn - self.base > u64::from(u16::MAX) {
            self.count_from_cumulative();
        }
        let at = (tsn - self.base) as u16;
        let after = self.ranges.partition_point(|range| range.start <= at);
        if after > 0 && self.ranges[after - 1].end >= at {
            return false;
        }
        let joins_before = after > 0 && self.ranges[after - 1].end + 1 == at;
        let joins_after = self.ranges.get(after).is_some_and(|next| next.start - 1 == at);
        match (joins_before, joins_after) {
            (true, true) => {
                self.ranges[after - 1].end = self.ranges[after].end;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].end = at,
            (false, true) => self.ranges[after].start = at,
            (false, false) => self.ranges.insert(after, GapBlock { start: at, end: at }),
        }
        true
    }

    /// Lets the runs count from the cumulative TSN.
    #[cold]
    fn count_from_cumulative(&mut self) {
        shift(&mut self.ranges, (self.cumulative - self.base) as u16);
        self.base = self.cumulative;
    }

    /// Whether this TSN, which is not new, arrives for the first time since a FORWARD TSN passed it. True at
    /// most once for each TSN.
    pub(super) fn was_overtaken(&mut self, tsn: u64) -> bool {
        self.overtaken.binary_search(&tsn).is_ok_and(|index| self.overtaken.remove(index).is_some())
    }

    /// Moves the cumulative TSN to at least `tsn` (RFC 3758 section 3.6); returns false when it was there
    /// already.
    pub(super) fn advance_to(&mut self, tsn: u64) -> bool {
        if tsn <= self.cumulative {
            return false;
        }
        // However far the cumulative TSN moves, only so many can be remembered.
        let mut missing = (self.cumulative + 1).max((tsn + 1).saturating_sub(MAX_OVERTAKEN as u64));
        let base = self.base;
        let runs =
            self.ranges.iter().map(|range| (base + u64::from(range.start), base + u64::from(range.end)));
        for (start, end) in runs.chain([(tsn + 1, tsn + 1)]) {
            self.overtaken.extend(missing..start.min(tsn + 1));
            missing = missing.max(end + 1);
        }
        let surplus = self.overtaken.len().saturating_sub(MAX_OVERTAKEN);
        self.overtaken.drain(..surplus);
        self.cumulative = tsn;
        self.absorb();
        true
    }

    /// Whether a TSN lies so far ahead that no Gap Ack Block could report it: their offsets have 16 bits
    /// (section 3.3.4). So TSNs that a stranger makes up cost no more memory than the runs below that
    /// distance.
    pub(super) const fn is_too_far(&self, tsn: u64) -> bool {
        tsn > self.cumulative + u16::MAX as u64
    }

    /// The largest TSN that has arrived.
    pub(super) fn highest(&self) -> u64 {
        self.ranges.last().map_or(self.cumulative, |range| self.base + u64::from(range.end))
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The first runs beyond the cumulative TSN as Gap Ack Blocks, at most `most` of them.
    #[inline]
    pub(super) fn gap_blocks(&self, most: usize) -> Blocks {
        if self.has_gaps() { self.list_gap_blocks(most) } else { Blocks::new() }
    }

    fn list_gap_blocks(&self, most: usize) -> Blocks {
        let distance = (self.cumulative - self.base) as u16;
        let listed = &self.ranges[..most.min(self.ranges.len())];
        collect(listed.iter().map(|&range| shifted(range, distance)))
    }

    /// Takes over the runs that the cumulative TSN has reached or passed.
    fn absorb(&mut self) {
        let mut passed = 0;
        for range in &self.ranges {
            if self.base + u64::from(range.start) > self.cumulative + 1 {
                break;
            }
            self.cumulative = self.cumulative.max(self.base + u64::from(range.end));
            passed += 1;
        }
        if passed > 0 {
            self.ranges.drain(..passed);
        }
    }

    /// The TSNs received again since the last SACK, at most `most` of them.
    #[inline(always)]
    pub(super) fn take_duplicates(&mut self, most: usize) -> Box<[u32]> {
        if self.duplicates.is_empty() { Box::default() } else { self.list_duplicates(most) }
    }

    #[cold]
    fn list_duplicates(&mut self, most: usize) -> Box<[u32]> {
        let mut duplicates = std::mem::take(&mut self.duplicates);
        duplicates.truncate(most);
        duplicates.into()
    }

    fn duplicate(&mut self, tsn: u64) {
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BASE: u64 = (1 << 32) + 99;

    #[test]
    fn what_a_forward_tsn_overtook_is_known_once() {
        let mut received = ReceivedTsns::new(100);
        assert!(received.insert(BASE + 2));
        assert!(received.advance_to(BASE + 4));
        for (tsn, overtaken) in [(1, true), (1, false), (2, false), (3, true), (4, true), (5, false)] {
            assert_eq!(received.was_overtaken(BASE + tsn), overtaken, "{tsn}");
        }
    }

    #[test]
    fn a_forward_tsn_far_ahead_costs_what_is_remembered() {
        // As far as a TSN before it can have arrived, and farther.
        let farthest = BASE + u64::from(u16::MAX);
        for (end, arrived) in [(farthest + 3, Some(farthest)), (BASE + (1 << 31), None)] {
            let mut received = ReceivedTsns::new(100);
            assert!(arrived.is_none_or(|tsn| received.insert(tsn)));
            assert!(received.advance_to(end - 1));
            assert!(
                received.overtaken.len() <= MAX_OVERTAKEN
                    && received.overtaken.capacity() <= 2 * MAX_OVERTAKEN
            );
            let is_third = arrived.is_none();
            for (back, overtaken) in [(1, true), (2, true), (3, is_third), (1_024, true), (1_025, false)] {
                assert_eq!(received.was_overtaken(end - back), overtaken, "{back}");
            }
        }
    }

    fn blocks(received: &ReceivedTsns) -> Vec<(u16, u16)> {
        received.gap_blocks(usize::MAX).iter().map(|block| (block.start, block.end)).collect()
    }

    #[test]
    fn gaps_open_merge_and_close() {
        let mut received = ReceivedTsns::new(100);
        for tsn in [1, 3, 4, 6, 5, 9] {
            assert!(received.insert(BASE + tsn));
        }
        assert_eq!(received.cumulative, BASE + 1);
        assert_eq!(blocks(&received), [(2, 5), (8, 8)]);
        assert!(received.insert(BASE + 2));
        assert_eq!(received.cumulative, BASE + 6);
        assert!(!received.insert(BASE + 9) && !received.insert(BASE + 4));
        assert_eq!(received.duplicates.as_slice(), [108, 103]);
        assert!(received.advance_to(BASE + 8));
        assert_eq!(received.cumulative, BASE + 9, "runs that touch are absorbed");
        assert!(!received.has_gaps());
    }

    proptest::proptest! {
        #[test]
        fn as_a_set_would(tsns in proptest::collection::vec(1_u64..60, 0..80)) {
            let mut received = ReceivedTsns::new(100);
            let mut model = BTreeSet::new();
            for tsn in tsns {
                proptest::prop_assert_eq!(received.insert(BASE + tsn), model.insert(tsn));
                let cumulative = (1..=80).find(|next| !model.contains(next)).unwrap_or(1) - 1;
                proptest::prop_assert_eq!(received.cumulative, BASE + cumulative);
                let listed: Vec<u64> = blocks(&received)
                    .iter()
                    .flat_map(|&(start, end)| u64::from(start)..=u64::from(end))
                    .map(|offset| offset + cumulative)
                    .collect();
                let expected: Vec<u64> = model.range(cumulative + 1..).copied().collect();
                proptest::prop_assert_eq!(listed, expected);
            }
        }
    }
}
