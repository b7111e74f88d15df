//! The clock of an end: when its timers expire, and how it measures round-trip times.

use crate::rng::{Draw as _, Streams};
use crate::time::{Duration, Time};

/// A clock for timers: exact, or in ticks with the timer wheel of Linux.
///
/// On the wheel an expiry is rounded up to 8, 64, 512, 4096 ticks as the timer's length grows (Linux
/// `calc_wheel_index`: 64 buckets a level, 8 times coarser each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Length of a tick; zero if the clock is exact.
    pub granularity: Duration,
    /// How long the clock had been running when the simulation began: the ticks of two hosts, and the
    /// rounding of their timers, are not aligned.
    pub uptime: Duration,
}

/// When a timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// The tick that was asked for (Linux: `expires` of `struct timer_list`); nanoseconds if the clock is
    /// exact.
    pub(crate) tick: u64,
    /// The time at which the wheel gets there.
    pub(crate) at: Time,
}

/// [`Clock::uptime`] is below this many ticks: a turn of the coarsest level that timers of an hour use.
const UPTIME_TICKS: u64 = 1 << 18;

impl Clock {
    /// A clock that starts with the simulation.
    pub const fn new(granularity: Duration) -> Self {
        Self { granularity, uptime: Duration::ZERO }
    }

    /// The clock of the end `name`, which was started at a time that the stream `<name>/clock` draws.
    pub(crate) fn started(self, streams: Streams, name: &str) -> Self {
        if self.granularity == Duration::ZERO {
            return self;
        }
        let most = Duration::from_nanos(self.granularity.as_nanos().saturating_mul(UPTIME_TICKS));
        let uptime = streams.stream(&format!("{name}/clock")).duration_between(Duration::ZERO, most);
        Self { uptime, ..self }
    }

    /// The time at which a timer expires that is started at `now` for `length`.
    #[expect(clippy::inline_always, reason = "it is asked for every packet")]
    #[inline(always)]
    pub(crate) fn deadline(self, now: Time, length: Duration) -> Time {
        self.schedule(now, length).at
    }

    /// [`Self::deadline`], with the tick that is asked for.
    #[expect(clippy::inline_always, reason = "it is asked for every packet")]
    #[inline(always)]
    pub(crate) fn schedule(self, now: Time, length: Duration) -> Deadline {
        if self.granularity == Duration::ZERO {
            let at = now + length;
            return Deadline { tick: at.as_nanos(), at };
        }
        let tick = self.granularity.as_nanos();
        let ticks = length.as_nanos().div_ceil(tick);
        let expires = self.tick_at(now).saturating_add(ticks);
        let shift = 3 * level_of(ticks);
        let fires = (((expires >> shift) + 1) << shift).saturating_mul(tick);
        Deadline { tick: expires, at: Time::from_nanos(fires - self.uptime.as_nanos()) }
    }

    /// Time from `now` to this tick; zero if that has passed.
    pub(crate) const fn time_to(self, tick: u64, now: Time) -> Duration {
        let left = tick.saturating_sub(self.tick_at(now));
        match self.granularity.as_nanos() {
            0 => Duration::from_nanos(left),
            length => Duration::from_nanos(left.saturating_mul(length)),
        }
    }

    /// Of two timers that expire in the same tick, whether the one that was started later, for `later`, is
    /// served before the one for `earlier`: the wheel serves coarse levels before fine ones, and of a level
    /// the youngest timer first (`expire_timers`, `enqueue_timer`). An exact clock serves the older one
    /// first.
    #[cold]
    pub(crate) fn serves_younger_first(self, earlier: Duration, later: Duration) -> bool {
        let level = |length: Duration| level_of(length.as_nanos().div_ceil(self.granularity.as_nanos()));
        self.granularity != Duration::ZERO && level(later) >= level(earlier)
    }

    /// Ticks from `start` to `end`.
    pub(crate) const fn ticks_between(self, start: Time, end: Time) -> u64 {
        self.tick_at(end) - self.tick_at(start)
    }

    const fn tick_at(self, now: Time) -> u64 {
        self.ticks(Duration::from_nanos(now.as_nanos() + self.uptime.as_nanos()))
    }

    /// Whole ticks of a length of time; nanoseconds if the clock is exact.
    pub(crate) const fn ticks(self, length: Duration) -> u64 {
        match self.granularity.as_nanos() {
            0 => length.as_nanos(),
            tick => length.as_nanos() / tick,
        }
    }
}

/// The level of the wheel for a timer of so many ticks. The start of level n + 1 is 63 x 8^n ticks away.
#[expect(clippy::inline_always, reason = "it is asked for every packet")]
#[inline(always)]
const fn level_of(ticks: u64) -> u32 {
    let mut level = 0;
    while level < 8 && ticks >= 63 << (3 * level) {
        level += 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn fires(clock: Clock, now_ms: u64, length_ms: u64) -> u64 {
        let at = clock.deadline(Time::from_millis(now_ms), Duration::from_millis(length_ms));
        at.as_nanos() / 1_000_000
    }

    #[test]
    fn exact_without_granularity() {
        let clock = Clock::new(Duration::ZERO);
        let deadline = clock.schedule(Time::from_nanos(3), Duration::from_nanos(4));
        assert_eq!(deadline.at, Time::from_nanos(7));
        assert_eq!(clock.time_to(deadline.tick, Time::from_nanos(5)), Duration::from_nanos(2));
    }

    #[test]
    fn coarser_the_longer() {
        let clock = Clock::new(MILLISECOND);
        assert_eq!(fires(clock, 10, 20), 31, "one tick late at most");
        assert_eq!(fires(clock, 10, 100), 112, "a multiple of 8");
        assert_eq!(fires(clock, 0, 1_000), 1_024, "a multiple of 64");
        assert_eq!(fires(clock, 0, 10_000), 10_240, "a multiple of 512");
        assert_eq!(fires(clock, 0, 32_000), 32_256);
    }

    #[test]
    fn the_youngest_of_the_coarsest_level_is_served_first() {
        let clock = Clock::new(MILLISECOND);
        let younger_first = |earlier: u64, later: u64| {
            clock.serves_younger_first(Duration::from_millis(earlier), Duration::from_millis(later))
        };
        assert!(younger_first(2_000, 1_400), "both are rounded to 64 ms");
        assert!(!younger_first(2_000, 503), "one is rounded to 8 ms");
        assert!(!younger_first(4_032, 2_000), "one is rounded to 512 ms");
        let exact = Clock::new(Duration::ZERO);
        assert!(!exact.serves_younger_first(MILLISECOND, MILLISECOND));
    }

    #[test]
    fn the_time_that_is_left_ends_at_the_tick_that_was_asked_for() {
        let clock = Clock { uptime: Duration::from_nanos(500_000), ..Clock::new(MILLISECOND) };
        let asked = clock.schedule(Time::from_millis(10), Duration::from_micros(100_300));
        assert_eq!(asked.at, Time::from_nanos(111_500_000), "tick 112 begins there");
        assert_eq!(clock.time_to(asked.tick, Time::from_millis(10)), Duration::from_millis(101));
        assert_eq!(clock.time_to(asked.tick, Time::from_nanos(11_500_000)), Duration::from_millis(99));
        assert_eq!(clock.time_to(asked.tick, Time::from_millis(111)), Duration::ZERO, "late, not negative");
    }

    #[test]
    fn an_older_clock_rounds_elsewhere() {
        let clock = Clock { uptime: Duration::from_millis(5), ..Clock::new(MILLISECOND) };
        assert_eq!(fires(clock, 10, 20), 31);
        assert_eq!(fires(clock, 10, 100), 115, "a multiple of 8 less 5");
        let half = Clock { uptime: Duration::from_nanos(500_000), ..Clock::new(MILLISECOND) };
        let (start, end) = (Time::from_nanos(400_000), Time::from_nanos(600_000));
        assert_eq!(half.ticks_between(start, end), 1);
    }
}
