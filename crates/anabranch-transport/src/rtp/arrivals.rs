//! What has arrived of a stream on one path, as feedback reports it (RFC 8888).

use super::stream::{FIRST, Numbered};
use crate::flow::Ecn;
use crate::time::Time;
use crate::wire::rtcp::{MOST_METRICS, Metric, StreamReport};

/// A report leaves out more than so many missing packets in a row: with several paths, they went elsewhere.
const MOST_MISSING_IN_A_ROW: usize = 256;

/// Arrivals of a stream on a path.
#[derive(Debug)]
pub(super) struct Arrivals {
    ssrc: u32,
    /// When each packet arrived, and with which ECN field; [`None`] before there is one.
    packets: Option<Numbered<Option<(Time, Ecn)>>>,
    /// The number behind the last packet that has been reported on.
    reported: u64,
    /// Whether something has arrived since the last report.
    has_news: bool,
}

impl Arrivals {
    pub(super) const fn new(ssrc: u32) -> Self {
        Self { ssrc, packets: None, reported: FIRST, has_news: false }
    }

    /// A packet arrives. Returns whether it is one to report on: it has not come before on this path, and is
    /// not older than what the last report was about.
    pub(super) fn on_arrival(&mut self, now: Time, number: u64, ecn: Ecn) -> bool {
        if self.packets.is_none() {
            self.reported = number;
        }
        let packets = self.packets.get_or_insert_with(|| Numbered::new(number));
        let is_news = packets.put(number, Some((now, ecn)), MOST_METRICS.into());
        self.has_news |= is_news;
        is_news
    }

    /// Whether something has arrived since the last report.
    pub(super) const fn has_news(&self) -> bool {
        self.has_news
    }

    /// Reports on what is new and, in case that one got lost, on what the last report was about. `now` is the
    /// report's time, and each part of the report is about at most `most` packets.
    pub(super) fn report(&mut self, now: Time, most: usize) -> Vec<StreamReport> {
        let Some(packets) = &mut self.packets else { return Vec::new() };
        let metric = |arrival: &Option<(Time, Ecn)>| {
            let Some((at, ecn)) = *arrival else { return Metric::MISSING };
            let ago = now.saturating_since(at).as_nanos();
            let offset = u64::try_from(u128::from(ago) * 1_024 / 1_000_000_000).unwrap_or(u64::MAX);
            Metric::arrived(ecn, offset)
        };
        // Where a run of packets to report on begins, and where it ends.
        let mut runs: Vec<(usize, usize)> = vec![(0, 0)];
        for index in (0..packets.items.len()).filter(|index| packets.items[*index].is_some()) {
            let last = runs.last_mut().expect("there is one from the beginning");
            if index > last.1 + MOST_MISSING_IN_A_ROW {
                runs.push((index, index + 1));
            } else {
                last.1 = index + 1;
            }
        }
        let mut parts = Vec::new();
        for (start, end) in runs {
            for from in (start..end).step_by(most.max(1)) {
                let metrics = packets.items.range(from..end.min(from.saturating_add(most.max(1))));
                let begin = (packets.first + from as u64) as u16;
                parts.push(StreamReport { ssrc: self.ssrc, begin, metrics: metrics.map(metric).collect() });
            }
        }
        let next = packets.next();
        packets.forget(self.reported.saturating_sub(packets.first) as usize);
        self.reported = next;
        self.has_news = false;
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn arrivals(at_ms: u64, numbers: impl IntoIterator<Item = u64>) -> Arrivals {
        let mut arrivals = Arrivals::new(1);
        for number in numbers {
            assert!(arrivals.on_arrival(Time::from_millis(at_ms), FIRST + number, Ecn::NotEct));
        }
        arrivals
    }

    fn ranges(parts: &[StreamReport]) -> Vec<(u16, usize)> {
        parts.iter().map(|part| (part.begin, part.metrics.len())).collect()
    }

    #[test]
    fn a_report_is_about_what_is_new_and_what_the_last_one_was_about() {
        let mut arrivals = arrivals(1_000, [0, 1, 3]);
        let now = Time::from_millis(1_250);
        let first = arrivals.report(now, 3);
        assert_eq!(ranges(&first), [(0, 3), (3, 1)]);
        assert_eq!(first[0].metrics[0], Metric::arrived(Ecn::NotEct, 256));
        assert_eq!(first[0].metrics[2], Metric::MISSING);
        assert!(!arrivals.has_news());
        assert!(arrivals.on_arrival(Time::from_millis(1_300), FIRST + 4, Ecn::NotEct));
        assert_eq!(ranges(&arrivals.report(now, 100)), [(0, 5)]);
        assert!(arrivals.on_arrival(Time::from_millis(1_400), FIRST + 5, Ecn::NotEct));
        assert_eq!(ranges(&arrivals.report(now, 100)), [(4, 2)]);
        assert!(!arrivals.on_arrival(now, FIRST + 3, Ecn::NotEct), "it is older than the last report");
        assert!(!arrivals.on_arrival(now, FIRST + 5, Ecn::NotEct), "it has come before");
    }

    #[test]
    fn long_gaps_are_left_out() {
        let mut arrivals = arrivals(0, [0, 200, 1_000, 1_001]);
        let now = Time::ZERO + Duration::from_millis(50);
        assert_eq!(ranges(&arrivals.report(now, 2_000)), [(0, 201), (1_000, 2)]);
        arrivals.on_arrival(now, FIRST + 1_002, Ecn::NotEct);
        assert_eq!(ranges(&arrivals.report(now, 2_000)).last(), Some(&(1_000, 3)));
    }

    #[test]
    fn a_report_is_never_about_more_packets_than_a_report_may_be() {
        let mut arrivals = arrivals(0, (0..20_000).map(|number| number * 3));
        assert!(arrivals.packets.as_ref().unwrap().items.len() <= MOST_METRICS.into());
        let reports = arrivals.report(Time::ZERO, usize::MAX);
        assert!(reports.iter().all(|part| part.metrics.len() <= MOST_METRICS.into()));
    }
}
