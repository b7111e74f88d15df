//! RACK and tail loss probes (RFC 8985; Linux's `tcp_recovery.c`, `tcp_send_loss_probe`).

use super::connection::Connection;
use super::recovery::CongestionState;
use super::send::Push;
use crate::cc::{CongestionControl as _, CongestionKind, LostEvent};
use crate::time::{Duration, Time};

/// Recoveries for which a wider reordering window is kept (RFC 8985 section 6.2 step 4).
const KEPT_RECOVERIES: u32 = 16;
/// The reordering window grows to at most this many steps (Linux).
const MAX_STEPS: u32 = 255;
/// What a timer takes at least (Linux: `TCP_TIMEOUT_MIN_US`).
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);
/// How long a peer may delay the acknowledgement of a lone segment (RFC 8985 section 7.2: `TLP.max_ack_delay`).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

/// The state of RACK-TLP.
#[derive(Debug)]
pub(super) struct Rack {
    /// Of the segment that was sent last among those that arrived, the number of its transmission, and its
    /// round-trip time (RFC 8985: `RACK.xmit_ts`, RACK.rtt). Two segments sent at the same time are told apart
    /// by their order; the RFC and Linux take the sequence number, which a retransmission has lower.
    order: u64,
    rtt: Duration,
    /// Something has arrived since losses were last looked for.
    pub(super) has_advanced: bool,
    /// The reordering window in quarters of the smallest round-trip time (`RACK.reo_wnd_mult`).
    steps: u32,
    /// `RACK.reo_wnd_persist`.
    kept: u32,
    has_duplicate: bool,
    /// Bytes delivered when the window was last widened.
    widened_at: u64,
    /// The probe that is out (`TLP.end_seq`, `TLP.is_retrans`).
    pub(super) probe: Option<Probe>,
}

/// A tail loss probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) end: u64,
    pub(super) is_retransmission: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            order: 0,
            rtt: Duration::ZERO,
            has_advanced: false,
            steps: 1,
            kept: 0,
            has_duplicate: false,
            widened_at: 0,
            probe: None,
        }
    }
}

impl Rack {
    /// A segment has arrived that was last sent at `sent_at` (RFC 8985 section 6.2 step 2; Linux:
    /// `tcp_rack_advance`).
    pub(super) fn advance(
        &mut self,
        now: Time,
        sent_at: Time,
        order: u64,
        was_retransmitted: bool,
        min_rtt: Option<Duration>,
    ) {
        let rtt = now.saturating_since(sent_at);
        if was_retransmitted && min_rtt.is_some_and(|min| rtt < min) {
            // It answers the original.
            return;
        }
        self.has_advanced = true;
        self.rtt = rtt;
        self.order = self.order.max(order);
    }

    /// The peer reports a duplicate (RFC 8985 section 6.2 step 4).
    pub(super) fn note_duplicate(&mut self) {
        self.has_duplicate = true;
    }

    /// Adapts the reordering window (Linux: `tcp_rack_update_reo_wnd`). `prior`: bytes delivered when the
    /// segment of the acknowledgement was sent.
    pub(super) fn adapt(&mut self, prior: Option<u64>, delivered: u64) {
        let Some(prior) = prior else { return };
        if prior < self.widened_at {
            // No round trip has passed since it was widened.
            self.has_duplicate = false;
        }
        if self.has_duplicate {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.has_duplicate = false;
            self.widened_at = delivered;
            self.kept = KEPT_RECOVERIES;
        } else if self.kept == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended without an undo.
    pub(super) fn forget_duplicates(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }

    /// A recovery was undone because of duplicates.
    pub(super) fn keep_duplicates(&mut self) {
        self.kept = (self.kept + 1).min(KEPT_RECOVERIES);
    }
}

impl Connection {
    /// How long a segment may be late (RFC 8985 section 6.2 step 4; Linux: `tcp_rack_reo_wnd`).
    fn reordering_window(&self) -> Duration {
        if !self.recovery.has_reordering {
            let is_recovering = self.recovery.state >= CongestionState::Recovery;
            if is_recovering || self.board.sacked >= self.recovery.reordering {
                return Duration::ZERO;
            }
        }
        let quarter = self.rtt.min_rtt().map_or(0, Duration::as_nanos) / 4;
        let srtt = self.rtt.srtt().unwrap_or(Duration::ZERO);
        Duration::from_nanos(quarter.saturating_mul(u64::from(self.rack.steps))).min(srtt)
    }

    /// Time left until the segment counts as lost; none: it does (Linux: `tcp_rack_skb_timeout`).
    fn time_left(&self, now: Time, id: u64, window: Duration) -> Option<Duration> {
        let age = now.saturating_since(self.board.get(id).departure);
        let limit = self.rack.rtt + window;
        (age < limit).then(|| limit - age)
    }

    /// Marks what is lost (RFC 8985 section 6.2 step 5; Linux: `tcp_rack_detect_loss`). How long until the
    /// last of the others is late, zero if there is none.
    fn detect_loss(&mut self, now: Time) -> Duration {
        let window = self.reordering_window();
        let mut wait = Duration::ZERO;
        let mut position = 0;
        while let Some(id) = self.board.next_in_order(&mut position) {
            if self.board.get(id).order >= self.rack.order {
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

    /// One more has been marked (Linux: `tcp_notify_skb_loss_event`).
    pub(super) fn count_lost(&mut self, now: Time, id: u64) {
        self.stats.segments_lost += 1;
        let mark = self.board.get(id).rate;
        let mut event = LostEvent::new(now, self.mss);
        event.outstanding_at_send = mark.in_flight();
        event.lost = self.rate.on_lost(&mark, self.mss);
        event.is_app_limited = mark.is_app_limited();
        self.cc.on_lost(&event);
    }

    /// Looks for losses if something has arrived (Linux: `tcp_rack_mark_lost`). Whether the reordering timer
    /// runs.
    pub(super) fn look_for_losses(&mut self, now: Time) -> bool {
        if !std::mem::take(&mut self.rack.has_advanced) {
            return false;
        }
        let wait = self.detect_loss(now);
        if wait.is_zero() {
            return false;
        }
        let has_margin = self.parameters.procedures.reordering_timer_has_margin;
        let wait = if has_margin { wait + LEAST_TIMEOUT } else { wait };
        let at = self.deadline(now, wait);
        self.timer.start_reordering(at);
        true
    }

    /// The reordering timer expires (RFC 8985 section 6.3; Linux: `tcp_rack_reo_timeout`).
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

    /// Segments still on their way after a timeout, by their age (Linux: `tcp_timeout_mark_lost`).
    pub(super) fn is_recent(&self, now: Time, id: u64) -> bool {
        self.uses_rack() && self.time_left(now, id, Duration::ZERO).is_some()
    }

    /// Starts the probe timer where a probe would help (RFC 8985 section 7.2; Linux:
    /// `tcp_schedule_loss_probe`). Whether it did.
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
        let at = self.deadline(now, wait);
        self.timer.start_probe(at);
        true
    }

    /// The probe timer expires (RFC 8985 section 7.3; Linux: `tcp_send_loss_probe`).
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
        // The timeout counts from now.
        self.timer.stop();
        self.rearm_rto(now);
    }

    /// An acknowledgement while a probe is out (RFC 8985 section 7.4; Linux: `tcp_process_tlp_ack`).
    pub(super) fn on_probe_acknowledged(
        &mut self,
        now: Time,
        acknowledged: u64,
        is_duplicate_of_probe: bool,
        is_pure_duplicate: bool,
    ) {
        let Some(probe) = self.rack.probe else { return };
        if acknowledged < probe.end {
            return;
        }
        if !probe.is_retransmission || is_duplicate_of_probe {
            self.rack.probe = None;
        } else if acknowledged > probe.end {
            // The probe has repaired a loss that nothing else showed.
            self.stats.loss_probe_recoveries += 1;
            self.recovery.undo_from = None;
            self.begin_reduction(now, CongestionKind::FastRetransmit);
            self.recovery.state = CongestionState::Cwr;
            self.end_reduction(now);
            self.try_keep_open();
        } else if is_pure_duplicate {
            self.rack.probe = None;
        }
    }
}
