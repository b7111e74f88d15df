//! Statistics of fading against formulas. Seeds are fixed. Tolerances are four standard errors, and the
//! difference between 32 rays and infinitely many.

use std::f64::consts::{PI, TAU};

use anabranch_transport::rng::{Rng, Streams};

use super::fading::{DopplerSpectrum, Fading, FadingConfig, RayleighConfig, RicianConfig, TapsConfig};
use super::ofdm::DATA_CARRIERS;

const SPECTRA: [DopplerSpectrum; 2] = [DopplerSpectrum::Jakes, DopplerSpectrum::Rounded];

fn draws(name: &str) -> Rng {
    Streams { seed: 3, replication: 0 }.stream(name)
}

fn rayleigh(spectrum: DopplerSpectrum, rng: &mut Rng) -> Fading {
    let config = FadingConfig::Rayleigh(RayleighConfig { doppler_hz: 1.0, spectrum });
    config.build(90_000.0, rng, "fading").unwrap()
}

fn rician(k_db: f64, rng: &mut Rng) -> Fading {
    let config = FadingConfig::Rician(RicianConfig { k_db, doppler_hz: 1.0, ..Default::default() });
    config.build(90_000.0, rng, "fading").unwrap()
}

fn gain(fading: &Fading, secs: f64) -> f64 {
    let mut gains = Vec::new();
    fading.gains(secs, &mut gains);
    gains[0]
}

/// Integral from `low` to `high` by the trapezoidal rule.
fn integral(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 4_000;
    let step = (high - low) / f64::from(STEPS);
    let inner: f64 = (1..STEPS).map(|index| f(low + f64::from(index) * step)).sum();
    step * (inner + 0.5 * (f(low) + f(high)))
}

fn density(spectrum: DopplerSpectrum, f: f64) -> f64 {
    match spectrum {
        DopplerSpectrum::Jakes => 1.0 / (PI * libm::sqrt(1.0 - f * f)),
        DopplerSpectrum::Rounded => (1.0 - 1.720 * f * f + 0.785 * f * f * f * f) / 1.167_333_333,
    }
}

/// The modified Bessel function I0, by its integral.
fn bessel_i0(x: f64) -> f64 {
    integral(0.0, PI, |angle| libm::exp(x * libm::cos(angle))) / PI
}

/// Asserts that gains below these levels are as frequent as the formula says.
fn assert_cdf(gains: &[f64], levels: &[f64], cdf: impl Fn(f64) -> f64) {
    for &level in levels {
        let expected = cdf(level);
        let share = gains.iter().filter(|&&gain| gain < level).count() as f64 / gains.len() as f64;
        let error = (expected * (1.0 - expected) / gains.len() as f64).sqrt();
        assert!((share - expected).abs() < 4.0 * error + 0.006, "{level}: {share}, expected {expected}");
        assert!((0.005..0.999).contains(&expected), "{level}: {expected} is no test");
    }
}

#[test]
fn rayleigh_gains_are_exponential() {
    for spectrum in SPECTRA {
        let mut rng = draws("rayleigh");
        let gains: Vec<f64> = (0..20_000).map(|_| gain(&rayleigh(spectrum, &mut rng), 5.0)).collect();
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        assert!((mean - 1.0).abs() < 4.0 / (gains.len() as f64).sqrt(), "{mean}");
        assert_cdf(&gains, &[0.01, 0.1, 0.5, 1.0, 2.0, 4.0], |level| -libm::expm1(-level));
    }
}

#[test]
fn rician_gains_have_their_distribution() {
    for k_db in [3.0, 10.0] {
        let mut rng = draws("rician");
        let gains: Vec<f64> = (0..20_000).map(|_| gain(&rician(k_db, &mut rng), 5.0)).collect();
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        assert!((mean - 1.0).abs() < 4.0 / (gains.len() as f64).sqrt(), "{mean}");
        // f(x) = (1 + K) exp(-K - (1 + K) x) I0(2 sqrt(K (1 + K) x)).
        let k = libm::pow(10.0, k_db / 10.0);
        let pdf = |x: f64| {
            (1.0 + k) * libm::exp(-k - (1.0 + k) * x) * bessel_i0(2.0 * libm::sqrt(k * (1.0 + k) * x))
        };
        let coarse = |level: f64| {
            let steps = 400;
            let step = level / f64::from(steps);
            (0..steps).map(|index| step * pdf((f64::from(index) + 0.5) * step)).sum()
        };
        let levels: &[f64] = if k < 5.0 { &[0.1, 0.3, 1.0, 2.0] } else { &[0.3, 0.5, 0.7, 1.0, 1.5] };
        assert_cdf(&gains, levels, coarse);
    }
}

/// The field's autocorrelation R(t) is the spectrum's transform, J0(2 pi f t) for Jakes'; gains of Rayleigh
/// fading are correlated by R(t)^2.
#[test]
fn gains_stay_alike_as_long_as_the_doppler_spectrum_says() {
    for spectrum in SPECTRA {
        let mut rng = draws("autocorrelation");
        let realisations: Vec<Fading> = (0..20_000).map(|_| rayleigh(spectrum, &mut rng)).collect();
        for lag in [0.05, 0.15, 0.3, 0.6, 1.0] {
            let field = match spectrum {
                DopplerSpectrum::Jakes => libm::j0(TAU * lag),
                DopplerSpectrum::Rounded => {
                    integral(-1.0, 1.0, |f| density(spectrum, f) * libm::cos(TAU * f * lag))
                }
            };
            let pairs: Vec<(f64, f64)> =
                realisations.iter().map(|fading| (gain(fading, 2.0), gain(fading, 2.0 + lag))).collect();
            let mean_of =
                |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / pairs.len() as f64;
            let mean = 0.5 * mean_of(|(one, other)| one + other);
            let square = mean * mean;
            let variance = 0.5 * mean_of(|(one, other)| one * one + other * other) - square;
            let measured = (mean_of(|(one, other)| one * other) - square) / variance;
            assert!(
                (measured - field * field).abs() < 0.05,
                "{spectrum:?} {lag}: {measured}, {}",
                field * field
            );
        }
    }
}

/// Up-crossings per second of the level r relative to the mean amplitude's square root: sqrt(b2 / pi) r
/// exp(-r^2), b2 being the mean square of 2 pi times the shift (S. O. Rice; sqrt(2 pi) f r exp(-r^2) for
/// Jakes').
#[test]
fn levels_are_crossed_as_often_as_the_formula_says() {
    const SECONDS: u32 = 60;
    const STEPS: u32 = 48;
    for spectrum in SPECTRA {
        let mean_square = match spectrum {
            DopplerSpectrum::Jakes => 0.5,
            DopplerSpectrum::Rounded => integral(-1.0, 1.0, |f| f * f * density(spectrum, f)),
        };
        let mut rng = draws("crossings");
        let mut crossings = [0_u32; 3];
        let levels = [0.3_f64, 1.0, 1.5];
        let realisations = 300;
        for _ in 0..realisations {
            let fading = rayleigh(spectrum, &mut rng);
            let gains: Vec<f64> =
                (0..=SECONDS * STEPS).map(|step| gain(&fading, f64::from(step) / f64::from(STEPS))).collect();
            for (count, level) in crossings.iter_mut().zip(levels) {
                let power = level * level;
                *count += gains.windows(2).filter(|pair| pair[0] < power && pair[1] >= power).count() as u32;
            }
        }
        for (count, level) in crossings.into_iter().zip(levels) {
            let rate = libm::sqrt(TAU * TAU * mean_square / PI) * level * libm::exp(-level * level);
            let measured = f64::from(count) / f64::from(realisations * SECONDS);
            assert!(
                (measured / rate - 1.0).abs() < 0.01 + 4.0 / f64::from(count).sqrt(),
                "{spectrum:?} {level}: {measured}, {rate}"
            );
        }
    }
}

#[test]
fn taps_make_carriers_differ_and_keep_the_mean() {
    let mut rng = draws("taps");
    let config = FadingConfig::Taps(TapsConfig::default());
    let (mut sum, mut spread, mut gains) = (0.0, 0.0, Vec::new());
    let realisations = 4_000;
    for _ in 0..realisations {
        let fading = config.build(90_000.0, &mut rng, "fading").unwrap();
        fading.gains(1.0, &mut gains);
        assert_eq!(gains.len(), DATA_CARRIERS);
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        sum += mean;
        spread += mean * mean;
    }
    let mean = sum / f64::from(realisations);
    let variance = spread / f64::from(realisations) - mean * mean;
    // Over 18 MHz the taps are resolved: the band's gain is the sum of their powers p, of variance sum p^2 (1
    // - 1/32).
    let powers = [0.0, -4.0, -8.0].map(|db| libm::pow(10.0, db / 10.0));
    let total: f64 = powers.iter().sum();
    let expected: f64 = powers.iter().map(|power| power * power).sum::<f64>() / (total * total);
    assert!((mean - 1.0).abs() < 4.0 * (variance / f64::from(realisations)).sqrt(), "{mean}");
    assert!((variance / expected - 1.0).abs() < 0.15, "{variance} {expected}");
}

#[test]
fn a_channel_is_a_function_of_time() {
    let mut rng = draws("function");
    let fading = FadingConfig::Taps(TapsConfig::default()).build(90_000.0, &mut rng, "fading").unwrap();
    let mut forwards = super::channel::Channel::new(10.0, fading);
    let mut backwards = forwards.clone();
    let times: Vec<u64> = (0..500).map(|index| index * 7_654_321).collect();
    let first: Vec<_> = times.iter().map(|&at| forwards.at(at)).collect();
    let mut second: Vec<_> = times.iter().rev().map(|&at| backwards.at(at)).collect();
    second.reverse();
    assert_eq!(first, second);
    assert!(first.iter().all(|snr| snr.effective_db <= snr.mean_db + 1e-9), "capacity is concave");
}
