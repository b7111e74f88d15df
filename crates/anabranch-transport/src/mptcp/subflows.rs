//! The subflows of a connection, by path, and what follows from the state of each: how the scheduler sees it,
//! and when its timers expire. Whoever takes hold of a subflow may change it; only of those that somebody
//! took hold of is anything computed anew, so that a packet costs the same however many subflows there are.

use std::ops::{Deref, Index, IndexMut};

use super::subflow::Subflow;
use crate::flow::{PathId, PathSet};
use crate::path::scheduler::PathView;
use crate::time::Time;

/// The subflows.
#[derive(Debug, Default)]
pub(super) struct Subflows {
    list: Vec<Subflow>,
    /// Those that may have output, other timers, or look different to the scheduler.
    with_output: PathSet,
    with_timers: PathSet,
    with_views: PathSet,
    views: Vec<PathView>,
    /// When the first timer of each expires.
    wakes: Vec<Time>,
    /// The first of those.
    next_wake: Time,
}

impl Subflows {
    pub(super) fn new(list: impl Iterator<Item = Subflow>) -> Self {
        let mut subflows = Self { next_wake: Time::NEVER, ..Self::default() };
        list.for_each(|subflow| subflows.push(subflow));
        subflows
    }

    pub(super) fn push(&mut self, subflow: Subflow) {
        let path = self.list.len();
        self.list.push(subflow);
        self.views.push(PathView::new(PathId(path as u8)));
        self.wakes.push(Time::NEVER);
        self.note(path);
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Subflow> {
        (0..self.list.len()).for_each(|path| self.note(path));
        self.list.iter_mut()
    }

    /// Takes hold of a subflow for something that is no matter to the scheduler.
    #[inline]
    pub(super) fn unseen(&mut self, path: usize) -> &mut Subflow {
        self.with_output.insert(PathId(path as u8));
        self.with_timers.insert(PathId(path as u8));
        &mut self.list[path]
    }

    /// Notes that the subflow of this path may have changed.
    #[inline]
    fn note(&mut self, path: usize) {
        self.unseen(path);
        self.with_views.insert(PathId(path as u8));
    }

    /// The first subflow with output to be taken.
    #[inline]
    pub(super) fn first_dirty(&mut self) -> Option<usize> {
        while let Some(path) = self.with_output.first() {
            if self.list[path.index()].is_dirty {
                return Some(path.index());
            }
            self.with_output.remove(path);
        }
        None
    }

    /// When the first timer of a subflow expires.
    #[inline]
    pub(super) fn next_timeout(&mut self) -> Time {
        let mut is_first_later = false;
        while let Some(path) = self.with_timers.pop() {
            let wake = self.list[path.index()].next_timeout();
            let before = std::mem::replace(&mut self.wakes[path.index()], wake);
            if wake <= self.next_wake {
                self.next_wake = wake;
            } else {
                is_first_later |= before == self.next_wake;
            }
        }
        if is_first_later {
            self.next_wake = self.wakes.iter().copied().min().unwrap_or(Time::NEVER);
        }
        self.next_wake
    }

    /// Whether a timer of this subflow has expired.
    #[inline]
    pub(super) fn is_due(&self, now: Time, path: usize) -> bool {
        if self.with_timers.contains(PathId(path as u8)) {
            return self.list[path].next_timeout() <= now;
        }
        self.wakes[path] <= now
    }

    /// Brings what the scheduler sees up to date: `most` is what may be appended now. The subflows in
    /// `without` have no room.
    pub(super) fn look(&mut self, now: Time, without: &[u8]) -> &[PathView] {
        let mut again = PathSet::default();
        while let Some(path) = self.with_views.pop() {
            let subflow = &mut self.list[path.index()];
            let is_usable = subflow.is_usable();
            let may_carry = is_usable && !without.contains(&path.0);
            let most = if may_carry { subflow.room(now) } else { 0 };
            if may_carry && most == 0 {
                self.with_output.insert(path);
                if subflow.tcp.is_held_back(now) {
                    // It has room later, without anybody taking hold of it.
                    again.insert(path);
                }
            }
            self.views[path.index()] = PathView {
                is_usable,
                is_backup: subflow.sends_as_backup(),
                has_room: most > 0,
                most,
                srtt: subflow.tcp.srtt(),
                rttvar: subflow.tcp.rttvar(),
                cwnd: subflow.tcp.window_bytes(),
                ssthresh: subflow.tcp.ssthresh_bytes(),
                outstanding: subflow.tcp.outstanding_bytes(),
                queued: subflow.tcp.queued(),
                pace: subflow.tcp.pace_of_control(),
                in_recovery: subflow.tcp.is_recovering(),
                has_timed_out: subflow.tcp.has_timed_out(),
                ..PathView::new(path)
            };
        }
        for path in without.iter().copied().map(PathId) {
            let view = &mut self.views[path.index()];
            (view.has_room, view.most) = (false, 0);
            again.insert(path);
        }
        self.with_views = again;
        &self.views
    }

    /// What [`Self::look`] has returned last.
    pub(super) fn views(&self) -> &[PathView] {
        &self.views
    }
}

#[cfg(test)]
impl Subflows {
    /// Checks that what is known of subflows that nobody took hold of is what a new look shows.
    pub(super) fn check(&self) {
        for (path, subflow) in self.list.iter().enumerate() {
            let (id, view) = (PathId(path as u8), &self.views[path]);
            assert!(!subflow.is_dirty || self.with_output.contains(id), "subflow {path}");
            if !self.with_timers.contains(id) {
                assert_eq!(self.wakes[path], subflow.next_timeout());
                assert!(self.next_wake <= self.wakes[path]);
            }
            if !self.with_views.contains(id) {
                let tcp = &subflow.tcp;
                assert_eq!(
                    (view.is_usable, view.is_backup),
                    (subflow.is_usable(), subflow.sends_as_backup())
                );
                assert_eq!((view.srtt, view.rttvar), (tcp.srtt(), tcp.rttvar()));
                assert_eq!((view.cwnd, view.ssthresh), (tcp.window_bytes(), tcp.ssthresh_bytes()));
                assert_eq!(view.outstanding, tcp.outstanding_bytes());
                assert_eq!((view.queued, view.pace), (tcp.queued(), tcp.pace_of_control()));
                assert_eq!(view.in_recovery, tcp.is_recovering());
                assert_eq!(view.has_timed_out, tcp.has_timed_out());
            }
        }
    }
}

impl Deref for Subflows {
    type Target = [Subflow];

    fn deref(&self) -> &[Subflow] {
        &self.list
    }
}

impl Index<usize> for Subflows {
    type Output = Subflow;

    #[inline]
    fn index(&self, path: usize) -> &Subflow {
        &self.list[path]
    }
}

impl IndexMut<usize> for Subflows {
    #[inline]
    fn index_mut(&mut self, path: usize) -> &mut Subflow {
        self.note(path);
        &mut self.list[path]
    }
}

impl<'a> IntoIterator for &'a Subflows {
    type Item = &'a Subflow;
    type IntoIter = std::slice::Iter<'a, Subflow>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a mut Subflows {
    type Item = &'a mut Subflow;
    type IntoIter = std::slice::IterMut<'a, Subflow>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
