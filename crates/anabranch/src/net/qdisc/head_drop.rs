//! Head drop: first in, first out; when the queue is full, the packet that has waited longest makes room.
//!
//! Linux has it as `pfifo_head_drop`. A sender hears of the loss a whole queue earlier than with `drop_tail`
//! (Lakshman, Neidhardt and Ott, "The drop from front strategy in TCP and in TCP over ATM", 1996).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in};
use crate::net::packets::Held;

/// First in, first out; when the queue is full, the first packet is dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeadDropConfig {
    /// Most packets that wait, not counting the one in service; at least 1. Default: 50.
    pub packets: u32,
}

impl Default for HeadDropConfig {
    fn default() -> Self {
        Self { packets: 50 }
    }
}

impl HeadDropConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<HeadDrop, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        Ok(HeadDrop { packets: self.packets.into(), queue: Fifo::default() })
    }
}

/// A queue that drops its head.
#[derive(Clone, Debug)]
pub(crate) struct HeadDrop {
    packets: u64,
    queue: Fifo,
}

impl QueueDisc for HeadDrop {
    fn enqueue(&mut self, _: u64, packet: Held, drops: &mut Drops) {
        if self.queue.backlog().packets == self.packets {
            let Some(oldest) = self.queue.pop_oldest() else { return drops.overflow(packet) };
            drops.overflow(oldest);
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, _: u64, _: &mut Drops) -> Option<Held> {
        self.queue.pop_oldest()
    }

    kept_in!(queue);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let mut queue = HeadDropConfig { packets: 2 }.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..4 {
            queue.enqueue(0, packet(slot, 0, 0), &mut drops);
        }
        let dropped: Vec<u32> = drops.0.iter().map(|(packet, _)| packet.slot).collect();
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(1, &mut drops)).map(|p| p.slot).collect();
        assert_eq!((dropped, sent), (vec![0, 1], vec![2, 3]));
    }
}
