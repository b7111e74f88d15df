//! The event queue.
//!
//! Events are ordered by (time, class, component, sequence). The sequence counts all insertions, but
//! decides only among events of one component at one time: an event's place does not depend on what
//! else was scheduled, so fusing a chain of links or adding a flow leaves the order of everything else
//! unchanged.
//!
//! Packets that arrive over one direction of a link mostly arrive in the order in which they are scheduled,
//! so each has a queue ([`Lane`]) of which only the first event is among the others: a run of a few flows has
//! about ten of those waiting, where a sorted list is cheaper than a heap. The next events are in short
//! sorted lists; those after them, if any, are in a queue while each comes after all that are there, and
//! otherwise in heaps. Events of packets have a list of their own.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use anabranch_transport::time::Time;

use crate::net::Ring;

/// The kind of an event. The order of the variants is the order of events at equal times: departures from a
/// medium before arrivals at it, packets first, timers before application ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A medium acts, and packets leave it; the component is the medium.
    Medium,
    /// A packet reaches a link of its route, or the part of a link where its loss is drawn; the
    /// component is its route.
    Link,
    /// A packet reaches the endpoint at the end of its route.
    Endpoint,
    /// A timer of an endpoint; the component is flow x 2 + side.
    Timer,
    /// An application wants to act; the component is its flow.
    App,
    /// An address of a host changes; the component is the flow.
    Host,
}

/// An event that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    pub(super) time: Time,
    /// Class in the upper 3 bits, component in 24, sequence in 37.
    order: u64,
    /// The packet's slot, if the event is about a packet.
    pub(super) slot: u32,
    /// The lane whose first event it is, if it is that.
    lane: u32,
}

/// The lane of events that are in none.
const NO_LANE: u32 = u32::MAX;

const CLASS_SHIFT: u32 = 61;
const COMPONENT_SHIFT: u32 = 37;
const COMPONENT_MASK: u64 = (1 << 24) - 1;
const SEQUENCE_MASK: u64 = (1 << COMPONENT_SHIFT) - 1;

impl Scheduled {
    /// After everything that can be scheduled.
    const NEVER: Self = Self { time: Time::NEVER, order: u64::MAX, slot: 0, lane: NO_LANE };

    pub(super) const fn class(&self) -> Class {
        // One for every number that fits into 3 bits, so that an index needs no check.
        const CLASSES: [Class; 8] = [
            Class::Medium,
            Class::Link,
            Class::Endpoint,
            Class::Timer,
            Class::App,
            Class::Host,
            Class::Host,
            Class::Host,
        ];
        CLASSES[(self.order >> CLASS_SHIFT) as usize]
    }

    pub(super) const fn component(&self) -> u32 {
        (self.order >> COMPONENT_SHIFT & COMPONENT_MASK) as u32
    }

    /// Time and order, compared as one number.
    const fn key(&self) -> u128 {
        (self.time.as_nanos() as u128) << 64 | self.order as u128
    }
}

impl Default for Scheduled {
    fn default() -> Self {
        Self::NEVER
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events that wait.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    packets: Line,
    lanes: Vec<Lane>,
    alarms: Line,
    /// Number of insertions so far.
    sequence: u64,
}

impl EventQueue {
    /// A queue without events, with this many lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self { lanes: (0..lanes).map(|_| Lane::default()).collect(), ..Self::default() }
    }

    /// Schedules an event of a medium, a timer or an application.
    pub(super) fn push(&mut self, time: Time, class: Class, component: u32) {
        let order = self.order(class, component);
        self.alarms.insert(time, order, 0, NO_LANE);
    }

    /// Schedules an event of the packet in this slot.
    pub(super) fn push_packet(&mut self, time: Time, class: Class, component: u32, slot: u32) {
        let order = self.order(class, component);
        self.packets.insert(time, order, slot, NO_LANE);
    }

    /// Schedules an event of the packet in this slot, which mostly comes after those of its lane.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one call per packet")]
    pub(super) fn push_in_lane(&mut self, time: Time, class: Class, component: u32, slot: u32, lane: u32) {
        let order = self.order(class, component);
        let Lane { last, waiting } = &mut self.lanes[lane as usize];
        let (last_time, last_order) = *last;
        if last_time.is_never() {
            *last = (time, order);
            self.packets.insert(time, order, slot, lane);
        } else if time > last_time || (time == last_time && order > last_order) {
            *last = (time, order);
            waiting.push_back(Scheduled { time, order, slot, lane });
        } else {
            self.packets.insert(time, order, slot, NO_LANE);
        }
    }

    /// Takes the next event.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "there is one caller, which decides the same once more")]
    pub(super) fn pop(&mut self) -> Option<Scheduled> {
        if self.packets.first < self.alarms.first {
            let event = self.packets.first;
            if event.lane == NO_LANE {
                self.packets.remove_first();
            } else {
                self.follow(event.lane);
            }
            return Some(event);
        }
        let event = self.alarms.first;
        if event.time.is_never() {
            return None;
        }
        self.alarms.remove_first();
        Some(event)
    }

    /// Puts the next event of this lane in the place of its first one, which is the first of all.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "there is one caller")]
    fn follow(&mut self, lane: u32) {
        let Lane { last, waiting } = &mut self.lanes[lane as usize];
        if let Some(&mut next) = waiting.front_mut() {
            waiting.pop_front();
            self.packets.replace_first(next);
        } else {
            last.0 = Time::NEVER;
            self.packets.remove_first();
        }
    }

    /// The time of the next event; never if there is none.
    pub(super) fn next_time(&self) -> Time {
        self.packets.first.time.min(self.alarms.first.time)
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        let later = |line: &Line| line.queue.capacity() + line.heap.capacity();
        let lanes: usize = self.lanes.iter().map(|lane| lane.waiting.memory()).sum();
        let later = later(&self.packets) + later(&self.alarms);
        size_of::<Self>() + later * size_of::<Scheduled>() + lanes
    }

    #[inline]
    fn order(&mut self, class: Class, component: u32) -> u64 {
        let sequence = self.sequence & SEQUENCE_MASK;
        self.sequence += 1;
        (class as u64) << CLASS_SHIFT | u64::from(component) << COMPONENT_SHIFT | sequence
    }
}

/// Events that come one after the other, of which the first is among those of all lanes.
#[derive(Debug)]
struct Lane {
    /// Time and order of the last of them; the time is `Time::NEVER` if there is none.
    last: (Time, u64),
    /// The events after the first.
    waiting: Ring<Scheduled>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { last: (Time::NEVER, 0), waiting: Ring::default() }
    }
}

/// Places of a sorted list; a power of two.
const PLACES: usize = 32;

/// Events in their order.
#[derive(Debug)]
struct Line {
    /// The first event; its time is `Time::NEVER` if there is none.
    first: Scheduled,
    /// The events after it: those at the positions from `head` to before `tail`, modulo the number of places.
    next: [Scheduled; PLACES],
    head: usize,
    tail: usize,
    /// The events after all of those, in their order.
    queue: VecDeque<Scheduled>,
    /// Those that came after one that is later than they are, which is in the queue.
    heap: BinaryHeap<Reverse<Scheduled>>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            first: Scheduled::NEVER,
            next: [Scheduled::NEVER; PLACES],
            head: 0,
            tail: 0,
            queue: VecDeque::new(),
            heap: BinaryHeap::new(),
        }
    }
}

impl Line {
    #[inline]
    fn remove_first(&mut self) {
        if self.head == self.tail {
            return self.refill();
        }
        self.first = self.next[self.head % PLACES];
        self.head = self.head.wrapping_add(1);
    }

    /// Puts another event, which is later, in the place of the first one.
    #[inline]
    fn replace_first(&mut self, event: Scheduled) {
        if !self.queue.is_empty() {
            self.remove_first();
            return self.insert_again(event.time, event.order, event.slot, event.lane);
        }
        if self.head == self.tail || event < self.next[self.head % PLACES] {
            self.first = event;
            return;
        }
        // The events before it move forward by one.
        self.first = self.next[self.head % PLACES];
        let mut place = self.head;
        loop {
            let after = place.wrapping_add(1);
            if after == self.tail || event < self.next[after % PLACES] {
                break;
            }
            self.next[place % PLACES] = self.next[after % PLACES];
            place = after;
        }
        self.next[place % PLACES] = event;
    }

    /// Takes single fields, which stay in registers: passing an event on the stack would cost more than all
    /// the rest.
    #[inline]
    fn insert(&mut self, time: Time, order: u64, slot: u32, lane: u32) {
        let event = Scheduled { time, order, slot, lane };
        let is_before = |other: &Scheduled| time < other.time || (time == other.time && order < other.order);
        if is_before(&self.first) {
            if self.first.time.is_never() {
                self.first = event;
                return;
            }
            if self.tail.wrapping_sub(self.head) == PLACES {
                self.spill();
            }
            self.head = self.head.wrapping_sub(1);
            self.next[self.head % PLACES] = self.first;
            self.first = event;
            return;
        }
        // In an empty list the last place still holds the event that has become the first one.
        if !self.queue.is_empty() && !is_before(&self.next[self.tail.wrapping_sub(1) % PLACES]) {
            return self.insert_later(time, order, slot, lane);
        }
        if self.tail.wrapping_sub(self.head) == PLACES {
            self.spill();
            return self.insert_again(time, order, slot, lane);
        }
        // The events after it move up by one.
        let mut place = self.tail;
        self.tail = self.tail.wrapping_add(1);
        while place != self.head {
            let before = place.wrapping_sub(1);
            let other = self.next[before % PLACES];
            if !is_before(&other) {
                break;
            }
            self.next[place % PLACES] = other;
            place = before;
        }
        self.next[place % PLACES] = event;
    }

    #[cold]
    fn insert_again(&mut self, time: Time, order: u64, slot: u32, lane: u32) {
        self.insert(time, order, slot, lane);
    }

    #[inline(never)]
    fn insert_later(&mut self, time: Time, order: u64, slot: u32, lane: u32) {
        let event = Scheduled { time, order, slot, lane };
        if self.queue.back().is_none_or(|last| *last < event) {
            self.queue.push_back(event);
        } else {
            self.heap.push(Reverse(event));
        }
    }

    /// Moves half of the list to the queue, whose events come after it.
    #[cold]
    fn spill(&mut self) {
        for _ in 0..PLACES / 2 {
            self.tail = self.tail.wrapping_sub(1);
            self.queue.push_front(self.next[self.tail % PLACES]);
        }
    }

    #[inline]
    fn take_later(&mut self) -> Option<Scheduled> {
        if let Some(&Reverse(earliest)) = self.heap.peek()
            && self.queue.front().is_none_or(|first| earliest < *first)
        {
            self.heap.pop();
            return Some(earliest);
        }
        self.queue.pop_front()
    }

    /// Takes the first event and half a list of those that come later.
    #[cold]
    fn refill(&mut self) {
        self.first = self.take_later().unwrap_or(Scheduled::NEVER);
        for _ in 0..PLACES / 2 {
            let Some(event) = self.take_later() else { return };
            self.next[self.tail % PLACES] = event;
            self.tail = self.tail.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(event: Scheduled) -> (Class, u32, u32) {
        (event.class(), event.component(), event.slot)
    }

    #[test]
    fn equal_times_are_ordered_by_class_component_and_sequence() {
        let mut queue = EventQueue::default();
        let at = Time::from_secs(1);
        queue.push(at, Class::App, 0);
        queue.push(at, Class::Timer, 2);
        queue.push(at, Class::Timer, 1);
        queue.push(at, Class::Medium, 3);
        queue.push_packet(at, Class::Link, 7, 9);
        queue.push_packet(at, Class::Link, 7, 3);
        queue.push(Time::ZERO, Class::App, 5);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(described).collect();
        let expected = [
            (Class::App, 5, 0),
            (Class::Medium, 3, 0),
            (Class::Link, 7, 9),
            (Class::Link, 7, 3),
            (Class::Timer, 1, 0),
            (Class::Timer, 2, 0),
            (Class::App, 0, 0),
        ];
        assert_eq!(order, expected);
    }

    proptest::proptest! {
        #[test]
        fn many_events_come_in_order(
            steps in proptest::collection::vec((0_u64..200, 0_u32..5, 0_usize..3), 0..400),
        ) {
            const LANES: u32 = 2;
            let mut queue = EventQueue::new(LANES as usize);
            let mut waiting = std::collections::BTreeSet::new();
            let pop = |queue: &mut EventQueue, waiting: &mut std::collections::BTreeSet<(u64, bool, u32)>| {
                let popped = queue.pop().map(|event| {
                    (event.time.as_nanos(), event.class() == Class::Timer, event.component())
                });
                proptest::prop_assert_eq!(popped, waiting.pop_first());
                Ok(())
            };
            for (index, (time, kind, pops)) in steps.into_iter().enumerate() {
                // Those of the last lane come in order.
                let time = if kind + 1 == LANES { 2 * index as u64 } else { time };
                let at = Time::from_nanos(time);
                let is_alarm = kind == 4;
                match kind {
                    0..LANES => queue.push_in_lane(at, Class::Endpoint, index as u32, 0, kind),
                    4 => queue.push(at, Class::Timer, index as u32),
                    _ => queue.push_packet(at, Class::Endpoint, index as u32, 0),
                }
                waiting.insert((time, is_alarm, index as u32));
                // At first there are more pushes than pops, so that the list overflows, and later the other
                // way round.
                for _ in 0..pops.saturating_sub(usize::from(index < 200)) {
                    pop(&mut queue, &mut waiting)?;
                }
            }
            while !waiting.is_empty() {
                pop(&mut queue, &mut waiting)?;
            }
            proptest::prop_assert!(queue.pop().is_none());
        }
    }
}
