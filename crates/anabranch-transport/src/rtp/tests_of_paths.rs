//! Two ends on several paths.

use super::Config;
use super::testing::{Pair, cbr, media_path};
use crate::endpoint::{Command, Event, Input};
use crate::flow::{PathId, Side};
use crate::path::failover::{self, RetransmitOn};
use crate::path::{self, PathState, delay_centric, heartbeat_pair, scheduler};
use crate::time::{Duration, Time};
use crate::wire::{Body, Packet};

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);

const fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn shared(scheduler: scheduler::Config) -> Config {
    Config { scheduler: Some(scheduler), ..cbr() }
}

fn one_at_a_time(policy: path::Config) -> Config {
    Config { policy: Some(policy), ..cbr() }
}

fn no_losses() -> super::testing::Lost {
    Box::new(|_, _, _| false)
}

/// Loses everything on a path, both ways, between these times.
fn outage(path: PathId, from: u64, to: u64) -> super::testing::Lost {
    Box::new(move |now, _, packet| packet.path == path && (at(from)..at(to)).contains(&now))
}

fn sorted(mut offsets: Vec<u64>) -> Vec<u64> {
    offsets.sort_unstable();
    offsets
}

fn all_until(ms: u64) -> Vec<u64> {
    (0..ms / 10).map(|packet| packet * 1_000).collect()
}

#[test]
fn a_copy_goes_on_every_path_and_the_first_one_counts() {
    // Of side A's packets on the first path every third gets lost.
    let mut place = 0;
    let lost = move |_: Time, side: Side, packet: &Packet| {
        place += usize::from(side == Side::A && media_path(packet) == Some(FIRST));
        side == Side::A && media_path(packet) == Some(FIRST) && place % 3 == 0
    };
    let mut pair = Pair::with_paths(&shared(scheduler::Config::Redundant), &[10, 30], Box::new(lost));
    pair.send_until(at(1_000));
    pair.run_until(at(1_100));
    assert_eq!(sorted(pair.received()), all_until(1_000));
    assert_eq!(pair.value(Side::A, "path0.packets_sent"), 100.0);
    assert_eq!(pair.value(Side::A, "path1.packets_sent"), 100.0);
    assert_eq!(pair.value(Side::B, "duplicates_received"), 67.0);
    assert_eq!(pair.value(Side::B, "nacks_sent"), 0.0, "the copy is waited for");
    let lost = pair.value(Side::A, "path0.packets_lost");
    assert!((29.0..=33.0).contains(&lost), "{lost}");
    assert_eq!(pair.value(Side::A, "path1.packets_lost"), 0.0);
    let delays = ["path0", "path1"].map(|path| pair.value(Side::A, &format!("{path}.mean_delay_ms")));
    assert!((delays[0] - 10.0).abs() < 1.0 && (delays[1] - 30.0).abs() < 1.0, "{delays:?}");
}

#[test]
fn packets_are_divided_by_rate_and_the_encoder_gets_the_sum() {
    let mut pair = Pair::with_paths(&shared(scheduler::Config::Proportional), &[10, 40], no_losses());
    pair.input(Side::A, Input::Command(Command::Connect));
    let target = pair.events.iter().find_map(|(_, _, event)| match event {
        Event::TargetRate(rate) => Some(rate.bits_per_sec()),
        _ => None,
    });
    assert_eq!(target, Some(2_000_000));
    pair.send_until(at(1_000));
    pair.run_until(at(1_200));
    assert_eq!(sorted(pair.received()), all_until(1_000));
    // The first packet went on the second path, too, as nothing had gone there.
    assert_eq!(pair.media_on(Time::ZERO), [50, 51]);
    assert_eq!(pair.value(Side::B, "nacks_sent"), 0.0, "what is on a slower path is not missing");
    assert_eq!(pair.value(Side::A, "packets_lost"), 0.0);
    assert_eq!(pair.value(Side::A, "unknown_reports"), 0.0);
}

#[test]
fn the_faster_path_is_used_and_the_other_one_is_probed() {
    let policy = delay_centric::Config {
        margin: Duration::from_millis(20),
        dwell: Duration::from_secs(1),
        ..delay_centric::Config::default()
    };
    let config = one_at_a_time(path::Config::DelayCentric(policy));
    let mut pair = Pair::with_paths(&config, &[40, 10], no_losses());
    pair.send_until(at(2_000));
    let change = pair.events.iter().find_map(|(when, side, event)| match event {
        Event::PrimaryChanged { from: FIRST, to: SECOND, .. } if *side == Side::A => Some(*when),
        _ => None,
    });
    let change = change.expect("the second path is faster");
    assert!(change < at(600), "{change}");
    let [first, second] = pair.media_on(change)[..] else { panic!("there are two paths") };
    assert_eq!(second, (at(2_000) - change).as_nanos().div_ceil(10_000_000) as usize);
    assert!((7..=9).contains(&first), "a probe each 200 ms: {first}");
    pair.run_until(at(2_100));
    assert_eq!(sorted(pair.received()), all_until(2_000));
    // The other way, the margin holds it back.
    pair.delays = vec![Duration::from_millis(10), Duration::from_millis(15)];
    pair.send_until(at(4_000));
    let changes = pair.events.iter().filter(|(.., event)| matches!(event, Event::PrimaryChanged { .. }));
    assert_eq!(changes.count(), 1);
}

#[test]
fn a_silent_path_is_left_and_used_again_when_it_answers() {
    let config = one_at_a_time(path::Config::Failover(failover::Config::default()));
    let mut pair = Pair::with_paths(&config, &[10, 40], outage(FIRST, 1_000, 3_000));
    pair.send_until(at(4_000));
    let states: Vec<_> = pair
        .events
        .iter()
        .filter_map(|(when, side, event)| match event {
            Event::PathChanged { path: FIRST, state } if *side == Side::A => Some((*when, *state)),
            _ => None,
        })
        .collect();
    let [(left, PathState::Inactive), (back, PathState::Active)] = states[..] else { panic!("{states:?}") };
    // The last feedback is up to 100 ms old; 500 ms and a round trip of 20 ms.
    assert!((at(1_400)..at(1_540)).contains(&left), "{left}");
    // A probe each 200 ms, feedback 100 ms later, and the round trip.
    assert!((at(3_000)..at(3_350)).contains(&back), "{back}");
    let received = pair.received();
    assert!(sorted(received.clone()).windows(2).all(|two| two[0] < two[1]), "nothing comes twice");
    assert!(received.len() > 370, "what was lost in the outage is asked for: {}", received.len());
    assert_eq!(pair.value(Side::A, "path0.failures"), 1.0);
    let on_first = pair.media_on(back)[0];
    assert!(on_first > 60, "{on_first}");
}

#[test]
fn a_backup_takes_over_what_waits() {
    let config = Config { backup: vec![1], ..shared(scheduler::Config::Proportional) };
    let mut pair = Pair::with_paths(&config, &[10, 10], outage(FIRST, 500, 9_000));
    pair.send_until(at(500));
    assert_eq!(pair.media_on(Time::ZERO)[0], 50);
    let probes = pair.media_on(Time::ZERO)[1];
    assert!((2..=3).contains(&probes), "{probes}");
    pair.send_until(at(2_000));
    let [first, second] = pair.media_on(at(1_300))[..] else { panic!("there are two paths") };
    assert!(second >= 70 && first <= 4, "{first} {second}");
}

/// On which paths what was asked for was sent again, with every tenth packet on the first path lost.
fn sent_again(retransmit_on: RetransmitOn) -> Vec<usize> {
    let failover = failover::Config { retransmit_on: Some(retransmit_on), ..failover::Config::default() };
    let config = one_at_a_time(path::Config::Failover(failover));
    let mut place = 0;
    let lost = move |_: Time, _: Side, packet: &Packet| {
        place += usize::from(media_path(packet) == Some(FIRST));
        media_path(packet) == Some(FIRST) && place % 10 == 0
    };
    let mut pair = Pair::with_paths(&config, &[10, 15], Box::new(lost));
    pair.send_until(at(1_000));
    let mut counts = vec![0; 2];
    for (_, _, packet) in &pair.sent {
        let is_again = packet.body.describe().0 == "retransmission";
        counts[packet.path.index()] += usize::from(is_again);
    }
    counts
}

#[test]
fn what_is_asked_for_is_sent_again_on_the_path_of_ones_choice() {
    let [same, other] = [RetransmitOn::Same, RetransmitOn::Alternate].map(sent_again);
    assert!(same[0] >= 9 && same[1] == 0, "{same:?}");
    assert!(other[0] == 0 && other[1] >= 9, "{other:?}");
}

#[test]
fn feedback_goes_on_the_path_that_it_is_about() {
    let mut pair = Pair::with_paths(&shared(scheduler::Config::RoundRobin), &[10, 20], no_losses());
    pair.send_until(at(1_000));
    for path in [FIRST, SECOND] {
        let reports = pair.sent.iter().filter(|(_, side, packet)| {
            let Body::Rtcp(datagram) = &packet.body else { return false };
            *side == Side::B && packet.path == path && datagram.packets[0].name() == "feedback"
        });
        let count = reports.count();
        assert!((8..=10).contains(&count), "{count}");
    }
}

#[test]
fn impossible_paths_are_one_sentence() {
    let message = |config: Config| config.check(2).unwrap_err();
    let windows = message(shared(scheduler::Config::Blest));
    assert!(windows.starts_with("scheduler compares windows, which \"rtp\" has none of"), "{windows}");
    let probes = message(one_at_a_time(path::Config::HeartbeatPair(heartbeat_pair::Config::default())));
    assert!(probes.starts_with("policy.kind sends probes of its own"), "{probes}");
    let backup = message(Config { backup: vec![1], ..cbr() });
    assert_eq!(backup, "backup needs a scheduler, such as \"proportional\"");
    let backup = message(Config { backup: vec![2], ..shared(scheduler::Config::Redundant) });
    assert_eq!(backup, "backup = 2 is not one of the flow's paths, 0 to 1");
    let weights = message(shared(scheduler::Config::Weighted(vec![1, 0])));
    assert_eq!(weights, "scheduler.weighted = 0 is too small; each must be at least 1");
    let timeout = message(Config { path_timeout: Duration::ZERO, ..cbr() });
    assert_eq!(timeout, "path_timeout = \"0 s\" is out of range; it must be from 1 ms to 10 s");
}
