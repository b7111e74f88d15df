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
            Self::Lazy(server) => server.advance(end.max(server.backlog.at())),
        }
    }

    /// Background packets so far, all sources together.
    pub(crate) fn cross_counters(&self) -> CrossCounters {
        match self {
            Self::Evented(server) => server.cross_counters(),
            Self::Lazy(server) => server.cross_counters,
        }
    }
}

/// A first-in-first-out server without events.
#[derive(Clone, Debug)]
pub(crate) struct LazyServer {
    backlog: Backlog,
    discipline: DropTail,
    sources: Vec<Source>,
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
        Self {
            backlog: Backlog::new(capacity),
            discipline,
            sources,
            cross_counters: CrossCounters::default(),
            up_to_enter,
            skips_blocks: true,
        }
    }

    pub(crate) fn accept(&mut self, now: u64, size: u32) -> Verdict {
        self.advance(now);
        if let Some(up) = &mut self.up_to_enter
            && !up.at(now)
        {
            return Verdict::Down;
        }
        let units = u64::from(size) * UNITS_PER_BYTE;
        let found_units = self.backlog.units();
        let mut marked = false;
        let is_certain = self.discipline.surely_admits(self.backlog.listed() + 1, found_units + units);
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

    pub(crate) fn advance(&mut self, now: u64) {
        match self.sources.as_mut_slice() {
            [] => {}
            [Source { arrivals: Arrivals::Poisson(_), .. }] if self.up_to_enter.is_none() => {
                self.advance_poisson(now);
            }
            _ => self.advance_merged(now),
        }
        self.backlog.advance(now);
    }

    fn takes(&self, waiting: Waiting, size: u32, units: u64) -> bool {
        self.discipline.admits(waiting, u64::from(size)) && self.backlog.can_count(units)
    }

    /// One Poisson source: block by block.
    fn advance_poisson(&mut self, now: u64) {
        let mut sources = std::mem::take(&mut self.sources);
        if let Source { arrivals: Arrivals::Poisson(poisson), size, units } = &mut sources[0] {
            self.consume_blocks(poisson, *size, *units, now);
        }
        self.sources = sources;
    }

    fn consume_blocks(&mut self, poisson: &mut Poisson, size: u32, units: u64, now: u64) {
        loop {
            let placed = poisson.placed();
            let due = placed.iter().take_while(|&&time| time <= now).count();
            if due > 0 {
                self.enter_background(&placed[..due], size, units);
            }
            if due < placed.len() {
                poisson.take(due);
                return;
            }
            let Some(block) = poisson.open_block(now) else {
                poisson.take(due);
                return;
            };
            let is_over = block.end <= now + 1 && poisson.is_whole(&block);
            if is_over && self.skip(block.count, units, block.end - 1) {
                poisson.clear();
            } else {
                poisson.place(block);
            }
        }
    }

    /// Enters a block of arrivals up to `last` without their places, if these make no difference: the
    /// queue neither empties nor fills.
    fn skip(&mut self, count: u64, units: u64, last: u64) -> bool {
        if count == 0 {
            return true;
        }
        let Capacity::Constant(rate) = self.backlog.capacity else { return false };
        let work = count * units;
        let backlog = self.backlog.units();
        let served = rate.saturating_mul(last - self.backlog.at());
        if !self.skips_blocks
            || backlog < served
            || !self.discipline.surely_admits(self.backlog.listed() + count, backlog + work)
        {
            return false;
        }
        self.cross_counters.arrived += count;
        self.backlog.push_served(count, units, last, backlog - served + work);
        true
    }

    /// Enters background packets of equal size that arrive at these times.
    fn enter_background(&mut self, times: &[u64], size: u32, units: u64) {
        let count = times.len() as u64;
        let surely = |server: &Self| {
            let work = server.backlog.units() + count * units;
            server.discipline.surely_admits(server.backlog.listed() + count, work)
        };
        if !surely(self) {
            self.backlog.advance(times[0]);
            self.backlog.waiting();
            if !surely(self) {
                for &time in times {
                    self.enter_one(time, size, units);
                }
                return;
            }
        }
        self.cross_counters.arrived += count;
        let (mut at, mut left) = (self.backlog.at(), self.backlog.units());
        match &mut self.backlog.capacity {
            Capacity::Constant(rate) => {
                for &time in times {
                    left = left.saturating_sub(rate.saturating_mul(time - at)) + units;
                    at = time;
                }
            }
            capacity => {
                for &time in times {
                    left = capacity.drain(left, at, time) + units;
                    at = time;
                }
            }
        }
        self.backlog.push_served(count, units, at, left);
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
        if found > 0 && !self.discipline.surely_admits(self.backlog.listed() + 1, found + units) {
            let waiting = self.backlog.waiting();
            if !self.takes(waiting, size, units) {
                self.cross_counters.dropped_full += 1;
                return;
            }
        }
        self.backlog.push(units);
    }

    /// Any sources: packet by packet.
    fn advance_merged(&mut self, now: u64) {
        let mut sources = std::mem::take(&mut self.sources);
        while let Some((time, source)) = earliest(&mut sources, now) {
            let (size, units) = (source.size, source.units);
            source.pop();
            self.enter_one(time, size, units);
        }
        self.sources = sources;
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
