//! RFC 8684 sections 3.1 and 3.3.8: paths that carry data only when no other one does.

use super::*;
use crate::endpoint::Command;
use crate::time::{Duration, Time};
use crate::units::Bytes;

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
