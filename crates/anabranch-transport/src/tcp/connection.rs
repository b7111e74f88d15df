//! One end of a connection: its state, and the dispatch of inputs to the procedures.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::config::Config;
use super::delayed_ack::DelayedAck;
use super::ecn::Ecn;
use super::fast_open::{FastOpen, Key};
use super::handshake::Handshake;
use super::measures::{CWND_BYTES, MIN_RTT_MS, Measures, RTO_MS, SRTT_MS};
use super::parameters::Parameters;
use super::receive::Receiver;
use super::recovery::Recovery;
use super::scoreboard::Scoreboard;
use super::send::Sender;
use super::send_queue::SendQueue;
use super::sequence::Numbering;
use super::stats::Stats;
use super::subflow::{FlowControl, OptionSpace};
use super::timers::RetransmissionTimer;
use crate::cc::coupled::Group;
use crate::cc::{CongestionControl as _, Controller};
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, HalfClose, Input, Keeper, Message, Multipath, Output, Service,
    Site, Transport,
};
use crate::flow::{Ecn as EcnField, IpVersion, PathId, Payload, Side};
use crate::observed::{HeadOfLine, Marks, Missing, Observed, PathLimit, PathSample, Repairs, Transmission};
use crate::packet_pool::{Boxes, PacketPool};
use crate::path::PathState;
use crate::recovery::pacing::Pacing;
use crate::recovery::rack::Rack;
use crate::recovery::rate_sample::RateSampler;
use crate::recovery::rtt::Rtt;
use crate::report::Report;
use crate::rng::{Draw as _, Rng, Streams};
use crate::secret::SecretNumbers;
use crate::time::{Duration, Time};
use crate::timer::Deadline;
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{self, Body, Packet};

thread_local! {
    /// Boxes of packets with any segment.
    static SPARE_PACKETS: RefCell<Boxes> = const { RefCell::new(Vec::new()) };
}

/// The states of a connection (RFC 9293 section 3.3.2). LISTEN is a [`Listener`](super::Listener). A closed
/// end accepts a connection too, so that the two ends of a simulated flow need no listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    CloseWait,
    Closing,
    Established,
    FinWait1,
    FinWait2,
    LastAck,
    /// SYN-RECEIVED of an end that has taken data of the peer's SYN and may send (RFC 7413 section 4.2.2).
    OpenedFast,
    SynReceived,
    SynSent,
    TimeWait,
}

impl State {
    /// Whether both ends' SYN have been acknowledged, or count as if they had been.
    pub(super) const fn is_synchronised(self) -> bool {
        !matches!(self, Self::Closed | Self::SynReceived | Self::SynSent)
    }

    /// Whether the application's data may be sent.
    pub(super) const fn can_send(self) -> bool {
        matches!(
            self,
            Self::Established
                | Self::CloseWait
                | Self::FinWait1
                | Self::Closing
                | Self::LastAck
                | Self::OpenedFast
        )
    }
}

/// One end of a TCP connection. See the [module](super) for sources and deviations.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub struct Connection {
    pub(super) parameters: Parameters,
    pub(super) ip: IpVersion,
    pub(super) mtu: u32,
    pub(super) path: PathId,
    /// Our port and the peer's.
    pub(super) ports: [u16; 2],
    pub(super) rng: Rng,
    /// The source of initial sequence numbers and of the timestamps' start, if it is not `rng`.
    pub(super) secret_numbers: Option<SecretNumbers>,
    /// Connections so far, this one included.
    pub(super) connections: u64,
    pub(super) state: State,
    pub(super) handshake: Handshake,
    /// Only where connections are opened fast.
    pub(super) fast_open: Option<Box<FastOpen>>,
    /// Whether [`Event::Closed`] has been reported for this connection, or nothing is to be reported.
    pub(super) has_closed: bool,
    /// When TIME-WAIT is over, or FIN-WAIT-2 of an end whose application has closed its socket.
    pub(super) time_wait: Time,

    /// Numbers of what we send and of what the peer sends.
    pub(super) own_numbers: Numbering,
    pub(super) peer_numbers: Numbering,
    /// Most bytes of data in a segment, after options have been taken off.
    pub(super) mss: u32,
    /// The features that both ends agreed on.
    pub(super) has_timestamps: bool,
    pub(super) has_sack: bool,
    /// The value of our timestamps at the beginning, in ms.
    pub(super) timestamp_offset: u32,
    /// The peer's latest timestamp (RFC 7323 section 4.3: TS.Recent).
    pub(super) recent_timestamp: u32,
    /// When a segment was last answered of those whose answers are limited.
    pub(super) answered_at: Option<Time>,

    pub(super) sender: Sender,
    pub(super) board: Scoreboard,
    pub(super) recovery: Recovery,
    pub(super) rack: Rack,
    pub(super) rtt: Rtt,
    pub(super) rate: RateSampler,
    pub(super) timer: RetransmissionTimer,
    /// When the last acknowledgement arrived that was not an old one.
    pub(super) heard_at: Time,
    pub(super) pacing: Pacing,
    pub(super) ecn: Ecn,
    pub(super) cc: Controller,
    /// Whether `cc` is a user's own control, which replaces the one of the settings.
    pub(super) has_own_cc: bool,
    /// Only for a subflow: the group that its control joins.
    pub(super) group: Option<Group>,
    /// Only for a subflow whose data waits in a queue of its own: the memory of that.
    pub(super) send_queue: Option<SendQueue>,
    /// The space that options of the MPTCP connection above take in segments.
    pub(super) option_space: OptionSpace,
    /// Whether its own receive window limits what is sent, or that of the connection above.
    pub(super) flow_control: FlowControl,
    /// Only for a subflow: whether data waits above that the peer's window has room for.
    pub(super) has_unsent_above: bool,
    /// Whether this end may go on sending after the peer's FIN.
    pub(super) half_close: bool,

    pub(super) receiver: Receiver,
    pub(super) delayed_ack: DelayedAck,

    pub(super) outputs: VecDeque<Output>,
    spare: PacketPool,
    pub(super) stats: Stats,
    /// Only if means are asked for.
    pub(super) measures: Option<Box<Measures>>,
    pub(super) last_now: Time,
}

impl Connection {
    /// One end of a connection whose paths have these MTUs (bytes, IP header included). Everything random in
    /// it comes from streams whose names start with `name`, such as `flow/call/tcp/a`.
    ///
    /// # Panics
    /// When [`Parameters::check_paths`] would refuse these paths.
    pub fn new(
        parameters: &Parameters,
        side: Side,
        mtus: &[u32],
        ip: IpVersion,
        streams: Streams,
        name: &str,
    ) -> Self {
        if let Err(error) = parameters.check_paths(mtus, ip) {
            panic!("{error}");
        }
        let mut parameters = parameters.clone();
        let mut rng = streams.stream(&format!("{name}/handshake"));
        parameters.clock = parameters.clock.started(streams, name);
        let path = PathId(parameters.path);
        let ports = parameters.ports(side);
        let mtu = mtus[path.index()];
        let mss = parameters.mss(mtu, ip);
        let fast_open = parameters.fast_open.then(|| {
            let mut rng = streams.stream(&format!("{name}/fast_open"));
            Box::new(FastOpen::between_ends(Key([rng.bits(), rng.bits()])))
        });
        Self {
            ip,
            mtu,
            path,
            ports,
            secret_numbers: None,
            connections: 0,
            state: State::Closed,
            handshake: Handshake::default(),
            fast_open,
            has_closed: true,
            time_wait: Time::NEVER,
            own_numbers: Numbering::default(),
            peer_numbers: Numbering::default(),
            mss,
            has_timestamps: false,
            has_sack: false,
            timestamp_offset: rng.bits() as u32,
            recent_timestamp: 0,
            answered_at: None,
            sender: Sender::default(),
            board: Scoreboard::default(),
            recovery: Recovery::default(),
            rack: Rack::default(),
            rtt: parameters.rtt(),
            rate: RateSampler::default(),
            timer: RetransmissionTimer::default(),
            heard_at: Time::NEVER,
            pacing: Pacing::default(),
            ecn: Ecn::default(),
            cc: parameters.cc.build(&parameters.control_setup(
                mss,
                parameters.initial_cwnd(mss),
                0,
                mtu - mss,
            )),
            has_own_cc: false,
            group: None,
            send_queue: None,
            option_space: OptionSpace::default(),
            flow_control: FlowControl::default(),
            has_unsent_above: false,
            half_close: false,
            receiver: Receiver::default(),
            delayed_ack: DelayedAck::default(),
            outputs: VecDeque::new(),
            spare: PacketPool::new(&SPARE_PACKETS),
            stats: Stats::default(),
            measures: parameters.measure.then(Box::default),
            last_now: Time::ZERO,
            rng,
            parameters,
        }
    }

    /// The counters so far, over all connections.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The port of this end and that of its peer.
    pub const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// The largest window that this end offers, in bytes.
    pub const fn receive_buffer(&self) -> u64 {
        self.parameters.receive_buffer
    }

    /// Whether there is no connection and nothing is left of the last one (TIME-WAIT).
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    #[inline(never)]
    fn on_command(&mut self, now: Time, command: Command) {
        match command {
            Command::Abort => self.abort(now),
            Command::Connect => self.connect(now),
            Command::PauseReading => self.receiver.is_paused = true,
            Command::ResumeReading => self.resume_reading(now),
            Command::Send(message) => self.write(now, message),
            // TCP has one path, and no pictures.
            Command::AddAddress(_)
            | Command::DeleteAddress(_)
            | Command::Rebind { .. }
            | Command::RequestKeyFrame
            | Command::SetPeerPrimary(_)
            | Command::SetPrimary(_) => {
                self.outputs.push_back(Output::Event(Event::Unsupported(command.name())));
            }
            Command::Shutdown => self.shut_down(now),
        }
    }

    /// Appends to the stream what fits into the send buffer.
    fn write(&mut self, now: Time, Message { payload, .. }: Message) {
        let Payload { offset, length } = payload;
        let accepts = !self.sender.is_finished && !self.has_closed;
        let room = if accepts { self.send_room() } else { 0 };
        let taken = u64::from(length).min(room) as u32;
        if self.state.is_synchronised() {
            self.check_app_limited();
        }
        self.sender.written += u64::from(taken);
        if taken < length {
            self.sender.has_refused = accepts;
            let rest = Payload { offset: offset + u64::from(taken), length: length - taken };
            self.outputs.push_back(Output::Event(Event::Refused(rest)));
        }
        if taken > 0 && self.state.can_send() {
            self.restart_after_idle(now);
            self.send(now);
        } else if self.state == State::SynSent {
            self.send_deferred_syn(now);
        }
    }

    /// Most inputs come this way, so that it has the stack frame of [`Endpoint::handle_input`].
    #[inline]
    fn on_packet(&mut self, now: Time, mut packet: Box<Packet>) {
        let mark = packet.ecn;
        let (Body::Tcp(segment) | Body::Mptcp(wire::mptcp::Segment { tcp: segment, .. })) = &mut packet.body
        else {
            return;
        };
        self.stats.packets_received += 1;
        if !self.take_predicted(now, segment) {
            self.on_segment(now, segment, mark);
        }
        // The box is used again for a packet of our own.
        self.spare.keep(packet);
        if self.measures.is_some() {
            self.measure(now);
        }
    }

    /// RFC 9293 section 3.10.7: a segment arrives.
    #[inline(never)]
    fn on_segment(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let ours = [segment.destination_port, segment.source_port] == self.ports;
        if is_syn && self.opens_anew(segment) {
            return self.accept(now, segment, mark);
        }
        match self.state {
            State::Closed => self.out_of_the_blue(segment),
            _ if !ours => self.out_of_the_blue(segment),
            State::SynSent => self.on_segment_syn_sent(now, segment, mark),
            State::SynReceived => {
                if self.on_segment_syn_received(now, segment, mark) {
                    self.on_segment_synchronised(now, segment, mark);
                }
            }
            State::OpenedFast => self.on_segment_opened_fast(now, segment, mark),
            State::FinWait1 if self.is_unconfirmed() => self.on_segment_opened_fast(now, segment, mark),
            State::TimeWait => self.on_segment_time_wait(now, segment),
            _ => self.on_segment_synchronised(now, segment, mark),
        }
    }

    /// Tells the application that the connection is over; its timers stop.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.time_wait = Time::NEVER;
        self.stop_timers();
        self.report_closed(reason);
    }

    pub(super) fn report_closed(&mut self, reason: CloseReason) {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.outputs.push_back(Output::Event(Event::Closed(reason)));
        }
    }

    pub(super) fn stop_timers(&mut self) {
        self.handshake.timer = Time::NEVER;
        self.timer.stop();
        self.pacing.timer = Time::NEVER;
        self.delayed_ack.stop();
    }

    #[inline(never)]
    fn on_timers(&mut self, now: Time) {
        if self.handshake.timer <= now {
            self.on_handshake_timer(now);
        }
        if self.timer.at() <= now {
            self.on_retransmission_timer(now);
        }
        if self.pacing.timer <= now {
            self.on_pacing_timer(now);
        }
        if self.delayed_ack.timer() <= now {
            self.on_delayed_ack_timer(now);
        }
        if self.time_wait <= now {
            self.end(CloseReason::Shutdown);
        }
        if self.measures.is_some() {
            self.measure(now);
        }
    }

    #[inline]
    fn next_timeout(&self) -> Time {
        let data = self.timer.at().min(self.pacing.timer).min(self.delayed_ack.timer());
        data.min(self.handshake.timer).min(self.time_wait)
    }

    /// The time at which a timer of this length expires.
    #[inline]
    pub(super) fn deadline(&self, now: Time, length: Duration) -> Time {
        self.parameters.clock.deadline(now, length)
    }

    /// [`Self::deadline`], with the tick that is asked for.
    #[inline]
    pub(super) fn schedule(&self, now: Time, length: Duration) -> Deadline {
        self.parameters.clock.schedule(now, length)
    }

    /// Our timestamp now, in ms (RFC 7323 section 5.4).
    pub(super) const fn timestamp(&self, now: Time) -> u32 {
        self.timestamp_offset.wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// A packet to be filled in, in memory that was used before if there is any.
    #[expect(clippy::inline_always, reason = "the packet stays in a register")]
    #[inline(always)]
    pub(super) fn blank_packet(&mut self) -> Box<Packet> {
        self.spare.take().unwrap_or_else(|| {
            let body = Body::Tcp(Segment::blank());
            Box::new(Packet { path: PathId::default(), ecn: EcnField::default(), size: 0, body })
        })
    }

    /// Sends a segment.
    pub(super) fn transmit_segment(&mut self, segment: Segment) {
        let mut packet = self.blank_packet();
        packet.body = Body::Tcp(segment);
        self.transmit(packet, EcnField::NotEct);
    }

    /// Sends a packet whose segment is filled in.
    #[expect(clippy::inline_always, reason = "it is called where the segment has just been written")]
    #[inline(always)]
    pub(super) fn transmit(&mut self, mut packet: Box<Packet>, ecn: EcnField) {
        let Body::Tcp(segment) = &packet.body else { return };
        let size = self.ip.header_bytes() + segment.wire_size();
        debug_assert!(size <= self.mtu, "{size} bytes do not fit into the path MTU");
        (packet.path, packet.ecn, packet.size) = (self.path, ecn, size);
        self.stats.packets_sent += 1;
        self.outputs.push_back(Output::Transmit(packet));
    }
}

impl Transport for Config {
    type Endpoint = Connection;

    fn build(&self, site: &Site<'_>) -> Result<Connection, String> {
        let &Site { side, mtus, ip, streams, .. } = site;
        let parameters = self.resolve()?;
        parameters.check_paths(mtus, ip)?;
        Ok(Connection::new(&parameters, side, mtus, ip, streams, &site.name("tcp")))
    }
}

impl Endpoint for Connection {
    fn protocol(&self) -> &'static str {
        "tcp"
    }

    /// An end with MPTCP falls back to TCP when its peer has no MPTCP (RFC 8684 section 3.1).
    fn understands(&self, protocol: &str) -> bool {
        matches!(protocol, "mptcp" | "tcp")
    }

    fn owns(&self, packet: &Packet) -> bool {
        packet.body.tcp().is_some_and(|segment| self.owns_segment(segment))
    }

    fn service(&self) -> Service {
        Service::Stream
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        match input {
            Input::Command(command) => self.on_command(now, command),
            Input::Packet(packet) => self.on_packet(now, packet),
            Input::Timeout => self.on_timers(now),
        }
    }

    #[inline]
    fn poll_output(&mut self, _now: Time) -> Output {
        match self.outputs.pop_front() {
            Some(output) => output,
            None => Output::Timeout(self.next_timeout()),
        }
    }
}

impl Multipath for Connection {
    fn set_congestion_control(&mut self, _path: PathId, control: Controller) -> bool {
        self.cc = control;
        self.has_own_cc = true;
        true
    }
}

impl HalfClose for Connection {
    fn set_half_close(&mut self, on: bool) {
        self.half_close = on;
    }
}

impl Keeper for Connection {
    /// Timestamps begin at the first of these numbers. The initial sequence number of each connection is the
    /// next number plus a clock that ticks every 4 microseconds (RFC 6528 section 3, which has a secret
    /// function of addresses and ports in the place of these numbers). Connections to strangers are not
    /// opened fast: the cookies of a simulation can be guessed, and do not depend on addresses.
    fn draw_from(&mut self, mut numbers: SecretNumbers) {
        self.fast_open = None;
        self.timestamp_offset = numbers.bits() as u32;
        self.secret_numbers = Some(numbers);
    }

    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        // The byte at position p has the number p + 1.
        let first = self.sender.unacknowledged.saturating_sub(1);
        each(Payload { offset: first, length: self.sender.written.saturating_sub(first) as u32 });
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        self.receiver.waiting_runs().for_each(|(start, end)| {
            each(Payload { offset: start, length: (end - start) as u32 });
        });
    }
}

impl Observed for Connection {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        samples.push(PathSample {
            path: self.path,
            cwnd: self.cwnd().saturating_mul(self.mss),
            ssthresh: self.cc.state().ssthresh,
            outstanding: self.in_flight_bytes(),
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            delivery_rate: self.rate.latest(),
            error_count: self.timer.timeouts,
            state: PathState::Active,
            is_primary: true,
            repairs: Repairs {
                timeouts: self.stats.timeouts,
                fast_recoveries: self.stats.fast_retransmits,
                ecn_reductions: self.stats.ecn_reductions,
            },
            marks: Marks { received: self.stats.ce_received, reported: self.stats.ce_reported },
        });
    }

    fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        let earliest = || (!self.board.is_empty()).then_some(self.path);
        let own = |limit| PathLimit::new(self.path, limit, earliest, self.rtt.srtt());
        limits.extend(self.limit(now, false).map(own));
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        self.gap()
    }

    fn transmission(&self, missing: Missing) -> Option<Transmission> {
        self.sent(missing.number)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.count(report);
        let millis = |time: Option<Duration>| time.map_or(f64::NAN, Duration::as_millis_f64);
        report.scalar(SRTT_MS, millis(self.rtt.srtt()));
        report.scalar(MIN_RTT_MS, millis(self.rtt.min_rtt()));
        report.scalar(RTO_MS, self.rtt.rto().as_millis_f64());
        report.scalar(CWND_BYTES, f64::from(self.cwnd().saturating_mul(self.mss)));
        if let Some(measures) = &self.measures {
            measures.report(report);
        }
    }
}
