//! Helpers for the tests of disciplines.

use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::Streams;

use super::interface::{Drops, Place, QueueDisc};
use crate::net::packets::{DropCause, Held, Treatment};

pub(super) fn place() -> Place<'static> {
    Place { key: "queue", streams: Streams { seed: 1, replication: 0 }, component: "queue" }
}

/// A packet of 1500 B from this flow that arrived at this time, in nanoseconds.
pub(super) fn packet(slot: u32, arrived: u64, flow: u32) -> Held {
    let treatment = Treatment::default();
    Held { slot, arrived, size: 1500, ecn: Ecn::Ect0, flow, hosts: [0; 2], treatment, found_units: 0 }
}

/// Enqueues this many packets at each departure, up to `until`. Gives times and causes of the drops, and how
/// many of the packets that leave are marked.
pub(super) fn overload(
    queue: &mut impl QueueDisc,
    departure: u64,
    arrivals: u32,
    until: u64,
) -> (Vec<(u64, DropCause)>, u64) {
    let mut drops = Drops::default();
    let (mut dropped, mut marked, mut slot) = (Vec::new(), 0, 0);
    for now in (0..until).step_by(departure as usize) {
        for _ in 0..arrivals {
            queue.enqueue(now, packet(slot, now, 0), &mut drops);
            slot += 1;
        }
        marked += u64::from(queue.dequeue(now, &mut drops).is_some_and(|packet| packet.is_marked()));
        dropped.extend(drops.0.drain(..).map(|(_, cause)| (now, cause)));
    }
    (dropped, marked)
}
