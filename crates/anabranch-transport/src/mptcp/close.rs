//! Closing: `DATA_FIN` and the end of the subflows, and giving up at once (RFC 8684 sections 3.3.3 and 3.5).

use super::connection::{Connection, State};
use crate::endpoint::{CloseReason, Command, Endpoint as _, Input};
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::{Options, Reset, Signal};

impl Connection {
    /// Sends `DATA_FIN` on acknowledgements of its own if no data carries it (Linux:
    /// `mptcp_check_send_data_fin`).
    pub(super) fn send_data_fin(&mut self, now: Time) {
        if self.sender.has_sent_fin && !self.sender.fin_has_left && !self.sender.is_done() {
            self.acknowledge_on_all(now);
        }
    }

    /// Closes the subflows once both ends have said everything and know that it has arrived. Subflows that do
    /// not work are reset.
    pub(super) fn end_when_done(&mut self, now: Time) {
        if self.state != State::Established {
            return;
        }
        if !self.sender.is_done() || !self.receiver.has_ended() {
            if self.is_through() && self.close_at.is_never() {
                self.close_at = now + self.parameters.close_timeout;
            }
            return;
        }
        self.state = State::Closing;
        self.stop_timers();
        for subflow in &mut self.subflows {
            let command = match subflow.phase {
                Phase::Closed => continue,
                Phase::Closing | Phase::Open if !subflow.has_failed => Command::Shutdown,
                _ => Command::Abort,
            };
            subflow.tcp.handle_input(now, Input::Command(command));
            subflow.is_dirty = true;
        }
        self.report_closed(CloseReason::Shutdown);
    }

    /// Whether only the acknowledgement of our `DATA_FIN` is missing: a peer that has gone has finished the
    /// connection, as in TCP's LAST-ACK.
    pub(super) fn is_through(&self) -> bool {
        self.receiver.has_ended() && self.sender.has_all_data_acknowledged()
    }

    pub(super) fn stop_timers(&mut self) {
        self.sender.timer = Time::NEVER;
        self.close_at = Time::NEVER;
        for subflow in &mut self.subflows {
            (subflow.confirm_at, subflow.rejoin_at) = (Time::NEVER, Time::NEVER);
            subflow.announce_at = Time::NEVER;
        }
    }

    /// Ends the connection after waiting in vain. A peer that acknowledges all but our `DATA_FIN` may have
    /// finished with it, and `DATA_FIN` is sent on subflows whose own TCP connections are idle and do not
    /// notice that their paths are dead (Linux: `mptcp_should_close`).
    #[cold]
    pub(super) fn on_close_timeout(&mut self, now: Time) {
        if self.is_through() {
            self.fast_close(now, CloseReason::Shutdown);
        } else {
            self.give_up(CloseReason::Lost);
        }
    }

    /// Gives up the connection at once.
    pub(super) fn abort(&mut self, now: Time) {
        self.fast_close(now, CloseReason::Aborted);
    }

    /// Ends the connection by a reset of every subflow, which tells the peer that all of them end.
    #[cold]
    pub(super) fn fast_close(&mut self, now: Time, reason: CloseReason) {
        if self.state == State::Established {
            for subflow in &mut self.subflows {
                let has_peer = matches!(subflow.phase, Phase::Open | Phase::Closing);
                subflow.signal = has_peer.then_some(Signal::FastClose);
            }
        }
        for subflow in &mut self.subflows {
            subflow.tcp.handle_input(now, Input::Command(Command::Abort));
            subflow.is_dirty = true;
        }
        self.end(reason);
    }

    /// Handles the peer's fast close, on an acknowledgement or a reset: every subflow that still exists is
    /// reset (RFC 8684 section 3.5).
    pub(super) fn on_fast_close(&mut self, now: Time) {
        if self.state != State::Established {
            return;
        }
        for subflow in &mut self.subflows {
            subflow.abort(now, Reset::UNSPECIFIED);
        }
        self.end(CloseReason::Aborted);
    }

    /// Ends the connection without telling the peer.
    #[cold]
    pub(super) fn give_up(&mut self, reason: CloseReason) {
        for subflow in &mut self.subflows {
            subflow.tcp.vanish();
            subflow.is_dirty = true;
        }
        self.end(reason);
    }

    fn end(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.sender.record_blocked(self.last_now, false);
        self.stop_timers();
        self.report_closed(reason);
    }

    /// The MPTCP options of a reset.
    #[cold]
    pub(super) fn reset_options(&mut self, path: usize) -> (Options, u32) {
        let is_of_reset = |signal: &Signal| matches!(signal, Signal::Fail { .. } | Signal::FastClose);
        let signal = self.subflows[path].signal.take().filter(is_of_reset);
        let reset = self.subflows[path].reset.take();
        let bytes = signal.map_or(0, |signal| signal.wire_bytes(self.ip)) + reset.map_or(0, |_| Reset::BYTES);
        (Options { signal, reset, ..Options::default() }, bytes)
    }
}
