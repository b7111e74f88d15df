//! Queue and server of one direction of a link: the lazy one, and the choice between it and its evented
//! twin.
//!
//! The lazy server knows the departure of a packet when it arrives. Cross traffic is brought up to date
//! when a packet of interest arrives. At equal times packets leave first, then the link's state changes,
//! then cross traffic arrives in the order of its sources, then the packet of interest.

use super::backlog::{Backlog, Waiting};
use super::capacity::{Capacity, Departure, UNITS_PER_BYTE, Varying};
use super::cross_traffic::{Arrivals, Poisson, Source};
use super::evented::EventedServer;
use super::qdisc::{DropTail, QueueDisc};
use super::schedule::Timeline;

/// So many packets of cross traffic are less than 2^62 units of work.
const MOST_ENTERED_AT_ONCE: u64 = 1 << 12;

/// What becomes of a packet of interest at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It leaves the server.
    Departs {
        /// When, in nanoseconds.
        at: u64,
        /// Unfinished work it found.
        found_units: u64,
        /// Whether an ECN-capable packet is marked.
        marked: bool,
    },
    /// The link is down and takes nothing.
    Down,
    /// It is taken, and lost when the link goes down at this time.
    Flushed(u64),
    /// It is dropped by the discipline.
    Full,
    /// It is taken and never leaves, since the server stands still from some time on.
    Stays,
}

/// Background packets at one queue, all sources together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrossCounters {
    pub(crate) arrived: u64,
    pub(crate) dropped_full: u64,
    pub(crate) dropped_down: u64,
}

/// The queue and server of one direction.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the lazy one is asked for every packet, without a detour")]
pub(crate) enum Server {
    Evented(Box<EventedServer>),
    Lazy(LazyServer),
}

impl Server {
    #[inline]
    pub(crate) fn accept(&mut self, now: u64, size: u32) -> Verdict {
        match self {
            Self::Evented(server) => server.accept(now, size),
            Self::Lazy(server) => server.accept(now, size),
        }
    }

    /// Brings cross traffic and queue up to the end of the run, unless they are beyond it already.
    pub(crate) fn finish(&mut self, end: u64) {
        match self {
            Self::Evented(server) => server.advance(end.max(server.now())),
            Self::Lazy(server) => server.advance(end.max(server.queue.backlog.at())),
        }
    }

    /// Background packets so far, all sources together.
    pub(crate) fn cross_counters(&self) -> CrossCounters {
        match self {
            Self::Evented(server) => server.cross_counters(),
            Self::Lazy(server) => server.queue.cross_counters,
        }
    }
}

/// A first-in-first-out server without events.
#[derive(Clone, Debug)]
pub(crate) struct LazyServer {
    queue: LazyQueue,
    sources: Vec<Source>,
    /// From when on, in nanoseconds, the server is known to be idle without a look at the queue;
    /// `u64::MAX` if that is never known: with cross traffic, marks or a varying rate.
    idle_from: u64,
    /// The size of the packet that last found the server idle, in bytes.
    last_size: u32,
    /// The time that its transmission takes, in nanoseconds.
    last_service: u64,
}

/// The server without the sources that load it.
#[derive(Clone, Debug)]
struct LazyQueue {
    backlog: Backlog,
    discipline: DropTail,
    /// Up to so much work, with a packet of cross traffic for each listed one, the next packet of cross
    /// traffic is taken for certain.
    sure_units: u64,
    cross_counters: CrossCounters,
    /// With `down = "drop"`, when the link is up; nothing is taken while it is down.
    up_to_enter: Option<Timeline<bool>>,
    /// Whether blocks of cross traffic may be skipped whole; only tests turn it off.
    skips_blocks: bool,
}

impl LazyServer {
    pub(crate) fn new(capacity: Capacity, discipline: QueueDisc, sources: Vec<Source>) -> Self {
        let up_to_enter = match &capacity {
            Capacity::Varying(Varying { flush_when_down: true, up, .. }) => Some(up.clone()),
            _ => None,
        };
        let QueueDisc::DropTail(discipline) = discipline;
        let is_alone =
            sources.is_empty() && !discipline.marks() && matches!(capacity, Capacity::Constant(_));
        let bulk_units = sources.first().map(|source| source.units);
        let queue = LazyQueue {
            backlog: Backlog::new(capacity, bulk_units),
            sure_units: discipline.sure_units(bulk_units.unwrap_or(0)),
            discipline,
            cross_counters: CrossCounters::default(),
            up_to_enter,
            skips_blocks: true,
        };
        let idle_from = if is_alone { 0 } else { u64::MAX };
        Self { queue, sources, idle_from, last_size: 0, last_service: 0 }
    }

    #[inline]
    pub(crate) fn accept(&mut self, now: u64, size: u32) -> Verdict {
        match self.pass(now, size) {
            Some(at) => Verdict::Departs { at, found_units: 0, marked: false },
            None => self.accept_queued(now, size),
        }
    }

    /// Takes a packet that finds the server idle and no cross traffic to bring up to date; returns its
    /// departure in nanoseconds.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64, size: u32) -> Option<u64> {
        if now < self.idle_from {
            return None;
        }
        if size != self.last_size {
            self.set_service(size);
        }
        self.idle_from = now + self.last_service;
        self.queue.backlog.restart(now, u64::from(size) * UNITS_PER_BYTE);
        Some(self.idle_from)
    }

    #[cold]
    fn set_service(&mut self, size: u32) {
        let Capacity::Constant(rate) = self.queue.backlog.capacity else {
            unreachable!("a varying server is never known to be idle")
        };
        self.last_size = size;
        self.last_service = (u64::from(size) * UNITS_PER_BYTE).div_ceil(rate);
    }

    /// Takes a packet through the queue.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it has one caller on the path of every packet")]
    pub(crate) fn accept_queued(&mut self, now: u64, size: u32) -> Verdict {
        self.advance(now);
        let verdict = self.queue.accept(now, size);
        if self.idle_from != u64::MAX
            && let Verdict::Departs { at, .. } = verdict
        {
            self.idle_from = at;
        }
        verdict
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        if !self.sources.is_empty() {
            self.load(now);
        }
        self.queue.backlog.advance(now);
    }

    /// Enters the cross traffic up to `now`.
    #[inline]
    fn load(&mut self, now: u64) {
        match (&self.queue.backlog.capacity, self.sources.as_mut_slice()) {
            (&Capacity::Constant(rate), [Source { arrivals: Arrivals::Poisson(poisson), size, units }]) => {
                self.queue.enter_blocks(rate, poisson, *size, *units, now);
            }
            (_, sources) => self.queue.enter_all(sources, now),
        }
    }
}

impl LazyQueue {
    fn accept(&mut self, now: u64, size: u32) -> Verdict {
        if let Some(up) = &mut self.up_to_enter
            && !up.at(now)
        {
            return Verdict::Down;
        }
        let units = u64::from(size) * UNITS_PER_BYTE;
        let found_units = self.backlog.units();
        let mut marked = false;
        let is_certain = self.discipline.surely_admits(self.backlog.most_packets() + 1, found_units + units);
        if !is_certain || self.discipline.marks() {
            let waiting = self.backlog.waiting();
            if found_units > 0 && !self.takes(waiting, size, units) {
                return Verdict::Full;
            }
            marked = self.discipline.is_marked(waiting);
        }
        self.backlog.push(units);
        match self.backlog.departure() {
            Departure::At(at) => Verdict::Departs { at, found_units, marked },
            Departure::Flushed(at) => Verdict::Flushed(at),
            Departure::Never => Verdict::Stays,
        }
    }

    fn takes(&self, waiting: Waiting, size: u32, units: u64) -> bool {
        self.discipline.admits(waiting, u64::from(size)) && self.backlog.can_count(units)
    }

    /// Enters the arrivals of any sources up to `now`, one by one.
    fn enter_all(&mut self, sources: &mut [Source], now: u64) {
        while let Some((time, source)) = earliest(sources, now) {
            self.enter_one(time, source.size, source.units);
            source.pop();
        }
    }

    /// Enters the arrivals up to `now` of a single Poisson source at a server of constant rate, block by
    /// block.
    fn enter_blocks(&mut self, rate: u64, poisson: &mut Poisson, size: u32, units: u64, now: u64) {
        let mut sure_units = self.backlog.units_beside_listed(self.sure_units);
        let (mut at, mut left, mut count) = (self.backlog.at(), self.backlog.units(), 0);
        loop {
            if poisson.has_placed() {
                let start = poisson.block_start();
                if at < start {
                    left = left.saturating_sub(rate.saturating_mul(start - at));
                    at = start;
                }
                if left + poisson.most_placed() * units <= sure_units {
                    // Work counted from the block's start: what the server could have done, and what it
                    // would have to do to be idle. Neither overflows within a block.
                    let mut last = at - start;
                    let mut end = rate * last + left;
                    poisson.take_placed(now, |offset| {
                        end = end.max(rate * offset) + units;
                        last = offset;
                        count += 1;
                    });
                    left = end - rate * last;
                    at = start + last;
                } else {
                    self.backlog.push_bulk(count, at, left);
                    self.cross_counters.arrived += count;
                    poisson.take_placed(now, |offset| self.enter_one(start + offset, size, units));
                    sure_units = self.backlog.units_beside_listed(self.sure_units);
                    (at, left, count) = (self.backlog.at(), self.backlog.units(), 0);
                }
                if poisson.has_placed() {
                    break;
                }
            }
            let Some(block) = poisson.open_block(now) else { break };
            if count > MOST_ENTERED_AT_ONCE {
                self.backlog.push_bulk(count, at, left);
                self.cross_counters.arrived += count;
                count = 0;
            }
            if block.count == 0 {
                continue;
            }
            // Places make no difference if the queue neither empties nor fills before the block is over.
            let last = block.end - 1;
            if last <= now && left + block.count * units <= sure_units && self.skips_blocks {
                let served = rate.saturating_mul(last - at);
                if served <= left && poisson.is_whole(&block) {
                    left = left - served + block.count * units;
                    at = last;
                    count += block.count;
                    continue;
                }
            }
            poisson.place(block);
        }
        self.backlog.push_bulk(count, at, left);
        self.cross_counters.arrived += count;
    }

    /// Enters one background packet, with the discipline's decision.
    fn enter_one(&mut self, time: u64, size: u32, units: u64) {
        self.backlog.advance(time);
        self.cross_counters.arrived += 1;
        if let Some(up) = &mut self.up_to_enter
            && !up.at(time)
        {
            self.cross_counters.dropped_down += 1;
            return;
        }
        let found = self.backlog.units();
        if found > 0 && !self.discipline.surely_admits(self.backlog.most_packets() + 1, found + units) {
            let waiting = self.backlog.waiting();
            if !self.takes(waiting, size, units) {
                self.cross_counters.dropped_full += 1;
                return;
            }
        }
        self.backlog.push(units);
    }
}

/// The source with the earliest arrival up to `now`, the first one of several at the same time.
pub(crate) fn earliest(sources: &mut [Source], now: u64) -> Option<(u64, &mut Source)> {
    let mut best: Option<(u64, usize)> = None;
    for (index, source) in sources.iter_mut().enumerate() {
        let time = source.peek(now);
        if time <= now && best.is_none_or(|(earlier, _)| time < earlier) {
            best = Some((time, index));
        }
    }
    best.map(|(time, index)| (time, &mut sources[index]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cross_traffic::{CrossTrafficConfig, PoissonConfig};
    use super::super::qdisc::{DropTailConfig, QueueConfig};
    use super::*;
    use crate::rng::Streams;
    use crate::units::Rate;

    const RATE: u64 = 1_000_000;

    fn server(load: u64, limit: u32, seed: u64) -> LazyServer {
        let queue = QueueConfig::DropTail(DropTailConfig { packets: Some(limit), ..Default::default() });
        let rate = Some(Rate::from_bits_per_sec(load));
        let traffic = CrossTrafficConfig::Poisson(PoissonConfig { rate, ..Default::default() });
        let streams = Streams { seed, replication: 0 };
        let source = traffic.build(streams, "traffic", Some(RATE), "traffic").unwrap();
        LazyServer::new(Capacity::Constant(RATE), queue.build("queue").unwrap(), vec![source])
    }

    proptest! {
        #[test]
        fn skipping_blocks_changes_nothing(
            load in 500_000..1_500_000u64,
            limit in 5..60u32,
            seed in any::<u64>(),
            packets in prop::collection::vec((0..2_000_000_000u64, 1..1500u32), 1..60),
        ) {
            let mut skipping = server(load, limit, seed);
            let mut looking = server(load, limit, seed);
            looking.queue.skips_blocks = false;
            let mut now = 0;
            for (gap, size) in packets {
                now += gap;
                prop_assert_eq!(skipping.accept(now, size), looking.accept(now, size));
                prop_assert_eq!(skipping.queue.cross_counters, looking.queue.cross_counters);
                prop_assert_eq!(skipping.queue.backlog.waiting(), looking.queue.backlog.waiting());
            }
        }
    }

    #[test]
    fn blocks_are_skipped_when_the_queue_is_long() {
        let mut server = server(2 * RATE, 10_000, 1);
        server.advance(10_000_000_000);
        let Arrivals::Poisson(poisson) = &server.sources[0].arrivals else { panic!("it is Poisson") };
        // Twice the capacity for 10 s: some 5000 packets, of which few were looked at.
        assert!(server.queue.cross_counters.arrived > 4_700, "{:?}", server.queue.cross_counters);
        assert!(poisson.blocks_placed < 30, "{} blocks", poisson.blocks_placed);
    }
}
