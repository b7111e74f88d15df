//! Two hosts and a network in virtual time: what arrives is what was sent, to the byte, whatever the network
//! does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::sctp::{Extent, Host, HostEvent, Outbound, Place, Refusal, Route, Settings};
use anabranch_live::stack::{Stack as _, Unreachable};
use anabranch_transport::endpoint::{CloseReason, Command, Reliability};
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::sctp::Config;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};
use proptest::prelude::*;

const PORT: u16 = 9899;
const STREAMS: Streams = Streams { seed: 1, replication: 0 };

/// The impairments of datagrams, each with this probability.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: f64,
    duplication: f64,
    reordering: f64,
}

/// Two hosts, each with these addresses, and the packets between them.
struct World {
    now: Time,
    hosts: [Host; 2],
    weather: Weather,
    rng: Rng,
    /// By arrival and order of sending: the receiver, the route, and the bytes.
    network: BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>,
    sent: u64,
    /// The last parts of addresses between which nothing passes.
    cut: BTreeSet<u8>,
    /// Addresses that neither send nor receive.
    unplugged: BTreeSet<IpAddr>,
    events: [Vec<(Handle, HostEvent)>; 2],
    datagrams: u64,
    /// Whether applications read what they are given.
    reads: bool,
}

fn address(host: usize, network: u8) -> IpAddr {
    IpAddr::from([10, 0, network, host as u8 + 1])
}

fn host(index: usize, networks: std::ops::Range<u8>, seed: u64) -> Host {
    let addresses = networks.map(|network| address(index, network)).collect();
    let shared_key = b"between us".to_vec();
    let settings = Settings {
        addresses,
        mtu: 1_500,
        is_in_udp: true,
        most_accepted: 100,
        offers_extensions: true,
        shared_key,
    };
    Host::new(settings, Secret([seed as u8; 32]), Streams { seed, ..STREAMS })
}

fn config(text: &str) -> Config {
    serde_json::from_str(text).expect("settings")
}

impl World {
    fn new(networks: u8, weather: Weather) -> Self {
        Self {
            now: Time::ZERO,
            hosts: [host(0, 0..networks, 0), host(1, 0..networks, 1)],
            weather,
            rng: STREAMS.stream("weather"),
            network: BTreeMap::new(),
            sent: 0,
            cut: BTreeSet::new(),
            unplugged: BTreeSet::new(),
            events: [Vec::new(), Vec::new()],
            datagrams: 0,
            reads: true,
        }
    }

    /// Host 0 opens an association with host 1, which waits.
    fn connect(&mut self, config: &Config, addresses: u8) -> Handle {
        self.hosts[1].listen(PORT, config).expect("the port is free");
        self.call(config, 0, addresses)
    }

    /// Host 0 opens an association from this port.
    fn call(&mut self, config: &Config, port: u16, addresses: u8) -> Handle {
        let peer: Vec<_> = (0..addresses).map(|network| (address(1, network), Some(9899))).collect();
        self.hosts[0].connect(self.now, config, port, &peer, PORT).expect("the settings are possible")
    }

    /// Host 0 loses everything that it knows, and has these addresses from now on.
    fn restart(&mut self, networks: std::ops::Range<u8>) {
        self.hosts[0] = host(0, networks, 7 + self.sent);
        self.network.retain(|_, (to, ..)| *to != 0);
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
            let mut datagrams = Vec::new();
            while let Some(transmit) = self.hosts[index].poll_transmit(8) {
                let Route { local, remote, port } = transmit.route;
                assert!(!local.is_unspecified());
                // The route from the other side's point of view.
                let route = Route { local: remote, remote: local, port };
                datagrams.extend(
                    transmit.bytes.chunks(transmit.segment).map(|datagram| (route, datagram.to_vec())),
                );
            }
            for (route, datagram) in datagrams {
                self.datagrams += 1;
                let IpAddr::V4(local) = route.local else { unreachable!("all are of version 4") };
                let is_unplugged = [route.local, route.remote].iter().any(|it| self.unplugged.contains(it));
                if is_unplugged
                    || self.cut.contains(&local.octets()[2])
                    || self.rng.bernoulli(self.weather.loss)
                {
                    continue;
                }
                if self.rng.bernoulli(self.weather.duplication) {
                    self.put(1 - index, route, datagram.clone());
                }
                self.put(1 - index, route, datagram);
            }
            while let Some(event) = self.hosts[index].poll_event() {
                if let (id, HostEvent::Received(message)) = &event
                    && self.reads
                {
                    self.hosts[index].has_read(self.now, *id, 1, message.bytes.len() as u64);
                }
                self.events[index].push(event);
            }
        }
    }

    /// Runs until then, or until nothing can happen any more.
    fn run_until(&mut self, end: Time) {
        loop {
            self.exchange();
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let timers = self.hosts.each_ref().map(Host::next_timeout);
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > end || next.is_never() {
                self.now = end;
                return;
            }
            self.now = next;
            if arrival == next {
                let (_, (to, route, bytes)) = self.network.pop_first().expect("it arrives now");
                self.hosts[to].handle_datagram(next, route, Ecn::NotEct, &bytes);
            } else {
                for (host, timer) in self.hosts.iter_mut().zip(timers) {
                    if timer == next {
                        host.handle_timeout(next);
                    }
                }
            }
        }
    }

    fn run_for(&mut self, length: Duration) {
        self.run_until(self.now + length);
    }

    fn accepted(&self) -> Handle {
        let accepted =
            |(id, event): &(Handle, HostEvent)| matches!(event, HostEvent::Accepted { .. }).then_some(*id);
        self.events[1].iter().find_map(accepted).expect("somebody has connected")
    }

    /// The messages that an end has been given, each stream's in order, with their parts put together.
    fn received(&self, index: usize) -> BTreeMap<(u16, bool), Vec<Vec<u8>>> {
        let mut messages: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut parts: BTreeMap<_, Vec<u8>> = BTreeMap::new();
        for (_, event) in &self.events[index] {
            if let HostEvent::Received(message) = event {
                let key = (message.stream, message.unordered);
                let mut bytes = message.bytes.clone();
                if message.extent != Extent::Whole {
                    parts.entry(key).or_default().append(&mut bytes);
                    if message.extent == Extent::Part {
                        continue;
                    }
                    bytes = parts.remove(&key).unwrap_or_default();
                }
                messages.entry(key).or_default().push(bytes);
            }
        }
        assert!(
            parts.is_empty(),
            "the end of a message is missing: {:?}, {:?}",
            parts.keys(),
            messages.keys()
        );
        messages
    }

    /// Sends a message, and waits as long as the buffer is full.
    fn send(&mut self, index: usize, id: Handle, mut message: Outbound) {
        for _ in 0..10_000 {
            match self.hosts[index].send(self.now, id, message) {
                Ok(_) => return,
                Err(Refusal::Full(again)) => message = again,
                Err(refusal) => panic!("{refusal:?}"),
            }
            self.run_for(Duration::from_millis(50));
        }
        panic!("the send buffer stays full");
    }
}

fn message(stream: u16, unordered: bool, number: usize, length: usize) -> Outbound {
    let bytes = (0..length).map(|place| (place * 7 + number * 31 + usize::from(stream)) as u8).collect();
    Outbound { stream, ppid: number as u32, unordered, reliability: Reliability::Reliable, bytes }
}

fn has(world: &World, index: usize, event: &HostEvent) -> bool {
    world.events[index].iter().any(|(_, told)| told == event)
}

fn ending(world: &World, index: usize) -> Option<CloseReason> {
    world.events[index].iter().find_map(|(_, told)| match told {
        HostEvent::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// What host 0 tells when ICMP says that host 1 is unreachable at a port of UDP, and quotes these bytes.
fn after_icmp(world: &mut World, port: u16, is_refused: bool, quoted: &[u8]) -> Vec<HostEvent> {
    let route = Route { local: IpAddr::from([0; 4]), remote: address(1, 0), port: Some(port) };
    let said = Unreachable { route, is_refused, reason: "gone" };
    world.hosts[0].handle_unreachable(world.now, said, quoted);
    std::iter::from_fn(|| world.hosts[0].poll_event()).map(|(_, event)| event).collect()
}

fn is_refusal(told: &[HostEvent]) -> bool {
    let reason = "gone";
    matches!(told, [HostEvent::Unreachable { is_refused: true, reason: said, .. },
                    HostEvent::Closed { reason: CloseReason::Aborted, .. }] if *said == reason)
}

/// RFC 9260 section 10 (ICMP5, ICMP6, ICMP8): an INIT that is quoted is known by its Initiate Tag.
#[test]
fn an_icmp_message_ends_the_association_whose_init_it_quotes() {
    let mut world = World::new(1, Weather::default());
    world.call(&Config::default(), 0, 1);
    let init = world.hosts[0].poll_transmit(1).expect("an INIT").bytes.to_vec();
    let mut other = init.clone();
    other[19] ^= 1;
    for (port, quoted) in [(PORT, &other[..]), (PORT, &init[..16]), (PORT, &[]), (1, &init[..20])] {
        assert_eq!(after_icmp(&mut world, port, true, quoted), []);
    }
    // ICMP3: what is told of the host is news, and no more; the same again is none.
    let told = after_icmp(&mut world, PORT, false, &init[..20]);
    assert!(matches!(told[..], [HostEvent::Unreachable { is_refused: false, .. }]), "{told:?}");
    assert_eq!(after_icmp(&mut world, PORT, false, &init[..20]), []);
    assert_eq!(world.hosts[0].associations(), 1);
    let mut world = World::new(1, Weather::default());
    world.call(&Config::default(), 0, 1);
    let init = world.hosts[0].poll_transmit(1).expect("an INIT").bytes.to_vec();
    assert!(is_refusal(&after_icmp(&mut world, PORT, true, &init[..20])));
    assert_eq!(world.hosts[0].associations(), 0);
}

/// RFC 9260 section 10, ICMP6: any other packet is known by the verification tag of the peer.
#[test]
fn an_icmp_message_ends_an_open_association_only_with_the_peers_tag() {
    let mut world = World::new(1, Weather::default());
    let id = world.connect(&Config::default(), 1);
    world.run_for(Duration::from_secs(1));
    world.hosts[0].send(world.now, id, message(0, false, 0, 10)).expect("there is room");
    let data = world.hosts[0].poll_transmit(1).expect("a packet").bytes.to_vec();
    let mut other = data.clone();
    other[7] ^= 1;
    assert_eq!(after_icmp(&mut world, PORT, true, &other), []);
    assert_eq!(after_icmp(&mut world, PORT, true, &data[..7]), []);
    // A tag of 0 is that of an INIT, and this end sends none any more.
    other[4..8].fill(0);
    assert_eq!(after_icmp(&mut world, PORT, true, &other), []);
    assert!(is_refusal(&after_icmp(&mut world, PORT, true, &data[..8])));
}

#[test]
fn messages_arrive_with_what_was_said_of_them() {
    let mut world = World::new(1, Weather::default());
    let id = world.connect(&Config::default(), 1);
    world.run_for(Duration::from_millis(100));
    assert!(has(&world, 0, &HostEvent::Connected));
    let peer = world.accepted();
    world.send(0, id, Outbound { ppid: 51, ..message(3, false, 0, 5_000) });
    world.send(1, peer, Outbound { ppid: 53, ..message(0, true, 0, 1) });
    world.run_for(Duration::from_millis(500));
    let told = |index: usize| {
        world.events[index].iter().find_map(|(_, event)| match event {
            HostEvent::Received(message) => Some(message.clone()),
            _ => None,
        })
    };
    let (large, small) = (told(1).expect("a message"), told(0).expect("a message"));
    assert_eq!((large.stream, large.ppid, large.unordered), (3, 51, false));
    assert_eq!(large.bytes, message(3, false, 0, 5_000).bytes);
    assert_eq!((small.stream, small.ppid, small.unordered, small.bytes.len()), (0, 53, true, 1));
    world.hosts[0].command(world.now, id, Command::Shutdown);
    world.run_for(Duration::from_secs(1));
    for index in 0..2 {
        assert_eq!(ending(&world, index), Some(CloseReason::Shutdown));
        assert_eq!(world.hosts[index].associations(), 0);
        assert!(world.hosts[index].next_timeout().is_never(), "nothing is left behind");
    }
}

#[test]
fn messages_larger_than_the_receive_buffer_arrive_in_parts() {
    let settings = [
        r#""receive_buffer": "20 kB""#,
        r#""receive_buffer": "1500 B", "sack_delay": "0 s""#,
        r#""receive_buffer": "20 kB", "interleaving": true, "stream_scheduler": {"kind": "round_robin"}"#,
    ];
    for text in settings {
        for loss in [0.0, 0.1] {
            let mut world = World::new(1, Weather { loss, ..Weather::default() });
            let id = world.connect(&config(&format!(r#"{{{text}, "rto_max": "1 s"}}"#)), 1);
            world.run_for(Duration::from_secs(10));
            // Between the large ones are small ones, of the same stream and of others.
            let sizes = [30_000, 100, 70_000, 15_000, 15_000, 15_000, 1];
            let mut expected: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (number, size) in (0..).zip(sizes) {
                let message = message(number as u16 % 3, number == 2, number, size);
                let key = (message.stream, message.unordered);
                expected.entry(key).or_default().push(message.bytes.clone());
                world.send(0, id, message);
            }
            world.run_for(Duration::from_secs(200));
            assert_eq!(world.received(1), expected, "{text}, {loss}");
        }
    }
}

#[test]
fn an_application_that_reads_nothing_gets_no_parts_until_it_has() {
    let mut world = World::new(1, Weather::default());
    world.reads = false;
    let id = world.connect(&config(r#"{"receive_buffer": "20 kB"}"#), 1);
    world.send(0, id, message(0, false, 0, 5_000));
    world.send(0, id, message(0, false, 1, 30_000));
    world.run_for(Duration::from_secs(20));
    let peer = world.accepted();
    let bytes_told = |world: &World| -> Vec<usize> {
        let events = world.events[1].iter();
        events
            .filter_map(
                |(_, event)| if let HostEvent::Received(m) = event { Some(m.bytes.len()) } else { None },
            )
            .collect()
    };
    assert_eq!(bytes_told(&world), [5_000]);
    for _ in 0..20 {
        // Each time all that has been told is read.
        let (told, bytes) =
            (bytes_told(&world).len() as u64, bytes_told(&world).iter().sum::<usize>() as u64);
        world.hosts[1].has_read(world.now, peer, told, bytes);
        world.run_for(Duration::from_secs(5));
    }
    assert_eq!(
        world.received(1)[&(0, false)],
        [5_000, 30_000].map(|size| message(0, false, usize::from(size > 5_000), size).bytes)
    );
    assert!(bytes_told(&world).len() > 2, "the second one came in parts");
}

#[test]
fn what_cannot_be_sent_comes_back() {
    let mut world = World::new(1, Weather::default());
    let id = world.connect(&config(r#"{"send_buffer": "10 kB", "streams": 2}"#), 1);
    let send = |world: &mut World, message: Outbound| world.hosts[0].send(world.now, id, message);
    assert_eq!(send(&mut world, message(0, false, 0, 0)), Err(Refusal::Impossible));
    assert_eq!(send(&mut world, message(0, false, 0, 10_001)), Err(Refusal::Impossible));
    assert_eq!(send(&mut world, message(2, false, 0, 10)), Err(Refusal::Impossible));
    assert_eq!(send(&mut world, message(0, false, 0, 9_000)), Ok(0));
    let second = message(0, false, 1, 2_000);
    assert_eq!(send(&mut world, second.clone()), Err(Refusal::Full(second.clone())));
    world.run_for(Duration::from_secs(1));
    assert!(has(&world, 0, &HostEvent::Writable));
    assert_eq!(send(&mut world, second), Ok(9_000));
    world.hosts[0].command(world.now, id, Command::Abort);
    assert_eq!(send(&mut world, message(0, false, 0, 10)), Err(Refusal::Closed));
}

/// RFC 9260 section 8.4.
#[test]
fn nobody_waits_at_another_port() {
    let mut world = World::new(1, Weather::default());
    let peer = [(address(1, 0), Some(9899))];
    world.hosts[0].connect(world.now, &Config::default(), 0, &peer, 1).expect("the settings are possible");
    world.run_for(Duration::from_millis(100));
    assert_eq!(ending(&world, 0), Some(CloseReason::Aborted), "the peer's ABORT ends it at once");
}

/// The peer's addresses are learnt from INIT ACK and, at the other end, from the cookie. An end leaves a path
/// that is cut.
#[test]
fn an_association_moves_to_the_address_that_is_left() {
    let mut world = World::new(2, Weather::default());
    let id = world.connect(&config(r#"{"rto_min": "200 ms", "rto_max": "1 s", "path_max_retrans": 2}"#), 1);
    world.run_for(Duration::from_secs(2));
    let peer = world.accepted();
    for (index, id) in [(0, id), (1, peer)] {
        let (routes, _) = world.hosts[index].addresses(id).expect("it lives");
        let remotes: BTreeSet<IpAddr> = routes.iter().map(|route| route.remote).collect();
        assert_eq!(remotes, [address(1 - index, 0), address(1 - index, 1)].into());
        assert!(
            routes
                .iter()
                .all(|route| route.local == address(index, u8::from(route.remote != address(1 - index, 0))))
        );
    }
    for number in 0..400 {
        if number == 100 {
            world.cut.insert(0);
        }
        world.send(0, id, message(0, false, number, 1_000));
        world.run_for(Duration::from_millis(20));
    }
    world.run_for(Duration::from_secs(10));
    let received = world.received(1);
    let expected: Vec<Vec<u8>> = (0..400).map(|number| message(0, false, number, 1_000).bytes).collect();
    assert!(received[&(0, false)] == expected);
    assert!(world.events[0].iter().any(|(_, event)| matches!(event, HostEvent::PathChanged { .. })));
}

/// RFC 5061: an end that moves adds the address where it is now, asks the peer to send there, and removes the
/// address that it has left. Nothing is lost.
#[test]
fn an_end_moves_to_another_address() {
    let weather = Weather { loss: 0.05, duplication: 0.05, reordering: 0.1 };
    let mut world = World::new(1, weather);
    let id = world.connect(&config(r#"{"rto_min": "200 ms", "rto_max": "1 s"}"#), 1);
    world.run_for(Duration::from_secs(3));
    let peer = world.accepted();
    let (old, new) = (address(0, 0), address(0, 7));
    let ours = |address| Place { address, is_ours: true };
    let theirs = |address| Place { address, is_ours: false };
    for number in 0..300 {
        if number == 50 {
            world.hosts[0].add_address(world.now, id, new).expect("the peer understands");
        }
        if number == 150 {
            assert!(has(&world, 0, &HostEvent::AddressAdded(ours(new))), "{:?}", world.events[0]);
            world.hosts[0].set_peer_primary(world.now, id, new).expect("it is there");
            world.hosts[0].remove_address(world.now, id, old).expect("there is another one");
        }
        if number == 200 {
            world.unplugged.insert(old);
        }
        world.send(0, id, message(0, false, number, 1_000));
        world.send(1, peer, message(1, false, number, 1_000));
        world.run_for(Duration::from_millis(40));
    }
    world.run_for(Duration::from_secs(20));
    for (index, stream) in [(1, 0), (0, 1)] {
        let expected: Vec<_> = (0..300).map(|number| message(stream, false, number, 1_000).bytes).collect();
        assert!(world.received(index)[&(stream, false)] == expected);
    }
    for (index, place) in [(0, ours as fn(IpAddr) -> Place), (1, theirs)] {
        assert!(has(&world, index, &HostEvent::AddressAdded(place(new))));
        assert!(has(&world, index, &HostEvent::AddressDeleted(place(old))));
    }
    assert_eq!(ending(&world, 0), None);
    let error = world.hosts[0].remove_address(world.now, id, new).expect_err("it is the last one");
    assert!(error.contains("is the only one of the association"), "{error}");
    let error = world.hosts[0].remove_address(world.now, id, old).expect_err("it is gone");
    assert!(error.contains("is no part of the association"), "{error}");
}

/// RFC 4895: ends with different secrets do not accept each other's changes.
#[test]
fn a_change_that_is_signed_with_another_secret_is_not_heeded() {
    let mut world = World::new(1, Weather::default());
    let settings = Settings {
        addresses: vec![address(0, 0)],
        mtu: 1_500,
        is_in_udp: true,
        most_accepted: 1,
        offers_extensions: true,
        shared_key: b"another".to_vec(),
    };
    world.hosts[0] = Host::new(settings, Secret([9; 32]), STREAMS);
    let id = world.connect(&Config::default(), 1);
    world.run_for(Duration::from_millis(500));
    let malformed = world.hosts[1].malformed();
    world.hosts[0].add_address(world.now, id, address(0, 7)).expect("it can be asked for");
    world.run_for(Duration::from_secs(2));
    assert!(world.hosts[1].malformed() > malformed);
    assert!(!has(&world, 1, &HostEvent::AddressAdded(Place { address: address(0, 7), is_ours: false })));
    assert_eq!(world.hosts[1].addresses(world.accepted()).expect("it lives").0.len(), 1);
}

/// RFC 9260 section 5.2.4 A: the remaining end continues with the one that begins again.
#[test]
fn a_peer_that_restarts_is_known_again() {
    let mut world = World::new(2, Weather::default());
    let settings = config(r#"{"rto_min": "200 ms", "rto_max": "1 s"}"#);
    world.hosts[1].listen(PORT, &settings).expect("the port is free");
    let id = world.call(&settings, 4_000, 1);
    world.run_for(Duration::from_millis(500));
    let peer = world.accepted();
    // Messages of which fragments are on their way or wait when the end comes.
    world.cut.insert(0);
    for number in 0..20 {
        world.send(0, id, message(0, false, number, 5_000));
        world.send(1, peer, message(1, false, number, 5_000));
    }
    world.run_for(Duration::from_millis(15));
    world.cut.clear();
    world.restart(0..2);
    world.events = [Vec::new(), Vec::new()];
    let id = world.call(&settings, 4_000, 1);
    world.run_for(Duration::from_secs(1));
    assert!(has(&world, 0, &HostEvent::Connected));
    assert!(has(&world, 1, &HostEvent::Restarted), "{:?}", world.events[1]);
    assert_eq!(world.hosts[1].associations(), 1);
    let (routes, _) = world.hosts[1].addresses(peer).expect("it lives");
    assert_eq!(routes.len(), 2);
    for number in 100..120 {
        world.send(0, id, message(0, false, number, 5_000));
        world.send(1, peer, message(1, false, number, 5_000));
    }
    world.run_for(Duration::from_secs(5));
    for index in 0..2 {
        let stream = index as u16;
        let expected: Vec<_> =
            (100..120).map(|number| message(1 - stream, false, number, 5_000).bytes).collect();
        assert!(world.received(index)[&(1 - stream, false)] == expected);
    }
    world.hosts[1].command(world.now, peer, Command::Shutdown);
    world.run_for(Duration::from_secs(1));
    for index in 0..2 {
        assert_eq!(ending(&world, index), Some(CloseReason::Shutdown));
        assert_eq!(world.hosts[index].associations(), 0);
        assert!(world.hosts[index].next_timeout().is_never());
    }
}

/// RFC 9260 section 5.2.2: a peer that comes back with fewer addresses keeps those, and none is added.
#[test]
fn a_restart_takes_addresses_away_and_brings_none() {
    let mut world = World::new(2, Weather::default());
    world.hosts[1].listen(PORT, &Config::default()).expect("the port is free");
    world.call(&Config::default(), 4_000, 1);
    world.run_for(Duration::from_millis(500));
    let peer = world.accepted();
    world.restart(0..1);
    world.call(&Config::default(), 4_000, 1);
    world.run_for(Duration::from_millis(500));
    assert!(has(&world, 1, &HostEvent::Restarted));
    let (routes, _) = world.hosts[1].addresses(peer).expect("it lives");
    let remotes: Vec<_> = routes.iter().map(|route| route.remote).collect();
    assert_eq!(remotes, [address(0, 0)]);
    world.send(1, peer, message(0, false, 0, 100));
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.received(0).len(), 1);
    // Now it wants both addresses again.
    world.restart(0..2);
    world.events[1].clear();
    world.call(&Config::default(), 4_000, 1);
    world.run_for(Duration::from_millis(500));
    assert_eq!(ending(&world, 0), Some(CloseReason::Aborted));
    assert!(!has(&world, 1, &HostEvent::Restarted));
    assert_eq!(world.hosts[1].associations(), 1, "the old one stays");
    assert!(world.hosts[1].addresses(peer).is_some());
}

/// Streams that have been reset use their numbers again, and the bytes of messages are still the right ones.
#[test]
fn what_a_stream_carries_after_a_reset_is_what_was_sent() {
    for interleaving in [false, true] {
        let weather = Weather { loss: 0.05, duplication: 0.05, reordering: 0.2 };
        let mut world = World::new(2, weather);
        let settings = config(&format!(r#"{{"interleaving": {interleaving}, "rto_min": "200 ms"}}"#));
        let id = world.connect(&settings, 2);
        world.run_for(Duration::from_secs(5));
        for round in 0..5 {
            for number in 0..10 {
                for stream in 0..3 {
                    world.send(0, id, message(stream, number % 2 == 1, round * 10 + number, 4_000));
                }
            }
            world.hosts[0].reset_streams(world.now, id, &[0, 2]).expect("the peer understands");
        }
        world.run_for(Duration::from_secs(60));
        let received = world.received(1);
        for stream in 0..3 {
            for unordered in [false, true] {
                let mut expected: Vec<_> = (0..50)
                    .filter(|number| (number % 2 == 1) == unordered)
                    .map(|number| message(stream, unordered, number, 4_000).bytes)
                    .collect();
                let mut found = received[&(stream, unordered)].clone();
                if unordered {
                    expected.sort();
                    found.sort();
                }
                assert!(found == expected, "stream {stream}, {unordered}");
            }
        }
        let count = |index: usize, wanted: fn(&HostEvent) -> bool| {
            world.events[index].iter().filter(|(_, event)| wanted(event)).count()
        };
        assert_eq!(count(0, |event| matches!(event, HostEvent::StreamReset { .. })), 10);
        assert_eq!(count(1, |event| matches!(event, HostEvent::StreamResetByPeer { .. })), 10);
    }
}

/// An application that does not read closes the window, and opens it by reading.
#[test]
fn a_slow_reader_holds_the_sender_back() {
    let mut world = World::new(1, Weather::default());
    let id = world.connect(&config(r#"{"receive_buffer": "20 kB"}"#), 1);
    world.run_for(Duration::from_millis(100));
    for number in 0..100 {
        world.send(0, id, message(0, false, number, 1_000));
    }
    // The application does not read at host 1, so its events wait.
    let mut end = world.now + Duration::from_secs(20);
    let mut waiting = 0;
    while world.now < end {
        let arrival = world.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
        let next = arrival.min(world.hosts[0].next_timeout()).min(world.hosts[1].next_timeout());
        world.now = next.min(end);
        if arrival <= world.now {
            let (_, (to, route, bytes)) = world.network.pop_first().expect("it arrives now");
            world.hosts[to].handle_datagram(world.now, route, Ecn::NotEct, &bytes);
        }
        world.hosts.iter_mut().for_each(|host| host.handle_timeout(world.now));
        for index in 0..2 {
            let mut datagrams = Vec::new();
            while let Some(transmit) = world.hosts[index].poll_transmit(1) {
                let Route { local, remote, port } = transmit.route;
                datagrams.push((Route { local: remote, remote: local, port }, transmit.bytes.to_vec()));
            }
            for (route, datagram) in datagrams {
                world.put(1 - index, route, datagram);
            }
        }
        while let Some((_, event)) = world.hosts[1].poll_event() {
            if let HostEvent::Received(message) = event {
                waiting += message.bytes.len();
                world.events[1].push((id, HostEvent::Received(message)));
            }
        }
    }
    assert!((19_000..=22_000).contains(&waiting), "{waiting} bytes wait");
    let peer = Handle(1);
    world.hosts[1].has_read(world.now, peer, world.events[1].len() as u64, waiting as u64);
    end = world.now + Duration::from_secs(10);
    world.run_until(end);
    assert_eq!(world.received(1)[&(0, false)].len(), 100);
}

/// More is sent than is kept before it is asked what may be forgotten, with a send buffer that is always
/// full.
#[test]
fn bulk_through_a_full_buffer_is_complete() {
    let mut world = World::new(1, Weather { loss: 0.01, ..Weather::default() });
    let id = world.connect(&config(r#"{"send_buffer": "400 kB"}"#), 1);
    world.run_for(Duration::from_millis(100));
    let expected: Vec<Vec<u8>> = (0..200).map(|number| message(0, false, number, 16_384).bytes).collect();
    for number in 0..200 {
        world.send(0, id, message(0, false, number, 16_384));
    }
    world.run_for(Duration::from_secs(120));
    assert!(world.received(1)[&(0, false)] == expected);
}

#[derive(Clone, Debug)]
struct Talk {
    stream: u16,
    unordered: bool,
    length: usize,
    pause: u64,
}

fn talk() -> impl Strategy<Value = Talk> {
    let lengths = prop_oneof![1..100_usize, 1_000..2_000_usize, 1..30_000_usize];
    (0..4_u16, any::<bool>(), lengths, 0..30_u64).prop_map(|(stream, unordered, length, pause)| Talk {
        stream,
        unordered,
        length,
        pause,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Both ends send at the same time, over two networks that lose, duplicate and reorder packets.
    #[test]
    fn bytes_survive_any_weather(
        talks in proptest::collection::vec((0..2_usize, talk()), 1..60),
        loss in 0.0..0.2,
        duplication in 0.0..0.2,
        reordering in 0.0..0.5,
        interleaving in any::<bool>(),
        nr_sack in any::<bool>(),
    ) {
        let mut world = World::new(2, Weather { loss, duplication, reordering });
        let text = format!(
            r#"{{"interleaving": {interleaving}, "nr_sack": {nr_sack}, "association_max_retrans": "off"}}"#
        );
        let id = world.connect(&config(&text), 2);
        world.run_for(Duration::from_secs(60));
        let ids = [id, world.accepted()];
        let mut expected = [BTreeMap::<(u16, bool), Vec<Vec<u8>>>::new(), BTreeMap::new()];
        for (number, (index, talk)) in talks.into_iter().enumerate() {
            let message = message(talk.stream, talk.unordered, number, talk.length);
            expected[1 - index].entry((talk.stream, talk.unordered)).or_default().push(message.bytes.clone());
            world.send(index, ids[index], message);
            world.run_for(Duration::from_millis(talk.pause));
        }
        // Where every sixth packet is lost, a timer that has doubled to a minute expires in vain some times.
        world.run_for(Duration::from_secs(3_000));
        for (index, mut expected) in expected.into_iter().enumerate() {
            let mut received = world.received(index);
            for ((_, unordered), messages) in received.iter_mut().chain(expected.iter_mut()) {
                if *unordered {
                    messages.sort();
                }
            }
            prop_assert!(received == expected, "host {} has other messages", index);
        }
    }
}
