//! A path becomes part of the association, or leaves it (RFC 5061 section 5.3).

use super::Address;
use crate::endpoint::Event;
use crate::flow::PathId;
use crate::path::{PathEvent, PathState, PathStatus};
use crate::sctp::association::Association;
use crate::sctp::outstanding::SentState;
use crate::sctp::path::Path;
use crate::time::Time;

impl Association {
    /// Makes a path part of the association. What was known of it from earlier no longer counts.
    pub(in crate::sctp) fn address_comes(&mut self, path: PathId) {
        self.set_address(path, Address::Present);
        let old = &self.routing.paths[path.index()];
        let fresh = Path::new(&self.parameters, old.mtu, self.local.ip, old.heartbeat.nonce);
        // If the deletion was refused, data may have waited here.
        let Path { t3, first_inactive, first_potentially_failed, .. } = *old;
        self.routing.paths[path.index()] = Path { t3, first_inactive, first_potentially_failed, ..fresh };
        if let Some(sharing) = &self.parts.sharing {
            sharing.join(&self.parameters, self.local.ip, path, &mut self.routing.paths[path.index()]);
        }
        self.routing.status[path.index()] = PathStatus { confirmed: false, ..PathStatus::default() };
        self.outbox.emit(Event::AddressAdded(path));
    }

    /// Verifies a new path with a heartbeat before data may use it (RFC 9260 section 5.4).
    pub(in crate::sctp) fn verify_path(&mut self, now: Time, path: PathId) {
        if self.is_present(path) && !self.routing.status[path.index()].confirmed {
            self.send_heartbeat(now, path);
            self.start_heartbeat_timer(now, path);
        }
    }

    /// Takes a path out of the association, in which there must be another one.
    pub(in crate::sctp) fn address_goes(&mut self, now: Time, path: PathId) {
        self.set_address(path, Address::Absent);
        self.leave_path(now, path);
        self.move_data(now, path);
        self.outbox.emit(Event::AddressDeleted(path));
    }

    /// Leaves a path, on which nothing is sent any more.
    pub(in crate::sctp) fn leave_path(&mut self, now: Time, path: PathId) {
        let from = self.routing.status[path.index()].state;
        self.forget_status(path);
        self.on_path_event(now, PathEvent::StateChanged { path, from });
        if self.routing.selection.primary == path {
            let rank = |other: &PathId| {
                let PathStatus { confirmed, state, error_count, .. } = self.routing.status[other.index()];
                (!confirmed, state != PathState::Active, error_count)
            };
            let others = self.routing.ids();
            let best = others.filter(|&other| self.is_present(other)).min_by_key(rank);
            if let Some(best) = best {
                self.on_path_event(now, PathEvent::PrimaryRequested(best));
            }
        }
        // Without another path, data waits where it is, and its timer runs.
        if !self.routing.selection.held {
            self.move_data(now, path);
        }
    }

    /// Moves data from a path that is gone: it is sent again at once, as in FreeBSD
    /// (`sctp_net_immediate_retrans`); data that may not be sent again counts as sent on the path in use, as
    /// in Linux (`sctp_assoc_rm_peer`).
    fn move_data(&mut self, now: Time, path: PathId) {
        let to = self.routing.selection.current;
        if to == path {
            return;
        }
        for index in 0..self.sender.outstanding.chunks.len() {
            if self.sender.outstanding.chunks[index].path != path {
                continue;
            }
            if self.sender.outstanding.chunks[index].state == SentState::InFlight
                && !self.is_given_up(now, index)
            {
                self.mark_lost(now, index, true);
            }
            self.sender.outstanding.change(index, self.sender.outstanding.chunks[index].state, to);
        }
        let own = &mut self.routing.paths[path.index()];
        own.t3 = Time::NEVER;
        own.rtt_probe = None;
        if self.sender.outstanding.on(to) > 0 && self.routing.paths[to.index()].t3.is_never() {
            let rto = self.routing.paths[to.index()].rtt.rto();
            self.routing.paths[to.index()].t3 = self.deadline(now, rto);
        }
    }

    /// Makes a path unusable for every policy and ends its heartbeats.
    pub(in crate::sctp) fn forget_status(&mut self, path: PathId) {
        let status = &mut self.routing.status[path.index()];
        *status = PathStatus { state: PathState::Inactive, confirmed: false, ..PathStatus::default() };
        let heartbeat = &mut self.routing.paths[path.index()].heartbeat;
        // Answers to earlier heartbeats no longer count.
        heartbeat.nonce = heartbeat.nonce.wrapping_add(1);
        heartbeat.timer = Time::NEVER;
        heartbeat.timeout = Time::NEVER;
        heartbeat.unanswered = false;
        heartbeat.idle_since = Time::NEVER;
        self.routing.next_of_paths = None;
    }
}
