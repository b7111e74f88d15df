//! BIC: searches the window between the last minimum and the last maximum by halves, then probes beyond.
//!
//! L. Xu, K. Harfoush and I. Rhee, "Binary increase congestion control for fast long-distance networks",
//! 2004, as in Linux's `tcp_bic.c`, which goes a quarter of the way. [`Rules::Linux2620`] starts with a
//! threshold of 100 segments; [`Rules::Rfc`] has the paper's `s_max` of 32 segments and its decrease by
//! 1/8 and does not correct for delayed acknowledgements.
//!
//! Known deviations: the window's goal is computed anew at most every 31 ms, as in Linux, under all rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ack_ratio::AckRatio;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup, check_count, check_range};
use crate::time::Time;

/// Settings of BIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "BicConfig")]
pub struct Config {
    /// Up to this window in segments, it behaves as Reno; default 14.
    pub low_window: u32,
    /// The most segments to grow by in a round; default 16, with the RFC's rules 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_max: Option<u32>,
    /// The share of the window that is left after a loss; default 819/1024, with the RFC's rules 7/8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Whether a loss below the last maximum makes room for other flows; default true.
    pub fast_convergence: bool,
    /// How many rounds the last segments before the maximum take; default 20.
    pub smooth_part: u32,
    /// The slow start; default "standard".
    pub slow_start: SlowStart,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            low_window: 14,
            s_max: None,
            beta: None,
            fast_convergence: true,
            smooth_part: 20,
            slow_start: SlowStart::Standard,
        }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_count("low_window", self.low_window, 0, 1_000_000)?;
        check_count("smooth_part", self.smooth_part, 1, 1_000)?;
        self.s_max.map_or(Ok(()), |s_max| check_count("s_max", s_max, 1, 10_000))?;
        self.beta.map_or(Ok(()), |beta| check_range("beta", beta, 0.1, 0.99))
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Bic> {
        let paper = setup.rules == Rules::Rfc;
        Windowed::new(setup, self.slow_start, |window| {
            if setup.rules == Rules::Linux2620 {
                // Linux 2.6.20: initial_ssthresh.
                window.ssthresh = 100;
            }
            let beta = self.beta.unwrap_or(if paper { 7.0 / 8.0 } else { 819.0 / 1024.0 });
            Bic {
                low_window: self.low_window,
                s_max: self.s_max.unwrap_or(if paper { 32 } else { 16 }),
                beta: (beta * 1024.0).round() as u64,
                fast_convergence: self.fast_convergence,
                smooth_part: self.smooth_part,
                ratio: (!paper).then(AckRatio::default),
                last_max: 0,
                last_update: None,
                per: 1,
            }
        })
    }
}

/// Linux: `BICTCP_B`: each step of the search covers 1 / B of the distance to the maximum.
const B: u32 = 4;
/// Linux: HZ / 32.
const UPDATE_MS: u64 = 1_000 / 32;

/// BIC.
#[derive(Debug)]
pub struct Bic {
    low_window: u32,
    s_max: u32,
    /// The factor of a reduction, in 1/1024.
    beta: u64,
    fast_convergence: bool,
    smooth_part: u32,
    ratio: Option<AckRatio>,
    /// The window before the last loss in segments; 0 if there was none.
    last_max: u32,
    /// The time in ms at which `per` was computed, and the window for which it was.
    last_update: Option<(u64, u32)>,
    /// The window grows by one segment for this many acknowledged ones.
    per: u32,
}

impl Bic {
    /// Linux: `bictcp_update`.
    fn update(&mut self, now: Time, cwnd: u32) {
        let ms = now.as_nanos() / 1_000_000;
        if self.last_update.is_some_and(|(last, window)| window == cwnd && ms - last <= UPDATE_MS) {
            return;
        }
        self.last_update = Some((ms, cwnd));
        if cwnd <= self.low_window {
            self.per = cwnd;
            return;
        }
        let smooth = (cwnd.saturating_mul(self.smooth_part) / B).max(1);
        let linear = cwnd / self.s_max;
        let mut per = if cwnd < self.last_max {
            let distance = (self.last_max - cwnd) / B;
            if distance > self.s_max {
                linear
            } else if distance <= 1 {
                smooth
            } else {
                cwnd / distance
            }
        } else if cwnd < self.last_max.saturating_add(B) {
            smooth
        } else if cwnd < self.last_max.saturating_add(self.s_max * (B - 1)) {
            cwnd.saturating_mul(B - 1) / (cwnd - self.last_max)
        } else {
            linear
        };
        if self.last_max == 0 {
            // Without a known maximum, the window grows by at least 5 % per round.
            per = per.min(20);
        }
        self.per = self.ratio.map_or(per.max(1), |ratio| ratio.scaled(per));
    }
}

impl Algorithm for Bic {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        if let Some(ratio) = &mut self.ratio {
            ratio.on_ack(window, event);
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if let Some(acked) = window.beyond_slow_start(event) {
            self.update(event.now, window.cwnd);
            window.add_one_per(self.per, acked);
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        let cwnd = u64::from(window.cwnd);
        let shrinks = self.fast_convergence && window.cwnd < self.last_max;
        self.last_max = if shrinks { (cwnd * (1024 + self.beta) / 2048) as u32 } else { window.cwnd };
        if window.cwnd <= self.low_window {
            return window.half();
        }
        (cwnd * self.beta / 1024) as u32
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            // Linux: bictcp_reset.
            self.last_max = 0;
            self.last_update = None;
            self.per = 1;
            self.ratio = self.ratio.map(|_| AckRatio::default());
        }
    }
}

#[cfg(test)]
impl Bic {
    pub(super) fn ack_ratio(&self) -> Option<u32> {
        self.ratio.map(AckRatio::sixteenths)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rounds, build, cwnd, lose};
    use super::*;
    use crate::time::Duration;

    /// The windows after a loss by the paper's rules, without a correction for delayed acknowledgements.
    fn rounds_after_loss(initial: u32, rounds: usize) -> Vec<u32> {
        let config = Config { s_max: Some(16), beta: Some(819.0 / 1024.0), ..Config::default() };
        let mut control = build(config, Rules::Rfc, initial);
        let mut path = Rounds::new(Duration::from_millis(100));
        lose(&mut control, path.now);
        let mut windows = vec![cwnd(&control)];
        for _ in 0..rounds {
            path.round(&mut control);
            windows.push(cwnd(&control));
        }
        windows
    }

    #[test]
    fn goes_a_quarter_of_the_way_to_the_last_maximum() {
        let windows = rounds_after_loss(200, 8);
        // 200 x 819 / 1024; then 1/4 of the distance, 10 at first, each round. The goal moves with every
        // segment, so the distance shrinks by e^(-1/4); whole numbers make it a little slower.
        assert_eq!(windows[0], 159);
        for (round, &window) in windows.iter().enumerate() {
            let expected = 200.0 - 41.0 * libm::exp(-(round as f64) / 4.0);
            assert!((f64::from(window) - expected).abs() <= 2.0, "{windows:?}");
        }
        assert!(windows.iter().all(|&window| window <= 200));
    }

    #[test]
    fn grows_linearly_far_below_the_maximum() {
        let windows = rounds_after_loss(1_000, 4);
        assert_eq!(windows[0], 799);
        for pair in windows.windows(2) {
            // The window grows by one for each cwnd / 16, rounded down.
            assert!((16..=17).contains(&(pair[1] - pair[0])), "{windows:?}");
        }
    }

    #[test]
    fn fast_convergence_and_the_low_window() {
        let mut control = build(Config::default(), Rules::Linux6, 100);
        let now = Time::from_secs(1);
        lose(&mut control, now);
        assert_eq!(cwnd(&control), 79);
        lose(&mut control, now);
        assert_eq!(cwnd(&control), 63, "and the maximum is 79 x (1024 + 819) / 2048");
        let mut control = build(Config::default(), Rules::Linux6, 14);
        lose(&mut control, now);
        assert_eq!(cwnd(&control), 7, "Reno up to the low window");
    }

    #[test]
    fn growth_is_doubled_for_delayed_acknowledgements() {
        let mut control = build(Config::default(), Rules::Linux2620, 100);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.ack(&mut control, 1, rounds.rtt);
        assert_eq!(cwnd(&control), 101, "the first threshold is 100");
        for _ in 0..200 {
            rounds.ack(&mut control, 1, rounds.rtt);
        }
        // Without a maximum it is one per 101 / 16 = 6 segments, divided by a ratio that stays at 31/16 when
        // every segment is acknowledged: 3, and 2.6.20 needs one acknowledgement more.
        assert!((140..=150).contains(&cwnd(&control)), "{}", cwnd(&control));
    }
}
