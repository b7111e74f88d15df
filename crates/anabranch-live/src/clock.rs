//! The time of endpoints: the time since the start of the program, by a clock that is never set.
#![expect(clippy::disallowed_types, reason = "this is where the wall clock comes in")]

use std::time::Instant;

use anabranch_transport::time::Time;

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock whose time is zero now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX - 1))
    }
}
