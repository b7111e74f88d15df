//! Queue disciplines: the policy of a link's queue. Counters live in the link.
//!
//! To add a discipline: one file here with its config and its `QueueDisc`, its name here, and a line in the
//! table of [`QueueConfig`]. `drop_tail` alone decides on arrival about nothing but the arriving packet, so
//! `server.rs` can serve it; all others are asked at every arrival and departure by
//! `queued.rs`.

mod blue;
mod cake;
mod cobalt;
mod codel;
mod codel_literal;
mod drop_tail;
mod drr;
mod dualpi2;
mod fair_queue;
mod fifo;
mod fq_codel;
mod fq_lifo_codel;
mod fq_pie;
mod head_drop;
mod interface;
pub(crate) mod lanes;
mod lifo_codel;
mod packet_queue;
mod pie;
pub mod plugin;
mod prio;
#[cfg(test)]
mod properties;
mod red;
mod sfq;
#[cfg(test)]
mod testing;
mod token_bucket;

use anabranch_transport::report::Report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use blue::BlueConfig;
pub use cake::{CakeConfig, CakeDiffserv, CakeIsolation};
pub use cobalt::CobaltConfig;
pub use codel::{CodelConfig, SquareRoot};
pub use codel_literal::CodelLiteralConfig;
pub(crate) use drop_tail::DropTail;
pub use drop_tail::DropTailConfig;
pub use drr::DrrConfig;
pub(crate) use dualpi2::SCALARS as DUALPI2_SCALARS;
pub use dualpi2::{DualPi2Config, DualPi2Variant};
pub use fq_codel::FqCodelConfig;
pub use fq_lifo_codel::FqLifoCodelConfig;
pub use fq_pie::FqPieConfig;
pub use head_drop::HeadDropConfig;
pub(crate) use interface::{Drops, Place, QueueDisc};
pub use lifo_codel::{LifoCodelConfig, LifoRule};
pub(crate) use packet_queue::PacketQueue;
pub use pie::PieConfig;
pub use prio::{BandConfig, PrioConfig};
pub use red::RedConfig;
pub use sfq::SfqConfig;
pub use token_bucket::TokenBucketConfig;

use super::packets::{Held, Waiting};
use crate::schedule::Timeline;

macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident: $config:ty => $disc:ty,)*) => {
        /// Which discipline a link's queue has. Default: `drop_tail` with 50 packets.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum QueueConfig {
            $($(#[$doc])* $name($config),)*
            /// A class of Python (docs/plugins.md).
            Python(anabranch_transport::plugin::Config),
        }

        impl QueueConfig {
            /// Every discipline of the library with its default settings.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$name(<$config>::default()),)*]
            }

            /// The discipline, which acts packet by packet.
            ///
            /// # Errors
            /// One sentence that names the key, the value and what is allowed.
            pub(crate) fn build(&self, place: Place<'_>) -> Result<Discipline, String> {
                match self {
                    $(Self::$name(config) => config.build(place).map(Discipline::$name),)*
                    Self::Python(config) => plugin::Plugin::build(config, place).map(Discipline::Plugin),
                }
            }
        }

        /// A discipline, dispatched statically.
        #[derive(Debug)]
        pub(crate) enum Discipline {
            $($name($disc),)*
            Plugin(plugin::Plugin),
        }

        impl QueueDisc for Discipline {
            fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
                match self {
                    $(Self::$name(queue) => queue.enqueue(now, packet, drops),)*
                    Self::Plugin(queue) => queue.enqueue(now, packet, drops),
                }
            }

            fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
                match self {
                    $(Self::$name(queue) => queue.dequeue(now, drops),)*
                    Self::Plugin(queue) => queue.dequeue(now, drops),
                }
            }

            fn not_before(&self) -> u64 {
                match self {
                    $(Self::$name(queue) => queue.not_before(),)*
                    Self::Plugin(queue) => queue.not_before(),
                }
            }

            fn hold_back(&mut self, now: u64, held_back: Waiting) {
                match self {
                    $(Self::$name(queue) => queue.hold_back(now, held_back),)*
                    Self::Plugin(queue) => queue.hold_back(now, held_back),
                }
            }

            fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
                match self {
                    $(Self::$name(queue) => queue.flush(now, drops),)*
                    Self::Plugin(queue) => queue.flush(now, drops),
                }
            }

            fn waiting(&self) -> Waiting {
                match self {
                    $(Self::$name(queue) => queue.waiting(),)*
                    Self::Plugin(queue) => queue.waiting(),
                }
            }

            fn memory(&self) -> usize {
                match self {
                    $(Self::$name(queue) => queue.memory(),)*
                    Self::Plugin(queue) => queue.memory(),
                }
            }

            fn report(&self, report: &mut Report<'_>) {
                match self {
                    $(Self::$name(queue) => queue.report(report),)*
                    Self::Plugin(queue) => queue.report(report),
                }
            }
        }
    };
}

disciplines! {
    /// BLUE: drops at arrival with a probability that overflows raise and idle times lower.
    Blue: BlueConfig => blue::Blue,
    /// CAKE: a shaper, queues of flows that take turns with regard to their hosts, COBALT for each.
    Cake: CakeConfig => cake::Cake,
    /// COBALT: CoDel for flows that respond and BLUE for those that do not.
    Cobalt: CobaltConfig => cobalt::Cobalt,
    /// CoDel (RFC 8289): drops at departure what has waited too long for too long.
    Codel: CodelConfig => codel::Codel,
    /// An ablation of CoDel: drops everything that has waited longer than the target.
    CodelLiteral: CodelLiteralConfig => codel_literal::CodelLiteral,
    /// First in, first out, up to a limit. Timetables have the same `repeat`.
    DropTail: DropTailConfig => PacketQueue,
    /// Flows take turns by deficit round robin (Shreedhar and Varghese).
    Drr: DrrConfig => drr::Drr,
    /// DualPI2 (RFC 9332): a queue for L4S and one for everything else, whose marks and drops are coupled.
    #[serde(rename = "dualpi2")]
    DualPi2: DualPi2Config => dualpi2::DualPi2,
    /// Flows take turns, each with CoDel (RFC 8290).
    FqCodel: FqCodelConfig => fq_codel::FqCodel,
    /// Flows take turns, each with LIFO-CoDel.
    FqLifoCodel: FqLifoCodelConfig => fq_lifo_codel::FqLifoCodel,
    /// Flows take turns, each with PIE.
    FqPie: FqPieConfig => fq_pie::FqPie,
    /// First in, first out; a packet that finds the queue full pushes out the one that has waited longest.
    HeadDrop: HeadDropConfig => head_drop::HeadDrop,
    /// A stack, last in, first out, with a drop rule beside CoDel's (Felix, Santos and Nogueira).
    LifoCodel: LifoCodelConfig => lifo_codel::LifoCodel,
    /// PIE (RFC 8033): drops at arrival with a probability that follows the waiting time.
    Pie: PieConfig => pie::Pie,
    /// Strict priority: bands by the codepoints of packets, each with a discipline of its own.
    Prio: PrioConfig => prio::Prio,
    /// RED and adaptive RED: drops at arrival with a probability that follows the mean length.
    Red: RedConfig => red::Red,
    /// Stochastic fairness queueing (McKenney) as Linux has it: flows take turns.
    Sfq: SfqConfig => sfq::Sfq,
    /// A token bucket that shapes what another discipline lets out.
    TokenBucket: TokenBucketConfig => token_bucket::TokenBucket,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::DropTail(DropTailConfig::default())
    }
}

impl QueueConfig {
    /// The name of the kind in scenario files.
    pub fn kind(&self) -> String {
        let tagged = serde_json::to_value(self).unwrap_or_default();
        tagged["kind"].as_str().unwrap_or_default().to_owned()
    }

    /// The setting by which the discipline holds back what the link could send, in words; [`None`] if it does
    /// not.
    pub(crate) fn shaper(&self) -> Option<String> {
        match self {
            Self::Cake(config) => config.bandwidth.map(|bandwidth| format!("bandwidth is {bandwidth}")),
            Self::Prio(config) => config.shaper(),
            // It may hold packets back.
            Self::Python(_) => Some("kind is \"python\"".to_owned()),
            Self::TokenBucket(_) => Some("kind is \"token_bucket\"".to_owned()),
            _ => None,
        }
    }

    /// Whether a link has to simulate each departure for it.
    pub(crate) fn needs_departures(&self) -> bool {
        !matches!(self, Self::DropTail(config) if !config.measure)
    }

    /// The limits over time where it is `drop_tail`. `place` says in a message where nothing else goes.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub(crate) fn drop_tail(&self, key: &str, place: &str) -> Result<Timeline<DropTail>, String> {
        match self {
            Self::DropTail(config) if config.measure => {
                Err(format!("{key}.measure is true, allowed {place} is only false"))
            }
            Self::DropTail(config) => config.timeline(key),
            other => {
                Err(format!("{key}.kind is \"{}\", allowed {place} is only \"drop_tail\"", other.kind()))
            }
        }
    }
}
