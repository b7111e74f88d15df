//! The event queue.
//!
//! Events are ordered by (time, class, component, sequence). The sequence counts all insertions, but
//! decides only among events of one component at one time: an event's place does not depend on what
//! else was scheduled, so fusing a chain of links or adding a flow leaves the order of everything else
//! unchanged.
//!
//! A run of a few flows has about ten events waiting, where a sorted list is cheaper than a heap; so
//! the next events are in a short sorted list, and those after them, if any, in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::time::Time;

/// What an event is about; the order of the variants is the order of events at equal times: packets
/// first, timers before application ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A packet reaches a link of its route, or the part of a link where its loss is drawn.
    Link { component: u32, slot: u32 },
    /// A packet reaches the endpoint at the end of its route.
    Endpoint { component: u32, slot: u32 },
    /// A timer of an endpoint: flow x 2 + side.
    Timer { component: u32 },
    /// An application wants to act; the component is its flow.
    App { component: u32 },
}

/// Class in the upper 2 bits of `order`, component in 24, sequence in 38; packet slot apart.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    order: u64,
    slot: u32,
}

impl Entry {
    /// Time and order compared as one number.
    const fn key(&self) -> u128 {
        (self.time.as_nanos() as u128) << 64 | self.order as u128
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

const CLASS_SHIFT: u32 = 62;
const COMPONENT_SHIFT: u32 = 38;
const COMPONENT_MASK: u64 = (1 << 24) - 1;
const SEQUENCE_MASK: u64 = (1 << COMPONENT_SHIFT) - 1;

/// As many events as the sorted list holds at most.
const MAX_NEXT: usize = 32;

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    /// The next events, the first of them last.
    next: Vec<Entry>,
    /// What comes after all of those.
    later: BinaryHeap<Reverse<Entry>>,
    /// Insertions so far.
    sequence: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Time, target: Target) {
        let (class, component, slot): (u64, _, _) = match target {
            Target::Link { component, slot } => (0, component, slot),
            Target::Endpoint { component, slot } => (1, component, slot),
            Target::Timer { component } => (2, component, 0),
            Target::App { component } => (3, component, 0),
        };
        let sequence = self.sequence & SEQUENCE_MASK;
        self.sequence += 1;
        let order = class << CLASS_SHIFT | u64::from(component) << COMPONENT_SHIFT | sequence;
        self.insert(Entry { time, order, slot });
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Target)> {
        if self.next.is_empty() {
            self.refill();
        }
        let Entry { time, order, slot } = self.next.pop()?;
        let component = (order >> COMPONENT_SHIFT & COMPONENT_MASK) as u32;
        let target = match order >> CLASS_SHIFT {
            0 => Target::Link { component, slot },
            1 => Target::Endpoint { component, slot },
            2 => Target::Timer { component },
            _ => Target::App { component },
        };
        Some((time, target))
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        (self.next.capacity() + self.later.capacity()) * size_of::<Entry>()
    }

    fn insert(&mut self, entry: Entry) {
        if !self.later.is_empty() && self.next.first().is_none_or(|last| entry > *last) {
            self.later.push(Reverse(entry));
            return;
        }
        let sooner = self.next.iter().rev().take_while(|waiting| **waiting < entry).count();
        self.next.insert(self.next.len() - sooner, entry);
        if self.next.len() > MAX_NEXT {
            let half = self.next.drain(..MAX_NEXT / 2);
            self.later.extend(half.map(Reverse));
        }
    }

    /// Takes half a list from the heap.
    fn refill(&mut self) {
        let entries = std::iter::from_fn(|| self.later.pop()).take(MAX_NEXT / 2);
        self.next.extend(entries.map(|Reverse(entry)| entry));
        self.next.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_are_ordered_by_class_component_and_sequence() {
        let mut queue = EventQueue::default();
        let at = Time::from_secs(1);
        let app = Target::App { component: 0 };
        let timer = |component| Target::Timer { component };
        let link = |slot| Target::Link { component: 7, slot };
        for target in [app, timer(2), timer(1), link(9), link(3)] {
            queue.push(at, target);
        }
        queue.push(Time::ZERO, app);
        let order: Vec<Target> = std::iter::from_fn(|| queue.pop()).map(|(_, target)| target).collect();
        assert_eq!(order, [app, link(9), link(3), timer(1), timer(2), app]);
    }

    proptest::proptest! {
        #[test]
        fn many_events_come_in_order(steps in proptest::collection::vec((0_u64..200, 0_usize..3), 0..400)) {
            let mut queue = EventQueue::default();
            let mut waiting = std::collections::BTreeSet::new();
            for (index, (delay, pops)) in steps.into_iter().enumerate() {
                let component = index as u32;
                queue.push(Time::from_nanos(delay), Target::Timer { component });
                waiting.insert((delay, component));
                // More pushes than pops at first, so that the list overflows; the other way round later.
                for _ in 0..pops.saturating_sub(usize::from(index < 200)) {
                    let expected = waiting.pop_first().map(|(time, component)| {
                        (Time::from_nanos(time), Target::Timer { component })
                    });
                    proptest::prop_assert_eq!(queue.pop(), expected);
                }
            }
            for (time, component) in waiting {
                proptest::prop_assert_eq!(queue.pop(), Some((Time::from_nanos(time), Target::Timer { component })));
            }
            proptest::prop_assert_eq!(queue.pop(), None);
        }
    }
}
