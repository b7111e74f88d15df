//! The controls of media by name, and one of them at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Feedback, Frame, Limits, MediaControl, cbr, gcc, nada, plugin, scream};
use crate::flow::Ecn;
use crate::plugin::{self as class, Role};
use crate::time::Time;

macro_rules! controls {
    ($($(#[$doc:meta])* $name:ident: $module:ident => $control:ty,)*) => {
        /// Which congestion control of media, and its settings.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[schemars(rename = "MediaControlConfig")]
        pub enum Config {
            $($(#[$doc])* $name($module::Config),)*
            /// A class of Python (docs/plugins.md).
            Python(class::Config),
        }

        impl Config {
            /// Checks that the settings are possible.
            ///
            /// # Errors
            /// One sentence that names the key, the value and what is allowed.
            pub fn check(&self) -> Result<(), String> {
                match self {
                    $(Self::$name(config) => config.check(),)*
                    Self::Python(config) => config.check(Role::MediaControl),
                }
            }

            /// A control for one path, whose packets have this ECN field; random numbers of a class follow
            /// from the seed.
            pub fn build(&self, ecn: Ecn, seed: u64) -> Controller {
                match self {
                    $(Self::$name(config) => Controller::$name(Box::new(config.build(ecn))),)*
                    Self::Python(config) => Controller::Custom(plugin::MAKER.get()(config, seed)),
                }
            }
        }

        /// A congestion control of media.
        #[derive(Debug)]
        pub enum Controller {
            $($(#[$doc])* $name(Box<$control>),)*
            /// A user's own.
            Custom(Box<dyn MediaControl + Send>),
        }

        impl MediaControl for Controller {
            fn on_sent(&mut self, now: Time, size: u32) {
                match self {
                    $(Self::$name(control) => control.on_sent(now, size),)*
                    Self::Custom(control) => control.on_sent(now, size),
                }
            }

            fn on_frame(&mut self, frame: &Frame) {
                match self {
                    $(Self::$name(control) => control.on_frame(frame),)*
                    Self::Custom(control) => control.on_frame(frame),
                }
            }

            fn on_feedback(&mut self, feedback: &Feedback<'_>) {
                match self {
                    $(Self::$name(control) => control.on_feedback(feedback),)*
                    Self::Custom(control) => control.on_feedback(feedback),
                }
            }

            fn timeout(&self) -> Time {
                match self {
                    $(Self::$name(control) => control.timeout(),)*
                    Self::Custom(control) => control.timeout(),
                }
            }

            fn on_timeout(&mut self, now: Time) {
                match self {
                    $(Self::$name(control) => control.on_timeout(now),)*
                    Self::Custom(control) => control.on_timeout(now),
                }
            }

            fn limits(&self) -> Limits {
                match self {
                    $(Self::$name(control) => control.limits(),)*
                    Self::Custom(control) => control.limits(),
                }
            }
        }
    };
}

controls! {
    /// A constant rate.
    Cbr: cbr => cbr::Cbr,
    /// Google Congestion Control (draft-ietf-rmcat-gcc-02).
    Gcc: gcc => gcc::Gcc,
    /// NADA (RFC 8698).
    Nada: nada => nada::Nada,
    /// SCReAM version 2 (draft-ietf-ccwg-rfc8298bis-screamv2).
    Scream: scream => scream::Scream,
}

impl Default for Config {
    fn default() -> Self {
        Self::Nada(nada::Config::default())
    }
}
