//! Fading: how the gain of a channel varies with time and frequency around its mean of 1.
//!
//! A tap of the channel's impulse response is a steady part and a scattered one, in the ratio K (S. O. Rice);
//! K = 0 is Rayleigh fading. The scattered part is a sum of rays with random phases whose Doppler shifts are
//! drawn one from each of as many equal parts of the Doppler spectrum, so that over realisations its
//! autocorrelation is that of the spectrum exactly. It is a function of time: it can be asked at any time, in
//! any order, and keeps no state.
//!
//! Spectra: Jakes' for a receiver on the move among scatterers all around (W. C. Jakes, "Microwave Mobile
//! Communications", 1974), and the rounded one of fixed stations, S(f) = 1 - 1.720 f^2 + 0.785 f^4 up to the
//! largest shift (V. Erceg et al., "Channel models for fixed wireless applications", IEEE
//! 802.16.3c-01/29r4, which has the SUI channels as well).

use std::f64::consts::{PI, TAU};

use anabranch_transport::rng::{Draw as _, Rng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ofdm::data_carriers;
use super::served_link::check_range;

/// Number of rays in a tap's scattered part. Its mean fourth power is 2 - 1/32 where that of a complex normal
/// variable is 2.
const RAYS: u32 = 32;

/// The Doppler spectrum of scattered rays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DopplerSpectrum {
    /// The spectrum of a moving station.
    Jakes,
    /// The spectrum of fixed stations with things moving between them.
    #[default]
    Rounded,
}

/// The largest Doppler shift of the SUI channels is about this (802.16.3c-01/29r4: 0.15 to 0.5 Hz).
const DEFAULT_DOPPLER_HZ: f64 = 0.4;

/// How the channel's gain varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FadingConfig {
    /// The gain does not vary.
    Constant(ConstantConfig),
    /// The gain is the same on all carriers, without line of sight.
    Rayleigh(RayleighConfig),
    /// The gain is the same on all carriers, with a line of sight.
    Rician(RicianConfig),
    /// The gain differs from carrier to carrier: a tapped delay line, by default the SUI-4 channel.
    Taps(TapsConfig),
}

/// A gain of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConstantConfig {}

/// Flat Rayleigh fading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RayleighConfig {
    /// Largest Doppler shift in Hz, from 0.001 to 1000; default 0.4.
    pub doppler_hz: f64,
    /// Doppler spectrum; default "rounded".
    pub spectrum: DopplerSpectrum,
}

impl Default for RayleighConfig {
    fn default() -> Self {
        Self { doppler_hz: DEFAULT_DOPPLER_HZ, spectrum: DopplerSpectrum::default() }
    }
}

/// Flat Rician fading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RicianConfig {
    /// Power of the line of sight over that of the scattered part, in dB, from -40 to 60; default 10.
    pub k_db: f64,
    /// Largest Doppler shift of the scattered part in Hz, from 0.001 to 1000; default 0.4.
    pub doppler_hz: f64,
    /// Doppler spectrum of the scattered part; default "rounded".
    pub spectrum: DopplerSpectrum,
}

impl Default for RicianConfig {
    fn default() -> Self {
        Self { k_db: 10.0, doppler_hz: DEFAULT_DOPPLER_HZ, spectrum: DopplerSpectrum::default() }
    }
}

/// A tapped delay line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TapsConfig {
    /// Largest Doppler shift in Hz, from 0.001 to 1000; default 0.4.
    pub doppler_hz: f64,
    /// Doppler spectrum; default "rounded".
    pub spectrum: DopplerSpectrum,
    /// The taps, 1 to 24 of them; their powers are scaled to a sum of 1. Default: SUI-4 with omnidirectional
    /// antennas, 0, 1.5 and 4 us with 0, -4 and -8 dB, all with K = 0.
    pub taps: Vec<TapConfig>,
}

/// A tap of a delay line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TapConfig {
    /// Delay in us, from 0 to 100; default 0.
    pub delay_us: f64,
    /// Power in dB, from -100 to 100; default 0.
    pub power_db: f64,
    /// Power of the steady part over that of the scattered part, from 0 to 1e6; default 0.
    pub k: f64,
}

impl Default for TapsConfig {
    fn default() -> Self {
        let tap = |delay_us, power_db| TapConfig { delay_us, power_db, k: 0.0 };
        Self {
            doppler_hz: DEFAULT_DOPPLER_HZ,
            spectrum: DopplerSpectrum::default(),
            taps: vec![tap(0.0, 0.0), tap(1.5, -4.0), tap(4.0, -8.0)],
        }
    }
}

impl FadingConfig {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn build(&self, carrier_spacing_hz: f64, rng: &mut Rng, key: &str) -> Result<Fading, String> {
        let flat = |k: f64| vec![TapConfig { k, ..TapConfig::default() }];
        let (doppler_hz, spectrum, taps) = match self {
            Self::Constant(_) => return Ok(Fading::default()),
            Self::Rayleigh(config) => (config.doppler_hz, config.spectrum, flat(0.0)),
            Self::Rician(config) => {
                check_range(key, "k_db", config.k_db, -40.0, 60.0)?;
                (config.doppler_hz, config.spectrum, flat(libm::pow(10.0, config.k_db / 10.0)))
            }
            Self::Taps(config) => (config.doppler_hz, config.spectrum, config.taps.clone()),
        };
        check_range(key, "doppler_hz", doppler_hz, 0.001, 1000.0)?;
        if !(1..=24).contains(&taps.len()) {
            return Err(format!("{key}.taps has {} taps, allowed are 1 to 24", taps.len()));
        }
        for (index, tap) in taps.iter().enumerate() {
            let key = format!("{key}.taps.{index}");
            check_range(&key, "delay_us", tap.delay_us, 0.0, 100.0)?;
            check_range(&key, "power_db", tap.power_db, -100.0, 100.0)?;
            check_range(&key, "k", tap.k, 0.0, 1e6)?;
        }
        Ok(Fading::new(&taps, doppler_hz, spectrum, carrier_spacing_hz, rng))
    }
}

/// A complex number: real and imaginary part.
type Complex = (f64, f64);

/// A channel's gain as a function of time and carrier. The default one is 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fading {
    taps: Vec<Tap>,
    doppler_hz: f64,
    /// The phase rotation of each tap on each carrier, one tap after the other; empty if carriers are alike.
    turns: Vec<Complex>,
}

#[derive(Clone, Debug)]
struct Tap {
    steady: Complex,
    scattered: Scattered,
}

/// The scattered part of a tap.
#[derive(Clone, Debug)]
struct Scattered {
    amplitude: f64,
    rays: Vec<Ray>,
}

#[derive(Clone, Copy, Debug)]
struct Ray {
    doppler_hz: f64,
    /// The phase as a fraction of a turn.
    phase: f64,
}

impl Scattered {
    fn new(power: f64, doppler_hz: f64, spectrum: DopplerSpectrum, rng: &mut Rng) -> Self {
        let ray = |index: u32| {
            let quantile = (f64::from(index) + rng.uniform()) / f64::from(RAYS);
            Ray { doppler_hz: doppler_hz * spectrum.shift(quantile), phase: rng.uniform() }
        };
        Self { amplitude: libm::sqrt(power / f64::from(RAYS)), rays: (0..RAYS).map(ray).collect() }
    }

    fn at(&self, secs: f64) -> Complex {
        let mut sum = (0.0, 0.0);
        for ray in &self.rays {
            let turns = ray.doppler_hz * secs + ray.phase;
            let (sin, cos) = libm::sincos(TAU * (turns - libm::floor(turns)));
            sum.0 += cos;
            sum.1 += sin;
        }
        (self.amplitude * sum.0, self.amplitude * sum.1)
    }
}

impl DopplerSpectrum {
    /// The Doppler shift, from -1 to 1 of the largest one, below which this part of the spectrum's power
    /// lies.
    fn shift(self, quantile: f64) -> f64 {
        match self {
            Self::Jakes => libm::sin(PI * (quantile - 0.5)),
            Self::Rounded => {
                // The inverse, by bisection, of the integral of S from 0 to f.
                let integral = |f: f64| f - 1.720 / 3.0 * f * f * f + 0.785 / 5.0 * f * f * f * f * f;
                let wanted = (2.0 * quantile - 1.0).abs() * integral(1.0);
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    if integral(middle) < wanted {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                if quantile < 0.5 { -low } else { low }
            }
        }
    }
}

impl Fading {
    fn new(
        taps: &[TapConfig],
        doppler_hz: f64,
        spectrum: DopplerSpectrum,
        carrier_spacing_hz: f64,
        rng: &mut Rng,
    ) -> Self {
        let power = |tap: &TapConfig| libm::pow(10.0, tap.power_db / 10.0);
        let total: f64 = taps.iter().map(power).sum();
        let build = |tap: &TapConfig| {
            let power = power(tap) / total;
            let (sin, cos) = libm::sincos(TAU * rng.uniform());
            let steady = libm::sqrt(power * tap.k / (tap.k + 1.0));
            Tap {
                steady: (steady * cos, steady * sin),
                scattered: Scattered::new(power / (tap.k + 1.0), doppler_hz, spectrum, rng),
            }
        };
        let is_flat = taps.iter().all(|tap| tap.delay_us == taps[0].delay_us);
        let turn = |tap: &TapConfig, carrier: i32| {
            let turns = f64::from(carrier) * carrier_spacing_hz * tap.delay_us * 1e-6;
            let (sin, cos) = libm::sincos(-TAU * (turns - libm::floor(turns)));
            (cos, sin)
        };
        Self {
            turns: taps
                .iter()
                .filter(|_| !is_flat)
                .flat_map(|tap| data_carriers().map(move |carrier| turn(tap, carrier)))
                .collect(),
            taps: taps.iter().map(build).collect(),
            doppler_hz,
        }
    }

    /// The largest Doppler shift; 0 if the gain is constant.
    pub(crate) fn doppler_hz(&self) -> f64 {
        self.doppler_hz
    }

    /// Writes the power gains of the data carriers at this time; a single one if all carriers are alike.
    pub(crate) fn gains(&self, secs: f64, gains: &mut Vec<f64>) {
        gains.clear();
        if self.taps.is_empty() {
            gains.push(1.0);
            return;
        }
        let response = |tap: &Tap| {
            let scattered = tap.scattered.at(secs);
            (tap.steady.0 + scattered.0, tap.steady.1 + scattered.1)
        };
        if self.turns.is_empty() {
            let sum =
                self.taps.iter().map(response).fold((0.0, 0.0), |sum, tap| (sum.0 + tap.0, sum.1 + tap.1));
            gains.push(power_of(sum));
            return;
        }
        let carriers = self.turns.len() / self.taps.len();
        let mut sums = [(0.0, 0.0); super::ofdm::DATA_CARRIERS];
        for (tap, turns) in self.taps.iter().zip(self.turns.chunks(carriers)) {
            let (re, im) = response(tap);
            for (sum, turn) in sums.iter_mut().zip(turns) {
                sum.0 += re * turn.0 - im * turn.1;
                sum.1 += re * turn.1 + im * turn.0;
            }
        }
        gains.extend(sums.iter().map(|sum| power_of(*sum)));
    }
}

fn power_of((re, im): Complex) -> f64 {
    re * re + im * im
}
