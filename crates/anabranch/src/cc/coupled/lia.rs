//! Linked increases (RFC 6356): all paths together take no more at a shared bottleneck than one
//! connection would, and at least what the best path alone would give.
//!
//! The aggressiveness alpha is computed anew with every acknowledgement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Windows};
use crate::packet::PathId;

/// Settings of linked increases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LiaConfig")]
pub struct Config {}

/// Linked increases.
#[derive(Debug)]
pub struct Lia;

impl Coupling for Lia {
    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        let window = windows.at(path);
        let bytes = f64::from(acked) * f64::from(window.mss);
        // Section 3: as a standard connection would, at most.
        let alone = bytes / f64::from(window.cwnd);
        if window.srtt.is_none() {
            return alone;
        }
        // Section 3 equations 1 and 2, with alpha / cwnd_total as one factor. A path without a round-trip
        // time carries nothing yet.
        let mut best: f64 = 0.0;
        let mut sum = 0.0;
        for (_, other) in windows.iter() {
            if let (Some(rate), Some(srtt)) = (other.rate(), other.srtt) {
                best = best.max(rate / srtt);
                sum += rate;
            }
        }
        (bytes * best / (sum * sum)).min(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{NOW, avoiding, round};
    use super::super::{Config as Coupled, CoupledCongestionControl as _};
    use super::*;
    use crate::cc::AckEvent;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    #[test]
    fn equal_paths_grow_as_one_connection_together() {
        // alpha = 2w (w/r^2) / (2w/r)^2 = 1/2: a window grows by w alpha / 2w = 1/4 segment per round.
        let mut control = avoiding(&Coupled::Lia(Config {}), &[(20, 100), (20, 100)]);
        let grown = round(&mut control, FIRST);
        assert!((grown - 0.25).abs() < 0.01, "{grown}");
    }

    #[test]
    fn alpha_is_the_example_of_the_formula() {
        // Windows 10 and 30 segments, 10 and 100 ms: max = 10/0.01^2, sum = 10/0.01 + 30/0.1 = 1300;
        // alpha / total = 100000 / 1300^2 = 0.05917 per segment, below 1/10 and above 1/30.
        let mut control = avoiding(&Coupled::Lia(Config {}), &[(10, 10), (30, 100)]);
        let first = control.limits(FIRST).cwnd;
        control.on_ack(FIRST, &AckEvent::new(NOW, 1_000, first));
        assert_eq!(control.limits(FIRST).cwnd - first, 59);
        let second = control.limits(SECOND).cwnd;
        control.on_ack(SECOND, &AckEvent::new(NOW, 1_000, second));
        assert_eq!(control.limits(SECOND).cwnd - second, 33, "capped at 1/30");
    }
}
