//! Streams and messages as an application has them: RFC 9000 sections 2, 3 and 4.6.

use crate::endpoint::{CloseReason, Command, Endpoint as _, Event, Received, Service, StreamId};
use crate::flow::{Payload, Side};
use crate::observed::Observed as _;
use crate::quic::Config;
use crate::quic::testing::{Drill, Logged, Pair, ms, send_on, send_unordered};
use crate::units::Bytes;
use crate::wire::quic::Frame;

fn bytes(offset: u64, length: u32) -> Payload {
    Payload { offset, length }
}

/// What an end received on streams other than the main one: their ends, in the order in which they came.
fn ends(pair: &Pair, side: Side) -> Vec<u64> {
    let events = pair.events[side.index()].iter();
    events
        .filter_map(|(_, event)| match event {
            Event::Received(Received { stream, ends_stream: true, .. }) => Some(stream.0),
            _ => None,
        })
        .collect()
}

/// A request on a stream of its own is answered on it; each direction ends by itself.
#[test]
fn a_stream_carries_a_request_and_its_response() {
    let mut pair = Pair::open(&Config::default());
    assert_eq!(pair.ends[0].service(), Service::Streams { longest_datagram: 0 });
    pair.command(Side::A, send_on(4, bytes(0, 300), true, false));
    pair.run_for(ms(30));
    assert_eq!(ends(&pair, Side::B), [4]);
    pair.command(Side::B, send_on(4, bytes(0, 5_000), true, false));
    pair.run_for(ms(300));
    assert_eq!(ends(&pair, Side::A), [4]);
    assert!(pair.ends.iter().all(|end| end.streams.get(4).is_none()), "it is over");
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(300));
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
}

/// Requests that are written at the same time share packets.
#[test]
fn what_is_written_at_once_shares_packets() {
    let mut pair = Pair::open(&Config::default());
    for number in 1..=9 {
        pair.command(Side::A, send_on(4 * number, bytes(0, 100), true, number < 9));
    }
    pair.run_for(ms(30));
    assert_eq!(ends(&pair, Side::B), [4, 8, 12, 16, 20, 24, 28, 32, 36]);
    assert_eq!(pair.from(Side::A).len(), 1, "{:?}", pair.log);
}

/// Section 2.2: a loss on one stream holds no other one back, and what waits is named by its stream.
#[test]
fn a_loss_holds_back_one_stream() {
    let mut pair = Pair::open(&Config::default());
    // The first packet has the beginning of the first stream.
    let mut sent = 0;
    pair.drop_if = Box::new(move |_, from, _| {
        sent += u32::from(from == Side::A);
        from == Side::A && sent == 1
    });
    pair.command(Side::A, send_on(4, bytes(0, 2_000), true, true));
    for number in 2..=5 {
        pair.command(Side::A, send_on(4 * number, bytes(0, 1_500), true, number < 5));
    }
    pair.run_for(ms(25));
    let arrived = ends(&pair, Side::B);
    assert!(!arrived.contains(&4) && arrived.len() >= 2, "{arrived:?}");
    let gap = pair.ends[1].head_of_line().expect("something waits");
    assert_eq!((gap.missing.stream, gap.missing.number), (StreamId(4), 0));
    assert!(gap.waiting > 0 && pair.ends[0].transmission(gap.missing).is_some());
    pair.run_for(ms(500));
    assert_eq!(ends(&pair, Side::B).len(), 5);
    assert_eq!(pair.ends[1].head_of_line(), None);
}

/// Section 4.6: streams beyond the limit wait for the peer, in order, and so does what is written on them.
#[test]
fn streams_wait_for_their_limit() {
    let config = Config { max_streams: Some(3), ..Config::default() };
    let mut pair = Pair::open(&config);
    for number in 1..=20 {
        pair.command(Side::A, send_on(4 * number, bytes(0, 700), true, false));
    }
    pair.run_for(ms(30));
    assert_eq!(ends(&pair, Side::B), [4, 8], "the main stream is the third");
    for _ in 0..40 {
        let asked = ends(&pair, Side::B);
        for stream in asked {
            if pair.ends[1].streams.get(stream).is_some() {
                pair.command(Side::B, send_on(stream, bytes(0, 10), true, false));
            }
        }
        pair.run_for(ms(60));
    }
    assert_eq!(ends(&pair, Side::B).len(), 20);
    assert_eq!(ends(&pair, Side::A).len(), 20);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(1_000));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
}

/// What the send buffer has no room for is refused, whatever the stream, and each stream that was refused
/// something is told of room.
#[test]
fn the_send_buffer_is_that_of_all_streams() {
    let config = Config { send_buffer: Some(Bytes(10_000)), ..Config::default() };
    let mut drill = Drill::open(&config);
    let mut command = |command| drill.input(crate::endpoint::Input::Command(command));
    command(send_on(4, bytes(0, 8_000), false, false));
    command(send_on(8, bytes(0, 8_000), true, false));
    command(send_on(12, bytes(0, 1), true, false));
    let refused = [Event::Refused(bytes(2_000, 6_000)), Event::Refused(bytes(0, 1))];
    assert_eq!(drill.events, refused);
    drill.events.clear();
    drill.at(500);
    let last = drill.end.paths[0].space.next - 1;
    drill.ack(&[(0, last)]);
    let writable = [8, 12].map(|stream| Event::StreamWritable(StreamId(stream)));
    assert_eq!(drill.events, writable);
    // Neither a stream that has been skipped, nor one that has ended, nor one of the peer's.
    drill.events.clear();
    for stream in [20, 5] {
        drill.input(crate::endpoint::Input::Command(send_on(stream, bytes(0, 7), true, false)));
        assert_eq!(drill.events, [Event::Refused(bytes(0, 7))], "{stream}");
        drill.events.clear();
    }
}

/// An end that shuts down while responses are on their way closes when they have arrived.
#[test]
fn a_shutdown_waits_for_all_streams() {
    let mut pair = Pair::open(&Config::default());
    pair.command(Side::A, send_on(4, bytes(0, 100), true, false));
    pair.run_for(ms(30));
    pair.command(Side::B, send_on(4, bytes(0, 200_000), true, false));
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(ms(3_000));
    assert_eq!(ends(&pair, Side::A), [4]);
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
}

/// RFC 9221: messages leave in DATAGRAM frames beside streams.
#[test]
fn messages_go_beside_streams() {
    let mut pair = Pair::open(&Config { datagrams: Some(true), ..Config::default() });
    assert!(matches!(pair.ends[0].service(), Service::Streams { longest_datagram: 1_150..1_200 }));
    pair.command(Side::A, send_unordered(bytes(0, 160)));
    pair.command(Side::A, send_on(4, bytes(0, 3_000), true, false));
    pair.run_for(ms(300));
    assert_eq!(ends(&pair, Side::B), [4]);
    assert_eq!(pair.ends[1].stats().messages_received, 1);
    let is_message = |logged: &&Logged| logged.frames().any(|frame| matches!(frame, Frame::Datagram { .. }));
    assert_eq!(pair.from(Side::A).into_iter().filter(is_message).count(), 1);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(500));
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
}
