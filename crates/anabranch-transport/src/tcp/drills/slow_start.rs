//! RFC 5681 sections 3.1 and 4.1, RFC 6928, RFC 3390, RFC 2861.

use super::*;
use crate::tcp::config::InitialWindow;
use crate::tcp::procedures;
use crate::tcp::testing::Drill;

#[test]
fn rfc6928_2_ten_segments_at_first() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(100 * SIZE);
    assert_eq!(drill.segments(SIZE), (0..10).collect::<Vec<_>>());
}

#[test]
fn rfc3390_1_three_segments_at_first() {
    let settings = Config { initial_window: Some(InitialWindow::Rfc3390), ..linux() };
    let mut drill = Drill::open(&settings, false);
    drill.write(100 * SIZE);
    assert_eq!(drill.segments(SIZE), [0, 1, 2]);
}

#[test]
fn rfc5681_3_1_each_acknowledged_segment_lets_two_out() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(200).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11]);
    drill.ack(3 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [12, 13, 14, 15]);
}

#[test]
fn rfc5681_3_1_one_more_for_each_acknowledgement() {
    let mut drill = Drill::open(&rfc(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(200).ack(2 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11, 12], "two acknowledged, and one");
}

#[test]
fn rfc7661_a_window_that_is_not_used_does_not_grow() {
    let mut drill = Drill::open(&linux(), false);
    for round in 1..6_u32 {
        drill.write(2 * SIZE).at(100 + 100 * u64::from(round)).ack(2 * round * SIZE, &[]);
    }
    assert_eq!(drill.end.cwnd(), 10);
}

#[test]
fn rfc2861_an_idle_window_shrinks() {
    for (restart, expected) in [(true, 10), (false, 20)] {
        let mut drill = Drill::open(&Config { idle_restart: Some(restart), ..linux() }, false);
        drill.write(10 * SIZE).at(200).ack(10 * SIZE, &[]);
        assert_eq!(drill.end.cwnd(), 20);
        drill.at(20_000).segments(SIZE);
        drill.write(40 * SIZE);
        assert_eq!(drill.segments(SIZE).len(), expected);
    }
}

#[test]
fn rfc5681_4_1_an_idle_window_shrinks_when_the_peer_opens_its_own_too() {
    for (ends, expected) in [(true, 10), (false, 20)] {
        let procedures = procedures::Config { idle_ends_with_window: Some(ends), ..Default::default() };
        let mut drill = Drill::open(&Config { procedures: Some(procedures), ..linux() }, false);
        drill.write(10 * SIZE).at(200).window(0).ack(10 * SIZE, &[]);
        // What the application writes now cannot leave, so it does not end the pause.
        drill.write(40 * SIZE).segments(SIZE);
        drill.at(20_000).window(512).ack(10 * SIZE, &[]);
        assert_eq!(drill.segments(SIZE).len(), expected);
    }
}
