//! The evented twin of the lazy server: every packet an object, every transmission's end an event.
//!
//! The lazy server is tested against it, and it serves a link whose queue is traced: it sees every change of
//! the queue, which the lazy one does not. Both give the same results to the nanosecond.

use std::collections::VecDeque;

use anabranch_transport::time::Time;

use super::capacity::{Departure, MAX_BACKLOG_UNITS, UNITS_PER_BYTE, Varying};
use super::counted::Counted;
use super::cross_traffic::{CrossCounters, Source, earliest};
use super::ground::{QueueSample, Verdict, Waiting};
use super::qdisc::DropTail;
use crate::schedule::Timeline;

/// A first-in-first-out server, event by event.
#[derive(Clone, Debug)]
pub(crate) struct EventedServer {
    line: Line,
    discipline: Timeline<DropTail>,
    sources: Vec<Source>,
    counted: Counted,
    next_id: u64,
    samples: Vec<QueueSample>,
    /// When the service of the packet that came last begins, and when it leaves, in nanoseconds; kept until
    /// it is taken.
    service: Option<(u64, u64)>,
}

/// The packets in the system and the time.
#[derive(Clone, Debug)]
struct Line {
    now: u64,
    capacity: Varying,
    packets: VecDeque<Queued>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    id: u64,
    bytes: u64,
    /// Work left to do.
    units: u64,
}

impl Line {
    fn rate(&self) -> u64 {
        if self.capacity.up.value() { self.capacity.rate.value() } else { 0 }
    }

    /// The end of the transmission in progress, if it ends at the present rate.
    fn completion(&self) -> u64 {
        match (self.packets.front(), self.rate()) {
            (None, _) | (_, 0) => u64::MAX,
            (Some(first), rate) => self.now + first.units.div_ceil(rate),
        }
    }

    fn change(&self) -> u64 {
        self.capacity.rate.until().min(self.capacity.up.until())
    }

    /// Sends until `to`, at most until the next completion or change; the unused part of the last nanosecond
    /// goes to the next packet.
    fn send_until(&mut self, to: u64) {
        let mut work = self.rate().saturating_mul(to - self.now);
        self.now = to;
        while work > 0 {
            let Some(first) = self.packets.front_mut() else { break };
            let done = work.min(first.units);
            first.units -= done;
            work -= done;
            if first.units == 0 {
                self.packets.pop_front();
            }
        }
    }

    /// Applies what the timetables say for the present time. Returns whether the queue was emptied.
    fn change_now(&mut self) -> bool {
        let was_up = self.capacity.up.value();
        self.capacity.rate.at(self.now);
        let is_up = self.capacity.up.at(self.now);
        let flushes = self.capacity.flush_when_down && was_up && !is_up && !self.packets.is_empty();
        if flushes {
            self.packets.clear();
        }
        flushes
    }

    fn waiting(&self) -> Waiting {
        Waiting {
            packets: self.packets.len().saturating_sub(1) as u64,
            bytes: self.packets.iter().skip(1).map(|packet| packet.bytes).sum(),
        }
    }

    fn units(&self) -> u64 {
        self.packets.iter().map(|packet| packet.units).sum()
    }

    /// Whether the last packet is still in it.
    fn holds_last(&self, id: u64) -> bool {
        self.packets.back().is_some_and(|packet| packet.id == id)
    }
}

impl EventedServer {
    pub(crate) fn new(capacity: Varying, discipline: Timeline<DropTail>, sources: Vec<Source>) -> Self {
        Self {
            line: Line { now: 0, capacity, packets: VecDeque::new() },
            discipline,
            sources,
            counted: Counted::default(),
            next_id: 0,
            samples: Vec::new(),
            service: None,
        }
    }

    /// Bytes of memory that the samples use.
    pub(crate) fn trace_memory(&self) -> usize {
        self.samples.capacity() * size_of::<QueueSample>()
    }

    /// Takes the samples of the queue gathered so far.
    pub(crate) fn take_samples(&mut self) -> Vec<QueueSample> {
        std::mem::take(&mut self.samples)
    }

    /// When the service of the packet that came last begins, and when it leaves, in nanoseconds. [`None`] if
    /// it is not served, or if this was asked before.
    pub(crate) fn take_service(&mut self) -> Option<(u64, u64)> {
        self.service.take()
    }

    /// Runs to the end of the run, unless it is beyond it already, and counts cross traffic up to it.
    pub(crate) fn finish(&mut self, end: u64) {
        self.advance(end.max(self.line.now));
        self.counted.finish(self.line.now, end);
    }

    pub(crate) fn cross_counters(&self) -> CrossCounters {
        self.counted.counters
    }

    pub(crate) fn counted_mut(&mut self) -> &mut Counted {
        &mut self.counted
    }

    pub(crate) fn accept(&mut self, now: u64, size: u32) -> Verdict {
        self.advance(now);
        if self.is_closed() {
            return Verdict::Down;
        }
        let found_units = self.line.units();
        let marked = self.discipline.at(now).is_marked(self.line.waiting());
        let Some(id) = self.enter(size) else { return Verdict::Full };
        let (begun, departure) = departure(id, self.line.clone());
        match departure {
            Departure::At(at) => {
                self.service = Some((begun, at));
                Verdict::Departs { at, found_units, marked }
            }
            Departure::Flushed(at) => Verdict::Flushed(at),
            Departure::Never => Verdict::Stays,
        }
    }

    /// Runs all events up to `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        self.counted.before_taking(&self.sources, self.line.now, now);
        loop {
            let arrival = earliest(&mut self.sources, now).map_or(u64::MAX, |(time, _)| time);
            let completion = self.line.completion();
            let change = self.line.change();
            let next = arrival.min(completion).min(change);
            self.line.send_until(next.min(now));
            if next > now {
                return;
            }
            if completion == next {
                self.sample();
            }
            if change == next && self.line.change_now() {
                self.sample();
            }
            if arrival == next {
                let (_, source) = earliest(&mut self.sources, now).expect("it was there");
                let size = source.size;
                source.pop();
                self.counted.counters.arrived += 1;
                if self.is_closed() {
                    self.counted.drop(next, true);
                } else if self.enter(size).is_none() {
                    self.counted.drop(next, false);
                }
            }
        }
    }

    /// Whether the link is down and accepts nothing.
    fn is_closed(&self) -> bool {
        self.line.capacity.flush_when_down && !self.line.capacity.up.value()
    }

    /// Takes one packet, unless the discipline drops it.
    fn enter(&mut self, size: u32) -> Option<u64> {
        let bytes = u64::from(size);
        let units = bytes * UNITS_PER_BYTE;
        if !self.line.packets.is_empty() {
            let is_countable = self.line.units() + units < MAX_BACKLOG_UNITS;
            let discipline = self.discipline.at(self.line.now);
            if !discipline.admits(self.line.waiting(), bytes) || !is_countable {
                return None;
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        self.line.packets.push_back(Queued { id, bytes, units });
        self.sample();
        Some(id)
    }

    fn sample(&mut self) {
        let Waiting { packets, bytes } = self.line.waiting();
        self.samples.push(QueueSample { time: Time::from_nanos(self.line.now), packets, bytes });
    }
}

/// Lets a copy of the line run on until the packet, which came last, has left it, and also says when its
/// service begins. What arrives later does not matter to a packet in a first-in-first-out queue.
fn departure(id: u64, mut line: Line) -> (u64, Departure) {
    let mut begun = None;
    for _ in 0..Varying::MAX_CHANGES {
        if begun.is_none() && line.packets.front().is_some_and(|first| first.id == id) {
            begun = Some(line.now);
        }
        let completion = line.completion();
        let change = line.change();
        let next = completion.min(change);
        // The packets for which the rest of a nanosecond is enough begin and leave within it.
        let begun = begun.unwrap_or(next);
        if next == u64::MAX {
            return (begun, Departure::Never);
        }
        line.send_until(next);
        if !line.holds_last(id) {
            return (begun, Departure::At(next));
        }
        if change == next && line.change_now() {
            return (begun, Departure::Flushed(next));
        }
    }
    (u64::MAX, Departure::Never)
}
