//! Tail loss probes: RFC 8985 section 7.

use super::*;
use crate::endpoint::Command;
use crate::flow::Side;
use crate::tcp::procedures;
use crate::tcp::testing::{Drill, Pair, Wire};
use crate::time::Duration;
use crate::wire::tcp::Flags;

#[test]
fn rfc8985_7_2_the_last_segment_is_sent_again_after_two_round_trips() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(4 * SIZE).segments(SIZE);
    drill.at(200).ack(2 * SIZE, &[]).at(401);
    assert_eq!(drill.segments(SIZE), [0; 0]);
    // Two round-trip times and 2 ms.
    drill.at(402);
    assert_eq!(drill.segments(SIZE), [3]);
    assert_eq!(drill.end.stats().loss_probes, 1);
    // The probe's SACK shows that segment 2 is lost, long before the timeout.
    drill.at(502).ack(2 * SIZE, &[(3 * SIZE, 4 * SIZE)]).at(530);
    assert_eq!(drill.segments(SIZE), [2]);
    assert_eq!(drill.end.stats().timeouts, 0);
}

#[test]
fn rfc8985_7_2_the_wait_is_two_round_trips_and_in_linux_two_milliseconds_more() {
    // The rule can also be set alone.
    let set = |base: Config, value| Config {
        procedures: Some(procedures::Config { probe_waits_for_rto_min: Some(value), ..Default::default() }),
        ..base
    };
    let (late, early) = (set(rfc(), true), set(linux(), false));
    for (settings, millis) in [(rfc(), 400), (late, 402), (linux(), 402), (early, 400)] {
        let mut drill = Drill::open(&settings, false);
        drill.write(4 * SIZE).segments(SIZE);
        drill.at(200).ack(2 * SIZE, &[]).at(millis - 1);
        assert_eq!(drill.segments(SIZE), [0; 0]);
        drill.at(millis);
        assert_eq!(drill.segments(SIZE), [3]);
    }
}

#[test]
fn rfc8985_7_4_the_sack_of_a_probe_shows_losses_whatever_it_echoes() {
    const FULL: u32 = 1_448;
    for settings in [rfc(), linux()] {
        let mut drill = Drill::open_with(&settings, true, 10);
        drill.write(10 * FULL);
        let echo = drill.sent().last().unwrap().segment.timestamps.unwrap().value;
        drill.at(200).ack(2 * FULL, &[]).at(410);
        assert_eq!(drill.end.stats().loss_probes, 1);
        // The probe arrives behind a hole, so the echo is that of segment 1, the last one in order.
        drill.at(510).ack_echoing(2 * FULL, &[(9 * FULL, 10 * FULL)], echo, Flags::ACK);
        assert_eq!(drill.end.stats().segments_lost, 7);
        assert_eq!(drill.end.stats().timeouts, 0);
    }
}

#[test]
fn rfc8985_7_3_new_data_is_the_better_probe() {
    let mut drill = Drill::open_with(&linux(), false, 4);
    drill.write(10 * SIZE).segments(SIZE);
    drill.at(302);
    assert_eq!(drill.segments(SIZE), [4], "one more than the window");
}

#[test]
fn rfc8985_7_4_1_a_loss_that_the_probe_repaired_reduces_the_window() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(2 * SIZE).segments(SIZE);
    drill.at(200).ack(SIZE, &[]).at(600);
    assert_eq!(drill.segments(SIZE), [1], "a probe");
    drill.at(700).ack(2 * SIZE, &[]).write(SIZE).at(800).ack(3 * SIZE, &[]);
    assert_eq!(drill.end.stats().loss_probe_recoveries, 1);
    assert_eq!(drill.end.cwnd(), 5);
}

#[test]
fn rfc8985_7_4_2_a_duplicate_of_the_probe_says_that_nothing_was_lost() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(2 * SIZE).segments(SIZE);
    drill.at(200).ack(SIZE, &[]).at(600).segments(SIZE);
    drill.at(605).ack(2 * SIZE, &[]);
    drill.at(700).ack(2 * SIZE, &[(SIZE, 2 * SIZE)]);
    drill.write(SIZE).at(800).ack(3 * SIZE, &[]);
    assert_eq!(drill.end.stats().loss_probe_recoveries, 0);
    assert_eq!(drill.end.cwnd(), 10);
}

/// A timer lies ahead, as the contract of `endpoint::Endpoint` says, even if a round trip takes no time.
#[test]
fn a_probe_is_not_due_at_once() {
    const FULL: u32 = 1_448;
    let settings = Config { clock_granularity: Some(Duration::ZERO), ..rfc() };
    let mut pair = Pair::new(&settings);
    pair.wires = [Wire { delay: Duration::ZERO, ..Wire::default() }; 2];
    pair.command(Side::A, Command::Connect);
    pair.run_for(Duration::from_millis(100));
    pair.write(Side::A, 2 * FULL);
    pair.run_for(Duration::from_secs(1));
    let before = pair.ends[0].stats().loss_probes;
    pair.drop_if = Box::new(|_, _, _| true);
    pair.write(Side::A, 4 * FULL);
    pair.run_for(Duration::ZERO);
    assert_eq!(pair.ends[0].stats().loss_probes, before);
    pair.run_for(Duration::from_nanos(1));
    assert_eq!(pair.ends[0].stats().loss_probes, before + 1);
}
