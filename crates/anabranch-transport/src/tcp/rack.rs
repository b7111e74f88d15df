//! RACK and tail loss probes over the scoreboard (RFC 8985; Linux's `tcp_recovery.c`, `tcp_send_loss_probe`).

use super::connection::Connection;
use super::recovery::CongestionState;
use super::send::Push;
use crate::cc::{CongestionControl as _, CongestionKind, LostEvent};
use crate::recovery::rack::Probe;
use crate::time::{Duration, Time};

/// The least length of a timer (Linux: `TCP_TIMEOUT_MIN_US`).
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);
/// How long a peer may delay the acknowledgement of a lone segment (RFC 8985 section 7.2:
/// `TLP.max_ack_delay`).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

impl Connection {
    /// How late a segment may be before it is taken for lost (RFC 8985 section 6.2 step 4; Linux:
    /// `tcp_rack_reo_wnd`).
    fn reordering_window(&self) -> Duration {
        if !self.recovery.has_reordering {
            let is_recovering = self.recovery.state >= CongestionState::Recovery;
            if is_recovering || self.board.sacked >= self.recovery.reordering {
                return Duration::ZERO;
            }
        }
        self.rack.window(self.rtt.min_rtt(), self.rtt.srtt())
    }

    /// Time left until the segment counts as lost; none where it is lost already.
    fn time_left(&self, now: Time, id: u64, window: Duration) -> Option<Duration> {
        self.rack.time_left(now, self.board.get(id).departure, window)
    }

    /// Marks what is lost (RFC 8985 section 6.2 step 5; Linux: `tcp_rack_detect_loss`). Gives how long it
    /// takes until the last of the others is late; zero if there is none.
    fn detect_loss(&mut self, now: Time) -> Duration {
        let window = self.reordering_window();
        let mut wait = Duration::ZERO;
        let mut place = self.board.first_place();
        while let Some(id) = self.board.next_in_order(&mut place) {
            if !self.rack.is_passed(self.board.get(id).order) {
                break;
            }
            match self.time_left(now, id, window) {
                None => self.mark_lost(now, id),
                Some(left) => wait = wait.max(left),
            }
        }
        wait
    }

    /// Marks one segment as lost, or its retransmission.
    pub(super) fn mark_lost(&mut self, now: Time, id: u64) {
        if self.board.mark_lost(id) {
            self.count_lost(now, id);
        }
    }

    /// Counts another marked segment (Linux: `tcp_notify_skb_loss_event`).
    pub(super) fn count_lost(&mut self, now: Time, id: u64) {
        self.stats.segments_lost += 1;
        let mark = self.board.get(id).rate;
        let mut event = LostEvent::new(now, self.mss);
        event.outstanding_at_send = mark.in_flight();
        event.lost = self.rate.on_lost(&mark, self.mss);
        event.is_app_limited = mark.is_app_limited();
        self.cc.on_lost(&event);
    }

    /// Looks for losses if something has arrived (Linux: `tcp_rack_mark_lost`). Returns whether the
    /// reordering timer runs.
    pub(super) fn look_for_losses(&mut self, now: Time) -> bool {
        if !self.rack.take_advanced() {
            return false;
        }
        let wait = self.detect_loss(now);
        if wait.is_zero() {
            return false;
        }
        let has_margin = self.parameters.procedures.reordering_timer_has_margin;
        let wait = if has_margin { wait + LEAST_TIMEOUT } else { wait };
        let deadline = self.schedule(now, wait);
        self.timer.start_reordering(deadline);
        true
    }

    /// Handles the expiry of the reordering timer (RFC 8985 section 6.3; Linux: `tcp_rack_reo_timeout`).
    #[cold]
    pub(super) fn on_reordering_timer(&mut self, now: Time) {
        let before = self.board.in_flight();
        self.detect_loss(now);
        if self.board.in_flight() != before {
            if self.recovery.state != CongestionState::Recovery {
                self.enter_recovery(now, false);
                self.reduce_window(1, 0, false);
            }
            self.retransmit_lost(now);
        }
        if !self.timer.is_retransmission() {
            self.rearm_rto(now);
        }
    }

    /// Whether a segment was sent so recently that it still counts as on its way after a timeout (Linux:
    /// `tcp_timeout_mark_lost`).
    pub(super) fn is_recent(&self, now: Time, id: u64) -> bool {
        self.uses_rack() && self.time_left(now, id, Duration::ZERO).is_some()
    }

    /// Starts the probe timer where a probe would help (RFC 8985 section 7.2; Linux:
    /// `tcp_schedule_loss_probe`). Returns whether it did.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn schedule_loss_probe(&mut self, now: Time, restarts: bool) -> bool {
        let is_calm = matches!(self.recovery.state, CongestionState::Open | CongestionState::Cwr);
        if !self.parameters.tail_loss_probe || !self.has_sack || self.board.is_empty() || !is_calm {
            return false;
        }
        let rto = self.rtt.rto();
        let wait = match self.rtt.srtt() {
            None => self.parameters.rto_initial,
            Some(srtt) => {
                let is_alone = self.board.len() == 1;
                srtt * 2
                    + match (self.parameters.procedures.probe_waits_for_rto_min, is_alone) {
                        (true, true) => self.parameters.rto_min,
                        (true, false) => LEAST_TIMEOUT,
                        (false, true) => WORST_ACK_DELAY,
                        (false, false) => Duration::ZERO,
                    }
            }
        };
        let until_rto = if restarts { rto } else { self.time_to_rto(now) };
        let wait = if until_rto.is_zero() { wait } else { wait.min(until_rto) };
        // Even if acknowledgements come immediately, the timer has to be in the future.
        let deadline = self.schedule(now, wait.max(Duration::from_nanos(1)));
        self.timer.start_probe(deadline);
        true
    }

    /// Handles the expiry of the probe timer (RFC 8985 section 7.3; Linux: `tcp_send_loss_probe`).
    #[cold]
    pub(super) fn on_probe_timer(&mut self, now: Time) {
        if self.rack.probe.is_some() || self.board.is_empty() {
            return self.rearm_rto(now);
        }
        let is_new = self.sender.has_unsent() && self.push(now, Push::Probe);
        if !is_new {
            if self.sender.unsent() >= u64::from(self.segment_limit())
                && self.sender.next + u64::from(self.segment_limit()) <= self.sender.window_end()
            {
                return self.rearm_rto(now);
            }
            let last = self.board.end_id() - 1;
            self.retransmit(now, last, false);
        }
        self.stats.loss_probes += 1;
        self.rack.probe = Some(Probe { end: self.sender.next, is_retransmission: !is_new });
        // The timeout counts from now on.
        self.timer.stop();
        self.rearm_rto(now);
    }

    /// Handles an acknowledgement while a probe is outstanding (RFC 8985 section 7.4; Linux:
    /// `tcp_process_tlp_ack`).
    #[inline]
    pub(super) fn on_probe_acknowledged(
        &mut self,
        now: Time,
        acknowledged: u64,
        is_duplicate_of_probe: bool,
        is_pure_duplicate: bool,
    ) {
        if self.rack.probe.is_some()
            && self.rack.on_probe_acknowledged(acknowledged, is_duplicate_of_probe, is_pure_duplicate)
        {
            self.stats.loss_probe_recoveries += 1;
            self.recovery.undo_from = None;
            self.begin_reduction(now, CongestionKind::FastRetransmit);
            self.recovery.state = CongestionState::Cwr;
            self.end_reduction(now);
            self.try_keep_open();
        }
    }
}
