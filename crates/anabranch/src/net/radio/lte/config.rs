//! The settings of an LTE link.

use anabranch_transport::time::Duration;
use anabranch_transport::units::{Probability, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::drx::DrxConfig;
use super::super::handovers::HandoverConfig;
use super::super::retransmissions::RlcMode;
use crate::net::capacity::RateConfig;
use crate::schedule::Schedule;

/// An LTE link. Its first end is the base station: forward is downlink. Without limits, `drop_tail` holds
/// 1500 packets, as buffers of RLC do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LteConfig {
    /// Rate of the downlink: a value, a timetable, or `{ mahimahi = "file" }`; default "100 Mbit/s" (category
    /// 3).
    pub downlink_rate: RateConfig,
    /// Rate of the uplink, likewise; default "50 Mbit/s" (category 3).
    pub uplink_rate: RateConfig,
    /// Time from a packet's arrival at the base station to its first transmission, in addition to the wait
    /// for packets before it; default "6 ms".
    pub downlink_delay: Duration,
    /// A packet is reported after a time that is uniform from 0 to this; default "4 ms".
    pub request_wait: Duration,
    /// Time from the report to the transmission that is granted; default "8 ms", of which 4 ms are to the
    /// grant and 4 ms from it.
    pub grant_delay: Duration,
    /// How blocks that fail are retransmitted.
    pub harq: HarqConfig,
    /// What becomes of blocks that fail for good; default "am".
    pub rlc: RlcMode,
    /// Time from the last transmission of a block that fails for good to the first one that RLC asks for;
    /// default "60 ms".
    pub rlc_delay: Duration,
    /// How long packets wait behind one that is lost (RLC's t-Reordering, TS 36.322 section 5.1.2.2); default
    /// "0 s".
    pub t_reordering: Duration,
    /// When the station listens. By default, it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drx: Option<DrxConfig>,
    /// When the station changes its cell. By default, it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handovers: Option<HandoverConfig>,
}

impl Default for LteConfig {
    fn default() -> Self {
        let rate =
            |mbps: u64| RateConfig::Scheduled(Schedule::Constant(Rate::from_bits_per_sec(mbps * 1_000_000)));
        Self {
            downlink_rate: rate(100),
            uplink_rate: rate(50),
            downlink_delay: Duration::from_millis(6),
            request_wait: Duration::from_millis(4),
            grant_delay: Duration::from_millis(8),
            harq: HarqConfig::default(),
            rlc: RlcMode::default(),
            rlc_delay: Duration::from_millis(60),
            t_reordering: Duration::ZERO,
            drx: None,
            handovers: None,
        }
    }
}

/// Blocks that fail are retransmitted after 8 ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HarqConfig {
    /// Probability that a transmission of a block fails, independently of the others, below 1; may follow a
    /// timetable. Default: 0; networks aim at 10 %.
    pub error: Schedule<Probability>,
    /// The most transmissions of a block, from 1 to 28; default 4 (maxHARQ-Tx, TS 36.331).
    pub transmissions: u32,
}

impl Default for HarqConfig {
    fn default() -> Self {
        Self { error: Schedule::default(), transmissions: 4 }
    }
}
