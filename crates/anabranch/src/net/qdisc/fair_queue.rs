//! Fair queueing by deficit round robin (RFC 8290 sections 4.1 and 4.2), with any control of a flow's queue.
//!
//! A flow's packets go to the queue that a hash of the flow chooses, so two flows may share one. A flow is
//! what a transport sends on one path in one direction. Queues that were empty are served first, for a
//! quantum; then they take turns with the others. When too many packets wait, the queue with the most bytes
//! loses its oldest ones: up to `drop_batch` of them, up to half of its bytes (Linux, `fq_codel_drop`).
//! Deviation: there is no limit of memory, where Linux has one of 32 MB.

use std::collections::VecDeque;

use anabranch_transport::rng::{BlockRng, Draw as _};
use anabranch_transport::units::Bytes;

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_quantum, check_range};
use crate::net::packets::{Held, Waiting};

/// The rule that decides about the packets of one flow's queue.
pub(crate) trait FlowControl: Clone {
    /// The control of the queue with this number, in its initial state.
    fn for_queue(&self, _number: u32) -> Self {
        self.clone()
    }

    /// Whether to keep a packet that arrives, with this much waiting in all queues or held back; if not, it
    /// is added to `drops`.
    fn admits(
        &mut self,
        _now: u64,
        _packet: &mut Held,
        _queue: &Fifo,
        _waiting: Waiting,
        _drops: &mut Drops,
    ) -> bool {
        true
    }

    /// The next packet to send. `others` bytes wait in the other flows' queues.
    fn dequeue(&mut self, now: u64, queue: &mut Fifo, others: u64, drops: &mut Drops) -> Option<Held>;
}

/// The settings that all fair queues have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    pub(super) packets: u32,
    pub(super) flows: u32,
    pub(super) quantum: Bytes,
    pub(super) drop_batch: u32,
}

impl Sharing {
    /// RFC 8290 section 5.2; a quantum is one packet of Ethernet's MTU, which Linux counts with its header,
    /// 1514 B.
    pub(super) const DEFAULT: Self =
        Self { packets: 10_240, flows: 1024, quantum: Bytes(1500), drop_batch: 64 };

    /// The fair queue in its first state, with this control for each of its flows.
    pub(super) fn build<C: FlowControl>(self, place: Place<'_>, control: C) -> Result<FairQueue<C>, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        check_range(place, "flows", self.flows.into(), 1, 65_536)?;
        check_range(place, "drop_batch", self.drop_batch.into(), 1, u32::MAX.into())?;
        check_quantum(place, self.quantum)?;
        Ok(FairQueue {
            sharing: self,
            hash_key: place.streams.key(place.component),
            control,
            numbers: vec![NONE; self.flows as usize],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            waiting: Waiting::default(),
            held_back: Waiting::default(),
        })
    }
}

/// A hash value without a queue.
const NONE: u32 = u32::MAX;

/// Queues that take turns.
#[derive(Clone, Debug)]
pub(crate) struct FairQueue<C> {
    sharing: Sharing,
    /// The perturbation of the hash.
    hash_key: u64,
    /// The queue management that a new flow begins with.
    control: C,
    /// The number of the queue for each hash value.
    numbers: Vec<u32>,
    flows: Vec<Flow<C>>,
    /// Queues in the order of their turns: those that were empty, then the others.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    waiting: Waiting,
    /// What a shaper above has taken out and still holds; no flow counts it.
    held_back: Waiting,
}

#[derive(Clone, Debug)]
struct Flow<C> {
    queue: Fifo,
    control: C,
    /// Bytes that the queue may still send in its turn.
    deficit: i64,
    has_turn: bool,
}

impl<C: FlowControl> FairQueue<C> {
    /// The number of the queue for a flow (RFC 8290 section 4.1.1).
    fn classify(&mut self, flow: u32) -> u32 {
        let hash = BlockRng::new(self.hash_key, flow.into()).below(self.sharing.flows.into());
        let number = &mut self.numbers[hash as usize];
        if *number == NONE {
            *number = self.flows.len() as u32;
            let (queue, control) = (Fifo::default(), self.control.for_queue(*number));
            self.flows.push(Flow { queue, control, deficit: 0, has_turn: false });
        }
        *number
    }

    /// The control of a new queue.
    #[cfg(test)]
    pub(super) fn control(&self) -> &C {
        &self.control
    }

    /// Drops packets of the fattest queue (RFC 8290 section 4.1.3).
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        let bytes = |flow: &Flow<C>| flow.queue.bytes();
        // Of several, it is the first one, as in Linux.
        let Some(fattest) = self.flows.iter_mut().rev().max_by_key(|flow| bytes(flow)) else { return };
        let enough = bytes(fattest).div_ceil(2);
        let mut dropped = 0;
        for _ in 0..self.sharing.drop_batch {
            let Some(packet) = fattest.queue.pop_oldest() else { break };
            self.waiting.packets -= 1;
            self.waiting.bytes -= u64::from(packet.size);
            dropped += u64::from(packet.size);
            drops.overflow(packet);
            if dropped >= enough {
                break;
            }
        }
    }
}

impl<C: FlowControl> QueueDisc for FairQueue<C> {
    fn enqueue(&mut self, now: u64, mut packet: Held, drops: &mut Drops) {
        let number = self.classify(packet.flow);
        let flow = &mut self.flows[number as usize];
        let backlog = self.waiting.and(self.held_back);
        if !flow.control.admits(now, &mut packet, &flow.queue, backlog, drops) {
            return;
        }
        self.waiting.packets += 1;
        self.waiting.bytes += u64::from(packet.size);
        flow.queue.push(packet);
        if !flow.has_turn {
            flow.has_turn = true;
            flow.deficit = self.sharing.quantum.0 as i64;
            self.new.push_back(number);
        }
        if backlog.packets >= self.sharing.packets.into() {
            self.drop_from_fattest(drops);
        }
    }

    /// RFC 8290 section 4.2.
    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = &mut self.flows[number as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.sharing.quantum.0 as i64;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = flow.queue.waiting();
            let others = self.waiting.bytes - before.bytes;
            let packet = flow.control.dequeue(now, &mut flow.queue, others, drops);
            let after = flow.queue.waiting();
            self.waiting.packets -= before.packets - after.packets;
            self.waiting.bytes -= before.bytes - after.bytes;
            if let Some(packet) = packet {
                flow.deficit -= i64::from(packet.size);
                return Some(packet);
            }
            list.pop_front();
            // A new queue that is empty takes a turn among the old ones, since it could starve them
            // otherwise.
            if is_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                flow.has_turn = false;
            }
        }
    }

    fn hold_back(&mut self, _: u64, held_back: Waiting) {
        self.held_back = held_back;
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }

    fn memory(&self) -> usize {
        let queues: usize = self.flows.iter().map(|flow| flow.queue.memory()).sum();
        queues + self.flows.capacity() * size_of::<Flow<C>>() + self.numbers.len() * size_of::<u32>()
    }
}
