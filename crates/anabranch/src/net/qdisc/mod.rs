//! Queue disciplines: the policy of a link's queue. Counters live in the link.
//!
//! To add a discipline: one file here, and a variant in [`QueueConfig`] and `QueueDisc`; the compiler
//! lists where the link's servers (`server.rs`, `evented.rs`) and the queue of media (`packet_queue.rs`) ask
//! the discipline and need an answer for the new one. Those servers know only disciplines that decide on
//! arrival, as `drop_tail` does; one that decides at departure needs a medium (`medium.rs`).

mod drop_tail;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use drop_tail::DropTail;
pub use drop_tail::DropTailConfig;

use crate::net::schedule::Timeline;

/// Which discipline a link's queue has. Default: `drop_tail` with 50 packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueConfig {
    /// First in, first out, up to a limit. Timetables have the same `repeat`.
    DropTail(DropTailConfig),
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::DropTail(DropTailConfig::default())
    }
}

impl QueueConfig {
    pub(crate) fn build(&self, key: &str) -> Result<QueueDisc, String> {
        match self {
            Self::DropTail(config) => config.build(key).map(QueueDisc::DropTail),
        }
    }
}

/// The discipline of one queue, as a function of time.
#[derive(Clone, Debug)]
pub(crate) enum QueueDisc {
    DropTail(Timeline<DropTail>),
}
