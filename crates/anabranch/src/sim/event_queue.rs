//! The event heap.
//!
//! Events are ordered by (time, class, component, per-component sequence), never by insertion order
//! across components: an event's place does not depend on what else was scheduled, so fusing a chain
//! of links or adding a flow leaves the order of everything else unchanged.

use std::cmp::Reverse;
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

/// Class in the upper 8 bits, component in 24, sequence in 32, packet slot apart: compared as one
/// number after the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: Time,
    order: u64,
    slot: u32,
}

const CLASS_SHIFT: u32 = 56;
const COMPONENT_SHIFT: u32 = 32;
const COMPONENT_MASK: u64 = (1 << 24) - 1;

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    /// The next sequence number of every component, by class.
    sequences: [Vec<u32>; 4],
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Time, target: Target) {
        let (class, component, slot) = match target {
            Target::Link { component, slot } => (0, component, slot),
            Target::Endpoint { component, slot } => (1, component, slot),
            Target::Timer { component } => (2, component, 0),
            Target::App { component } => (3, component, 0),
        };
        let sequences = &mut self.sequences[class];
        let index = component as usize;
        if sequences.len() <= index {
            sequences.resize(index + 1, 0);
        }
        let sequence = sequences[index];
        sequences[index] = sequence.wrapping_add(1);
        let order =
            (class as u64) << CLASS_SHIFT | u64::from(component) << COMPONENT_SHIFT | u64::from(sequence);
        self.heap.push(Reverse(Entry { time, order, slot }));
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Target)> {
        let Reverse(Entry { time, order, slot }) = self.heap.pop()?;
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
        self.heap.capacity() * size_of::<Entry>()
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
}
