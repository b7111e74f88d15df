//! The packets in a FIFO queue and its server, without an event for each of them.
//!
//! Kept is the unfinished work at one time, and the sizes of the packets it consists of as runs of equal
//! size, in positions of accepted work. How many packets wait follows from the two when a discipline
//! asks; otherwise a packet costs a few additions, and a thousand equal packets cost as much as one.

use super::capacity::{Capacity, Departure, MAX_BACKLOG_UNITS, UNITS_PER_BYTE};

/// Unfinished work and what it consists of.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    pub(crate) capacity: Capacity,
    /// The time up to which everything is accounted for, in nanoseconds.
    at: u64,
    /// Unfinished work at that time, in units of [`UNITS_PER_BYTE`].
    units: u64,
    /// All work accepted so far, wrapping; the position of the queue's tail.
    tail: u64,
    runs: Runs,
    /// Packets in `runs`: at least the packets in the system, since served ones are removed late.
    listed: u64,
}

/// Packets of equal size one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    packets: u64,
    /// Work per packet.
    units: u64,
    /// Position of the end of its last packet.
    end: u64,
}

/// What waits for service; the packet in service does not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { capacity, at: 0, units: 0, tail: 0, runs: Runs::default(), listed: 0 }
    }

    /// Moves on to `now` (nanoseconds), which never decreases.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        self.units = self.capacity.drain(self.units, self.at, now);
        self.at = now;
        if self.units == 0 {
            self.runs.clear();
            self.listed = 0;
        }
    }

    /// The time up to which everything is accounted for, in nanoseconds.
    #[inline]
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Unfinished work now.
    #[inline]
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// When all the work that is there now will be done.
    #[inline]
    pub(crate) fn departure(&self) -> Departure {
        self.capacity.departure(self.units, self.at)
    }

    /// An upper bound of the packets in the system.
    #[inline]
    pub(crate) fn listed(&self) -> u64 {
        self.listed
    }

    /// Adds one packet.
    #[inline]
    pub(crate) fn push(&mut self, units: u64) {
        self.units += units;
        self.list(1, units);
    }

    /// Whether one more packet of this work could be counted at all.
    #[inline]
    pub(crate) fn can_count(&self, units: u64) -> bool {
        self.units + units < MAX_BACKLOG_UNITS
    }

    /// Enters that `packets` packets arrived up to `now` and left `left` units unfinished.
    #[inline]
    pub(crate) fn push_served(&mut self, packets: u64, units: u64, now: u64, left: u64) {
        self.list(packets, units);
        self.at = now;
        self.units = left;
    }

    #[inline]
    fn list(&mut self, packets: u64, units: u64) {
        self.tail = self.tail.wrapping_add(packets * units);
        self.listed += packets;
        match self.runs.back_mut() {
            Some(run) if run.units == units => {
                run.packets += packets;
                run.end = self.tail;
            }
            _ => {
                self.remove_served_runs();
                self.runs.push_back(Run { packets, units, end: self.tail });
            }
        }
    }

    /// Removes the runs that have been served whole, so that the list stays as short as the queue.
    fn remove_served_runs(&mut self) {
        let head = self.tail.wrapping_sub(self.units);
        while let Some(run) = self.runs.front() {
            if (head.wrapping_sub(run.end) as i64) < 0 {
                break;
            }
            self.listed -= run.packets;
            self.runs.pop_front();
        }
    }

    /// What waits now, exactly.
    pub(crate) fn waiting(&mut self) -> Waiting {
        if self.units == 0 {
            return Waiting::default();
        }
        self.remove_served_runs();
        let head = self.tail.wrapping_sub(self.units);
        let first = self.runs.front_mut().expect("unfinished work belongs to a packet");
        let left = first.end.wrapping_sub(head).div_ceil(first.units);
        self.listed -= first.packets - left;
        first.packets = left;
        let in_service_end = first.end.wrapping_sub((left - 1) * first.units);
        let waiting_units = self.tail.wrapping_sub(in_service_end);
        Waiting { packets: self.listed - 1, bytes: waiting_units / UNITS_PER_BYTE }
    }
}

/// A ring of runs that grows and never shrinks: no allocation in steady state.
#[derive(Clone, Debug, Default)]
struct Runs {
    slots: Vec<Run>,
    head: usize,
    length: usize,
}

impl Runs {
    fn clear(&mut self) {
        self.length = 0;
    }

    fn index(&self, position: usize) -> usize {
        (self.head + position) & (self.slots.len() - 1)
    }

    fn front(&self) -> Option<Run> {
        (self.length > 0).then(|| self.slots[self.head])
    }

    fn front_mut(&mut self) -> Option<&mut Run> {
        if self.length == 0 { None } else { Some(&mut self.slots[self.head]) }
    }

    fn back_mut(&mut self) -> Option<&mut Run> {
        if self.length == 0 {
            return None;
        }
        let index = self.index(self.length - 1);
        Some(&mut self.slots[index])
    }

    fn pop_front(&mut self) {
        self.head = self.index(1);
        self.length -= 1;
    }

    fn push_back(&mut self, run: Run) {
        if self.length == self.slots.len() {
            self.slots.rotate_left(self.head);
            self.head = 0;
            self.slots.resize((self.slots.len() * 2).max(8), Run::default());
        }
        let index = self.index(self.length);
        self.slots[index] = run;
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_waits_but_not_what_is_in_service() {
        // 8 bit/s: one byte per second.
        let second = 1_000_000_000;
        let mut backlog = Backlog::new(Capacity::Constant(8));
        assert_eq!(backlog.waiting(), Waiting::default());
        for bytes in [2, 3, 3, 1] {
            backlog.push(bytes * UNITS_PER_BYTE);
        }
        assert_eq!(backlog.waiting(), Waiting { packets: 3, bytes: 7 });
        backlog.advance(2 * second - 1);
        assert_eq!(backlog.waiting(), Waiting { packets: 3, bytes: 7 });
        backlog.advance(2 * second);
        assert_eq!(backlog.waiting(), Waiting { packets: 2, bytes: 4 });
        backlog.advance(5 * second);
        assert_eq!(backlog.waiting(), Waiting { packets: 1, bytes: 1 });
        backlog.advance(8 * second);
        assert_eq!(backlog.waiting(), Waiting { packets: 0, bytes: 0 });
        assert_eq!(backlog.departure(), Departure::At(9 * second));
        backlog.advance(9 * second);
        assert_eq!((backlog.units(), backlog.listed()), (0, 0));
    }

    #[test]
    fn the_ring_keeps_its_order_when_it_grows() {
        let mut backlog = Backlog::new(Capacity::Constant(8));
        let mut bytes = 0;
        for size in 1..100 {
            backlog.push(size * UNITS_PER_BYTE);
            bytes += size;
            if size == 6 {
                backlog.advance(6_000_000_000);
            }
        }
        // 1, 2 and 3 bytes were served in the six seconds; 4 bytes are in service.
        assert_eq!(backlog.waiting(), Waiting { packets: 99 - 4, bytes: bytes - 10 });
    }
}
