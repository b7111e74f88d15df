//! Errors of coded blocks: how likely at an SNR, and which blocks of a burst.
//!
//! The thresholds of the profiles are the SNRs with a bit error rate of 1e-6 after the code (IEEE 802.16-2004
//! section 8.3.11.1). Around a threshold the error rate of a code is governed by its error events of least
//! distance, whose probability is Q(sqrt(2 d E/N0)) (J. Proakis, "Digital Communications", the union bound's
//! first term): so the bit error rate at an SNR x dB above the threshold is Q(4.7534 10^(x/20)), Q(4.7534)
//! being 1e-6. Bit errors are independent in the model, which makes a block's error rate an upper bound.
//!
//! Carriers that fade differently are one channel with the SNR of equal capacity: 2^C - 1, C being the mean
//! of log2(1 + SNR) over the carriers (the mean mutual information with Gaussian symbols: J. Tsai and A.
//! Soong, 3GPP2 C30-20030429-010; K. Brueninghaus et al., PIMRC 2005). It needs no number fitted to a code. A
//! mapping by the constellations' own information (IEEE C802.16m-07/142) gives lower SNRs where carriers
//! differ much.

use anabranch_transport::rng::{Draw as _, Rng};

/// The argument at which Q(x) = 1e-6.
const AT_THRESHOLD: f64 = 4.753_424_308_822_899;

/// Blocks with a smaller error rate never fail; on a busy link, one of them would fail in a thousand years.
const NEGLIGIBLE: f64 = 1e-15;

/// For how many carriers `1 + SNR` is multiplied before a logarithm is taken: the product of 16 values of up
/// to 1e15 stays finite.
const FACTORS: usize = 16;

/// The SNR, as a factor, of a flat channel with the capacity of these carriers; `snr` scales the gains.
pub(crate) fn effective_snr(snr: f64, gains: &[f64]) -> f64 {
    let product = |gains: &[f64]| gains.iter().map(|gain| 1.0 + snr * gain).product::<f64>();
    let bits: f64 = gains.chunks(FACTORS).map(|gains| libm::log2(product(gains))).sum();
    libm::exp2(bits / gains.len() as f64) - 1.0
}

/// The bit error rate after the code this many dB above the profile's threshold.
pub(crate) fn bit_error_rate(above_threshold_db: f64) -> f64 {
    let x = AT_THRESHOLD * libm::pow(10.0, above_threshold_db / 20.0);
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// The error rate of blocks with this many bits.
pub(crate) fn block_error_rate(above_threshold_db: f64, bits: u32) -> f64 {
    -libm::expm1(f64::from(bits) * libm::log1p(-bit_error_rate(above_threshold_db)))
}

/// The blocks of a burst that fail, in their order: each with the same probability, independently.
#[derive(Debug)]
pub(crate) struct FailedBlocks<'a> {
    rng: &'a mut Rng,
    /// Logarithm of the probability that a block does not fail; [`None`] if no block fails.
    log_intact: Option<f64>,
    /// The first block whose fate has not been drawn.
    next: u64,
}

impl<'a> FailedBlocks<'a> {
    pub(crate) fn new(rng: &'a mut Rng, error_rate: f64) -> Self {
        Self { rng, log_intact: (error_rate > NEGLIGIBLE).then(|| libm::log1p(-error_rate)), next: 0 }
    }
}

impl Iterator for FailedBlocks<'_> {
    type Item = u64;

    /// Before a failed block there is a geometric number of intact ones.
    fn next(&mut self) -> Option<u64> {
        let intact = -self.rng.exponential() / self.log_intact?;
        let failed = self.next + intact.min(1e18) as u64;
        self.next = failed + 1;
        Some(failed)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;

    #[test]
    fn the_threshold_is_where_the_standard_puts_it() {
        assert!((bit_error_rate(0.0) / 1e-6 - 1.0).abs() < 1e-6);
        assert!((block_error_rate(0.0, 192) / 192e-6 - 1.0).abs() < 1e-3);
        // Q(1) = 0.158655, Q(0) = 1/2.
        let one_sigma = -20.0 * libm::log10(AT_THRESHOLD);
        assert!((bit_error_rate(one_sigma) - 0.158_655).abs() < 1e-6);
        assert!((bit_error_rate(-300.0) - 0.5).abs() < 1e-6);
        assert_eq!(block_error_rate(40.0, 864), 0.0);
    }

    #[test]
    fn block_error_rates_fall_with_the_snr_and_rise_with_the_size() {
        let rates: Vec<f64> =
            (-100..100).map(|tenths| block_error_rate(f64::from(tenths) / 10.0, 96)).collect();
        assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]));
        assert!(block_error_rate(-1.0, 864) > block_error_rate(-1.0, 96));
    }

    #[test]
    fn equal_carriers_have_their_own_snr() {
        for snr in [0.01, 1.0, 1e5] {
            let effective = effective_snr(snr, &[0.5; 192]);
            assert!((effective / (0.5 * snr) - 1.0).abs() < 1e-9, "{effective}");
        }
        // log2(1 + 3) and log2(1 + 15) have the mean 3, which an SNR of 7 has.
        assert!((effective_snr(3.0, &[1.0, 5.0]) - 7.0).abs() < 1e-12);
    }

    #[test]
    fn blocks_fail_at_their_rate_and_independently() {
        let mut rng = Streams { seed: 1, replication: 0 }.stream("blocks");
        for rate in [0.003, 0.2, 0.9] {
            let blocks = 400_000;
            let failed: Vec<u64> =
                FailedBlocks::new(&mut rng, rate).take_while(|block| *block < blocks).collect();
            let error = (rate * (1.0 - rate) / blocks as f64).sqrt();
            assert!((failed.len() as f64 / blocks as f64 - rate).abs() < 4.0 * error, "{rate}");
            let pairs = failed.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as f64;
            let share = pairs / failed.len() as f64;
            let error = (rate * (1.0 - rate) / failed.len() as f64).sqrt();
            assert!((share - rate).abs() < 4.0 * error, "{rate}: {share}");
        }
        assert_eq!(FailedBlocks::new(&mut rng, 1.0).take(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(FailedBlocks::new(&mut rng, 0.0).next(), None);
    }
}
