//! QUIC and strangers who know addresses and ports, and some who see the datagrams of others.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::quic::{
    Client, Host, HostEvent, SelfSigned, Server, Settings, Trust, certificates, self_signed,
};
use anabranch_live::stack::Stack as _;
use anabranch_transport::flow::Payload;
use anabranch_transport::quic::Config;
use anabranch_transport::rng::{Draw as _, Streams};
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Bytes;
use anabranch_transport::wire::quic::{ConnectionId, Content, Fields, Keys, Level, Part, Real};

use crate::world::{CLIENT, End, MANY, Numbers, SERVER, World, address, attacks, stranger};

const PORT: u16 = 4_433;
/// Connections that peers may have.
const MOST_ACCEPTED: usize = 1_000;
/// Those whose handshakes are not complete, above which a server asks for a token, and what one costs at
/// most.
const MOST_UNVALIDATED: usize = 256;
const PER_HANDSHAKE: usize = 40 << 10;
/// The bytes of connection IDs, and the least of a client's first datagram.
const ID_BYTES: usize = 8;
const FIRST_BYTES: usize = 1_200;

attacks! {
    changed,
    first_packets,
    noise,
    other_versions,
    packets_of_nobody,
    replays,
    sent_on,
}

/// A host and its connection with the other one.
struct Talker {
    host: Host,
    id: Option<Handle>,
    stream: Option<u64>,
    received: u64,
    has_ended: bool,
}

impl Talker {
    fn new(index: usize) -> Self {
        let settings = Settings { addresses: vec![address(index)], mtu: 1_500, most_accepted: MOST_ACCEPTED };
        let streams = Streams { seed: index as u64, replication: 0 };
        let host = Host::new(settings, &Secret([index as u8; 32]), streams);
        Self { host, id: None, stream: None, received: 0, has_ended: false }
    }
}

impl End for Talker {
    type Host = Host;

    fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    fn feed(&mut self, now: Time) {
        let Some(id) = self.id.filter(|_| !self.has_ended) else { return };
        if self.stream.is_none() {
            self.stream = self.host.open_stream(id, false).ok().flatten();
        }
        let Some(stream) = self.stream else { return };
        while let Ok(1_000) = self.host.write(now, id, stream, &[7; 1_000], false) {}
    }

    fn on_event(&mut self, now: Time, (id, event): (Handle, HostEvent)) {
        match event {
            HostEvent::Accepted(_) => self.id = self.id.or(Some(id)),
            HostEvent::Received { bytes, .. } => {
                assert!(bytes.iter().all(|byte| *byte == 7), "somebody else's bytes are in the stream");
                self.received += bytes.len() as u64;
                self.host.has_read(now, id, bytes.len() as u64, 0);
            }
            HostEvent::Closed(_) => self.has_ended |= self.id == Some(id),
            _ => {}
        }
    }

    fn received(&self) -> u64 {
        self.received
    }
}

fn config() -> Config {
    Config {
        send_buffer: Some(Bytes(64_000)),
        max_data: Some(Bytes(64_000)),
        max_stream_data: Some(Bytes(64_000)),
        ..Config::default()
    }
}

fn protocols() -> Vec<String> {
    vec!["test".to_owned()]
}

/// A client that sends to a server.
fn world() -> World<Talker> {
    let SelfSigned { certificate, key } = self_signed(&["server.test".to_owned()]).expect("it is a name");
    let server = Server::new(certificate.as_bytes(), key.as_bytes(), &protocols()).expect("they fit");
    let roots = Trust::Roots(certificates(certificate.as_bytes()).expect("there is one"));
    let client = Client::new(&roots, &protocols()).expect("it is a certificate");
    let mut world = World::new([Talker::new(CLIENT), Talker::new(SERVER)], Some(PORT));
    world.ends[SERVER].host.listen(&config(), server).expect("nobody waits");
    let host = &mut world.ends[CLIENT].host;
    let route = host.route_to(address(SERVER), PORT);
    let id = host.connect(Time::ZERO, &config(), &client, route, "server.test").expect("it is possible");
    world.ends[CLIENT].id = Some(id);
    world.run_for(Duration::from_millis(100));
    assert!(world.ends[SERVER].received > 0, "the transfer has begun");
    world
}

/// Checks that the transfer goes on, and how many connections the server has beside it.
#[track_caller]
fn check(world: &World<Talker>, others: usize) {
    assert!(world.ends.iter().all(|end| !end.has_ended));
    let [connections, opening] = world.ends[SERVER].host.connections();
    assert!(connections <= 1 + others && opening <= others, "{connections}, {opening} of them opening");
}

/// Keeps what frames carry, one behind the other.
#[derive(Default)]
struct Store(Vec<u8>);

impl Fields for Store {
    fn append(&mut self, _: Part, data: Payload, out: &mut Vec<u8>) {
        out.extend(&self.0[data.offset as usize..][..data.length as usize]);
    }

    fn keep(&mut self, _: Part, _: u64, bytes: &[u8]) -> u64 {
        let offset = self.0.len() as u64;
        self.0.extend(bytes);
        offset
    }
}

fn initial_keys(first: ConnectionId, is_client: bool) -> Keys<Real> {
    let mut keys = Keys::default();
    keys.set(Level::Initial, Real::initial(first, is_client));
    keys
}

/// First packets of clients, with the whole message of TLS, from everywhere and each for a connection of its
/// own (RFC 9000 sections 8.1 and 21.2).
fn first_packets(count: usize) -> Numbers {
    let mut world = world();
    let mut flood = Talker::new(9).host;
    let client = Client::new(&Trust::Anyone, &protocols()).expect("there is a protocol");
    let route = flood.route_to(address(SERVER), PORT);
    flood.connect(Time::ZERO, &config(), &client, route, "server.test").expect("it is possible");
    let mut datagram = flood.poll_transmit(1).expect("a client begins").bytes.to_vec();
    let first = ConnectionId::new(&datagram[6..6 + ID_BYTES]).expect("it is an ID");
    let mut store = Store::default();
    let parsed = Content::parse(&mut datagram, ID_BYTES, &mut initial_keys(first, false), &mut store);
    let Ok(Content::Packets(mut packets)) = parsed.map(|parsed| parsed.content) else {
        panic!("it is a packet");
    };
    let numbers = world.attack(count, |_, number| {
        let first = ConnectionId::new(&(number as u64).to_be_bytes()).expect("it is an ID");
        packets[0].destination = first;
        let mut bytes = Vec::new();
        initial_keys(first, true).seal(&packets, &mut store, &mut bytes);
        assert!(bytes.len() >= FIRST_BYTES);
        (SERVER, stranger(number), bytes)
    });
    check(&world, MOST_UNVALIDATED);
    assert!(numbers.amplification < 3.0, "{numbers:?}");
    numbers.check_within(MOST_UNVALIDATED * PER_HANDSHAKE)
}

/// Bytes of no meaning.
fn noise(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let length = world.rng.below(1_400) as usize;
        let bytes = (0..length).map(|_| world.rng.below(256) as u8).collect();
        (number % 2, if number.is_multiple_of(3) { address(1 - number % 2) } else { stranger(number) }, bytes)
    });
    check(&world, 0);
    assert!(numbers.amplification <= 1.0, "{numbers:?}");
    numbers.check()
}

/// Packets of versions that are not there (section 6.1).
fn other_versions(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let mut bytes: Vec<u8> = (0..FIRST_BYTES).map(|_| world.rng.below(256) as u8).collect();
        bytes[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, ID_BYTES as u8]);
        bytes[6 + ID_BYTES] = ID_BYTES as u8;
        (SERVER, stranger(number), bytes)
    });
    check(&world, 0);
    assert!(numbers.answers > 0 && numbers.amplification < 0.1, "{numbers:?}");
    numbers.check()
}

/// Packets with short headers for connections that are not there: a stateless reset is shorter than what it
/// answers (section 10.3).
fn packets_of_nobody(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let length = 22 + world.rng.below(1_200) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| world.rng.below(256) as u8).collect();
        bytes[0] = 0x40 | bytes[0] & 0x3f;
        (SERVER, stranger(number), bytes)
    });
    check(&world, 0);
    assert!(numbers.answers > 0 && numbers.amplification < 1.0, "{numbers:?}");
    numbers.check()
}

/// Where a datagram of one host for the other comes from: from there, or from somebody who has seen it.
fn sender(to: usize, number: usize) -> IpAddr {
    if number.is_multiple_of(3) { stranger(number) } else { address(1 - to) }
}

/// Datagrams of both hosts that have arrived, again.
fn replays(count: usize) -> Numbers {
    let mut world = world();
    let mut seen = world.heard.each_ref().map(|heard| VecDeque::from([heard.clone()]));
    let numbers = world.attack(count, |world, number| {
        let to = number % 2;
        seen[to].push_back(world.heard[to].clone());
        // On its way it is for 5 ms, in which 25 others come to this host.
        let bytes = if seen[to].len() > 50 { seen[to].pop_front() } else { seen[to].front().cloned() };
        (to, sender(to, number), bytes.expect("there is one"))
    });
    check(&world, 0);
    numbers.check()
}

/// All datagrams of the client, sooner than from the client itself, from everywhere. Who can do that is on
/// the path: the server follows (section 9.3.3), and the transfer stands still. It goes on afterwards.
fn sent_on(count: usize) -> Numbers {
    let mut world = world();
    // Long enough for the client's timer to double until it is longer than the server waits for an answer.
    let numbers = world
        .attack(count.max(MANY), |world, number| (SERVER, stranger(number), world.heard[SERVER].clone()));
    assert!(numbers.grown() <= 512 << 10 && numbers.amplification < 3.0, "{numbers:?}");
    let before = world.ends[SERVER].received;
    world.run_for(Duration::from_secs(10));
    check(&world, 0);
    assert!(world.ends[SERVER].received > before + 1_000_000);
    numbers
}

/// The same with a bit changed, or cut.
fn changed(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let to = number % 2;
        let mut bytes = world.heard[to].clone();
        let at = world.rng.below(bytes.len() as u64) as usize;
        if number % 5 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (number % 8);
        }
        (to, sender(to, number), bytes)
    });
    check(&world, 0);
    numbers.check()
}
