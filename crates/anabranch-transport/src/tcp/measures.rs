//! Window and round-trip times of a connection: as they are at the end, and means over its life that only
//! some studies read.

use super::connection::Connection;
use crate::report::{Report, declare};
use crate::time::{Duration, Time};

declare! {
    STATE:
    /// The smoothed round-trip time (RFC 6298) at the end.
    SRTT_MS = "srtt_ms": Millis, Less;
    /// The smallest round-trip time.
    MIN_RTT_MS = "min_rtt_ms": Millis, Less;
    /// The retransmission timeout (RFC 6298) at the end.
    RTO_MS = "rto_ms": Millis;
    /// The congestion window at the end.
    CWND_BYTES = "cwnd_bytes": Bytes;
}

declare! {
    MEANS:
    /// Mean of the congestion window over time.
    MEAN_CWND_BYTES = "mean_cwnd_bytes": Bytes;
    /// Mean of the round-trip times measured.
    MEAN_RTT_MS = "mean_rtt_ms": Millis, Less;
    /// Mean of the congestion window over the values that it was changed to.
    MEAN_CHANGED_CWND_BYTES = "mean_changed_cwnd_bytes": Bytes;
    /// Mean of the smoothed round-trip time at the changes of the congestion window.
    MEAN_CHANGED_SRTT_MS = "mean_changed_srtt_ms": Millis, Less;
}

/// Sums for the means.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measures {
    /// The window in bytes and since when it has had this size.
    cwnd: u32,
    since: Option<Time>,
    /// The sum of the window over time, in bytes times nanoseconds, and that time in nanoseconds.
    cwnd_area: f64,
    lasted: u64,
    /// Sum of the samples of the round-trip time, in milliseconds, and their number.
    rtt: (f64, u64),
    /// The number of changes of the window, and over these the sums of the window in bytes and of the
    /// smoothed round-trip time in milliseconds.
    changes: u64,
    changed_cwnd: f64,
    changed_srtt: f64,
}

impl Measures {
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.rtt.0 += rtt.as_millis_f64();
        self.rtt.1 += 1;
    }

    fn on_window(&mut self, now: Time, cwnd: u32, srtt: Option<Duration>) {
        if let Some(since) = self.since {
            self.cwnd_area += f64::from(self.cwnd) * (now - since).as_nanos() as f64;
            self.lasted += (now - since).as_nanos();
        }
        self.since = Some(now);
        if let Some(srtt) = srtt.filter(|_| cwnd != self.cwnd) {
            self.changes += 1;
            self.changed_cwnd += f64::from(cwnd);
            self.changed_srtt += srtt.as_millis_f64();
        }
        self.cwnd = cwnd;
    }

    pub(super) fn report(&self, report: &mut Report<'_>) {
        report.mean(MEAN_CWND_BYTES, self.cwnd_area, self.lasted);
        report.mean(MEAN_RTT_MS, self.rtt.0, self.rtt.1);
        report.mean(MEAN_CHANGED_CWND_BYTES, self.changed_cwnd, self.changes);
        report.mean(MEAN_CHANGED_SRTT_MS, self.changed_srtt, self.changes);
    }
}

impl Connection {
    /// Takes the measures after an input has been handled.
    #[cold]
    #[inline(never)]
    pub(super) fn measure(&mut self, now: Time) {
        if !self.state.is_synchronised() {
            return;
        }
        let (cwnd, srtt) = (self.cwnd().saturating_mul(self.mss), self.rtt.srtt());
        if let Some(measures) = &mut self.measures {
            measures.on_window(now, cwnd, srtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Command;
    use crate::flow::Side;
    use crate::observed::Observed as _;
    use crate::report::Row;
    use crate::tcp::testing::{Pair, config, ms};
    use crate::tcp::{Config, Profile};

    #[test]
    fn the_window_is_a_mean_over_time_and_srtt_one_over_changes() {
        let mut measures = Measures::default();
        for (at, cwnd, srtt) in [(1, 10, 40), (2, 20, 60), (4, 20, 500), (5, 5, 80)] {
            measures.on_window(Time::from_secs(at), cwnd, Some(Duration::from_millis(srtt)));
        }
        let mut row = Row::default();
        measures.report(&mut row.section("a"));
        assert_eq!(row.value("a.mean_cwnd_bytes"), Some((10.0 + 3.0 * 20.0) / 4.0));
        assert_eq!(row.value("a.mean_changed_cwnd_bytes"), Some((10.0 + 20.0 + 5.0) / 3.0));
        assert_eq!(row.value("a.mean_changed_srtt_ms"), Some((40.0 + 60.0 + 80.0) / 3.0));
        assert!(row.value("a.mean_rtt_ms").unwrap().is_nan());
    }

    #[test]
    fn measuring_changes_nothing_and_sees_the_round_trip() {
        let run = |measure| {
            let mut pair = Pair::new(&Config { measure: Some(measure), ..config(Profile::Linux6) });
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(100));
            pair.write(Side::A, 200_000);
            pair.run_for(ms(2_000));
            let mut row = Row::default();
            pair.ends[0].report(&mut row.section("a"));
            (row, pair.log.iter().map(super::super::testing::Logged::at_ms).collect::<Vec<_>>())
        };
        let ((plain, sent), (measured, same)) = (run(false), run(true));
        assert_eq!(sent, same);
        assert_eq!(plain.value("a.mean_rtt_ms"), None);
        let value = |name: &str| measured.value(name).unwrap();
        assert!((value("a.mean_rtt_ms") - 40.0).abs() < 2.0, "{}", value("a.mean_rtt_ms"));
        let (least, last) = (10.0 * 1_448.0, value("a.cwnd_bytes"));
        assert!(least < value("a.mean_cwnd_bytes") && value("a.mean_cwnd_bytes") < last);
    }
}
