//! Uses the paths with room in turn.

use super::{Decision, PathView, Pending, Scheduler, candidates};
use crate::flow::PathId;

/// The scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn schedule(&mut self, _data: &Pending, paths: &[PathView]) -> Decision {
        let is_later = |path: &PathView| self.last.is_none_or(|last| path.path > last);
        let next = candidates(paths).min_by_key(|path| (!is_later(path), path.path));
        next.map_or(Decision::Wait, |path| {
            self.last = Some(path.path);
            Decision::Send(path.path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;

    #[test]
    fn paths_take_turns() {
        let mut paths = views(&[30, 20, 10]);
        let mut scheduler = RoundRobin::default();
        let mut turn = |paths: &[PathView]| next(&mut scheduler, paths);
        for path in [0, 1, 2, 0] {
            assert_eq!(turn(&paths), Decision::Send(PathId(path)));
        }
        paths[1].has_room = false;
        assert_eq!(turn(&paths), Decision::Send(PathId(2)));
        paths[1].has_room = true;
        for path in [0, 1] {
            assert_eq!(turn(&paths), Decision::Send(PathId(path)));
        }
    }
}
