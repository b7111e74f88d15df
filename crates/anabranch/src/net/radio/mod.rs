//! Radio links: reusable parts, and what is built of them.
//!
//! Parts: `ofdm` (symbols, carriers), `modulation` (burst profiles and how one is chosen), `fading`
//! (how the channel's gain varies), `link_budget` (power and distance), `channel` (the SNR over time),
//! `block_errors` (what an SNR means for coded blocks), `buffer` (what waits, with any discipline). Built of them:
//! `lte`, `wifi`, `wimax`.

mod block_errors;
mod buffer;
mod channel;
mod fading;
#[cfg(test)]
mod fading_statistics;
mod link_budget;
mod lte;
mod modulation;
mod ofdm;
mod wifi;
mod wimax;

use std::ops::RangeInclusive;

use indexmap::IndexMap;
use indexmap::map::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fading::{
    ConstantConfig, DopplerSpectrum, FadingConfig, RayleighConfig, RicianConfig, TapConfig, TapsConfig,
};
pub use link_budget::LinkBudgetConfig;
pub use lte::{HarqConfig, LteConfig, RlcMode};
pub use modulation::{AdaptiveConfig, BurstProfile, FixedConfig, ModulationConfig, Thresholds};
pub use ofdm::CyclicPrefix;
pub use wifi::{BackgroundConfig, WifiConfig, WifiStandard};
pub use wimax::{ArqConfig, CellConfig, Fairness, WimaxConfig, WimaxProfile};

pub(crate) use lte::Bearer;
pub(crate) use wifi::{Cell, MOST_PACKET_BYTES as WIFI_MOST_PACKET_BYTES};
pub(crate) use wimax::{BaseStation, RadioSample};

use super::config::LinkConfig;
use super::medium::Medium;
use crate::rng::Streams;

/// What kind of radio serves the link, instead of a server with a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RadioConfig {
    /// LTE: grants, transport blocks and their retransmissions. The link's first end is the base station: forward
    /// is downlink.
    Lte(Box<LteConfig>),
    /// IEEE 802.11a, g or n: both directions share a half-duplex channel.
    Wifi(Box<WifiConfig>),
    /// IEEE 802.16 OFDM, fixed stations. The link's first end is the base station: forward is downlink.
    Wimax(Box<WimaxConfig>),
}

/// Builds the media of all radio links; `place` hears of each such link its medium and its number there.
pub(crate) fn build(
    links: &IndexMap<String, LinkConfig>,
    streams: Streams,
    is_traced: bool,
    mut place: impl FnMut(usize, (u32, u32)),
) -> Result<Vec<Medium>, String> {
    let mut media: IndexMap<(&str, &str), Medium> = IndexMap::new();
    for (index, (name, link)) in links.iter().enumerate() {
        let Some(radio) = &link.radio else { continue };
        let medium = match radio {
            RadioConfig::Lte(_) => None,
            RadioConfig::Wifi(config) => config.medium.as_deref(),
            RadioConfig::Wimax(config) => config.base_station.as_deref(),
        };
        let entry = media.entry((radio.kind(), medium.unwrap_or(name)));
        let number = entry.index() as u32;
        let medium = match entry {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(radio.build(index as u32, name, link, streams, is_traced)?)
            }
        };
        let index = index as u32;
        let station = match (medium, radio) {
            (Medium::Lte(_), _) => 1,
            (Medium::Wifi(cell), RadioConfig::Wifi(config)) => {
                cell.add(index, name, link, config, streams, is_traced)?;
                cell.len()
            }
            (Medium::Wimax(base), RadioConfig::Wimax(config)) => {
                base.add(index, name, link, config, streams, is_traced)?;
                base.len()
            }
            _ => unreachable!("media are told apart by their kind"),
        };
        place(index as usize, (number, station as u32 - 1));
    }
    Ok(media.into_values().collect())
}

impl RadioConfig {
    fn kind(&self) -> &'static str {
        match self {
            Self::Lte(_) => "lte",
            Self::Wifi(_) => "wifi",
            Self::Wimax(_) => "wimax",
        }
    }

    /// The medium of this link, which is the first one of it; stations that can be several are added later.
    fn build(
        &self,
        index: u32,
        name: &str,
        link: &LinkConfig,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Medium, String> {
        Ok(match self {
            Self::Lte(config) => {
                Medium::Lte(Box::new(Bearer::build(index, name, link, config, streams, is_traced)?))
            }
            Self::Wifi(config) => Medium::Wifi(Box::new(Cell::new(config, name, streams)?)),
            Self::Wimax(config) => Medium::Wimax(Box::new(BaseStation::new(&config.cell, name)?)),
        })
    }

    /// Whether any queue discipline goes with it; otherwise only `drop_tail` does.
    pub(super) fn takes_any_queue(&self) -> bool {
        !matches!(self, Self::Wimax(_))
    }

    /// The largest IP packet that it carries, in bytes.
    pub(crate) fn most_packet_bytes(&self) -> Option<u64> {
        match self {
            Self::Wifi(_) => Some(WIFI_MOST_PACKET_BYTES),
            Self::Lte(_) | Self::Wimax(_) => None,
        }
    }
}

/// Whether a number is in its range.
fn check_range(key: &str, name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    let range: RangeInclusive<f64> = least..=most;
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{key}.{name} is {value}, allowed is {least} to {most}"))
}
