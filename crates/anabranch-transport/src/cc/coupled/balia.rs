//! BALIA, balanced linked adaptation (Q. Peng, A. Walid, J. Hwang and S. Low, "Multipath TCP: analysis,
//! design and implementation", IEEE/ACM Transactions on Networking 24(1), 2016;
//! draft-walid-mptcp-congestion-control-04).
//!
//! With the rate `x = cwnd / rtt` of each path, and `alpha` the largest of these over the path's own, an
//! acknowledged segment adds `x / rtt / (sum of x)^2 * (1 + alpha) / 2 * (4 + alpha) / 5` segments, and a
//! loss takes `min(alpha, 1.5)` halves of the window.
//!
//! Known deviation: the authors' Linux module rounds alpha down to a whole number for what a loss takes,
//! which the paper does not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Windows};
use crate::flow::PathId;

/// Settings of BALIA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "BaliaConfig")]
pub struct Config {}

/// A loss takes at most this many halves of the window.
const MOST_HALVES: f64 = 1.5;

/// BALIA.
#[derive(Debug)]
pub struct Balia;

/// The largest rate of all paths divided by that of this path; 1 before it has been measured.
fn alpha(windows: &Windows, path: PathId) -> f64 {
    let largest = windows.iter().filter_map(|(_, window)| window.rate()).fold(0.0, f64::max);
    windows.at(path).rate().map_or(1.0, |rate| largest / rate)
}

impl Coupling for Balia {
    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        let window = windows.at(path);
        let (Some(rate), Some(srtt)) = (window.rate(), window.srtt) else {
            return window.standard_growth(acked);
        };
        let bytes = f64::from(acked) * f64::from(window.mss);
        let sum = windows.total_rate();
        let alpha = alpha(windows, path);
        bytes * rate / srtt / (sum * sum) * f64::midpoint(1.0, alpha) * ((4.0 + alpha) / 5.0)
    }

    fn reduced(&self, windows: &Windows, path: PathId, least: u32) -> f64 {
        let window = windows.at(path);
        let cwnd = f64::from(window.cwnd);
        let left = cwnd - cwnd / 2.0 * alpha(windows, path).min(MOST_HALVES);
        // Draft, section 3.1: with more than one path, the window may shrink to one segment; otherwise as a
        // standard sender.
        if windows.iter().count() > 1 { left } else { left.max(f64::from(least)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, avoiding, lose, round};
    use super::super::{Config as Coupled, CoupledCongestionControl as _};
    use super::*;

    const BALIA: Coupled = Coupled::Balia(Config {});
    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    #[test]
    fn equal_paths_grow_as_one_connection_together() {
        // alpha is 1: (w/r^2) / (2w/r)^2 = 1/4w per segment.
        let mut control = avoiding(&BALIA, &[(20, 100), (20, 100)]);
        let grown = round(&mut control, FIRST);
        assert!((grown - 0.25).abs() < 0.01, "{grown}");
    }

    #[test]
    fn the_slower_path_grows_by_more_than_its_share() {
        // Rates 600 and 100 segments per second: alpha is 1 and 6. Per round the first path grows by
        // 60 * 6000 / 700^2 = 0.735, the second by 20 * 500 / 700^2 * 3.5 * 2 = 0.143 segments.
        let rtts = [(60, 100), (20, 200)];
        let first = round(&mut avoiding(&BALIA, &rtts), FIRST);
        assert!((first - 0.735).abs() < 0.01, "{first}");
        let second = round(&mut avoiding(&BALIA, &rtts), SECOND);
        assert!((second - 0.143).abs() < 0.01, "{second}");
    }

    #[test]
    fn a_loss_takes_half_of_the_best_path_and_up_to_three_quarters_of_the_others() {
        let mut control = avoiding(&BALIA, &[(60, 100), (48, 100), (40, 200)]);
        for path in [FIRST, SECOND, PathId(2)] {
            let before = control.limits(path).cwnd;
            lose(&mut control, path);
            let left = f64::from(control.limits(path).cwnd) / f64::from(before);
            // The first loss leaves 30, 48 and 40: alpha 1, 1 and 2.4.
            let expected = if path == PathId(2) { 0.25 } else { 0.5 };
            assert!((left - expected).abs() < 1e-3, "{path:?}: {left}");
        }
        // alpha = 60 / 48 = 1.25: the window loses 0.625 of itself.
        let mut control = avoiding(&BALIA, &[(60, 100), (48, 100)]);
        lose(&mut control, SECOND);
        assert_eq!(control.limits(SECOND).cwnd, 18 * MSS);
    }

    #[test]
    fn beside_others_a_window_may_fall_to_one_segment() {
        let mut control = avoiding(&BALIA, &[(60, 100), (3, 100)]);
        lose(&mut control, SECOND);
        assert_eq!(control.limits(SECOND).cwnd, MSS);
        let mut control = avoiding(&BALIA, &[(3, 100)]);
        lose(&mut control, FIRST);
        assert_eq!(control.limits(FIRST).cwnd, 2 * MSS);
    }
}
