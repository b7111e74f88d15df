//! RFC 8684 sections 3.3.1 to 3.3.5: data over several subflows, their acknowledgement and the window.

use super::*;
use crate::endpoint::{CloseReason, Command};
use crate::mptcp::Rejoin;
use crate::tcp;
use crate::time::{Duration, Time};
use crate::units::Bytes;

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

/// Section 3.3.2: data is kept until it is acknowledged on the connection level. Where only that
/// acknowledgement is lost, this end asks for it.
#[test]
fn a_lost_data_acknowledgement_is_asked_for() {
    // With reinjection the data itself would be sent again.
    let mut pair = Pair::open(&Config { reinjection: Some(false), ..rfc() }, wires(1));
    // An acknowledgement with the option has come, so one without it does not mean that the path has none.
    pair.write(Side::B, 1);
    pair.run_for(Duration::from_secs(1));
    pair.log.clear();
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
    assert_eq!(pair.end(Side::B).stats().bytes_acknowledged, 1);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.end(Side::B).stats().bytes_acknowledged, 101);
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
