//! What arrives, in bit/s: `robust_throughput_estimator.cc`, which has been the default since 2023.

use std::collections::VecDeque;

use super::super::super::ms_between;
use crate::time::Time;

/// `RobustThroughputEstimatorSettings`.
const PACKETS: usize = 20;
const MAX_PACKETS: usize = 500;
const REQUIRED: usize = 10;
const MIN_WINDOW_MS: f64 = 1_000.0;
const MAX_WINDOW_MS: f64 = 5_000.0;
/// `kMaxReorderingTime`.
const MAX_REORDERING_MS: f64 = 1_000.0;

/// The window of packets that arrived last.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// When each was sent, when it arrived, and its bits, in the order of arrival.
    window: VecDeque<(Time, Time, f64)>,
    /// The latest of the packets that have left the window.
    discarded: Option<Time>,
}

impl Throughput {
    pub(super) fn on_packet(&mut self, sent: Time, arrived: Time, size: u32) {
        let place = self.window.partition_point(|&(_, before, _)| before <= arrived);
        self.window.insert(place, (sent, arrived, f64::from(size) * 8.0));
        if self.window.back().is_some_and(|last| ms_between(arrived, last.1) > MAX_REORDERING_MS) {
            *self = Self::default();
        }
        while self.is_too_long() {
            let first = self.window.pop_front().map(|(sent, ..)| sent);
            self.discarded = self.discarded.max(first);
        }
    }

    fn is_too_long(&self) -> bool {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else { return false };
        let (count, ms) = (self.window.len(), ms_between(first.1, last.1));
        count > MAX_PACKETS || ms > MAX_WINDOW_MS || count > PACKETS && ms > MIN_WINDOW_MS
    }

    /// The rate in bit/s once there are enough packets: the lower one of sending and arriving.
    pub(super) fn rate(&self) -> Option<f64> {
        if self.window.len() < REQUIRED {
            return None;
        }
        let (first, last) = (self.window.front()?, self.window.back()?);
        let bits: f64 = self.window.iter().map(|packet| packet.2).sum();
        // N packets have N - 1 gaps between them, so one packet is left out.
        let received = bits - first.2;
        // The longest gap counts as long as the second: a spike of the delay is no lower rate.
        let gaps = self.window.iter().zip(self.window.iter().skip(1)).map(|(a, b)| ms_between(a.1, b.1));
        let [longest, second] =
            gaps.fold(
                [0.0f64; 2],
                |[longest, second], gap| {
                    if gap > longest { [gap, longest] } else { [longest, second.max(gap)] }
                },
            );
        let receiving = received / (ms_between(first.1, last.1) - longest + second).max(1.0) * 1e3;
        let sent = self.window.iter().filter(|packet| self.discarded.is_none_or(|time| packet.0 >= time));
        if sent.clone().count() < REQUIRED {
            return Some(receiving);
        }
        let earliest = sent.clone().map(|packet| packet.0).min()?;
        // Of packets that were sent at the same time the first one is left out.
        let latest = sent.clone().rev().max_by_key(|packet| packet.0)?;
        let bits: f64 = sent.map(|packet| packet.2).sum();
        let sending = (bits - latest.2) / ms_between(earliest, latest.0).max(1.0) * 1e3;
        Some(receiving.min(sending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_even_packets_and_a_spike_does_not_lower_it() {
        let mut throughput = Throughput::default();
        let mut packet = |sent: u64, arrived: u64| {
            throughput.on_packet(Time::from_millis(sent), Time::from_millis(arrived), 1_250);
            throughput.rate()
        };
        let rates: Vec<_> = (0..100).map(|number| packet(10 * number, 10 * number + 50)).collect();
        assert_eq!((rates[8], rates[9], rates[99]), (None, Some(1e6), Some(1e6)));
        // Nothing arrives for 400 ms, then all of it at once.
        let mut spiked = None;
        for number in 100..140 {
            spiked = packet(10 * number, (10 * number + 50).max(1_450));
        }
        assert!((spiked.unwrap() / 1e6 - 1.0).abs() < 0.05, "{spiked:?}");
    }

    #[test]
    fn the_window_is_a_second_and_twenty_packets() {
        let mut throughput = Throughput::default();
        for number in 0..100 {
            throughput.on_packet(Time::from_millis(10 * number), Time::from_millis(10 * number), 125);
        }
        for number in 0..40 {
            let at = Time::from_millis(1_000 + 100 * number);
            throughput.on_packet(at, at, 125);
        }
        // 20 packets and more, over at most 5 s.
        assert!((throughput.rate().unwrap() - 10_000.0).abs() < 600.0, "{:?}", throughput.rate());
    }

    #[test]
    fn of_packets_that_were_sent_together_the_first_one_is_left_out() {
        let mut throughput = Throughput::default();
        for number in 0..10 {
            let at = Time::from_millis(10 * number.min(8));
            let size = if number == 9 { 125 } else { 1_250 };
            throughput.on_packet(at, Time::from_millis(5 * number), size);
        }
        // 91,000 bits less 10,000 of the ninth packet, in 80 ms.
        assert_eq!(throughput.rate(), Some(1.012_5e6));
    }

    #[test]
    fn arrivals_that_jump_back_by_more_than_a_second_begin_anew() {
        let mut throughput = Throughput::default();
        for number in 0..30 {
            let at = Time::from_millis(100 * number);
            throughput.on_packet(at, at, 125);
        }
        assert!(throughput.discarded.is_some());
        let late = Time::from_millis(10_000);
        throughput.on_packet(late, late, 1_250);
        let early = Time::from_millis(5_000);
        throughput.on_packet(early, early, 1_250);
        assert_eq!((throughput.rate(), throughput.discarded), (None, None));
    }
}
