//! Acknowledgements that signal trouble: when recovery begins and ends, and what is lost (RFC 6675, RFC 6582,
//! RFC 5682; Linux's `tcp_fastretrans_alert`).

use super::acknowledgement::Ack;
use super::config::LossDetection;
use super::connection::Connection;
use super::recovery::{CongestionState, DUP_THRESHOLD, Resend};
use super::send::Push;
use crate::time::Time;

impl Connection {
    /// Whether it is more than ordinary progress (Linux: `tcp_ack_is_dubious`).
    pub(super) fn is_dubious(&self, ack: &Ack) -> bool {
        let is_alarming = ack.data_sacked || ack.is_marked || ack.reports_duplicate;
        let is_plain = ack.has_data || ack.window_changed || ack.data_acked;
        !is_plain || is_alarming || self.recovery.state != CongestionState::Open
    }

    /// Changes the congestion state after an acknowledgement, and returns what is to be sent again (Linux:
    /// `tcp_fastretrans_alert`).
    pub(super) fn alert(&mut self, now: Time, ack: &mut Ack) -> Resend {
        if self.inflates() {
            return self.alert_newreno(now, ack);
        }
        let is_duplicate = ack.is_duplicate();
        if ack.is_marked {
            self.recovery.restores_window = false;
        }
        if self.recovery.state == CongestionState::Open {
            self.recovery.first_retransmission = None;
        } else if self.sender.unacknowledged >= self.recovery.high && self.leave(now, ack) {
            return Resend::Nothing;
        }
        match self.recovery.state {
            CongestionState::Recovery => {
                if self.stay_in_recovery(now, ack, is_duplicate) {
                    return Resend::Nothing;
                }
            }
            CongestionState::Loss => {
                let resend = self.stay_in_loss(now, ack, is_duplicate);
                self.identify_losses(now, ack);
                let may_recover = self.recovery.state == CongestionState::Open || ack.lost_retransmission;
                if !may_recover {
                    return resend;
                }
                if !self.consider_recovery(now, ack, is_duplicate) {
                    return resend;
                }
            }
            CongestionState::Open | CongestionState::Disorder | CongestionState::Cwr => {
                if !self.consider_recovery(now, ack, is_duplicate) {
                    return Resend::Nothing;
                }
            }
        }
        Resend::Lost
    }

    /// Leaves a state whose recovery point has been reached. Returns whether nothing else is to be done.
    fn leave(&mut self, now: Time, ack: &mut Ack) -> bool {
        match self.recovery.state {
            CongestionState::Cwr if self.sender.unacknowledged != self.recovery.high => {
                // The state holds until something above the point is acknowledged, because CWR must have
                // reached the receiver.
                self.end_reduction(now);
                self.recovery.state = CongestionState::Open;
                false
            }
            CongestionState::Recovery => {
                if !self.has_sack {
                    self.board.sacked = 0;
                }
                if self.try_undo_recovery(now, ack) {
                    return true;
                }
                self.end_reduction(now);
                false
            }
            _ => false,
        }
    }

    /// Handles an acknowledgement in fast recovery; gives whether there is nothing to do but wait.
    fn stay_in_recovery(&mut self, now: Time, ack: &mut Ack, is_duplicate: bool) -> bool {
        if !ack.advanced {
            if !self.has_sack && is_duplicate {
                self.add_duplicate();
            }
        } else if self.try_undo_partially(now, ack) {
            return true;
        }
        if self.try_undo_by_dsack(now, ack) {
            self.recovery.prr.end();
            self.try_to_open(now, ack.is_marked);
        }
        self.identify_losses(now, ack);
        if self.recovery.state != CongestionState::Recovery {
            if !self.is_time_to_recover() {
                return true;
            }
            self.enter_recovery(now, ack.is_marked);
        }
        self.mark_by_duplicates(now, false);
        false
    }

    /// Handles an acknowledgement after a timeout (Linux: `tcp_process_loss`).
    fn stay_in_loss(&mut self, now: Time, ack: &mut Ack, is_duplicate: bool) -> Resend {
        let has_recovered = self.sender.unacknowledged >= self.recovery.high;
        // RFC 3522 section 3.2 step 6: a duplicate that is reported shows that the original had arrived and
        // its acknowledgement was lost. Its echo is old all the same.
        let is_counted = self.parameters.procedures.eifel_ignores_duplicates || !ack.reports_duplicate;
        let echo = ack.echo.filter(|_| is_counted);
        if ack.advanced && self.try_undo_timeout(now, ack, echo, false) {
            return Resend::Nothing;
        }
        let has_sent_new = self.sender.next > self.recovery.high;
        if self.recovery.f_rto {
            // RFC 5682 section 3.1 with SACK, or section 2.1 without, step 3b: what is acknowledged was sent
            // before the timeout. Linux takes that from the first acknowledgement too.
            let is_linux = self.parameters.procedures.f_rto_decides_at_once;
            let reaches_new = self.is_new_data_acknowledged();
            let may_decide = is_linux || (has_sent_new && !reaches_new);
            if ack.original_acked && may_decide && self.try_undo_timeout(now, ack, ack.echo, true) {
                return Resend::Nothing;
            }
            if has_sent_new {
                let is_real = ack.data_sacked || is_duplicate || (ack.advanced && !is_linux);
                if is_real {
                    // Step 3a: the loss was real.
                    self.recovery.f_rto = false;
                } else if !is_linux {
                    // "Other types of ACKs are ignored without any action."
                    return Resend::Nothing;
                }
            } else if ack.advanced && !has_recovered {
                // Step 2b.
                self.recovery.high = self.sender.next;
                if self.sender.has_unsent() && self.sender.window_end() > self.sender.next {
                    return Resend::New;
                }
                self.recovery.f_rto = false;
            } else if is_duplicate && !self.has_sack && !is_linux {
                // Step 2a.
                self.recovery.f_rto = false;
            }
        }
        if has_recovered {
            // Steps 2a and 3a: everything that was outstanding is acknowledged.
            if !self.try_undo_recovery(now, ack) {
                self.end_reduction(now);
            }
            return Resend::Nothing;
        }
        if !self.has_sack {
            if has_sent_new && is_duplicate {
                self.add_duplicate();
            } else if ack.advanced {
                self.board.sacked = 0;
            }
        }
        Resend::Lost
    }

    /// Whether an acknowledgement, cumulative or selective, covers data beyond the recovery point, with SACK
    /// (RFC 5682 section 3.1 step 3a).
    fn is_new_data_acknowledged(&self) -> bool {
        let (board, high) = (&self.board, self.recovery.high);
        let highest = if board.sacked > 0 { board.highest_sacked } else { self.sender.unacknowledged };
        self.has_sack && highest.max(self.sender.unacknowledged) > high
    }

    /// Handles an acknowledgement outside of recovery. Returns whether recovery begins.
    fn consider_recovery(&mut self, now: Time, ack: &mut Ack, is_duplicate: bool) -> bool {
        if !self.has_sack {
            if ack.advanced {
                self.board.sacked = 0;
            }
            if is_duplicate {
                self.add_duplicate();
            }
        }
        if self.recovery.is_calm() {
            self.try_undo_by_dsack(now, ack);
        }
        self.identify_losses(now, ack);
        if !self.is_time_to_recover() {
            self.try_to_open(now, ack.is_marked);
            return false;
        }
        self.enter_recovery(now, ack.is_marked);
        self.mark_by_duplicates(now, true);
        true
    }

    /// Marks segments as lost (Linux: `tcp_identify_packet_loss`).
    fn identify_losses(&mut self, now: Time, ack: &mut Ack) {
        if self.board.is_empty() {
            return;
        }
        if !self.has_sack {
            self.mark_first_without_sack(now, ack.advanced);
        } else if self.uses_rack() {
            let before = self.board.retransmitted;
            if self.look_for_losses(now) {
                // The reordering timer runs in place of the retransmission timer.
                ack.restarts_timer = false;
            }
            ack.lost_retransmission |= self.board.retransmitted < before;
        }
    }

    /// Marks the first segment as lost as `NewReno` does (RFC 6582 section 3.2; Linux:
    /// `tcp_newreno_mark_lost`).
    fn mark_first_without_sack(&mut self, now: Time, advanced: bool) {
        let begins =
            self.recovery.state < CongestionState::Recovery && self.board.sacked >= self.recovery.reordering;
        let goes_on = self.recovery.state == CongestionState::Recovery && advanced;
        let first = self.board.first_id();
        if (begins || goes_on) && !self.board.get(first).lost {
            self.mark_lost(now, first);
        }
    }

    /// Whether recovery is to begin (Linux: `tcp_time_to_recover`).
    fn is_time_to_recover(&self) -> bool {
        if self.board.lost > 0 {
            return true;
        }
        if !self.has_sack || self.uses_rack() {
            return false;
        }
        match self.parameters.loss_detection {
            LossDetection::Fack => self.board.forward_span() > self.recovery.reordering,
            LossDetection::Dupacks | LossDetection::Rack => self.board.sacked >= self.recovery.reordering,
        }
    }

    /// Marks losses from selective acknowledgements above a segment, without RACK (Linux:
    /// `tcp_update_scoreboard`).
    fn mark_by_duplicates(&mut self, now: Time, begins: bool) {
        if !self.has_sack || self.uses_rack() || self.board.is_empty() {
            return;
        }
        let threshold = self.recovery.reordering;
        let marked = match self.parameters.loss_detection {
            LossDetection::Fack => self.board.mark_far_below_sacked(threshold),
            LossDetection::Dupacks | LossDetection::Rack => self.board.mark_below_sacked(threshold),
        };
        for id in marked {
            self.count_lost(now, id);
        }
        if begins && self.board.lost == 0 {
            let first = self.board.first_id();
            self.mark_lost(now, first);
        }
    }

    /// Counts a duplicate acknowledgement without SACK, which shows that something has arrived (Linux:
    /// `tcp_add_reno_sack`).
    fn add_duplicate(&mut self) {
        let holes = self.board.lost.max(1).min(self.board.len());
        if self.board.sacked + holes < self.board.len() {
            self.board.sacked += 1;
            self.rate.delivered_segments += 1;
        } else {
            // There are more duplicates than outstanding segments, so segments overtake each other.
            self.recovery.reordering = self.recovery.reordering.max(self.board.len()).max(DUP_THRESHOLD);
        }
    }

    /// Sends what [`Connection::alert`] has found to be due (Linux: `tcp_xmit_recovery`).
    pub(super) fn resend(&mut self, now: Time, resend: Resend) {
        match resend {
            Resend::Nothing => return,
            Resend::Lost => {}
            Resend::New => {
                self.push(now, Push::WithoutNagle);
                if self.sender.next > self.recovery.high {
                    return;
                }
                self.recovery.f_rto = false;
            }
        }
        self.retransmit_lost(now);
    }
}
