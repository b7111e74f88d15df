//! Captures of packets as columns: what people have on their disks, read in pieces and in constant memory.
//!
//! A [`Reader`] goes over a file once ([`source`]: plain, gzip or zstd; [`formats`]: pcap and its relatives,
//! pcapng, snoop, ERF), finds the IP packet of each frame ([`link`]: link layers, tags and labels;
//! [`packet`]: tunnels), takes its headers apart with the parsers of `anabranch-transport` and adds a row to
//! a [`Batch`] ([`columns`]). Packets of QUIC are opened where the file has their secrets (feature `quic`).
//! Nothing in a file is trusted: no input panics, what a file makes the reader keep is bounded, and the time
//! is linear in its (unpacked) length. What is left out is counted, under a sentence.
//!
//! What the packets say of the flows' ends is beside it: [`journeys`] follows them over several places,
//! [`sender`] says what held their sender back, [`chain`] how probable losses are under a model of them.

mod acknowledged;
mod bytes;
pub mod chain;
pub mod columns;
mod formats;
mod fragments;
pub mod journeys;
mod link;
mod packet;
#[cfg(feature = "quic")]
mod quic;
mod reader;
pub mod sender;
mod source;
mod tables;
mod transport;

pub use acknowledged::newly_acknowledged;
pub use columns::Batch;
pub use reader::{Error, Reader, is_capture};
pub use tables::{Interface, Place};
