//! Impairments that few links have on the wire: corruption, duplication and jitter.

use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;

use crate::schedule::{Schedule, Timeline};

/// The settings of one direction's wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a> {
    pub(super) jitter: &'a Schedule<Duration>,
    pub(super) corrupt: &'a Schedule<Probability>,
    pub(super) duplicate: &'a Schedule<Probability>,
}

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
        self.jitter_rng.duration_between(Duration::ZERO, most + Duration::from_nanos(1))
    }
}
