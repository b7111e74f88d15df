//! Vegas: holds between alpha and beta packets in the queue of the bottleneck.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet", 1995, in
//! the form of Linux's `tcp_vegas.c`, under all rules.
//!
//! Known deviations from the paper, all Linux's: slow start doubles in every round, not in every other
//! one; losses are found and answered as in Reno; the rate is the window over the smallest round-trip
//! time of the round. Linux 2.6.20 came with narrower bounds than the default here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::RoundTrips;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Setup, check_count};
use crate::time::{Duration, Time};

/// Settings of Vegas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "VegasConfig")]
pub struct Config {
    /// The window grows with fewer packets than this in the queue; default 2.
    pub alpha: u32,
    /// The window shrinks with more packets than this in the queue; default 4.
    pub beta: u32,
    /// Slow start ends with more packets than this in the queue; default 1.
    pub gamma: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { alpha: 2, beta: 4, gamma: 1 }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_count("alpha", self.alpha, 1, 1_000)?;
        check_count("beta", self.beta, self.alpha, 1_000)?;
        check_count("gamma", self.gamma, 0, 1_000)
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Vegas> {
        let Self { alpha, beta, gamma } = *self;
        Windowed::new(setup, SlowStart::Standard, |_| Vegas {
            alpha,
            beta,
            gamma,
            times: RoundTrips::default(),
        })
    }
}

/// Vegas.
#[derive(Debug)]
pub struct Vegas {
    alpha: u32,
    beta: u32,
    gamma: u32,
    times: RoundTrips,
}

impl Vegas {
    /// Adjusts the window once per round (Linux: `tcp_vegas_cong_avoid`).
    fn adjust(&self, window: &mut Window, event: &AckEvent) {
        let (rtt, base) = (u64::from(self.times.min), u64::from(self.times.base));
        let cwnd = u64::from(window.cwnd);
        // The window that would keep the rate without a queue, and how many packets are in the queue.
        let target = (cwnd * base / rtt) as u32;
        let queued = cwnd * (rtt - base) / base;
        if window.is_below_threshold() {
            if queued > u64::from(self.gamma) {
                window.set(window.cwnd.min(target.saturating_add(1)));
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                window.slow_start(event);
            }
        } else if queued > u64::from(self.beta) {
            window.set(window.cwnd - 1);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < u64::from(self.alpha) {
            window.set(window.cwnd + 1);
        }
        window.set(window.cwnd.max(2));
        window.ssthresh = window.current_ssthresh();
    }
}

impl Algorithm for Vegas {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        self.times.on_ack(event, event.is_open && window.state == State::Open);
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if !self.times.enabled {
            window.grow_as_reno(event);
        } else if self.times.passed(event) {
            if self.times.suffice() {
                self.adjust(window, event);
            } else {
                window.grow_as_reno(event);
            }
            self.times.next_round();
        } else if window.is_below_threshold() {
            window.slow_start(event);
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        window.half()
    }

    fn on_start(&mut self, _window: &Window, _now: Time, _idle: Duration) {
        self.times.restart();
    }

    fn on_restart(&mut self, _window: &mut Window) {
        self.times.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::{Path, Sender, build};
    use super::*;

    #[test]
    fn holds_alpha_to_beta_packets_in_the_queue() {
        for (alpha, beta) in [(2, 4), (10, 14)] {
            let path = Path::new(1_000.0, Duration::from_millis(100), 1_000);
            let bdp = path.bdp();
            let control = build(Config { alpha, beta, gamma: 1 }, Rules::Linux6, 10);
            let mut sender = Sender::new(control, path);
            // Slow start overshoots, and the queue goes down by one packet per round.
            let skip = Duration::from_secs(90);
            sender.run(Duration::from_secs(120));
            let queue: Vec<f64> = sender.after(skip).map(|sample| sample.cwnd - bdp).collect();
            // In both directions, the packet that is being sent counts as delay, not as queue.
            let (low, high) = (f64::from(alpha) - 1.0, f64::from(beta) + 2.0);
            let least = queue.iter().copied().fold(f64::MAX, f64::min);
            let most = queue.iter().copied().fold(0.0, f64::max);
            assert!(least >= low && most <= high, "{least} to {most}");
            assert!(sender.goodput_after(skip) > 995.0);
            assert_eq!(sender.drops, 0);
        }
    }

    #[test]
    fn the_bounds_are_ordered() {
        let message = Config { alpha: 5, beta: 4, gamma: 1 }.check().unwrap_err();
        assert_eq!(message, "beta = 4 is out of range; it must be from 5 to 1000");
    }
}
