//! A deterministic network of several paths between two endpoints, for tests.

use std::collections::BTreeMap;

use super::{Config, Connection, Profile};
use crate::endpoint::{CloseReason, Command, Endpoint, Event, Input, Message, Output, Received};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::rng::{Draw as _, Rng, Streams};
use crate::tcp;
pub(super) use crate::testing::ms;
use crate::time::{Duration, Time};
use crate::wire::mptcp::Options;
use crate::wire::{self, Body, Packet};

/// What happens to packets on one path, in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) delay: Duration,
    /// Packets take up to this much longer, uniformly distributed, so that they overtake each other.
    pub(super) jitter: Duration,
    pub(super) loss: f64,
    pub(super) duplication: f64,
    /// Whether nothing arrives.
    pub(super) is_dead: bool,
    /// The rate in bit/s; without one, packets take no time.
    pub(super) rate: Option<u64>,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            delay: ms(20),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplication: 0.0,
            is_dead: false,
            rate: None,
        }
    }
}

/// A segment that was sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Logged {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) path: u8,
    pub(super) size: u32,
    pub(super) kind: &'static str,
    pub(super) payload: Payload,
    pub(super) options: Options,
    pub(super) tcp: wire::tcp::Segment,
}

/// One of the two ends. The peer of an MPTCP end may be one of TCP.
pub(super) enum End {
    Mptcp(Box<Connection>),
    Tcp(Box<tcp::Connection>),
}

impl End {
    fn endpoint(&mut self) -> &mut dyn Endpoint {
        match self {
            Self::Mptcp(end) => &mut **end,
            Self::Tcp(end) => &mut **end,
        }
    }
}

/// A filter that decides which packets to drop.
pub(super) type Filter = Box<dyn FnMut(&Logged) -> bool>;

/// What something between the ends does with the packets of each side.
pub(super) type Meddle = Box<dyn FnMut(Side, &mut Packet)>;

/// Two endpoints and the wires between them.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) ends: [End; 2],
    /// The wires by path.
    pub(super) wires: Vec<Wire>,
    pub(super) log: Vec<Logged>,
    pub(super) events: [Vec<(Time, Event)>; 2],
    pub(super) drop_if: Filter,
    pub(super) meddle: Meddle,
    timeouts: [Time; 2],
    in_flight: BTreeMap<(Time, u64), (Side, Packet)>,
    /// When the wire is free again, by path and direction.
    free_at: Vec<[Time; 2]>,
    sequence: u64,
    rng: Rng,
    to_write: [Payload; 2],
    pub(super) finishes: [bool; 2],
}

pub(super) fn config(profile: Profile) -> Config {
    Config { profile, ..Config::default() }
}

fn streams(seed: u64) -> Streams {
    Streams { seed, replication: 0 }
}

fn mptcp(config: &Config, side: Side, paths: usize, seed: u64) -> End {
    let mut config = config.clone();
    config.backup.retain(|path| usize::from(*path) < paths);
    let parameters = config.resolve().expect("the configuration is possible");
    let name = format!("flow/test/mptcp/{}", side.name());
    let mtus = vec![1_500; paths];
    End::Mptcp(Box::new(Connection::new(&parameters, side, &mtus, IpVersion::Ipv4, streams(seed), &name)))
}

/// An end that has only TCP.
pub(super) fn plain(config: &tcp::Config, side: Side) -> End {
    let parameters = config.resolve().expect("the configuration is possible");
    let name = format!("flow/test/tcp/{}", side.name());
    let end = tcp::Connection::new(&parameters, side, &[1_500], IpVersion::Ipv4, streams(1), &name);
    End::Tcp(Box::new(end))
}

impl Pair {
    /// Two ends with as many paths as there are wires.
    pub(super) fn seeded(configs: [&Config; 2], wires: Vec<Wire>, seed: u64) -> Self {
        let paths = wires.len();
        let end = |side: Side| mptcp(configs[side.index()], side, paths, seed);
        Self {
            now: Time::ZERO,
            ends: [end(Side::A), end(Side::B)],
            log: Vec::new(),
            events: [Vec::new(), Vec::new()],
            drop_if: Box::new(|_| false),
            meddle: Box::new(|_, _| {}),
            timeouts: [Time::NEVER; 2],
            in_flight: BTreeMap::new(),
            free_at: vec![[Time::ZERO; 2]; paths],
            sequence: 0,
            rng: streams(seed).stream("network"),
            to_write: [Payload::default(); 2],
            finishes: [false; 2],
            wires,
        }
    }

    pub(super) fn new(config: &Config, wires: Vec<Wire>) -> Self {
        Self::seeded([config, config], wires, 1)
    }

    /// A pair that has exchanged a byte and so has all its subflows, at 1 s; the log begins after that.
    pub(super) fn open(config: &Config, wires: Vec<Wire>) -> Self {
        let mut pair = Self::new(config, wires);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 1);
        pair.run_until(Time::from_secs(1), |_| false);
        assert_eq!(pair.received_bytes(Side::B), 1);
        pair.log.clear();
        pair
    }

    pub(super) fn end(&self, side: Side) -> &Connection {
        match &self.ends[side.index()] {
            End::Mptcp(end) => end,
            End::Tcp(_) => panic!("it knows TCP only"),
        }
    }

    pub(super) fn end_mut(&mut self, side: Side) -> &mut Connection {
        match &mut self.ends[side.index()] {
            End::Mptcp(end) => end,
            End::Tcp(_) => panic!("it knows TCP only"),
        }
    }

    pub(super) fn command(&mut self, side: Side, command: Command) {
        self.input(side, Input::Command(command));
    }

    /// Makes an end write this many bytes more, as far as there is room now, and the rest later.
    pub(super) fn write(&mut self, side: Side, length: u32) {
        let left = &mut self.to_write[side.index()];
        let had_nothing = left.length == 0;
        left.length += length;
        if had_nothing {
            self.write_left(side);
        }
    }

    /// Makes an end write this many bytes more, and close after that.
    pub(super) fn write_and_close(&mut self, side: Side, length: u32) {
        self.finishes[side.index()] = true;
        self.write(side, length);
    }

    /// Starts the next connection with a new stream.
    pub(super) fn start_over(&mut self) {
        self.to_write = [Payload::default(); 2];
        self.events = [Vec::new(), Vec::new()];
    }

    fn write_left(&mut self, side: Side) {
        let length = std::mem::take(&mut self.to_write[side.index()].length);
        let offset = self.to_write[side.index()].offset;
        self.to_write[side.index()].offset += u64::from(length);
        let payload = Payload { offset, length };
        let message = Message::new(payload);
        self.command(side, Command::Send(message));
        if self.to_write[side.index()].length == 0 && self.finishes[side.index()] {
            self.finishes[side.index()] = false;
            self.command(side, Command::Shutdown);
        }
    }

    /// Gives an end one input and drains it.
    pub(super) fn input(&mut self, side: Side, input: Input) {
        let now = self.now;
        let mut is_writable = false;
        self.ends[side.index()].endpoint().handle_input(now, input);
        loop {
            match self.ends[side.index()].endpoint().poll_output(now) {
                Output::Event(event) => {
                    match event {
                        Event::Refused(rest) => {
                            let left = &mut self.to_write[side.index()];
                            left.offset = rest.offset;
                            left.length += rest.length;
                        }
                        Event::Writable => is_writable = true,
                        _ => {}
                    }
                    self.events[side.index()].push((now, event));
                }
                Output::Timeout(at) => {
                    self.timeouts[side.index()] = at;
                    break;
                }
                Output::Transmit(packet) => self.transmit(side, &packet),
            }
        }
        if let End::Mptcp(end) = &self.ends[side.index()] {
            end.check_receiver();
            end.check_sender();
            end.subflows.check();
        }
        if is_writable {
            self.write_left(side);
        }
    }

    fn transmit(&mut self, from: Side, packet: &Packet) {
        let (options, tcp, kind, option_bytes) = match &packet.body {
            Body::Mptcp(segment) => {
                (segment.options, &segment.tcp, segment.describe().0, segment.option_bytes)
            }
            Body::Tcp(segment) => (Options::default(), segment, segment.describe().0, 0),
            body => panic!("not TCP: {body:?}"),
        };
        assert!(packet.size <= 1_500, "{} bytes", packet.size);
        assert!(tcp.option_bytes() + option_bytes <= wire::tcp::MAX_OPTION_BYTES, "{tcp:?} {options:?}");
        assert_eq!(packet.size, 20 + tcp.wire_size() + option_bytes);
        let (path, payload, size) = (packet.path.0, tcp.payload, packet.size);
        let logged = Logged { at: self.now, from, path, size, kind, payload, options, tcp: tcp.clone() };
        let wire = self.wires[packet.path.index()];
        let copies = 1 + usize::from(self.rng.bernoulli(wire.duplication));
        for _ in 0..copies {
            let is_lost = self.rng.bernoulli(wire.loss);
            if is_lost || wire.is_dead || (self.drop_if)(&logged) {
                continue;
            }
            let jitter = self.rng.duration_between(Duration::ZERO, wire.jitter);
            self.sequence += 1;
            let free = &mut self.free_at[packet.path.index()][from.index()];
            if let Some(rate) = wire.rate {
                *free = (*free).max(self.now) + Duration::from_nanos(u64::from(size) * 8_000_000_000 / rate);
            }
            let at = self.now.max(if wire.rate.is_some() { *free } else { self.now }) + wire.delay + jitter;
            let mut packet = packet.clone();
            (self.meddle)(from, &mut packet);
            self.in_flight.insert((at, self.sequence), (from.peer(), packet));
        }
        self.log.push(logged);
    }

    /// Lets this much time pass.
    pub(super) fn run_for(&mut self, length: Duration) {
        self.run_until(self.now + length, |_| false);
    }

    /// Lets time pass until `end`, or until `is_enough` is true.
    pub(super) fn run_until(&mut self, end: Time, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            let arrival = self.in_flight.keys().next().map_or(Time::NEVER, |&(at, _)| at);
            let timer = self.timeouts[0].min(self.timeouts[1]);
            if arrival.min(timer) > end {
                self.now = end.max(self.now);
                return;
            }
            if timer <= arrival {
                assert!(timer >= self.now, "a timeout in the past: {timer} at {}", self.now);
                self.now = timer;
                let side = if self.timeouts[0] == timer { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
                // The contract of `endpoint::Endpoint`.
                assert!(self.timeouts[side.index()] > self.now, "no progress at {}", self.now);
            } else {
                let ((at, _), (to, packet)) = self.in_flight.pop_first().expect("there is one");
                self.now = at;
                self.input(to, Input::Packet(Box::new(packet)));
            }
        }
    }

    pub(super) fn heard(&self, side: Side, wanted: &Event) -> bool {
        self.events[side.index()].iter().any(|(_, event)| event == wanted)
    }

    /// Number of bytes that an end received. Panics unless they came once and in order.
    pub(super) fn received_bytes(&self, side: Side) -> u64 {
        self.events[side.index()].iter().fold(0, |next, (_, event)| match event {
            Event::Received(Received { payload, .. }) => {
                assert_eq!(payload.offset, next, "bytes come once and in order");
                next + u64::from(payload.length)
            }
            _ => next,
        })
    }

    pub(super) fn closed(&self, side: Side) -> Option<CloseReason> {
        self.events[side.index()].iter().find_map(|&(_, event)| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    /// Words for what this end sent on this path.
    pub(super) fn kinds(&self, side: Side, path: u8) -> Vec<&'static str> {
        let of = self.log.iter().filter(|logged| logged.from == side && logged.path == path);
        of.map(|logged| logged.kind).collect()
    }

    /// Bytes of data that this end sent on this path, retransmissions included.
    pub(super) fn bytes_on(&self, side: Side, path: u8) -> u64 {
        let of = self.log.iter().filter(|logged| logged.from == side && logged.path == path);
        of.map(|logged| u64::from(logged.payload.length)).sum()
    }

    /// Runs until both ends have closed, or this many seconds have passed.
    pub(super) fn run_to_the_end(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        self.run_until(end, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    }

    pub(super) fn path(index: u8) -> PathId {
        PathId(index)
    }
}
