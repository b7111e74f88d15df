//! Veno: tells random losses from congestion by the queue that Vegas would see.
//!
//! C. P. Fu and S. C. Liew, "TCP Veno: TCP enhancement for transmission over wireless access networks",
//! 2003, as in Linux's `tcp_veno.c`, under all rules: a loss with fewer than beta packets in the queue takes
//! a fifth of the window instead of half; with more the window grows only in every other round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::RoundTrips;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Setup, check_range};
use crate::time::{Duration, Time};

/// Settings of Veno.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "VenoConfig")]
pub struct Config {
    /// The packets in the queue that mean congestion, in steps of 1/2; default 3.
    pub beta: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { beta: 3.0 }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("beta", self.beta, 0.5, 1_000.0)
    }

    pub(super) fn build(self, setup: &Setup) -> Windowed<Veno> {
        Windowed::new(setup, SlowStart::Standard, |_| Veno {
            beta: (self.beta * 2.0).round() as u64,
            times: RoundTrips::default(),
            queued: 0,
            may_grow: true,
        })
    }
}

/// Veno.
#[derive(Debug)]
pub struct Veno {
    /// In half packets, like `queued` (Linux: `V_PARAM_SHIFT`).
    beta: u64,
    times: RoundTrips,
    queued: u64,
    may_grow: bool,
}

impl Algorithm for Veno {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        // Linux's Veno counts its samples from the beginning of the connection.
        let count = self.times.count.saturating_add(u32::from(event.rtt.is_some()));
        self.times.on_ack(event, event.is_open && window.state == State::Open);
        self.times.count = count;
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if !self.times.enabled {
            return window.grow_as_reno(event);
        }
        if !event.is_window_limited {
            return;
        }
        if self.times.suffice() {
            let (rtt, base) = (u64::from(self.times.min), u64::from(self.times.base));
            let cwnd = u64::from(window.cwnd) * 2;
            self.queued = cwnd - cwnd * base / rtt;
            if let Some(acked) = window.beyond_slow_start(event) {
                if self.queued < self.beta {
                    window.add_one_per(window.cwnd, acked);
                } else if window.count >= window.cwnd {
                    if self.may_grow {
                        window.set(window.cwnd + 1);
                    }
                    self.may_grow = !self.may_grow;
                    window.count = 0;
                } else {
                    window.count = window.count.saturating_add(acked);
                }
            }
            window.set(window.cwnd.max(2));
        } else {
            window.grow_as_reno(event);
        }
        // Linux looks at the delay of each acknowledgement on its own.
        let count = self.times.count;
        self.times.next_round();
        self.times.count = count;
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        if self.queued < self.beta {
            return (u64::from(window.cwnd) * 4 / 5) as u32;
        }
        window.half()
    }

    fn on_start(&mut self, _window: &Window, _now: Time, _idle: Duration) {
        self.times.restart();
        self.may_grow = true;
    }

    fn on_restart(&mut self, _window: &mut Window) {
        self.times.restart();
        self.may_grow = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::{Rounds, build, cwnd, lose};
    use super::*;

    /// A control with a window of 50 segments and a base delay of 100 ms.
    fn veno() -> (super::super::Controller, Rounds) {
        let mut control = build(Config::default(), Rules::Linux6, 50);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.round(&mut control);
        (control, rounds)
    }

    #[test]
    fn a_loss_without_a_queue_takes_a_fifth() {
        let (mut control, rounds) = veno();
        assert_eq!(cwnd(&control), 100);
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 80);
    }

    #[test]
    fn a_loss_with_a_queue_takes_half() {
        let (mut control, mut rounds) = veno();
        lose(&mut control, rounds.now);
        // 80 segments at 104 ms: 80 x 4 / 104 = 3.08 in the queue.
        rounds.ack(&mut control, 1, Duration::from_millis(104));
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 40);
    }

    #[test]
    fn grows_half_as_fast_with_a_queue() {
        let (mut control, mut rounds) = veno();
        lose(&mut control, rounds.now);
        for _ in 0..4 {
            rounds.round(&mut control);
        }
        assert_eq!(cwnd(&control), 84);
        for _ in 0..10 {
            rounds.round_with(&mut control, Duration::from_millis(120));
        }
        assert!((88..=89).contains(&cwnd(&control)), "{}", cwnd(&control));
    }
}
