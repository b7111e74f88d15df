//! The receiving half: what has arrived, what is missing, and what is reported of it.

use std::collections::{BTreeMap, VecDeque};

use super::stream::{FIRST, extend};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::wire::rtcp::{MOST_METRICS, Metric, ReportBlock, StreamReport};

/// An incoming stream.
#[derive(Debug)]
pub(super) struct Inbound {
    ssrc: u32,
    /// The number of the first packet in `arrivals`.
    first: u64,
    /// When each packet from there on arrived, and with which ECN field.
    arrivals: VecDeque<Option<(Time, Ecn)>>,
    /// The number behind the last packet that has been reported on.
    reported: u64,
    /// Whether something has arrived since the last report.
    has_news: bool,
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
    /// A packet that is new; those from the number on to it are missing.
    New { number: u64, missing_from: u64 },
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
        Self { ssrc, first: FIRST, arrivals: VecDeque::new(), reported: FIRST, has_news: false, statistics }
    }

    pub(super) const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The number behind the highest one that has arrived.
    fn next(&self) -> u64 {
        self.first + self.arrivals.len() as u64
    }

    /// The number that these 16 bits mean.
    pub(super) fn number(&self, sequence: u16) -> u64 {
        extend(self.next(), sequence)
    }

    /// A packet arrives; `ticks` is now in the clock of its time stamp.
    pub(super) fn on_arrival(
        &mut self,
        now: Time,
        sequence: u16,
        ecn: Ecn,
        [ticks, timestamp]: [u32; 2],
    ) -> Arrived {
        let number = self.number(sequence);
        if self.statistics.base.is_none() {
            self.statistics.base = Some(number);
            (self.first, self.reported) = (number, number);
        }
        let next = self.next();
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index else { return Arrived::Again };
        if number >= next {
            self.arrivals.resize(index + 1, None);
        }
        if self.arrivals[index].is_some() {
            return Arrived::Again;
        }
        self.arrivals[index] = Some((now, ecn));
        while self.arrivals.len() > usize::from(MOST_METRICS) {
            self.arrivals.pop_front();
            self.first += 1;
        }
        self.has_news = true;
        let statistics = &mut self.statistics;
        statistics.received += 1;
        // RFC 3550 section A.8.
        let transit = i64::from(ticks.wrapping_sub(timestamp) as i32);
        if let Some(before) = statistics.transit.replace(transit) {
            statistics.jitter += ((transit - before).abs() as f64 - statistics.jitter) / 16.0;
        }
        Arrived::New { number, missing_from: next.min(number) }
    }

    /// Whether something has arrived since the last report.
    pub(super) const fn has_news(&self) -> bool {
        self.has_news
    }

    /// Reports on what is new and, in case that one got lost, on what the last report was about. `now` is the
    /// report's time, and each part of the report is about at most `most` packets.
    pub(super) fn report(&mut self, now: Time, most: usize) -> Vec<StreamReport> {
        let metric = |arrival: &Option<(Time, Ecn)>| match *arrival {
            Some((at, ecn)) => {
                let ago = now.saturating_since(at).as_nanos();
                Metric::arrived(
                    ecn,
                    u64::try_from(u128::from(ago) * 1_024 / 1_000_000_000).unwrap_or(u64::MAX),
                )
            }
            None => Metric::MISSING,
        };
        let metrics: Vec<_> = self.arrivals.iter().map(metric).collect();
        let parts = metrics.chunks(most.max(1)).zip((self.first..).step_by(most.max(1)));
        let report = |(metrics, begin): (&[Metric], u64)| StreamReport {
            ssrc: self.ssrc,
            begin: begin as u16,
            metrics: metrics.to_vec(),
        };
        let parts = parts.map(report).collect();
        self.arrivals.drain(..(self.reported.max(self.first) - self.first) as usize);
        self.first = self.reported.max(self.first);
        self.reported = self.next();
        self.has_news = false;
        parts
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
#[derive(Debug)]
pub(super) struct Missing {
    interval: Duration,
    limit: u8,
    /// By number: how often each has been asked for, and when it is asked for next.
    packets: BTreeMap<u64, (u8, Time)>,
}

/// At most so many packets are missing at a time; the oldest ones are given up.
const MOST_MISSING: usize = 1_000;

impl Missing {
    pub(super) const fn new(interval: Duration, limit: u8) -> Self {
        Self { interval, limit, packets: BTreeMap::new() }
    }

    /// These packets are missing from now on.
    pub(super) fn add(&mut self, now: Time, numbers: std::ops::Range<u64>) {
        let start = numbers.start.max(numbers.end.saturating_sub(MOST_MISSING as u64));
        self.packets.extend((start..numbers.end).map(|number| (number, (0, now))));
        while self.packets.len() > MOST_MISSING {
            self.packets.pop_first();
        }
    }

    /// A packet is there. Returns whether it was missing.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.packets.remove(&number).is_some()
    }

    /// When packets are asked for next; [`Time::NEVER`] if none is missing.
    pub(super) fn next(&self) -> Time {
        self.packets.values().map(|&(_, at)| at).min().unwrap_or(Time::NEVER)
    }

    /// The packets to ask for now, in order. One that has been asked for as often as allowed is given up when
    /// it would be asked for again.
    pub(super) fn due(&mut self, now: Time) -> Vec<u64> {
        let (interval, limit) = (self.interval, self.limit);
        self.packets.retain(|_, &mut (asked, at)| at > now || asked < limit);
        let due = self.packets.iter_mut().filter(|(_, (_, at))| *at <= now);
        due.map(|(&number, (asked, at))| {
            *asked += 1;
            *at = now + interval;
            number
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(inbound: &mut Inbound, ms: u64, sequence: u16) -> Arrived {
        inbound.on_arrival(Time::from_millis(ms), sequence, Ecn::NotEct, [0, 0])
    }

    #[test]
    fn a_gap_is_missing_and_what_comes_again_is_seen() {
        let mut inbound = Inbound::new(1);
        let new = |number, missing_from| Arrived::New {
            number: FIRST + number,
            missing_from: FIRST + missing_from,
        };
        assert_eq!(arrive(&mut inbound, 0, 5), new(5, 5));
        assert_eq!(arrive(&mut inbound, 1, 8), new(8, 6));
        assert_eq!(arrive(&mut inbound, 2, 7), new(7, 7));
        assert_eq!(arrive(&mut inbound, 3, 7), Arrived::Again);
        assert_eq!(arrive(&mut inbound, 3, 4), Arrived::Again);
        let block = inbound.block(Time::from_millis(4)).unwrap();
        assert_eq!((block.fraction_lost, block.cumulative_lost, block.highest_sequence), (64, 1, 8));
    }

    #[test]
    fn a_report_is_about_what_is_new_and_what_the_last_one_was_about() {
        let mut inbound = Inbound::new(1);
        for sequence in [0, 1, 3] {
            arrive(&mut inbound, 1_000, sequence);
        }
        let now = Time::from_millis(1_250);
        let ranges =
            |parts: &[StreamReport]| parts.iter().map(|p| (p.begin, p.metrics.len())).collect::<Vec<_>>();
        let first = inbound.report(now, 3);
        assert_eq!(ranges(&first), [(0, 3), (3, 1)]);
        assert_eq!(first[0].metrics[0], Metric::arrived(Ecn::NotEct, 256));
        assert_eq!(first[0].metrics[2], Metric::MISSING);
        assert!(!inbound.has_news());
        arrive(&mut inbound, 1_300, 4);
        assert_eq!(ranges(&inbound.report(now, 100)), [(0, 5)]);
        arrive(&mut inbound, 1_400, 5);
        assert_eq!(ranges(&inbound.report(now, 100)), [(4, 2)]);
    }

    #[test]
    fn a_packet_is_asked_for_at_once_and_again_until_it_is_given_up() {
        let mut missing = Missing::new(Duration::from_millis(100), 2);
        missing.add(Time::ZERO, 5..7);
        assert_eq!(missing.due(Time::ZERO), [5, 6]);
        assert!(missing.due(Time::from_millis(50)).is_empty());
        assert!(missing.remove(6) && !missing.remove(6));
        assert_eq!(missing.next(), Time::from_millis(100));
        assert_eq!(missing.due(Time::from_millis(100)), [5]);
        assert!(missing.due(Time::from_millis(200)).is_empty());
        assert!(missing.next().is_never());
        missing.add(Time::ZERO, 0..1 << 40);
        assert_eq!(missing.due(Time::ZERO).len(), MOST_MISSING);
    }
}
