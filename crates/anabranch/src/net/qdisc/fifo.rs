//! Packets in the order in which they came, with their bytes.

use std::collections::VecDeque;

use crate::net::packets::{Held, Waiting};

/// Packets in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Held>,
    bytes: u64,
    /// What a shaper above has taken out and still holds.
    held_back: Waiting,
}

impl Fifo {
    pub(super) fn push(&mut self, packet: Held) {
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
    }

    pub(super) fn pop_oldest(&mut self) -> Option<Held> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(super) fn pop_newest(&mut self) -> Option<Held> {
        let packet = self.packets.pop_back()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(super) fn oldest(&self) -> Option<&Held> {
        self.packets.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.packets.iter()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.packets.len() as u64
    }

    pub(super) fn waiting(&self) -> Waiting {
        Waiting { packets: self.len(), bytes: self.bytes }
    }

    /// See `QueueDisc::hold_back`.
    pub(super) fn hold_back(&mut self, held_back: Waiting) {
        self.held_back = held_back;
    }

    /// What waits here and what is held back: what limits are compared with.
    pub(super) fn backlog(&self) -> Waiting {
        self.waiting().and(self.held_back)
    }

    pub(super) fn memory(&self) -> usize {
        self.packets.capacity() * size_of::<Held>()
    }
}
