//! What disciplines share: their interface, and the place that they are built for.

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::units::Bytes;

use crate::net::packets::{DropCause, Held, Waiting};

/// A queue discipline, which decides packet by packet. Times are in nanoseconds and never decrease.
pub(crate) trait QueueDisc {
    /// Takes a packet that arrives. Packets that do not stay, whether it or others, are added to `drops`.
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops);

    /// Called when the server is free: gives the packet to send, marked or not. `None` if nothing waits, or
    /// if what waits may not leave before the time in `not_before`.
    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held>;

    /// When to call `dequeue` again after it gave `None`, even if no packet arrives before. Only a shaper
    /// holds packets back.
    fn not_before(&self) -> u64 {
        u64::MAX
    }

    /// Called when what `dequeue` gave begins to wait for a shaper above, and with nothing once it no longer
    /// does, so that limits and backlogs count it as waiting (Linux, `qdisc_peek_dequeued`).
    fn hold_back(&mut self, _now: u64, _held_back: Waiting) {}

    /// Takes out everything that waits, as the link goes down; packets dropped in doing so are added to
    /// `drops`.
    fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
        std::iter::from_fn(|| self.dequeue(now, drops)).collect()
    }

    /// What waits.
    fn waiting(&self) -> Waiting;

    /// Bytes of memory in use.
    fn memory(&self) -> usize;

    /// Writes what only this discipline has.
    fn report(&self, _report: &mut Report<'_>) {}
}

/// The part of [`QueueDisc`] that a discipline leaves to the field in which it keeps its packets.
macro_rules! kept_in {
    ($packets:ident) => {
        fn hold_back(&mut self, _: u64, held_back: $crate::net::packets::Waiting) {
            self.$packets.hold_back(held_back);
        }

        fn waiting(&self) -> $crate::net::packets::Waiting {
            self.$packets.waiting()
        }

        fn memory(&self) -> usize {
            self.$packets.memory()
        }
    };
}
pub(super) use kept_in;

/// Packets that a discipline drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops(pub(crate) Vec<(Held, DropCause)>);

impl Drops {
    /// Active queue management drops this packet.
    pub(crate) fn early(&mut self, packet: Held) {
        self.0.push((packet, DropCause::Aqm));
    }

    /// Drops a packet for which there is no room.
    pub(crate) fn overflow(&mut self, packet: Held) {
        self.0.push((packet, DropCause::QueueFull));
    }
}

/// The place that a discipline is built for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Names the queue's settings in messages.
    pub(crate) key: &'a str,
    pub(crate) streams: Streams,
    /// The name of its random stream.
    pub(crate) component: &'a str,
}

/// Marks a packet instead of dropping it (RFC 3168 section 5). Returns whether its transport understands
/// marks.
pub(super) fn mark(packet: &mut Held) -> bool {
    let is_capable = packet.ecn != Ecn::NotEct;
    if is_capable {
        packet.mark();
    }
    is_capable
}

/// Checks that a whole number is in its range.
pub(super) fn check_range(
    place: Place<'_>,
    name: &str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{}.{name} is {value}, allowed is {least} to {most}", place.key))
}

/// Checks that a quantum is in its range.
pub(super) fn check_quantum(place: Place<'_>, quantum: Bytes) -> Result<(), String> {
    if (1..=1_000_000).contains(&quantum.0) {
        return Ok(());
    }
    Err(format!("{}.quantum is {quantum}, allowed is 1 B to 1000000 B", place.key))
}
