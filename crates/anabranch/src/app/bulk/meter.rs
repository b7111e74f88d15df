//! The measurements of one direction of a bulk transfer, at its receiving end.

use anabranch_transport::report::Report;
use anabranch_transport::time::{Duration, Time};

use super::{COV, GOODPUT_KBIT_PER_S, INTERVALS, RECEIVED_BYTES, STALLED_S};

/// An interval of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When the interval began.
    pub start: Time,
    /// When the interval ended; the last one ends with the transfer.
    pub end: Time,
    /// Bytes that arrived in the interval.
    pub bytes: u64,
}

/// Counts bytes as they arrive.
#[derive(Debug)]
pub(super) struct Meter {
    interval: Duration,
    /// When the transfer began.
    opened: Time,
    /// When it was over.
    ended: Option<Time>,
    pub(super) received: u64,
    last_arrival: Time,
    longest_gap: Duration,
    /// Number and bytes of each past interval in which something arrived.
    intervals: Vec<(u64, u64)>,
    /// The number of intervals that are over.
    over: u64,
    /// Sum of the squares of these bytes.
    squares: f64,
    /// Bytes of the interval that is going on, and when it ends.
    current: u64,
    current_end: Time,
}

impl Meter {
    pub(super) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            opened: Time::NEVER,
            ended: None,
            received: 0,
            last_arrival: Time::NEVER,
            longest_gap: Duration::ZERO,
            intervals: Vec::new(),
            over: 0,
            squares: 0.0,
            current: 0,
            current_end: Time::NEVER,
        }
    }

    /// Notes that the transfer begins.
    pub(super) fn open(&mut self, now: Time) {
        self.opened = now;
        self.last_arrival = now;
        self.current_end = now + self.interval;
    }

    /// Counts bytes that have arrived.
    #[inline]
    pub(super) fn on_bytes(&mut self, now: Time, bytes: u32) {
        if now >= self.current_end {
            if self.current > 0 {
                self.intervals.push((self.over, self.current));
                self.squares += self.current as f64 * self.current as f64;
                self.current = 0;
            }
            let passed = self.passed(now);
            self.over += passed;
            self.current_end += self.interval * passed;
        }
        self.longest_gap = self.longest_gap.max(now.saturating_since(self.last_arrival));
        self.last_arrival = now;
        self.received += u64::from(bytes);
        self.current += u64::from(bytes);
    }

    /// Notes that the transfer is over, with its last byte or with its connection.
    pub(super) fn end(&mut self, at: Time) {
        self.ended.get_or_insert(at);
    }

    pub(super) const fn is_open(&self) -> bool {
        !self.opened.is_never()
    }

    pub(super) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// When the last byte of a complete transfer arrived.
    pub(super) const fn last_arrival(&self) -> Time {
        self.last_arrival
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(self.intervals.as_slice())
    }

    fn end_by(&self, now: Time) -> Time {
        self.ended.map_or(now, |ended| ended.min(now))
    }

    /// How many intervals, from the present one on, are over at the end.
    fn passed(&self, end: Time) -> u64 {
        if end < self.current_end {
            return 0;
        }
        end.saturating_since(self.current_end).as_nanos() / self.interval.as_nanos() + 1
    }

    /// Every interval up to now.
    pub(super) fn intervals(&self, now: Time) -> Vec<Interval> {
        let end = self.end_by(now);
        if self.opened.is_never() || end <= self.opened {
            return Vec::new();
        }
        let mut arrived = self.intervals.iter().copied().chain([(self.over, self.current)]).peekable();
        let mut start = self.opened;
        (0..=self.over + self.passed(end))
            .map_while(|number| {
                let bytes = arrived.next_if(|&(at, _)| at == number).map_or(0, |(_, bytes)| bytes);
                let interval = Interval { start, end: (start + self.interval).min(end), bytes };
                start += self.interval;
                (interval.start < end || bytes > 0).then_some(interval)
            })
            .collect()
    }

    pub(super) fn report(&self, now: Time, report: &mut Report<'_>) {
        let end = self.end_by(now);
        // Kilobits per second are bits per microsecond.
        let elapsed = end.saturating_since(self.opened);
        report.count(RECEIVED_BYTES, self.received);
        report.mean(GOODPUT_KBIT_PER_S, self.received as f64 * 8e6, elapsed.as_nanos());
        let passed = self.passed(end);
        let count = self.over + passed;
        let mut sum = (self.received - self.current) as f64;
        let mut squares = self.squares;
        if passed > 0 {
            sum += self.current as f64;
            squares += self.current as f64 * self.current as f64;
        }
        report.count(INTERVALS, count);
        report.variation(COV, sum, squares, count);
        let gap = self.longest_gap.max(end.saturating_since(self.last_arrival));
        report.scalar(STALLED_S, if self.opened.is_never() { f64::NAN } else { gap.as_secs_f64() });
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::report::Row;

    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn meter() -> Meter {
        let mut meter = Meter::new(Duration::from_secs(1));
        meter.open(ms(500));
        // 1000 B arrive in the first second, 3000 B in the second, nothing in the third, 500 B in the fourth.
        for (at, bytes) in [(600, 400), (1_499, 600), (1_500, 3_000), (3_600, 500)] {
            meter.on_bytes(ms(at), bytes);
        }
        meter
    }

    fn row(meter: &Meter, now: u64) -> Row {
        let mut row = Row::default();
        meter.report(ms(now), &mut row.section("x"));
        row
    }

    fn value(row: &Row, name: &str) -> f64 {
        row.value(&format!("x.{name}")).unwrap()
    }

    #[test]
    fn intervals_are_whole_but_for_the_last() {
        let bytes = |intervals: Vec<Interval>| intervals.iter().map(|i| i.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(meter().intervals(ms(4_000))), [1_000, 3_000, 0, 500]);
        assert_eq!(bytes(meter().intervals(ms(4_500))), [1_000, 3_000, 0, 500]);
        assert_eq!(bytes(meter().intervals(ms(6_000))), [1_000, 3_000, 0, 500, 0, 0]);
        let last = meter().intervals(ms(4_000))[3];
        assert_eq!((last.start, last.end), (ms(3_500), ms(4_000)));
        assert!(Meter::new(Duration::from_secs(1)).intervals(ms(9_000)).is_empty());
    }

    #[test]
    fn a_long_silence_takes_no_memory() {
        let mut meter = Meter::new(Duration::from_millis(1));
        meter.open(ms(0));
        meter.on_bytes(ms(1), 100);
        meter.on_bytes(Time::from_secs(1_000_000_000), 100);
        assert_eq!(meter.intervals, [(1, 100)]);
        assert_eq!(value(&row(&meter, 1_000_000_000_001), "intervals"), 1e12 + 1.0);
    }

    #[test]
    fn goodput_variation_and_the_longest_pause() {
        let row = row(&meter(), 4_000);
        // 4500 B in 3.5 s.
        assert_eq!(value(&row, "goodput_kbit_per_s"), 4_500.0 * 8.0 / 3.5 / 1e3);
        assert_eq!(value(&row, "intervals"), 3.0);
        // 1000, 3000 and 0 B: mean 4000/3, sample variance 7e6/3.
        let cov = libm::sqrt(7e6 / 3.0) / (4_000.0 / 3.0);
        assert!((value(&row, "cov") - cov).abs() < 1e-12);
        assert_eq!(value(&row, "stalled_s"), 2.1);
    }

    #[test]
    fn an_open_pause_counts_until_the_transfer_is_over() {
        let mut meter = meter();
        assert_eq!(value(&row(&meter, 9_000), "stalled_s"), 5.4);
        assert_eq!(value(&row(&meter, 9_000), "intervals"), 8.0);
        meter.end(ms(3_600));
        let row = row(&meter, 9_000);
        assert_eq!(value(&row, "stalled_s"), 2.1);
        assert_eq!(value(&row, "intervals"), 3.0);
        assert!((value(&row, "goodput_kbit_per_s") - 4_500.0 * 8.0 / 3.1 / 1e3).abs() < 1e-9);
    }

    #[test]
    fn a_warm_up_is_taken_off() {
        let mut meter = Meter::new(Duration::from_secs(1));
        meter.open(ms(0));
        for second in 0..10 {
            let bytes = if second < 4 { 100 } else { 500 + (second as u32 % 2) * 100 };
            meter.on_bytes(ms(second * 1_000 + 500), bytes);
        }
        let mut early = Meter::new(Duration::from_secs(1));
        early.open(ms(0));
        for second in 0..4 {
            early.on_bytes(ms(second * 1_000 + 500), 100);
        }
        let row = row(&meter, 10_000).without(&row(&early, 4_000));
        assert_eq!(value(&row, "goodput_kbit_per_s"), 550.0 * 8.0 / 1e3);
        assert_eq!(value(&row, "intervals"), 6.0);
        let cov = libm::sqrt(6.0 * 50.0 * 50.0 / 5.0) / 550.0;
        assert!((value(&row, "cov") - cov).abs() < 1e-9);
    }
}
