//! What few links do to packets on the wire: corruption, duplication and jitter.

use super::config::LinkConfig;
use super::schedule::Timeline;
use crate::rng::{Draw as _, Rng, Streams};
use crate::time::Duration;
use crate::units::Probability;

/// Jitter, corruption and duplication.
#[derive(Clone, Debug)]
pub(super) struct Impairments {
    jitter: Timeline<Duration>,
    jitter_rng: Rng,
    corrupt: Timeline<Probability>,
    corrupt_rng: Rng,
    duplicate: Timeline<Probability>,
    duplicate_rng: Rng,
}

impl Impairments {
    /// None if nothing of it ever happens.
    pub(super) fn build(
        config: &LinkConfig,
        key: &str,
        component: &str,
        streams: Streams,
    ) -> Result<Option<Self>, String> {
        let has_none = config.jitter.values().all(|jitter| jitter == Duration::ZERO)
            && config
                .corrupt
                .values()
                .chain(config.duplicate.values())
                .all(|share| share == Probability::ZERO);
        let impairments = Self {
            jitter: config.jitter.timeline(&format!("{key}.jitter"))?,
            jitter_rng: streams.stream(&format!("{component}/jitter")),
            corrupt: config.corrupt.timeline(&format!("{key}.corrupt"))?,
            corrupt_rng: streams.stream(&format!("{component}/corrupt")),
            duplicate: config.duplicate.timeline(&format!("{key}.duplicate"))?,
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
        self.jitter_rng.duration_between(Duration::ZERO, most + Duration::from_nanos(1))
    }
}
