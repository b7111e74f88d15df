//! Stochastic fairness queueing (McKenney, INFOCOM 1990) as Linux has it (`sch_sfq.c`).
//!
//! A hash of the flow chooses one of `buckets` queues, of which `flows` at most are not empty. They take
//! turns, and send as long as their allotment is above 0, so that what a packet takes too much counts in the
//! next turn. A new queue takes its turn last. When too many packets wait, the longest queue loses its
//! newest; none has more than `depth`. With a `perturb` time, the hash changes at its multiples and all
//! packets are assigned anew. Defaults are Linux's. Deviations: allotments are exact, where Linux counts in 8
//! B; a quantum has no link-layer header, 1500 B instead of 1514 B; the hash changes only when asked to; no
//! RED within a queue.

use anabranch_transport::rng::{BlockRng, Draw as _};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drr::Turns;
use super::interface::{Drops, Place, QueueDisc, check_quantum, check_range, kept_in};
use crate::net::packets::Held;

/// Stochastic fairness queueing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SfqConfig {
    /// Most packets that wait in all queues together, at least 1. Default: 127.
    pub packets: u32,
    /// Most packets that wait in one queue, at least 1. Default: 127.
    pub depth: u32,
    /// Most queues that are not empty, at least 1; a packet for one more is dropped. Default: 128.
    pub flows: u32,
    /// Number of hash values, up to 65536. Default: 1024.
    pub buckets: u32,
    /// Bytes that a queue may send in a turn, up to 1 MB. Default: 1500 B.
    pub quantum: Bytes,
    /// Whether a full queue loses its oldest packet instead of its newest. Default: false.
    pub head_drop: bool,
    /// Time from one change of the hash to the next; 0 s for none. Default: 0 s.
    pub perturb: Duration,
}

impl Default for SfqConfig {
    fn default() -> Self {
        Self {
            packets: 127,
            depth: 127,
            flows: 128,
            buckets: 1024,
            quantum: Bytes(1500),
            head_drop: false,
            perturb: Duration::ZERO,
        }
    }
}

impl SfqConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Sfq, String> {
        for (name, value) in [("packets", self.packets), ("depth", self.depth), ("flows", self.flows)] {
            check_range(place, name, value.into(), 1, u32::MAX.into())?;
        }
        check_range(place, "buckets", self.buckets.into(), 1, 65_536)?;
        check_quantum(place, self.quantum)?;
        let key = place.streams.key(place.component);
        Ok(Sfq { config: self.clone(), key, epoch: 0, turns: Turns::new(key, self.buckets) })
    }
}

/// Queues that take turns.
#[derive(Clone, Debug)]
pub(crate) struct Sfq {
    config: SfqConfig,
    key: u64,
    /// How often the hash has changed.
    epoch: u64,
    turns: Turns,
}

impl Sfq {
    /// Changes the hash if it is time: packets are assigned anew, in the order of their queues, and those for
    /// which a queue has no room are dropped (`sfq_rehash`).
    fn perturb(&mut self, now: u64, drops: &mut Drops) {
        let Some(epoch) = now.checked_div(self.config.perturb.as_nanos()) else { return };
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.turns.hash_key = BlockRng::new(self.key, epoch).bits();
        for packet in self.turns.take_all() {
            let number = self.turns.number(packet.flow);
            if self.is_open(number) && self.turns.queue(number).packets.len() < self.config.depth.into() {
                self.turns.push(number, packet, self.quantum());
            } else {
                drops.overflow(packet);
            }
        }
    }

    /// Whether a queue is in use, or can be opened.
    fn is_open(&mut self, number: u32) -> bool {
        self.turns.queue(number).packets.len() > 0 || self.turns.active() < self.config.flows as usize
    }

    fn quantum(&self) -> i64 {
        self.config.quantum.0 as i64
    }
}

impl QueueDisc for Sfq {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        self.perturb(now, drops);
        let number = self.turns.number(packet.flow);
        if !self.is_open(number) {
            return drops.overflow(packet);
        }
        if self.turns.queue(number).packets.len() >= self.config.depth.into() {
            if !self.config.head_drop {
                return drops.overflow(packet);
            }
            // The queue's turn does not change, so the new packet is added first.
            self.turns.push(number, packet, self.quantum());
            if let Some(oldest) = self.turns.pop(number, false) {
                drops.overflow(oldest);
            }
            return;
        }
        self.turns.push(number, packet, self.quantum());
        if self.turns.backlog().packets > self.config.packets.into() {
            // If all queues have one packet, the queue whose turn is next loses it (`sfq_drop`).
            let are_short = self.turns.waiting().packets == self.turns.active() as u64;
            let preferred = self.turns.next().filter(|_| are_short).unwrap_or(number);
            self.turns
                .steal(preferred, self.config.head_drop)
                .into_iter()
                .for_each(|packet| drops.overflow(packet));
        }
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        self.perturb(now, drops);
        loop {
            let number = self.turns.next()?;
            let quantum = self.quantum();
            let queue = self.turns.queue(number);
            if queue.deficit > 0 {
                let packet = self.turns.pop(number, false)?;
                self.turns.queue(number).deficit -= i64::from(packet.size);
                return Some(packet);
            }
            queue.deficit += quantum;
            self.turns.end_turn();
        }
    }

    kept_in!(turns);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    fn order(config: &SfqConfig, packets: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, &(flow, size)) in packets.iter().enumerate() {
            queue.enqueue(0, Held { size, ..packet(slot as u32, 0, flow) }, &mut drops);
        }
        let sent = std::iter::from_fn(|| queue.dequeue(1, &mut drops)).map(|packet| packet.slot).collect();
        (sent, drops.0.iter().map(|(packet, _)| packet.slot).collect())
    }

    /// A turn goes on while the allotment is above 0: two packets of 1000 B leave. The excess of 500 B leaves
    /// 1000 B for the next turn, which is one packet.
    #[test]
    fn a_turn_may_take_too_much_and_pays_for_it() {
        let packets: Vec<_> = (0..5).map(|_| (1, 1000)).chain((0..5).map(|_| (2, 1000))).collect();
        let (sent, _) = order(&SfqConfig::default(), &packets);
        assert_eq!(sent, [0, 1, 5, 6, 2, 7, 3, 4, 8, 9]);
    }

    #[test]
    fn limits_of_packets_depth_and_flows() {
        let config = SfqConfig { depth: 2, ..Default::default() };
        assert_eq!(order(&config, &[(1, 100); 3]).1, [2]);
        assert_eq!(order(&SfqConfig { head_drop: true, ..config }, &[(1, 100); 3]).1, [0]);
        let config = SfqConfig { packets: 2, ..Default::default() };
        // The longest queue loses its newest packet, although another flow's packet has come.
        assert_eq!(order(&config, &[(1, 100), (1, 100), (2, 100)]).1, [1]);
        assert_eq!(order(&SfqConfig { head_drop: true, ..config }, &[(1, 100), (1, 100), (2, 100)]).1, [0]);
        // All queues have one packet, so the next one to be sent makes room.
        assert_eq!(order(&config, &[(1, 100), (2, 100), (3, 100), (4, 100)]).1, [0, 1]);
        let config = SfqConfig { flows: 1, ..Default::default() };
        assert_eq!(order(&config, &[(1, 100), (2, 100), (1, 100)]).1, [1]);
    }

    /// Another hash separates two flows that had the same hash value, and their packets stay in order.
    #[test]
    fn the_hash_changes_at_its_times() {
        let config = SfqConfig { buckets: 2, perturb: Duration::from_secs(1), ..Default::default() };
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        let mut together = Vec::new();
        for second in 0..40 {
            let now = second * 1_000_000_000;
            for (slot, flow) in [1, 1, 2, 2].into_iter().enumerate() {
                queue.enqueue(now, packet(slot as u32, now, flow), &mut drops);
            }
            let sent: Vec<u32> =
                std::iter::from_fn(|| queue.dequeue(now, &mut drops)).map(|packet| packet.slot).collect();
            assert!(sent == [0, 1, 2, 3] || sent == [0, 2, 1, 3], "{sent:?}");
            together.push(sent[1] == 1);
        }
        let count = together.iter().filter(|&&is| is).count();
        assert!((8..=32).contains(&count), "{count}");
        assert!(drops.0.is_empty());
        // Packets that wait at a change are sent in order by the new hash.
        for slot in 0..9 {
            queue.enqueue(40_900_000_000, packet(slot, 0, 7), &mut drops);
        }
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(41_000_000_000, &mut drops))
            .map(|packet| packet.slot)
            .collect();
        assert_eq!(sent, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
