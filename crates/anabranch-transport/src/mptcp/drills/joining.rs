//! RFC 8684 section 3.2: a further subflow.

use super::*;
use crate::endpoint::Command;
use crate::mptcp::Rejoin;
use crate::mptcp::testing::Logged;
use crate::time::Duration;
use crate::wire::mptcp::Reset;

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

/// Loses a segment of the handshake, and two of its kind in all: the third segment is sent three times.
fn joins_at_the_third_attempt(is_lost: fn(&Logged) -> bool) {
    let mut pair = Pair::new(&rfc(), vec![mbps(10, 20); 2]);
    let mut count = 0;
    pair.drop_if = Box::new(move |logged| {
        count += usize::from(is_lost(logged));
        is_lost(logged) && count <= 2
    });
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 5_000_000);
    pair.run_for(Duration::from_secs(5));
    let kinds = pair.kinds(Side::A, 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == "mp_join_ack").count(), 3);
    assert!(pair.bytes_on(Side::A, 1) > 100_000);
}

/// Section 3.2: the third segment is sent again until it is answered.
#[test]
fn a_lost_third_segment_of_a_join_is_sent_again() {
    joins_at_the_third_attempt(|logged| logged.kind == "mp_join_ack");
}

/// Section 3.2: the answer to it is also given again.
#[test]
fn a_lost_fourth_segment_of_a_join_is_asked_for_again() {
    joins_at_the_third_attempt(|logged| logged.from == Side::B && logged.path == 1 && logged.kind == "ack");
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
    assert_eq!(reset.options.reset, Some(Reset::MPTCP_ERROR));
}
