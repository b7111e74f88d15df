//! Linked increases (RFC 6356): all paths together take no more at a shared bottleneck than one
//! connection would, and at least what the best path alone would give.
//!
//! The aggressiveness alpha is computed anew with every acknowledgement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Windows};
use crate::flow::PathId;

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
        // Section 3: at most as a standard connection would.
        let alone = window.standard_growth(acked);
        if window.srtt.is_none() {
            return alone;
        }
        // Section 3 equations 1 and 2, with alpha / cwnd_total as one factor.
        let (best, sum) = windows.linked();
        (f64::from(acked) * f64::from(window.mss) * best / (sum * sum)).min(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, NOW, avoiding, lose, round};
    use super::super::{Config as Coupled, CoupledCongestionControl as _, resource_pooling};
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

    /// A stream of uniform numbers (`SplitMix64`, Steele et al., OOPSLA 2014).
    struct Losses(u64);

    impl Losses {
        fn is_lost(&mut self, probability: f64) -> bool {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 <= probability
        }
    }

    const LOSS: f64 = 0.0001;
    const ROUNDS: u32 = 40_000;

    /// Segments per round that all paths carry together, with the same round-trip time and independent
    /// losses, of which each window has at most one. `acked` and `lost` change the windows, in segments.
    fn carried<C>(
        paths: usize,
        control: &mut C,
        window: impl Fn(&C, usize) -> f64,
        mut acked: impl FnMut(&mut C, usize),
        mut lost: impl FnMut(&mut C, usize),
    ) -> f64 {
        let mut losses = Losses(1);
        let mut segments = 0_u64;
        for _ in 0..ROUNDS {
            for path in 0..paths {
                let sent = window(control, path) as u64;
                segments += sent;
                let drops = (0..sent).filter(|_| losses.is_lost(LOSS)).count();
                if drops > 0 {
                    lost(control, path);
                } else {
                    (0..sent).for_each(|_| acked(control, path));
                }
            }
        }
        segments as f64 / f64::from(ROUNDS)
    }

    fn carried_by(config: &Coupled, paths: usize) -> f64 {
        carried(
            paths,
            &mut avoiding(config, &vec![(20, 100); paths]),
            |control, path| f64::from(control.limits(PathId(path as u8)).cwnd) / f64::from(MSS),
            |control, path| {
                let path = PathId(path as u8);
                let cwnd = control.limits(path).cwnd;
                control.on_ack(path, &AckEvent::new(NOW, MSS, cwnd));
            },
            |control, path| lose(control, PathId(path as u8)),
        )
    }

    /// The same with windows in fractions of a segment that grow by `alpha(windows) / total`.
    fn carried_with(alpha: impl Fn([f64; 2]) -> f64) -> f64 {
        carried(
            2,
            &mut [20.0; 2],
            |windows, path| windows[path],
            |windows, path| {
                let total: f64 = windows.iter().sum();
                windows[path] += (alpha(*windows) / total).min(1.0 / windows[path]);
            },
            |windows, path| windows[path] = (windows[path] / 2.0).max(1.0),
        )
    }

    #[test]
    fn two_paths_with_independent_losses_carry_a_little_more_than_one() {
        let one = carried_by(&Coupled::Lia(Config {}), 1);
        // Equal paths: alpha is total * max / total^2, one half where the windows are equal. With that, the
        // two paths carry about as much as one.
        let steady = carried_with(|_| 0.5) / one;
        assert!((0.92..1.02).contains(&steady), "{steady}");
        // But each window has its own sawtooth. The larger one has more than half of the total, so alpha,
        // which follows the current windows, is larger than one half, and the two carry some 9 % more than
        // one.
        let formula = carried_with(|[a, b]| a.max(b) / (a + b)) / one;
        assert!((1.05..1.13).contains(&formula), "{formula}");
        let two = carried_by(&Coupled::Lia(Config {}), 2) / one;
        assert!((two / formula - 1.0).abs() < 0.02, "{two} of {formula}");
        // Resource pooling has no such term.
        let v2 = Coupled::ResourcePooling(resource_pooling::Config::default());
        let pooled = carried_by(&v2, 2) / one;
        assert!((0.97..1.07).contains(&pooled), "{pooled}");
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
