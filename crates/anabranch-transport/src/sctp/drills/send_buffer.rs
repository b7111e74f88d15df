//! RFC 9260 section 11.1: a full send buffer refuses messages, and tells when there is room.

use super::*;
use crate::endpoint::{Command, Event, Message};
use crate::sctp::config::Buffer;
use crate::units::Bytes;

#[test]
fn a_full_send_buffer_refuses_and_says_when_there_is_room() {
    let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(2_000))), ..rfc9260() }, 1);
    pair.send_reliable(2, 1_000);
    let refused = pair.send(Side::A, 1, Reliability::Reliable, false);
    assert!(pair.heard(Side::A, &Event::Refused(refused)));
    assert!(!pair.heard(Side::A, &Event::Writable));
    pair.run_for(ms(1_000));
    assert!(pair.heard(Side::A, &Event::Writable));
    assert_eq!(pair.received(Side::B).len(), 2);
}

/// A pair whose A has filled its buffer of 4000 B with messages of 1000 B.
fn with_a_full_send_buffer() -> Pair {
    let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(4_000))), ..rfc9260() }, 1);
    for _ in 0..2 {
        pair.send_reliable(2, 1_000);
        pair.run_for(ms(10));
    }
    pair
}

fn large_message(length: u32) -> Message {
    let payload = Payload { offset: 90_000, length };
    Message::new(payload)
}

#[test]
fn a_message_that_is_tried_again_waits_for_all_of_its_room() {
    let mut pair = with_a_full_send_buffer();
    let message = large_message(3_500);
    let room = |pair: &Pair| 4_000 - pair.ends[0].sender.buffered();
    // The first time it is told of any room.
    for least in [1, 3_500] {
        pair.events = [Vec::new(), Vec::new()];
        pair.command(Side::A, Command::Send(message));
        assert!(pair.heard(Side::A, &Event::Refused(message.payload)));
        while !pair.heard(Side::A, &Event::Writable) {
            assert!(room(&pair) < least);
            pair.run_for(ms(1));
        }
        assert!(room(&pair) >= least);
    }
    pair.events = [Vec::new(), Vec::new()];
    pair.command(Side::A, Command::Send(message));
    assert!(!pair.heard(Side::A, &Event::Refused(message.payload)));
}

#[test]
fn messages_that_expire_make_the_room_that_is_waited_for() {
    let settings = Config {
        send_buffer: Some(Buffer::At(Bytes(8_000))),
        sack_frequency: Some(10),
        sack_delay: Some(ms(50)),
        ..rfc9260()
    };
    let mut pair = Pair::open(&settings, 1);
    let message = large_message(7_500);
    for waits_for in [1, 7_500] {
        pair.events = [Vec::new(), Vec::new()];
        // What does not leave at once expires before one SACK has acknowledged all that has left.
        while pair.ends[0].sender.buffered() < 7_000 {
            pair.send(Side::A, 1_000, Reliability::Timed(ms(20)), false);
        }
        assert!(pair.ends[0].sender.queue.bytes > 500);
        pair.command(Side::A, Command::Send(message));
        assert_eq!(pair.ends[0].sender.awaited_room, Some(waits_for));
        pair.run_for(ms(2_000));
        assert!(pair.heard(Side::A, &Event::Writable));
        assert_eq!(pair.ends[0].sender.buffered(), 0);
    }
}

#[test]
fn an_end_that_shuts_down_waits_for_no_room() {
    let mut pair = with_a_full_send_buffer();
    let message = large_message(3_500);
    pair.command(Side::A, Command::Send(message));
    while pair.ends[0].sender.awaited_room.is_some() {
        pair.run_for(ms(1));
    }
    pair.command(Side::A, Command::Send(message));
    assert_eq!(pair.ends[0].sender.awaited_room, Some(3_500));
    pair.command(Side::A, Command::Shutdown);
    assert_eq!(pair.ends[0].sender.awaited_room, Some(1));
}
