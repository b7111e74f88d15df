//! What settings of several paths bring about (RFC 10069): laws of rates and failover, streams that stay on
//! a path, paths that are given up, and controls that depend on each other.

use crate::cc::Controller;
use crate::cc::coupled;
use crate::endpoint::{Command, Event};
use crate::flow::{PathId, Side};
use crate::path::scheduler;
use crate::quic::Config;
use crate::quic::path::Standing;
use crate::quic::testing::{Logged, Pair, Wire, ms};
use crate::time::{Duration, Time};
use crate::wire::quic::Frame;

const SECOND: PathId = PathId(1);

fn two() -> Config {
    Config { multipath: Some(true), ..Config::default() }
}

/// The streams of which this side has sent data on a path.
fn streams_on(pair: &Pair, side: Side, path: PathId) -> Vec<u64> {
    let sent = pair.from(side).into_iter().filter(|logged| logged.path == path);
    let mut ids: Vec<u64> = sent.flat_map(Logged::data).map(|(id, ..)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Opens streams of so many bytes.
fn open_streams(pair: &mut Pair, count: usize, length: u32) -> Vec<u64> {
    let open = |pair: &mut Pair| pair.act(Side::A, |end| end.open_stream(true));
    let ids: Vec<u64> = (0..count).filter_map(|_| open(pair)).collect();
    for id in &ids {
        assert!(pair.act(Side::A, |end| end.write_stream(*id, length, true)));
    }
    ids
}

/// Two equal paths that share nothing carry twice as much as one, within 2 %.
#[test]
fn two_disjoint_paths_carry_the_sum() {
    let carried = |config: &Config| {
        let mut pair = Pair::new(config);
        let wire = Wire { delay: ms(20), rate: Some(10_000_000), ..Wire::default() };
        pair.wires.others = vec![(PathId(0), wire), (SECOND, wire)];
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 40_000_000);
        pair.run_for(Duration::from_secs(3));
        let before = pair.received_bytes(Side::B);
        pair.run_for(Duration::from_secs(8));
        (pair.received_bytes(Side::B) - before) as f64
    };
    let one = carried(&Config::default());
    for scheduler in [scheduler::Config::MinRtt, scheduler::Config::RoundRobin, scheduler::Config::Priority] {
        let both = carried(&Config { scheduler: Some(scheduler.clone()), ..two() });
        assert!((both / one / 2.0 - 1.0).abs() < 0.02, "{scheduler:?}: {both} {one}");
    }
}

/// Section 5.7: when a path falls silent, delivery goes on within a probe timeout of that path and a round
/// trip of the other one.
#[test]
fn failover_takes_a_probe_timeout_and_a_round_trip() {
    for (silent, delays) in [(0, [20, 50]), (1, [20, 50]), (0, [100, 10]), (1, [100, 10])] {
        let mut pair = Pair::new(&Config { scheduler: Some(scheduler::Config::RoundRobin), ..two() });
        let wire = |delay| Wire { delay: ms(delay), ..Wire::default() };
        pair.wires.others = vec![(PathId(0), wire(delays[0])), (SECOND, wire(delays[1]))];
        pair.command(Side::A, Command::Connect);
        pair.run_for(Duration::from_secs(2));
        for _ in 0..200 {
            pair.write(Side::A, 2_000);
            pair.run_for(ms(10));
        }
        let timeout = pair.ends[0].probe_timeout(silent);
        let trip = pair.ends[0].paths[1 - silent].rtt.srtt().expect("it is measured");
        let cut = pair.now;
        pair.wires.dead.push(PathId(silent as u8));
        for _ in 0..200 {
            pair.write(Side::A, 2_000);
            pair.run_for(ms(10));
        }
        let received: Vec<Time> = pair.events[1]
            .iter()
            .filter(|(at, event)| *at >= cut && matches!(event, Event::Received(_)))
            .map(|(at, _)| *at)
            .collect();
        let pauses = received.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
        let longest = pauses.max().expect("something has come");
        // The timer runs from the last packet that went there, which is one of every second write.
        let since = ms(20);
        assert!(longest <= since + timeout + trip, "{silent} {delays:?}: {longest} {timeout} {trip}");
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.received_bytes(Side::B), 800_000);
    }
}

/// `pin_streams`: all data of a stream goes on one path, and elsewhere only when that one fails.
#[test]
fn a_pinned_stream_stays_on_its_path() {
    let config = Config { pin_streams: Some(true), scheduler: Some(scheduler::Config::RoundRobin), ..two() };
    let mut pair = Pair::open(&config);
    pair.run_for(ms(300));
    pair.log.clear();
    let ids = open_streams(&mut pair, 6, 100_000);
    pair.run_for(Duration::from_secs(10));
    let [first, second] = [PathId(0), SECOND].map(|path| streams_on(&pair, Side::A, path));
    assert!(!first.is_empty() && !second.is_empty(), "{first:?} {second:?}");
    assert_eq!(first.len() + second.len(), ids.len(), "{first:?} {second:?}");
    assert_eq!(pair.ends[0].stats().bytes_acknowledged, 600_000);

    pair.log.clear();
    let ids = open_streams(&mut pair, 6, 100_000);
    pair.run_for(ms(30));
    pair.wires.dead.push(SECOND);
    pair.run_for(Duration::from_secs(10));
    let found = streams_on(&pair, Side::A, PathId(0));
    assert!(ids.iter().all(|id| found.contains(id)), "{ids:?} {found:?}");
    assert_eq!(pair.ends[0].stats().bytes_acknowledged, 1_200_000);
}

/// Sections 3.4 and 5.7: with `path_idle_timeout` a path is given up whose packets are not acknowledged for
/// so long. Without `reinjection` what is outstanding there waits until then.
#[test]
fn section_3_4_a_path_that_does_not_answer_is_given_up() {
    for reinjection in [true, false] {
        let patience = Duration::from_secs(4);
        let mut pair = Pair::open(&Config {
            path_idle_timeout: Some(patience),
            reinjection: Some(reinjection),
            scheduler: Some(scheduler::Config::RoundRobin),
            ..two()
        });
        pair.run_for(ms(300));
        pair.write(Side::A, 300_000);
        pair.run_for(ms(100));
        pair.log.clear();
        let cut = pair.now;
        pair.wires.dead.push(SECOND);
        pair.run_for(ms(3_500));
        assert_eq!(pair.received_bytes(Side::B) == 300_000, reinjection);
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.received_bytes(Side::B), 300_000);
        assert!(pair.ends.iter().all(|end| end.paths[1].standing == Standing::Abandoned));
        let is_end = |frame: &Frame| matches!(frame, Frame::PathAbandon { path: 1, .. });
        let sent = pair.from(Side::A);
        let said = sent.iter().find(|logged| logged.frames().any(is_end)).expect("it is said");
        let waited = said.at.saturating_since(cut);
        assert!(waited <= patience && waited + ms(200) >= patience, "{waited}");
    }
}

/// RFC 9000 section 9.4: at another address a path's window begins anew, and still depends on the others.
#[test]
fn a_coupled_path_stays_in_its_group_at_another_address() {
    for config in coupled::Config::all() {
        if matches!(config, coupled::Config::PerPath(_)) {
            continue;
        }
        let mut pair = Pair::open(&Config { coupling: Some(config.clone()), ..two() });
        pair.run_for(ms(300));
        pair.write(Side::B, 400_000);
        pair.run_for(ms(300));
        let window = |pair: &Pair, place: usize| pair.ends[1].paths[place].congestion.window();
        let before = [0, 1].map(|place| window(&pair, place));
        assert!(before[1] > 12_000, "{config:?}: it has grown: {before:?}");
        pair.command(Side::A, Command::Rebind { path: SECOND, address: true });
        pair.write(Side::A, 30_000);
        let mut least = u32::MAX;
        for _ in 0..20 {
            pair.run_for(ms(5));
            least = least.min(window(&pair, 1));
        }
        assert!(least <= 12_000, "{config:?}: {least}");
        assert_eq!(pair.ends[1].stats().rebindings, 1);
        assert!(matches!(pair.ends[1].paths[1].congestion.control, Controller::Coupled(_)), "{config:?}");
        pair.run_for(Duration::from_secs(10));
        assert_eq!((pair.received_bytes(Side::A), pair.received_bytes(Side::B)), (400_000, 30_000));
    }
}
