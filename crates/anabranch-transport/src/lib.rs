//! Transport protocols as state machines without clock, socket or thread.

pub mod cc;
pub mod endpoint;
pub mod ground;
mod linux_rtt;
pub mod mptcp;
pub mod path;
pub mod quality;
pub mod report;
pub mod rng;
pub mod sctp;
pub mod tcp;
pub mod time;
mod timer;
pub mod udp;
pub mod units;
pub mod wire;
