//! RFC 8684 section 3.1: the first subflow, and what both ends must know before another one joins.

use super::*;
use crate::endpoint::{Command, Event, Multipath as _};
use crate::mptcp::testing::Logged;
use crate::tcp;
use crate::time::Duration;
use crate::wire::mptcp::Handshake;

/// Section 3.1: version 1 has no key on SYN, the sender's key on SYN-ACK, and both keys on the third segment
/// and the first data.
#[test]
fn the_first_subflow_exchanges_keys() {
    let mut pair = Pair::new(&rfc(), wires(1));
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 5_000);
    pair.run_for(ms(500));
    let sizes = |from, count| -> Vec<_> {
        let of = pair.log.iter().filter(|logged| logged.from == from).take(count);
        of.map(|logged| (logged.kind, logged.size - 20 - logged.tcp.wire_size())).collect()
    };
    assert_eq!(
        sizes(Side::A, 5),
        [("mp_capable_syn", 4), ("mp_capable_ack", 20), ("data", 24), ("data", 20), ("data", 20)]
    );
    assert_eq!(sizes(Side::B, 2), [("mp_capable_syn_ack", 12), ("ack", 8)]);
    let keys: Vec<_> = pair.log.iter().filter_map(|logged| logged.options.handshake).take(4).collect();
    let [
        Handshake::Capable { sender_key: None, receiver_key: None },
        Handshake::Capable { sender_key: Some(of_b), receiver_key: None },
        Handshake::Capable { sender_key: Some(of_a), receiver_key: Some(again) },
        Handshake::Capable { sender_key: Some(first), receiver_key: Some(_) },
    ] = keys[..]
    else {
        panic!("{keys:?}")
    };
    assert!(of_a != of_b && again == of_b && first == of_a);
    let data: Vec<_> = pair.log.iter().filter(|logged| logged.payload.length > 0).collect();
    assert_eq!(data[0].payload.length, 1_424, "four bytes less: the keys take more than a mapping");
    assert_eq!(data[1].payload.length, 1_428);
    assert_eq!(data[1].options.data_position, Some(1_424));
}

/// Section 3.1: the key must arrive, so where the third segment is lost, the first data brings it.
#[test]
fn a_lost_third_segment_is_made_up_for_by_data() {
    let mut pair = Pair::new(&rfc(), wires(2));
    pair.drop_if = Box::new(|logged| logged.kind == "mp_capable_ack");
    pair.command(Side::A, Command::Connect);
    pair.write_and_close(Side::A, 100_000);
    pair.run_to_the_end(20);
    assert_eq!(pair.received_bytes(Side::B), 100_000);
    assert!(pair.bytes_on(Side::A, 1) > 0);
    assert_eq!(pair.events[1][0].1, Event::Connected, "before the data");
}

/// Section 3.1: no further subflow is opened before the peer is known to have our key.
#[test]
fn an_address_that_comes_early_is_joined_when_the_peer_has_the_key() {
    let mut pair = Pair::new(&rfc(), wires(2));
    pair.end_mut(Side::A).enable_reconfiguration(&[Pair::path(1)]).expect("one is there");
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    pair.command(Side::A, Command::AddAddress(Pair::path(1)));
    pair.run_for(Duration::from_secs(1));
    let at =
        |what: &dyn Fn(&Logged) -> bool| pair.log.iter().find(|logged| what(logged)).expect("it was sent").at;
    let told = at(&|logged| logged.from == Side::B && logged.options.data_ack.is_some());
    assert_eq!(at(&|logged| logged.kind == "mp_join_syn"), told + ms(20));
}

/// The peer sends first: its data shows that it knows our key, and is acknowledged at once.
#[test]
fn the_peer_may_talk_first() {
    let tcp = tcp::Config { ack_every: Some(1), ..tcp::Config::default() };
    let mut pair = Pair::new(&Config { tcp: Some(tcp), ..rfc() }, wires(1));
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(100));
    pair.write(Side::B, 1);
    pair.write(Side::B, 1);
    pair.run_for(ms(200));
    assert_eq!(pair.received_bytes(Side::A), 2);
    assert_eq!(pair.kinds(Side::A, 0).iter().filter(|kind| **kind == "mp_capable_ack").count(), 1);
    assert_eq!(pair.end(Side::B).stats().timeouts, 0);
}
