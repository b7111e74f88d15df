//! RTCP that no peer would send is dropped and counted.

use super::Config;
use super::testing::{Pair, cbr};
use crate::endpoint::Input;
use crate::flow::{Ecn, PathId, Side};
use crate::path::scheduler;
use crate::time::{Duration, Time};
use crate::wire::rtcp::{self, CongestionFeedback, MOST_METRICS, Metric, Nack, StreamReport};
use crate::wire::{Body, Packet};

/// The sources of the ends' media.
const A: u32 = 49_152;
const B: u32 = 5_004;

fn deliver(pair: &mut Pair, path: u8, packet: rtcp::Packet) {
    let datagram = rtcp::Datagram { source_port: 5_004, destination_port: 49_152, packets: vec![packet] };
    let body = Body::Rtcp(Box::new(datagram));
    let packet = Packet { path: PathId(path), ecn: Ecn::NotEct, size: 100, body };
    pair.input(Side::A, Input::Packet(Box::new(packet)));
}

fn feedback(sender: u32, ssrc: u32, begin: u16, count: usize, made: Time) -> rtcp::Packet {
    let metrics = vec![Metric::arrived(Ecn::NotEct, 0x1fff); count];
    let streams = vec![StreamReport { ssrc, begin, metrics }];
    let timestamp = (u128::from(made.as_nanos()) * 65_536 / 1_000_000_000) as u32;
    rtcp::Packet::CongestionFeedback(CongestionFeedback { sender, streams, timestamp })
}

/// An end that has sent 50 packets on one path or on two, over a network that brings nothing back.
fn sender(config: &Config, paths: usize) -> Pair {
    let lost = |_: Time, side: Side, _: &Packet| side == Side::B;
    let mut pair = Pair::with_paths(config, &[10, 20][..paths], Box::new(lost));
    pair.send(0, 50);
    pair.run_until(Time::from_secs(1));
    pair
}

/// How much a counter of side A grows by what a test does.
fn growth(pair: &mut Pair, counter: &str, test: impl FnOnce(&mut Pair)) -> f64 {
    let before = pair.value(Side::A, counter);
    test(pair);
    pair.value(Side::A, counter) - before
}

fn two_paths() -> Config {
    Config { scheduler: Some(scheduler::Config::Proportional), ..cbr() }
}

#[test]
fn what_strangers_say_is_not_heard() {
    for (config, paths) in [(cbr(), 1), (two_paths(), 2)] {
        let mut pair = sender(&config, paths);
        let now = pair.now;
        for path in 0..paths as u8 {
            let strangers = growth(&mut pair, "strangers", |pair| {
                deliver(pair, path, feedback(7, A, 0, 10, now));
                deliver(pair, path, feedback(B, 7, 0, 10, now));
                deliver(pair, path, rtcp::Packet::Nack(Nack::of(7, A, [0, 1])));
                deliver(pair, path, rtcp::Packet::Nack(Nack::of(B, 7, [0, 1])));
                deliver(pair, path, rtcp::Packet::PictureLoss { sender: 7, media: A });
                deliver(pair, path, rtcp::Packet::ReceiverReport { sender: 7, blocks: Vec::new() });
            });
            assert_eq!(strangers, 6.0);
        }
        assert_eq!(pair.value(Side::A, "retransmissions_sent"), 0.0);
        assert_eq!(pair.value(Side::A, "key_frame_requests_received"), 0.0);
        // A path that there is not has no state to change.
        deliver(&mut pair, 9, feedback(B, A, 0, 10, now));
    }
}

#[test]
fn a_report_on_too_many_packets_is_dropped() {
    let mut pair = sender(&cbr(), 1);
    let now = pair.now;
    let most = usize::from(MOST_METRICS);
    let too_many = feedback(B, A, 0, most + 1, now);
    assert_eq!(growth(&mut pair, "strangers", |pair| deliver(pair, 0, too_many)), 1.0);
    assert!(pair.value(Side::A, "mean_delay_ms").is_nan(), "none is known to have arrived");
    let as_many = feedback(B, A, 0, most, now);
    let unknown = growth(&mut pair, "unknown_reports", |pair| deliver(pair, 0, as_many));
    assert_eq!(unknown, (most - 50) as f64);
}

#[test]
fn feedback_older_than_the_history_is_about_nothing() {
    for (config, paths) in [(cbr(), 1), (two_paths(), 2)] {
        let mut pair = sender(&config, paths);
        pair.run_until(Time::from_secs(8));
        pair.send(50_000, 2);
        let now = pair.now;
        let old = growth(&mut pair, "unknown_reports", |pair| {
            for path in 0..paths as u8 {
                deliver(pair, path, feedback(B, A, 0, 40, now));
            }
        });
        assert_eq!(old, 40.0 * paths as f64, "what was sent 8 s ago is forgotten");
        let denied = growth(&mut pair, "retransmissions_denied", |pair| {
            deliver(pair, 0, rtcp::Packet::Nack(Nack::of(B, A, 0..40)));
        });
        assert_eq!(denied, 40.0);
    }
}

/// It costs no more than the budget.
#[test]
fn a_storm_of_nacks_is_denied() {
    for (config, paths) in [(cbr(), 1), (two_paths(), 2)] {
        let config = Config { retransmission_share: 0.02, ..config };
        let mut pair = sender(&config, paths);
        for round in 0..100 {
            deliver(
                &mut pair,
                (round % paths) as u8,
                rtcp::Packet::Nack(Nack::of(B, A, (0..u16::MAX).step_by(7))),
            );
        }
        pair.run_until(Time::from_secs(2));
        // 2 % of 1 Mbit/s on each path, half a second at first, and one more second.
        assert!(pair.value(Side::A, "retransmissions_sent") <= 2.0 * paths as f64);
        assert!(pair.value(Side::A, "retransmissions_denied") > 1_000.0);
    }
}

#[test]
fn a_clock_that_steps_costs_one_report() {
    for (config, paths) in [(cbr(), 1), (two_paths(), 2)] {
        let mut pair = Pair::with_paths(&config, &[10, 20][..paths], Box::new(|_, _, _| false));
        pair.send_until(Time::from_secs(1));
        let before = pair.value(Side::A, "mean_delay_ms");
        assert_eq!(pair.value(Side::A, "unknown_reports"), 0.0);
        // From now on the peer's clock is an hour ahead, and what it says of packets in the last interval is
        // dropped once on each path.
        while pair.now < Time::from_secs(3) {
            pair.send_until(pair.now + Duration::from_millis(10));
            for (_, packet) in pair.network.values_mut() {
                let Body::Rtcp(datagram) = &mut packet.body else { continue };
                for rtcp in &mut datagram.packets {
                    let rtcp::Packet::CongestionFeedback(feedback) = rtcp else { continue };
                    if feedback.timestamp < 3_600 << 16 {
                        feedback.timestamp += 3_600 << 16;
                    }
                }
            }
        }
        let unknown = pair.value(Side::A, "unknown_reports");
        assert!((1.0..=40.0 * paths as f64).contains(&unknown), "{unknown}");
        let after = pair.value(Side::A, "mean_delay_ms");
        assert!((after - before).abs() < 2.0, "{after} {before}");
    }
}
