//! RFC 9293 sections 3.7.4 (Nagle) and 3.8.6 (windows), pacing.

use super::*;
use crate::cc::SendLimits;
use crate::endpoint::{Command, Event};
use crate::flow::{Payload, Side};
use crate::tcp::config::{InitialWindow, Nagle};
use crate::tcp::testing::{Drill, Pair, ms};
use crate::time::Duration;
use crate::units::Bytes;

fn lengths(drill: &mut Drill) -> Vec<u32> {
    drill.sent().iter().map(|logged| logged.segment.payload.length).filter(|length| *length > 0).collect()
}

#[test]
fn rfc9293_3_7_4_less_than_a_segment_waits() {
    for (nagle, expected) in [
        (Nagle::Off, vec![100, SIZE, 100, 50]),
        // Minshall: a small segment waits while another one is outstanding.
        (Nagle::Minshall, vec![100, SIZE]),
        (Nagle::Rfc896, vec![100, SIZE]),
    ] {
        let mut drill = Drill::open(&Config { nagle: Some(nagle), ..linux() }, false);
        drill.write(100).write(SIZE + 100).write(50);
        assert_eq!(lengths(&mut drill), expected, "{nagle:?}");
    }
}

#[test]
fn rfc9293_3_7_4_what_waited_leaves_when_everything_is_acknowledged() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(100).write(30).write(50);
    assert_eq!(lengths(&mut drill), [100]);
    drill.at(200).ack(100, &[]);
    assert_eq!(lengths(&mut drill), [80]);
}

#[test]
fn minshall_lets_a_last_part_follow_full_segments() {
    for (nagle, expected) in [(Nagle::Minshall, vec![SIZE, 100]), (Nagle::Rfc896, vec![SIZE])] {
        let mut drill = Drill::open(&Config { nagle: Some(nagle), ..linux() }, false);
        drill.write(SIZE + 100);
        assert_eq!(lengths(&mut drill), expected);
    }
}

#[test]
fn rfc9293_3_8_6_no_more_than_the_window() {
    let mut drill = Drill::open(&linux(), false);
    // 4096 bytes hold two segments; a third would not fit.
    drill.window(32).data(0, 10).data(10, 10).write(10 * SIZE);
    assert_eq!(drill.segments(SIZE), [0, 1]);
    drill.at(200).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [2]);
}

#[test]
fn rfc9293_3_8_6_1_a_closed_window_is_probed() {
    let mut drill = Drill::open(&linux(), false);
    drill.window(0).ack(0, &[]).write(SIZE);
    assert_eq!(drill.sent(), []);
    // The timeout is 300 ms and then doubles.
    let probes = |drill: &mut Drill| -> Vec<u64> {
        drill.sent().iter().map(super::super::testing::Logged::at_ms).collect()
    };
    drill.at(500);
    assert_eq!(probes(&mut drill), [400]);
    drill.ack(0, &[]).at(1_200);
    assert_eq!(probes(&mut drill), [1_100]);
    drill.ack(0, &[]).at(2_500);
    assert_eq!(probes(&mut drill), [2_400]);
    drill.window(512).ack(0, &[]);
    assert_eq!(drill.segments(SIZE), [0]);
}

#[test]
fn rfc9293_3_8_6_2_1_a_small_window_is_used_in_the_end() {
    let mut drill = Drill::open(&linux(), false);
    // 512 bytes are less than a segment, so it waits for the persist timer.
    drill.window(4).data(0, 10).data(10, 10).write(SIZE);
    assert_eq!(lengths(&mut drill), [0; 0]);
    drill.at(400);
    assert_eq!(lengths(&mut drill), [512]);
}

#[test]
fn half_the_largest_window_bounds_a_segment() {
    let settings = Config { receive_buffer: Some(Bytes(2_048)), ..linux() };
    let mut pair = Pair::open(&settings);
    pair.write(Side::A, 10_000);
    pair.run_for(ms(2_000));
    assert!(pair.data(Side::A).iter().all(|logged| logged.segment.payload.length <= 1_024));
    assert_eq!(pair.received_bytes(Side::B), 10_000);
}

#[test]
fn a_full_send_buffer_takes_a_part_and_says_when_there_is_room() {
    let settings = Config { send_buffer: Some(Bytes(3_000)), ..linux() };
    let mut drill = Drill::open(&settings, false);
    drill.write(5_000);
    assert_eq!(drill.events, [Event::Refused(Payload { offset: 3_000, length: 2_000 })]);
    drill.events.clear();
    drill.at(200).ack(500, &[]);
    assert!(drill.events.is_empty(), "not a third of it is free");
    drill.ack(1_000, &[]);
    assert_eq!(drill.events, [Event::Writable]);
}

#[test]
fn after_the_end_nothing_is_taken() {
    let mut drill = Drill::open(&linux(), false);
    drill.input(crate::endpoint::Input::Command(Command::Shutdown));
    drill.write(10);
    assert_eq!(drill.events, [Event::Refused(Payload { offset: 0, length: 10 })]);
}

#[test]
fn paced_segments_are_spread_over_the_round_trip() {
    let gaps = |settings: &Config| -> Vec<Duration> {
        let settings =
            Config { pacing: Some(true), initial_window: Some(InitialWindow::Rfc6928), ..settings.clone() };
        let mut drill = Drill::open(&settings, false);
        drill.write(60 * SIZE).at(200).ack(10 * SIZE, &[]).segments(SIZE);
        drill.at(290);
        drill.sent().windows(2).map(|pair| pair[1].at.saturating_since(pair[0].at)).collect()
    };
    let (rfc, linux) = (gaps(&Config { byte_counting: Some(true), ..rfc() }), gaps(&linux()));
    assert!(rfc.len() > 10 && linux.len() > 10);
    // Twice 20 segments in 100 ms.
    assert!(rfc.iter().all(|gap| *gap == Duration::from_micros(2_500)), "{rfc:?}");
    // Two of them leave together.
    for pair in linux.chunks_exact(2) {
        assert_eq!(pair, [Duration::ZERO, Duration::from_millis(5)], "{linux:?}");
    }
}

#[test]
fn a_fixed_window_is_all_that_is_out() {
    let mut drill = Drill::open_with(&linux(), false, 3);
    drill.write(10 * SIZE);
    assert_eq!(drill.segments(SIZE), [0, 1, 2]);
    assert_eq!(SendLimits::window(3 * SIZE).cwnd / SIZE, drill.end.cwnd());
}
