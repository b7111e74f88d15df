//! The settings of a Wi-Fi link.

use anabranch_transport::units::{Bytes, Probability, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy::WifiStandard;
use crate::schedule::Schedule;

/// A Wi-Fi link: its two ends are stations of one channel, which both directions share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WifiConfig {
    /// Physical layer and channel access; default "a".
    pub standard: WifiStandard,
    /// Links with the same medium share its channel and have the same `standard`, `collisions` and
    /// `background`. Default: a medium of the link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Rate of data frames: 6, 9, 12, 18, 24, 36, 48 or 54 Mbit/s, with `n` 6.5, 13, 19.5, 26, 39, 52, 58.5
    /// or 65 Mbit/s; may follow a timetable. Default: the highest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Schedule<Rate>>,
    /// Probability that a data frame is damaged in the air; may follow a timetable. Default: 0.
    pub frame_error_rate: Schedule<Probability>,
    /// Number of transmissions after which a frame is lost, from 1 to 255; default 7 (dot11ShortRetryLimit).
    pub retry_limit: u32,
    /// Whether stations contend, with collisions and windows that double. Otherwise frames are sent in the
    /// order of their packets' arrival at either end, each after a backoff. Default: false.
    pub collisions: bool,
    /// Further stations that contend for the channel, if stations contend. Default: none.
    pub background: BackgroundConfig,
}

/// Stations that contend for the channel with those of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackgroundConfig {
    /// The number of these stations, from 0 to 100; default 0.
    pub stations: u32,
    /// Size of their IP packets, from 20 B to 2296 B; default "1500 B".
    pub packet: Bytes,
    /// Rate of their data frames. Default: the highest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Load that each of them has to send, in IP packets that come at random (Poisson) and of which at most
    /// 50 wait; at most `rate`. By default, each always has something to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Rate>,
}

impl Default for BackgroundConfig {
    fn default() -> Self {
        Self { stations: 0, packet: Bytes(1_500), rate: None, load: None }
    }
}

impl Default for WifiConfig {
    fn default() -> Self {
        Self {
            standard: WifiStandard::default(),
            medium: None,
            rate: None,
            frame_error_rate: Schedule::default(),
            retry_limit: 7,
            collisions: false,
            background: BackgroundConfig::default(),
        }
    }
}
