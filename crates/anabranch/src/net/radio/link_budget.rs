//! The link budget: mean SNR from power, antennas, distance and bandwidth.
//!
//! Anchored at what the paper reports: 20 dBm at 2.5 km give 30 dB, 0 dBm give 10 dB. With two antennas of 16
//! dBi, 20 MHz and a noise figure of 7 dB (the one that IEEE 802.16-2004 section 8.3.11.1 assumes) that is a
//! path loss of 116.5 dB, where free space at 5.8 GHz has 115.7 dB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::served_link::check_range;

/// The path from the transmitter's power to the mean SNR, which is the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkBudgetConfig {
    /// Gain of both antennas together, in dBi, from -20 to 100; default 32.
    pub antenna_gain_dbi: f64,
    /// Distance in km, from 0.01 to 100; default 2.5.
    pub distance_km: f64,
    /// Noise figure of the receiver in dB, from 0 to 30; default 7.
    pub noise_figure_db: f64,
    /// Transmitter power in dBm, from -60 to 60; default 20, in profiles los10 and nlos10 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_dbm: Option<f64>,
    /// Path loss grows with this power of the distance, from 1 to 8; default 2 (free space), in profiles
    /// nlos30 and nlos10 4.375 (V. Erceg et al., terrain B, base station at 30 m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_loss_exponent: Option<f64>,
    /// Standard deviation in dB of log-normal shadowing, drawn once a run, from 0 to 30; default 0.
    pub shadowing_db: f64,
}

impl Default for LinkBudgetConfig {
    fn default() -> Self {
        Self {
            antenna_gain_dbi: ANCHOR_GAIN_DBI,
            distance_km: ANCHOR_KM,
            noise_figure_db: ANCHOR_NOISE_FIGURE_DB,
            power_dbm: None,
            path_loss_exponent: None,
            shadowing_db: 0.0,
        }
    }
}

const ANCHOR_SNR_DB: f64 = 30.0;
const ANCHOR_POWER_DBM: f64 = 20.0;
const ANCHOR_GAIN_DBI: f64 = 32.0;
const ANCHOR_KM: f64 = 2.5;
const ANCHOR_NOISE_FIGURE_DB: f64 = 7.0;
const ANCHOR_BANDWIDTH_MHZ: f64 = 20.0;

impl LinkBudgetConfig {
    /// The mean SNR in dB, without shadowing; `power_dbm` and `path_loss_exponent` are those of a profile.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn mean_snr_db(
        &self,
        power_dbm: f64,
        path_loss_exponent: f64,
        bandwidth_mhz: f64,
        key: &str,
    ) -> Result<f64, String> {
        let power = self.power_dbm.unwrap_or(power_dbm);
        let exponent = self.path_loss_exponent.unwrap_or(path_loss_exponent);
        for (name, value, least, most) in [
            ("antenna_gain_dbi", self.antenna_gain_dbi, -20.0, 100.0),
            ("distance_km", self.distance_km, 0.01, 100.0),
            ("noise_figure_db", self.noise_figure_db, 0.0, 30.0),
            ("power_dbm", power, -60.0, 60.0),
            ("path_loss_exponent", exponent, 1.0, 8.0),
            ("shadowing_db", self.shadowing_db, 0.0, 30.0),
        ] {
            check_range(key, name, value, least, most)?;
        }
        let more_loss = 10.0 * exponent * libm::log10(self.distance_km / ANCHOR_KM);
        let more_noise = 10.0 * libm::log10(bandwidth_mhz / ANCHOR_BANDWIDTH_MHZ) + self.noise_figure_db
            - ANCHOR_NOISE_FIGURE_DB;
        let more_signal = power - ANCHOR_POWER_DBM + self.antenna_gain_dbi - ANCHOR_GAIN_DBI;
        Ok(ANCHOR_SNR_DB + more_signal - more_loss - more_noise)
    }

    /// The propagation delay in nanoseconds.
    pub(crate) fn propagation_nanos(&self) -> u64 {
        const KM_PER_S: f64 = 299_792.458;
        (self.distance_km / KM_PER_S * 1e9).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snr(config: LinkBudgetConfig, bandwidth_mhz: f64) -> f64 {
        config.mean_snr_db(20.0, 2.0, bandwidth_mhz, "budget").unwrap()
    }

    #[test]
    fn the_paper_s_two_points_and_the_ways_between_them() {
        let at = LinkBudgetConfig::default();
        assert_eq!(snr(at, 20.0), 30.0);
        assert_eq!(snr(LinkBudgetConfig { power_dbm: Some(0.0), ..at }, 20.0), 10.0);
        assert!((snr(LinkBudgetConfig { distance_km: 25.0, ..at }, 20.0) - 10.0).abs() < 1e-12);
        let urban = LinkBudgetConfig { distance_km: 5.0, path_loss_exponent: Some(4.375), ..at };
        assert!((snr(urban, 20.0) - (30.0 - 13.17)).abs() < 0.01);
        assert!((snr(at, 10.0) - 33.01).abs() < 0.01);
        assert_eq!(snr(LinkBudgetConfig { antenna_gain_dbi: 35.0, noise_figure_db: 9.0, ..at }, 20.0), 31.0);
    }

    /// The anchor is close to free space: 20 log10(4 pi d f / c) and k T B.
    #[test]
    fn the_anchor_is_physical() {
        let free_space = 20.0 * libm::log10(4.0 * std::f64::consts::PI * 2_500.0 * 5.8e9 / 299_792_458.0);
        let used_mhz = 23.04 * 200.0 / 256.0;
        let noise = -174.0 + 10.0 * libm::log10(used_mhz * 1e6) + 7.0;
        let loss = 20.0 + 32.0 - 30.0 - noise;
        assert!((loss - free_space).abs() < 1.0, "{loss} {free_space}");
    }

    #[test]
    fn light_takes_its_time() {
        assert_eq!(LinkBudgetConfig::default().propagation_nanos(), 8_339);
    }
}
