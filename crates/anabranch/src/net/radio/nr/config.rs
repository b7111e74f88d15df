//! The settings of an NR link.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::drx::DrxConfig;
use super::super::handovers::HandoverConfig;
use super::super::retransmissions::RlcMode;
use crate::schedule::Schedule;

/// A 5G New Radio link. Its first end is the base station: forward is downlink. Without limits, `drop_tail`
/// holds 1500 packets, as with LTE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NrConfig {
    /// Numerology, from 0 to 3: carriers are 15 kHz x 2^numerology apart, and a slot takes 1 ms /
    /// 2^numerology (TS 38.211 table 4.3.2-1); default 1.
    pub numerology: u32,
    /// Bandwidth in MHz, one of those that TS 38.101-1 table 5.3.2-1 has for the numerology (from 200 on TS
    /// 38.101-2), from which the number of resource blocks follows; default 40, which are 106.
    pub bandwidth_mhz: u32,
    /// What of the slots belongs to which direction; default `tdd` with the pattern DDDSU.
    pub duplex: DuplexConfig,
    /// Blocks to the station; default MCS 20 on 2 layers.
    pub downlink: NrWay,
    /// Blocks from the station; default MCS 16 on 1 layer.
    pub uplink: NrWay,
    /// Symbols for control at the start of each slot of the downlink, from 0 to 3; default 1.
    pub control_symbols: u32,
    /// The least number of slots from a block of the downlink to its feedback, from 0 to 15 (TS 38.213
    /// section 9.2.3); default 4.
    pub k1: u32,
    /// The least number of slots from a grant to its block of the uplink, from 0 to 32 (TS 38.331,
    /// `PUSCH-TimeDomainResourceAllocation`); default 4.
    pub k2: u32,
    /// How the uplink comes by its first grant; default `request`.
    pub grants: GrantsConfig,
    /// Time that a sender needs before it sends and a receiver after it has received, up to 10 ms; default
    /// "200 us", about half of N1 at numerology 1 (10 symbols, TS 38.214 table 5.3-1), as TR 37.910 counts
    /// it.
    pub processing_delay: Duration,
    /// How blocks that fail are retransmitted.
    pub harq: NrHarqConfig,
    /// What becomes of blocks that fail for good; default "am".
    pub rlc: RlcMode,
    /// Time from when a block has failed for good to RLC's retransmission of it; default "40 ms".
    pub rlc_delay: Duration,
    /// How long packets wait behind one that is lost (PDCP's t-Reordering, TS 38.323 section 5.2.2.2);
    /// default "100 ms".
    pub t_reordering: Duration,
    /// When the station listens. By default, it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drx: Option<DrxConfig>,
    /// When the station changes its cell. By default, it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handovers: Option<HandoverConfig>,
}

impl Default for NrConfig {
    fn default() -> Self {
        Self {
            numerology: 1,
            bandwidth_mhz: 40,
            duplex: DuplexConfig::default(),
            downlink: NrWay::default(),
            uplink: NrWay::default(),
            control_symbols: 1,
            k1: 4,
            k2: 4,
            grants: GrantsConfig::default(),
            processing_delay: Duration::from_micros(200),
            harq: NrHarqConfig::default(),
            rlc: RlcMode::default(),
            rlc_delay: Duration::from_millis(40),
            t_reordering: Duration::from_millis(100),
            drx: None,
            handovers: None,
        }
    }
}

/// What of the slots belongs to which direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DuplexConfig {
    /// Each direction has a carrier of its own, and all slots of it.
    Fdd(FddConfig),
    /// Both directions share a carrier, by a pattern of slots.
    Tdd(TddConfig),
}

impl Default for DuplexConfig {
    fn default() -> Self {
        Self::Tdd(TddConfig::default())
    }
}

/// Two carriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FddConfig {}

/// A pattern of slots that starts over and over (TS 38.331, `TDD-UL-DL-ConfigCommon`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TddConfig {
    /// A letter for each slot: D of the downlink, U of the uplink, S with symbols of both; default "DDDSU".
    /// It repeats a whole number of times in 20 ms (TS 38.213 section 11.1).
    pub pattern: String,
    /// Symbols of the downlink at the start of an S slot, from 0 to 14; default 10.
    pub downlink_symbols: u32,
    /// Symbols of the uplink at its end, likewise; both together are at most 14, and what they leave is the
    /// gap in which stations turn round. Less than 4 are for requests and feedback only. Default 2.
    pub uplink_symbols: u32,
}

impl Default for TddConfig {
    fn default() -> Self {
        Self { pattern: "DDDSU".to_owned(), downlink_symbols: 10, uplink_symbols: 2 }
    }
}

/// The blocks of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NrWay {
    /// Modulation and coding scheme, from 0 to 27 (TS 38.214 table 5.1.3.1-2, up to 256-QAM); may follow a
    /// timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<Schedule<u32>>,
    /// Layers, from 1 to 8, in the uplink to 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<u32>,
    /// The share of the resource blocks that other users of the cell take, from 0 to 0.99; may follow a
    /// timetable. It is rounded to whole blocks, of which one is left at least. Default: 0.
    pub load: Schedule<Probability>,
}

/// How the uplink comes by its first grant. Further ones follow what a block says that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GrantsConfig {
    /// The station has slots in which it may send without a grant (TS 38.321 section 5.8.2).
    Configured(ConfiguredGrantConfig),
    /// The station asks for one (TS 38.321 section 5.4.4).
    Request(SchedulingRequestConfig),
}

impl Default for GrantsConfig {
    fn default() -> Self {
        Self::Request(SchedulingRequestConfig::default())
    }
}

/// Slots for scheduling requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulingRequestConfig {
    /// Slots from one to the next: 1, 2, 4, 5, 8, 10, 16, 20, 40, 80, 160, 320 or 640 (TS 38.331,
    /// `SchedulingRequestResourceConfig`); default 10.
    pub period: u32,
    /// The first one, less than the period. Default: the first slot with the most symbols of the uplink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
}

impl Default for SchedulingRequestConfig {
    fn default() -> Self {
        Self { period: 10, offset: None }
    }
}

/// Slots in which the station may send without a grant, as much as other users leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfiguredGrantConfig {
    /// Slots from one to the next, from 1 to 640; default 5.
    pub period: u32,
    /// The first one, less than the period. Default: the first slot with the most symbols of the uplink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
}

impl Default for ConfiguredGrantConfig {
    fn default() -> Self {
        Self { period: 5, offset: None }
    }
}

/// How blocks that fail are retransmitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NrHarqConfig {
    /// Probability that a transmission of a block fails, independently of the others, up to 0.99; may follow
    /// a timetable. Default: 10 %, at which link adaptation aims (TS 38.214 section 5.2.2.1).
    pub error: Schedule<Probability>,
    /// The most transmissions of a block, from 1 to 28; default 4.
    pub transmissions: u32,
    /// How many blocks of a direction may be under way at once, from 1 to 32; default 16 (TS 38.331,
    /// nrofHARQ-ProcessesForPDSCH).
    pub processes: u32,
}

impl Default for NrHarqConfig {
    fn default() -> Self {
        Self {
            error: Schedule::Constant(Probability::new(0.1).expect("it is one")),
            transmissions: 4,
            processes: 16,
        }
    }
}
