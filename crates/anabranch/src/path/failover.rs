//! The standard's failover: data goes to the primary path, to another one while the primary path has
//! failed, and back when it returns (RFC 9260 sections 6.4 and 8.2; RFC 7829 section 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PathEvent, PathSelector, PathStatus, Retransmission, Selection};
use crate::endpoint::PathState;
use crate::packet::PathId;
use crate::time::Time;

/// Settings of the standard's failover. A setting that is left out has the profile's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "FailoverConfig")]
pub struct Config {
    /// What happens when every path has failed; default "stay", in profile ns2 "hop".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dormant: Option<Dormant>,
    /// Whether, while every usable path is gone, data moves to any path that returns; default true, in
    /// profile ns2 false: only to the primary path, or at the next failover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_returning: Option<bool>,
    /// Whether the path that takes over becomes the primary one, so that data does not return;
    /// default false, in profile ns2 true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_follows_failover: Option<bool>,
    /// Where data is sent again; default "alternate", in profile linux `round_robin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmit_on: Option<RetransmitOn>,
}

impl Config {
    /// Concrete values.
    pub fn settings(&self, profile: Settings) -> Settings {
        Settings {
            dormant: self.dormant.unwrap_or(profile.dormant),
            take_returning: self.take_returning.unwrap_or(profile.take_returning),
            primary_follows_failover: self
                .primary_follows_failover
                .unwrap_or(profile.primary_follows_failover),
            retransmit_on: self.retransmit_on.unwrap_or(profile.retransmit_on),
            ..profile
        }
    }
}

/// What happens to new data when every path has failed (the dormant state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dormant {
    /// It hops once to the next path and goes on there (ns-2).
    Hop,
    /// Nothing is sent until a heartbeat is answered.
    Silent,
    /// It goes on where it went (Linux).
    #[default]
    Stay,
}

/// Where data is sent again (Caro et al., "Retransmission policies with transport layer multihoming").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetransmitOn {
    /// On another active path where there is one (RFC 9260 section 6.4.1).
    #[default]
    Alternate,
    /// On the same path after missing reports, on another one after a timeout.
    AlternateAfterTimeout,
    /// Where new data goes.
    Current,
    /// On one path for all data, whatever path it was lost on: the active path that was heard of last
    /// besides the primary one; the next one once its own timer expires (Linux `retran_path`).
    RoundRobin,
    /// On the same path while it is active.
    Same,
}

/// [`Config`] with every value set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What happens when every path has failed.
    pub dormant: Dormant,
    /// Whether data moves to any path that returns while every usable one is gone.
    pub take_returning: bool,
    /// Whether the path that takes over becomes the primary one.
    pub primary_follows_failover: bool,
    /// Whether policies that compare paths pass failed ones over.
    pub skip_failed: bool,
    /// Where data is sent again.
    pub retransmit_on: RetransmitOn,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dormant: Dormant::default(),
            take_returning: true,
            primary_follows_failover: false,
            skip_failed: true,
            retransmit_on: RetransmitOn::default(),
        }
    }
}

/// The standard's failover.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    settings: Settings,
    /// With [`RetransmitOn::RoundRobin`]: where data is sent again.
    retransmission_path: Option<PathId>,
}

impl Failover {
    /// A policy with these settings.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, retransmission_path: None }
    }

    /// Linux `sctp_select_active_and_retran_path`: of the active paths the one heard of last besides
    /// the one for new data; where new data goes if there is none.
    fn round_robin_path(&mut self, paths: &[PathStatus], selection: &Selection) -> PathId {
        *self.retransmission_path.get_or_insert_with(|| {
            (0..paths.len())
                .filter(|&index| index != selection.current.index() && paths[index].is_usable())
                .min_by_key(|&index| std::cmp::Reverse(paths[index].last_heard))
                .map_or(selection.current, |index| PathId(index as u8))
        })
    }

    /// Linux `sctp_retransmit` and `sctp_assoc_update_retran_path`: once the timer of the
    /// retransmission path itself expires, the next path that is no worse takes over.
    fn rotate(&mut self, expired: PathId, paths: &[PathStatus], selection: &Selection) {
        if self.settings.retransmit_on != RetransmitOn::RoundRobin {
            return;
        }
        let old = self.round_robin_path(paths, selection);
        if old != expired || (old == selection.current && paths[old.index()].is_usable()) {
            return;
        }
        let count = paths.len();
        let next = (1..=count)
            .map(|step| (old.index() + step) % count)
            .filter(|&index| paths[index].confirmed)
            .min_by_key(|&index| {
                let status = &paths[index];
                let (unconfirmed, state, errors) = status.rank();
                // `sctp_trans_elect_best`: the first active path; among others errors and age decide.
                let active = status.state == PathState::Active;
                let age = std::cmp::Reverse(status.last_heard);
                (unconfirmed, state, (!active).then_some((errors, age)))
            });
        self.retransmission_path = next.map(|index| PathId(index as u8)).or(Some(old));
    }

    /// The state of the current path is not what it was: stay, leave or return.
    fn reconsider(self, path: PathId, from: PathState, paths: &[PathStatus], selection: &mut Selection) {
        let Selection { primary, current, .. } = *selection;
        if paths[primary.index()].is_usable() {
            // RFC 9260 section 6.4: an endpoint sends to the primary path while it is active.
            selection.current = primary;
            selection.held = false;
            return;
        }
        if paths[current.index()].is_usable() {
            selection.held = false;
            return;
        }
        if path != current && !self.settings.take_returning {
            return;
        }
        let best = best_other_than(None, current, paths);
        let dormant = paths.iter().all(|status| status.state == PathState::Inactive);
        selection.held = dormant && self.settings.dormant == Dormant::Silent;
        selection.current = if !dormant {
            // RFC 7829 section 5: without an active path, the potentially failed one with the
            // fewest errors.
            best
        } else if self.settings.dormant == Dormant::Hop && path == current && from != PathState::Inactive {
            next_after(current, paths)
        } else {
            current
        };
        if self.settings.primary_follows_failover && selection.current != current {
            selection.primary = selection.current;
            selection.reason = "failover";
        }
    }
}

impl PathSelector for Failover {
    fn select(&mut self, _now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::PrimaryRequested(path) => {
                selection.primary = path;
                selection.reason = "requested";
                if paths[path.index()].is_usable() || !paths[selection.current.index()].is_usable() {
                    selection.current = path;
                }
            }
            PathEvent::SrttUpdated(_) => {}
            PathEvent::StateChanged { path, from } => {
                self.reconsider(path, from, paths, selection);
                if self.settings.retransmit_on == RetransmitOn::RoundRobin {
                    self.retransmission_path = None;
                    self.round_robin_path(paths, selection);
                }
            }
            PathEvent::TimerExpired(path) => self.rotate(path, paths, selection),
        }
    }

    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId {
        let same = match self.settings.retransmit_on {
            RetransmitOn::Alternate => false,
            RetransmitOn::AlternateAfterTimeout => !loss.timeout,
            RetransmitOn::Current => return selection.current,
            RetransmitOn::RoundRobin => return self.round_robin_path(paths, selection),
            RetransmitOn::Same => true,
        };
        if same && paths[loss.last.index()].state == PathState::Active {
            return loss.last;
        }
        // RFC 9260 section 6.4.1: an active path that is not the one that failed to deliver; the
        // best of the bad ones otherwise.
        best_other_than(Some(loss.last), selection.current, paths)
    }
}

/// The best path, ties for `preferred` and then in round-robin order after it; `avoid` only when every
/// other is worse.
fn best_other_than(avoid: Option<PathId>, preferred: PathId, paths: &[PathStatus]) -> PathId {
    let count = paths.len();
    (0..count)
        .map(|step| (preferred.index() + step) % count)
        .min_by_key(|&index| {
            let status = &paths[index];
            let avoided = avoid == Some(PathId(index as u8));
            let (unconfirmed, state, errors) = status.rank();
            (unconfirmed, state, avoided, errors)
        })
        .map_or(preferred, |index| PathId(index as u8))
}

fn next_after(path: PathId, paths: &[PathStatus]) -> PathId {
    PathId(((path.index() + 1) % paths.len()) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    fn start() -> Selection {
        Selection::new(FIRST)
    }

    fn two() -> [PathStatus; 2] {
        [PathStatus::default(); 2]
    }

    fn change(policy: &mut Failover, paths: &mut [PathStatus], index: u8, to: PathState, s: &mut Selection) {
        let from = std::mem::replace(&mut paths[usize::from(index)].state, to);
        policy.select(Time::ZERO, PathEvent::StateChanged { path: PathId(index), from }, paths, s);
    }

    #[test]
    fn data_leaves_a_failed_primary_and_returns() {
        let (mut policy, mut paths, mut selection) = (Failover::new(Settings::default()), two(), start());
        change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
        assert_eq!((selection.primary, selection.current), (FIRST, SECOND));
        change(&mut policy, &mut paths, 0, PathState::Active, &mut selection);
        assert_eq!((selection.primary, selection.current), (FIRST, FIRST));
    }

    #[test]
    fn a_primary_that_follows_does_not_return() {
        let settings = Settings { primary_follows_failover: true, ..Settings::default() };
        let (mut policy, mut paths, mut selection) = (Failover::new(settings), two(), start());
        change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
        assert_eq!((selection.primary, selection.current), (SECOND, SECOND));
        change(&mut policy, &mut paths, 0, PathState::Active, &mut selection);
        assert_eq!((selection.primary, selection.current), (SECOND, SECOND));
    }

    #[test]
    fn a_path_that_returns_ends_the_dormant_state_or_waits_for_its_turn() {
        for (take_returning, expected) in [(true, FIRST), (false, SECOND)] {
            let settings = Settings { take_returning, primary_follows_failover: true, ..Settings::default() };
            let (mut policy, mut paths, mut selection) = (Failover::new(settings), two(), start());
            change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
            change(&mut policy, &mut paths, 1, PathState::Inactive, &mut selection);
            change(&mut policy, &mut paths, 0, PathState::Active, &mut selection);
            assert_eq!(selection.current, expected, "take_returning = {take_returning}");
        }
    }

    #[test]
    fn the_dormant_state_hops_once_or_stays() {
        for (dormant, expected) in [(Dormant::Hop, FIRST), (Dormant::Stay, SECOND)] {
            let settings = Settings { dormant, ..Settings::default() };
            let (mut policy, mut paths, mut selection) = (Failover::new(settings), two(), start());
            change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
            assert_eq!(selection.current, SECOND);
            change(&mut policy, &mut paths, 1, PathState::Inactive, &mut selection);
            assert_eq!(selection.current, expected, "{dormant:?}");
            change(&mut policy, &mut paths, 1, PathState::Active, &mut selection);
            assert_eq!(selection.current, SECOND, "the first path to return is used");
        }
    }

    #[test]
    fn potentially_failed_paths_are_avoided_but_better_than_inactive_ones() {
        let (mut policy, mut paths, mut selection) = (Failover::new(Settings::default()), two(), start());
        change(&mut policy, &mut paths, 0, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(selection.current, SECOND);
        change(&mut policy, &mut paths, 1, PathState::Inactive, &mut selection);
        assert_eq!(selection.current, FIRST);
    }

    #[test]
    fn retransmissions_go_where_the_policy_says() {
        let paths = two();
        let expected = [
            (RetransmitOn::Alternate, SECOND, SECOND),
            (RetransmitOn::AlternateAfterTimeout, FIRST, SECOND),
            (RetransmitOn::Same, FIRST, FIRST),
            (RetransmitOn::Current, FIRST, FIRST),
        ];
        for (retransmit_on, after_reports, after_timeout) in expected {
            let mut policy = Failover::new(Settings { retransmit_on, ..Settings::default() });
            let path = |policy: &mut Failover, timeout| {
                policy.retransmission_path(&Retransmission::new(FIRST, timeout), &paths, &start())
            };
            assert_eq!(path(&mut policy, false), after_reports, "{retransmit_on:?}");
            assert_eq!(path(&mut policy, true), after_timeout, "{retransmit_on:?}");
        }
    }

    #[test]
    fn round_robin_stays_until_its_own_timer_expires() {
        let settings = Settings { retransmit_on: RetransmitOn::RoundRobin, ..Settings::default() };
        let (mut policy, mut paths, mut selection) = (Failover::new(settings), two(), start());
        let path = |policy: &mut Failover, paths: &[PathStatus], selection: &Selection| {
            policy.retransmission_path(&Retransmission::new(SECOND, true), paths, selection)
        };
        assert_eq!(path(&mut policy, &paths, &selection), SECOND, "even what was lost there");
        policy.select(Time::ZERO, PathEvent::TimerExpired(FIRST), &paths, &mut selection);
        assert_eq!(path(&mut policy, &paths, &selection), SECOND);
        policy.select(Time::ZERO, PathEvent::TimerExpired(SECOND), &paths, &mut selection);
        assert_eq!(path(&mut policy, &paths, &selection), FIRST);
        policy.select(Time::ZERO, PathEvent::TimerExpired(FIRST), &paths, &mut selection);
        assert_eq!(path(&mut policy, &paths, &selection), FIRST, "active, and where new data goes");
        change(&mut policy, &mut paths, 0, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(path(&mut policy, &paths, &selection), SECOND);
        policy.select(Time::ZERO, PathEvent::TimerExpired(SECOND), &paths, &mut selection);
        assert_eq!(path(&mut policy, &paths, &selection), SECOND, "the only active one");
    }

    #[test]
    fn an_unconfirmed_path_is_no_alternative() {
        let mut paths = two();
        paths[1].confirmed = false;
        let mut policy = Failover::new(Settings::default());
        let path = policy.retransmission_path(&Retransmission::new(FIRST, true), &paths, &start());
        assert_eq!(path, FIRST);
    }
}
