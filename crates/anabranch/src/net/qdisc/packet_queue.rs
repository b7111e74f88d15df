//! A queue whose packets leave one by one, at events: what a medium serves links from.
//!
//! The discipline decides when a packet comes and is asked again when one leaves.

use anabranch_transport::time::Time;

use super::drop_tail::{DropTail, DropTailConfig};
use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc};
use crate::net::capacity::UNITS_PER_BYTE;
use crate::net::packets::{Held, QueueSample, Waiting};
use crate::schedule::Timeline;

/// The packets that wait at one end of a link.
#[derive(Clone, Debug)]
pub(crate) struct PacketQueue {
    discipline: Timeline<DropTail>,
    packets: Fifo,
    /// The queue's changes, for a link that is traced.
    samples: Option<Vec<QueueSample>>,
}

impl DropTailConfig {
    /// The queue, whose discipline acts packet by packet.
    pub(super) fn build(&self, place: Place<'_>) -> Result<PacketQueue, String> {
        self.timeline(place.key).map(|limits| PacketQueue::new(limits, false))
    }
}

impl PacketQueue {
    pub(crate) fn new(discipline: Timeline<DropTail>, is_traced: bool) -> Self {
        let samples = is_traced.then(Vec::new);
        Self { discipline, packets: Fifo::default(), samples }
    }

    /// Takes a packet at `now`, in nanoseconds, if there is room; returns whether it did. A packet that finds
    /// the queue empty is always taken.
    pub(crate) fn accept(&mut self, now: u64, mut packet: Held, is_idle: bool) -> bool {
        packet.found_units = self.packets.bytes() * UNITS_PER_BYTE;
        self.take(now, packet, is_idle && self.len() == 0)
    }

    fn take(&mut self, now: u64, mut packet: Held, is_first: bool) -> bool {
        let waiting = self.packets.backlog();
        let discipline = self.discipline.at(now);
        if !is_first && !discipline.admits(waiting, packet.size.into()) {
            return false;
        }
        if discipline.is_marked(waiting) {
            packet.mark();
        }
        self.packets.push(packet);
        self.sample(now);
        true
    }

    /// Takes out the packet that is served next.
    pub(crate) fn next(&mut self, now: u64) -> Option<Held> {
        let packet = self.packets.pop_oldest()?;
        self.sample(now);
        Some(packet)
    }

    /// The sizes of the packets that wait, in bytes, in the order in which they would leave.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().map(|packet| packet.size)
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len() as usize
    }

    pub(crate) fn memory(&self) -> usize {
        let samples = self.samples.as_ref().map_or(0, Vec::capacity) * size_of::<QueueSample>();
        samples + self.packets.memory()
    }

    pub(crate) fn take_samples(&mut self) -> Vec<QueueSample> {
        self.samples.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn sample(&mut self, now: u64) {
        if let Some(samples) = &mut self.samples {
            let Waiting { packets, bytes } = self.packets.waiting();
            samples.push(QueueSample { time: Time::from_nanos(now), packets, bytes });
        }
    }
}

impl QueueDisc for PacketQueue {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if !self.take(now, packet, packet.found_units == 0) {
            drops.overflow(packet);
        }
    }

    fn dequeue(&mut self, now: u64, _: &mut Drops) -> Option<Held> {
        self.next(now)
    }

    fn hold_back(&mut self, _: u64, held_back: Waiting) {
        self.packets.hold_back(held_back);
    }

    fn waiting(&self) -> Waiting {
        self.packets.waiting()
    }

    fn memory(&self) -> usize {
        Self::memory(self)
    }
}
