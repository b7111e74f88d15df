//! DCTCP: shrinks the window by half of the share of data that was marked.
//!
//! RFC 8257; Linux's `tcp_dctcp.c`. Otherwise it is Reno: a loss halves the window (section 3.5).
//!
//! Known deviations: the estimate is a fraction, where Linux counts in 1/1024, and it is made of bytes as
//! in the RFC, where Linux counts packets. It relies on the transport for exact echoes of marks
//! (section 3.2, or accurate ECN) and for one reaction per round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::Round;
use super::slow_start::SlowStart;
use super::window::{Algorithm, Window, Windowed};
use super::{AckEvent, CongestionEvent, CongestionKind, Rules, Setup, check_range};

/// Settings of DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DctcpConfig")]
pub struct Config {
    /// Weight of the last round in the estimated share of marks; default 1/16 (RFC 8257 section 4.2).
    pub g: f64,
    /// The estimate at the beginning; default 1 (RFC 8257 section 3.3).
    pub initial_alpha: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { g: 1.0 / 16.0, initial_alpha: 1.0 }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("g", self.g, 0.000_1, 1.0)?;
        check_range("initial_alpha", self.initial_alpha, 0.0, 1.0)
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Dctcp> {
        Windowed::new(setup, SlowStart::Standard, |_| Dctcp {
            g: self.g,
            alpha: self.initial_alpha,
            acked: 0,
            marked: 0,
            round: Round::default(),
        })
    }
}

/// DCTCP.
#[derive(Debug)]
pub struct Dctcp {
    g: f64,
    alpha: f64,
    /// Bytes of this round.
    acked: u64,
    marked: u64,
    round: Round,
}

impl Algorithm for Dctcp {
    fn on_acked(&mut self, _window: &mut Window, event: &AckEvent) {
        self.acked += u64::from(event.newly_acked);
        self.marked += u64::from(event.marked);
        // RFC 8257 section 3.3, steps 3 to 8.
        if self.round.reached(event) && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = self.alpha * (1.0 - self.g) + self.g * share.min(1.0);
            self.acked = 0;
            self.marked = 0;
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        window.grow_as_reno(event);
    }

    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32 {
        if event.kind == CongestionKind::Ecn {
            // RFC 8257 section 3.3, step 9.
            let cut = f64::from(window.cwnd) * self.alpha / 2.0;
            // Linux rounds the cut down, so that few marks leave a small window as it is. The RFC counts
            // bytes: rounded to the nearest segment, marks that go on take it to one.
            let cut = if window.rules == Rules::Rfc { cut.round() } else { cut };
            return window.cwnd - cut as u32;
        }
        window.half()
    }

    fn answers_loss_after_mark(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MSS, Path, Sender, build, cwnd};
    use super::super::{CongestionControl as _, RecoveryEndEvent};
    use super::*;
    use crate::time::{Duration, Time};

    #[test]
    fn alpha_is_a_moving_average_over_rounds() {
        let setup = Setup {
            mss: MSS,
            initial_cwnd: 10 * MSS,
            rules: Rules::Rfc,
            seed: 0,
            is_paced: false,
            headers: 0,
        };
        let mut control = Config::default().build(&setup);
        // Ten rounds of ten segments, of which three are marked.
        for segment in 1..=100_u64 {
            control.on_ack(&AckEvent {
                marked: if segment % 10 < 3 { MSS } else { 0 },
                is_window_limited: false,
                acknowledged_to: segment * u64::from(MSS),
                sent_to: (segment + 10) * u64::from(MSS),
                ..AckEvent::new(Time::ZERO, MSS, 10 * MSS)
            });
        }
        let alpha = control.into_algorithm().alpha;
        // The first segment is a round of its own, in which everything is marked; the last round is not
        // complete.
        let expected = 0.3 + 0.7 * libm::pow(15.0 / 16.0, 9.0);
        assert!((alpha - expected).abs() < 0.01, "{alpha} instead of {expected}");
    }

    #[test]
    fn a_mark_takes_half_of_alpha_and_a_loss_takes_half() {
        let event = |kind| CongestionEvent::new(Time::ZERO, kind, 0);
        let config = Config { initial_alpha: 0.2, ..Config::default() };
        let mut control = build(config, Rules::Rfc, 100);
        control.on_congestion(&event(CongestionKind::Ecn));
        assert_eq!(cwnd(&control), 90);
        let mut control = build(config, Rules::Rfc, 100);
        control.on_congestion(&event(CongestionKind::FastRetransmit));
        assert_eq!(cwnd(&control), 50);
    }

    /// RFC 3168 section 6.1.2: marks that go on take the window to one segment, whatever alpha was before.
    #[test]
    fn marks_that_go_on_leave_one_segment() {
        for initial_alpha in [0.0, 0.3, 1.0] {
            let mut control = build(Config { initial_alpha, ..Config::default() }, Rules::Rfc, 20);
            let mut acked = 0;
            for second in 1..=200 {
                acked += u64::from(control.limits().cwnd);
                let (now, window) = (Time::from_secs(second), control.limits().cwnd);
                control.on_congestion(&CongestionEvent::new(now, CongestionKind::Ecn, window));
                control.on_ack(&AckEvent {
                    marked: window,
                    in_recovery: true,
                    acknowledged_to: acked,
                    sent_to: acked,
                    ..AckEvent::new(now, window, window)
                });
                control.on_recovery_end(&RecoveryEndEvent::new(now, 0));
            }
            assert_eq!(cwnd(&control), 1, "{initial_alpha}");
        }
    }

    /// RFC 8257 section 4: the queue stays near the threshold of marking, and nothing is lost.
    #[test]
    fn holds_the_queue_at_the_marking_threshold() {
        let path = Path { mark_above: 40, ..Path::new(10_000.0, Duration::from_millis(20), 1_000) };
        let bdp = path.bdp();
        let mut sender = Sender::new(build(Config::default(), Rules::Linux6, 10), path);
        sender.run(Duration::from_secs(30));
        let skip = Duration::from_secs(10);
        let queue = sender.mean_after(skip, |sample| sample.cwnd - bdp);
        assert!((20.0..=45.0).contains(&queue), "{queue}");
        assert!(sender.goodput_after(skip) > 9_950.0);
        assert_eq!(sender.drops, 0);
    }
}
