//! The first path in the flow's order that has room: another one carries what the paths before it have no
//! window for. This is the priority-based steering mode of 3GPP (TS 23.501 section 5.32.8), and what noq does
//! with QUIC's paths.

use super::{Decision, PathView, Pending, Scheduler, candidates};

/// The scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Priority;

impl Scheduler for Priority {
    fn schedule(&mut self, _data: &Pending, paths: &[PathView]) -> Decision {
        let first = candidates(paths).min_by_key(|path| path.path);
        first.map_or(Decision::Wait, |path| Decision::Send(path.path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;
    use crate::flow::PathId;

    #[test]
    fn another_path_carries_what_the_first_has_no_window_for() {
        let mut paths = views(&[30, 10, 20]);
        assert_eq!(next(&mut Priority, &paths), Decision::Send(PathId(0)));
        paths[0].has_room = false;
        assert_eq!(next(&mut Priority, &paths), Decision::Send(PathId(1)));
        paths[1].is_usable = false;
        assert_eq!(next(&mut Priority, &paths), Decision::Send(PathId(2)));
        paths[0].has_room = true;
        assert_eq!(next(&mut Priority, &paths), Decision::Send(PathId(0)));
    }
}
