//! Numbers of data that was sent, and which of it is acknowledged.

use std::ops::Range;

const HALF: i64 = 1 << 31;

/// Numbers of data, of bytes in TCP and of chunks in SCTP; the end is behind the last one.
pub type Run = Range<i64>;

/// Data that was sent, and is acknowledged together or not.
#[derive(Debug)]
pub(super) struct Record {
    pub run: Run,
    pub octets: i64,
    /// On which it was sent last, and in which packet.
    pub path: usize,
    pub packet: usize,
    pub times: u32,
    pub is_acknowledged: bool,
}

/// A sequence of numbers, a path's own or one of the whole association.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// In the order of their numbers.
    pub records: Vec<Record>,
    /// The first record that is not acknowledged cumulatively.
    pub base: usize,
    /// The number of what is sent next.
    pub highest: Option<i64>,
    pub cumulative: Option<i64>,
    /// When the peer said so last.
    pub told_s: Option<f64>,
    /// For each record itself while it is open; afterwards one behind it, up to the next open one.
    next_open: Vec<usize>,
}

impl Space {
    /// A number of 32 bits as one that does not start over.
    pub(super) fn near(&self, number: i64) -> i64 {
        let known = self.highest.unwrap_or(number);
        known + (number - known + HALF).rem_euclid(2 * HALF) - HALF
    }

    pub(super) fn add(&mut self, record: Record) {
        self.highest = Some(record.run.end);
        self.next_open.push(self.records.len());
        self.records.push(record);
    }

    /// The peer has taken a byte or chunk of which a probe was sent, and no record kept.
    pub(super) fn take(&mut self, cumulative: i64) {
        if self.highest == Some(cumulative - 1) {
            self.highest = Some(cumulative);
        }
    }

    /// The records that are not acknowledged cumulatively and have a part of these numbers.
    pub(super) fn within(&self, run: &Run) -> Range<usize> {
        let open = &self.records[self.base..];
        let first = open.partition_point(|record| record.run.end <= run.start);
        let last = open.partition_point(|record| record.run.start < run.end);
        self.base + first..self.base + last.max(first)
    }

    /// The records up to this number that were open.
    pub(super) fn acknowledge(&mut self, cumulative: i64) -> Vec<usize> {
        self.cumulative = self.cumulative.max(Some(cumulative));
        let first = self.base;
        self.base += self.records[first..].partition_point(|record| record.run.end <= cumulative);
        self.close(first, self.base, |_| true)
    }

    /// The records that lie in these numbers, reported above a gap, and were open.
    pub(super) fn select(&mut self, run: &Run) -> Vec<usize> {
        let range = self.within(run);
        self.close(range.start, range.end, |record| {
            record.run.start >= run.start && record.run.end <= run.end
        })
    }

    /// Acknowledges the open ones of these records. What was acknowledged before costs nothing once more,
    /// however often it is reported.
    fn close(&mut self, first: usize, end: usize, is_done: impl Fn(&Record) -> bool) -> Vec<usize> {
        let mut closed = Vec::new();
        let mut at = self.open_from(first);
        while at < end {
            if is_done(&self.records[at]) {
                self.records[at].is_acknowledged = true;
                self.next_open[at] = at + 1;
                closed.push(at);
            }
            at = self.open_from(at + 1);
        }
        closed
    }

    /// The first open record from this one on.
    fn open_from(&mut self, from: usize) -> usize {
        let mut open = from;
        while let Some(&next) = self.next_open.get(open)
            && next != open
        {
            open = next;
        }
        let mut at = from;
        while at < open {
            at = std::mem::replace(&mut self.next_open[at], open);
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_over() {
        let space = Space { highest: Some((1 << 32) - 10), ..Space::default() };
        assert_eq!(space.near(5), (1 << 32) + 5);
        assert_eq!(space.near((1 << 32) - 20), (1 << 32) - 20);
        assert!(space.within(&(0..5)).is_empty());
    }

    #[test]
    fn a_report_is_new_once() {
        let mut space = Space::default();
        for start in 0..10 {
            let run = start..start + 1;
            space.add(Record { run, octets: 1, path: 0, packet: 0, times: 1, is_acknowledged: false });
        }
        assert_eq!(space.acknowledge(3), [0, 1, 2]);
        assert_eq!(space.select(&(5..7)), [5, 6]);
        assert_eq!(space.select(&(4..9)), [4, 7, 8]);
        assert!(space.select(&(5..6)).is_empty());
        assert_eq!(space.acknowledge(3), [] as [usize; 0]);
        assert_eq!(space.acknowledge(20), [3, 9]);
        assert_eq!(space.within(&(0..20)), 10..10);
    }
}
