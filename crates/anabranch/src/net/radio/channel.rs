//! The radio channel of one station: its SNR over time, from link budget and fading.
//!
//! Fading is slow beside frames, so the SNR is computed at equal distances in time, 64 to a period of the
//! largest Doppler shift, and between them in a straight line (in dB). A channel is a function of time: what
//! it was asked before makes no difference.

use super::block_errors::effective_snr;
use super::fading::Fading;

/// Points in a period of the largest Doppler shift.
const POINTS_PER_PERIOD: f64 = 64.0;

/// The least SNR, which keeps logarithms finite; nothing is received at it.
const LEAST_SNR: f64 = 1e-6;

/// The state of a channel at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Snr {
    /// Mean over the carriers, in dB: what a receiver measures.
    pub(crate) mean_db: f64,
    /// The SNR of a flat channel with the same capacity, in dB.
    pub(crate) effective_db: f64,
}

/// The channel between a base station and a station, the same in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    mean_snr: f64,
    fading: Fading,
    /// Distance of the points in nanoseconds; [`None`] if nothing varies.
    step: Option<u64>,
    /// The points that were computed last, by their numbers.
    known: [(u64, Snr); 2],
    gains: Vec<f64>,
}

impl Channel {
    pub(crate) fn new(mean_snr_db: f64, fading: Fading) -> Self {
        let doppler_hz = fading.doppler_hz();
        let step = (doppler_hz > 0.0).then(|| (1e9 / (POINTS_PER_PERIOD * doppler_hz)).round() as u64);
        let nothing = (u64::MAX, Snr { mean_db: 0.0, effective_db: 0.0 });
        let mean_snr = libm::pow(10.0, mean_snr_db / 10.0);
        Self { mean_snr, fading, step, known: [nothing; 2], gains: Vec::new() }
    }

    /// The SNR at this time, in nanoseconds.
    pub(crate) fn at(&mut self, now: u64) -> Snr {
        let Some(step) = self.step else { return self.point(0, 0) };
        let number = now / step;
        let [before, after] = [number, number + 1].map(|number| self.point(number, step));
        let part = (now % step) as f64 / step as f64;
        let between = |before: f64, after: f64| before + part * (after - before);
        Snr {
            mean_db: between(before.mean_db, after.mean_db),
            effective_db: between(before.effective_db, after.effective_db),
        }
    }

    fn point(&mut self, number: u64, step: u64) -> Snr {
        let place = (number % 2) as usize;
        if self.known[place].0 != number {
            self.fading.gains((number * step) as f64 / 1e9, &mut self.gains);
            let gain = self.gains.iter().sum::<f64>() / self.gains.len() as f64;
            let in_db = |snr: f64| 10.0 * libm::log10(snr.max(LEAST_SNR));
            let snr = Snr {
                mean_db: in_db(self.mean_snr * gain),
                effective_db: in_db(effective_snr(self.mean_snr, &self.gains)),
            };
            self.known[place] = (number, snr);
        }
        self.known[place].1
    }
}
