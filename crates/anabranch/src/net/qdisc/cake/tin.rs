//! A tin: queues that a set-associative hash assigns flows to, and their turns.

use std::collections::VecDeque;

use anabranch_transport::rng::{BlockRng, Draw as _, Rng};

use super::super::cobalt::{Control, Settings};
use super::super::fifo::Fifo;
use super::super::interface::Drops;
use super::super::lanes::Lane;
use super::{CakeIsolation, MTU, Share};
use crate::net::capacity::UNITS_PER_BYTE;
use crate::net::packets::{Held, Waiting};

/// `CAKE_QUEUES` and `CAKE_SET_WAYS`.
pub(super) const QUEUES: usize = 1024;
pub(super) const WAYS: usize = 8;

/// Deficits are in units of 2^-16 B, so that a host's flows share a quantum to the byte.
pub(super) const SCALE: i64 = 1 << 16;

/// How packets are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    pub(super) isolation: CakeIsolation,
    /// The perturbation of the hash.
    pub(super) hash_key: u64,
}

/// Queues that take turns.
#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub(super) name: &'static str,
    pub(super) quantum: i64,
    pub(super) settings: Settings,
    /// Up to which rate it goes first, in bit/s; [`None`] without a shaper.
    rate: Option<u64>,
    /// With a shaper: until when it has used what it may, in nanoseconds.
    pub(super) next: u64,
    /// Without one: what its turn has in bytes, and what is left of it.
    turn: i64,
    pub(super) deficit: i64,
    /// Its queues; none before the first packet.
    pub(super) flows: Vec<Flow>,
    /// Queues in the order of their turns: new ones, those with a turn, and empty ones whose COBALT is not at
    /// rest.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    pub(super) decaying: VecDeque<u16>,
    /// The number of queues with turns that are not decaying.
    active: u32,
    /// For each sending and each receiving host, the number of its queues in [`Set::Bulk`].
    pub(super) bulk_flows: Box<[[u16; 256]; 2]>,
    pub(super) waiting: Waiting,
    pub(super) lane: Lane,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) queue: Fifo,
    control: Control,
    /// The rest of what it may send in its turn, in units of 2^-16 B.
    deficit: i64,
    pub(super) set: Set,
    /// The hash of the flow that the queue is reserved for, and that flow's hosts.
    pub(super) tag: u32,
    hosts: [u8; 2],
}

/// The set of queues whose turns it takes part in (`CAKE_SET_...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    Bulk,
    Decaying,
    #[default]
    None,
    Sparse,
    /// Empty: it has used its turn as a sparse flow and waits for the next one.
    SparseWait,
}

impl Set {
    const fn is_active(self) -> bool {
        matches!(self, Self::Bulk | Self::Sparse | Self::SparseWait)
    }
}

impl Classes {
    /// The hash of the fields for which packets have separate queues.
    pub(super) fn tag(&self, packet: &Held) -> u32 {
        let [from, to] = packet.hosts.map(u64::from);
        let value = match self.isolation {
            CakeIsolation::Dsthost => to,
            CakeIsolation::Flowblind => 0,
            CakeIsolation::Hosts => from << 8 | to,
            CakeIsolation::Srchost => from,
            _ => packet.flow.into(),
        };
        BlockRng::new(self.hash_key, value).bits() as u32
    }

    /// Whether the sending and the receiving host have a share for all their flows together.
    fn shares_by_host(&self) -> [bool; 2] {
        match self.isolation {
            CakeIsolation::DualSrchost => [true, false],
            CakeIsolation::DualDsthost => [false, true],
            CakeIsolation::TripleIsolate => [true; 2],
            _ => [false; 2],
        }
    }
}

impl Tin {
    /// A tin with this share of the bandwidth, for round trips of this many nanoseconds (`cake_set_rate`).
    pub(super) fn new(share: Share, rtt: u64) -> Self {
        // The least rate of Linux is 64 B/s.
        let rate = share.rate.map(|rate| rate.max(512));
        let quantum = rate.map_or(MTU, |rate| (rate / 8 / 4096).clamp(300, MTU));
        let mtu_time = rate.map_or(0, |rate| MTU * UNITS_PER_BYTE / rate);
        let least_target = rtt / 20;
        let target = least_target.max(mtu_time * 3 / 2);
        let interval = (rtt + target - least_target).max(2 * target);
        Self {
            name: share.name,
            quantum: quantum as i64 * SCALE,
            settings: Settings { target, interval, mtu_time, ecn: true },
            rate,
            next: 0,
            turn: share.quantum,
            deficit: 0,
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            active: 0,
            bulk_flows: Box::new([[0; 256]; 2]),
            waiting: Waiting::default(),
            lane: Lane::default(),
        }
    }

    /// Whether there are queues with turns that are not decaying.
    pub(super) fn is_active(&self) -> bool {
        self.active > 0
    }

    /// Begins another turn of the tin if it has used the last one.
    pub(super) fn end_turn(&mut self) {
        if self.deficit <= 0 {
            self.deficit += self.turn;
        }
    }

    /// A packet leaves (`cake_advance_shaper`).
    pub(super) fn advance(&mut self, now: u64, size: u32) {
        self.deficit -= i64::from(size);
        let Some(rate) = self.rate else { return };
        let duration = u64::from(size) * UNITS_PER_BYTE / rate;
        self.next = if self.next < now { self.next + duration } else { self.next.max(now + duration) };
    }

    /// The queue for a packet: its own if there is one in its set, otherwise a free one of the set, otherwise
    /// the one that the hash names (`cake_hash`).
    pub(super) fn classify(&mut self, classes: Classes, packet: &Held) -> u16 {
        if self.flows.is_empty() {
            self.flows = vec![Flow::default(); QUEUES];
        }
        let tag = classes.tag(packet);
        let direct = tag as usize % QUEUES;
        let set = direct - direct % WAYS;
        let ways = (0..WAYS).map(|way| set + (direct + way) % WAYS);
        let flows = &self.flows;
        let index = ways
            .clone()
            .find(|&way| flows[way].tag == tag)
            .or_else(|| ways.clone().find(|&way| flows[way].set == Set::None))
            .unwrap_or(direct);
        let Flow { tag: old_tag, set, hosts, .. } = self.flows[index];
        if set == Set::None || old_tag != tag {
            if set == Set::Bulk {
                self.count_bulk(hosts, false);
                self.count_bulk(packet.hosts, true);
            }
            (self.flows[index].tag, self.flows[index].hosts) = (tag, packet.hosts);
        }
        index as u16
    }

    /// Counts a queue of these hosts that joins or leaves the bulk flows.
    fn count_bulk(&mut self, hosts: [u8; 2], comes: bool) {
        for (counts, host) in self.bulk_flows.iter_mut().zip(hosts) {
            let count = &mut counts[usize::from(host)];
            *count = if comes { *count + 1 } else { *count - 1 };
        }
    }

    /// Moves a queue into another set of queues.
    fn set(&mut self, index: u16, set: Set) {
        let Flow { set: old, hosts, .. } = self.flows[usize::from(index)];
        if (old == Set::Bulk) != (set == Set::Bulk) {
            self.count_bulk(hosts, set == Set::Bulk);
        }
        self.active = self.active + u32::from(set.is_active()) - u32::from(old.is_active());
        self.flows[usize::from(index)].set = set;
    }

    /// The quantum of a queue: that of its busiest host, shared among the bulk flows of that host.
    fn share(&self, classes: Classes, index: u16) -> i64 {
        let counts = self.bulk_flows.iter().zip(self.flows[usize::from(index)].hosts);
        let loads = counts.zip(classes.shares_by_host());
        let load =
            loads.map(|((counts, host), shares)| if shares { counts[usize::from(host)] } else { 1 }).max();
        self.quantum / i64::from(load.unwrap_or(1).max(1))
    }

    /// Puts a packet into its queue (`cake_enqueue`).
    pub(super) fn push(&mut self, classes: Classes, packet: Held) {
        let index = self.classify(classes, &packet);
        self.flows[usize::from(index)].queue.push(packet);
        self.lane.enters();
        self.waiting.packets += 1;
        self.waiting.bytes += u64::from(packet.size);
        match self.flows[usize::from(index)].set {
            Set::None | Set::Decaying => {
                self.decaying.retain(|&other| other != index);
                self.new.push_back(index);
                self.set(index, Set::Sparse);
                self.flows[usize::from(index)].deficit = self.share(classes, index);
            }
            Set::SparseWait => self.set(index, Set::Bulk),
            Set::Bulk | Set::Sparse => {}
        }
    }

    /// The queue with the most bytes, and these.
    pub(super) fn fattest(&self) -> Option<(usize, u64)> {
        let flows = self.flows.iter().enumerate().rev();
        flows.map(|(index, flow)| (index, flow.queue.bytes())).max_by_key(|(_, bytes)| *bytes)
    }

    /// Drops the oldest packet of a queue (`cake_drop`).
    pub(super) fn drop_from(&mut self, index: usize, now: u64, drops: &mut Drops) {
        let flow = &mut self.flows[index];
        flow.control.queue_full(now, &self.settings);
        if let Some(packet) = flow.queue.pop_oldest() {
            self.waiting.packets -= 1;
            self.waiting.bytes -= u64::from(packet.size);
            drops.overflow(packet);
        }
    }

    /// The next packet of the queue that has its turn; [`None`] if that is empty. The first call at a
    /// departure looks at the queues that decay before others.
    pub(super) fn next_packet(
        &mut self,
        classes: Classes,
        now: u64,
        is_first: &mut bool,
        rng: &mut Rng,
        drops: &mut Drops,
    ) -> Option<Held> {
        loop {
            let list = if (*is_first && !self.decaying.is_empty()) || self.new.len() + self.old.len() == 0 {
                &mut self.decaying
            } else if self.new.is_empty() {
                &mut self.old
            } else {
                &mut self.new
            };
            *is_first = false;
            let index = *list.front()?;
            let flow = &self.flows[usize::from(index)];
            if flow.deficit <= 0 {
                list.pop_front();
                self.old.push_back(index);
                if flow.set == Set::Sparse {
                    let is_empty = flow.queue.len() == 0;
                    self.set(index, if is_empty { Set::SparseWait } else { Set::Bulk });
                }
                self.flows[usize::from(index)].deficit += self.share(classes, index);
                continue;
            }
            if flow.queue.len() == 0 {
                list.pop_front();
            }
            if let Some(packet) = self.next_of(index, now, rng, drops) {
                self.flows[usize::from(index)].deficit -= i64::from(packet.size) * SCALE;
                self.lane.leaves(now, &packet);
                return Some(packet);
            }
            // The queue stays among the turns until its state has come to rest.
            if self.flows[usize::from(index)].control.is_at_rest(now) {
                self.set(index, Set::None);
            } else {
                self.set(index, Set::Decaying);
                self.decaying.push_back(index);
            }
            return None;
        }
    }

    /// The next packet of a queue, by COBALT.
    fn next_of(&mut self, index: u16, now: u64, rng: &mut Rng, drops: &mut Drops) -> Option<Held> {
        let Flow { queue, control, .. } = &mut self.flows[usize::from(index)];
        let before = queue.waiting();
        let packet = control.dequeue(now, &self.settings, queue, rng, drops);
        let after = queue.waiting();
        self.waiting.packets -= before.packets - after.packets;
        self.waiting.bytes -= before.bytes - after.bytes;
        packet
    }

    /// Takes out all packets.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Held> + '_ {
        self.waiting = Waiting::default();
        self.flows.iter_mut().flat_map(|flow| std::iter::from_fn(|| flow.queue.pop_oldest()))
    }

    pub(super) fn memory(&self) -> usize {
        let queues: usize = self.flows.iter().map(|flow| flow.queue.memory()).sum();
        let lists = self.flows.capacity() * size_of::<Flow>() + size_of_val(&*self.bulk_flows);
        queues + lists + self.lane.memory() + size_of::<Self>()
    }
}
