//! Closing (RFC 9293 sections 3.6 and 3.10).

use super::connection::{Connection, State};
use crate::endpoint::{CloseReason, Event, Output};
use crate::time::{Duration, Time};
use crate::wire::tcp::Flags;

/// The length of TIME-WAIT (Linux: `TCP_TIMEWAIT_LEN`); RFC 9293 says two maximum segment lifetimes, four
/// minutes.
const TIME_WAIT: Duration = Duration::from_secs(60);

impl Connection {
    /// Handles the end of the application's data: FIN follows what it has written.
    pub(super) fn shut_down(&mut self, now: Time) {
        self.sender.is_finished = true;
        self.send(now);
    }

    /// Gives up the connection at once.
    #[cold]
    pub(super) fn abort(&mut self, now: Time) {
        if !matches!(self.state, State::Closed | State::SynSent | State::TimeWait) {
            let number = self.sender.next;
            let segment = self.segment(now, number, Flags::RST.with(Flags::ACK));
            self.transmit_segment(segment);
        }
        self.end(CloseReason::Aborted);
    }

    /// Handles the peer's FIN once everything before it has arrived: this end closes as well, after sending
    /// its data, unless half-close is on.
    #[cold]
    pub(super) fn on_fin(&mut self, now: Time) {
        self.delayed_ack.acknowledge_now();
        if self.receiver.unread == 0 {
            self.tell_finished();
        }
        match self.state {
            State::Established => {
                self.state = State::CloseWait;
                self.sender.is_finished |= !self.half_close;
            }
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.start_time_wait(now),
            _ => {}
        }
    }

    /// Tells the application that it has read everything that the peer had to say.
    pub(super) fn tell_finished(&mut self) {
        self.outputs.push_back(Output::Event(Event::PeerFinished));
    }

    /// The peer has acknowledged our FIN.
    #[cold]
    pub(super) fn on_fin_acknowledged(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.start_time_wait(now),
            State::LastAck => self.end(CloseReason::Shutdown),
            _ => {}
        }
    }

    /// Begins TIME-WAIT: both directions are closed, and a FIN that comes again is acknowledged again for
    /// some time.
    pub(super) fn start_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timer.stop();
        self.time_wait = now + TIME_WAIT;
        self.tell_closed(CloseReason::Shutdown);
    }
}
