//! RFC 9000 sections 8.2 and 9: validation of addresses, and migration.

use crate::endpoint::{CloseReason, Input};
use crate::flow::{PathId, Side};
use crate::quic::Config;
use crate::quic::config::Migration;
use crate::quic::testing::{Logged, Pair, ms};
use crate::time::Duration;
use crate::wire::Body;
use crate::wire::quic::{Content, Frame, Level};

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);

fn moving() -> Config {
    Config { migration: Some(Migration::OnFailure), ..Config::default() }
}

fn is_of_path(frame: &Frame) -> bool {
    matches!(frame, Frame::PathChallenge { .. } | Frame::PathResponse { .. })
}

fn network(pair: &Pair, side: Side) -> PathId {
    pair.ends[side.index()].paths[0].route.address.network
}

/// The number of a packet of the client that it does not send itself.
fn take_number(pair: &mut Pair) -> u64 {
    let next = &mut pair.ends[0].paths[0].space.next;
    *next += 1;
    *next - 1
}

/// Sections 9.2 to 9.5: a client goes on at its next address with another connection ID, and the server
/// follows it with another one. Both validate, in datagrams of 1200 bytes, and nothing is lost.
#[test]
fn a_client_leaves_a_dead_path() {
    let mut pair = Pair::open(&moving());
    let ids = |pair: &Pair| [0, 1].map(|side: usize| pair.ends[side].paths[0].peer_ids.current());
    let before = ids(&pair);
    pair.write(Side::A, 400_000);
    pair.run_for(ms(50));
    pair.wires.dead = vec![FIRST];
    pair.run_for(ms(3_000));
    assert_eq!([network(&pair, Side::A), network(&pair, Side::B)], [SECOND; 2]);
    assert_eq!(pair.received_bytes(Side::B), 400_000);
    assert_eq!(pair.ends.each_ref().map(|end| end.stats().migrations), [1; 2]);
    let after = ids(&pair);
    assert!(before[0] != after[0] && before[1] != after[1]);
    for side in [Side::A, Side::B] {
        let tests = pair.from(side).into_iter().filter(|logged| logged.frames().any(is_of_path));
        let on_second: Vec<&Logged> = tests.filter(|logged| logged.path == SECOND).collect();
        assert!(on_second.iter().any(|l| l.frames().any(|f| matches!(f, Frame::PathChallenge { .. }))));
        assert!(on_second.iter().any(|l| l.frames().any(|f| matches!(f, Frame::PathResponse { .. }))));
        assert!(on_second.iter().all(|logged| logged.bytes == 1_200), "{on_second:?}");
    }
    assert!(pair.ends.iter().all(|end| end.violation().is_none()));
    assert!(pair.ends.iter().all(|end| end.paths[0].route.is_validated));
    // And back, when the second one dies.
    pair.wires.dead = vec![SECOND];
    pair.write(Side::A, 100_000);
    pair.run_for(ms(5_000));
    assert_eq!(network(&pair, Side::B), FIRST);
    assert_eq!(pair.received_bytes(Side::B), 500_000);
}

/// Without the setting it stays where it is.
#[test]
fn a_client_that_may_not_move_stays() {
    let mut pair = Pair::open(&Config { migration: Some(Migration::Never), ..Config::default() });
    pair.write(Side::A, 100_000);
    pair.wires.dead = vec![FIRST];
    pair.run_for(ms(60_000));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Lost));
    assert!(pair.log.iter().all(|logged| logged.path == FIRST));
}

/// A client that only receives finds out by its own PINGs.
#[test]
fn a_client_that_receives_moves_by_its_pings() {
    let config = Config { keep_alive: Some(Duration::from_millis(500)), ..moving() };
    let mut pair = Pair::open(&config);
    pair.write(Side::B, 2_000_000);
    pair.run_for(ms(50));
    pair.wires.dead = vec![FIRST];
    pair.run_for(ms(10_000));
    assert_eq!(pair.received_bytes(Side::A), 2_000_000);
    assert_eq!(network(&pair, Side::B), SECOND);
}

/// Sections 8.1, 9.3.1 and 9.3.2: before the new address is validated the server sends three times what came
/// from it, and it goes back when the validation fails.
#[test]
fn an_address_that_does_not_answer_gets_little() {
    let mut pair = Pair::open(&moving());
    pair.write(Side::B, 3_000_000);
    pair.run_for(ms(50));
    // Someone forwards one packet of the client from another address.
    let copied = pair.from(Side::A).last().map(|logged| logged.datagram.clone());
    let mut datagram = copied.expect("the client acknowledges");
    let number = take_number(&mut pair);
    if let Content::Packets(packets) = &mut datagram.content {
        packets[0].number = number;
        packets[0].frames = [Frame::Ping, Frame::Padding { length: 500 }].into_iter().collect();
    }
    pair.wires.dead = vec![SECOND];
    let bytes = datagram.payload_bytes();
    let packet = crate::wire::Packet {
        path: SECOND,
        ecn: crate::flow::Ecn::NotEct,
        size: 28 + bytes,
        body: Body::Quic(Box::new(datagram)),
    };
    pair.log.clear();
    pair.input(Side::B, Input::Packet(Box::new(packet)));
    pair.run_for(ms(10));
    let sent: u32 = pair.from(Side::B).iter().filter(|l| l.path == SECOND).map(|l| l.bytes).sum();
    assert!(sent > 0 && sent <= 3 * bytes, "{sent} after {bytes}");
    // Section 9.3.3: the old address is validated as well.
    let is_challenge = |frame: &Frame| matches!(frame, Frame::PathChallenge { .. });
    assert!(pair.from(Side::B).iter().any(|l| l.path == FIRST && l.frames().any(is_challenge)));
    pair.run_for(ms(20_000));
    assert_eq!(network(&pair, Side::B), FIRST);
    assert_eq!(pair.received_bytes(Side::A), 3_000_000, "the transfer goes on (quinn issue 2658)");
    let sent: u32 = pair.from(Side::B).iter().filter(|l| l.path == SECOND).map(|l| l.bytes).sum();
    assert!(sent <= 3 * bytes, "{sent} after {bytes}");
}

/// Section 9.1: probing moves nobody, and is answered where it came from (section 8.2.2).
#[test]
fn a_probe_is_answered_where_it_came_from() {
    let mut pair = Pair::open(&moving());
    pair.write(Side::A, 1_000);
    pair.run_for(ms(100));
    let mut datagram = pair.from(Side::A)[0].datagram.clone();
    let number = take_number(&mut pair);
    if let Content::Packets(packets) = &mut datagram.content {
        assert_eq!(packets[0].level, Level::OneRtt);
        packets[0].number = number;
        packets[0].frames =
            [Frame::PathChallenge { data: [7; 8] }, Frame::Padding { length: 300 }].into_iter().collect();
    }
    let bytes = datagram.payload_bytes();
    let packet = crate::wire::Packet {
        path: SECOND,
        ecn: crate::flow::Ecn::NotEct,
        size: 28 + bytes,
        body: Body::Quic(Box::new(datagram)),
    };
    pair.log.clear();
    pair.input(Side::B, Input::Packet(Box::new(packet)));
    let answers: Vec<_> = pair.from(Side::B).into_iter().filter(|l| l.frames().any(is_of_path)).collect();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].frames().any(|frame| *frame == Frame::PathResponse { data: [7; 8] }));
    assert_eq!((answers[0].path, answers[0].bytes), (SECOND, (3 * bytes).min(1_200)));
    assert_eq!(network(&pair, Side::B), FIRST);
}
