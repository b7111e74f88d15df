//! How long packets waited in a queue: mean, maximum and quantiles, in constant memory.

use anabranch_transport::report::{Report, declare};

declare! {
    /// The waiting times of a queue in which packets are found when they are served.
    SCALARS:
    /// Mean time from a packet's arrival at the queue until it was taken out to be sent.
    MEAN_SOJOURN_MS = "mean_sojourn_ms": Millis, Less;
    /// 95 % of these times are at most this long, rounded up by at most 1/64.
    P95_SOJOURN_MS = "p95_sojourn_ms": Millis, Less;
    /// 99 % of these times are at most this long, rounded up by at most 1/64.
    P99_SOJOURN_MS = "p99_sojourn_ms": Millis, Less;
    /// The longest of these times.
    MAX_SOJOURN_MS = "max_sojourn_ms": Millis, Less;
}

declare! {
    /// The scalars of such a queue, beside these times.
    QUEUE_SCALARS:
    /// Mean over time of the number of packets that waited.
    MEAN_QUEUE_PACKETS = "mean_queue_packets": One;
}

/// Waiting times, in nanoseconds, counted in classes whose width is at most 1/64 of the values in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sojourns {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// Values with the same power of two share this many bits of a class number.
const BITS: u32 = 6;

impl Sojourns {
    pub(crate) fn record(&mut self, nanos: u64) {
        let class = class_of(nanos);
        if class >= self.counts.len() {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// The smallest value that this share of all values does not exceed, rounded up by at most 1/64; `None`
    /// without values.
    fn quantile(&self, share: f64) -> Option<u64> {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut below = 0;
        let class = self.counts.iter().position(|count| {
            below += count;
            below >= rank && below > 0
        })?;
        Some(greatest_of(class).min(self.max))
    }

    pub(crate) fn memory(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    /// Writes mean, quantiles and maximum.
    pub(crate) fn report(&self, report: &mut Report<'_>) {
        let millis = |nanos: Option<u64>| nanos.map_or(f64::NAN, |nanos| nanos as f64 / 1e6);
        report.mean(MEAN_SOJOURN_MS, self.sum as f64 / 1e6, self.count);
        report.scalar(P95_SOJOURN_MS, millis(self.quantile(0.95)));
        report.scalar(P99_SOJOURN_MS, millis(self.quantile(0.99)));
        report.scalar(MAX_SOJOURN_MS, millis((self.count > 0).then_some(self.max)));
    }
}

/// Values below 2^(BITS + 1) have a class each; from there on 2^BITS classes share each power of two.
fn class_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The greatest value of a class.
fn greatest_of(class: usize) -> u64 {
    let shift = (class as u64 >> BITS).saturating_sub(1);
    let first = class as u64 - (shift << BITS);
    (first << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn classes_are_narrow_and_in_order(value in any::<u64>(), shift in 0..64u32) {
            let value = value >> shift;
            let greatest = greatest_of(class_of(value));
            prop_assert!(value <= greatest && greatest - value <= value / 64);
            prop_assert_eq!(class_of(greatest), class_of(value));
            if greatest < u64::MAX {
                prop_assert_eq!(class_of(greatest + 1), class_of(value) + 1);
            }
        }

        #[test]
        fn quantiles_are_close(values in prop::collection::vec(0..2_000_000u64, 1..300), share in 0.01..1.0f64) {
            let mut sojourns = Sojourns::default();
            for &value in &values {
                sojourns.record(value);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let exact = sorted[(share * sorted.len() as f64).ceil() as usize - 1];
            let found = sojourns.quantile(share).unwrap();
            prop_assert!(found >= exact && found - exact <= exact / 64, "{} {}", found, exact);
        }
    }
}
