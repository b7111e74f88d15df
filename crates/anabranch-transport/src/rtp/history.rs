//! What has been sent, until feedback says what became of it and for as long as it may be asked for again.

use std::collections::VecDeque;

use super::stream::{FIRST, extend};
use crate::cc::media::PacketReport;
use crate::flow::{Ecn, Payload};
use crate::time::{Duration, Time};
use crate::wire::rtcp::StreamReport;

/// For how long a packet is kept.
const KEPT: Duration = Duration::from_secs(5);
/// How many packets are kept of each stream at most: half of the numbers, so that each number means one
/// packet.
const MOST: usize = 1 << 15;

/// A packet that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) size: u32,
    pub(super) payload: Payload,
    pub(super) marker: bool,
    pub(super) timestamp: u32,
    /// When it was sent again last.
    pub(super) again: Option<Time>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrived,
    InFlight,
    Lost,
}

/// What was sent on a stream.
#[derive(Debug)]
pub(super) struct History {
    /// The number of the first packet that is kept.
    first: u64,
    packets: VecDeque<Sent>,
    /// The number behind the last one that has been reported on, whether it arrived or not.
    judged: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { first: FIRST, packets: VecDeque::new(), judged: FIRST }
    }
}

impl History {
    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Keeps a packet that is sent now.
    pub(super) fn push(&mut self, at: Time, size: u32, payload: Payload, marker: bool, timestamp: u32) {
        let is_old = |first: &Sent| at.saturating_since(first.at) > KEPT;
        while self.packets.len() >= MOST || self.packets.front().is_some_and(is_old) {
            self.packets.pop_front();
            self.first += 1;
        }
        self.packets.push_back(Sent {
            at,
            size,
            payload,
            marker,
            timestamp,
            again: None,
            fate: Fate::InFlight,
        });
    }

    /// The last packet and its number, if there is one.
    pub(super) fn last(&self) -> Option<(u64, &Sent)> {
        Some((self.next() - 1, self.packets.back()?))
    }

    /// The number of the packet that these 16 bits mean.
    pub(super) fn number(&self, sequence: u16) -> u64 {
        extend(self.next(), sequence)
    }

    /// The packet with this number, if it is kept.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Takes a report made at the receiver's time `made`, and adds what it says of packets whose fate was not
    /// known: those that arrived, and as lost those that did not and were sent before one that did. Returns
    /// how many of its reports are about unknown packets.
    pub(super) fn take(&mut self, report: &StreamReport, made: Time, news: &mut Vec<PacketReport>) -> usize {
        let begin = self.number(report.begin);
        let mut unknown = 0;
        let mut last = None;
        for (number, metric) in (begin..).zip(&report.metrics) {
            let Some(arrival) = metric.arrival() else { continue };
            let Some(sent) = self.get_mut(number) else {
                unknown += 1;
                continue;
            };
            last = Some(number);
            if sent.fate != Fate::InFlight {
                continue;
            }
            sent.fate = Fate::Arrived;
            let ago = u64::from(arrival.offset.unwrap_or(0x1ffe)) * 1_000_000_000 / 1_024;
            let arrived = Time::from_nanos(made.as_nanos().saturating_sub(ago));
            news.push(PacketReport { sent: sent.at, size: sent.size, arrival: Some((arrived, arrival.ecn)) });
        }
        let last = last.unwrap_or(0);
        for number in self.judged.max(self.first)..last {
            if let Some(sent) = self.get_mut(number).filter(|sent| sent.fate == Fate::InFlight) {
                sent.fate = Fate::Lost;
                news.push(PacketReport { sent: sent.at, size: sent.size, arrival: None });
            }
        }
        self.judged = self.judged.max(last + 1);
        unknown
    }

    /// The sizes of the packets that were sent since `from`, in bytes.
    pub(super) fn bytes_since(&self, from: Time) -> u64 {
        self.packets.iter().rev().take_while(|sent| sent.at >= from).map(|sent| u64::from(sent.size)).sum()
    }
}

/// How many of these reports are about marked packets.
pub(super) fn marked(news: &[PacketReport]) -> usize {
    news.iter().filter(|report| matches!(report.arrival, Some((_, Ecn::Ce)))).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rtcp::Metric;

    fn history(count: u64) -> History {
        let mut history = History::default();
        for number in 0..count {
            let payload = Payload { offset: number, length: 1 };
            history.push(Time::from_millis(number), 100, payload, false, 0);
        }
        history
    }

    fn report(begin: u16, arrived: &[bool]) -> StreamReport {
        let metric =
            |&arrived: &bool| if arrived { Metric::arrived(Ecn::Ect0, 1_024) } else { Metric::MISSING };
        StreamReport { ssrc: 1, begin, metrics: arrived.iter().map(metric).collect() }
    }

    fn fates(history: &mut History, report: &StreamReport) -> Vec<(u64, bool)> {
        let mut news = Vec::new();
        assert_eq!(history.take(report, Time::from_secs(3), &mut news), 0);
        let arrivals = news.iter().filter_map(|report| report.arrival);
        assert!(
            arrivals.eq(news.iter().filter(|r| r.arrival.is_some()).map(|_| (Time::from_secs(2), Ecn::Ect0)))
        );
        news.iter().map(|report| (report.sent.as_nanos() / 1_000_000, report.arrival.is_some())).collect()
    }

    #[test]
    fn each_packet_has_one_fate() {
        let mut history = history(6);
        let first = report(0, &[true, false, true, false]);
        assert_eq!(fates(&mut history, &first), [(0, true), (2, true), (1, false)]);
        assert_eq!(fates(&mut history, &first), []);
        // The report on 3 and 4 was lost, and 1 has arrived after all.
        assert_eq!(fates(&mut history, &report(1, &[true])), []);
        assert_eq!(fates(&mut history, &report(5, &[true])), [(5, true), (3, false), (4, false)]);
    }

    #[test]
    fn reports_on_unknown_packets_are_counted() {
        let mut history = history(2);
        let mut news = Vec::new();
        assert_eq!(history.take(&report(1, &[true, true, false, true]), Time::from_secs(3), &mut news), 2);
        assert_eq!(history.take(&report(40_000, &[true]), Time::ZERO, &mut news), 1);
        assert_eq!(news.len(), 2);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = history(10);
        assert_eq!(history.bytes_since(Time::from_millis(7)), 300);
        history.push(Time::from_millis(5_005), 100, Payload { offset: 0, length: 1 }, true, 0);
        assert!(history.get_mut(FIRST + 4).is_none() && history.get_mut(FIRST + 5).is_some());
        assert_eq!(history.next(), FIRST + 11);
    }
}
