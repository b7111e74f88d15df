//! Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", IEEE/ACM
//! Transactions on Networking 4(3), 1996).
//!
//! A flow's packets go to the queue that a hash of the flow chooses. Queues take turns: a turn adds the
//! quantum to the queue's deficit, and it sends packets as long as they fit into that; what is left counts in
//! the next turn, and is lost when the queue is empty. When too many packets wait, the longest queue loses
//! its newest (buffer stealing, McKenney, "Stochastic Fairness Queueing", INFOCOM 1990). No active queue
//! management.

use std::collections::VecDeque;

use anabranch_transport::rng::{BlockRng, Draw as _};
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_quantum, check_range, kept_in};
use crate::net::packets::{Held, Waiting};

/// Deficit round robin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrrConfig {
    /// Most packets that wait in all queues together, at least 1. Default: 10240.
    pub packets: u32,
    /// Number of queues, up to 65536; a hash assigns flows to them. Default: 1024.
    pub flows: u32,
    /// How many bytes more a queue may send in each turn, up to 1 MB. Default: 1500 B.
    pub quantum: Bytes,
}

impl Default for DrrConfig {
    fn default() -> Self {
        Self { packets: 10_240, flows: 1024, quantum: Bytes(1500) }
    }
}

impl DrrConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Drr, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        check_range(place, "flows", self.flows.into(), 1, 65_536)?;
        check_quantum(place, self.quantum)?;
        Ok(Drr {
            packets: self.packets.into(),
            quantum: self.quantum.0 as i64,
            turns: Turns::new(place.streams.key(place.component), self.flows),
        })
    }
}

/// Queues that take turns by their deficits.
#[derive(Clone, Debug)]
pub(crate) struct Drr {
    packets: u64,
    quantum: i64,
    turns: Turns,
}

impl QueueDisc for Drr {
    fn enqueue(&mut self, _: u64, packet: Held, drops: &mut Drops) {
        let number = self.turns.number(packet.flow);
        self.turns.push(number, packet, self.quantum);
        if self.turns.backlog().packets > self.packets
            && let Some(packet) = self.turns.steal(number, false)
        {
            drops.overflow(packet);
        }
    }

    /// Section III of the paper, with the quantum added at the end of a turn for the next one, and at the
    /// beginning for the first.
    fn dequeue(&mut self, _: u64, _: &mut Drops) -> Option<Held> {
        loop {
            let number = self.turns.next()?;
            let queue = self.turns.queue(number);
            let size = queue.packets.oldest().map_or(0, |packet| i64::from(packet.size));
            if size <= queue.deficit {
                queue.deficit -= size;
                return self.turns.pop(number, false);
            }
            queue.deficit += self.quantum;
            self.turns.end_turn();
        }
    }

    kept_in!(turns);
}

/// Queues that a hash assigns flows to, and the order in which those that are not empty take turns.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// The perturbation of the hash.
    pub(super) hash_key: u64,
    /// The number of the queue for each hash value.
    numbers: Vec<u32>,
    queues: Vec<Queue>,
    order: VecDeque<u32>,
    waiting: Waiting,
    held_back: Waiting,
}

/// The queue of one hash value.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) packets: Fifo,
    /// Bytes that it may still send.
    pub(super) deficit: i64,
}

/// A hash value without a queue.
const NONE: u32 = u32::MAX;

impl Turns {
    pub(super) fn new(hash_key: u64, flows: u32) -> Self {
        Self {
            hash_key,
            numbers: vec![NONE; flows as usize],
            queues: Vec::new(),
            order: VecDeque::new(),
            waiting: Waiting::default(),
            held_back: Waiting::default(),
        }
    }

    /// What waits in all queues.
    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// See `QueueDisc::hold_back`.
    pub(super) fn hold_back(&mut self, held_back: Waiting) {
        self.held_back = held_back;
    }

    /// What waits in all queues and what is held back.
    pub(super) fn backlog(&self) -> Waiting {
        self.waiting.and(self.held_back)
    }

    /// The number of the queue for a flow.
    pub(super) fn number(&mut self, flow: u32) -> u32 {
        let hash = BlockRng::new(self.hash_key, flow.into()).below(self.numbers.len() as u64);
        let number = &mut self.numbers[hash as usize];
        if *number == NONE {
            *number = self.queues.len() as u32;
            self.queues.push(Queue::default());
        }
        *number
    }

    pub(super) fn queue(&mut self, number: u32) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    /// The number of queues that are not empty.
    pub(super) fn active(&self) -> usize {
        self.order.len()
    }

    /// The queue whose turn it is.
    pub(super) fn next(&self) -> Option<u32> {
        self.order.front().copied()
    }

    /// Ends the turn of a queue; the next one follows.
    pub(super) fn end_turn(&mut self) {
        self.order.rotate_left(1);
    }

    /// Adds a packet; a queue that was empty takes its turn last, with this deficit.
    pub(super) fn push(&mut self, number: u32, packet: Held, deficit: i64) {
        let queue = &mut self.queues[number as usize];
        if queue.packets.len() == 0 {
            queue.deficit = deficit;
            self.order.push_back(number);
        }
        queue.packets.push(packet);
        self.waiting.packets += 1;
        self.waiting.bytes += u64::from(packet.size);
    }

    /// Takes the newest packet of a queue, or its oldest; an empty queue no longer takes turns.
    pub(super) fn pop(&mut self, number: u32, newest: bool) -> Option<Held> {
        let Queue { packets, .. } = &mut self.queues[number as usize];
        let packet = if newest { packets.pop_newest() } else { packets.pop_oldest() }?;
        self.waiting.packets -= 1;
        self.waiting.bytes -= u64::from(packet.size);
        if packets.len() == 0 {
            self.order.retain(|&other| other != number);
        }
        Some(packet)
    }

    /// Takes the newest packet of the longest queue, or its oldest: of several such queues, it is the one to
    /// which a packet has just come, or else the first.
    pub(super) fn steal(&mut self, came_to: u32, oldest: bool) -> Option<Held> {
        let length = |number: u32| self.queues[number as usize].packets.len();
        let longest = self.order.iter().copied().map(|number| (length(number), number == came_to, number));
        let (_, _, number) = longest.rev().max_by_key(|&(length, is_it, _)| (length, is_it))?;
        self.pop(number, !oldest)
    }

    /// Takes everything that waits, queue by queue; no queue has a turn after that.
    pub(super) fn take_all(&mut self) -> Vec<Held> {
        self.order.clear();
        self.waiting = Waiting::default();
        self.queues
            .iter_mut()
            .flat_map(|queue| std::iter::from_fn(|| queue.packets.pop_oldest()).collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn memory(&self) -> usize {
        let packets: usize = self.queues.iter().map(|queue| queue.packets.memory()).sum();
        packets + self.queues.capacity() * size_of::<Queue>() + self.numbers.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    fn order(config: &DrrConfig, packets: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, &(flow, size)) in packets.iter().enumerate() {
            queue.enqueue(0, Held { size, ..packet(slot as u32, 0, flow) }, &mut drops);
        }
        let sent = std::iter::from_fn(|| queue.dequeue(1, &mut drops)).map(|packet| packet.slot).collect();
        (sent, drops.0.iter().map(|(packet, _)| packet.slot).collect())
    }

    /// The example of the paper's figures 2 and 3: a quantum of 500; queues of 200, 750, 20; 500, 500; 200,
    /// 600, 100; 50, 700, 180. The first turn sends 200 and leaves 300; in the second 750 fit into 800.
    #[test]
    fn what_a_turn_leaves_counts_in_the_next() {
        let config = DrrConfig { quantum: Bytes(500), ..Default::default() };
        let queues = [
            (1, 200),
            (1, 750),
            (1, 20),
            (2, 500),
            (2, 500),
            (3, 200),
            (3, 600),
            (3, 100),
            (4, 50),
            (4, 700),
            (4, 180),
        ];
        let (sent, drops) = order(&config, &queues);
        assert_eq!(sent, [0, 3, 5, 8, 1, 2, 4, 6, 7, 9, 10]);
        assert!(drops.is_empty());
    }

    /// A flow of small packets gets as many bytes as one of large packets, and a flow that was away does not
    /// save anything up.
    #[test]
    fn shares_are_in_bytes() {
        let mut queue = DrrConfig::default().build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..1000 {
            queue.enqueue(0, packet(slot, 0, 1), &mut drops);
            queue.enqueue(0, Held { size: 100, ..packet(slot, 0, 2) }, &mut drops);
        }
        let mut bytes = [0_u32; 3];
        for _ in 0..800 {
            let packet = queue.dequeue(1, &mut drops).unwrap();
            bytes[packet.flow as usize] += packet.size;
        }
        assert!(bytes[1].abs_diff(bytes[2]) <= 1500, "{bytes:?}");
    }

    #[test]
    fn the_longest_queue_loses_its_newest() {
        let config = DrrConfig { packets: 3, ..Default::default() };
        let (sent, drops) = order(&config, &[(1, 100), (1, 100), (1, 100), (2, 100), (2, 100)]);
        // The fourth packet finds three of flow 1. The fifth makes the queues equal, and is lost itself.
        assert_eq!((sent, drops), (vec![0, 1, 3], vec![2, 4]));
    }
}
