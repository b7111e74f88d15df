//! SCTP: sockets, chunks and settings for scripts.
//!
//! The endpoint is a host of `anabranch-live`, as it is behind a socket: bytes go in and come out, so that
//! cookies and checksums are real, a packet without an association meets what answers it in earnest, and
//! chunks that no endpoint would make can be written. As in packetdrill one association at a time is under
//! test.

mod calls;
mod form;
mod names;
mod options;
mod render;
mod settings;
mod statement;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::sctp::{Host, HostEvent, Inbound, Route, Settings as HostSettings};
use anabranch_live::stack::Stack as _;
use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::Streams;
use anabranch_transport::sctp::Config;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::Time;
use form::Item;
use statement::Numbers;

use crate::Options;
use crate::executor::{Executor, Reply};
use crate::python::Value;
use crate::script::{Body, Call, Direction, Packet, Script, Sctp, Term};
use crate::verdict::{Step, Stop};

/// The addresses of packetdrill: of the endpoint under test, and of the peer that the script plays.
const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 0, 1));
const REMOTE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// The port at which scripts listen and to which they connect.
const SERVER_PORT: u16 = 8_080;
/// The first port of peers and of associations that the endpoint opens.
const FIRST_PORT: u16 = 40_000;
/// The common header, in bytes.
const COMMON_HEADER: usize = 12;
/// Types of chunks, and that of a State Cookie parameter.
const ABORT: u8 = 6;
const HEARTBEAT: u8 = 4;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SHUTDOWN_COMPLETE: u8 = 14;
const STATE_COOKIE: [u8; 2] = [0, 7];

/// A descriptor.
#[derive(Debug)]
struct Socket {
    role: Role,
    /// Whether calls do not wait (`O_NONBLOCK`).
    is_nonblocking: bool,
    config: Config,
}

/// The role of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Association(Handle),
    Listening,
    New,
}

/// The application's view of an association.
#[derive(Debug, Default)]
struct Known {
    /// Messages that have arrived and have not been read.
    messages: VecDeque<Inbound>,
    /// How many bytes of the first of these messages have been read.
    read: usize,
    /// An error that is reported once (`SO_ERROR`).
    error: Option<&'static str>,
    is_connected: bool,
    closed: Option<CloseReason>,
    has_shut_down: bool,
    /// Whether a peer has opened it and it has not been accepted yet.
    waits: bool,
}

/// The association under test, with what is needed to translate between its numbers and the script's.
#[derive(Debug, Default)]
struct UnderTest {
    numbers: Numbers,
    /// The peer's tag.
    peer_tag: u32,
    ports: [u16; 2],
    /// Whether the endpoint's own values are still being learnt: it is being opened, or has not been accepted
    /// yet.
    learns: bool,
    /// The State Cookie that the endpoint sent last, and the information of its last heartbeat.
    cookie: Vec<u8>,
    heartbeat: Vec<u8>,
    /// The Stream Sequence Numbers of incoming data, by TSN.
    ssns: BTreeMap<u32, u16>,
}

/// SCTP's executor.
pub(crate) struct SctpExecutor {
    host: Host,
    /// Settings of the system, of which each socket begins with a copy.
    config: Config,
    sockets: BTreeMap<i64, Socket>,
    associations: BTreeMap<Handle, Known>,
    under_test: UnderTest,
    /// Packets that were sent and have not been looked at.
    sent: VecDeque<(Time, Route, Vec<u8>)>,
}

impl SctpExecutor {
    pub(crate) fn new(script: &Script, options: &Options<'_>) -> Step<Self> {
        const KNOWN: [&str; 3] = ["non_fatal", "tolerance_percent", "tolerance_usecs"];
        if let Some(option) = script.options.iter().find(|option| !KNOWN.contains(&option.name.as_str())) {
            return Err(Stop::needs(format!("the option --{}", option.name)));
        }
        let settings = HostSettings {
            addresses: vec![LOCAL],
            mtu: 1_500,
            is_in_udp: false,
            most_accepted: 1_000,
            // INIT and INIT ACK in the scripts have none of these.
            offers_extensions: false,
            shared_key: Vec::new(),
        };
        Ok(Self {
            host: Host::new(settings, Secret([1; 32]), Streams { seed: 1, replication: 0 }),
            config: settings::profile(options.profile)?,
            sockets: BTreeMap::new(),
            associations: BTreeMap::new(),
            under_test: UnderTest::default(),
            sent: VecDeque::new(),
        })
    }

    /// Takes what the host sends, and what it tells.
    fn drain(&mut self, now: Time) {
        while let Some(transmit) = self.host.poll_transmit(1) {
            self.sent.push_back((now, transmit.route, transmit.bytes.to_vec()));
        }
        while let Some((id, event)) = self.host.poll_event() {
            let known = self.associations.entry(id).or_default();
            match event {
                HostEvent::Accepted { .. } => known.waits = true,
                HostEvent::Closed { reason, .. } => {
                    known.error = match reason {
                        CloseReason::Shutdown => None,
                        CloseReason::Lost => Some("ETIMEDOUT"),
                        CloseReason::Aborted if known.is_connected => Some("ECONNRESET"),
                        CloseReason::Aborted => Some("ECONNREFUSED"),
                    };
                    known.closed = Some(reason);
                }
                HostEvent::Connected => known.is_connected = true,
                HostEvent::Received(message) => known.messages.push_back(message),
                _ => {}
            }
        }
    }

    /// The bytes of an incoming packet.
    fn write(&mut self, packet: &Packet, sctp: &Sctp) -> Step<Vec<u8>> {
        let mut chunks = Vec::new();
        let mut is_raw = false;
        for term in &sctp.chunks {
            match term {
                // Bytes as they are: everything behind the common header.
                Term::List(list) => {
                    is_raw = true;
                    for byte in list {
                        let byte = byte.number().and_then(|byte| u8::try_from(byte).ok());
                        chunks
                            .push(byte.ok_or_else(|| Stop::needs("something else than bytes in a packet"))?);
                    }
                }
                term => {
                    let chunk = statement::chunk(term, packet.direction, &self.under_test.numbers)?;
                    self.fill(chunk).write(&mut chunks);
                }
            }
        }
        let (first, reflected) = match chunks[..] {
            [kind @ (ABORT | SHUTDOWN_COMPLETE), flags, ..] if !is_raw => (kind, flags & 1 != 0),
            [kind, ..] => (kind, false),
            _ => (0, false),
        };
        let numbers = self.under_test.numbers;
        let own = if reflected { self.under_test.peer_tag } else { numbers.tag };
        let mut tag = if first == INIT && !is_raw { 0 } else { own };
        let mut spoils_checksum = false;
        for term in &sctp.header {
            match term {
                Term::Setting(key, value) if key.name() == Some("tag") => {
                    let script = value.number().ok_or_else(|| Stop::needs("a tag that is a number"))? as u32;
                    let from = if reflected { own } else { numbers.script_tag };
                    if script != 0 {
                        tag = own.wrapping_add(script.wrapping_sub(from)).max(1);
                    } else {
                        tag = 0;
                    }
                }
                Term::Word(word) if word == "bad_crc32c" => spoils_checksum = true,
                other => return Err(Stop::needs(format!("a common header with {other}"))),
            }
        }
        if matches!(first, INIT | INIT_ACK) && self.under_test.learns && chunks.len() >= 20 {
            self.under_test.peer_tag = u32::from_be_bytes([chunks[4], chunks[5], chunks[6], chunks[7]]);
        }
        let [own, peers] = self.under_test.ports;
        let mut bytes = Vec::with_capacity(COMMON_HEADER + chunks.len());
        bytes.extend(peers.to_be_bytes());
        bytes.extend(own.to_be_bytes());
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(chunks);
        let checksum = crc32c::crc32c(&bytes) ^ u32::from(spoils_checksum);
        bytes[8..COMMON_HEADER].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// Completes a chunk that comes in: the cookie and the heartbeat information are replaced by the
    /// endpoint's own.
    fn fill(&mut self, mut item: Item) -> Item {
        let is_open = item.length.is_none() && item.body == [form::Part::Rest];
        match item.name {
            "COOKIE_ECHO" if is_open => {
                item.body = vec![form::Part::Bytes("val", self.under_test.cookie.clone())];
            }
            "HEARTBEAT_ACK" if item.body == [form::Part::Rest] => {
                item.body = vec![form::Part::Bytes("val", self.under_test.heartbeat.clone())];
            }
            "DATA" => {
                if let [form::Part::Number(_, _, Some(tsn)), _, form::Part::Number(_, _, Some(ssn)), ..] =
                    item.body[..]
                {
                    self.under_test.ssns.insert(tsn as u32, ssn as u16);
                }
            }
            _ => {}
        }
        item
    }

    /// Learns from an INIT or INIT ACK that went out the values for which the script has others, and what the
    /// endpoint wants back.
    fn learn(&mut self, wanted: &Sctp, bytes: &[u8]) {
        let chunks = &bytes[COMMON_HEADER..];
        let word = |at: usize| {
            chunks.get(at..at + 4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        if let Some(([HEARTBEAT, _], value)) = form::next(&mut &*chunks) {
            self.under_test.heartbeat = value.to_vec();
        }
        let is_first = matches!(chunks.first(), Some(&(INIT | INIT_ACK)));
        let (true, true, Some(tag), Some(tsn)) = (is_first, self.under_test.learns, word(4), word(16)) else {
            return;
        };
        let numbers = &mut self.under_test.numbers;
        (numbers.tag, numbers.tsn) = (tag, tsn);
        if let Some(chunk) =
            wanted.chunks.first().filter(|chunk| matches!(chunk.name(), Some("INIT" | "INIT_ACK")))
        {
            let number = |key| chunk.setting(key).and_then(Term::number).map(|number| number as u32);
            numbers.script_tag = number("tag").unwrap_or(0);
            numbers.script_tsn = number("tsn").unwrap_or(0);
        }
        let mut parameters = &chunks[20.min(chunks.len())..];
        while let Some((kind, value)) = form::next(&mut parameters) {
            if kind == STATE_COOKIE {
                self.under_test.cookie = value.to_vec();
            }
        }
    }
}

/// Of the IP header, only the addresses are known.
fn check_header(packet: &Packet) -> Step<()> {
    match (&packet.ip[..], packet.ecn) {
        ([], None) => Ok(()),
        ([first, ..], _) => Err(Stop::needs(format!("\"{first}\" in the IP header"))),
        ([], Some(_)) => Err(Stop::needs("ECN of SCTP")),
    }
}

impl Executor for SctpExecutor {
    fn set(&mut self, name: &str, value: &str) -> Step<()> {
        settings::set(&mut self.config, name, value)
    }

    fn call(&mut self, now: Time, call: &Call) -> Step<Reply> {
        let reply = self.system_call(now, call);
        self.drain(now);
        reply
    }

    fn inject(&mut self, now: Time, packet: &Packet) -> Step<()> {
        check_header(packet)?;
        let Body::Sctp(sctp) = &packet.body else {
            return Err(Stop::needs("packets in of other protocols than SCTP"));
        };
        let address = |at: usize, default: IpAddr| match &packet.addresses[at] {
            None => Ok(default),
            Some(Term::Address(address)) => Ok(*address),
            Some(other) => Err(Stop::needs(format!("the address {other}"))),
        };
        let route = Route { local: address(1, LOCAL)?, remote: address(0, REMOTE)?, port: None };
        let bytes = self.write(packet, sctp)?;
        self.host.handle_datagram(now, route, Ecn::NotEct, &bytes);
        self.drain(now);
        Ok(())
    }

    fn next_timeout(&self) -> Time {
        self.host.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.host.handle_timeout(now);
        self.drain(now);
    }

    fn expect(&mut self, packet: &Packet) -> Step<Option<(Time, String)>> {
        check_header(packet)?;
        let Body::Sctp(wanted) = &packet.body else {
            return Err(Stop::needs("packets out of other protocols than SCTP"));
        };
        if !wanted.header.is_empty() {
            return Err(Stop::needs("the common header of a packet that goes out"));
        }
        // Packets to other addresses of the peer are ignored as long as nothing has come from there.
        self.sent.retain(|(_, route, _)| route.remote == REMOTE);
        let Some((at, _, bytes)) = self.sent.pop_front() else { return Ok(None) };
        self.learn(wanted, &bytes);
        let numbers = &self.under_test.numbers;
        let mut rest = &bytes[COMMON_HEADER..];
        let seen = render::packet(rest, numbers);
        for term in &wanted.chunks {
            let chunk = statement::chunk(term, Direction::Outbound, numbers)?;
            chunk.compare(&mut rest).map_err(|reason| Stop::failed(seen.clone(), reason))?;
        }
        if !rest.is_empty() {
            return Err(Stop::failed(seen, "there are more chunks in the packet"));
        }
        Ok(Some((at, seen)))
    }

    fn value(&self, _now: Time, _name: &str) -> Option<Value> {
        None
    }
}
