//! What has been sent on a path, until feedback says what became of it and for as long as it may be asked for
//! again.

use std::collections::VecDeque;

use super::pacer::Waiting;
use super::stream::{FIRST, extend};
use crate::cc::media::PacketReport;
use crate::flow::{Ecn, Payload};
use crate::time::{Duration, Time};
use crate::wire::rtcp::StreamReport;

/// For how long a packet is kept.
pub(super) const KEPT: Duration = Duration::from_secs(5);
/// How many packets are kept of each stream at most, and how far their numbers are apart: half of the
/// numbers, so that each number means one packet.
const MOST: usize = 1 << 15;

/// A packet that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
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

impl Sent {
    /// What has waited is sent now.
    pub(super) const fn new(number: u64, at: Time, size: u32, waiting: &Waiting) -> Self {
        let Waiting { payload, marker, timestamp, .. } = *waiting;
        Self { number, at, size, payload, marker, timestamp, again: None, fate: Fate::InFlight }
    }
}

/// What was sent of a stream on a path, in the order of the numbers, of which others have gone elsewhere.
#[derive(Debug)]
pub(super) struct History {
    packets: VecDeque<Sent>,
    /// The number behind the last one that has been reported on, whether it arrived or not.
    judged: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { packets: VecDeque::new(), judged: FIRST }
    }
}

impl History {
    /// The number behind the highest one.
    fn next(&self) -> u64 {
        self.packets.back().map_or(FIRST, |last| last.number + 1)
    }

    /// Keeps a packet that is sent now.
    pub(super) fn push(&mut self, sent: Sent) {
        let is_old = |first: &Sent| {
            sent.at.saturating_since(first.at) > KEPT
                || sent.number.saturating_sub(first.number) >= MOST as u64
        };
        while self.packets.front().is_some_and(is_old) {
            self.packets.pop_front();
        }
        match self.place(sent.number) {
            Ok(place) => self.packets[place] = sent,
            Err(place) => self.packets.insert(place, sent),
        }
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.packets.binary_search_by_key(&number, |sent| sent.number)
    }

    /// The packet with the highest number, if there is one.
    pub(super) fn last(&self) -> Option<&Sent> {
        self.packets.back()
    }

    /// The number of the packet that these 16 bits mean.
    pub(super) fn number(&self, sequence: u16) -> u64 {
        extend(self.next(), sequence)
    }

    /// The packet with this number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        self.packets.get(self.place(number).ok()?)
    }

    /// The packet with this number, if it is kept, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        let place = self.place(number).ok()?;
        self.packets.get_mut(place)
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
            last = Some((number, sent.at));
            if sent.fate != Fate::InFlight {
                continue;
            }
            sent.fate = Fate::Arrived;
            let ago = u64::from(arrival.offset.unwrap_or(0x1ffe)) * 1_000_000_000 / 1_024;
            let arrived = Time::from_nanos(made.as_nanos().saturating_sub(ago));
            news.push(PacketReport { sent: sent.at, size: sent.size, arrival: Some((arrived, arrival.ecn)) });
        }
        let Some((last, sent_at)) = last else { return unknown };
        let from = self.place(self.judged).unwrap_or_else(|place| place);
        for sent in self.packets.range_mut(from..).take_while(|sent| sent.number < last) {
            // A packet that waited for another path first may have left after those behind it.
            if sent.fate == Fate::InFlight && sent.at <= sent_at {
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

    /// How many packets are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
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

    fn sent(number: u64, at_ms: u64) -> Sent {
        let (number, at) = (FIRST + number, Time::from_millis(at_ms));
        let payload = Payload { offset: number, length: 1 };
        let waiting = Waiting { since: at, payload, marker: false, timestamp: 0, number, original: None };
        Sent::new(number, at, 100, &waiting)
    }

    fn history(numbers: impl IntoIterator<Item = u64>) -> History {
        let mut history = History::default();
        numbers.into_iter().for_each(|number| history.push(sent(number, number)));
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
        let mut history = history(0..6);
        let first = report(0, &[true, false, true, false]);
        assert_eq!(fates(&mut history, &first), [(0, true), (2, true), (1, false)]);
        assert_eq!(fates(&mut history, &first), []);
        // The report on 3 and 4 was lost, and 1 has arrived after all.
        assert_eq!(fates(&mut history, &report(1, &[true])), []);
        assert_eq!(fates(&mut history, &report(5, &[true])), [(5, true), (3, false), (4, false)]);
    }

    #[test]
    fn what_went_elsewhere_is_not_lost_here() {
        let mut history = history([0, 3, 4, 9]);
        let all = report(0, &[true, false, false, false, true]);
        assert_eq!(fates(&mut history, &all), [(0, true), (4, true), (3, false)]);
        // 7 has come from another path, and leaves after 9.
        history.push(sent(7, 10));
        assert_eq!(fates(&mut history, &report(9, &[true])), [(9, true)]);
        assert_eq!(fates(&mut history, &report(7, &[true])), [(10, true)]);
    }

    #[test]
    fn reports_on_unknown_packets_are_counted() {
        let mut history = history(0..2);
        let mut news = Vec::new();
        assert_eq!(history.take(&report(1, &[true, true, false, true]), Time::from_secs(3), &mut news), 2);
        assert_eq!(history.take(&report(40_000, &[true]), Time::ZERO, &mut news), 1);
        assert_eq!(news.len(), 2);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = history(0..10);
        assert_eq!(history.bytes_since(Time::from_millis(7)), 300);
        history.push(sent(10, 5_005));
        assert!(history.get(FIRST + 4).is_none() && history.get(FIRST + 5).is_some());
        assert_eq!(history.next(), FIRST + 11);
        // Numbers mean one packet each, however few of them there are.
        history.push(sent((1 << 15) + 5, 5_006));
        assert!(history.get(FIRST + 5).is_none() && history.get(FIRST + 6).is_some());
        history.push(sent(1 << 17, 5_006));
        assert_eq!(history.len(), 1);
    }
}
