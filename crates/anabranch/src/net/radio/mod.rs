//! Radio links: reusable parts, and what is built of them.
//!
//! Parts: `ofdm` (symbols, carriers), `modulation` (burst profiles and how one is chosen), `fading`
//! (how the channel's gain varies), `link_budget` (power and distance), `channel` (the SNR over time),
//! `block_errors` (what an SNR means for coded blocks). Built of them: `wimax`.

mod block_errors;
mod channel;
mod fading;
#[cfg(test)]
mod fading_statistics;
mod link_budget;
mod modulation;
mod ofdm;
mod wimax;

use std::ops::RangeInclusive;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fading::{
    ConstantConfig, DopplerSpectrum, FadingConfig, RayleighConfig, RicianConfig, TapConfig, TapsConfig,
};
pub use link_budget::LinkBudgetConfig;
pub use modulation::{AdaptiveConfig, BurstProfile, FixedConfig, ModulationConfig, Thresholds};
pub use ofdm::CyclicPrefix;
pub use wimax::{ArqConfig, CellConfig, Fairness, WimaxConfig, WimaxProfile};

pub(crate) use wimax::{BaseStation, RadioSample};

use super::config::LinkConfig;
use super::medium::Medium;
use crate::rng::Streams;

/// What kind of radio serves the link, instead of a server with a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RadioConfig {
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
    let mut stations: IndexMap<&str, BaseStation> = IndexMap::new();
    for (index, (name, link)) in links.iter().enumerate() {
        let Some(RadioConfig::Wimax(config)) = &link.radio else { continue };
        let base = config.base_station.as_deref().unwrap_or(name);
        if let Some(first) = stations.get_mut(base) {
            first.add(index as u32, name, link, config, streams, is_traced)?;
        } else {
            let mut station = BaseStation::new(&config.cell, name)?;
            station.add(index as u32, name, link, config, streams, is_traced)?;
            stations.insert(base, station);
        }
        let (number, _, station) = stations.get_full(base).expect("it is there now");
        place(index, (number as u32, station.len() as u32 - 1));
    }
    Ok(stations.into_values().map(|station| Medium::Wimax(Box::new(station))).collect())
}

/// Whether a number is in its range.
fn check_range(key: &str, name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    let range: RangeInclusive<f64> = least..=most;
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{key}.{name} is {value}, allowed is {least} to {most}"))
}
