//! The likelihood of losses under a chain of two states, a good and a bad one, by the forward algorithm
//! (L. R. Rabiner, Proceedings of the IEEE 77(2), 1989).

/// Some packets in a row that had the same fate, at equal steps of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// How many.
    pub packets: u64,
    /// Whether all of them were lost.
    pub is_lost: bool,
    /// How far the chain forgets its state behind each: the probabilities of going from good to bad and from
    /// bad to good together.
    pub change: f64,
}

/// What the states are, and lose.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// The share of the bad one, which is how probably the chain is bad at the first packet.
    pub is_bad: f64,
    /// How probably a packet is lost in the good state.
    pub loss_in_good: f64,
    /// How probably one is lost in the bad state.
    pub loss_in_bad: f64,
}

/// Below it, and above its inverse, numbers are scaled.
const SMALL: f64 = 1e-100;

type Row = [f64; 2];
type Matrix = [Row; 2];

fn times(row: Row, [from_good, from_bad]: Matrix) -> Row {
    [row[0] * from_good[0] + row[1] * from_bad[0], row[0] * from_good[1] + row[1] * from_bad[1]]
}

/// Makes the sum of small or large numbers 1; gives the logarithm of what they were divided by.
fn scaled(numbers: &mut [Row]) -> f64 {
    let sum: f64 = numbers.iter().flatten().sum();
    if (SMALL..=1.0 / SMALL).contains(&sum) {
        return 0.0;
    }
    let by = sum.max(f64::MIN_POSITIVE);
    numbers.iter_mut().flatten().for_each(|number| *number /= by);
    libm::log(by)
}

/// The logarithm of the probability of these fates. What cannot be is as improbable as a number can say.
pub fn log_likelihood(stretches: impl IntoIterator<Item = Stretch>, states: &States) -> f64 {
    let arrives = [1.0 - states.loss_in_good, 1.0 - states.loss_in_bad];
    let is_lost = [states.loss_in_good, states.loss_in_bad];
    let mut row = [[1.0 - states.is_bad, states.is_bad]];
    let mut log = 0.0;
    for one in stretches {
        let [good, bad] = if one.is_lost { is_lost } else { arrives };
        let (to_bad, to_good) = (states.is_bad * one.change, (1.0 - states.is_bad) * one.change);
        let mut power = [[good * (1.0 - to_bad), good * to_bad], [bad * to_good, bad * (1.0 - to_good)]];
        // By squares: all powers of a matrix commute.
        let (mut left, mut power_log) = (one.packets, 0.0);
        while left > 0 {
            if left & 1 == 1 {
                row = [times(row[0], power)];
                log += power_log + scaled(&mut row);
            }
            left >>= 1;
            if left > 0 {
                power = power.map(|from| times(from, power));
                power_log = 2.0 * power_log + scaled(&mut power);
            }
        }
    }
    log + libm::log((row[0][0] + row[0][1]).max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Over all ways of the chain, packet by packet.
    fn by_ways(stretches: &[Stretch], states: &States) -> f64 {
        let packets: Vec<_> = stretches.iter().flat_map(|one| (0..one.packets).map(move |_| *one)).collect();
        let mut sum = 0.0;
        for way in 0_u32..1 << packets.len() {
            let mut chance = 1.0;
            for (at, packet) in packets.iter().enumerate() {
                let (now, next) = (way >> at & 1 == 1, way >> (at + 1) & 1 == 1);
                if at == 0 {
                    chance *= if now { states.is_bad } else { 1.0 - states.is_bad };
                }
                let loss = if now { states.loss_in_bad } else { states.loss_in_good };
                chance *= if packet.is_lost { loss } else { 1.0 - loss };
                if at + 1 < packets.len() {
                    let changes = packet.change * if now { 1.0 - states.is_bad } else { states.is_bad };
                    chance *= if now == next { 1.0 - changes } else { changes };
                }
            }
            sum += chance;
        }
        sum
    }

    fn stretch(packets: u64, is_lost: bool, change: f64) -> Stretch {
        Stretch { packets, is_lost, change }
    }

    #[test]
    fn long_stretches_do_not_underflow() {
        let states = States { is_bad: 0.5, loss_in_good: 0.25, loss_in_bad: 0.25 };
        let found = log_likelihood([stretch(1_000_003, true, 1.0)], &states);
        assert!((found / (1_000_003.0 * libm::log(0.25)) - 1.0).abs() < 1e-9, "{found}");
        let never = States { is_bad: 0.5, loss_in_good: 0.0, loss_in_bad: 0.0 };
        assert!(log_likelihood([stretch(3, true, 1.0)], &never) < -700.0);
        assert_eq!(log_likelihood([], &states), 0.0);
    }

    proptest! {
        #[test]
        fn it_is_the_sum_over_all_ways(
            all in proptest::collection::vec((0_u64..4, any::<bool>(), 0.0..=1.0), 0..4),
            (is_bad, loss_in_good, loss_in_bad) in (0.01..0.99, 0.01..0.99, 0.01..0.99),
        ) {
            let stretches: Vec<_> = all.into_iter().map(|(count, lost, change)| stretch(count, lost, change)).collect();
            let states = States { is_bad, loss_in_good, loss_in_bad };
            let (found, expected) = (log_likelihood(stretches.iter().copied(), &states), by_ways(&stretches, &states));
            prop_assert!((libm::exp(found) - expected).abs() <= 1e-12 + 1e-9 * expected, "{found} {expected}");
        }
    }
}
