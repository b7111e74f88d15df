//! Taking back a reduction that was a mistake: the Eifel detection by timestamps (RFC 3522), by DSACK (RFC
//! 3708), and F-RTO (RFC 5682), the response to spurious timeouts (RFC 4015); Linux's `tcp_try_undo_*`.

use super::connection::Connection;
use super::recovery::CongestionState;
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
    fn undo_reduction(&mut self, now: Time, nothing_was_lost: bool) {
        self.undo_with(UndoEvent::new(now), nothing_was_lost);
    }

    fn undo_with(&mut self, event: UndoEvent, nothing_was_lost: bool) {
        if nothing_was_lost {
            self.board.unmark_lost();
        }
        if self.recovery.restores_window {
            self.stats.undos += 1;
            self.cc.on_undo(&event);
            self.ecn.note_undo();
        }
        self.recovery.undo_from = None;
        self.recovery.restores_window = false;
        // RACK has to examine the outstanding segments again.
        self.rack.look_again();
    }

    /// Tries to take the reduction back once everything up to the recovery point is acknowledged (Linux:
    /// `tcp_try_undo_recovery`). Returns whether the state is to be held, as without SACK until something
    /// above the point is acknowledged (RFC 6582 section 6).
    pub(super) fn try_undo_recovery(&mut self, now: Time, echo: Option<u32>) -> bool {
        if self.may_undo(echo) {
            self.undo_reduction(now, false);
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
    pub(super) fn try_undo_by_dsack(&mut self, now: Time) -> bool {
        if self.recovery.undo_from.is_none() || !self.do_dsacks_show_no_loss() {
            return false;
        }
        self.rack.keep_duplicates();
        self.undo_reduction(now, false);
        true
    }

    /// Tries to take the reduction back at a partial acknowledgement in fast recovery (Linux:
    /// `tcp_try_undo_partial`). Returns whether to wait for the retransmissions that are outstanding.
    pub(super) fn try_undo_partially(&mut self, now: Time, prior: u64, echo: Option<u32>) -> bool {
        if self.recovery.undo_from.is_none() || !self.is_delayed(echo) {
            return false;
        }
        self.note_reordering(prior);
        if self.board.retransmitted > 0 {
            return true;
        }
        if !self.has_retransmitted() {
            self.recovery.first_retransmission = None;
        }
        self.undo_reduction(now, true);
        self.recovery.prr.end();
        self.try_keep_open();
        false
    }

    /// Tries to take the reduction back after a timeout (Linux: `tcp_try_undo_loss`), at an acknowledgement
    /// before which everything up to `prior` was acknowledged. With `by_f_rto`, F-RTO has shown the timeout
    /// to be spurious.
    pub(super) fn try_undo_timeout(
        &mut self,
        now: Time,
        prior: u64,
        echo: Option<u32>,
        by_f_rto: bool,
    ) -> bool {
        if !by_f_rto && !self.may_undo(echo) {
            return false;
        }
        self.stats.spurious_timeouts += 1;
        let mut event = UndoEvent::new(now);
        if self.parameters.procedures.eifel_response
            && let Some(timeout) = self.recovery.timeout.take()
        {
            // RFC 4015 section 3.2 steps 6 and 8.
            let acked =
                (self.sender.unacknowledged - prior).min(self.parameters.initial_cwnd(self.mss).into());
            let cwnd = self.flight_size(self.sender.unacknowledged).saturating_add(acked as u32);
            event.response = Some(Response { cwnd, least_ssthresh: timeout.flight });
            self.rtt.widen_after(timeout.srtt, timeout.rttvar, timeout.next);
        }
        self.undo_with(event, true);
        self.timer.timeouts = 0;
        if self.holds_state() {
            return true;
        }
        if by_f_rto || self.has_sack {
            self.recovery.state = CongestionState::Open;
        }
        true
    }
}
