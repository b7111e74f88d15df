//! The standard's failover: data is sent on the primary path, on another one while the primary path has
//! failed, and on the primary path again when it returns (RFC 9260 sections 6.4 and 8.2; RFC 7829 sections
//! 3.2 and 5).

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Basis, ErrorLimits, PathEvent, PathSelector, PathState, PathStatus, Reason, Retransmission, Selection,
};
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::units::Limit;

/// Settings of the standard's failover. A setting that is left out has the profile's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "FailoverConfig")]
pub struct Config {
    /// What happens when every path has failed; default "stay", in profile ns2 "hop".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dormant: Option<Dormant>,
    /// Whether, while every usable path is gone, data moves to any path that returns; default true, in
    /// profile ns2 false, where data moves only to the primary path, or at the next failover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_returning: Option<bool>,
    /// Whether the path that takes over becomes the primary one, so that data does not return;
    /// default false, in profile ns2 true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_follows_failover: Option<bool>,
    /// Primary.Switchover.Max.Retrans (RFC 7829 section 5) or "off": with more errors in a row than this on
    /// the primary path, the path in use becomes the primary one; at least `pf_max_retrans`, at most
    /// `path_max_retrans`; default "off".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_switchover_max_retrans: Option<Limit>,
    /// Where data is retransmitted; default "alternate", in profile linux `round_robin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmit_on: Option<RetransmitOn>,
}

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        let most = limits.path_max_retrans;
        let least = limits.pf_max_retrans.unwrap_or(0).min(most);
        match self.primary_switchover_max_retrans.and_then(Limit::count) {
            // RFC 7829 section 5: PSMR is at least PFMR. Errors are counted up to PMR + 1.
            Some(errors) if !(least..=most).contains(&errors) => Err(format!(
                "primary_switchover_max_retrans = {errors} is out of range; it must be from pf_max_retrans, \
                 {least}, to path_max_retrans, {most}"
            )),
            _ => Ok(()),
        }
    }

    /// The settings with a value for each, that of the profile where none is set.
    pub fn settings(&self, profile: Settings) -> Settings {
        Settings {
            dormant: self.dormant.unwrap_or(profile.dormant),
            take_returning: self.take_returning.unwrap_or(profile.take_returning),
            primary_follows_failover: self
                .primary_follows_failover
                .unwrap_or(profile.primary_follows_failover),
            primary_switchover_max_retrans: self
                .primary_switchover_max_retrans
                .map_or(profile.primary_switchover_max_retrans, Limit::count),
            retransmit_on: self.retransmit_on.unwrap_or(profile.retransmit_on),
            ..profile
        }
    }
}

/// What happens to new data when every path has failed (the dormant state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dormant {
    /// Data hops once to the next path and stays there (ns-2).
    Hop,
    /// Nothing is sent until a heartbeat is answered.
    Silent,
    /// Data goes where it went before (Linux).
    #[default]
    Stay,
}

/// Where data is retransmitted (Caro et al., "Retransmission policies with transport layer multihoming"; the
/// four that compare paths: Iyengar et al., "Concurrent multipath transfer using SCTP multihoming over
/// independent end-to-end paths", RTX-CWND, RTX-SSTHRESH, RTX-LOSSRATE and a similar one by delay). Of paths
/// that compare equal, one is taken on which the data was not lost.
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
    /// On the active path with the largest congestion window.
    LargestCwnd,
    /// On the active path with the largest slow-start threshold.
    LargestSsthresh,
    /// On one path for all data, whatever path it was lost on: the active path other than the primary one
    /// that was heard from last, and the next one once the timer of that path expires (Linux `retran_path`).
    RoundRobin,
    /// On the same path while it is active.
    Same,
    /// On the active path that has lost the smallest part of its data so far.
    SmallestLossRate,
    /// On the active path with the smallest smoothed round-trip time; one without is the last choice.
    SmallestRtt,
}

impl RetransmitOn {
    /// Whether paths are compared by values that only policies that measure get.
    const fn measures(self) -> bool {
        matches!(self, Self::LargestCwnd | Self::LargestSsthresh | Self::SmallestLossRate)
    }

    /// The active path that is best in the value compared here; `None` if no value is compared.
    fn best(self, last: PathId, paths: &[PathStatus]) -> Option<PathId> {
        match self {
            Self::LargestCwnd => cheapest(last, paths, |status| u64::from(!status.cwnd)),
            Self::LargestSsthresh => cheapest(last, paths, |status| u64::from(!status.ssthresh)),
            Self::SmallestLossRate => cheapest(last, paths, |status| {
                // Bits of numbers without a sign have the order of the numbers.
                (status.lost_bytes as f64 / status.sent_bytes.max(1) as f64).to_bits()
            }),
            Self::SmallestRtt => {
                cheapest(last, paths, |status| status.srtt.map_or(u64::MAX >> 1, Duration::as_nanos))
            }
            _ => None,
        }
    }
}

/// The first active path that costs least; `last` only if it costs less than all others. A cost has at most
/// 63 bits.
fn cheapest(last: PathId, paths: &[PathStatus], cost: impl Fn(&PathStatus) -> u64) -> Option<PathId> {
    let (mut least, mut cheapest) = (u64::MAX, None);
    for (index, status) in paths.iter().enumerate() {
        let own = cost(status) << 1 | u64::from(index == last.index());
        if status.is_usable() && (own < least || cheapest.is_none()) {
            (least, cheapest) = (own, Some(PathId(index as u8)));
        }
    }
    cheapest
}

/// Which path takes new data while the primary path is not active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeOverBy {
    /// An active path with the fewest errors in a row, for as long as it is active; without one, a
    /// potentially failed path with the fewest, and of equals one that was not used last (RFC 7829 section
    /// 3.2).
    #[default]
    FewestErrors,
    /// After each change of a path's state, the active path that was heard from last; without one, among the
    /// potentially failed paths with the fewest errors in a row the one that was heard from last (Linux
    /// `sctp_select_active_and_retran_path`).
    HeardLast,
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
    /// Primary.Switchover.Max.Retrans.
    pub primary_switchover_max_retrans: Option<u32>,
    /// Where data is retransmitted.
    pub retransmit_on: RetransmitOn,
    /// Which path takes new data while the primary path is not active.
    pub take_over_by: TakeOverBy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dormant: Dormant::default(),
            take_returning: true,
            primary_follows_failover: false,
            skip_failed: true,
            primary_switchover_max_retrans: None,
            retransmit_on: RetransmitOn::default(),
            take_over_by: TakeOverBy::default(),
        }
    }
}

/// Why this policy changes the primary path.
const FAILOVER: Basis = Basis::words("failover");
pub(crate) const REQUESTED: Basis = Basis::words("requested");
const SWITCHOVER: Basis = Basis::compared("primary path switchover", '>', "errors");

/// The standard's failover.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    settings: Settings,
    /// With [`RetransmitOn::RoundRobin`]: the path on which data is retransmitted.
    retransmission_path: Option<PathId>,
}

impl Failover {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self { settings: config.settings(profile), retransmission_path: None }
    }

    /// Linux `sctp_select_active_and_retran_path`: of the active paths other than the one for new data, the
    /// one heard from last; the path for new data if there is no other.
    fn round_robin_path(&mut self, paths: &[PathStatus], selection: &Selection) -> PathId {
        *self.retransmission_path.get_or_insert_with(|| {
            (0..paths.len())
                .filter(|&index| index != selection.current.index() && paths[index].is_usable())
                .min_by_key(|&index| Reverse(paths[index].last_heard))
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
                let age = Reverse(status.last_heard);
                (unconfirmed, state, (!active).then_some((errors, age)))
            });
        self.retransmission_path = next.map(|index| PathId(index as u8)).or(Some(old));
    }

    /// Handles a change in the state of the current path: stays, leaves or returns.
    fn reconsider(self, path: PathId, from: PathState, paths: &[PathStatus], selection: &mut Selection) {
        let Selection { primary, current, .. } = *selection;
        if paths[primary.index()].is_usable() {
            // RFC 9260 section 6.4: an endpoint sends to the primary path while it is active.
            selection.current = primary;
            selection.held = false;
            return;
        }
        let heard_last = self.settings.take_over_by == TakeOverBy::HeardLast;
        if paths[current.index()].is_usable() && !heard_last {
            selection.held = false;
            return;
        }
        if path != current && !self.settings.take_returning {
            return;
        }
        let best = if heard_last {
            last_heard(current, paths)
        } else {
            // RFC 7829 section 3.2: without an active path, the potentially failed one with the fewest
            // errors; among equal ones, the one most divergent from the last one used.
            best_other_than(None, if path == current { next_after(current, paths) } else { current }, paths)
        };
        let dormant = paths.iter().all(|status| status.state == PathState::Inactive);
        selection.held = dormant && self.settings.dormant == Dormant::Silent;
        selection.current = if !dormant {
            best
        } else if self.settings.dormant == Dormant::Hop && path == current && from != PathState::Inactive {
            next_after(current, paths)
        } else {
            current
        };
        if self.settings.primary_follows_failover && selection.current != current {
            selection.primary = selection.current;
            selection.reason = Reason::new(&FAILOVER);
        }
    }

    /// Makes the path in use the primary one when there are too many errors on the primary path (RFC 7829
    /// section 5).
    fn switch_over(self, paths: &[PathStatus], selection: &mut Selection) {
        let primary = selection.primary;
        let errors = paths[primary.index()].error_count;
        let Some(max) = self.settings.primary_switchover_max_retrans.filter(|&max| errors > max) else {
            return;
        };
        let next = if selection.current == primary {
            best_other_than(Some(primary), primary, paths)
        } else {
            selection.current
        };
        if next != primary && paths[next.index()].is_usable() {
            selection.switch(next, Reason::compared(&SWITCHOVER, f64::from(errors), f64::from(max)));
        }
    }
}

impl PathSelector for Failover {
    fn select(&mut self, _now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::PrimaryRequested(path) => {
                selection.primary = path;
                selection.reason = Reason::new(&REQUESTED);
                // RFC 9260 section 5.4: no data goes over a path that is not confirmed.
                let may_carry =
                    paths[path.index()].confirmed && !paths[selection.current.index()].is_usable();
                if paths[path.index()].is_usable() || may_carry {
                    selection.current = path;
                }
            }
            PathEvent::ErrorCounted(_) => self.switch_over(paths, selection),
            PathEvent::StateChanged { path, from } => {
                self.reconsider(path, from, paths, selection);
                if self.settings.retransmit_on == RetransmitOn::RoundRobin {
                    self.retransmission_path = None;
                    self.round_robin_path(paths, selection);
                }
            }
            PathEvent::TimerExpired(path) => self.rotate(path, paths, selection),
            _ => {}
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
            compared => match compared.best(loss.last, paths) {
                Some(path) => return path,
                None => false,
            },
        };
        if same && paths[loss.last.index()].is_usable() {
            return loss.last;
        }
        // RFC 9260 section 6.4.1: an active path that is not the one that failed to deliver; otherwise the
        // best of the bad ones.
        best_other_than(Some(loss.last), selection.current, paths)
    }

    fn measures(&self) -> bool {
        self.settings.retransmit_on.measures()
    }
}

/// The best path. Of equals, `preferred` is taken, and then the next ones in round-robin order; `avoid` is
/// taken only when every other path is worse.
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

/// Linux `sctp_select_active_and_retran_path` and `sctp_trans_elect_best` where the primary path is not
/// active: of the active paths, the one heard from last, whatever its errors; without one, the potentially
/// failed path with the fewest errors, and of equals the one heard from last; `current` if there is neither.
fn last_heard(current: PathId, paths: &[PathStatus]) -> PathId {
    (0..paths.len())
        .filter(|&index| paths[index].confirmed && paths[index].state != PathState::Inactive)
        .min_by_key(|&index| {
            let status = &paths[index];
            let is_suspect = status.state == PathState::PotentiallyFailed;
            (is_suspect.then_some(status.error_count), Reverse(status.last_heard))
        })
        .map_or(current, |index| PathId(index as u8))
}

/// The confirmed path after this one, in a circle; the path itself if there is no other.
fn next_after(path: PathId, paths: &[PathStatus]) -> PathId {
    let count = paths.len();
    let mut others = (1..count).map(|step| (path.index() + step) % count);
    others.find(|&index| paths[index].confirmed).map_or(path, |index| PathId(index as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    fn policy(settings: Settings) -> Failover {
        Failover::new(&Config::default(), settings)
    }

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
        let (mut policy, mut paths, mut selection) = (policy(Settings::default()), two(), start());
        change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
        assert_eq!((selection.primary, selection.current), (FIRST, SECOND));
        change(&mut policy, &mut paths, 0, PathState::Active, &mut selection);
        assert_eq!((selection.primary, selection.current), (FIRST, FIRST));
    }

    #[test]
    fn a_primary_that_follows_does_not_return() {
        let settings = Settings { primary_follows_failover: true, ..Settings::default() };
        let (mut policy, mut paths, mut selection) = (policy(settings), two(), start());
        change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
        assert_eq!((selection.primary, selection.current), (SECOND, SECOND));
        change(&mut policy, &mut paths, 0, PathState::Active, &mut selection);
        assert_eq!((selection.primary, selection.current), (SECOND, SECOND));
    }

    #[test]
    fn a_path_that_returns_ends_the_dormant_state_or_waits_for_its_turn() {
        for (take_returning, expected) in [(true, FIRST), (false, SECOND)] {
            let settings = Settings { take_returning, primary_follows_failover: true, ..Settings::default() };
            let (mut policy, mut paths, mut selection) = (policy(settings), two(), start());
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
            let (mut policy, mut paths, mut selection) = (policy(settings), two(), start());
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
        let (mut policy, mut paths, mut selection) = (policy(Settings::default()), two(), start());
        change(&mut policy, &mut paths, 0, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(selection.current, SECOND);
        change(&mut policy, &mut paths, 1, PathState::Inactive, &mut selection);
        assert_eq!(selection.current, FIRST);
    }

    #[test]
    fn of_equally_suspect_paths_another_one_is_tried_than_failed_last() {
        // RFC 7829 section 3.2.
        let (mut policy, mut paths, mut selection) = (policy(Settings::default()), two(), start());
        for (index, expected) in [(0, SECOND), (1, FIRST)] {
            paths[usize::from(index)].error_count = 1;
            change(&mut policy, &mut paths, index, PathState::PotentiallyFailed, &mut selection);
            assert_eq!(selection.current, expected);
        }
    }

    #[test]
    fn linux_takes_the_path_that_was_heard_of_last() {
        let settings = Settings { take_over_by: TakeOverBy::HeardLast, ..Settings::default() };
        let (mut policy, mut selection) = (policy(settings), start());
        let heard = |secs| PathStatus { last_heard: Time::from_secs(secs), ..PathStatus::default() };
        let mut paths = [heard(3), heard(1), heard(2)];
        // Among the active ones, whatever their errors.
        paths[2].error_count = 1;
        change(&mut policy, &mut paths, 0, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(selection.current, PathId(2));
        change(&mut policy, &mut paths, 2, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(selection.current, SECOND);
        // Among the suspect ones with the fewest errors.
        paths[0].error_count = 2;
        paths[1].error_count = 1;
        change(&mut policy, &mut paths, 1, PathState::PotentiallyFailed, &mut selection);
        assert_eq!(selection.current, PathId(2));
        change(&mut policy, &mut paths, 2, PathState::Inactive, &mut selection);
        assert_eq!(selection.current, SECOND);
        change(&mut policy, &mut paths, 1, PathState::Inactive, &mut selection);
        assert_eq!(selection.current, FIRST);
        change(&mut policy, &mut paths, 0, PathState::Inactive, &mut selection);
        assert_eq!(selection.current, FIRST, "it stays where it is");
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
            let mut policy = policy(Settings { retransmit_on, ..Settings::default() });
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
        let (mut policy, mut paths, mut selection) = (policy(settings), two(), start());
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
        let mut policy = policy(Settings::default());
        let path = policy.retransmission_path(&Retransmission::new(FIRST, true), &paths, &start());
        assert_eq!(path, FIRST);
    }

    #[test]
    fn too_many_errors_make_the_path_in_use_the_primary_one() {
        let settings = Settings { primary_switchover_max_retrans: Some(2), ..Settings::default() };
        let (mut policy, mut paths, mut selection) = (policy(settings), two(), start());
        for (errors, expected) in [(2, FIRST), (3, SECOND)] {
            paths[0].error_count = errors;
            policy.select(Time::ZERO, PathEvent::ErrorCounted(FIRST), &paths, &mut selection);
            assert_eq!((selection.primary, selection.current), (expected, expected), "{errors} errors");
        }
        assert_eq!(selection.reason.to_string(), "primary path switchover: 3 errors > 2 errors");
        paths[1].error_count = 3;
        paths[0].state = PathState::Inactive;
        policy.select(Time::ZERO, PathEvent::ErrorCounted(SECOND), &paths, &mut selection);
        assert_eq!(selection.primary, SECOND, "no other path is active");
    }

    #[test]
    fn switchover_keeps_to_the_other_limits() {
        let check = |errors, pf_max_retrans| {
            let limit = Some(Limit::At(errors));
            let config = Config { primary_switchover_max_retrans: limit, ..Config::default() };
            config.check(ErrorLimits { pf_max_retrans, path_max_retrans: 5 })
        };
        assert_eq!([check(0, None), check(5, None), check(2, Some(2))], [Ok(()), Ok(()), Ok(())]);
        let message = "primary_switchover_max_retrans = 1 is out of range; it must be from pf_max_retrans, 2, to \
                       path_max_retrans, 5";
        assert_eq!(check(1, Some(2)), Err(message.into()));
        assert!(check(6, None).is_err());
    }

    #[test]
    fn retransmissions_go_to_the_path_that_compares_best() {
        let lossy = |lost_bytes| PathStatus { sent_bytes: 1_000, lost_bytes, ..PathStatus::default() };
        let srtt = |ms| PathStatus { srtt: Some(Duration::from_millis(ms)), ..PathStatus::default() };
        let cwnd = |cwnd| PathStatus { cwnd, ..PathStatus::default() };
        let ssthresh = |ssthresh| PathStatus { ssthresh, ..PathStatus::default() };
        let cases = [
            (RetransmitOn::LargestCwnd, cwnd(3_000), cwnd(2_000)),
            (RetransmitOn::LargestSsthresh, ssthresh(3_000), ssthresh(2_000)),
            (RetransmitOn::SmallestLossRate, lossy(10), lossy(20)),
            (RetransmitOn::SmallestRtt, srtt(20), PathStatus::default()),
        ];
        for (retransmit_on, better, worse) in cases {
            let mut policy = policy(Settings { retransmit_on, ..Settings::default() });
            let mut path = |paths: &[PathStatus]| {
                policy.retransmission_path(&Retransmission::new(FIRST, false), paths, &start())
            };
            assert_eq!(path(&[better, worse]), FIRST, "{retransmit_on:?}");
            assert_eq!(path(&[worse, better]), SECOND, "{retransmit_on:?}");
            assert_eq!(path(&[better, better]), SECOND, "{retransmit_on:?}: of equals, another one");
            let failed = PathStatus { state: PathState::PotentiallyFailed, ..better };
            assert_eq!(path(&[worse, failed]), FIRST, "{retransmit_on:?}: an active one");
        }
    }
}
