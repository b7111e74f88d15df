//! One end of a connection: its state, and the dispatch of inputs to the procedures.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use super::ack_frequency::AckFrequency;
use super::application::{Main, Pending};
use super::close::Closing;
use super::config::{Config, EarlyData};
use super::congestion::Pace;
use super::connection_ids::Numbers;
use super::door::{Admission, Door};
use super::errors::Violation;
use super::flow_control::{FlowControl, Window};
use super::frames::Wants;
use super::handshake::{Early, Handshake};
use super::key_update::KeyPhases;
use super::messages::Messages;
use super::multipath::{Multipath as Several, member};
use super::parameters::{LEAST_DATAGRAM, Parameters};
use super::path::{Address, Outside, Path, Route, Standing};
use super::sent_packets::Sent;
use super::space::{AckRule, Space, SpaceId};
use super::stats::{CWND_BYTES, HANDSHAKE_MS, MIN_RTT_MS, PTO_MS, SRTT_MS, Stats};
use super::streams::Streams;
use crate::cc::coupled::{self, Group};
use crate::cc::{self, CongestionControl as _, Controller};
use crate::endpoint::{
    CloseReason, Command, Endpoint, HalfClose, Input, Keeper, Message, Multipath, Output, Service, Site,
    Transport,
};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::observed::{HeadOfLine, Missing, Observed, PathLimit, PathSample, Transmission};
use crate::packet_pool::{Boxes, PacketPool};
use crate::path::PathState;
use crate::report::Report;
use crate::rng::{self, Draw as _};
use crate::secret::SecretNumbers;
use crate::time::{Duration, Time};
use crate::wire::quic::{self, ConnectionId, Content, Level};
use crate::wire::udp::HEADER_BYTES;
use crate::wire::{Body, Packet};

thread_local! {
    /// Boxes of packets with any datagram.
    static SPARE_PACKETS: RefCell<Boxes> = const { RefCell::new(Vec::new()) };
}

/// Connections whose first packets are remembered.
const MOST_REMEMBERED: usize = 8;

/// The states of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is none, and the server may accept one.
    Closed,
    /// The handshake is not complete.
    Opening,
    Open,
    /// This end has closed (RFC 9000 section 10.2.1).
    Closing(Closing),
    /// The peer has closed (section 10.2.2).
    Draining {
        until: Time,
    },
}

/// One end of a QUIC connection. See the [module](super) for sources and deviations.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub struct Connection {
    pub(super) parameters: Parameters,
    pub(super) side: Side,
    pub(super) ip: IpVersion,
    /// The longest UDP payload that is sent.
    pub(super) datagram_bytes: u32,
    /// The MTUs of the paths between the hosts.
    pub(super) mtus: Box<[u32]>,
    /// Our port and the peer's.
    pub(super) ports: [u16; 2],
    /// This end on each path, as its peer sees it: a NAT may be between, of which a client hears nothing.
    pub(super) outside: Box<[Outside]>,
    /// The source of connection IDs.
    pub(super) numbers: Numbers,
    /// What strangers are told.
    pub(super) door: Door,
    /// A user's own control, until it is on the path.
    pub(super) has_own_control: bool,
    pub(super) half_close: bool,
    /// Whether TLS makes the messages of the handshake, and the application's streams are all alike
    /// (`live.rs`).
    pub(super) is_live: bool,

    pub(super) state: State,
    /// Whether `Event::Closed` has been reported, or nothing is to be reported.
    pub(super) has_closed: bool,
    /// The rule that the peer broke, if it did.
    pub(super) violation: Option<Violation>,
    /// The code with which the peer has closed, and whether it is its application's.
    pub(super) closed_with: Option<(u64, bool)>,
    /// The versions that the server named, if it knows none of ours.
    pub(super) peers_versions: Box<[u32]>,
    pub(super) handshake: Handshake,
    pub(super) key_phases: KeyPhases,
    /// The spaces of Initial and Handshake packets.
    pub(super) early: [Space; 2],
    /// The path IDs. There is one as long as there is no multipath.
    pub(super) paths: Vec<Path>,
    /// What more there is with several paths, once both ends have agreed to that.
    pub(super) multipath: Option<Several>,
    /// The paths whose windows depend on each other.
    pub(super) group: Option<Group>,
    /// What the peer says of itself.
    pub(super) peer: quic::Parameters,
    /// The ID that the peer's first packet came from.
    pub(super) peer_source: ConnectionId,
    pub(super) has_peer_source: bool,
    /// The first IDs of the last connections that were accepted: a late copy of a first packet opens nothing.
    pub(super) opened_by: VecDeque<ConnectionId>,
    /// Packets that wait for their keys.
    pub(super) waiting: Vec<(quic::Packet, Ecn)>,

    pub(super) streams: Streams,
    pub(super) flow: FlowControl,
    pub(super) main: Main,
    /// Streams of the application that the peer does not permit yet, by ID.
    pub(super) pending: BTreeMap<u64, Pending>,
    /// Streams of which something was refused for want of room.
    pub(super) refused: Vec<u64>,
    pub(super) messages: Messages,
    pub(super) ack_frequency: AckFrequency,
    pub(super) wants: Wants,
    /// Whether the application has closed, and messages are all that is waited for.
    pub(super) wants_close: bool,
    /// Whether the application does not read.
    pub(super) is_paused: bool,
    pub(super) is_amplification_limited: bool,

    pub(super) loss_timer: Time,
    pub(super) idle_timer: Time,
    pub(super) keep_alive_timer: Time,
    pub(super) has_sent_since_heard: bool,

    pub(super) outputs: VecDeque<Output>,
    pub(super) spare: PacketPool,
    /// Memory that is used again.
    pub(super) scratch: Vec<Sent>,
    pub(super) lost: Vec<Sent>,
    pub(super) stats: Stats,
    last_now: Time,
}

impl Connection {
    /// One end of a connection whose paths have these MTUs (bytes, IP header included). Everything random in
    /// it comes from streams whose names start with `name`, such as `flow/call/quic/a`.
    ///
    /// # Panics
    /// When [`Parameters::check_paths`] would refuse these paths.
    pub fn new(
        parameters: &Parameters,
        side: Side,
        mtus: &[u32],
        ip: IpVersion,
        streams: rng::Streams,
        name: &str,
    ) -> Self {
        if let Err(error) = parameters.check_paths(mtus, ip) {
            panic!("{error}");
        }
        let (network, ports) = (PathId(parameters.path), parameters.ports(side));
        let datagram_bytes = parameters.datagram_bytes(mtus, ip);
        let mut numbers = Numbers::Stream(streams.stream(&format!("{name}/ids")));
        let seed = numbers.bits();
        let door = Door::new(&mut Numbers::Stream(streams.stream(&format!("{name}/door"))), parameters.retry);
        let setup = setup(parameters, datagram_bytes, ip, seed);
        let is_coupled = parameters.multipath && !matches!(parameters.coupling, coupled::Config::PerPath(_));
        let group = is_coupled.then(|| Group::new(parameters.coupling.build()));
        let control = match &group {
            Some(group) => Controller::Coupled(group.join(PathId(0), &member(&parameters.cc, setup))),
            None => parameters.cc.build(&setup),
        };
        let mut path = Path::new(parameters, control, datagram_bytes, Standing::Open);
        // A client's packets show that it is there (RFC 9000 section 8.1).
        path.route = Route::new(Address { network, port: ports[1], host: 0 }, side == Side::A);
        let window = |bytes| Window { bytes, parts: parameters.window_parts };
        Self {
            side,
            ip,
            datagram_bytes,
            mtus: mtus.into(),
            ports,
            outside: mtus.iter().map(|_| Outside { port: ports[0], host: 0 }).collect(),
            numbers,
            door,
            has_own_control: false,
            half_close: false,
            is_live: false,
            state: State::Closed,
            has_closed: true,
            violation: None,
            closed_with: None,
            peers_versions: Box::default(),
            handshake: Handshake::new(Time::ZERO),
            key_phases: KeyPhases::default(),
            early: [Space::default(), Space::default()],
            paths: vec![path],
            multipath: None,
            group,
            peer: quic::Parameters::default(),
            peer_source: ConnectionId::default(),
            has_peer_source: false,
            opened_by: VecDeque::new(),
            waiting: Vec::new(),
            streams: Streams::new(
                side == Side::B,
                parameters.max_streams,
                window(parameters.max_stream_data),
            ),
            flow: FlowControl::new(window(parameters.max_data)),
            main: Main::default(),
            pending: BTreeMap::new(),
            refused: Vec::new(),
            messages: Messages::default(),
            ack_frequency: AckFrequency::new(parameters.ack_rule),
            wants: Wants::default(),
            wants_close: false,
            is_paused: false,
            is_amplification_limited: false,
            loss_timer: Time::NEVER,
            idle_timer: Time::NEVER,
            keep_alive_timer: Time::NEVER,
            has_sent_since_heard: false,
            outputs: VecDeque::new(),
            spare: PacketPool::new(&SPARE_PACKETS),
            scratch: Vec::new(),
            lost: Vec::new(),
            stats: Stats::default(),
            last_now: Time::ZERO,
            parameters: parameters.clone(),
        }
    }

    /// The counters so far, over all connections.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What the peer did that is against the rules, if the connection ended for that: the code (RFC 9000
    /// section 20.1) and a sentence.
    pub fn violation(&self) -> Option<(u64, &'static str)> {
        self.violation.map(|violation| (violation.code, violation.reason))
    }

    /// The spaces that have or may get keys, in the order of their packets in a datagram.
    pub(super) fn space_ids(&self) -> impl Iterator<Item = SpaceId> + use<> {
        let first = if self.handshake.is_discarded == [true; 2] { 2 } else { 0 };
        (first..2 + self.paths.len()).map(|number| match number {
            0 => SpaceId::Initial,
            1 => SpaceId::Handshake,
            number => SpaceId::Data(number - 2),
        })
    }

    /// When acknowledgements of a space leave (RFC 9000 section 13.2.1: at once in the handshake).
    pub(super) const fn rule_of(&self, id: SpaceId) -> AckRule {
        match id {
            SpaceId::Initial | SpaceId::Handshake => {
                AckRule { every: 1, delay: Duration::ZERO, reordering: None }
            }
            SpaceId::Data(_) => self.ack_frequency.rule,
        }
    }

    /// Everything about a connection is as in the beginning, except what is set from outside and the
    /// counters.
    fn renew(&mut self, now: Time) {
        let parameters = self.parameters.clone();
        let seed = rng::Streams { seed: self.numbers.bits(), replication: 0 };
        let mut fresh = Self::new(&parameters, self.side, &self.mtus, self.ip, seed, "again");
        std::mem::swap(&mut fresh.numbers, &mut self.numbers);
        std::mem::swap(&mut fresh.door, &mut self.door);
        std::mem::swap(&mut fresh.outputs, &mut self.outputs);
        std::mem::swap(&mut fresh.opened_by, &mut self.opened_by);
        fresh.half_close = self.half_close;
        fresh.is_live = self.is_live;
        fresh.ports = self.ports;
        fresh.paths[0].route.address.port = self.ports[1];
        std::mem::swap(&mut fresh.outside, &mut self.outside);
        fresh.is_paused = self.is_paused;
        fresh.stats = self.stats;
        fresh.last_now = now;
        if self.has_own_control {
            std::mem::swap(&mut fresh.paths[0].congestion.control, &mut self.paths[0].congestion.control);
            fresh.has_own_control = true;
        }
        *self = fresh;
        self.has_closed = false;
        self.state = State::Opening;
        self.stats.connections += 1;
        self.handshake = Handshake::new(now);
        let length = self.parameters.connection_id_bytes;
        self.paths[0].own_ids.issue(length, &mut self.numbers);
        self.restart_idle(now);
    }

    /// Opens a connection.
    pub(super) fn connect(&mut self, now: Time) {
        if matches!(self.state, State::Opening | State::Open) {
            return;
        }
        self.renew(now);
        // RFC 9000 section 7.2: at least 8 bytes that cannot be guessed.
        let bytes = self.numbers.bits().to_be_bytes();
        let original = ConnectionId::new(&bytes).unwrap_or_default();
        self.handshake.original = original;
        self.paths[0].peer_ids.set_first(original);
        self.begin_handshake();
        self.offer_early_data();
    }

    /// Takes the connection that a client's first packet opens, which came between these addresses.
    pub(super) fn accept(
        &mut self,
        now: Time,
        from: Address,
        first: &quic::Packet,
        Admission { original, retry }: Admission,
    ) {
        if !self.has_closed {
            self.end(CloseReason::Lost);
        }
        self.renew(now);
        self.handshake.original = original;
        self.handshake.retry = retry;
        // Who shows the token has got it (RFC 9000 section 8.1.2).
        self.paths[0].route = Route::new(from, retry.is_some());
        if self.parameters.early_data == Some(EarlyData::Accepted) && !self.is_live {
            self.handshake.early = Early::Awaited;
        }
        self.opened_by.truncate(MOST_REMEMBERED - 1);
        self.opened_by.push_front(first.destination);
        self.has_peer_source = true;
        self.peer_source = first.source;
        self.paths[0].peer_ids.set_first(first.source);
    }

    fn on_timers(&mut self, now: Time) {
        if self.state == State::Open && self.validation_timer() <= now {
            self.on_validation_timer(now);
        }
        if self.loss_timer <= now {
            self.on_loss_timer(now);
        }
        if self.keep_alive_timer <= now {
            self.on_keep_alive_timer(now);
        }
        if self.idle_timer <= now {
            self.on_idle_timer();
        }
        match self.state {
            State::Closing(Closing { until, .. }) | State::Draining { until } if until <= now => {
                self.state = State::Closed;
            }
            _ => {}
        }
    }

    fn next_timeout(&self) -> Time {
        let ends = match self.state {
            State::Closing(Closing { until, .. }) | State::Draining { until } => until,
            State::Closed | State::Opening | State::Open => Time::NEVER,
        };
        let due = self.space_ids().filter_map(|id| self.space(id).arrived.due);
        // A server that may send nothing acknowledges when more comes.
        let may_send =
            if self.multipath.is_some() { self.first_open().is_some() } else { !self.is_at_limit() };
        let due = due.min().filter(|_| may_send);
        let due = due.unwrap_or(Time::NEVER);
        let pace = self.paths.iter().map(|path| path.congestion.pacing.timer).min().unwrap_or(Time::NEVER);
        let validation = if self.state == State::Open { self.validation_timer() } else { Time::NEVER };
        ends.min(due)
            .min(pace)
            .min(validation)
            .min(self.loss_timer)
            .min(self.idle_timer)
            .min(self.keep_alive_timer)
    }

    /// Pads a datagram with an Initial packet to 1200 bytes (RFC 9000 section 14.1).
    pub(super) fn pad_initial(&self, packets: &mut [quic::Packet]) {
        let total: usize = packets.iter().map(quic::Packet::wire_size).sum();
        let short = (LEAST_DATAGRAM as usize).saturating_sub(total);
        let has_initial = packets.first().is_some_and(|packet| packet.level == Level::Initial);
        if has_initial
            && self.side == Side::A
            && short > 0
            && let Some(last) = packets.last_mut()
        {
            super::send::pad(last, short);
        }
    }

    pub(super) fn on_packet_input(&mut self, now: Time, mut packet: Box<Packet>) {
        let bytes = packet.size.saturating_sub(self.ip.header_bytes() + HEADER_BYTES);
        let (ecn, path) = (packet.ecn, packet.path);
        let Body::Quic(datagram) = &mut packet.body else { return };
        self.on_datagram(now, path, datagram, bytes, ecn);
        if self.loss_timer <= now {
            // What comes late may end the wait all the same (RFC 9002 appendices A.7 and A.11).
            self.set_loss_timer(now);
        }
        // The box is used again for a packet of our own.
        self.spare.keep(packet);
    }
}

/// What the control of a path has to know.
pub(super) fn setup(parameters: &Parameters, datagram_bytes: u32, ip: IpVersion, seed: u64) -> cc::Setup {
    cc::Setup {
        mss: datagram_bytes,
        initial_cwnd: parameters.initial_cwnd(datagram_bytes),
        rules: cc::Rules::Rfc,
        seed,
        is_paced: parameters.pace != Pace::Own,
        headers: ip.header_bytes() + HEADER_BYTES,
    }
}

impl Transport for Config {
    type Endpoint = Connection;

    fn build(&self, site: &Site<'_>) -> Result<Connection, String> {
        let &Site { side, mtus, ip, streams, .. } = site;
        let parameters = self.resolve()?;
        parameters.check_paths(mtus, ip)?;
        Ok(Connection::new(&parameters, side, mtus, ip, streams, &site.name("quic")))
    }
}

impl Endpoint for Connection {
    fn protocol(&self) -> &'static str {
        "quic"
    }

    fn owns(&self, packet: &Packet) -> bool {
        let Body::Quic(datagram) = &packet.body else { return false };
        if let Content::Reset { token, .. } = &datagram.content {
            return self.is_reset_by(token);
        }
        datagram.packets().first().is_some_and(|packet| {
            self.place_of(packet.destination).is_some()
                || (self.state != State::Closed && packet.destination == self.handshake.first())
        })
    }

    fn service(&self) -> Service {
        let longest_datagram = match (self.is_live, self.parameters.datagrams) {
            (true, _) => self.longest_datagram(),
            (false, true) => self.longest_message() as u32,
            (false, false) => 0,
        };
        Service::Streams { longest_datagram }
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        let waits_for_more = matches!(input, Input::Command(Command::Send(Message { more: true, .. })));
        match input {
            Input::Command(command) => self.on_command(now, command),
            Input::Packet(packet) => self.on_packet_input(now, packet),
            Input::Timeout => {}
        }
        self.on_timers(now);
        if matches!(self.state, State::Opening | State::Open) {
            if !waits_for_more || !self.refused.is_empty() {
                self.send(now);
            }
            self.check_finished(now);
        }
        self.serve_loss_timer(now);
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
        self.paths[0].congestion.control = control;
        self.has_own_control = true;
        true
    }
}

impl HalfClose for Connection {
    fn set_half_close(&mut self, on: bool) {
        self.half_close = on;
    }
}

impl Keeper for Connection {
    /// Connection IDs and the tokens of stateless resets.
    fn draw_from(&mut self, numbers: SecretNumbers) {
        self.numbers = Numbers::Secret(numbers);
        self.door = Door::new(&mut self.numbers, self.door.asks);
    }

    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        for (_, stream) in self.streams.iter() {
            if let Some(send) = stream.send.as_ref().filter(|send| send.reset.is_none()) {
                let length = (send.written - send.acknowledged) as u32;
                each(Payload { offset: send.acknowledged, length });
            }
        }
        if self.streams.get(super::application::MAIN).is_none() && !self.has_closed {
            each(Payload { offset: 0, length: self.main.written as u32 });
        }
        for pending in self.pending.values() {
            each(Payload { offset: 0, length: pending.written as u32 });
        }
        self.messages.iter().for_each(each);
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        for (_, stream) in self.streams.iter() {
            let waiting = stream.receive.iter().flat_map(super::receive_stream::ReceiveStream::waiting);
            waiting.for_each(|(start, end)| each(Payload { offset: start, length: (end - start) as u32 }));
        }
    }
}

impl Observed for Connection {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        let open = self.paths.iter().enumerate().filter(|(_, path)| path.standing == Standing::Open);
        samples.extend(open.map(|(place, path)| {
            let control = path.congestion.control.state();
            let is_suspect = self.multipath.is_some() && path.rtt.back_offs() > 0;
            PathSample {
                path: path.route.address.network,
                cwnd: control.cwnd,
                ssthresh: control.ssthresh,
                outstanding: path.congestion.in_flight,
                srtt: path.rtt.srtt(),
                rto: self.probe_timeout(place),
                delivery_rate: path.congestion.rate.latest(),
                error_count: path.rtt.back_offs(),
                state: if is_suspect { PathState::PotentiallyFailed } else { PathState::Active },
                is_primary: true,
                repairs: path.repairs,
                marks: path.marks,
            }
        }));
    }

    fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        let open = self.paths.iter().enumerate().filter(|(_, path)| path.standing == Standing::Open);
        for (place, path) in open {
            let earliest = || (!path.space.sent.is_empty()).then_some(path.route.address.network);
            let of = |limit| PathLimit::new(path.route.address.network, limit, earliest, path.rtt.srtt());
            limits.extend(self.limit(now, place).map(of));
        }
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        self.gap()
    }

    fn transmission(&self, missing: Missing) -> Option<Transmission> {
        self.sent(missing)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.count(report);
        let millis = |time: Option<Duration>| time.map_or(f64::NAN, Duration::as_millis_f64);
        let path = &self.paths[0];
        report.scalar(SRTT_MS, millis(path.rtt.srtt()));
        report.scalar(MIN_RTT_MS, millis(path.rtt.min_rtt()));
        report.scalar(PTO_MS, self.probe_timeout(0).as_millis_f64());
        report.scalar(CWND_BYTES, f64::from(path.congestion.window()));
        report.scalar(HANDSHAKE_MS, millis(self.handshake.took));
    }
}
