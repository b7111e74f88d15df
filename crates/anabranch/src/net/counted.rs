//! Counters of a direction's cross traffic, which also know what they were when the run ended.
//!
//! A link that is asked ahead of time has taken in its cross traffic up to there. If the run ends before
//! that, what came later is taken back: arrivals are counted again from a copy of the sources that is not
//! older than needed, and for packets that were dropped since then the times are kept. So it does not matter
//! how far ahead a link was asked.

use std::collections::VecDeque;

use super::asked::{AHEAD_LIMIT, Asked};
use super::cross_traffic::{CrossCounters, Source};

/// Counters of the cross traffic of one direction. All times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) counters: CrossCounters,
    /// The sources as they were, the oldest first; the first one is no younger than any report to come.
    copies: VecDeque<Copied>,
    /// From this time on, the next copy is due.
    due: u64,
    /// The packets that were dropped since the first copy.
    dropped: VecDeque<Dropped>,
}

/// The sources when all arrivals up to `time` had been taken.
#[derive(Clone, Debug)]
struct Copied {
    time: u64,
    arrived: u64,
    sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug)]
struct Dropped {
    time: u64,
    /// Because the link was down, not because the queue was full.
    is_down: bool,
}

impl Counted {
    /// Announces that arrivals up to `to` are going to be taken from the sources, which have given all those
    /// up to `at`.
    #[inline]
    pub(crate) fn before_taking(&mut self, asked: &Asked, sources: &[Source], at: u64, to: u64) {
        if to >= self.due && !sources.is_empty() {
            self.copy(asked, sources, at, to);
        }
    }

    #[cold]
    fn copy(&mut self, asked: &Asked, sources: &[Source], at: u64, to: u64) {
        if to <= asked.from() {
            self.due = asked.from() + 1;
            return;
        }
        let run = asked.present(to);
        self.due = to.saturating_add(AHEAD_LIMIT);
        self.copies.push_back(Copied { time: at, arrived: self.counters.arrived, sources: sources.to_vec() });
        while self.copies.get(1).is_some_and(|second| second.time <= run.max(asked.from())) {
            self.copies.pop_front();
        }
        let oldest = self.copies[0].time;
        while self.dropped.front().is_some_and(|dropped| dropped.time <= oldest) {
            self.dropped.pop_front();
        }
    }

    /// Counts a packet that is dropped as it arrives.
    pub(crate) fn drop(&mut self, time: u64, is_down: bool) {
        *self.counter(is_down) += 1;
        if !self.copies.is_empty() {
            self.dropped.push_back(Dropped { time, is_down });
        }
    }

    fn counter(&mut self, is_down: bool) -> &mut u64 {
        if is_down { &mut self.counters.dropped_down } else { &mut self.counters.dropped_full }
    }

    /// Takes back what has arrived after the end of the run. All arrivals up to `at` have been taken.
    pub(crate) fn finish(&mut self, at: u64, end: u64) {
        if at <= end {
            return;
        }
        let copy = self.copies.iter().rev().find(|copy| copy.time <= end).cloned();
        let Some(Copied { mut arrived, mut sources, .. }) = copy else {
            // There are no sources, or the run ends earlier than it was told.
            debug_assert!(self.counters.arrived == 0, "a link was asked further ahead than it was told");
            return;
        };
        for source in &mut sources {
            while source.peek() <= end {
                source.pop();
                arrived += 1;
            }
        }
        self.counters.arrived = arrived;
        for dropped in std::mem::take(&mut self.dropped) {
            *self.counter(dropped.is_down) -= u64::from(dropped.time > end);
        }
    }
}
