//! Closing an association in order (RFC 9260 section 9.2).

use super::association::{Association, State};
use super::tsn;
use crate::endpoint::CloseReason;
use crate::ground::PathId;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::Chunk;

/// Timers of the shutdown.
#[derive(Debug)]
pub(super) struct ShutdownTimers {
    /// T2-shutdown: when it expires, SHUTDOWN or SHUTDOWN ACK is sent again.
    pub(super) t2: Time,
    /// T5-shutdown-guard, which limits the time from the first SHUTDOWN to the end.
    pub(super) t5: Time,
    /// The path on which SHUTDOWN or SHUTDOWN ACK was last sent.
    path: PathId,
    /// Whether the application asked before the association was open.
    pub(super) is_wanted: bool,
}

impl Default for ShutdownTimers {
    fn default() -> Self {
        Self { t2: Time::NEVER, t5: Time::NEVER, path: PathId(0), is_wanted: false }
    }
}

impl Association {
    /// Closes the association once everything has been sent; the application has nothing more to send.
    #[cold]
    pub(super) fn begin_shutdown(&mut self, now: Time) {
        self.sender.await_no_message();
        match self.state {
            State::Closed => self.end(now, CloseReason::Shutdown),
            State::CookieWait | State::CookieEchoed => self.shutdown.is_wanted = true,
            State::Established => {
                self.state = State::ShutdownPending;
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
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent;
                // From here on, the sender of SHUTDOWN may limit the time; five times RTO.Max is recommended.
                // As long as data waits, Association.Max.Retrans ends the association.
                let guard: Duration = self.parameters.rto.max * 5;
                self.shutdown.t5 = self.deadline(now, guard);
                self.stop_heartbeats();
                self.send_shutdown(now);
            }
            State::ShutdownReceived => {
                self.state = State::ShutdownAckSent;
                self.stop_heartbeats();
                self.send_shutdown_ack(now);
            }
            _ => {}
        }
    }

    fn send_shutdown(&mut self, now: Time) {
        self.send_shutdown_on(now, self.routing.selection.current);
    }

    fn send_shutdown_on(&mut self, now: Time, path: PathId) {
        let cumulative_tsn = self.tcb.receiver.received.cumulative as u32;
        self.transmit_one(path, Chunk::Shutdown { cumulative_tsn });
        self.start_t2(now, path);
    }

    pub(super) fn send_shutdown_ack(&mut self, now: Time) {
        self.send_shutdown_ack_on(now, self.routing.selection.current);
    }

    fn send_shutdown_ack_on(&mut self, now: Time, path: PathId) {
        self.transmit_one(path, Chunk::ShutdownAck);
        self.start_t2(now, path);
    }

    fn start_t2(&mut self, now: Time, path: PathId) {
        self.shutdown.path = path;
        let rto = self.routing.paths[path.index()].rto.rto;
        self.shutdown.t2 = self.deadline(now, rto);
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
        self.start_t2(now, self.shutdown.path);
    }

    #[cold]
    pub(super) fn on_shutdown(&mut self, now: Time, from: PathId, cumulative_tsn: u32) {
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                self.sender.await_no_message();
            }
            State::ShutdownReceived => {}
            State::ShutdownSent => {
                // Both ends closed at once.
                self.state = State::ShutdownAckSent;
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
            self.tell_paths(now, from, true);
        }
        self.send(now);
    }

    #[cold]
    pub(super) fn on_shutdown_ack(&mut self, now: Time, path: PathId) {
        if matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            self.transmit_one(path, Chunk::ShutdownComplete { tag_reflected: false });
            self.end(now, CloseReason::Shutdown);
        } else if matches!(self.state, State::CookieWait | State::CookieEchoed) {
            // Section 8.5.1 E: the packet is handled as one that belongs to no association.
            let complete = Chunk::ShutdownComplete { tag_reflected: true };
            if self.may_answer(self.local.headers_bytes + complete.wire_size()) {
                self.transmit_with_tag(path, self.local.numbers.tag, complete);
            }
        }
    }

    #[cold]
    pub(super) fn on_shutdown_complete(&mut self, now: Time) {
        if self.state == State::ShutdownAckSent {
            self.end(now, CloseReason::Shutdown);
        }
    }

    #[cold]
    pub(super) fn on_t2(&mut self, now: Time) {
        self.shutdown.t2 = Time::NEVER;
        self.routing.errors_in_a_row += 1;
        if self.parameters.association_max_retrans.is_some_and(|max| self.routing.errors_in_a_row > max) {
            self.give_up(now);
            return;
        }
        let path = self.shutdown.path;
        self.routing.paths[path.index()].rto.back_off(&self.parameters.rto);
        // From now on, no heartbeat can find out whether the path is the reason. FreeBSD
        // (`sctp_shutdown_timer`) and Linux (`sctp_cmd_setup_t2`) try another path.
        let path = self.next_present(path);
        match self.state {
            State::ShutdownSent => self.send_shutdown_on(now, path),
            State::ShutdownAckSent => self.send_shutdown_ack_on(now, path),
            _ => {}
        }
    }

    #[cold]
    pub(super) fn on_t5(&mut self, now: Time) {
        self.shutdown.t5 = Time::NEVER;
        let chunk = Chunk::Abort(crate::wire::sctp::chunk::Abort { tag_reflected: false, cause: None });
        self.transmit_one(self.routing.selection.current, chunk);
        self.end(now, CloseReason::Lost);
    }
}
