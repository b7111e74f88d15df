//! What acknowledgements report for the first time: selective ones say when what lies above a gap arrived,
//! which the cumulative number says only once the gap is filled.

use std::collections::BTreeMap;

use crate::sender::Run;

/// Numbers above the cumulative one that have arrived, as runs that neither overlap nor touch.
#[derive(Debug, Default)]
struct Above(BTreeMap<i64, i64>);

impl Above {
    /// Adds a run; gives how many of its numbers are new.
    fn add(&mut self, run: &Run) -> i64 {
        if run.is_empty() {
            return 0;
        }
        let (mut start, mut end, mut known) = (run.start, run.end, 0);
        while let Some((&first, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            self.0.remove(&first);
            known += (last.min(run.end) - first.max(run.start)).max(0);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
        run.end - run.start - known
    }

    /// Takes away what lies below a number; gives how many numbers that were.
    fn take(&mut self, until: i64) -> i64 {
        let mut taken = 0;
        while let Some((&first, &last)) = self.0.first_key_value()
            && first < until
        {
            self.0.remove(&first);
            taken += last.min(until) - first;
            if last > until {
                self.0.insert(until, last);
            }
        }
        taken
    }
}

/// How many numbers each acknowledgement says to have arrived that none before it did; of the first one,
/// none.
///
/// # Parameters
/// `acknowledgements` have the next number that is expected, and what has arrived above it. `known` has
/// arrived before the first one.
pub fn newly_acknowledged(acknowledgements: &[(i64, Vec<Run>)], known: &[Run]) -> Vec<i64> {
    let mut above = Above::default();
    for run in known {
        above.add(run);
    }
    let mut cumulative = acknowledgements.first().map_or(0, |first| first.0);
    let mut news = Vec::with_capacity(acknowledgements.len());
    for (number, selective) in acknowledgements {
        let mut new = 0;
        if *number > cumulative {
            new += number - cumulative - above.take(*number);
            cumulative = *number;
        }
        for run in selective {
            new += above.add(&(run.start.max(cumulative)..run.end));
        }
        above.take(cumulative);
        news.push(new);
    }
    if let Some(first) = news.first_mut() {
        *first = 0;
    }
    news
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn runs(all: &[(i64, i64)]) -> Vec<Run> {
        all.iter().map(|(start, octets)| *start..start + octets).collect()
    }

    #[test]
    fn a_hole_that_is_filled_reports_what_is_new() {
        let said = [(10, 0), (10, 10), (10, 20), (40, 0), (60, 0), (50, 0)];
        let acknowledgements = said.map(|(number, above)| (number, runs(&[(20, above)])));
        assert_eq!(newly_acknowledged(&acknowledgements, &[]), [0, 10, 10, 10, 20, 0]);
        // What was there before is not new, nor is what comes twice.
        let acknowledgements = [(0, Vec::new()), (9, runs(&[(3, 2)]))];
        assert_eq!(newly_acknowledged(&acknowledgements, &runs(&[(2, 5), (6, 2)])), [0, 3]);
    }

    proptest! {
        /// Beside a set of all numbers.
        #[test]
        fn new_are_those_that_no_set_has(
            said in proptest::collection::vec((0_i64..40, proptest::collection::vec((0_i64..50, 0_i64..9), 0..4)), 1..40),
            known in proptest::collection::vec((0_i64..50, 0_i64..9), 0..4),
        ) {
            let acknowledgements: Vec<_> = said.iter().map(|(number, blocks)| (*number, runs(blocks))).collect();
            let mut seen: BTreeSet<i64> = runs(&known).into_iter().flatten().chain(-1..acknowledgements[0].0).collect();
            let mut cumulative = acknowledgements[0].0;
            let mut expected = Vec::new();
            for (number, blocks) in &acknowledgements {
                cumulative = cumulative.max(*number);
                let before = seen.len();
                seen.extend(-1..cumulative);
                seen.extend(blocks.iter().cloned().flatten());
                expected.push((seen.len() - before) as i64);
            }
            expected[0] = 0;
            prop_assert_eq!(newly_acknowledged(&acknowledgements, &runs(&known)), expected);
        }
    }
}
