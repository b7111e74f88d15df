//! Packets in flight: a slab whose slots are used again.

use anabranch_transport::wire::Packet;

/// A packet on its way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) packet: Box<Packet>,
    /// The number of its route.
    pub(super) route: u32,
    /// The hop that its event at a link belongs to: an index into all routes' hops.
    pub(super) hop: u32,
    pub(super) progress: Progress,
    /// Its row in the packet trace.
    pub(super) trace_row: u32,
}

/// How far a packet in flight has been computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Up to its event, at which it comes to a link or to the end of its route.
    ToEvent,
    /// Through the server of a link, which it leaves at its event, when its loss on the wire is drawn.
    OnWire,
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

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> InFlight {
        let packet = self.slots[slot as usize].take().expect("an event's packet is in flight");
        self.free.push(slot);
        packet
    }

    /// The number of packets in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of memory in use, without what packets themselves use elsewhere.
    pub(super) fn memory(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Option<InFlight>>();
        slots + self.free.capacity() * size_of::<u32>() + self.len() * size_of::<Packet>()
    }
}
