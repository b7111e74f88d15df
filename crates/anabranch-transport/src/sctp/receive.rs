//! DATA and FORWARD TSN arrive, SACKs leave (RFC 9260 sections 6.2 to 6.7, RFC 3758 section 3.6).

use smallvec::SmallVec;

use super::association::Association;
use super::config::SackPath;
use super::message::Whole;
use super::reassembly::unwrap_tsn;
use super::receiver::{Arrival, Receiver};
use super::state::State;
use crate::endpoint::Event;
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{Chunk, Data, ErrorCause, ForwardTsn, GapBlock, IData, IForwardTsn, NrSack};

/// The most Gap Ack Blocks that Linux reports (`SCTP_MAX_GABS`).
const LINUX_MAX_GAP_BLOCKS: usize = 16;

impl Association {
    #[inline(never)]
    pub(super) fn on_data(&mut self, path: PathId, data: &Data) {
        let arrival = self.take_tsn(path, data.tsn, data.immediate);
        let Some(receiver) = self.state.receiver_mut() else { return };
        let tsn = match arrival {
            Arrival::New(tsn) => tsn,
            Arrival::Old(tsn) => {
                if self.parameters.deliver_overtaken && receiver.received.was_overtaken(tsn) {
                    self.deliver_overtaken(data);
                }
                return;
            }
            Arrival::Refused => return,
        };
        let is_legal = tsn > receiver.received.cumulative || receiver.reassembly.continues(tsn, data);
        if data.stream >= receiver.inbound_streams {
            self.report_invalid_stream(path, data.stream);
        } else if self.holds_data(tsn, data) {
            // The data is kept back until its stream has been reset.
        } else if !is_legal {
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
        let Self { state, outbox, stats, .. } = self;
        let Some(receiver) = state.receiver_mut() else { return };
        if receiver.reassembly.delivers_parts() {
            self.deliver_beside_parts(tsn, data);
        } else {
            receiver.reassembly.insert(tsn, *data, |message| {
                stats.messages_delivered += 1;
                outbox.emit(Event::Received(message.into()));
            });
        }
        if self.free_space() == 0 {
            self.deliver_parts();
        }
    }

    /// An I-DATA chunk has arrived (RFC 8260 section 2.2.3).
    #[cold]
    pub(super) fn on_i_data(&mut self, path: PathId, data: &IData) {
        if !self.sender.interleaves {
            return;
        }
        let Arrival::New(tsn) = self.take_tsn(path, data.tsn, data.immediate) else { return };
        if data.stream >= self.inbound_streams() {
            self.report_invalid_stream(path, data.stream);
        } else if !self.holds_i_data(tsn, data) {
            self.deliver_i_data(data);
        }
    }

    pub(super) fn deliver_i_data(&mut self, data: &IData) {
        self.deliver_with(|receiver, tell| receiver.insert_i_data(data, tell));
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
        let Some(receiver) = self.state.taking_receiver() else { return Arrival::Refused };
        let is_full = receiver.free_space(self.parameters.receive_buffer, self.unread) == 0;
        let arrival = receiver.take_tsn(path, tsn, immediate, is_full);
        match arrival {
            Arrival::New(_) => {
                self.stats.data_chunks_received += 1;
                // Section 6.7: SACKs are not delayed while there is a gap, unless reordering is the rule.
                receiver.delayed_sack.immediate |= receiver.received.has_gaps() && !self.parts.delay_sacks();
            }
            Arrival::Old(_) => self.stats.duplicates_received += 1,
            Arrival::Refused => {}
        }
        arrival
    }

    /// Delivers a message that the sender had given up and that has arrived all the same. Only whole,
    /// unordered messages are of use.
    fn deliver_overtaken(&mut self, data: &Data) {
        let Data { stream, ppid, unordered, payload, .. } = *data;
        if unordered && data.beginning && data.ending {
            self.stats.messages_delivered += 1;
            self.outbox.emit(Event::Received(Whole { stream, ppid, unordered, payload }.into()));
        }
    }

    #[inline(never)]
    pub(super) fn on_forward_tsn(&mut self, now: Time, path: PathId, forward: &ForwardTsn) {
        if !self.state.takes_forward_tsn() {
            // RFC 3758 section 3.3: FORWARD TSN was not agreed on.
            self.answer(path, Chunk::Opaque(Box::new(forward.report())));
            return;
        }
        let Some(new_cumulative) = self.take_forward_tsn(now, path, forward.new_cumulative_tsn) else {
            return;
        };
        self.deliver_with(|receiver, tell| receiver.skip_streams(new_cumulative, &forward.streams, tell));
        if self.parts.is_any {
            self.refresh_parts();
        }
        self.deliver_parts_after_skip();
    }

    /// With what a FORWARD TSN has passed, the last chunk that was missing may be gone.
    fn deliver_parts_after_skip(&mut self) {
        if self.free_space() == 0
            && self.deliver_parts()
            && let Some(receiver) = self.state.receiver_mut()
        {
            receiver.delayed_sack.packet_has_data = true;
        }
    }

    /// An I-FORWARD-TSN has arrived (RFC 8260 section 2.3.1).
    #[cold]
    pub(super) fn on_i_forward_tsn(&mut self, now: Time, path: PathId, forward: &IForwardTsn) {
        if !self.sender.interleaves || self.take_forward_tsn(now, path, forward.new_cumulative_tsn).is_none()
        {
            return;
        }
        self.deliver_with(|receiver, tell| receiver.skip_messages(&forward.messages, tell));
        self.deliver_parts_after_skip();
    }

    /// Moves the cumulative TSN to that of a FORWARD TSN and returns it; [`None`] if it was there already or
    /// data is no longer accepted.
    #[inline(always)]
    fn take_forward_tsn(&mut self, now: Time, path: PathId, new_cumulative_tsn: u32) -> Option<u64> {
        let Receiver { received, delayed_sack, .. } = self.state.taking_receiver()?;
        let new_cumulative = unwrap_tsn(received.cumulative, new_cumulative_tsn);
        if !received.advance_to(new_cumulative) {
            // RFC 3758 section 3.6: a FORWARD TSN that says nothing new should be answered, since a SACK may
            // have been lost. This is not done at once: where the RTO is below the round-trip time, every
            // SACK calls for a FORWARD TSN, and answering each would never end.
            let is_answered = self.parameters.sack_forward_tsn && self.parameters.sack_delay > Duration::ZERO;
            if is_answered && delayed_sack.timer.is_never() {
                delayed_sack.source = path;
                delayed_sack.timer = self.parameters.rto.clock.deadline(now, self.parameters.sack_delay);
            }
            return None;
        }
        if self.parameters.sack_forward_tsn {
            // Section 3.6: acknowledged by the rules for DATA.
            delayed_sack.packet_has_data = true;
            delayed_sack.source = path;
            delayed_sack.immediate |= received.has_gaps();
        }
        Some(new_cumulative)
    }

    /// Whether the packet that is being taken in holds data, or calls for a SACK in another way.
    #[inline(always)]
    pub(super) fn has_packet_to_acknowledge(&self) -> bool {
        self.state.receiver().is_some_and(|receiver| receiver.delayed_sack.packet_has_data)
    }

    /// Decides, once all chunks of a packet have been taken in, whether to acknowledge now or later (RFC 9260
    /// section 6.2).
    #[inline(never)]
    pub(super) fn finish_packet(&mut self, now: Time) {
        let has_ended = self.state.is_ended();
        let is_shutdown_sent = matches!(self.state, State::ShutdownSent(..));
        let Some(Receiver { delayed_sack, received, .. }) = self.state.receiver_mut() else { return };
        delayed_sack.packet_has_data = false;
        let duplicates = std::mem::take(&mut delayed_sack.packet_has_duplicates);
        let new_data = std::mem::take(&mut delayed_sack.packet_has_new_data);
        if has_ended {
            return;
        }
        // Section 6.2: a packet with duplicates and no new data is answered at once.
        delayed_sack.immediate |= duplicates && !new_data;
        delayed_sack.packets += 1;
        if is_shutdown_sent {
            // Section 9.2: every packet with data is answered with SHUTDOWN at once, and with a SACK where
            // that cannot acknowledge all that has arrived.
            let needs_sack = received.has_gaps() || !received.duplicates.is_empty();
            if !needs_sack {
                delayed_sack.sent();
            }
            self.answer_data_with_shutdown(now);
            if needs_sack {
                self.send_sack();
            }
        } else if delayed_sack.immediate
            || delayed_sack.packets >= self.parameters.sack_frequency
            || self.parameters.sack_delay == Duration::ZERO
        {
            self.send_sack();
        } else if delayed_sack.timer.is_never() || self.parameters.procedures.data_restarts_sack_delay {
            delayed_sack.timer = self.parameters.rto.clock.deadline(now, self.parameters.sack_delay);
        }
    }

    pub(super) fn send_sack(&mut self) {
        let Some((path, sack)) = self.take_sack() else { return };
        if self.outbox.answers.is_any() && self.answers_with(path, sack.wire_size()) {
            self.answer(path, sack);
        } else {
            self.transmit_one(path, sack);
        }
    }

    /// The path on which a SACK is sent after data from path `source`.
    #[inline(always)]
    pub(super) fn sack_path(&self, source: PathId) -> PathId {
        if !self.allows_data(source) {
            return self.routing.selection.current;
        }
        match self.parameters.sack_path {
            SackPath::Current => self.routing.selection.current,
            SackPath::Source => source,
            SackPath::SourceUnlessFailed => {
                // `sctp_outq_select_transport`: not over a path that is unconfirmed either.
                let is_usable = self.routing.status[source.index()].is_usable();
                if is_usable { source } else { self.routing.selection.current }
            }
        }
    }

    /// The SACK that is due, or the NR-SACK in its place, and the path that it takes. After this call none is
    /// due any more.
    #[inline(always)]
    pub(super) fn take_sack(&mut self) -> Option<(PathId, Chunk)> {
        let path = self.sack_path(self.state.receiver()?.delayed_sack.source);
        let tcb = self.state.tcb_mut()?;
        let packets = self
            .parts
            .sharing
            .as_ref()
            .map_or(0, |sharing| sharing.packets_to_report(tcb.receiver.delayed_sack.packets));
        self.stats.sacks_sent += 1;
        let entries = self.routing.sack_entries;
        let few = self.parameters.procedures.few_gap_blocks;
        let most_blocks = if few { entries.min(LINUX_MAX_GAP_BLOCKS) } else { entries };
        let a_rwnd = tcb.receiver.free_space(self.parameters.receive_buffer, self.unread);
        let mut sack = Chunk::Sack(packets, tcb.receiver.take_sack(most_blocks, entries, a_rwnd));
        if tcb.uses_nr_sacks {
            self.make_nr_sack(&mut sack);
        }
        Some((path, sack))
    }

    /// Puts an NR-SACK in the place of a SACK (draft-natarajan-tsvwg-sctp-nrsack section 5.1).
    #[cold]
    #[inline(never)]
    pub(super) fn make_nr_sack(&self, chunk: &mut Chunk) {
        let Chunk::Sack(packets, sack) = chunk else { return };
        let mut final_blocks = std::mem::take(&mut sack.gap_blocks).into_vec();
        if self.parameters.procedures.only_delivered_is_final
            && let Some(receiver) = self.state.receiver()
        {
            let waiting = receiver.reassembly.waiting_tsns();
            (sack.gap_blocks, final_blocks) =
                split_blocks(&final_blocks, receiver.received.cumulative, &waiting);
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
        let buffer = self.parameters.receive_buffer;
        self.state.receiver().map_or(buffer, |receiver| receiver.free_space(buffer, self.unread))
    }

    /// Says how many bytes of what was delivered the application has not read: they take up room in the
    /// receive buffer. An application that never says so reads at once.
    pub fn set_unread(&mut self, bytes: u64) {
        self.unread = bytes;
        if self.state.taking_receiver().is_none() {
            return;
        }
        if self.free_space() == 0 {
            self.deliver_parts();
        }
        // RFC 1122 section 4.2.3.3, to which RFC 9260 section 6.2 refers: the peer is told about room once
        // there is enough of it (Linux: `sctp_peer_needs_update`).
        let enough = (self.parameters.receive_buffer / 16).max(self.sender.fragment_limit);
        let free = self.free_space();
        let is_enough = |advertised: u32| free >= advertised.saturating_add(enough);
        if self.state.taking_receiver().is_some_and(|receiver| is_enough(receiver.advertised)) {
            self.send_sack();
        }
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
