//! A set of numbers as runs: packets that have arrived, bytes of a stream that have arrived, been
//! acknowledged or been lost.

use std::collections::VecDeque;

/// Runs of numbers, each with the first number and the one behind its last, in order and never adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(VecDeque<(u64, u64)>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.front().copied()
    }

    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.0.back().copied()
    }

    /// The runs, the smallest numbers first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// The first number from `from` on that is in no run.
    pub(super) fn first_missing(&self, from: u64) -> u64 {
        let mut missing = from;
        for (start, end) in self.iter() {
            if missing < start {
                break;
            }
            missing = missing.max(end);
        }
        missing
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        match self.0.back() {
            // As nearly always.
            Some(last) if number >= last.0 => return number < last.1,
            Some(_) => {}
            None => return false,
        }
        let after = self.0.partition_point(|run| run.0 <= number);
        after > 0 && self.0[after - 1].1 > number
    }

    /// Adds the numbers from `start` up to `end`, which is not among them. Returns how many are new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        match self.0.back_mut() {
            None => {
                self.0.push_back((start, end));
                return end - start;
            }
            Some(last) if start == last.1 => {
                last.1 = end;
                return end - start;
            }
            Some(last) if start > last.1 => {
                self.0.push_back((start, end));
                return end - start;
            }
            Some(_) => {}
        }
        // Those from `low` on up to `high` overlap with it or touch it.
        let low = self.0.partition_point(|run| run.1 < start);
        let high = self.0.partition_point(|run| run.0 <= end);
        if low == high {
            self.0.insert(low, (start, end));
            return end - start;
        }
        let known: u64 =
            self.0.range(low..high).map(|run| run.1.min(end).saturating_sub(run.0.max(start))).sum();
        let whole = (self.0[low].0.min(start), self.0[high - 1].1.max(end));
        self.0[low] = whole;
        self.0.drain(low + 1..high);
        end - start - known
    }

    /// Takes the numbers from `start` up to `end` out.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if self.0.len() == 1 && start <= self.0[0].0 && end < self.0[0].1 {
            // The beginning of the only run.
            self.0[0].0 = self.0[0].0.max(end);
            return;
        }
        let low = self.0.partition_point(|run| run.1 <= start);
        let high = self.0.partition_point(|run| run.0 < end);
        if low >= high {
            return;
        }
        let (left, right) = ((self.0[low].0, start), (end, self.0[high - 1].1));
        let kept = [left, right].into_iter().filter(|run| run.0 < run.1);
        let tail: Vec<_> = self.0.drain(high..).collect();
        self.0.truncate(low);
        self.0.extend(kept);
        self.0.extend(tail);
    }

    /// Takes out the first run.
    pub(super) fn pop_first(&mut self) -> Option<(u64, u64)> {
        self.0.pop_front()
    }

    /// Fills the gap between the first two runs if there are more than `most`.
    pub(super) fn forget_gaps(&mut self, most: usize) {
        while self.0.len() > most.max(1) {
            let Some(first) = self.0.pop_front() else { return };
            if let Some(second) = self.0.front_mut() {
                second.0 = first.0;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The runs say what a set of single numbers says.
        #[test]
        fn runs_are_a_set(steps in proptest::collection::vec((any::<bool>(), 0..60_u64, 0..12_u64), 0..60)) {
            let (mut runs, mut numbers) = (Ranges::default(), BTreeSet::new());
            for (adds, start, length) in steps {
                let end = start + length;
                if adds {
                    let new = (start..end).filter(|number| numbers.insert(*number)).count() as u64;
                    prop_assert_eq!(runs.insert(start, end), new);
                } else {
                    runs.remove(start, end);
                    numbers.retain(|number| !(start..end).contains(number));
                }
                let listed: Vec<u64> = runs.iter().flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(&listed, &numbers.iter().copied().collect::<Vec<_>>());
                prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|(left, right)| left.1 < right.0));
                prop_assert!((0..80).all(|number| runs.contains(number) == numbers.contains(&number)));
            }
        }
    }

    #[test]
    fn the_oldest_gaps_are_forgotten() {
        let mut runs = Ranges::default();
        for start in [0, 10, 20, 30] {
            runs.insert(start, start + 1);
        }
        runs.forget_gaps(2);
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 21), (30, 31)]);
    }
}
