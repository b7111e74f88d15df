//! A connection with the state of its socket: its flows, received data that is to be read, and what the
//! application has been told.

use anabranch_transport::endpoint::{CloseReason, Command, Event, Input, Message, Output};
use anabranch_transport::flow::{Ecn, PathId, Payload};
use anabranch_transport::observed::LimitedBy;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::mptcp::Options;
use anabranch_transport::wire::tcp::Segment;
use anabranch_transport::wire::{self, Body, Packet};

use super::end::End;
use super::events::{ALL, READABLE};
use super::flow::{Flow, Sent};
use super::mptcp::{self, Told};
use super::settings::{Endpoints, Settings};
use super::writing::{Limits, Progress};

/// How long something held the sender back (Linux: `tcp_chrono_start`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chronometer {
    pub(super) busy: Duration,
    pub(super) receive_window: Duration,
    pub(super) send_buffer: Duration,
}

/// A connection.
#[expect(clippy::struct_excessive_bools, reason = "what has happened, each independent of the others")]
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) end: End,
    timeout: Time,
    /// When the peer is told of further addresses.
    pub(super) announce_at: Time,
    /// The flows by path; TCP has one.
    pub(super) flows: Vec<Flow>,
    /// The flow on which the last packet came in.
    pub(super) current: usize,
    /// The largest packet in bytes, on every path.
    pub(super) mtu: u32,
    /// The system's settings for MPTCP.
    pub(super) endpoints: Endpoints,
    /// The listening socket to which it came, until it is accepted.
    pub(super) waits_at: Option<i64>,
    pub(super) is_connected: bool,
    /// Whether the connection was in SYN-SENT before the last input.
    was_opening: bool,
    /// Whether the application may write although the connection is not open.
    opens_fast: bool,
    /// How many bytes a waiting call has written with which the connection was opened.
    pub(super) waiting_open: Option<u64>,
    pub(super) closed: Option<CloseReason>,
    /// An error that has not been reported by a call yet.
    pub(super) error: Option<&'static str>,
    /// Whether the application has closed the socket.
    pub(super) is_orphan: bool,
    pub(super) has_shut_down: bool,
    pub(super) has_shut_reading: bool,
    /// Bytes that the application has handed over, and how many of the last ones the endpoint refused.
    pub(super) written: u64,
    pub(super) refused: u32,
    /// Bytes that the application can read without the endpoint being asked.
    pub(super) readable: u64,
    /// How many bytes a waiting call has written so far.
    pub(super) waiting_write: Option<u64>,
    pub(super) limits: Limits,
    /// Whether a writer or a poll has found no room since the last one was woken (`SOCK_NOSPACE`).
    pub(super) lacks_space: bool,
    /// The events for which the socket has woken those who watch it.
    pub(super) woken: i64,
    pub(super) progress: Progress,
    pub(super) chronometer: Chronometer,
    /// The names that scripts of MPTCP have used.
    pub(super) told: Told,
    last_data_at: Time,
    last_now: Time,
}

impl Connection {
    fn new(end: End, flow: Flow, mtu: u32, settings: &Settings) -> Self {
        Self {
            end,
            timeout: Time::NEVER,
            announce_at: Time::NEVER,
            flows: vec![flow],
            current: 0,
            mtu: settings.mtu(mtu),
            endpoints: settings.endpoints,
            waits_at: None,
            is_connected: false,
            was_opening: false,
            opens_fast: false,
            waiting_open: None,
            closed: None,
            error: None,
            is_orphan: false,
            has_shut_down: false,
            has_shut_reading: false,
            written: 0,
            refused: 0,
            readable: 0,
            waiting_write: None,
            limits: settings.limits(),
            lacks_space: false,
            woken: 0,
            progress: Progress::default(),
            chronometer: Chronometer::default(),
            told: Told::default(),
            last_data_at: Time::ZERO,
            last_now: Time::ZERO,
        }
    }

    /// A connection that this end opens.
    pub(super) fn open(now: Time, end: End, ports: [u16; 2], mtu: u32, settings: &Settings) -> Self {
        let mut connection = Self::new(end, Flow::new([None, None], ports), mtu, settings);
        connection.begin(now, settings);
        connection.command(now, Command::Connect);
        connection
    }

    /// A connection that a listener has made from a SYN.
    pub(super) fn accepted(
        now: Time,
        end: End,
        flow: Flow,
        mtu: u32,
        settings: &Settings,
        listener: i64,
    ) -> Self {
        let mut connection = Self::new(end, flow, mtu, settings);
        connection.waits_at = Some(listener);
        connection.begin(now, settings);
        connection
    }

    fn begin(&mut self, now: Time, settings: &Settings) {
        self.end.set_half_close(true);
        self.command(now, Command::PauseReading);
        settings.apply(&mut self.end, now);
        self.drain(now);
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.timeout.min(self.announce_at)
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.announce_at <= now {
            self.announce_at = Time::NEVER;
            self.announce(now);
        }
        if self.timeout <= now {
            self.input(now, Input::Timeout);
        }
    }

    pub(super) fn command(&mut self, now: Time, command: Command) {
        self.input(now, Input::Command(command));
    }

    /// Gives the endpoint a segment that arrives on this flow.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        flow: usize,
        segment: Segment,
        ecn: Ecn,
        mptcp: Option<Options>,
    ) {
        if segment.payload.length > 0 {
            self.last_data_at = now;
        }
        let size = 20 + segment.wire_size();
        let path = PathId(flow as u8);
        let packet = Packet { path, ecn, size, body: mptcp::body(segment, mptcp) };
        let (unread, had_finished) = (self.available(), self.end.info().peer_has_finished);
        self.input(now, Input::Packet(Box::new(packet)));
        if self.available() > unread {
            self.woken |= READABLE;
        }
        if self.end.info().peer_has_finished != had_finished {
            self.woken |= ALL;
        }
        self.check_space();
    }

    fn input(&mut self, now: Time, input: Input) {
        self.clock(now);
        self.end.handle_input(now, input);
        if self.opens_fast && !matches!(self.end.info().state, "CLOSED" | "SYN-RECEIVED" | "SYN-SENT") {
            self.opens_fast = false;
            self.record_connected();
        }
        self.drain(now);
    }

    /// Carries out what the endpoint wants done.
    pub(super) fn drain(&mut self, now: Time) {
        loop {
            match self.end.poll_output(now) {
                Output::Event(event) => self.on_event(event),
                Output::Timeout(at) => {
                    self.timeout = at;
                    self.was_opening = !self.is_connected && self.end.info().state == "SYN-SENT";
                    return;
                }
                Output::Transmit(packet) => {
                    let Packet { path, ecn, body, .. } = *packet;
                    let flow = &mut self.flows[path.index()];
                    match body {
                        Body::Mptcp(wire::mptcp::Segment { tcp: segment, options, option_bytes }) => {
                            let mptcp = Some((options, option_bytes));
                            flow.keep(Sent { at: now, segment, ecn, mptcp });
                        }
                        Body::Tcp(segment) => flow.keep(Sent { at: now, segment, ecn, mptcp: None }),
                        _ => {}
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Closed(reason) => {
                if self.closed.is_none() {
                    self.error = match reason {
                        // Linux, tcp_reset: by the states SYN-SENT and CLOSE-WAIT.
                        CloseReason::Aborted if self.was_opening => Some("ECONNREFUSED"),
                        CloseReason::Aborted if self.is_half_closed() => Some("EPIPE"),
                        CloseReason::Aborted => Some("ECONNRESET"),
                        CloseReason::Lost => Some("ETIMEDOUT"),
                        CloseReason::Shutdown => None,
                    };
                }
                self.closed = Some(reason);
                self.woken |= ALL;
            }
            Event::Connected if self.end.info().state == "SYN-SENT" => self.opens_fast = true,
            Event::Connected => self.record_connected(),
            Event::Received(received) => self.readable += u64::from(received.payload.length),
            Event::Refused(payload) => self.refused = payload.length,
            _ => {}
        }
    }

    /// Whether only the peer has finished.
    fn is_half_closed(&self) -> bool {
        self.end.info().peer_has_finished && !self.has_shut_down && !self.is_orphan
    }

    fn record_connected(&mut self) {
        self.is_connected = true;
        self.woken |= ALL;
        // Linux, tcp_init_buffer_space.
        self.expand_send_buffer();
        // Linux counts from this time (`lrcvtime`).
        self.last_data_at = self.last_now;
    }

    /// Adds the time since the last input to what held the sender back in it.
    pub(super) fn clock(&mut self, now: Time) {
        let passed = now.saturating_since(self.last_now);
        self.chronometer = self.chronometer_at(self.last_now, passed);
        self.last_now = now;
    }

    fn chronometer_at(&self, since: Time, passed: Duration) -> Chronometer {
        let mut chronometer = self.chronometer;
        let info = self.end.info();
        if !self.is_connected || (info.outstanding == 0 && info.unsent == 0) {
            return chronometer;
        }
        chronometer.busy += passed;
        let mut limits = Vec::new();
        self.end.sample_limits(since, &mut limits);
        match limits.first().map(|limit| limit.limit) {
            _ if self.waiting_write.is_some() && info.unsent == 0 => chronometer.send_buffer += passed,
            Some(LimitedBy::ReceiveWindow) => chronometer.receive_window += passed,
            _ => {}
        }
        chronometer
    }

    /// The times for which each limit has held the sender back until now.
    pub(super) fn chronometer_now(&self, now: Time) -> Chronometer {
        self.chronometer_at(self.last_now, now.saturating_since(self.last_now))
    }

    /// How long ago data last arrived.
    pub(super) fn since_data(&self, now: Time) -> Duration {
        now.saturating_since(self.last_data_at)
    }

    /// Hands this many bytes to the endpoint; gives how many it took.
    pub(super) fn write(&mut self, now: Time, length: u64) -> u64 {
        let length = length.min(u64::from(u32::MAX)) as u32;
        let payload = Payload { offset: self.written, length };
        let message = Message::new(payload);
        self.refused = 0;
        self.command(now, Command::Send(message));
        let taken = u64::from(length - self.refused);
        self.written += taken;
        taken
    }

    /// Bytes that can be read.
    pub(super) fn available(&self) -> u64 {
        self.readable + self.end.info().unread
    }

    /// Reads up to this many bytes.
    pub(super) fn read(&mut self, now: Time, most: u64) -> u64 {
        if self.readable < most {
            self.command(now, Command::ResumeReading);
            self.command(now, Command::PauseReading);
        }
        let taken = self.readable.min(most);
        self.readable -= taken;
        taken
    }

    /// Whether the peer has sent its FIN and everything before it has been read.
    pub(super) fn has_reached_end(&self) -> bool {
        self.available() == 0
            && (self.end.info().peer_has_finished || self.closed.is_some() || self.has_shut_reading)
    }
}
