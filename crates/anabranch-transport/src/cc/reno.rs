//! Reno with NewReno's recovery: one segment more per round, half the window after a loss, or another share.
//!
//! RFC 5681 sections 3.1 and 3.2, RFC 6582; Linux's `tcp_cong.c`.
//!
//! Known deviation: the threshold is half the window, as in Linux, not half of what is outstanding
//! (RFC 5681 equation 4), so that a sender that its application limits keeps the same threshold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::window::{Algorithm, Window, Windowed};
use super::{AckEvent, CongestionEvent, Setup, check_range};

/// Settings of Reno.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RenoConfig")]
pub struct Config {
    /// The share of the window that is left after a loss; default 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// The slow start; default "standard".
    pub slow_start: SlowStart,
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        self.beta.map_or(Ok(()), |beta| check_range("beta", beta, 0.1, 0.95))
    }

    pub(super) fn build(self, setup: &Setup) -> Windowed<Reno> {
        Windowed::new(setup, self.slow_start, |_| Reno { beta: self.beta })
    }
}

/// Reno.
#[derive(Debug)]
pub struct Reno {
    beta: Option<f64>,
}

impl Algorithm for Reno {
    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        window.grow_as_reno(event);
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        self.beta.map_or(window.half(), |beta| (f64::from(window.cwnd) * beta) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
    use super::super::{
        CongestionControl as _, CongestionEvent, CongestionKind, Controller, IdleEvent, Rules, UndoEvent,
    };
    use super::*;
    use crate::time::{Duration, Time};

    const RTT: Duration = Duration::from_millis(100);

    fn reno(rules: Rules) -> Controller {
        build(Config::default(), rules, 10)
    }

    #[test]
    fn a_share_of_the_window_is_left_after_a_loss() {
        let config = Config { beta: Some(0.7), ..Config::default() };
        let mut control = build(config, Rules::Rfc, 100);
        lose(&mut control, Time::from_secs(1));
        assert_eq!((cwnd(&control), ssthresh(&control)), (70, 70));
        assert!(Config { beta: Some(1.0), ..config }.check().unwrap_err().contains("beta"));
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_per_round() {
        let mut control = reno(Rules::Linux6);
        let mut rounds = Rounds::new(RTT);
        for expected in [20, 40, 80] {
            rounds.round(&mut control);
            assert_eq!(cwnd(&control), expected);
        }
        lose(&mut control, rounds.now);
        assert_eq!((cwnd(&control), ssthresh(&control)), (40, 40));
        for expected in 41..50 {
            rounds.round(&mut control);
            assert_eq!(cwnd(&control), expected);
        }
    }

    #[test]
    fn one_acknowledgement_passes_from_slow_start_to_avoidance() {
        let mut control = reno(Rules::Linux6);
        let mut rounds = Rounds::new(RTT);
        lose(&mut control, rounds.now);
        control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
        // The threshold is 2 now, so one of the three segments is for slow start and two are for avoidance.
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, 2));
        rounds.ack(&mut control, 3, RTT);
        assert_eq!(cwnd(&control), 3);
    }

    #[test]
    fn a_timeout_in_recovery_keeps_the_threshold() {
        let mut control = reno(Rules::Linux6);
        let now = Time::from_secs(1);
        control.on_congestion(&CongestionEvent::new(now, CongestionKind::FastRetransmit, 10_000));
        control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, 10_000));
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, 5));
        control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, 1_000));
        assert_eq!(ssthresh(&control), 5, "a second timeout without progress");
        control.on_undo(&UndoEvent::new(now));
        assert_eq!(cwnd(&control), 10);
        assert_eq!(control.state().ssthresh, u32::MAX, "there was no threshold before");
    }

    #[test]
    fn a_window_that_does_not_limit_does_not_grow() {
        let mut control = reno(Rules::Linux6);
        let event = AckEvent { is_window_limited: false, ..AckEvent::new(Time::ZERO, 1_000, 1_000) };
        control.on_ack(&event);
        assert_eq!(cwnd(&control), 10);
        control.on_ack(&AckEvent { in_recovery: true, ..AckEvent::new(Time::ZERO, 1_000, 1_000) });
        assert_eq!(cwnd(&control), 10);
    }

    #[test]
    fn an_idle_window_goes_back_to_the_initial_one() {
        let (mut linux, mut rfc) = (reno(Rules::Linux6), reno(Rules::Rfc));
        for control in [&mut linux, &mut rfc] {
            let mut rounds = Rounds::new(RTT);
            for _ in 0..3 {
                rounds.round(control);
            }
            assert_eq!(cwnd(control), 80);
            lose(control, rounds.now);
            control.on_idle(&IdleEvent::new(Duration::from_millis(1_100), Duration::from_secs(1)));
        }
        assert_eq!((cwnd(&linux), ssthresh(&linux)), (20, 40), "halved once per timeout");
        assert_eq!((cwnd(&rfc), ssthresh(&rfc)), (10, 40));
    }

    #[test]
    fn the_first_linux_needs_one_acknowledgement_more() {
        let mut control = reno(Rules::Linux2620);
        let mut rounds = Rounds::new(RTT);
        lose(&mut control, rounds.now);
        rounds.ack(&mut control, 1, RTT);
        assert_eq!(cwnd(&control), 6, "a window at the threshold is still in slow start");
        for _ in 0..6 {
            rounds.ack(&mut control, 1, RTT);
        }
        assert_eq!(cwnd(&control), 6);
        rounds.ack(&mut control, 1, RTT);
        assert_eq!(cwnd(&control), 7);
    }

    /// M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997: one
    /// loss in 1/p packets, each acknowledged. Here the window also stands still for the round of recovery:
    /// 3/8 W^2 + W/2 packets in W/2 + 1 rounds.
    #[test]
    fn the_mean_window_follows_the_square_root_law() {
        let cases = [(500, (|n| n % 500 == 499) as fn(u64) -> bool), (5_000, |n| n % 5_000 == 4_999)];
        for (every, loses) in cases {
            let path = Path { loses, ..Path::new(1e6, RTT, usize::MAX) };
            let mut sender = Sender::new(reno(Rules::Linux6), path);
            sender.run(Duration::from_secs(600));
            let skip = Duration::from_secs(100);
            let window = sender.goodput_after(skip) * RTT.as_secs_f64();
            let every = f64::from(every);
            let peak = (libm::sqrt(0.25 + 1.5 * every) - 0.5) / 0.75;
            let law = every / (peak / 2.0 + 1.0);
            assert!((window / law - 1.0).abs() < 0.04, "{window} instead of {law}");
            assert!((law / libm::sqrt(1.5 * every) - 1.0).abs() < 0.05, "near sqrt(3/2) / sqrt(p)");
        }
    }
}
