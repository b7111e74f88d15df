//! How much later than due packets were written.

use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::Duration;
use hdrhistogram::Histogram;

declare! {
    /// How late packets were written.
    SCALARS:
    /// Packets written.
    WRITTEN_PACKETS = "written_packets": One;
    /// Half of the packets were written at most this long after they were due.
    LATENESS_P50_MS = "lateness_p50_ms": Millis, Less;
    /// 99 % of the packets were written at most this long after they were due.
    LATENESS_P99_MS = "lateness_p99_ms": Millis, Less;
    /// The longest of these times.
    LATENESS_MAX_MS = "lateness_max_ms": Millis, Less;
}

/// The lateness of every packet, from 1 ns to 100 s with three digits.
#[derive(Clone, Debug)]
pub(crate) struct Lateness(Histogram<u64>);

/// Larger values count as this one.
const MOST_NANOS: u64 = 100_000_000_000;

impl Default for Lateness {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, MOST_NANOS, 3).expect("these bounds are sound"))
    }
}

impl Lateness {
    /// Records that a packet was written this long after it was due.
    pub(crate) fn record(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos().clamp(1, MOST_NANOS));
    }

    /// Writes median, 99th percentile and maximum, in ms.
    pub(crate) fn report(&self, report: &mut Report<'_>) {
        report.count(WRITTEN_PACKETS, self.0.len());
        if self.0.is_empty() {
            return;
        }
        let millis = |nanos: u64| nanos as f64 / 1e6;
        report.scalar(LATENESS_P50_MS, millis(self.0.value_at_quantile(0.5)));
        report.scalar(LATENESS_P99_MS, millis(self.0.value_at_quantile(0.99)));
        report.scalar(LATENESS_MAX_MS, millis(self.0.max()));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::report::Row;

    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut lateness = Lateness::default();
        for micros in 1..=1000 {
            lateness.record(Duration::from_micros(micros));
        }
        lateness.record(Duration::from_secs(1000));
        let mut row = Row::default();
        lateness.report(&mut row.section("emulation"));
        let near = |name: &str, value: f64| {
            let found = row.value(&format!("emulation.{name}")).unwrap();
            assert!((found / value - 1.0).abs() < 0.002, "{name}: {found}");
        };
        near("lateness_p50_ms", 0.501);
        near("lateness_p99_ms", 0.991);
        near("lateness_max_ms", 100_000.0);
        assert_eq!(row.value("emulation.written_packets"), Some(1001.0));
    }
}
