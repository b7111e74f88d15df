//! Several paths of QUIC (RFC 10069) between two hosts with two addresses each, in virtual time and with TLS
//! as on the wire: paths are opened, carry data, fall silent, come back, move and are given up, and no byte
//! is lost.
#![cfg(feature = "quic")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::LazyLock;

use anabranch_live::Handle;
use anabranch_live::quic::{
    Client, Host, HostEvent, LivePath, PathChange, Route, SelfSigned, Server, Settings, Trust, self_signed,
};
use anabranch_live::stack::Stack as _;
use anabranch_transport::flow::Ecn;
use anabranch_transport::path::scheduler;
use anabranch_transport::quic::Config;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};

const STREAMS: Streams = Streams { seed: 1, replication: 0 };
const CLIENT: usize = 0;
const SERVER: usize = 1;
const PORTS: [u16; 2] = [40_000, 4_433];
/// 20 Mbit/s.
const NANOS_PER_BYTE: u64 = 400;
const MOST_STEPS: u32 = 2_000_000;

static CERTIFICATE: LazyLock<SelfSigned> =
    LazyLock::new(|| self_signed(&["server.test".to_owned()]).expect("it is a name"));

/// The address of a host in a network.
fn address(host: usize, network: u8) -> IpAddr {
    IpAddr::from([10, 0, network, host as u8 + 1])
}

fn host(index: usize) -> Host {
    let addresses = vec![address(index, 0), address(index, 1)];
    let settings = Settings { addresses, mtu: 1_500, most_accepted: 10 };
    Host::new(settings, &Secret([index as u8; 32]), Streams { seed: index as u64, ..STREAMS })
}

const fn octet(host: usize, position: u64) -> u8 {
    (position % 251) as u8 ^ (position / 251 % 241) as u8 ^ host as u8
}

/// What an end has written and read on the client's first stream, and heard of paths.
#[derive(Default)]
struct User {
    number: Option<Handle>,
    to_write: u64,
    written: u64,
    read: u64,
    messages: usize,
    is_over: bool,
    changes: Vec<(u32, PathChange)>,
    refused: Vec<String>,
}

/// A packet on its way: to which host, on which route, as what.
type Flying = (usize, Route, Vec<u8>);

struct World {
    now: Time,
    hosts: [Host; 2],
    users: [User; 2],
    loss: f64,
    rng: Rng,
    network: BTreeMap<(Time, u64), Flying>,
    sent: u64,
    /// Until when each direction of each network is busy.
    busy: BTreeMap<(usize, u8), Time>,
    /// Networks that carry nothing.
    dead: BTreeSet<u8>,
    /// Where the server sees an address of the client, behind a NAT.
    nat: BTreeMap<IpAddr, (IpAddr, u16)>,
}

/// The third byte.
fn network_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[2],
        IpAddr::V6(_) => 0,
    }
}

fn several() -> Config {
    let idle_timeout = Some(Duration::from_secs(4_000));
    Config { multipath: Some(true), idle_timeout, ..Config::default() }
}

impl World {
    fn new(configs: [&Config; 2]) -> Self {
        let SelfSigned { certificate, key } = &*CERTIFICATE;
        let protocols = ["test".to_owned()];
        let server = Server::new(certificate.as_bytes(), key.as_bytes(), &protocols).expect("they fit");
        let mut hosts = [host(CLIENT), host(SERVER)];
        hosts[SERVER].listen(configs[SERVER], server).expect("the settings are possible");
        let mut world = Self {
            now: Time::ZERO,
            hosts,
            users: [User::default(), User::default()],
            loss: 0.0,
            rng: STREAMS.stream("weather"),
            network: BTreeMap::new(),
            sent: 0,
            busy: BTreeMap::new(),
            dead: BTreeSet::new(),
            nat: BTreeMap::new(),
        };
        let client = Client::new(&Trust::Anyone, &protocols).expect("there is nothing wrong");
        let route = world.route(0);
        let number = world.hosts[CLIENT].connect(Time::ZERO, configs[CLIENT], &client, route, "server.test");
        world.users[CLIENT].number = Some(number.expect("the settings are possible"));
        world.collect(CLIENT);
        world
    }

    /// A world whose ends have both paths.
    fn open(config: &Config) -> Self {
        let mut world = Self::new([config, config]);
        world.add(1, false).expect("it can be");
        world.run_for(Duration::from_millis(500));
        assert_eq!(world.paths(CLIENT).iter().filter(|path| path.is_validated).count(), 2);
        assert_eq!(world.paths(SERVER).iter().filter(|path| path.is_validated).count(), 2);
        world
    }

    fn route(&self, network: u8) -> Route {
        let route = self.hosts[CLIENT].route_to(address(SERVER, network), PORTS[SERVER]);
        assert_eq!(route.local, address(CLIENT, network));
        route
    }

    fn number(&self, host: usize) -> Handle {
        self.users[host].number.expect("it has a connection")
    }

    fn add(&mut self, network: u8, is_backup: bool) -> Result<(), String> {
        let (number, route) = (self.number(CLIENT), self.route(network));
        let added = self.hosts[CLIENT].add_path(self.now, number, route, is_backup);
        self.collect(CLIENT);
        added
    }

    fn paths(&self, host: usize) -> Vec<LivePath> {
        self.hosts[host].paths(self.number(host)).into_iter().map(|(path, _)| path).collect()
    }

    /// Bytes that a host has sent on each path ID.
    fn bytes(&self, host: usize) -> Vec<u64> {
        self.paths(host).iter().map(|path| path.traffic[0]).collect()
    }

    fn heard(&self, host: usize, path: u32, change: PathChange) -> bool {
        self.users[host].changes.contains(&(path, change))
    }

    /// Writes so much more on the client's first stream.
    fn write(&mut self, host: usize, bytes: u64) {
        self.users[host].to_write += bytes;
        self.write_on(host);
    }

    fn write_on(&mut self, host: usize) {
        let number = self.number(host);
        if host == CLIENT && self.users[CLIENT].written == 0 {
            let stream = self.hosts[CLIENT].open_stream(number, true).expect("it is open");
            assert_eq!(stream, Some(0));
        }
        loop {
            let User { to_write, written, .. } = self.users[host];
            let length = (to_write - written).min(10_000);
            let bytes: Vec<u8> = (written..written + length).map(|at| octet(host, at)).collect();
            let taken = match self.hosts[host].write(self.now, number, 0, &bytes, false) {
                Ok(taken) if length > 0 => taken as u64,
                _ => break,
            };
            self.users[host].written += taken;
            if taken < length {
                break;
            }
        }
        self.collect(host);
    }

    /// Puts what a host sends on the network, and hears what it tells.
    fn collect(&mut self, from: usize) {
        loop {
            while let Some(transmit) = self.hosts[from].poll_transmit(8) {
                let Route { local, remote, port } = transmit.route;
                let to = 1 - from;
                let network = network_of(if from == CLIENT { local } else { remote });
                // As the other end sees it.
                let route = if from == CLIENT {
                    let (seen, at) = self.nat.get(&local).copied().unwrap_or((local, PORTS[CLIENT]));
                    Route { local: remote, remote: seen, port: Some(at) }
                } else {
                    let is_of = |(_, seen): &(&IpAddr, &(IpAddr, u16))| **seen == (remote, port.unwrap_or(0));
                    let inside = self.nat.iter().find(is_of).map(|(inside, _)| *inside);
                    if inside.is_none() && (port != Some(PORTS[CLIENT]) || self.nat.contains_key(&remote)) {
                        continue;
                    }
                    Route { local: inside.unwrap_or(remote), remote: local, port: Some(PORTS[SERVER]) }
                };
                let (delay, segment) =
                    (Duration::from_millis(10 + 15 * u64::from(network)), transmit.segment);
                let datagrams: Vec<Vec<u8>> = transmit.bytes.chunks(segment).map(<[u8]>::to_vec).collect();
                for datagram in datagrams {
                    let begins = self.busy.get(&(to, network)).copied().unwrap_or(self.now).max(self.now);
                    let is_full = begins.saturating_since(self.now) > Duration::from_millis(50);
                    if is_full || self.dead.contains(&network) || self.rng.bernoulli(self.loss) {
                        continue;
                    }
                    let leaves = begins + Duration::from_nanos(datagram.len() as u64 * NANOS_PER_BYTE);
                    self.busy.insert((to, network), leaves);
                    self.sent += 1;
                    self.network.insert((leaves + delay, self.sent), (to, route, datagram));
                }
            }
            let Some((number, event)) = self.hosts[from].poll_event() else { return };
            self.tell(from, number, event);
        }
    }

    fn tell(&mut self, host: usize, number: Handle, event: HostEvent) {
        let user = &mut self.users[host];
        match event {
            HostEvent::Accepted(_) => user.number = Some(number),
            HostEvent::Received { bytes, .. } => {
                for byte in &bytes {
                    assert_eq!(*byte, octet(1 - host, user.read), "at {}", user.read);
                    user.read += 1;
                }
                self.hosts[host].has_read(self.now, number, bytes.len() as u64, 0);
            }
            HostEvent::Writable(_) => self.write_on(host),
            HostEvent::Datagram(bytes) => {
                user.messages += 1;
                self.hosts[host].has_read(self.now, number, bytes.len() as u64, 1);
            }
            HostEvent::Path { path, change, .. } => user.changes.push((path, change)),
            HostEvent::PathRefused { why, .. } => user.refused.push(why),
            HostEvent::Closed(_) => user.is_over = true,
            _ => {}
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MOST_STEPS {
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let timers = [0, 1].map(|host| self.hosts[host].next_timeout());
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival <= next {
                let (_, (to, route, datagram)) = self.network.pop_first().expect("it is there");
                self.hosts[to].handle_datagram(self.now, route, Ecn::NotEct, &datagram);
                self.collect(to);
            } else {
                for (host, at) in timers.iter().enumerate() {
                    if *at <= next {
                        self.hosts[host].handle_timeout(self.now);
                        self.collect(host);
                    }
                }
            }
        }
        panic!("it does not end");
    }

    /// Has both ends write so much, and waits for it.
    fn exchange(&mut self, bytes: u64, seconds: u64) {
        let before = [0, 1].map(|host: usize| self.users[host].to_write);
        self.write(CLIENT, bytes);
        self.run_for(Duration::from_millis(200));
        self.write(SERVER, bytes);
        self.run_for(Duration::from_secs(seconds));
        let read = [1, 0].map(|host: usize| self.users[host].read);
        assert_eq!(
            read,
            before.map(|before| before + bytes),
            "{:?}",
            self.users.each_ref().map(|u| u.is_over)
        );
    }
}

#[test]
fn both_paths_carry_data_in_both_directions() {
    let config = Config { scheduler: Some(scheduler::Config::RoundRobin), ..several() };
    let mut world = World::open(&config);
    for host in [CLIENT, SERVER] {
        let changes: Vec<_> = world.users[host].changes.clone();
        assert_eq!(changes, [(1, PathChange::Opened), (1, PathChange::Validated)], "{host}");
    }
    world.exchange(2_000_000, 20);
    for host in [CLIENT, SERVER] {
        let bytes = world.bytes(host);
        assert!(bytes.iter().all(|bytes| *bytes > 400_000), "{host}: {bytes:?}");
        assert!(world.paths(host).iter().all(|path| path.srtt.is_some()));
    }
    let [first, second] = [0, 1].map(|at: usize| world.paths(CLIENT)[at].srtt.unwrap().as_millis_f64());
    assert!((20.0..90.0).contains(&first) && (50.0..120.0).contains(&second), "{first} {second}");
}

/// Whatever is lost on either path, and however often keys are updated meanwhile.
#[test]
fn every_byte_arrives_over_lossy_paths_with_new_keys() {
    for (loss, scheduler) in [
        (0.0, scheduler::Config::RoundRobin),
        (0.01, scheduler::Config::MinRtt),
        (0.05, scheduler::Config::RoundRobin),
        (0.05, scheduler::Config::Redundant),
    ] {
        let config = Config { scheduler: Some(scheduler), key_update: Some(100), ..several() };
        let mut world = World::open(&config);
        world.loss = loss;
        world.exchange(1_500_000, 120);
        // The last update may not have been heard of yet.
        let updates = [CLIENT, SERVER].map(|host| world.hosts[host].key_updates(world.number(host)));
        assert!(updates[0] >= 2 && updates[0].abs_diff(updates[1]) <= 1, "{updates:?} at {loss}");
    }
}

/// A path that is used rarely knows of several key updates by one packet only.
#[test]
fn a_path_may_sleep_through_key_updates() {
    let config = Config { key_update: Some(60), ..several() };
    let mut world = World::new([&config, &config]);
    world.add(1, true).expect("it can be");
    world.run_for(Duration::from_millis(500));
    for turn in 1..5_u32 {
        world.exchange(400_000, 20);
        let updates = world.hosts[CLIENT].key_updates(world.number(CLIENT));
        assert!(updates >= u64::from(turn), "{updates}");
        let number = world.number(CLIENT);
        world.hosts[CLIENT].set_path_status(world.now, number, 1, false);
        world.hosts[CLIENT].set_path_status(world.now, number, 0, true);
        world.collect(CLIENT);
        world.exchange(30_000, 5);
        world.hosts[CLIENT].set_path_status(world.now, number, 0, false);
        world.hosts[CLIENT].set_path_status(world.now, number, 1, true);
        world.collect(CLIENT);
        world.run_for(Duration::from_millis(200));
    }
    assert!(world.bytes(CLIENT)[1] > 100_000, "{:?}", world.bytes(CLIENT));
}

#[test]
fn a_backup_carries_data_only_while_the_other_path_is_cut() {
    let config = Config { keep_alive: Some(Duration::from_millis(500)), ..several() };
    let mut world = World::new([&config, &config]);
    world.add(1, true).expect("it can be");
    world.run_for(Duration::from_millis(500));
    assert!(world.heard(SERVER, 1, PathChange::Status { is_backup: true }));
    world.exchange(500_000, 10);
    let idle = world.bytes(CLIENT)[1];
    assert!(idle < 5_000, "{idle}");
    world.dead.insert(0);
    world.exchange(500_000, 20);
    assert!(world.bytes(CLIENT)[1] > 500_000 && world.heard(CLIENT, 0, PathChange::Silent));
    world.dead.clear();
    world.run_for(Duration::from_secs(30));
    assert!(world.heard(CLIENT, 0, PathChange::Answers));
    let before = world.bytes(CLIENT);
    world.exchange(500_000, 10);
    let after = world.bytes(CLIENT);
    assert!(after[0] - before[0] > 500_000 && after[1] - before[1] < 50_000, "{before:?} {after:?}");
    // The other way round from now on.
    let number = world.number(CLIENT);
    for (path, is_backup) in [(0, true), (1, false)] {
        assert!(world.hosts[CLIENT].set_path_status(world.now, number, path, is_backup));
    }
    world.collect(CLIENT);
    world.run_for(Duration::from_millis(200));
    assert!(world.heard(SERVER, 1, PathChange::Status { is_backup: false }));
    world.exchange(500_000, 10);
    let last = world.bytes(CLIENT);
    assert!(last[1] - after[1] > 500_000 && last[0] - after[0] < 50_000, "{after:?} {last:?}");
}

/// Path IDs are never used again, and a client that opens and abandons in cycles uses them up: that is all it
/// costs the server.
#[test]
fn paths_are_given_up_and_opened_until_there_are_no_more_ids() {
    let mut world = World::open(&several());
    let number = world.number(CLIENT);
    assert!(world.add(1, false).unwrap_err().contains("already"));
    for path in 1..8 {
        world.write(CLIENT, 100_000);
        world.run_for(Duration::from_millis(300));
        assert!(world.hosts[CLIENT].abandon_path(world.now, number, path, 7));
        assert!(!world.hosts[CLIENT].abandon_path(world.now, number, path, 7), "it is over");
        assert!(!world.hosts[CLIENT].abandon_path(world.now, number, 0, 7), "it is the last one");
        world.collect(CLIENT);
        world.run_for(Duration::from_millis(500));
        for host in [CLIENT, SERVER] {
            assert!(world.heard(host, path, PathChange::Abandoned), "{host} {path}");
        }
        world.add(1, false).expect("it can be");
        world.run_for(Duration::from_millis(500));
        assert_eq!(world.heard(SERVER, path + 1, PathChange::Validated), path < 7);
    }
    assert_eq!(world.users[CLIENT].refused.len(), 1, "{:?}", world.users[CLIENT].refused);
    assert!(world.users[CLIENT].refused[0].contains("all of its path IDs"));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.users[SERVER].read, 700_000);
    assert_eq!(world.paths(SERVER).len(), 8);
}

/// The server gives up the path of the handshake, and the connection goes on over the other one.
#[test]
fn the_first_path_may_be_given_up_by_the_server() {
    let mut world = World::open(&several());
    world.write(CLIENT, 1_000_000);
    world.run_for(Duration::from_millis(100));
    let number = world.number(SERVER);
    assert!(world.hosts[SERVER].abandon_path(world.now, number, 0, 0));
    world.collect(SERVER);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.users[SERVER].read, 1_000_000);
    assert!(world.heard(CLIENT, 0, PathChange::Abandoned));
    assert_eq!(world.hosts[SERVER].route(number).map(|route| route.remote), Some(address(CLIENT, 1)));
    world.add(0, false).expect("another path between the same addresses");
    world.run_for(Duration::from_millis(500));
    assert!(world.heard(SERVER, 2, PathChange::Validated));
    world.exchange(500_000, 10);
}

/// A NAT binds one path anew in the middle of a transfer; the other one does not notice.
#[test]
fn a_path_is_bound_anew_by_a_nat() {
    for network in [0, 1_u8] {
        let mut world = World::open(&several());
        world.exchange(1, 1);
        for turn in 1..4_u16 {
            world.write(CLIENT, 500_000);
            world.write(SERVER, 500_000);
            world.run_for(Duration::from_millis(60));
            let host = if turn == 3 { IpAddr::from([10, 0, network, 99]) } else { address(CLIENT, network) };
            world.nat.insert(address(CLIENT, network), (host, 50_000 + turn));
            world.run_for(Duration::from_secs(8));
            let read = [0, 1].map(|host: usize| world.users[host].read);
            assert_eq!(read, [1 + u64::from(turn) * 500_000; 2], "{network}");
        }
        assert!(world.heard(SERVER, network.into(), PathChange::Moved));
        assert!(!world.heard(SERVER, (1 - network).into(), PathChange::Moved));
        assert!(
            !world.heard(SERVER, 0, PathChange::Abandoned) && !world.heard(SERVER, 1, PathChange::Abandoned)
        );
    }
}

/// A client whose sockets all have another port says so on every path.
#[test]
fn all_paths_move_at_once() {
    for quietly in [false, true] {
        let mut world = World::open(&several());
        world.exchange(300_000, 5);
        for network in [0, 1] {
            world.nat.insert(address(CLIENT, network), (address(CLIENT, network), 41_000));
        }
        let addresses = vec![address(CLIENT, 0), address(CLIENT, 1)];
        world.hosts[CLIENT].go_on_from(world.now, addresses, quietly);
        world.collect(CLIENT);
        world.exchange(300_000, 5);
        let row = world.hosts[CLIENT].counters(world.number(CLIENT));
        assert_eq!(row.value("quic.migrations"), Some(if quietly { 0.0 } else { 2.0 }));
        assert!(world.heard(SERVER, 0, PathChange::Moved) && world.heard(SERVER, 1, PathChange::Moved));
        assert!(world.paths(SERVER).iter().all(|path| path.is_open && path.is_validated));
    }
}

#[test]
fn a_path_that_does_not_work_is_given_up_and_messages_go_on() {
    let config = Config { datagrams: Some(true), ..several() };
    let mut world = World::new([&config, &config]);
    world.dead.insert(1);
    world.add(1, false).expect("it can be");
    world.run_for(Duration::from_millis(300));
    let number = world.number(CLIENT);
    for _ in 0..100 {
        world.hosts[CLIENT].send_datagram(world.now, number, &[7; 500]).expect("it has room");
        world.collect(CLIENT);
        world.run_for(Duration::from_millis(100));
    }
    assert_eq!(world.users[SERVER].messages, 100);
    assert!(world.heard(CLIENT, 1, PathChange::Abandoned));
}

#[test]
fn who_may_open_no_path_is_told_so() {
    let mut world = World::new([&several(), &Config::default()]);
    world.add(1, false).expect("what the other end wants is not known yet");
    world.run_for(Duration::from_millis(300));
    assert!(world.users[CLIENT].refused[0].contains("does not use several paths"));
    world.exchange(100_000, 5);
    let mut world = World::new([&Config::default(), &several()]);
    world.run_for(Duration::from_millis(300));
    assert!(world.add(1, false).unwrap_err().contains("multipath = true"));
    let (number, route) = (world.number(SERVER), world.route(1));
    let refused = world.hosts[SERVER].add_path(world.now, number, route, false).unwrap_err();
    assert!(refused.contains("the end that has opened the connection"));
}
