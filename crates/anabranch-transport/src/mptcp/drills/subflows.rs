//! Subflows that fail, end, return and are joined again.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, Multipath as _};
use crate::mptcp::Rejoin;
use crate::path::PathState;
use crate::tcp;
use crate::time::Duration;

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
