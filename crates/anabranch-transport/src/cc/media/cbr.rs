//! A constant rate: no congestion control at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Feedback, Limits, MediaControl};
use crate::flow::Ecn;
use crate::units::Rate;

/// Settings of a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CbrConfig")]
pub struct Config {
    /// The rate; default "1 Mbit/s".
    pub rate: Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self { rate: Rate::from_bits_per_sec(1_000_000) }
    }
}

impl Config {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every rate is possible")]
    pub(super) const fn check(self) -> Result<(), String> {
        Ok(())
    }

    pub(super) const fn build(self, _ecn: Ecn) -> Cbr {
        Cbr(self.rate)
    }
}

/// A constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Cbr(Rate);

impl MediaControl for Cbr {
    fn on_feedback(&mut self, _feedback: &Feedback<'_>) {}

    fn limits(&self) -> Limits {
        Limits::paced(self.0)
    }
}
