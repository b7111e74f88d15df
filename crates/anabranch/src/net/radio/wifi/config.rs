//! The settings of a Wi-Fi link.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy::WifiStandard;
use crate::net::schedule::Schedule;
use crate::units::{Probability, Rate};

/// A Wi-Fi link: its two ends are stations of one channel, which both directions share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WifiConfig {
    /// Physical layer and channel access; default "a".
    pub standard: WifiStandard,
    /// Links with the same medium share its channel and say the same of `standard`. Default: a medium of the
    /// link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Rate of data frames: 6, 9, 12, 18, 24, 36, 48 or 54 Mbit/s, with `n` 6.5, 13, 19.5, 26, 39, 52, 58.5 or
    /// 65 Mbit/s; may follow a timetable. Default: the highest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Schedule<Rate>>,
    /// Probability that a data frame is damaged in the air; may follow a timetable. Default: 0.
    pub frame_error_rate: Schedule<Probability>,
    /// Transmissions of a frame after which it is lost, from 1 to 255; default 7 (dot11ShortRetryLimit).
    pub retry_limit: u32,
}

impl Default for WifiConfig {
    fn default() -> Self {
        Self {
            standard: WifiStandard::default(),
            medium: None,
            rate: None,
            frame_error_rate: Schedule::default(),
            retry_limit: 7,
        }
    }
}
