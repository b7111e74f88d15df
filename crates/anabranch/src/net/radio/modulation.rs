//! Burst profiles (modulation and code) and how one is chosen: adaptively or by hand.
//!
//! Sources: IEEE 802.16-2004 Table 215 (bytes in a block; with all 16 subchannels a block of the mandatory
//! Reed-Solomon and convolutional code is one OFDM symbol), Table 266 (receiver SNR assumptions); IEEE
//! 802.16e-2005, the same table, which lists lower numbers.

use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::served_link::check_range;

/// Modulation and code of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum BurstProfile {
    /// BPSK, code rate 1/2.
    #[serde(rename = "bpsk_1_2")]
    Bpsk12,
    /// QPSK, code rate 1/2.
    #[serde(rename = "qpsk_1_2")]
    Qpsk12,
    /// QPSK, code rate 3/4.
    #[serde(rename = "qpsk_3_4")]
    Qpsk34,
    /// 16-QAM, code rate 1/2.
    #[serde(rename = "qam16_1_2")]
    Qam16R12,
    /// 16-QAM, code rate 3/4.
    #[serde(rename = "qam16_3_4")]
    Qam16R34,
    /// 64-QAM, code rate 2/3.
    #[serde(rename = "qam64_2_3")]
    Qam64R23,
    /// 64-QAM, code rate 3/4.
    #[serde(rename = "qam64_3_4")]
    Qam64R34,
}

/// Bytes before the code in one OFDM symbol (Table 215).
const BYTES_PER_SYMBOL: [u32; BurstProfile::COUNT] = [12, 24, 36, 48, 72, 96, 108];

const NAMES: [&str; BurstProfile::COUNT] =
    ["bpsk_1_2", "qpsk_1_2", "qpsk_3_4", "qam16_1_2", "qam16_3_4", "qam64_2_3", "qam64_3_4"];

impl BurstProfile {
    pub(crate) const COUNT: usize = 7;

    /// All profiles, from the most robust to the fastest.
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Bpsk12,
        Self::Qpsk12,
        Self::Qpsk34,
        Self::Qam16R12,
        Self::Qam16R34,
        Self::Qam64R23,
        Self::Qam64R34,
    ];

    /// Bytes of data in one OFDM symbol, which is one block of the code.
    pub(crate) const fn bytes_per_symbol(self) -> u32 {
        BYTES_PER_SYMBOL[self as usize]
    }

    /// The name in the scenario file.
    pub(crate) const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Which standard's receiver SNR thresholds count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Thresholds {
    /// IEEE 802.16-2004, Table 266: 6.4, 9.4, 11.2, 16.4, 18.2, 22.7 and 24.4 dB.
    #[default]
    #[serde(rename = "ieee_802_16_2004")]
    Ieee2004,
    /// IEEE 802.16e-2005: 3.0, 6.0, 8.5, 11.5, 15.0, 19.0 and 21.0 dB.
    #[serde(rename = "ieee_802_16e_2005")]
    Ieee2005,
}

impl Thresholds {
    /// The SNR in dB at which each profile has a bit error rate of 1e-6 after the code.
    pub(crate) const fn db(self) -> [f64; BurstProfile::COUNT] {
        match self {
            Self::Ieee2004 => [6.4, 9.4, 11.2, 16.4, 18.2, 22.7, 24.4],
            Self::Ieee2005 => [3.0, 6.0, 8.5, 11.5, 15.0, 19.0, 21.0],
        }
    }
}

/// How the burst profile is chosen, for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModulationConfig {
    /// The profile follows the reported SNR.
    Adaptive(AdaptiveConfig),
    /// The profile is set by hand.
    Fixed(FixedConfig),
}

/// The fastest profile that the reported SNR allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveConfig {
    /// A profile is left when the SNR is less than this far above its threshold, from 0 to 30 dB; default 2.
    pub margin_db: f64,
    /// A faster profile is taken only when the SNR is higher by this much, from 0 to 30 dB; default 2.
    pub hysteresis_db: f64,
    /// Time between two reports, and time from a report to the profile that it asks for; default "20 ms".
    pub reaction_delay: Duration,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self { margin_db: 2.0, hysteresis_db: 2.0, reaction_delay: Duration::from_millis(20) }
    }
}

/// The same profile at all times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedConfig {
    /// The profile.
    pub profile: BurstProfile,
}

impl ModulationConfig {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn build(
        &self,
        thresholds_db: [f64; BurstProfile::COUNT],
        key: &str,
    ) -> Result<Selector, String> {
        match *self {
            Self::Fixed(FixedConfig { profile }) => Ok(Selector::Fixed(profile)),
            Self::Adaptive(config) => {
                for (name, value) in
                    [("margin_db", config.margin_db), ("hysteresis_db", config.hysteresis_db)]
                {
                    check_range(key, name, value, 0.0, 30.0)?;
                }
                if config.reaction_delay < Duration::from_millis(1) {
                    let delay = config.reaction_delay;
                    return Err(format!("{key}.reaction_delay is \"{delay}\", allowed is at least 1 ms"));
                }
                Ok(Selector::Adaptive(Adaptive { config, thresholds_db, profile: None, next_report: 0 }))
            }
        }
    }
}

/// Chooses the burst profile of one station.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    Adaptive(Adaptive),
    Fixed(BurstProfile),
}

impl Selector {
    /// The profile in use at `now`, in nanoseconds, which never decreases; `snr_db` is the SNR at a time.
    pub(crate) fn at(&mut self, now: u64, mut snr_db: impl FnMut(u64) -> f64) -> BurstProfile {
        match self {
            Self::Adaptive(adaptive) => adaptive.at(now, &mut snr_db),
            Self::Fixed(profile) => *profile,
        }
    }
}

/// Adaptive modulation by reports at fixed times; the profile of a report is in use one interval later.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    config: AdaptiveConfig,
    thresholds_db: [f64; BurstProfile::COUNT],
    /// `None` before the first report.
    profile: Option<usize>,
    /// The time of the first report that has not taken effect, in nanoseconds.
    next_report: u64,
}

impl Adaptive {
    fn at(&mut self, now: u64, snr_db: &mut impl FnMut(u64) -> f64) -> BurstProfile {
        let delay = self.config.reaction_delay.as_nanos();
        // A station enters the network with the profile of its first report.
        while self.profile.is_none() || self.next_report + delay <= now {
            self.profile = Some(self.follow(snr_db(self.next_report)));
            self.next_report += delay;
        }
        BurstProfile::ALL[self.profile.unwrap_or(0)]
    }

    /// The profile after a report: as far down as it has to be, and as far up as the hysteresis allows.
    fn follow(&self, snr_db: f64) -> usize {
        let AdaptiveConfig { margin_db, hysteresis_db, .. } = self.config;
        let current = self.profile.unwrap_or(BurstProfile::COUNT);
        let is_allowed = |&profile: &usize| {
            let extra = if profile > current { hysteresis_db } else { 0.0 };
            snr_db >= self.thresholds_db[profile] + margin_db + extra
        };
        (0..BurstProfile::COUNT).rev().find(is_allowed).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_signal_with_hysteresis_and_delay() {
        let config = ModulationConfig::Adaptive(AdaptiveConfig::default());
        let mut selector = config.build(Thresholds::default().db(), "modulation").unwrap();
        let ms = 1_000_000;
        // The SNR is 30 dB up to 100 ms, 20 dB up to 200 ms, then 21 dB: 18.2 + 2 is above the first and
        // below the second, and 18.2 + 4 above both.
        let snr = |at: u64| {
            if at < 100 * ms {
                30.0
            } else if at < 200 * ms {
                20.0
            } else {
                21.0
            }
        };
        assert_eq!(selector.at(0, snr), BurstProfile::Qam64R34);
        assert_eq!(selector.at(119 * ms, snr), BurstProfile::Qam64R34);
        assert_eq!(selector.at(120 * ms, snr), BurstProfile::Qam16R12);
        assert_eq!(selector.at(500 * ms, snr), BurstProfile::Qam16R12);
        assert_eq!(selector.at(900 * ms, |_| 22.3), BurstProfile::Qam16R34);
        assert_eq!(selector.at(1_900 * ms, |_| -5.0), BurstProfile::Bpsk12);
    }

    #[test]
    fn a_table_is_ordered() {
        for thresholds in [Thresholds::Ieee2004, Thresholds::Ieee2005] {
            assert!(thresholds.db().is_sorted());
        }
        assert!(BurstProfile::ALL.map(BurstProfile::bytes_per_symbol).is_sorted());
        for profile in BurstProfile::ALL {
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
        }
    }
}
