//! A deterministic network between two endpoints, for tests, and one endpoint against a script.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

use super::connection::{Connection, State};
use super::{Config, Parameters};
use crate::endpoint::{Command, Endpoint as _, Event, Input, Message, Output, StreamId};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::rng::Streams;
use crate::testing::{Tested, drain};
pub(super) use crate::testing::{Wire, ms};
use crate::time::Time;
use crate::wire::quic::{self, Ack, ConnectionId, Content, Datagram, Frame, Level, Stream};
use crate::wire::{Body, Packet};

/// IP and UDP headers in bytes.
const HEADERS: u32 = 28;

/// A datagram that was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logged {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) datagram: Datagram,
    pub(super) ecn: Ecn,
    pub(super) path: PathId,
    /// Bytes of UDP payload.
    pub(super) bytes: u32,
}

impl Logged {
    pub(super) fn at_ms(&self) -> u64 {
        self.at.as_nanos() / 1_000_000
    }

    pub(super) fn levels(&self) -> Vec<Level> {
        self.datagram.packets().iter().map(|packet| packet.level).collect()
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.datagram.packets().iter().flat_map(|packet| &packet.frames)
    }

    /// The data of streams in it: stream, position and length.
    pub(super) fn data(&self) -> Vec<(u64, u64, u32)> {
        self.frames()
            .filter_map(|frame| match frame {
                Frame::Stream(stream) => Some((stream.id, stream.position, stream.data.length)),
                _ => None,
            })
            .collect()
    }
}

/// A filter that decides which datagrams to drop.
pub(crate) type Filter = Box<dyn FnMut(Time, Side, &Datagram) -> bool>;

/// The wires by direction, the one from A first, those of paths that are unlike the others, and the paths on
/// which nothing arrives.
#[derive(Default)]
pub(crate) struct Wires {
    by_sender: [Wire; 2],
    pub(super) others: Vec<(PathId, Wire)>,
    pub(super) dead: Vec<PathId>,
}

impl Deref for Wires {
    type Target = [Wire; 2];

    fn deref(&self) -> &[Wire; 2] {
        &self.by_sender
    }
}

impl DerefMut for Wires {
    fn deref_mut(&mut self) -> &mut [Wire; 2] {
        &mut self.by_sender
    }
}

/// Two endpoints and the wires between them.
pub(super) type Pair = crate::testing::Pair<Connection>;

fn resolved(config: &Config) -> Parameters {
    config.resolve().expect("the configuration is possible")
}

fn endpoint(config: &Config, side: Side, streams: Streams) -> Connection {
    let name = format!("flow/test/quic/{}", side.name());
    let has_two = config.migration.is_some() || config.multipath == Some(true);
    let mtus: &[u32] = if has_two { &[1_500; 2] } else { &[1_500] };
    Connection::new(&resolved(config), side, mtus, IpVersion::Ipv4, streams, &name)
}

fn logged(at: Time, from: Side, packet: &Packet) -> Logged {
    let Body::Quic(datagram) = &packet.body else { panic!("QUIC sends QUIC") };
    let bytes = datagram.payload_bytes();
    assert_eq!(packet.size, HEADERS + bytes, "{datagram:?}");
    assert!(packet.size <= 1_500 && bytes > 0, "{datagram:?}");
    for packet in datagram.packets() {
        // RFC 9001 section 5.4.2.
        assert!(packet.content() + usize::from(packet.number_bytes) >= 4, "{packet:?}");
        let open = |frame: &Frame| match frame {
            Frame::Stream(stream) => !stream.has_length,
            Frame::Datagram { has_length, .. } => !has_length,
            _ => false,
        };
        let last = packet.frames.len() - 1;
        assert!(
            packet.frames[..last].iter().all(|frame| !open(frame)),
            "only the last frame goes to the end"
        );
    }
    Logged { at, from, datagram: (**datagram).clone(), ecn: packet.ecn, path: packet.path, bytes }
}

impl Pair {
    pub(super) fn new(config: &Config) -> Self {
        Self::seeded([config, config], 1)
    }

    pub(super) fn seeded(configs: [&Config; 2], seed: u64) -> Self {
        let streams = Streams { seed, replication: 0 };
        let ends = [endpoint(configs[0], Side::A, streams), endpoint(configs[1], Side::B, streams)];
        Self::between(ends, Wires::default(), streams)
    }

    /// A pair with an open connection, whose handshake is confirmed, at 200 ms; the log begins after that.
    pub(super) fn open(config: &Config) -> Self {
        let mut pair = Self::new(config);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(200));
        assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
        assert!(pair.ends.iter().all(|end| end.handshake.is_confirmed));
        pair.forget();
        pair
    }

    /// Datagrams from this end.
    pub(super) fn from(&self, side: Side) -> Vec<&Logged> {
        self.log.iter().filter(|logged| logged.from == side).collect()
    }
}

impl Tested for Connection {
    type Wires = Wires;
    type Logged = Logged;
    type Filter = Filter;

    fn wire(wires: &Wires, path: PathId, from: Side) -> Wire {
        let other = wires.others.iter().find(|(other, _)| *other == path).map(|(_, wire)| *wire);
        Wire { is_dead: wires.dead.contains(&path), ..other.unwrap_or(wires[from.index()]) }
    }

    fn keep_all() -> Filter {
        Box::new(|_, _, _| false)
    }

    fn drops(filter: &mut Filter, logged: &Logged, _packet: &Packet) -> bool {
        filter(logged.at, logged.from, &logged.datagram)
    }

    fn logged(at: Time, from: Side, packet: &Packet) -> Logged {
        logged(at, from, packet)
    }

    fn check(&self) {
        self.check_accounts();
    }
}

pub(super) fn send(payload: Payload) -> Command {
    Command::Send(Message::new(payload))
}

pub(super) fn send_unordered(payload: Payload) -> Command {
    Command::Send(Message { unordered: true, ..Message::new(payload) })
}

/// Appends to a stream.
pub(super) fn send_on(stream: u64, payload: Payload, ends_stream: bool, more: bool) -> Command {
    Command::Send(Message { stream: StreamId(stream), ends_stream, more, ..Message::new(payload) })
}

/// One endpoint, the side A, against a script that plays its peer.
pub(super) struct Drill {
    pub(super) now: Time,
    pub(super) end: Connection,
    pub(super) sent: Vec<Logged>,
    seen: usize,
    pub(super) events: Vec<Event>,
    timeout: Time,
    /// The number of the peer's next packet at each level.
    numbers: [u64; 4],
    pub(super) peer_id: ConnectionId,
}

impl Drill {
    /// A client that has begun.
    pub(super) fn opening(config: &Config) -> Self {
        let end = endpoint(config, Side::A, Streams { seed: 1, replication: 0 });
        let peer_id = ConnectionId::new(&[9; 8]).expect("it is short enough");
        let mut drill = Self {
            now: Time::ZERO,
            end,
            sent: Vec::new(),
            seen: 0,
            events: Vec::new(),
            timeout: Time::NEVER,
            numbers: [0; 4],
            peer_id,
        };
        drill.input(Input::Command(Command::Connect));
        drill
    }

    /// A client whose handshake is confirmed at 100 ms, with a round trip of 100 ms.
    pub(super) fn open(config: &Config) -> Self {
        Self::open_with(config, |_| {})
    }

    /// The same with a peer that says something else of itself.
    pub(super) fn open_with(config: &Config, change: impl FnOnce(&mut quic::Parameters)) -> Self {
        let mut drill = Self::opening(config);
        drill.at(100);
        let mut parameters = drill.peers_parameters();
        change(&mut parameters);
        let sizes = config.handshake.unwrap_or_default();
        let ack = |largest| {
            Frame::Ack(Box::new(Ack { ranges: [(0, largest)].into_iter().collect(), ..Ack::default() }))
        };
        drill.packet(Level::Initial, vec![ack(0), crypto(0, sizes.server_hello.0 as u32)]);
        let rest = (sizes.certificate.0 + sizes.server_rest.0) as u32;
        let mut packet = drill.peers_packet(Level::Handshake, vec![crypto(0, rest)]);
        packet.parameters = Some(Box::new(parameters));
        drill.deliver(packet, Ecn::NotEct);
        let largest = drill.end.early[1].next - 1;
        drill.packet(Level::Handshake, vec![ack(largest)]);
        let largest = drill.end.paths[0].space.next - 1;
        drill.packet(Level::OneRtt, vec![ack(largest), Frame::HandshakeDone]);
        assert_eq!(drill.events, [Event::Connected]);
        assert!(drill.end.handshake.is_confirmed);
        assert_eq!(drill.end.paths[0].congestion.in_flight, 0);
        drill.events.clear();
        drill.seen = drill.sent.len();
        drill
    }

    /// What a peer with large limits says of itself.
    pub(super) fn peers_parameters(&self) -> quic::Parameters {
        quic::Parameters {
            original_destination: Some(self.end.handshake.original),
            initial_source: Some(self.peer_id),
            initial_max_data: 1 << 30,
            initial_max_stream_data_bidi_local: 1 << 30,
            initial_max_stream_data_bidi_remote: 1 << 30,
            initial_max_stream_data_uni: 1 << 30,
            initial_max_streams_bidi: 100,
            initial_max_streams_uni: 100,
            max_datagram_frame_size: 65_535,
            ..quic::Parameters::default()
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        let now = self.now;
        self.end.handle_input(now, input);
        let (sent, events) = (&mut self.sent, &mut self.events);
        self.timeout = drain(&mut self.end, now, |output| match output {
            Output::Event(event) => events.push(event),
            Output::Transmit(packet) => sent.push(logged(now, Side::A, &packet)),
            Output::Timeout(_) => {}
        });
        assert!(self.timeout > now, "no progress at {now}");
        self.end.check_accounts();
    }

    /// A packet of the peer's with these frames.
    pub(super) fn peers_packet(&mut self, level: Level, frames: Vec<Frame>) -> quic::Packet {
        let number = self.numbers[level as usize];
        self.numbers[level as usize] += 1;
        quic::Packet {
            level,
            destination: self.end.paths[0].own_ids.first(),
            source: self.peer_id,
            token: Box::default(),
            path_id: 0,
            number,
            number_bytes: 4,
            key_phase: false,
            key_updates: 0,
            frames: SmallVec::from_vec(frames),
            parameters: None,
        }
    }

    pub(super) fn deliver(&mut self, packet: quic::Packet, ecn: Ecn) {
        let [own, peer] = self.end.ports;
        let content = Content::Packets(SmallVec::from_iter([packet]));
        self.bring(Datagram { source_port: peer, destination_port: own, client_host: 0, content }, ecn);
    }

    /// Lets a datagram arrive.
    pub(super) fn bring(&mut self, datagram: Datagram, ecn: Ecn) {
        let size = HEADERS + datagram.payload_bytes();
        let packet = Packet { path: PathId(0), ecn, size, body: Body::Quic(Box::new(datagram)) };
        self.input(Input::Packet(Box::new(packet)));
    }

    /// Lets the peer send a packet with these frames.
    pub(super) fn packet(&mut self, level: Level, frames: Vec<Frame>) -> &mut Self {
        let packet = self.peers_packet(level, frames);
        self.deliver(packet, Ecn::NotEct);
        self
    }

    /// Lets the peer send a 1-RTT packet with one frame.
    pub(super) fn frame(&mut self, frame: Frame) -> &mut Self {
        self.packet(Level::OneRtt, vec![frame])
    }

    /// Skips a number of the peer's 1-RTT packets, as if that packet were on its way; gives it.
    pub(super) fn skip(&mut self) -> u64 {
        self.numbers[Level::OneRtt as usize] += 1;
        self.numbers[Level::OneRtt as usize] - 1
    }

    /// Lets the peer acknowledge these runs of 1-RTT packets, the largest first.
    pub(super) fn ack(&mut self, ranges: &[(u64, u64)]) -> &mut Self {
        let ack = Ack { ranges: ranges.iter().copied().collect(), ..Ack::default() };
        self.frame(Frame::Ack(Box::new(ack)))
    }

    /// Lets the peer send data on a stream.
    pub(super) fn data(&mut self, id: u64, position: u64, length: u32, fin: bool) -> &mut Self {
        let data = Payload { offset: position, length };
        self.frame(Frame::Stream(Stream { id, position, data, fin, has_length: true }))
    }

    /// Advances time to this many ms, and expires timers on the way.
    pub(super) fn at(&mut self, millis: u64) -> &mut Self {
        let target = Time::from_millis(millis);
        while self.timeout <= target {
            self.now = self.timeout.max(self.now);
            self.input(Input::Timeout);
        }
        assert!(target >= self.now);
        self.now = target;
        self
    }

    /// Lets the application write.
    pub(super) fn write(&mut self, length: u32) -> &mut Self {
        let payload = Payload { offset: self.end.main.written, length };
        self.input(Input::Command(send(payload)));
        self
    }

    /// What has been sent since the last call.
    pub(super) fn sent(&mut self) -> Vec<Logged> {
        let new = self.sent[self.seen..].to_vec();
        self.seen = self.sent.len();
        new
    }

    /// The frames sent since the last call, without acknowledgements and padding.
    pub(super) fn frames(&mut self) -> Vec<Frame> {
        let sent = self.sent();
        let frames = sent.iter().flat_map(Logged::frames);
        frames.filter(|frame| !matches!(frame, Frame::Ack(_) | Frame::Padding { .. })).cloned().collect()
    }

    /// The numbers of the 1-RTT packets sent since the last call.
    pub(super) fn sent_numbers(&mut self) -> Vec<u64> {
        let sent = self.sent();
        let packets = sent.iter().flat_map(|logged| logged.datagram.packets());
        packets.filter(|packet| packet.level == Level::OneRtt).map(|packet| packet.number).collect()
    }

    /// The runs of the last acknowledgement that was sent.
    pub(super) fn last_ack(&self) -> Vec<(u64, u64)> {
        let frames = self.sent.iter().rev().flat_map(Logged::frames);
        let mut acks = frames.filter_map(|frame| if let Frame::Ack(ack) = frame { Some(ack) } else { None });
        acks.next().map_or_else(Vec::new, |ack| ack.ranges.to_vec())
    }

    /// The code with which the end has closed because its peer broke a rule.
    pub(super) fn violation(&self) -> Option<u64> {
        self.end.violation().map(|(code, _)| code)
    }
}

pub(super) fn crypto(position: u64, length: u32) -> Frame {
    Frame::Crypto { position, data: Payload { offset: position, length } }
}

impl Connection {
    /// Checks that the counters match a recount, and that limits are kept.
    pub(super) fn check_accounts(&self) {
        let spaces = || self.early.iter().chain(self.paths.iter().map(|path| &path.space));
        let bytes = |space: &super::space::Space| space.sent.iter().map(|packet| packet.size).sum::<u32>();
        let of_handshake: u32 = self.early.iter().map(bytes).sum();
        for (place, path) in self.paths.iter().enumerate() {
            let in_flight = bytes(&path.space) + if place == 0 { of_handshake } else { 0 };
            assert_eq!(path.congestion.in_flight, in_flight, "bytes in flight on path {place}");
        }
        for space in spaces() {
            let eliciting = space.sent.iter().filter(|packet| packet.elicits_ack).count();
            assert_eq!(space.sent.eliciting as usize, eliciting, "packets that elicit acknowledgements");
        }
        for (_, stream) in self.streams.iter() {
            stream.send.iter().for_each(super::send_stream::SendStream::check);
        }
        assert!(self.flow.sent <= self.flow.limit, "the peer's limit is kept");
        assert!(self.flow.received() <= self.flow.offered() || self.violation.is_some());
        assert!(self.flow.consumed <= self.flow.received());
        let has_outstanding = spaces().any(|space| space.sent.eliciting > 0);
        if has_outstanding && matches!(self.state, State::Opening | State::Open) {
            let is_waiting = self.is_at_limit();
            // Data of an unconfirmed handshake waits for that, which the spaces of the handshake time.
            let is_unconfirmed = !self.handshake.is_confirmed;
            assert!(!self.loss_timer.is_never() || is_waiting || is_unconfirmed, "no timer runs: {self:?}");
        }
        assert!(self.idle_timer.is_never() != matches!(self.state, State::Opening | State::Open));
    }
}
