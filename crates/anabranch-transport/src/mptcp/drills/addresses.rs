//! RFC 8684 section 3.4: addresses that come and go.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, Multipath as _};
use crate::time::Duration;
use crate::wire::mptcp::Signal;

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
