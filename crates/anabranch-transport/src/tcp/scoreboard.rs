//! Segments that were sent and are not acknowledged cumulatively, in the order of their sequence numbers,
//! with the state of each (RFC 6675 section 3; Linux's retransmission queue).
//!
//! Segments have consecutive identifiers; none is ever split or put together with another one.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::recovery::rate_sample::RateMark;
use crate::time::Time;

/// One segment.
#[expect(clippy::struct_excessive_bools, reason = "marks that are independent of each other")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Number of its first byte, or of FIN.
    pub(super) start: u64,
    /// Length of the payload in bytes.
    pub(super) length: u32,
    pub(super) fin: bool,
    /// Whether a SACK has reported its arrival.
    pub(super) sacked: bool,
    /// Whether it is taken for lost.
    pub(super) lost: bool,
    /// Whether its retransmission is in flight.
    pub(super) retransmitted: bool,
    /// Whether it was sent more than once.
    pub(super) ever_retransmitted: bool,
    /// Whether it left in one packet with the segment before it, which was cut only behind TCP.
    pub(super) continues: bool,
    /// When the segment was last sent.
    pub(super) departure: Time,
    /// The number of that transmission; set by the scoreboard.
    pub(super) order: u64,
    pub(super) rate: RateMark,
}

impl Sent {
    /// The number behind its last byte.
    pub(super) const fn end(&self) -> u64 {
        self.start + self.length as u64 + self.fin as u64
    }

    const fn waits_for_retransmission(&self) -> bool {
        self.lost && !self.retransmitted
    }
}

/// Runs of numbers: each from the first number up to, and without, the second.
pub(super) type Ranges = SmallVec<[(u64, u64); 4]>;

/// The scoreboard: every outstanding segment and what is known about it.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Sent>,
    /// Identifier of the first of them.
    first_id: u64,
    /// Segments acknowledged selectively; without SACK, the number of duplicate acknowledgements (Linux:
    /// `sacked_out`).
    pub(super) sacked: u32,
    /// Segments taken for lost.
    pub(super) lost: u32,
    /// Retransmissions on their way.
    pub(super) retransmitted: u32,
    /// Outstanding segments that were sent more than once.
    pub(super) again: u32,
    /// Lost segments that wait for their retransmission.
    pub(super) waiting: u32,
    /// No segment before this one waits for its retransmission.
    waiting_from: u64,
    /// The number behind the highest one that a SACK has covered.
    pub(super) highest_sacked: u64,
    /// The ranges of the last SACK; all of them are marked.
    known: Ranges,
    /// Retransmissions in their order that RACK may still ask about: identifier of the segment and number of
    /// the transmission. Those of segments that were sent once are in the order of the segments. A
    /// transmission is void when its segment has arrived, is gone, was sent again later, or waits to be sent
    /// again.
    sent_again: VecDeque<(u64, u64)>,
    /// RACK does not ask about the first transmission of a segment before this one.
    first_sent: u64,
    /// Transmissions so far.
    transmissions: u64,
    /// All segments before this one have been looked at by [`Scoreboard::mark_below_sacked`].
    frontier: u64,
    /// Segments from there on that have been acknowledged selectively.
    sacked_beyond: u32,
}

/// A place among the transmissions in the order of sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The next segment that may have been sent once.
    once: u64,
    /// The next retransmission, counted from the first.
    again: usize,
    /// Whether only void ones are before it.
    is_first: bool,
}

impl Scoreboard {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments that are not acknowledged cumulatively (Linux: `packets_out`).
    pub(super) fn len(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Segments on their way (RFC 6675 section 4: pipe; Linux: `tcp_packets_in_flight`).
    pub(super) fn in_flight(&self) -> u32 {
        (self.len() + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    /// Whether everything outstanding was sent once, and nothing of it is known to have arrived or to be
    /// lost.
    pub(super) const fn is_clean(&self) -> bool {
        self.sacked | self.lost | self.retransmitted | self.again == 0
    }

    pub(super) fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// The segments that end before `number` or there: how many they are, the first and the last of them;
    /// [`None`] if there are none, or another one has begun by then.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn whole_below(&self, number: u64) -> Option<(usize, &Sent, &Sent)> {
        let first = self.segments.front().filter(|first| first.end() <= number)?;
        let (mut count, mut last) = (1, first);
        while let Some(segment) = self.segments.get(count) {
            if segment.end() > number {
                if segment.start < number {
                    return None;
                }
                break;
            }
            (count, last) = (count + 1, segment);
        }
        Some((count, first, last))
    }

    pub(super) const fn first_id(&self) -> u64 {
        self.first_id
    }

    pub(super) fn end_id(&self) -> u64 {
        self.first_id + self.segments.len() as u64
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> &Sent {
        &self.segments[(id - self.first_id) as usize]
    }

    pub(super) fn get_mut(&mut self, id: u64) -> &mut Sent {
        &mut self.segments[(id - self.first_id) as usize]
    }

    /// The segment that holds this number, if it is outstanding.
    pub(super) fn holding(&self, number: u64) -> Option<&Sent> {
        let index = self.segments.partition_point(|segment| segment.end() <= number);
        self.segments.get(index).filter(|segment| segment.start <= number)
    }

    /// Adds a segment that is sent for the first time.
    pub(super) fn push(&mut self, mut segment: Sent) {
        self.transmissions += 1;
        segment.order = self.transmissions;
        self.segments.push_back(segment);
    }

    /// Takes off the first segment, all of which has been acknowledged cumulatively.
    pub(super) fn pop(&mut self, is_sack: bool) -> Option<Sent> {
        let segment = self.segments.pop_front()?;
        let id = self.first_id;
        self.first_id += 1;
        self.retransmitted -= u32::from(segment.retransmitted);
        self.again -= u32::from(segment.ever_retransmitted);
        self.lost -= u32::from(segment.lost);
        self.waiting -= u32::from(segment.waits_for_retransmission());
        if is_sack && segment.sacked {
            self.sacked -= 1;
            if id >= self.frontier {
                self.sacked_beyond -= 1;
            }
        }
        self.forget_order();
        Some(segment)
    }

    /// Takes off the first `count` segments of a [clean](Self::is_clean) scoreboard, which have been
    /// acknowledged cumulatively.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn pop_clean(&mut self, count: usize) {
        debug_assert!(self.is_clean(), "nothing has marks");
        for _ in 0..count {
            self.segments.pop_front();
        }
        self.first_id += count as u64;
        self.forget_order();
    }

    /// Forgets what is kept about segments that are gone.
    #[inline]
    fn forget_order(&mut self) {
        self.frontier = self.frontier.max(self.first_id);
        // The order may not be asked for.
        while self.sent_again.front().is_some_and(|(id, _)| *id < self.first_id) {
            self.sent_again.pop_front();
        }
    }

    /// Cuts off the beginning of the first segment, which has been acknowledged.
    pub(super) fn trim_front(&mut self, acknowledged: u64) {
        if let Some(segment) = self.segments.front_mut() {
            let cut = acknowledged.saturating_sub(segment.start);
            segment.length -= cut as u32;
            segment.start = acknowledged;
        }
    }

    /// Marks a segment as arrived, which takes off its other marks.
    pub(super) fn mark_sacked(&mut self, id: u64) {
        let segment = self.get_mut(id);
        let Sent { lost, retransmitted, .. } = *segment;
        let waited = segment.waits_for_retransmission();
        segment.sacked = true;
        if lost {
            // Linux, tcp_sacktag_one: the retransmission of a segment that was not lost is believed to be on
            // its way still.
            segment.lost = false;
            segment.retransmitted = false;
        }
        let end = segment.end();
        self.highest_sacked = self.highest_sacked.max(end);
        self.sacked += 1;
        self.waiting -= u32::from(waited);
        self.lost -= u32::from(lost);
        self.retransmitted -= u32::from(lost && retransmitted);
        if id >= self.frontier {
            self.sacked_beyond += 1;
        }
    }

    /// Notes that a duplicate of this segment has arrived, so that its retransmission is no longer on its
    /// way.
    pub(super) fn record_duplicate(&mut self, id: u64) {
        let segment = self.get_mut(id);
        if segment.retransmitted {
            segment.retransmitted = false;
            let waits = segment.waits_for_retransmission();
            self.retransmitted -= 1;
            self.record_waiting(id, waits);
        }
    }

    fn record_waiting(&mut self, id: u64, waits: bool) {
        if waits {
            self.waiting_from = if self.waiting == 0 { id } else { self.waiting_from.min(id) };
            self.waiting += 1;
        }
    }

    /// Marks a segment as lost, or its retransmission if it was marked already (Linux: `tcp_mark_skb_lost`).
    /// Returns whether that is new.
    pub(super) fn mark_lost(&mut self, id: u64) -> bool {
        let segment = self.get_mut(id);
        if segment.sacked || segment.waits_for_retransmission() {
            return false;
        }
        let was_lost = segment.lost;
        let retransmission_lost = was_lost && segment.retransmitted;
        segment.lost = true;
        if retransmission_lost {
            segment.retransmitted = false;
        }
        let waits = segment.waits_for_retransmission();
        self.lost += u32::from(!was_lost);
        self.retransmitted -= u32::from(retransmission_lost);
        self.record_waiting(id, waits);
        true
    }

    /// Clears all losses, as nothing was lost after all (Linux: `tcp_undo_cwnd_reduction`).
    pub(super) fn unmark_lost(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost = 0;
        self.waiting = 0;
    }

    /// Forgets what was acknowledged selectively, because the receiver took it back (RFC 2018 section 8).
    pub(super) fn forget_sacked(&mut self) {
        for segment in &mut self.segments {
            segment.sacked = false;
        }
        self.sacked = 0;
        self.sacked_beyond = 0;
        self.known.clear();
    }

    /// The first segment that waits for its retransmission.
    pub(super) fn first_waiting(&mut self) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let from = self.waiting_from.max(self.first_id);
        let skip = (from - self.first_id) as usize;
        let ahead = self.segments.iter().skip(skip).position(Sent::waits_for_retransmission)?;
        self.waiting_from = from + ahead as u64;
        Some(self.waiting_from)
    }

    /// Whether the next segment is in the same packet and is to be sent again, too.
    pub(super) fn goes_on_behind(&self, id: u64) -> bool {
        let next = self.segments.get((id + 1 - self.first_id) as usize);
        next.is_some_and(|next| next.continues && next.waits_for_retransmission())
    }

    /// Begins another packet behind this segment (Linux: `tcp_fragment`).
    pub(super) fn cut_behind(&mut self, id: u64) {
        if let Some(next) = self.segments.get_mut((id + 1 - self.first_id) as usize) {
            next.continues = false;
        }
    }

    /// Makes this segment a packet of its own.
    pub(super) fn cut_off(&mut self, id: u64) {
        self.get_mut(id).continues = false;
        self.cut_behind(id);
    }

    /// Notes that a segment is sent again; with `counts`, its retransmission counts as on its way.
    pub(super) fn resend(&mut self, id: u64, now: Time, rate: RateMark, counts: bool) {
        self.transmissions += 1;
        let order = self.transmissions;
        self.sent_again.push_back((id, order));
        let segment = self.get_mut(id);
        segment.order = order;
        let waited = segment.waits_for_retransmission();
        let is_new = counts && !segment.retransmitted;
        segment.retransmitted |= counts;
        let is_first = !std::mem::replace(&mut segment.ever_retransmitted, true);
        segment.departure = now;
        segment.rate = rate;
        let waits = segment.waits_for_retransmission();
        self.waiting -= u32::from(waited && !waits);
        self.retransmitted += u32::from(is_new);
        self.again += u32::from(is_first);
    }

    /// Calls `visit` for every segment that lies wholly inside these runs and not inside those of the last
    /// call.
    pub(super) fn for_each_newly_covered(
        &mut self,
        runs: &[(u64, u64)],
        mut visit: impl FnMut(&mut Self, u64),
    ) {
        let known = std::mem::take(&mut self.known);
        for &(start, end) in runs {
            let mut from = start;
            for &(known_start, known_end) in &known {
                if known_end <= from || known_start >= end {
                    continue;
                }
                self.visit_range(from, known_start, &mut visit);
                from = from.max(known_end);
            }
            self.visit_range(from, end, &mut visit);
        }
        self.known = runs.iter().copied().collect();
        self.known.sort_unstable();
    }

    fn visit_range(&mut self, start: u64, end: u64, visit: &mut impl FnMut(&mut Self, u64)) {
        if start >= end {
            return;
        }
        let mut index = self.segments.partition_point(|segment| segment.start < start);
        while index < self.segments.len() && self.segments[index].end() <= end {
            visit(self, self.first_id + index as u64);
            index += 1;
        }
    }

    /// Calls `visit` for every segment that lies wholly inside this run.
    pub(super) fn for_each_in(&mut self, run: (u64, u64), mut visit: impl FnMut(&mut Self, u64)) {
        self.visit_range(run.0, run.1, &mut visit);
    }

    /// Marks as lost every segment that has at least `threshold` selectively acknowledged segments above it
    /// (RFC 6675 section 4: `IsLost`). Returns those that were not marked before.
    pub(super) fn mark_below_sacked(&mut self, threshold: u32) -> Vec<u64> {
        let mut marked = Vec::new();
        while self.frontier < self.end_id() {
            let here = u32::from(self.get(self.frontier).sacked);
            if self.sacked_beyond - here < threshold {
                break;
            }
            // A segment that has been sent again is not marked once more.
            if here == 0 && !self.get(self.frontier).retransmitted && self.mark_lost(self.frontier) {
                marked.push(self.frontier);
            }
            self.sacked_beyond -= here;
            self.frontier += 1;
        }
        marked
    }

    /// Marks as lost what lies `distance` segments or more below the highest selectively acknowledged one.
    /// Returns the segments that were not marked before.
    pub(super) fn mark_far_below_sacked(&mut self, distance: u32) -> Vec<u64> {
        let mut marked = Vec::new();
        // Index behind the segment with the highest number that a SACK covers.
        let top = self.segments.partition_point(|segment| segment.end() <= self.highest_sacked) as u64;
        let Some(stop) = (self.first_id + top).checked_sub(u64::from(distance)) else { return marked };
        while self.frontier < stop.min(self.end_id()) {
            let Sent { sacked, retransmitted, .. } = *self.get(self.frontier);
            if sacked {
                self.sacked_beyond -= 1;
            } else if !retransmitted && self.mark_lost(self.frontier) {
                marked.push(self.frontier);
            }
            self.frontier += 1;
        }
        marked
    }

    /// Segments from the first one to the highest that a SACK covers (Linux before 4.19: `fackets_out`).
    pub(super) fn forward_span(&self) -> u32 {
        if self.sacked == 0 {
            return 0;
        }
        self.segments.partition_point(|segment| segment.end() <= self.highest_sacked) as u32
    }

    /// The place before all transmissions that RACK may still ask about.
    pub(super) fn first_place(&self) -> Place {
        Place { once: self.first_sent.max(self.first_id), again: 0, is_first: true }
    }

    /// The oldest transmission that still counts, from `place` on in the order of sending. Forgets void ones
    /// before the first that counts.
    pub(super) fn next_in_order(&mut self, place: &mut Place) -> Option<u64> {
        loop {
            if place.is_first {
                self.first_sent = place.once;
            }
            let once = self.segments.get((place.once - self.first_id) as usize);
            if once.is_some_and(|segment| segment.ever_retransmitted) {
                place.once += 1;
                continue;
            }
            let again = self.sent_again.get(place.again).copied();
            let again = again.filter(|(_, order)| once.is_none_or(|segment| *order < segment.order));
            if once.is_none() && again.is_none() {
                return None;
            }
            let id = again.map_or(place.once, |(id, _)| id);
            let counts = id >= self.first_id && {
                let segment = self.get(id);
                let is_latest = again.is_none_or(|(_, order)| segment.order == order);
                is_latest && !segment.sacked && !segment.waits_for_retransmission()
            };
            place.is_first &= !counts;
            match (again, place.is_first) {
                (None, _) => place.once += 1,
                (Some(_), false) => place.again += 1,
                (Some(_), true) => drop(self.sent_again.pop_front()),
            }
            if counts {
                return Some(id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn segments(&self) -> &VecDeque<Sent> {
        &self.segments
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every transmission in a list, as it is told to RACK.
    #[derive(Default)]
    struct Listed {
        order: VecDeque<(u64, u64)>,
    }

    impl Listed {
        fn next(&mut self, board: &Scoreboard, position: &mut usize) -> Option<u64> {
            while let Some(&(id, order)) = self.order.get(*position) {
                let counts = id >= board.first_id && {
                    let segment = board.get(id);
                    !segment.sacked && segment.order == order && !segment.waits_for_retransmission()
                };
                if counts {
                    *position += 1;
                    return Some(id);
                }
                if *position == 0 {
                    self.order.pop_front();
                } else {
                    *position += 1;
                }
            }
            None
        }
    }

    proptest! {
        /// What is void at the front is forgotten, even if it counts again later: reneging and undo bring
        /// such segments back.
        #[test]
        fn the_order_of_sending_is_that_of_a_list(
            steps in prop::collection::vec((0..10_u8, any::<prop::sample::Index>()), 0..200),
        ) {
            let (mut board, mut listed) = (Scoreboard::default(), Listed::default());
            for (step, index) in steps {
                let outstanding = board.segments.len();
                let id = (outstanding > 0).then(|| board.first_id + index.index(outstanding.max(1)) as u64);
                match (step, id) {
                    (0..3, _) | (_, None) => {
                        let start = board.end_id() * 10;
                        board.push(Sent { start, length: 10, ..Sent::default() });
                        listed.order.push_back((board.end_id() - 1, board.transmissions));
                    }
                    (3, Some(id)) => {
                        board.resend(id, Time::ZERO, RateMark::default(), index.index(2) == 0);
                        listed.order.push_back((id, board.transmissions));
                    }
                    (4, Some(id)) => drop(board.mark_lost(id)),
                    (5, Some(id)) if !board.get(id).sacked => board.mark_sacked(id),
                    (6, _) => drop(board.pop(true)),
                    (7, _) if index.index(4) == 0 => board.unmark_lost(),
                    (7, _) if index.index(4) == 1 => board.forget_sacked(),
                    _ => {
                        let (mut place, mut position) = (board.first_place(), 0);
                        for _ in 0..=index.index(6) {
                            let expected = listed.next(&board, &mut position);
                            let found = board.next_in_order(&mut place);
                            prop_assert_eq!(found, expected);
                            if found.is_none() {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
}
