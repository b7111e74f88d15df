//! The time of an emulation: what has passed since its start, by a clock that nobody sets.
#![expect(clippy::disallowed_types, reason = "this is where the wall clock comes in")]

use std::time::{Duration, Instant, SystemTime};

use anabranch_transport::time::Time;

/// A clock that starts at its making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The time of day at its start, since 1970.
    day: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), day }
    }

    /// What has passed since its start.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1))
    }

    /// The time of day then, since 1970.
    pub(crate) fn time_of_day(&self, at: Time) -> Duration {
        self.day + Duration::from_nanos(at.as_nanos())
    }
}
