//! The interface of a connection that is a subflow of Multipath TCP (RFC 8684): the stream is written one
//! mapping at a time, windows and closing are handled by the connection above, and the congestion windows of
//! all subflows belong to one group.

use super::config::Nagle;
use super::connection::{Connection, State};
use super::parameters::Parameters;
use super::send_queue::SendQueue;
use crate::cc::coupled::{Group, PathSetup};
use crate::cc::{CongestionControl as _, CongestionEvent, CongestionKind, Controller, Setup};
use crate::endpoint::CloseReason;
use crate::time::{Duration, Time};
use crate::timer::Clock;
use crate::wire::tcp::{Flags, Segment, TIMESTAMPS_BYTES};

/// The least slow-start threshold in segments (RFC 5681 equation 4).
const SSTHRESH_FLOOR: u32 = 2;

/// The phase of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no connection, or it is over.
    #[default]
    Closed,
    /// The SYNs are being exchanged.
    Opening,
    /// Data may be sent.
    Open,
    /// One of the ends has sent FIN.
    Closing,
}

/// Bytes that the options of the MPTCP connection above take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionSpace {
    /// In a segment with data, in bytes.
    pub(crate) data: u32,
    /// In a segment without data, in bytes.
    pub(crate) ack: u32,
}

/// Which receive window limits what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlowControl {
    /// The window that the peer's end of this TCP connection offers.
    #[default]
    Own,
    /// The window is that of the MPTCP connection above (RFC 8684 section 3.3.5): nothing here waits for a
    /// window, however small the field is.
    Above,
}

impl Parameters {
    /// The settings of the subflow on this path: what is written leaves at once, cut into segments as it was
    /// written, and the receive buffer is the connection's.
    pub(crate) fn of_subflow(&self, path: u8) -> Self {
        Self { nagle: Nagle::Off, receive_autotuning: false, path, ..self.clone() }
    }

    pub(crate) const fn nagle(&self) -> Nagle {
        self.nagle
    }

    pub(crate) const fn send_buffer(&self) -> u64 {
        self.send_buffer
    }

    pub(crate) const fn receive_buffer(&self) -> u64 {
        self.receive_buffer
    }

    /// The clock of a host, before it is started.
    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) const fn rto_max(&self) -> Duration {
        self.rto_max
    }
}

impl Connection {
    /// Records whether data waits in the connection above that the peer's window has room for.
    pub(crate) const fn note_unsent_above(&mut self, waits: bool) {
        self.has_unsent_above = waits;
    }

    /// Makes this connection a subflow: in each connection its congestion control becomes a member of the
    /// group, its segments leave room for options, its window is that of the connection above, and its data
    /// waits in this queue, or if there is none, above.
    pub(crate) fn become_subflow(&mut self, group: Group, space: OptionSpace, queue: Option<SendQueue>) {
        self.group = Some(group);
        self.send_queue = queue;
        self.option_space = space;
        self.flow_control = FlowControl::Above;
        // DATA_FIN ends a direction of the connection above, but a subflow closes as a whole.
        self.half_close = false;
    }

    /// Whether a connection above limits and orders what is sent.
    pub(super) fn is_subflow(&self) -> bool {
        self.flow_control == FlowControl::Above
    }

    /// Makes this a TCP connection of its own from now on, because the peer does not know MPTCP. The
    /// application has not read the last `unread` bytes.
    pub(crate) fn fall_back(&mut self, half_close: bool, unread: u64) {
        self.option_space = OptionSpace::default();
        self.flow_control = FlowControl::Own;
        self.send_queue = None;
        self.half_close = half_close;
        self.receiver.unread += unread;
    }

    /// Bytes of this end's stream that were written, and of the peer's stream that have arrived in order.
    pub(crate) fn positions(&self) -> [u64; 2] {
        let fin = u64::from(self.receiver.has_ended());
        [self.sender.written, self.receiver.next.saturating_sub(1 + fin)]
    }

    /// The position of the first byte that has not been sent.
    pub(crate) const fn unsent_position(&self) -> u64 {
        self.sender.next.saturating_sub(1)
    }

    /// Whether a segment acknowledges data, and not only our SYN.
    pub(crate) fn acknowledges_data(&self, segment: &Segment) -> bool {
        let number = self.own_numbers.number(segment.acknowledgement, self.sender.unacknowledged);
        segment.flags.has(Flags::ACK) && number.is_some_and(|number| number > 1)
    }

    /// Sets the peer's port, if it is another one than the settings have.
    pub(crate) const fn set_peer_port(&mut self, port: u16) {
        self.ports[1] = port;
    }

    /// The window that a segment other than a SYN offers to this end, in bytes.
    pub(super) fn offered_window(&self, segment: &Segment) -> u64 {
        let field = match self.flow_control {
            FlowControl::Above => u16::MAX,
            FlowControl::Own => segment.window,
        };
        u64::from(field) << self.sender.window_scale
    }

    /// Builds the congestion control of a connection whose SYNs have been acknowledged.
    pub(super) fn build_control(&mut self, setup: Setup) {
        let own = self.parameters.cc.build(&setup);
        let Some(group) = &self.group else {
            self.cc = own;
            return;
        };
        // The member of the last connection leaves before that of this one joins.
        self.cc = own;
        let setup = PathSetup {
            own: self.parameters.cc.clone(),
            setup,
            initial_ssthresh: u32::MAX,
            ssthresh_floor: SSTHRESH_FLOOR,
            holds_ssthresh: true,
        };
        self.cc = Controller::Coupled(group.join(self.path, &setup));
    }

    /// Ends the subflow's membership in its group: its congestion window no longer counts there.
    pub(crate) fn leave_group(&mut self) {
        if self.group.is_some() && !self.has_own_cc {
            let initial_cwnd = self.parameters.initial_cwnd(self.mss);
            let setup = self.parameters.control_setup(self.mss, initial_cwnd, 0, self.mtu - self.mss);
            self.cc = self.parameters.cc.build(&setup);
        }
    }

    pub(crate) const fn phase(&self) -> Phase {
        match self.state {
            State::Closed | State::TimeWait => Phase::Closed,
            State::SynSent | State::SynReceived => Phase::Opening,
            State::Established | State::OpenedFast => Phase::Open,
            State::CloseWait | State::Closing | State::FinWait1 | State::FinWait2 | State::LastAck => {
                Phase::Closing
            }
        }
    }

    /// Whether the peer has acknowledged our FIN, so that at most its own is missing.
    pub(crate) const fn has_sent_all(&self) -> bool {
        matches!(self.state, State::FinWait2 | State::TimeWait)
    }

    /// Whether only the peer has sent FIN, and this end may go on sending.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.state == State::CloseWait && !self.sender.is_finished
    }

    /// The most bytes that may be appended now; 0 as long as no segment may leave.
    pub(crate) fn room(&mut self, now: Time) -> u32 {
        let sender = &self.sender;
        if self.state != State::Established || sender.is_finished {
            return 0;
        }
        if let Some(memory) = self.send_memory() {
            return if self.queued_memory() < memory { self.segment_limit() } else { 0 };
        }
        if sender.has_unsent() {
            return 0;
        }
        // The window is the connection's, or that of a model that sends only whole segments.
        let limit = self.segment_limit();
        let has_room = sender.window_end() >= sender.next + u64::from(limit);
        if has_room && self.may_add_to_flight(self.cwnd()) && !self.is_paced(now) { limit } else { 0 }
    }

    /// Whether the pace holds segments back, so that there is room later although nothing happens.
    pub(crate) fn is_held_back(&self, now: Time) -> bool {
        self.waits_for_pace(now)
    }

    /// Appends `length` bytes to the stream, at most [`Connection::room`], which leave as one segment, at
    /// once or when what waits before them has left. Returns the position of the first byte.
    pub(crate) fn append(&mut self, now: Time, length: u32) -> u64 {
        let position = self.sender.written;
        self.sender.written += u64::from(length);
        if self.send_queue.is_some() {
            self.sender.marks.end_piece(self.sender.written + 1);
        }
        self.restart_after_idle(now);
        self.send(now);
        position
    }

    /// The position up to which everything has been acknowledged.
    pub(crate) const fn acknowledged_position(&self) -> u64 {
        self.sender.unacknowledged.saturating_sub(1)
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.board.is_empty() && !self.sender.has_unsent()
    }

    /// Notes that the application has had nothing to send.
    pub(crate) fn record_app_limited(&mut self) {
        if self.state.is_synchronised() {
            self.check_app_limited();
        }
    }

    /// Sends an acknowledgement now, whether or not one is due.
    pub(crate) fn acknowledge_now(&mut self, now: Time) {
        if self.state.is_synchronised() {
            self.send_ack(now);
        }
    }

    /// Sends an acknowledgement that the peer must answer.
    pub(crate) fn probe(&mut self, now: Time) {
        self.send_window_probe(now);
    }

    /// Ends the connection without telling the peer.
    pub(crate) fn vanish(&mut self) {
        self.receiver.is_paused = false;
        self.end(CloseReason::Aborted);
    }

    /// Reduces the window as after a congestion mark, although nothing was lost.
    pub(crate) fn penalise(&mut self, now: Time) {
        let outstanding = self.in_flight_bytes();
        self.cc.on_congestion(&CongestionEvent::new(now, CongestionKind::Ecn, outstanding));
    }

    /// Whether a segment belongs to this connection, and not to an earlier one.
    pub(crate) fn owns_segment(&self, segment: &Segment) -> bool {
        self.state != State::Closed && [segment.destination_port, segment.source_port] == self.ports
    }

    /// Whether a segment without data lies before what has been acknowledged (Linux: `tcp_sequence`).
    pub(crate) fn lies_before(&self, segment: &Segment) -> bool {
        let start = self.peer_numbers.number(segment.sequence, self.receiver.next);
        let end = start.map(|start| start + u64::from(segment.sequence_length()));
        end.is_none_or(|end| end < self.delayed_ack.acknowledged)
    }

    /// Whether a segment without data acknowledges nothing new.
    pub(crate) fn is_duplicate_ack(&self, segment: &Segment) -> bool {
        segment.sequence_length() == 0
            && segment.acknowledgement == self.own_numbers.wire(self.sender.unacknowledged)
    }

    /// When the last acknowledgement of what was sent arrived, if one has (Linux: `rcv_tstamp`).
    pub(crate) const fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// Time until the retransmission timer was meant to expire, whichever of its purposes it serves, if it
    /// runs (Linux: `icsk_timeout`, which the timer wheel does not round).
    pub(crate) fn time_to_timer(&self, now: Time) -> Option<Duration> {
        self.timer.tick().map(|tick| self.parameters.clock.time_to(tick, now))
    }

    /// [`Self::time_to_timer`] as it was when the acknowledgement that came now had been processed, and
    /// nothing had been sent in answer to it yet.
    pub(crate) fn time_to_timer_of_ack(&self, now: Time) -> Option<Duration> {
        self.timer.tick_of_ack().map(|tick| self.parameters.clock.time_to(tick, now))
    }

    /// Timeouts in a row.
    pub(crate) const fn timeouts(&self) -> u32 {
        self.timer.timeouts
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// The variation of the round-trip time, zero before the first sample.
    pub(crate) fn rttvar(&self) -> Duration {
        self.rtt.rttvar()
    }

    /// The slow-start threshold in bytes.
    pub(crate) fn ssthresh_bytes(&self) -> u32 {
        self.cc.state().ssthresh
    }

    pub(crate) const fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// The congestion window in bytes.
    pub(crate) fn window_bytes(&self) -> u32 {
        self.cwnd().saturating_mul(self.mss)
    }

    /// Bytes on their way.
    pub(crate) fn outstanding_bytes(&self) -> u32 {
        self.in_flight_bytes()
    }

    /// Whether losses are being recovered from.
    pub(crate) fn is_recovering(&self) -> bool {
        !self.recovery.is_calm()
    }

    /// Whether the timer has expired since something new was last acknowledged.
    pub(crate) const fn has_timed_out(&self) -> bool {
        self.rtt.back_offs() > 0
    }

    /// The shift count of the windows that this end announces.
    pub(crate) const fn own_scale(&self) -> u8 {
        self.receiver.window_scale
    }

    /// The shift count of the windows that the peer announces.
    pub(crate) const fn peer_scale(&self) -> u8 {
        self.sender.window_scale
    }

    /// Bytes of data in a full segment.
    pub(crate) const fn full_segment(&self) -> u32 {
        self.mss
    }

    /// Bytes of options in each segment.
    pub(super) const fn option_bytes(&self, timestamps: bool) -> u32 {
        let own = if timestamps { TIMESTAMPS_BYTES } else { 0 };
        own + self.option_space.data
    }
}
