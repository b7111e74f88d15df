//! Anabranch: a laboratory for transport over several paths at once.
//!
//! Multi-homed SCTP, MPTCP and the TCP family over lossy, bursty, bloated, heterogeneous links:
//! a deterministic simulator, and the measures of what a user would experience.

pub mod app;
pub mod cc;
pub mod endpoint;
pub mod packet;
pub mod path;
pub mod report;
pub mod rng;
pub mod sctp;
pub mod time;
pub mod udp;
pub mod units;
