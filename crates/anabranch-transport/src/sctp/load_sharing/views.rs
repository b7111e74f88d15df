//! The paths as the scheduler sees them. What is known of a path is computed anew only where something has
//! changed, so that a SACK costs no more with many paths than with those that it concerns.

use crate::flow::{PathId, PathSet};
use crate::path::scheduler::PathView;

/// How many bytes a path may have outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// The congestion window.
    pub(super) cwnd: u32,
    /// The congestion window, limited by Max.Burst.
    pub(super) window: u32,
}

/// What is known of the paths, and of which of them it is out of date.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// The paths as the scheduler sees them.
    paths: Vec<PathView>,
    /// The paths on which data was sent, acknowledged or measured since their view was computed.
    stale: PathSet,
    rooms: Vec<Room>,
    /// The same for their rooms.
    stale_rooms: PathSet,
    /// The paths whose congestion windows have room.
    roomy: PathSet,
    /// The paths whose control may have changed since a policy that measures last took them.
    changed_controls: PathSet,
    /// Whether a path has a control that is no member of the group, so that nobody tells of its changes.
    has_foreign_control: bool,
}

impl Views {
    /// Adds a path after the last one.
    pub(super) fn add_path(&mut self, id: PathId) {
        self.paths.push(PathView { has_room: false, ..PathView::new(id) });
        self.rooms.push(Room::default());
    }

    /// Records that a path has got a control of its own.
    pub(super) const fn record_foreign_control(&mut self) {
        self.has_foreign_control = true;
    }

    /// Records the paths on which something has changed.
    pub(super) fn record(&mut self, mut changed: PathSet) {
        if self.has_foreign_control {
            (0..self.paths.len()).for_each(|index| changed.insert(PathId(index as u8)));
        }
        self.stale.insert_all(changed);
        self.stale_rooms.insert_all(changed);
        self.changed_controls.insert_all(changed);
    }

    /// The paths whose control may have changed since this was last asked.
    pub(super) fn take_changed_controls(&mut self) -> PathSet {
        std::mem::take(&mut self.changed_controls)
    }

    /// A path whose view is to be computed anew; it counts as done.
    pub(super) fn pop_stale(&mut self) -> Option<PathId> {
        self.stale.pop()
    }

    /// A path whose room is to be computed anew; it counts as done.
    pub(super) fn pop_stale_room(&mut self) -> Option<PathId> {
        self.stale_rooms.pop()
    }

    pub(super) fn set_room(&mut self, path: PathId, room: Room, in_use: u32) {
        self.rooms[path.index()] = room;
        if in_use < room.cwnd {
            self.roomy.insert(path);
        } else {
            self.roomy.remove(path);
        }
    }

    pub(super) fn room(&self, path: PathId) -> Room {
        self.rooms[path.index()]
    }

    /// The paths whose congestion windows have room.
    pub(super) const fn roomy(&self) -> PathSet {
        self.roomy
    }

    pub(super) fn as_slice(&self) -> &[PathView] {
        &self.paths
    }

    /// The views, and the rooms beside them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut PathView, Room)> {
        self.paths.iter_mut().zip(self.rooms.iter().copied())
    }

    pub(super) fn view_mut(&mut self, path: PathId) -> &mut PathView {
        &mut self.paths[path.index()]
    }
}

#[cfg(test)]
impl Views {
    /// Whether the view of this path is out of date, and whether its room is.
    pub(super) fn is_stale(&self, path: PathId) -> [bool; 2] {
        [self.stale.contains(path), self.stale_rooms.contains(path)]
    }
}
