//! Multipath TCP: one stream over several TCP connections, as a state machine without clock, socket or
//! thread.
//!
//! Source: RFC 8684 (version 1); C. Raiciu et al., "How hard can it be? Designing and implementing a
//! deployable Multipath TCP", NSDI 2012 (opportunistic retransmission and penalisation). Where a profile
//! follows Linux 6.12, the place names the kernel's function in `net/mptcp/`. The connection owns a
//! [`crate::tcp::Connection`] for each of the flow's paths, adds the MPTCP option to what they send, and
//! reads it from what they get; data is handed to a subflow one mapping at a time, when its congestion window
//! lets it leave. The two ends of a flow are two [`Connection`]s; they are alike, except that side A opens.
//! Keys, tokens and the codes of `MP_JOIN` are real; the numbers of the connection are positions here, and
//! become data sequence numbers where a packet becomes bytes ([`crate::wire::mptcp`]).
//!
//! Known deviations: the checksum of a mapping that takes several segments is not looked at; a connection
//! goes on by an infinite mapping only as that of its first subflow, whose stream is the connection's
//! (section 3.7 also allows a new subflow that begins with one). An address that comes at side A is announced
//! and joined by side A, so that nobody joins an address because of `ADD_ADDR` alone. A mapping is one
//! segment. The receive buffer does not tune itself: the window is the whole buffer from the beginning. Data
//! that a subflow holds above a gap of its own reaches the connection when the gap is filled, as in Linux.
//! Subflows close when both `DATA_FIN` are acknowledged. `REMOVE_ADDR` is said once, and ends the subflow
//! without the keep-alive that section 3.4.2 asks for, as in Linux.

mod addresses;
mod close;
pub mod config;
mod connection;
mod damage;
#[cfg(test)]
mod drills;
mod fall_back;
mod handshake;
mod info;
mod kheirkhah;
mod limit;
mod listener;
pub mod parameters;
#[cfg(test)]
mod properties;
mod receive;
mod retransmission;
mod send;
mod stats;
mod subflow;
mod subflows;
#[cfg(test)]
mod testing;

pub use config::{Config, Profile, Receiver, Rejoin};
pub use connection::Connection;
pub use listener::Listener;
pub use parameters::Parameters;
pub use stats::Stats;

use crate::capabilities::{Capabilities, Messages, Numbering};
use crate::report::Parts;
use crate::tcp;

/// The scalars of an endpoint, and of the TCP connection that each subflow is.
pub const SCALARS: Parts = &[("", &[Stats::SCALARS, stats::MORE]), (".subflow_<n>", tcp::SCALARS[0].1)];

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "Multipath TCP",
    flow_control: true,
    messages: Messages::Never,
    several_paths: true,
    changing_addresses: true,
    rebinding: false,
    pauses_reading: true,
    choice_of_control: true,
    numbering: Numbering::Bytes,
    numbers_by_path: true,
};
