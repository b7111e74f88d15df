//! Places in its stream that an application has marked: ends of records, and what is pushed.

use std::collections::VecDeque;

/// What an application has said about places in its stream. Numbers are those of [`super::sequence`].
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The ends of what is pushed, in order, as long as they are not acknowledged: the number behind the last
    /// byte, and whether a record ends there.
    ends: VecDeque<(u64, bool)>,
    /// The ends of the kernel's buffers that are full, in order, as long as they are not acknowledged.
    buffers: VecDeque<u64>,
    /// The ends of pieces that are each to leave as one segment, in order, as long as they have not left.
    pieces: VecDeque<u64>,
    /// Whether less than a full segment waits, whatever else Nagle's algorithm says (`TCP_CORK`).
    pub(super) is_corked: bool,
    /// Whether the last write said that more is to come (`MSG_MORE`), so that its end is not pushed.
    pub(super) more_follows: bool,
    /// Whether that write is being sent now, in which less than a full segment waits.
    pub(super) holds: bool,
}

impl Marks {
    /// How many of the `length` bytes from number `start` on may leave in one segment: none of them lies
    /// behind the end of a record.
    #[inline]
    pub(super) fn limit(&self, start: u64, length: u64) -> u64 {
        if self.ends.is_empty() {
            return match self.pieces.front() {
                Some(end) => length.min(end - start),
                None => length,
            };
        }
        let record = self.ends.iter().find(|(end, is_record)| *is_record && *end > start);
        record.map_or(length, |(end, _)| length.min(end - start))
    }

    /// What is written up to this number is to leave as one segment.
    pub(super) fn end_piece(&mut self, end: u64) {
        self.pieces.push_back(end);
    }

    /// Everything before this number has left.
    #[inline]
    pub(super) fn on_sent(&mut self, next: u64) {
        if self.pieces.front().is_some_and(|end| *end <= next) {
            self.pieces.pop_front();
        }
    }

    /// Whether a record ends there.
    #[inline]
    pub(super) fn ends(&self, number: u64) -> bool {
        self.ends.iter().any(|&(end, is_record)| is_record && end == number)
    }

    /// Whether the segment that ends there is pushed.
    #[inline]
    pub(super) fn pushes(&self, number: u64) -> bool {
        !self.ends.is_empty() && self.ends.iter().any(|&(end, _)| end == number)
    }

    /// How many of the `length` bytes from number `start` on may leave together: none of them lies behind the
    /// end of a buffer.
    #[inline]
    pub(super) fn limit_together(&self, start: u64, length: u64) -> u64 {
        if self.buffers.is_empty() {
            return length;
        }
        self.buffers.iter().find(|end| **end > start).map_or(length, |end| length.min(end - start))
    }

    /// Notes the end of a buffer.
    pub(super) fn end_buffer(&mut self, acknowledged: u64, end: u64) {
        self.buffers.retain(|end| *end > acknowledged);
        self.buffers.push_back(end);
    }

    /// What is written next, from number `start` on, goes into the buffer of what was written last.
    pub(super) fn extend_buffer(&mut self, start: u64) {
        self.buffers.retain(|end| *end != start);
    }

    pub(super) fn add(&mut self, acknowledged: u64, end: u64, is_record: bool) {
        self.ends.retain(|(end, _)| *end > acknowledged);
        self.ends.push_back((end, is_record));
    }
}
