//! The event queue.
//!
//! Events are ordered by (time, class, component, sequence). The sequence counts all insertions, but
//! decides only among events of one component at one time: an event's place does not depend on what
//! else was scheduled, so fusing a chain of links or adding a flow leaves the order of everything else
//! unchanged.
//!
//! Events wait in two heaps, those of packets and all others. Packets that arrive over one direction of a
//! link mostly arrive in the order in which they are scheduled, so each direction has a queue ([`Lane`]) of
//! which only the first event is in the heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

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
    packets: Heap,
    lanes: Vec<Lane>,
    alarms: Heap,
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
        self.alarms.push(Scheduled { time, order, slot: 0, lane: NO_LANE });
    }

    /// Schedules an event of the packet in this slot.
    pub(super) fn push_packet(&mut self, time: Time, class: Class, component: u32, slot: u32) {
        let order = self.order(class, component);
        self.packets.push(Scheduled { time, order, slot, lane: NO_LANE });
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
            self.packets.push(Scheduled { time, order, slot, lane });
        } else if time > last_time || (time == last_time && order > last_order) {
            *last = (time, order);
            waiting.push_back(Scheduled { time, order, slot, lane });
        } else {
            self.packets.push(Scheduled { time, order, slot, lane: NO_LANE });
        }
    }

    /// Takes the next event.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "there is one caller, which decides the same once more")]
    pub(super) fn pop(&mut self) -> Option<Scheduled> {
        if self.packets.first < self.alarms.first {
            let event = self.packets.first;
            if event.lane == NO_LANE {
                self.packets.pop();
            } else {
                self.follow(event.lane);
            }
            return Some(event);
        }
        let event = self.alarms.first;
        if event.time.is_never() {
            return None;
        }
        self.alarms.pop();
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
            self.packets.pop();
        }
    }

    /// The time of the next event; never if there is none.
    pub(super) fn next_time(&self) -> Time {
        self.packets.first.time.min(self.alarms.first.time)
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        let lanes: usize = self.lanes.iter().map(|lane| lane.waiting.memory()).sum();
        let later = self.packets.later.capacity() + self.alarms.later.capacity();
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

/// Events in their order.
#[derive(Debug, Default)]
struct Heap {
    /// The first event; its time is `Time::NEVER` if there is none.
    first: Scheduled,
    later: BinaryHeap<Reverse<Scheduled>>,
}

impl Heap {
    #[inline]
    fn push(&mut self, mut event: Scheduled) {
        if event < self.first {
            std::mem::swap(&mut event, &mut self.first);
            if event.time.is_never() {
                return;
            }
        }
        self.later.push(Reverse(event));
    }

    /// Removes the first event.
    #[inline]
    fn pop(&mut self) {
        self.first = self.later.pop().map_or(Scheduled::NEVER, |Reverse(event)| event);
    }

    /// Puts another event, which is later, in the place of the first one.
    #[inline]
    fn replace_first(&mut self, event: Scheduled) {
        self.first = match self.later.peek_mut() {
            Some(mut next) if next.0 < event => std::mem::replace(&mut *next, Reverse(event)).0,
            _ => event,
        };
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
                // At first there are more pushes than pops, and later the other way round.
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
