//! Sends the same data on every path with room: the first copy to arrive counts. The path with the smallest
//! smoothed round-trip time is responsible for it.

use super::{Decision, PathView, Pending, Scheduler, candidates};

/// The scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn schedule(&mut self, _data: &Pending, paths: &[PathView]) -> Decision {
        let mut chosen: Vec<_> = candidates(paths).collect();
        if chosen.is_empty() {
            return Decision::Wait;
        }
        chosen.sort_by_key(|path| (path.srtt, path.path));
        Decision::Duplicate(chosen.into_iter().map(|path| path.path).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;
    use crate::flow::PathId;
    use smallvec::smallvec;

    #[test]
    fn every_path_with_room_gets_a_copy_the_fastest_first() {
        let mut paths = views(&[30, 20, 40]);
        let all = Decision::Duplicate(smallvec![PathId(1), PathId(0), PathId(2)]);
        assert_eq!(next(&mut Redundant, &paths), all);
        paths[1].has_room = false;
        let rest = Decision::Duplicate(smallvec![PathId(0), PathId(2)]);
        assert_eq!(next(&mut Redundant, &paths), rest);
    }
}
