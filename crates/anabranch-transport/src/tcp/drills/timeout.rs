//! RFC 6298 section 5, RFC 5681 section 3.1, RFC 5682, RFC 4015.

use super::*;
use crate::cc::{self, CongestionControl as _, coupled};
use crate::endpoint::{CloseReason, Event, Multipath as _};
use crate::flow::PathId;
use crate::tcp::config::{EcnMode, LossDetection};
use crate::tcp::testing::Drill;
use crate::time::Duration;
use crate::wire::tcp::Flags;

fn without_probe() -> Config {
    Config { tail_loss_probe: Some(false), ..linux() }
}

fn times(drill: &mut Drill) -> Vec<u64> {
    drill.sent().iter().map(super::super::testing::Logged::at_ms).collect()
}

#[test]
fn rfc6298_5_5_the_timeout_doubles() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(SIZE).at(5_000);
    // A round trip of 100 ms and Linux's least variation of 200 ms.
    assert_eq!(times(&mut drill), [100, 400, 1_000, 2_200, 4_600]);
    let mut drill = Drill::open(&Config { tail_loss_probe: Some(false), ..rfc() }, false);
    drill.write(SIZE).at(10_000);
    // RFC 6298 section 2.4: at least 1 s.
    assert_eq!(times(&mut drill), [100, 1_100, 3_100, 7_100]);
}

#[test]
fn rfc6298_2_5_the_timeout_has_a_maximum() {
    let settings = Config { rto_max: Some(Duration::from_millis(500)), ..without_probe() };
    let mut drill = Drill::open(&settings, false);
    drill.write(SIZE).at(2_000);
    assert_eq!(times(&mut drill), [100, 400, 900, 1_400, 1_900]);
}

#[test]
fn rfc6298_3_no_sample_of_what_was_sent_twice() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(SIZE).at(400).at(450).ack(SIZE, &[]);
    assert_eq!(drill.end.rtt.rto(), Duration::from_millis(600), "it stays backed off (section 5.5)");
    drill.write(SIZE).at(550).ack(2 * SIZE, &[]);
    assert_eq!(drill.end.rtt.rto(), Duration::from_millis(300));
}

#[test]
fn rfc7323_4_timestamps_measure_retransmissions_too() {
    let size = SIZE - 12;
    let mut drill = Drill::open(&without_probe(), true);
    drill.write(size).at(400).at(500).ack(size, &[]);
    assert_eq!(drill.end.rtt.rto(), Duration::from_millis(300));
}

#[test]
fn rfc6298_5_3_progress_starts_the_timer_anew() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(2 * SIZE).segments(SIZE);
    drill.at(390).ack(SIZE, &[]).at(500);
    assert_eq!(drill.segments(SIZE), [0; 0]);
    drill.at(1_000);
    assert_eq!(drill.segments(SIZE), [1]);
}

#[test]
fn rfc5681_3_1_one_segment_after_a_timeout_then_slow_start() {
    let settings = Config { f_rto: Some(false), ..without_probe() };
    let mut drill = Drill::open(&settings, false);
    drill.write(10 * SIZE).segments(SIZE);
    drill.at(400);
    assert_eq!(drill.segments(SIZE), [0]);
    drill.at(500).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [1, 2]);
    drill.at(600).ack(3 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [3, 4, 5, 6]);
    assert_eq!(drill.end.cc_threshold(), 5, "half of ten");
}

#[test]
fn rfc5682_3_1_a_late_acknowledgement_shows_that_the_timeout_was_spurious() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(400);
    assert_eq!(drill.segments(SIZE), [0]);
    // Step 2b: an acknowledgement that advances lets new data out, not what seems to be lost.
    drill.at(450).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11]);
    // Step 3b: so does the next one, which acknowledges data that was never sent again.
    drill.ack(2 * SIZE, &[]);
    assert!(drill.segments(SIZE).iter().all(|segment| *segment > 11));
    assert_eq!(drill.end.stats().spurious_timeouts, 1);
    assert!(drill.end.cwnd() >= 10, "the window is what it was");
}

#[test]
fn rfc5682_3_1_a_duplicate_shows_that_the_loss_was_real() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(400).segments(SIZE);
    drill.at(500).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11]);
    // Step 3a: a SACK for the new data comes from above the hole.
    drill.at(600).ack(SIZE, &[(10 * SIZE, 11 * SIZE)]);
    assert_eq!(drill.segments(SIZE)[0], 1);
    assert_eq!(drill.end.stats().spurious_timeouts, 0);
}

/// Ten segments, the first of which times out in profile rfc; with `sack`, the peer has SACK.
fn timed_out_in_rfc(sack: bool) -> Drill {
    let settings = Config { tail_loss_probe: Some(false), sack: Some(sack), ..rfc() };
    let mut drill = Drill::open(&settings, false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(1_100);
    assert_eq!(drill.segments(SIZE), [0]);
    drill
}

#[test]
fn rfc5682_the_first_acknowledgement_decides_nothing() {
    for sack in [false, true] {
        // The acknowledgements of three segments that had arrived were lost, and the other seven are lost.
        let mut drill = timed_out_in_rfc(sack);
        drill.at(1_200).ack(3 * SIZE, &[]);
        assert_eq!(drill.segments(SIZE), [10, 11], "step 2b");
        assert_eq!(drill.end.stats().spurious_timeouts, 0);
        // Step 3a: the new data arrives, and nothing before it.
        let blocks = [(10 * SIZE, 11 * SIZE)];
        drill.at(1_300).ack(3 * SIZE, if sack { &blocks } else { &[] });
        assert_eq!(drill.segments(SIZE)[0], 3, "the first hole");
        assert_eq!(drill.end.stats().spurious_timeouts, 0);
        assert!(drill.end.cwnd() <= 3);
    }
}

#[test]
fn rfc5682_the_second_acknowledgement_shows_a_spurious_timeout() {
    for sack in [false, true] {
        let mut drill = timed_out_in_rfc(sack);
        drill.at(1_200).ack(SIZE, &[]);
        assert_eq!(drill.segments(SIZE), [10, 11]);
        // Step 3b: data that was sent once, before the timeout.
        drill.ack(2 * SIZE, &[]);
        assert_eq!(drill.end.stats().spurious_timeouts, 1);
        assert!(drill.segments(SIZE).iter().all(|segment| *segment > 11));
    }
    // The same, acknowledged selectively.
    let mut drill = timed_out_in_rfc(true);
    drill.at(1_200).ack(SIZE, &[]).ack(SIZE, &[(4 * SIZE, 5 * SIZE)]);
    assert_eq!(drill.end.stats().spurious_timeouts, 1);
}

/// A window of 40 segments, of which 30 to 69 are outstanding when their first one times out.
fn timed_out_with_forty(settings: &Config, control: Option<&coupled::Config>) -> Drill {
    let rto_min = Some(Duration::from_secs(1));
    let settings = Config { tail_loss_probe: Some(false), rto_min, ..settings.clone() };
    let mut drill = Drill::open(&settings, false);
    if let Some(control) = control {
        let mss = drill.end.mss;
        let initial_cwnd = settings.resolve().expect("it is possible").initial_cwnd(mss);
        let rules = cc::Rules::Rfc;
        let setup = coupled::PathSetup {
            own: cc::Config::Reno(cc::reno::Config::default()),
            setup: cc::Setup { mss, initial_cwnd, rules, seed: 1, is_paced: false, headers: 0 },
            initial_ssthresh: u32::MAX,
            ssthresh_floor: 2,
            holds_ssthresh: true,
        };
        let member = coupled::Group::new(control.build()).join(PathId(0), &setup);
        drill.end.set_congestion_control(PathId(0), cc::Controller::Coupled(member));
    }
    drill.write(200 * SIZE).at(200);
    for acknowledged in 1..=30 {
        drill.ack(acknowledged * SIZE, &[]);
    }
    let next = drill.segments(SIZE).last().expect("a flight") + 1;
    assert_eq!((next, drill.end.cwnd()), (70, 40));
    drill
}

#[test]
fn rfc4015_3_1_step_9_the_window_holds_no_burst_after_a_spurious_timeout() {
    let coupled = coupled::Config::all();
    let rfcs = coupled.iter().map(|control| (rfc(), Some(control), false));
    for (settings, control, keeps) in [(rfc(), None, false), (linux(), None, true)].into_iter().chain(rfcs) {
        let mut drill = timed_out_with_forty(&settings, control);
        drill.at(1_500);
        assert_eq!(drill.segments(SIZE), [30]);
        // The acknowledgements of most of the flight come at once.
        drill.ack(31 * SIZE, &[]).ack(67 * SIZE, &[]);
        assert_eq!(drill.end.stats().spurious_timeouts, 1);
        // Three segments of the flight, the two that F-RTO has sent, and an initial window (section 3.4:
        // "must not be changed any further for that ACK").
        let cwnd = drill.end.cwnd();
        assert!(if keeps { cwnd >= 40 } else { cwnd == 15 }, "{control:?}: {cwnd}");
        assert!(drill.end.cc_threshold() >= 40, "pipe_prev");
    }
}

/// Step 0: `pipe_prev` is what was outstanding, or the threshold if that was larger, however large the
/// window.
#[test]
fn rfc4015_3_1_step_0_the_threshold_is_what_was_safe_before() {
    let cc = Some(cc::Config::Reno(cc::reno::Config::default()));
    let rto_min = Some(Duration::from_secs(1));
    for (outstanding, threshold) in [(4, 5), (8, 8)] {
        let settings = Config { tail_loss_probe: Some(false), rto_min, cc: cc.clone(), ..rfc() };
        let mut drill = Drill::open(&settings, false);
        drill.write(10 * SIZE).at(200).ack(0, &[(SIZE, 4 * SIZE)]).at(300).ack(10 * SIZE, &[]);
        let mut acknowledged = 10;
        for window in 5..8 {
            assert_eq!((drill.end.cwnd(), drill.end.cc_threshold()), (window, 5));
            drill.write(window * SIZE).at(200 + 50 * u64::from(window));
            for _ in 0..window {
                acknowledged += 1;
                drill.ack(acknowledged * SIZE, &[]);
            }
        }
        assert_eq!(drill.end.cwnd(), 8);
        drill.write(outstanding * SIZE).at(2_000).write(20 * SIZE);
        assert_eq!(drill.end.stats().timeouts, 1);
        drill.ack((acknowledged + 1) * SIZE, &[]).ack((acknowledged + 2) * SIZE, &[]);
        assert_eq!((drill.end.stats().spurious_timeouts, drill.end.cc_threshold()), (1, threshold));
    }
}

/// Step 9: an acknowledgement with ECN-Echo takes nothing back, and the timer learns nothing either.
#[test]
fn rfc4015_3_1_step_9_a_mark_keeps_the_reduction() {
    const SMALL: u32 = 536;
    for (echo, undos) in [(Flags::NONE, 1), (Flags::ECE, 0)] {
        let ecn = Some(EcnMode::Rfc3168);
        let mut drill = Drill::opening(&Config { tail_loss_probe: Some(false), ecn, ..rfc() }, false);
        drill.at(100).window(65_535).segment(0, 1, Flags::SYN.with(Flags::ACK).with(Flags::ECE));
        assert_eq!(drill.events, [Event::Connected]);
        drill.write(100 * SMALL).segments(SMALL);
        drill.at(1_100);
        assert_eq!(drill.segments(SMALL), [0]);
        drill.at(1_200).ack_echoing(SMALL, &[], 0, Flags::ACK);
        drill.ack_echoing(2 * SMALL, &[], 0, Flags::ACK.with(echo));
        assert_eq!(drill.end.stats().spurious_timeouts, 1);
        assert_eq!(drill.end.stats().undos, undos);
        let cwnd = drill.end.cc.limits().cwnd / SMALL;
        assert_eq!(cwnd >= 8, undos > 0, "{cwnd}");
        drill.at(1_210).ack(10 * SMALL, &[]).at(2_200).ack(11 * SMALL, &[]);
        assert_eq!(drill.end.rtt.rto() == Duration::from_secs(3), undos > 0);
    }
}

/// Settings with which D-SACKs alone show that a timeout was spurious.
fn by_dsack(settings: Config) -> Config {
    Config { f_rto: Some(false), loss_detection: Some(LossDetection::Dupacks), ..settings }
}

/// Steps 7 and 8: what a D-SACK shows, the acknowledgement of the retransmission, says nothing about the
/// other segments of the flight, which are sent again as after any timeout.
#[test]
fn rfc4015_3_1_step_7_a_late_detection_resends_what_is_missing() {
    let mut drill = timed_out_with_forty(&by_dsack(rfc()), None);
    drill.at(300).ack(30 * SIZE, &[(32 * SIZE, 33 * SIZE)]).at(1_500);
    let next = *drill.segments(SIZE).iter().max().expect("a flight") + 1;
    drill.ack(34 * SIZE, &[(30 * SIZE, 31 * SIZE)]);
    assert_eq!((drill.end.stats().undos, drill.end.stats().spurious_timeouts), (1, 1));
    assert_eq!(u64::from(drill.end.cwnd()), next - 34 + 4);
    assert_eq!(drill.segments(SIZE)[0], 34);
}

/// The same once everything is acknowledged: the threshold is the earlier one, the window as slow start has
/// it.
#[test]
fn rfc4015_3_1_step_9_holds_for_what_is_reported_after_the_recovery() {
    for (settings, keeps) in [(rfc(), false), (linux(), true)] {
        let mut drill = timed_out_with_forty(&by_dsack(settings), None);
        drill.at(300).ack(30 * SIZE, &[(32 * SIZE, 33 * SIZE)]).at(1_500);
        let next = *drill.segments(SIZE).iter().max().expect("a flight") as u32 + 1;
        drill.ack(next * SIZE, &[]);
        assert!(drill.end.cwnd() < 15 || keeps);
        drill.at(1_550).ack(next * SIZE, &[(30 * SIZE, 31 * SIZE)]);
        assert_eq!(drill.end.stats().undos, 1);
        assert!(drill.end.cc_threshold() >= 40);
        assert_eq!(drill.end.cwnd() >= 40, keeps, "{}", drill.end.cwnd());
    }
}

/// RFC 3522 section 3.2, RFC 4015 section 3.1: a timeout of a recovery that goes on is not looked at.
#[test]
fn rfc3522_3_2_a_later_timeout_of_a_recovery_is_not_taken_back() {
    const FULL: u32 = SIZE - 12;
    for (settings, undos) in [(rfc(), 0), (linux(), 1)] {
        let rto_min = Some(Duration::from_secs(1));
        let settings = Config { tail_loss_probe: Some(false), f_rto: Some(false), rto_min, ..settings };
        let mut drill = Drill::open(&settings, true);
        drill.write(10 * FULL);
        let original = drill.sent()[0].segment.timestamps.expect("it has one").value;
        drill.at(1_500);
        assert_eq!(drill.end.stats().timeouts, 1);
        // The retransmission arrives, and what follows it does not.
        drill.ack(FULL, &[]).sent();
        drill.at(3_000);
        assert!(drill.end.stats().timeouts >= 2);
        drill.ack_echoing(3 * FULL, &[], original, Flags::ACK);
        assert_eq!(drill.end.stats().spurious_timeouts, undos);
    }
}

#[test]
fn rfc4015_3_1_step_11_the_timer_learns_from_a_spurious_timeout() {
    let mut drill = timed_out_in_rfc(true);
    drill.at(1_200).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11]);
    drill.ack(2 * SIZE, &[]);
    assert_eq!(drill.end.stats().spurious_timeouts, 1);
    drill.at(1_210).ack(10 * SIZE, &[]);
    let before = drill.end.rtt.rto();
    assert!(before < Duration::from_millis(2_500), "data from before the timeout: {before}");
    // The first round-trip time of new data is 1 s: SRTT 1 s, RTTVAR 0.5 s.
    drill.at(2_200).ack(11 * SIZE, &[]);
    assert_eq!(drill.end.rtt.rto(), Duration::from_secs(3));
}

#[test]
fn rfc5682_2_1_a_duplicate_after_the_timeout_ends_f_rto_without_sack() {
    let mut drill = timed_out_in_rfc(false);
    drill.at(1_150).ack(0, &[]);
    drill.at(1_200).ack(SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [1, 2], "step 2a: slow start from the first hole");
    let mut drill = timed_out_in_rfc(true);
    drill.at(1_150).ack(0, &[(SIZE, 2 * SIZE)]);
    drill.at(1_200).ack(2 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11], "section 3.1: step 2 goes on");
}

#[test]
fn rfc5682_3_1_without_new_data_the_timeout_is_genuine() {
    let settings = Config { tail_loss_probe: Some(false), ..rfc() };
    let mut drill = Drill::open(&settings, false);
    drill.write(10 * SIZE).segments(SIZE);
    drill.at(1_100).segments(SIZE);
    drill.at(1_200).ack(3 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [3, 4], "conventional recovery");
    assert_eq!(drill.end.stats().spurious_timeouts, 0);
}

#[test]
fn rfc3522_3_2_an_old_echo_beside_a_duplicate_takes_no_timeout_back() {
    const FULL: u32 = SIZE - 12;
    for (blocks, spurious) in [(&[(0, FULL)][..], 0), (&[], 1)] {
        let settings = Config { tail_loss_probe: Some(false), ..rfc() };
        let mut drill = Drill::open(&settings, true);
        drill.write(10 * FULL);
        let echo = drill.sent()[0].segment.timestamps.expect("it has one").value;
        // Two timeouts; of one retransmission the peer reports that it had the original.
        drill.at(3_100).sent();
        drill.at(3_200).ack_echoing(3 * FULL, blocks, echo, Flags::ACK);
        assert_eq!(drill.end.stats().spurious_timeouts, spurious);
    }
}

#[test]
fn linux_takes_a_timeout_for_spurious_at_the_first_acknowledgement() {
    let mut drill = Drill::open(&without_probe(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(400).segments(SIZE);
    drill.at(500).ack(3 * SIZE, &[]);
    assert_eq!(drill.end.stats().spurious_timeouts, 1);
}

#[test]
fn rfc8985_6_3_what_was_sent_recently_is_not_lost_by_a_timeout() {
    let mut drill = Drill::open_with(&without_probe(), false, 10);
    drill.write(2 * SIZE).at(390).write(2 * SIZE).at(400);
    assert_eq!(drill.end.board.lost, 2, "not the two of 10 ms ago");
}

#[test]
fn rfc9293_3_8_3_a_silent_peer_is_given_up() {
    let settings = Config { retries: Some(3), ..without_probe() };
    let mut drill = Drill::open(&settings, false);
    drill.write(SIZE).at(20_000);
    assert_eq!(drill.events, [Event::Closed(CloseReason::Lost)]);
    assert_eq!(times(&mut drill), [100, 400, 1_000, 2_200]);
}
