//! The path with the smallest smoothed round-trip time of those with room, as the default scheduler of the
//! first Linux implementation of Multipath TCP (C. Raiciu et al., "How hard can it be?", NSDI 2012; the
//! kernel's `mptcp_sched.c`). A path that has not been measured yet comes first, so that it will be.

use super::{Decision, PathView, Pending, Scheduler, candidates, fastest};

/// The scheduler.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn schedule(&mut self, _data: &Pending, paths: &[PathView]) -> Decision {
        fastest(candidates(paths)).map_or(Decision::Wait, |path| Decision::Send(path.path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;
    use crate::flow::PathId;

    #[test]
    fn the_smallest_round_trip_time_with_room_wins() {
        let mut paths = views(&[30, 20, 20]);
        assert_eq!(next(&mut MinRtt, &paths), Decision::Send(PathId(1)));
        paths[1].has_room = false;
        paths[2].has_room = false;
        assert_eq!(next(&mut MinRtt, &paths), Decision::Send(PathId(0)));
        paths[0].srtt = None;
        assert_eq!(next(&mut MinRtt, &views(&[30, 0])), Decision::Send(PathId(1)), "not measured yet");
    }
}
