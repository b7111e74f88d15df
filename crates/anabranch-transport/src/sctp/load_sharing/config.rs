//! Settings of load sharing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cc::coupled;
use crate::path::scheduler;

/// Settings of load sharing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LoadSharingConfig")]
pub struct Config {
    /// Which of the paths with room carries the next data; default `min_rtt`.
    pub scheduler: scheduler::Config,
    /// How the congestion windows of the paths depend on each other; default `per_path`, in which they do
    /// not.
    pub coupling: coupled::Config,
    /// What must advance for a congestion window to grow (CUC); default `pseudo_cumulative_v2`.
    pub cwnd_update: CwndUpdate,
    /// Whether a SACK may be delayed although there are gaps, and then says how many packets it is for (DAC);
    /// default true.
    pub delayed_ack: bool,
    /// Whether SACKs are final (NR-SACK), so that chunks leave the send buffer although earlier ones are
    /// missing; default false.
    pub nr_sack: bool,
    /// Which buffers are divided evenly among the usable paths, so that none can fill them; default "both".
    pub buffer_splitting: Sides,
    /// What takes up a path's share of a buffer; default "outstanding".
    pub split_by: SplitBy,
    /// Which buffer must be blocked for the chunk that everything waits for to be retransmitted on a path
    /// with room; default "both".
    pub chunk_rescheduling: Sides,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler: scheduler::Config::default(),
            coupling: coupled::Config::default(),
            cwnd_update: CwndUpdate::default(),
            delayed_ack: true,
            nr_sack: false,
            buffer_splitting: Sides::default(),
            split_by: SplitBy::default(),
            chunk_rescheduling: Sides::default(),
        }
    }
}

/// What must advance for a congestion window to grow (Iyengar et al. 2006, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CwndUpdate {
    /// The cumulative TSN of the association, as without load sharing.
    Cumulative,
    /// The path's pseudo-cumulative TSN: its earliest outstanding chunk is acknowledged.
    PseudoCumulative,
    /// The same for chunks sent once and chunks retransmitted, each by themselves (`CUCv2`, FreeBSD).
    #[default]
    PseudoCumulativeV2,
}

/// Buffers at the two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// The send buffer and the receive buffer.
    #[default]
    Both,
    /// None.
    Off,
    /// The receive buffer.
    Receiver,
    /// The send buffer.
    Sender,
}

impl Sides {
    pub(super) const fn has_sender(self) -> bool {
        matches!(self, Self::Both | Self::Sender)
    }

    pub(super) const fn has_receiver(self) -> bool {
        matches!(self, Self::Both | Self::Receiver)
    }
}

/// What takes up a path's share of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// What was sent there and is in the buffer (INET Framework, unless `cmtBufferSplittingUsesOSB`).
    Buffered,
    /// What is outstanding there (FreeBSD, `net.inet.sctp.buffer_splitting`).
    #[default]
    Outstanding,
}
