//! HighSpeed TCP: with a large window it grows faster and shrinks less, so that high rates need not
//! unrealistically few losses.
//!
//! RFC 3649. Linux's form (`tcp_highspeed.c`) takes growth and decrease from the table of the RFC's appendix
//! B, once per acknowledgement; the RFC's form computes them from section 5's equations, for what the
//! transport counts, which is acknowledgements there too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::window::{Algorithm, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup};

/// Settings of HighSpeed TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HighspeedConfig")]
pub struct Config {
    /// The slow start; default "standard"; RFC 3649 recommends "limited".
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

    pub(super) fn build(self, setup: &Setup) -> Windowed<Highspeed> {
        Windowed::new(setup, self.slow_start, |_| Highspeed { row: 0, fraction: 0.0 })
    }
}

/// RFC 3649 section 5: `Low_Window`, `High_Window`, `High_Decrease`.
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// RFC 3649 appendix B: up to the n-th of these windows the growth is n segments per round.
const WINDOWS: [u32; 72] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778, 4177, 4596,
    5036, 5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082, 12834, 13614, 14424,
    15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402, 25618, 26881, 28193, 29557, 30975,
    32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694, 46776, 48961, 51258, 53677, 56230, 58932, 61799,
    64851, 68113, 71617, 75401, 79517, 84035, 89053,
];

/// RFC 3649 section 5: b(w), the share of the window that a loss takes.
fn decrease(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 0.5;
    }
    let position = libm::log(window / LOW_WINDOW) / libm::log(HIGH_WINDOW / LOW_WINDOW);
    (HIGH_DECREASE - 0.5) * position + 0.5
}

/// RFC 3649 section 5: a(w), the growth in segments per round.
fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let b = decrease(window);
    let loss = 0.078 / libm::pow(window, 1.2);
    (window * window * loss * 2.0 * b / (2.0 - b)).max(1.0)
}

/// HighSpeed TCP.
#[derive(Debug)]
pub struct Highspeed {
    /// The row of [`WINDOWS`] that the window has come to.
    row: usize,
    /// The part of the window below one segment, in the RFC's form.
    fraction: f64,
}

impl Algorithm for Highspeed {
    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        let slow_start = window.in_slow_start();
        let Some(acked) = window.beyond_slow_start(event) else { return };
        if window.rules == Rules::Rfc {
            let cwnd = f64::from(window.cwnd) + self.fraction;
            let grown = cwnd + increase(cwnd) / cwnd * f64::from(acked);
            window.set(grown as u32);
            self.fraction = grown - grown.floor();
        } else if !slow_start {
            while self.row < WINDOWS.len() - 1 && window.cwnd > WINDOWS[self.row] {
                self.row += 1;
            }
            while self.row > 0 && window.cwnd <= WINDOWS[self.row - 1] {
                self.row -= 1;
            }
            window.count = window.count.saturating_add(self.row as u32 + 1);
            if window.count >= window.cwnd {
                window.count -= window.cwnd;
                window.set(window.cwnd + 1);
            }
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        if window.rules == Rules::Rfc {
            let cwnd = f64::from(window.cwnd) + self.fraction;
            self.fraction = 0.0;
            (cwnd * (1.0 - decrease(cwnd))) as u32
        } else {
            // Linux's table has the decrease in 1/256.
            let per_256 = (decrease(f64::from(WINDOWS[self.row])) * 256.0) as u64;
            window.cwnd - ((u64::from(window.cwnd) * per_256) >> 8) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose};
    use super::*;
    use crate::time::Duration;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn the_equations_give_the_table_of_appendix_b() {
        // w, a(w), b(w) as printed there.
        for (window, a, b) in [
            (38, 1, 0.50),
            (118, 2, 0.44),
            (1_058, 8, 0.33),
            (10_661, 30, 0.21),
            (84_035, 71, 0.10),
            (89_053, 72, 0.10),
        ] {
            assert!((increase(f64::from(window)) - f64::from(a)).abs() < 0.01 * f64::from(a), "a({window})");
            assert!((decrease(f64::from(window)) - b).abs() < 0.005, "b({window})");
            assert_eq!(WINDOWS[a as usize - 1], window);
        }
    }

    #[test]
    fn grows_and_shrinks_by_the_table() {
        let mut control = build(Config::default(), Rules::Linux6, 1_000);
        let mut rounds = Rounds::new(RTT);
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 500, "the row follows the window only in congestion avoidance");
        rounds.round(&mut control);
        // 495 < 500 <= 663: 6 segments per round, less what the window grows within it.
        assert_eq!(cwnd(&control), 505);
        lose(&mut control, rounds.now);
        // b(663) = 0.351, 89/256.
        assert_eq!(cwnd(&control), 505 - 505 * 89 / 256);
    }

    /// RFC 3649 section 5, equation 1: w = 0.12 / p^0.835.
    #[test]
    fn the_mean_window_follows_the_response_function() {
        let path = Path { loses: |n| n % 10_000 == 9_999, ..Path::new(1e6, RTT, usize::MAX) };
        let mut sender = Sender::new(build(Config::default(), Rules::Rfc, 100), path);
        sender.run(Duration::from_secs(300));
        let window = sender.goodput_after(Duration::from_secs(50)) * RTT.as_secs_f64();
        let law = 0.12 / libm::pow(1e-4, 0.835);
        assert!((window / law - 1.0).abs() < 0.12, "{window} instead of {law}");
    }
}
