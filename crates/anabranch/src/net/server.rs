//! Queue and server of one direction of a link, for a first-in-first-out queue.
//!
//! The server computes the departure of a packet when the packet arrives, from the unfinished work that
//! it finds and its own. Cross traffic is brought up to date when a packet of interest arrives. At equal
//! times packets leave first, then the link's state changes, then cross traffic arrives in the order of its
//! sources, then the packet of interest.
//!
//! ```text
//! unfinished work        cross traffic, entered when P comes, in one go where the queue surely takes it
//!   │   ╲   │╲       ▼ ▼         ▼
//!   │    ╲  │ ╲     │╲│╲        │╲  P: found_units, what is there before it
//!   │     ╲ │  ╲    │   ╲       │ ╲│╲
//!   └──────╲┴───╲───┴────╲──────┴────╲──► time
//!                                     its departure
//! ```
//!
//! Each packet takes the first of these ways that is open to it, since each costs more than the one before:
//!
//! | way | open where | what it needs |
//! |---|---|---|
//! | [`Lone`] | constant rate, no marks, no cross traffic, and the server is idle | the time of the last departure |
//! | [`Server::queue_surely`] | constant rate, no marks, and the queue is short enough to take it surely | the unfinished work |
//! | [`ServerQueue::accept`] | always | what waits, packet by packet |

use super::asked::Asked;
use super::backlog::Backlog;
use super::capacity::{Capacity, ConstantRate, Departure, UNITS_PER_BYTE, Varying};
use super::counted::Counted;
use super::cross_traffic::{Arrivals, CrossCounters, Poisson, Source, earliest};
use super::packets::{Verdict, Waiting};
use super::qdisc::DropTail;
use super::stays::Stays;
use crate::schedule::Timeline;

/// Positions are compared although they wrap: what is entered at once stays far below 2^63 units.
const MOST_WORK_AT_ONCE: u64 = 1 << 61;

/// A first-in-first-out server without events.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    queue: ServerQueue,
    sources: Vec<Source>,
    /// The constant rate, if the link is not traced and nothing happens to packets that the queue surely
    /// takes.
    sure_rate: Option<ConstantRate>,
    lone: Option<Lone>,
}

/// The state that is known without looking at the queue, if there is no cross traffic, a constant rate and no
/// marks.
#[derive(Clone, Copy, Debug)]
struct Lone {
    rate: ConstantRate,
    /// From when on the server is idle, in nanoseconds.
    idle_from: u64,
    /// The arrival in nanoseconds and the size in bytes of the packet that last found the server idle, as
    /// long as the backlog has not been told about it.
    unrecorded: Option<(u64, u32)>,
}

impl Lone {
    fn new(rate: ConstantRate) -> Self {
        Self { rate, idle_from: 0, unrecorded: None }
    }
}

/// The server without the sources that load it.
#[derive(Clone, Debug)]
struct ServerQueue {
    backlog: Backlog,
    discipline: Timeline<DropTail>,
    /// The most unfinished work with which the queue certainly accepts the next packet of cross traffic; each
    /// other packet counts as one of the cross traffic.
    sure_units: u64,
    counted: Counted,
    /// With `down = "drop"`, when the link is up; it accepts nothing while it is down.
    up_to_enter: Option<Timeline<bool>>,
    /// The packets one by one, for a link that is traced.
    stays: Option<Box<Stays>>,
}

impl Server {
    pub(crate) fn new(
        capacity: Capacity,
        discipline: Timeline<DropTail>,
        sources: Vec<Source>,
        is_traced: bool,
    ) -> Self {
        let up_to_enter = match &capacity {
            Capacity::Varying(Varying { flush_when_down: true, up, .. }) => Some(up.clone()),
            _ => None,
        };
        let sure_rate = match capacity {
            Capacity::Constant(rate)
                if discipline.is_constant() && !discipline.value().marks() && !is_traced =>
            {
                Some(rate)
            }
            _ => None,
        };
        let lone = sure_rate.filter(|_| sources.is_empty()).map(Lone::new);
        let bulk_units = sources.first().map(|source| source.units);
        let sure_units = discipline.values().map(|limits| limits.sure_units(bulk_units.unwrap_or(0))).min();
        let queue = ServerQueue {
            backlog: Backlog::new(capacity, bulk_units),
            sure_units: sure_units.unwrap_or(0).min(MOST_WORK_AT_ONCE),
            discipline,
            counted: Counted::default(),
            up_to_enter,
            stays: is_traced.then(Box::default),
        };
        Self { queue, sources, sure_rate, lone }
    }

    /// Takes a packet or not, by the first of the ways that is open to it.
    #[inline]
    pub(crate) fn accept(&mut self, asked: &Asked, now: u64, size: u32) -> Verdict {
        match self.accept_surely(asked, now, size) {
            Some((at, found_units)) => Verdict::Departs { at, found_units, marked: false },
            None => self.decide(asked, now, size),
        }
    }

    /// Takes a packet, or not: makes all decisions about it.
    fn decide(&mut self, asked: &Asked, now: u64, size: u32) -> Verdict {
        self.advance(asked, now);
        let verdict = self.queue.accept(now, size);
        if let (Some(lone), Verdict::Departs { at, .. }) = (&mut self.lone, verdict) {
            lone.idle_from = at;
        }
        verdict
    }

    /// Takes a packet about which there is nothing to decide. Returns its departure, in nanoseconds, and the
    /// unfinished work that it finds. If there is something to decide, it returns none and has not taken it.
    #[inline]
    pub(crate) fn accept_surely(&mut self, asked: &Asked, now: u64, size: u32) -> Option<(u64, u64)> {
        let units = u64::from(size) * UNITS_PER_BYTE;
        match &mut self.lone {
            Some(lone) if now >= lone.idle_from => {
                lone.idle_from = now + lone.rate.time_for(units);
                lone.unrecorded = Some((now, size));
                Some((lone.idle_from, 0))
            }
            _ => self.queue_surely(asked, now, units),
        }
    }

    #[inline(never)]
    fn queue_surely(&mut self, asked: &Asked, now: u64, units: u64) -> Option<(u64, u64)> {
        let rate = self.sure_rate?;
        self.advance(asked, now);
        let found_units = self.queue.backlog.units();
        let discipline = self.queue.discipline.value();
        if !discipline.surely_admits(self.queue.backlog.most_packets() + 1, found_units + units) {
            return None;
        }
        self.queue.backlog.push(units);
        let departure = now + rate.time_for(found_units + units);
        if let Some(lone) = &mut self.lone {
            lone.idle_from = departure;
        }
        Some((departure, found_units))
    }

    /// Whether [`Server::accept_surely`] takes packets.
    pub(crate) fn can_be_sure(&self) -> bool {
        self.sure_rate.is_some()
    }

    /// Counters of the background packets so far, over all sources.
    pub(crate) fn cross_counters(&self) -> CrossCounters {
        self.queue.counted.counters
    }

    /// The packets one by one, for a link that is traced.
    pub(crate) fn stays(&self) -> Option<&Stays> {
        self.queue.stays.as_deref()
    }

    pub(crate) fn stays_mut(&mut self) -> Option<&mut Stays> {
        self.queue.stays.as_deref_mut()
    }

    /// Enters the packet that last found the server idle into the backlog.
    fn flush_lone(&mut self) {
        if let Some((arrived, size)) = self.lone.as_mut().and_then(|lone| lone.unrecorded.take()) {
            self.queue.backlog.restart(arrived, u64::from(size) * UNITS_PER_BYTE);
        }
    }

    /// Advances cross traffic and queue to the end of the run; if they are beyond it already, cross traffic
    /// is counted up to it.
    pub(crate) fn finish(&mut self, asked: &Asked, end: u64) {
        self.flush_lone();
        self.advance(asked, end.max(self.queue.backlog.at()));
        self.queue.counted.finish(self.queue.backlog.at(), end);
    }

    /// Enters the cross traffic up to `now` and moves on to `now`.
    #[inline]
    fn advance(&mut self, asked: &Asked, now: u64) {
        self.flush_lone();
        self.queue.counted.before_taking(asked, &self.sources, self.queue.backlog.at(), now);
        match (&self.queue.backlog.capacity, self.sources.as_mut_slice()) {
            (_, []) => {}
            (&Capacity::Constant(rate), [Source { arrivals: Arrivals::Poisson(poisson), size, units }])
                if self.queue.stays.is_none() =>
            {
                return self.queue.enter_poisson(rate.bits_per_sec, poisson, *size, *units, now);
            }
            (_, sources) => self.queue.enter_all(sources, now),
        }
        self.queue.backlog.advance(now);
    }
}

impl ServerQueue {
    fn accept(&mut self, now: u64, size: u32) -> Verdict {
        if let Some(up) = &mut self.up_to_enter
            && !up.at(now)
        {
            return Verdict::Down;
        }
        let units = u64::from(size) * UNITS_PER_BYTE;
        let found_units = self.backlog.units();
        let mut marked = false;
        let discipline = self.discipline.at(now);
        let is_certain = discipline.surely_admits(self.backlog.most_packets() + 1, found_units + units);
        if !is_certain || discipline.marks() {
            let waiting = self.backlog.waiting();
            if found_units > 0 && !self.takes(discipline, waiting, size, units) {
                return Verdict::Full;
            }
            marked = discipline.is_marked(waiting);
        }
        self.push(now, units, true);
        match self.backlog.departure() {
            Departure::At(at) => Verdict::Departs { at, found_units, marked },
            Departure::Flushed(at) => Verdict::Flushed(at),
            Departure::Never => Verdict::Stays,
        }
    }

    fn takes(&self, discipline: DropTail, waiting: Waiting, size: u32, units: u64) -> bool {
        discipline.admits(waiting, u64::from(size)) && self.backlog.can_count(units)
    }

    /// Enters the arrivals of any sources up to `now`, one by one.
    fn enter_all(&mut self, sources: &mut [Source], now: u64) {
        while let Some((time, source)) = earliest(sources, now) {
            self.enter_one(time, source.size, source.units);
            source.pop();
        }
    }

    /// Enters the arrivals up to `now` of a single Poisson source at a server of constant rate, and moves on
    /// to `now`.
    #[inline]
    fn enter_poisson(&mut self, rate: u64, poisson: &mut Poisson, size: u32, units: u64, now: u64) {
        while let Some(time) = self.enter_certain(rate, poisson, units, now) {
            self.enter_one(time, size, units);
            poisson.pop();
        }
    }

    /// Enters arrivals that are certain to be taken, up to `now` or to the first one about which there is
    /// something to decide. Returns the time of that one.
    #[inline]
    fn enter_certain(&mut self, rate: u64, poisson: &mut Poisson, units: u64, now: u64) -> Option<u64> {
        let start = self.backlog.at();
        if rate.checked_mul(now - start).is_none_or(|work| work >= MOST_WORK_AT_ONCE) {
            let next = poisson.peek();
            self.backlog.advance(next.min(now));
            return (next <= now).then_some(next);
        }
        let sure_units = self.backlog.units_beside_listed(self.sure_units);
        // Positions in the work that the server could do from `start` on: where it is when a packet arrives,
        // and where it will be when all work that is there is done.
        let mut end = self.backlog.units();
        let mut count = 0;
        let refused = poisson.take_while(now, |time| {
            let position = rate * (time - start);
            end = end.max(position);
            let is_taken = end - position + units <= sure_units;
            if is_taken {
                end += units;
                count += 1;
            }
            is_taken
        });
        let at = refused.unwrap_or(now);
        self.backlog.push_bulk(count, at, end.saturating_sub(rate * (at - start)));
        self.counted.counters.arrived += count;
        refused
    }

    /// Enters one background packet, if the discipline takes it.
    fn enter_one(&mut self, time: u64, size: u32, units: u64) {
        self.backlog.advance(time);
        self.counted.counters.arrived += 1;
        if let Some(up) = &mut self.up_to_enter
            && !up.at(time)
        {
            return self.counted.drop(time, true);
        }
        let found = self.backlog.units();
        let discipline = self.discipline.at(time);
        if found > 0 && !discipline.surely_admits(self.backlog.most_packets() + 1, found + units) {
            let waiting = self.backlog.waiting();
            if !self.takes(discipline, waiting, size, units) {
                return self.counted.drop(time, false);
            }
        }
        self.push(time, units, false);
    }

    /// Adds a packet that comes now.
    #[inline]
    fn push(&mut self, now: u64, units: u64, is_of_interest: bool) {
        match &mut self.stays {
            None => self.backlog.push(units),
            Some(stays) => stays.push(&mut self.backlog, now, units, is_of_interest),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;
    use anabranch_transport::units::Rate;
    use proptest::prelude::*;

    use super::super::cross_traffic::{CrossTrafficConfig, PoissonConfig};
    use super::super::qdisc::{DropTailConfig, QueueConfig};
    use super::*;
    use crate::schedule::Schedule;

    const RATE: u64 = 1_000_000;

    fn server(load: u64, limit: u32, seed: u64) -> Server {
        let queue = QueueConfig::DropTail(DropTailConfig {
            packets: Some(Schedule::Constant(limit)),
            ..Default::default()
        });
        let rate = Some(Rate::from_bits_per_sec(load));
        let traffic = CrossTrafficConfig::Poisson(PoissonConfig { rate, ..Default::default() });
        let streams = Streams { seed, replication: 0 };
        let source = traffic.build(streams, "traffic", Some(RATE), "traffic").unwrap();
        Server::new(
            Capacity::Constant(ConstantRate::new(RATE)),
            queue.drop_tail("queue", "here").unwrap(),
            vec![source],
            false,
        )
    }

    proptest! {
        /// Counting what is certainly accepted by its work agrees with counting the packets one by one.
        #[test]
        fn counting_by_work_changes_nothing(
            load in 500_000..1_500_000u64,
            limit in 5..60u32,
            seed in any::<u64>(),
            packets in prop::collection::vec((0..2_000_000_000u64, 1..1500u32), 1..60),
        ) {
            let mut quick = server(load, limit, seed);
            let mut careful = server(load, limit, seed);
            careful.queue.sure_units = 0;
            let asked = Asked::default();
            let mut now = 0;
            for (gap, size) in packets {
                now += gap;
                prop_assert_eq!(quick.accept(&asked, now, size), careful.accept(&asked, now, size));
                prop_assert_eq!(quick.queue.counted.counters, careful.queue.counted.counters);
                prop_assert_eq!(quick.queue.backlog.waiting(), careful.queue.backlog.waiting());
            }
        }
    }
}
