//! RFC 9000 section 10: how connections end.

use crate::endpoint::{CloseReason, Command, Event, HalfClose, Input};
use crate::flow::Side;
use crate::quic::Config;
use crate::quic::testing::{Drill, Pair, ms};
use crate::time::Duration;
use crate::wire::quic::{Content, Frame};

/// Section 10.2.2: an end whose peer has closed says nothing any more, and is closed after three timeouts.
#[test]
fn a_draining_end_is_silent() {
    let mut drill = Drill::open(&Config::default());
    drill.sent();
    drill.frame(Frame::ConnectionClose { code: 0, frame: None, reason: 0 });
    assert_eq!(drill.events, [Event::Closed(CloseReason::Shutdown)]);
    drill.frame(Frame::Ping).write(100).at(60_000);
    assert_eq!(drill.sent().len(), 0);
}

/// Section 10.2.1: a closing end answers ever more rarely.
#[test]
fn a_closing_end_answers_rarely() {
    let mut drill = Drill::open(&Config::default());
    drill.sent();
    drill.input(Input::Command(Command::Abort));
    assert_eq!(drill.frames(), [Frame::ConnectionClose { code: 1, frame: None, reason: 0 }]);
    for _ in 0..100 {
        drill.frame(Frame::Ping);
    }
    assert_eq!(drill.sent().len(), 7, "1, 2, 4, 8, 16, 32, 64");
    drill.at(60_000);
    drill.frame(Frame::Ping);
    // Section 10.2: what comes after that is answered with stateless resets.
    let sent = drill.sent();
    assert_eq!(sent.len(), 1);
    assert!(matches!(sent[0].datagram.content, Content::Reset { .. }), "{sent:?}");
}

/// Section 10.1: the shorter timeout of both ends counts, and an end falls silent.
#[test]
fn an_idle_connection_ends() {
    let mut drill = Drill::open_with(&Config::default(), |peer| peer.max_idle_timeout = 5_000);
    drill.frame(Frame::Ping);
    drill.at(5_099);
    assert!(drill.events.is_empty());
    drill.sent();
    drill.at(10_000);
    assert_eq!(drill.events, [Event::Closed(CloseReason::Lost)]);
    assert_eq!(drill.sent().len(), 0);
}

/// Section 10.1.2.
#[test]
fn a_ping_keeps_a_connection_alive() {
    let config = Config {
        idle_timeout: Some(Duration::from_secs(3)),
        keep_alive: Some(Duration::from_secs(1)),
        ..Config::default()
    };
    let mut pair = Pair::open(&config);
    pair.run_for(ms(60_000));
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [None; 2]);
    let without = Config { keep_alive: None, ..config };
    let mut pair = Pair::open(&without);
    pair.run_for(ms(60_000));
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Lost); 2]);
}

/// Section 10.1.2, RFC 9002 section 6.2.1: a PING starts the probe timeout anew, so that none is sent while
/// an acknowledgement is outstanding, or an end would never find out that nothing arrives.
#[test]
fn pings_do_not_hold_probes_back() {
    let config = Config { keep_alive: Some(Duration::from_millis(100)), ..Config::default() };
    let mut drill = Drill::open(&config);
    let timeout = drill.end.probe_timeout(0);
    assert!(timeout > Duration::from_millis(200), "{timeout}");
    drill.at(5_000);
    assert!(drill.end.stats().timeouts >= 3, "{:?}", drill.end.stats());
    // They go on when the peer is heard again.
    let largest = drill.end.paths[0].space.next - 1;
    drill.ack(&[(largest, largest)]);
    drill.sent();
    drill.at(5_300);
    assert_eq!(drill.frames(), [crate::wire::quic::Frame::Ping]);
}

#[test]
fn an_end_that_gives_up_tells_the_other() {
    for by in [Side::A, Side::B] {
        let mut pair = Pair::open(&Config::default());
        pair.write(by.peer(), 100_000);
        pair.run_for(ms(30));
        pair.command(by, Command::Abort);
        pair.run_for(ms(5_000));
        assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Aborted); 2]);
    }
}

/// With half-close an end goes on after its peer has finished.
#[test]
fn half_close_lets_the_other_direction_go_on() {
    let mut pair = Pair::open(&Config::default());
    for end in &mut pair.ends {
        HalfClose::set_half_close(end, true);
    }
    pair.write(Side::A, 1_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(500));
    assert!(pair.heard(Side::B, &Event::PeerFinished) && pair.closed(Side::B).is_none());
    pair.write(Side::B, 2_000);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(ms(500));
    assert_eq!(pair.received_bytes(Side::A), 2_000);
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
}
