//! The event queue.
//!
//! Events are ordered by (time, class, component, sequence). The sequence counts all insertions, but
//! decides only among events of one component at one time: an event's place does not depend on what
//! else was scheduled, so fusing a chain of links or adding a flow leaves the order of everything else
//! unchanged.
//!
//! A run of a few flows has about ten events waiting, where a sorted list is cheaper than a heap; so
//! the next events are in a short sorted list, and those after them, if any, in a heap.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::time::Time;

/// What an event is about; the order of the variants is the order of events at equal times: packets
/// first, timers before application ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A packet reaches a link of its route, or the part of a link where its loss is drawn; the
    /// component is its route.
    Link,
    /// A packet reaches the endpoint at the end of its route.
    Endpoint,
    /// A timer of an endpoint; the component is flow x 2 + side.
    Timer,
    /// An application wants to act; the component is its flow.
    App,
}

/// An event that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    pub(super) time: Time,
    /// Class in the upper 2 bits, component in 24, sequence in 38.
    order: u64,
    /// The packet's slot, where it is about one.
    pub(super) slot: u32,
}

const CLASS_SHIFT: u32 = 62;
const COMPONENT_SHIFT: u32 = 38;
const COMPONENT_MASK: u64 = (1 << 24) - 1;
const SEQUENCE_MASK: u64 = (1 << COMPONENT_SHIFT) - 1;

impl Scheduled {
    pub(super) const fn class(&self) -> Class {
        match self.order >> CLASS_SHIFT {
            0 => Class::Link,
            1 => Class::Endpoint,
            2 => Class::Timer,
            _ => Class::App,
        }
    }

    pub(super) const fn component(&self) -> u32 {
        (self.order >> COMPONENT_SHIFT & COMPONENT_MASK) as u32
    }

    /// Time and order, compared as one number.
    const fn key(&self) -> u128 {
        (self.time.as_nanos() as u128) << 64 | self.order as u128
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

/// As many events as the sorted list holds at most.
const MAX_NEXT: usize = 32;

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    /// The next events, the first of them last.
    next: Vec<Scheduled>,
    /// What comes after all of those.
    later: BinaryHeap<Reverse<Scheduled>>,
    /// Insertions so far.
    sequence: u64,
}

impl EventQueue {
    /// Schedules an event of a timer or an application.
    pub(super) fn push(&mut self, time: Time, class: Class, component: u32) {
        self.push_packet(time, class, component, 0);
    }

    /// Schedules an event of the packet in this slot.
    pub(super) fn push_packet(&mut self, time: Time, class: Class, component: u32, slot: u32) {
        let sequence = self.sequence & SEQUENCE_MASK;
        self.sequence += 1;
        let order = (class as u64) << CLASS_SHIFT | u64::from(component) << COMPONENT_SHIFT | sequence;
        self.insert(Scheduled { time, order, slot });
    }

    pub(super) fn pop(&mut self) -> Option<Scheduled> {
        if self.next.is_empty() {
            self.refill();
        }
        self.next.pop()
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        (self.next.capacity() + self.later.capacity()) * size_of::<Scheduled>()
    }

    fn insert(&mut self, event: Scheduled) {
        if !self.later.is_empty() && self.next.first().is_none_or(|last| event > *last) {
            return self.insert_later(event);
        }
        self.next.push(event);
        // What comes before it moves up by one.
        let places = Cell::from_mut(self.next.as_mut_slice()).as_slice_of_cells();
        if let Some((mut hole, sooner)) = places.split_last() {
            for place in sooner.iter().rev() {
                if place.get() > event {
                    break;
                }
                hole.set(place.get());
                hole = place;
            }
            hole.set(event);
        }
        if self.next.len() > MAX_NEXT {
            self.spill();
        }
    }

    #[cold]
    fn insert_later(&mut self, event: Scheduled) {
        self.later.push(Reverse(event));
    }

    /// Moves half of the list to the heap.
    #[cold]
    fn spill(&mut self) {
        self.later.extend(self.next.drain(..MAX_NEXT / 2).map(Reverse));
    }

    /// Takes half a list from the heap.
    #[cold]
    fn refill(&mut self) {
        let events = std::iter::from_fn(|| self.later.pop()).take(MAX_NEXT / 2);
        self.next.extend(events.map(|Reverse(event)| event));
        self.next.reverse();
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
        queue.push_packet(at, Class::Link, 7, 9);
        queue.push_packet(at, Class::Link, 7, 3);
        queue.push(Time::ZERO, Class::App, 5);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(described).collect();
        let expected = [
            (Class::App, 5, 0),
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
        fn many_events_come_in_order(steps in proptest::collection::vec((0_u64..200, 0_usize..3), 0..400)) {
            let mut queue = EventQueue::default();
            let mut waiting = std::collections::BTreeSet::new();
            let pop = |queue: &mut EventQueue, waiting: &mut std::collections::BTreeSet<(u64, u32)>| {
                let popped = queue.pop().map(|event| (event.time.as_nanos(), event.component()));
                proptest::prop_assert_eq!(popped, waiting.pop_first());
                Ok(())
            };
            for (index, (time, pops)) in steps.into_iter().enumerate() {
                queue.push(Time::from_nanos(time), Class::Timer, index as u32);
                waiting.insert((time, index as u32));
                // More pushes than pops at first, so that the list overflows; the other way round later.
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
