//! Errors, failed paths and the end of the association by failure
//! (RFC 9260 section 8, RFC 7829).

use super::association::Association;
use crate::cc::{CongestionControl as _, CongestionEvent, CongestionKind};
use crate::endpoint::{CloseReason, Event};
use crate::flow::PathId;
use crate::path::{PathEvent, PathState};
use crate::time::Time;
use crate::wire::sctp::chunk::{Abort, Chunk};

/// The kinds of errors that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// A heartbeat was not answered.
    Heartbeat,
    /// T3-rtx expired.
    Timeout,
}

impl Association {
    /// Counts an error of a path, backs its timer off, and draws the consequences.
    pub(super) fn strike(&mut self, now: Time, path: PathId, strike: Strike) {
        let index = path.index();
        let before = self.routing.status[index];
        // RFC 9260 section 5.4: heartbeats on an unconfirmed path say nothing about the association.
        if strike == Strike::Timeout || before.confirmed {
            self.routing.errors_in_a_row += 1;
        }
        // Linux leaves the counter of an inactive path alone.
        if before.state != PathState::Inactive {
            self.routing.status[index].error_count += 1;
        }
        let backs_off_last = self.parameters.procedures.backs_off_last;
        if !backs_off_last {
            self.routing.paths[index].rtt.back_off();
        }
        // Section 8.1.
        if self.parameters.association_max_retrans.is_some_and(|max| self.routing.errors_in_a_row > max) {
            self.give_up(now);
            return;
        }
        let errors = self.routing.status[index].error_count;
        let max = self.parameters.path_max_retrans;
        if errors > max && before.state != PathState::Inactive {
            // Section 8.2.
            self.change_path_state(now, path, PathState::Inactive);
        } else if before.is_usable() && self.is_potentially_failed(errors) {
            // RFC 7829 section 3.2 suspects a path that data may take; one that was never confirmed is none
            // (Linux: `sctp_do_8_2_transport_strike` asks for `SCTP_ACTIVE`).
            self.change_path_state(now, path, PathState::PotentiallyFailed);
            self.ask_potentially_failed(now, path);
        }
        let is_inactive = self.routing.status[index].state == PathState::Inactive;
        if is_inactive && strike == Strike::Timeout && self.parameters.heartbeat.after_failure {
            self.send_heartbeat(now, path);
        }
        if backs_off_last {
            self.routing.paths[index].rtt.back_off();
        }
        if strike == Strike::Heartbeat {
            self.routing.status[index].heartbeats_lost += 1;
        }
        self.on_path_event(now, PathEvent::ErrorCounted(path));
    }

    /// Ends the association because the peer no longer answers (section 8.1).
    #[cold]
    pub(super) fn give_up(&mut self, now: Time) {
        if self.parameters.procedures.aborts_unreachable_peers && !self.awaits_init_ack() {
            let abort = Abort { tag_reflected: false, cause: None };
            self.transmit_one(self.routing.selection.current, Chunk::Abort(abort));
        }
        self.end(now, CloseReason::Lost);
    }

    /// Whether these are more errors than PFMR and not more than PMR (RFC 7829 section 3.2).
    fn is_potentially_failed(&self, errors: u32) -> bool {
        let max = self.parameters.path_max_retrans;
        let at_max = errors == max && self.parameters.procedures.suspects_at_path_max_retrans;
        self.parameters.pf_max_retrans.is_some_and(|pf_max| errors > pf_max && (errors < max || at_max))
    }

    /// Clears the errors of a path after a SACK that acknowledged data sent on `path`, and on no other path
    /// if it `is_sure`; the SACK came over `from` (RFC 9260 section 8.2).
    pub(super) fn clear_errors_by_sack(&mut self, now: Time, path: PathId, from: PathId, is_sure: bool) {
        self.routing.errors_in_a_row = 0;
        let procedures = &self.parameters.procedures;
        let status = &mut self.routing.status[path.index()];
        // RFC 7829 section 3.2: where it is not known which path data took, its acknowledgement says nothing
        // about a path that has failed or may have failed.
        if !is_sure && self.parameters.asks_for_sure_acks && status.state != PathState::Active {
            return;
        }
        status.error_count = 0;
        let comes_back = match status.state {
            PathState::Active => false,
            PathState::Inactive => procedures.sacks_revive_from_any_path || path == from,
            PathState::PotentiallyFailed => procedures.sacks_clear_suspicion,
        };
        if comes_back {
            self.change_path_state(now, path, PathState::Active);
        }
    }

    /// A heartbeat was answered (RFC 9260 sections 8.3 and 5.4).
    pub(super) fn clear_errors_by_heartbeat(&mut self, now: Time, path: PathId) {
        if self.parameters.procedures.heartbeats_keep_closing || self.state.is_established() {
            self.routing.errors_in_a_row = 0;
        }
        let status = &mut self.routing.status[path.index()];
        status.error_count = 0;
        let newly_confirmed = !std::mem::replace(&mut status.confirmed, true);
        if status.state != PathState::Active {
            self.change_path_state(now, path, PathState::Active);
        } else if newly_confirmed {
            self.on_path_event(now, PathEvent::StateChanged { path, from: PathState::Active });
        }
    }

    fn change_path_state(&mut self, now: Time, path: PathId, state: PathState) {
        let from = std::mem::replace(&mut self.routing.status[path.index()].state, state);
        let own = &mut self.routing.paths[path.index()];
        match state {
            PathState::Active => {
                if from == PathState::PotentiallyFailed && self.parameters.restarts_after_suspicion {
                    let event =
                        CongestionEvent::new(now, CongestionKind::Restart, self.sender.outstanding.on(path));
                    own.cc.on_congestion(&event);
                }
            }
            PathState::Inactive => {
                self.stats.path_failures += 1;
                own.first_inactive.get_or_insert(now);
            }
            PathState::PotentiallyFailed => {
                self.stats.potential_failures += 1;
                own.first_potentially_failed.get_or_insert(now);
            }
        }
        let dormant = self.routing.status.iter().all(|status| status.state == PathState::Inactive);
        self.stats.record_dormant(now, dormant);
        self.outbox.emit(Event::PathChanged { path, state });
        self.on_path_event(now, PathEvent::StateChanged { path, from });
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.is_ended()
    }
}
