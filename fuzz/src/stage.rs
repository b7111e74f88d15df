//! Two ends of a connection, a network between them that does what the script says, and packets of an
//! attacker who sees everything but the keys: they have the right ports and tags, and numbers near those that
//! are expected.

use std::collections::VecDeque;

use anabranch_transport::endpoint::{Command, Endpoint, HalfClose, Input, Message, Output, Reliability, StreamId};
use anabranch_transport::flow::{Ecn, IpVersion, PathId, Payload, Side};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::{Body, Packet};
use serde::de::DeserializeOwned;

use crate::memory::Held;
use crate::script::Script;
use crate::world::World;

/// Paths of every connection.
pub const PATHS: usize = 2;
/// The bytes of data that each of them carries.
pub const MTU: u32 = 1500;

/// The most outputs of an end before it waits, whatever came in: a whole window of small packets is far less.
const MOST_OUTPUTS: usize = 20_000;
/// Packets that the network holds; others are lost.
const MOST_IN_FLIGHT: usize = 512;
/// Inputs of one script.
const MOST_INPUTS: usize = 4_000;
/// What both ends, the network and their buffers may hold, in bytes. A receive buffer of 64 KiB full of
/// chunks of one byte, with 64 bytes for each to remember them by, is 4 MiB.
const MOST_HELD: usize = 8 << 20;

/// What a protocol's packets share, and what a stranger can learn from them.
pub trait Dialect {
    /// Notes a packet on the network.
    fn hear(&mut self, from: Side, packet: &Packet);

    /// A packet to this end that the script makes up, or [`None`] if it is not one.
    fn forge(&mut self, script: &mut Script<'_>, to: Side, world: &World) -> Option<Body>;

    /// Changes a packet to the next one like it, with later numbers.
    fn advance(&self, body: &mut Body, by: u8);
}

/// The beginning of a script about a connection.
pub struct Beginning<C> {
    /// The settings of both ends.
    pub config: C,
    /// The version of IP.
    pub ip: IpVersion,
    /// Whether the addresses of the ends may change.
    pub changes_addresses: bool,
    /// Whether the connection is opened before anything else happens.
    pub opens: bool,
}

impl<C: DeserializeOwned> Beginning<C> {
    /// The setting that the first byte of a script selects from these settings.
    pub fn read(script: &mut Script<'_>, settings: [&str; 8]) -> Self {
        let first = script.byte();
        let config = serde_json::from_str(settings[usize::from(first & 7)]).expect("settings");
        let ip = if first & 8 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 };
        Self { config, ip, changes_addresses: first & 16 != 0, opens: first & 32 == 0 }
    }
}

/// The connection and its network.
pub struct Stage<E, D> {
    ends: [E; 2],
    dialect: D,
    /// Switches half-close on or off, where the protocol has it.
    set_half_close: fn(&mut E, bool),
    /// Whether packets are emitted as bytes and parsed again on their way.
    worlds: [World; 2],
    now: Time,
    timeouts: [Time; 2],
    network: VecDeque<(Side, Box<Packet>)>,
    inputs: usize,
    offsets: [u64; 2],
    held: Held,
    /// With `FUZZ_TRACE` in the environment, everything is printed, to show what led to a crash.
    traces: bool,
}

impl<E: HalfClose, D> Stage<E, D> {
    /// The same stage, where the script may also switch half-close on and off.
    pub fn with_half_close(self) -> Self {
        Self { set_half_close: E::set_half_close, ..self }
    }
}

impl<E: Endpoint, D: Dialect> Stage<E, D> {
    /// Both ends as they are before anything happens.
    pub fn new(ends: [E; 2], dialect: D, ip: IpVersion, held: Held) -> Self {
        let world = World::new(ip);
        let [a, b] = world.keys;
        let back = World { sender: 2, keys: [b, a], ..world.clone() };
        Self {
            ends,
            dialect,
            set_half_close: |_, _| {},
            worlds: [world, back],
            now: Time::ZERO,
            timeouts: [Time::NEVER; 2],
            network: VecDeque::new(),
            inputs: 0,
            offsets: [0; 2],
            held,
            traces: std::env::var_os("FUZZ_TRACE").is_some(),
        }
    }

    /// Opens the connection, as most scripts begin.
    pub fn open(&mut self) {
        self.input(Side::A, Input::Command(Command::Connect));
        for _ in 0..32 {
            let Some((to, packet)) = self.network.pop_front() else { return };
            self.now = self.now + Duration::from_millis(10);
            self.input(to, Input::Packet(packet));
        }
    }

    /// Plays the script.
    pub fn play(&mut self, script: &mut Script<'_>) {
        while !script.is_over() && self.inputs < MOST_INPUTS {
            let act = script.byte();
            let side = if act & 0x80 == 0 { Side::A } else { Side::B };
            match act & 0x0f {
                0 | 1 => self.deliver(usize::from(act >> 4 & 7)),
                2 => drop(self.network.pop_front()),
                3 => {
                    if let Some(packet) = self.network.front().cloned() {
                        self.network.push_back(packet);
                    }
                }
                4 => self.pass(Duration::from_micros(u64::from(script.word()) * 100)),
                5 => self.pass(Duration::from_millis(1 << (script.byte() & 0x0f))),
                6 => {
                    let next = self.timeouts[0].min(self.timeouts[1]);
                    if !next.is_never() {
                        self.pass(Duration::from_nanos(next.saturating_since(self.now).as_nanos()));
                    }
                }
                7 => {
                    self.early(side);
                }
                8 => self.send(side, script),
                9 => self.command(side, script.byte()),
                10 => self.mark(script.byte()),
                _ => self.forge(side, script),
            }
            let held = self.held.bytes();
            assert!(held <= MOST_HELD, "{held} bytes are held after {} inputs", self.inputs);
        }
        // The rest must come to rest, or go on waiting, but not spin.
        for _ in 0..64 {
            let next = self.timeouts[0].min(self.timeouts[1]);
            if next.is_never() {
                return;
            }
            self.pass(Duration::from_nanos(next.saturating_since(self.now).as_nanos()));
            self.network.clear();
        }
    }

    fn deliver(&mut self, place: usize) {
        let place = place.min(self.network.len().saturating_sub(1));
        if let Some((to, packet)) = self.network.remove(place) {
            self.input(to, Input::Packet(packet));
        }
    }

    /// Lets time pass; timeouts come when they are due.
    fn pass(&mut self, length: Duration) {
        let end = self.now + length;
        for _ in 0..200 {
            let next = self.timeouts[0].min(self.timeouts[1]);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            let side = if self.timeouts[0] <= self.timeouts[1] { Side::A } else { Side::B };
            self.input(side, Input::Timeout);
            assert!(self.timeouts[side.index()] > self.now, "a timeout does not lie ahead");
            if self.inputs >= MOST_INPUTS {
                break;
            }
        }
        let next = self.timeouts[0].min(self.timeouts[1]);
        self.now = self.now.max(end.min(next));
    }

    /// Checks that a timeout before its time does nothing.
    fn early(&mut self, side: Side) {
        let before = self.timeouts[side.index()];
        if before > self.now {
            let queued = self.network.len();
            self.input(side, Input::Timeout);
            assert_eq!((self.network.len(), self.timeouts[side.index()]), (queued, before), "it was early");
        }
    }

    fn send(&mut self, side: Side, script: &mut Script<'_>) {
        let how = script.byte();
        let length = 1 + u32::from(script.word() % 4096);
        let reliability = match how >> 4 & 3 {
            0 => Reliability::Reliable,
            1 => Reliability::LimitedRetransmissions(u32::from(how >> 6)),
            2 => Reliability::Timed(Duration::from_millis(20 << (how >> 6))),
            _ => Reliability::Priority(u32::from(how >> 6)),
        };
        let payload = Payload { offset: self.offsets[side.index()], length };
        self.offsets[side.index()] += u64::from(length);
        let (stream, unordered, ppid) = (StreamId(u64::from(how & 3)), how & 4 != 0, u32::from(how));
        let message = Message { stream, ppid, unordered, reliability, ..Message::new(payload) };
        self.input(side, Input::Command(Command::Send(message)));
    }

    fn command(&mut self, side: Side, which: u8) {
        let path = PathId(which >> 4 & 3);
        let command = match which & 0x0f {
            0 => Command::Abort,
            1 | 2 => Command::Shutdown,
            3 | 4 => Command::Connect,
            5 => Command::AddAddress(path),
            6 => Command::DeleteAddress(path),
            7 => Command::PauseReading,
            8 => Command::ResumeReading,
            9 => Command::SetPeerPrimary(path),
            10 => Command::SetPrimary(path),
            _ => {
                (self.set_half_close)(&mut self.ends[side.index()], which & 0x10 != 0);
                return;
            }
        };
        self.input(side, Input::Command(command));
    }

    /// Marks the next packet, or lets it come on another path.
    fn mark(&mut self, how: u8) {
        if let Some((_, packet)) = self.network.front_mut() {
            packet.ecn = [Ecn::Ce, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct][usize::from(how & 3)];
            if how & 0x80 != 0 {
                packet.path = PathId(how >> 2 & 3);
            }
        }
    }

    fn forge(&mut self, to: Side, script: &mut Script<'_>) {
        let how = script.byte();
        // One path more than exist.
        let path = PathId((how & 3).min(PATHS as u8));
        let world = &self.worlds[to.peer().index()];
        let Some(mut body) = self.dialect.forge(script, to, world) else { return };
        let times = if how & 0x80 == 0 { 1 } else { 1 + u16::from(script.byte()) };
        let step = script.byte();
        for _ in 0..times {
            let size = world_size(self.worlds[0].ip, &body);
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(how >> 2 & 3)];
            self.input(to, Input::Packet(Box::new(Packet { path, ecn, size, body: body.clone() })));
            self.dialect.advance(&mut body, step);
            if self.inputs >= MOST_INPUTS {
                break;
            }
        }
    }

    /// Gives an end an input and takes what it wants done.
    fn input(&mut self, side: Side, input: Input) {
        self.inputs += 1;
        if self.traces {
            println!("{} {side:?} <- {input:?}", self.now);
        }
        self.ends[side.index()].handle_input(self.now, input);
        for _ in 0..MOST_OUTPUTS {
            let output = self.ends[side.index()].poll_output(self.now);
            if self.traces {
                println!("{} {side:?} -> {output:?}", self.now);
            }
            match output {
                Output::Event(_) => {}
                Output::Timeout(at) => {
                    assert!(at >= self.now, "a timeout lies in the past");
                    self.timeouts[side.index()] = at;
                    return;
                }
                Output::Transmit(packet) => self.transmit(side, packet),
            }
        }
        panic!("it never waits");
    }

    fn transmit(&mut self, side: Side, packet: Box<Packet>) {
        assert!(packet.size <= MTU, "too large for its path: {packet:?}");
        assert!(packet.path.index() < PATHS);
        self.dialect.hear(side, &packet);
        let bytes = packet.emit(None, &self.worlds[side.index()]);
        assert_eq!(bytes.len(), packet.size as usize);
        if self.network.len() < MOST_IN_FLIGHT {
            self.network.push_back((side.peer(), packet));
        }
    }
}

fn world_size(ip: IpVersion, body: &Body) -> u32 {
    ip.header_bytes()
        + match body {
            Body::Mptcp(segment) => segment.tcp.wire_size() + segment.option_bytes,
            Body::Sctp(packet) => packet.wire_size(),
            Body::Tcp(segment) => segment.wire_size(),
            Body::Foreign(_) | Body::Fragment(_) | Body::Quic(_) | Body::Rtcp(_) | Body::Udp(_) => 0,
        }
}
