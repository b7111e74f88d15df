//! The first usable path in the flow's order, and the others only when it fails; paths marked as backups come
//! last (RFC 8684 section 3.3.8). While the first usable path has no room, data waits for it.

use super::{Decision, PathView, Pending, Scheduler, eligible};

/// The scheduler.
#[derive(Clone, Copy, Debug)]
pub struct BackupOnly;

impl Scheduler for BackupOnly {
    fn schedule(&mut self, _data: &Pending, paths: &[PathView]) -> Decision {
        match eligible(paths).min_by_key(|path| path.path) {
            Some(first) if first.has_room => Decision::Send(first.path),
            _ => Decision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;
    use crate::flow::PathId;

    #[test]
    fn the_first_path_carries_everything_until_it_fails() {
        let mut paths = views(&[30, 10, 20]);
        assert_eq!(next(&mut BackupOnly, &paths), Decision::Send(PathId(0)));
        paths[0].has_room = false;
        assert_eq!(next(&mut BackupOnly, &paths), Decision::Wait, "the others do not help out");
        paths[0].is_usable = false;
        assert_eq!(next(&mut BackupOnly, &paths), Decision::Send(PathId(1)));
        paths[1].is_backup = true;
        assert_eq!(next(&mut BackupOnly, &paths), Decision::Send(PathId(2)));
    }
}
