//! What the models of loss have in common.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model of loss on one direction, or on both.
pub(crate) trait LossModel {
    /// Whether a packet of `size` bytes that crosses at `now` is lost; `now` never decreases.
    fn is_lost(&mut self, now: Time, size: u32) -> bool;
}

/// A probability as a draw's 53 bits are compared with it: the same decisions as
/// [`bernoulli`](anabranch_transport::rng::Draw::bernoulli), in integers. A probability of 0 or 1 takes no
/// draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    const CERTAIN: u64 = 1 << 53;

    pub(crate) fn new(probability: f64) -> Self {
        // A uniform draw is k / 2^53, and below p if k is below the next integer from p 2^53 on.
        Self(libm::ceil(probability * Self::CERTAIN as f64) as u64)
    }

    #[inline]
    pub(crate) fn decide(self, rng: &mut Rng) -> bool {
        self.0 > 0 && (self.0 >= Self::CERTAIN || rng.bits() >> 11 < self.0)
    }
}

/// Where in the link packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// Before the queue: a lost packet uses no capacity. ns-2 loses packets there.
    Ingress,
    /// After the queue: a lost packet has used capacity.
    #[default]
    Wire,
}

/// Whether both directions of a link have one process of loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossSharing {
    /// One process each, independent.
    #[default]
    PerDirection,
    /// One process for both.
    Shared,
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;

    #[test]
    fn a_chance_decides_as_a_bernoulli_draw() {
        let streams = Streams { seed: 1, replication: 0 };
        for probability in [1e-300, 1e-3, 0.1, 1.0 / 3.0, 0.5, 0.85, 1.0 - f64::EPSILON] {
            let (mut one, mut other) = (streams.stream("chance"), streams.stream("chance"));
            for _ in 0..1_000 {
                assert_eq!(Chance::new(probability).decide(&mut one), other.bernoulli(probability));
            }
            // The number of draws is the same as well.
            assert_eq!(one.bits(), other.bits());
        }
        let (mut rng, first) = (streams.stream("chance"), streams.stream("chance").bits());
        assert!(Chance::new(1.0).decide(&mut rng) && !Chance::new(0.0).decide(&mut rng));
        assert_eq!(rng.bits(), first);
    }
}
