//! The retransmission timer, which serves four purposes, one at a time (Linux: `icsk_retransmit_timer`), and
//! what a timeout does (RFC 6298 section 5).

use super::connection::Connection;
use super::recovery::{BeforeTimeout, CongestionState};
use crate::cc::{CongestionControl as _, CongestionEvent, CongestionKind};
use crate::endpoint::CloseReason;
use crate::time::{Duration, Time};
use crate::timer::Deadline;

/// The purpose of the timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    #[default]
    Off,
    /// To probe a closed window.
    Persist,
    /// To send a tail loss probe.
    Probe,
    /// To take segments for lost that are late.
    Reordering,
    /// The retransmission timeout.
    Retransmission,
}

/// The timer.
#[derive(Debug)]
pub(super) struct RetransmissionTimer {
    purpose: Purpose,
    at: Time,
    /// The tick that it was started for (Linux: `icsk_timeout`).
    tick: u64,
    /// Of a subflow: that tick as it was when the last acknowledgement had been processed, and nothing had
    /// been sent in answer to it yet; [`None`] if the timer did not run.
    tick_of_ack: Option<u64>,
    /// Timeouts in a row (Linux: `icsk_retransmits`).
    pub(super) timeouts: u32,
    /// Probes of a closed window in a row.
    pub(super) probes: u32,
    /// How long data may be outstanding before the connection ends.
    pub(super) user_timeout: Option<Duration>,
    /// When the first of the timeouts in a row was started.
    outstanding_since: Option<Time>,
}

impl Default for RetransmissionTimer {
    fn default() -> Self {
        Self {
            purpose: Purpose::Off,
            at: Time::NEVER,
            tick: 0,
            tick_of_ack: None,
            timeouts: 0,
            probes: 0,
            user_timeout: None,
            outstanding_since: None,
        }
    }
}

impl RetransmissionTimer {
    pub(super) const fn at(&self) -> Time {
        self.at
    }

    pub(super) fn is_off(&self) -> bool {
        self.purpose == Purpose::Off
    }

    pub(super) fn is_persist(&self) -> bool {
        self.purpose == Purpose::Persist
    }

    pub(super) fn is_loss_probe(&self) -> bool {
        self.purpose == Purpose::Probe
    }

    pub(super) fn is_reordering(&self) -> bool {
        self.purpose == Purpose::Reordering
    }

    pub(super) fn is_retransmission(&self) -> bool {
        self.purpose == Purpose::Retransmission
    }

    pub(super) fn stop(&mut self) {
        (self.purpose, self.at) = (Purpose::Off, Time::NEVER);
    }

    /// The tick that it was started for, if it runs.
    pub(super) fn tick(&self) -> Option<u64> {
        (!self.is_off()).then_some(self.tick)
    }

    /// What [`Self::tick`] was after the last acknowledgement, before anything was sent.
    pub(super) const fn tick_of_ack(&self) -> Option<u64> {
        self.tick_of_ack
    }

    /// An acknowledgement has been processed, and nothing has been sent since.
    #[inline]
    pub(super) fn record_acknowledgement(&mut self) {
        self.tick_of_ack = self.tick();
    }

    fn start(&mut self, purpose: Purpose, deadline: Deadline) {
        (self.purpose, self.at, self.tick) = (purpose, deadline.at, deadline.tick);
    }

    pub(super) fn start_persist(&mut self, deadline: Deadline) {
        self.start(Purpose::Persist, deadline);
    }

    pub(super) fn start_probe(&mut self, deadline: Deadline) {
        self.start(Purpose::Probe, deadline);
    }

    pub(super) fn start_reordering(&mut self, deadline: Deadline) {
        self.start(Purpose::Reordering, deadline);
    }

    pub(super) fn start_retransmission(&mut self, deadline: Deadline) {
        self.start(Purpose::Retransmission, deadline);
    }
}

impl Connection {
    pub(super) fn on_retransmission_timer(&mut self, now: Time) {
        let purpose = self.timer.purpose;
        self.timer.stop();
        if self.is_unconfirmed() {
            // Linux, tcp_retransmit_timer: as long as SYN-ACK is not acknowledged, nothing else is sent
            // again.
            return;
        }
        match purpose {
            Purpose::Off => {}
            Purpose::Persist => self.on_persist_timer(now),
            Purpose::Probe => self.on_probe_timer(now),
            Purpose::Reordering => self.on_reordering_timer(now),
            Purpose::Retransmission => self.on_timeout(now),
        }
    }

    /// Time until the first outstanding segment times out; zero if that has passed (Linux:
    /// `tcp_rto_delta_us`).
    pub(super) fn time_to_rto(&self, now: Time) -> Duration {
        let Some(first) = self.board.front() else { return Duration::ZERO };
        (first.departure + self.rtt.rto()).saturating_since(now)
    }

    /// Starts the retransmission timer anew, or stops it when nothing is outstanding (RFC 6298 sections 5.1
    /// to 5.3; Linux: `tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Time) {
        if self.board.is_empty() {
            return self.timer.stop();
        }
        let length = if self.timer.is_loss_probe() || self.timer.is_reordering() {
            self.time_to_rto(now).max(Duration::from_nanos(1))
        } else {
            self.rtt.rto()
        };
        let deadline = self.schedule(now, length);
        self.timer.start_retransmission(deadline);
    }

    /// Starts the probe timer where it applies, otherwise the retransmission timer, after progress (Linux:
    /// `tcp_set_xmit_timer`).
    pub(super) fn restart_timer(&mut self, now: Time) {
        if !self.schedule_loss_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Handles the retransmission timeout (RFC 6298 sections 5.4 to 5.6; Linux: `tcp_retransmit_timer`).
    #[cold]
    fn on_timeout(&mut self, now: Time) {
        if self.board.is_empty() {
            return;
        }
        if self.timer.timeouts >= self.parameters.retries || self.has_outlasted_user(now) {
            return self.end(CloseReason::Lost);
        }
        self.stats.timeouts += 1;
        self.enter_loss(now);
        self.timer.timeouts += 1;
        let first = self.board.first_id();
        self.retransmit(now, first, true);
        self.rtt.back_off();
        let deadline = self.schedule(now, self.rtt.rto());
        self.timer.start_retransmission(deadline);
    }

    /// Whether data has been outstanding for longer than the application allows (Linux:
    /// `retransmits_timed_out`).
    fn has_outlasted_user(&mut self, now: Time) -> bool {
        let Some(timeout) = self.timer.user_timeout else { return false };
        if self.timer.timeouts == 0 {
            self.timer.outstanding_since = self.board.front().map(|first| first.departure);
        }
        self.timer.outstanding_since.is_some_and(|since| now.saturating_since(since) >= timeout)
    }

    /// Enters the state Loss (Linux: `tcp_enter_loss`).
    pub(super) fn enter_loss(&mut self, now: Time) {
        let is_new = self.recovery.state < CongestionState::Recovery;
        let outstanding = self.flight_bytes();
        let threshold = self.cc.state().ssthresh;
        // RFC 3522 section 3.2 and RFC 4015 section 3.1: "MUST NOT be reinitiated" for a timeout of a
        // recovery that goes on.
        let goes_on = self.parameters.procedures.eifel_response
            && self.recovery.state == CongestionState::Loss
            && self.sender.unacknowledged < self.recovery.high;
        self.mark_timed_out(now);
        let reduces = self.recovery.is_calm()
            || self.sender.unacknowledged >= self.recovery.high
            || (self.recovery.state == CongestionState::Loss && self.timer.timeouts == 0);
        // The control knows that it does not take a second threshold in the same episode.
        let mut event = CongestionEvent::new(now, CongestionKind::Timeout, outstanding);
        event.remaining = self.in_flight_bytes();
        self.cc.on_congestion(&event);
        if reduces && goes_on {
            self.recovery.undo_from = None;
        } else if reduces {
            self.init_undo();
            self.recovery.restores_window = true;
            self.recovery.timeout = Some(BeforeTimeout {
                pipe: threshold.max(self.flight_size(self.sender.unacknowledged)),
                next: self.sender.next,
                srtt: self.rtt.srtt().unwrap_or_default() + self.parameters.clock.granularity * 2,
                rttvar: self.rtt.rttvar(),
            });
        }
        if self.recovery.is_calm() && self.board.sacked >= super::recovery::DUP_THRESHOLD {
            // A timeout in spite of this many duplicate acknowledgements shows that reordering was
            // overestimated.
            self.recovery.reordering = super::recovery::DUP_THRESHOLD;
        }
        self.recovery.prr.end();
        self.recovery.state = CongestionState::Loss;
        self.recovery.high = self.sender.next;
        self.rack.probe = None;
        self.ecn.record_reduction();
        // RFC 5682 section 3.1: not when an earlier timeout is still being recovered from, unless this one
        // follows it directly.
        self.recovery.f_rto = self.parameters.f_rto && (is_new || self.timer.timeouts > 0);
    }

    /// Marks everything outstanding as lost, except what RACK knows to have been sent recently (RFC 8985
    /// section 6.3; Linux: `tcp_timeout_mark_lost`).
    fn mark_timed_out(&mut self, now: Time) {
        if self.board.front().is_some_and(|first| first.sacked) {
            // RFC 2018 section 8: the receiver has taken its SACKs back.
            self.board.forget_sacked();
        } else if !self.has_sack {
            self.board.sacked = 0;
        }
        let first = self.board.first_id();
        for id in first..self.board.end_id() {
            if id == first || !self.is_recent(now, id) {
                self.mark_lost(now, id);
            }
        }
    }
}
