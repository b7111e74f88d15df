//! Two hosts of TCP or MPTCP and a network in virtual time: every octet arrives, in its place, whatever the
//! network does.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::stack::Stack as _;
use anabranch_live::stream::{Host, HostEvent, Route, Settings, StreamEnd};
use anabranch_transport::endpoint::{CloseReason, Command};
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::{mptcp, tcp};
use proptest::prelude::*;

const PORT: u16 = 5_001;
/// The flag of a segment.
const SYN: u8 = 2;
const STREAMS: Streams = Streams { seed: 1, replication: 0 };

/// The impairments of packets, each with this probability.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: f64,
    duplication: f64,
    reordering: f64,
    /// A bit is flipped.
    damage: f64,
}

/// The application at one end: how much it writes, and what it has read.
#[derive(Debug, Default)]
struct User {
    id: Option<Handle>,
    to_write: u64,
    written: u64,
    read: u64,
    is_exact: bool,
    closed: Option<CloseReason>,
    has_shut_down: bool,
    /// Reads nothing once a peer has connected.
    is_late: bool,
}

struct World<E: StreamEnd> {
    now: Time,
    hosts: [Host<E>; 2],
    users: [User; 2],
    weather: Weather,
    rng: Rng,
    /// By arrival and order of sending: the receiver, the route, and the bytes.
    network: BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>,
    sent: u64,
    /// The network on which nothing passes.
    cut: Option<u8>,
    /// The network on which data is changed on its way, with a TCP checksum made valid again.
    meddled: Option<u8>,
    /// How many more segments of each host keep the options of MPTCP, besides SYNs.
    keeps: [u32; 2],
    /// Octets that came on each network.
    carried: [u64; 2],
}

/// Changes the last whole word of a segment that has data, and its checksum with it (RFC 1624).
fn meddle(segment: &mut [u8]) {
    let header = usize::from(segment[12] >> 4) * 4;
    let last = (segment.len() & !1) - 2;
    if last < header {
        return;
    }
    let word = |segment: &[u8], place: usize| u16::from_be_bytes([segment[place], segment[place + 1]]);
    let (old, checksum) = (word(segment, last), word(segment, 16));
    let new = old ^ 0x0100;
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    segment[last..last + 2].copy_from_slice(&new.to_be_bytes());
    segment[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Replaces the options of MPTCP by padding, but for SYNs, and makes the checksum valid again (RFC 1624).
fn strip(segment: &mut [u8]) {
    let header = usize::from(segment[12] >> 4) * 4;
    if segment[13] & SYN != 0 {
        return;
    }
    let sum = |segment: &[u8]| {
        let words = segment[20..header].chunks_exact(2);
        words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>()
    };
    let before = sum(segment);
    let mut place = 20;
    while place < header && segment[place] != 0 {
        let length = if segment[place] == 1 { 1 } else { usize::from(segment[place + 1]) };
        if segment[place] == 30 {
            segment[place..place + length].fill(1);
        }
        place += length;
    }
    let checksum = u16::from_be_bytes([segment[16], segment[17]]);
    let mut new = u32::from(!checksum) + sum(segment) + (u32::MAX - before) % 0xffff;
    while new > 0xffff {
        new = (new & 0xffff) + (new >> 16);
    }
    segment[16..18].copy_from_slice(&(!(new as u16)).to_be_bytes());
}

fn address(host: usize, network: u8) -> IpAddr {
    IpAddr::from([10, 0, network, host as u8 + 1])
}

/// The octet at this position of what both ends write.
const fn octet(position: u64) -> u8 {
    (position % 251) as u8 ^ (position / 251 % 241) as u8
}

impl<E: StreamEnd> World<E> {
    fn new(networks: u8, weather: Weather) -> Self {
        let host = |index: usize| {
            let addresses = (0..networks).map(|network| address(index, network)).collect();
            let settings = Settings { addresses, mtu: 1_500, most_accepted: 100 };
            Host::new(settings, Secret([index as u8; 32]), Streams { seed: index as u64, ..STREAMS })
        };
        let user = || User { is_exact: true, ..User::default() };
        Self {
            now: Time::ZERO,
            hosts: [host(0), host(1)],
            users: [user(), user()],
            weather,
            rng: STREAMS.stream("weather"),
            network: BTreeMap::new(),
            sent: 0,
            cut: None,
            meddled: None,
            keeps: [u32::MAX; 2],
            carried: [0; 2],
        }
    }

    /// Host 0 opens a connection with host 1, which listens; both write this much.
    fn connect(&mut self, config: &E::Config, local_port: u16, sizes: [u64; 2]) {
        let _ = self.hosts[1].listen(PORT, config);
        for (user, size) in self.users.iter_mut().zip(sizes) {
            *user = User { to_write: size, is_exact: true, ..User::default() };
        }
        self.hosts[0]
            .connect(self.now, config, local_port, &[address(1, 0)], PORT)
            .expect("the settings are possible");
    }

    fn put(&mut self, to: usize, route: Route, bytes: Vec<u8>) {
        let mut delay = Duration::from_millis(10);
        if self.rng.bernoulli(self.weather.reordering) {
            delay += Duration::from_millis(self.rng.below(20));
        }
        self.sent += 1;
        self.network.insert((self.now + delay, self.sent), (to, route, bytes));
    }

    fn exchange(&mut self) {
        for index in 0..2 {
            let mut packets = Vec::new();
            while let Some(transmit) = self.hosts[index].poll_transmit(1) {
                let Route { local, remote, .. } = transmit.route;
                packets.push((Route { local: remote, remote: local, port: None }, transmit.bytes.to_vec()));
            }
            for (route, mut bytes) in packets {
                let IpAddr::V4(local) = route.local else { unreachable!("all are of version 4") };
                let network = local.octets()[2];
                if self.cut == Some(network) || self.rng.bernoulli(self.weather.loss) {
                    continue;
                }
                self.carried[usize::from(network)] += bytes.len() as u64;
                if self.rng.bernoulli(self.weather.duplication) {
                    self.put(1 - index, route, bytes.clone());
                }
                if self.meddled == Some(network) {
                    meddle(&mut bytes);
                }
                if self.keeps[index] == 0 {
                    strip(&mut bytes);
                } else if bytes[13] & SYN == 0 {
                    self.keeps[index] -= 1;
                }
                if self.rng.bernoulli(self.weather.damage) {
                    let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                self.put(1 - index, route, bytes);
            }
            while let Some((id, event)) = self.hosts[index].poll_event() {
                self.on_event(index, id, event);
            }
            self.write(index);
        }
    }

    fn on_event(&mut self, index: usize, id: Handle, event: HostEvent) {
        let user = &mut self.users[index];
        match event {
            HostEvent::Accepted | HostEvent::Connected => {
                user.id = Some(id);
                if user.is_late && event == HostEvent::Accepted {
                    self.hosts[index].command(self.now, id, Command::PauseReading);
                }
            }
            HostEvent::Received(bytes) => {
                let expected = (user.read..).map(octet);
                user.is_exact &= bytes.iter().copied().zip(expected).all(|(one, other)| one == other);
                user.read += bytes.len() as u64;
            }
            HostEvent::Closed(reason) if user.id == Some(id) => user.closed = Some(reason),
            _ => {}
        }
    }

    fn write(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(id) = user.id.filter(|_| user.closed.is_none()) else { return };
        while user.written < user.to_write {
            let end = user.to_write.min(user.written + 10_000);
            let bytes: Vec<u8> = (user.written..end).map(octet).collect();
            let Ok(taken) = self.hosts[index].send(self.now, id, &bytes) else { return };
            user.written += taken as u64;
            if taken < bytes.len() {
                return;
            }
        }
        if !std::mem::replace(&mut user.has_shut_down, true) {
            self.hosts[index].command(self.now, id, Command::Shutdown);
        }
    }

    /// Runs until then, or until nothing can happen any more.
    fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            // Written data may be sent at once, and reading makes room.
            self.exchange();
            self.exchange();
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let timers = self.hosts.each_ref().map(Host::next_timeout);
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > end || next.is_never() {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival == next {
                let (_, (to, route, bytes)) = self.network.pop_first().expect("it arrives now");
                self.hosts[to].handle_datagram(self.now, route, Ecn::NotEct, &bytes);
            } else {
                for (host, timer) in self.hosts.iter_mut().zip(timers) {
                    if timer == next {
                        host.handle_timeout(self.now);
                    }
                }
            }
        }
    }

    fn assert_exact(&self) {
        for index in 0..2 {
            let (user, other) = (&self.users[index], &self.users[1 - index]);
            assert!(user.is_exact, "{user:?}");
            assert_eq!(user.read, other.to_write, "{user:?}");
            assert_eq!(user.closed, Some(CloseReason::Shutdown), "{user:?}");
        }
    }
}

#[test]
fn every_octet_arrives_in_any_weather() {
    let bad = Weather { loss: 0.03, duplication: 0.03, reordering: 0.1, damage: 0.03 };
    for weather in [Weather::default(), bad] {
        let mut world = World::<tcp::Connection>::new(1, weather);
        world.connect(&tcp::Config::default(), 0, [1_000_000, 700_000]);
        world.run_for(Duration::from_secs(600));
        world.assert_exact();
        let malformed = world.hosts.iter().map(Host::malformed).sum::<u64>();
        assert_eq!(malformed > 0, weather.damage > 0.0, "the checksum finds what is damaged");
        assert_eq!(world.hosts.each_ref().map(Host::connections), [0, 0], "TIME-WAIT is over");
    }
}

#[test]
fn both_paths_carry_a_stream_and_one_alone_after_a_cut() {
    let bad = Weather { loss: 0.01, duplication: 0.02, reordering: 0.05, damage: 0.01 };
    for (weather, cut) in [(Weather::default(), None), (bad, None), (Weather::default(), Some(0))] {
        let mut world = World::<mptcp::Connection>::new(2, weather);
        world.connect(&mptcp::Config::default(), 0, [4_000_000, 4_000_000]);
        world.run_for(Duration::from_millis(300));
        assert!(world.carried.iter().all(|bytes| *bytes > 0), "{:?}", world.carried);
        world.cut = cut;
        world.run_for(Duration::from_secs(900));
        world.assert_exact();
    }
}

/// RFC 8684 section 3.7: with checksums, data that is changed on one path is sent on the other, and a
/// connection with only that path goes on as one of TCP, with what is changed. Without them, the change is
/// not noticed.
#[test]
fn checksums_of_mappings_find_who_meddles() {
    let checksums = mptcp::Config { checksums: Some(true), ..mptcp::Config::default() };
    let mut world = World::<mptcp::Connection>::new(2, Weather::default());
    world.connect(&checksums, 0, [2_000_000, 2_000_000]);
    world.run_for(Duration::from_millis(300));
    assert!(world.carried.iter().all(|bytes| *bytes > 0), "{:?}", world.carried);
    world.meddled = Some(1);
    world.run_for(Duration::from_secs(900));
    world.assert_exact();
    let linux = mptcp::Config { profile: mptcp::Profile::Linux6, ..checksums.clone() };
    for config in [checksums, linux, mptcp::Config::default()] {
        let mut world = World::<mptcp::Connection>::new(1, Weather::default());
        world.connect(&config, 0, [1_000_000, 1_000_000]);
        world.run_for(Duration::from_millis(100));
        world.meddled = Some(0);
        world.run_for(Duration::from_secs(900));
        let closed = world.users.each_ref().map(|user| user.closed);
        let is_exact = world.users.each_ref().map(|user| user.is_exact);
        assert_eq!((closed, is_exact), ([Some(CloseReason::Shutdown); 2], [false; 2]));
        assert_eq!(world.users.each_ref().map(|user| user.read), [1_000_000; 2]);
    }
}

/// RFC 9293 section 3.10.7.4, RFC 6191: between the same addresses and ports, while the end that has closed
/// is in TIME-WAIT.
#[test]
fn a_connection_follows_another_one_at_once() {
    let mut world = World::<tcp::Connection>::new(1, Weather::default());
    let mut totals = Vec::new();
    for _ in 0..3 {
        // Host 1 closes first.
        world.connect(&tcp::Config::default(), 40_000, [0, 1_000]);
        world.users[0].has_shut_down = true;
        world.run_for(Duration::from_millis(200));
        let id = world.users[0].id.expect("it is open");
        world.hosts[0].command(world.now, id, Command::Shutdown);
        world.run_for(Duration::from_millis(200));
        assert_eq!((world.users[0].read, world.users[0].is_exact), (1_000, true));
        assert_eq!(world.users[0].closed, Some(CloseReason::Shutdown));
        totals.push(world.hosts.each_ref().map(Host::connections));
    }
    assert_eq!(totals, [[0, 1]; 3], "one in TIME-WAIT, and the next one takes its place");
}

/// What has been acknowledged can be read although the connection is over, and although another one has its
/// addresses and ports.
fn a_late_reader_gets_everything<E: StreamEnd>(config: &E::Config, strips: bool) {
    for (is_followed, is_given_up) in [(false, false), (false, true), (true, false)] {
        let mut world = World::<E>::new(1, Weather::default());
        world.keeps = [if strips { 0 } else { u32::MAX }; 2];
        world.connect(config, 40_000, [20_000, 30_000]);
        world.users[1].is_late = true;
        world.run_for(Duration::from_secs(300));
        assert_eq!(world.users[1].closed, Some(CloseReason::Shutdown));
        assert_eq!([world.users[0].read, world.users[1].read], [30_000, 0]);
        assert_eq!(world.hosts.each_ref().map(Host::connections), [0, 1], "it stays for the reader");
        let id = world.users[1].id.expect("it was open");
        let before = std::mem::take(&mut world.users[1]);
        if is_followed {
            world.connect(config, 40_000, [1_000, 1_000]);
            world.run_for(Duration::from_secs(300));
            world.assert_exact();
        }
        world.users[1] = before;
        let command = if is_given_up { Command::Abort } else { Command::ResumeReading };
        world.hosts[1].command(world.now, id, command);
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.users[1].read, if is_given_up { 0 } else { 20_000 });
        assert!(world.users[1].is_exact);
        assert_eq!(world.hosts.each_ref().map(Host::connections), [0, 0]);
    }
}

#[test]
fn a_late_reader_gets_everything_over_tcp_and_mptcp() {
    a_late_reader_gets_everything::<tcp::Connection>(&tcp::Config::default(), false);
    a_late_reader_gets_everything::<mptcp::Connection>(&mptcp::Config::default(), false);
    a_late_reader_gets_everything::<mptcp::Connection>(&mptcp::Config::default(), true);
}

/// RFC 8684 section 3.7: where options pass on SYNs only, both hosts go on with TCP.
#[test]
fn hosts_whose_options_are_taken_away_fall_back() {
    for sizes in [[1_000_000, 700_000], [0, 10], [10, 0]] {
        let mut world = World::<mptcp::Connection>::new(1, Weather { loss: 0.01, ..Weather::default() });
        world.keeps = [0; 2];
        world.connect(&mptcp::Config::default(), 0, sizes);
        world.run_for(Duration::from_secs(600));
        world.assert_exact();
    }
}

/// RFC 8684 section 3.7: the peer of the host that reads hears nothing on the connection level and falls
/// back; its infinite mapping is lost with all other options, so that its data has none behind that of the
/// first segments.
#[test]
fn data_without_a_mapping_behind_mapped_data_is_tcps() {
    for mapped in 0..12 {
        for loss in [0.0, 0.05] {
            let mut world = World::<mptcp::Connection>::new(1, Weather { loss, ..Weather::default() });
            world.keeps = [1, mapped];
            world.connect(&mptcp::Config::default(), 0, [0, 300_000]);
            world.run_for(Duration::from_secs(600));
            world.assert_exact();
        }
    }
}

/// RFC 9293 section 3.10.7.1.
#[test]
fn nobody_waits_there() {
    let mut world = World::<tcp::Connection>::new(1, Weather::default());
    world.connect(&tcp::Config::default(), 0, [10, 10]);
    world.hosts[1].stop_listening(PORT);
    world.users[0].id = Some(Handle(1));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.users[0].closed, Some(CloseReason::Aborted));
    assert_eq!(world.now, Time::from_millis(1_000));
}

/// SYN from many addresses: no more connections exist than are allowed, and in the end they are forgotten.
#[test]
fn a_flood_of_syn_leaves_nothing_behind() {
    let mut flood = World::<tcp::Connection>::new(1, Weather::default());
    flood.connect(&tcp::Config::default(), 0, [1_000_000, 1_000_000]);
    flood.run_for(Duration::from_millis(100));
    let mut other = World::<tcp::Connection>::new(1, Weather::default());
    for port in 1..1_000 {
        // Its SYN, to which nothing answers.
        other.hosts[0]
            .connect(other.now, &tcp::Config::default(), port, &[address(1, 0)], PORT)
            .expect("the settings are possible");
        let mut packets = Vec::new();
        while let Some(transmit) = other.hosts[0].poll_transmit(1) {
            packets.push(transmit.bytes.to_vec());
        }
        for bytes in packets {
            let route = Route { local: address(1, 0), remote: address(0, 0), port: None };
            flood.hosts[1].handle_datagram(flood.now, route, Ecn::NotEct, &bytes);
        }
    }
    assert_eq!(flood.hosts[1].connections(), 100, "as many as the settings allow");
    flood.run_for(Duration::from_secs(600));
    flood.assert_exact();
    assert_eq!(flood.hosts[1].connections(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn whatever_arrives_nothing_panics(seed: u64, garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let damage = Weather { loss: 0.01, duplication: 0.05, reordering: 0.1, damage: 0.3 };
        let mut world = World::<mptcp::Connection>::new(2, damage);
        world.rng = Streams { seed, replication: 0 }.stream("weather");
        world.connect(&mptcp::Config::default(), 0, [50_000, 50_000]);
        let route = Route { local: address(1, 0), remote: address(0, 0), port: None };
        world.hosts[1].handle_datagram(world.now, route, Ecn::NotEct, &garbage);
        world.run_for(Duration::from_secs(60));
        prop_assert!(world.users.iter().all(|user| user.is_exact));
    }
}
