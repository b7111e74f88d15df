//! Taking back a reduction that was a mistake: the Eifel detection by timestamps (RFC 3522), by DSACK (RFC
//! 3708), and F-RTO (RFC 5682), the response to spurious timeouts (RFC 4015); Linux's `tcp_try_undo_*`.
//!
//! Known deviation: BBR's window after a spurious timeout is that of its model, not RFC 4015's, which is for
//! windows that losses steer.

use super::acknowledgement::Ack;
use super::connection::Connection;
use super::recovery::{BeforeTimeout, CongestionState};
use crate::cc::{CongestionControl as _, Response, UndoEvent};
use crate::time::Time;

impl Connection {
    /// Notes what an undo will need (Linux: `tcp_init_undo`).
    pub(super) fn init_undo(&mut self) {
        if !self.parameters.undo {
            self.recovery.undo_from = None;
            return;
        }
        self.recovery.undo_from = Some(self.sender.unacknowledged);
        self.recovery.reported.begin(self.sender.unacknowledged);
        let probes = u32::from(self.rack.probe.is_some_and(|probe| probe.is_retransmission));
        let out = self.board.retransmitted + probes;
        self.recovery.undo_retransmissions = (out > 0).then_some(out);
    }

    /// Whether an acknowledgement with this echo answers what was sent before the first retransmission
    /// (Linux: `tcp_packet_delayed`).
    pub(super) fn is_delayed(&self, echo: Option<u32>) -> bool {
        match (self.recovery.first_retransmission, echo) {
            (Some(first), Some(echo)) => (echo.wrapping_sub(first) as i32) < 0,
            (Some(_), None) => false,
            // Nothing has been sent again yet. NewReno's held state does not count.
            (None, _) => self.has_sack || self.sender.unacknowledged < self.recovery.high,
        }
    }

    /// Whether the reduction may be taken back (Linux: `tcp_may_undo`).
    pub(super) fn may_undo(&self, echo: Option<u32>) -> bool {
        self.recovery.undo_from.is_some() && (self.do_dsacks_show_no_loss() || self.is_delayed(echo))
    }

    /// Whether D-SACKs account for every retransmission since the reduction: one by one (RFC 3708 section 3),
    /// or as many (Linux: `undo_retrans`).
    fn do_dsacks_show_no_loss(&self) -> bool {
        if self.parameters.procedures.tells_duplicates_apart {
            self.recovery.reported.show_no_loss()
        } else {
            self.recovery.undo_retransmissions == Some(0)
        }
    }

    /// Takes the reduction back (Linux: `tcp_undo_cwnd_reduction`).
    fn undo_reduction(&mut self, now: Time, ack: &mut Ack, nothing_was_lost: bool) {
        if nothing_was_lost {
            self.board.unmark_lost();
        }
        let before = self.recovery.timeout.take().filter(|_| self.parameters.procedures.eifel_response);
        // RFC 4015 section 3.1 step 9: with ECN-Echo, nothing is taken back, and the timer stays as it is.
        if self.recovery.restores_window {
            self.stats.undos += 1;
            let response = before.map(|before| self.response(ack, before));
            ack.holds_window = response.is_some();
            self.cc.on_undo(&UndoEvent { response, ..UndoEvent::new(now) });
            self.ecn.record_undo();
        }
        self.recovery.undo_from = None;
        self.recovery.restores_window = false;
        // RACK has to examine the outstanding segments again.
        self.rack.look_again();
    }

    /// Responds to a spurious timeout (RFC 4015 section 3.1 steps 9 and 11).
    fn response(&mut self, ack: &Ack, before: BeforeTimeout) -> Response {
        self.rtt.widen_after(before.srtt, before.rttvar, before.next);
        let flight = self.flight_size(self.sender.unacknowledged);
        let acked = (self.sender.unacknowledged - ack.prior) as u32;
        let cwnd = flight.saturating_add(acked.min(self.parameters.initial_cwnd(self.mss)));
        // `bytes_acked` is what an acceptable acknowledgement acknowledges. Another one, that reports a
        // duplicate, finds the window as the last one of those has left it.
        let cwnd = if ack.advanced { cwnd } else { cwnd.max(self.cc.limits().cwnd) };
        Response { cwnd, ssthresh: before.pipe }
    }

    /// Tries to take the reduction back once everything up to the recovery point is acknowledged (Linux:
    /// `tcp_try_undo_recovery`). Returns whether the state is to be held, as without SACK until something
    /// above the point is acknowledged (RFC 6582 section 6).
    pub(super) fn try_undo_recovery(&mut self, now: Time, ack: &mut Ack) -> bool {
        if self.may_undo(ack.echo) {
            self.undo_reduction(now, ack, false);
            // The window is the one that the control restored, not the one that the reduction had reached.
            self.recovery.prr.end();
        } else {
            self.rack.forget_duplicates();
        }
        if self.holds_state() {
            return true;
        }
        self.recovery.state = CongestionState::Open;
        false
    }

    /// Whether NewReno's state is held (Linux: `tcp_is_non_sack_preventing_reopen`).
    fn holds_state(&mut self) -> bool {
        if self.has_sack || self.sender.unacknowledged != self.recovery.high {
            return false;
        }
        if !self.has_retransmitted() {
            self.recovery.first_retransmission = None;
        }
        true
    }

    /// Tries to take the reduction back once DSACKs account for every retransmission (Linux:
    /// `tcp_try_undo_dsack`).
    pub(super) fn try_undo_by_dsack(&mut self, now: Time, ack: &mut Ack) -> bool {
        if self.recovery.undo_from.is_none() || !self.do_dsacks_show_no_loss() {
            return false;
        }
        self.rack.keep_duplicates();
        self.undo_reduction(now, ack, false);
        true
    }

    /// Tries to take the reduction back at a partial acknowledgement in fast recovery (Linux:
    /// `tcp_try_undo_partial`). Returns whether to wait for the retransmissions that are outstanding.
    pub(super) fn try_undo_partially(&mut self, now: Time, ack: &mut Ack) -> bool {
        if self.recovery.undo_from.is_none() || !self.is_delayed(ack.echo) {
            return false;
        }
        self.record_reordering(ack.prior);
        if self.board.retransmitted > 0 {
            return true;
        }
        if !self.has_retransmitted() {
            self.recovery.first_retransmission = None;
        }
        self.undo_reduction(now, ack, true);
        self.recovery.prr.end();
        self.try_keep_open();
        false
    }

    /// Tries to take the reduction back after a timeout (Linux: `tcp_try_undo_loss`). The echo counts as
    /// `echo`. With `by_f_rto`, F-RTO has shown the timeout to be spurious.
    pub(super) fn try_undo_timeout(
        &mut self,
        now: Time,
        ack: &mut Ack,
        echo: Option<u32>,
        by_f_rto: bool,
    ) -> bool {
        if !by_f_rto && !self.may_undo(echo) {
            return false;
        }
        self.stats.spurious_timeouts += 1;
        self.timer.timeouts = 0;
        // RFC 4015 section 3.1 step 7: an acknowledgement of the retransmission (`LATE_SPUR_TO`) says nothing
        // about the other segments (step 8).
        let is_late = self.parameters.procedures.eifel_response && !by_f_rto && !self.is_delayed(echo);
        self.undo_reduction(now, ack, !is_late);
        if is_late {
            self.recovery.f_rto = false;
            return false;
        }
        if self.holds_state() {
            return true;
        }
        if by_f_rto || self.has_sack {
            self.recovery.state = CongestionState::Open;
        }
        true
    }
}
