//! Independent loss: every packet with the same probability.

use anabranch_transport::rng::{Draw, Rng};
use anabranch_transport::time::Time;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{LossModel, LossPlace};
use crate::schedule::{Schedule, Timeline};

/// Every packet is lost with the same probability, independently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BernoulliConfig {
    /// Probability that a packet is lost; may follow a timetable. Default: 0.
    pub probability: Schedule<Probability>,
    /// Where packets are lost: `ingress` (before the queue) or `wire` (after it). Default: `wire`.
    pub at: LossPlace,
}

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct Bernoulli {
    probability: Timeline<Probability>,
    rng: Rng,
}

impl Bernoulli {
    pub(crate) fn new(config: &BernoulliConfig, rng: Rng, key: &str) -> Result<Self, String> {
        Ok(Self { probability: config.probability.timeline(&format!("{key}.probability"))?, rng })
    }
}

impl LossModel for Bernoulli {
    fn is_lost(&mut self, now: Time, _size: u32) -> bool {
        let probability = self.probability.at(now.as_nanos()).get();
        self.rng.bernoulli(probability)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;
    use anabranch_transport::time::Duration;

    use super::*;
    use crate::schedule::Timetable;

    #[test]
    fn the_mean_follows_the_timetable() {
        let probability = |value| Probability::new(value).unwrap();
        let config = BernoulliConfig {
            probability: Schedule::Timetable(Timetable {
                timetable: vec![
                    (Duration::ZERO, probability(0.02)),
                    (Duration::from_secs(10), probability(0.5)),
                ],
                repeat: None,
            }),
            ..BernoulliConfig::default()
        };
        let rng = Streams { seed: 1, replication: 0 }.stream("loss");
        let mut model = Bernoulli::new(&config, rng, "loss").unwrap();
        let mut lost = |from: u64| {
            (0..100_000).filter(|i| model.is_lost(Time::from_nanos(from + i * 50_000), 100)).count()
        };
        let (early, late) = (lost(0), lost(10_000_000_000));
        // Four standard deviations of the binomial distribution.
        assert!(early.abs_diff(2_000) < 4 * 45, "{early}");
        assert!(late.abs_diff(50_000) < 4 * 159, "{late}");
    }
}
