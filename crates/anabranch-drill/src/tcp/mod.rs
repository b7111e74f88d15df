//! TCP: sockets, segments and settings of Linux for scripts.
//!
//! As in packetdrill one connection at a time is under test: the one that the last `connect` opened or that
//! the first packet to a listening socket begins. The application's part of a socket that an endpoint does
//! not have is here: which descriptor is what, what was read of what arrived, errors that wait to be told.

mod calls;
mod connection;
mod end;
mod epoll;
mod events;
mod fast_open;
mod fast_open_settings;
mod flow;
mod info;
mod mptcp;
mod options;
mod packets;
mod paths;
mod render;
mod settings;
mod writing;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_transport::endpoint::Site;
use anabranch_transport::flow::{IpVersion, Side};
use anabranch_transport::rng::Streams;
use anabranch_transport::tcp;
use anabranch_transport::tcp::fast_open::{Client, Remembered};
use anabranch_transport::time::Time;
use connection::Connection;
use end::{End, First, Listener};
use flow::Flow;
use settings::Settings;

use crate::Options;
use crate::executor::{Executor, Reply};
use crate::python::Value;
use crate::script::{Action, Body, Call, Packet, Script};
use crate::verdict::{Step, Stop};

/// The port at which scripts listen and to which they connect if they do not name one.
const SERVER_PORT: u16 = 8_080;
/// The first port of peers and of connections that the endpoint opens.
const FIRST_PORT: u16 = 40_000;

/// A descriptor.
#[derive(Debug, Default)]
struct Descriptor {
    role: Role,
    /// Whether calls do not wait (`O_NONBLOCK`).
    is_nonblocking: bool,
    /// Whether a call has told the application that the connection is open.
    has_learnt: bool,
    /// Whether `recvmsg` tells how much is left to read (`TCP_INQ`).
    tells_unread: bool,
    settings: Settings,
}

/// The role of a descriptor.
#[derive(Debug, Default)]
enum Role {
    /// A connection, by its number.
    Connection(usize),
    /// A socket whose SYN waits for the first write (`TCP_FASTOPEN_CONNECT`).
    Deferred,
    /// A listening socket.
    Listening { listener: Box<Listener>, port: u16 },
    /// A socket that has not been used yet.
    #[default]
    New,
    /// A descriptor of `epoll`.
    Watching(Vec<epoll::Watch>),
}

/// The endpoint that packets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnderTest {
    Connection(usize),
    /// The socket with this descriptor waits for the first packet of a connection.
    Listening(i64),
    Nothing,
}

/// TCP's executor.
pub(crate) struct TcpExecutor {
    descriptors: BTreeMap<i64, Descriptor>,
    connections: Vec<Connection>,
    under_test: UnderTest,
    /// Settings of the system, of which each socket begins with a copy.
    settings: Settings,
    ip: IpVersion,
    mtu: u32,
    /// Whether every segment is looked at by itself.
    is_strict: bool,
    /// The length of a tick of timestamps in microseconds, if they are compared.
    tick_micros: u64,
    scales_echoes: bool,
    tolerance_micros: u64,
    ports: u16,
    /// Our address and the peer's.
    addresses: [IpAddr; 2],
    /// What is known of the peer as a server that is opened fast.
    remembered: Remembered,
    /// Answers to packets that come to a listening socket and open nothing, or to a closed port.
    replies: Vec<(Time, Box<anabranch_transport::wire::Packet>)>,
}

impl TcpExecutor {
    pub(crate) fn new(script: &Script, options: &Options<'_>) -> Step<Self> {
        let number = |name: &str, default: u64| -> Step<u64> {
            let text = script.option(name);
            text.map_or(Ok(default), |text| {
                text.parse().map_err(|_| Stop::needs(format!("a number in --{name}={text}")))
            })
        };
        for option in &script.options {
            const KNOWN: [&str; 11] = [
                "ip_version",
                "local_ip",
                "mtu",
                "non_fatal",
                "remote_ip",
                "send_omit_free",
                "strict_segments",
                "tcp_ts_ecr_scaled",
                "tcp_ts_tick_usecs",
                "tolerance_percent",
                "tolerance_usecs",
            ];
            if option.name == "mss" {
                return Err(Stop::needs("a device that puts segments together (--mss)"));
            }
            if !KNOWN.contains(&option.name.as_str()) {
                return Err(Stop::needs(format!("the option --{}", option.name)));
            }
        }
        // The suite's runner chooses by the names of scripts; those about ICMPv6 can be told otherwise.
        let is_ipv6 = script.statements.iter().any(|statement| match &statement.action {
            Action::Packet(Packet { body: Body::Icmp(icmp), .. }) => icmp.kind == "packet_too_big",
            _ => false,
        });
        let ip = match script.option("ip_version") {
            None if is_ipv6 => IpVersion::Ipv6,
            None | Some("ipv4") => IpVersion::Ipv4,
            Some("ipv6") => IpVersion::Ipv6,
            Some(other) => return Err(Stop::needs(format!("--ip_version={other}"))),
        };
        Ok(Self {
            descriptors: BTreeMap::new(),
            connections: Vec::new(),
            under_test: UnderTest::Nothing,
            settings: Settings::new(options.profile)?,
            ip,
            mtu: number("mtu", 1_500)? as u32,
            is_strict: script.option("strict_segments").is_some(),
            tick_micros: number("tcp_ts_tick_usecs", 0)?,
            scales_echoes: script.option("tcp_ts_ecr_scaled").is_some(),
            tolerance_micros: number("tolerance_usecs", 4_000)?,
            ports: 0,
            addresses: fast_open::addresses(script, ip)?,
            remembered: Remembered::default(),
            replies: Vec::new(),
        })
    }

    fn next_port(&mut self) -> u16 {
        self.ports += 1;
        FIRST_PORT + self.ports - 1
    }

    fn streams(&self) -> Streams {
        Streams { seed: 1, replication: self.connections.len() as u64 }
    }

    fn site<'a>(&self, side: Side, mtus: &'a [u32]) -> Site<'a> {
        Site { side, mtus, ip: self.ip, streams: self.streams(), connection: "drill" }
    }

    /// Builds what waits at a port.
    fn listen(&self, settings: &Settings) -> Step<(Box<Listener>, u16)> {
        let config = tcp::Config { destination_port: Some(SERVER_PORT), ..settings.config() };
        let mtus = [settings.mtu(self.mtu)];
        let listener = Listener::build(config, settings.is_multipath, &self.site(Side::B, &mtus));
        Ok((Box::new(listener.map_err(Stop::needs)?), SERVER_PORT))
    }

    /// Opens a connection; with a `client`, fast.
    fn connect(&mut self, now: Time, settings: &Settings, client: Option<Client>) -> Step<usize> {
        let port = self.next_port();
        let config = tcp::Config {
            source_port: Some(port),
            destination_port: Some(SERVER_PORT),
            ..settings.opening_config()
        };
        let mtus = [settings.mtu(self.mtu)];
        let end = End::build(config, settings.is_multipath, &self.site(Side::A, &mtus));
        let mut end = end.map_err(Stop::needs)?;
        if let Some(client) = client {
            end.open_fast(client);
        }
        self.connections.push(Connection::open(now, end, [port, SERVER_PORT], self.mtu, settings));
        Ok(self.connections.len() - 1)
    }

    /// Answers a packet that comes to a closed port (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, now: Time, packet: &Packet) -> Step<()> {
        let Body::Tcp(tcp) = &packet.body else { return Err(Stop::needs("ICMP for a port that is closed")) };
        let [remote, own] = tcp.ports.unwrap_or([FIRST_PORT, SERVER_PORT]);
        let packet = packets::first(packet, tcp, [own, remote], None)?;
        self.replies.extend(tcp::refuse(&packet, self.ip).map(|reply| (now, reply)));
        Ok(())
    }

    /// Finds the connection of a packet that comes to a listening socket, which opens one for the first
    /// packet.
    fn take_first(&mut self, now: Time, descriptor: i64, packet: &Packet) -> Step<()> {
        let Body::Tcp(tcp) = &packet.body else { return Err(Stop::needs("ICMP for a socket that listens")) };
        let server = self.server(descriptor);
        let remote = tcp.ports.map_or_else(|| self.next_port(), |ports| ports[0]);
        let Some(Descriptor { role: Role::Listening { listener, port }, settings, .. }) =
            self.descriptors.get_mut(&descriptor)
        else {
            return Err(Stop::failed("nothing", "the socket that listened was closed"));
        };
        let ports = [tcp.ports.map_or(*port, |ports| ports[1]), remote];
        let named = flow::names(&packet.addresses, true);
        // From then on, the keys that the peer names in its first packet are known.
        let mut told = mptcp::Told::default();
        let mut flow = Flow::new(named, ports);
        flow.peer_first = Some(tcp.start);
        let proof = mptcp::Proof { keys: [0; 2], nonces: flow.nonces };
        let options = mptcp::options(&mut told, proof, tcp, None)?;
        let packet = packets::first(packet, tcp, ports, options)?;
        listener.set_fast_open(server);
        match listener.handle_packet(now, Box::new(packet)) {
            First::Accepted(end) => {
                let mut connection = Connection::accepted(now, end, flow, self.mtu, settings, descriptor);
                connection.told = told;
                self.connections.push(connection);
                self.under_test = UnderTest::Connection(self.connections.len() - 1);
            }
            First::Nothing => {}
            First::Reply(packet) => self.replies.push((now, packet)),
        }
        Ok(())
    }
}

impl Executor for TcpExecutor {
    fn set(&mut self, name: &str, value: &str) -> Step<()> {
        self.settings.set(name, value)
    }

    fn command(&mut self, _now: Time, words: &[&str]) -> Step<()> {
        self.settings.command(words)
    }

    fn call(&mut self, now: Time, call: &Call) -> Step<Reply> {
        self.system_call(now, call)
    }

    fn forget_peers(&mut self) {
        self.remembered = Remembered::default();
    }

    fn inject(&mut self, now: Time, packet: &Packet) -> Step<()> {
        let packet = &*self.with_cookie(packet);
        match self.under_test {
            UnderTest::Connection(index) => {
                self.connections[index].inject(now, packet, self.scales_echoes)?;
                self.learn(index);
                Ok(())
            }
            UnderTest::Listening(descriptor) => self.take_first(now, descriptor, packet),
            UnderTest::Nothing => self.refuse(now, packet),
        }
    }

    fn next_timeout(&self) -> Time {
        self.connections.iter().map(Connection::next_timeout).min().unwrap_or(Time::NEVER)
    }

    fn on_timeout(&mut self, now: Time) {
        for connection in &mut self.connections {
            if connection.next_timeout() <= now {
                connection.on_timeout(now);
            }
        }
    }

    fn expect(&mut self, packet: &Packet) -> Step<Option<(Time, String)>> {
        let packet = &*self.with_cookie(packet);
        let Body::Tcp(wanted) = &packet.body else {
            return Err(Stop::needs("packets out of other protocols than TCP"));
        };
        match self.under_test {
            UnderTest::Connection(index) => {
                let check = flow::Check {
                    is_strict: self.is_strict,
                    tick_micros: self.tick_micros,
                    tolerance_micros: self.tolerance_micros,
                };
                self.connections[index].expect(packet, wanted, &check)
            }
            _ => packets::expect_reply(&mut self.replies, packet, wanted),
        }
    }

    fn value(&self, now: Time, name: &str) -> Option<Value> {
        let connection = match self.under_test {
            UnderTest::Connection(index) => Some(&self.connections[index]),
            _ => None,
        };
        info::constant(name).or_else(|| info::value(connection?, now, name)).map(Value::Int)
    }
}
