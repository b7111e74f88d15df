//! A deterministic network between two endpoints, for tests, and a notation after packetdrill's for one
//! endpoint against a script.

use super::{Config, Connection, Profile};
use crate::cc::{AckEvent, CongestionControl, CongestionEvent, ControlState, Controller, SendLimits};
use crate::endpoint::{Command, Endpoint, Event, Input, Message, Multipath as _, Output};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::rng::Streams;
use crate::testing::Tested;
pub(super) use crate::testing::{Wire, ms};
use crate::time::{Duration, Time};
use crate::wire::tcp::{Flags, SackBlock, Segment, Timestamps};
use crate::wire::{Body, Packet};

/// A segment that was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logged {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) segment: Segment,
    pub(super) ecn: Ecn,
}

impl Logged {
    pub(super) fn at_ms(&self) -> u64 {
        self.at.as_nanos() / 1_000_000
    }
}

/// A filter that decides which packets to drop.
pub(crate) type Filter = Box<dyn FnMut(Time, Side, &Segment) -> bool>;

/// Two endpoints and the wires between them, the one from A first.
pub(super) type Pair = crate::testing::Pair<Connection>;

pub(super) fn config(profile: Profile) -> Config {
    Config { profile, ..Config::default() }
}

/// A congestion window that stays as it is, in bytes.
#[derive(Debug)]
pub(super) struct FixedWindow(pub(super) u32);

impl CongestionControl for FixedWindow {
    fn on_ack(&mut self, _event: &AckEvent) {}

    fn on_congestion(&mut self, _event: &CongestionEvent) {}

    fn limits(&self) -> SendLimits {
        SendLimits::window(self.0)
    }

    fn state(&self) -> ControlState {
        ControlState { cwnd: self.0, ssthresh: self.0, phase: "fixed" }
    }
}

fn endpoint(config: &Config, side: Side, streams: Streams) -> Connection {
    let parameters = config.resolve().expect("the configuration is possible");
    let name = format!("flow/test/tcp/{}", side.name());
    Connection::new(&parameters, side, &[1500], IpVersion::Ipv4, streams, &name)
}

impl Pair {
    pub(super) fn new(config: &Config) -> Self {
        Self::seeded([config, config], 1)
    }

    pub(super) fn seeded(configs: [&Config; 2], seed: u64) -> Self {
        let streams = Streams { seed, replication: 0 };
        let ends = [endpoint(configs[0], Side::A, streams), endpoint(configs[1], Side::B, streams)];
        Self::between(ends, [Wire::default(); 2], streams)
    }

    /// A pair with an open connection, at 100 ms; the log begins after that.
    pub(super) fn open(config: &Config) -> Self {
        let mut pair = Self::new(config);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(100));
        assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
        pair.forget();
        pair
    }

    /// Segments with data from this end.
    pub(super) fn data(&self, side: Side) -> Vec<&Logged> {
        self.log.iter().filter(|logged| logged.from == side && logged.segment.payload.length > 0).collect()
    }

    /// Segments without data from this end.
    pub(super) fn acks(&self, side: Side) -> Vec<&Logged> {
        self.log.iter().filter(|logged| logged.from == side && logged.segment.payload.length == 0).collect()
    }
}

impl Tested for Connection {
    type Wires = [Wire; 2];
    type Logged = Logged;
    type Filter = Filter;

    fn wire(wires: &[Wire; 2], _path: PathId, from: Side) -> Wire {
        wires[from.index()]
    }

    fn keep_all() -> Filter {
        Box::new(|_, _, _| false)
    }

    fn drops(filter: &mut Filter, logged: &Logged, _packet: &Packet) -> bool {
        filter(logged.at, logged.from, &logged.segment)
    }

    fn logged(at: Time, from: Side, packet: &Packet) -> Logged {
        let Body::Tcp(segment) = &packet.body else { panic!("TCP sends TCP") };
        assert!(packet.size <= 1500);
        Logged { at, from, segment: segment.clone(), ecn: packet.ecn }
    }

    fn check(&self) {
        self.check_accounts();
    }
}

/// Drops the first transmission of the segments that begin at these positions of A's stream.
pub(super) fn drop_at(positions: &[u64]) -> Filter {
    let mut wanted = positions.to_vec();
    Box::new(move |_, from, segment| {
        if from != Side::A || segment.payload.length == 0 {
            return false;
        }
        let at = wanted.iter().position(|&position| position == segment.payload.offset);
        at.map(|at| wanted.remove(at)).is_some()
    })
}

/// One endpoint, the side A, against a script that plays its peer. Positions are those of the endpoint's
/// stream, in bytes.
pub(super) struct Drill {
    pub(super) now: Time,
    pub(super) end: Connection,
    pub(super) sent: Vec<Logged>,
    /// How many of them have been looked at.
    seen: usize,
    pub(super) events: Vec<Event>,
    timeout: Time,
    /// Initial sequence numbers of the two SYNs.
    pub(super) own: u32,
    pub(super) peer: u32,
    /// Where the peer is in its own stream.
    peer_position: u32,
    window: u16,
    /// What the peer's clock shows, in its timestamps.
    stamp: u32,
    has_timestamps: bool,
    latest_timestamp: u32,
}

impl Drill {
    /// A connection that is open at 100 ms, with a round-trip time of 100 ms, SACK, and a window of 64 KiB
    /// shifted by 7. `timestamps` says whether the peer offers them; without them a full segment has 1460
    /// bytes.
    pub(super) fn open(config: &Config, timestamps: bool) -> Self {
        Self::open_with(config, timestamps, 0)
    }

    /// An end to which nothing has happened.
    fn new(config: &Config, timestamps: bool) -> Self {
        let streams = Streams { seed: 1, replication: 0 };
        let mut config = config.clone();
        config.clock_granularity = config.clock_granularity.or(Some(Duration::ZERO));
        Self {
            now: Time::ZERO,
            end: endpoint(&config, Side::A, streams),
            sent: Vec::new(),
            seen: 0,
            events: Vec::new(),
            timeout: Time::NEVER,
            own: 0,
            peer: 7_000,
            peer_position: 0,
            window: 512,
            stamp: 1,
            has_timestamps: timestamps,
            latest_timestamp: 0,
        }
    }

    /// An end in SYN-SENT.
    pub(super) fn opening(config: &Config, timestamps: bool) -> Self {
        let mut drill = Self::new(config, timestamps);
        drill.input(Input::Command(Command::Connect));
        assert!(drill.sent[0].segment.flags.has(Flags::SYN));
        drill.own = drill.sent[0].segment.sequence;
        drill.seen = 1;
        drill
    }

    /// An end that has not opened a connection.
    pub(super) fn unasked(config: &Config) -> Self {
        Self::new(config, false)
    }

    /// An end in SYN-RECEIVED, whose peer has opened the connection.
    pub(super) fn accepting(config: &Config, timestamps: bool) -> Self {
        let mut drill = Self::new(config, timestamps);
        let [own_port, peer_port] = drill.end.ports;
        let syn = Segment {
            source_port: peer_port,
            destination_port: own_port,
            sequence: drill.peer,
            flags: Flags::SYN,
            window: 65_535,
            mss: Some(1_460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: timestamps.then_some(Timestamps { value: 1, echo: 0 }),
            ..Segment::blank()
        };
        drill.deliver(syn, Ecn::NotEct);
        drill.own = drill.sent[0].segment.sequence;
        drill.seen = 1;
        drill
    }

    /// Lets the peer send a segment without data whose number is this many bytes behind its SYN, and which
    /// acknowledges as many behind ours, if it has ACK.
    pub(super) fn segment(&mut self, number: u32, acknowledges: u32, flags: Flags) -> &mut Self {
        let mut segment = self.peers_segment(number.wrapping_sub(1));
        segment.flags = flags;
        segment.acknowledgement = if flags.has(Flags::ACK) { self.own.wrapping_add(acknowledges) } else { 0 };
        self.deliver(segment, Ecn::NotEct);
        self
    }

    /// The same connection with a constant congestion window of this many segments; 0 means the settings'
    /// control.
    pub(super) fn open_with(config: &Config, timestamps: bool, segments: u32) -> Self {
        let mut drill = Self::opening(config, timestamps);
        let syn = drill.sent[0].segment.clone();
        drill.now = Time::from_millis(100);
        let syn_ack = Segment {
            source_port: syn.destination_port,
            destination_port: syn.source_port,
            sequence: drill.peer,
            acknowledgement: drill.own.wrapping_add(1),
            flags: Flags::SYN.with(Flags::ACK),
            window: 65_535,
            mss: Some(1_460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: timestamps
                .then(|| Timestamps { value: 1, echo: syn.timestamps.map_or(0, |stamps| stamps.value) }),
            ..Segment::blank()
        };
        drill.deliver(syn_ack, Ecn::NotEct);
        assert_eq!(drill.events, [Event::Connected]);
        drill.events.clear();
        // The window of the SYN-ACK was not scaled.
        drill.ack(0, &[]);
        drill.seen = drill.sent.len();
        if segments > 0 {
            let window = FixedWindow(segments * drill.end.mss);
            drill.end.set_congestion_control(PathId(0), Controller::Custom(Box::new(window)));
        }
        drill
    }

    pub(super) fn input(&mut self, input: Input) {
        let now = self.now;
        self.end.handle_input(now, input);
        loop {
            match self.end.poll_output(now) {
                Output::Event(event) => self.events.push(event),
                Output::Timeout(at) => {
                    assert!(at > now || at.is_never(), "no progress at {now}");
                    self.timeout = at;
                    break;
                }
                Output::Transmit(packet) => {
                    let Body::Tcp(segment) = packet.body else { panic!("TCP sends TCP") };
                    if let Some(timestamps) = segment.timestamps {
                        self.latest_timestamp = timestamps.value;
                    }
                    self.sent.push(Logged { at: now, from: Side::A, segment, ecn: packet.ecn });
                }
            }
        }
        self.end.check_accounts();
    }

    pub(super) fn deliver(&mut self, segment: Segment, ecn: Ecn) {
        let size = 20 + segment.wire_size();
        let packet = Packet { path: PathId(0), ecn, size, body: Body::Tcp(segment) };
        self.input(Input::Packet(Box::new(packet)));
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
        let payload = Payload { offset: self.end.sender.written, length };
        let message = Message::new(payload);
        self.input(Input::Command(Command::Send(message)));
        self
    }

    /// Sets the peer's window field from now on.
    pub(super) fn window(&mut self, window: u16) -> &mut Self {
        self.window = window;
        self
    }

    /// Sets what the peer's clock shows from now on.
    pub(super) fn stamp(&mut self, stamp: u32) -> &mut Self {
        self.stamp = stamp;
        self
    }

    /// Lets the peer acknowledge up to this position, with these runs of positions in SACK.
    pub(super) fn ack(&mut self, position: u32, sack: &[(u32, u32)]) -> &mut Self {
        let echo = self.latest_timestamp;
        self.ack_echoing(position, sack, echo, Flags::ACK)
    }

    pub(super) fn ack_echoing(
        &mut self,
        position: u32,
        sack: &[(u32, u32)],
        echo: u32,
        flags: Flags,
    ) -> &mut Self {
        let own = self.own.wrapping_add(1);
        let mut segment = self.peers_segment(self.peer_position);
        segment.acknowledgement = own.wrapping_add(position);
        segment.flags = flags;
        if let Some(timestamps) = &mut segment.timestamps {
            timestamps.echo = echo;
        }
        for &(start, end) in sack {
            segment.sack.push(SackBlock { start: own.wrapping_add(start), end: own.wrapping_add(end) });
        }
        self.deliver(segment, Ecn::NotEct);
        self
    }

    pub(super) fn peers_segment(&self, position: u32) -> Segment {
        let [own_port, peer_port] = self.end.ports;
        Segment {
            source_port: peer_port,
            destination_port: own_port,
            sequence: self.peer.wrapping_add(1).wrapping_add(position),
            acknowledgement: self.own.wrapping_add(self.end.sender.unacknowledged as u32),
            flags: Flags::ACK,
            window: self.window,
            timestamps: self
                .has_timestamps
                .then_some(Timestamps { value: self.stamp, echo: self.latest_timestamp }),
            ..Segment::blank()
        }
    }

    /// Lets the peer send data from this position of its stream.
    pub(super) fn data(&mut self, position: u32, length: u32) -> &mut Self {
        self.data_marked(position, length, Ecn::NotEct, Flags::ACK)
    }

    pub(super) fn data_marked(&mut self, position: u32, length: u32, ecn: Ecn, flags: Flags) -> &mut Self {
        let mut segment = self.peers_segment(position);
        segment.flags = flags;
        segment.payload = Payload { offset: u64::from(position), length };
        self.peer_position = self.peer_position.max(position + length);
        self.deliver(segment, ecn);
        self
    }

    /// The SYN.
    pub(super) fn first_sent(&self) -> &Segment {
        &self.sent[0].segment
    }

    /// What has been sent since the last call.
    pub(super) fn sent(&mut self) -> Vec<Logged> {
        let new = self.sent[self.seen..].to_vec();
        self.seen = self.sent.len();
        new
    }

    /// Positions of the data segments sent since the last call, in segments of `size` bytes.
    pub(super) fn segments(&mut self, size: u32) -> Vec<u64> {
        self.sent()
            .iter()
            .filter(|logged| logged.segment.payload.length > 0)
            .map(|logged| logged.segment.payload.offset / u64::from(size))
            .collect()
    }

    /// Acknowledgement numbers, as positions in the peer's stream, of what was sent without data.
    pub(super) fn acks(&mut self) -> Vec<u32> {
        let first = self.peer.wrapping_add(1);
        self.sent()
            .iter()
            .filter(|logged| logged.segment.payload.length == 0)
            .map(|logged| logged.segment.acknowledgement.wrapping_sub(first))
            .collect()
    }

    /// The runs of the last SACK, as positions of the peer's stream.
    pub(super) fn last_sack(&self) -> Vec<(u32, u32)> {
        let first = self.peer.wrapping_add(1);
        let last = self.sent.last().expect("something was sent");
        let runs = last.segment.sack.iter();
        runs.map(|block| (block.start.wrapping_sub(first), block.end.wrapping_sub(first))).collect()
    }

    /// The window announced last, in bytes.
    pub(super) fn announced(&self) -> u32 {
        let last = self.sent.last().expect("something was sent");
        u32::from(last.segment.window) << self.end.receiver.window_scale
    }
}

impl Connection {
    /// The slow-start threshold in segments.
    pub(super) fn cc_threshold(&self) -> u32 {
        self.cc.state().ssthresh / self.mss
    }

    /// Segments per acknowledgement as BIC estimates them, in 1/16.
    pub(super) fn ack_ratio(&self) -> Option<u32> {
        self.cc.ack_ratio()
    }

    /// Checks that the counters match a recount.
    pub(super) fn check_accounts(&self) {
        let segments = self.board.segments();
        let count = |wanted: &dyn Fn(&super::scoreboard::Sent) -> bool| -> u32 {
            segments.iter().filter(|segment| wanted(segment)).count() as u32
        };
        assert_eq!(self.board.lost, count(&|segment| segment.lost), "lost segments");
        assert_eq!(self.board.retransmitted, count(&|segment| segment.retransmitted), "retransmitted");
        assert_eq!(self.board.again, count(&|segment| segment.ever_retransmitted), "sent more than once");
        assert_eq!(self.board.waiting, count(&|segment| segment.lost && !segment.retransmitted), "waiting");
        if self.has_sack {
            assert_eq!(self.board.sacked, count(&|segment| segment.sacked), "sacked segments");
        }
        assert_eq!(count(&|segment| segment.sacked && segment.lost), 0, "what arrived is not lost");
        let mut next = self.sender.unacknowledged;
        for segment in segments {
            assert_eq!(segment.start, next, "segments follow each other");
            next = segment.end();
        }
        if !segments.is_empty() {
            assert_eq!(next, self.sender.next, "the last segment ends at SND.NXT");
            // As long as our SYN-ACK has not been acknowledged, its timer is the only one.
            let is_opening = self.is_unconfirmed() && !self.handshake.timer.is_never();
            let is_timed = !self.timer.is_off() || is_opening;
            assert!(is_timed || self.has_closed, "no timer runs while data is outstanding");
        }
        assert!(
            self.sender.written - self.sender.unacknowledged.saturating_sub(1).min(self.sender.written)
                <= self.parameters.send_buffer
        );
        assert!(self.receiver.unread <= self.parameters.receive_buffer);
        assert!(self.receiver.held() <= self.parameters.receive_buffer, "the window was not kept");
        self.receiver.check_accounts();
    }
}
