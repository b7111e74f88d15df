//! The fates of the packets of interest in one direction of a link.
//!
//! A packet is counted when its fate is known, and the latest ones are kept in a log: at the end of the run
//! those that have arrived or whose fate comes true later are taken back. So a link that was asked ahead
//! of time reports what one that was asked in time would. Where it is known that nobody asks for the counters
//! before some time, what is settled by then need not be kept.

use super::asked::Asked;
use super::packets::{DropCause, Fate};

const FATES: usize = 2 + DropCause::ALL.len();

impl Fate {
    /// The index of its counter.
    const fn index(self) -> usize {
        match self {
            Self::Copied => 0,
            Self::Delivered => 1,
            Self::Dropped(cause) => 2 + cause as usize,
        }
    }
}

/// A packet whose fate may still lie in the future.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// When it arrived at the link, in nanoseconds.
    pub(crate) arrived: u64,
    /// When its fate takes effect, in nanoseconds; `u64::MAX` for never.
    pub(crate) settled: u64,
    /// The unfinished work that it found in the queue; `NOT_SERVED` if the server never took it.
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
    /// Packets of [`Ledger::enter_delivered`], until [`Ledger::finish`] adds them to those that arrived, were
    /// served and were delivered.
    plain: u64,
    arrived: u64,
    /// Copies made, whether or not they have been delivered.
    copied: u64,
    packets: [u64; FATES],
    bytes: [u64; FATES],
    marked: u64,
    served: u64,
    found_units: i128,
    in_link: u64,
    /// The latest entries that are settled after somebody may ask for the counters. When there is no room for
    /// more, those that can no longer matter at the end of the run are removed.
    log: Vec<Entry>,
}

impl Ledger {
    const FIRST_SLOTS: usize = 128;

    /// Enters a packet when the link is asked for `now` (nanoseconds).
    #[inline]
    pub(crate) fn enter(&mut self, asked: &Asked, now: u64, entry: Entry) {
        *self.origin_mut(entry.fate) += 1;
        self.count(&entry, 1);
        self.log(asked, now, entry);
    }

    /// Enters a packet that arrives at `now`, finds this much work and is delivered at `settled`.
    #[inline]
    pub(crate) fn enter_delivered(
        &mut self,
        asked: &Asked,
        now: u64,
        settled: u64,
        found_units: u64,
        size: u32,
    ) {
        let fate = Fate::Delivered;
        self.plain += 1;
        self.found_units += i128::from(found_units);
        self.bytes[fate.index()] += u64::from(size);
        self.log(asked, now, Entry { arrived: now, settled, found_units, size, marked: false, fate });
    }

    #[inline]
    fn log(&mut self, asked: &Asked, now: u64, entry: Entry) {
        if entry.settled <= asked.from() {
            return;
        }
        if self.log.len() == self.log.capacity() {
            self.make_room(asked, now);
        }
        self.log.push(entry);
    }

    /// Removes entries that are settled for good, and doubles the capacity if less than half becomes free.
    #[cold]
    fn make_room(&mut self, asked: &Asked, now: u64) {
        let run = asked.present(now);
        let matters = |entry: &Entry| entry.settled > run;
        // Nearly always the fates come true in the order of their entries. Eight are looked at together,
        // without a branch for each, so up to seven that are settled stay.
        let done = |entries: &&[Entry]| !entries.iter().fold(false, |any, entry| any | matters(entry));
        let settled = 8 * self.log.chunks_exact(8).take_while(done).count();
        self.log.drain(..settled);
        let room = self.log.capacity();
        if self.log.len() > room / 2 {
            self.log.retain(matters);
        }
        if self.log.len() > room / 2 || room == 0 {
            self.log.reserve_exact((2 * room).max(Self::FIRST_SLOTS) - self.log.len());
        }
    }

    fn origin_mut(&mut self, fate: Fate) -> &mut u64 {
        if fate == Fate::Copied { &mut self.copied } else { &mut self.arrived }
    }

    /// Takes back what lies beyond the end of the run: a packet that arrives later has not come, and one
    /// whose fate comes true later is in the link.
    pub(crate) fn finish(&mut self, end: u64) {
        let plain = std::mem::take(&mut self.plain);
        self.arrived += plain;
        self.served += plain;
        self.packets[Fate::Delivered.index()] += plain;
        for entry in std::mem::take(&mut self.log) {
            if entry.settled > end {
                self.count(&entry, 1_u64.wrapping_neg());
                if entry.arrived > end {
                    *self.origin_mut(entry.fate) -= 1;
                } else {
                    self.in_link += 1;
                }
            }
        }
    }

    /// Adds an entry once, or takes it back with -1 in wrapping arithmetic.
    #[inline]
    fn count(&mut self, entry: &Entry, times: u64) {
        let fate = entry.fate.index();
        self.packets[fate] = self.packets[fate].wrapping_add(times);
        self.bytes[fate] = self.bytes[fate].wrapping_add(u64::from(entry.size).wrapping_mul(times));
        self.marked = self.marked.wrapping_add(u64::from(entry.marked).wrapping_mul(times));
        if entry.found_units != Entry::NOT_SERVED {
            self.served = self.served.wrapping_add(times);
            let found = i128::from(entry.found_units) * i128::from(times as i64);
            self.found_units += found;
        }
    }

    pub(crate) fn packets(&self, fate: Fate) -> u64 {
        self.packets[fate.index()]
    }

    /// Packets, copies included, whose fate is in the past.
    pub(crate) fn settled(&self) -> u64 {
        self.packets.iter().sum()
    }

    pub(crate) fn bytes(&self, fate: Fate) -> u64 {
        self.bytes[fate.index()]
    }

    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// Packets in the link.
    pub(crate) fn in_link(&self) -> u64 {
        self.in_link
    }

    /// Unfinished work that served packets found, and how many packets that were.
    pub(crate) fn found_units(&self) -> (f64, u64) {
        (self.found_units as f64, self.served)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is not kept because nobody asks before some time changes no report after it.
        #[test]
        fn an_expected_report_is_the_same(
            packets in prop::collection::vec((0..50_u64, 0..80_u64, any::<bool>()), 0..300),
            asked_from in 0..5_000_u64,
            later in 0..5_000_u64,
        ) {
            let mut ledgers = [(Ledger::default(), Asked::default()), (Ledger::default(), Asked::default())];
            ledgers[1].1.expect_no_report_before(asked_from);
            let mut now = 0;
            for (gap, stay, is_lost) in packets {
                now += gap;
                for (ledger, asked) in &mut ledgers {
                    if is_lost {
                        let fate = Fate::Dropped(DropCause::Lost);
                        let settled = now + stay;
                        ledger.enter(asked, now, Entry { arrived: now, settled, size: 2, fate, ..Entry::default() });
                    } else {
                        ledger.enter_delivered(asked, now, now + stay, 3, 5);
                    }
                }
            }
            let [all, some] = ledgers.map(|(mut ledger, _)| {
                ledger.finish(asked_from + later);
                (ledger.arrived, ledger.packets, ledger.bytes, ledger.served, ledger.found_units, ledger.in_link)
            });
            prop_assert_eq!(all, some);
        }
    }
}
