//! Drill tests: one short exchange per rule.

use super::config::Buffer;
use super::testing::{Pair, config, drop_first, ms};
use super::{Config, Profile};
use crate::endpoint::{CloseReason, Command, Event, PathState, Reliability};
use crate::packet::Side;
use crate::time::Time;

#[test]
fn handshake_takes_two_round_trips() {
    let mut pair = Pair::new(&config(Profile::Rfc9260), 1);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    let at = |side: Side| pair.events[side.index()][0];
    assert_eq!(at(Side::B), (Time::from_millis(60), Event::Connected));
    assert_eq!(at(Side::A), (Time::from_millis(80), Event::Connected));
}

#[test]
fn data_flows_on_every_profile() {
    for profile in [Profile::Linux, Profile::Ns2, Profile::Rfc2960, Profile::Rfc4960, Profile::Rfc9260] {
        let mut pair = Pair::open(&config(profile), 2);
        let sent = pair.send_reliable(200, 1_000);
        pair.run_for(ms(10_000));
        assert_eq!(pair.received(Side::B), sent, "{profile:?}");
        assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0, "{profile:?}");
    }
}

#[test]
fn failover_and_return() {
    // The messages of a stall of 32 s have to wait somewhere.
    let unlimited = Config { send_buffer: Some(Buffer::Off), ..config(Profile::Rfc9260) };
    let mut pair = Pair::open(&unlimited, 2);
    pair.set_up(0, false);
    let mut sent = Vec::new();
    for _ in 0..10_000 {
        sent.extend(pair.send_reliable(1, 160));
        pair.run_for(ms(20));
        if pair.now > Time::from_secs(150) {
            pair.set_up(0, true);
        }
    }
    pair.run_for(ms(60_000));
    let down = pair.path_change(Side::A, 0, PathState::Inactive).expect("the path fails");
    let up = pair.path_change(Side::A, 0, PathState::Active).expect("the path returns");
    // Timeouts after 1, 2, 4, 8, 16 and 32 s.
    assert!(down > Time::from_secs(60) && down < Time::from_secs(70), "{down}");
    assert!(up > Time::from_secs(150), "{up}");
    assert!(pair.received(Side::B) == sent, "everything arrives in order");
    assert_eq!(pair.log.iter().rfind(|packet| packet.has("data")).map(|packet| packet.path), Some(0));
}

#[test]
fn lost_handshake_packets_are_sent_again() {
    for kind in ["init", "init_ack", "cookie_echo", "cookie_ack"] {
        let mut pair = Pair::new(&config(Profile::Rfc9260), 1);
        pair.drop_if = drop_first(kind, 2);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(10_000));
        for side in [Side::A, Side::B] {
            assert!(pair.heard(side, &Event::Connected), "{kind} lost, {side:?}");
        }
    }
}

#[test]
fn shutdown_after_everything_is_delivered() {
    let mut pair = Pair::open(&config(Profile::Rfc9260), 1);
    let sent = pair.send_reliable(100, 1_000);
    let back = pair.send(Side::B, 500, Reliability::Reliable, false);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(10_000));
    assert_eq!(pair.received(Side::B), sent);
    assert_eq!(pair.received(Side::A), [back]);
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side).map(|(_, reason)| reason), Some(CloseReason::Shutdown));
    }
}
