//! Random numbers: one stream per named component.
//!
//! A stream is a fixed hash of (study seed, replication, component name) and of nothing else: not of
//! the sweep's cell, not of the order in which components were built. So adding or swapping one
//! component leaves every other draw unchanged, and two variants can be compared on common random
//! numbers.
//!
//! The hash, part of the interface because results depend on it: 64-bit FNV-1a over the component
//! name's UTF-8 bytes gives `h`; the stream's key is `mix(mix(seed + G) ^ mix(replication + 2 G) ^ h)`
//! with G = 0x9E3779B97F4A7C15, wrapping arithmetic and the `SplitMix64` finaliser `mix`. A stream is
//! xoshiro256++ seeded from its key by `SplitMix64`.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

use crate::time::Duration;

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The seed of one run, from which every component draws a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// The study's seed.
    pub seed: u64,
    /// The replication, counted from 0.
    pub replication: u64,
}

impl Streams {
    /// The random stream of the named component, such as `link/wifi/loss`.
    pub fn stream(self, component: &str) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(self.key(component)))
    }

    /// The key of the named component, for generators that are indexed by block.
    pub fn key(self, component: &str) -> u64 {
        let name = fnv1a(component.as_bytes());
        let seed = mix(self.seed.wrapping_add(GOLDEN_GAMMA));
        let replication = mix(self.replication.wrapping_add(GOLDEN_GAMMA.wrapping_mul(2)));
        mix(seed ^ replication ^ name)
    }
}

/// 64-bit FNV-1a.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The `SplitMix64` finaliser: a bijection of 64 bits that scatters close inputs.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One random stream.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

/// The draws of one block of a counter-based generator: any block can be generated without the
/// blocks before it.
#[derive(Clone, Debug)]
pub struct BlockRng(SplitMix64);

impl BlockRng {
    /// The draws of block number `block` of the stream with this key.
    pub fn new(key: u64, block: u64) -> Self {
        Self(SplitMix64::seed_from_u64(mix(key ^ mix(block.wrapping_add(GOLDEN_GAMMA)))))
    }
}

/// What a model draws. Implemented for streams and for blocks, so that a model can use either.
pub trait Draw {
    /// 64 uniform bits.
    fn bits(&mut self) -> u64;

    /// Uniform in [0, 1), a multiple of 2^-53.
    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in (0, 1], for logarithms.
    fn uniform_positive(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Uniform in [0, bound), without bias worth mentioning (at most 2^-64 x bound).
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform between `low` and `high`, `high` excluded unless the two are equal.
    fn duration_between(&mut self, low: Duration, high: Duration) -> Duration {
        low + Duration::from_nanos(self.below(high.saturating_sub(low).as_nanos()))
    }

    /// Exponential with mean 1.
    fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform_positive())
    }

    /// True with probability `p`.
    fn bernoulli(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Standard normal (Box-Muller, one of the pair).
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }
}

impl Draw for Rng {
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Draw for BlockRng {
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    #[test]
    fn the_hash_is_part_of_the_interface() {
        // Recorded once: a change here changes every published result.
        assert_eq!(STREAMS.key("link/wifi/loss"), 0x06b5_edd3_af81_c1cc);
    }

    #[test]
    fn streams_differ_by_name_seed_and_replication() {
        let first = STREAMS.stream("a").bits();
        assert_ne!(first, STREAMS.stream("b").bits());
        assert_ne!(first, Streams { seed: 2, ..STREAMS }.stream("a").bits());
        assert_ne!(first, Streams { replication: 1, ..STREAMS }.stream("a").bits());
        assert_eq!(first, STREAMS.stream("a").bits());
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut rng = STREAMS.stream("exponential");
        let mean = (0..100_000).map(|_| rng.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
