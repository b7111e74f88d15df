//! The 256-carrier OFDM of IEEE 802.16 (`WirelessMAN-OFDM`): symbol times, carriers, raw rates.
//!
//! Source: IEEE 802.16-2004 section 8.3.2 (symbol parameters, Table 213) and 8.3.3.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Carriers that bear data (IEEE 802.16-2004 Table 213).
pub(crate) const DATA_CARRIERS: usize = 192;

/// Points of the Fourier transform.
const POINTS: u64 = 256;

/// Carriers in use on either side of the middle one, which is not in use.
const CARRIERS_A_SIDE: i32 = 100;

/// Pilots on either side of the middle (Table 213).
const PILOTS: [i32; 4] = [13, 38, 63, 88];

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The guard time before each symbol, as a part of the symbol's useful time (section 8.3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CyclicPrefix {
    /// A quarter.
    #[serde(rename = "1/4")]
    Quarter,
    /// An eighth.
    #[serde(rename = "1/8")]
    Eighth,
    /// A sixteenth.
    #[default]
    #[serde(rename = "1/16")]
    Sixteenth,
    /// A thirty-second.
    #[serde(rename = "1/32")]
    ThirtySecond,
}

impl JsonSchema for CyclicPrefix {
    fn schema_name() -> Cow<'static, str> {
        "CyclicPrefix".into()
    }

    /// `anabranch list` should not show its values as models.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Guard time as a part of the symbol's useful time",
            "enum": ["1/4", "1/8", "1/16", "1/32"],
        })
    }
}

impl CyclicPrefix {
    const fn samples(self) -> u64 {
        match self {
            Self::Quarter => POINTS / 4,
            Self::Eighth => POINTS / 8,
            Self::Sixteenth => POINTS / 16,
            Self::ThirtySecond => POINTS / 32,
        }
    }
}

/// The numbers of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ofdm {
    sampling_hz: u64,
    symbol_samples: u64,
}

impl Ofdm {
    pub(crate) fn new(bandwidth_hz: u64, prefix: CyclicPrefix) -> Self {
        let (numerator, denominator) = sampling_factor(bandwidth_hz);
        // F_s = floor(n BW / 8000) 8000 (section 8.3.2.2).
        let sampling_hz = numerator * bandwidth_hz / (denominator * 8000) * 8000;
        Self { sampling_hz, symbol_samples: POINTS + prefix.samples() }
    }

    /// Distance of neighbouring carriers in Hz.
    pub(crate) fn carrier_spacing_hz(self) -> f64 {
        self.sampling_hz as f64 / POINTS as f64
    }

    /// The whole symbols that fit into this many nanoseconds.
    pub(crate) fn symbols_in(self, nanos: u64) -> u64 {
        let samples = u128::from(nanos) * u128::from(self.sampling_hz) / NANOS_PER_SEC;
        (samples / u128::from(self.symbol_samples)) as u64
    }

    /// How long this many symbols take, in nanoseconds, rounded up.
    pub(crate) fn nanos(self, symbols: u64) -> u64 {
        let samples = u128::from(symbols) * u128::from(self.symbol_samples);
        (samples * NANOS_PER_SEC).div_ceil(u128::from(self.sampling_hz)) as u64
    }

    /// Bits per second of an endless burst with this many bytes in a symbol.
    #[cfg(test)]
    fn raw_rate(self, bytes_per_symbol: u32) -> f64 {
        f64::from(bytes_per_symbol) * 8.0 * self.sampling_hz as f64 / self.symbol_samples as f64
    }
}

/// The sampling factor n by bandwidth (Table 213): the first unit of which the bandwidth is a multiple
/// decides.
fn sampling_factor(bandwidth_hz: u64) -> (u64, u64) {
    const BY_UNIT: [(u64, (u64, u64)); 5] = [
        (1_750_000, (8, 7)),
        (1_500_000, (86, 75)),
        (1_250_000, (144, 125)),
        (2_750_000, (316, 275)),
        (2_000_000, (57, 50)),
    ];
    let of_unit = BY_UNIT.iter().find(|(unit, _)| bandwidth_hz.is_multiple_of(*unit));
    of_unit.map_or((8, 7), |(_, factor)| *factor)
}

/// The data carriers, as distances from the middle carrier.
pub(crate) fn data_carriers() -> impl Iterator<Item = i32> {
    (-CARRIERS_A_SIDE..=CARRIERS_A_SIDE).filter(|carrier| *carrier != 0 && !PILOTS.contains(&carrier.abs()))
}

#[cfg(test)]
mod tests {
    use super::super::modulation::BurstProfile;
    use super::*;

    #[test]
    fn there_are_192_data_carriers() {
        assert_eq!(data_carriers().count(), DATA_CARRIERS);
    }

    /// L. Nuaymi, "`WiMAX`: Technology for Broadband Wireless Access" (Wiley 2007), section 5.2: rates in
    /// Mbit/s at 7 MHz, the sampling factor being 8/7, from BPSK 1/2 to 64-QAM 3/4.
    #[test]
    fn raw_rates_of_the_7_mhz_channel() {
        let published = [
            (CyclicPrefix::ThirtySecond, [2.92, 5.82, 8.73, 11.64, 17.45, 23.27, 26.18]),
            (CyclicPrefix::Sixteenth, [2.82, 5.65, 8.47, 11.29, 16.94, 22.59, 25.41]),
            (CyclicPrefix::Eighth, [2.67, 5.33, 8.00, 10.67, 16.00, 21.33, 24.00]),
            (CyclicPrefix::Quarter, [2.40, 4.80, 7.20, 9.60, 14.40, 19.20, 21.60]),
        ];
        for (prefix, rates) in published {
            let ofdm = Ofdm::new(7_000_000, prefix);
            for (profile, rate) in BurstProfile::ALL.into_iter().zip(rates) {
                let ours = ofdm.raw_rate(profile.bytes_per_symbol()) / 1e6;
                assert!((ours - rate).abs() < 0.011, "{prefix:?} {profile:?}: {ours}, published {rate}");
            }
        }
    }

    #[test]
    fn symbols_of_the_20_mhz_channel() {
        // F_s = 144/125 x 20 MHz = 23.04 MHz; 272 samples are 11.80555... us.
        let ofdm = Ofdm::new(20_000_000, CyclicPrefix::Sixteenth);
        assert_eq!(ofdm.carrier_spacing_hz(), 90_000.0);
        assert_eq!((ofdm.nanos(1), ofdm.nanos(18)), (11_806, 212_500));
        assert_eq!(ofdm.symbols_in(5_000_000), 423);
        assert_eq!((ofdm.symbols_in(212_499), ofdm.symbols_in(212_500)), (17, 18));
    }

    #[test]
    fn sampling_factors() {
        for (mhz, factor) in [
            (3.5, (8, 7)),
            (3.0, (86, 75)),
            (5.0, (144, 125)),
            (5.5, (316, 275)),
            (8.0, (57, 50)),
            (1.6, (8, 7)),
        ] {
            assert_eq!(sampling_factor((mhz * 1e6) as u64), factor, "{mhz}");
        }
    }
}
