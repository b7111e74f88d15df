//! Links: rate, delay, queue, loss and the traffic that loads them.
//!
//! A link is asked once per packet and answers when the packet arrives at the other end, without events
//! (ARCHITECTURE.md: an event exists only where a decision is made). A link whose packets cannot be answered
//! for at once, such as a radio link, holds them until its medium releases them (`medium.rs`).
//!
//! The stages of a link, in order: ingress loss, queue discipline, server, wire loss, corruption,
//! duplication, jitter, delay.

mod asked;
mod backlog;
mod capacity;
mod config;
mod counted;
mod cross_traffic;
mod duplex;
mod impairments;
mod ledger;
pub mod loss;
mod medium;
mod one_way;
mod packets;
#[cfg(test)]
mod properties;
pub mod qdisc;
mod queued;
pub mod radio;
mod ring;
mod server;
mod sojourns;
mod stays;

pub use capacity::RateConfig;
pub use config::{LinkConfig, ReverseConfig, WhenDown};
pub use cross_traffic::{
    CbrConfig, CrossTrafficConfig, CrossTrafficDirection, OnOffConfig, ParetoOnOffConfig, PoissonConfig,
};
pub use duplex::DuplexLink;
pub use impairments::JitterShape;
pub(crate) use medium::{Media, Medium};
pub use packets::{Direction, DropCause, QueueSample, Step};
pub(crate) use packets::{Fate, Held, Pass, Release, Treatment};
pub(crate) use radio::RadioSample;
pub(crate) use ring::Ring;

use anabranch_transport::report::Declared;

/// The scalars of one direction of a link, and which links have them.
pub(crate) const SCALARS: [(&str, &[&[Declared]]); 9] = [
    ("Every link", &[one_way::SCALARS]),
    ("A link with cross traffic", &[cross_traffic::SCALARS]),
    (
        "A link whose queue discipline decides when a packet is sent, or a radio",
        &[sojourns::SCALARS, sojourns::QUEUE_SCALARS],
    ),
    ("DualPI2", &[qdisc::DUALPI2_SCALARS]),
    ("A radio", &[radio::SCALARS]),
    ("LTE and NR", &[radio::BLOCK_SCALARS]),
    ("NR", &[radio::NR_SCALARS]),
    ("Wi-Fi", &[radio::WIFI_SCALARS]),
    ("WiMAX", &[radio::WIMAX_SCALARS]),
];

/// The scalars of each queue of a discipline that has several, whose names are parts of the place.
pub(crate) const LANES: (&str, &[&[Declared]]) =
    ("DualPI2, CAKE and `prio`, each queue", &[qdisc::lanes::SCALARS, sojourns::SCALARS]);
