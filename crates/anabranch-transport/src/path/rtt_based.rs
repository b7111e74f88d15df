//! Selection by round-trip time, as in the proposals of Kelly, of Leu and of Dahal with which the paper of
//! `throughput_checkpoint` compares itself: the primary path is left for one whose smoothed round-trip time
//! is smaller by a part of its own. Failures are handled as in the standard.
//!
//! Paths that carry no data are known by their heartbeats only: for those proposals, one every second
//! (`hb_interval = "1 s"`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::hysteresis::{Dwell, smallest_srtt};
use super::{Basis, ErrorLimits, PathEvent, PathSelector, PathStatus, Reason, Selection};
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::units::check_range;

/// Settings of selection by round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RttBasedConfig")]
pub struct Config {
    /// The primary path is left if its smoothed round-trip time is above 1 + delta times the other's; from 0
    /// to 100, default 0.1.
    pub delta: f64,
    /// How long a new primary path is kept at least, while it is active; default 0 s.
    pub dwell: Duration,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self { delta: 0.1, dwell: Duration::ZERO, failover: super::failover::Config::default() }
    }
}

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        check_range("delta", self.delta, 0.0, 100.0)?;
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }
}

const SMALLER_RTT: Basis = Basis::compared("smaller round-trip time", '<', "ms");

/// Selection by round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct RttBased {
    delta: f64,
    dwell: Dwell,
    failover: Failover,
}

impl RttBased {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        let failover = Failover::new(&config.failover, profile);
        Self { delta: config.delta, dwell: Dwell::new(config.dwell), failover }
    }
}

/// The path that is faster than the primary one by delta, and why.
pub(super) fn faster(delta: f64, paths: &[PathStatus], primary: PathId) -> Option<(PathId, Reason)> {
    let old = paths[primary.index()].srtt?;
    let (path, new) = smallest_srtt(paths, true)?;
    let reason = Reason::compared(&SMALLER_RTT, new.as_millis_f64(), old.as_millis_f64());
    (old.as_secs_f64() > (1.0 + delta) * new.as_secs_f64()).then_some((path, reason))
}

impl PathSelector for RttBased {
    #[inline(never)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        let PathEvent::SrttUpdated { .. } = event else {
            return self.failover.select(now, event, paths, selection);
        };
        if self.dwell.holds(now) {
            return;
        }
        if let Some((path, reason)) = faster(self.delta, paths, selection.primary) {
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

    #[test]
    fn delta_and_dwell_hold_back() {
        let config = Config { delta: 0.25, dwell: Duration::from_secs(1), ..Config::default() };
        let mut policy = RttBased::new(&config, Settings::default());
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(50, 40), FIRST), FIRST, "not above 1.25 times");
        assert_eq!(sampled(&mut policy, 0, FIRST, &delays(51, 40), FIRST), SECOND);
        assert_eq!(sampled(&mut policy, 999, FIRST, &delays(20, 40), SECOND), SECOND, "dwell");
        assert_eq!(sampled(&mut policy, 1_000, FIRST, &delays(20, 40), SECOND), FIRST);
    }

    #[test]
    fn an_unusable_path_is_not_chosen() {
        let mut policy = RttBased::new(&Config::default(), Settings::default());
        let mut paths = delays(50, 20);
        paths[1].confirmed = false;
        assert_eq!(sampled(&mut policy, 0, FIRST, &paths, FIRST), FIRST);
    }
}
