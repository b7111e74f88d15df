//! Westwood+: after a loss the window is what fills the path at the estimated bandwidth.
//!
//! S. Mascolo et al., "TCP Westwood: bandwidth estimation for enhanced transport over wireless links",
//! 2001, with the filter per round trip of L. Grieco and S. Mascolo, "Performance evaluation and comparison
//! of Westwood+, New Reno, and Vegas TCP congestion control", 2004, as in Linux's `tcp_westwood.c`, under
//! all rules.
//!
//! In recovery the window goes down towards half as in Reno; at its end, and after a timeout, the
//! threshold is bandwidth x smallest round-trip time. In 2.6.20 only F-RTO told Westwood of a timeout
//! (`CA_EVENT_FRTO`), and it was off; after any other one the threshold was Reno's half of the window.
//!
//! What is delivered is guessed from the cumulative acknowledgement: each duplicate one counts as one
//! segment, which is taken off what a later one acknowledges at once (`westwood_acked_count`).
//!
//! Known deviations: times are in ms (HZ = 1000). 2.6.20 with F-RTO has the threshold of 2.6.20 without.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::micros;
use super::slow_start::SlowStart;
use super::window::{Algorithm, LEAST, Window, Windowed};
use super::{AckEvent, ArrivalEvent, CongestionEvent, CongestionKind, RttEvent, Rules, Setup};
use crate::time::{Duration, Time};

/// Settings of Westwood+.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "WestwoodConfig")]
pub struct Config {
    /// The slow start; default "standard".
    pub slow_start: SlowStart,
}

impl Config {
    /// Checks that the settings are possible, which they always are.
    ///
    /// # Errors
    /// None.
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn build(self, setup: &Setup) -> Windowed<Westwood> {
        Windowed::new(setup, self.slow_start, |_| Westwood {
            mss: u64::from(setup.mss),
            is_of_2620: setup.rules == Rules::Linux2620,
            unsmoothed: 0,
            bandwidth: 0,
            bytes: 0,
            window_start: None,
            acknowledged: None,
            accounted: 0,
            rtt: INITIAL_RTT_MS,
            rtt_min: INITIAL_RTT_MS,
            forget_rtt_min: true,
        })
    }
}

/// Linux: `TCP_WESTWOOD_RTT_MIN`: bandwidth is not measured over a shorter time.
const SHORTEST_MS: u64 = 50;
/// Linux: `TCP_WESTWOOD_INIT_RTT`, which counts until there is a sample.
const INITIAL_RTT_MS: u64 = 20_000;

/// Westwood+.
#[derive(Debug)]
pub struct Westwood {
    mss: u64,
    /// Whether this is the version of 2.6.20, whose filter rises from zero instead of starting with the first
    /// measurement, and whose round-trip times count from the next acknowledgement on.
    is_of_2620: bool,
    /// Bytes per ms, filtered once (Linux: `bw_ns_est`) and twice (`bw_est`).
    unsmoothed: u64,
    bandwidth: u64,
    /// Bytes acknowledged since `window_start`.
    bytes: u64,
    window_start: Option<Time>,
    /// The bytes acknowledged so far (Linux: `snd_una`), and the bytes counted for duplicates of it.
    acknowledged: Option<u64>,
    accounted: u64,
    /// The last round-trip time in ms.
    rtt: u64,
    rtt_min: u64,
    forget_rtt_min: bool,
}

impl Westwood {
    /// Linux: `westwood_bw_rttmin`.
    fn path_in_segments(&self, window: &Window) -> u32 {
        let segments = self.bandwidth.saturating_mul(self.rtt_min) / u64::from(window.mss);
        u32::try_from(segments).unwrap_or(u32::MAX - 1)
    }

    /// Linux: `westwood_update_window`, `westwood_filter`.
    fn measure(&mut self, now: Time) {
        let start = *self.window_start.get_or_insert(now);
        let ms = now.as_nanos() / 1_000_000 - start.as_nanos() / 1_000_000;
        if self.rtt > 0 && ms > self.rtt.max(SHORTEST_MS) {
            let sample = self.bytes / ms;
            if !self.is_of_2620 && self.unsmoothed == 0 && self.bandwidth == 0 {
                self.unsmoothed = sample;
                self.bandwidth = sample;
            } else {
                self.unsmoothed = (7 * self.unsmoothed + sample) / 8;
                self.bandwidth = (7 * self.bandwidth + self.unsmoothed) / 8;
            }
            self.bytes = 0;
            self.window_start = Some(now);
        }
    }

    /// The bytes that an acknowledgement counts for (Linux: `westwood_fast_bw`, `westwood_acked_count`).
    fn count(&mut self, event: &ArrivalEvent) -> u64 {
        let before = self.acknowledged.replace(event.total_acked).unwrap_or(event.total_acked);
        let mut bytes = event.total_acked.saturating_sub(before);
        if !event.is_special {
            return bytes;
        }
        if bytes == 0 {
            self.accounted += self.mss;
            bytes = self.mss;
        }
        if bytes > self.mss {
            if self.accounted >= bytes {
                self.accounted -= bytes;
                bytes = self.mss;
            } else {
                bytes -= std::mem::take(&mut self.accounted);
            }
        }
        bytes
    }

    fn record_rtt(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.rtt = u64::from(micros(rtt).div_ceil(1_000)).max(1);
        }
    }
}

impl Algorithm for Westwood {
    fn on_rtt(&mut self, _window: &mut Window, event: &RttEvent) {
        // Linux, tcp_westwood_init: the first measurement begins when the connection is open.
        self.window_start.get_or_insert(event.now);
    }

    /// Linux: `tcp_westwood_ack`.
    fn on_arrival(&mut self, event: &ArrivalEvent) {
        if !self.is_of_2620 {
            self.record_rtt(event.rtt);
        }
        self.measure(event.now);
        self.bytes += self.count(event);
        if self.forget_rtt_min {
            self.rtt_min = self.rtt;
            self.forget_rtt_min = false;
        } else {
            self.rtt_min = self.rtt_min.min(self.rtt);
        }
        if self.is_of_2620 {
            self.record_rtt(event.rtt);
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        window.grow_as_reno(event);
    }

    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32 {
        if event.kind == CongestionKind::Timeout && window.rules != Rules::Linux2620 {
            // Linux since 3.10: CA_EVENT_LOSS.
            self.forget_rtt_min = true;
            return self.path_in_segments(window);
        }
        window.half()
    }

    fn on_recovered(&mut self, window: &mut Window) {
        let path = self.path_in_segments(window);
        window.ssthresh = path.max(LEAST);
        window.set(path.max(window.least));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
    use super::super::{CongestionControl as _, CongestionEvent};
    use super::*;

    /// The bytes counted so far when `acknowledged_to` of segments of 1000 bytes is acknowledged.
    fn counted(control: &mut Westwood, acknowledged_to: u64, is_special: bool) -> u64 {
        control.on_arrival(&ArrivalEvent { is_special, ..ArrivalEvent::new(Time::ZERO, acknowledged_to) });
        control.bytes
    }

    #[test]
    fn duplicates_count_for_one_segment_each_and_what_they_counted_for_is_taken_off() {
        let setup = Setup {
            mss: 1_000,
            initial_cwnd: 10_000,
            rules: Rules::Linux6,
            seed: 1,
            is_paced: false,
            headers: 0,
        };
        let mut control = Config::default().build(&setup).into_algorithm();
        // The first acknowledgement only says where the stream begins, and so counts as a duplicate.
        assert_eq!(counted(&mut control, 1_000, true), 1_000);
        assert_eq!(counted(&mut control, 1_000, true), 2_000);
        // Two segments that were counted as duplicates are acknowledged at once: one has arrived.
        assert_eq!(counted(&mut control, 3_000, true), 3_000);
        assert_eq!(counted(&mut control, 6_000, true), 6_000);
        assert_eq!(counted(&mut control, 6_000, true), 7_000);
        // Header prediction does not look at duplicates.
        assert_eq!(counted(&mut control, 8_000, false), 9_000);
        assert_eq!(counted(&mut control, 10_000, true), 10_000);
    }

    #[test]
    fn the_first_measurement_begins_when_the_connection_is_open() {
        for (rules, bandwidth) in [(Rules::Linux6, 10_000 / 103), (Rules::Linux2620, 10_000 / 103 / 8 / 8)] {
            let setup =
                Setup { mss: 1_000, initial_cwnd: 10_000, rules, seed: 1, is_paced: false, headers: 0 };
            let mut control = Config::default().build(&setup);
            let rtt = Duration::from_millis(100);
            control.on_rtt_sample(&RttEvent::new(Time::from_millis(100), rtt));
            for (millis, acknowledged_to) in [(200, 1_000), (201, 11_000), (203, 12_000)] {
                let arrival = ArrivalEvent::new(Time::from_millis(millis), acknowledged_to);
                let measured = (millis != 201).then_some(Duration::from_millis(102));
                control.on_arrival(&ArrivalEvent { rtt: measured, ..arrival });
            }
            assert_eq!(control.into_algorithm().bandwidth, bandwidth, "{rules:?}");
        }
    }

    #[test]
    fn the_threshold_is_bandwidth_times_smallest_round_trip_time() {
        // 1 packet of 1000 bytes per ms and 100 ms are 100 segments, whatever is lost.
        let path =
            Path { loses: |n| n % 2_000 == 1_999, ..Path::new(1_000.0, Duration::from_millis(100), 300) };
        let mut sender = Sender::new(build(Config::default(), Rules::Linux6, 10), path);
        sender.run(Duration::from_secs(120));
        let threshold = ssthresh(&sender.control);
        // The round-trip time of the first packet includes its own transmission.
        assert!((95..=102).contains(&threshold), "{threshold}");
        let goodput = sender.goodput_after(Duration::from_secs(10));
        assert!(goodput > 950.0, "a loss empties the path only in recovery: {goodput}");
        sender.control.on_congestion(&CongestionEvent::new(Time::from_secs(200), CongestionKind::Timeout, 0));
        assert!((95..=102).contains(&ssthresh(&sender.control)), "after a timeout too");
        assert_eq!(cwnd(&sender.control), 1);
    }

    #[test]
    fn in_2_6_20_a_timeout_halves_the_window() {
        let mut control = build(Config::default(), Rules::Linux2620, 40);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.round(&mut control);
        let window = cwnd(&control);
        control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, window / 2));
    }

    #[test]
    fn the_first_sample_counts_since_the_filter_was_mended() {
        for (rules, expected) in [(Rules::Linux6, 10), (Rules::Linux2620, 2)] {
            let mut control = build(Config::default(), rules, 10);
            let mut rounds = Rounds::new(Duration::from_millis(100));
            rounds.round(&mut control);
            rounds.round(&mut control);
            lose(&mut control, rounds.now);
            // 11 segments in the first 105 ms behind the first acknowledgement, times 100 ms; filtered twice
            // from zero, 1/64 of it.
            assert_eq!(cwnd(&control), expected, "{rules:?}");
        }
    }
}
