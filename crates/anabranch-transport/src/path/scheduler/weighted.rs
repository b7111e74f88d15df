//! Paths with room in proportion to weights, in bytes: smooth weighted round robin as in the nginx web server
//! (`ngx_http_upstream_round_robin.c`), with bytes sent in place of requests. With every decision each path
//! with room earns its weight, and the one that has earned the most pays for all of them.
//!
//! A path without room earns nothing, so that the proportion holds while all have room, and otherwise no
//! room stays unused.

use super::{Decision, PathView, Pending, Scheduler, candidates};

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Weighted {
    weights: Vec<u16>,
    turns: Turns,
}

impl Weighted {
    pub(super) fn new(weights: &[u16]) -> Self {
        Self { weights: weights.to_vec(), turns: Turns::default() }
    }
}

impl Scheduler for Weighted {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        let weights = &self.weights;
        let weight = |path: &PathView| weights.get(path.path.index()).map_or(1, |&weight| i64::from(weight));
        self.turns.next(data, paths, weight)
    }
}

/// Turns in proportion to weights.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// What each path has earned, in bytes times weight; the sum of all is zero.
    earned: Vec<i64>,
}

impl Turns {
    /// Whose turn it is with these weights, each at least 1.
    pub(super) fn next(
        &mut self,
        data: &Pending,
        paths: &[PathView],
        weight: impl Fn(&PathView) -> i64,
    ) -> Decision {
        let most = paths.iter().map(|path| path.path.index() + 1).max().unwrap_or(0);
        if self.earned.len() < most {
            self.earned.resize(most, 0);
        }
        // The first of those that would have earned the most.
        let most_earned = |path: &&PathView| {
            let earned = self.earned[path.path.index()] + weight(path) * i64::from(data.bytes);
            (-earned, path.path)
        };
        let Some(chosen) = candidates(paths).min_by_key(most_earned) else { return Decision::Wait };
        // If its segments are shorter, less is sent than was asked for.
        let bytes = i64::from(data.bytes.min(chosen.most));
        let mut total = 0;
        for path in candidates(paths) {
            let weight = weight(path);
            self.earned[path.path.index()] += weight * bytes;
            total += weight;
        }
        self.earned[chosen.path.index()] -= total * bytes;
        Decision::Send(chosen.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::views;
    use super::*;
    use crate::flow::PathId;
    use crate::time::Time;

    fn take_turns(scheduler: &mut Weighted, paths: &[PathView], sizes: &[u32]) -> Vec<u8> {
        let one =
            |&bytes: &u32| match scheduler.schedule(&Pending::new(Time::ZERO, bytes, 9_000, 9_000), paths) {
                Decision::Send(path) => path.0,
                other => panic!("{other:?}"),
            };
        sizes.iter().map(one).collect()
    }

    #[test]
    fn turns_are_in_proportion_and_spread_out() {
        // nginx's own example: weights 5, 1 and 1 give a a b a c a a.
        let mut scheduler = Weighted::new(&[5]);
        let paths = views(&[30, 20, 10]);
        assert_eq!(take_turns(&mut scheduler, &paths, &[1_000; 7]), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn the_proportion_is_of_bytes() {
        let mut scheduler = Weighted::new(&[3, 1]);
        let paths = views(&[30, 20]);
        let sizes: Vec<u32> = (0..4_000_u32).map(|turn| 100 + 1_400 * (turn % 2)).collect();
        let turns = take_turns(&mut scheduler, &paths, &sizes);
        let bytes = |of: u8| -> u32 {
            turns.iter().zip(&sizes).filter(|&(&path, _)| path == of).map(|(_, size)| size).sum()
        };
        let ratio = f64::from(bytes(0)) / f64::from(bytes(1));
        assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
    }

    /// Paths with MTUs of 1500 and 1280 B: a path pays for what is sent.
    #[test]
    fn paths_with_shorter_segments_have_their_share_of_bytes() {
        for (weights, share) in [([1, 1], 1.0), ([3, 1], 3.0), ([1, 2], 0.5)] {
            let mut scheduler = Weighted::new(&weights);
            let mut paths = views(&[30, 20]);
            (paths[0].most, paths[1].most) = (1_424, 1_204);
            let turns = take_turns(&mut scheduler, &paths, &[1_424; 2_000]);
            let bytes = |of: u8| -> u32 {
                turns.iter().filter(|&&path| path == of).map(|&path| paths[usize::from(path)].most).sum()
            };
            let ratio = f64::from(bytes(0)) / f64::from(bytes(1));
            assert!((ratio / share - 1.0).abs() < 0.01, "{weights:?}: {ratio}");
        }
    }

    #[test]
    fn room_is_used_whatever_the_weights_and_nothing_is_made_up_for() {
        let mut scheduler = Weighted::new(&[3, 1]);
        let mut paths = views(&[30, 20]);
        paths[0].has_room = false;
        assert_eq!(take_turns(&mut scheduler, &paths, &[1_000; 5]), [1; 5]);
        paths[0].has_room = true;
        assert_eq!(take_turns(&mut scheduler, &paths, &[1_000; 4]), [0, 0, 1, 0]);
        paths[0].has_room = false;
        paths[1].has_room = false;
        let data = Pending::new(Time::ZERO, 1_000, 9_000, 9_000);
        assert_eq!(scheduler.schedule(&data, &paths), Decision::Wait);
        assert_eq!(PathId(0), paths[0].path);
    }
}
