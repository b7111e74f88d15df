//! A server as others would build it: many clients at once, one listener, and paths that come while data
//! flows.

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Multipath, Output, Site, Transport,
};
use anabranch_transport::flow::{IpVersion, PathId, Payload, Side};
use anabranch_transport::listener::{Answer, Listen, Listener as _};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::sctp::chunk::{Chunk, ErrorCause};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::{Body, Packet};
use anabranch_transport::{mptcp, sctp, tcp, udp};

const DELAY: Duration = Duration::from_millis(10);

fn site<'a>(side: Side, mtus: &'a [u32], connection: &'a str) -> Site<'a> {
    let streams = Streams { seed: 1, replication: 0 };
    Site { side, mtus, ip: IpVersion::Ipv4, streams, connection }
}

/// Where a packet comes from, or goes to: the client, and the address of it that the path is about.
type Address = (usize, u8);

/// Clients, the server's connections, and a network that takes 10 ms.
struct World<T: Listen> {
    now: Time,
    clients: Vec<T::Endpoint>,
    listener: T::Listener,
    connections: Vec<T::Endpoint>,
    /// Which connection has an address, and what number the path has there.
    known: BTreeMap<Address, (usize, PathId)>,
    /// Ends by number, clients first: when they want to be woken.
    timeouts: BTreeMap<(bool, usize), Time>,
    to_server: VecDeque<(Time, Address, Box<Packet>)>,
    to_client: VecDeque<(Time, Address, Box<Packet>)>,
    events: BTreeMap<(bool, usize), Vec<Event>>,
    /// Packets from the server on each client's addresses.
    answered: BTreeMap<Address, u64>,
    /// Drops what leaves a client here.
    is_down: fn(Address) -> bool,
}

impl<T: Listen<Endpoint: Multipath>> World<T> {
    fn new(transport: &T, clients: usize) -> Self {
        let names = ["flow/0", "flow/1", "flow/2", "flow/3"];
        let client = |index: usize| {
            transport.build(&site(Side::A, &[1500], names[index])).expect("the settings are possible")
        };
        Self {
            now: Time::ZERO,
            clients: (0..clients).map(client).collect(),
            listener: transport.listen(&site(Side::B, &[1500], "server")).expect("the settings are possible"),
            connections: Vec::new(),
            known: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            events: BTreeMap::new(),
            answered: BTreeMap::new(),
            is_down: |_| false,
        }
    }

    fn command(&mut self, client: usize, command: Command) {
        self.clients[client].handle_input(self.now, Input::Command(command));
        self.drain(false, client);
    }

    fn send(&mut self, client: usize, payload: Payload) {
        let message = Message::new(payload);
        self.command(client, Command::Send(message));
    }

    fn drain(&mut self, is_server: bool, index: usize) {
        loop {
            let end = if is_server { &mut self.connections[index] } else { &mut self.clients[index] };
            match end.poll_output(self.now) {
                Output::Event(event) => self.events.entry((is_server, index)).or_default().push(event),
                Output::Timeout(at) => {
                    self.timeouts.insert((is_server, index), at);
                    return;
                }
                Output::Transmit(packet) if is_server => {
                    let place = |(_, known): &(&Address, &(usize, PathId))| **known == (index, packet.path);
                    let (&to, _) = self.known.iter().find(place).expect("the path has an address");
                    *self.answered.entry(to).or_default() += 1;
                    self.to_client.push_back((self.now + DELAY, to, packet));
                }
                Output::Transmit(packet) => {
                    let from = (index, packet.path.0);
                    if !(self.is_down)(from) {
                        self.to_server.push_back((self.now + DELAY, from, packet));
                    }
                }
            }
        }
    }

    /// A packet arrives at the server: the three steps that the listener's module names.
    fn serve(&mut self, from: Address, mut packet: Box<Packet>) {
        if let Some(&(index, path)) = self.known.get(&from) {
            packet.path = path;
            self.connections[index].handle_input(self.now, Input::Packet(packet));
            return self.drain(true, index);
        }
        let peers: Vec<usize> = self
            .known
            .iter()
            .filter(|((client, _), _)| *client == from.0)
            .map(|(_, known)| known.0)
            .collect();
        // Ports alone do not tell clients apart that have the same.
        if let Some(index) = peers.into_iter().find(|&index| self.connections[index].owns(&packet)) {
            let path = self.connections[index].add_path(self.now, 1500).expect("a further path");
            self.known.insert(from, (index, path));
            packet.path = path;
            self.connections[index].handle_input(self.now, Input::Packet(packet));
            return self.drain(true, index);
        }
        packet.path = PathId(0);
        match self.listener.handle_packet(self.now, packet) {
            Answer::Accepted(connection) => {
                let index = self.connections.len();
                self.connections.push(*connection);
                self.known.insert(from, (index, PathId(0)));
                self.drain(true, index);
            }
            Answer::Reply(packet) => self.to_client.push_back((self.now + DELAY, from, packet)),
            Answer::Nothing => {}
        }
    }

    fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let arrival =
                |queue: &VecDeque<(Time, Address, Box<Packet>)>| queue.front().map(|packet| packet.0);
            let up = arrival(&self.to_server).unwrap_or(Time::NEVER);
            let down = arrival(&self.to_client).unwrap_or(Time::NEVER);
            let (&who, &timer) = self.timeouts.iter().min_by_key(|(_, at)| **at).expect("an end was driven");
            let next = up.min(down).min(timer);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if up == next {
                let (_, from, packet) = self.to_server.pop_front().expect("one arrives");
                self.serve(from, packet);
            } else if down == next {
                let (_, (client, path), mut packet) = self.to_client.pop_front().expect("one arrives");
                packet.path = PathId(path);
                self.clients[client].handle_input(self.now, Input::Packet(packet));
                self.drain(false, client);
            } else {
                let (is_server, index) = who;
                let end = if is_server { &mut self.connections[index] } else { &mut self.clients[index] };
                end.handle_input(self.now, Input::Timeout);
                self.drain(is_server, index);
            }
        }
    }

    /// Bytes that a connection of the server has delivered, in order of their offsets.
    fn received(&self, index: usize) -> u64 {
        let events = self.events.get(&(true, index)).map_or(&[][..], Vec::as_slice);
        let mut next = 0;
        for event in events {
            if let Event::Received(received) = event {
                assert_eq!(received.payload.offset, next, "bytes are missing, or came twice");
                next += u64::from(received.payload.length);
            }
        }
        next
    }

    fn heard(&self, is_server: bool, index: usize, event: &Event) -> bool {
        self.events.get(&(is_server, index)).is_some_and(|events| events.contains(event))
    }
}

/// Four clients open, send different amounts and close; each has a connection of its own.
fn serve_many<T: Listen<Endpoint: Multipath>>(transport: &T) -> World<T> {
    let mut world = World::new(transport, 4);
    for client in 0..4 {
        world.command(client, Command::Connect);
    }
    world.run_for(Duration::from_millis(500));
    for client in 0..4 {
        assert!(world.heard(false, client, &Event::Connected));
        for part in 0..=client as u64 {
            world.send(client, Payload { offset: 1_000 * part, length: 1_000 });
        }
        world.command(client, Command::Shutdown);
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.connections.len(), 4);
    for client in 0..4 {
        let (index, _) = world.known[&(client, 0)];
        assert_eq!(world.received(index), 1_000 * (client as u64 + 1));
        let closed = Event::Closed(CloseReason::Shutdown);
        assert!(world.heard(false, client, &closed), "client {client}: {:?}", world.events);
    }
    world
}

#[test]
fn one_listener_of_sctp_has_as_many_associations_as_peers_come() {
    let world = serve_many(&sctp::Config::default());
    assert!((0..4).all(|index| world.heard(true, index, &Event::Connected)));
}

#[test]
fn one_listener_of_tcp_has_as_many_connections_as_peers_come() {
    let world = serve_many(&tcp::Config::default());
    assert!((0..4).all(|index| world.heard(true, index, &Event::Closed(CloseReason::Shutdown))));
}

#[test]
fn one_listener_of_mptcp_has_as_many_connections_as_peers_come() {
    let world = serve_many(&mptcp::Config::default());
    assert!((0..4).all(|index| world.heard(true, index, &Event::Closed(CloseReason::Shutdown))));
}

#[test]
fn one_listener_of_udp_has_an_end_for_each_peer() {
    let mut world = World::new(&udp::Config::default(), 3);
    for client in 0..3 {
        world.send(client, Payload { offset: 0, length: 100 * (client as u32 + 1) });
    }
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.connections.len(), 3);
    assert!((0..3).all(|client| world.received(world.known[&(client, 0)].0) == 100 * (client as u64 + 1)));
}

/// A path that comes while data flows carries it alone once the first one is down.
fn moves_to_a_path_that_comes<T: Listen<Endpoint: Multipath>>(transport: &T, transfer: u32) {
    let mut world = World::new(transport, 2);
    for client in 0..2 {
        world.command(client, Command::Connect);
    }
    world.run_for(Duration::from_millis(500));
    // MPTCP joins once the peer has acknowledged data (RFC 8684 section 3.1: fully established).
    world.send(0, Payload { offset: 0, length: 1_000 });
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.clients[0].add_path(world.now, 1500), Ok(PathId(1)));
    world.drain(false, 0);
    world.run_for(Duration::from_millis(500));
    let (index, path) = world.known[&(0, 1)];
    assert_eq!((index, path), (world.known[&(0, 0)].0, PathId(1)), "the connection owns the new address");
    world.is_down = |address| address == (0, 0);
    for part in 1..transfer {
        world.send(0, Payload { offset: 1_000 * u64::from(part), length: 1_000 });
    }
    world.run_for(Duration::from_secs(200));
    assert_eq!(world.received(index), 1_000 * u64::from(transfer));
    assert!(world.answered[&(0, 1)] > u64::from(transfer) / 4);
    assert_eq!(world.connections.len(), 2);
}

#[test]
fn sctp_moves_to_a_path_that_comes() {
    moves_to_a_path_that_comes(&sctp::Config::default(), 100);
}

#[test]
fn sctp_shares_the_load_with_a_path_that_comes() {
    let config: sctp::Config = serde_json::from_str(r#"{"load_sharing": {}}"#).expect("a table of settings");
    moves_to_a_path_that_comes(&config, 100);
}

#[test]
fn mptcp_moves_to_a_path_that_comes() {
    moves_to_a_path_that_comes(&mptcp::Config::default(), 100);
}

#[test]
fn protocols_with_one_path_say_so() {
    let end = |transport: &dyn Fn() -> Result<PathId, String>| transport().expect_err("there is one path");
    let site = site(Side::A, &[1500], "flow");
    let tcp = end(&|| tcp::Config::default().build(&site)?.add_path(Time::ZERO, 1500));
    assert_eq!(tcp, "paths: \"tcp\" has one");
    let udp = end(&|| udp::Config::default().build(&site)?.add_path(Time::ZERO, 1500));
    assert_eq!(udp, "paths: \"udp\" has one");
}

#[test]
fn a_path_that_is_too_small_for_chunks_is_refused_once_they_are_cut() {
    let site = site(Side::A, &[1500], "flow");
    let mut end = sctp::Config::default().build(&site).expect("the settings are possible");
    assert_eq!(end.add_path(Time::ZERO, 1280), Ok(PathId(1)));
    assert_eq!(
        end.add_path(Time::ZERO, 500),
        Err("mtu = 500 is out of range; it must be from 576 to 65535 bytes".into())
    );
    end.handle_input(Time::ZERO, Input::Command(Command::Connect));
    let refused = "mtu = 1000 is out of range; chunks are cut for 1280 bytes, and it must be no less";
    assert_eq!(end.add_path(Time::ZERO, 1000), Err(refused.into()));
}

#[test]
fn a_packet_on_a_path_that_there_is_not_is_discarded() {
    fn check(transport: &impl Transport) {
        let build = |side| transport.build(&site(side, &[1500], "flow")).expect("the settings are possible");
        let [mut client, mut server] = [Side::A, Side::B].map(build);
        client.handle_input(Time::ZERO, Input::Command(Command::Connect));
        let Output::Transmit(mut packet) = client.poll_output(Time::ZERO) else { panic!("it opens") };
        packet.path = PathId(9);
        server.handle_input(Time::ZERO, Input::Packet(packet));
        assert!(matches!(server.poll_output(Time::ZERO), Output::Timeout(_)));
    }
    check(&sctp::Config::default());
    check(&mptcp::Config::default());
}

/// What an end sends first after an input.
fn first_packet(end: &mut impl Endpoint, now: Time, input: Input) -> Box<Packet> {
    end.handle_input(now, input);
    let Output::Transmit(packet) = end.poll_output(now) else { panic!("it answers with a packet") };
    packet
}

fn reply<E>(answer: Answer<E>) -> Box<Packet> {
    let Answer::Reply(packet) = answer else { panic!("it is answered") };
    packet
}

fn first_chunk(packet: &mut Packet) -> &mut Chunk {
    let Body::Sctp(sctp) = &mut packet.body else { panic!("it is SCTP") };
    &mut sctp.first
}

fn set_tag(packet: &mut Packet, tag: u32) {
    let Body::Sctp(sctp) = &mut packet.body else { panic!("it is SCTP") };
    sctp.verification_tag = tag;
}

/// RFC 9260 section 5.1: what an INIT promises is in the cookie, and good for its life.
#[test]
fn a_listener_of_sctp_remembers_nothing() {
    let config = sctp::Config::default();
    let mut listener = config.listen(&site(Side::B, &[1500], "server")).expect("the settings are possible");
    let mut client = config.build(&site(Side::A, &[1500], "flow")).expect("the settings are possible");
    let now = Time::ZERO;
    let init = first_packet(&mut client, now, Input::Command(Command::Connect));
    let mut one = reply(listener.handle_packet(now, init.clone()));
    let mut other = reply(listener.handle_packet(now, init.clone()));
    let tags = [&mut one, &mut other].map(|packet| match first_chunk(packet) {
        Chunk::InitAck(ack) => ack.init.initiate_tag,
        chunk => panic!("{chunk:?}"),
    });
    assert_ne!(tags[0], tags[1], "each INIT is promised a tag of its own");
    let mut forged = init;
    set_tag(&mut forged, 7);
    assert!(matches!(listener.handle_packet(now, forged), Answer::Nothing), "section 8.5.1 A");

    let mut echo = first_packet(&mut client, now, Input::Packet(other));
    let late = Time::from_millis(60_001);
    let mut error = reply(listener.handle_packet(late, echo.clone()));
    let staleness = Duration::from_millis(1);
    assert_eq!(*first_chunk(&mut error), Chunk::Error(ErrorCause::StaleCookie { staleness }));
    let accepted = listener.handle_packet(now, echo.clone());
    let Answer::Accepted(mut association) = accepted else { panic!("{accepted:?}") };
    assert!(association.owns(&echo), "its copy is the association's");
    assert!(matches!(association.poll_output(now), Output::Transmit(_)));
    assert_eq!(association.poll_output(now), Output::Event(Event::Connected));

    set_tag(&mut echo, tags[0]);
    assert!(!association.owns(&echo));
    assert!(matches!(listener.handle_packet(now, echo.clone()), Answer::Nothing), "the cookie is another's");
    // Section 8.4.
    *first_chunk(&mut echo) = Chunk::ShutdownAck;
    let mut answer = reply(listener.handle_packet(now, echo.clone()));
    assert_eq!(*first_chunk(&mut answer), Chunk::ShutdownComplete { tag_reflected: true });
    *first_chunk(&mut echo) = Chunk::CookieAck;
    assert!(matches!(listener.handle_packet(now, echo), Answer::Nothing));
}

/// RFC 9293 section 3.10.7.2, and RFC 8684 section 3.2 for an unknown token.
#[test]
fn what_opens_nothing_is_reset() {
    fn check(config: &impl Listen) {
        let mut listener =
            config.listen(&site(Side::B, &[1500], "server")).expect("the settings are possible");
        let mut client = config.build(&site(Side::A, &[1500], "flow")).expect("the settings are possible");
        let syn = first_packet(&mut client, Time::ZERO, Input::Command(Command::Connect));
        let mut answer_to = |change: &dyn Fn(&mut Segment)| {
            let mut packet = syn.clone();
            match &mut packet.body {
                Body::Tcp(segment) => change(segment),
                Body::Mptcp(segment) => change(&mut segment.tcp),
                body => panic!("{body:?}"),
            }
            listener.handle_packet(Time::ZERO, packet)
        };
        let flags = |packet: &Packet| packet.body.tcp().expect("a segment").flags;
        let to_another_port = reply(answer_to(&|segment| segment.destination_port += 1));
        assert_eq!(flags(&to_another_port), Flags::RST.with(Flags::ACK));
        let without_syn = reply(answer_to(&|segment| segment.flags = Flags::ACK));
        assert_eq!(flags(&without_syn), Flags::RST);
        assert!(matches!(answer_to(&|segment| segment.flags = Flags::RST), Answer::Nothing));
        assert!(matches!(answer_to(&|_| {}), Answer::Accepted(_)));
    }
    check(&tcp::Config::default());
    check(&mptcp::Config::default());
}

/// RFC 5061: the server learns of the address from the ASCONF that comes from it.
#[test]
fn an_address_of_sctp_that_comes_is_asked_for() {
    let mut world = World::new(&sctp::Config::default(), 1);
    world.listener.enable_reconfiguration();
    world.clients[0].enable_reconfiguration(&[]).expect("it can");
    world.command(0, Command::Connect);
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.clients[0].add_path(world.now, 1500), Ok(PathId(1)));
    world.drain(false, 0);
    world.run_for(Duration::from_millis(500));
    assert!(!world.known.contains_key(&(0, 1)), "it is no part of the association yet");
    world.is_down = |address| address == (0, 0);
    world.command(0, Command::AddAddress(PathId(1)));
    world.run_for(Duration::from_secs(10));
    assert!(world.heard(false, 0, &Event::AddressAdded(PathId(1))));
    assert!(world.heard(true, 0, &Event::AddressAdded(PathId(1))));
    world.send(0, Payload { offset: 0, length: 1_000 });
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.received(0), 1_000);
}
