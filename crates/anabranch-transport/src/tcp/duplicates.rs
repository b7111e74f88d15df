//! What D-SACK reports must show before they take a reduction back (RFC 3708 section 3).
//!
//! Linux counts them instead (`tcp_check_dsack`, `undo_retrans`), which is the rule of its profiles.

use std::collections::BTreeMap;

/// The most segments that are remembered. Where a window of data has more, nothing is taken back.
const MOST: usize = 4096;

/// A segment that was sent again.
#[derive(Clone, Copy, Debug)]
struct Resent {
    end: u64,
    times: u32,
    is_duplicate: bool,
}

/// The segments that were sent again in the present window of data and the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Duplicates {
    /// By the first number.
    resent: BTreeMap<u64, Resent>,
    /// Where the present window begins.
    from: u64,
    /// What ends up to here may have been sent again and is not remembered.
    forgotten: u64,
    /// Whether a report in the present window says too little (A.1, A.3).
    is_ambiguous: bool,
    /// Whether the network has duplicated a segment (A.4).
    is_over: bool,
}

impl Duplicates {
    /// A window of data begins with this number, in which the congestion window is reduced.
    pub(super) fn begin(&mut self, from: u64) {
        let before = std::mem::replace(&mut self.from, from);
        while let Some(first) = self.resent.first_entry()
            && first.get().end <= before
        {
            self.forgotten = first.remove().end;
        }
        self.is_ambiguous = false;
    }

    /// These numbers are sent again.
    pub(super) fn record_retransmission(&mut self, start: u64, end: u64) {
        if self.is_over {
            return;
        }
        let resent = self.resent.entry(start).or_insert(Resent { end, times: 0, is_duplicate: false });
        resent.end = resent.end.max(end);
        resent.times += 1;
        if self.resent.len() > MOST
            && let Some((_, first)) = self.resent.pop_first()
        {
            self.forgotten = first.end;
        }
    }

    /// The peer reports that these numbers came twice. With `is_first_news`, it has acknowledged nothing
    /// selectively, and the segment is the first one that was not acknowledged.
    pub(super) fn record_report(&mut self, start: u64, end: u64, is_first_news: bool) {
        if is_first_news {
            // A.1: the acknowledgements of a whole window were lost.
            self.is_ambiguous = true;
            return;
        }
        let mut is_known = end <= self.forgotten;
        for (_, resent) in self.resent.range_mut(..end).rev().take_while(|(_, resent)| resent.end > start) {
            is_known = true;
            // A.3: which transmission was needless is not known.
            self.is_ambiguous |= resent.times > 1;
            resent.is_duplicate = true;
        }
        if !is_known {
            // A.4: the network has duplicated it, as it may others from now on.
            self.is_over = true;
            self.resent.clear();
        }
    }

    /// Whether every segment that was sent again in the present window of data was needless, so that nothing
    /// was lost (B).
    pub(super) fn show_no_loss(&self) -> bool {
        let mut own = self.resent.values().filter(|resent| resent.end > self.from).peekable();
        let is_sure = !self.is_over && !self.is_ambiguous && self.forgotten <= self.from;
        is_sure && own.peek().is_some() && own.all(|resent| resent.is_duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_before_is_remembered_and_no_more_than_that() {
        let mut duplicates = Duplicates::default();
        duplicates.begin(0);
        duplicates.record_retransmission(0, 10);
        duplicates.begin(100);
        duplicates.record_retransmission(100, 110);
        // A late report about the window before is no duplicate of the network's.
        duplicates.record_report(0, 10, false);
        assert!(!duplicates.show_no_loss());
        duplicates.record_report(100, 110, false);
        assert!(duplicates.show_no_loss());
        duplicates.begin(200);
        duplicates.begin(300);
        assert!(duplicates.resent.is_empty());
        duplicates.record_report(100, 110, false);
        assert!(!duplicates.is_over);
        duplicates.record_report(150, 160, false);
        assert!(duplicates.is_over);
    }

    /// A.1 and A.3: nothing in this window, whatever is reported afterwards; the next one is as any other.
    #[test]
    fn what_is_ambiguous_counts_until_the_next_window() {
        for (times, is_first_news, shows) in [(1, false, true), (1, true, false), (2, false, false)] {
            let mut duplicates = Duplicates::default();
            for from in [0, 100] {
                duplicates.begin(from);
                let times = if from == 0 { times } else { 1 };
                (0..times).for_each(|_| duplicates.record_retransmission(from, from + 10));
                assert!(!duplicates.show_no_loss());
                duplicates.record_report(from, from + 10, is_first_news && from == 0);
                duplicates.record_report(from, from + 10, false);
                assert_eq!(duplicates.show_no_loss(), shows || from == 100, "{times} {is_first_news} {from}");
            }
        }
    }

    #[test]
    fn a_window_with_too_many_segments_shows_nothing() {
        for (count, shows) in [(MOST as u64, true), (MOST as u64 + 1, false)] {
            let mut duplicates = Duplicates::default();
            duplicates.begin(0);
            (0..count).for_each(|start| duplicates.record_retransmission(start, start + 1));
            (0..count).for_each(|start| duplicates.record_report(start, start + 1, false));
            assert!(duplicates.resent.len() <= MOST);
            assert_eq!(duplicates.show_no_loss(), shows);
        }
    }
}
