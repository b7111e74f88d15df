//! Peers that abuse paths (RFC 10069 section 7): what they can make an end keep and send is bounded.

use smallvec::SmallVec;

use crate::endpoint::Input;
use crate::flow::{Ecn, PathId, Side};
use crate::quic::Config;
use crate::quic::errors::code;
use crate::quic::path::Standing;
use crate::quic::testing::{Drill, Logged, Pair, ms};
use crate::time::Duration;
use crate::wire::quic::{Ack, ConnectionId, Content, Datagram, Frame, Level, Packet};
use crate::wire::{self, Body};

const SECOND: PathId = PathId(1);
/// Headers of IPv4 and UDP.
const HEADERS: u32 = 28;

fn two() -> Config {
    Config { multipath: Some(true), ..Config::default() }
}

/// The ID of path 1 with this number.
fn id_of(sequence: u64, retire_prior_to: u64) -> Frame {
    let id = ConnectionId::new(&(1_000 + sequence).to_be_bytes()).expect("it is short enough");
    Frame::NewConnectionId { path: Some(1), sequence, retire_prior_to, id, reset_token: [7; 16] }
}

/// A client whose peer has issued an ID for path 1, so that it opens the path.
fn with_two_paths() -> Drill {
    let mut drill = Drill::open_with(&two(), |peer| {
        peer.initial_max_path_id = Some(1);
        peer.active_connection_id_limit = 4;
    });
    drill.frame(id_of(0, 0));
    assert_eq!(drill.end.paths[1].standing, Standing::Open);
    drill
}

/// Lets the peer send a packet on path 1, with this number.
fn on_second(drill: &mut Drill, number: u64, frames: Vec<Frame>) {
    let destination = drill.end.paths[1].own_ids.first();
    // The peer's numbers of path 0 go on without a gap.
    let packet = Packet {
        level: Level::OneRtt,
        destination,
        path_id: 1,
        number,
        frames: SmallVec::from_vec(frames),
        ..drill.peers_packet(Level::Handshake, Vec::new())
    };
    let [own, peer] = drill.end.ports;
    let content = Content::Packets(SmallVec::from_iter([packet]));
    let datagram = Datagram { source_port: peer, destination_port: own, client_host: 0, content };
    let size = HEADERS + datagram.payload_bytes();
    let packet = wire::Packet { path: SECOND, ecn: Ecn::NotEct, size, body: Body::Quic(Box::new(datagram)) };
    drill.input(Input::Packet(Box::new(packet)));
}

/// What an end keeps of path IDs: IDs of both ends, and frames about them that wait.
fn kept(drill: &Drill) -> usize {
    let paths = drill.end.paths.iter();
    paths
        .map(|path| path.own_ids.len() + path.own_ids.to_announce.len() + path.peer_ids.to_retire.len())
        .sum()
}

/// Sections 3.2 and 4.4: a peer that issues more IDs for a path than this end keeps, or has it retire IDs
/// without end, loses the connection; so does one that names a path ID above the limit.
#[test]
fn ids_beyond_the_limits_end_the_connection() {
    let mut drill = with_two_paths();
    let issued = (1..1_000).take_while(|sequence| {
        drill.frame(id_of(*sequence, 0));
        drill.violation().is_none()
    });
    assert_eq!((issued.count(), drill.violation()), (3, Some(code::CONNECTION_ID_LIMIT_ERROR)));

    // Nothing that this end sends is acknowledged, so that what it retires waits.
    let mut drill = with_two_paths();
    let issued = (1..1_000).take_while(|sequence| {
        drill.frame(id_of(*sequence, *sequence));
        drill.violation().is_none()
    });
    let issued = issued.count();
    assert_eq!(drill.violation(), Some(code::CONNECTION_ID_LIMIT_ERROR));
    assert!(issued <= 40, "{issued}");
    assert!(kept(&drill) <= 24, "{}", kept(&drill));

    let mut drill = with_two_paths();
    let id = ConnectionId::new(&[5; 8]).expect("it is short enough");
    drill.frame(Frame::NewConnectionId {
        path: Some(2),
        sequence: 0,
        retire_prior_to: 0,
        id,
        reset_token: [0; 16],
    });
    assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION));
}

/// Section 3.4: an ID of a path is never used again, so that a peer that has a path opened and given up does
/// that once. What comes afterwards about the path, acknowledgements too, is ignored.
#[test]
fn a_path_that_is_over_costs_nothing_more() {
    let mut drill = with_two_paths();
    drill.frame(Frame::PathAbandon { path: 1, code: 0 });
    drill.at(2_000);
    let (before, sent) = (kept(&drill), drill.sent().len());
    assert!(sent <= 10, "{sent}");
    let ranges = (0..64).map(|run| (1_000 - 10 * run, 1_001 - 10 * run)).collect();
    let ack = Frame::Ack(Box::new(Ack { path: Some(1), ranges, ..Ack::default() }));
    for round in 0..2_000 {
        drill.packet(
            Level::OneRtt,
            vec![
                id_of(round, 0),
                Frame::PathStatus { path: 1, sequence: round, is_available: false },
                Frame::PathCidsBlocked { path: 1, next: 0 },
                ack.clone(),
                Frame::PathAbandon { path: 1, code: 0 },
            ],
        );
        on_second(&mut drill, round, vec![Frame::PathChallenge { data: [1; 8] }]);
    }
    assert_eq!(drill.violation(), None);
    assert_eq!((drill.end.paths.len(), drill.end.paths[1].standing), (2, Standing::Abandoned));
    assert_eq!(kept(&drill), before);
    let sent = drill.sent();
    // Every second of 4,000 packets is acknowledged, and that is all.
    assert!(sent.len() <= 2_000, "{}", sent.len());
    assert!(sent.iter().all(|logged| logged.path == PathId(0) && logged.bytes < 200));
}

/// Sections 4.3, 4.5 and 4.6: wishes and complaints without end change one value, and are answered by
/// acknowledgements alone.
#[test]
fn wishes_without_end_are_one_value() {
    let mut drill = with_two_paths();
    drill.at(150).sent();
    let before = kept(&drill);
    for round in 0..5_000 {
        drill.packet(
            Level::OneRtt,
            vec![
                Frame::PathStatus { path: round as u32 % 2, sequence: round, is_available: round % 3 == 0 },
                Frame::PathsBlocked { limit: 1 },
                Frame::PathCidsBlocked { path: 1, next: 1 },
                Frame::MaxPathId { limit: 1_000 + round as u32 },
            ],
        );
    }
    assert_eq!((drill.violation(), drill.end.paths.len(), kept(&drill)), (None, 2, before));
    assert!(drill.sent().iter().flat_map(Logged::frames).all(|frame| !frame.elicits_ack()));
}

/// RFC 9000 section 8.2.2 on each path: of many challenges in a packet the last one is answered, so that a
/// packet brings one answer at most (CVE-2023-49295), however long nothing can be sent.
#[test]
fn challenges_without_end_bring_one_answer_each_packet() {
    for acknowledges in [false, true] {
        let mut drill = with_two_paths();
        drill.at(150).sent();
        for round in 0..1_000_u64 {
            let challenge = |each: u64| Frame::PathChallenge { data: (32 * round + each).to_be_bytes() };
            let mut frames: Vec<Frame> = (0..32).map(challenge).collect();
            for path in 0..2 {
                let next = drill.end.paths[path].space.next;
                if acknowledges && next > 0 {
                    let ranges = [(0, next - 1)].into_iter().collect();
                    frames.push(Frame::Ack(Box::new(Ack {
                        path: Some(path as u32),
                        ranges,
                        ..Ack::default()
                    })));
                }
            }
            if round % 2 == 0 {
                drill.packet(Level::OneRtt, frames);
            } else {
                on_second(&mut drill, round, frames);
            }
        }
        let sent = drill.sent();
        let is_answer = |frame: &&Frame| matches!(frame, Frame::PathResponse { .. });
        let answers = sent.iter().flat_map(Logged::frames).filter(is_answer).count();
        // Without acknowledgements the windows of both paths are the bound.
        let most = if acknowledges { 1_000 } else { 24 };
        assert!(answers > 0 && answers <= most, "{acknowledges}: {answers}");
        assert!(sent.len() <= 1_500, "{acknowledges}: {}", sent.len());
        assert_eq!(drill.violation(), None);
    }
}

/// Section 4.4: a peer that retires its IDs of a path again and again gets one new ID for each.
#[test]
fn ids_that_are_retired_without_end_are_two_at_a_time() {
    let mut drill = with_two_paths();
    drill.at(150).sent();
    for sequence in 0..2_000 {
        drill.frame(Frame::RetireConnectionId { path: Some(1), sequence });
        assert!(drill.end.paths[1].own_ids.len() <= 2);
        assert!(drill.end.paths[1].own_ids.to_announce.len() <= 2 + sequence as usize);
    }
    let new = |frame: &&Frame| matches!(frame, Frame::NewConnectionId { path: Some(1), .. });
    let issued = drill.sent().iter().flat_map(Logged::frames).filter(new).count();
    assert!(issued <= 2_010, "{issued}");
}

/// Section 4.2 of RFC 10069 and RFC 9000 section 13.1: an acknowledgement of what was not sent on a path ends
/// the connection, whichever path carries it.
#[test]
fn acknowledgements_of_what_was_not_sent_on_a_path_are_told() {
    let mut drill = with_two_paths();
    let ranges = [(5_000, 5_000)].into_iter().collect();
    drill.frame(Frame::Ack(Box::new(Ack { path: Some(1), ranges, ..Ack::default() })));
    assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION));
}

/// RFC 9000 sections 8.1 and 9.3 on all paths at once: a client whose every packet comes from another address
/// has the server keep two pairs of addresses a path, and send each that has not answered at most three times
/// what came from there.
#[test]
fn all_paths_that_move_at_once_are_bounded() {
    let mut pair = Pair::open(&two());
    pair.run_for(ms(300));
    pair.log.clear();
    let mut port = 10_000;
    pair.meddle = Box::new(move |side, packet| {
        if let (Side::A, Body::Quic(datagram)) = (side, &mut packet.body) {
            port += 1;
            (datagram.source_port, datagram.client_host) = (port, (port % 7) as u8);
        }
    });
    for _ in 0..400 {
        pair.write(Side::A, 500);
        pair.run_for(ms(5));
        assert!(pair.ends[1].paths.iter().all(|path| path.answer.is_none()));
    }
    let came = pair.from(Side::A).len();
    let moved = 10_000..40_000;
    let to_strangers: Vec<_> =
        pair.from(Side::B).into_iter().filter(|l| moved.contains(&l.datagram.destination_port)).collect();
    let bytes: u32 = to_strangers.iter().map(|logged| logged.bytes).sum();
    let asked: u32 = pair.from(Side::A).iter().map(|logged| logged.bytes).sum();
    assert!(bytes <= 3 * asked, "{bytes} {asked}");
    assert!(to_strangers.len() <= 3 * came, "{} {came}", to_strangers.len());
    assert_eq!(pair.ends[1].paths.len(), 2);
    // The client itself is served again as soon as nobody moves it.
    pair.meddle = Box::new(|_, _| {});
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 200_000);
    assert!(pair.closed(Side::A).is_none() && pair.closed(Side::B).is_none());
}
