//! Hybla: grows as a connection with a short round-trip time would, on a path with a long one.
//!
//! C. Caini and R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", 2004, as in
//! Linux's `tcp_hybla.c`, under all rules: with rho = RTT / 25 ms, at least 1, the window grows by
//! 2^rho - 1 segments per acknowledgement in slow start and by rho^2 per window afterwards.
//!
//! Linux counts in 1/128 of a segment and in 1/8 of rho, and starts with rho segments once the handshake
//! has measured the round-trip time. Its reference of 25 ms and its limit of 65,535 segments are kept.
//!
//! Known deviations: the smoothed round-trip time is computed here from the samples, with RFC 6298's
//! weight of 1/8. With [`Rules::Rfc`] the connection starts with the transport's initial window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::micros;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, RttEvent, Rules, Setup};
use crate::time::Duration;

/// Settings of Hybla.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HyblaConfig")]
pub struct Config {
    /// The round-trip time of the connection whose growth is the model; default 25 ms.
    pub rtt0: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { rtt0: Duration::from_millis(25) }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&self.rtt0) {
            Ok(())
        } else {
            Err(format!("rtt0 = {} is out of range; it must be from 1 ms to 10 s", self.rtt0))
        }
    }

    pub(super) fn build(self, setup: &Setup) -> Windowed<Hybla> {
        Windowed::new(setup, SlowStart::Standard, |window| {
            if setup.rules != Rules::Rfc {
                // Linux, hybla_init, before it knows the round-trip time.
                window.set(2);
            }
            Hybla { rtt0: micros(self.rtt0), ..Hybla::default() }
        })
    }
}

/// Linux: `snd_cwnd_clamp` in `hybla_init`.
const LIMIT: u32 = 65_535;
/// 128 x 2^(n / 8) for n from 0 to 7 (Linux: `hybla_fraction`).
const POWERS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];

/// Hybla.
#[derive(Debug, Default)]
pub struct Hybla {
    rtt0: u32,
    /// Smoothed round-trip time in us, times 8; 0 if there is none.
    srtt: u32,
    /// The smallest smoothed round-trip time.
    least_srtt: u32,
    /// The ratio of the round-trip time to `rtt0`, times 8.
    rho: u32,
    /// The fraction of the growth that has not been applied, in 1/128 of a segment.
    cents: u32,
    /// Whether data has been acknowledged.
    started: bool,
}

impl Hybla {
    fn on_sample(&mut self, rtt: Duration) {
        let rtt = micros(rtt).clamp(1, u32::MAX / 16);
        self.srtt = if self.srtt == 0 { 8 * rtt } else { self.srtt - self.srtt / 8 + rtt };
        if self.rho == 0 || self.srtt < self.least_srtt {
            self.least_srtt = self.srtt;
            // Linux, hybla_recalc_param.
            self.rho = (self.srtt / self.rtt0).max(8);
        }
    }
}

impl Algorithm for Hybla {
    fn on_rtt(&mut self, window: &mut Window, event: &RttEvent) {
        if !self.started && self.rho == 0 {
            self.on_sample(event.rtt);
            if window.rules != Rules::Rfc {
                window.set(self.rho / 8);
            }
        }
    }

    fn on_acked(&mut self, _window: &mut Window, event: &AckEvent) {
        self.started = true;
        if let Some(rtt) = event.rtt {
            self.on_sample(rtt);
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if !event.is_window_limited {
            return;
        }
        if !event.is_open || window.state != State::Open {
            return window.grow_as_reno(event);
        }
        let rho = self.rho.max(8);
        let slow_start = window.is_below_threshold();
        let increment = if slow_start {
            // 2^rho - 1.
            (1u32 << (rho / 8).min(16)) * POWERS[(rho % 8) as usize] - 128
        } else {
            // rho^2 / cwnd; times 128 / 64.
            let increment = (rho.saturating_mul(rho).saturating_mul(2)) / window.cwnd;
            if increment < 128 {
                window.count = window.count.saturating_add(1);
            }
            increment
        };
        let mut cwnd = window.cwnd.saturating_add(increment / 128);
        self.cents += increment % 128;
        if self.cents >= 128 {
            cwnd += 1;
            self.cents -= 128;
            window.count = 0;
        }
        // Linux: a window so large that the increment is zero still grows by one per window.
        if increment == 0 && window.count >= cwnd {
            cwnd += 1;
            window.count = 0;
        }
        if slow_start {
            cwnd = cwnd.min(window.ssthresh);
        }
        window.set(cwnd.min(LIMIT));
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        window.half()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rounds, build, cwnd, lose};
    use super::super::{CongestionControl as _, Controller};
    use super::*;
    use crate::time::Time;

    fn after_handshake(rtt: Duration) -> Controller {
        let mut control = build(Config::default(), Rules::Linux6, 10);
        control.on_rtt_sample(&RttEvent::new(Time::ZERO, rtt));
        control
    }

    #[test]
    fn starts_with_rho_segments() {
        assert_eq!(cwnd(&after_handshake(Duration::from_millis(40))), 1);
        assert_eq!(cwnd(&after_handshake(Duration::from_millis(100))), 4);
        assert_eq!(cwnd(&after_handshake(Duration::from_millis(550))), 22);
    }

    #[test]
    fn slow_start_grows_by_two_to_the_rho_less_one() {
        // rho = 2: the window grows by 3 segments for each one.
        let mut control = after_handshake(Duration::from_millis(50));
        let mut rounds = Rounds::new(Duration::from_millis(50));
        assert_eq!(cwnd(&control), 2);
        rounds.round(&mut control);
        assert_eq!(cwnd(&control), 2 + 2 * 3);
        // rho = 1.5: 2^1.5 - 1 = 1.828, in 1/128: 181 x 2 - 128 = 234, so 100 acknowledgements give 182.8.
        let mut control = after_handshake(Duration::from_micros(37_500));
        let mut rounds = Rounds::new(Duration::from_micros(37_500));
        let begin = cwnd(&control);
        for _ in 0..100 {
            rounds.ack(&mut control, 1, Duration::from_micros(37_500));
        }
        assert_eq!(cwnd(&control), begin + 182);
    }

    #[test]
    fn a_window_at_its_threshold_grows_in_every_version() {
        let mut control = build(Config::default(), Rules::Linux2620, 10);
        let mut rounds = Rounds::new(Duration::from_millis(50));
        rounds.round(&mut control);
        rounds.round(&mut control);
        lose(&mut control, rounds.now);
        let begin = cwnd(&control);
        for _ in 0..3 {
            rounds.round(&mut control);
        }
        assert!(cwnd(&control) > begin + 6, "{} after {begin}", cwnd(&control));
    }

    #[test]
    fn avoidance_grows_by_rho_squared_per_round() {
        for (ms, rho) in [(25, 1), (50, 2), (100, 4)] {
            let rtt = Duration::from_millis(ms);
            let mut control = after_handshake(rtt);
            let mut rounds = Rounds::new(rtt);
            while cwnd(&control) < 400 {
                rounds.ack(&mut control, 1, rtt);
            }
            lose(&mut control, rounds.now);
            let begin = cwnd(&control);
            rounds.round(&mut control);
            let growth = cwnd(&control) - begin;
            // The increment per acknowledgement is rounded down to 1/128.
            assert!(growth <= rho * rho && growth + 2 >= rho * rho, "rho {rho}: {growth}");
        }
    }
}
