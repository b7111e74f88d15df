//! Equal packets at equal distances, throughout (CBR) or in on periods of random length.
//!
//! The n-th on period and the off period after it are drawn from the generator (key, n). The first packet
//! of an on period comes at its start; an on period shorter than a packet's distance has just that one,
//! as in ns-2.

use anabranch_transport::rng::{BlockRng, Draw};
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};

/// A source of equal packets at equal distances.
#[derive(Clone, Debug)]
pub(crate) struct OnOff {
    key: u64,
    periods: Periods,
    /// Bits per packet times 10^9 and bits per second: their quotient is the distance in nanoseconds.
    packet_units: u64,
    rate: u64,
    stop: u64,
    /// Number of the period that is next.
    next_period: u64,
    /// Start of the current on period; before the first on period, the time when that starts.
    on_start: u64,
    on_end: u64,
    off_end: u64,
    /// Packets sent in the current on period.
    sent: u64,
    /// The next arrival in nanoseconds; `u64::MAX` if there is none.
    next: u64,
}

#[derive(Clone, Debug)]
enum Periods {
    /// A single on period without end.
    Always,
    /// Mean lengths in nanoseconds.
    Exponential { on: f64, off: f64 },
    /// Shortest lengths in nanoseconds.
    Pareto { on: f64, off: f64, shape: f64 },
}

impl OnOff {
    pub(crate) fn cbr(key: u64, packet: Bytes, rate: Rate, start: Duration, stop: u64) -> Self {
        let distance = packet.0 * 8 * 1_000_000_000 / rate.bits_per_sec();
        let phase = BlockRng::new(key, 0).below(distance);
        let start = start.as_nanos() + phase;
        Self::new(key, packet, rate, start, stop, Periods::Always)
    }

    pub(crate) fn exponential(
        key: u64,
        packet: Bytes,
        rate: Rate,
        start: Duration,
        stop: u64,
        [on, off]: [Duration; 2],
    ) -> Self {
        let periods = Periods::Exponential { on: on.as_nanos() as f64, off: off.as_nanos() as f64 };
        Self::new(key, packet, rate, start.as_nanos(), stop, periods)
    }

    pub(crate) fn pareto(
        key: u64,
        packet: Bytes,
        rate: Rate,
        start: Duration,
        stop: u64,
        [on, off]: [Duration; 2],
        shape: f64,
    ) -> Self {
        // The mean of a Pareto distribution is its smallest value times shape / (shape - 1).
        let smallest = |mean: Duration| mean.as_nanos() as f64 * (shape - 1.0) / shape;
        let periods = Periods::Pareto { on: smallest(on), off: smallest(off), shape };
        Self::new(key, packet, rate, start.as_nanos(), stop, periods)
    }

    fn new(key: u64, packet: Bytes, rate: Rate, start: u64, stop: u64, periods: Periods) -> Self {
        let mut source = Self {
            key,
            periods,
            packet_units: packet.0 * 8 * 1_000_000_000,
            rate: rate.bits_per_sec(),
            stop,
            next_period: 0,
            on_start: 0,
            on_end: 0,
            off_end: start,
            sent: 0,
            next: 0,
        };
        source.begin_period();
        source
    }

    fn begin_period(&mut self) {
        self.on_start = self.off_end;
        let mut rng = BlockRng::new(self.key, self.next_period);
        self.next_period += 1;
        let (on, off) = match self.periods {
            Periods::Always => (u64::MAX, 0),
            Periods::Exponential { on, off } => {
                ((on * rng.exponential()) as u64, (off * rng.exponential()) as u64)
            }
            Periods::Pareto { on, off, shape } => {
                let mut length =
                    |smallest: f64| (smallest * libm::pow(rng.uniform_positive(), -1.0 / shape)) as u64;
                (length(on), length(off))
            }
        };
        // At least one nanosecond, so that time advances.
        self.on_end = self.on_start.saturating_add(on.max(1));
        self.off_end = self.on_end.saturating_add(off);
        self.sent = 0;
        self.next = self.on_start;
    }

    /// The next arrival in nanoseconds; `u64::MAX` if there is none.
    pub(crate) fn peek(&self) -> u64 {
        if self.next < self.stop { self.next } else { u64::MAX }
    }

    /// Takes the next arrival.
    pub(crate) fn pop(&mut self) {
        self.sent += 1;
        // Counted from the start of the period, so that fractions of a nanosecond do not get lost.
        let offset = u128::from(self.sent) * u128::from(self.packet_units) / u128::from(self.rate);
        self.next = self.on_start.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX));
        if self.next >= self.on_end {
            self.begin_period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_millis(100);

    fn take(mut source: OnOff, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while source.peek() <= until {
            times.push(source.peek());
            source.pop();
        }
        times
    }

    #[test]
    fn cbr_keeps_its_distance_to_the_fraction_of_a_nanosecond() {
        let rate = Rate::from_bits_per_sec(3_000_000);
        let times = take(OnOff::cbr(1, Bytes(500), rate, START, 2_000_000_000), u64::MAX - 1);
        assert!(times[0] >= START.as_nanos() && times[0] < START.as_nanos() + 1_333_334);
        assert_eq!(times[3] - times[0], 4_000_000);
        assert!(*times.last().unwrap() < 2_000_000_000);
    }

    #[test]
    fn the_mean_load_is_the_share_of_on_time() {
        let rate = Rate::from_bits_per_sec(400_000);
        let until = 5_000_000_000_000;
        let periods = [Duration::from_millis(200), Duration::from_millis(600)];
        // 100 packets/s for a quarter of the time; a distance that has begun counts as a packet, which is
        // half a packet more.
        let expected = 5000.0 * (100.0 * 0.25 + 0.5 / 0.8);
        let count =
            take(OnOff::exponential(3, Bytes(500), rate, START, u64::MAX, periods), until).len() as f64;
        assert!((count / expected - 1.0).abs() < 0.05, "{count} {expected}");
        let count =
            take(OnOff::pareto(3, Bytes(500), rate, START, u64::MAX, periods, 2.5), until).len() as f64;
        assert!((count / expected - 1.0).abs() < 0.05, "{count} {expected}");
    }
}
