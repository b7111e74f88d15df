//! A pace in bursts: as many datagrams leave together as a bucket holds, which fills at the pace. It is for
//! ends whose timers are too coarse for a wait before each datagram, as those of sockets are.

use crate::time::{Duration, Time};

/// How many datagrams leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    /// The bucket holds what the pace lets leave in this time, ...
    pub(super) of: Duration,
    /// ... but at least so many datagrams and at most so many.
    pub(super) least: u32,
    pub(super) most: u32,
    /// Who waits does so until the bucket is full, or only for the next datagram, but so long at least.
    pub(super) least_wait: Option<Duration>,
}

/// A bucket of bytes that may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) burst: Burst,
    /// What it held then.
    held: u64,
    at: Time,
}

impl Bucket {
    /// A full one.
    pub(super) const fn new(burst: Burst) -> Self {
        Self { burst, held: u64::MAX, at: Time::ZERO }
    }

    /// What it can hold, and what it holds now, at a pace in bytes per second.
    fn level(&self, now: Time, pace: u64, datagram: u32) -> (u64, u64) {
        let Burst { of, least, most, .. } = self.burst;
        let [least, most] = [least, most].map(|count| u64::from(count) * u64::from(datagram));
        let capacity = bytes_in(of, pace).clamp(least, most);
        let came = bytes_in(now.saturating_since(self.at), pace);
        (capacity, self.held.saturating_add(came).min(capacity))
    }

    /// Until when the next datagram has to wait; [`None`] if it may leave.
    pub(super) fn held_until(&self, now: Time, pace: u64, datagram: u32) -> Option<Time> {
        let (capacity, held) = self.level(now, pace, datagram);
        if held >= u64::from(datagram) {
            return None;
        }
        Some(match self.burst.least_wait {
            None => now + time_of(capacity - held, pace),
            Some(least) => now + time_of(u64::from(datagram) - held, pace).max(least),
        })
    }

    /// A datagram leaves.
    pub(super) fn on_sent(&mut self, now: Time, size: u32, pace: u64, datagram: u32) {
        let (_, held) = self.level(now, pace, datagram);
        (self.held, self.at) = (held.saturating_sub(size.into()), now);
    }
}

/// How many bytes leave in a time.
fn bytes_in(time: Duration, pace: u64) -> u64 {
    u64::try_from(u128::from(time.as_nanos()) * u128::from(pace) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// How long bytes take, rounded up.
fn time_of(bytes: u64, pace: u64) -> Duration {
    let nanoseconds = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(pace.max(1)));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUINN: Burst = Burst { of: Duration::from_millis(2), least: 10, most: 256, least_wait: None };
    const DATAGRAM: u32 = 1_000;

    /// How many datagrams leave together at this time.
    fn leave(bucket: &mut Bucket, now: Time, pace: u64) -> u32 {
        let mut count = 0;
        while bucket.held_until(now, pace, DATAGRAM).is_none() {
            bucket.on_sent(now, DATAGRAM, pace, DATAGRAM);
            count += 1;
        }
        count
    }

    #[test]
    fn what_leaves_together_is_what_the_pace_lets_leave_in_a_time() {
        for (pace, expected) in [(100_000, 10), (5_000_000, 10), (50_000_000, 100), (1_000_000_000, 256)] {
            let mut bucket = Bucket::new(QUINN);
            let now = Time::from_secs(1);
            assert_eq!(leave(&mut bucket, now, pace), expected, "{pace} B/s");
            // It is full again after as long as that takes at the pace.
            let full = bucket.held_until(now, pace, DATAGRAM).expect("it is empty");
            assert_eq!((full - now).as_nanos(), u64::from(expected * DATAGRAM) * 1_000_000_000 / pace);
            assert_eq!(leave(&mut bucket, full, pace), expected);
        }
    }

    #[test]
    fn what_has_come_meanwhile_leaves_when_something_else_asks() {
        let (mut bucket, now, pace) = (Bucket::new(QUINN), Time::from_secs(1), 1_000_000);
        assert_eq!(leave(&mut bucket, now, pace), 10);
        assert_eq!(leave(&mut bucket, now + Duration::from_millis(3), pace), 3);
    }

    #[test]
    fn a_wait_for_one_datagram_has_a_least_length() {
        let burst = Burst { least_wait: Some(Duration::from_millis(1)), ..QUINN };
        for (pace, expected) in [(100_000, 10_000), (10_000_000, 1_000)] {
            let (mut bucket, now) = (Bucket::new(burst), Time::from_secs(1));
            leave(&mut bucket, now, pace);
            let wait = bucket.held_until(now, pace, DATAGRAM).expect("it is empty") - now;
            assert_eq!(wait, Duration::from_micros(expected), "{pace} B/s");
        }
    }

    /// Bytes are as many as the pace says, however often the bucket is asked.
    #[test]
    fn over_a_long_time_the_pace_holds() {
        let (mut bucket, pace) = (Bucket::new(QUINN), 1_234_567);
        let mut now = Time::from_secs(1);
        let mut bytes = 0;
        for step in 0..100_000_u64 {
            bytes += leave(&mut bucket, now, pace) * DATAGRAM;
            now += Duration::from_micros(1 + step % 97);
        }
        let seconds = (now - Time::from_secs(1)).as_secs_f64();
        let expected = seconds * pace as f64 + f64::from(10 * DATAGRAM);
        assert!((f64::from(bytes) / expected - 1.0).abs() < 2e-3, "{bytes} {expected}");
    }
}
