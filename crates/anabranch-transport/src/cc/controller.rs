//! The controls by name, and one of them at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::window::Windowed;
use super::{
    AckEvent, ArrivalEvent, CongestionControl, CongestionEvent, ControlState, DuplicateEvent, IdleEvent,
    LostEvent, ProbeEvent, RecoveryEndEvent, RttEvent, Rules, SendLimits, SentEvent, Setup, UndoEvent,
    coupled, plugin, sctp,
};
use crate::plugin::{self as class, KIND, Role};

macro_rules! controls {
    ($($(#[$doc:meta])* $name:ident: $module:ident => $control:ty,)*) => {
        use super::{$($module),*};

        /// Which congestion control, and its settings.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[schemars(rename = "CongestionControlConfig")]
        pub enum Config {
            $($(#[$doc])* $name($module::Config),)*
            /// A class of Python (docs/plugins.md).
            Python(class::Config),
            /// SCTP's own control (RFC 9260 section 7.2).
            Sctp(sctp::Config),
        }

        impl Config {
            /// Checks that the settings are possible.
            ///
            /// # Errors
            /// One sentence that names the key, the value and what is allowed.
            pub fn check(&self) -> Result<(), String> {
                match self {
                    $(Self::$name(config) => config.check(),)*
                    Self::Python(config) => config.check(Role::CongestionControl),
                    Self::Sctp(config) => config.check(),
                }
            }

            /// The name of the control in scenarios.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($module),)*
                    Self::Python(_) => KIND,
                    Self::Sctp(_) => "sctp",
                }
            }

            /// A control for one path.
            pub fn build(&self, setup: &Setup) -> Controller {
                if setup.rules == Rules::Inflated {
                    return match self {
                        Self::Reno(_) => Controller::Coupled(coupled::alone(self, setup)),
                        _ => self.build(&Setup { rules: Rules::Rfc, ..*setup }),
                    };
                }
                match self {
                    $(Self::$name(config) => Controller::$name(Box::new(config.build(setup))),)*
                    Self::Python(config) => Controller::Custom(plugin::MAKER.get()(config, setup)),
                    Self::Sctp(config) => Controller::Sctp(sctp::Sctp::new(config, setup)),
                }
            }

            /// TCP's controls with their default settings.
            pub fn tcp() -> Vec<Self> {
                vec![$(Self::$name($module::Config::default()),)*]
            }
        }

        $(impl From<$module::Config> for Config {
            fn from(config: $module::Config) -> Self {
                Self::$name(config)
            }
        })*

        /// A congestion control, dispatched statically where it is a built-in one.
        #[derive(Debug)]
        pub enum Controller {
            $($(#[$doc])* $name(Box<$control>),)*
            /// One of several paths that are controlled together.
            Coupled(coupled::Member),
            /// A user's own.
            Custom(Box<dyn CongestionControl + Send>),
            /// SCTP's own control.
            Sctp(sctp::Sctp),
        }

        macro_rules! dispatch {
            ($self:expr, $inner:ident => $call:expr) => {
                match $self {
                    $(Controller::$name($inner) => $call,)*
                    Controller::Coupled($inner) => $call,
                    Controller::Custom($inner) => $call,
                    Controller::Sctp($inner) => $call,
                }
            };
        }
    };
}

controls! {
    /// BBR, version 1 (Cardwell et al., 2016).
    Bbr: bbr => bbr::Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3: bbr3 => bbr3::Bbr3,
    /// BIC (Xu, Harfoush and Rhee, 2004).
    Bic: bic => Windowed<bic::Bic>,
    /// CUBIC (RFC 9438).
    Cubic: cubic => Windowed<cubic::Cubic>,
    /// DCTCP (RFC 8257).
    Dctcp: dctcp => Windowed<dctcp::Dctcp>,
    /// HighSpeed TCP (RFC 3649).
    Highspeed: highspeed => Windowed<highspeed::Highspeed>,
    /// H-TCP (Shorten and Leith, 2004).
    Htcp: htcp => Windowed<htcp::Htcp>,
    /// Hybla (Caini and Firrincieli, 2004).
    Hybla: hybla => Windowed<hybla::Hybla>,
    /// Illinois (Liu, Başar and Srikant, 2008).
    Illinois: illinois => Windowed<illinois::Illinois>,
    /// LEDBAT (RFC 6817) and LEDBAT++.
    Ledbat: ledbat => Windowed<ledbat::Ledbat>,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control).
    Prague: prague => prague::Prague,
    /// Reno with NewReno's recovery (RFC 5681, RFC 6582).
    Reno: reno => Windowed<reno::Reno>,
    /// Scalable TCP (Kelly, 2003).
    Scalable: scalable => Windowed<scalable::Scalable>,
    /// Vegas (Brakmo and Peterson, 1995).
    Vegas: vegas => Windowed<vegas::Vegas>,
    /// Veno (Fu and Liew, 2003).
    Veno: veno => Windowed<veno::Veno>,
    /// Westwood+ (Grieco and Mascolo, 2004).
    Westwood: westwood => Windowed<westwood::Westwood>,
    /// YeAH (Baiocchi, Castellani and Vacirca, 2007).
    Yeah: yeah => Windowed<yeah::Yeah>,
}

impl Default for Config {
    fn default() -> Self {
        Self::Sctp(sctp::Config::default())
    }
}

impl Controller {
    #[inline(never)]
    fn on_ack_of_any(&mut self, event: &AckEvent) {
        dispatch!(self, control => control.on_ack(event));
    }

    #[inline(never)]
    fn limits_of_any(&self) -> SendLimits {
        dispatch!(self, control => control.limits())
    }

    #[inline(never)]
    fn on_sent_of_any(&mut self, event: &SentEvent) {
        dispatch!(self, control => control.on_sent(event));
    }
}

/// SCTP's own control answers directly whatever is asked for every packet and every acknowledgement
/// (docs/performance.md).
impl CongestionControl for Controller {
    #[inline]
    fn on_ack(&mut self, event: &AckEvent) {
        if let Self::Sctp(control) = self {
            control.on_ack(event);
        } else {
            self.on_ack_of_any(event);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        dispatch!(self, control => control.on_congestion(event));
    }

    #[inline]
    fn limits(&self) -> SendLimits {
        if let Self::Sctp(control) = self { control.limits() } else { self.limits_of_any() }
    }

    fn state(&self) -> ControlState {
        dispatch!(self, control => control.state())
    }

    fn on_duplicate(&mut self, event: &DuplicateEvent) {
        dispatch!(self, control => control.on_duplicate(event));
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        dispatch!(self, control => control.on_idle(event));
    }

    fn on_recovery_end(&mut self, event: &RecoveryEndEvent) {
        dispatch!(self, control => control.on_recovery_end(event));
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        dispatch!(self, control => control.on_undo(event));
    }

    fn on_arrival(&mut self, event: &ArrivalEvent) {
        dispatch!(self, control => control.on_arrival(event));
    }

    fn on_lost(&mut self, event: &LostEvent) {
        dispatch!(self, control => control.on_lost(event));
    }

    #[inline]
    fn is_only_window(&self) -> bool {
        dispatch!(self, control => control.is_only_window())
    }

    fn least_burst(&self) -> u32 {
        dispatch!(self, control => control.least_burst())
    }

    fn most_burst(&self) -> Option<u32> {
        dispatch!(self, control => control.most_burst())
    }

    fn answers_loss_after_mark(&self) -> bool {
        dispatch!(self, control => control.answers_loss_after_mark())
    }

    fn owns_recovery(&self) -> bool {
        dispatch!(self, control => control.owns_recovery())
    }

    fn on_probe(&mut self, event: &ProbeEvent) {
        dispatch!(self, control => control.on_probe(event));
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        dispatch!(self, control => control.on_rtt_sample(event));
    }

    #[inline]
    fn on_sent(&mut self, event: &SentEvent) {
        if let Self::Sctp(control) = self {
            control.on_sent(event);
        } else {
            self.on_sent_of_any(event);
        }
    }
}

#[cfg(test)]
impl Controller {
    /// Segments per acknowledgement as BIC estimates them, in 1/16.
    pub(crate) fn ack_ratio(&self) -> Option<u32> {
        let Self::Bic(control) = self else { return None };
        control.algorithm().ack_ratio()
    }
}
