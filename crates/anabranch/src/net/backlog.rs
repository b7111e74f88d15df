//! The packets in a FIFO queue and its server, without an event for each of them.
//!
//! What is kept is the unfinished work at one time. Packets of one size, that of the cross traffic, are
//! called the bulk and are not listed: their number follows from the work that is not of listed packets. So a
//! thousand of them cost as much as one, and how many packets wait is computed when a discipline asks.

use super::capacity::{Capacity, Departure, MAX_BACKLOG_UNITS, UNITS_PER_BYTE};
use super::packets::Waiting;
use super::ring::Ring;

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
    /// The packets that are not of the bulk: at least those that are in the system, since served ones are
    /// removed late.
    listed: Ring<Listed>,
    /// Work of all the listed packets.
    listed_units: u64,
    /// Work of a packet that is the only one in the system and is not in the list yet; 0 for none.
    unlisted_units: u64,
    bulk: Bulk,
}

/// A packet that is not of the bulk.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    /// Position of its end.
    end: u64,
    /// Its work.
    units: u64,
}

/// The one size of packets that are counted by their work.
#[derive(Clone, Copy, Debug, Default)]
struct Bulk {
    /// Work per packet; 0 if there is no such size.
    units: u64,
    /// 2^64 / `units`, rounded up; 0 if there is no such size.
    inverse: u64,
    /// 1 if there is such a size.
    is_given: u64,
}

impl Bulk {
    fn new(units: u64) -> Self {
        Self { units, inverse: u64::MAX / units + 1, is_given: 1 }
    }

    /// The most packets, one of them perhaps served in part, that can make up this much work.
    #[inline]
    fn most_packets(self, units: u64) -> u64 {
        ((u128::from(units) * u128::from(self.inverse)) >> 64) as u64 + self.is_given
    }
}

impl Backlog {
    /// `bulk_units` is the work of a packet of the bulk, if there is one.
    pub(crate) fn new(capacity: Capacity, bulk_units: Option<u64>) -> Self {
        Self {
            capacity,
            at: 0,
            units: 0,
            tail: 0,
            listed: Ring::default(),
            listed_units: 0,
            unlisted_units: 0,
            bulk: bulk_units.map_or_else(Bulk::default, Bulk::new),
        }
    }

    /// Moves on to `now` (nanoseconds), which never decreases.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its callers on the path of every packet are few")]
    pub(crate) fn advance(&mut self, now: u64) {
        self.units = self.capacity.drain(self.units, self.at, now);
        self.at = now;
        if self.units == 0 {
            self.clear_list();
        } else {
            self.list_the_unlisted();
            self.remove_served();
        }
    }

    /// Moves on to `now`, by which all work is done, and adds one packet.
    #[inline]
    pub(crate) fn restart(&mut self, now: u64, units: u64) {
        self.clear_list();
        self.at = now;
        self.units = units;
        self.tail = self.tail.wrapping_add(units);
        self.unlisted_units = units;
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

    /// When all the present work will be done.
    #[inline]
    pub(crate) fn departure(&self) -> Departure {
        self.capacity.departure(self.units, self.at)
    }

    /// An upper bound of the packets in the system.
    #[inline]
    pub(crate) fn most_packets(&self) -> u64 {
        let listed = self.listed.len() as u64 + u64::from(self.unlisted_units > 0);
        listed + self.bulk.most_packets(self.units)
    }

    /// Adds one packet.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its callers on the path of every packet are few")]
    pub(crate) fn push(&mut self, units: u64) {
        self.list_the_unlisted();
        self.units += units;
        self.tail = self.tail.wrapping_add(units);
        if units != self.bulk.units {
            self.list(units);
        }
    }

    /// Whether another packet of this work could be counted.
    #[inline]
    pub(crate) fn can_count(&self, units: u64) -> bool {
        self.units + units < MAX_BACKLOG_UNITS
    }

    /// Notes that `packets` packets of the bulk arrived up to `now` and left `left` units unfinished.
    #[inline]
    pub(crate) fn push_bulk(&mut self, packets: u64, now: u64, left: u64) {
        debug_assert_eq!(self.unlisted_units, 0, "a queue with a bulk lists its packets at once");
        self.at = now;
        self.units = left;
        self.tail = self.tail.wrapping_add(packets * self.bulk.units);
        self.remove_served();
    }

    /// `units` less the work of one packet of the bulk for each listed packet.
    #[inline]
    pub(crate) fn units_beside_listed(&self, units: u64) -> u64 {
        units.saturating_sub((self.listed.len() as u64).saturating_mul(self.bulk.units))
    }

    #[inline]
    fn list(&mut self, units: u64) {
        self.listed.push_back(Listed { end: self.tail, units });
        self.listed_units += units;
    }

    #[inline]
    fn list_the_unlisted(&mut self) {
        if self.unlisted_units > 0 {
            self.list(self.unlisted_units);
            self.unlisted_units = 0;
        }
    }

    #[inline]
    fn clear_list(&mut self) {
        self.listed.clear();
        self.listed_units = 0;
        self.unlisted_units = 0;
    }

    /// Removes served packets, often enough that positions can be compared although they wrap.
    #[inline]
    fn remove_served(&mut self) {
        let head = self.tail.wrapping_sub(self.units);
        while let Some(&mut Listed { end, units }) = self.listed.front_mut() {
            if (head.wrapping_sub(end) as i64) < 0 {
                break;
            }
            self.listed_units -= units;
            self.listed.pop_front();
        }
    }

    /// What waits now, exactly.
    pub(crate) fn waiting(&mut self) -> Waiting {
        if self.units == 0 {
            return Waiting::default();
        }
        self.list_the_unlisted();
        self.remove_served();
        let head = self.tail.wrapping_sub(self.units);
        // The rest of the packet in service, if all work is of the bulk.
        let left_of_bulk = |work: u64| (work - 1) % self.bulk.units + 1;
        let (in_service, listed_units) = match self.listed.front_mut() {
            None => (left_of_bulk(self.units), 0),
            Some(first) => {
                let left = first.end.wrapping_sub(head);
                if left > first.units {
                    (left_of_bulk(left - first.units), self.listed_units)
                } else {
                    (left, self.listed_units - (first.units - left))
                }
            }
        };
        let bulk_units = self.units - listed_units;
        let bulk_packets = if bulk_units == 0 { 0 } else { bulk_units.div_ceil(self.bulk.units) };
        Waiting {
            packets: self.listed.len() as u64 + bulk_packets - 1,
            bytes: (self.units - in_service) / UNITS_PER_BYTE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::capacity::ConstantRate;
    use super::*;

    #[test]
    fn counts_what_waits_but_not_what_is_in_service() {
        // 8 bit/s: one byte per second.
        let second = 1_000_000_000;
        let mut backlog = Backlog::new(Capacity::Constant(ConstantRate::new(8)), None);
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
        assert_eq!((backlog.units(), backlog.most_packets()), (0, 0));
    }

    #[test]
    fn the_ring_keeps_its_order_when_it_grows() {
        let mut backlog = Backlog::new(Capacity::Constant(ConstantRate::new(8)), None);
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
