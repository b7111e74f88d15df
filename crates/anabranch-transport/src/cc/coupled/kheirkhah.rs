//! The couplings of M. Kheirkhah's model of Multipath TCP for ns-3 (`MpTcpSocketBase::OpenCWND`, University
//! of Sussex, 2013): `Linked_Increases`, `RTT_Compensator` and `Fully_Coupled`.
//!
//! Every acknowledgement of new data adds `alpha mss^2 / W` bytes, `W` being the sum of the windows and alpha
//! that of RFC 6356 equation 2, computed anew each time. `Fully_Coupled` has no alpha, and `RTT_Compensator`
//! adds `mss^2 / cwnd` at most, which makes it the rule of RFC 6356 section 3. Increases are whole bytes, at
//! least one.
//!
//! Known deviation from RFC 6356: an acknowledgement counts as one segment, however much it acknowledges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Windows};
use crate::flow::PathId;

/// Settings of the couplings of Kheirkhah's model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KheirkhahCouplingConfig")]
pub struct Config {}

/// The coupling, by its name in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    FullyCoupled,
    LinkedIncreases,
    RttCompensator,
}

/// A coupling of Kheirkhah's model.
#[derive(Debug)]
pub struct Kheirkhah {
    rule: Rule,
}

impl Kheirkhah {
    pub(super) const fn new(rule: Rule) -> Self {
        Self { rule }
    }
}

/// `alpha / W`, in 1 / bytes (RFC 6356 equation 2); [`None`] before there is a round-trip time.
fn linked(windows: &Windows) -> Option<f64> {
    let (best, sum) = windows.linked();
    (sum > 0.0).then(|| best / (sum * sum))
}

impl Coupling for Kheirkhah {
    fn avoidance(&self, windows: &Windows, path: PathId, _acked: u32) -> f64 {
        let window = windows.at(path);
        let mss = f64::from(window.mss);
        let alone = 1.0 / f64::from(window.cwnd);
        let per_byte = match self.rule {
            // `calculateTotalCWND`; in the other two functions the sum is part of both numerator and
            // denominator.
            Rule::FullyCoupled => {
                1.0 / windows.iter().map(|(_, other)| f64::from(other.counted())).sum::<f64>()
            }
            Rule::LinkedIncreases => linked(windows).unwrap_or(alone),
            Rule::RttCompensator => linked(windows).unwrap_or(alone).min(alone),
        };
        (mss * mss * per_byte).floor().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, NOW, avoiding};
    use super::super::{Config as Coupled, CoupledCongestionControl as _};
    use super::*;
    use crate::cc::AckEvent;

    const FULL: Coupled = Coupled::FullyCoupled(Config {});
    const LINKED: Coupled = Coupled::LinkedIncreases(Config {});
    const COMPENSATED: Coupled = Coupled::RttCompensator(Config {});

    /// The bytes that an acknowledgement of `acked` bytes adds to the window of this path, with windows of 10
    /// and 30 segments and round-trip times of 10 and 100 ms.
    fn added(config: &Coupled, path: u8, acked: u32) -> u32 {
        let mut control = avoiding(config, &[(10, 10), (30, 100)]);
        let before = control.limits(PathId(path)).cwnd;
        control.on_ack(PathId(path), &AckEvent::new(NOW, acked, before));
        control.limits(PathId(path)).cwnd - before
    }

    #[test]
    fn one_acknowledgement_adds_what_the_formula_says() {
        // alpha / W = (10/0.01^2) / (10/0.01 + 30/0.1)^2 = 0.05917 per segment on either path; a segment in
        // 10 or 30 alone; and one in 40 of both.
        for (config, first, second) in [(&LINKED, 59, 59), (&COMPENSATED, 59, 33), (&FULL, 25, 25)] {
            assert_eq!((added(config, 0, MSS), added(config, 1, MSS)), (first, second), "{config:?}");
            // Two segments, or half of one, count as one acknowledgement.
            assert_eq!((added(config, 0, 2 * MSS), added(config, 0, 500)), (first, first), "{config:?}");
        }
    }

    #[test]
    fn increases_are_whole_bytes_and_at_least_one() {
        // A segment of 1000 in 3000 segments is a third of a byte.
        for config in [LINKED, COMPENSATED, FULL] {
            let mut control = avoiding(&config, &[(3_000, 100)]);
            for bytes in 1..=3 {
                control.on_ack(PathId(0), &AckEvent::new(NOW, MSS, 3_000 * MSS));
                assert_eq!(control.limits(PathId(0)).cwnd, 3_000 * MSS + bytes, "{config:?}");
            }
        }
    }

    #[test]
    fn before_there_is_a_round_trip_time_a_path_grows_alone() {
        use super::super::PathSetup;
        use super::super::frame::testing::setup;
        for (config, expected) in [(LINKED, 50), (COMPENSATED, 50), (FULL, 25)] {
            let mut control = config.build();
            for path in [PathId(0), PathId(1)] {
                control.add_path(path, &PathSetup { initial_ssthresh: 1, ..setup(20) });
            }
            control.on_ack(PathId(0), &AckEvent::new(NOW, MSS, 20 * MSS));
            assert_eq!(control.limits(PathId(0)).cwnd, 20 * MSS + expected, "{config:?}");
        }
    }
}
