//! RFC 9260 section 9: how associations end.

use super::*;
use crate::endpoint::{CloseReason, Command, Event};
use crate::sctp::testing::{drop_first, holds};

#[test]
fn shutdown_after_everything_is_delivered() {
    // Section 9.2.
    let mut pair = Pair::open(&rfc9260(), 1);
    let sent = pair.send_reliable(100, 1_000);
    let back = pair.send(Side::B, 500, Reliability::Reliable, false);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(10_000));
    assert!(pair.received(Side::B) == sent);
    assert_eq!(pair.received(Side::A), [back]);
    for side in [Side::A, Side::B] {
        assert_eq!(closed(&pair, side), Some(CloseReason::Shutdown));
    }
}

#[test]
fn shutdown_survives_loss_and_may_start_at_both_ends() {
    for kind in ["shutdown", "shutdown_ack", "shutdown_complete"] {
        for both in [false, true] {
            let mut pair = Pair::open(&rfc9260(), 2);
            pair.drop_if = drop_first(kind, 1);
            pair.command(Side::A, Command::Shutdown);
            if both {
                pair.command(Side::B, Command::Shutdown);
            }
            pair.run_for(ms(10_000));
            for side in [Side::A, Side::B] {
                assert_eq!(
                    closed(&pair, side),
                    Some(CloseReason::Shutdown),
                    "{kind} lost, both {both}, {side:?}"
                );
            }
        }
    }
}

#[test]
fn shutdown_gives_up_when_the_peer_is_gone() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.set_up(0, false);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(1_000));
    assert_eq!(closed(&pair, Side::A), Some(CloseReason::Lost));
}

#[test]
fn abort_ends_both_at_once() {
    // Section 9.1.
    let mut pair = Pair::open(&rfc9260(), 1);
    let start = pair.now;
    pair.command(Side::B, Command::Abort);
    pair.run_for(ms(1_000));
    assert_eq!(pair.closed_at(Side::B), Some((start, CloseReason::Aborted)));
    assert_eq!(pair.closed_at(Side::A), Some((start + ms(20), CloseReason::Aborted)));
    let refused = pair.send(Side::A, 100, Reliability::Reliable, false);
    assert!(pair.heard(Side::A, &Event::Refused(refused)));
}

#[test]
fn a_lost_abort_is_repeated_for_data_that_comes_after() {
    // Section 8.4: out of the blue.
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_first("abort", 1);
    pair.command(Side::B, Command::Abort);
    pair.send_reliable(1, 100);
    pair.run_for(ms(1_000));
    assert_eq!(closed(&pair, Side::A), Some(CloseReason::Aborted));
}

#[test]
fn a_wrong_verification_tag_is_ignored() {
    // Section 8.5.
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = Box::new(|_, _, packet| holds(packet, "data"));
    pair.send_reliable(1, 100);
    let mut stray = Pair::seeded(&rfc9260(), 1, 2);
    stray.connect();
    stray.command(Side::B, Command::Abort);
    let packet = stray.take_packet().expect("the ABORT is on its way");
    pair.input(Side::A, crate::endpoint::Input::Packet(Box::new(packet)));
    assert_eq!(pair.closed_at(Side::A), None);
}
