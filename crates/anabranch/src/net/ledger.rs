//! What became of the packets of interest in one direction of a link.
//!
//! A packet is entered when it arrives and counted when its fate has come true, so that a link that was
//! asked ahead of time reports, for any end of the run, what one that was asked in time would.

use std::collections::VecDeque;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Copied,
    Corrupted,
    Delivered,
    Down,
    Lost,
    QueueFull,
}

const FATES: usize = 6;

/// A packet whose fate has not come true yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When it arrived at the link, in nanoseconds.
    pub(crate) arrived: u64,
    /// When its fate comes true, in nanoseconds; `u64::MAX` for never.
    pub(crate) settled: u64,
    /// Unfinished work it found in the queue; `NOT_SERVED` if the server never took it.
    pub(crate) found_units: u64,
    pub(crate) size: u32,
    pub(crate) marked: bool,
    pub(crate) fate: Fate,
}

impl Entry {
    pub(crate) const NOT_SERVED: u64 = u64::MAX;
}

/// Counters of one direction. The identity: arrived + copied = delivered (copies included) + dropped +
/// in the link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Entered, copies included.
    entered: u64,
    packets: [u64; FATES],
    bytes: [u64; FATES],
    marked: u64,
    served: u64,
    found_units: u128,
    /// Packets whose fate has not come true, in the order of their arrival.
    open: VecDeque<Entry>,
    /// Packets that never settle: they are in the link to the end.
    stuck: u64,
}

impl Ledger {
    /// Counts what has come true by `now` (nanoseconds).
    #[inline]
    pub(crate) fn settle(&mut self, now: u64) {
        while let Some(entry) = self.open.front() {
            if entry.settled > now {
                break;
            }
            let entry = *entry;
            self.count(&entry);
            self.open.pop_front();
        }
    }

    #[inline]
    pub(crate) fn enter(&mut self, entry: Entry) {
        self.entered += 1;
        self.open.push_back(entry);
    }

    /// A packet is in the link for ever.
    pub(crate) fn enter_stuck(&mut self) {
        self.entered += 1;
        self.stuck += 1;
    }

    /// Settles the run's end: what arrives later has not happened, what settles later is in the link.
    pub(crate) fn finish(&mut self, end: u64) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|entry| {
            if entry.arrived > end {
                self.entered -= 1;
                return false;
            }
            if entry.settled <= end {
                self.count(entry);
                return false;
            }
            true
        });
        self.open = open;
    }

    fn count(&mut self, entry: &Entry) {
        let fate = entry.fate as usize;
        self.packets[fate] += 1;
        self.bytes[fate] += u64::from(entry.size);
        self.marked += u64::from(entry.marked);
        if entry.found_units != Entry::NOT_SERVED {
            self.served += 1;
            self.found_units += u128::from(entry.found_units);
        }
    }

    pub(crate) fn packets(&self, fate: Fate) -> u64 {
        self.packets[fate as usize]
    }

    pub(crate) fn bytes(&self, fate: Fate) -> u64 {
        self.bytes[fate as usize]
    }

    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    pub(crate) fn entered(&self) -> u64 {
        self.entered
    }

    /// Packets in the link.
    pub(crate) fn in_link(&self) -> u64 {
        self.open.len() as u64 + self.stuck
    }

    /// Mean unfinished work that a served packet found; NaN without one.
    pub(crate) fn mean_found_units(&self) -> f64 {
        self.found_units as f64 / self.served as f64
    }
}
