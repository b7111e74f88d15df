//! The receiving half: DATA and FORWARD TSN arrive, SACKs leave (RFC 9260 sections 6.2 to 6.7,
//! RFC 3758 section 3.6).

use smallvec::SmallVec;

use super::association::{Association, State};
use super::config::SackPath;
use super::reassembly::unwrap_tsn;
use crate::endpoint::{Event, Received};
use crate::ground::PathId;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{
    Chunk, Data, ErrorCause, ForwardTsn, GapBlock, IData, IForwardTsn, NrSack, Sack,
};

/// The most Gap Ack Blocks that Linux reports (`SCTP_MAX_GABS`).
const LINUX_MAX_GAP_BLOCKS: usize = 16;

/// The kinds of arriving TSNs.
enum Arrival {
    New(u64),
    Old(u64),
    Refused,
}

impl Association {
    #[inline(never)]
    pub(super) fn on_data(&mut self, path: PathId, data: &Data) {
        let tsn = match self.take_tsn(path, data.tsn, data.immediate) {
            Arrival::New(tsn) => tsn,
            Arrival::Old(tsn) => {
                if self.parameters.deliver_overtaken && self.tcb.receiver.received.was_overtaken(tsn) {
                    self.deliver_overtaken(data);
                }
                return;
            }
            Arrival::Refused => return,
        };
        if data.stream >= self.tcb.receiver.inbound_streams {
            self.report_invalid_stream(path, data.stream);
        } else if self.parts.resets.is_some() && self.holds_data(tsn, data) {
            // The data is kept back until its stream has been reset.
        } else if tsn <= self.tcb.receiver.received.cumulative
            && !self.tcb.receiver.reassembly.continues(tsn, data)
        {
            // Section 6.9: the fragments of a message follow each other and have one number. Out of sequence
            // a FORWARD TSN may still pass the one before.
            self.abort(self.last_now, ErrorCause::violation("a fragment does not continue a message"));
        } else {
            self.take_data(tsn, data);
        }
    }

    /// Takes a DATA chunk for a stream that exists and is not being reset.
    #[inline(always)]
    pub(super) fn take_data(&mut self, tsn: u64, data: &Data) {
        if self.tcb.receiver.reassembly.delivers_parts() {
            self.deliver_beside_parts(tsn, data);
        } else {
            self.deliver_data(tsn, data);
        }
        if self.free_space() == 0 {
            self.deliver_parts();
        }
    }

    #[inline(always)]
    pub(super) fn deliver_data(&mut self, tsn: u64, data: &Data) {
        let Self { tcb, outbox, stats, .. } = self;
        tcb.receiver.reassembly.insert(tsn, *data, |message| {
            stats.messages_delivered += 1;
            outbox.emit(Event::Received(message));
        });
    }

    /// An I-DATA chunk has arrived (RFC 8260 section 2.2.3).
    #[cold]
    pub(super) fn on_i_data(&mut self, path: PathId, data: &IData) {
        if !self.sender.interleaves {
            return;
        }
        let Arrival::New(tsn) = self.take_tsn(path, data.tsn, data.immediate) else { return };
        if data.stream >= self.tcb.receiver.inbound_streams {
            self.report_invalid_stream(path, data.stream);
        } else if self.parts.resets.is_none() || !self.holds_i_data(tsn, data) {
            self.deliver_i_data(data);
        }
    }

    pub(super) fn deliver_i_data(&mut self, data: &IData) {
        self.deliver_with(|association, tell| {
            association.tcb.receiver.interleaved.insert(
                data,
                &mut association.tcb.receiver.reassembly.bytes,
                tell,
            );
        });
        if self.free_space() == 0 {
            self.deliver_parts();
        }
    }

    /// Reports data for a stream that does not exist; it is acknowledged and dropped (section 6.5).
    #[cold]
    fn report_invalid_stream(&mut self, path: PathId, stream: u16) {
        self.answer(path, Chunk::Error(ErrorCause::invalid_stream(stream)));
    }

    /// User data with this TSN has arrived.
    #[inline(always)]
    fn take_tsn(&mut self, path: PathId, tsn: u32, immediate: bool) -> Arrival {
        if !self.accepts_data() {
            return Arrival::Refused;
        }
        self.tcb.receiver.delayed_sack.packet_has_data = true;
        self.tcb.receiver.delayed_sack.source = path;
        // RFC 7053: the I bit asks for a SACK at once.
        self.tcb.receiver.delayed_sack.immediate |= immediate;
        let tsn = unwrap_tsn(self.tcb.receiver.received.cumulative, tsn);
        // RFC 9260 section 6.2: with the window closed, what lies beyond everything that has arrived is
        // dropped.
        if self.tcb.receiver.received.is_too_far(tsn)
            || (self.free_space() == 0 && tsn > self.tcb.receiver.received.highest())
        {
            self.tcb.receiver.delayed_sack.immediate = true;
            return Arrival::Refused;
        }
        if !self.tcb.receiver.received.insert(tsn) {
            self.stats.duplicates_received += 1;
            self.tcb.receiver.delayed_sack.packet_has_duplicates = true;
            return Arrival::Old(tsn);
        }
        self.stats.data_chunks_received += 1;
        self.tcb.receiver.delayed_sack.packet_has_new_data = true;
        // Section 6.7: SACKs are not delayed while there is a gap, unless reordering is the rule.
        self.tcb.receiver.delayed_sack.immediate |=
            self.tcb.receiver.received.has_gaps() && !self.delays_sacks_with_gaps();
        Arrival::New(tsn)
    }

    /// Delivers a message that the sender had given up and that has arrived all the same. Only whole,
    /// unordered messages are of use.
    fn deliver_overtaken(&mut self, data: &Data) {
        let Data { stream, ppid, unordered, payload, .. } = *data;
        if unordered && data.beginning && data.ending {
            self.stats.messages_delivered += 1;
            let message = Received { stream, ppid, unordered, payload };
            self.outbox.emit(Event::Received(message));
        }
    }

    #[inline(never)]
    pub(super) fn on_forward_tsn(&mut self, now: Time, path: PathId, forward: &ForwardTsn) {
        if !self.tcb.takes_forward_tsn {
            // RFC 3758 section 3.3: FORWARD TSN was not agreed on.
            self.answer(path, Chunk::Opaque(Box::new(forward.report())));
            return;
        }
        let Some(new_cumulative) = self.take_forward_tsn(now, path, forward.new_cumulative_tsn) else {
            return;
        };
        let streams = self.tcb.receiver.inbound_streams;
        let skipped = forward.streams.iter().filter(|skip| skip.stream < streams);
        self.deliver_with(|association, tell| {
            association.tcb.receiver.reassembly.forward(new_cumulative, skipped, tell)
        });
        if self.parts.is_any {
            self.note_rare_parts();
        }
        self.deliver_parts_after_skip();
    }

    /// With what a FORWARD TSN has passed, the last chunk that was missing may be gone.
    fn deliver_parts_after_skip(&mut self) {
        if self.free_space() == 0 && self.deliver_parts() {
            self.tcb.receiver.delayed_sack.packet_has_data = true;
        }
    }

    /// An I-FORWARD-TSN has arrived (RFC 8260 section 2.3.1).
    #[cold]
    pub(super) fn on_i_forward_tsn(&mut self, now: Time, path: PathId, forward: &IForwardTsn) {
        if !self.sender.interleaves || self.take_forward_tsn(now, path, forward.new_cumulative_tsn).is_none()
        {
            return;
        }
        let streams = self.tcb.receiver.inbound_streams;
        self.deliver_with(|association, tell| {
            for skip in forward.messages.iter().filter(|skip| skip.stream < streams) {
                association.tcb.receiver.interleaved.forward(
                    *skip,
                    &mut association.tcb.receiver.reassembly.bytes,
                    tell,
                );
            }
        });
        self.deliver_parts_after_skip();
    }

    /// Moves the cumulative TSN to that of a FORWARD TSN and returns it; [`None`] if it was there already or
    /// data is no longer accepted.
    #[inline(always)]
    fn take_forward_tsn(&mut self, now: Time, path: PathId, new_cumulative_tsn: u32) -> Option<u64> {
        if !self.accepts_data() {
            return None;
        }
        let new_cumulative = unwrap_tsn(self.tcb.receiver.received.cumulative, new_cumulative_tsn);
        if !self.tcb.receiver.received.advance_to(new_cumulative) {
            // RFC 3758 section 3.6: a FORWARD TSN that says nothing new should be answered, since a SACK may
            // have been lost. This is not done at once: where the RTO is below the round-trip time, every
            // SACK calls for a FORWARD TSN, and answering each would never end.
            let is_answered = self.parameters.sack_forward_tsn && self.parameters.sack_delay > Duration::ZERO;
            if is_answered && self.tcb.receiver.delayed_sack.timer.is_never() {
                self.tcb.receiver.delayed_sack.source = path;
                self.tcb.receiver.delayed_sack.timer = self.deadline(now, self.parameters.sack_delay);
            }
            return None;
        }
        if self.parameters.sack_forward_tsn {
            // Section 3.6: acknowledged by the rules for DATA.
            self.tcb.receiver.delayed_sack.packet_has_data = true;
            self.tcb.receiver.delayed_sack.source = path;
            self.tcb.receiver.delayed_sack.immediate |= self.tcb.receiver.received.has_gaps();
        }
        Some(new_cumulative)
    }

    /// Decides, once all chunks of a packet have been taken in, whether to acknowledge now or later (RFC 9260
    /// section 6.2).
    #[inline(never)]
    pub(super) fn finish_packet(&mut self, now: Time) {
        self.tcb.receiver.delayed_sack.packet_has_data = false;
        let duplicates = std::mem::take(&mut self.tcb.receiver.delayed_sack.packet_has_duplicates);
        let new_data = std::mem::take(&mut self.tcb.receiver.delayed_sack.packet_has_new_data);
        if self.state == State::Ended {
            return;
        }
        // Section 6.2: a packet with duplicates and no new data is answered at once.
        self.tcb.receiver.delayed_sack.immediate |= duplicates && !new_data;
        if self.state == State::ShutdownSent {
            self.tcb.receiver.delayed_sack.packets += 1;
            // Section 9.2: every packet with data is answered with SHUTDOWN at once, and with a SACK where
            // that cannot acknowledge all that has arrived.
            self.answer_data_with_shutdown(now);
            if self.tcb.receiver.received.has_gaps() || !self.tcb.receiver.received.duplicates.is_empty() {
                self.send_sack();
            } else {
                self.tcb.receiver.delayed_sack.sent();
            }
        } else {
            self.acknowledge_packet(now);
        }
    }

    /// Acknowledges a packet with data at once, or sees to it that it is later.
    #[inline(always)]
    pub(super) fn acknowledge_packet(&mut self, now: Time) {
        self.tcb.receiver.delayed_sack.packets += 1;
        if self.tcb.receiver.delayed_sack.immediate
            || self.tcb.receiver.delayed_sack.packets >= self.parameters.sack_frequency
            || self.parameters.sack_delay == Duration::ZERO
        {
            self.send_sack();
        } else if self.tcb.receiver.delayed_sack.timer.is_never()
            || self.parameters.procedures.data_restarts_sack_delay
        {
            self.tcb.receiver.delayed_sack.timer = self.deadline(now, self.parameters.sack_delay);
        }
    }

    pub(super) fn send_sack(&mut self) {
        let path = self.sack_path();
        let packets = self.packets_to_report();
        let mut sack = Chunk::Sack(packets, self.take_sack());
        if self.tcb.uses_nr_sacks {
            self.make_nr_sack(&mut sack);
        }
        if self.outbox.answers.is_any() && self.answers_with(path, sack.wire_size()) {
            self.answer(path, sack);
        } else {
            self.transmit_one(path, sack);
        }
    }

    /// The path on which a SACK is sent.
    #[inline(always)]
    pub(super) fn sack_path(&self) -> PathId {
        let source = self.tcb.receiver.delayed_sack.source;
        if self.parts.addresses.is_some() && !self.allows_data(source) {
            return self.routing.selection.current;
        }
        match self.parameters.sack_path {
            SackPath::Current => self.routing.selection.current,
            SackPath::Source => source,
            SackPath::SourceUnlessFailed => {
                // `sctp_outq_select_transport`: not over a path that is unconfirmed either.
                if self.routing.status[source.index()].is_usable() {
                    source
                } else {
                    self.routing.selection.current
                }
            }
        }
    }

    /// The SACK that is due. After this call none is due any more.
    #[inline(always)]
    pub(super) fn take_sack(&mut self) -> Sack {
        self.tcb.receiver.delayed_sack.sent();
        self.stats.sacks_sent += 1;
        // Section 6.2: no more gap blocks than fit into the path MTU, the lowest first.
        let most = if self.parameters.procedures.few_gap_blocks {
            self.routing.sack_entries.min(LINUX_MAX_GAP_BLOCKS)
        } else {
            self.routing.sack_entries
        };
        let gap_blocks = self.tcb.receiver.received.gap_blocks(most);
        let duplicates =
            self.tcb.receiver.received.take_duplicates(self.routing.sack_entries - gap_blocks.len());
        self.tcb.receiver.advertised = self.free_space();
        Sack {
            cumulative_tsn: self.tcb.receiver.received.cumulative as u32,
            a_rwnd: self.tcb.receiver.advertised,
            gap_blocks,
            duplicates,
        }
    }

    /// Puts an NR-SACK in the place of a SACK (draft-natarajan-tsvwg-sctp-nrsack section 5.1).
    #[cold]
    #[inline(never)]
    pub(super) fn make_nr_sack(&self, chunk: &mut Chunk) {
        let Chunk::Sack(packets, sack) = chunk else { return };
        let mut final_blocks = std::mem::take(&mut sack.gap_blocks).into_vec();
        if self.parameters.procedures.only_delivered_is_final {
            let waiting = self.tcb.receiver.reassembly.waiting_tsns();
            (sack.gap_blocks, final_blocks) =
                split_blocks(&final_blocks, self.tcb.receiver.received.cumulative, &waiting);
        }
        // Section 6.2 of the RFC: what has no room is left out, the highest blocks first. The header is 4
        // bytes longer than that of SACK.
        let room = self.routing.sack_entries - 1;
        sack.gap_blocks.truncate(room);
        final_blocks.truncate(room - sack.gap_blocks.len());
        let mut duplicates = std::mem::take(&mut sack.duplicates).into_vec();
        duplicates.truncate(room - sack.gap_blocks.len() - final_blocks.len());
        sack.duplicates = duplicates.into();
        let nr_sack = NrSack { sack: sack.clone(), final_blocks: final_blocks.into() };
        *chunk = Chunk::NrSack(*packets, Box::new(nr_sack));
    }

    /// Bytes of the receive buffer that are free.
    #[inline(always)]
    pub(super) fn free_space(&self) -> u32 {
        self.tcb.receiver.free_space(self.parameters.receive_buffer, self.unread)
    }

    /// Says how many bytes of what was delivered the application has not read: they take up room in the
    /// receive buffer. An application that never says so reads at once.
    pub fn set_unread(&mut self, bytes: u64) {
        self.unread = bytes;
        if self.free_space() == 0 && self.accepts_data() {
            self.deliver_parts();
            if self.is_over() {
                return;
            }
        }
        // RFC 1122 section 4.2.3.3, to which RFC 9260 section 6.2 refers: the peer is told about room once
        // there is enough of it (Linux: `sctp_peer_needs_update`).
        let enough = (self.parameters.receive_buffer / 16).max(self.sender.fragment_limit);
        if self.accepts_data() && self.free_space() >= self.tcb.receiver.advertised.saturating_add(enough) {
            self.send_sack();
        }
    }

    const fn accepts_data(&self) -> bool {
        matches!(self.state, State::Established | State::ShutdownPending | State::ShutdownSent)
    }
}

/// Divides blocks into those of TSNs that wait to be delivered, which are in order, and the others.
fn split_blocks(
    blocks: &[GapBlock],
    cumulative: u64,
    waiting: &[u64],
) -> (SmallVec<[GapBlock; 4]>, Vec<GapBlock>) {
    let (mut waits, mut delivered) = (SmallVec::new(), Vec::new());
    for block in blocks {
        let mut start = block.start;
        while start <= block.end {
            let is_waiting = |offset: u16| waiting.binary_search(&(cumulative + u64::from(offset))).is_ok();
            let kind = is_waiting(start);
            let end = (start..block.end).find(|&end| is_waiting(end + 1) != kind).unwrap_or(block.end);
            let part = GapBlock { start, end };
            if kind {
                waits.push(part);
            } else {
                delivered.push(part);
            }
            let Some(next) = end.checked_add(1) else { break };
            start = next;
        }
    }
    (waits, delivered)
}
