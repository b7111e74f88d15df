//! Quantiles and means of measured times.

use anabranch_transport::time::Duration;

/// Quantiles, for shares in increasing order, in ms, by the nearest rank; NaN without any value. Changes
/// the order of the values.
pub(super) fn quantiles_ms<const N: usize>(values: &mut [Duration], shares: [f64; N]) -> [f64; N] {
    let mut rest = values;
    let mut below = 0;
    let total = rest.len();
    shares.map(|share| {
        if total == 0 {
            return f64::NAN;
        }
        let rank = ((share * total as f64).ceil() as usize).clamp(1, total) - 1;
        let (_, &mut quantile, _) = rest.select_nth_unstable(rank - below);
        // The next quantile is higher, so values below this one need not be looked at again.
        rest = &mut std::mem::take(&mut rest)[rank - below..];
        below = rank;
        quantile.as_millis_f64()
    })
}

/// The mean of the smallest values, `share` of them, in ms: a mean trimmed on one side. NaN without any
/// value. Changes the order of the values.
pub(super) fn trimmed_mean_ms(values: &mut [Duration], share: f64) -> f64 {
    values.sort_unstable();
    let kept = &values[..(share * values.len() as f64).ceil() as usize];
    mean_ms(kept)
}

/// The mean in ms; NaN without any value.
pub(super) fn mean_ms(values: &[Duration]) -> f64 {
    values.iter().map(|value| value.as_millis_f64()).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_mean_leaves_out_the_largest() {
        let mut values: Vec<Duration> = (1..=20).rev().map(Duration::from_millis).collect();
        assert_eq!(trimmed_mean_ms(&mut values, 0.95), 10.0);
        assert_eq!(mean_ms(&values), 10.5);
        assert_eq!(trimmed_mean_ms(&mut values[..1], 0.95), 1.0);
        assert!(trimmed_mean_ms(&mut [], 0.95).is_nan());
    }

    proptest::proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(values in proptest::collection::vec(0u64..1_000, 1..200)) {
            let mut durations: Vec<Duration> = values.iter().map(|&ms| Duration::from_millis(ms)).collect();
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = |share: f64| sorted[(share * sorted.len() as f64).ceil() as usize - 1] as f64;
            proptest::prop_assert_eq!(quantiles_ms(&mut durations, [0.5, 0.95, 1.0]), [rank(0.5), rank(0.95), rank(1.0)]);
        }
    }
}
