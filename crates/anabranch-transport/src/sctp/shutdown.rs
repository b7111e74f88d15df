//! Closing an association in order (RFC 9260 section 9.2).

use super::association::Association;
use super::state::{Closing, State};
use super::tsn;
use crate::endpoint::CloseReason;
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::Chunk;

impl Association {
    /// Closes the association once everything has been sent; the application has nothing more to send.
    #[cold]
    pub(super) fn begin_shutdown(&mut self, now: Time) {
        self.sender.await_no_message();
        match &mut self.state {
            State::Closed(_) => self.end(now, CloseReason::Shutdown),
            State::CookieWait(opening) | State::CookieEchoed(opening, ..) => {
                opening.intent.shuts_down = true;
            }
            State::Established(_) => {
                self.state.step(State::ShutdownPending);
                self.continue_shutdown(now);
            }
            _ => {}
        }
    }

    /// Takes the next step of closing once everything has been acknowledged.
    pub(super) fn continue_shutdown(&mut self, now: Time) {
        if !self.sender.is_done() {
            return;
        }
        let path = self.routing.selection.current;
        match self.state {
            State::ShutdownPending(_) => {
                // From here on, the sender of SHUTDOWN may limit the time; five times RTO.Max is recommended.
                // As long as data waits, Association.Max.Retrans ends the association.
                let guard: Duration = self.parameters.rto.max * 5;
                let t5 = self.deadline(now, guard);
                self.state.step(|tcb| State::ShutdownSent(tcb, Closing { t5, ..Closing::new(path) }));
                self.routing.stop_heartbeats();
                self.send_shutdown(now);
            }
            State::ShutdownReceived(_) => {
                self.state.step(|tcb| State::ShutdownAckSent(tcb, Closing::new(path)));
                self.routing.stop_heartbeats();
                self.send_shutdown_ack(now);
            }
            _ => {}
        }
    }

    fn send_shutdown(&mut self, now: Time) {
        self.send_shutdown_on(now, self.routing.selection.current);
    }

    fn send_shutdown_on(&mut self, now: Time, path: PathId) {
        if let Some(receiver) = self.state.receiver() {
            let cumulative_tsn = receiver.received.cumulative as u32;
            self.transmit_one(path, Chunk::Shutdown { cumulative_tsn });
            self.start_t2(now, path);
        }
    }

    pub(super) fn send_shutdown_ack(&mut self, now: Time) {
        self.send_shutdown_ack_on(now, self.routing.selection.current);
    }

    fn send_shutdown_ack_on(&mut self, now: Time, path: PathId) {
        self.transmit_one(path, Chunk::ShutdownAck);
        self.start_t2(now, path);
    }

    fn start_t2(&mut self, now: Time, path: PathId) {
        let t2 = self.deadline(now, self.routing.paths[path.index()].rtt.rto());
        if let Some(closing) = self.state.closing_mut() {
            (closing.path, closing.t2) = (path, t2);
        }
    }

    /// A packet with data arrived in SHUTDOWN-SENT: it is answered with SHUTDOWN at once. The peer is alive,
    /// so the retransmissions of SHUTDOWN are counted anew.
    #[cold]
    pub(super) fn answer_data_with_shutdown(&mut self, now: Time) {
        self.routing.errors_in_a_row = 0;
        self.send_shutdown(now);
    }

    /// In SHUTDOWN-SENT, any other packet of the peer gives it more time as well.
    #[cold]
    pub(super) fn extend_t2(&mut self, now: Time) {
        self.routing.errors_in_a_row = 0;
        if let Some(&Closing { path, .. }) = self.state.closing() {
            self.start_t2(now, path);
        }
    }

    #[cold]
    pub(super) fn on_shutdown(&mut self, now: Time, from: PathId, cumulative_tsn: u32) {
        match self.state {
            State::Established(_) | State::ShutdownPending(_) => {
                self.state.step(State::ShutdownReceived);
                self.sender.await_no_message();
            }
            State::ShutdownReceived(_) => {}
            State::ShutdownSent(_, Closing { t2, t5, path }) => {
                // Both ends closed at once.
                self.state.step(|tcb| State::ShutdownAckSent(tcb, Closing { t2, t5, path }));
                self.send_shutdown_ack(now);
                return;
            }
            _ => return,
        }
        // The cumulative TSN of a SHUTDOWN acknowledges as that of a SACK does, without changing gap blocks.
        let known = self.sender.outstanding.cumulative_tsn();
        if tsn::before(known, cumulative_tsn)
            && tsn::before(cumulative_tsn, self.sender.outstanding.next_tsn())
        {
            self.acknowledge_cumulatively(cumulative_tsn);
            self.restart_all_timers(true);
            self.apply_to_paths(now, from, true);
        }
        self.send(now);
    }

    #[cold]
    pub(super) fn on_shutdown_ack(&mut self, now: Time, path: PathId) {
        if self.state.closing().is_some() {
            self.transmit_one(path, Chunk::ShutdownComplete { tag_reflected: false });
            self.end(now, CloseReason::Shutdown);
        } else if self.state.is_opening() {
            // Section 8.5.1 E: the packet is handled as one that belongs to no association.
            let complete = Chunk::ShutdownComplete { tag_reflected: true };
            if self.may_answer(self.local.headers_bytes + complete.wire_size()) {
                self.transmit_with_tag(path, self.local.numbers.tag, complete);
            }
        }
    }

    #[cold]
    pub(super) fn on_shutdown_complete(&mut self, now: Time) {
        if matches!(self.state, State::ShutdownAckSent(..)) {
            self.end(now, CloseReason::Shutdown);
        }
    }

    #[cold]
    pub(super) fn on_t2(&mut self, now: Time) {
        let Some(closing) = self.state.closing_mut() else { return };
        closing.t2 = Time::NEVER;
        let path = closing.path;
        self.routing.errors_in_a_row += 1;
        if self.parameters.association_max_retrans.is_some_and(|max| self.routing.errors_in_a_row > max) {
            self.give_up(now);
            return;
        }
        self.routing.paths[path.index()].rtt.back_off();
        // From now on, no heartbeat can find out whether the path is the reason. FreeBSD
        // (`sctp_shutdown_timer`) and Linux (`sctp_cmd_setup_t2`) try another path.
        let path = self.next_present(path);
        match self.state {
            State::ShutdownSent(..) => self.send_shutdown_on(now, path),
            State::ShutdownAckSent(..) => self.send_shutdown_ack_on(now, path),
            _ => {}
        }
    }

    #[cold]
    pub(super) fn on_t5(&mut self, now: Time) {
        let chunk = Chunk::Abort(crate::wire::sctp::chunk::Abort { tag_reflected: false, cause: None });
        self.transmit_one(self.routing.selection.current, chunk);
        self.end(now, CloseReason::Lost);
    }
}
