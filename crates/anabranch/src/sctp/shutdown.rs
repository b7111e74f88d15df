//! Closing an association in order (RFC 9260 section 9.2).

use super::association::{Association, State};
use super::chunk::Chunk;
use super::tsn;
use crate::endpoint::CloseReason;
use crate::packet::PathId;
use crate::time::{Duration, Time};

/// Timers of the shutdown.
#[derive(Debug)]
pub(super) struct ShutdownTimers {
    /// T2-shutdown: SHUTDOWN or SHUTDOWN ACK is sent again.
    pub(super) t2: Time,
    /// T5-shutdown-guard: the whole procedure has a limit.
    pub(super) t5: Time,
    /// The application asked before the association was open.
    pub(super) is_wanted: bool,
}

impl Default for ShutdownTimers {
    fn default() -> Self {
        Self { t2: Time::NEVER, t5: Time::NEVER, is_wanted: false }
    }
}

impl Association {
    /// The application has nothing more to send.
    #[cold]
    pub(super) fn begin_shutdown(&mut self, now: Time) {
        match self.state {
            State::Closed => self.end(now, CloseReason::Shutdown),
            State::CookieWait | State::CookieEchoed => self.shutdown.is_wanted = true,
            State::Established => {
                self.state = State::ShutdownPending;
                // Section 9.2: five times RTO.Max is the recommended guard.
                let guard: Duration = self.parameters.rto.max * 5;
                self.shutdown.t5 = self.deadline(now, guard);
                self.continue_shutdown(now);
            }
            _ => {}
        }
    }

    /// The next step once everything has been acknowledged.
    pub(super) fn continue_shutdown(&mut self, now: Time) {
        if !self.queue.is_empty() || !self.outstanding.chunks.is_empty() {
            return;
        }
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent;
                self.send_shutdown(now);
            }
            State::ShutdownReceived => {
                self.state = State::ShutdownAckSent;
                self.send_shutdown_ack(now);
            }
            _ => {}
        }
    }

    pub(super) fn send_shutdown(&mut self, now: Time) {
        let cumulative_tsn = self.received.cumulative as u32;
        self.transmit_one(self.selection.current, Chunk::Shutdown { cumulative_tsn });
        self.start_t2(now);
    }

    pub(super) fn send_shutdown_ack(&mut self, now: Time) {
        self.transmit_one(self.selection.current, Chunk::ShutdownAck);
        self.start_t2(now);
    }

    fn start_t2(&mut self, now: Time) {
        let rto = self.paths[self.selection.current.index()].rto.rto;
        self.shutdown.t2 = self.deadline(now, rto);
    }

    #[cold]
    pub(super) fn on_shutdown(&mut self, now: Time, from: PathId, cumulative_tsn: u32) {
        match self.state {
            State::Established | State::ShutdownPending => self.state = State::ShutdownReceived,
            State::ShutdownReceived => {}
            State::ShutdownSent => {
                // Both ends closed at once.
                self.state = State::ShutdownAckSent;
                self.send_shutdown_ack(now);
                return;
            }
            _ => return,
        }
        // Its cumulative TSN acknowledges as a SACK's does, without touching gap blocks.
        let known = self.outstanding.cumulative_tsn();
        if tsn::before(known, cumulative_tsn) && tsn::before(cumulative_tsn, self.outstanding.next_tsn()) {
            self.acknowledge_cumulatively(cumulative_tsn);
            self.settle_paths(now, from, true);
        }
        self.send(now);
    }

    #[cold]
    pub(super) fn on_shutdown_ack(&mut self, now: Time, path: PathId) {
        if matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            self.transmit_one(path, Chunk::ShutdownComplete { tag_reflected: false });
            self.end(now, CloseReason::Shutdown);
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
        self.errors_in_a_row += 1;
        if self.parameters.association_max_retrans.is_some_and(|max| self.errors_in_a_row > max) {
            self.end(now, CloseReason::Lost);
            return;
        }
        let path = self.selection.current;
        self.paths[path.index()].rto.back_off(&self.parameters.rto);
        match self.state {
            State::ShutdownSent => self.send_shutdown(now),
            State::ShutdownAckSent => self.send_shutdown_ack(now),
            _ => {}
        }
    }

    #[cold]
    pub(super) fn on_t5(&mut self, now: Time) {
        self.shutdown.t5 = Time::NEVER;
        let chunk = Chunk::Abort(super::chunk::Abort { tag_reflected: false, cause: None });
        self.transmit_one(self.selection.current, chunk);
        self.end(now, CloseReason::Lost);
    }
}
