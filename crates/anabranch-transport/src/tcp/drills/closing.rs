//! RFC 9293 sections 3.6 and 3.10.

use super::*;
use crate::endpoint::{CloseReason, Command, Endpoint as _, Event};
use crate::ground::Side;
use crate::tcp::connection::State;
use crate::tcp::testing::{Drill, Pair, ms};
use crate::time::Duration;
use crate::wire::tcp::Flags;

#[test]
fn rfc9293_3_6_fin_follows_everything_that_was_written() {
    let mut pair = Pair::open(&linux());
    pair.write(Side::A, 100_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.received_bytes(Side::B), 100_000);
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side), Some(CloseReason::Shutdown));
        let fins = pair.log.iter().filter(|l| l.from == side && l.segment.flags.has(Flags::FIN));
        assert_eq!(fins.count(), 1);
    }
}

#[test]
fn rfc9293_3_6_a_lost_fin_is_sent_again() {
    for lost_from in [Side::A, Side::B] {
        let mut pair = Pair::open(&linux());
        let mut left = 1;
        pair.drop_if = Box::new(move |_, from, segment| {
            let drop = left > 0 && from == lost_from && segment.flags.has(Flags::FIN);
            left -= usize::from(drop);
            drop
        });
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(Duration::from_secs(2));
        for side in [Side::A, Side::B] {
            assert_eq!(pair.closed(side), Some(CloseReason::Shutdown), "{lost_from:?} {side:?}");
        }
    }
}

#[test]
fn rfc9293_3_6_time_wait_acknowledges_a_fin_again() {
    let mut pair = Pair::open(&linux());
    let mut left = 1;
    pair.drop_if = Box::new(move |_, from, segment| {
        let is_last_ack = from == Side::A && segment.flags == Flags::ACK;
        let drop = left > 0 && is_last_ack;
        left -= usize::from(drop);
        drop
    });
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
    assert!(pair.log.iter().all(|logged| !logged.segment.flags.has(Flags::RST)));
}

#[test]
fn rfc9293_3_6_both_ends_may_close_at_the_same_time() {
    let mut pair = Pair::open(&linux());
    pair.command(Side::A, Command::Shutdown);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(1));
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side), Some(CloseReason::Shutdown));
    }
}

#[test]
fn rfc9293_3_10_5_abort_resets() {
    let mut pair = Pair::open(&linux());
    pair.write(Side::A, 3_000);
    pair.run_for(ms(100));
    pair.command(Side::A, Command::Abort);
    pair.run_for(ms(100));
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side), Some(CloseReason::Aborted));
    }
}

#[test]
fn rfc5961_3_a_reset_must_have_the_number_that_is_expected() {
    let mut drill = Drill::open(&linux(), false);
    drill.data_marked(500, 0, crate::ground::Ecn::NotEct, Flags::RST);
    assert_eq!(drill.acks(), [0], "a challenge");
    assert!(drill.events.is_empty());
    drill.data_marked(0, 0, crate::ground::Ecn::NotEct, Flags::RST);
    assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
}

#[test]
fn a_further_connection_has_the_next_port_and_starts_anew() {
    let mut pair = Pair::open(&linux());
    for round in 0..3 {
        pair.write(Side::A, 20_000);
        pair.run_for(ms(500));
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(ms(500));
        assert_eq!(pair.received_bytes(Side::B), 20_000, "{round}");
        assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
        pair.events = [Vec::new(), Vec::new()];
        pair.to_write = [crate::ground::Payload::default(); 2];
        pair.log.clear();
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(100));
        assert!(pair.heard(Side::B, &Event::Connected));
        assert_eq!(pair.log[0].segment.source_port, 49_153 + round);
        assert_eq!(pair.ends[0].cwnd(), 10);
    }
}

#[test]
fn rfc9293_3_6_an_end_may_go_on_sending_after_the_peers_fin() {
    let mut pair = Pair::open(&linux());
    assert!(pair.ends[1].set_half_close(true));
    pair.write(Side::A, 10_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(500));
    assert!(pair.heard(Side::B, &Event::PeerFinished));
    assert_eq!((pair.ends[0].state, pair.ends[1].state), (State::FinWait2, State::CloseWait));
    assert_eq!((pair.closed(Side::A), pair.closed(Side::B)), (None, None));
    pair.write(Side::B, 300_000);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.received_bytes(Side::A), 300_000, "also beyond the window of the beginning");
    assert_eq!(pair.closed(Side::A), None);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(1));
    for side in [Side::A, Side::B] {
        assert_eq!(pair.closed(side), Some(CloseReason::Shutdown));
        assert!(pair.heard(side, &Event::PeerFinished));
    }
    assert!(pair.log.iter().all(|logged| !logged.segment.flags.has(Flags::RST)));
}

#[test]
fn the_end_of_the_stream_is_heard_behind_what_was_read() {
    let mut pair = Pair::open(&linux());
    pair.command(Side::B, Command::PauseReading);
    pair.write(Side::A, 5_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(500));
    assert!(!pair.heard(Side::B, &Event::PeerFinished));
    pair.command(Side::B, Command::ResumeReading);
    pair.run_for(ms(100));
    assert_eq!(pair.received_bytes(Side::B), 5_000);
    let heard = pair.events[Side::B.index()].iter().map(|(_, event)| *event);
    assert_eq!(heard.filter(|event| *event == Event::PeerFinished).count(), 1);
}
