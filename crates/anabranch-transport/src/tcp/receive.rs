//! Receiving: which segments are acceptable, how the stream is put together, and what SACK says about it (RFC
//! 9293 section 3.10.7.4, RFC 2018, RFC 2883).

use arrayvec::ArrayVec;

use super::connection::{Connection, State};
use super::receive_buffer::ReceiveBuffer;
use crate::endpoint::{CloseReason, Event, Output, Received};
use crate::flow::{Ecn as EcnField, Payload};
use crate::time::{Duration, Time};
use crate::wire::tcp::{Flags, Segment};

/// Answers to what a stranger may have made up leave at most once in this time (RFC 5961 section 7; Linux:
/// `__tcp_oow_rate_limited` with `net.ipv4.tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);

/// At most this many runs wait above gaps. That is more than there are when every second segment of a window
/// of 40 MB is lost, and limits what a peer that sends every second byte can cost.
pub(crate) const MOST_RUNS: usize = 1 << 14;

/// The data that has arrived. Numbers are those of [`super::sequence`].
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// RCV.NXT: the next number that is expected.
    pub(super) next: u64,
    /// The number behind the last byte that the peer may send.
    pub(super) edge: u64,
    pub(super) window_scale: u8,
    /// Runs that arrived above a gap, in order and apart from each other.
    out_of_order: Vec<(u64, u64)>,
    /// Bytes in these runs.
    pub(super) waiting: u64,
    /// The runs that SACK reports, the latest first (RFC 2018 section 4).
    recent: ArrayVec<(u64, u64), 4>,
    /// A duplicate to report (RFC 2883).
    pub(super) duplicate: Option<(u64, u64)>,
    /// The number of the peer's FIN, once it is known.
    fin: Option<u64>,
    /// Whether the application does not read for now.
    pub(super) is_paused: bool,
    /// Whether it will not read any more.
    pub(super) is_closed: bool,
    /// Bytes in order that the application has not read.
    pub(super) unread: u64,
    /// The buffer, if it tunes itself.
    pub(super) buffer: Option<ReceiveBuffer>,
    /// Whether RCV.NXT moves in steps; see [`Connection::set_stepwise`].
    pub(super) is_stepwise: bool,
}

impl Receiver {
    /// The runs of bytes that the application has not been given, as the positions of the first byte and
    /// behind the last.
    pub(super) fn waiting_runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let in_order = self.next.saturating_sub(1 + u64::from(self.has_ended()));
        let unread = (in_order - self.unread.min(in_order), in_order);
        // The byte at position p has the number p + 1.
        std::iter::once(unread).chain(self.out_of_order.iter().map(|&(start, end)| (start - 1, end - 1)))
    }

    /// Whether the peer's data has arrived completely.
    pub(super) fn has_ended(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Whether nothing has arrived after this number.
    fn may_end_at(&self, number: u64) -> bool {
        self.next <= number && self.out_of_order.last().is_none_or(|run| run.1 <= number)
    }

    /// Whether data waits above a gap.
    pub(super) fn has_runs(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Whether data or the peer's FIN waits above a gap.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_runs() || self.fin.is_some_and(|fin| fin > self.next)
    }

    pub(super) fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.recent.is_empty()
    }

    /// Whether everything that arrives is read, and the end of the stream is not known.
    #[inline]
    pub(super) const fn takes_all(&self) -> bool {
        self.fin.is_none() && !self.is_paused && !self.is_closed
    }

    /// Checks that the counters agree with a new count.
    #[cfg(test)]
    pub(super) fn check_accounts(&self) {
        assert_eq!(self.waiting, self.out_of_order.iter().map(|run| run.1 - run.0).sum::<u64>());
    }

    /// Bytes that the application has not taken.
    pub(super) const fn held(&self) -> u64 {
        self.unread + self.waiting
    }

    /// How many blocks a SACK would have.
    pub(super) fn block_count(&self) -> usize {
        (usize::from(self.duplicate.is_some()) + self.recent.len()).min(4)
    }

    /// Takes the blocks of a SACK, at most `most` of them. A duplicate is reported once.
    pub(super) fn take_blocks(&mut self, most: usize) -> ArrayVec<(u64, u64), 4> {
        let mut blocks = ArrayVec::new();
        if most == 0 {
            return blocks;
        }
        let duplicate = self.duplicate.take();
        let recent = self.recent.iter().map(|&block| self.with_fin(block));
        blocks.extend(duplicate.into_iter().chain(recent).take(most.min(4)));
        blocks
    }

    /// The block with the FIN behind it, if that waits there: it has a number of its own (RFC 9293 section
    /// 3.4; Linux: `end_seq` counts it).
    fn with_fin(&self, (start, end): (u64, u64)) -> (u64, u64) {
        (start, end + u64::from(self.fin == Some(end)))
    }

    /// The end of the highest run that SACK reports.
    fn highest_reported(&self) -> Option<u64> {
        self.recent.iter().map(|&block| self.with_fin(block).1).max()
    }

    /// Puts the block of the latest segment before the others, with those that it contains taken out (RFC
    /// 2018 section 4).
    fn report_first(&mut self, block: (u64, u64)) {
        self.recent.retain(|other| other.0 < block.0 || other.1 > block.1);
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, block);
    }

    /// Has a FIN reported that comes above a gap without data: the block is empty, or that of the run before.
    fn report_fin(&mut self, fin: u64) {
        let run = self.out_of_order.last().filter(|run| run.1 == fin);
        self.report_first(run.copied().unwrap_or((fin, fin)));
    }

    /// The first part of what waits above a gap that a segment in order, which ends at `end`, brings again.
    fn covered(&self, end: u64) -> Option<(u64, u64)> {
        let first = self.out_of_order.first().filter(|run| run.0 < end)?;
        Some((first.0, first.1.min(end)))
    }

    /// Adds a run that lies above a gap, unless too many wait. Returns the part that was there already, if
    /// any.
    fn insert(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let runs = &mut self.out_of_order;
        // The first run that ends at `start` or later, and the first that begins behind `end`.
        let first = runs.partition_point(|run| run.1 < start);
        let last = first + runs[first..].partition_point(|run| run.0 <= end);
        if first == last && runs.len() >= MOST_RUNS {
            return None;
        }
        let overlap = runs[first..last]
            .iter()
            .map(|run| (run.0.max(start), run.1.min(end)))
            .find(|common| common.0 < common.1);
        let merged = runs[first..last]
            .iter()
            .fold((start, end), |merged, run| (merged.0.min(run.0), merged.1.max(run.1)));
        let known: u64 = runs[first..last].iter().map(|run| run.1 - run.0).sum();
        self.waiting += merged.1 - merged.0 - known;
        if first < last {
            runs[first] = merged;
            runs.drain(first + 1..last);
        } else {
            runs.insert(first, merged);
        }
        self.report_first(merged);
        overlap
    }

    /// Whether a segment that starts at RCV.NXT waits there already, because RCV.NXT was not moved over it.
    fn has_stepped_short(&self, start: u64) -> bool {
        self.is_stepwise && self.out_of_order.first().is_some_and(|run| run.0 <= start)
    }

    /// Moves RCV.NXT to `end`, and over what was waiting there.
    fn advance(&mut self, end: u64) {
        self.next = end;
        let is_stepwise = self.is_stepwise;
        let reached = self.out_of_order.partition_point(|run| run.0 < end || (run.0 == end && !is_stepwise));
        if reached > 0 {
            self.next = end.max(self.out_of_order[reached - 1].1);
            self.waiting -= self.out_of_order.drain(..reached).map(|run| run.1 - run.0).sum::<u64>();
            let next = self.next;
            self.recent.retain(|block| block.0 > next);
        }
    }
}

impl Connection {
    /// The position in the peer's stream of the byte with this sequence number. Of several, it is the one
    /// nearest to what is expected next; [`None`] if it lies before the first byte. It means nothing before
    /// the peer's SYN has arrived.
    pub fn position_of(&self, sequence: u32) -> Option<u64> {
        // The byte at position p has the number p + 1.
        self.peer_numbers.number(sequence, self.receiver.next)?.checked_sub(1)
    }

    /// Tells which parts of the peer's stream between these positions have not arrived, the first part first.
    /// Asked before and after a segment is [handed over](crate::endpoint::Input::Packet), it says which of
    /// its bytes were taken.
    pub fn missing(&self, start: u64, end: u64, each: &mut dyn FnMut(u64, u64)) {
        let receiver = &self.receiver;
        // The byte at position p has the number p + 1.
        let mut from = start.max(receiver.next.saturating_sub(1 + u64::from(receiver.has_ended())));
        let first = receiver.out_of_order.partition_point(|run| run.1 <= from + 1);
        for run in &receiver.out_of_order[first..] {
            let (run_start, run_end) = (run.0 - 1, run.1 - 1);
            if from >= end || run_start >= end {
                break;
            }
            if from < run_start {
                each(from, run_start);
            }
            from = run_end;
        }
        if from < end {
            each(from, end);
        }
    }

    /// Handles a segment that arrives after both ends' SYNs have been acknowledged (RFC 9293 section
    /// 3.10.7.4).
    #[inline(never)]
    pub(super) fn on_segment_synchronised(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        let flags = segment.flags;
        let Some(start) = self.peer_numbers.number(segment.sequence, self.receiver.next) else { return };
        let end = start + u64::from(segment.sequence_length());
        if flags.has(Flags::RST) {
            return self.on_reset(now, start);
        }
        if flags.has(Flags::SYN) {
            if flags.has(Flags::ACK) && start == 0 {
                self.ecn.accurate.record_syn_ack(mark);
            }
            // RFC 5961 section 4. A SYN-ACK that comes again asks for our ACK.
            return self.challenge(now);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        let age = self.age(segment);
        if age > 0 && self.is_from_before(segment, start, end, age) {
            return self.on_old_timestamp(now, segment, start, end);
        }
        let is_late = end <= self.receiver.next || start >= self.receiver.edge;
        // A segment without data that lies before what was acknowledged is a probe of the window.
        let is_probe = end == start && start < self.delayed_ack.acknowledged;
        if is_probe || (end > start && is_late) {
            return self.on_unacceptable(now, segment, start, end);
        }
        let ignores = self.parameters.procedures.ignores_unsent_acknowledgements;
        if ignores && self.state == State::Established && self.acknowledges_unsent(segment) {
            return;
        }
        if age <= 0 {
            self.record_timestamp(segment, start);
        }
        if !self.on_acknowledgement(now, segment, start, end > start) {
            // RFC 9293 section 3.10.7.4, RFC 5961 section 5.
            return self.challenge(now);
        }
        if self.is_subflow() {
            self.timer.record_acknowledgement();
        }
        if end > start {
            self.on_data(now, start, segment, mark);
        } else if mark != EcnField::NotEct || self.ecn.accurate.was_marked {
            // RFC 9768 sections 3.2 and 3.2.2.5.1: packets without data count too.
            self.record_mark(now, mark, segment);
        }
        // The application has not heard of anything yet: what it answers comes later.
        self.send(now);
        self.acknowledge(now);
        if self.receiver.unread > 0 && !self.receiver.is_paused {
            self.read(now);
        }
    }

    /// How much older a segment's timestamp is than the latest one that counted, in the peer's ticks (RFC
    /// 7323 section 5.3: SEG.TSval and TS.Recent).
    #[inline]
    pub(super) fn age(&self, segment: &Segment) -> i32 {
        let stamp = segment.timestamps.filter(|_| self.has_timestamps);
        stamp.map_or(0, |stamp| self.recent_timestamp.wrapping_sub(stamp.value) as i32)
    }

    /// Keeps the timestamp of a segment that begins at `start`, to be echoed (RFC 7323 section 4.3 (2)).
    #[inline]
    pub(super) fn record_timestamp(&mut self, segment: &Segment, start: u64) {
        if let Some(timestamps) = segment.timestamps
            && start <= self.delayed_ack.acknowledged
        {
            self.recent_timestamp = timestamps.value;
        }
    }

    /// Whether a segment of this age, which may be a pure acknowledgement, is an old one (RFC 7323 section
    /// 5.3 R1). Where old timestamps are tolerated, a segment that is older by one tick does not count as
    /// old, and neither does a duplicate acknowledgement that says nothing new and is not older than a
    /// timeout.
    #[cold]
    fn is_from_before(&self, segment: &Segment, start: u64, end: u64, age: i32) -> bool {
        if !self.parameters.procedures.tolerates_old_timestamps {
            return true;
        }
        if age <= 1 || self.recent_timestamp == 0 {
            return false;
        }
        let acknowledged = self.sender.unacknowledged;
        let number = self.own_numbers.number(segment.acknowledgement, acknowledged);
        let is_duplicate = start == end && start == self.receiver.next && number == Some(acknowledged);
        let window = self.offered_window(segment);
        // The peer's clock may tick at up to 1,200 Hz.
        let replayed = self.rtt.rto().as_nanos() / 1_000_000 * 12 / 10;
        !(is_duplicate && window <= self.sender.window && age as u64 <= replayed)
    }

    /// Acknowledges and drops an old segment (RFC 7323 section 5.3 R1).
    #[cold]
    fn on_old_timestamp(&mut self, now: Time, segment: &Segment, start: u64, end: u64) {
        if self.may_answer_again(now, segment) {
            self.answer_unacceptable(now, segment, start, end);
        }
    }

    /// Whether a segment that is not acceptable is answered, although a similar one may have been before
    /// (Linux: `tcp_oow_rate_limited`).
    pub(super) fn may_answer_again(&mut self, now: Time, segment: &Segment) -> bool {
        let has_data = segment.sequence_length() > 0 && !segment.flags.has(Flags::SYN);
        has_data || !self.parameters.procedures.limits_answers || self.takes_turn_to_answer(now)
    }

    /// Whether the last answer is long enough ago; if so, this is one.
    fn takes_turn_to_answer(&mut self, now: Time) -> bool {
        let is_due = self.answered_at.is_none_or(|at| now >= at + ANSWER_INTERVAL);
        if is_due {
            self.answered_at = Some(now);
        }
        is_due
    }

    /// Acknowledges and drops a segment outside the window (RFC 9293 section 3.10.7.4).
    #[cold]
    fn on_unacceptable(&mut self, now: Time, segment: &Segment, start: u64, end: u64) {
        // The acknowledgement of an old segment may still be news, such as that of a probe of the window, as
        // in Linux. A segment ahead of the window comes from a sender that does not see the connection.
        if start < self.receiver.edge {
            self.on_acknowledgement(now, segment, start, end > start);
        }
        if self.may_answer_again(now, segment) {
            self.answer_unacceptable(now, segment, start, end);
        } else if self.state != State::Closed {
            self.send(now);
        }
    }

    fn answer_unacceptable(&mut self, now: Time, segment: &Segment, start: u64, end: u64) {
        self.stats.duplicates_received += u64::from(segment.payload.length > 0);
        let known = end.min(self.receiver.next);
        if start < known && self.parameters.dsack {
            // Linux, tcp_send_dupack: a FIN counts.
            self.receiver.duplicate = Some((start, known));
        }
        if self.state != State::Closed {
            self.send(now);
            // Linux, tcp_send_dupack and tcp_data_queue: data that is old, or that the window has no room
            // for.
            if end > start && start <= self.receiver.edge {
                self.delayed_ack.enter_quick_mode(self.receiver_window(), self.parameters.quick_acks);
            }
            self.send_ack(now);
        }
    }

    /// The peer resets the connection (RFC 9293 section 3.10.7.4, RFC 5961 section 3).
    #[cold]
    fn on_reset(&mut self, now: Time, start: u64) {
        let procedures = &self.parameters.procedures;
        if start != self.receiver.next && !(procedures.takes_more_resets && self.may_reset_at(start)) {
            return self.challenge_reset(now, start);
        }
        // The peer has finished with the connection, and so has an application that has closed its socket.
        let is_told = procedures.reports_late_resets && self.half_close;
        let is_through = matches!(self.state, State::Closing | State::LastAck) && !is_told;
        self.end(if is_through { CloseReason::Shutdown } else { CloseReason::Aborted });
    }

    /// Whether Linux takes a reset with this number although another one is expected: after a FIN that of the
    /// FIN, which some systems send again with the reset (`tcp_reset_check`), or the end of the highest run
    /// that SACK reports.
    fn may_reset_at(&self, start: u64) -> bool {
        let has_finished = matches!(self.state, State::CloseWait | State::Closing | State::LastAck);
        (has_finished && start + 1 == self.receiver.next)
            || (self.has_sack && self.receiver.highest_reported() == Some(start))
    }

    /// Challenges a reset that lies within the window, but not where it must (RFC 5961 section 3.2).
    pub(super) fn challenge_reset(&mut self, now: Time, start: u64) {
        if start > self.receiver.next && start < self.receiver.edge {
            self.challenge(now);
        }
    }

    /// Answers a segment that a stranger may have made up with an acknowledgement: if it was the peer's, the
    /// peer sends it again with the right number (RFC 5961).
    #[cold]
    pub(super) fn challenge(&mut self, now: Time) {
        if self.takes_turn_to_answer(now) {
            self.send_ack(now);
        }
    }

    /// Whether the numbers of a segment after the SYN are near those of the connection, so that it is the
    /// peer's or that of an attacker who sees what the peer sends. Information besides the stream, such as
    /// options of the connection above, counts only then: who guesses the addresses and ports still has 2^32
    /// numbers to guess, as for a reset (RFC 5961).
    pub fn is_near(&self, segment: &Segment) -> bool {
        // A subflow may be ahead of what it waits for by more than a window, because other subflows may have
        // carried that.
        let reach = 4 * self.parameters.receive_buffer.max(1 << 16);
        let next = self.receiver.next;
        let start = self.peer_numbers.number(segment.sequence, next);
        let is_in_reach = start.is_some_and(|start| start.abs_diff(next) <= reach);
        let unacknowledged = self.sender.unacknowledged;
        let number = self.own_numbers.number(segment.acknowledgement, unacknowledged);
        let acknowledges =
            number.is_some_and(|number| number <= self.sender.next && number + reach >= unacknowledged);
        is_in_reach && (acknowledges || segment.flags.has(Flags::RST))
    }

    /// Whether a segment acknowledges our SYN and nothing else.
    pub(crate) fn is_answer_to_syn(&self, segment: &Segment) -> bool {
        segment.flags.has(Flags::ACK) && segment.acknowledgement == self.own_numbers.wire(1)
    }

    /// Takes data or FIN of which at least a part lies inside the window.
    pub(super) fn on_data(&mut self, now: Time, start: u64, segment: &Segment, mark: EcnField) {
        let is_receiving =
            matches!(self.state, State::Established | State::FinWait1 | State::FinWait2 | State::OpenedFast);
        if !is_receiving {
            return;
        }
        if self.receiver.is_closed && start + u64::from(segment.payload.length) > self.receiver.next {
            self.out_of_the_blue(segment);
            return self.end(CloseReason::Aborted);
        }
        self.record_mark(now, mark, segment);
        let length = segment.payload.length;
        // The stream ends once, and nothing lies behind its end, whatever arrives later.
        let last = self.receiver.fin.unwrap_or(u64::MAX).min(self.receiver.edge);
        let end = (start + u64::from(length)).min(last);
        let is_whole = end == start + u64::from(length);
        let has_fin = segment.flags.has(Flags::FIN) && is_whole;
        let repeats_fin = has_fin && self.receiver.fin == Some(end);
        if has_fin && self.receiver.may_end_at(end) {
            self.receiver.fin = Some(end);
        }
        // Linux, tcp_fastopen_add_skb: the data of a SYN says nothing of its sender, as a FIN without data
        // does not (`tcp_data_queue`).
        let is_telling = length > 0 && !segment.flags.has(Flags::SYN);
        let is_larger = is_telling && self.measure_data(now, segment);
        self.delayed_ack.record_pending();
        let next = self.receiver.next;
        if start > next {
            self.stats.out_of_order_received += u64::from(length > 0);
            if self.has_sack {
                // Linux, tcp_data_queue_ofo: without SACK the window stays as it is, so that duplicate
                // acknowledgements look like duplicates.
                self.open_window(segment, 0);
            }
            let overlap = if end > start {
                self.receiver.insert(start, end)
            } else if has_fin && self.receiver.fin == Some(end) {
                self.receiver.report_fin(end);
                repeats_fin.then_some((start, end))
            } else {
                None
            };
            if let Some(overlap) = overlap.filter(|_| self.parameters.dsack) {
                let again = u64::from(repeats_fin && overlap.1 == end);
                self.receiver.duplicate = Some((overlap.0, overlap.1 + again));
                self.stats.duplicates_received += u64::from(length > 0);
            }
            return self.delayed_ack.on_out_of_order();
        }
        if self.parameters.dsack {
            if start < next && length > 0 {
                self.receiver.duplicate = Some((start, next));
            } else if self.receiver.has_runs() {
                // Linux, tcp_ofo_queue: data that SACK has reported and that comes again in order.
                self.receiver.duplicate = self.receiver.covered(end).or(self.receiver.duplicate);
            }
        }
        let had_gaps = self.receiver.has_gaps();
        if had_gaps && self.receiver.has_stepped_short(start) {
            self.stats.duplicates_received += u64::from(length > 0);
            return self.delayed_ack.on_out_of_order();
        }
        if end > next {
            if is_telling {
                self.record_in_order(now, segment, end, is_larger);
            }
            self.advance(now, end);
        }
        if had_gaps && !self.receiver.has_gaps() {
            // RFC 5681 section 4.2: at once, since a gap is filled.
            self.delayed_ack.acknowledge_now();
        }
        self.reach_fin(now);
    }

    /// Takes what arriving data tells about its sender. Returns whether the segment is larger than those
    /// before.
    #[inline]
    fn measure_data(&mut self, now: Time, segment: &Segment) -> bool {
        let length = segment.payload.length;
        self.measure_receiver_rtt(now, segment);
        let is_larger = length > self.delayed_ack.segment_size;
        self.delayed_ack.on_data(&self.parameters, now, length, self.receiver_window());
        is_larger
    }

    /// Notes that data in order arrives, up to `end`.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    fn record_in_order(&mut self, now: Time, segment: &Segment, end: u64, is_larger: bool) {
        if self.parameters.procedures.reading_acknowledges {
            self.delayed_ack.record_push(segment.payload.length, segment.flags.has(Flags::PSH));
        }
        self.tune_for_data(now, segment, end, is_larger);
    }

    /// Takes a segment of data in order up to `end`, all of it inside the window, where nothing waits above a
    /// gap and the stream does not end.
    #[inline]
    pub(super) fn take_in_order(&mut self, now: Time, end: u64, segment: &Segment) {
        let is_larger = self.measure_data(now, segment);
        self.record_in_order(now, segment, end, is_larger);
        let arrived = u64::from(segment.payload.length);
        self.receiver.next = end;
        self.stats.bytes_delivered += arrived;
        self.receiver.unread += arrived;
        if self.receiver.buffer.is_none() {
            self.deliver(now);
        }
    }

    /// Moves RCV.NXT, and gives the application the data in order. Where the buffer tunes itself, it reads
    /// once the segment is acknowledged, as in Linux (`tcp_rcv_established` wakes it last): until then the
    /// data takes room in the window.
    #[inline]
    fn advance(&mut self, now: Time, end: u64) {
        let next = self.receiver.next;
        self.receiver.advance(end);
        let arrived = self.receiver.next - next;
        self.stats.bytes_delivered += arrived;
        self.receiver.unread += arrived;
        if !self.receiver.is_paused && self.receiver.buffer.is_none() {
            self.deliver(now);
        }
    }

    #[inline]
    fn reach_fin(&mut self, now: Time) {
        if self.receiver.fin == Some(self.receiver.next) {
            if !self.receiver.is_paused {
                // Before it hears of the end.
                self.deliver(now);
            }
            self.receiver.next += 1;
            // Nothing lies behind it.
            self.receiver.recent.clear();
            self.on_fin(now);
        }
    }

    /// Whether a segment that fills a gap moves RCV.NXT by itself only, and not over what waits behind it, as
    /// in the ns-3 model of MPTCP (`ReceivedData`), where only what fills a gap of the whole connection does
    /// so (`ReadUnOrderedData`). A segment that waits already and comes again then changes nothing: it is
    /// acknowledged with the number that it has. Set this before each packet; default false (RFC 9293 section
    /// 3.10.7.4).
    pub fn set_stepwise(&mut self, is_stepwise: bool) {
        self.receiver.is_stepwise = is_stepwise;
    }

    /// Moves RCV.NXT past data that waits there, which the application gets; the next acknowledgement tells
    /// the peer (model: `ReadUnOrderedData`).
    pub fn skip_stored(&mut self, now: Time) {
        let is_stepwise = std::mem::take(&mut self.receiver.is_stepwise);
        if self.receiver.has_gaps() {
            self.advance(now, self.receiver.next);
            self.reach_fin(now);
        }
        self.receiver.is_stepwise = is_stepwise;
    }

    /// Gives the application the data that it has not got yet.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn deliver(&mut self, now: Time) {
        let length = std::mem::take(&mut self.receiver.unread);
        // The byte at position p has the number p + 1; a FIN comes after all of them.
        let has_fin = self.receiver.has_ended();
        let offset = self.receiver.next - u64::from(has_fin) - 1 - length;
        if length > 0 {
            let payload = Payload { offset, length: length as u32 };
            let received = Received::new(payload);
            self.outputs.push_back(Output::Event(Event::Received(received)));
            self.tune_for_reading(now, offset + 1, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_put_together() {
        let mut receiver = Receiver { next: 1, ..Receiver::default() };
        assert_eq!(receiver.insert(11, 21), None);
        assert_eq!(receiver.insert(31, 41), None);
        assert_eq!(receiver.insert(51, 61), None);
        assert_eq!(receiver.recent.as_slice(), [(51, 61), (31, 41), (11, 21)]);
        assert_eq!(receiver.insert(21, 31), None, "it closes a gap");
        assert_eq!(receiver.recent.as_slice(), [(11, 41), (51, 61)], "the latest first");
        assert_eq!(receiver.insert(15, 55), Some((15, 41)), "the first part that was there");
        assert_eq!(receiver.out_of_order, [(11, 61)]);
        receiver.insert(71, 81);
        receiver.advance(11);
        assert_eq!((receiver.next, receiver.out_of_order.as_slice()), (61, &[(71, 81)][..]));
        assert_eq!(receiver.recent.as_slice(), [(71, 81)]);
    }

    #[test]
    fn runs_are_no_more_than_so_many() {
        let mut receiver = Receiver { next: 1, ..Receiver::default() };
        for run in 0..2 * MOST_RUNS as u64 {
            receiver.insert(11 + 2 * run, 12 + 2 * run);
        }
        assert_eq!((receiver.out_of_order.len(), receiver.waiting), (MOST_RUNS, MOST_RUNS as u64));
        receiver.insert(12, 13);
        assert_eq!(receiver.waiting, MOST_RUNS as u64 + 1, "what closes a gap is taken");
        receiver.check_accounts();
    }

    #[test]
    fn what_is_missing_lies_between_the_runs() {
        let mut drill = crate::tcp::testing::Drill::open(&crate::tcp::Config::default(), true);
        drill.data(0, 100).data(200, 50).data(400, 50);
        let missing = |start, end| {
            let mut parts = Vec::new();
            drill.end.missing(start, end, &mut |from, to| parts.push((from, to)));
            parts
        };
        assert_eq!(missing(0, 500), [(100, 200), (250, 400), (450, 500)]);
        assert_eq!(missing(50, 150), [(100, 150)]);
        assert_eq!(missing(210, 240), []);
        assert_eq!(missing(220, 300), [(250, 300)]);
        assert_eq!(missing(600, 700), [(600, 700)]);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut receiver = Receiver { next: 1, duplicate: Some((1, 5)), ..Receiver::default() };
        for start in [11, 31, 51, 71] {
            receiver.insert(start, start + 10);
        }
        assert_eq!(receiver.take_blocks(3).as_slice(), [(1, 5), (71, 81), (51, 61)]);
        assert_eq!(receiver.take_blocks(3).as_slice(), [(71, 81), (51, 61), (31, 41)]);
    }
}
