//! RFC 9000 section 9: a NAT gives the client another port or address, of which the client hears nothing.

use crate::endpoint::Command;
use crate::flow::{PathId, Side};
use crate::quic::Config;
use crate::quic::path::Address;
use crate::quic::testing::{Logged, Pair, ms};
use crate::time::Duration;
use crate::wire::quic::Frame;

const PATH: PathId = PathId(0);

fn rebind(pair: &mut Pair, address: bool) {
    pair.command(Side::A, Command::Rebind { path: PATH, address });
}

/// Where the server's datagram goes.
fn to(logged: &Logged) -> Address {
    let datagram = &logged.datagram;
    Address { network: logged.path, port: datagram.destination_port, host: datagram.client_host }
}

fn has(logged: &Logged, is_meant: impl Fn(&Frame) -> bool) -> bool {
    logged.frames().any(is_meant)
}

/// Sections 9.3, 9.3.3 and 9.5: the server follows the client, whose transfer goes on, validates both
/// addresses with datagrams of 1200 bytes, and keeps the connection ID.
#[test]
fn a_server_follows_a_client_behind_a_nat() {
    for address in [false, true] {
        let mut pair = Pair::open(&Config::default());
        let old = pair.ends[1].paths[0].route.address;
        let ids = pair.ends.each_ref().map(|end| end.paths[0].peer_ids.current());
        pair.write(Side::A, 400_000);
        pair.run_for(ms(50));
        pair.log.clear();
        rebind(&mut pair, address);
        pair.run_for(ms(3_000));
        assert_eq!(pair.received_bytes(Side::B), 400_000);
        let new = pair.ends[1].paths[0].route.address;
        let (port, host) = if address { (49_152, 1) } else { (49_153, 0) };
        assert_eq!(new, Address { network: PATH, port, host });
        assert!(pair.ends[1].paths[0].route.is_validated);
        assert_eq!(pair.ends.each_ref().map(|end| end.stats().rebindings), [0, 1]);
        assert_eq!(pair.ends.each_ref().map(|end| end.stats().migrations), [0; 2]);
        assert_eq!(pair.ends.each_ref().map(|end| end.paths[0].peer_ids.current()), ids);
        let sent = pair.from(Side::B);
        let challenges: Vec<_> =
            sent.iter().filter(|l| has(l, |f| matches!(f, Frame::PathChallenge { .. }))).collect();
        for address in [old, new] {
            assert!(challenges.iter().any(|logged| to(logged) == address), "{address:?}");
        }
        assert!(challenges.iter().all(|logged| logged.bytes == 1_200));
        let answers = pair.from(Side::A);
        assert!(answers.iter().any(|l| has(l, |f| matches!(f, Frame::PathResponse { .. }))));
        // Nothing but the challenge goes where the client was once a packet has come from where it is.
        let first = sent.iter().position(|logged| to(logged) == new).expect("it has followed");
        let behind: Vec<_> = sent[first..].iter().filter(|logged| to(logged) == old).collect();
        assert!(behind.iter().all(|l| has(l, |f| matches!(f, Frame::PathChallenge { .. }))), "{behind:?}");
    }
}

/// Section 9.4: congestion control and round trips begin anew at another address, and go on where the port
/// alone has changed.
#[test]
fn control_goes_on_where_the_port_alone_changes() {
    for address in [false, true] {
        let mut pair = Pair::open(&Config::default());
        pair.write(Side::B, 200_000);
        pair.run_for(ms(600));
        let before = pair.ends[1].paths[0].congestion.window();
        assert!(before > 2 * 12_000, "it has grown: {before}");
        rebind(&mut pair, address);
        pair.command(Side::A, crate::quic::testing::send(crate::flow::Payload { offset: 0, length: 100 }));
        pair.run_for(ms(25));
        let path = &pair.ends[1].paths[0];
        assert_eq!(path.congestion.window(), if address { 12_000 } else { before });
        assert_eq!(path.rtt.srtt().is_none(), address);
        pair.run_for(ms(1_000));
        assert!(pair.ends[1].paths[0].rtt.srtt().is_some());
    }
}

/// Sections 8.1 and 9.3.1: until the new address has answered, three times what came from it goes there.
#[test]
fn an_address_that_is_not_validated_gets_three_times_what_came() {
    for address in [false, true] {
        let mut pair = Pair::open(&Config::default());
        pair.write(Side::A, 1_000_000);
        pair.write(Side::B, 3_000_000);
        pair.run_for(ms(100));
        pair.log.clear();
        rebind(&mut pair, address);
        // What the server sends to the new address is lost, so that it is never validated.
        pair.drop_if = Box::new(move |_, from, datagram| {
            let is_new = datagram.destination_port == 49_153 || datagram.client_host == 1;
            from == Side::B && is_new
        });
        pair.run_for(ms(300));
        let now = pair.ends[1].paths[0].route.address;
        assert!(now.port == 49_153 || now.host == 1, "{now:?}");
        let came: u32 = pair
            .from(Side::A)
            .iter()
            .filter(|l| l.datagram.source_port == 49_153 || l.datagram.client_host == 1)
            .map(|logged| logged.bytes)
            .sum();
        let went: u32 = pair.from(Side::B).iter().filter(|l| to(l) == now).map(|logged| logged.bytes).sum();
        assert!(went > 0 && went <= 3 * came, "{went} after {came}");
    }
}

/// A client that only receives has to speak before its server finds it again: by its `keep_alive`.
#[test]
fn a_silent_client_is_found_by_its_pings() {
    for keep_alive in [None, Some(Duration::from_millis(500))] {
        let mut pair = Pair::open(&Config { keep_alive, ..Config::default() });
        pair.run_for(ms(200));
        rebind(&mut pair, false);
        pair.write(Side::B, 10_000);
        pair.run_for(ms(5_000));
        let is_found = keep_alive.is_some();
        assert_eq!(pair.received_bytes(Side::A), if is_found { 10_000 } else { 0 });
        assert_eq!(pair.ends[1].stats().rebindings, u64::from(is_found));
    }
}

/// Section 9.3: a packet that is late moves nobody back.
#[test]
fn a_late_packet_from_the_old_port_moves_nobody() {
    let mut pair = Pair::open(&Config::default());
    pair.write(Side::A, 1_000);
    let late = pair.from(Side::A).last().map(|logged| logged.datagram.clone()).expect("data leaves");
    pair.drop_if = Box::new(|now, from, _| from == Side::A && now <= crate::time::Time::from_millis(200));
    rebind(&mut pair, false);
    pair.write(Side::A, 1_000);
    pair.run_for(ms(1_000));
    let moved = pair.ends[1].paths[0].route.address;
    let bytes = late.payload_bytes();
    let body = crate::wire::Body::Quic(Box::new(late));
    let packet = crate::wire::Packet { path: PATH, ecn: crate::flow::Ecn::NotEct, size: 28 + bytes, body };
    pair.input(Side::B, crate::endpoint::Input::Packet(Box::new(packet)));
    pair.run_for(ms(1_000));
    assert_eq!(pair.ends[1].paths[0].route.address, moved);
    assert_eq!((moved.port, pair.ends[1].stats().rebindings), (49_153, 1));
}

/// Section 9: nobody moves before the handshake is confirmed.
#[test]
fn packets_from_another_port_wait_for_the_handshake() {
    let mut pair = Pair::new(&Config::default());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(10));
    rebind(&mut pair, false);
    pair.run_for(ms(3_000));
    assert_eq!(pair.ends[1].stats().rebindings, 0);
    assert_eq!(pair.ends[1].paths[0].route.address.port, 49_152);
}
