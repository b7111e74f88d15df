//! Google Congestion Control, in the two forms that go by this name.

mod draft_02;
mod libwebrtc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Feedback, Limits, MediaControl};
use crate::flow::Ecn;
use crate::time::Time;
use crate::units::Rate;

use draft_02::Draft02;
use libwebrtc::Libwebrtc;

/// Which form of Google Congestion Control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "GccVariant")]
pub enum Variant {
    /// draft-ietf-rmcat-gcc-02: a Kalman filter, and losses by their share.
    #[serde(rename = "draft_02")]
    Draft02,
    /// libwebrtc: the trend of the delay, an estimate of the capacity by losses, and probes.
    #[default]
    Libwebrtc,
}

/// Settings of Google Congestion Control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GccConfig")]
pub struct Config {
    /// Which form; default `"libwebrtc"`.
    pub variant: Variant,
    /// The least target; default "150 kbit/s".
    pub min_rate: Rate,
    /// The highest target; default "1.5 Mbit/s". No probe is faster.
    pub max_rate: Rate,
    /// The target at the start; default "150 kbit/s".
    pub initial_rate: Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            min_rate: Rate::from_bits_per_sec(150_000),
            max_rate: Rate::from_bits_per_sec(1_500_000),
            initial_rate: Rate::from_bits_per_sec(150_000),
        }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), String> {
        super::check_rates(self.min_rate, self.initial_rate, self.max_rate)
    }

    pub(super) fn build(&self, _ecn: Ecn) -> Gcc {
        let initial = self.initial_rate.bits_per_sec() as f64;
        let bounds = [self.min_rate, self.max_rate].map(|rate| rate.bits_per_sec() as f64);
        match self.variant {
            Variant::Draft02 => Gcc::Draft02(Box::new(Draft02::new(initial, bounds))),
            Variant::Libwebrtc => Gcc::Libwebrtc(Box::new(Libwebrtc::new(initial, bounds))),
        }
    }
}

/// What lies between two groups of packets that were sent together, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    /// From the last packet of one to that of the other, at the sender.
    sent: f64,
    /// The same at the receiver.
    arrived: f64,
}

impl Change {
    /// By how much the delay has grown: d(i).
    const fn variation(&self) -> f64 {
        self.arrived - self.sent
    }
}

/// What the over-use detector says (section 5.4 of the draft; `BandwidthUsage` in libwebrtc).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Signal {
    #[default]
    Normal,
    OverUse,
    UnderUse,
}

/// Google Congestion Control.
#[derive(Debug)]
pub enum Gcc {
    /// As its draft has it.
    Draft02(Box<draft_02::Draft02>),
    /// As libwebrtc has it.
    Libwebrtc(Box<libwebrtc::Libwebrtc>),
}

impl MediaControl for Gcc {
    fn on_sent(&mut self, now: Time, size: u32) {
        match self {
            Self::Draft02(control) => control.on_sent(now, size),
            Self::Libwebrtc(control) => control.on_sent(now, size),
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        match self {
            Self::Draft02(control) => control.on_feedback(feedback),
            Self::Libwebrtc(control) => control.on_feedback(feedback),
        }
    }

    fn timeout(&self) -> Time {
        match self {
            Self::Draft02(control) => control.timeout(),
            Self::Libwebrtc(control) => control.timeout(),
        }
    }

    fn on_timeout(&mut self, now: Time) {
        match self {
            Self::Draft02(control) => control.on_timeout(now),
            Self::Libwebrtc(control) => control.on_timeout(now),
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Draft02(control) => control.limits(),
            Self::Libwebrtc(control) => control.limits(),
        }
    }
}
