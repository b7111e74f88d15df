//! Drills: one short exchange per rule of RFC 8684, with what must be on the wire.

use std::cell::RefCell;

use super::testing::{Logged, Pair, Wire, config, ms, plain};
use super::{Config, Connection, Profile, Rejoin};
use crate::endpoint::{
    CloseReason, Command, Endpoint as _, Event, Input, Message, Output, Reliability, Site, Transport as _,
};
use crate::ground::{Ecn, IpVersion, PathId, Payload, Side};
use crate::path::PathState;
use crate::rng::Streams;
use crate::tcp;
use crate::time::{Duration, Time};
use crate::units::Bytes;
use crate::wire::mptcp::{Handshake, Options, Signal};
use crate::wire::tcp::Flags;
use crate::wire::{self, Body, Packet};

fn rfc() -> Config {
    config(Profile::Rfc8684)
}

fn wires(count: usize) -> Vec<Wire> {
    vec![Wire::default(); count]
}

fn mbps(rate: u64, millis: u64) -> Wire {
    Wire { delay: ms(millis), rate: Some(rate * 1_000_000), ..Wire::default() }
}

#[test]
fn a_transfer_uses_both_paths() {
    for profile in [Profile::Rfc8684, Profile::Linux6, Profile::KheirkhahV1] {
        let mut pair = Pair::new(&config(profile), vec![mbps(10, 20); 2]);
        pair.command(Side::A, Command::Connect);
        pair.write_and_close(Side::A, 2_000_000);
        pair.run_to_the_end(60);
        assert_eq!(pair.received_bytes(Side::B), 2_000_000, "{profile:?}");
        assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown), "{profile:?}");
        assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{profile:?}");
        for path in [0, 1] {
            assert!(pair.bytes_on(Side::A, path) > 700_000, "{profile:?}: {}", pair.bytes_on(Side::A, path));
        }
    }
}

#[test]
fn two_equal_paths_give_twice_one() {
    let time = |wires: Vec<Wire>| {
        let config =
            Config { receive_buffer: Some(Bytes(4 << 20)), send_buffer: Some(Bytes(4 << 20)), ..rfc() };
        let mut pair = Pair::new(&config, wires);
        pair.command(Side::A, Command::Connect);
        pair.write_and_close(Side::A, 10_000_000);
        pair.run_to_the_end(120);
        assert_eq!(pair.received_bytes(Side::B), 10_000_000);
        pair.now.as_secs_f64()
    };
    let (one, two) = (time(vec![mbps(10, 20)]), time(vec![mbps(10, 20); 2]));
    // 10 MB in segments of 1428 B of data in 1500 B packets, at 10 Mbit/s.
    let bound = 10e6 * 1_500.0 / 1_428.0 * 8.0 / 10e6;
    assert!((bound..bound + 0.5).contains(&one), "{one} s over one, at least {bound} s");
    assert!((bound / 2.0..bound / 2.0 + 0.5).contains(&two), "{two} s over two, at least {} s", bound / 2.0);
}

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
    let at = |what: &dyn Fn(&super::testing::Logged) -> bool| {
        pair.log.iter().find(|logged| what(logged)).expect("it was sent").at
    };
    let told = at(&|logged| logged.from == Side::B && logged.options.data_ack.is_some());
    assert_eq!(at(&|logged| logged.kind == "mp_join_syn"), told + ms(20));
}

/// Section 3.3.2: data is kept until it is acknowledged on the connection level. Where only that
/// acknowledgement is lost, this end asks for it.
#[test]
fn a_lost_data_acknowledgement_is_asked_for() {
    // With reinjection the data itself would be sent again.
    let mut pair = Pair::open(&Config { reinjection: Some(false), ..rfc() }, wires(1));
    let mut left = 1;
    pair.drop_if = Box::new(move |logged| {
        let drops = logged.from == Side::A && left > 0;
        left -= i32::from(drops);
        drops
    });
    pair.write(Side::B, 100);
    let end = pair.now + Duration::from_secs(1);
    pair.run_until(end, |pair| pair.log.iter().any(|logged| logged.from == Side::A));
    // An acknowledgement as the other end of the subflow would send it.
    let acknowledgement = pair.log.iter().find(|logged| logged.from == Side::A).expect("one").tcp.clone();
    inject(&mut pair, Side::B, 0, acknowledgement);
    assert_eq!(pair.end(Side::B).stats().bytes_acknowledged, 0);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.end(Side::B).stats().bytes_acknowledged, 100);
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

/// Section 3.2: there is a token on SYN, a truncated HMAC on SYN-ACK, an HMAC on the third segment, and no
/// data before the fourth.
#[test]
fn a_join_has_four_segments() {
    let mut pair = Pair::new(&rfc(), wires(2));
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1_000_000);
    pair.run_for(ms(600));
    let on: Vec<_> = pair.log.iter().filter(|logged| logged.path == 1).take(5).collect();
    let seen: Vec<_> = on
        .iter()
        .map(|logged| (logged.from, logged.kind, logged.size - 20 - logged.tcp.wire_size()))
        .collect();
    assert_eq!(
        seen,
        [
            (Side::A, "mp_join_syn", 12),
            (Side::B, "mp_join_syn_ack", 16),
            (Side::A, "mp_join_ack", 24),
            (Side::B, "ack", 8),
            (Side::A, "data", 20),
        ]
    );
    let at = |index: usize| on[index].at;
    assert_eq!(at(4), at(3) + ms(20), "the fourth segment lets data go");
    let first_dss =
        pair.log.iter().find(|logged| logged.from == Side::B && logged.kind == "ack").expect("one");
    assert_eq!(at(0), first_dss.at + ms(20), "not before the peer has our key");
}

/// Section 3.2: the third segment is sent again until it is answered.
#[test]
fn a_lost_third_segment_of_a_join_is_sent_again() {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    let mut count = 0;
    pair.drop_if = Box::new(move |logged| {
        count += usize::from(logged.kind == "mp_join_ack");
        logged.kind == "mp_join_ack" && count <= 2
    });
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 5_000_000);
    pair.run_for(Duration::from_secs(5));
    let kinds = pair.kinds(Side::A, 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == "mp_join_ack").count(), 3);
    assert!(pair.bytes_on(Side::A, 1) > 100_000);
}

/// Section 3.2: the answer to it is also given again.
#[test]
fn a_lost_fourth_segment_of_a_join_is_asked_for_again() {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    let mut count = 0;
    pair.drop_if = Box::new(move |logged| {
        let is_fourth = logged.from == Side::B && logged.path == 1 && logged.kind == "ack";
        count += usize::from(is_fourth);
        is_fourth && count <= 2
    });
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 5_000_000);
    pair.run_for(Duration::from_secs(5));
    let kinds = pair.kinds(Side::A, 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == "mp_join_ack").count(), 3);
    assert!(pair.bytes_on(Side::A, 1) > 100_000);
}

/// Section 3.2: an unknown token is answered by a reset.
#[test]
fn a_join_to_an_unknown_connection_is_reset() {
    let never = Config { rejoin: Some(Rejoin::Never), ..rfc() };
    let mut pair = Pair::new(&never, wires(2));
    pair.drop_if = Box::new(|logged| logged.path == 1);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1);
    pair.run_for(ms(500));
    // The peer loses its state without a notice.
    pair.drop_if = Box::new(|logged| logged.path == 0);
    pair.command(Side::B, Command::Abort);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.kinds(Side::A, 1).contains(&"mp_join_syn"));
    let is_reset = |it: &&Logged| it.from == Side::B && it.path == 1 && it.kind == "rst";
    let reset = pair.log.iter().find(is_reset).expect("it is answered");
    assert_eq!(reset.options.reset, Some(wire::mptcp::Reset::MPTCP_ERROR));
}

/// Section 3.7: without the option in the answer, the connection is one of TCP, and so it is for an end that
/// is asked without the option.
#[test]
fn a_peer_that_knows_tcp_only_gets_tcp() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, ..tcp::Config::default() };
    for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
        let mut pair = Pair::new(&rfc(), wires(1));
        pair.ends[side.index()] = plain(&tcp, side);
        for round in 0..2 {
            pair.start_over();
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(300));
            pair.write(Side::B, 30_000);
            pair.run_for(ms(300));
            pair.write_and_close(Side::A, 300_000);
            pair.run_to_the_end(30);
            assert_eq!(pair.received_bytes(Side::B), 300_000, "{side:?} {round}");
            assert_eq!(pair.received_bytes(Side::A), 30_000, "{side:?} {round}");
            assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown), "{side:?} {round}");
            assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{side:?} {round}");
        }
        assert_eq!(pair.end(other).stats().fallbacks, 2);
        let has_mss = pair.log.iter().any(|logged| logged.payload.length == 1_448);
        assert!(has_mss, "no room is kept for options");
    }
}

#[test]
fn an_end_that_falls_back_goes_on_not_reading() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, ..tcp::Config::default() };
    let mut pair = Pair::new(&rfc(), wires(1));
    pair.ends[0] = plain(&tcp, Side::A);
    pair.command(Side::B, Command::PauseReading);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 10_000);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(Side::B), 0);
    pair.command(Side::B, Command::ResumeReading);
    assert_eq!(pair.received_bytes(Side::B), 10_000);
}

/// Section 3.3.3: `DATA_FIN` has a position of its own and is acknowledged; subflows are closed after that.
#[test]
fn a_connection_closes_with_data_fin() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.write_and_close(Side::A, 100);
    pair.run_to_the_end(5);
    let find = |from, what: &dyn Fn(&super::testing::Logged) -> bool| {
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

/// Sections 3.3.1 and 3.3.4: all subflows share one receive window, which is relative to the data
/// acknowledgement.
#[test]
fn the_receive_window_is_shared() {
    let config = Config {
        receive_buffer: Some(Bytes(50_000)),
        opportunistic_retransmission: Some(false),
        rejoin: Some(Rejoin::Never),
        ..rfc()
    };
    let mut pair = Pair::open(&config, wires(2));
    pair.command(Side::B, Command::PauseReading);
    pair.write(Side::A, 200_000);
    pair.run_for(Duration::from_secs(3));
    let sent = pair.end(Side::A).stats().bytes_sent;
    assert!((45_000..=50_001).contains(&sent), "{sent} B on both subflows together");
    assert!(pair.bytes_on(Side::A, 0) > 0 && pair.bytes_on(Side::A, 1) > 0);
    assert!(pair.end(Side::A).stats().window_probes > 0, "a closed window is probed");
    pair.command(Side::B, Command::ResumeReading);
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.received_bytes(Side::B), 200_001);
    assert_eq!(pair.end(Side::B).stats().window_updates, 1);
}

/// Section 3.3.5: probes make up for a lost update of the window.
#[test]
fn a_lost_window_update_does_not_stop_the_transfer() {
    let config = Config { receive_buffer: Some(Bytes(50_000)), ..rfc() };
    let mut pair = Pair::open(&config, wires(2));
    pair.command(Side::B, Command::PauseReading);
    pair.write(Side::A, 200_000);
    pair.run_for(ms(800));
    let until = pair.now + ms(30);
    pair.drop_if = Box::new(move |logged| logged.from == Side::B && logged.at < until);
    pair.command(Side::B, Command::ResumeReading);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 200_001);
}

/// Section 3.3.6: what a failed subflow carries is sent on another one, and reaches the application once.
#[test]
fn a_path_that_dies_costs_nothing_but_time() {
    for profile in [Profile::Rfc8684, Profile::Linux6] {
        for dead in [0, 1] {
            let mut pair = Pair::open(&config(profile), vec![mbps(10, 20); 2]);
            pair.write_and_close(Side::A, 3_000_000);
            pair.run_for(ms(500));
            pair.wires[dead].is_dead = true;
            let died = pair.now;
            pair.run_to_the_end(100);
            assert_eq!(pair.received_bytes(Side::B), 3_000_001, "{profile:?}, path {dead}");
            assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{profile:?}, path {dead}");
            assert!(pair.end(Side::A).stats().bytes_reinjected > 0);
            let took = pair.now - died;
            assert!(took < Duration::from_secs(9), "{profile:?}, path {dead}: {took}");
        }
    }
}

#[test]
fn a_path_that_returns_is_used_again() {
    let mut pair = Pair::open(&rfc(), vec![mbps(10, 20); 2]);
    pair.write(Side::A, 20_000_000);
    pair.run_for(ms(500));
    pair.wires[1].is_dead = true;
    pair.run_for(Duration::from_secs(3));
    assert!(
        pair.heard(Side::A, &Event::PathChanged { path: Pair::path(1), state: PathState::PotentiallyFailed })
    );
    pair.wires[1].is_dead = false;
    pair.log.clear();
    pair.run_for(Duration::from_secs(6));
    assert!(pair.bytes_on(Side::A, 1) > 100_000, "{} B", pair.bytes_on(Side::A, 1));
    assert_eq!(pair.end(Side::A).stats().subflows_lost, 0, "it is the same subflow");
}

/// A subflow whose TCP connection ends is joined again, and the connection lives on.
#[test]
fn a_subflow_that_ends_is_joined_again() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, retries: Some(1), ..tcp::Config::default() };
    let mut pair = Pair::open(&Config { tcp: Some(tcp), ..rfc() }, vec![mbps(10, 20); 2]);
    pair.write(Side::A, 30_000_000);
    pair.run_for(ms(500));
    pair.wires[0].is_dead = true;
    pair.run_for(Duration::from_secs(8));
    assert_eq!(pair.end(Side::A).stats().subflows_lost, 1, "the first one, too, may end");
    pair.wires[0].is_dead = false;
    pair.log.clear();
    pair.run_for(Duration::from_secs(8));
    assert_eq!(pair.end(Side::A).stats().subflows, 3);
    assert!(pair.bytes_on(Side::A, 0) > 1_000_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 30_000_001);
}

/// A connection without any subflow is given up after some time.
#[test]
fn a_connection_without_subflows_is_given_up() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, retries: Some(1), ..tcp::Config::default() };
    let close_timeout = Some(Duration::from_secs(5));
    let mut pair = Pair::open(&Config { tcp: Some(tcp), close_timeout, ..rfc() }, wires(2));
    pair.wires.iter_mut().for_each(|wire| wire.is_dead = true);
    pair.write(Side::A, 100_000);
    pair.run_for(Duration::from_secs(30));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Lost));
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

/// Section 3.3.8: a backup is not used while another subflow is, and takes over when that fails.
#[test]
fn a_backup_waits() {
    let mut pair = Pair::open(&Config { backup: vec![1], ..rfc() }, vec![mbps(10, 20); 2]);
    pair.write(Side::A, 5_000_000);
    pair.write(Side::B, 100_000);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_on(Side::A, 1), 0);
    assert_eq!(pair.bytes_on(Side::B, 1), 0, "MP_JOIN has told the peer");
    pair.wires[0].is_dead = true;
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.received_bytes(Side::B), 5_000_001);
}

/// Section 3.3.8: `MP_PRIO` changes this later, for both directions.
#[test]
fn a_priority_may_change() {
    let config = Config { receive_buffer: Some(Bytes(4 << 20)), ..rfc() };
    let mut pair = Pair::open(&config, vec![mbps(10, 20); 2]);
    pair.command(Side::A, Command::SetPrimary(Pair::path(1)));
    pair.command(Side::A, Command::SetPeerPrimary(Pair::path(1)));
    assert_eq!(pair.kinds(Side::A, 0), ["mp_prio"]);
    pair.run_for(ms(100));
    pair.write(Side::A, 1_000_000);
    pair.write(Side::B, 1_000_000);
    pair.run_for(Duration::from_secs(3));
    for side in [Side::A, Side::B] {
        assert_eq!(pair.bytes_on(side, 0), 0, "{side:?}");
        assert!(pair.bytes_on(side, 1) >= 1_000_000, "{side:?}");
    }
}

/// Section 3.3.8: `MP_CAPABLE` cannot say that the first subflow is a backup, so `MP_PRIO` says it.
#[test]
fn the_first_path_may_be_a_backup() {
    let (config, paths) = (Config { backup: vec![0], ..rfc() }, vec![mbps(10, 20); 2]);
    let mut pair = Pair::seeded([&config, &rfc()], paths, 1);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1);
    pair.run_for(Duration::from_secs(1));
    pair.log.clear();
    pair.write(Side::A, 200_000);
    pair.write(Side::B, 200_000);
    pair.run_for(Duration::from_secs(1));
    assert_eq!((pair.bytes_on(Side::A, 0), pair.bytes_on(Side::B, 0)), (0, 0));
    assert_eq!(pair.received_bytes(Side::A), 200_000);
}

/// What changes while a subflow is being joined is signalled once it has joined.
#[test]
fn a_priority_may_change_during_a_join() {
    let mut pair = Pair::new(&Config { backup: vec![1], ..rfc() }, vec![mbps(10, 20); 2]);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1);
    pair.run_until(Time::from_secs(1), |pair| pair.kinds(Side::A, 1).contains(&"mp_join_syn"));
    pair.command(Side::A, Command::SetPeerPrimary(Pair::path(1)));
    pair.run_for(Duration::from_secs(1));
    let asked: Vec<_> = pair.end(Side::B).subflows.iter().map(|subflow| subflow.is_asked_backup).collect();
    assert_eq!(asked, [true, false]);
}

/// An end without any address is told so.
#[test]
fn without_an_address_there_is_no_connection() {
    let mut pair = Pair::new(&rfc(), wires(1));
    pair.command(Side::A, Command::DeleteAddress(Pair::path(0)));
    pair.command(Side::A, Command::Connect);
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Lost));
}

/// Section 3.4: an address comes, is announced until the peer echoes it, and is joined. When it goes, the
/// peer ends its subflow.
#[test]
fn addresses_come_and_go() {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    pair.end_mut(Side::A).enable_reconfiguration(&[Pair::path(1)]).expect("one is there");
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 40_000_000);
    pair.run_for(Duration::from_secs(2));
    assert!(pair.kinds(Side::A, 1).is_empty());
    let mut is_first = true;
    pair.drop_if = Box::new(move |logged| logged.kind == "add_addr" && std::mem::take(&mut is_first));
    pair.command(Side::A, Command::AddAddress(Pair::path(1)));
    pair.run_for(Duration::from_secs(3));
    let count = |pair: &Pair, side, kind| {
        pair.log.iter().filter(|logged| logged.from == side && logged.kind == kind).count()
    };
    assert_eq!((count(&pair, Side::A, "add_addr"), count(&pair, Side::B, "add_addr_echo")), (2, 1));
    assert!(pair.heard(Side::B, &Event::AddressAdded(Pair::path(1))));
    assert!(pair.bytes_on(Side::A, 1) > 1_000_000);
    pair.log.clear();
    pair.command(Side::A, Command::DeleteAddress(Pair::path(1)));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.kinds(Side::A, 1), [""; 0], "nothing leaves from an address that is gone");
    assert_eq!(count(&pair, Side::A, "remove_addr"), 1);
    let removed = pair.log.iter().find_map(|logged| logged.options.signal);
    assert_eq!(removed, Some(Signal::RemoveAddress { addresses: [1].into_iter().collect() }));
    assert!(pair.heard(Side::B, &Event::AddressDeleted(Pair::path(1))));
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received_bytes(Side::B), 40_000_000);
}

/// Section 3.4.1: an address that comes while there is no subflow is announced once there is one.
#[test]
fn an_announcement_waits_for_a_subflow() {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    pair.end_mut(Side::A).enable_reconfiguration(&[Pair::path(1)]).expect("one is there");
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1_000);
    pair.run_for(Duration::from_secs(1));
    pair.command(Side::A, Command::DeleteAddress(Pair::path(0)));
    let now = pair.now;
    pair.end_mut(Side::A).announce_address(now, 5);
    pair.run_for(Duration::from_secs(1));
    let announced = |pair: &Pair| {
        let signals = pair.log.iter().filter(|logged| logged.kind == "add_addr");
        signals.map(|logged| (logged.path, logged.options.signal)).collect::<Vec<_>>()
    };
    assert_eq!(announced(&pair), [], "there is no subflow");
    pair.command(Side::A, Command::AddAddress(Pair::path(1)));
    pair.run_for(Duration::from_secs(1));
    let signal = Signal::AddAddress { address: 5, is_echo: false, port: None };
    assert_eq!(announced(&pair), [(1, Some(signal))]);
}

/// Break before make: the connection has no subflow for a while.
#[test]
fn a_connection_survives_the_change_of_its_only_address() {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    pair.end_mut(Side::A).enable_reconfiguration(&[Pair::path(1)]).expect("one is there");
    pair.command(Side::A, Command::Connect);
    pair.write_and_close(Side::A, 10_000_000);
    pair.run_for(Duration::from_secs(2));
    pair.command(Side::A, Command::DeleteAddress(Pair::path(0)));
    pair.wires[0].is_dead = true;
    pair.run_for(Duration::from_secs(4));
    pair.log.clear();
    pair.command(Side::A, Command::AddAddress(Pair::path(1)));
    pair.run_to_the_end(60);
    assert_eq!(pair.received_bytes(Side::B), 10_000_000);
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    assert!(pair.kinds(Side::A, 1).contains(&"remove_addr"), "the peer hears of it as soon as it can");
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

/// Gives an end a segment without MPTCP options.
fn inject(pair: &mut Pair, side: Side, path: u8, segment: wire::tcp::Segment) {
    let (body, ecn) = (crate::wire::Body::Tcp(segment), crate::ground::Ecn::NotEct);
    let packet = crate::wire::Packet { path: Pair::path(path), ecn, size: 40, body };
    pair.input(side, crate::endpoint::Input::Packet(Box::new(packet)));
}

/// Resets the subflow on this path at A.
pub(super) fn reset(pair: &mut Pair, path: u8) {
    let last = pair.log.iter().rev().find(|it| it.from == Side::B && it.path == path).expect("one");
    let mut segment = last.tcp.clone();
    segment.flags = wire::tcp::Flags::RST;
    inject(pair, Side::A, path, segment);
}

/// When only a failed subflow carries data and another one has ended, that data goes on the next subflow as a
/// whole, and not one piece with every expiry of a timer.
#[test]
fn data_of_a_subflow_that_ended_does_not_wait_for_one_that_failed() {
    let mut pair = Pair::open(&rfc(), vec![mbps(10, 20); 2]);
    pair.write(Side::A, 2_000_000);
    pair.run_for(ms(300));
    pair.wires[0].is_dead = true;
    let end = pair.now + Duration::from_secs(10);
    pair.run_until(end, |pair| pair.end(Side::A).subflows[0].has_failed);
    pair.run_for(ms(30));
    reset(&mut pair, 1);
    assert_eq!(pair.end(Side::A).stats().subflows_lost, 1);
    pair.run_for(Duration::from_secs(6));
    assert_eq!(pair.received_bytes(Side::B), 2_000_001);
}

/// With rejoin "never", a subflow that has ended does not come back because another one is joined.
#[test]
fn a_subflow_that_is_not_to_be_joined_again_is_not() {
    let mut pair = Pair::new(&Config { rejoin: Some(Rejoin::Never), ..rfc() }, wires(3));
    pair.end_mut(Side::A).enable_reconfiguration(&[Pair::path(2)]).expect("two are there");
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1);
    pair.run_for(Duration::from_secs(1));
    reset(&mut pair, 1);
    assert_eq!(pair.end(Side::A).stats().subflows_lost, 1);
    pair.log.clear();
    pair.command(Side::A, Command::AddAddress(Pair::path(2)));
    pair.run_for(Duration::from_secs(3));
    assert!(pair.kinds(Side::A, 2).contains(&"mp_join_ack"));
    assert_eq!(pair.kinds(Side::A, 1), [""; 0]);
}

#[test]
fn a_reset_of_one_subflow_is_not_the_end() {
    let mut pair = Pair::open(&Config { rejoin: Some(Rejoin::Never), ..rfc() }, vec![mbps(10, 20); 2]);
    pair.write(Side::A, 3_000_000);
    pair.run_for(ms(300));
    reset(&mut pair, 0);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.end(Side::A).stats().subflows_lost, 1);
    assert_eq!(pair.received_bytes(Side::B), 3_000_001);
}

/// Raiciu et al. 2012, section 4.2: where a slow subflow holds up a small receive window, the fast one sends
/// what is missing and the window of the slow one is reduced.
#[test]
fn a_small_window_is_not_held_up_by_the_slow_path() {
    let transfer = |helps: bool| {
        let config = Config {
            receive_buffer: Some(Bytes(60_000)),
            opportunistic_retransmission: Some(helps),
            penalisation: Some(helps),
            ..rfc()
        };
        let mut pair = Pair::open(&config, vec![mbps(10, 10), mbps(1, 200)]);
        pair.write_and_close(Side::A, 5_000_000);
        pair.run_to_the_end(300);
        assert_eq!(pair.received_bytes(Side::B), 5_000_001);
        (pair.now.as_secs_f64(), *pair.end(Side::A).stats())
    };
    let ((with, stats), (without, none)) = (transfer(true), transfer(false));
    assert!(stats.opportunistic_retransmissions > 0 && stats.penalties > 0);
    assert_eq!((none.opportunistic_retransmissions, none.penalties), (0, 0));
    assert!(with < 0.95 * without, "{with} s, without {without} s");
}

/// On the connection level too, small pieces wait while others are on their way (Nagle).
#[test]
fn small_pieces_wait_for_each_other() {
    let tcp =
        |nagle| tcp::Config { profile: tcp::Profile::Rfc, nagle: Some(nagle), ..tcp::Config::default() };
    let sent = |nagle| {
        let mut pair = Pair::open(&Config { tcp: Some(tcp(nagle)), ..rfc() }, wires(2));
        for _ in 0..3 {
            pair.write(Side::A, 100);
        }
        pair.log.iter().filter(|logged| logged.payload.length > 0).count()
    };
    assert_eq!(sent(tcp::config::Nagle::Rfc896), 1);
    assert_eq!(sent(tcp::config::Nagle::Off), 3);
}

/// Segments that were acknowledged on their subflow are not sent again on it, and retransmissions carry their
/// mappings.
#[test]
fn a_retransmission_has_the_mapping_of_its_data() {
    let mut pair = Pair::open(&rfc(), wires(2));
    let mut dropped = 0;
    pair.drop_if = Box::new(move |logged| {
        let drops = logged.payload.length > 0 && dropped < 1;
        dropped += i32::from(drops);
        drops
    });
    pair.write(Side::A, 100_000);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
    let data: Vec<_> = pair.log.iter().filter(|logged| logged.payload.length > 0).collect();
    let again = data[1..].iter().find(|it| it.path == data[0].path && it.payload == data[0].payload);
    assert_eq!(again.expect("it was sent again").options.data_position, data[0].options.data_position);
}

#[test]
fn the_same_again_is_the_same() {
    let log = || {
        let mut pair = Pair::new(&rfc(), vec![Wire { loss: 0.05, jitter: ms(30), ..mbps(5, 10) }; 3]);
        pair.command(Side::A, Command::Connect);
        pair.write_and_close(Side::A, 500_000);
        pair.run_to_the_end(300);
        assert!(pair.now > Time::ZERO && pair.closed(Side::B).is_some());
        format!("{:?}", pair.log)
    };
    assert_eq!(log(), log());
}

/// RFC 8684 section 3.3.3: `DATA_FIN` ends one direction.
#[test]
fn an_end_may_go_on_sending_after_the_peers_data_fin() {
    let mut pair = Pair::open(&rfc(), wires(2));
    assert!(pair.end_mut(Side::B).set_half_close(true));
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

#[test]
fn half_close_falls_back_to_that_of_tcp() {
    let mut pair = Pair::new(&rfc(), wires(2));
    pair.ends[0] = plain(&tcp::Config::default(), Side::A);
    assert!(pair.end_mut(Side::B).set_half_close(true));
    pair.command(Side::A, Command::Connect);
    pair.run_for(Duration::from_secs(1));
    pair.write_and_close(Side::A, 1_000);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.heard(Side::B, &Event::PeerFinished));
    assert_eq!((pair.closed(Side::A), pair.closed(Side::B)), (None, None));
    pair.write(Side::B, 20_000);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.received_bytes(Side::A), 20_000);
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
}

/// Linux answers a mapping of 64 bits with a data acknowledgement of 64 bits, and everything else with one of
/// 32.
#[test]
fn acknowledgements_are_as_long_as_what_they_answer() {
    let mut pair = Pair::new(&config(Profile::Linux6), wires(1));
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 20_000);
    pair.run_for(ms(500));
    pair.write(Side::B, 20_000);
    pair.run_for(ms(500));
    pair.write(Side::A, 20_000);
    pair.run_for(ms(500));
    let sizes = |from, kind| -> Vec<u32> {
        let of = pair.log.iter().filter(|logged| logged.from == from && logged.kind == kind);
        let sizes = of.map(|logged| logged.size - 20 - logged.tcp.wire_size());
        let mut sizes: Vec<u32> = sizes.collect();
        sizes.dedup();
        sizes
    };
    assert_eq!(sizes(Side::A, "data"), [24, 28], "what B has sent is answered at length");
    assert_eq!(sizes(Side::B, "data"), [28]);
    assert_eq!(sizes(Side::B, "ack"), [12]);
    assert!(pair.log.iter().all(|logged| logged.size <= 1_500));
}

/// A peer whose third segment has no option is handled as one that has only TCP (section 3.1).
#[test]
fn a_third_segment_without_the_option_falls_back() {
    let streams = Streams { seed: 1, replication: 0 };
    let site = Site { side: Side::B, mtus: &[1_500], ip: IpVersion::Ipv4, streams, connection: "flow/x" };
    for has_option in [true, false] {
        let mut end = rfc().build(&site).expect("the settings are possible");
        let capable = |sender_key, receiver_key| Options {
            handshake: Some(Handshake::Capable { sender_key, receiver_key }),
            ..Options::default()
        };
        let (sent, numbers) = (RefCell::new(Vec::new()), RefCell::new(None));
        let give = |end: &mut Connection, flags: Flags, of: [u32; 2], options: Options| {
            let tcp = wire::tcp::Segment {
                source_port: 49_152,
                destination_port: 5_001,
                sequence: of[0],
                acknowledgement: of[1],
                flags,
                window: 60_000,
                mss: Some(1_460),
                ..wire::tcp::Segment::blank()
            };
            let body = Body::Mptcp(wire::mptcp::Segment { tcp, options, option_bytes: 0 });
            let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size: 60, body };
            end.handle_input(Time::ZERO, Input::Packet(Box::new(packet)));
            loop {
                match end.poll_output(Time::ZERO) {
                    Output::Transmit(packet) => {
                        let own = packet.body.tcp().map(|tcp| tcp.sequence);
                        numbers.borrow_mut().get_or_insert(own.expect("it is a segment"));
                        sent.borrow_mut().push(packet.body);
                    }
                    Output::Timeout(_) => break,
                    Output::Event(_) => {}
                }
            }
        };
        give(&mut end, Flags::SYN, [7, 0], capable(None, None));
        let first = numbers.borrow().expect("SYN-ACK was sent");
        let options = if has_option { capable(Some(1), None) } else { Options::default() };
        give(&mut end, Flags::ACK, [8, first.wrapping_add(1)], options);
        let payload = Payload { offset: 0, length: 100 };
        let reliability = Reliability::Reliable;
        let message = Message { stream: 0, ppid: 0, unordered: false, reliability, payload };
        end.handle_input(Time::ZERO, Input::Command(Command::Send(message)));
        give(&mut end, Flags::ACK, [8, first.wrapping_add(1)], options);
        let sent = sent.into_inner();
        assert!(matches!(sent[0], Body::Mptcp(_)));
        let last = sent.last().expect("data was sent");
        assert_eq!(matches!(last, Body::Mptcp(_)), has_option);
        assert_eq!(last.tcp().map(|tcp| tcp.payload.length), Some(100));
    }
}
