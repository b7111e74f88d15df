//! Fast Open (RFC 7413) in the words of Linux: settings, options of sockets, and calls that open a connection
//! and write at once; and messages of ICMP about connections that are being opened.

use std::borrow::Cow;
use std::net::IpAddr;

use anabranch_transport::endpoint::Command;
use anabranch_transport::flow::IpVersion;
use anabranch_transport::tcp::fast_open::{Client, Key, Server};
use anabranch_transport::time::Time;
use anabranch_transport::wire::tcp::{self, RareOptions, Segment, UnknownOption};

use super::calls::{DONTWAIT, FASTOPEN};
use super::connection::Connection;
use super::fast_open_settings::{CLIENT, CLIENT_WITHOUT_COOKIE, SERVER, SERVER_WITHOUT_COOKIE};
use super::render::hexadecimal;
use super::settings::Settings;
use super::{Role, TcpExecutor, UnderTest};
use crate::executor::Reply;
use crate::script::{Body, Call, Icmp, Packet, Script, TcpOption, Term};
use crate::verdict::{Step, Stop};

/// The suite's name for the server's cookie: its runner defines what that is for the addresses below and the
/// key that the scripts set.
const COOKIE: &str = "TFO_COOKIE";
/// The suite's name for the code of an ICMP message, of which its scripts expect `EHOSTUNREACH`.
const CODE: &str = "CODE";

/// The key in the form of `TCP_FASTOPEN_KEY`: 16 bytes.
fn key_of_bytes(text: &str) -> Option<Key> {
    let bytes: Vec<u8> = text
        .split("\\x")
        .skip(1)
        .map(|digits| u8::from_str_radix(digits, 16))
        .collect::<Result<_, _>>()
        .ok()?;
    let (words, rest) = bytes.as_chunks::<8>();
    match words {
        [low, high] if rest.is_empty() => Some(Key([low, high].map(|word| u64::from_le_bytes(*word)))),
        _ => None,
    }
}

/// Our address and the peer's: those of the options, or packetdrill's own.
pub(super) fn addresses(script: &Script, ip: IpVersion) -> Step<[IpAddr; 2]> {
    let defaults = match ip {
        IpVersion::Ipv4 => ["192.168.0.1", "192.0.2.1"],
        IpVersion::Ipv6 => ["fd3d:0a0b:17d6::1", "fd3d:fa7b:d17d::1"],
    };
    let address = |name, default| {
        let text = script.option(name).unwrap_or(default);
        text.parse().map_err(|_| Stop::needs(format!("an address in --{name}={text}")))
    };
    Ok([address("local_ip", defaults[0])?, address("remote_ip", defaults[1])?])
}

/// Adds the option to a segment that comes in. One that cannot be a cookie is like an unknown option.
pub(super) fn add_option(segment: &mut Segment, cookie: &str, is_experimental: bool) -> Step<()> {
    let digits: Vec<char> = cookie.chars().collect();
    let bytes: Result<Vec<u8>, _> =
        digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16)).collect();
    let bytes = bytes.map_err(|_| Stop::needs(format!("a cookie {cookie}")))?;
    let rare = segment.rare.get_or_insert_with(|| Box::new(RareOptions::default()));
    match tcp::FastOpen::new(&bytes, is_experimental) {
        Some(option) => rare.fast_open = Some(option),
        None => rare.unknown.push(UnknownOption { kind: 34, value: bytes.into() }),
    }
    Ok(())
}

impl TcpExecutor {
    /// The packet with the server's cookie in the place of the suite's name for it.
    pub(super) fn with_cookie<'a>(&self, packet: &'a Packet) -> Cow<'a, Packet> {
        let is_named = |option: &TcpOption| {
            matches!(option, TcpOption::FastOpen(cookie) | TcpOption::FastOpenExperimental(cookie)
                if cookie == COOKIE)
        };
        let mut packet = Cow::Borrowed(packet);
        let options = match &packet.body {
            Body::Tcp(tcp) => tcp.options.iter().flatten(),
            _ => return packet,
        };
        if !options.clone().any(is_named) {
            return packet;
        }
        let [own, peer] = self.addresses;
        let known = hexadecimal(&self.settings.fast_open.key.cookie(peer, own));
        if let Body::Tcp(tcp) = &mut packet.to_mut().body {
            for option in tcp.options.iter_mut().flatten().filter(|option| is_named(option)) {
                if let TcpOption::FastOpen(cookie) | TcpOption::FastOpenExperimental(cookie) = option {
                    cookie.clone_from(&known);
                }
            }
        }
        packet
    }

    /// How a socket with these settings opens fast.
    pub(super) fn client(&self, settings: &Settings) -> Client {
        let without = self.settings.fast_open.bits & CLIENT_WITHOUT_COOKIE != 0;
        Client {
            needs_cookie: !(without || settings.fast_open.without_cookie),
            server: self.remembered.clone(),
        }
    }

    /// Keeps what a connection has learnt about its server.
    pub(super) fn learn(&mut self, index: usize) {
        if let Some(remembered) = self.connections[index].end.remembered() {
            self.remembered = remembered.clone();
        }
    }

    /// How a listening socket takes the data of the next SYN (Linux: `tcp_try_fastopen`,
    /// `tcp_fastopen_queue_check`).
    pub(super) fn server(&self, descriptor: i64) -> Option<Server> {
        let socket = self.descriptors.get(&descriptor)?;
        let (system, own) = (&self.settings.fast_open, &socket.settings.fast_open);
        let opening =
            self.connections.iter().filter(|one| one.is_connected && one.end.info().state == "SYN-RECEIVED");
        if system.bits & SERVER == 0 || opening.count() as i64 >= own.queue {
            return None;
        }
        let [address, peer] = self.addresses;
        let without = system.bits & SERVER_WITHOUT_COOKIE != 0;
        Some(Server { cookie: own.key.cookie(peer, address), needs_cookie: !(without || own.without_cookie) })
    }

    /// Sets an option of a socket that is about opening fast; [`None`] if it is about something else.
    pub(super) fn set_fast_open_option(
        &mut self,
        descriptor: i64,
        level: &str,
        name: &str,
        call: &Call,
    ) -> Option<Step<Reply>> {
        let is_enabled = self.settings.fast_open.bits & CLIENT != 0;
        let value = call.arguments.get(3);
        let number = value.and_then(Term::only).and_then(Term::number);
        let socket = self.descriptors.get_mut(&descriptor)?;
        let is_new = matches!(socket.role, Role::New);
        let listens = matches!(socket.role, Role::Listening { .. });
        let options = &mut socket.settings.fast_open;
        let invalid = Reply::Error("EINVAL");
        Some(Ok(match (level, name, number) {
            ("SOL_TCP", "TCP_FASTOPEN", Some(length)) if length >= 0 && (is_new || listens) => {
                options.queue = length;
                Reply::Returns(0)
            }
            ("SOL_TCP", "TCP_FASTOPEN_CONNECT", Some(0 | 1)) if !is_enabled => Reply::Error("EOPNOTSUPP"),
            ("SOL_TCP", "TCP_FASTOPEN_CONNECT", Some(on @ (0 | 1))) if is_new => {
                options.connects = on != 0;
                Reply::Returns(0)
            }
            ("SOL_TCP", "TCP_FASTOPEN_NO_COOKIE", Some(on @ (0 | 1))) if is_new || listens => {
                options.without_cookie = on != 0;
                Reply::Returns(0)
            }
            ("SOL_TCP", "TCP_FASTOPEN" | "TCP_FASTOPEN_CONNECT" | "TCP_FASTOPEN_NO_COOKIE", _) => invalid,
            ("SOL_TCP", "TCP_FASTOPEN_KEY", _) => match value {
                Some(Term::Text(text)) => match key_of_bytes(text) {
                    Some(key) => {
                        options.key = key;
                        Reply::Returns(0)
                    }
                    None => invalid,
                },
                _ => return None,
            },
            // Before the SYN has left there is nothing to probe.
            ("SOL_SOCKET", "SO_KEEPALIVE", Some(on)) if is_new || matches!(socket.role, Role::Deferred) => {
                options.keeps_alive = on != 0;
                Reply::Returns(0)
            }
            ("SOL_TCP", "TCP_KEEPIDLE", Some(1..)) if matches!(socket.role, Role::Deferred) => {
                Reply::Returns(0)
            }
            _ => return None,
        }))
    }

    /// A call that opens a connection and writes at once (Linux: `tcp_sendmsg_fastopen`); [`None`] if the
    /// call is an ordinary write.
    pub(super) fn send_fast(
        &mut self,
        now: Time,
        descriptor: i64,
        buffer: &Term,
        length: i64,
        flags: i64,
    ) -> Step<Option<Reply>> {
        let asks = flags & FASTOPEN != 0;
        let is_enabled = self.settings.fast_open.bits & CLIENT != 0;
        let Some(socket) = self.descriptors.get_mut(&descriptor) else { return Ok(None) };
        let waits = !socket.is_nonblocking && flags & DONTWAIT == 0;
        match socket.role {
            Role::New if asks => {}
            Role::Deferred => {}
            Role::Connection(index) => {
                return Ok(Self::send_again(&mut self.connections[index], &mut socket.has_learnt, asks));
            }
            _ => return Ok(None),
        }
        if !is_enabled {
            return Ok(Some(Reply::Error("EOPNOTSUPP")));
        }
        let settings = socket.settings.clone();
        if settings.fast_open.keeps_alive {
            return Err(Stop::needs("probes of an idle connection"));
        }
        let client = self.client(&settings);
        let index = self.connect(now, &settings, Some(client))?;
        self.descriptors.get_mut(&descriptor).expect("it is there").role = Role::Connection(index);
        self.under_test = UnderTest::Connection(index);
        let connection = &mut self.connections[index];
        // What cannot be read is not sent.
        let length = if buffer.word() == Some("NULL") { 0 } else { length.max(0) as u64 };
        let room = connection.end.syn_room().map_or(0, u64::from);
        let taken = if waits { length } else { length.min(room) };
        if taken > 0 {
            let done = connection.write(now, taken);
            if waits {
                connection.waiting_open = Some(done);
                return Ok(Some(Reply::Blocks));
            }
            return Ok(Some(Reply::Returns(done as i64)));
        }
        Ok(Some(if waits {
            connection.waiting_open = Some(0);
            Reply::Blocks
        } else {
            Reply::Error("EINPROGRESS")
        }))
    }

    /// Another call after that which opened the connection, or the same one again while it waits.
    fn send_again(connection: &mut Connection, has_learnt: &mut bool, asks: bool) -> Option<Reply> {
        if let Some(done) = connection.waiting_open {
            if let Some(error) = connection.error.take() {
                connection.waiting_open = None;
                return Some(Reply::Error(error));
            }
            if !connection.is_connected {
                return Some(Reply::Blocks);
            }
            (connection.waiting_open, *has_learnt) = (None, true);
            return Some(Reply::Returns(done as i64));
        }
        if !asks {
            return None;
        }
        if connection.end.info().state == "SYN-SENT" {
            return Some(Reply::Error("EALREADY"));
        }
        // The first such call tells that the connection is open, and writes.
        std::mem::replace(has_learnt, true).then_some(Reply::Error("EISCONN"))
    }
}

impl Connection {
    /// A message of ICMP arrives that is about a segment of ours.
    pub(super) fn inject_icmp(&mut self, now: Time, icmp: &Icmp) -> Step<()> {
        let needs = || Stop::needs(format!("ICMP ({})", icmp.kind));
        let flow = &self.flows[self.current];
        let info = self.end.info();
        let first = flow.script_first;
        // Linux, tcp_v4_err: the segment must be one that is outstanding.
        let reach = 1 + info.unacknowledged as u32;
        if icmp.echoed.is_some_and(|(start, ..)| start.wrapping_sub(first) > reach) {
            return Ok(());
        }
        self.clock(now);
        let is_done = match (icmp.kind.as_str(), icmp.code.as_deref(), icmp.mtu) {
            ("packet_too_big", _, Some(mtu)) | ("unreachable", Some("frag_needed"), Some(mtu)) => {
                self.end.on_syn_too_big(now, mtu)
            }
            // An application that has accepted the connection is not told (`IP_RECVERR` is not set).
            ("unreachable", None | Some(CODE | "host_unreachable"), _) if self.waits_at.is_some() => {
                let is_done = self.end.on_unreachable();
                if is_done && self.is_connected {
                    self.error = Some("EHOSTUNREACH");
                }
                is_done
            }
            _ => false,
        };
        if !is_done {
            return Err(needs());
        }
        let error = self.error;
        self.drain(now);
        self.error = error.or(self.error);
        Ok(())
    }

    /// Ends a connection that nobody has accepted: the peer is told if it is open.
    pub(super) fn forget(&mut self, now: Time) {
        if self.is_connected {
            return self.command(now, Command::Abort);
        }
        self.end.on_unreachable();
        self.drain(now);
    }
}
