//! A SACK arrives (RFC 9260 section 6.2.1), or an NR-SACK (draft-natarajan-tsvwg-sctp-nrsack).
//!
//! The work is proportional to the newly acknowledged data and to the gaps, not to the outstanding data.

use super::association::Association;
use super::config::MissingReportsPer;
use super::outstanding::{Sent, SentState};
use super::path::Path;
use super::state::State;
use super::tsn;
use crate::cc::{AckEvent, CongestionControl as _, RttEvent};
use crate::endpoint::Event;
use crate::flow::PathId;
use crate::path::PathEvent;
use crate::recovery::rtt::Sample;
use crate::time::Time;
use crate::wire::sctp::chunk::{ErrorCause, NrSack, Sack};

impl Association {
    #[inline(never)]
    pub(super) fn on_sack(&mut self, now: Time, from: PathId, packets: u8, sack: &Sack) {
        if self.state.is_opening() || matches!(self.state, State::ShutdownAckSent(..)) {
            return;
        }
        let cumulative = sack.cumulative_tsn;
        // D i: the SACK is older than what is known. Also, a TSN that was not sent cannot be acknowledged.
        if tsn::before(cumulative, self.sender.outstanding.cumulative_tsn())
            || !tsn::before(cumulative, self.sender.outstanding.next_tsn())
        {
            self.refuse_sack(now, cumulative);
            return;
        }
        self.stats.sacks_received += 1;
        self.stats.duplicates_reported += sack.duplicates.len() as u64;
        let advanced = cumulative != self.sender.outstanding.cumulative_tsn();
        self.acknowledge_cumulatively(cumulative);
        if !(sack.gap_blocks.is_empty() && self.sender.outstanding.gap_acked.is_empty()) {
            let next_tsn = self.sender.outstanding.next_tsn();
            // With load sharing, a later SACK may have overtaken this one on another path (see the module
            // documentation of `load_sharing`).
            let may_be_old = self.parts.shares_load() && !advanced;
            if !self.sender.outstanding.gap_acked.compare(cumulative, &sack.gap_blocks, next_tsn, may_be_old)
            {
                return;
            }
            self.acknowledge_gaps(cumulative);
            self.limit_missing_reports(advanced);
        }
        self.on_sack_read(packets, advanced);
        self.restart_all_timers(advanced);
        self.apply_to_paths(now, from, advanced);
        self.on_sack_applied(now);
        // Section 6.2.1 D ii.
        self.sender.peer_rwnd = u64::from(sack.a_rwnd).saturating_sub(self.sender.outstanding.bytes()) as u32;
        if sack.a_rwnd == 0 && self.sender.outstanding.bytes() > 0 {
            // Section 6.1 A: a peer that answers probes with a closed window is not unreachable.
            self.routing.errors_in_a_row = 0;
            for (index, status) in self.routing.status.iter_mut().enumerate() {
                if self.sender.outstanding.on(PathId(index as u8)) > 0 {
                    status.error_count = 0;
                }
            }
        }
        if !self.sender.outstanding.gap_acked.is_empty() {
            self.count_missing(now);
        }
        self.on_sack_done(now);
        self.sender.advance_peer_ack_point();
        self.report_writable();
        if self.sender.advanced_peer_ack_point != cumulative {
            self.send_forward_tsn(now);
        }
        self.send(now);
    }

    /// Where one acknowledgement concerns the timers of all paths, starts them anew if it moved the
    /// cumulative TSN (FreeBSD: `sctp_express_handle_sack`, which SHUTDOWN comes to by `sctp_update_acked`).
    #[inline(always)]
    pub(super) fn restart_all_timers(&mut self, advanced: bool) {
        if self.parameters.procedures.cumulative_tsn_restarts_timers && !self.parts.shares_load() {
            for path in &mut self.routing.paths {
                path.acked.earliest = advanced;
            }
        }
    }

    /// Says that there is room in the send buffer, where the application waits for it.
    #[inline(always)]
    pub(super) fn report_writable(&mut self) {
        if let Some(room) = self.sender.awaited_room
            && self.sender.buffered() + room <= self.parameters.send_buffer
        {
            self.sender.awaited_room = None;
            self.outbox.emit(Event::Writable);
        }
    }

    /// A SACK says nothing: it is older than what is known, or acknowledges what was not sent.
    #[cold]
    fn refuse_sack(&mut self, now: Time, cumulative: u32) {
        let is_old = tsn::before(cumulative, self.sender.outstanding.cumulative_tsn());
        if !is_old && self.parameters.procedures.aborts_on_unsent_tsn {
            self.abort(now, ErrorCause::violation("acknowledges a TSN that was not sent"));
        }
    }

    /// Takes an NR-SACK as a SACK that acknowledges the same, some of it for good
    /// (draft-natarajan-tsvwg-sctp-nrsack section 5.2). One that was not agreed on is an unknown chunk.
    #[cold]
    #[inline(never)]
    pub(super) fn on_nr_sack(&mut self, now: Time, from: PathId, packets: u8, nr_sack: &NrSack) {
        if self.state.uses_nr_sacks() {
            self.sender.outstanding.final_blocks.clone_from(&nr_sack.final_blocks);
            self.on_sack(now, from, packets, &nr_sack.to_sack());
            self.sender.outstanding.final_blocks = Box::default();
        }
    }

    /// Removes the chunks that the cumulative TSN passes, and credits their paths with them.
    #[inline(always)]
    pub(super) fn acknowledge_cumulatively(&mut self, cumulative: u32) {
        while tsn::at_or_before(self.sender.outstanding.first_tsn, cumulative) {
            let tsn = self.sender.outstanding.first_tsn;
            let Some(chunk) = self.sender.outstanding.pop() else { return };
            match chunk.state {
                SentState::InFlight => {
                    self.credit(tsn, &chunk);
                    self.routing.paths[chunk.path.index()].acked.earliest = true;
                }
                // The chunk arrived after all.
                SentState::Lost => {
                    let acked = &mut self.routing.paths[chunk.path.index()].acked;
                    acked.clears_errors |= self.parameters.procedures.marked_data_clears_errors;
                    acked.is_sure |= !chunk.on_several_paths;
                }
                SentState::Abandoned => {
                    // As in ns-2, which stops the timer for every chunk that it takes off its send buffer.
                    let acked = &mut self.routing.paths[chunk.path.index()].acked;
                    acked.clears_errors |= self.parameters.credit_abandoned;
                    acked.earliest |= self.parameters.credit_abandoned;
                }
                SentState::Acked | SentState::Final => {
                    self.routing.paths[chunk.path.index()].acked.earliest |=
                        self.parameters.procedures.timer_follows_cumulative_tsn;
                }
            }
        }
    }

    fn credit(&mut self, tsn: u32, chunk: &Sent) {
        let path = &mut self.routing.paths[chunk.path.index()];
        path.acked.bytes += chunk.window_bytes;
        // Section 8.2. What went several times may have arrived by another path.
        if chunk.transmissions == 1 || self.parameters.procedures.retransmitted_data_clears_errors {
            path.acked.clears_errors = true;
        } else {
            self.routing.errors_in_a_row = 0;
        }
        path.acked.is_sure |= !chunk.on_several_paths;
        if path.rtt_probe == Some(tsn) {
            path.rtt_probe = None;
            path.acked.probe_sent_at = Some(chunk.departure);
        } else if self.parameters.samples_every_sack && chunk.transmissions == 1 {
            path.acked.probe_sent_at = Some(chunk.departure);
        }
    }

    /// Handles Gap Ack Blocks: chunks that they cover for the first time are acknowledged, chunks that they
    /// no longer cover are outstanding again (D iii). Leaves the highest newly acknowledged TSN of every path
    /// in `missing_below`.
    fn acknowledge_gaps(&mut self, cumulative: u32) {
        for path in &mut self.routing.paths {
            path.missing_below = None;
        }
        let added = std::mem::take(&mut self.sender.outstanding.gap_acked.added);
        for &(start, end) in &added {
            for index in self.sender.outstanding.index(start)..=self.sender.outstanding.index(end) {
                self.acknowledge_one(index);
            }
        }
        let removed = std::mem::take(&mut self.sender.outstanding.gap_acked.removed);
        for &(start, end) in &removed {
            for index in self.sender.outstanding.index(start)..=self.sender.outstanding.index(end) {
                self.renege(index);
            }
        }
        // Their memory is used again.
        (self.sender.outstanding.gap_acked.added, self.sender.outstanding.gap_acked.removed) =
            (added, removed);
        self.sender.outstanding.gap_acked.adopt();
        if let Some((_, last)) = self.sender.outstanding.gap_acked.runs().next_back()
            && tsn::before(self.sender.outstanding.gap_acked_to, last)
        {
            self.sender.outstanding.gap_acked_to = last;
        }
        if !self.sender.outstanding.final_blocks.is_empty() {
            self.sender.outstanding.finish(cumulative);
        }
    }

    fn acknowledge_one(&mut self, index: usize) {
        let tsn = self.sender.outstanding.tsn(index);
        let chunk = self.sender.outstanding.chunks[index];
        let highest = &mut self.routing.paths[chunk.path.index()].missing_below;
        *highest = later(*highest, Some(tsn));
        match chunk.state {
            SentState::InFlight => {
                self.credit(tsn, &chunk);
                // Section 6.3.2 R3 is about the earliest outstanding chunk of the path.
                let is_earliest = !self.sender.outstanding.has_in_flight(chunk.path, index);
                self.routing.paths[chunk.path.index()].acked.earliest |=
                    is_earliest && !self.parameters.procedures.timer_follows_cumulative_tsn;
                self.on_gap_acked(index, is_earliest);
                self.sender.outstanding.change(index, SentState::Acked, chunk.path);
            }
            SentState::Lost => {
                self.sender.outstanding.change(index, SentState::Acked, chunk.path);
                let acked = &mut self.routing.paths[chunk.path.index()].acked;
                acked.clears_errors |= self.parameters.procedures.marked_data_clears_errors;
                acked.is_sure |= !chunk.on_several_paths;
            }
            // A gap block can only come from data that did arrive.
            SentState::Abandoned => {
                let acked = &mut self.routing.paths[chunk.path.index()].acked;
                acked.clears_errors = true;
                acked.is_sure |= !chunk.on_several_paths;
                self.sender.outstanding.unsettled.insert(chunk.path);
            }
            SentState::Acked | SentState::Final => {}
        }
    }

    /// Section 7.2.4: only what was sent before the highest TSN newly acknowledged is reported missing, on
    /// the same path where reports are counted per path (split fast retransmit, Iyengar et al. 2006, section
    /// 3.1); in fast recovery, everything that an advancing SACK reports.
    fn limit_missing_reports(&mut self, advanced: bool) {
        let Some((_, last)) = self.sender.outstanding.gap_acked.runs().next_back() else { return };
        let cumulative = self.sender.outstanding.cumulative_tsn();
        let follows_recovery = |path: &Path| {
            advanced && path.fast_recovery_exit.is_some_and(|exit| tsn::before(cumulative, exit))
        };
        if self.parameters.missing_reports_per == MissingReportsPer::Path {
            for (index, path) in self.routing.paths.iter_mut().enumerate() {
                // Data reported by another path may still be on its way here.
                if path.acked.bytes > 0 && follows_recovery(path) {
                    path.missing_below = self.sender.outstanding.last_gap_acked(PathId(index as u8));
                }
            }
            return;
        }
        let highest =
            self.routing.paths.iter().fold(None, |highest, path| later(highest, path.missing_below));
        for path in &mut self.routing.paths {
            path.missing_below = if follows_recovery(path) { Some(last) } else { highest };
        }
    }

    /// The peer has dropped data that it had acknowledged in a gap block. What it said it would not drop
    /// stays acknowledged.
    fn renege(&mut self, index: usize) {
        let Some(&Sent { state, path, window_bytes, .. }) = self.sender.outstanding.chunks.get(index) else {
            return;
        };
        if state == SentState::Acked {
            self.sender.outstanding.change(index, SentState::InFlight, path);
            self.routing.paths[path.index()].acked.reneged_bytes += window_bytes;
        }
    }

    /// Applies the SACK to every path: congestion control, errors, T3-rtx, round-trip time.
    #[inline(always)]
    pub(super) fn apply_to_paths(&mut self, now: Time, from: PathId, advanced: bool) {
        if self.parts.shares_load() {
            self.apply_to_unsettled_paths(now, from, advanced);
            return;
        }
        for index in 0..self.routing.paths.len() {
            self.apply_to_path(now, PathId(index as u8), from, advanced);
        }
    }

    /// With load sharing, a SACK concerns few of the paths. On the others nothing was sent, acknowledged or
    /// lost since they were last told, so that their timers run as they should and what they recover from is
    /// not over.
    #[cold]
    fn apply_to_unsettled_paths(&mut self, now: Time, from: PathId, advanced: bool) {
        let mut unsettled = std::mem::take(&mut self.sender.outstanding.unsettled);
        while let Some(path) = unsettled.pop() {
            self.apply_to_path(now, path, from, advanced);
        }
    }

    #[inline(always)]
    fn apply_to_path(&mut self, now: Time, id: PathId, from: PathId, advanced: bool) {
        let index = id.index();
        let clock = self.parameters.rto.clock;
        let cumulative = self.sender.outstanding.cumulative_tsn();
        let outstanding = self.sender.outstanding.on(id);
        let path = &mut self.routing.paths[index];
        let acked = std::mem::take(&mut path.acked);
        let in_recovery = path.fast_recovery_exit.is_some();
        if let Some(exit) = path.fast_recovery_exit
            && (tsn::at_or_before(exit, cumulative)
                || (self.parts.shares_load() && !self.sender.outstanding.has_pending(id, exit)))
        {
            path.fast_recovery_exit = None;
        }
        if acked.bytes > 0 {
            let outstanding_before = outstanding + acked.bytes - acked.reneged_bytes;
            let mut event = AckEvent {
                outstanding,
                cumulative_advanced: advanced,
                in_recovery,
                ..AckEvent::new(now, acked.bytes, outstanding_before)
            };
            self.parts.adapt(&mut event, &acked, path);
            path.cc.on_ack(&event);
        }
        if outstanding == 0 {
            // Section 6.3.2 R2.
            path.t3 = Time::NEVER;
        } else if acked.earliest || path.t3.is_never() {
            // R3, and R4 for data that was reneged on.
            path.t3 = clock.deadline(now, path.rtt.rto());
        }
        if let Some(sent_at) = acked.probe_sent_at {
            self.take_rtt_sample(now, id, sent_at);
            if acked.earliest && outstanding > 0 {
                let rto = self.routing.paths[index].rtt.rto();
                self.routing.paths[index].t3 = clock.deadline(now, rto);
            }
        }
        if acked.clears_errors {
            self.clear_errors_by_sack(now, id, from, acked.is_sure);
        }
    }

    /// Measures the round-trip time of something that was sent on this path at `sent_at` and has now been
    /// answered.
    pub(super) fn take_rtt_sample(&mut self, now: Time, path: PathId, sent_at: Time) {
        let own = &mut self.routing.paths[path.index()];
        let rtt = now - sent_at;
        own.rtt.on_sample(&Sample::new(now, rtt));
        own.cc.on_rtt_sample(&RttEvent::new(now, rtt));
        self.routing.status[path.index()].srtt = own.rtt.srtt();
        self.on_path_event(now, PathEvent::SrttUpdated { path, rtt });
    }
}

/// The later one of two TSNs.
const fn later(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(a), Some(b)) => Some(if tsn::before(a, b) { b } else { a }),
        (None, tsn) | (tsn, None) => tsn,
    }
}
