//! Scalable TCP: grows by a fixed share of the window per round, so that the time between losses does not
//! depend on the rate.
//!
//! T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", 2003: 0.01 segments
//! for each acknowledged one, and 1/8 of the window after a loss. Linux's `tcp_scalable.c`: up to 100
//! segments it grows as Reno; 2.6.20 took 1/50 to make up for delayed acknowledgements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::window::{Algorithm, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup, check_range};

/// Settings of Scalable TCP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ScalableConfig")]
pub struct Config {
    /// Growth in segments for each acknowledged one, rounded to 1 / a whole number; default 0.01, in Linux
    /// 2.6.20 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    /// The share of the window that a loss takes; default 0.125.
    pub b: f64,
    /// The slow start; default "standard".
    pub slow_start: SlowStart,
}

impl Default for Config {
    fn default() -> Self {
        Self { a: None, b: 0.125, slow_start: SlowStart::Standard }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        self.a.map_or(Ok(()), |a| check_range("a", a, 0.000_1, 1.0))?;
        check_range("b", self.b, 0.01, 0.9)
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Scalable> {
        let a = self.a.unwrap_or(if setup.rules == Rules::Linux2620 { 0.02 } else { 0.01 });
        Windowed::new(setup, self.slow_start, |_| Scalable { per: (1.0 / a).round() as u32, b: self.b })
    }
}

/// Scalable TCP.
#[derive(Debug)]
pub struct Scalable {
    per: u32,
    b: f64,
}

impl Algorithm for Scalable {
    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if let Some(acked) = window.beyond_slow_start(event) {
            window.add_one_per(window.cwnd.min(self.per), acked);
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        let cut = f64::from(window.cwnd) * self.b;
        // Linux rounds the cut down, so that it leaves a window of a few segments as it is.
        let cut = if window.rules == Rules::Rfc { libm::ceil(cut) } else { cut };
        window.cwnd - cut as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose};
    use super::*;
    use crate::time::Duration;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn grows_by_a_hundredth_and_shrinks_by_an_eighth() {
        let mut control = build(Config::default(), Rules::Linux6, 800);
        let mut rounds = Rounds::new(RTT);
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 700);
        rounds.round(&mut control);
        assert_eq!(cwnd(&control), 707);
        let mut old = build(Config::default(), Rules::Linux2620, 800);
        lose(&mut old, rounds.now);
        rounds.ack(&mut old, 1, RTT);
        // The first one is still part of slow start; then the window grows by one in 51.
        for _ in 0..51 * 5 {
            rounds.ack(&mut old, 1, RTT);
        }
        assert_eq!(cwnd(&old), 706);
    }

    /// The paper's section 3: the window is a / b / p, here with the round of recovery in which it stands
    /// still: one loss in 1/p packets, growth by a factor of 8/7.
    #[test]
    fn the_mean_window_follows_the_response_function() {
        let path = Path { loses: |n| n % 10_000 == 9_999, ..Path::new(1e6, RTT, usize::MAX) };
        let mut sender = Sender::new(build(Config::default(), Rules::Rfc, 100), path);
        sender.run(Duration::from_secs(300));
        let window = sender.goodput_after(Duration::from_secs(100)) * RTT.as_secs_f64();
        let rounds = libm::log(8.0 / 7.0) / libm::log(1.01) + 1.0;
        let law = 10_000.0 / rounds;
        assert!((window / law - 1.0).abs() < 0.05, "{window} instead of {law}");
        assert!((law / (0.01 / 0.125 * 10_000.0) - 1.0).abs() < 0.15, "near a / b / p");
    }
}
