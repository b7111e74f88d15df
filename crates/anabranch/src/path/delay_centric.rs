//! Delay-centric selection (Kelly et al., "Delay-centric handover in SCTP"; papers of the voip-sctp
//! study): at every update of a smoothed round-trip time, the active path with the smallest one becomes
//! the primary path and takes new data. Failures are handled as by the standard.
//!
//! Hysteresis, both off by default as in the study: a margin that the other path must be better by,
//! and a dwell time after a change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::{PathEvent, PathSelector, PathStatus, Retransmission, Selection};
use crate::packet::PathId;
use crate::time::{Duration, Time};

/// Settings of delay-centric selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DelayCentricConfig")]
pub struct Config {
    /// How much smaller the other path's smoothed round-trip time must be; default 0 s.
    pub margin: Duration,
    /// How long a new primary path is kept at least while it is active; default 0 s.
    pub dwell: Duration,
    /// Whether paths that have failed are passed over; default true, in profile ns2 false: the smallest
    /// smoothed round-trip time decides alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_failed: Option<bool>,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

/// Delay-centric selection.
#[derive(Clone, Copy, Debug)]
pub struct DelayCentric {
    margin: Duration,
    dwell: Duration,
    skip_failed: bool,
    changed_at: Option<Time>,
    failover: Failover,
}

impl DelayCentric {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self {
            margin: config.margin,
            dwell: config.dwell,
            skip_failed: config.skip_failed.unwrap_or(profile.skip_failed),
            changed_at: None,
            failover: Failover::new(config.failover.settings(profile)),
        }
    }

    fn fastest(&self, paths: &[PathStatus], primary: PathId) -> Option<PathId> {
        let now = paths[primary.index()].srtt?;
        let (index, srtt) = paths
            .iter()
            .enumerate()
            .filter(|(_, status)| !self.skip_failed || status.is_usable())
            .filter_map(|(index, status)| status.srtt.map(|srtt| (index, srtt)))
            .min_by_key(|&(index, srtt)| (srtt, index))?;
        (srtt + self.margin < now).then_some(PathId(index as u8))
    }
}

impl PathSelector for DelayCentric {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        let PathEvent::SrttUpdated(_) = event else {
            return self.failover.select(now, event, paths, selection);
        };
        if self.changed_at.is_some_and(|at| now.saturating_since(at) < self.dwell) {
            return;
        }
        if let Some(path) = self.fastest(paths, selection.primary) {
            *selection = Selection { reason: "smaller delay", ..Selection::new(path) };
            self.changed_at = Some(now);
        }
    }

    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId {
        self.failover.retransmission_path(loss, paths, selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::PathState;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    fn paths(first_ms: u64, second_ms: u64) -> [PathStatus; 2] {
        [first_ms, second_ms]
            .map(|ms| PathStatus { srtt: Some(Duration::from_millis(ms)), ..PathStatus::default() })
    }

    fn chosen(policy: &mut DelayCentric, now_ms: u64, paths: &[PathStatus], from: PathId) -> PathId {
        let mut selection = Selection::new(from);
        policy.select(Time::from_millis(now_ms), PathEvent::SrttUpdated(FIRST), paths, &mut selection);
        assert_eq!(selection.primary, selection.current);
        selection.primary
    }

    #[test]
    fn the_smaller_round_trip_time_wins_at_once() {
        let mut policy = DelayCentric::new(&Config::default(), Settings::default());
        assert_eq!(chosen(&mut policy, 0, &paths(50, 49), FIRST), SECOND);
        assert_eq!(chosen(&mut policy, 0, &paths(50, 50), FIRST), FIRST);
        assert_eq!(chosen(&mut policy, 0, &paths(48, 49), SECOND), FIRST);
    }

    #[test]
    fn an_inactive_path_is_not_chosen() {
        let mut policy = DelayCentric::new(&Config::default(), Settings::default());
        let mut paths = paths(50, 20);
        paths[1].state = PathState::Inactive;
        assert_eq!(chosen(&mut policy, 0, &paths, FIRST), FIRST);
    }

    #[test]
    fn margin_and_dwell_hold_back() {
        let config =
            Config { margin: Duration::from_millis(10), dwell: Duration::from_secs(1), ..Config::default() };
        let mut policy = DelayCentric::new(&config, Settings::default());
        assert_eq!(chosen(&mut policy, 0, &paths(50, 40), FIRST), FIRST, "not more than the margin");
        assert_eq!(chosen(&mut policy, 0, &paths(50, 39), FIRST), SECOND);
        assert_eq!(chosen(&mut policy, 999, &paths(20, 39), SECOND), SECOND, "dwell");
        assert_eq!(chosen(&mut policy, 1_000, &paths(20, 39), SECOND), FIRST);
    }
}
