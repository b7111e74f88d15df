//! Two hosts of QUIC and a network in virtual time, with TLS as on the wire: every byte arrives, in its
//! place, whatever the network does; strangers change nothing and cost little.
#![cfg(feature = "quic")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use anabranch_live::Handle;
use anabranch_live::quic::{
    Client, Ending, Host, HostEvent, Refusal, Route, SelfSigned, Server, Settings, Trust, certificates,
    self_signed,
};
use anabranch_live::stack::{Stack as _, Unreachable};
use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::flow::{Ecn, Payload};
use anabranch_transport::quic::Config;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Bytes;
use anabranch_transport::wire::quic::{ConnectionId, Content, Fields, Frame, Keys, Level, Part, Real};
use proptest::prelude::*;

const STREAMS: Streams = Streams { seed: 1, replication: 0 };
const CLIENT: usize = 0;
const SERVER: usize = 1;
const PORTS: [u16; 2] = [40_000, 4_433];
/// More steps than any of these runs takes.
const MOST_STEPS: u32 = 2_000_000;

static CERTIFICATE: LazyLock<SelfSigned> =
    LazyLock::new(|| self_signed(&["server.test".to_owned()]).expect("it is a name"));

fn protocols(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn server(protocol: &str) -> Server {
    let SelfSigned { certificate, key } = &*CERTIFICATE;
    Server::new(certificate.as_bytes(), key.as_bytes(), &protocols(&[protocol]))
        .expect("they belong together")
}

fn trusting(trust: &Trust) -> Client {
    Client::new(trust, &protocols(&["first", "test"])).expect("the roots are certificates")
}

fn roots() -> Trust {
    Trust::Roots(certificates(CERTIFICATE.certificate.as_bytes()).expect("there is one"))
}

/// The impairments of packets, each with this probability.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: f64,
    duplication: f64,
    reordering: f64,
    /// A bit is flipped.
    damage: f64,
}

/// What an application has heard and has to say on a stream.
#[derive(Debug, Default)]
struct Talk {
    to_write: u64,
    written: u64,
    has_ended: bool,
    read: Vec<u8>,
    is_over: bool,
}

impl Talk {
    /// What is said on a stream of the peer, which may have one direction only.
    fn answering(stream: u64, answer: u64) -> Self {
        let has_one = stream & 2 != 0;
        Self { to_write: if has_one { 0 } else { answer }, has_ended: has_one, ..Self::default() }
    }
}

/// The application at one end.
#[derive(Debug, Default)]
struct User {
    number: Option<Handle>,
    protocol: Option<String>,
    talks: BTreeMap<u64, Talk>,
    messages: Vec<Vec<u8>>,
    ending: Option<Ending>,
    /// Reads nothing.
    is_idle: bool,
    unread: u64,
    /// Answers each stream of the peer with so many bytes.
    answer: u64,
    resets: Vec<u64>,
}

/// A datagram on its way.
struct Underway {
    to: usize,
    /// Where it comes from, as its receiver sees it.
    from: (IpAddr, u16),
    ecn: Ecn,
    bytes: Vec<u8>,
}

struct World {
    now: Time,
    hosts: [Host; 2],
    users: [User; 2],
    weather: Weather,
    rng: Rng,
    network: BTreeMap<(Time, u64), Underway>,
    sent: u64,
    /// All that was sent, by its sender.
    seen: [Vec<Vec<u8>>; 2],
    /// Where the server sees the client: what goes elsewhere is lost.
    client_at: (IpAddr, u16),
    /// Whether all packets that are ECN-capable are marked.
    marks: bool,
}

fn address(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

/// The byte at this position of what an end writes on a stream.
const fn octet(host: usize, stream: u64, position: u64) -> u8 {
    (position % 251) as u8 ^ (position / 251 % 241) as u8 ^ (stream as u8) << 1 ^ host as u8
}

fn host(index: usize, most_accepted: usize) -> Host {
    let settings = Settings { addresses: vec![address(index)], mtu: 1_500, most_accepted };
    Host::new(settings, &Secret([index as u8; 32]), Streams { seed: index as u64, ..STREAMS })
}

impl World {
    fn new(weather: Weather, config: &Config) -> Self {
        let mut hosts = [host(CLIENT, 100), host(SERVER, 100)];
        hosts[SERVER].listen(config, server("test")).expect("the settings are possible");
        Self {
            now: Time::ZERO,
            hosts,
            users: [User::default(), User::default()],
            weather,
            rng: STREAMS.stream("weather"),
            network: BTreeMap::new(),
            sent: 0,
            seen: [Vec::new(), Vec::new()],
            client_at: (address(CLIENT), PORTS[CLIENT]),
            marks: false,
        }
    }

    fn connect(&mut self, config: &Config, client: &Client, name: &str) -> Handle {
        let route = self.hosts[CLIENT].route_to(address(SERVER), PORTS[SERVER]);
        let number = self.hosts[CLIENT]
            .connect(self.now, config, client, route, name)
            .expect("the settings are possible");
        self.users[CLIENT].number = Some(number);
        self.collect(CLIENT);
        number
    }

    /// A world whose ends are connected.
    fn connected(weather: Weather, config: &Config) -> Self {
        let mut world = Self::new(weather, config);
        world.connect(config, &trusting(&roots()), "server.test");
        world.run_until(|world| world.users.iter().all(|user| user.protocol.is_some()));
        world
    }

    fn number(&self, host: usize) -> Handle {
        self.users[host].number.expect("it has a connection")
    }

    /// Opens a stream and writes so much on it.
    fn talk(&mut self, host: usize, bidirectional: bool, bytes: u64) -> Option<u64> {
        let number = self.number(host);
        let id = self.hosts[host].open_stream(number, bidirectional).expect("it is open")?;
        self.users[host].talks.insert(id, Talk { to_write: bytes, ..Talk::default() });
        self.write(host, id);
        Some(id)
    }

    fn write(&mut self, host: usize, id: u64) {
        let number = self.number(host);
        let Some(talk) = self.users[host].talks.get_mut(&id) else { return };
        // Each turn writes something, or there is no room.
        while !talk.has_ended {
            let length = (talk.to_write - talk.written).min(10_000);
            let bytes: Vec<u8> =
                (talk.written..talk.written + length).map(|at| octet(host, id, at)).collect();
            let fin = talk.written + length == talk.to_write;
            let Ok(taken) = self.hosts[host].write(self.now, number, id, &bytes, fin) else { break };
            talk.written += taken as u64;
            talk.has_ended = fin && taken as u64 == length;
            if (taken as u64) < length {
                break;
            }
        }
        self.collect(host);
    }

    /// Puts what a host sends on the network, and tells its application what happens.
    fn collect(&mut self, host: usize) {
        loop {
            while let Some(transmit) = self.hosts[host].poll_transmit(8) {
                let to = (transmit.route.remote, transmit.route.port.unwrap_or_default());
                if host == SERVER && to != self.client_at {
                    continue;
                }
                let ecn = transmit.ecn;
                let datagrams: Vec<Vec<u8>> =
                    transmit.bytes.chunks(transmit.segment).map(<[u8]>::to_vec).collect();
                for datagram in datagrams {
                    self.send(host, ecn, datagram);
                }
            }
            let Some((number, event)) = self.hosts[host].poll_event() else { return };
            self.tell(host, number, event);
        }
    }

    fn send(&mut self, from: usize, sent: Ecn, mut datagram: Vec<u8>) {
        let ecn = if self.marks && sent != Ecn::NotEct { Ecn::Ce } else { sent };
        self.seen[from].push(datagram.clone());
        let Weather { loss, duplication, reordering, damage } = self.weather;
        if self.rng.bernoulli(loss) {
            return;
        }
        if self.rng.bernoulli(damage) {
            let bit = self.rng.below(datagram.len() as u64 * 8);
            datagram[bit as usize / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + u32::from(self.rng.bernoulli(duplication));
        let source = if from == CLIENT { self.client_at } else { (address(SERVER), PORTS[SERVER]) };
        for _ in 0..copies {
            let late = if self.rng.bernoulli(reordering) { self.rng.below(30) } else { 0 };
            let at = self.now + Duration::from_millis(10 + late);
            self.sent += 1;
            let underway = Underway { to: 1 - from, from: source, ecn, bytes: datagram.clone() };
            self.network.insert((at, self.sent), underway);
        }
    }

    fn tell(&mut self, host: usize, number: Handle, event: HostEvent) {
        let user = &mut self.users[host];
        if host == SERVER && matches!(event, HostEvent::Accepted(_)) {
            user.number = Some(number);
        }
        if user.number != Some(number) {
            return;
        }
        match event {
            HostEvent::Accepted(protocol) | HostEvent::Connected(protocol) => user.protocol = Some(protocol),
            HostEvent::Received { stream, bytes } => {
                user.unread += bytes.len() as u64;
                let answer = user.answer;
                let talk = user.talks.entry(stream).or_insert_with(|| Talk::answering(stream, answer));
                talk.read.extend(bytes);
                if !user.is_idle {
                    let read = std::mem::take(&mut user.unread);
                    self.hosts[host].has_read(self.now, number, read, 0);
                }
            }
            HostEvent::StreamEnded(stream) => {
                let answer = user.answer;
                let talk = user.talks.entry(stream).or_insert_with(|| Talk::answering(stream, answer));
                talk.is_over = true;
                self.write(host, stream);
            }
            HostEvent::Writable(stream) => self.write(host, stream),
            HostEvent::Datagram(bytes) => {
                self.hosts[host].has_read(self.now, number, bytes.len() as u64, 1);
                self.users[host].messages.push(bytes);
            }
            HostEvent::StreamReset(stream) | HostEvent::StreamStopped(stream) => user.resets.push(stream),
            HostEvent::Closed(ending) => user.ending = Some(*ending),
            _ => {}
        }
    }

    /// Does the next thing; false if there is nothing left. Datagrams that arrive at the same time are read
    /// before their host is asked for anything, as from a socket.
    fn step(&mut self) -> bool {
        let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
        let timers = [0, 1].map(|host| self.hosts[host].next_timeout());
        let next = arrival.min(timers[0]).min(timers[1]);
        if next.is_never() {
            return false;
        }
        self.now = self.now.max(next);
        if arrival <= next {
            let mut first = None;
            while let Some(entry) = self.network.first_entry()
                && entry.key().0 == arrival
                && first.is_none_or(|to| to == entry.get().to)
            {
                let Underway { to, from: (remote, port), ecn, bytes } = entry.remove();
                first = Some(to);
                let route = Route { local: address(to), remote, port: Some(port) };
                self.hosts[to].handle_datagram(self.now, route, ecn, &bytes);
            }
            self.collect(first.expect("one arrives"));
        } else {
            for (host, at) in timers.iter().enumerate() {
                if *at <= next {
                    self.hosts[host].handle_timeout(self.now);
                    self.collect(host);
                }
            }
        }
        true
    }

    fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if holds(self) {
                return;
            }
            assert!(
                self.step(),
                "nothing happens any more: {:?} {:?}",
                self.reasons(),
                [self.why(0), self.why(1)]
            );
        }
        panic!("it does not end");
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MOST_STEPS {
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let timers = [0, 1].map(|host| self.hosts[host].next_timeout());
            if arrival.min(timers[0]).min(timers[1]) > end || !self.step() {
                self.now = end;
                return;
            }
        }
        panic!("it does not end");
    }

    fn close(&mut self, host: usize) {
        let number = self.number(host);
        self.hosts[host].shut_down(self.now, number);
        self.collect(host);
    }

    fn reasons(&self) -> [Option<CloseReason>; 2] {
        [0, 1].map(|host| self.users[host].ending.as_ref().map(|ending| ending.reason))
    }

    fn why(&self, host: usize) -> String {
        self.users[host].ending.as_ref().and_then(|ending| ending.why.clone()).unwrap_or_default()
    }

    /// Whether everything that was written has been read, in its place.
    fn is_exact(&self) -> bool {
        [0, 1].into_iter().all(|host| {
            let (writer, reader) = (&self.users[host], &self.users[1 - host]);
            writer.talks.iter().filter(|(_, talk)| talk.to_write > 0).all(|(id, talk)| {
                let Some(read) = reader.talks.get(id).map(|talk| &talk.read) else { return false };
                read.len() as u64 == talk.to_write
                    && read.iter().enumerate().all(|(at, byte)| *byte == octet(host, *id, at as u64))
            })
        })
    }

    fn scalar(&self, host: usize, name: &str) -> f64 {
        let row = self.hosts[host].counters(self.number(host));
        row.value(name).unwrap_or_else(|| panic!("{name}"))
    }
}

fn weather() -> impl Strategy<Value = Weather> {
    (0.0..0.15, 0.0..0.2, 0.0..0.3, prop_oneof![Just(0.0), 0.0..0.05])
        .prop_map(|(loss, duplication, reordering, damage)| Weather { loss, duplication, reordering, damage })
}

#[test]
fn a_handshake_takes_one_round_trip_and_a_transfer_is_exact() {
    let mut world = World::connected(Weather::default(), &Config::default());
    assert_eq!(world.users[CLIENT].protocol.as_deref(), Some("test"));
    assert!((world.scalar(CLIENT, "quic.handshake_ms") - 20.0).abs() < 0.01);
    world.users[SERVER].answer = 50_000;
    for bidirectional in [true, false, true] {
        world.talk(CLIENT, bidirectional, 300_000).expect("the peer permits it");
    }
    world.talk(SERVER, false, 20_000).expect("the peer permits it");
    world.run_until(World::is_exact);
    world.close(CLIENT);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.reasons(), [Some(CloseReason::Shutdown); 2]);
    assert_eq!(world.hosts.each_ref().map(Host::connections), [[0; 2]; 2], "nothing is left");
}

/// A server that closes while its answer is on its way hears parts of the request once more, and answers to
/// the end.
#[test]
fn what_comes_twice_changes_no_answer() {
    for seed in 0..100 {
        let mut world = World::connected(
            Weather { loss: 0.05, reordering: 0.3, ..Weather::default() },
            &Config::default(),
        );
        world.rng = Streams { seed, replication: 0 }.stream("weather");
        world.users[SERVER].answer = 30_000;
        let id = world.talk(CLIENT, true, 60_000).expect("the peer permits it");
        world.run_until(|world| world.users[SERVER].talks.get(&id).is_some_and(|talk| talk.is_over));
        world.close(SERVER);
        world.run_for(Duration::from_secs(600));
        assert_eq!(world.reasons()[SERVER], Some(CloseReason::Shutdown), "{seed}");
        assert!(world.is_exact(), "{seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// TLS, streams, messages and the close survive losses, copies, disorder, damage and a NAT that binds the
    /// client anew; some runs begin with Retry.
    #[test]
    fn every_byte_arrives_whatever_the_network_does(
        weather in weather(),
        retry in any::<bool>(),
        sizes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0..60_000_u64), 1..6),
        messages in proptest::collection::vec(0..300_usize, 0..30),
        rebindings in proptest::collection::vec((0..300_u64, any::<bool>()), 0..3),
        answer in 0..20_000_u64,
        seed in any::<u64>(),
    ) {
        let config = Config {
            datagrams: Some(true),
            // A client that only receives is found again by it.
            keep_alive: Some(Duration::from_secs(1)),
            retry: Some(retry),
            idle_timeout: Some(Duration::from_secs(4_000)),
            send_buffer: Some(Bytes(20_000)),
            ..Config::default()
        };
        // A server whose challenges all stay without an answer gives the connection up.
        let loss = if rebindings.is_empty() { weather.loss } else { weather.loss / 10.0 };
        let damage = if rebindings.is_empty() { weather.damage } else { 0.0 };
        let mut world = World::new(Weather { loss, damage, ..weather }, &config);
        world.rng = Streams { seed, replication: 0 }.stream("weather");
        world.connect(&config, &trusting(&roots()), "server.test");
        world.run_until(|world| world.users.iter().all(|user| user.protocol.is_some()));
        world.users[SERVER].answer = answer;
        for (by_server, bidirectional, bytes) in sizes {
            world.talk(if by_server { SERVER } else { CLIENT }, bidirectional, bytes);
        }
        let messages: Vec<_> = (0_u8..).zip(messages).map(|(at, length)| vec![at; length + 1]).collect();
        for message in &messages {
            let number = world.number(CLIENT);
            let sent = world.hosts[CLIENT].send_datagram(world.now, number, message);
            prop_assert!(sent.is_ok(), "{sent:?}");
        }
        world.collect(CLIENT);
        for (millis, has_other_address) in rebindings {
            world.run_for(Duration::from_millis(millis));
            let (address, port) = world.client_at;
            let octets: [u8; 4] = [10, 0, 9, (port % 200) as u8];
            world.client_at = (if has_other_address { IpAddr::from(octets) } else { address }, port + 1);
        }
        world.run_until(World::is_exact);
        let mut heard = world.users[SERVER].messages.clone();
        heard.sort_unstable();
        prop_assert!(heard.windows(2).all(|two| two[0] != two[1]), "one came twice");
        prop_assert!(heard.iter().all(|message| messages.contains(message)));
        world.close(SERVER);
        world.run_for(Duration::from_secs(10_000));
        prop_assert!(world.reasons().iter().all(Option::is_some));
        prop_assert_eq!(world.hosts.each_ref().map(Host::connections), [[0; 2]; 2]);
    }

    /// Noise, replays and changed copies of what was seen, from the peer's address and from others: nothing
    /// ends, nothing is delivered that was not sent, and no state is left.
    #[test]
    fn strangers_change_nothing(
        moments in proptest::collection::vec((0..2_usize, 0..5_u8, any::<u64>(), any::<bool>()), 1..80),
        seed in any::<u64>(),
    ) {
        let mut world = World::connected(Weather { loss: 0.02, ..Weather::default() }, &Config::default());
        world.rng = Streams { seed, replication: 0 }.stream("weather");
        world.talk(CLIENT, true, 100_000).expect("the peer permits it");
        world.talk(SERVER, false, 100_000).expect("the peer permits it");
        for (to, kind, pick, from_peer) in moments {
            let seen = world.seen[1 - to].clone();
            let mut datagram = seen[pick as usize % seen.len()].clone();
            let at = (pick >> 16) as usize % datagram.len();
            match kind {
                0 => {}
                1 => datagram[at] ^= 1 << (pick % 8),
                2 => datagram.truncate(at),
                3 => datagram = (0..at).map(|_| world.rng.below(256) as u8).collect(),
                _ => {
                    let end = datagram.len().min(at + 16);
                    datagram[at..end].fill(pick as u8);
                }
            }
            let remote = if from_peer { address(1 - to) } else { IpAddr::from([192, 0, 2, 7]) };
            let route = Route { local: address(to), remote, port: Some(PORTS[1 - to]) };
            world.hosts[to].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
            world.collect(to);
            world.run_for(Duration::from_millis(7));
        }
        world.run_until(World::is_exact);
        prop_assert_eq!(world.reasons(), [None; 2]);
        world.close(CLIENT);
        world.run_for(Duration::from_secs(100));
        prop_assert_eq!(world.hosts.each_ref().map(Host::connections), [[0; 2]; 2]);
    }

    /// A host that nobody knows takes anything.
    #[test]
    fn noise_opens_nothing(datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1_500), 1..40)) {
        let mut world = World::new(Weather::default(), &Config::default());
        for datagram in datagrams {
            let route = Route { local: address(SERVER), remote: address(CLIENT), port: Some(1) };
            world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
            let mut answered = 0;
            while let Some(transmit) = world.hosts[SERVER].poll_transmit(1) {
                answered += transmit.bytes.len();
            }
            prop_assert!(answered <= datagram.len(), "no answer is longer than what it answers");
        }
        prop_assert_eq!(world.hosts[SERVER].connections(), [0, 0]);
    }
}

/// RFC 9001 sections 4.4, 4.8 and 8.1.
#[test]
fn a_server_that_is_not_trusted_is_left() {
    let other = self_signed(&["server.test".to_owned()]).expect("it is a name");
    let others = Trust::Roots(certificates(other.certificate.as_bytes()).expect("there is one"));
    for (trust, name, words) in [
        (others, "server.test", "certificate"),
        (roots(), "other.test", "not valid for name"),
        (roots(), "10.0.0.2", "not valid for name"),
    ] {
        let mut world = World::new(Weather::default(), &Config::default());
        world.connect(&Config::default(), &trusting(&trust), name);
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.reasons(), [Some(CloseReason::Aborted), None], "the server has not accepted");
        assert!(world.why(CLIENT).contains(words), "{}", world.why(CLIENT));
        world.run_for(Duration::from_secs(100));
        assert_eq!(world.hosts[SERVER].connections(), [0, 0]);
    }
    let mut world = World::new(Weather::default(), &Config::default());
    world.connect(&Config::default(), &trusting(&Trust::Anyone), "other.test");
    world.run_until(|world| world.users[SERVER].protocol.is_some());
}

#[test]
fn ends_without_a_common_protocol_part() {
    let mut world = World::new(Weather::default(), &Config::default());
    world.hosts[SERVER].stop_listening();
    world.hosts[SERVER].listen(&Config::default(), server("other")).expect("nobody waits");
    world.connect(&Config::default(), &trusting(&roots()), "server.test");
    world.run_for(Duration::from_secs(1));
    let ending = world.users[CLIENT].ending.as_ref().expect("it has ended");
    assert_eq!(ending.code, Some((0x100 + 120, false)), "no_application_protocol");
}

/// RFC 9001 section 6: either end updates its keys, and both at once, in the middle of a transfer.
#[test]
fn keys_are_updated_under_way() {
    let weather = Weather { loss: 0.03, duplication: 0.1, reordering: 0.2, damage: 0.0 };
    let mut world = World::connected(weather, &Config::default());
    world.talk(CLIENT, false, 1_000_000).expect("the peer permits it");
    world.talk(SERVER, false, 1_000_000).expect("the peer permits it");
    let mut done = 0;
    for turn in 0..60 {
        world.run_for(Duration::from_millis(50));
        for host in [CLIENT, SERVER] {
            if turn % 3 != 2 && (turn % 2 == host || turn % 3 == 0) {
                let number = world.number(host);
                done += u32::from(world.hosts[host].update_keys(number));
            }
        }
    }
    world.run_until(World::is_exact);
    world.run_for(Duration::from_secs(5));
    let updates = [CLIENT, SERVER].map(|host| world.hosts[host].key_updates(world.number(host)));
    assert!(done > 5 && updates[0] == updates[1], "{done} updates were begun: {updates:?}");
    assert_eq!(world.reasons(), [None; 2]);
}

/// RFC 9000 section 8.1.2.
#[test]
fn a_token_is_asked_for_and_shown() {
    let config = Config { retry: Some(true), ..Config::default() };
    let world = World::connected(Weather::default(), &config);
    assert_eq!(world.seen[SERVER][0][0] & 0xf0, 0xf0, "a Retry packet is first");
    assert!((world.scalar(CLIENT, "quic.handshake_ms") - 40.0).abs() < 0.01, "it costs a round trip");
}

/// RFC 9000 section 6.
#[test]
fn versions_are_negotiated() {
    let mut world = World::new(Weather::default(), &Config::default());
    let mut datagram = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 2, 9, 9];
    let route = Route { local: address(SERVER), remote: address(CLIENT), port: Some(1) };
    for (length, is_answered) in [(1_199, false), (1_200, true)] {
        datagram.resize(length, 0);
        world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
        let answer = world.hosts[SERVER].poll_transmit(1).map(|transmit| transmit.bytes.to_vec());
        assert_eq!(answer.is_some(), is_answered);
        if let Some(answer) = answer {
            assert_eq!(answer[1..], [0, 0, 0, 0, 2, 9, 9, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1]);
        }
        while world.hosts[SERVER].poll_transmit(1).is_some() {}
    }
    // A client that is told of other versions gives up.
    world.connect(&Config::default(), &trusting(&roots()), "server.test");
    let first = &world.seen[CLIENT][0];
    let ids = (first[6..14].to_vec(), first[15..23].to_vec());
    let answer = [&[0x80, 0, 0, 0, 0, 8][..], &ids.1, &[8], &ids.0, &[0x0a, 0x0a, 0x0a, 0x0a]].concat();
    let route = Route { local: address(CLIENT), remote: address(SERVER), port: Some(PORTS[SERVER]) };
    world.hosts[CLIENT].handle_datagram(world.now, route, Ecn::NotEct, &answer);
    world.collect(CLIENT);
    assert!(world.why(CLIENT).contains("other versions"), "{}", world.why(CLIENT));
}

/// RFC 9000 section 10.3: a server that has lost its memory, and not its secret, says so.
#[test]
fn a_server_that_has_forgotten_resets() {
    let mut world = World::connected(Weather::default(), &Config::default());
    world.run_for(Duration::from_secs(1));
    world.hosts[SERVER] = host(SERVER, 100);
    world.hosts[SERVER].listen(&Config::default(), server("test")).expect("nobody waits");
    world.talk(CLIENT, false, 1_000).expect("the peer permits it");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.reasons(), [Some(CloseReason::Aborted), None]);
    assert!(world.why(CLIENT).contains("reset"), "{}", world.why(CLIENT));
    // One with another secret is not believed.
    let mut world = World::connected(Weather::default(), &Config::default());
    world.run_for(Duration::from_secs(1));
    world.hosts[SERVER] = host(7, 100);
    world.hosts[SERVER].listen(&Config::default(), server("test")).expect("nobody waits");
    world.talk(CLIENT, false, 1_000).expect("the peer permits it");
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.reasons(), [None; 2]);
}

/// Where the server sees its client.
fn seen_at(world: &World) -> Option<(IpAddr, u16)> {
    let route = world.hosts[SERVER].route(world.number(SERVER))?;
    Some((route.remote, route.port?))
}

/// RFC 9000 section 9: a NAT gives the client another port, then another address, and the server follows.
#[test]
fn a_client_behind_a_nat_is_followed() {
    let weather = Weather { loss: 0.02, duplication: 0.05, reordering: 0.1, damage: 0.0 };
    let mut world = World::connected(weather, &Config::default());
    world.talk(CLIENT, false, 2_000_000).expect("the peer permits it");
    world.talk(SERVER, false, 2_000_000).expect("the peer permits it");
    for (turn, at) in
        [(address(CLIENT), 40_001), (IpAddr::from([10, 0, 9, 9]), 40_001)].into_iter().enumerate()
    {
        world.run_for(Duration::from_millis(200));
        world.client_at = at;
        world.run_for(Duration::from_millis(500));
        assert_eq!(seen_at(&world), Some(at));
        assert_eq!(world.scalar(SERVER, "quic.rebindings"), (turn + 1) as f64);
    }
    world.run_until(World::is_exact);
    assert_eq!(world.reasons(), [None; 2]);
}

/// RFC 9000 sections 9.2 and 9.5: a client that moves on purpose uses another connection ID.
#[test]
fn a_client_moves_on_purpose() {
    for (last, host) in [(2, CLIENT), (3, 7)] {
        let mut world = World::connected(Weather::default(), &Config::default());
        world.talk(CLIENT, false, 1_000_000).expect("the peer permits it");
        world.talk(SERVER, false, 1_000_000).expect("the peer permits it");
        world.run_for(Duration::from_millis(100));
        let ids = |seen: &[Vec<u8>]| seen.last().map(|datagram| datagram[1..9].to_vec());
        let before = ids(&world.seen[CLIENT]);
        world.client_at = (address(host), 40_000 + last);
        let (now, addresses) = (world.now, vec![address(host)]);
        world.hosts[CLIENT].go_on_from(now, addresses, false);
        world.collect(CLIENT);
        world.run_for(Duration::from_millis(100));
        assert_ne!(ids(&world.seen[CLIENT]), before);
        world.run_until(World::is_exact);
        assert_eq!(seen_at(&world), Some((address(host), 40_000 + last)));
        assert_eq!([CLIENT, SERVER].map(|end| world.scalar(end, "quic.migrations")), [1.0, 0.0]);
        assert_eq!(world.reasons(), [None; 2]);
    }
}

/// RFC 9000 section 9.3.3: somebody on the path sends the client's packets on from other addresses, sooner.
/// The server goes back to the client, and keeps no more addresses than before.
#[test]
fn packets_that_are_sent_on_from_elsewhere_carry_nobody_away() {
    let mut world = World::connected(Weather::default(), &Config::default());
    world.talk(CLIENT, false, 500_000).expect("the peer permits it");
    world.talk(SERVER, false, 500_000).expect("the peer permits it");
    for turn in 0..200_u8 {
        world.run_for(Duration::from_millis(20));
        let Some(datagram) = world.seen[CLIENT].last().cloned() else { continue };
        let route = Route { local: address(SERVER), remote: IpAddr::from([10, 1, turn, 1]), port: Some(9) };
        world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
        world.collect(SERVER);
    }
    world.run_until(World::is_exact);
    world.run_for(Duration::from_secs(3));
    assert_eq!(seen_at(&world), Some(world.client_at));
    assert!(world.scalar(SERVER, "quic.rebindings") > 2.0, "it was carried away for a moment");
    assert_eq!(world.reasons(), [None; 2]);
}

/// RFC 9000 section 13.4: marks count at both ends, those of packets that waited for their keys too.
#[test]
fn marks_are_counted_and_heeded() {
    let config = Config { ecn: Some(true), ..Config::default() };
    let mut world = World::new(Weather::default(), &config);
    world.marks = true;
    let number = world.connect(&config, &trusting(&roots()), "server.test");
    world.run_until(|world| world.users[CLIENT].protocol.is_some() && world.users[SERVER].number.is_some());
    assert_eq!(world.number(CLIENT), number);
    world.talk(CLIENT, false, 100_000).expect("the peer permits it");
    world.run_until(World::is_exact);
    world.run_for(Duration::from_secs(1));
    for host in [CLIENT, SERVER] {
        assert!(world.scalar(host, "quic.ce_received") > 2.0);
    }
    let reported = world.scalar(CLIENT, "quic.ce_reported");
    assert!(reported > 50.0, "{reported}");
    assert!(world.scalar(CLIENT, "quic.ecn_reductions") >= 1.0);
}

/// RFC 9221.
#[test]
fn messages_arrive_at_most_once() {
    let config = Config { datagrams: Some(true), ..Config::default() };
    let weather = Weather { loss: 0.1, duplication: 0.2, reordering: 0.2, damage: 0.0 };
    let mut world = World::connected(weather, &config);
    let number = world.number(CLIENT);
    for at in 0..200_u32 {
        let message = [&at.to_be_bytes()[..], &vec![at as u8; at as usize * 5]].concat();
        world.hosts[CLIENT].send_datagram(world.now, number, &message).expect("it is short enough");
        world.collect(CLIENT);
        world.run_for(Duration::from_millis(5));
    }
    let error = world.hosts[CLIENT].send_datagram(world.now, number, &[0; 1_200]).expect_err("too long");
    assert!(matches!(error, Refusal::TooLong(most) if (1_100..1_200).contains(&most)), "{error:?}");
    world.run_for(Duration::from_secs(5));
    let mut arrived: Vec<u32> = world.users[SERVER]
        .messages
        .iter()
        .map(|message| {
            let (number, rest) = message.split_first_chunk().expect("it has a number");
            let number = u32::from_be_bytes(*number);
            assert!(rest.len() == number as usize * 5 && rest.iter().all(|byte| *byte == number as u8));
            number
        })
        .collect();
    let count = arrived.len();
    arrived.sort_unstable();
    arrived.dedup();
    assert!(arrived.len() == count && count > 150, "{count}");
    // A peer that takes none is sent none.
    let mut world = World::connected(Weather::default(), &Config::default());
    let number = world.number(CLIENT);
    assert_eq!(world.hosts[CLIENT].send_datagram(world.now, number, &[1]), Err(Refusal::TooLong(0)));
}

/// Also if several datagrams are read before the application is told of any.
#[test]
fn messages_that_arrive_together_are_told_one_by_one() {
    let config = Config { datagrams: Some(true), ..Config::default() };
    let mut world = World::connected(Weather::default(), &config);
    let number = world.number(CLIENT);
    let messages: Vec<Vec<u8>> = (0..12).map(|at| vec![at; 100 * at as usize]).collect();
    for message in &messages {
        world.hosts[CLIENT].send_datagram(world.now, number, message).expect("it is short enough");
    }
    world.collect(CLIENT);
    let arrivals: Vec<Time> = world.network.keys().map(|(at, _)| *at).collect();
    assert!(arrivals.len() > 5 && arrivals.iter().all(|at| *at == arrivals[0]), "{arrivals:?}");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.users[SERVER].messages, messages);
}

/// RFC 9000 section 8.2.2: a client that moves twice at once is answered at both addresses, although its
/// datagrams are read together.
#[test]
fn challenges_that_arrive_together_are_answered_where_they_come_from() {
    let mut world = World::connected(Weather::default(), &Config::default());
    world.run_for(Duration::from_secs(1));
    let places = [7, 8].map(|last| (IpAddr::from([10, 0, 9, last]), 40_000 + u16::from(last)));
    for (remote, port) in places {
        world.client_at = (remote, port);
        world.hosts[CLIENT].go_on_from(world.now, vec![remote], false);
        world.collect(CLIENT);
    }
    let arrivals: Vec<_> = world.network.iter().map(|((at, _), underway)| (*at, underway.from)).collect();
    let at = arrivals[0].0;
    assert_eq!(arrivals, places.map(|from| (at, from)));
    for Underway { from: (remote, port), ecn, bytes, .. } in std::mem::take(&mut world.network).into_values()
    {
        let route = Route { local: address(SERVER), remote, port: Some(port) };
        world.hosts[SERVER].handle_datagram(at, route, ecn, &bytes);
    }
    let mut answered = Vec::new();
    while let Some(transmit) = world.hosts[SERVER].poll_transmit(1) {
        answered.push((transmit.route.remote, transmit.route.port.expect("it has one")));
    }
    assert!(places.iter().all(|place| answered.contains(place)), "{answered:?}");
}

/// An application that does not read holds its peer back, and costs no more than it has promised.
#[test]
fn an_application_that_does_not_read_is_not_buried() {
    let mut world = World::connected(Weather::default(), &Config::default());
    world.users[SERVER].is_idle = true;
    world.talk(CLIENT, false, 40_000_000).expect("the peer permits it");
    world.run_for(Duration::from_secs(20));
    let unread = world.users[SERVER].unread;
    assert!((4 << 20..5 << 20).contains(&unread), "{unread}");
    world.users[SERVER].is_idle = false;
    let number = world.number(SERVER);
    world.hosts[SERVER].has_read(world.now, number, unread, 0);
    world.users[SERVER].unread = 0;
    world.collect(SERVER);
    world.run_until(World::is_exact);
}

/// RFC 9000 sections 2.4 and 3.5.
#[test]
fn streams_are_given_up() {
    let mut world = World::connected(Weather::default(), &Config::default());
    let [reset, stopped] =
        [(); 2].map(|()| world.talk(CLIENT, false, 30_000_000).expect("the peer permits it"));
    world.run_for(Duration::from_millis(50));
    for (host, stream, is_reset) in [(CLIENT, reset, true), (SERVER, stopped, false)] {
        let number = world.number(host);
        assert!(world.hosts[host].give_up_stream(world.now, number, stream, 7, is_reset));
        world.collect(host);
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!([0, 1].map(|host| world.users[host].resets.clone()), [vec![stopped], vec![reset, stopped]]);
    let number = world.number(CLIENT);
    assert_eq!(world.hosts[CLIENT].write(world.now, number, stopped, &[1], false), Err(Refusal::NoStream));
}

/// RFC 9000 sections 21.2 and 8.1: a flood of first packets from everywhere keeps little, and clients that
/// are there still come in.
#[test]
fn a_flood_of_first_packets_is_answered_with_retry() {
    let mut world = World::new(Weather::default(), &Config::default());
    let client = trusting(&roots());
    let mut flood = host(9, 0);
    let route = flood.route_to(address(SERVER), PORTS[SERVER]);
    let (mut retries, mut sent, mut got) = (0, 0, 0);
    for count in 0..1_000_u32 {
        flood.connect(world.now, &Config::default(), &client, route, "server.test").expect("possible");
        while let Some(transmit) = flood.poll_transmit(1) {
            let datagram = transmit.bytes.to_vec();
            sent += datagram.len();
            let remote = IpAddr::from(0x0b00_0000_u32.wrapping_add(count).to_be_bytes());
            let route = Route { local: address(SERVER), remote, port: Some(9) };
            world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
        }
        while let Some(transmit) = world.hosts[SERVER].poll_transmit(1) {
            got += transmit.bytes.len();
            retries += u32::from(transmit.bytes[0] & 0xf0 == 0xf0);
        }
    }
    // The host of these tests has room for a hundred: there the oldest gives way.
    assert_eq!(world.hosts[SERVER].connections(), [100, 100]);
    assert!(got <= 3 * sent, "{got} bytes answer {sent}");
    let mut roomy = host(SERVER, 10_000);
    roomy.listen(&Config::default(), server("test")).expect("nobody waits");
    world.hosts[SERVER] = roomy;
    let mut flood = host(9, 0);
    for count in 0..1_000_u32 {
        flood.connect(world.now, &Config::default(), &client, route, "server.test").expect("possible");
        while let Some(transmit) = flood.poll_transmit(1) {
            let datagram = transmit.bytes.to_vec();
            let remote = IpAddr::from(0x0b00_0000_u32.wrapping_add(count).to_be_bytes());
            let route = Route { local: address(SERVER), remote, port: Some(9) };
            world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &datagram);
        }
        while let Some(transmit) = world.hosts[SERVER].poll_transmit(1) {
            retries += u32::from(transmit.bytes[0] & 0xf0 == 0xf0);
        }
    }
    assert_eq!((world.hosts[SERVER].connections(), retries), ([256, 256], 744));
    world.connect(&Config::default(), &client, "server.test");
    world.run_until(|world| world.users[CLIENT].protocol.is_some());
    world.run_for(Duration::from_secs(100));
    assert_eq!(world.hosts[SERVER].connections()[1], 0, "who does not answer is forgotten");
}

/// RFC 9000 section 14.2.1: only what quotes our own packet is believed.
#[test]
fn an_unreachable_port_is_told() {
    let mut world = World::new(Weather::default(), &Config::default());
    world.connect(&Config::default(), &trusting(&roots()), "server.test");
    let mut quoted = world.seen[CLIENT][0][..28].to_vec();
    let route = Route { local: address(CLIENT), remote: address(SERVER), port: Some(PORTS[SERVER]) };
    let unreachable = Unreachable { route, is_refused: true, reason: "nobody has the UDP port there" };
    quoted[8] ^= 1;
    world.hosts[CLIENT].handle_unreachable(world.now, unreachable, &quoted);
    world.collect(CLIENT);
    assert_eq!(world.reasons(), [None; 2]);
    quoted[8] ^= 1;
    world.hosts[CLIENT].handle_unreachable(world.now, unreachable, &quoted);
    world.collect(CLIENT);
    assert_eq!(world.reasons(), [Some(CloseReason::Lost), None]);
    assert_eq!(world.why(CLIENT), "nobody has the UDP port there (ICMP)");
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

/// RFC 9000 section 14.1: it is the datagram that has 1200 bytes, with whatever stands behind the packet.
#[test]
fn a_first_packet_may_be_short_in_a_long_datagram() {
    let mut world = World::new(Weather::default(), &Config::default());
    world.connect(&Config::default(), &trusting(&roots()), "server.test");
    let mut datagram = world.seen[CLIENT][0].clone();
    let first = ConnectionId::new(&datagram[6..14]).expect("it has eight bytes");
    let keys = |is_client| {
        let mut keys = Keys::default();
        keys.set(Level::Initial, Real::initial(first, is_client));
        keys
    };
    let mut store = Store::default();
    let parsed = Content::parse(&mut datagram, 8, &mut keys(false), &mut store).expect("it is a packet");
    let Content::Packets(mut packets) = parsed.content else { panic!("it is a packet") };
    packets[0].frames.retain(|frame| !matches!(frame, Frame::Padding { .. }));
    let mut short = Vec::new();
    keys(true).seal(&packets, &mut store, &mut short);
    for (length, is_accepted) in [(1_199, false), (1_200, true)] {
        short.resize(length, 0);
        let route = Route { local: address(SERVER), remote: address(CLIENT), port: Some(PORTS[CLIENT]) };
        world.hosts[SERVER].handle_datagram(world.now, route, Ecn::NotEct, &short);
        assert_eq!(world.hosts[SERVER].connections(), [usize::from(is_accepted); 2]);
    }
}
