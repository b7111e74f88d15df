//! Adaptive primary path (Kim's, as described in the paper of `throughput_checkpoint`): a path that has been
//! faster than the primary one by a part of its own round-trip time for some consecutive rounds becomes the
//! primary path. Failures are handled as in the standard.
//!
//! A round is a sample of a path that is not the primary one: usually an answered heartbeat, so that rounds
//! are about `hb_interval` apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::rtt_based::faster;
use super::{ErrorLimits, PathEvent, PathSelector, PathStatus, Selection, failover};
use crate::flow::PathId;
use crate::time::Time;
use crate::units::check_range;

/// Settings of the adaptive primary path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AdaptivePrimaryConfig")]
pub struct Config {
    /// A path is faster in a round if the primary path's smoothed round-trip time is above 1 + delta times
    /// its own; from 0 to 100, default 0.1.
    pub delta: f64,
    /// How many rounds in a row the path must be faster, from 1 to 1000; default 3.
    pub rounds: u32,
    /// What happens when the primary path fails.
    pub failover: failover::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self { delta: 0.1, rounds: 3, failover: failover::Config::default() }
    }
}

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        check_range("delta", self.delta, 0.0, 100.0)?;
        check_range("rounds", f64::from(self.rounds), 1.0, 1000.0)?;
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }
}

/// The adaptive primary path.
#[derive(Clone, Copy, Debug)]
pub struct AdaptivePrimary {
    delta: f64,
    rounds: u32,
    /// The fastest path and for how many rounds in a row it has been that.
    faster: Option<(PathId, u32)>,
    failover: Failover,
}

impl AdaptivePrimary {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        let failover = Failover::new(&config.failover, profile);
        Self { delta: config.delta, rounds: config.rounds, faster: None, failover }
    }
}

impl PathSelector for AdaptivePrimary {
    #[inline(never)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        let PathEvent::SrttUpdated { path: sampled, .. } = event else {
            return self.failover.select(now, event, paths, selection);
        };
        let Some((path, reason)) = faster(self.delta, paths, selection.primary) else {
            self.faster = None;
            return;
        };
        let before = self.faster.filter(|&(other, _)| other == path).map_or(0, |(_, rounds)| rounds);
        let rounds = before + u32::from(sampled == path);
        if rounds >= self.rounds {
            self.faster = None;
            selection.switch(path, reason);
        } else {
            self.faster = Some((path, rounds));
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
    fn rounds_are_counted_on_end() {
        let mut policy = AdaptivePrimary::new(&Config::default(), Settings::default());
        let (faster, slower) = (delays(50, 40), delays(50, 49));
        let mut round = |paths, sample| sampled(&mut policy, 0, sample, paths, FIRST);
        assert_eq!(round(&faster, SECOND), FIRST);
        assert_eq!(round(&faster, SECOND), FIRST);
        assert_eq!(round(&slower, FIRST), FIRST, "the count begins anew");
        assert_eq!(round(&faster, SECOND), FIRST);
        assert_eq!(round(&faster, FIRST), FIRST, "a sample of the primary path is no round");
        assert_eq!(round(&faster, SECOND), FIRST);
        assert_eq!(round(&faster, SECOND), SECOND);
    }
}
