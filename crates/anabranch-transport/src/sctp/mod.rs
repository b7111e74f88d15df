//! SCTP: a multi-homed endpoint as a state machine without clock, socket or thread.
//!
//! Source: RFC 9260 (with RFC 4960 and RFC 2960 where a profile asks for them), RFC 3758 and RFC 7496
//! (partial reliability), RFC 5061 (addresses that come and go), RFC 6525 (streams that begin anew), RFC 7829
//! (potentially failed paths), RFC 8260 (interleaving and stream schedulers). The two ends of a flow are two
//! [`Association`]s; they are alike, except that one of them opens.
//!
//! Known deviations: DATA is not bundled with COOKIE ECHO (RFC 9260 section 5.1 allows it); no ECN.
//!
//! A call is hundreds of thousands of short steps, so it matters what the compiler puts together: an
//! input, and a chunk that comes with every packet, has a stack frame of its own (`inline(never)`), the
//! parts of one step share it (`inline(always)`), and opening and closing are `cold`.

#![expect(clippy::inline_always, reason = "counted in instructions per call; `inline` alone is not heeded")]

mod acknowledgement;
mod added_path;
mod answers;
mod arrival;
mod asconf;
mod association;
pub mod config;
mod delayed_sack;
#[cfg(test)]
mod drills;
mod endpoint;
mod failure;
mod gap_acked;
mod handshake;
mod heartbeat;
mod hooks;
mod interleaving;
mod kernel_memory;
mod limit;
mod listener;
pub mod load_sharing;
mod local;
mod message;
mod opaque;
mod options;
mod outbox;
mod outstanding;
pub mod parameters;
mod partial_delivery;
mod parts;
mod path;
mod pr_sctp;
mod probing;
pub mod procedures;
mod prompt;
#[cfg(test)]
mod properties;
mod queued_message;
mod reassembly;
mod receive;
mod received_tsns;
mod receiver;
mod restart;
mod retransmission;
mod routing;
mod selection;
mod send;
mod send_buffer;
mod send_queue;
mod sender;
mod shutdown;
mod state;
mod stats;
mod stream_reconfiguration;
pub mod stream_scheduler;
#[cfg(test)]
mod testing;
mod timers;
mod transmit;
mod tsn;
mod tsn_map;

pub use association::Association;
pub use config::{Config, Profile};
pub use listener::{Listener, refuse, refuse_restart};
pub use parameters::Parameters;
pub use stats::Stats;

use crate::capabilities::{Capabilities, Messages, Numbering};
use crate::report::Parts;

/// The scalars of an endpoint, and of each of its paths; of a path's bytes there are some with load sharing.
pub const SCALARS: Parts = &[
    ("", &[Stats::SCALARS, stats::TIMES, load_sharing::SCALARS]),
    (".path<n>", &[stats::PATH_SCALARS, load_sharing::PATH_SCALARS]),
];

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "SCTP",
    flow_control: true,
    messages: Messages::Always,
    several_paths: true,
    changing_addresses: true,
    rebinding: false,
    pauses_reading: false,
    choice_of_control: false,
    numbering: Numbering::Chunks,
    numbers_by_path: false,
};
