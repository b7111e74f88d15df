//! Closing (RFC 9293 sections 3.6 and 3.10).

use super::connection::{Connection, State};
use crate::endpoint::{CloseReason, Event, Output};
use crate::time::{Duration, Time};
use crate::wire::tcp::{Flags, Segment};

/// The length of TIME-WAIT (Linux: `TCP_TIMEWAIT_LEN`); RFC 9293 says two maximum segment lifetimes, four
/// minutes.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// The least time for which a closed socket waits for the peer's FIN (Linux: `net.ipv4.tcp_fin_timeout`).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);

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
        if self.receiver.unread == 0 {
            self.report_finished();
        }
        if self.parameters.procedures.delays_ack_of_fin && self.state == State::Established {
            self.delayed_ack.await_answer_to_fin();
        } else {
            self.delayed_ack.acknowledge_now();
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
    pub(super) fn report_finished(&mut self) {
        self.outputs.push_back(Output::Event(Event::PeerFinished));
    }

    /// The peer has acknowledged our FIN.
    #[cold]
    pub(super) fn on_fin_acknowledged(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.limit_fin_wait_2(now);
            }
            State::Closing => self.start_time_wait(now),
            State::LastAck => self.end(CloseReason::Shutdown),
            _ => {}
        }
    }

    /// Begins to count the time for which an end in FIN-WAIT-2 whose application has closed its socket waits
    /// for the peer's FIN (Linux: `tcp_fin_time`).
    pub(super) fn limit_fin_wait_2(&mut self, now: Time) {
        let is_limited = self.parameters.procedures.leaves_fin_wait_2 && self.receiver.is_closed;
        if is_limited && self.state == State::FinWait2 {
            let longest = Duration::from_nanos(self.rtt.rto().as_nanos() / 2 * 7);
            self.time_wait = now + FIN_TIMEOUT.max(longest);
        }
    }

    /// A segment arrives in TIME-WAIT (RFC 9293 section 3.10.7.4; Linux: `tcp_timewait_state_process`). What
    /// is not a bare acknowledgement at RCV.NXT is acknowledged again: "The only thing that can arrive in
    /// this state is a retransmission of the remote FIN." A SYN that may open another connection does not
    /// come here ([`Connection::gives_way_to`]).
    #[cold]
    pub(super) fn on_segment_time_wait(&mut self, now: Time, segment: &Segment) {
        let (flags, next) = (segment.flags, self.receiver.next);
        let Some(start) = self.peer_numbers.number(segment.sequence, next) else { return };
        let is_old = self.age(segment) > 0;
        if flags.has(Flags::RST) {
            if start == next && !is_old {
                self.end(CloseReason::Shutdown);
            } else if !self.parameters.procedures.has_small_sockets {
                self.challenge_reset(now, start);
            }
            return;
        }
        if start == next && segment.sequence_length() == 0 && !is_old {
            self.record_timestamp(segment, start);
            return self.start_time_wait(now);
        }
        // Linux: a SYN without acknowledgement may be a new one with a number below, which is not to make the
        // state last.
        if is_old || flags.has(Flags::ACK) {
            self.start_time_wait(now);
        }
        self.stats.duplicates_received += u64::from(segment.payload.length > 0 && start < next);
        // Linux, tcp_v4_timewait_ack: without SACK.
        self.receiver.duplicate = None;
        if self.may_answer_again(now, segment) {
            self.send_ack(now);
        }
    }

    /// Begins TIME-WAIT: both directions are closed, and a FIN that comes again is acknowledged again for
    /// some time.
    pub(super) fn start_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timer.stop();
        self.time_wait = now + TIME_WAIT;
        self.report_closed(CloseReason::Shutdown);
    }
}
