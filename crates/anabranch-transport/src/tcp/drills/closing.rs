//! RFC 9293 sections 3.6 and 3.10.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, HalfClose as _, Input};
use crate::flow::{Ecn, Side};
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
    drill.data_marked(500, 0, crate::flow::Ecn::NotEct, Flags::RST);
    assert_eq!(drill.acks(), [0], "a challenge");
    assert!(drill.events.is_empty());
    drill.data_marked(0, 0, crate::flow::Ecn::NotEct, Flags::RST);
    assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
}

/// A connection whose application keeps its socket after the peer's FIN.
fn open_socket(settings: &Config) -> Drill {
    let mut drill = Drill::open(settings, false);
    drill.end.set_half_close(true);
    drill
}

const FIN: Flags = Flags::ACK.with(Flags::FIN);

#[test]
fn linux_delays_the_acknowledgement_of_a_fin() {
    for (settings, at) in [(rfc(), 100), (linux(), 140), (config(Profile::Linux2620), 140)] {
        let mut drill = open_socket(&settings);
        drill.data(0, SIZE).acks();
        drill.data_marked(SIZE, 0, Ecn::NotEct, FIN).at(139);
        assert_eq!(drill.acks().len(), usize::from(at == 100), "{:?}", settings.profile);
        drill.at(140);
        assert_eq!(drill.acks(), if at == 100 { vec![] } else { vec![SIZE + 1] });
        // There is nothing to answer before the first data.
        let mut drill = open_socket(&settings);
        drill.data_marked(0, 0, Ecn::NotEct, FIN).at(101);
        assert_eq!(drill.acks(), [1]);
    }
    // It travels with the FIN of an application that closes at once.
    let mut drill = Drill::open(&linux(), false);
    drill.data_marked(0, 100, Ecn::NotEct, FIN);
    let sent = drill.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].segment.flags.has(Flags::FIN));
}

#[test]
fn a_fin_that_closes_a_gap_or_answers_ours_is_acknowledged_at_once() {
    for settings in [rfc(), linux()] {
        let mut drill = open_socket(&settings);
        drill.data_marked(500, 0, Ecn::NotEct, FIN);
        assert_eq!(drill.last_sack(), [(500, 501)], "the FIN has a number");
        drill.acks();
        drill.data_marked(500, 0, Ecn::NotEct, FIN);
        assert_eq!(drill.last_sack(), [(500, 501), (500, 501)], "it came again");
        drill.data(200, 300);
        assert_eq!(drill.last_sack(), [(200, 501)]);
        drill.acks();
        drill.data(0, 200);
        assert_eq!((drill.acks(), drill.last_sack()), (vec![501], vec![]));
        assert!(drill.events.contains(&Event::PeerFinished));
        let mut drill = open_socket(&settings);
        drill.input(Input::Command(Command::Shutdown));
        drill.sent();
        drill.ack(1, &[]).data_marked(0, 0, Ecn::NotEct, FIN);
        assert_eq!((drill.acks(), drill.end.state), (vec![1], State::TimeWait));
    }
}

#[test]
fn rfc2018_a_run_that_ends_with_fin_is_reported_with_it() {
    for settings in [rfc(), linux()] {
        let mut drill = open_socket(&settings);
        drill.data_marked(100, 100, Ecn::NotEct, FIN);
        assert_eq!(drill.last_sack(), [(100, 201)]);
        drill.data_marked(100, 100, Ecn::NotEct, FIN);
        assert_eq!(drill.last_sack(), [(100, 201), (100, 201)]);
        drill.data(150, 50);
        assert_eq!(drill.last_sack(), [(150, 200), (100, 201)], "a duplicate without FIN");
        drill.data(0, 100);
        assert_eq!(drill.acks().last(), Some(&201));
    }
}

/// An end that has closed first, in TIME-WAIT.
fn in_time_wait(settings: &Config) -> Drill {
    let mut drill = open_socket(settings);
    drill.input(Input::Command(Command::Shutdown));
    drill.ack(1, &[]).data_marked(0, 0, Ecn::NotEct, FIN);
    drill.at(200).sent();
    assert_eq!(drill.end.state, State::TimeWait);
    drill
}

#[test]
fn rfc9293_3_10_7_4_time_wait_acknowledges_all_but_a_bare_acknowledgement() {
    for settings in [rfc(), linux(), config(Profile::Linux2620)] {
        for (position, length, flags, answers) in [
            (0, 0, FIN, 1),
            (1, 0, FIN, 1),
            (1, 0, Flags::ACK, 0),
            (1, 100, Flags::ACK, 1),
            (0, 0, Flags::ACK, 1),
            (999, 0, Flags::ACK, 1),
            (1 << 30, 50, Flags::ACK, 1),
            (999, 0, Flags::SYN.with(Flags::ACK), 1),
        ] {
            let mut drill = in_time_wait(&settings);
            drill.data_marked(position, length, Ecn::NotEct, flags);
            assert_eq!(drill.acks(), vec![1; answers], "{position} {length} {flags:?}");
            assert_eq!(drill.last_sack(), []);
            // The state lasts for a minute from then on.
            drill.at(60_199);
            assert_eq!(drill.end.state, State::TimeWait);
            drill.at(60_200);
            assert_eq!(drill.end.state, State::Closed);
        }
    }
}

/// Linux, `tcp_fin_time`: an end whose application has closed its socket waits for the peer's FIN for a
/// minute, whether the socket was closed before our FIN was acknowledged or later. Without a socket of its
/// own it answers a later FIN with a reset. In RFC 9293 it waits for ever, as in Linux does an application
/// that keeps its socket.
#[test]
fn linux_leaves_fin_wait_2_after_a_minute() {
    for settings in [rfc(), config(Profile::Linux2620), linux()] {
        for closes_at in [None, Some(100), Some(200)] {
            let mut drill = open_socket(&settings);
            if closes_at == Some(100) {
                drill.end.close_reading(drill.now);
            }
            drill.input(Input::Command(Command::Shutdown));
            drill.ack(1, &[]).at(200);
            assert_eq!(drill.end.state, State::FinWait2);
            if closes_at == Some(200) {
                drill.end.close_reading(drill.now);
                drill.input(Input::Command(Command::Shutdown));
            }
            let Some(since) = closes_at.filter(|_| settings.profile != Profile::Rfc) else {
                drill.at(3_600_000);
                assert_eq!(drill.end.state, State::FinWait2, "{:?}", settings.profile);
                continue;
            };
            drill.at(since + 59_999);
            assert_eq!(drill.end.state, State::FinWait2);
            drill.at(since + 60_000).sent();
            assert_eq!(drill.end.state, State::Closed, "{:?}", settings.profile);
            assert_eq!(drill.events.last(), Some(&Event::Closed(CloseReason::Shutdown)));
            drill.data_marked(0, 0, Ecn::NotEct, FIN);
            assert!(drill.sent()[0].segment.flags.has(Flags::RST));
        }
    }
    // A FIN in time begins TIME-WAIT, which lasts for a minute from then on; data resets.
    for (length, state) in [(0, State::TimeWait), (100, State::Closed)] {
        let mut drill = open_socket(&linux());
        drill.end.close_reading(drill.now);
        drill.input(Input::Command(Command::Shutdown));
        drill.ack(1, &[]).at(50_000).data_marked(0, length, Ecn::NotEct, FIN);
        assert_eq!(drill.end.state, state);
        drill.at(109_999);
        assert_eq!(drill.end.state, state);
        drill.at(110_000);
        assert_eq!(drill.end.state, State::Closed);
    }
}

#[test]
fn linux_answers_once_in_half_a_second_in_time_wait() {
    for (settings, answers) in [(rfc(), 2), (linux(), 1)] {
        let mut drill = in_time_wait(&settings);
        drill.data_marked(999, 0, Ecn::NotEct, Flags::ACK).at(699);
        drill.data_marked(999, 0, Ecn::NotEct, Flags::ACK);
        assert_eq!(drill.acks().len(), answers);
        drill.at(700).data_marked(999, 0, Ecn::NotEct, Flags::ACK);
        assert_eq!(drill.acks().len(), 1);
        drill.data(1, 100).data(1, 100);
        assert_eq!(drill.acks().len(), 2, "data is always answered");
    }
}

#[test]
fn a_reset_in_time_wait_must_have_the_number_that_is_expected() {
    for (settings, challenges) in [(rfc(), 1), (linux(), 0)] {
        let mut drill = in_time_wait(&settings);
        drill.data_marked(999, 0, Ecn::NotEct, Flags::RST);
        assert_eq!(drill.acks().len(), challenges);
        assert_eq!(drill.end.state, State::TimeWait);
        drill.data_marked(1, 0, Ecn::NotEct, Flags::RST);
        assert_eq!((drill.end.state, drill.acks().len()), (State::Closed, 0));
    }
}

#[test]
fn linux_takes_a_reset_with_the_number_of_the_fin() {
    for (settings, ends) in [(rfc(), false), (config(Profile::Linux2620), false), (linux(), true)] {
        let mut drill = open_socket(&settings);
        drill.data_marked(0, 0, Ecn::NotEct, FIN);
        drill.data_marked(0, 0, Ecn::NotEct, Flags::RST);
        let closed = drill.events.contains(&Event::Closed(CloseReason::Aborted));
        assert_eq!(closed, ends, "{:?}", settings.profile);
        // Not before a FIN.
        let mut drill = open_socket(&settings);
        drill.data(0, 100).data_marked(99, 0, Ecn::NotEct, Flags::RST);
        assert_eq!(drill.end.state, State::Established);
    }
}

#[test]
fn linux_takes_a_reset_behind_what_sack_reports() {
    for (settings, ends) in [(rfc(), false), (linux(), true)] {
        let mut drill = open_socket(&settings);
        drill.data(500, 100).data(200, 100);
        drill.data_marked(300, 0, Ecn::NotEct, Flags::RST);
        assert_eq!(drill.end.state, State::Established, "not the highest run");
        drill.data_marked(600, 0, Ecn::NotEct, Flags::RST);
        assert_eq!(drill.end.state == State::Closed, ends);
    }
}

#[test]
fn linux_tells_an_application_with_a_socket_of_a_late_reset() {
    for (settings, keeps_socket, reason) in [
        (rfc(), true, CloseReason::Shutdown),
        (linux(), true, CloseReason::Aborted),
        (linux(), false, CloseReason::Shutdown),
    ] {
        let mut drill = Drill::open(&settings, false);
        drill.end.set_half_close(keeps_socket);
        drill.data_marked(0, 0, Ecn::NotEct, FIN);
        drill.input(Input::Command(Command::Shutdown));
        assert_eq!(drill.end.state, State::LastAck);
        drill.data_marked(1, 0, Ecn::NotEct, Flags::RST);
        assert_eq!(drill.events.last(), Some(&Event::Closed(reason)));
    }
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
        pair.to_write = [crate::flow::Payload::default(); 2];
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
    pair.ends[1].set_half_close(true);
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
