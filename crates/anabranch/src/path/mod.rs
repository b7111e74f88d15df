//! Path policies: which path is the primary one, and where new data and retransmissions go.

pub mod delay_centric;
pub mod failover;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoint::PathState;
use crate::packet::PathId;
use crate::time::{Duration, Time};

/// What a policy may know about one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// Active, inactive or potentially failed.
    pub state: PathState,
    /// Whether the peer has been seen at the other end (RFC 9260 section 5.4).
    pub confirmed: bool,
    /// Errors in a row.
    pub error_count: u32,
    /// Smoothed round-trip time, before the first sample none.
    pub srtt: Option<Duration>,
    /// When something last arrived over it.
    pub last_heard: Time,
}

impl Default for PathStatus {
    /// A path on which nothing has happened yet.
    fn default() -> Self {
        Self { state: PathState::Active, confirmed: true, error_count: 0, srtt: None, last_heard: Time::ZERO }
    }
}

impl PathStatus {
    /// Whether data may be sent here without second thoughts.
    pub fn is_usable(&self) -> bool {
        self.state == PathState::Active && self.confirmed
    }

    /// Sorts paths from best to worst: active before potentially failed before inactive, then few
    /// errors in a row (RFC 7829 section 5), an unconfirmed path after any other.
    fn rank(&self) -> (bool, u8, u32) {
        let state = match self.state {
            PathState::Active => 0,
            PathState::PotentiallyFailed => 1,
            PathState::Inactive => 2,
        };
        (!self.confirmed, state, self.error_count)
    }
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The user asked for another primary path.
    PrimaryRequested(PathId),
    /// The smoothed round-trip time of a path changed.
    SrttUpdated(PathId),
    /// A path became active, inactive or potentially failed.
    StateChanged {
        /// The path.
        path: PathId,
        /// Its state before.
        from: PathState,
    },
    /// The retransmission timer of a path expired; told after a change of state that it brought.
    TimerExpired(PathId),
}

/// A loss that asks for a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retransmission {
    /// Where the data was last sent.
    pub last: PathId,
    /// Whether the retransmission timer expired; otherwise missing reports told of the loss.
    pub timeout: bool,
}

impl Retransmission {
    /// Data last sent on `last` was lost.
    pub const fn new(last: PathId, timeout: bool) -> Self {
        Self { last, timeout }
    }
}

/// The paths in use. A policy changes it in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The primary path.
    pub primary: PathId,
    /// Where new data goes.
    pub current: PathId,
    /// Nothing is to be sent on any path for now.
    pub held: bool,
    /// Why the primary path changed last, in a few words.
    pub reason: &'static str,
}

impl Selection {
    /// Everything goes to `primary`.
    pub const fn new(primary: PathId) -> Self {
        Self { primary, current: primary, held: false, reason: "" }
    }
}

/// A path policy.
pub trait PathSelector: fmt::Debug {
    /// Something happened to a path: change `selection` if need be.
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection);

    /// Where data is sent again.
    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId;
}

/// Which path policy, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "PathPolicyConfig")]
pub enum Config {
    /// The path with the smallest smoothed round-trip time is the primary one (Kelly et al.).
    DelayCentric(delay_centric::Config),
    /// The standard's failover (RFC 9260 section 6.4).
    Failover(failover::Config),
}

impl Default for Config {
    fn default() -> Self {
        Self::Failover(failover::Config::default())
    }
}

impl Config {
    /// The policy. `failover` holds the profile's values for settings that are left out.
    pub fn build(&self, profile: failover::Settings) -> Selector {
        match self {
            Self::DelayCentric(config) => {
                Selector::DelayCentric(delay_centric::DelayCentric::new(config, profile))
            }
            Self::Failover(config) => Selector::Failover(failover::Failover::new(config.settings(profile))),
        }
    }
}

/// A path policy, dispatched statically where it is a built-in one.
#[derive(Debug)]
pub enum Selector {
    /// A user's own.
    Custom(Box<dyn PathSelector + Send>),
    /// The smallest round-trip time decides.
    DelayCentric(delay_centric::DelayCentric),
    /// The standard's failover.
    Failover(failover::Failover),
}

impl PathSelector for Selector {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match self {
            Self::Custom(policy) => policy.select(now, event, paths, selection),
            Self::DelayCentric(policy) => policy.select(now, event, paths, selection),
            Self::Failover(policy) => policy.select(now, event, paths, selection),
        }
    }

    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId {
        match self {
            Self::Custom(policy) => policy.retransmission_path(loss, paths, selection),
            Self::DelayCentric(policy) => policy.retransmission_path(loss, paths, selection),
            Self::Failover(policy) => policy.retransmission_path(loss, paths, selection),
        }
    }
}
