//! Several paths at the same time (RFC 10069).

use crate::endpoint::{Command, Event};
use crate::flow::{PathId, Side};
use crate::path::{PathState, scheduler};
use crate::quic::Config;
use crate::quic::config::AckPath;
use crate::quic::errors::code;
use crate::quic::path::Standing;
use crate::quic::testing::{Drill, Logged, Pair, Wire, ms};
use crate::time::Duration;
use crate::wire::quic::{Frame, Level};

const SECOND: PathId = PathId(1);

fn two() -> Config {
    Config { multipath: Some(true), ..Config::default() }
}

fn has(logged: &Logged, is_meant: impl Fn(&Frame) -> bool) -> bool {
    logged.frames().any(is_meant)
}

/// Bytes of streams that this end sent on a path.
fn bytes_on(pair: &Pair, side: Side, path: PathId) -> u64 {
    let sent = pair.from(side).into_iter().filter(|logged| logged.path == path);
    sent.flat_map(Logged::data).map(|(_, _, length)| u64::from(length)).sum()
}

/// Sections 2.1, 3.1 and 3.2.1: both ends issue IDs for path 1, and the client opens it with a challenge,
/// which the server answers there with one of its own.
#[test]
fn section_3_1_a_client_opens_a_path() {
    let mut pair = Pair::new(&two());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(500));
    for side in [Side::A, Side::B] {
        let sent = pair.from(side);
        let issued = sent.iter().flat_map(|logged| logged.frames()).filter_map(|frame| match frame {
            Frame::NewConnectionId { path: Some(1), sequence, .. } => Some(*sequence),
            _ => None,
        });
        let issued: Vec<_> = issued.collect();
        assert_eq!(issued, [0, 1], "{side:?}");
        assert!(sent.iter().any(|logged| logged.datagram.packets().iter().any(|packet| {
            packet.parameters.as_ref().is_some_and(|parameters| parameters.initial_max_path_id == Some(1))
        })));
    }
    let on_second: Vec<_> = pair.log.iter().filter(|logged| logged.path == SECOND).collect();
    assert_eq!((on_second[0].from, on_second[0].bytes), (Side::A, 1_200));
    assert!(has(on_second[0], |frame| matches!(frame, Frame::PathChallenge { .. })));
    assert!(
        on_second.iter().all(|logged| logged.datagram.packets().iter().all(|packet| packet.path_id == 1))
    );
    assert_eq!(on_second[0].datagram.packets()[0].number, 0, "each path has its own numbers");
    let answer = on_second.iter().find(|logged| logged.from == Side::B).expect("the server answers");
    assert!(has(answer, |frame| matches!(frame, Frame::PathResponse { .. })));
    assert!(has(answer, |frame| matches!(frame, Frame::PathChallenge { .. })));
    assert!(has(answer, |frame| matches!(frame, Frame::Ack(ack) if ack.path == Some(1))));
    assert_eq!(answer.bytes, 1_200);
    for end in &pair.ends {
        assert!(end.paths[1].is_ready && end.paths[1].route.is_validated);
        assert_eq!(end.violation(), None);
    }
}

/// Section 2.1: where one end does not want several paths, no frame of them is sent.
#[test]
fn section_2_1_both_ends_must_want_it() {
    for configs in [[&two(), &Config::default()], [&Config::default(), &two()]] {
        let mut pair = Pair::seeded(configs, 1);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 100_000);
        pair.run_for(ms(2_000));
        assert_eq!(pair.received_bytes(Side::B), 100_000);
        assert!(pair.log.iter().all(|logged| logged.path == PathId(0)));
        let is_of_paths = |frame: &Frame| match frame {
            Frame::Ack(ack) => ack.path.is_some(),
            Frame::NewConnectionId { path, .. } | Frame::RetireConnectionId { path, .. } => path.is_some(),
            _ => false,
        };
        assert!(!pair.log.iter().any(|logged| has(logged, is_of_paths)));
    }
}

/// Data goes on both paths, each with numbers of its own, and is acknowledged where it came.
#[test]
fn data_uses_both_paths() {
    let mut pair = Pair::open(&two());
    pair.run_for(ms(300));
    pair.log.clear();
    pair.write(Side::A, 2_000_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 2_000_000);
    let [first, second] = [PathId(0), SECOND].map(|path| bytes_on(&pair, Side::A, path));
    assert!(first > 400_000 && second > 400_000, "{first} {second}");
    for logged in pair.from(Side::B) {
        let own = u32::from(logged.path.0);
        assert!(!has(logged, |frame| matches!(frame, Frame::Ack(ack) if ack.path != Some(own))));
    }
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(20));
    assert!(pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
}

/// Section 5.4, figure "Example of ACK delays using multiple paths": delays of 50 and 300 ms one way.
#[test]
fn section_5_4_round_trips_follow_both_paths() {
    let cases = [
        (AckPath::Same, 0, [100, 600]),
        (AckPath::First, 0, [100, 350]),
        (AckPath::Fastest, 0, [100, 350]),
        // The handshake's path is the slow one.
        (AckPath::First, 1, [600, 350]),
        (AckPath::Fastest, 1, [350, 100]),
    ];
    for (ack_path, slow_first, expected) in cases {
        let config =
            Config { ack_path: Some(ack_path), scheduler: Some(scheduler::Config::RoundRobin), ..two() };
        let mut pair = Pair::new(&config);
        let wire = |delay| Wire { delay: ms(delay), ..Wire::default() };
        let delays = if slow_first == 0 { [50, 300] } else { [300, 50] };
        pair.wires.others = vec![(PathId(0), wire(delays[0])), (SECOND, wire(delays[1]))];
        pair.command(Side::A, Command::Connect);
        pair.run_for(Duration::from_secs(3));
        for _ in 0..400 {
            pair.write(Side::A, 2_400);
            pair.run_for(ms(50));
        }
        let found = [0, 1].map(|place: usize| {
            let rtt = pair.ends[0].paths[place].rtt.srtt().expect("it is measured");
            (rtt.as_millis_f64() / 10.0).round() as u64 * 10
        });
        assert_eq!(found, expected, "{ack_path:?} {slow_first}");
    }
}

/// Section 5.3: window, losses and what is on its way are of one path (neqo pull request 1093).
#[test]
fn section_5_3_each_path_has_its_window() {
    let scheduler = Some(scheduler::Config::RoundRobin);
    let mut pair = Pair::open(&Config { scheduler, ..two() });
    pair.run_for(ms(300));
    pair.write(Side::A, 3_000_000);
    pair.run_for(ms(200));
    let before = [0, 1].map(|place: usize| pair.ends[0].paths[place].congestion.window());
    pair.wires.dead.push(SECOND);
    for _ in 0..20 {
        pair.run_for(ms(50));
        for path in &pair.ends[0].paths[..2] {
            let outstanding: u32 = path.space.sent.iter().map(|sent| sent.size).sum();
            assert_eq!(path.congestion.in_flight, outstanding);
        }
    }
    let after = [0, 1].map(|place: usize| pair.ends[0].paths[place].congestion.window());
    // What was on its way back still let the dead path grow.
    assert!(after[0] > 4 * before[0] && after[1] < 2 * before[1], "{before:?} {after:?}");
}

/// A path ID is not a pair of addresses: when those of one path change, its numbers and its connection ID go
/// on, and the other path notices nothing (quicly pull request 670).
#[test]
fn a_path_that_moves_is_the_same_path() {
    let scheduler = Some(scheduler::Config::RoundRobin);
    let mut pair = Pair::open(&Config { scheduler, ..two() });
    pair.run_for(ms(300));
    pair.write(Side::A, 1_000_000);
    pair.run_for(ms(200));
    let state = |pair: &Pair| {
        [0, 1].map(|place: usize| {
            let path = &pair.ends[1].paths[place];
            (path.route.address, path.peer_ids.current(), path.space.arrived.largest())
        })
    };
    let before = state(&pair);
    pair.command(Side::A, Command::Rebind { path: SECOND, address: true });
    pair.run_for(Duration::from_secs(10));
    let after = state(&pair);
    assert_eq!(pair.received_bytes(Side::B), 1_000_000);
    assert_eq!([before[0].0 == after[0].0, before[1].0 == after[1].0], [true, false]);
    assert_eq!([before[0].1, before[1].1], [after[0].1, after[1].1]);
    assert!(after[0].2 > before[0].2 && after[1].2 > before[1].2, "{before:?} {after:?}");
    assert_eq!(pair.ends[1].paths.len(), 2);
}

/// Section 3.3: a backup carries nothing while the other path works, and the peer hears that it is one.
#[test]
fn section_3_3_a_backup_waits() {
    let mut pair = Pair::new(&Config { backup: vec![1], ..two() });
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(500));
    let is_wish = |frame: &Frame| matches!(frame, Frame::PathStatus { path: 1, is_available: false, .. });
    assert_eq!(pair.from(Side::A).iter().filter(|logged| has(logged, is_wish)).count(), 1);
    pair.write(Side::A, 500_000);
    pair.run_for(Duration::from_secs(5));
    assert_eq!((pair.received_bytes(Side::B), bytes_on(&pair, Side::A, SECOND)), (500_000, 0));
    pair.wires.dead.push(PathId(0));
    pair.write(Side::A, 500_000);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.received_bytes(Side::B), 1_000_000);
    assert!(bytes_on(&pair, Side::A, SECOND) >= 500_000);
}

/// Section 5.7: what is outstanding on a path that falls silent goes on the other one after a probe timeout,
/// and the path is used again when it answers.
#[test]
fn section_5_7_a_silent_path_loses_nothing() {
    for silent in [PathId(0), SECOND] {
        let scheduler = Some(scheduler::Config::RoundRobin);
        let keep_alive = Some(Duration::from_secs(5));
        let mut pair = Pair::open(&Config { keep_alive, scheduler, ..two() });
        pair.run_for(ms(300));
        pair.write(Side::A, 3_000_000);
        pair.run_for(ms(300));
        pair.wires.dead.push(silent);
        pair.log.clear();
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.received_bytes(Side::B), 3_000_000, "{silent:?}");
        let state = |state| Event::PathChanged { path: silent, state };
        assert!(pair.heard(Side::A, &state(PathState::PotentiallyFailed)));
        pair.wires.dead.clear();
        // A probe finds that the path is back, however long the timeouts have become.
        pair.run_for(Duration::from_secs(120));
        assert!(pair.heard(Side::A, &state(PathState::Active)), "{silent:?}");
        pair.log.clear();
        pair.write(Side::A, 1_000_000);
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.received_bytes(Side::B), 4_000_000);
        // The window of the other one, which has lost nothing, has room for nearly all.
        assert!(bytes_on(&pair, Side::A, silent) > 0, "{silent:?}");
    }
}

/// Section 5.7: while one path is dead, the other one loses packets for some probe timeouts, so that neither
/// answers. What then comes through is acknowledged where it came, and not on the dead path.
#[test]
fn section_5_7_two_silent_paths_do_not_wait_for_each_other() {
    for ack_path in [AckPath::Same, AckPath::Fastest, AckPath::First] {
        for dead in [PathId(0), SECOND] {
            let mut pair = Pair::open(&Config { ack_path: Some(ack_path), ..two() });
            pair.run_for(ms(300));
            pair.wires.dead.push(dead);
            for round in 1..=20 {
                // Both ends send, and hear nothing.
                pair.wires.dead.push(PathId(1 - dead.0));
                pair.write(Side::A, 10_000);
                pair.write(Side::B, 10_000);
                pair.run_for(ms(500));
                pair.wires.dead.pop();
                pair.run_for(Duration::from_secs(4));
                for side in [Side::A, Side::B] {
                    assert_eq!(pair.received_bytes(side), round * 10_000, "{ack_path:?} {dead:?} {side:?}");
                }
            }
        }
    }
}

/// Section 3.4: a path that is given up is given up by both ends, and nothing is sent there any more.
#[test]
fn section_3_4_both_ends_abandon_a_path() {
    for (side, place) in [(Side::A, 0), (Side::A, 1), (Side::B, 1)] {
        let mut pair = Pair::open(&two());
        pair.run_for(ms(300));
        pair.write(Side::A, 2_000_000);
        pair.run_for(ms(200));
        pair.log.clear();
        let now = pair.now;
        pair.act(side, |end| end.abandon(now, place, code::NO_ERROR));
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.received_bytes(Side::B), 2_000_000);
        for end in &pair.ends {
            assert_eq!(end.paths[place].standing, Standing::Abandoned);
            assert_eq!(end.violation(), None);
        }
        let path = PathId(place as u8);
        for side in [Side::A, Side::B] {
            let sent = pair.from(side);
            let is_end =
                |frame: &Frame| matches!(frame, Frame::PathAbandon { path, .. } if *path == place as u32);
            let said = sent.iter().position(|logged| has(logged, is_end)).expect("it is said");
            assert_ne!(sent[said].path, path, "on the other path");
            assert!(sent[said..].iter().all(|logged| logged.path != path));
        }
        let now = pair.now;
        pair.act(side, |end| end.abandon(now, 1 - place, code::NO_ERROR));
        pair.run_for(Duration::from_secs(60));
        assert!(pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some(), "it was the last one");
    }
}

/// Section 3.1: a path that cannot be validated is given up, and the connection goes on.
#[test]
fn section_3_1_a_path_that_does_not_work_is_given_up() {
    let mut pair = Pair::new(&two());
    pair.wires.dead.push(SECOND);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 500_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 500_000);
    assert_eq!(bytes_on(&pair, Side::A, SECOND), 0);
    assert!(pair.ends.iter().all(|end| end.paths[1].standing == Standing::Abandoned));
}

/// Duplicates arrive once.
#[test]
fn what_is_sent_on_both_paths_arrives_once() {
    let mut pair = Pair::open(&Config { scheduler: Some(scheduler::Config::Redundant), ..two() });
    pair.run_for(ms(300));
    pair.log.clear();
    pair.write(Side::A, 500_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 500_000);
    let sent = [PathId(0), SECOND].map(|path| bytes_on(&pair, Side::A, path));
    assert!(sent.iter().all(|bytes| *bytes > 450_000), "{sent:?}");
}

/// Section 2.5: keys are updated over both paths.
#[test]
fn section_2_5_keys_are_updated_over_all_paths() {
    let mut pair = Pair::open(&Config { key_update: Some(200), ..two() });
    for _ in 0..60 {
        pair.write(Side::A, 50_000);
        pair.run_for(ms(500));
    }
    assert_eq!(pair.received_bytes(Side::B), 3_000_000);
    let updates = pair.ends[0].key_updates();
    assert!(updates > 3, "{updates}");
    assert_eq!(updates, pair.ends[1].key_updates());
    assert!(pair.ends.iter().all(|end| end.violation().is_none()));
}

/// Section 4: frames with path IDs above the limit, before the handshake is over, or where there are no
/// several paths.
#[test]
fn section_4_frames_that_break_a_rule_end_the_connection() {
    let frames = || {
        [
            Frame::PathAbandon { path: 7, code: 0 },
            Frame::PathStatus { path: 7, sequence: 1, is_available: true },
            Frame::PathCidsBlocked { path: 1, next: 9 },
            Frame::PathsBlocked { limit: 7 },
            Frame::MaxPathId { limit: 0 },
            Frame::RetireConnectionId { path: Some(7), sequence: 0 },
        ]
    };
    for frame in frames() {
        let mut drill = Drill::open_with(&two(), |peer| peer.initial_max_path_id = Some(1));
        drill.frame(frame.clone());
        assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION), "{frame:?}");
        let mut drill = Drill::open(&Config::default());
        drill.frame(frame.clone());
        assert_eq!(drill.violation(), Some(code::FRAME_ENCODING_ERROR), "{frame:?}");
        let mut drill = Drill::opening(&two());
        drill.at(100).packet(Level::Initial, vec![frame.clone()]);
        assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION), "{frame:?}");
    }
    // What is about a path that is over is ignored.
    let mut drill = Drill::open_with(&two(), |peer| peer.initial_max_path_id = Some(1));
    drill.frame(Frame::PathAbandon { path: 1, code: 0 });
    drill.frame(Frame::PathStatus { path: 1, sequence: 1, is_available: true });
    assert_eq!(drill.violation(), None);
    assert_eq!(drill.end.paths[1].standing, Standing::Abandoned);
}

/// Section 4.6: a limit that grows permits the paths up to this end's own, and issues IDs for them.
#[test]
fn section_4_6_a_limit_grows() {
    let mut drill = Drill::open_with(&two(), |peer| peer.initial_max_path_id = Some(0));
    assert_eq!(drill.end.paths.len(), 1);
    for limit in [0, 1, 1_000_000] {
        drill.frame(Frame::MaxPathId { limit });
        assert_eq!(drill.end.paths.len(), if limit == 0 { 1 } else { 2 });
    }
    assert_eq!(drill.violation(), None);
}

/// Section 3.3: each wish about a path has a number of its own, and the latest one counts.
#[test]
fn section_3_3_wishes_change() {
    let mut pair = Pair::open(&two());
    pair.run_for(ms(300));
    for (turn, is_backup) in [true, false, true].into_iter().enumerate() {
        pair.act(Side::A, |end| assert!(end.set_path_status(1, is_backup)));
        pair.run_for(ms(300));
        assert_eq!(pair.ends[1].paths[1].news.wish, Some((turn as u64 + 1, is_backup)));
        assert_eq!(pair.ends[0].is_own_backup(1), is_backup);
    }
    assert!(!pair.ends[0].set_path_status(7, true));
}

/// Section 5.4: a peer that acknowledges all on the first path, which dies. It finds that by its own pings,
/// and everything goes on the other one.
#[test]
fn a_peer_that_acknowledges_on_a_dead_path_finds_another_one() {
    let keep_alive = Some(Duration::from_secs(1));
    let peers = Config { ack_path: Some(AckPath::First), backup: vec![1], keep_alive, ..two() };
    let mut pair = Pair::seeded([&Config { backup: vec![1], keep_alive, ..two() }, &peers], 1);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(500));
    pair.write(Side::A, 300_000);
    pair.run_for(Duration::from_secs(5));
    pair.wires.dead.push(PathId(0));
    pair.write(Side::A, 300_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 600_000);
}
