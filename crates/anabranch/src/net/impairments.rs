//! Impairments that few links have on the wire: corruption, duplication and jitter.

use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedule::{Schedule, Timeline};

/// How the random part of a delay is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JitterShape {
    /// Gaussian around the middle, cut at both ends, which are three standard deviations away (RFC 8868
    /// section 4.5.3).
    TruncatedNormal,
    /// Every value is as likely.
    #[default]
    Uniform,
}

/// The settings of one direction's wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a> {
    pub(super) jitter: &'a Schedule<Duration>,
    pub(super) jitter_shape: JitterShape,
    pub(super) corrupt: &'a Schedule<Probability>,
    pub(super) duplicate: &'a Schedule<Probability>,
}

/// Jitter, corruption and duplication.
#[derive(Clone, Debug)]
pub(super) struct Impairments {
    jitter: Timeline<Duration>,
    jitter_shape: JitterShape,
    jitter_rng: Rng,
    corrupt: Timeline<Probability>,
    corrupt_rng: Rng,
    duplicate: Timeline<Probability>,
    duplicate_rng: Rng,
}

impl Impairments {
    /// The impairments of a link; `None` if it has none.
    pub(super) fn build(
        wire: Wire<'_>,
        key: &str,
        component: &str,
        streams: Streams,
    ) -> Result<Option<Self>, String> {
        let never = Schedule::Constant(Probability::ZERO);
        if *wire.jitter == Schedule::Constant(Duration::ZERO)
            && *wire.corrupt == never
            && *wire.duplicate == never
        {
            return Ok(None);
        }
        let has_none = wire.jitter.values().all(|jitter| jitter == Duration::ZERO)
            && wire.corrupt.values().chain(wire.duplicate.values()).all(|share| share == Probability::ZERO);
        let impairments = Self {
            jitter: wire.jitter.timeline(&format!("{key}.jitter"))?,
            jitter_shape: wire.jitter_shape,
            jitter_rng: streams.stream(&format!("{component}/jitter")),
            corrupt: wire.corrupt.timeline(&format!("{key}.corrupt"))?,
            corrupt_rng: streams.stream(&format!("{component}/corrupt")),
            duplicate: wire.duplicate.timeline(&format!("{key}.duplicate"))?,
            duplicate_rng: streams.stream(&format!("{component}/duplicate")),
        };
        Ok((!has_none).then_some(impairments))
    }

    pub(super) fn corrupts(&mut self, at: u64) -> bool {
        let probability = self.corrupt.at(at).get();
        self.corrupt_rng.bernoulli(probability)
    }

    pub(super) fn duplicates(&mut self, at: u64) -> bool {
        let probability = self.duplicate.at(at).get();
        self.duplicate_rng.bernoulli(probability)
    }

    pub(super) fn jitter(&mut self, at: u64) -> Duration {
        let most = self.jitter.at(at);
        match self.jitter_shape {
            JitterShape::TruncatedNormal => most.scaled(truncated_normal(self.jitter_rng.normal())),
            JitterShape::Uniform => {
                self.jitter_rng.duration_between(Duration::ZERO, most + Duration::from_nanos(1))
            }
        }
    }
}

/// Within how many standard deviations of the mean all values are (`N_STD` of RFC 8868 section 4.5.3).
const DEVIATIONS: f64 = 3.0;

/// The share of the largest value, from a draw of the standard normal distribution.
fn truncated_normal(draw: f64) -> f64 {
    (draw / DEVIATIONS).clamp(-1.0, 1.0).midpoint(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jitters(shape: JitterShape) -> Vec<f64> {
        let (jitter, never) =
            (Schedule::Constant(Duration::from_millis(30)), Schedule::Constant(Probability::ZERO));
        let wire = Wire { jitter: &jitter, jitter_shape: shape, corrupt: &never, duplicate: &never };
        let streams = Streams { seed: 1, replication: 0 };
        let mut made = Impairments::build(wire, "links.l", "link/l", streams).unwrap().unwrap();
        (0..100_000).map(|_| made.jitter(0).as_millis_f64()).collect()
    }

    #[test]
    fn jitter_has_the_shape_that_is_asked_for() {
        let expected = [(JitterShape::TruncatedNormal, 5.0), (JitterShape::Uniform, 30.0 / libm::sqrt(12.0))];
        for (shape, deviation) in expected {
            let values = jitters(shape);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance =
                values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64;
            assert!((mean - 15.0).abs() < 0.1, "{shape:?}: {mean}");
            assert!((libm::sqrt(variance) / deviation - 1.0).abs() < 0.02, "{shape:?}: {variance}");
            assert!(values.iter().all(|value| (0.0..=30.0).contains(value)), "{shape:?}");
        }
    }
}
