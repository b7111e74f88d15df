//! The mean number of packets between losses (RFC 5348 section 5.4), in which every lost packet begins an
//! interval.
//!
//! Known deviation: RFC 5348 counts losses within a round trip as one event. NADA asks for the interval
//! between losses (RFC 8698 section 4.2), and its implementations begin an interval at each.

use std::collections::VecDeque;

/// RFC 5348 section 5.4: the weights of the latest intervals, the latest first.
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Intervals between losses.
#[derive(Clone, Debug, Default)]
pub(super) struct LossIntervals {
    /// The latest first; that one is not over yet.
    intervals: VecDeque<u64>,
}

impl LossIntervals {
    /// A packet has arrived.
    pub(super) fn on_arrival(&mut self) {
        if let Some(current) = self.intervals.front_mut() {
            *current += 1;
        }
    }

    /// A packet is lost.
    pub(super) fn on_loss(&mut self) {
        self.intervals.truncate(WEIGHTS.len());
        self.intervals.push_front(1);
    }

    /// Packets that have arrived since the last loss, if there was one.
    pub(super) fn since_loss(&self) -> Option<u64> {
        self.intervals.front().map(|current| current - 1)
    }

    /// The mean interval; the current one counts if that makes it longer. `None` before the first loss.
    pub(super) fn mean(&self) -> Option<f64> {
        if self.intervals.len() < 2 {
            return self.intervals.front().map(|&current| current as f64);
        }
        let mean = |skipped: usize| {
            let intervals = self.intervals.iter().skip(skipped);
            let weighted =
                intervals.zip(WEIGHTS).map(|(&interval, weight)| (interval as f64 * weight, weight));
            let (sum, weights) = weighted.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
            sum / weights
        };
        Some(mean(0).max(mean(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_rfc() {
        let mut intervals = LossIntervals::default();
        intervals.on_arrival();
        assert_eq!((intervals.since_loss(), intervals.mean()), (None, None));
        for length in [10, 20] {
            intervals.on_loss();
            (1..length).for_each(|_| intervals.on_arrival());
        }
        // The interval of 20 is not over.
        assert_eq!((intervals.since_loss(), intervals.mean()), (Some(19), Some(15.0)));
        intervals.on_loss();
        assert_eq!((intervals.since_loss(), intervals.mean()), (Some(0), Some(15.0)));
        for _ in 0..20 {
            intervals.on_loss();
        }
        assert_eq!(intervals.mean(), Some(1.0));
    }
}
