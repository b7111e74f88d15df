//! Loss models: which packets a link loses, apart from full queues.
//!
//! Two things decide how a model is evaluated. Its *clock*: whether its state moves with time or with the
//! packets. And its *sharing*: one process per direction, or one for both. A process that packets of both
//! directions move has to see them in the order in which they cross the link; every other one can be
//! asked ahead of time, in one direction's order.
//!
//! To add a model: one file here, and a variant in [`LossConfig`] and `Loss`; the compiler lists the
//! rest.

mod bernoulli;
mod gilbert;
mod model;
mod states;
mod trace;

use anabranch_transport::rng::Streams;
use anabranch_transport::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use bernoulli::Bernoulli;
pub use bernoulli::BernoulliConfig;
pub(crate) use gilbert::Gilbert;
pub use gilbert::{GilbertConfig, LossClock};
pub(crate) use model::LossModel;
pub use model::{LossPlace, LossSharing};
pub use states::LossState;
pub(crate) use states::LossStates;
pub(crate) use trace::LossTrace;
pub use trace::{LossTraceConfig, TraceClock};

/// Which packets a link loses. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per link, and a box would be in the way of its users"
)]
pub enum LossConfig {
    /// Every packet with the same probability, independently.
    Bernoulli(BernoulliConfig),
    /// A chain of a good and a bad state with two parameters (Gilbert) or four (Gilbert-Elliott). Timetables
    /// have the same `repeat`, and the chain keeps its state when a number changes.
    #[serde(alias = "gilbert_elliott")]
    Gilbert(GilbertConfig),
    /// No loss.
    #[default]
    #[serde(deserialize_with = "no_keys")]
    None,
    /// Losses are read from a file.
    Trace(LossTraceConfig),
}

/// Accepts no keys for a kind without keys, since serde by itself would let any key pass.
fn no_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoKeys {}
    NoKeys::deserialize(deserializer).map(|NoKeys {}| ())
}

impl LossConfig {
    /// Where packets are lost.
    pub fn place(&self) -> LossPlace {
        match self {
            Self::Bernoulli(config) => config.at,
            Self::Gilbert(config) => config.at,
            Self::None => LossPlace::default(),
            Self::Trace(config) => config.at,
        }
    }

    /// Whether both directions have the same process. For Bernoulli loss this makes no difference.
    pub fn sharing(&self) -> LossSharing {
        match self {
            Self::Bernoulli(_) | Self::None => LossSharing::PerDirection,
            Self::Gilbert(config) => config.sharing,
            Self::Trace(config) => config.sharing,
        }
    }

    /// Whether packets advance the process, so that it has to see all of them in order.
    pub(crate) fn is_moved_by_packets(&self) -> bool {
        match self {
            Self::Bernoulli(_) | Self::None => false,
            Self::Gilbert(config) => config.clock != LossClock::Slot,
            Self::Trace(config) => config.clock == TraceClock::Packet,
        }
    }

    /// Whether both directions have one process, which packets of both advance.
    pub(crate) fn is_shared_by_packets(&self) -> bool {
        self.sharing() == LossSharing::Shared && self.is_moved_by_packets()
    }

    /// The process. The state's draws come from the stream `state_component`; draws per packet of a
    /// process that packets do not move come from `packet_component`, so that a chain shared by both
    /// directions can be asked in each direction's own order.
    pub(crate) fn build(
        &self,
        streams: Streams,
        state_component: &str,
        packet_component: &str,
        key: &str,
    ) -> Result<Loss, String> {
        Ok(match self {
            Self::None => Loss::None,
            Self::Bernoulli(config) => {
                Loss::Bernoulli(Bernoulli::new(config, streams.stream(packet_component), key)?)
            }
            Self::Gilbert(config) => Loss::Gilbert(Box::new(Gilbert::new(
                config,
                streams.stream(state_component),
                streams.stream(packet_component),
                key,
            )?)),
            Self::Trace(config) => Loss::Trace(LossTrace::new(config, key)?),
        })
    }
}

/// A process of loss.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    Bernoulli(Bernoulli),
    Gilbert(Box<Gilbert>),
    None,
    Trace(LossTrace),
}

impl Loss {
    /// The models that are rare, out of the way of the others.
    #[inline(never)]
    fn is_lost_otherwise(&mut self, now: Time, size: u32) -> bool {
        match self {
            Self::Bernoulli(model) => model.is_lost(now, size),
            Self::Trace(model) => model.is_lost(now, size),
            Self::Gilbert(_) | Self::None => unreachable!("it has been asked"),
        }
    }
}

impl LossModel for Loss {
    #[inline]
    fn is_lost(&mut self, now: Time, size: u32) -> bool {
        match self {
            Self::Gilbert(model) => model.is_lost(now, size),
            Self::None => false,
            Self::Bernoulli(_) | Self::Trace(_) => self.is_lost_otherwise(now, size),
        }
    }
}
