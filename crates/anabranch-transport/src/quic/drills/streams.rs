//! RFC 9000 sections 2 to 4, 13.2, 13.3 and 19: streams, flow control, acknowledgements, and what is sent
//! again.

use crate::endpoint::{Command, Event, Input};
use crate::quic::testing::Drill;
use crate::quic::{Config, code};
use crate::units::Bytes;
use crate::wire::quic::Frame;

fn received(drill: &Drill) -> u64 {
    drill
        .events
        .iter()
        .map(|event| if let Event::Received(part) = event { part.payload.length.into() } else { 0 })
        .sum()
}

/// Section 4.1: limits of the connection and of a stream are kept by the sender, which says that it is
/// blocked.
#[test]
fn a_sender_keeps_the_peers_limits() {
    for of_stream in [true, false] {
        let mut drill = Drill::open_with(&Config::default(), |peer| {
            let limit = if of_stream {
                &mut peer.initial_max_stream_data_bidi_remote
            } else {
                &mut peer.initial_max_data
            };
            *limit = 3_000;
        });
        drill.write(10_000);
        let frames = drill.frames();
        let sent: u32 =
            frames.iter().map(|frame| if let Frame::Stream(s) = frame { s.data.length } else { 0 }).sum();
        assert_eq!(sent, 3_000);
        drill.at(110);
        let blocked = |frames: &[Frame]| {
            frames
                .iter()
                .filter(|frame| match frame {
                    Frame::StreamDataBlocked { stream: 0, limit } => of_stream && *limit == 3_000,
                    Frame::DataBlocked { limit } => !of_stream && *limit == 3_000,
                    _ => false,
                })
                .count()
        };
        let mut frames = frames;
        frames.extend(drill.frames());
        assert_eq!(blocked(&frames), 1, "{frames:?}");
        let frame = if of_stream {
            Frame::MaxStreamData { stream: 0, limit: 4_000 }
        } else {
            Frame::MaxData { limit: 4_000 }
        };
        drill.frame(frame);
        let frames = drill.frames();
        assert!(
            frames.iter().any(
                |frame| matches!(frame, Frame::Stream(s) if s.position == 3_000 && s.data.length == 1_000)
            )
        );
    }
}

/// Section 4.1: a peer that sends more than it may is told so.
#[test]
fn a_peer_beyond_its_limits_is_in_error() {
    let config =
        Config { max_stream_data: Some(Bytes(2_000)), max_data: Some(Bytes(3_000)), ..Config::default() };
    let mut drill = Drill::open(&config);
    drill.data(0, 1_000, 1_001, false);
    assert_eq!(drill.violation(), Some(code::FLOW_CONTROL_ERROR));
    let mut drill = Drill::open(&config);
    drill.data(0, 1, 1_999, false).data(1, 1, 1_001, false);
    assert_eq!(drill.violation(), Some(code::FLOW_CONTROL_ERROR));
}

/// Section 4.2: limits move with what is read.
#[test]
fn limits_move_when_the_application_reads() {
    let config =
        Config { max_stream_data: Some(Bytes(2_000)), max_data: Some(Bytes(2_000)), ..Config::default() };
    let mut drill = Drill::open(&config);
    drill.input(Input::Command(Command::PauseReading));
    drill.data(0, 0, 1_200, false);
    assert_eq!((received(&drill), drill.frames().len()), (0, 0));
    drill.input(Input::Command(Command::ResumeReading));
    assert_eq!(received(&drill), 1_200);
    let frames = drill.frames();
    assert!(frames.contains(&Frame::MaxStreamData { stream: 0, limit: 3_200 }), "{frames:?}");
    assert!(frames.contains(&Frame::MaxData { limit: 3_200 }), "{frames:?}");
}

/// Section 3.5: `STOP_SENDING` is answered with `RESET_STREAM`, and nothing more is sent.
#[test]
fn a_stream_that_is_stopped_is_reset() {
    let mut drill = Drill::open(&Config { pacing: Some(false), ..Config::default() });
    drill.write(50_000);
    let last = drill.end.paths[0].space.next - 1;
    let sent: u64 = drill
        .frames()
        .iter()
        .map(|f| if let Frame::Stream(s) = f { u64::from(s.data.length) } else { 0 })
        .sum();
    assert!(sent < 50_000);
    drill.frame(Frame::StopSending { stream: 0, code: 5 });
    // The window is full.
    assert_eq!(drill.frames(), []);
    drill.ack(&[(0, last)]);
    let frames = drill.frames();
    assert!(frames.contains(&Frame::ResetStream { stream: 0, code: 5, final_size: sent }), "{frames:?}");
    assert!(!frames.iter().any(|frame| matches!(frame, Frame::Stream(_))));
}

/// Section 4.6: streams beyond the limit.
#[test]
fn streams_are_limited_both_ways() {
    let config = Config { max_streams: Some(2), ..Config::default() };
    let mut drill = Drill::open_with(&config, |peer| peer.initial_max_streams_bidi = 1);
    assert_eq!(drill.end.open_stream(true), None);
    drill.input(Input::Timeout);
    assert!(drill.frames().contains(&Frame::StreamsBlocked { is_bidirectional: true, limit: 1 }));
    drill.frame(Frame::MaxStreams { is_bidirectional: true, limit: 2 });
    assert_eq!(drill.end.open_stream(true), Some(4));
    drill.data(5, 0, 1, false);
    assert_eq!(drill.violation(), None);
    drill.data(9, 0, 1, false);
    assert_eq!(drill.violation(), Some(code::STREAM_LIMIT_ERROR));
}

/// Sections 13.2.1 and 13.2.2: every second packet is acknowledged at once, a single one after 25 ms, and one
/// out of order at once.
#[test]
fn acknowledgements_are_delayed() {
    let mut drill = Drill::open(&Config::default());
    drill.at(1_000);
    drill.sent();
    drill.data(0, 0, 100, false);
    assert_eq!(drill.sent().len(), 0);
    drill.at(1_024);
    assert_eq!(drill.sent().len(), 0);
    drill.at(1_025);
    assert_eq!(drill.sent().len(), 1);
    drill.data(0, 100, 100, false).data(0, 200, 100, false);
    assert_eq!(drill.sent().len(), 1);
    let missing = drill.skip();
    drill.data(0, 400, 100, false);
    assert_eq!(drill.sent().len(), 1);
    let ack = drill.last_ack();
    assert_eq!((ack[0], ack[1].1), ((missing + 1, missing + 1), missing - 1));
}

/// Section 13.2.1: packets that only acknowledge are not acknowledged, or two ends would never stop.
#[test]
fn acknowledgements_are_not_acknowledged() {
    let mut drill = Drill::open(&Config::default());
    drill.at(1_000);
    drill.sent();
    drill.write(500);
    let number = drill.sent_numbers()[0];
    drill.at(1_100);
    drill.ack(&[(number, number)]);
    drill.at(3_000);
    assert_eq!(drill.sent().len(), 0);
}

/// Section 13.3: a lost `MAX_DATA` frame leaves again with the present limit.
#[test]
fn lost_limits_are_sent_again_as_they_are_now() {
    let config = Config { max_data: Some(Bytes(10_000)), pacing: Some(false), ..Config::default() };
    let mut drill = Drill::open(&config);
    drill.at(1_000);
    drill.data(0, 0, 1_200, false).data(0, 1_200, 4_800, false);
    assert!(drill.frames().contains(&Frame::MaxData { limit: 16_000 }));
    drill.data(0, 6_000, 1_000, false);
    drill.at(2_000);
    let frames = drill.frames();
    assert!(frames.contains(&Frame::MaxData { limit: 17_000 }), "{frames:?}");
}

/// Sections 19.15 and 5.1.1: each end announces further IDs, and answers the retirement of one with another.
#[test]
fn connection_ids_are_replaced() {
    let mut drill = Drill::open_with(&Config::default(), |peer| peer.active_connection_id_limit = 3);
    let announced = |frames: &[Frame]| {
        frames.iter().filter(|frame| matches!(frame, Frame::NewConnectionId { .. })).count()
    };
    let all: Vec<Frame> = drill.sent.iter().flat_map(crate::quic::testing::Logged::frames).cloned().collect();
    assert_eq!(announced(&all), 2);
    drill.frames();
    drill.frame(Frame::RetireConnectionId { path: None, sequence: 1 });
    assert_eq!(announced(&drill.frames()), 1);
    drill.frame(Frame::RetireConnectionId { path: None, sequence: 9 });
    assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION));
}

/// Section 8.2.2, and CVE-2023-49295 of quic-go: of many challenges the last one is answered.
#[test]
fn a_challenge_is_answered_and_many_are_answered_once() {
    let mut drill = Drill::open(&Config::default());
    let frames = (0..100_u8).map(|byte| Frame::PathChallenge { data: [byte; 8] }).collect();
    drill.packet(crate::wire::quic::Level::OneRtt, frames);
    assert_eq!(drill.frames(), [Frame::PathResponse { data: [99; 8] }]);
}

/// RFC 9221 section 3: a message that was not permitted.
#[test]
fn a_message_that_was_not_asked_for_is_a_violation() {
    let mut drill = Drill::open(&Config::default());
    let data = crate::flow::Payload { offset: 0, length: 10 };
    drill.frame(Frame::Datagram { data, has_length: true });
    assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION));
}
