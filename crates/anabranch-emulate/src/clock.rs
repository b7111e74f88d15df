//! The time of an emulation: the time since its start, by a clock that is never set.
#![expect(clippy::disallowed_types, reason = "this is where the wall clock comes in")]

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use anabranch_transport::time::{Duration as Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// By how much a sleep is cut short, since a kernel ends it somewhat late.
const SPIN: Span = Span::from_micros(60);

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The time of day at its start, as the time since 1970.
    day: Duration,
    spin: Span,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // In virtual time, sleeps end at the nanosecond, and time passes only when the clock is read.
        let spin = if is_virtual() { Span::ZERO } else { SPIN };
        Self { start: Instant::now(), day, spin }
    }

    /// How long before something is due the loop polls the clock instead of sleeping.
    pub(crate) fn spin(&self) -> Span {
        self.spin
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1))
    }

    /// The time of day at `at`, as the time since 1970.
    pub(crate) fn time_of_day(&self, at: Time) -> Duration {
        self.day + Duration::from_nanos(at.as_nanos())
    }
}

/// How long the calling thread has run since it was started.
pub(crate) fn run_time() -> Span {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(1_000_000_000 * tv_sec as u64 + tv_nsec as u64)
}

/// Whether the kernel that runs is a user-mode Linux in virtual time.
pub(crate) fn is_virtual() -> bool {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|word| word.starts_with("time-travel"))
}
