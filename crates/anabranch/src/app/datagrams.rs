//! Load as an ordinary flow: messages of one size at constant, random or bursty intervals.
//!
//! Four kinds, over whatever transport the flow has:
//! - `cbr`: equal intervals;
//! - `poisson`: exponential intervals;
//! - `on_off`: equal intervals during exponential on-times, silence during exponential off-times;
//! - `pareto`: as `on_off`, with Pareto-distributed times, which superposed give self-similar traffic
//!   (W. Willinger, M. Taqqu, R. Sherman and D. Wilson, "Self-similarity through high-variability",
//!   IEEE/ACM Transactions on Networking 5(1), 1997).
//!
//! Load that only has to fill one link's queue is cheaper as that link's lazy cross traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Commands, ReliabilityConfig, Start};
use crate::endpoint::{Command, Event, Message};
use crate::packet::{Payload, Side};
use crate::report::Report;
use crate::rng::{Draw as _, Rng, Streams};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// Messages whose making is remembered until they arrive; the delay of an older one is not measured.
/// A power of two.
const REMEMBERED: usize = 1 << 13;

/// The largest message, that of a UDP datagram over IPv4 with RTP, in bytes.
const MAX_SIZE: u64 = 65_535 - 20 - 8 - 12;

/// Messages at constant (`cbr`) or exponential (`poisson`) intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyConfig {
    /// Mean rate, payload only; default "100 kbit/s".
    pub rate: Rate,
    /// Payload of a message, 1 B to 65495 B; default "500 B".
    pub size: Bytes,
    /// When the first message may be sent: a time, or a range to draw it from; default "0 s".
    pub start: Start,
    /// How long messages are made; default until the end of the run.
    pub duration: Option<Duration>,
    /// Whether the run waits for the end of `duration`; default false: a load has no end to wait for.
    pub measure: bool,
    /// Whether the flow's end `to` sends instead of its end `from`; default false.
    pub reverse: bool,
    /// How hard each message is tried (SCTP); default "reliable".
    pub reliability: ReliabilityConfig,
    /// Whether messages are delivered without regard to their order (SCTP); default true.
    pub unordered: bool,
}

impl Default for SteadyConfig {
    fn default() -> Self {
        Self {
            rate: Rate::from_bits_per_sec(100_000),
            size: Bytes(500),
            start: Start::At(Duration::ZERO),
            duration: None,
            measure: false,
            reverse: false,
            reliability: ReliabilityConfig::Reliable,
            unordered: true,
        }
    }
}

/// Messages at constant intervals during on-times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BurstyConfig {
    /// Rate during on-times, payload only; default "100 kbit/s".
    pub rate: Rate,
    /// Payload of a message, 1 B to 65495 B; default "500 B".
    pub size: Bytes,
    /// Mean on-time; default "500 ms".
    pub on: Duration,
    /// Mean off-time; default "500 ms".
    pub off: Duration,
    /// Shape of the Pareto distribution, from above 1 to 10, ignored by `on_off`; default 1.5.
    pub shape: f64,
    /// When the first on-time begins: a time, or a range to draw it from; default "0 s".
    pub start: Start,
    /// How long messages are made; default until the end of the run.
    pub duration: Option<Duration>,
    /// Whether the run waits for the end of `duration`; default false: a load has no end to wait for.
    pub measure: bool,
    /// Whether the flow's end `to` sends instead of its end `from`; default false.
    pub reverse: bool,
    /// How hard each message is tried (SCTP); default "reliable".
    pub reliability: ReliabilityConfig,
    /// Whether messages are delivered without regard to their order (SCTP); default true.
    pub unordered: bool,
}
