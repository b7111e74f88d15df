//! DATA chunks that have been sent and that the cumulative TSN has not passed yet: one dense queue
//! indexed by TSN.

#[cfg(test)]
mod checks;

use std::collections::VecDeque;

use super::gap_acked::GapAcked;
use super::kernel_memory::KernelMemory;
use super::message::Message;
use super::parameters::Parameters;
use super::tsn;
use crate::flow::{PathId, PathSet};
use crate::time::Time;
use crate::wire::sctp::chunk::GapBlock;

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentState {
    /// Given up (RFC 3758): it no longer counts.
    Abandoned,
    /// Acknowledged by a Gap Ack Block.
    Acked,
    /// Acknowledged by a Non-Renegable Gap Ack Block.
    Final,
    /// On its way, counted as outstanding.
    InFlight,
    /// Marked for retransmission.
    Lost,
}

/// How often a chunk in flight was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    Once,
    /// More than once, and it can be reported missing once more (RFC 9260 section 7.2.4).
    Again,
    /// More than once, at least once as fast retransmission.
    AfterFastRetransmit,
}

/// One chunk.
#[expect(clippy::struct_excessive_bools, reason = "flags of the chunk and marks of the sender")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The whole message.
    pub(super) message: Message,
    pub(super) message_id: u32,
    pub(super) expires: Time,
    pub(super) departure: Time,
    /// Where the fragment starts in its message, in bytes.
    pub(super) start: u32,
    /// The fragment's length in bytes.
    pub(super) length: u32,
    /// The bytes that it takes of a congestion window while it is in flight.
    pub(super) window_bytes: u32,
    /// The same as in [`QueuedMessage`](super::queued_message::QueuedMessage).
    pub(super) mid: u32,
    pub(super) beginning: bool,
    pub(super) ending: bool,
    pub(super) state: SentState,
    /// The path on which it was last sent.
    pub(super) path: PathId,
    pub(super) missing_reports: u8,
    /// Whether it has been fast retransmitted and will not be again (RFC 9260 section 7.2.4).
    pub(super) fast_retransmitted: bool,
    /// Whether it was marked for retransmission by a timeout, not by missing reports.
    pub(super) timed_out: bool,
    /// Whether it asks for a SACK at once (RFC 7053).
    pub(super) immediate: bool,
    pub(super) transmissions: u32,
    /// Whether it was sent on more than one path.
    pub(super) on_several_paths: bool,
}

impl Sent {
    /// Whether it can be reported missing once more (RFC 9260 section 7.2.4).
    #[inline]
    pub(super) fn is_reportable(&self) -> bool {
        self.state == SentState::InFlight && !self.fast_retransmitted
    }

    /// Whether it was sent more than once.
    #[inline]
    pub(super) const fn is_again(&self) -> bool {
        self.transmissions > 1
    }

    const fn flight(&self) -> Flight {
        if self.fast_retransmitted {
            Flight::AfterFastRetransmit
        } else if self.is_again() {
            Flight::Again
        } else {
            Flight::Once
        }
    }

    /// Whether it is in flight on this path, after so many times.
    fn is_in_flight_on(&self, path: PathId, flight: Flight) -> bool {
        self.state == SentState::InFlight && self.path == path && self.flight() == flight
    }

    /// The bytes that it takes of the buffers while the cumulative TSN has not passed it; `releases_acked` as
    /// in [`Outstanding`].
    #[inline(always)]
    pub(super) fn buffered(&self, releases_acked: bool) -> Buffered {
        // The peer gives a complete unordered message to its user although an earlier one is missing.
        let is_whole = self.message.unordered && self.beginning && self.ending;
        let (is_sent, is_received) = match self.state {
            SentState::Abandoned => (false, false),
            SentState::Final => (false, !is_whole),
            SentState::Acked => (!releases_acked, !is_whole),
            SentState::InFlight | SentState::Lost => (true, true),
        };
        let part = |counts: bool| if counts { u64::from(self.length) } else { 0 };
        Buffered {
            sender: part(is_sent),
            receiver: part(is_received),
            in_flight: part(self.state == SentState::InFlight),
        }
    }
}

/// Bytes of chunks in the buffers of the two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffered {
    /// In the send buffer: not passed by the cumulative TSN, given up or released.
    pub(super) sender: u64,
    /// On their way, lost, or waiting in the receive buffer.
    pub(super) receiver: u64,
    /// On their way.
    pub(super) in_flight: u64,
}

/// The queue of chunks that the cumulative TSN has not passed.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// TSN of the first chunk of the queue: one past the cumulative TSN.
    pub(super) first_tsn: u32,
    pub(super) chunks: VecDeque<Sent>,
    /// Bytes of user data in flight on all paths.
    bytes: u64,
    /// The bytes that the chunks in flight take of each path's congestion window
    /// ([`Flight`](super::parameters::Flight)).
    in_windows: Vec<u32>,
    /// Bytes of chunks that are held: neither passed by the cumulative TSN nor abandoned nor released.
    pub(super) held_bytes: u64,
    /// The additional memory of these, and of chunks that have not left yet, in the send buffer.
    pub(super) memory: KernelMemory,
    /// With load sharing: the bytes in the buffers, by the path of the chunks.
    pub(super) buffered: Vec<Buffered>,
    /// With load sharing: the paths whose chunks in flight and in the buffers may have changed since this was
    /// last taken.
    pub(super) changed: PathSet,
    /// With load sharing: the paths for which the next SACK may have consequences
    /// ([`Association::apply_to_paths`](super::association::Association::apply_to_paths)).
    pub(super) unsettled: PathSet,
    /// Whether chunks are released once a gap block acknowledges them (NR-SACK).
    pub(super) releases_acked: bool,
    /// Chunks marked for retransmission.
    lost: u32,
    /// Chunks given up.
    abandoned: u32,
    /// No chunk before this TSN is marked for retransmission.
    lost_from: u32,
    /// No chunk before this TSN can be reported missing once more: in flight, and not fast retransmitted.
    reportable_from: u32,
    /// No gap block has covered a TSN after this one.
    pub(super) gap_acked_to: u32,
    /// Chunks marked for retransmission, by the path of the chunks.
    lost_on: Vec<u32>,
    /// With load sharing: the TSNs of each path, in order, that are in flight on it, by their [`Flight`].
    /// Some no longer are, which are taken out when they are met.
    in_flight: Vec<[VecDeque<u32>; 3]>,
    /// Without load sharing: for each path, TSNs before which no chunk is in flight on it: of chunks sent
    /// once, and of others.
    in_flight_from: Vec<[u32; 2]>,
    /// For each path, a TSN before which no chunk of it is marked for retransmission.
    lost_on_from: Vec<u32>,
    /// What the Gap Ack Blocks of the last SACK covered.
    pub(super) gap_acked: GapAcked,
    /// The Non-Renegable Gap Ack Blocks of the NR-SACK that is being processed; none for a SACK.
    pub(super) final_blocks: Box<[GapBlock]>,
    /// What those of the last NR-SACK covered.
    final_acked: GapAcked,
}

impl Outstanding {
    pub(super) fn new(first_tsn: u32, parameters: &Parameters, paths: usize) -> Self {
        let sharing = parameters.load_sharing.as_ref();
        Self {
            first_tsn,
            chunks: VecDeque::new(),
            bytes: 0,
            in_windows: vec![0; paths],
            held_bytes: 0,
            // Load sharing, which Linux does not have, splits buffers by the bytes of chunks.
            memory: KernelMemory::new(parameters.procedures.charges_kernel_memory && sharing.is_none()),
            buffered: vec![Buffered::default(); if sharing.is_some() { paths } else { 0 }],
            changed: PathSet::default(),
            unsettled: PathSet::default(),
            releases_acked: sharing.is_some_and(|config| config.nr_sack),
            lost: 0,
            abandoned: 0,
            lost_from: first_tsn,
            reportable_from: first_tsn,
            gap_acked_to: first_tsn.wrapping_sub(1),
            lost_on: vec![0; paths],
            in_flight: vec![Default::default(); if sharing.is_some() { paths } else { 0 }],
            in_flight_from: vec![[first_tsn; 2]; paths],
            lost_on_from: vec![first_tsn; paths],
            gap_acked: GapAcked::default(),
            final_blocks: Box::default(),
            final_acked: GapAcked::default(),
        }
    }

    /// Sets the TSN of the first chunk, before any is added.
    pub(super) fn begin(&mut self, first_tsn: u32) {
        debug_assert!(self.chunks.is_empty(), "chunks are outstanding");
        (self.first_tsn, self.lost_from, self.reportable_from) = (first_tsn, first_tsn, first_tsn);
        self.gap_acked_to = self.cumulative_tsn();
        self.in_flight.fill(Default::default());
        self.in_flight_from.fill([first_tsn; 2]);
        self.lost_on_from.fill(first_tsn);
    }

    /// Adds a path after the last one.
    pub(super) fn add_path(&mut self) {
        self.in_windows.push(0);
        self.in_flight_from.push([self.first_tsn; 2]);
        self.lost_on.push(0);
        self.lost_on_from.push(self.first_tsn);
        if !self.buffered.is_empty() {
            self.buffered.push(Buffered::default());
            self.in_flight.push(Default::default());
        }
    }

    /// The last TSN that the peer has acknowledged cumulatively.
    pub(super) const fn cumulative_tsn(&self) -> u32 {
        self.first_tsn.wrapping_sub(1)
    }

    /// The TSN that the next chunk gets.
    pub(super) fn next_tsn(&self) -> u32 {
        self.first_tsn.wrapping_add(self.chunks.len() as u32)
    }

    pub(super) const fn index(&self, tsn: u32) -> usize {
        tsn.wrapping_sub(self.first_tsn) as usize
    }

    pub(super) const fn tsn(&self, index: usize) -> u32 {
        self.first_tsn.wrapping_add(index as u32)
    }

    /// Bytes of user data in flight on all paths.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that the chunks in flight on this path take of its congestion window.
    #[inline(always)]
    pub(super) fn on(&self, path: PathId) -> u32 {
        self.in_windows[path.index()]
    }

    /// Chunks marked for retransmission.
    pub(super) const fn lost(&self) -> u32 {
        self.lost
    }

    /// Chunks given up.
    pub(super) const fn abandoned(&self) -> u32 {
        self.abandoned
    }

    /// Adds a chunk at this position to the sums for its state and path.
    #[inline(always)]
    fn add(&mut self, index: usize, state: SentState, path: PathId, length: u32, window_bytes: u32) {
        match state {
            SentState::InFlight => {
                self.bytes += u64::from(length);
                self.in_windows[path.index()] += window_bytes;
            }
            SentState::Lost => {
                let tsn = self.tsn(index);
                if self.lost == 0 || tsn::before(tsn, self.lost_from) {
                    self.lost_from = tsn;
                }
                self.lost += 1;
                let (count, from) = (&mut self.lost_on[path.index()], &mut self.lost_on_from[path.index()]);
                if *count == 0 || tsn::before(tsn, *from) {
                    *from = tsn;
                }
                *count += 1;
            }
            SentState::Abandoned => self.abandoned += 1,
            SentState::Acked | SentState::Final => {}
        }
    }

    /// A chunk is no longer in this state and on this path: the sums lose it.
    #[inline(always)]
    fn subtract(&mut self, state: SentState, path: PathId, length: u32, window_bytes: u32) {
        match state {
            SentState::InFlight => {
                self.bytes -= u64::from(length);
                self.in_windows[path.index()] -= window_bytes;
            }
            SentState::Lost => {
                self.lost -= 1;
                self.lost_on[path.index()] -= 1;
            }
            SentState::Abandoned => self.abandoned -= 1,
            SentState::Acked | SentState::Final => {}
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, chunk: Sent) {
        self.add(self.chunks.len(), chunk.state, chunk.path, chunk.length, chunk.window_bytes);
        self.held_bytes += u64::from(chunk.length);
        if !self.buffered.is_empty() {
            self.enter(&chunk);
            let tsn = self.next_tsn();
            self.in_flight[chunk.path.index()][Flight::Once as usize].push_back(tsn);
        }
        self.chunks.push_back(chunk);
    }

    /// Removes the first chunk.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Sent> {
        if !self.buffered.is_empty()
            && let Some(&first) = self.chunks.front()
        {
            self.leave(&first);
            self.forget_in_flight(&first);
        }
        let chunk = self.chunks.pop_front()?;
        self.first_tsn = self.first_tsn.wrapping_add(1);
        self.subtract(chunk.state, chunk.path, chunk.length, chunk.window_bytes);
        if self.is_held(chunk.state) {
            self.held_bytes -= u64::from(chunk.length);
            self.memory.release_chunk(chunk.length);
        }
        Some(chunk)
    }

    /// Whether a chunk in this state, not yet passed by the cumulative TSN, is in the send buffer.
    #[inline(always)]
    const fn is_held(&self, state: SentState) -> bool {
        match state {
            SentState::Abandoned | SentState::Final => false,
            SentState::Acked => !self.releases_acked,
            SentState::InFlight | SentState::Lost => true,
        }
    }

    /// Changes the state and the path of the chunk at this position.
    #[inline(always)]
    pub(super) fn change(&mut self, index: usize, state: SentState, path: PathId) {
        let Sent { state: before, path: from, length, window_bytes, .. } = self.chunks[index];
        self.subtract(before, from, length, window_bytes);
        self.add(index, state, path, length, window_bytes);
        match (self.is_held(before), self.is_held(state)) {
            (true, false) => {
                self.held_bytes -= u64::from(length);
                self.memory.release_chunk(length);
            }
            (false, true) => self.held_bytes += u64::from(length),
            (false, false) | (true, true) => {}
        }
        if !self.buffered.is_empty() {
            let chunk = self.chunks[index];
            self.leave(&chunk);
            self.enter(&Sent { state, path, ..chunk });
            if state == SentState::InFlight {
                self.record_in_flight(self.tsn(index), path, chunk.flight());
            }
        } else if state == SentState::InFlight {
            let tsn = self.tsn(index);
            if !self.chunks[index].fast_retransmitted && tsn::before(tsn, self.reportable_from) {
                self.reportable_from = tsn;
            }
            for from in &mut self.in_flight_from[path.index()] {
                *from = if tsn::before(tsn, *from) { tsn } else { *from };
            }
        }
        let chunk = &mut self.chunks[index];
        chunk.state = state;
        chunk.path = path;
    }

    /// The chunk takes up room in the buffers.
    #[cold]
    fn enter(&mut self, chunk: &Sent) {
        let Buffered { sender, receiver, in_flight } = chunk.buffered(self.releases_acked);
        let own = &mut self.buffered[chunk.path.index()];
        own.sender += sender;
        own.receiver += receiver;
        own.in_flight += in_flight;
        self.changed.insert(chunk.path);
        self.unsettled.insert(chunk.path);
    }

    /// Frees the room that the chunk took up in the buffers.
    #[cold]
    fn leave(&mut self, chunk: &Sent) {
        let Buffered { sender, receiver, in_flight } = chunk.buffered(self.releases_acked);
        let own = &mut self.buffered[chunk.path.index()];
        own.sender -= sender;
        own.receiver -= receiver;
        own.in_flight -= in_flight;
        self.changed.insert(chunk.path);
        self.unsettled.insert(chunk.path);
    }

    /// Records that this TSN is in flight on this path now.
    #[cold]
    fn record_in_flight(&mut self, tsn: u32, path: PathId, flight: Flight) {
        let own = &mut self.in_flight[path.index()][flight as usize];
        let place = own.partition_point(|&other| tsn::before(other, tsn));
        if own.get(place) != Some(&tsn) {
            own.insert(place, tsn);
        }
    }

    /// The first chunk, which is about to be removed, is not in flight any more.
    #[cold]
    fn forget_in_flight(&mut self, first: &Sent) {
        for own in &mut self.in_flight[first.path.index()] {
            while own.front().is_some_and(|&tsn| tsn::at_or_before(tsn, self.first_tsn)) {
                own.pop_front();
            }
        }
    }

    /// With load sharing: adds to `found` what was sent on this path before this TSN and can be reported
    /// missing.
    pub(super) fn find_reportable(&mut self, path: PathId, below: u32, found: &mut Vec<u32>) {
        for flight in [Flight::Once, Flight::Again] {
            let own = &mut self.in_flight[path.index()][flight as usize];
            let count = own.partition_point(|&tsn| tsn::before(tsn, below));
            let mut kept = 0;
            for place in 0..count {
                let tsn = own[place];
                // Of a TSN that the cumulative one has passed there is no chunk.
                let chunk = self.chunks.get(tsn.wrapping_sub(self.first_tsn) as usize);
                if chunk.is_some_and(|chunk| chunk.is_in_flight_on(path, flight)) {
                    found.push(tsn);
                    own[kept] = tsn;
                    kept += 1;
                }
            }
            own.drain(kept..count);
        }
    }

    /// The first TSN that can be reported missing, or one before it.
    pub(super) const fn reportable_from(&self) -> u32 {
        if tsn::before(self.reportable_from, self.first_tsn) { self.first_tsn } else { self.reportable_from }
    }

    /// Records that no chunk before this TSN can be reported missing.
    pub(super) const fn report_from(&mut self, tsn: u32) {
        self.reportable_from = tsn;
    }

    /// Frees the chunks that the NR-SACK acknowledges for good, which are acknowledged by now
    /// (draft-natarajan-tsvwg-sctp-nrsack section 5.2).
    #[cold]
    pub(super) fn finish(&mut self, cumulative_tsn: u32) {
        let next_tsn = self.next_tsn();
        self.final_acked.compare(cumulative_tsn, &self.final_blocks, next_tsn, false);
        self.final_acked.adopt();
        for (start, end) in std::mem::take(&mut self.final_acked.added) {
            for index in self.index(start)..=self.index(end) {
                if self.chunks[index].state == SentState::Acked {
                    self.change(index, SentState::Final, self.chunks[index].path);
                }
            }
        }
    }

    /// The last TSN of this path that a gap block has acknowledged.
    pub(super) fn last_gap_acked(&self, path: PathId) -> Option<u32> {
        let known = tsn::at_or_before(self.first_tsn, self.gap_acked_to);
        let count = if known { self.index(self.gap_acked_to) + 1 } else { 0 };
        let is_acked =
            |chunk: &Sent| matches!(chunk.state, SentState::Acked | SentState::Final) && chunk.path == path;
        self.chunks.iter().take(count).rposition(is_acked).map(|index| self.tsn(index))
    }

    /// Whether a chunk of this path up to `last` is neither acknowledged nor given up.
    pub(super) fn has_pending(&mut self, path: PathId, last: u32) -> bool {
        let last = self.index(last);
        self.has_in_flight(path, last + 1) || self.first_lost_on(path).is_some_and(|index| index <= last)
    }

    /// Position of the first chunk of this path that is marked for retransmission. What the search has
    /// passed, the next one leaves out.
    fn first_lost_on(&mut self, path: PathId) -> Option<usize> {
        if self.lost_on[path.index()] == 0 {
            return None;
        }
        let from = self.lost_on_from[path.index()];
        let start = if tsn::before(from, self.first_tsn) { 0 } else { self.index(from) };
        let is_it = |chunk: &Sent| chunk.state == SentState::Lost && chunk.path == path;
        let index = (start..self.chunks.len()).find(|&index| is_it(&self.chunks[index]))?;
        self.lost_on_from[path.index()] = self.tsn(index);
        Some(index)
    }

    /// Whether a chunk before this position is in flight on this path.
    pub(super) fn has_in_flight(&mut self, path: PathId, end: usize) -> bool {
        [false, true].into_iter().any(|is_again| self.has_in_flight_of(path, is_again, end))
    }

    /// Whether a chunk before this position is in flight on this path that was sent once, or more than once.
    /// What the search has passed, the next one leaves out.
    pub(super) fn has_in_flight_of(&mut self, path: PathId, is_again: bool, end: usize) -> bool {
        if !self.in_flight.is_empty() {
            let flights = [Flight::Once, Flight::Again, Flight::AfterFastRetransmit];
            let flights = if is_again { &flights[1..] } else { &flights[..1] };
            return flights
                .iter()
                .any(|&flight| self.first_in_flight(path, flight).is_some_and(|at| at < end));
        }
        let from = self.in_flight_from[path.index()][usize::from(is_again)];
        let start = if tsn::before(from, self.first_tsn) { 0 } else { self.index(from) };
        let end = end.min(self.chunks.len());
        if start >= end {
            return false;
        }
        let is_it = |chunk: &Sent| {
            chunk.state == SentState::InFlight && chunk.path == path && chunk.is_again() == is_again
        };
        let found = (start..end).find(|&index| is_it(&self.chunks[index]));
        self.in_flight_from[path.index()][usize::from(is_again)] = self.tsn(found.unwrap_or(end));
        found.is_some()
    }

    /// With load sharing: position of the first chunk that is in flight on this path after so many times.
    fn first_in_flight(&mut self, path: PathId, flight: Flight) -> Option<usize> {
        let own = &mut self.in_flight[path.index()][flight as usize];
        loop {
            let index = own.front()?.wrapping_sub(self.first_tsn) as usize;
            if self.chunks.get(index).is_some_and(|chunk| chunk.is_in_flight_on(path, flight)) {
                return Some(index);
            }
            own.pop_front();
        }
    }

    /// Position of the first chunk that is marked for retransmission.
    pub(super) fn first_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        if tsn::before(self.lost_from, self.first_tsn) {
            self.lost_from = self.first_tsn;
        }
        let start = self.index(self.lost_from);
        let index = (start..self.chunks.len()).find(|&i| self.chunks[i].state == SentState::Lost)?;
        self.lost_from = self.tsn(index);
        Some(index)
    }
}
