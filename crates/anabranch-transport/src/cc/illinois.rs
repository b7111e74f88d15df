//! Illinois: losses say when to shrink, delay says by how much, and how fast to grow.
//!
//! S. Liu, T. Başar and R. Srikant, "TCP-Illinois: a loss- and delay-based congestion control algorithm for
//! high-speed networks", 2008, as in Linux's `tcp_illinois.c`, under all rules: fixed-point numbers, delays
//! in us, alpha and beta computed once per round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::{Round, micros};
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Setup, check_count, check_range};
use crate::time::Time;

/// Settings of Illinois.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "IllinoisConfig")]
pub struct Config {
    /// Growth in segments per round at the largest delay; default 0.3.
    pub alpha_min: f64,
    /// Growth in segments per round at the smallest delay; default 10.
    pub alpha_max: f64,
    /// The share of the window that a loss takes at small delay; default 0.125.
    pub beta_min: f64,
    /// The share of the window that a loss takes at large delay; default 0.5.
    pub beta_max: f64,
    /// The window, in segments, below which it is Reno; default 15.
    pub win_thresh: u32,
    /// Rounds of small delay before the fastest growth; default 5.
    pub theta: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { alpha_min: 0.3, alpha_max: 10.0, beta_min: 0.125, beta_max: 0.5, win_thresh: 15, theta: 5 }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("alpha_min", self.alpha_min, 0.01, 1_000.0)?;
        check_range("alpha_max", self.alpha_max, self.alpha_min, 1_000.0)?;
        check_range("beta_min", self.beta_min, 0.02, 0.9)?;
        check_range("beta_max", self.beta_max, self.beta_min, 0.9)?;
        check_count("win_thresh", self.win_thresh, 0, 1_000_000)?;
        check_count("theta", self.theta, 1, 1_000)
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Illinois> {
        let alpha = |value: f64| ((value * ALPHA_SCALE as f64) as u64).max(1);
        let beta = |value: f64| (value * BETA_SCALE as f64) as u64;
        Windowed::new(setup, SlowStart::Standard, |_| Illinois {
            alpha_min: alpha(self.alpha_min),
            alpha_max: alpha(self.alpha_max),
            beta_min: beta(self.beta_min),
            beta_max: beta(self.beta_max),
            win_thresh: self.win_thresh,
            theta: self.theta,
            alpha: alpha(self.alpha_max),
            beta: beta(self.beta_max),
            base_rtt: u64::from(u32::MAX),
            max_rtt: 0,
            sum: 0,
            count: 0,
            round: Round::default(),
            round_restarts: false,
            acked: 0,
            total_acked: 0,
            was_above: false,
            rounds_below: 0,
        })
    }
}

/// Linux: `ALPHA_SHIFT`, `BETA_SHIFT`.
const ALPHA_SCALE: u64 = 1 << 7;
const BETA_SCALE: u64 = 1 << 6;

/// Illinois.
#[derive(Debug)]
pub struct Illinois {
    alpha_min: u64,
    alpha_max: u64,
    beta_min: u64,
    beta_max: u64,
    win_thresh: u32,
    theta: u32,
    /// The increase, in 1/128.
    alpha: u64,
    /// The decrease, in 1/64.
    beta: u64,
    base_rtt: u64,
    max_rtt: u64,
    /// The sum of the round's delays, and their number.
    sum: u64,
    count: u64,
    round: Round,
    /// Whether there was a timeout: the next acknowledgement says what had been sent by then, which is where
    /// the round ends (Linux: `rtt_reset`).
    round_restarts: bool,
    /// Segments that the last acknowledgement acknowledged cumulatively, including those that had been
    /// acknowledged selectively (Linux: `acked`), so that the acknowledgement that ends a recovery counts for
    /// a whole window.
    acked: u32,
    total_acked: u64,
    /// Whether the delay was above the lowest hundredth, and for how many rounds it has been below again.
    was_above: bool,
    rounds_below: u32,
}

impl Illinois {
    /// Updates the parameters once per round (Linux: `update_params`).
    fn update(&mut self, cwnd: u32) {
        if cwnd < self.win_thresh {
            self.alpha = ALPHA_SCALE;
            self.beta = BETA_SCALE / 2;
        } else if let Some(mean) = self.sum.checked_div(self.count) {
            let delay = mean - self.base_rtt;
            let most = self.max_rtt - self.base_rtt;
            self.alpha = self.alpha_at(delay, most);
            self.beta = self.beta_at(delay, most);
        }
        self.sum = 0;
        self.count = 0;
    }

    fn alpha_at(&mut self, delay: u64, most: u64) -> u64 {
        let low = most / 100;
        if delay <= low {
            if !self.was_above {
                return self.alpha_max;
            }
            self.rounds_below += 1;
            if self.rounds_below < self.theta {
                return self.alpha;
            }
            self.rounds_below = 0;
            self.was_above = false;
            return self.alpha_max;
        }
        self.was_above = true;
        // The paper's k1 / (k2 + delay), equation 4.
        let (delay, most) = (delay - low, most - low);
        most * self.alpha_max / (most + delay * (self.alpha_max - self.alpha_min) / self.alpha_min)
    }

    /// The paper's equation 5, a line between 10 % and 80 % of the largest delay.
    fn beta_at(&self, delay: u64, most: u64) -> u64 {
        let (low, high) = (most / 10, most * 8 / 10);
        if delay <= low {
            return self.beta_min;
        }
        if delay >= high || high <= low {
            return self.beta_max;
        }
        self.beta_min + (self.beta_max - self.beta_min) * (delay - low) / (high - low)
    }
}

impl Algorithm for Illinois {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        let advance = event.total_acked.saturating_sub(self.total_acked);
        self.total_acked = self.total_acked.max(event.total_acked);
        self.acked = u32::try_from(advance.div_ceil(u64::from(window.mss))).unwrap_or(u32::MAX);
        if std::mem::take(&mut self.round_restarts) {
            self.round.restart(event);
        }
        if let Some(rtt) = event.rtt {
            // Linux: RTT_MAX.
            let rtt = u64::from(micros(rtt)).min(u64::from(u32::MAX) / (10 * ALPHA_SCALE));
            self.base_rtt = self.base_rtt.min(rtt);
            self.max_rtt = self.max_rtt.max(rtt);
            self.sum += rtt;
            self.count += 1;
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if self.round.passed(event) {
            self.update(window.cwnd);
        }
        if !event.is_window_limited {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(event);
            return;
        }
        window.count = window.count.saturating_add(self.acked);
        let growth = u64::from(window.count) * self.alpha / ALPHA_SCALE;
        let cwnd = u64::from(window.cwnd);
        if growth >= cwnd {
            window.set(window.cwnd.saturating_add((growth / cwnd) as u32));
            window.count = 0;
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        window.cwnd - (u64::from(window.cwnd) * self.beta / BETA_SCALE) as u32
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            self.alpha = ALPHA_SCALE;
            self.beta = BETA_SCALE / 2;
            self.rounds_below = 0;
            self.was_above = false;
            self.sum = 0;
            self.count = 0;
            self.round_restarts = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MSS, Rounds, build, cwnd, lose};
    use super::super::{CongestionControl as _, CongestionKind, Controller, Rules};
    use super::*;
    use crate::time::Duration;

    #[test]
    fn grows_by_ten_without_delay_and_by_less_with_it() {
        let mut control = build(Config::default(), Rules::Linux6, 200);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        let ms = Duration::from_millis;
        // Delays from 0 to 100 ms.
        rounds.ack(&mut control, 1, ms(100));
        rounds.ack(&mut control, 1, ms(200));
        lose(&mut control, rounds.now);
        let mut growth = |delay: u64| {
            // The round's mean decides for the next one.
            for _ in 0..6 {
                rounds.round_with(&mut control, ms(100 + delay));
            }
            let begin = cwnd(&control);
            rounds.round_with(&mut control, ms(100 + delay));
            cwnd(&control) - begin
        };
        assert!((9..=10).contains(&growth(0)));
        // Equation 4 at half of the largest delay: 99 x 10 / (99 + 49 x 9.7 / 0.3) = 0.59.
        assert!(growth(50) <= 1);
        assert!((9..=10).contains(&growth(0)), "after theta rounds");
    }

    #[test]
    fn alpha_and_beta_follow_the_delay() {
        let control = Config::default().build(&Setup {
            mss: 1_000,
            initial_cwnd: 10_000,
            rules: Rules::Linux6,
            seed: 0,
            is_paced: false,
            headers: 0,
        });
        let mut illinois = control.into_algorithm();
        let most = 100_000;
        let share = |value: u64, scale: u64| value as f64 / scale as f64;
        assert!((share(illinois.alpha_at(0, most), ALPHA_SCALE) - 10.0).abs() < 0.01);
        for delay in [10_000, 50_000, 100_000] {
            let (d, m) = (delay as f64 - 1_000.0, 99_000.0);
            let expected = m * 10.0 / (m + d * 9.7 / 0.3);
            assert!((share(illinois.alpha_at(delay, most), ALPHA_SCALE) - expected).abs() < 0.03, "{delay}");
        }
        for (delay, expected) in [(5_000, 0.125), (45_000, 0.3125), (90_000, 0.5)] {
            assert!((share(illinois.beta_at(delay, most), BETA_SCALE) - expected).abs() < 0.02, "{delay}");
        }
    }

    #[test]
    fn a_timeout_begins_a_round_of_all_that_was_sent() {
        let mut control = build(Config::default(), Rules::Linux6, 60);
        let ms = Duration::from_millis;
        let mut acked = 0;
        let mut ack = |control: &mut Controller, sent: u64| {
            acked += 1;
            control.on_ack(&AckEvent {
                rtt: Some(ms(100)),
                acknowledged_to: acked * u64::from(MSS),
                total_acked: acked * u64::from(MSS),
                sent_to: sent * u64::from(MSS),
                ..AckEvent::new(Time::from_secs(1), MSS, 60 * MSS)
            });
        };
        // The first round ends behind segment 60; when the timer expires, 200 have been sent.
        ack(&mut control, 60);
        control.on_congestion(&CongestionEvent::new(Time::from_secs(2), CongestionKind::Timeout, 60 * MSS));
        for _ in 0..53 {
            ack(&mut control, 200);
        }
        assert_eq!(cwnd(&control), 54, "slow start up to seven eighths of a window of 61");
        for _ in 0..108 {
            ack(&mut control, 200);
        }
        assert_eq!(cwnd(&control), 55, "by one in a window, and not by ten from segment 60 on");
    }

    #[test]
    fn a_small_window_is_renos() {
        let mut control = build(Config::default(), Rules::Linux6, 20);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        lose(&mut control, rounds.now);
        for expected in [10, 11, 12, 13, 14, 15] {
            assert_eq!(cwnd(&control), expected);
            rounds.round(&mut control);
        }
        rounds.round(&mut control);
        rounds.round(&mut control);
        assert!(cwnd(&control) > 20, "from 15 segments on it grows by ten: {}", cwnd(&control));
    }
}
