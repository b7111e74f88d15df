//! A deterministic network of several paths between two endpoints, for tests.

use super::{Config, Connection, Profile};
use crate::endpoint::{Command, Endpoint, Input, Output, Service};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::rng::Streams;
use crate::tcp;
use crate::testing::Tested;
pub(super) use crate::testing::{Wire, ms};
use crate::time::Time;
use crate::wire::mptcp::Options;
use crate::wire::{self, Body, Packet};

/// A segment that was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logged {
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
pub(crate) enum End {
    Mptcp(Box<Connection>),
    Tcp(Box<tcp::Connection>),
}

macro_rules! either {
    ($self:expr, $end:ident => $call:expr) => {
        match $self {
            End::Mptcp($end) => $call,
            End::Tcp($end) => $call,
        }
    };
}

impl Endpoint for End {
    fn protocol(&self) -> &'static str {
        either!(self, end => end.protocol())
    }

    fn service(&self) -> Service {
        either!(self, end => end.service())
    }

    fn owns(&self, packet: &Packet) -> bool {
        either!(self, end => end.owns(packet))
    }

    fn handle_input(&mut self, now: Time, input: Input) {
        either!(self, end => end.handle_input(now, input));
    }

    fn poll_output(&mut self, now: Time) -> Output {
        either!(self, end => end.poll_output(now))
    }
}

/// A filter that decides which packets to drop.
pub(crate) type Filter = Box<dyn FnMut(&Logged) -> bool>;

/// Two endpoints and the wires between them by path, for both directions.
pub(super) type Pair = crate::testing::Pair<End>;

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
        Self::between([end(Side::A), end(Side::B)], wires, streams(seed))
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

    /// Starts the next connection with a new stream.
    pub(super) fn start_over(&mut self) {
        self.to_write = [Payload::default(); 2];
        self.events = [Vec::new(), Vec::new()];
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

    pub(super) fn path(index: u8) -> PathId {
        PathId(index)
    }
}

impl Tested for End {
    type Wires = Vec<Wire>;
    type Logged = Logged;
    type Filter = Filter;

    fn wire(wires: &Vec<Wire>, path: PathId, _from: Side) -> Wire {
        wires[path.index()]
    }

    fn keep_all() -> Filter {
        Box::new(|_| false)
    }

    fn drops(filter: &mut Filter, logged: &Logged, _packet: &Packet) -> bool {
        filter(logged)
    }

    fn logged(at: Time, from: Side, packet: &Packet) -> Logged {
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
        Logged { at, from, path, size, kind, payload, options, tcp: tcp.clone() }
    }

    fn check(&self) {
        if let Self::Mptcp(end) = self {
            end.check_receiver();
            end.check_sender();
            end.subflows.check();
        }
    }
}
