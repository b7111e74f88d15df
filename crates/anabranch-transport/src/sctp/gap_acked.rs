//! What the Gap Ack Blocks of a SACK cover (RFC 9260 section 3.3.4), and what that changes.
//!
//! With load sharing there are many blocks, and few of them change from one SACK to the next. So they stay as
//! they travel, and those that are the same in both are passed over several at a time.

use smallvec::{Array, SmallVec};

use crate::wire::sctp::chunk::GapBlock;

/// Blocks in order, with a gap between each two.
pub(super) type Blocks = SmallVec<[GapBlock; 4]>;

/// What blocks cover.
#[derive(Debug, Default)]
pub(super) struct GapAcked {
    /// The TSN from which the blocks count.
    cumulative_tsn: u32,
    blocks: Blocks,
    /// The blocks of the SACK that was compared last, those that make sense.
    compared: Blocks,
    /// The absolute, inclusive runs of TSNs that they cover and that were not covered.
    pub(super) added: Vec<(u32, u32)>,
    /// Those that were covered and no longer are.
    pub(super) removed: Vec<(u32, u32)>,
}

impl GapAcked {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The runs of TSNs that are covered.
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        let at = |offset: u16| self.cumulative_tsn.wrapping_add(u32::from(offset));
        self.blocks.iter().map(move |block| (at(block.start), at(block.end)))
    }

    /// Compares what is known with the blocks of a SACK, which shows what is added and what is removed.
    /// Blocks that make no sense are left out: they must lie after the cumulative TSN and before the TSN that
    /// is sent next.
    ///
    /// With `may_be_old` the SACK may be an old one, which covers nothing new and lacks something that is
    /// known. Then false is returned, and nothing is shown.
    pub(super) fn compare(
        &mut self,
        cumulative_tsn: u32,
        blocks: &[GapBlock],
        next_tsn: u32,
        may_be_old: bool,
    ) -> bool {
        self.count_from(cumulative_tsn);
        let same = count_same(blocks, &self.blocks);
        if may_be_old && is_less(&blocks[same..], &self.blocks[same..]) {
            return false;
        }
        let last = next_tsn.wrapping_sub(cumulative_tsn).saturating_sub(1).min(u16::MAX.into()) as u16;
        self.compared.clear();
        self.compared.extend_from_slice(blocks);
        if self.find_changes(same, last).is_none() {
            self.compared = sensible(blocks, last);
            let found = self.find_changes(0, last);
            debug_assert!(found.is_some(), "{:?}", self.compared);
        }
        true
    }

    /// Takes over what the SACK says that was compared last.
    pub(super) fn adopt(&mut self) {
        std::mem::swap(&mut self.blocks, &mut self.compared);
    }

    /// Lets the blocks count from a later TSN, and forgets what it has passed.
    fn count_from(&mut self, cumulative_tsn: u32) {
        let distance = cumulative_tsn.wrapping_sub(self.cumulative_tsn);
        self.cumulative_tsn = cumulative_tsn;
        if distance == 0 || self.blocks.is_empty() {
            return;
        }
        let Ok(distance) = u16::try_from(distance) else {
            self.blocks.clear();
            return;
        };
        let passed = self.blocks.iter().take_while(|block| block.end <= distance).count();
        self.blocks.drain(..passed);
        if let Some(first) = self.blocks.first_mut() {
            first.start = first.start.max(distance + 1);
        }
        shift(&mut self.blocks, distance);
    }

    /// Finds how the blocks that are compared differ from those that are known, of which the first `same` are
    /// the same, or returns [`None`] if some of
    /// them make no sense or are not as [`Blocks`] are. No offset may be larger than `last`.
    fn find_changes(&mut self, same: usize, last: u16) -> Option<()> {
        let Self { cumulative_tsn, blocks: known, compared: blocks, added, removed } = self;
        let run = |start: u16, end: u16| {
            (cumulative_tsn.wrapping_add(start.into()), cumulative_tsn.wrapping_add(end.into()))
        };
        added.clear();
        removed.clear();
        let (mut index, mut place) = (same, same);
        // Everything before these offsets has been compared.
        let (mut from, mut known_from) = (0, 0);
        while let Some(&new) = blocks.get(index) {
            let makes_sense = new.start > 0 && new.start <= new.end && new.end <= last;
            if !makes_sense || (index > 0 && blocks[index - 1].end >= new.start - 1) {
                return None;
            }
            let new = GapBlock { start: new.start.max(from), end: new.end };
            let Some(&old) = known.get(place) else {
                added.push(run(new.start, new.end));
                index += 1;
                continue;
            };
            let old = GapBlock { start: old.start.max(known_from), end: old.end };
            if new == old {
                let same = 1 + count_same(&blocks[index + 1..], &known[place + 1..]);
                (index, place) = (index + same, place + same);
            } else if new.end < old.start {
                added.push(run(new.start, new.end));
                index += 1;
            } else if old.end < new.start {
                removed.push(run(old.start, old.end));
                place += 1;
            } else {
                if new.start < old.start {
                    added.push(run(new.start, old.start - 1));
                } else if old.start < new.start {
                    removed.push(run(old.start, new.start - 1));
                }
                if new.end <= old.end {
                    index += 1;
                    known_from = new.end.saturating_add(1);
                }
                if old.end <= new.end {
                    place += 1;
                    from = old.end.saturating_add(1);
                }
            }
        }
        removed.extend(
            known[place.min(known.len())..].iter().map(|old| run(old.start.max(known_from), old.end)),
        );
        Some(())
    }
}

/// Lets blocks count from a TSN that is this much later.
pub(super) fn shift(blocks: &mut [GapBlock], distance: u16) {
    for block in blocks {
        *block = shifted(*block, distance);
    }
}

/// The same block, counted from a TSN that is this much later.
pub(super) const fn shifted(block: GapBlock, distance: u16) -> GapBlock {
    GapBlock { start: block.start.wrapping_sub(distance), end: block.end.wrapping_sub(distance) }
}

/// Collects items, of which there may be many.
pub(super) fn collect<A: Array>(items: impl ExactSizeIterator<Item = A::Item>) -> SmallVec<A> {
    // A vector takes in several at once, a `SmallVec` one after the other.
    if items.len() <= A::size() { items.collect() } else { items.collect::<Vec<_>>().into() }
}

/// Whether blocks cover less than those that are known, and nothing else.
fn is_less(blocks: &[GapBlock], known: &[GapBlock]) -> bool {
    let mut rest = known.iter();
    let mut old = rest.next();
    let (mut covered_to, mut are_isolated) = (0, true);
    for new in blocks {
        while old.is_some_and(|old| old.end < new.start) {
            old = rest.next();
        }
        if !old.is_some_and(|old| old.start <= new.start && new.start <= new.end && new.end <= old.end) {
            return false;
        }
        are_isolated &= covered_to < new.start - 1;
        covered_to = new.end;
    }
    let count = |blocks: &[GapBlock]| -> u32 {
        blocks.iter().map(|block| u32::from(block.end - block.start) + 1).sum()
    };
    // Those that are known are isolated, as all should be.
    blocks != known && (are_isolated || count(blocks) < count(known))
}

/// The blocks of a SACK that make sense, in order; those without a gap between them as one.
#[cold]
fn sensible(blocks: &[GapBlock], last: u16) -> Blocks {
    let makes_sense = |block: &GapBlock| block.start > 0 && block.start <= block.end && block.end <= last;
    let mut sorted: Vec<GapBlock> = blocks.iter().copied().filter(makes_sense).collect();
    sorted.sort_by_key(|block| block.start);
    let mut sensible = Blocks::new();
    for block in sorted {
        match sensible.last_mut() {
            Some(before) if block.start - 1 <= before.end => before.end = before.end.max(block.end),
            _ => sensible.push(block),
        }
    }
    sensible
}

/// How many blocks are the same at the beginning of both.
fn count_same(one: &[GapBlock], other: &[GapBlock]) -> usize {
    // In groups, without branches, so that the compiler takes several at once.
    const GROUP: usize = 8;
    let difference = |(a, b): (&GapBlock, &GapBlock)| (a.start ^ b.start) | (a.end ^ b.end);
    let are_same = |group: &[GapBlock; GROUP], others: &[GapBlock; GROUP]| {
        group.iter().zip(others).map(difference).fold(0, |all, one| all | one) == 0
    };
    let groups = one.as_chunks().0.iter().zip(other.as_chunks().0);
    let same = GROUP * groups.take_while(|(group, others)| are_same(group, others)).count();
    same + one[same..].iter().zip(&other[same..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn blocks(runs: &[(u16, u16)]) -> Blocks {
        runs.iter().map(|&(start, end)| GapBlock { start, end }).collect()
    }

    fn known(cumulative_tsn: u32, runs: &[(u16, u16)]) -> GapAcked {
        GapAcked { cumulative_tsn, blocks: blocks(runs), ..GapAcked::default() }
    }

    /// What is added and removed, as offsets from 0.
    fn change(from: &[(u16, u16)], to: &[(u16, u16)]) -> [Vec<(u32, u32)>; 2] {
        let mut known = known(0, from);
        assert!(known.compare(0, &blocks(to), 1_000, false));
        let is_old = known.added.is_empty() && !known.removed.is_empty();
        let changes = [known.added.clone(), known.removed.clone()];
        assert_eq!(known.compare(0, &blocks(to), 1_000, true), !is_old);
        changes
    }

    #[test]
    fn what_differs_between_two_lists() {
        let (one, other) = ([(1, 2), (4, 6), (9, 9), (12, 20)], [(1, 2), (4, 5), (7, 9), (12, 20)]);
        assert_eq!(change(&other, &one), [vec![(6, 6)], vec![(7, 8)]]);
        assert_eq!(change(&one, &other), [vec![(7, 8)], vec![(6, 6)]]);
        assert_eq!(change(&one[..3], &one), [vec![(12, 20)], vec![]]);
        assert_eq!(change(&one, &one), [vec![], vec![]]);
        assert_eq!(
            change(&[(4, 5), (7, 7), (9, 12)], &[(6, 9)]),
            [vec![(6, 6), (8, 8)], vec![(4, 5), (10, 12)]]
        );
        assert_eq!(change(&[], &[(3, 6)]), [vec![(3, 6)], vec![]]);
        let many: Vec<(u16, u16)> = (0..40).map(|run| (10 * run + 1, 10 * run + 6)).collect();
        for place in 0..many.len() {
            let [mut fewer, mut longer] = [many.clone(), many.clone()];
            let (start, end) = fewer.remove(place);
            longer[place].1 += 2;
            let [run, more] =
                [(start, end), (end + 1, end + 2)].map(|(start, end)| (u32::from(start), u32::from(end)));
            assert_eq!(change(&fewer, &many), [vec![run], vec![]]);
            assert_eq!(change(&many, &fewer), [vec![], vec![run]]);
            assert_eq!(change(&many, &longer), [vec![more], vec![]]);
        }
    }

    #[test]
    fn senseless_blocks_are_ignored() {
        let (mut known, listed) = (known(10, &[]), blocks(&[(0, 1), (3, 2), (2, 3), (5, 90)]));
        known.compare(10, &listed, 20, false);
        assert_eq!(known.added, [(12, 13)]);
        known.adopt();
        assert_eq!(known.runs().collect::<Vec<_>>(), [(12, 13)]);
    }

    #[test]
    fn blocks_in_any_order() {
        assert_eq!(change(&[], &[(4, 6), (1, 2)]), [vec![(1, 2), (4, 6)], vec![]]);
        assert_eq!(change(&[], &[(4, 6), (2, 5), (3, 3)]), [vec![(2, 6)], vec![]]);
        assert_eq!(change(&[(2, 6)], &[(2, 3), (4, 6)]), [vec![], vec![]], "without a gap");
        assert_eq!(change(&[(2, 6), (8, 8)], &[(2, 3), (4, 6)]), [vec![], vec![(8, 8)]]);
    }

    #[test]
    fn what_the_cumulative_tsn_has_passed_is_forgotten() {
        let mut known = known(u32::MAX - 3, &[(2, 2), (5, 8), (11, 12)]);
        known.compare(1, &blocks(&[(1, 3), (6, 6)]), 100, false);
        assert_eq!((&known.added[..], &known.removed[..]), (&[][..], &[(8, 8)][..]));
        known.adopt();
        known.compare(70_000, &blocks(&[(2, 2)]), 70_100, false);
        assert_eq!((&known.added[..], &known.removed[..]), (&[(70_002, 70_002)][..], &[][..]));
    }

    proptest::proptest! {
        #[test]
        fn as_sets_would(
            [first, second] in proptest::array::uniform2(proptest::collection::vec((0_u16..120, 0_u16..120), 0..60)),
            advance in 0_u32..80,
        ) {
            let tsns = |cumulative: u32, listed: &[(u16, u16)]| -> BTreeSet<u32> {
                let sensible = listed.iter().filter(|(start, end)| *start > 0 && u32::from(*end) + cumulative < 110);
                sensible.flat_map(|&(start, end)| u32::from(start)..=u32::from(end)).map(|at| cumulative + at).collect()
            };
            let all = |runs: &[(u32, u32)]| -> Vec<u32> {
                runs.iter().flat_map(|&(start, end)| start..=end).collect()
            };
            let mut known = known(0, &[]);
            known.compare(0, &blocks(&first), 110, false);
            let before = tsns(0, &first);
            proptest::prop_assert_eq!(all(&known.added), before.iter().copied().collect::<Vec<_>>());
            known.adopt();
            let before = before.into_iter().filter(|&tsn| tsn > advance).collect();
            let after = tsns(advance, &second);
            let isolated = sensible(&blocks(&second), 109 - advance as u16);
            let is_old = !known.compare(advance, &isolated, 110, true);
            known.compare(advance, &blocks(&second), 110, false);
            let [added, removed] = [after.difference(&before), before.difference(&after)]
                .map(|tsns| tsns.copied().collect::<Vec<_>>());
            proptest::prop_assert_eq!(is_old, added.is_empty() && !removed.is_empty());
            proptest::prop_assert_eq!(all(&known.added), added);
            proptest::prop_assert_eq!(all(&known.removed), removed);
            known.adopt();
            proptest::prop_assert_eq!(all(&known.runs().collect::<Vec<_>>()), after.into_iter().collect::<Vec<_>>());
        }
    }
}
