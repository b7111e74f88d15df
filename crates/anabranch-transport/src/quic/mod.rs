//! QUIC: an endpoint as a state machine without clock, socket or thread.
//!
//! Source: RFC 9000 (transport), RFC 9002 (loss detection and congestion control), RFC 9221 (datagrams), and
//! of RFC 9001 the order of keys and handshake messages; RFC 10069 (several paths). Names of functions and
//! constants of the RFCs stand where they are meant. The two ends of a flow are two [`Connection`]s; side A
//! is the client.
//!
//! A connection has two layers. A path ID (`path.rs`: `Path`) owns packet numbers, round trips, congestion
//! control and connection IDs; inside of it are the addresses (`Route`), which are validated. There is one
//! path ID, number 0, as in RFC 9000, unless both ends want several (`multipath.rs`).
//!
//! A handshake is messages of stated sizes: whoever has all bytes of one has what follows from it. What the
//! transport parameters say travels beside the packets that carry them. Protection adds its 16 bytes to each
//! packet, and nothing is encrypted here.
//!
//! The client's first bidirectional stream lasts as long as the connection, as if it were one of TCP; further
//! streams end by themselves, and messages go in DATAGRAM frames. A close is in order when both directions of
//! all streams are through.
//!
//! Known deviations: no preferred address or path MTU discovery; a client moves only when
//! its path has failed; no session
//! tickets or tokens for later connections; the spin bit is 0; the congestion window
//! falls at once when a loss is found (RFC 9002 section 7.3.2 leaves that open).

mod ack_frequency;
mod acknowledgement;
mod application;
mod bucket;
mod close;
pub mod config;
mod congestion;
mod connection;
mod connection_ids;
mod door;
#[cfg(test)]
mod drills;
mod early_data;
mod ecn;
mod errors;
mod flow_control;
mod frames;
mod handshake;
mod key_update;
mod limit;
mod listener;
mod live;
mod loss;
mod messages;
mod migration;
mod multipath;
pub mod parameters;
mod path;
mod profile;
#[cfg(test)]
mod properties;
mod ranges;
mod receive;
mod receive_stream;
mod retry;
mod send;
mod send_stream;
mod sent_packets;
mod space;
mod stats;
mod streams;
#[cfg(test)]
mod testing;
#[cfg(feature = "quic")]
pub mod tls;

pub use config::{Config, Profile};
pub use connection::Connection;
pub use errors::code;
pub use listener::Listener;
pub use live::LivePath;
pub use parameters::Parameters;
pub use stats::Stats;

use crate::capabilities::{Capabilities, Messages, Numbering};
use crate::report::Parts;

/// The scalars of an endpoint.
pub const SCALARS: Parts = &[("", &Stats::ALL)];

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "QUIC",
    flow_control: true,
    messages: Messages::With("datagrams"),
    several_paths: false,
    changing_addresses: false,
    rebinding: true,
    pauses_reading: true,
    choice_of_control: true,
    numbering: Numbering::Packets,
    numbers_by_path: true,
};
