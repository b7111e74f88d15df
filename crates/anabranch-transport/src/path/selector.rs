//! The policies by name, and one of them at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ErrorLimits, PathEvent, PathSelector, PathStatus, Request, Retransmission, Selection, plugin};
use crate::flow::PathId;
use crate::plugin::{self as class, Role};
use crate::time::Time;

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident: $module:ident,)*) => {
        use super::{$($module),*};

        /// Which path policy, and its settings.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[schemars(rename = "PathPolicyConfig")]
        pub enum Config {
            $($(#[$doc])* $name($module::Config),)*
            /// A class of Python (docs/plugins.md).
            Python(class::Config),
        }

        impl Config {
            /// Checks that the settings are possible together with the endpoint's own.
            ///
            /// # Errors
            /// One sentence that names the key, the value and what is allowed.
            pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
                match self {
                    $(Self::$name(config) => config.check(limits),)*
                    Self::Python(config) => config.check(Role::PathPolicy),
                }
            }

            /// The policy. `profile` holds the profile's values for settings that are left out, and a class
            /// draws its random numbers from `seed`.
            pub fn build(&self, profile: failover::Settings, seed: u64) -> Selector {
                match self {
                    $(Self::$name(config) => Selector::$name($module::$name::new(config, profile)),)*
                    Self::Python(config) => Selector::Custom(plugin::MAKER.get()(config, profile, seed)),
                }
            }

            /// Every built-in policy with its default settings.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$name($module::Config::default()),)*]
            }
        }

        /// A path policy, dispatched statically where it is a built-in one.
        #[derive(Debug)]
        pub enum Selector {
            /// A user's own.
            Custom(Box<dyn PathSelector + Send>),
            $($(#[$doc])* $name($module::$name),)*
        }

        macro_rules! dispatch {
            ($self:expr, $policy:ident => $call:expr) => {
                match $self {
                    Selector::Custom($policy) => $call,
                    $(Selector::$name($policy) => $call,)*
                }
            };
        }
    };
}

policies! {
    /// A path that stays faster for some rounds becomes the primary one (Kim).
    AdaptivePrimary: adaptive_primary,
    /// The path with the smallest smoothed round-trip time is the primary one (Kelly et al.).
    DelayCentric: delay_centric,
    /// The path on which a call would be rated highest is the primary one (Fitzpatrick et al.).
    Echo: echo,
    /// The standard's failover (RFC 9260 section 6.4).
    Failover: failover,
    /// A path whose rate and round-trip time, measured by pairs of heartbeats, are as required is the primary
    /// one (Nishiyama et al.).
    HeartbeatPair: heartbeat_pair,
    /// A path that is faster by a part of its own round-trip time becomes the primary one.
    RttBased: rtt_based,
    /// The path with the higher throughput, measured with real data at checkpoints, is the primary one
    /// (Mitsuie et al.).
    ThroughputCheckpoint: throughput_checkpoint,
}

impl Default for Config {
    fn default() -> Self {
        Self::Failover(failover::Config::default())
    }
}

impl PathSelector for Selector {
    #[expect(clippy::inline_always, reason = "its callers are few, and one is that of every round-trip time")]
    #[inline(always)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        dispatch!(self, policy => policy.select(now, event, paths, selection));
    }

    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId {
        dispatch!(self, policy => policy.retransmission_path(loss, paths, selection))
    }

    fn measures(&self) -> bool {
        dispatch!(self, policy => policy.measures())
    }

    fn next_tick(&self) -> Time {
        dispatch!(self, policy => policy.next_tick())
    }

    fn next_request(&mut self) -> Option<Request> {
        dispatch!(self, policy => policy.next_request())
    }
}
