//! Delay-centric selection (Kelly et al., "Delay-centric handover in SCTP"; papers of the voip-sctp
//! study): at every update of a smoothed round-trip time, the active path with the smallest one becomes
//! the primary path and takes new data. Failures are handled as by the standard.
//!
//! There are two kinds of hysteresis, both off by default as in the study: a margin by which the other path
//! must be better, and a dwell time after a change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::hysteresis::{Dwell, smallest_srtt};
use super::{Basis, ErrorLimits, PathEvent, PathSelector, PathStatus, Reason, Selection};
use crate::flow::PathId;
use crate::time::{Duration, Time};

/// Settings of delay-centric selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DelayCentricConfig")]
pub struct Config {
    /// How much smaller the other path's smoothed round-trip time must be; default 0 s.
    pub margin: Duration,
    /// How long a new primary path is kept at least, while it is active; default 0 s.
    pub dwell: Duration,
    /// Whether paths that have failed are passed over; default true, in profile ns2 false, where the smallest
    /// smoothed round-trip time alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_failed: Option<bool>,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

/// Delay-centric selection.
#[derive(Clone, Copy, Debug)]
pub struct DelayCentric {
    margin: Duration,
    dwell: Dwell,
    skip_failed: bool,
    failover: Failover,
}

/// Why this policy changes the primary path.
const SMALLER_DELAY: Basis = Basis::compared("smaller delay", '<', "ms");

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }
}

impl DelayCentric {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self {
            margin: config.margin,
            dwell: Dwell::new(config.dwell),
            skip_failed: config.skip_failed.unwrap_or(profile.skip_failed),
            failover: Failover::new(&config.failover, profile),
        }
    }

    /// The path that is faster than the primary one by more than the margin, with its smoothed
    /// round-trip time and the primary path's.
    fn fastest(&self, paths: &[PathStatus], primary: PathId) -> Option<(PathId, Duration, Duration)> {
        let now = paths[primary.index()].srtt?;
        let (path, srtt) = smallest_srtt(paths, self.skip_failed)?;
        (srtt + self.margin < now).then_some((path, srtt, now))
    }
}

impl PathSelector for DelayCentric {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        let PathEvent::SrttUpdated { .. } = event else {
            return self.failover.select(now, event, paths, selection);
        };
        if self.dwell.holds(now) {
            return;
        }
        if let Some((path, new, old)) = self.fastest(paths, selection.primary) {
            let reason = Reason::compared(&SMALLER_DELAY, new.as_millis_f64(), old.as_millis_f64());
            selection.switch(path, reason);
            self.dwell.start(now);
        }
    }

    super::retransmits_by_failover!();

    fn measures(&self) -> bool {
        self.failover.measures()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIRST, SECOND, delays, sampled};
    use super::*;
    use crate::path::PathState;

    #[test]
    fn the_smaller_round_trip_time_wins_at_once() {
        let mut policy = DelayCentric::new(&Config::default(), Settings::default());
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(50, 49), FIRST), SECOND);
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(50, 50), FIRST), FIRST);
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(48, 49), SECOND), FIRST);
    }

    #[test]
    fn an_inactive_path_is_not_chosen() {
        let mut policy = DelayCentric::new(&Config::default(), Settings::default());
        let mut paths = delays(50, 20);
        paths[1].state = PathState::Inactive;
        assert_eq!(sampled(&mut policy, 0, FIRST, &paths, FIRST), FIRST);
    }

    #[test]
    fn margin_and_dwell_hold_back() {
        let config =
            Config { margin: Duration::from_millis(10), dwell: Duration::from_secs(1), ..Config::default() };
        let mut policy = DelayCentric::new(&config, Settings::default());
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(50, 40), FIRST), FIRST, "not more than the margin");
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(50, 39), FIRST), SECOND);
        assert_eq!(sampled(&mut policy, 999, FIRST, &delays(20, 39), SECOND), SECOND, "dwell");
        assert_eq!(sampled(&mut policy, 1_000, FIRST, &delays(20, 39), SECOND), FIRST);
    }
}
