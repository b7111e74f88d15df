//! The settings of a station and of its cell.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::fading::{FadingConfig, RicianConfig, TapsConfig};
use super::super::link_budget::LinkBudgetConfig;
use super::super::modulation::{AdaptiveConfig, BurstProfile, FixedConfig, ModulationConfig, Thresholds};
use super::super::ofdm::CyclicPrefix;
use super::super::served_link::check_range;

/// A station and its channel. Settings that are left out are those of its profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WimaxConfig {
    /// Whose defaults; default "los30".
    pub profile: WimaxProfile,
    /// Links with the same base station share its frames. Default: a base station of the link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_station: Option<String>,
    /// Mean SNR in dB, from -20 to 60, instead of the one that the link budget gives. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
    /// Power, antennas and distance, from which the mean SNR follows.
    pub link_budget: LinkBudgetConfig,
    /// Fading; default `rician` with K = 10 dB, in profiles nlos30 and nlos10 `taps` (SUI-4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fading: Option<FadingConfig>,
    /// How the burst profile is chosen; default `adaptive`, in profile los10 `fixed` at `qpsk_1_2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modulation: Option<ModulationConfig>,
    /// The SNR that each burst profile needs; default `ieee_802_16_2004`.
    pub thresholds: Thresholds,
    /// How lost pieces of packets are retransmitted. By default, they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqConfig>,
    /// Time from the end of a packet's burst to the packet's departure, in addition to propagation; default
    /// "1 ms".
    pub processing_delay: Duration,
    /// The frames of the base station; the same for all its links.
    pub cell: CellConfig,
}

impl Default for WimaxConfig {
    fn default() -> Self {
        Self {
            profile: WimaxProfile::default(),
            base_station: None,
            snr_db: None,
            link_budget: LinkBudgetConfig::default(),
            fading: None,
            modulation: None,
            thresholds: Thresholds::default(),
            arq: None,
            processing_delay: Duration::from_millis(1),
            cell: CellConfig::default(),
        }
    }
}

/// Line of sight or not, and mean SNR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WimaxProfile {
    /// Line of sight, 10 dB: 0 dBm over 2.5 km, Rician fading with K = 10 dB, the burst profile set by hand
    /// to QPSK 1/2, which is the fastest one whose threshold a steady 10 dB reaches.
    Los10,
    /// Line of sight, 30 dB: 20 dBm over 2.5 km, Rician fading with K = 10 dB, adaptive modulation.
    #[default]
    Los30,
    /// No line of sight, 10 dB: 0 dBm over 2.5 km, the SUI-4 channel, adaptive modulation.
    Nlos10,
    /// No line of sight, 30 dB: 20 dBm over 2.5 km, the SUI-4 channel, adaptive modulation.
    Nlos30,
}

/// Transmitter power of the two cases (the paper's).
const HIGH_POWER_DBM: f64 = 20.0;
const LOW_POWER_DBM: f64 = 0.0;

/// The path loss exponents of the two cases: free space; and a - b h + c / h = 4 - 0.0065 h + 17.1 / h with a
/// base station at h = 30 m over terrain of type B (802.16.3c-01/29r4).
const FREE_SPACE_EXPONENT: f64 = 2.0;
const TERRAIN_B_EXPONENT: f64 = 4.375;

impl WimaxConfig {
    pub(super) fn fading(&self) -> FadingConfig {
        self.fading.clone().unwrap_or_else(|| match self.profile {
            WimaxProfile::Los10 | WimaxProfile::Los30 => FadingConfig::Rician(RicianConfig::default()),
            WimaxProfile::Nlos10 | WimaxProfile::Nlos30 => FadingConfig::Taps(TapsConfig::default()),
        })
    }

    pub(super) fn modulation(&self) -> ModulationConfig {
        self.modulation.unwrap_or_else(|| match self.profile {
            WimaxProfile::Los10 => ModulationConfig::Fixed(FixedConfig { profile: BurstProfile::Qpsk12 }),
            WimaxProfile::Los30 | WimaxProfile::Nlos10 | WimaxProfile::Nlos30 => {
                ModulationConfig::Adaptive(AdaptiveConfig::default())
            }
        })
    }

    /// The mean SNR in dB, without shadowing.
    pub(super) fn mean_snr_db(&self, key: &str) -> Result<f64, String> {
        let (power_dbm, exponent) = match self.profile {
            WimaxProfile::Los10 => (LOW_POWER_DBM, FREE_SPACE_EXPONENT),
            WimaxProfile::Los30 => (HIGH_POWER_DBM, FREE_SPACE_EXPONENT),
            WimaxProfile::Nlos10 => (LOW_POWER_DBM, TERRAIN_B_EXPONENT),
            WimaxProfile::Nlos30 => (HIGH_POWER_DBM, TERRAIN_B_EXPONENT),
        };
        let budget_key = format!("{key}.link_budget");
        let of_budget =
            self.link_budget.mean_snr_db(power_dbm, exponent, self.cell.bandwidth_mhz, &budget_key)?;
        if let Some(snr) = self.snr_db {
            check_range(key, "snr_db", snr, -20.0, 60.0)?;
        }
        Ok(self.snr_db.unwrap_or(of_budget))
    }
}

/// Retransmission of lost pieces of packets, which then arrive in order (IEEE 802.16-2004 section 6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArqConfig {
    /// Number of frames from a transmission to the next one of the same piece, at least 1; default 2.
    pub frames: u32,
    /// Number of retransmissions of a piece after which its packet is lost, from 1 to 255; default 4.
    pub retries: u32,
}

impl Default for ArqConfig {
    fn default() -> Self {
        Self { frames: 2, retries: 4 }
    }
}

/// What is shared equally among stations that want more than there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fairness {
    /// Symbols: a station with a better signal gets more bytes.
    #[default]
    Airtime,
    /// Bytes: a station with a worse signal takes more symbols.
    Throughput,
}

/// The frames of a base station. All links of one base station have the same settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Bandwidth of the channel in MHz, from 1.25 to 28; default 20.
    pub bandwidth_mhz: f64,
    /// Guard time as a part of a symbol's useful time; default "1/16".
    pub cyclic_prefix: CyclicPrefix,
    /// Length of a frame, from 2 ms to 20 ms; default "5 ms".
    pub frame: Duration,
    /// Each of the two gaps in a frame in which stations turn from sending to receiving, up to a quarter of
    /// the frame; default "100 us" (IEEE 802.16-2004 section 12.3).
    pub gap: Duration,
    /// Part of the frame that the downlink is sure to have when both directions want more than there is, from
    /// 0 to 1; default 0.5.
    pub downlink_share: f64,
    /// Whether a direction may use what the other one leaves of its share; default true.
    pub adaptive_split: bool,
    /// Symbols of the uplink for ranging and bandwidth requests in contention, in each frame; default 8: a
    /// ranging request (long preamble, 4 symbols) and a bandwidth request (preamble, one symbol).
    pub contention_symbols: u32,
    /// The equipment's limit in the downlink, in IP packets; default "30 Mbit/s".
    pub downlink_limit: Rate,
    /// The equipment's limit in the uplink, in IP packets; default "26.4 Mbit/s".
    pub uplink_limit: Rate,
    /// Whether each limit is for one direction alone, so that the used parts of the two add up to at most 1;
    /// default true.
    pub shared_limits: bool,
    /// Number of frames from a request for bandwidth to the grant, from 1 to 100; default 1.
    pub grant_delay: u32,
    /// Whether small packets share a protocol data unit; default true.
    pub packing: bool,
    /// What is shared equally among stations; default "airtime".
    pub fairness: Fairness,
}

impl Default for CellConfig {
    fn default() -> Self {
        Self {
            bandwidth_mhz: 20.0,
            cyclic_prefix: CyclicPrefix::default(),
            frame: Duration::from_millis(5),
            gap: Duration::from_micros(100),
            downlink_share: 0.5,
            adaptive_split: true,
            contention_symbols: 8,
            downlink_limit: Rate::from_bits_per_sec(30_000_000),
            uplink_limit: Rate::from_bits_per_sec(26_400_000),
            shared_limits: true,
            grant_delay: 1,
            packing: true,
            fairness: Fairness::default(),
        }
    }
}
