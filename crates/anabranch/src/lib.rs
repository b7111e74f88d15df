//! Anabranch: a laboratory for transport over several paths at once.
//!
//! Multi-homed SCTP, MPTCP and the TCP family over lossy, bursty, bloated, heterogeneous links:
//! a deterministic simulator, and the measures of what a user would experience.

pub mod app;
pub mod batch;
pub mod cc;
pub mod endpoint;
pub mod net;
pub mod packet;
pub mod path;
pub mod quality;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod sctp;
pub mod sim;
pub mod time;
pub mod trace;
pub mod udp;
pub mod units;
