//! Radio links: reusable parts, and the radios built from them.
//!
//! Parts: `ofdm` (symbols, carriers), `modulation` (burst profiles and how one is chosen), `fading` (how the
//! channel's gain varies), `link_budget` (power and distance), `channel` (the SNR over time), `block_errors`
//! (what an SNR means for coded blocks), `buffer` (what waits, with any discipline), `retransmissions` and
//! `delivery` (blocks that fail, and order), `drx` and `handovers` (when nothing is sent). Built of them:
//! `lte`, `nr`, `wifi`, `wimax`; `leo` stands by itself, as what it does is known when a run begins.

mod block_errors;
mod buffer;
mod channel;
mod delivery;
mod drx;
mod fading;
#[cfg(test)]
mod fading_statistics;
mod handovers;
mod leo;
mod link_budget;
mod lte;
mod modulation;
mod nr;
mod ofdm;
mod retransmissions;
mod served_link;
mod wifi;
mod wimax;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use drx::DrxConfig;
pub use fading::{
    ConstantConfig, DopplerSpectrum, FadingConfig, RayleighConfig, RicianConfig, TapConfig, TapsConfig,
};
pub use handovers::HandoverConfig;
pub(crate) use leo::LeoSchedules;
pub use leo::{LeoBorder, LeoConfig, LeoWay, PerPeriod};
pub use link_budget::LinkBudgetConfig;
pub use lte::{HarqConfig, LteConfig};
pub use modulation::{AdaptiveConfig, BurstProfile, FixedConfig, ModulationConfig, Thresholds};
pub use nr::{
    ConfiguredGrantConfig, DuplexConfig, FddConfig, GrantsConfig, NrConfig, NrHarqConfig, NrWay,
    SchedulingRequestConfig, TddConfig,
};
pub use ofdm::CyclicPrefix;
pub use retransmissions::RlcMode;
pub(crate) use served_link::SCALARS;
pub(crate) use served_link::ServedLink;
pub use wifi::{BackgroundConfig, WifiConfig, WifiStandard};
pub use wimax::{ArqConfig, CellConfig, Fairness, WimaxConfig, WimaxProfile};

pub(crate) use lte::Bearer;
pub(crate) use nr::{NrBearer, SCALARS as NR_SCALARS};
pub(crate) use retransmissions::SCALARS as BLOCK_SCALARS;
pub(crate) use wifi::{Cell, MOST_PACKET_BYTES as WIFI_MOST_PACKET_BYTES, SCALARS as WIFI_SCALARS};
pub(crate) use wimax::{BaseStation, RadioSample, SCALARS as WIMAX_SCALARS};

/// What kind of radio serves the link, instead of a server with a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RadioConfig {
    /// Satellites in low orbit that are chosen anew every 15 s. The link's first end is the ground station:
    /// forward is downlink.
    Leo(Box<LeoConfig>),
    /// LTE: grants, transport blocks and their retransmissions. The link's first end is the base station:
    /// forward is downlink.
    Lte(Box<LteConfig>),
    /// 5G New Radio: slots of a pattern, grants, transport blocks and their retransmissions. The link's first
    /// end is the base station: forward is downlink.
    Nr(Box<NrConfig>),
    /// IEEE 802.11a, g or n: both directions share a half-duplex channel.
    Wifi(Box<WifiConfig>),
    /// IEEE 802.16 OFDM, fixed stations. The link's first end is the base station: forward is downlink.
    Wimax(Box<WimaxConfig>),
}

impl RadioConfig {
    /// The name of its kind in scenario files.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Leo(_) => "leo",
            Self::Lte(_) => "lte",
            Self::Nr(_) => "nr",
            Self::Wifi(_) => "wifi",
            Self::Wimax(_) => "wimax",
        }
    }

    /// The name of what it shares with other links; `None` if the link shares nothing.
    pub(crate) fn shared_name(&self) -> Option<&str> {
        match self {
            Self::Leo(_) | Self::Lte(_) | Self::Nr(_) => None,
            Self::Wifi(config) => config.medium.as_deref(),
            Self::Wimax(config) => config.base_station.as_deref(),
        }
    }

    /// Whether the radio takes any queue discipline; otherwise it takes only `drop_tail`.
    pub(super) fn takes_any_queue(&self) -> bool {
        !matches!(self, Self::Wimax(_))
    }

    /// The largest IP packet that the radio carries, in bytes.
    pub(crate) fn most_packet_bytes(&self) -> Option<u64> {
        match self {
            Self::Wifi(_) => Some(WIFI_MOST_PACKET_BYTES),
            Self::Leo(_) | Self::Lte(_) | Self::Nr(_) | Self::Wimax(_) => None,
        }
    }
}
