//! Conformance by scripts in packetdrill's language, run in virtual time against the endpoints of
//! `anabranch-transport`: no clock, no socket.
//!
//! [`parser`] reads a script into the statements of [`script`].

pub mod parser;
pub mod script;
