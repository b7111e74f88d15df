//! RFC 9260 section 8 and RFC 7829: heartbeats, path failure and the return of paths.

use super::*;
use crate::endpoint::CloseReason;
use crate::path::{PathState, failover};
use crate::sctp::config::{Buffer, HeartbeatPeriod};
use crate::sctp::testing::holds;
use crate::time::Time;
use crate::units::Limit;

/// Whole milliseconds from each packet to the next.
fn gaps(packets: &[&Logged]) -> Vec<u64> {
    let millis = |packet: &Logged| packet.at.as_nanos() / 1_000_000;
    packets.windows(2).map(|pair| millis(pair[1]) - millis(pair[0])).collect()
}

#[test]
fn heartbeats_follow_the_interval_with_jitter() {
    // Section 8.3: HB.interval + RTO x (0.5 to 1.5).
    let mut pair = Pair::open(&rfc9260(), 2);
    pair.run_for(Duration::from_secs(600));
    for path in [0, 1] {
        let beats: Vec<&Logged> =
            pair.sent(Side::A, "heartbeat").into_iter().filter(|packet| packet.path == path).collect();
        for gap in gaps(&beats) {
            assert!((30_500..=31_500).contains(&gap), "{gap} ms");
        }
        assert!(beats.len() >= 18);
        assert!(beats.iter().all(|packet| packet.size == 56));
    }
    assert_eq!(pair.ends[0].stats().heartbeats_unanswered, 0);
}

#[test]
fn equation_4_spreads_the_interval() {
    let settings = Config {
        hb_period: Some(HeartbeatPeriod::Equation4),
        hb_interval: Some(ms(1_000)),
        rto_min: Some(ms(100)),
        ..rfc9260()
    };
    let mut pair = Pair::open(&settings, 1);
    pair.run_for(Duration::from_secs(200));
    let gaps = &gaps(&pair.sent(Side::A, "heartbeat"))[1..];
    assert!(gaps.iter().all(|gap| (600..=1_750).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 800) && gaps.iter().any(|gap| *gap > 1_400), "{gaps:?}");
}

#[test]
fn a_path_in_use_needs_no_heartbeat() {
    let mut pair = Pair::open(&Config { hb_interval: Some(ms(500)), ..rfc9260() }, 2);
    talk(&mut pair, ms(20_000), Reliability::Reliable);
    assert!(pair.sent(Side::A, "heartbeat").iter().all(|packet| packet.path == 1));
}

#[test]
fn one_timer_serves_both_paths_in_turn() {
    // The study asks the path that has been idle longest, every RTO + 0.1 s with jitter.
    let mut pair = Pair::open(&voip(5, ms(1_000)), 2);
    pair.run_for(Duration::from_secs(20));
    pair.log.clear();
    pair.run_for(Duration::from_secs(20));
    let beats = pair.sent(Side::B, "heartbeat");
    let mut others = 0;
    for (first, second) in beats.iter().zip(&beats[1..]) {
        others += usize::from(first.path != second.path);
    }
    assert!(beats.len() > 80 && others + 1 == beats.len(), "{others} of {}", beats.len());
    let gaps = gaps(&beats);
    assert!(gaps.iter().all(|gap| (110..=170).contains(gap)), "{gaps:?}");
}

#[test]
fn more_errors_than_path_max_retrans_make_a_path_inactive() {
    // Section 8.2, with idle paths: heartbeats count.
    for (max, errors) in [(0, 1), (1, 2), (3, 4)] {
        let settings = Config { path_max_retrans: Some(max), hb_interval: Some(ms(1_000)), ..rfc9260() };
        let mut pair = Pair::open(&settings, 2);
        pair.set_up(1, false);
        pair.run_for(Duration::from_secs(200));
        let down = pair.path_change(Side::A, 1, PathState::Inactive).expect("the path fails");
        let asked = pair.sent(Side::A, "heartbeat").iter().filter(|p| p.path == 1 && p.at < down).count();
        assert_eq!(asked, errors, "Path.Max.Retrans {max}");
        assert_eq!(pair.path_change(Side::A, 0, PathState::Inactive), None);
    }
}

#[test]
fn the_time_to_declare_a_path_down_is_the_sum_of_its_timeouts() {
    // Sections 6.3.3 and 8.2, RFC 7829 section 5: with a message every 100 ms, of which every RTO is
    // a multiple, the next timer starts at the timeout before.
    for (min, max) in [(100, 100), (100, 1_000), (100, 60_000), (1_000, 10_000), (1_000, 60_000)] {
        for path_max_retrans in 0..=10 {
            let settings = Config {
                path_max_retrans: Some(path_max_retrans),
                pf_max_retrans: Some(Limit::At(1)),
                association_max_retrans: Some(Limit::Off),
                sack_delay: Some(Duration::ZERO),
                rto_min: Some(ms(min)),
                rto_max: Some(ms(max)),
                ..rfc9260()
            };
            let mut pair = Pair::open(&settings, 2);
            for wire in pair.wires.iter_mut().flatten() {
                wire.delay = ms(1);
            }
            let tell = |pair: &mut Pair, count: u64| {
                for _ in 0..count {
                    pair.send_reliable(1, 100);
                    pair.run_for(ms(100));
                }
            };
            tell(&mut pair, 40);
            pair.set_up(0, false);
            let start = pair.now;
            let sum = |errors: u32| -> u64 { (0..errors).map(|k| (min << k).min(max)).sum() };
            let down = sum(path_max_retrans + 1);
            tell(&mut pair, down / 100 + 5);
            let after = |state| pair.path_change(Side::A, 0, state).map(|at| at - start);
            assert_eq!(after(PathState::Inactive), Some(ms(down)), "{path_max_retrans} {min} {max}");
            let failed = (path_max_retrans > 1).then(|| ms(sum(2)));
            assert_eq!(after(PathState::PotentiallyFailed), failed, "{path_max_retrans} {min} {max}");
        }
    }
}

#[test]
fn an_unanswered_heartbeat_is_followed_by_another_in_ns2() {
    let mut pair = Pair::open(&voip(5, ms(100)), 2);
    talk(&mut pair, ms(2_000), ONCE);
    pair.log.clear();
    pair.set_up(1, false);
    talk(&mut pair, ms(2_000), ONCE);
    let beats: Vec<&Logged> =
        pair.sent(Side::A, "heartbeat").into_iter().filter(|packet| packet.path == 1).collect();
    let gaps = gaps(&beats);
    assert!(gaps[3..].iter().all(|gap| *gap <= 100), "RTO.Max bounds the pause: {gaps:?}");
}

#[test]
fn failover_and_return() {
    // The messages of a stall of 32 s need room to wait in.
    let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::Off), ..rfc9260() }, 2);
    pair.set_up(0, false);
    let mut sent = talk(&mut pair, Duration::from_secs(150), Reliability::Reliable);
    pair.set_up(0, true);
    sent.extend(talk(&mut pair, Duration::from_secs(60), Reliability::Reliable));
    pair.run_for(ms(60_000));
    let down = pair.path_change(Side::A, 0, PathState::Inactive).expect("the path fails");
    let up = pair.path_change(Side::A, 0, PathState::Active).expect("the path returns");
    // Timeouts after 1, 2, 4, 8, 16 and 32 s.
    assert!(down > Time::from_secs(60) && down < Time::from_secs(70), "{down}");
    assert!(up > Time::from_secs(150), "{up}");
    assert!(pair.received(Side::B) == sent, "everything arrives in order");
    assert_eq!(pair.sent(Side::A, "data").last().map(|packet| packet.path), Some(0));
}

#[test]
fn a_potentially_failed_path_is_left_after_one_timeout() {
    // RFC 7829.
    let mut pair = Pair::open(&Config { pf_max_retrans: Some(Limit::At(0)), ..rfc9260() }, 2);
    talk(&mut pair, ms(1_000), Reliability::Reliable);
    let start = pair.now;
    pair.set_up(0, false);
    talk(&mut pair, ms(10_000), Reliability::Reliable);
    let suspect = pair.path_change(Side::A, 0, PathState::PotentiallyFailed).expect("suspect");
    assert!(suspect - start <= ms(1_040), "one RTO of 1 s: {}", suspect - start);
    assert!(pair.sent(Side::A, "data").iter().all(|p| p.at <= suspect || p.path == 1));
    pair.set_up(0, true);
    talk(&mut pair, ms(20_000), Reliability::Reliable);
    assert!(pair.path_change(Side::A, 0, PathState::Active).is_some(), "a heartbeat brings it back");
    assert_eq!(pair.sent(Side::A, "data").last().map(|packet| packet.path), Some(0));
    assert_eq!(pair.path_change(Side::A, 0, PathState::Inactive), None);
}

#[test]
fn linux_needs_more_path_retransmissions_than_one_for_potentially_failed() {
    for (max, expected) in [(1, false), (2, true)] {
        let mut pair = Pair::open(&Config { path_max_retrans: Some(max), ..config(Profile::Linux) }, 2);
        talk(&mut pair, ms(1_000), Reliability::Reliable);
        pair.set_up(0, false);
        talk(&mut pair, ms(10_000), Reliability::Reliable);
        let suspect = pair.path_change(Side::A, 0, PathState::PotentiallyFailed);
        assert_eq!(suspect.is_some(), expected, "Path.Max.Retrans {max}");
    }
}

#[test]
fn the_dormant_state_by_policy() {
    use failover::Dormant;
    for (dormant, silent) in [(Dormant::Hop, false), (Dormant::Stay, false), (Dormant::Silent, true)] {
        let policy = failover::Config { dormant: Some(dormant), ..failover::Config::default() };
        let settings = Config { policy: Some(path::Config::Failover(policy)), ..voip(0, ms(100)) };
        let mut pair = Pair::open(&settings, 2);
        talk(&mut pair, ms(1_000), ONCE);
        pair.set_up(0, false);
        pair.set_up(1, false);
        talk(&mut pair, ms(1_000), ONCE);
        let begun = pair.now;
        talk(&mut pair, ms(2_000), ONCE);
        let during = pair.sent(Side::A, "data").iter().filter(|packet| packet.at > begun).count();
        assert_eq!(during == 0, silent, "{dormant:?}: {during} packets");
        pair.set_up(0, true);
        pair.set_up(1, true);
        let later = talk(&mut pair, ms(2_000), ONCE);
        let received = pair.received(Side::B);
        assert!(received.contains(&later[later.len() / 2]), "{dormant:?} ends");
    }
}

#[test]
fn association_max_retrans_ends_it() {
    // Section 8.1.
    let settings = Config { association_max_retrans: Some(Limit::At(3)), ..rfc9260() };
    let mut pair = Pair::open(&settings, 1);
    let start = pair.now;
    pair.set_up(0, false);
    pair.send_reliable(1, 100);
    pair.run_for(ms(60_000));
    let (at, reason) = pair.closed_at(Side::A).expect("it ends");
    assert_eq!((at - start, reason), (Duration::from_secs(1 + 2 + 4 + 8), CloseReason::Lost));
}

#[test]
fn delay_centric_moves_to_the_faster_path_and_back() {
    let policy = path::Config::DelayCentric(path::delay_centric::Config::default());
    let mut pair = Pair::open(&Config { policy: Some(policy), ..voip(5, ms(1_000)) }, 2);
    let slow_down = |pair: &mut Pair, path: usize, delay| {
        for wire in &mut pair.wires[path] {
            wire.delay = ms(delay);
        }
    };
    slow_down(&mut pair, 0, 60);
    talk(&mut pair, ms(5_000), ONCE);
    assert!(sample(&pair, Side::A, 1).is_primary);
    slow_down(&mut pair, 1, 90);
    talk(&mut pair, ms(5_000), ONCE);
    assert!(sample(&pair, Side::A, 0).is_primary);
    assert!(pair.ends[0].stats().primary_changes >= 2);
}

#[test]
fn what_was_sent_again_clears_errors_by_profile() {
    // FreeBSD, `sctp_handle_sack`: only chunks that were sent once (`net_ack2`) clear the errors of a path.
    for (profile, kept) in [(Profile::Rfc9260, 0), (Profile::Rfc4960, 0), (Profile::FreeBsd10, 1)] {
        let mut pair = Pair::open(&Config { hb_enabled: Some(false), ..config(profile) }, 2);
        let mut left = 2;
        pair.drop_if = Box::new(move |_, _, packet| {
            let is_lost = left > 0 && holds(packet, "data");
            left -= i32::from(is_lost);
            is_lost
        });
        // Lost on the first path, lost on the second, then sent again on the first.
        pair.send_reliable(1, 500);
        pair.run_for(ms(12_000));
        assert_eq!(pair.received(Side::B).len(), 1);
        let errors =
            |pair: &Pair| pair.ends[0].routing.status.iter().map(|s| s.error_count).collect::<Vec<_>>();
        assert_eq!(errors(&pair), [kept, 1], "{profile:?}");
        assert_eq!(pair.ends[0].routing.errors_in_a_row, 0);
        pair.send_reliable(1, 500);
        pair.run_for(ms(1_000));
        assert_eq!(errors(&pair), [0, 1], "{profile:?}: this one was sent once");
    }
}
