//! CAKE (Hoiland-Jorgensen, Taht and Morton, "Piece of CAKE", LANMAN 2018; Linux's `sch_cake.c`).
//!
//! A shaper that needs no burst; 1024 queues that a set-associative hash assigns to flows, so that flows
//! share one only when its eight neighbours are taken; turns by deficit round robin, with a quantum that the
//! flows of a busy host share; COBALT for each queue; and when the bytes that wait are too many, the fattest
//! queue loses its oldest packet. Target and interval follow from `rtt` and grow where the bandwidth makes a
//! packet last long (`cake_set_rate`). Marks are always made.
//!
//! Deviations: all packets are of one tin, `besteffort`, as they have no DSCP; no overhead compensation, no
//! ACK filter, no `ingress` mode and so no failsafe of the shaper; limits are in bytes on the wire, not of
//! memory; sizes have no link-layer header (1500 B for Linux's 1514 B); fractions of a deficit are kept, not
//! dithered. A host is a node of the scenario.

use std::collections::VecDeque;

use anabranch_transport::rng::{BlockRng, Draw as _, Rng};
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cobalt::{Control, Settings};
use super::codel::check_interval;
use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc};
use crate::net::capacity::UNITS_PER_BYTE;
use crate::net::packets::{Held, Waiting};

/// CAKE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CakeConfig {
    /// The rate of the shaper, at least 512 bit/s, which should be below that of the link. Default: no
    /// shaper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// The expected round-trip time, up to 1000 s, which is CoDel's interval and 20 times its target.
    /// Default: 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// What gets a queue and a share of its own. Default: `triple_isolate`.
    pub isolation: CakeIsolation,
    /// Most bytes that wait, from 1500 B to 1 GB. Default: 15.36 MB, or with a bandwidth what that sends in 4
    /// x `rtt`, from 4 MiB to 15.36 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

/// What gets a queue and a share of its own in CAKE, in the words of tc-cake(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CakeIsolation {
    /// A queue per receiving host.
    Dsthost,
    /// A queue per flow, and the flows of a receiving host together have its share.
    DualDsthost,
    /// A queue per flow, and the flows of a sending host together have its share.
    DualSrchost,
    /// One queue.
    Flowblind,
    /// A queue per flow.
    Flows,
    /// A queue per pair of hosts.
    Hosts,
    /// A queue per sending host.
    Srchost,
    /// A queue per flow, and the flows of a host together have its share, whether it sends or receives.
    #[default]
    TripleIsolate,
}

/// `CAKE_QUEUES` and `CAKE_SET_WAYS`.
const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// A packet of Ethernet's MTU.
const MTU: u64 = 1500;

/// Deficits are in units of 2^-16 B, so that a host's flows share a quantum to the byte.
const SCALE: i64 = 1 << 16;

impl CakeConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Cake, String> {
        let key = place.key;
        let rtt = self.rtt.unwrap_or(Duration::from_millis(100));
        check_interval(place, "rtt", rtt)?;
        let rate = self.bandwidth.map(Rate::bits_per_sec);
        if let (Some(bandwidth), true) = (self.bandwidth, rate.is_some_and(|rate| rate < 512)) {
            return Err(format!("{key}.bandwidth is {bandwidth}, allowed is at least 512 bit/s"));
        }
        // `cake_reconfigure`; the maximum is Linux's limit of 10240 packets.
        let bytes = self.bytes.map_or_else(
            || {
                let sent = rate.map(|rate| {
                    u128::from(rate) * 4 * u128::from(rtt.as_nanos()) / u128::from(UNITS_PER_BYTE)
                });
                sent.map_or(MOST_BY_DEFAULT, |sent| sent.clamp(4 << 20, MOST_BY_DEFAULT.into()) as u64)
            },
            |bytes| bytes.0,
        );
        if !(MTU..=MAX_BYTES).contains(&bytes) {
            return Err(format!("{key}.bytes is {bytes} B, allowed is {MTU} B to {MAX_BYTES} B"));
        }
        // `cake_set_rate`.
        let quantum = rate.map_or(MTU, |rate| (rate / 8 / 4096).clamp(300, MTU));
        let mtu_time = rate.map_or(0, |rate| MTU * UNITS_PER_BYTE / rate);
        let least_target = rtt.as_nanos() / 20;
        let target = least_target.max(mtu_time * 3 / 2);
        let interval = (rtt.as_nanos() + target - least_target).max(2 * target);
        Ok(Cake {
            isolation: self.isolation,
            limit: bytes,
            quantum: quantum as i64 * SCALE,
            settings: Settings { target, interval, mtu_time, ecn: true },
            shaper: rate.map(|rate| Shaper { rate, next: 0, left: 0 }),
            hash_key: place.streams.key(place.component),
            rng: place.streams.stream(place.component),
            flows: vec![Flow::default(); QUEUES],
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            bulk_flows: Box::new([[0; 256]; 2]),
            waiting: Waiting::default(),
            is_held_back: false,
        })
    }
}

const MAX_BYTES: u64 = 1_000_000_000;
const MOST_BY_DEFAULT: u64 = 10_240 * MTU;

/// Queues that take turns behind a shaper.
#[derive(Clone, Debug)]
pub(crate) struct Cake {
    isolation: CakeIsolation,
    /// Most bytes that wait.
    limit: u64,
    quantum: i64,
    settings: Settings,
    shaper: Option<Shaper>,
    /// The perturbation of the hash.
    hash_key: u64,
    rng: Rng,
    flows: Vec<Flow>,
    /// Queues in the order of their turns: new ones, those with a turn, and empty ones whose COBALT is not at
    /// rest.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    decaying: VecDeque<u16>,
    /// For each sending and each receiving host, the number of its queues in [`Set::Bulk`].
    bulk_flows: Box<[[u16; 256]; 2]>,
    waiting: Waiting,
    /// Whether a shaper above holds a packet; limits count none of it, as Linux's do not.
    is_held_back: bool,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Fifo,
    control: Control,
    /// The rest of what it may send in its turn, in units of 2^-16 B.
    deficit: i64,
    set: Set,
    /// The hash of the flow that the queue is reserved for, and that flow's hosts.
    tag: u32,
    hosts: [u8; 2],
}

/// The set of queues whose turns it takes part in (`CAKE_SET_...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Set {
    Bulk,
    Decaying,
    #[default]
    None,
    Sparse,
    /// Empty: it has used its turn as a sparse flow and waits for the next one.
    SparseWait,
}

/// The shaper: a packet leaves only once the one before it would have been sent at the rate.
#[derive(Clone, Copy, Debug)]
struct Shaper {
    /// The rate in bit/s.
    rate: u64,
    /// When the next packet may leave, in nanoseconds, and the unused work of a nanosecond.
    next: u64,
    left: u64,
}

impl Shaper {
    /// A packet has left (`cake_advance_shaper`).
    fn advance(&mut self, size: u32) {
        let units = u64::from(size) * UNITS_PER_BYTE + self.left;
        self.next += units / self.rate;
        self.left = units % self.rate;
    }
}

impl Cake {
    /// Whether the sending and the receiving host have a share for all their flows together.
    fn shares_by_host(&self) -> [bool; 2] {
        match self.isolation {
            CakeIsolation::DualSrchost => [true, false],
            CakeIsolation::DualDsthost => [false, true],
            CakeIsolation::TripleIsolate => [true; 2],
            _ => [false; 2],
        }
    }

    /// The hash of the fields for which packets have separate queues.
    fn tag(&self, packet: &Held) -> u32 {
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

    /// The queue for a packet: its own if there is one in its set, otherwise a free one of the set, otherwise
    /// the one that the hash names (`cake_hash`).
    fn classify(&mut self, packet: &Held) -> u16 {
        let tag = self.tag(packet);
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
        self.flows[usize::from(index)].set = set;
    }

    /// The quantum of a queue: that of its busiest host, shared among the bulk flows of that host.
    fn share(&self, index: u16) -> i64 {
        let counts = self.bulk_flows.iter().zip(self.flows[usize::from(index)].hosts);
        let loads = counts.zip(self.shares_by_host());
        let load =
            loads.map(|((counts, host), shares)| if shares { counts[usize::from(host)] } else { 1 }).max();
        self.quantum / i64::from(load.unwrap_or(1).max(1))
    }

    /// Drops the oldest packet of the fattest queue (`cake_drop`).
    fn drop_from_fattest(&mut self, now: u64, drops: &mut Drops) {
        let Some(fattest) = self.flows.iter_mut().rev().max_by_key(|flow| flow.queue.bytes()) else { return };
        fattest.control.queue_full(now, &self.settings);
        if let Some(packet) = fattest.queue.pop_oldest() {
            self.waiting.packets -= 1;
            self.waiting.bytes -= u64::from(packet.size);
            drops.overflow(packet);
        }
    }

    /// The next packet of a queue, by COBALT.
    fn next_of(&mut self, index: u16, now: u64, drops: &mut Drops) -> Option<Held> {
        let Flow { queue, control, .. } = &mut self.flows[usize::from(index)];
        let before = queue.waiting();
        let packet = control.dequeue(now, &self.settings, queue, &mut self.rng, drops);
        let after = queue.waiting();
        self.waiting.packets -= before.packets - after.packets;
        self.waiting.bytes -= before.bytes - after.bytes;
        packet
    }
}

impl QueueDisc for Cake {
    /// `cake_enqueue`.
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if self.waiting.packets == 0
            && !self.is_held_back
            && let Some(shaper) = &mut self.shaper
            && shaper.next < now
        {
            (shaper.next, shaper.left) = (now, 0);
        }
        let index = self.classify(&packet);
        self.flows[usize::from(index)].queue.push(packet);
        self.waiting.packets += 1;
        self.waiting.bytes += u64::from(packet.size);
        match self.flows[usize::from(index)].set {
            Set::None | Set::Decaying => {
                self.decaying.retain(|&other| other != index);
                self.new.push_back(index);
                self.set(index, Set::Sparse);
                self.flows[usize::from(index)].deficit = self.share(index);
            }
            Set::SparseWait => self.set(index, Set::Bulk),
            Set::Bulk | Set::Sparse => {}
        }
        while self.waiting.bytes > self.limit {
            self.drop_from_fattest(now, drops);
        }
    }

    /// `cake_dequeue`.
    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        if self.shaper.is_some_and(|shaper| shaper.next > now) {
            return None;
        }
        let mut is_first = true;
        while self.waiting.packets > 0 {
            let list = if (is_first && !self.decaying.is_empty()) || self.new.len() + self.old.len() == 0 {
                &mut self.decaying
            } else if self.new.is_empty() {
                &mut self.old
            } else {
                &mut self.new
            };
            is_first = false;
            let index = *list.front()?;
            let flow = &self.flows[usize::from(index)];
            if flow.deficit <= 0 {
                list.pop_front();
                self.old.push_back(index);
                if flow.set == Set::Sparse {
                    let is_empty = flow.queue.len() == 0;
                    self.set(index, if is_empty { Set::SparseWait } else { Set::Bulk });
                }
                self.flows[usize::from(index)].deficit += self.share(index);
                continue;
            }
            if flow.queue.len() == 0 {
                list.pop_front();
            }
            if let Some(packet) = self.next_of(index, now, drops) {
                self.flows[usize::from(index)].deficit -= i64::from(packet.size) * SCALE;
                if let Some(shaper) = &mut self.shaper {
                    shaper.advance(packet.size);
                }
                return Some(packet);
            }
            // The queue stays among the turns until its state has come to rest.
            if self.flows[usize::from(index)].control.is_at_rest(now) {
                self.set(index, Set::None);
            } else {
                self.set(index, Set::Decaying);
                self.decaying.push_back(index);
            }
        }
        None
    }

    fn not_before(&self) -> u64 {
        match self.shaper {
            Some(shaper) if self.waiting.packets > 0 => shaper.next,
            _ => u64::MAX,
        }
    }

    fn flush(&mut self, _: u64, _: &mut Drops) -> Vec<Held> {
        self.waiting = Waiting::default();
        self.flows
            .iter_mut()
            .flat_map(|flow| std::iter::from_fn(|| flow.queue.pop_oldest()).collect::<Vec<_>>())
            .collect()
    }

    fn hold_back(&mut self, _: u64, held_back: Waiting) {
        self.is_held_back = held_back.packets > 0;
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }

    fn memory(&self) -> usize {
        let queues: usize = self.flows.iter().map(|flow| flow.queue.memory()).sum();
        queues + self.flows.capacity() * size_of::<Flow>() + size_of_val(&*self.bulk_flows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn cake(isolation: CakeIsolation) -> Cake {
        CakeConfig { isolation, ..Default::default() }.build(place()).unwrap()
    }

    /// Four round-trip times at the bandwidth, within the limits of `cake_reconfigure`.
    #[test]
    fn the_limit_follows_the_bandwidth() {
        let limit = |mbps: u64| {
            let bandwidth = Some(Rate::from_bits_per_sec(mbps * 1_000_000));
            CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap().limit
        };
        assert_eq!([1, 200, 1000].map(limit), [4 << 20, 10_000_000, 15_360_000]);
        assert_eq!(cake(CakeIsolation::Flows).limit, 15_360_000);
    }

    /// How many packets of each flow are among a thousand that leave, when packets of these flows, from and
    /// to these hosts, arrive all the time.
    fn shares(isolation: CakeIsolation, flows: &[[u8; 2]]) -> Vec<u32> {
        let mut queue = cake(isolation);
        let (mut drops, mut sent) = (Drops::default(), vec![0; flows.len()]);
        for now in 0..1000 {
            for (flow, &hosts) in flows.iter().enumerate() {
                for _ in 0..if now == 0 { 20 } else { 1 } {
                    queue.enqueue(now, Held { hosts, ..packet(0, now, flow as u32) }, &mut drops);
                }
            }
            sent[queue.dequeue(now, &mut drops).unwrap().flow as usize] += 1;
        }
        assert!(drops.0.is_empty());
        sent
    }

    /// Of two hosts, one has three flows and the other has one: either each flow has the same share, or each
    /// host.
    #[test]
    fn isolation_of_flows_and_of_hosts() {
        let from_two = [[1, 9], [1, 8], [1, 7], [2, 6]];
        let near = |shares: &[u32], expected: [u32; 4]| {
            assert!(shares.iter().zip(expected).all(|(share, exp)| share.abs_diff(exp) < 15), "{shares:?}");
        };
        near(&shares(CakeIsolation::Flows, &from_two), [250; 4]);
        near(&shares(CakeIsolation::DualDsthost, &from_two), [250; 4]);
        near(&shares(CakeIsolation::DualSrchost, &from_two), [167, 167, 167, 500]);
        near(&shares(CakeIsolation::TripleIsolate, &from_two), [167, 167, 167, 500]);
        near(&shares(CakeIsolation::Srchost, &from_two), [167, 167, 167, 500]);
        let to_two = from_two.map(|[from, to]| [to, from]);
        near(&shares(CakeIsolation::DualSrchost, &to_two), [250; 4]);
        near(&shares(CakeIsolation::DualDsthost, &to_two), [167, 167, 167, 500]);
        near(&shares(CakeIsolation::TripleIsolate, &to_two), [167, 167, 167, 500]);
        near(&shares(CakeIsolation::Dsthost, &to_two), [167, 167, 167, 500]);
        near(&shares(CakeIsolation::Hosts, &[[1, 2], [1, 2], [1, 2], [1, 3]]), [167, 167, 167, 500]);
    }

    #[test]
    fn one_queue_is_first_in_first_out() {
        let mut queue = cake(CakeIsolation::Flowblind);
        let mut drops = Drops::default();
        for slot in 0..6 {
            queue.enqueue(0, packet(slot, 0, slot % 3), &mut drops);
        }
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
        assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
    }

    /// Eight ways: with a plain hash of 200 flows into 1024 queues there are some 18 collisions, with sets of
    /// eight next to none.
    #[test]
    fn flows_find_a_queue_of_their_own() {
        let mut queue = cake(CakeIsolation::Flows);
        let mut drops = Drops::default();
        for flow in 0..200 {
            queue.enqueue(0, packet(flow, 0, flow), &mut drops);
        }
        let used = queue.flows.iter().filter(|flow| flow.queue.len() > 0).count();
        assert!(used >= 199, "{used}");
        let direct: std::collections::BTreeSet<usize> =
            (0..200).map(|flow| queue.tag(&packet(0, 0, flow)) as usize % QUEUES).collect();
        assert!(direct.len() < 195, "{}", direct.len());
        // If all queues of a set are taken, flows share one.
        let tag = queue.tag(&packet(0, 0, 0));
        let set = tag as usize % QUEUES / WAYS * WAYS;
        for way in set..set + WAYS {
            queue.flows[way].set = Set::Sparse;
            queue.flows[way].tag = !tag;
        }
        assert_eq!(usize::from(queue.classify(&packet(0, 0, 0))), tag as usize % QUEUES);
    }

    /// 1500 B take 4 ms at 3 Mbit/s, and 1000 B take 8/3 ms, with no burst and no drift.
    #[test]
    fn the_shaper_holds_packets_back() {
        let bandwidth = Some(Rate::from_bits_per_sec(3_000_000));
        let mut queue = CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..4 {
            queue.enqueue(7, packet(slot, 7, 0), &mut drops);
        }
        let mut now = 7;
        let mut times = Vec::new();
        while queue.waiting().packets > 0 {
            if queue.dequeue(now, &mut drops).is_some() {
                times.push(now - 7);
            } else {
                now = queue.not_before();
            }
        }
        assert_eq!(times, [0, 4 * MILLI, 8 * MILLI, 12 * MILLI]);
        // The last packet counts although the queue is empty, and nothing is saved up during a pause.
        assert!(queue.dequeue(now, &mut drops).is_none());
        for (from, expected) in [(now + MILLI, 7 + 16 * MILLI), (50 * MILLI, 50 * MILLI)] {
            queue.enqueue(from, Held { size: 1000, ..packet(0, from, 0) }, &mut drops);
            let at = if queue.dequeue(from, &mut drops).is_some() { from } else { queue.not_before() };
            assert_eq!(at, expected);
            queue.dequeue(at, &mut drops);
        }
        let shaper = queue.shaper.unwrap();
        assert_eq!((shaper.next, shaper.left), (52_666_666, 2_000_000));
    }

    /// `cake_set_rate`: at 1 Mbit/s a packet of 1500 B takes 12 ms, so that the target is 18 ms and the
    /// interval 113 ms.
    #[test]
    fn slow_links_have_longer_targets() {
        let with = |bits| {
            let bandwidth = Some(Rate::from_bits_per_sec(bits));
            let queue = CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap();
            let Settings { target, interval, mtu_time, .. } = queue.settings;
            (target / MILLI, interval / MILLI, mtu_time / MILLI, queue.quantum / SCALE)
        };
        assert_eq!(with(1_000_000), (18, 113, 12, 300));
        assert_eq!(with(20_000_000), (5, 100, 0, 610));
        assert_eq!(with(1_000_000_000), (5, 100, 0, 1500));
    }

    #[test]
    fn the_fattest_queue_makes_room() {
        let bytes = Some(Bytes(6000));
        let mut queue = CakeConfig { bytes, ..Default::default() }.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, flow) in [1, 1, 1, 1, 2].into_iter().enumerate() {
            queue.enqueue(0, packet(slot as u32, 0, flow), &mut drops);
        }
        assert_eq!(drops.0.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [0]);
    }

    /// Queues that are empty come to rest, and no host keeps a bulk flow.
    #[test]
    fn nothing_is_left_of_flows_that_end() {
        let mut queue = cake(CakeIsolation::TripleIsolate);
        let mut drops = Drops::default();
        for slot in 0..500 {
            let now = slot * MILLI;
            for flow in 0..3 {
                queue.enqueue(now, packet(0, now, flow), &mut drops);
            }
            queue.dequeue(now, &mut drops);
        }
        assert!(queue.bulk_flows[0][0] == 3);
        for now in (500 * MILLI..4_000 * MILLI).step_by(MILLI as usize) {
            queue.dequeue(now, &mut drops);
        }
        assert_eq!(queue.waiting().packets, 0);
        // Another flow advances the state of the others.
        for now in (4_000 * MILLI..9_000 * MILLI).step_by(MILLI as usize) {
            queue.enqueue(now, packet(0, now, 9), &mut drops);
            queue.dequeue(now, &mut drops);
        }
        assert!(queue.flows.iter().filter(|flow| flow.set != Set::None).count() <= 1);
        let bulk = queue.flows.iter().filter(|flow| flow.set == Set::Bulk).count();
        assert_eq!((usize::from(queue.bulk_flows[0][0]), queue.decaying.len()), (bulk, 0));
    }
}
