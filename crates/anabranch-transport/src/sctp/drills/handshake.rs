//! RFC 9260 section 5: how associations begin.

use super::*;
use crate::endpoint::{CloseReason, Command, Event};
use crate::sctp::testing::drop_first;
use crate::time::Time;

#[test]
fn takes_two_round_trips() {
    let mut pair = Pair::new(&rfc9260(), 1);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    let at = |side: Side| pair.events[side.index()][0];
    assert_eq!(at(Side::B), (Time::from_millis(60), Event::Connected));
    assert_eq!(at(Side::A), (Time::from_millis(80), Event::Connected));
}

#[test]
fn survives_the_loss_of_any_of_its_packets() {
    for kind in ["init", "init_ack", "cookie_echo", "cookie_ack"] {
        let mut pair = Pair::new(&rfc9260(), 1);
        pair.drop_if = drop_first(kind, 2);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(10_000));
        for side in [Side::A, Side::B] {
            let connected = pair.events[side.index()].iter().filter(|(_, e)| *e == Event::Connected);
            assert_eq!(connected.count(), 1, "{kind} lost, {side:?}");
        }
    }
}

#[test]
fn gives_up_after_max_init_retransmits() {
    for kind in ["init", "cookie_echo"] {
        let mut pair = Pair::new(&Config { max_init_retransmits: Some(3), ..rfc9260() }, 1);
        pair.drop_if = drop_first(kind, usize::MAX);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(60_000));
        assert_eq!(pair.sent(Side::A, kind).len(), 4);
        let (at, reason) = pair.closed_at(Side::A).expect("it ends");
        assert_eq!(reason, CloseReason::Lost);
        // 1 + 2 + 4 + 8 s after the first chunk of its kind.
        let first = pair.sent(Side::A, kind)[0].at;
        assert_eq!(at - first, Duration::from_secs(15));
    }
}

#[test]
fn two_ends_may_open_at_once() {
    let mut pair = Pair::new(&rfc9260(), 1);
    pair.command(Side::A, Command::Connect);
    pair.command(Side::B, Command::Connect);
    pair.run_for(ms(5_000));
    let payload = pair.send(Side::B, 100, Reliability::Reliable, false);
    pair.run_for(ms(500));
    assert_eq!(pair.received(Side::A), [payload]);
    let aborts = pair.sent(Side::A, "abort").len() + pair.sent(Side::B, "abort").len();
    assert_eq!(aborts, 0);
}

#[test]
fn a_stale_cookie_is_replaced_by_a_longer_lived_one() {
    let mut pair = Pair::new(&Config { valid_cookie_life: Some(ms(30)), ..rfc9260() }, 1);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(1_000));
    assert_eq!(pair.sent(Side::B, "error").len(), 1);
    assert_eq!(pair.sent(Side::A, "init").len(), 2);
    assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
}

#[test]
fn messages_wait_for_the_association() {
    let mut pair = Pair::new(&rfc9260(), 1);
    let payload = pair.send(Side::A, 100, Reliability::Reliable, false);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(1_000));
    assert_eq!(pair.received(Side::B), [payload]);
}

#[test]
fn a_second_path_carries_nothing_before_it_is_confirmed() {
    // Section 5.4.
    let mut pair = Pair::new(&rfc9260(), 2);
    pair.set_up(1, false);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(500));
    pair.set_up(0, false);
    pair.send_reliable(10, 100);
    pair.run_for(ms(30_000));
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 0));
    assert!(pair.sent(Side::A, "heartbeat").iter().any(|packet| packet.path == 1));
}
