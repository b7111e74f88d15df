//! Paths with room in proportion to the rates at which their congestion controls have them send, in bytes:
//! `weighted` with weights that follow the rates.
//!
//! A control that does not pace has its window sent in each round trip. A path that has not been measured yet
//! counts as the fastest one, so that it will be.

use super::weighted::Turns;
use super::{Decision, PathView, Pending, Scheduler, candidates};

/// The scheduler.
#[derive(Clone, Debug, Default)]
pub struct Proportional {
    turns: Turns,
}

/// The rate of a path in bytes per second, at most 2^40 so that sums of products have room; [`None`] before
/// the first round trip.
fn rate(path: &PathView) -> Option<i64> {
    let rate = path.pace.map(u128::from).or_else(|| {
        let srtt = u128::from(path.srtt?.as_nanos().max(1));
        Some(u128::from(path.cwnd) * 1_000_000_000 / srtt)
    })?;
    Some(rate.clamp(1, 1 << 40) as i64)
}

impl Scheduler for Proportional {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        let fastest = candidates(paths).filter_map(rate).max().unwrap_or(1);
        self.turns.next(data, paths, |path| rate(path).unwrap_or(fastest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::views;
    use super::*;
    use crate::time::Time;

    fn shares(scheduler: &mut Proportional, paths: &[PathView], turns: usize) -> [usize; 2] {
        let mut shares = [0; 2];
        for _ in 0..turns {
            match scheduler.schedule(&Pending::new(Time::ZERO, 1_000, 9_000, 9_000), paths) {
                Decision::Send(path) => shares[path.index()] += 1,
                other => panic!("{other:?}"),
            }
        }
        shares
    }

    #[test]
    fn shares_follow_the_rates() {
        let mut scheduler = Proportional::default();
        let mut paths = views(&[30, 20]);
        (paths[0].pace, paths[1].pace) = (Some(300_000), Some(100_000));
        assert_eq!(shares(&mut scheduler, &paths, 400), [300, 100]);
        paths[0].pace = Some(50_000);
        assert_eq!(shares(&mut scheduler, &paths, 300), [100, 200]);
        paths[1].has_room = false;
        assert_eq!(shares(&mut scheduler, &paths, 10), [10, 0]);
    }

    #[test]
    fn a_window_is_sent_in_each_round_trip_and_the_unknown_counts_as_the_fastest() {
        let mut scheduler = Proportional::default();
        let mut paths = views(&[20, 10]);
        (paths[0].cwnd, paths[1].cwnd) = (10_000, 10_000);
        assert_eq!(shares(&mut scheduler, &paths, 300), [100, 200]);
        paths[0].srtt = None;
        assert_eq!(shares(&mut Proportional::default(), &paths, 300), [150, 150]);
    }
}
