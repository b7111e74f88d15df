//! The receiving half, over all paths: what has arrived, what is missing, and what sender and receiver
//! reports say of it.

use std::collections::BTreeMap;

use super::stream::{FIRST, Numbered, extend};
use crate::flow::{PathId, PathSet};
use crate::time::{Duration, Time};
use crate::wire::rtcp::ReportBlock;

/// How many numbers behind the highest one are told apart: those that are older count as copies.
const WINDOW: usize = 1 << 14;
/// How far before the first packet that arrives an earlier one may come, over a slower path.
const BEFORE_FIRST: u64 = 128;

/// An incoming stream.
#[derive(Debug)]
pub(super) struct Inbound {
    ssrc: u32,
    /// Whether each packet has arrived.
    seen: Numbered<bool>,
    statistics: Statistics,
}

/// What sender and receiver reports say of a stream (RFC 3550 section 6.4.1 and appendix A).
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    /// The number of the first packet; [`None`] before there is one.
    base: Option<u64>,
    received: u64,
    /// `expected` and `received` at the last report.
    before: (u64, u64),
    /// The last difference of arrival and time stamp, in ticks.
    transit: Option<i64>,
    /// The jitter of arrivals in ticks.
    jitter: f64,
    /// The middle of the time in the last sender report, and when that came.
    sender_report: Option<(u32, Time)>,
}

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// A packet that had arrived before, or is too old to tell.
    Again,
    /// A packet that is new; those from this number on to it are missing.
    New { missing_from: u64 },
}

impl Inbound {
    pub(super) const fn new(ssrc: u32) -> Self {
        let statistics = Statistics {
            base: None,
            received: 0,
            before: (0, 0),
            transit: None,
            jitter: 0.0,
            sender_report: None,
        };
        Self { ssrc, seen: Numbered::new(FIRST), statistics }
    }

    pub(super) const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The number behind the highest one that has arrived.
    fn next(&self) -> u64 {
        self.seen.next()
    }

    /// The number that these 16 bits mean.
    pub(super) fn number(&self, sequence: u16) -> u64 {
        extend(self.next(), sequence)
    }

    /// A packet arrives; `ticks` is now in the clock of its time stamp.
    pub(super) fn on_arrival(&mut self, number: u64, [ticks, timestamp]: [u32; 2]) -> Arrived {
        if self.statistics.base.is_none() {
            self.seen.first = number.saturating_sub(BEFORE_FIRST);
            self.seen.items.resize((number - self.seen.first) as usize, false);
        }
        let missing_from = self.next().min(number);
        if !self.see(number) {
            return Arrived::Again;
        }
        let statistics = &mut self.statistics;
        statistics.base = Some(statistics.base.map_or(number, |base| base.min(number)));
        statistics.received += 1;
        // RFC 3550 section A.8.
        let transit = i64::from(ticks.wrapping_sub(timestamp) as i32);
        if let Some(before) = statistics.transit.replace(transit) {
            statistics.jitter += ((transit - before).abs() as f64 - statistics.jitter) / 16.0;
        }
        Arrived::New { missing_from }
    }

    /// The packet with this number is there, in this stream or as a retransmission. Returns whether that is
    /// news.
    pub(super) fn see(&mut self, number: u64) -> bool {
        self.seen.put(number, true, WINDOW)
    }

    /// How many numbers it tells apart.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.seen.items.len()
    }

    /// A sender report with this time came.
    pub(super) fn on_sender_report(&mut self, now: Time, ntp: u64) {
        self.statistics.sender_report = Some(((ntp >> 16) as u32, now));
    }

    /// The block about this stream for a sender or receiver report, once something has arrived.
    pub(super) fn block(&mut self, now: Time) -> Option<ReportBlock> {
        let highest = self.next() - 1;
        let statistics = &mut self.statistics;
        // RFC 3550 section A.3.
        let expected = highest + 1 - statistics.base?;
        let (expected_before, received_before) = statistics.before;
        let expected_now = expected - expected_before;
        let lost_now = expected_now.saturating_sub(statistics.received - received_before);
        statistics.before = (expected, statistics.received);
        let lost = expected as i64 - statistics.received as i64;
        let (last_sender_report, delay_since) = statistics.sender_report.map_or((0, 0), |(ntp, at)| {
            (ntp, (u128::from(now.saturating_since(at).as_nanos()) * 65_536 / 1_000_000_000) as u32)
        });
        Some(ReportBlock {
            source: self.ssrc,
            fraction_lost: (lost_now * 256).checked_div(expected_now).unwrap_or(0).min(255) as u8,
            cumulative_lost: lost.clamp(-(1 << 23), (1 << 23) - 1) as i32,
            highest_sequence: (highest - FIRST) as u32,
            jitter: statistics.jitter as u32,
            last_sender_report,
            delay_since,
        })
    }
}

/// Packets of media that are missing, and when they are asked for.
///
/// A packet counts as lost once a later one has come on every path that is in use: on one path at once, and
/// on several when none of them can bring it any more. A path is in use as long as its last two packets have
/// come within `interval`, and at first all those are that are `expected` to be.
#[derive(Debug)]
pub(super) struct Missing {
    interval: Duration,
    limit: u8,
    packets: BTreeMap<u64, Wanted>,
    /// When the last two packets have come on each path, the earlier one first.
    heard: Vec<[Time; 2]>,
    /// How many paths bring packets at the same time.
    expected: usize,
}

/// A packet that is missing.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    asked: u8,
    /// When it is asked for next.
    at: Time,
    /// The paths on which a later one has come.
    passed: PathSet,
}

/// At most so many packets are missing at a time; the oldest ones are given up.
const MOST_MISSING: usize = 1_000;

impl Missing {
    pub(super) const fn new(interval: Duration, limit: u8, expected: usize) -> Self {
        Self { interval, limit, packets: BTreeMap::new(), heard: Vec::new(), expected }
    }

    /// A packet has come on this path, its first one or a copy.
    pub(super) fn on_arrival(&mut self, now: Time, path: PathId, number: u64) {
        if self.heard.is_empty() {
            self.heard.resize(self.expected, [now; 2]);
        }
        if self.heard.len() <= path.index() {
            self.heard.resize(path.index() + 1, [Time::ZERO; 2]);
        }
        let [_, last] = self.heard[path.index()];
        self.heard[path.index()] = [last, now];
        self.packets.range_mut(..number).for_each(|(_, wanted)| wanted.passed.insert(path));
    }

    /// These packets are missing from now on, as one behind them has come on this path.
    pub(super) fn add(&mut self, now: Time, numbers: std::ops::Range<u64>, path: PathId) {
        let start = numbers.start.max(numbers.end.saturating_sub(MOST_MISSING as u64));
        let mut passed = PathSet::default();
        passed.insert(path);
        let wanted = Wanted { asked: 0, at: now, passed };
        self.packets.extend((start..numbers.end).map(|number| (number, wanted)));
        while self.packets.len() > MOST_MISSING {
            self.packets.pop_first();
        }
    }

    /// A packet is there. Returns whether it was missing.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.packets.remove(&number).is_some()
    }

    /// How many packets are missing.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// When this packet is asked for: the first time not before another path would have brought it.
    fn due_at(&self, wanted: &Wanted) -> Time {
        let waits_for = |(index, heard): (usize, &[Time; 2])| {
            let has_passed = wanted.asked > 0 || wanted.passed.contains(PathId(index as u8));
            if has_passed || heard[0] == Time::ZERO { Time::ZERO } else { heard[0] + self.interval }
        };
        self.heard.iter().enumerate().map(waits_for).fold(wanted.at, Time::max)
    }

    /// When packets are asked for next; [`Time::NEVER`] if none is missing.
    pub(super) fn next(&self) -> Time {
        self.packets.values().map(|wanted| self.due_at(wanted)).min().unwrap_or(Time::NEVER)
    }

    /// The packets to ask for now, in order. One that has been asked for as often as allowed is given up when
    /// it would be asked for again.
    pub(super) fn due(&mut self, now: Time) -> Vec<u64> {
        let (interval, limit) = (self.interval, self.limit);
        self.packets.retain(|_, wanted| wanted.at > now || wanted.asked < limit);
        let is_due = |wanted: &Wanted| self.due_at(wanted) <= now;
        let due: Vec<u64> =
            self.packets.iter().filter(|(_, wanted)| is_due(wanted)).map(|(number, _)| *number).collect();
        for number in &due {
            if let Some(wanted) = self.packets.get_mut(number) {
                wanted.asked += 1;
                wanted.at = now + interval;
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    fn arrive(inbound: &mut Inbound, sequence: u16) -> Arrived {
        let number = inbound.number(sequence);
        inbound.on_arrival(number, [0, 0])
    }

    #[test]
    fn a_gap_is_missing_and_what_comes_again_is_seen() {
        let mut inbound = Inbound::new(1);
        let new = |missing_from| Arrived::New { missing_from: FIRST + missing_from };
        assert_eq!(arrive(&mut inbound, 5), new(5));
        assert_eq!(arrive(&mut inbound, 8), new(6));
        assert_eq!(arrive(&mut inbound, 7), new(7));
        assert_eq!(arrive(&mut inbound, 7), Arrived::Again);
        assert_eq!(arrive(&mut inbound, 4), new(4), "it has come over a slower path");
        let block = inbound.block(Time::from_millis(4)).unwrap();
        assert_eq!((block.fraction_lost, block.cumulative_lost, block.highest_sequence), (51, 1, 8));
        assert!(inbound.see(FIRST + 6));
        assert_eq!(arrive(&mut inbound, 6), Arrived::Again, "it was sent again before");
        arrive(&mut inbound, 30_000);
        assert!(inbound.len() == WINDOW && arrive(&mut inbound, 9) == Arrived::Again);
    }

    #[test]
    fn a_packet_is_asked_for_at_once_and_again_until_it_is_given_up() {
        let mut missing = Missing::new(Duration::from_millis(100), 2, 0);
        missing.add(Time::ZERO, 5..7, FAST);
        assert_eq!(missing.due(Time::ZERO), [5, 6]);
        assert!(missing.due(Time::from_millis(50)).is_empty());
        assert!(missing.remove(6) && !missing.remove(6));
        assert_eq!(missing.next(), Time::from_millis(100));
        assert_eq!(missing.due(Time::from_millis(100)), [5]);
        assert!(missing.due(Time::from_millis(200)).is_empty());
        assert!(missing.next().is_never());
        missing.add(Time::ZERO, 0..1 << 40, FAST);
        assert_eq!(missing.due(Time::ZERO).len(), MOST_MISSING);
    }

    #[test]
    fn a_packet_is_waited_for_until_every_path_in_use_has_brought_a_later_one() {
        let mut missing = Missing::new(Duration::from_millis(100), 2, 0);
        let at = Time::from_millis;
        let mut come = |ms, path, number| missing.on_arrival(at(ms), path, number);
        come(10, SLOW, 1);
        come(20, SLOW, 2);
        come(25, FAST, 3);
        come(30, FAST, 6);
        missing.add(at(30), 4..6, FAST);
        assert!(missing.due(at(30)).is_empty(), "the slow path may bring them");
        missing.on_arrival(at(40), SLOW, 5);
        assert!(missing.remove(5));
        assert_eq!(missing.due(at(40)), [4]);
        // The slow path falls silent: its last packet but one came at 20 ms, and at 40 ms now.
        missing.on_arrival(at(50), FAST, 8);
        missing.add(at(50), 7..8, FAST);
        assert_eq!(missing.next(), at(120));
        assert_eq!(missing.due(at(120)), [7]);
    }
}
