//! Queue disciplines: the policy of a link's queue. Counters live in the link.
//!
//! To add a discipline: one file here with its config and its [`QueueDisc`], and a line in the table of
//! [`QueueConfig`]. `drop_tail` alone decides on arrival about nothing but the arriving packet, so the lazy
//! server (`server.rs`) can serve it; all others are asked at every arrival and departure by
//! `queued.rs`, which has an event for each departure.

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
mod lifo_codel;
mod pie;
#[cfg(test)]
mod properties;
mod red;
mod sfq;
#[cfg(test)]
mod testing;
mod token_bucket;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use blue::BlueConfig;
pub use cake::{CakeConfig, CakeIsolation};
pub use cobalt::CobaltConfig;
pub use codel::{CodelConfig, SquareRoot};
pub use codel_literal::CodelLiteralConfig;
pub(crate) use drop_tail::DropTail;
pub use drop_tail::DropTailConfig;
pub use drr::DrrConfig;
pub use dualpi2::DualPi2Config;
pub use fq_codel::FqCodelConfig;
pub use fq_lifo_codel::FqLifoCodelConfig;
pub use fq_pie::FqPieConfig;
pub use head_drop::HeadDropConfig;
pub use lifo_codel::{LifoCodelConfig, LifoRule};
pub use pie::PieConfig;
pub use red::RedConfig;
pub use sfq::SfqConfig;
pub use token_bucket::TokenBucketConfig;

use super::backlog::Waiting;
use super::ledger::Fate;
use super::medium::Held;
use super::packet_queue::PacketQueue;
use super::schedule::Timeline;
use crate::ground::Ecn;
use crate::rng::Streams;
use crate::units::Bytes;

/// Where packets wait and which of them go on, asked packet by packet. Times are in nanoseconds and never
/// decrease.
pub(crate) trait QueueDisc {
    /// Takes a packet that comes; those that do not stay, it or others, are told to `drops`.
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops);

    /// The server is free: the packet that it takes, marked or not. None when nothing waits any more, or when what
    /// waits may not leave before the time that `not_before` then gives.
    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held>;

    /// After `dequeue` gave none: when to ask again although nothing comes. Only a shaper holds anything back.
    fn not_before(&self) -> u64 {
        u64::MAX
    }

    /// Everything that waits is taken out, as the link goes down; what is dropped meanwhile is told to `drops`.
    fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
        std::iter::from_fn(|| self.dequeue(now, drops)).collect()
    }

    /// What waits.
    fn waiting(&self) -> Waiting;

    /// Bytes of memory in use.
    fn memory(&self) -> usize;
}

/// Packets that a discipline drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops(pub(crate) Vec<(Held, Fate)>);

impl Drops {
    /// Active queue management drops this packet.
    fn early(&mut self, packet: Held) {
        self.0.push((packet, Fate::Aqm));
    }

    /// There is no room for this packet.
    pub(crate) fn overflow(&mut self, packet: Held) {
        self.0.push((packet, Fate::QueueFull));
    }
}

/// What a discipline is built for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Names the queue's settings in messages.
    pub(crate) key: &'a str,
    pub(crate) streams: Streams,
    /// The name of its random stream.
    pub(crate) component: &'a str,
}

/// Marks a packet instead of dropping it (RFC 3168 section 5). Whether its transport understands marks.
fn mark(packet: &mut Held) -> bool {
    let is_capable = packet.ecn != Ecn::NotEct;
    packet.is_marked |= is_capable;
    is_capable
}

/// Whether a whole number is in its range.
fn check_range(place: Place<'_>, name: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{}.{name} is {value}, allowed is {least} to {most}", place.key))
}

/// Whether a quantum is in its range.
fn check_quantum(place: Place<'_>, quantum: Bytes) -> Result<(), String> {
    if (1..=1_000_000).contains(&quantum.0) {
        return Ok(());
    }
    Err(format!("{}.quantum is {quantum}, allowed is 1 B to 1000000 B", place.key))
}

macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident: $config:ty => $disc:ty,)*) => {
        /// Which discipline a link's queue has. Default: `drop_tail` with 50 packets.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum QueueConfig {
            $($(#[$doc])* $name($config),)*
        }

        impl QueueConfig {
            /// Every discipline with its default settings.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$name(<$config>::default()),)*]
            }

            /// The discipline, to be asked packet by packet.
            ///
            /// # Errors
            /// One sentence that names the key, the value and what is allowed.
            pub(crate) fn build(&self, place: Place<'_>) -> Result<Discipline, String> {
                match self {
                    $(Self::$name(config) => config.build(place).map(Discipline::$name),)*
                }
            }
        }

        /// A discipline, dispatched statically.
        #[derive(Clone, Debug)]
        pub(crate) enum Discipline {
            $($name($disc),)*
        }

        impl QueueDisc for Discipline {
            fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
                match self {
                    $(Self::$name(queue) => queue.enqueue(now, packet, drops),)*
                }
            }

            fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
                match self {
                    $(Self::$name(queue) => queue.dequeue(now, drops),)*
                }
            }

            fn not_before(&self) -> u64 {
                match self {
                    $(Self::$name(queue) => queue.not_before(),)*
                }
            }

            fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
                match self {
                    $(Self::$name(queue) => queue.flush(now, drops),)*
                }
            }

            fn waiting(&self) -> Waiting {
                match self {
                    $(Self::$name(queue) => queue.waiting(),)*
                }
            }

            fn memory(&self) -> usize {
                match self {
                    $(Self::$name(queue) => queue.memory(),)*
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
    /// The name of its kind in scenario files.
    pub fn kind(&self) -> String {
        let tagged = serde_json::to_value(self).unwrap_or_default();
        tagged["kind"].as_str().unwrap_or_default().to_owned()
    }

    /// The setting by which it holds back what the link could send, in words; none if it does not.
    pub(crate) fn shaper(&self) -> Option<String> {
        match self {
            Self::Cake(config) => config.bandwidth.map(|bandwidth| format!("bandwidth is {bandwidth}")),
            Self::TokenBucket(_) => Some("kind is \"token_bucket\"".to_owned()),
            _ => None,
        }
    }

    /// Whether a link has to serve it packet by packet.
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
