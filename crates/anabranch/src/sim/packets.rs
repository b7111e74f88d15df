//! Packets in flight: a slab whose places are used again.

use crate::packet::{Packet, Side};

/// A packet on its way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) packet: Packet,
    pub(super) flow: u32,
    /// The side that sent it.
    pub(super) sender: Side,
    /// The number of its route.
    pub(super) route: u32,
    /// The hop it waits for, or is on: an index into all routes' hops.
    pub(super) hop: u32,
    /// Whether it has entered that hop and waits for its loss to be drawn.
    pub(super) crossing: bool,
    /// Its row in the packet trace.
    pub(super) trace_row: u32,
}

#[derive(Debug, Default)]
pub(super) struct PacketSlab {
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl PacketSlab {
    #[expect(clippy::inline_always, reason = "one call per packet, which otherwise copies it once more")]
    #[inline(always)]
    pub(super) fn insert(&mut self, packet: InFlight) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.new_slot());
        self.slots[slot as usize] = Some(packet);
        slot
    }

    #[cold]
    fn new_slot(&mut self) -> u32 {
        self.slots.push(None);
        self.slots.len() as u32 - 1
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut InFlight {
        self.slots[slot as usize].as_mut().expect("an event's packet is in flight")
    }

    pub(super) fn remove(&mut self, slot: u32) -> InFlight {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("an event's packet is in flight")
    }

    /// How many packets are in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of memory in use, without what packets themselves hold elsewhere.
    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Option<InFlight>>()
    }
}
