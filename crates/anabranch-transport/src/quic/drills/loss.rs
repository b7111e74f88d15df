//! RFC 9002: thresholds, probe timeouts, persistent congestion, and recovery.

use crate::quic::Config;
use crate::quic::testing::Drill;
use crate::time::Time;
use crate::wire::quic::Frame;

/// An open connection whose window and pace let everything out.
fn wide() -> Drill {
    let config = Config { initial_window: Some(100), pacing: Some(false), ..Config::default() };
    Drill::open(&config)
}

/// Sends `count` datagrams of data at this time and gives their numbers.
fn burst(drill: &mut Drill, millis: u64, count: u32) -> Vec<u64> {
    drill.at(millis);
    drill.sent_numbers();
    drill.write(count * 1_100);
    drill.sent_numbers()
}

/// Section 6.1.1: a packet is lost when one three behind it is acknowledged, and not before.
#[test]
fn three_packets_behind_is_lost() {
    let mut drill = wide();
    let numbers = burst(&mut drill, 200, 8);
    let first = numbers[0];
    drill.at(300);
    drill.ack(&[(first + 2, first + 2)]);
    assert_eq!(drill.end.stats().packets_lost, 0);
    assert_eq!(drill.sent_numbers(), [0; 0]);
    drill.ack(&[(first + 2, first + 3)]);
    assert_eq!(drill.end.stats().packets_lost, 1, "the first one");
    let again: Vec<_> = drill.sent().iter().flat_map(super::super::testing::Logged::data).collect();
    assert_eq!(again[0].1, 0, "it leaves again");
    assert_eq!(drill.end.stats().loss_events, 1);
}

/// Section 6.1.2: 9/8 round trips after it was sent a packet is lost if a later one has arrived.
#[test]
fn a_packet_is_lost_by_time() {
    let mut drill = wide();
    let first = burst(&mut drill, 200, 1)[0];
    burst(&mut drill, 201, 1);
    drill.at(301);
    drill.ack(&[(first + 1, first + 1)]);
    // The round trip is 100 ms.
    drill.at(312);
    assert_eq!(drill.end.stats().packets_lost, 0);
    drill.at(313);
    assert_eq!((drill.end.stats().packets_lost, drill.end.stats().timeouts), (1, 0));
}

/// Appendix A.10: what was lost by time has no timer any more, also where nothing is sent in its place (neqo
/// issue 621).
#[test]
fn what_was_lost_has_no_timer() {
    let mut drill = Drill::open(&Config { datagrams: Some(true), ..Config::default() });
    let mut numbers = Vec::new();
    for millis in [1_000, 1_001] {
        drill.at(millis);
        drill.sent();
        let message = crate::flow::Payload { offset: 0, length: 100 };
        drill.input(crate::endpoint::Input::Command(super::super::testing::send_unordered(message)));
        numbers.extend(drill.sent_numbers());
    }
    drill.at(1_101);
    drill.ack(&[(numbers[1], numbers[1])]);
    assert!(drill.end.paths[0].space.loss_time.is_some());
    drill.at(1_120);
    assert_eq!(drill.end.stats().packets_lost, 1);
    assert!(drill.end.paths[0].space.loss_time.is_none());
    drill.at(9_000);
    assert_eq!((drill.end.stats().packets_lost, drill.end.stats().timeouts), (1, 0));
    assert_eq!(drill.sent_numbers(), [0; 0]);
}

/// Section 6.1: however late it is, a packet is lost only once one behind it has arrived (neqo pull request
/// 2492).
#[test]
fn nothing_is_lost_before_an_acknowledgement() {
    let mut drill = Drill::opening(&Config::default());
    drill.at(5_000);
    assert!(drill.end.stats().timeouts > 1);
    assert_eq!(drill.end.stats().packets_lost, 0);
}

/// Sections 6.2.1 and 6.2.4: two packets after smoothed + 4 x variation + the peer's delay, then doubled.
#[test]
fn a_lost_tail_is_probed() {
    let mut drill = wide();
    burst(&mut drill, 1_000, 3);
    let timeout = drill.end.probe_timeout(0).as_nanos() / 1_000_000;
    drill.at(1_000 + timeout - 1);
    assert_eq!(drill.sent_numbers(), [0; 0]);
    drill.at(1_000 + timeout + 1);
    let sent = drill.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].data()[0].1, 0, "the oldest data");
    assert_eq!(drill.end.stats().packets_lost, 0, "a timeout is no loss (section 6.2)");
    drill.at(1_000 + 3 * timeout + 3);
    assert_eq!(drill.sent().len(), 2, "doubled");
    assert_eq!((drill.end.stats().timeouts, drill.end.paths[0].rtt.back_offs()), (2, 2));
    let last = drill.end.paths[0].space.next - 1;
    drill.ack(&[(last, last)]);
    assert_eq!(drill.end.paths[0].rtt.back_offs(), 0);
}

/// Appendix A.7: what comes late, but before the timer is served, ends the wait; no timeout is counted.
#[test]
fn an_acknowledgement_ends_a_wait_that_is_over() {
    let mut drill = wide();
    let numbers = burst(&mut drill, 1_000, 2);
    let timeout = drill.end.probe_timeout(0).as_nanos() / 1_000_000;
    drill.now = Time::from_millis(1_000 + timeout + 5);
    drill.ack(&[(numbers[0], numbers[1])]);
    assert_eq!((drill.end.stats().timeouts, drill.end.paths[0].rtt.back_offs()), (0, 0));
    assert_eq!(drill.sent_numbers(), [0; 0]);
}

/// Section 6.2.4: what is new is sent instead, if there is some.
#[test]
fn a_probe_carries_new_data_if_there_is_some() {
    let config = Config { initial_window: Some(2), pacing: Some(false), ..Config::default() };
    let mut drill = Drill::open(&config);
    drill.at(1_000);
    drill.sent();
    drill.write(10_000);
    let data: Vec<_> = drill.sent().iter().flat_map(super::super::testing::Logged::data).collect();
    assert_eq!(data.len(), 2, "the window");
    drill.at(1_700);
    let probes: Vec<_> = drill.sent().iter().flat_map(super::super::testing::Logged::data).collect();
    assert_eq!(probes[0].1, data[1].1 + u64::from(data[1].2));
    assert_eq!(probes.len(), 2);
    assert!(drill.end.paths[0].congestion.in_flight > 2_400, "probes are beyond the window (section 7.5)");
}

/// Section 6.2.4: both probes carry what is outstanding, also when one packet has room for all of it.
#[test]
fn both_probes_carry_what_is_outstanding() {
    let mut drill = wide();
    drill.at(1_000);
    drill.sent();
    drill.write(100);
    drill.sent();
    drill.at(1_700);
    let probes = drill.sent();
    let data: Vec<_> = probes.iter().map(super::super::testing::Logged::data).collect();
    assert_eq!(data, [[(0, 0, 100)], [(0, 0, 100)]]);
}

/// Section 6.2.4: where there is nothing to send again, a single packet with a PING leaves.
#[test]
fn one_ping_probes_where_there_is_nothing_to_send() {
    let mut drill = Drill::open(&Config { datagrams: Some(true), ..Config::default() });
    drill.at(1_000);
    drill.sent();
    let message = crate::flow::Payload { offset: 0, length: 100 };
    drill.input(crate::endpoint::Input::Command(super::super::testing::send_unordered(message)));
    assert_eq!(drill.sent().len(), 1);
    drill.at(1_700);
    assert_eq!(drill.frames(), [Frame::Ping], "a message is not sent again (RFC 9221 section 5)");
}

/// Section 5.1: only the newest packet gives a sample, and only if something of what is acknowledged elicits.
#[test]
fn samples_are_of_the_newest_packet() {
    let mut drill = wide();
    let first = burst(&mut drill, 1_000, 4)[0];
    drill.at(1_050);
    drill.ack(&[(first + 1, first + 1)]);
    let rtt = drill.end.paths[0].rtt;
    assert_eq!(rtt.latest().as_nanos(), 50_000_000);
    drill.at(1_090);
    drill.ack(&[(first, first + 1)]);
    assert_eq!(drill.end.paths[0].rtt.latest(), rtt.latest());
}

/// Section 7.3.2: losses of one flight reduce the window once.
#[test]
fn the_window_is_reduced_once_in_a_period_of_recovery() {
    let mut drill = wide();
    let first = burst(&mut drill, 200, 20)[0];
    let window = drill.end.paths[0].congestion.window();
    drill.at(300);
    drill.ack(&[(first + 3, first + 3)]);
    let reduced = drill.end.paths[0].congestion.window();
    assert!(reduced < window);
    drill.ack(&[(first + 7, first + 7), (first + 3, first + 3)]);
    assert_eq!(drill.end.paths[0].congestion.window(), reduced);
    assert_eq!((drill.end.stats().loss_events, drill.end.stats().packets_lost), (1, 4));
    // A packet that was sent in the period ends it.
    let last = drill.end.paths[0].space.next - 1;
    assert!(drill.end.paths[0].congestion.is_recovering());
    drill.at(400);
    drill.ack(&[(last, last), (first + 8, first + 19)]);
    assert!(!drill.end.paths[0].congestion.is_recovering());
}

/// Section 7.6: everything that was sent for three probe timeouts is lost.
#[test]
fn persistent_congestion_leaves_the_least_window() {
    let mut drill = wide();
    burst(&mut drill, 200, 10);
    // A round trip after the fifth probe.
    let timeout = drill.end.probe_timeout(0).as_nanos() / 1_000_000;
    drill.at(200 + 31 * timeout + 100);
    assert_eq!(drill.end.stats().timeouts, 5);
    let last = drill.end.paths[0].space.next - 1;
    drill.ack(&[(last, last)]);
    assert_eq!(drill.end.stats().persistent_congestions, 1);
    assert_eq!(drill.end.paths[0].congestion.window(), 2 * 1_200);
}

/// Section 7.6.2: what arrived in between shows that congestion was not persistent.
#[test]
fn an_arrival_in_between_ends_persistence() {
    let mut drill = wide();
    let first = burst(&mut drill, 200, 10)[0];
    drill.at(10_000);
    let last = drill.end.paths[0].space.next - 1;
    // The last probes but one arrived.
    let ranges: Vec<_> = (first + 10..=last).rev().step_by(2).map(|number| (number, number)).collect();
    drill.ack(&ranges);
    assert!(drill.end.stats().packets_lost > 10);
    assert_eq!(drill.end.stats().persistent_congestions, 0);
}

/// A packet that arrives after it was taken for lost: its data is not sent again (RFC 9000 section 13.3).
#[test]
fn a_late_packet_is_no_loss() {
    let mut drill = wide();
    let first = burst(&mut drill, 200, 20)[0];
    // The window, which has shrunk, lets nothing out.
    drill.at(300);
    drill.ack(&[(first + 3, first + 3)]);
    drill.ack(&[(first, first + 3)]);
    assert_eq!((drill.end.stats().packets_lost, drill.end.stats().spurious_losses), (1, 1));
    assert!(!drill.end.streams.get(0).unwrap().send.as_ref().unwrap().acknowledged.is_multiple_of(1_000));
}

/// Section 13.1 of RFC 9000: an acknowledgement of a packet that was not sent.
#[test]
fn an_acknowledgement_of_nothing_is_a_violation() {
    let mut drill = wide();
    let next = drill.end.paths[0].space.next;
    drill.ack(&[(next, next)]);
    assert_eq!(drill.violation(), Some(crate::quic::code::PROTOCOL_VIOLATION));
    let close = drill.frames().into_iter().find(|frame| matches!(frame, Frame::ConnectionClose { .. }));
    assert!(close.is_some());
}
