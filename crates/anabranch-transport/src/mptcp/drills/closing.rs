//! RFC 8684 sections 3.3.3 and 3.5: how connections end.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, HalfClose as _};
use crate::mptcp::Rejoin;
use crate::mptcp::testing::Logged;
use crate::time::{Duration, Time};

/// Section 3.3.3: `DATA_FIN` has a position of its own and is acknowledged; subflows are closed after that.
#[test]
fn a_connection_closes_with_data_fin() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.write_and_close(Side::A, 100);
    pair.run_to_the_end(5);
    let find = |from, what: &dyn Fn(&Logged) -> bool| {
        pair.log.iter().find(|logged| logged.from == from && what(logged)).expect("it was sent").at
    };
    let fin = find(Side::A, &|logged| logged.options.data_fin == Some(101));
    let acknowledged = find(Side::B, &|logged| logged.options.data_ack == Some(102));
    let peers = find(Side::B, &|logged| logged.options.data_fin == Some(0));
    assert!(fin < acknowledged && acknowledged <= peers);
    for path in [0, 1] {
        let closed = find(Side::A, &|logged| logged.path == path && logged.kind == "fin");
        assert_eq!(closed, peers + ms(20), "path {path}");
    }
    let carrier = pair.log.iter().find(|logged| logged.options.data_fin == Some(101)).expect("sent");
    assert_eq!(carrier.size, 20 + carrier.tcp.wire_size() + 20, "on its own it has a mapping");
}

/// A peer that opens another connection has finished with one in which everything has been said.
#[test]
fn a_connection_that_lacks_the_last_acknowledgement_ends_well() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.drop_if = Box::new(|logged| logged.from == Side::A && logged.options.data_ack == Some(1));
    pair.command(Side::A, Command::Shutdown);
    pair.run_until(Time::from_secs(3), |pair| pair.closed(Side::A).is_some());
    assert_eq!(pair.closed(Side::B), None);
    pair.drop_if = Box::new(|_| false);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(100));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
}

#[test]
fn a_data_fin_that_is_lost_is_sent_again() {
    let mut pair = Pair::open(&rfc(), wires(2));
    let mut left = 3;
    pair.drop_if = Box::new(move |logged| {
        let drops = logged.kind == "data_fin" && left > 0;
        left -= i32::from(drops);
        drops
    });
    pair.command(Side::A, Command::Shutdown);
    pair.run_to_the_end(60);
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
}

/// Section 3.3.3: when the acknowledgement of a `DATA_FIN` is lost and the peer then resets the only path
/// that works, the `DATA_FIN` is not sent for ever on a subflow that has nothing else to send.
#[test]
fn a_data_fin_that_nobody_hears_is_given_up() {
    let close_timeout = Some(Duration::from_secs(5));
    let rejoin = Some(Rejoin::Never);
    let config = Config { backup: vec![1], stale_after: Some(1), close_timeout, rejoin, ..rfc() };
    let mut pair = Pair::open(&config, wires(2));
    // As far as A knows, path 0 has failed. Then path 1 dies.
    pair.wires[0].is_dead = true;
    pair.write(Side::A, 1_000);
    pair.run_until(Time::from_secs(10), |pair| pair.received_bytes(Side::B) == 1_001);
    pair.run_for(ms(100));
    pair.wires[0].is_dead = false;
    pair.wires[1].is_dead = true;
    pair.drop_if =
        Box::new(|sent| sent.from == Side::A && sent.path == 0 && ["ack", "data"].contains(&sent.kind));
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    assert_eq!(pair.closed(Side::B), None);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
    let sent = pair.log.len();
    pair.run_for(Duration::from_secs(1_000));
    assert!(pair.log[sent..].iter().all(|logged| logged.from == Side::A), "B has no more to say");
}

/// Section 3.5: an end that gives up sends `MP_FASTCLOSE`.
#[test]
fn an_abort_ends_all_subflows() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.drop_if = Box::new(|logged| logged.path == 0);
    pair.command(Side::A, Command::Abort);
    pair.run_for(ms(100));
    assert_eq!(pair.kinds(Side::A, 0), ["mp_fastclose"]);
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Aborted));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Aborted), "one of them is enough");
}

/// RFC 8684 section 3.3.3: `DATA_FIN` ends one direction.
#[test]
fn an_end_may_go_on_sending_after_the_peers_data_fin() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.end_mut(Side::B).set_half_close(true);
    pair.write(Side::A, 10_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.heard(Side::B, &Event::PeerFinished));
    // All data sent so far has arrived, but neither end has finished.
    pair.run_for(Duration::from_secs(600));
    assert_eq!((pair.closed(Side::A), pair.closed(Side::B)), (None, None));
    pair.write(Side::B, 300_000);
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.received_bytes(Side::A), 300_000);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(3));
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side), Some(CloseReason::Shutdown));
        assert!(pair.heard(side, &Event::PeerFinished));
    }
}

/// An acknowledgement of the last connection may come late, over another path, while the peer opens the next
/// one: it says nothing about that.
#[test]
fn a_late_acknowledgement_is_no_third_segment_of_the_next_connection() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.write_and_close(Side::A, 100);
    pair.run_to_the_end(5);
    pair.run_for(Duration::from_secs(1));
    let is_bare = |it: &&Logged| it.from == Side::A && it.path == 1 && it.kind == "ack";
    let mut late = pair.log.iter().rev().find(is_bare).expect("it acknowledges the FIN").tcp.clone();
    late.flags = Flags::ACK;
    pair.start_over();
    pair.command(Side::A, Command::Connect);
    let end = pair.now + ms(30);
    pair.run_until(end, |_| false);
    inject(&mut pair, Side::B, 1, late);
    assert!(!pair.end(Side::B).has_fallen_back());
    pair.write(Side::A, 1_000);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.heard(Side::B, &Event::Connected));
    assert_eq!(pair.received_bytes(Side::B), 1_000);
}
