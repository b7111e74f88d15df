//! When a timer fires: exactly, or as the timer wheel of Linux lets it.

use crate::time::{Duration, Time};

/// The time a timer fires that is started at `now` for `length`.
///
/// With a granularity, time comes in ticks, and the wheel's levels round up to 8, 64, 512, 4096 ticks
/// as the length grows (Linux kernel/time/timer.c: 64 buckets a level, 8 times coarser each).
pub(super) fn deadline(now: Time, length: Duration, granularity: Duration) -> Time {
    if granularity == Duration::ZERO {
        return now + length;
    }
    let tick = granularity.as_nanos();
    let ticks = length.as_nanos().div_ceil(tick);
    let mut level = 0;
    // The start of level n + 1 is 63 x 8^n ticks away.
    while level < 8 && ticks >= 63 << (3 * level) {
        level += 1;
    }
    let expires = (now.as_nanos() / tick).saturating_add(ticks);
    let shift = 3 * level;
    Time::from_nanos((((expires >> shift) + 1) << shift).saturating_mul(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(now_ms: u64, length_ms: u64) -> u64 {
        let at =
            deadline(Time::from_millis(now_ms), Duration::from_millis(length_ms), Duration::from_millis(1));
        at.as_nanos() / 1_000_000
    }

    #[test]
    fn exact_without_granularity() {
        let at = deadline(Time::from_nanos(3), Duration::from_nanos(4), Duration::ZERO);
        assert_eq!(at, Time::from_nanos(7));
    }

    #[test]
    fn coarser_the_longer() {
        assert_eq!(fires(10, 20), 31, "one tick late at most");
        assert_eq!(fires(10, 100), 112, "a multiple of 8");
        assert_eq!(fires(0, 1_000), 1_024, "a multiple of 64");
        assert_eq!(fires(0, 10_000), 10_240, "a multiple of 512");
        assert_eq!(fires(0, 32_000), 32_256);
    }
}
