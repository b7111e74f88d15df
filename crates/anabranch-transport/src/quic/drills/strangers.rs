//! RFC 9000 sections 6, 8.1.2, 10.3 and 17.2.5: Retry, Version Negotiation and stateless reset.

use crate::endpoint::{CloseReason, Command, Endpoint as _, Event, Input, Output, Site};
use crate::flow::{Ecn, IpVersion, PathId, Side};
use crate::listener::{Answer, Listen as _, Listener as _};
use crate::quic::config::Handshake;
use crate::quic::connection::State;
use crate::quic::testing::{Drill, Pair, crypto, ms, send};
use crate::quic::{Config, Connection, Listener, code};
use crate::rng::Streams;
use crate::time::Time;
use crate::units::Bytes;
use crate::wire::quic::{ConnectionId, Content, Datagram, Frame, Level};
use crate::wire::{Body, Packet};

fn asking() -> Config {
    // More than three times what a client sends at first.
    let handshake = Handshake { certificate: Bytes(10_000), ..Handshake::default() };
    Config { retry: Some(true), handshake: Some(handshake), ..Config::default() }
}

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).expect("it is short enough")
}

fn bring(drill: &mut Drill, content: Content) {
    let [own, peer] = drill.end.ports;
    drill.bring(Datagram { source_port: peer, destination_port: own, client_host: 0, content }, Ecn::NotEct);
}

/// Section 8.1.2, figure 8: a round trip more, and nothing is kept before the token has come. The address is
/// validated then, so that the server need not stop at three times what came.
#[test]
fn a_retry_costs_a_round_trip() {
    let mut pair = Pair::new(&asking());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(30));
    assert_eq!((pair.ends[1].stats().connections, pair.ends[1].stats().retries), (0, 1));
    assert_eq!(pair.ends[1].state, State::Closed);
    assert!(matches!(pair.log[1].datagram.content, Content::Retry { .. }));
    assert!(pair.log[1].bytes < 100);
    pair.run_for(ms(270));
    assert_eq!(pair.events[0][..], [(Time::from_millis(80), Event::Connected)]);
    assert_eq!(pair.events[1][..], [(Time::from_millis(100), Event::Connected)]);
    assert_eq!(pair.ends[1].stats().amplification_limited, 0);
    let initials = pair.from(Side::A).into_iter().flat_map(|logged| logged.datagram.packets());
    let initials: Vec<_> = initials.filter(|packet| packet.level == Level::Initial).collect();
    for (number, packet) in initials.iter().enumerate() {
        // Section 17.2.5.3: numbers go on; and every Initial packet has the token (section 8.1.2).
        assert_eq!(packet.number, number as u64);
        assert_eq!(packet.token.is_empty(), number == 0);
    }
    assert!(initials.len() >= 2);
    // The round trip of the Retry packet is known before the first acknowledgement.
    assert_eq!(pair.ends[0].stats().timeouts, 0);
}

/// Section 17.2.5.2: one Retry packet is taken, if it answers this handshake and can be used.
#[test]
fn one_retry_is_taken() {
    let retry = |drill: &Drill, source, token: &[u8]| Content::Retry {
        ids: [drill.end.paths[0].own_ids.first(), source],
        original: drill.end.handshake.original,
        token: token.into(),
    };
    let config = Config::default();
    let mut drill = Drill::opening(&config);
    let original = drill.end.handshake.original;
    drill.at(50).sent();
    let wrong = [
        retry(&drill, id(5), &[]),
        retry(&drill, id(5), &[1; 700]),
        retry(&drill, original, &[1]),
        Content::Retry { ids: [id(1), id(5)], original, token: [1].into() },
        Content::Retry {
            ids: [drill.end.paths[0].own_ids.first(), id(5)],
            original: id(4),
            token: [1].into(),
        },
    ];
    for wrong in wrong {
        bring(&mut drill, wrong);
        assert_eq!((drill.sent().len(), drill.end.stats().retries), (0, 0));
    }
    let right = retry(&drill, id(5), &[1, 2, 3]);
    bring(&mut drill, right);
    let sent = drill.sent();
    assert_eq!((sent.len(), sent[0].bytes), (1, 1_200));
    let packet = &sent[0].datagram.packets()[0];
    assert_eq!((packet.destination, &packet.token[..], packet.number), (id(5), &[1, 2, 3][..], 1));
    assert!(packet.frames.contains(&crypto(0, 241)), "the same message");
    // The round trip took 50 ms: the probe timeout is 50 + 4 x 25 ms.
    drill.at(199);
    assert_eq!(drill.sent().len(), 0);
    drill.at(201);
    assert_eq!(drill.sent().len(), 2);
    let second = retry(&drill, id(6), &[4]);
    bring(&mut drill, second);
    assert_eq!(drill.end.stats().retries, 1);
    // After the server's first packet none is taken, and the ID is the server's.
    let mut drill = Drill::opening(&config);
    drill.packet(Level::Initial, vec![crypto(0, 90)]);
    let late = retry(&drill, id(5), &[1]);
    bring(&mut drill, late);
    assert_eq!((drill.end.stats().retries, drill.end.paths[0].peer_ids.current()), (0, drill.peer_id));
}

/// Section 7.3: the server says where the Retry packet came from if there was one, and only then.
#[test]
fn parameters_prove_the_retry() {
    for (was_sent, said, is_right) in [(true, true, true), (true, false, false), (false, true, false)] {
        let mut drill = Drill::opening(&Config::default());
        drill.at(50);
        let (own, original) = (drill.end.paths[0].own_ids.first(), drill.end.handshake.original);
        if was_sent {
            bring(&mut drill, Content::Retry { ids: [own, id(5)], original, token: [1].into() });
        }
        let mut parameters = drill.peers_parameters();
        parameters.retry_source = said.then(|| id(5));
        drill.packet(Level::Initial, vec![crypto(0, 90)]);
        let mut packet = drill.peers_packet(Level::Handshake, vec![crypto(0, 2_400)]);
        packet.parameters = Some(Box::new(parameters));
        drill.deliver(packet, Ecn::NotEct);
        let expected = (!is_right).then_some(code::TRANSPORT_PARAMETER_ERROR);
        assert_eq!(drill.violation(), expected, "{was_sent} {said}");
    }
}

/// Section 8.1.2: a token that comes too late is refused at once, and the client need not wait.
#[test]
fn an_old_token_is_refused() {
    let mut pair = Pair::new(&Config { idle_timeout: Some(ms(100_000)), ..asking() });
    for wire in pair.wires.iter_mut() {
        wire.delay = ms(7_600);
    }
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(31_000));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Aborted));
    assert_eq!(pair.ends[1].stats().connections, 0);
}

/// Section 6.2: a client of one version gives up, unless the packet is a mistake or a forgery.
#[test]
fn version_negotiation_ends_the_attempt() {
    let negotiation = |drill: &Drill, versions: &[u32]| Content::VersionNegotiation {
        ids: [drill.end.paths[0].own_ids.first().bytes().into(), drill.end.handshake.original.bytes().into()],
        versions: versions.into(),
    };
    let mut drill = Drill::opening(&Config::default());
    let with_ours = negotiation(&drill, &[2, 1]);
    bring(&mut drill, with_ours);
    let ids = [Box::from([0; 8]), Box::from([1; 8])];
    bring(&mut drill, Content::VersionNegotiation { ids, versions: [2].into() });
    assert!(drill.events.is_empty());
    let right = negotiation(&drill, &[2, 0x6b33_43cf]);
    bring(&mut drill, right);
    assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
    assert_eq!(drill.end.peers_versions(), [2, 0x6b33_43cf]);
    drill.sent();
    drill.at(60_000);
    assert_eq!(drill.sent().len(), 0);
    // Any packet of the server shows that it knows the version.
    let mut drill = Drill::opening(&Config::default());
    drill.packet(Level::Initial, vec![crypto(0, 90)]);
    let late = negotiation(&drill, &[2]);
    bring(&mut drill, late);
    assert!(drill.events.is_empty());
    // Without a connection, and for a client, a packet of another version means nothing.
    let ids = [Box::from([0; 8]), Box::from([1; 8])];
    drill.sent();
    bring(&mut drill, Content::OtherVersion { version: 2, ids, rest: 1_300 });
    assert_eq!(drill.sent().len(), 0);
}

/// Section 10.3.1: the token of the ID in use ends a connection, and no other does.
#[test]
fn a_stateless_reset_ends_a_connection() {
    let reset = |token| Content::Reset { noise: Box::new([7; 20]), token: [token; 16] };
    let open = || Drill::open_with(&Config::default(), |peer| peer.stateless_reset_token = Some([1; 16]));
    let mut drill = open();
    let new = |sequence, retire_prior_to, byte| Frame::NewConnectionId {
        path: None,
        sequence,
        retire_prior_to,
        id: id(byte),
        reset_token: [byte; 16],
    };
    drill.frame(new(1, 0, 2));
    for wrong in [0, 2] {
        bring(&mut drill, reset(wrong));
    }
    assert!(drill.events.is_empty());
    bring(&mut drill, reset(1));
    assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
    drill.sent();
    drill.write(5_000).at(60_000);
    assert_eq!(drill.sent().len(), 0);
    // Once the first ID is retired its token counts for nothing, and that of the next one does.
    let mut drill = open();
    drill.frame(new(1, 1, 2));
    bring(&mut drill, reset(1));
    assert!(drill.events.is_empty());
    bring(&mut drill, reset(2));
    assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
}

/// Section 10.3: an end that has lost its connection says so to what still comes, and the other one need not
/// wait for its idle timeout.
#[test]
fn a_lost_connection_is_reset() {
    for forgetful in [Side::A, Side::B] {
        let mut pair = Pair::open(&Config::default());
        let end = &mut pair.ends[forgetful.index()];
        end.state = State::Closed;
        end.end(CloseReason::Lost);
        pair.write(forgetful.peer(), 100_000);
        let is_known = forgetful == Side::B;
        pair.run_for(ms(100));
        let stats = *pair.ends[forgetful.index()].stats();
        assert!(stats.resets_sent > 0, "{forgetful:?}");
        // A client's first ID has no token, as its parameters are not secret (section 10.3).
        let expected = is_known.then_some(CloseReason::Aborted);
        assert_eq!(pair.closed(forgetful.peer()), expected, "{forgetful:?}");
        let resets =
            pair.log.iter().filter(|logged| matches!(logged.datagram.content, Content::Reset { .. }));
        assert!(resets.map(|logged| logged.bytes).all(|bytes| (21..=42).contains(&bytes)));
    }
}

fn listener(config: &Config) -> Listener {
    let site = Site {
        side: Side::B,
        mtus: &[1_500],
        ip: IpVersion::Ipv4,
        streams: Streams { seed: 1, replication: 0 },
        connection: "flow/test",
    };
    config.listen(&site).expect("the configuration is possible")
}

fn client(config: &Config, seed: u64) -> Connection {
    let parameters = config.resolve().expect("the configuration is possible");
    let streams = Streams { seed, replication: 0 };
    Connection::new(&parameters, Side::A, &[1_500], IpVersion::Ipv4, streams, "client")
}

/// What an end sends.
fn sent(end: &mut Connection, now: Time) -> Vec<Packet> {
    let mut packets = Vec::new();
    loop {
        match end.poll_output(now) {
            Output::Transmit(packet) => packets.push(*packet),
            Output::Event(_) => {}
            Output::Timeout(_) => return packets,
        }
    }
}

/// A listener opens a connection for a client, with a token or without, and its connections talk.
#[test]
fn a_listener_opens_connections() {
    for retry in [false, true] {
        let config = Config { retry: Some(retry), ..Config::default() };
        let (mut listener, mut client) = (listener(&config), client(&config, 3));
        let mut server: Option<Box<Connection>> = None;
        let mut now = Time::ZERO;
        client.handle_input(now, Input::Command(Command::Connect));
        let message = crate::flow::Payload { offset: 0, length: 3_000 };
        client.handle_input(now, Input::Command(send(message)));
        let (mut replies, mut delivered) = (0, 0);
        for _ in 0..20 {
            now += ms(10);
            for packet in sent(&mut client, now) {
                match &mut server {
                    Some(server) => server.handle_input(now, Input::Packet(Box::new(packet))),
                    None => match listener.handle_packet_of(now, &[10, 0, 0, 1], Box::new(packet)) {
                        Answer::Accepted(connection) => server = Some(connection),
                        Answer::Reply(packet) => {
                            replies += 1;
                            client.handle_input(now, Input::Packet(packet));
                        }
                        Answer::Nothing => panic!("it opens a connection"),
                    },
                }
            }
            if let Some(server) = &mut server {
                for packet in sent(server, now) {
                    assert!(client.owns(&packet));
                    client.handle_input(now, Input::Packet(Box::new(packet)));
                }
                delivered = server.stats().bytes_delivered;
            }
        }
        assert_eq!((replies, delivered), (u32::from(retry), 3_000));
    }
}

/// Section 21.2: whoever floods a listener that asks for tokens leaves nothing behind, and gets less than it
/// sends.
#[test]
fn a_flood_leaves_nothing_behind() {
    let config = Config::default();
    let mut listener = listener(&config);
    listener.ask_for_tokens(true);
    let mut first = client(&config, 3);
    first.handle_input(Time::ZERO, Input::Command(Command::Connect));
    let packet = sent(&mut first, Time::ZERO).remove(0);
    let mut tokens = std::collections::BTreeSet::new();
    for source in 0..2_000_u32 {
        let mut packet = packet.clone();
        if let Body::Quic(datagram) = &mut packet.body {
            datagram.source_port = source as u16 | 1;
        }
        let size = packet.size;
        match listener.handle_packet_of(Time::ZERO, &source.to_be_bytes(), Box::new(packet)) {
            Answer::Reply(reply) => {
                assert!(3 * reply.size < size);
                let Body::Quic(datagram) = &reply.body else { panic!("QUIC sends QUIC") };
                let Content::Retry { token, .. } = &datagram.content else { panic!("{datagram:?}") };
                tokens.insert(token.clone());
            }
            answer => panic!("{answer:?}"),
        }
    }
    assert_eq!(tokens.len(), 2_000, "each source has a token of its own");
}

/// Sections 6.1 and 10.3: what a listener says to what it does not know.
#[test]
fn a_listener_answers_strangers() {
    let mut listener = listener(&Config::default());
    let mut said = |content: Content, size: Option<u32>| {
        let datagram = Datagram { source_port: 49_152, destination_port: 443, client_host: 0, content };
        let size = 28 + size.unwrap_or_else(|| datagram.payload_bytes());
        let body = Body::Quic(Box::new(datagram));
        let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size, body };
        match listener.handle_packet(Time::ZERO, Box::new(packet)) {
            Answer::Reply(packet) => {
                let Body::Quic(datagram) = packet.body else { panic!("QUIC sends QUIC") };
                assert!(packet.size < size);
                assert_eq!((datagram.source_port, datagram.destination_port), (443, 49_152));
                Some(datagram.content)
            }
            Answer::Nothing => None,
            Answer::Accepted(_) => panic!("nobody opens a connection"),
        }
    };
    let ids = [Box::from([1; 30]), Box::from([2; 3])];
    let other = |rest| Content::OtherVersion { version: 0xff00_001d, ids: ids.clone(), rest };
    let [to, from] = ids.clone();
    let expected = Content::VersionNegotiation { ids: [from, to], versions: [1].into() };
    assert_eq!(said(other(1_200), None), Some(expected.clone()));
    assert_eq!(said(other(100), None), None);
    assert_eq!(said(expected, None), None, "Version Negotiation is not answered");
    let mut drill = Drill::open(&Config::default());
    let mut short = drill.peers_packet(Level::OneRtt, Vec::new());
    short.frames.clear();
    let short = || Content::Packets([short.clone()].into_iter().collect());
    let size = |content: Option<Content>| content.map(|content| content.size());
    assert_eq!(size(said(short(), Some(1_200))), Some(42));
    assert_eq!(size(said(short(), Some(43))), Some(42));
    assert_eq!(size(said(short(), Some(22))), Some(21));
    assert_eq!(size(said(short(), Some(21))), None);
    let handshake = drill.peers_packet(Level::Handshake, vec![Frame::Ping]);
    assert_eq!(said(Content::Packets([handshake].into_iter().collect()), Some(1_200)), None);
}
