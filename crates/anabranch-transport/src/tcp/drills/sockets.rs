//! What an application may change about a socket while its connection is open.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, Input};
use crate::tcp::config::InitialWindow;
use crate::tcp::testing::{Drill, ms};
use crate::wire::tcp::Flags;

/// Lengths of the segments sent since the last call, and whether each has PSH.
fn lengths(drill: &mut Drill) -> Vec<(u32, bool)> {
    let sent = drill.sent();
    sent.iter().map(|logged| (logged.segment.payload.length, logged.segment.flags.has(Flags::PSH))).collect()
}

#[test]
fn no_segment_holds_bytes_of_two_records() {
    let mut drill = Drill::open(&linux(), false);
    for length in [400, 300, 2_000] {
        drill.end.end_record(length);
        drill.write(length as u32);
    }
    drill.at(200).ack(400, &[]);
    let sent = lengths(&mut drill);
    assert_eq!(sent, [(400, true), (300, true), (SIZE, false), (2_000 - SIZE, true)]);
}

#[test]
fn what_is_in_two_buffers_does_not_leave_together() {
    let mut drill =
        Drill::open(&Config { initial_window: Some(InitialWindow::Segments(20)), ..linux() }, false);
    drill.end.set_bursts(10, 3);
    for buffer in [4, 3] {
        drill.end.end_buffer(u64::from(buffer * SIZE));
        drill.write(buffer * SIZE);
    }
    let pushed: Vec<bool> = lengths(&mut drill).iter().map(|(_, pushed)| *pushed).collect();
    assert_eq!(pushed, [false, false, false, true, false, false, true]);
    // The same two writes into one buffer, which leaves at once.
    let mut drill = Drill::open(&linux(), false);
    drill.end.set_bursts(10, 3);
    drill.write(10 * SIZE).at(200).ack(SIZE, &[]).sent();
    drill.end.end_buffer(u64::from(4 * SIZE));
    drill.write(4 * SIZE);
    drill.end.extend_buffer();
    drill.end.end_buffer(u64::from(3 * SIZE));
    drill.write(3 * SIZE);
    drill.sent();
    drill.at(201).ack(10 * SIZE, &[]);
    let pushed: Vec<bool> = lengths(&mut drill).iter().map(|(_, pushed)| *pushed).collect();
    assert_eq!(pushed.iter().filter(|pushed| **pushed).count(), 1);
}

#[test]
fn what_more_follows_waits_for_it() {
    let mut drill = Drill::open(&linux(), false);
    drill.end.set_more(true);
    drill.write(SIZE + 40);
    drill.end.end_write();
    assert_eq!(lengths(&mut drill), [(SIZE, false)], "less than a segment waits, and nothing is pushed");
    drill.end.set_more(false);
    drill.write(60);
    assert_eq!(lengths(&mut drill), [(100, true)]);
}

#[test]
fn what_is_corked_waits_until_it_is_not() {
    let mut drill = Drill::open(&linux(), false);
    drill.end.set_corked(drill.now, true);
    drill.write(40).write(40);
    assert_eq!(lengths(&mut drill), []);
    drill.end.set_corked(drill.now, false);
    drill.input(Input::Timeout);
    assert_eq!(lengths(&mut drill), [(80, true)]);
}

#[test]
fn a_place_within_the_stream_can_be_pushed() {
    let mut drill = Drill::open(&linux(), false);
    drill.end.mark_push(u64::from(SIZE));
    drill.write(4 * SIZE);
    let pushed: Vec<bool> = lengths(&mut drill).iter().map(|(_, is_pushed)| *is_pushed).collect();
    assert_eq!(pushed.first(), Some(&true));
}

#[test]
fn rfc9293_3_6_1_data_that_nobody_will_read_resets_the_connection() {
    let mut drill = Drill::open(&linux(), false);
    drill.end.close_reading(drill.now);
    drill.input(Input::Command(Command::Shutdown));
    drill.sent();
    drill.data(0, 1);
    let sent = drill.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].segment.flags.has(Flags::RST));
    assert_eq!(drill.events.last(), Some(&Event::Closed(CloseReason::Aborted)));
}

#[test]
fn rfc9293_3_8_3_a_user_timeout_ends_the_connection() {
    let mut drill = Drill::open(&linux(), false);
    drill.end.set_user_timeout(Some(ms(2_000)));
    drill.write(SIZE).at(10_000);
    assert_eq!(drill.events.last(), Some(&Event::Closed(CloseReason::Lost)));
    let last = drill.sent().last().map(|logged| logged.at).expect("it was sent again");
    assert!(last < crate::time::Time::from_millis(2_200), "nothing is sent after that: {last}");
}
