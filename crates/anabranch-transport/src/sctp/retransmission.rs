//! Lost data: the T3-rtx timer, marking, sending again
//! (RFC 9260 sections 6.3.3, 6.1 C, 7.2.4).

use super::association::Association;
use super::config::MissingReportsPer;
use super::failure::Strike;
use super::outstanding::{Sent, SentState};
use super::routing::Routing;
use super::tsn;
use crate::cc::{CongestionControl as _, CongestionEvent, CongestionKind};
use crate::flow::PathId;
use crate::path::{PathEvent, PathSelector as _, Retransmission};
use crate::time::{Duration, Time};

/// Linux: the largest packet that is handed to a device for segmentation (`GSO_LEGACY_MAX_SIZE`).
const LINUX_GSO_MAX_BYTES: u32 = 65_536;

impl Association {
    /// T3-rtx has expired on a path (section 6.3.3).
    pub(super) fn on_t3(&mut self, now: Time, path: PathId) {
        self.stats.timeouts += 1;
        let spared = self.spared_by_timeout(path);
        let is_marked = |chunk: &Sent| {
            chunk.state == SentState::InFlight
                && chunk.path == path
                && spared.is_none_or(|age| now.saturating_since(chunk.departure) > age)
        };
        let own = &mut self.routing.paths[path.index()];
        own.t3 = Time::NEVER;
        own.repairs.timeouts += 1;
        own.timeout_exit = Some(self.sender.outstanding.next_tsn().wrapping_sub(1));
        // E1.
        if spared.is_none() || self.sender.outstanding.chunks.iter().any(is_marked) {
            let outstanding = self.sender.outstanding.on(path);
            own.cc.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, outstanding));
        }
        self.routing.leave_fast_recovery(path, self.parameters.missing_reports_per);
        // E2 and section 8 (Linux `sctp_sf_do_6_3_3_rtx`: strike, then send again).
        self.strike(now, path, Strike::Timeout);
        if self.is_over() {
            return;
        }
        self.on_path_event(now, PathEvent::TimerExpired(path));
        // E3: everything that was sent on the path is marked, and what fits into one packet leaves at once.
        for index in 0..self.sender.outstanding.chunks.len() {
            if is_marked(&self.sender.outstanding.chunks[index]) {
                self.mark_lost(now, index, true);
            }
        }
        // RFC 3758 section 3.5 A5.
        self.sender.advance_peer_ack_point();
        if !self.routing.selection.held {
            self.send_after_timeout(now);
        }
        if spared.is_some() {
            self.keep_one_timer(now);
        }
    }

    /// Sends what a timeout lets leave.
    fn send_after_timeout(&mut self, now: Time) {
        let is_data_first =
            self.parameters.procedures.retransmits_before_forward_tsn && self.sender.outstanding.lost() > 0;
        if self.parameters.send_on_timeout && !is_data_first {
            self.send_forward_tsn(now);
        }
        if !self.is_retransmission_window_full(now) {
            self.retransmit_one_packet(now);
        }
        if is_data_first {
            self.send_forward_tsn(now);
        } else if self.parameters.send_on_timeout
            && (self.sender.outstanding.lost() == 0 || self.parts.shares_load())
        {
            self.send(now);
        }
    }

    /// How long ago data must have left for a timeout of this path to mark it, where it spares younger data
    /// (FreeBSD: `sctp_mark_all_for_resend`). What probes a closed window is not spared.
    fn spared_by_timeout(&self, path: PathId) -> Option<Duration> {
        let own = &self.routing.paths[path.index()];
        let is_probe = self.sender.peer_rwnd == 0 && self.sender.outstanding.bytes() < u64::from(own.mtu);
        (self.parameters.procedures.timeouts_spare_young_data && !is_probe)
            .then(|| own.rtt.srtt().unwrap_or_default() + own.rtt.rttvar() * 4)
    }

    /// After a timeout that may have spared everything, starts the timer of the path that the first chunk in
    /// flight was sent on, unless one runs (FreeBSD: `sctp_timeout_handler`, the safeguard). A SACK starts
    /// those of all paths.
    fn keep_one_timer(&mut self, now: Time) {
        for (index, own) in self.routing.paths.iter().enumerate() {
            if own.t3.is_never() && self.sender.outstanding.on(PathId(index as u8)) > 0 {
                self.sender.outstanding.unsettled.insert(PathId(index as u8));
            }
        }
        if self.routing.paths.iter().any(|own| !own.t3.is_never()) {
            return;
        }
        if let Some(first) = self
            .sender
            .outstanding
            .chunks
            .iter()
            .find(|chunk| chunk.state == SentState::InFlight)
            .map(|c| c.path)
        {
            let rto = self.routing.paths[first.index()].rtt.rto();
            self.routing.paths[first.index()].t3 = self.deadline(now, rto);
        }
    }

    /// Whether the profile asks the window for retransmissions even after a timeout, and it is full.
    fn is_retransmission_window_full(&mut self, now: Time) -> bool {
        let procedures = &self.parameters.procedures;
        let is_asked = procedures.timeouts_spare_young_data;
        if !is_asked && !procedures.asks_window_for_chunks {
            return false;
        }
        let Some((index, path)) = self.next_retransmission(now) else { return false };
        let is_full = self.is_window_full_for(path, index)
            || (is_asked
                && self.sender.outstanding.on(path) >= self.routing.paths[path.index()].cc.limits().cwnd);
        if is_full {
            self.record_attempt(now, path);
        }
        is_full
    }

    /// Records that marked data found the window full. Where that counts as sending, it puts off heartbeats
    /// for as long as the application sends.
    fn record_attempt(&mut self, now: Time, path: PathId) {
        if self.parameters.procedures.waiting_data_defers_heartbeats {
            self.routing.paths[path.index()].last_data = now;
        }
    }

    /// Whether a chunk has to wait for the window, where the window is checked for every chunk. Chunks that
    /// missing reports have marked do not wait.
    fn is_window_full_for(&self, path: PathId, index: usize) -> bool {
        self.parameters.procedures.asks_window_for_chunks
            && self.sender.outstanding.chunks[index].timed_out
            && self.sender.outstanding.on(path) >= self.routing.paths[path.index()].cc.limits().cwnd
    }

    /// Takes a chunk in flight off the outstanding bytes and marks it for retransmission, or gives it
    /// up where its reliability says so.
    pub(super) fn mark_lost(&mut self, now: Time, index: usize, timed_out: bool) {
        self.stop_waiting_for(index);
        self.sender.outstanding.change(index, SentState::Lost, self.sender.outstanding.chunks[index].path);
        let chunk = &mut self.sender.outstanding.chunks[index];
        chunk.missing_reports = 0;
        chunk.timed_out = timed_out;
        let Sent { path, length, .. } = *chunk;
        self.on_chunk_lost(path, self.sender.outstanding.tsn(index), length);
        if self.is_given_up(now, index) {
            self.abandon_message(index);
        }
    }

    /// Stops waiting for a chunk in flight, which frees its part of the peer's window (section 6.2.1 C).
    pub(super) fn stop_waiting_for(&mut self, index: usize) {
        let tsn = self.sender.outstanding.tsn(index);
        let chunk = &self.sender.outstanding.chunks[index];
        debug_assert_eq!(chunk.state, SentState::InFlight);
        let length = chunk.length;
        let path = &mut self.routing.paths[chunk.path.index()];
        // Karn's rule, section 6.3.1 C5: chunks that are sent again or given up are not measured.
        if path.rtt_probe == Some(tsn) {
            path.rtt_probe = None;
        }
        self.sender.peer_rwnd = self.sender.peer_rwnd.saturating_add(length);
    }

    /// Sends marked chunks as far as the windows allow.
    pub(super) fn retransmit(&mut self, now: Time) {
        let mut limits: smallvec::SmallVec<[(PathId, u32); 4]> = smallvec::SmallVec::new();
        while let Some((index, path)) = self.next_retransmission(now) {
            let known = limits.iter().find(|&&(known, _)| known == path).map(|&(_, limit)| limit);
            let limit = known.unwrap_or_else(|| {
                let limit = if self.parameters.procedures.limits_bursts_of_retransmissions {
                    self.burst_limit(path)
                } else {
                    self.routing.paths[path.index()].cc.limits().cwnd
                };
                limits.push((path, limit));
                limit
            });
            if self.sender.outstanding.on(path) >= limit {
                self.record_attempt(now, path);
                break;
            }
            self.retransmit_packet(now, path, index, u32::MAX);
        }
    }

    /// Sends one packet of marked chunks whatever the window (section 6.3.3 E3, section 7.2.4 rule 3).
    ///
    /// To Linux it is one packet until the device segments it: up to half the window, at least an MTU
    /// (`sctp_packet_will_fit`).
    pub(super) fn retransmit_one_packet(&mut self, now: Time) {
        let Some((index, path)) = self.next_retransmission(now) else { return };
        let headers = self.local.headers_bytes;
        let own = &self.routing.paths[path.index()];
        let is_segmented = self.parameters.procedures.segments_retransmissions;
        let segmented = if is_segmented { own.cc.limits().cwnd / 2 } else { 0 };
        let mut room = segmented.min(LINUX_GSO_MAX_BYTES).max(own.mtu) - headers;
        room -= self.retransmit_packet(now, path, index, room);
        if !is_segmented {
            return;
        }
        loop {
            let Some((index, next)) = self.next_retransmission(now) else { return };
            let length = self.sender.outstanding.chunks[index].length;
            let is_full = self.is_window_full_for(path, index);
            if next != path || is_full || self.sender.data_header + ((length + 3) & !3) > room {
                return;
            }
            room -= self.retransmit_packet(now, path, index, room);
        }
    }

    fn next_retransmission(&mut self, now: Time) -> Option<(usize, PathId)> {
        loop {
            let index = self.sender.outstanding.first_lost()?;
            let chunk = &self.sender.outstanding.chunks[index];
            if self.has_expired(now, chunk) {
                self.abandon_message(index);
                self.sender.advance_peer_ack_point();
                continue;
            }
            let loss = Retransmission::new(chunk.path, chunk.timed_out);
            let path = self.routing.selector.retransmission_path(
                &loss,
                &self.routing.status,
                &self.routing.selection,
            );
            return Some((index, if self.allows_data(path) { path } else { self.routing.selection.current }));
        }
    }

    /// Sends marked chunks from the one at `first` on, those that fit into a packet and into `room` bytes of
    /// chunks, and returns how many bytes these have. The first one always goes.
    pub(super) fn retransmit_packet(&mut self, now: Time, path: PathId, first: usize, room: u32) -> u32 {
        let mut packet = None;
        let mtu = self.routing.paths[path.index()].mtu;
        let headers = self.local.headers_bytes;
        let mut size = headers;
        let mut bytes = 0;
        // Section 7.2.4 rule 4: the timer runs anew when fast retransmit sends the first outstanding chunk of
        // this path again.
        let restarts_timer =
            !self.parameters.procedures.timer_follows_cumulative_tsn && self.is_first_of(path, first);
        let mut left = self.sender.outstanding.lost();
        let mut index = first;
        while left > 0 && index < self.sender.outstanding.chunks.len() {
            let tsn = self.sender.outstanding.tsn(index);
            let chunk = &self.sender.outstanding.chunks[index];
            if chunk.state != SentState::Lost {
                index += 1;
                continue;
            }
            left -= 1;
            let length = chunk.length;
            let wire = self.sender.data_header + ((length + 3) & !3);
            let is_full = size + wire > mtu || size + wire - headers > room;
            if packet.is_some() && (is_full || self.is_window_full_for(path, index)) {
                break;
            }
            if self.has_expired(now, chunk) {
                self.abandon_message(index);
                index += 1;
                continue;
            }
            let before = chunk.path;
            let chunk = &mut self.sender.outstanding.chunks[index];
            chunk.fast_retransmitted |= !chunk.timed_out;
            chunk.on_several_paths |= before != path;
            chunk.departure = now;
            chunk.transmissions += 1;
            self.sender.outstanding.change(index, SentState::InFlight, path);
            let sent = self.sender.outstanding.chunks[index];
            self.add_data(&mut packet, &sent, tsn);
            self.sender.peer_rwnd = self.sender.peer_rwnd.saturating_sub(length);
            self.stats.data_chunks_retransmitted += 1;
            size += wire;
            bytes += length;
            index += 1;
        }
        if restarts_timer {
            self.routing.paths[path.index()].t3 = Time::NEVER;
        }
        self.on_data_sent(now, path, bytes);
        if let Some(packet) = packet {
            self.transmit(path, packet, size);
        }
        size - headers
    }

    /// Whether this chunk, found lost by missing reports, is the first outstanding one that was sent on
    /// `path`.
    fn is_first_of(&mut self, path: PathId, index: usize) -> bool {
        let chunk = &self.sender.outstanding.chunks[index];
        !chunk.timed_out && chunk.path == path && !self.sender.outstanding.has_in_flight(path, index + 1)
    }

    /// Section 7.2.4: every chunk that the SACK reports missing gets a missing report; fast retransmit begins
    /// where there are enough of them.
    pub(super) fn count_missing(&mut self, now: Time) {
        if self.parameters.procedures.gives_up_reported_data {
            self.give_up_reported(now);
        }
        if self.parts.shares_load() {
            if self.count_missing_by_path(now) {
                self.fast_retransmit(now);
            }
            return;
        }
        let mut next = self.sender.outstanding.reportable_from();
        let gap_acked = std::mem::take(&mut self.sender.outstanding.gap_acked);
        let mut marked = false;
        let mut first = None;
        for (start, end) in gap_acked.runs() {
            if tsn::before(end, next) {
                continue;
            }
            while tsn::before(next, start) {
                let chunk = &self.sender.outstanding.chunks[self.sender.outstanding.index(next)];
                if chunk.is_reportable() {
                    first.get_or_insert(next);
                    marked |= self.report_missing(now, next);
                }
                next = next.wrapping_add(1);
            }
            next = end.wrapping_add(1);
        }
        self.sender.outstanding.gap_acked = gap_acked;
        self.sender.outstanding.report_from(first.unwrap_or(next));
        if marked {
            self.fast_retransmit(now);
        }
    }

    /// With load sharing, most of what is missing below the last gap block is on its way on another path. So
    /// each path is asked for what can be reported. Returns whether anything was marked.
    #[cold]
    fn count_missing_by_path(&mut self, now: Time) -> bool {
        let Some((last, _)) = self.sender.outstanding.gap_acked.runs().next_back() else { return false };
        let mut found = Vec::new();
        for (index, path) in self.routing.paths.iter().enumerate() {
            let Some(below) = path.missing_below else { continue };
            let below = if tsn::before(last, below) { last } else { below };
            self.sender.outstanding.find_reportable(PathId(index as u8), below, &mut found);
        }
        found.sort_unstable_by_key(|&tsn| self.sender.outstanding.index(tsn));
        let mut marked = false;
        for tsn in found {
            // With one chunk its whole message may have been given up.
            if self.sender.outstanding.chunks[self.sender.outstanding.index(tsn)].is_reportable() {
                marked |= self.report_missing(now, tsn);
            }
        }
        marked
    }

    fn report_missing(&mut self, now: Time, tsn: u32) -> bool {
        let index = self.sender.outstanding.index(tsn);
        let chunk = &mut self.sender.outstanding.chunks[index];
        let is_reported = |below| tsn::before(tsn, below);
        if !self.routing.paths[chunk.path.index()].missing_below.is_some_and(is_reported) {
            return false;
        }
        chunk.missing_reports = chunk.missing_reports.saturating_add(1);
        chunk.missing_reports = chunk.missing_reports.saturating_add(self.parts.more_reports(tsn));
        if u32::from(chunk.missing_reports) < self.parameters.missing_reports {
            return false;
        }
        let path = chunk.path;
        self.routing.paths[path.index()].reported_missing = true;
        self.mark_lost(now, index, false);
        true
    }

    fn fast_retransmit(&mut self, now: Time) {
        // Fast recovery ends when all that is outstanding now is acknowledged.
        let exit = self.sender.outstanding.next_tsn().wrapping_sub(1);
        let together = self.parameters.missing_reports_per == MissingReportsPer::Association;
        let mut begins = false;
        for index in 0..self.routing.paths.len() {
            let path = &mut self.routing.paths[index];
            let is_reported = std::mem::take(&mut path.reported_missing);
            if path.fast_recovery_exit.is_some() {
                continue;
            }
            // In the RFC, all paths share one fast recovery.
            if is_reported || together {
                path.fast_recovery_exit = Some(exit);
                self.sender.outstanding.unsettled.insert(PathId(index as u8));
                begins = true;
            }
            if is_reported {
                path.repairs.fast_recoveries += 1;
                let cwnd_before = path.cc.limits().cwnd;
                // Rule 2.
                let event = CongestionEvent::new(
                    now,
                    CongestionKind::FastRetransmit,
                    self.sender.outstanding.on(PathId(index as u8)),
                );
                path.cc.on_congestion(&event);
                self.on_fast_retransmit(now, PathId(index as u8), cwnd_before);
            }
        }
        self.stats.fast_retransmits += u64::from(begins);
        // Rule 3: one packet whatever the window.
        if !self.routing.selection.held {
            self.retransmit_one_packet(now);
        }
    }
}

impl Routing {
    /// Ends the fast recovery of a path, as a timeout does.
    fn leave_fast_recovery(&mut self, path: PathId, per: MissingReportsPer) {
        match per {
            MissingReportsPer::Association => {
                for path in &mut self.paths {
                    path.fast_recovery_exit = None;
                }
            }
            MissingReportsPer::Path => self.paths[path.index()].fast_recovery_exit = None,
        }
    }
}
