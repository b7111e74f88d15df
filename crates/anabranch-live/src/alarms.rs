//! The times at which the connections of a host want to be woken.

use std::collections::BTreeSet;

use anabranch_transport::time::Time;

/// The times at which connections want to be woken, at most one for each.
#[derive(Debug)]
pub(crate) struct Alarms<Id>(BTreeSet<(Time, Id)>);

impl<Id: Copy + Ord> Default for Alarms<Id> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<Id: Copy + Ord> Alarms<Id> {
    /// The earliest of these times; [`Time::NEVER`] if there is none.
    pub(crate) fn next(&self) -> Time {
        self.0.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// A connection whose time has come.
    pub(crate) fn due(&self, now: Time) -> Option<Id> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// Changes the time at which a connection wants to be woken from `before` to `at`, which may be
    /// [never](Time::NEVER).
    pub(crate) fn set(&mut self, id: Id, before: Time, at: Time) {
        if at == before {
            return;
        }
        self.0.remove(&(before, id));
        if !at.is_never() {
            self.0.insert((at, id));
        }
    }
}
