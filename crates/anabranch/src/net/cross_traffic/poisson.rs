//! Poisson arrivals, one after the other.
//!
//! The gaps are exponential, drawn by the ziggurat of G. Marsaglia and W. W. Tsang (Journal of Statistical
//! Software 5, 2000) with 256 layers, in integers: the same on every machine, about 20 instructions each.

use std::sync::{Arc, LazyLock};

use anabranch_transport::rng::{BlockRng, Draw};

/// A Poisson process.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    rng: BlockRng,
    layers: Arc<Layers>,
    /// The next arrival in 2^-64 ns.
    next: u128,
    /// Arrivals after this time, in nanoseconds, do not count.
    last: u64,
}

const LAYERS: usize = 256;
/// A draw's lowest bits choose the layer, the others the place in it.
const LAYER_BITS: u32 = LAYERS.ilog2();
/// Places in a layer.
const PLACES: f64 = (1_u64 << (64 - LAYER_BITS)) as f64;

/// The ziggurat for one mean gap, given in nanoseconds.
#[derive(Clone, Debug)]
struct Layers {
    layers: [Layer; LAYERS],
    mean: f64,
}

/// A layer of the ziggurat.
#[derive(Clone, Copy, Debug)]
struct Layer {
    /// A place below this is certainly under the curve.
    inside: u64,
    /// The layer's width in 2^-8 ns: multiplied by a place and divided by 2^64, it is a gap in nanoseconds.
    width: u64,
}

/// The layers for mean 1, from the one at the bottom, which has the tail, to the top.
struct Ziggurat {
    /// Right edges; the bottom layer's is that of a rectangle of the same area.
    edges: [f64; LAYERS + 1],
    /// `exp(-edge)`.
    heights: [f64; LAYERS + 1],
}

/// The start of the tail and the area of each layer, for 256 layers.
const TAIL_START: f64 = 7.697_117_470_131_05;
const AREA: f64 = 0.003_949_659_822_581_557;

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let mut edges = [0.0; LAYERS + 1];
    edges[0] = AREA * libm::exp(TAIL_START);
    edges[1] = TAIL_START;
    for index in 2..LAYERS {
        let below = edges[index - 1];
        edges[index] = -libm::log(AREA / below + libm::exp(-below));
    }
    Ziggurat { edges, heights: edges.map(|edge| libm::exp(-edge)) }
});

impl Poisson {
    /// A mean gap is at least a nanosecond.
    pub(crate) const MAX_PACKETS_PER_SEC: f64 = 1e9;
    /// Longer mean gaps, of 52 days and more, are taken for no arrivals at all.
    const LONGEST_MEAN_GAP: f64 = (1_u64 << 52) as f64;

    /// Arrivals from `start` to before `stop`, both in nanoseconds.
    pub(crate) fn new(key: u64, packets_per_sec: f64, start: u64, stop: u64) -> Self {
        let mean = 1e9 / packets_per_sec;
        let is_ever = mean < Self::LONGEST_MEAN_GAP && start < stop;
        let mut rng = BlockRng::new(key, 0);
        let layers = Arc::new(Layers::new(mean.min(Self::LONGEST_MEAN_GAP)));
        let next = if is_ever { (u128::from(start) << 64) + layers.draw(&mut rng) } else { u128::MAX };
        // This is 18 years before the end of time, so that the arrival after the last one is still a time.
        let last = stop.saturating_sub(1).min(u64::MAX - (1 << 59));
        Self { rng, layers, next, last }
    }

    /// The next arrival in nanoseconds; `u64::MAX` if there is none.
    pub(crate) fn peek(&self) -> u64 {
        let next = nanos(self.next);
        if next <= self.last { next } else { u64::MAX }
    }

    /// Takes the next arrival, which must exist.
    pub(crate) fn pop(&mut self) {
        self.next += self.layers.draw(&mut self.rng);
    }

    /// Takes arrivals up to `now` as long as `take`, which gets their times in nanoseconds, agrees. Returns
    /// the time of the first one that it refuses, which is not taken.
    #[inline]
    pub(crate) fn take_while(&mut self, now: u64, mut take: impl FnMut(u64) -> bool) -> Option<u64> {
        let last = now.min(self.last);
        let (mut rng, mut next) = (self.rng.clone(), self.next);
        let refused = loop {
            let time = nanos(next);
            if time > last {
                break None;
            }
            if !take(time) {
                break Some(time);
            }
            next += self.layers.draw(&mut rng);
        };
        (self.rng, self.next) = (rng, next);
        refused
    }
}

/// The whole nanoseconds of an exact time.
const fn nanos(exact: u128) -> u64 {
    (exact >> 64) as u64
}

impl Layers {
    fn new(mean: f64) -> Self {
        let ziggurat = &*ZIGGURAT;
        let layers = std::array::from_fn(|index| Layer {
            inside: (ziggurat.edges[index + 1] / ziggurat.edges[index] * PLACES) as u64,
            width: (ziggurat.edges[index] * mean * LAYERS as f64) as u64,
        });
        Self { layers, mean }
    }

    /// A gap in 2^-64 ns.
    #[inline]
    fn draw(&self, rng: &mut BlockRng) -> u128 {
        let bits = rng.bits();
        let place = bits >> LAYER_BITS;
        let Layer { inside, width } = self.layers[usize::from(bits as u8)];
        if place < inside {
            return u128::from(place) * u128::from(width);
        }
        let (gap, after) = self.draw_at_edge(bits, rng.clone());
        *rng = after;
        gap
    }

    /// The gap for a draw that is not certain to be inside its layer, and the generator after it.
    #[cold]
    fn draw_at_edge(&self, bits: u64, mut rng: BlockRng) -> (u128, BlockRng) {
        let ziggurat = &*ZIGGURAT;
        let index = usize::from(bits as u8);
        let place = bits >> LAYER_BITS;
        if index == 0 {
            // The tail of an exponential distribution is an exponential distribution.
            let beyond = (TAIL_START + rng.exponential()) * self.mean;
            return ((beyond as u128) << 64, rng);
        }
        let (right, low) = (ziggurat.edges[index], ziggurat.heights[index]);
        let (left, high) = (ziggurat.edges[index + 1], ziggurat.heights[index + 1]);
        let x = place as f64 / PLACES * right;
        let share = rng.uniform();
        let y = low + share * (high - low);
        // The curve is below its chord and above its tangent, which nearly always decides.
        let is_below_chord = share * (right - left) < right - x;
        if is_below_chord && (y < low * (1.0 + (right - x)) || y < libm::exp(-x)) {
            return (u128::from(place) * u128::from(self.layers[index].width), rng);
        }
        (self.draw(&mut rng), rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(packets_per_sec: f64, start: u64, stop: u64, until: u64) -> Vec<u64> {
        let mut poisson = Poisson::new(7, packets_per_sec, start, stop);
        let mut times = Vec::new();
        while poisson.peek() <= until {
            times.push(poisson.peek());
            poisson.pop();
        }
        times
    }

    fn gaps(times: &[u64], mean: f64) -> Vec<f64> {
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / mean).collect()
    }

    #[test]
    fn gaps_are_exponential() {
        let times = arrivals(200.0, 0, u64::MAX, 5_000_000_000_000);
        let mut gaps = gaps(&times, 5e6);
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        assert!((count / 1_000_000.0 - 1.0).abs() < 0.004, "{count}");
        // Kolmogorov-Smirnov at 0.1 %, for the whole curve with wedges and tail.
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(rank, &gap)| ((rank as f64 + 0.5) / count - (1.0 - libm::exp(-gap))).abs())
            .fold(0.0, f64::max);
        assert!(distance * libm::sqrt(count) < 1.95, "{distance}");
        let tail = gaps.iter().filter(|&&gap| gap > TAIL_START).count() as f64;
        let expected = count * libm::exp(-TAIL_START);
        assert!((tail - expected).abs() < 4.0 * libm::sqrt(expected), "{tail} for {expected}");
    }

    #[test]
    fn gaps_are_independent() {
        let times = arrivals(200.0, 0, u64::MAX, 1_000_000_000_000);
        let gaps = gaps(&times, 5e6);
        let products = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum::<f64>();
        assert!((products / gaps.len() as f64).abs() < 0.01);
    }

    #[test]
    fn the_rate_holds_where_gaps_are_a_few_nanoseconds() {
        let count = arrivals(3e8, 0, u64::MAX, 1_000_000).len() as f64;
        assert!((count / 300_000.0 - 1.0).abs() < 0.01, "{count}");
    }

    #[test]
    fn they_begin_at_start_and_end_before_stop() {
        let times = arrivals(1000.0, 300_000_000, 700_000_001, 1_000_000_000);
        assert!((300..500).contains(&times.len()));
        assert!(times[0] >= 300_000_000 && times[times.len() - 1] <= 700_000_000);
        assert!(arrivals(0.0, 0, u64::MAX, u64::MAX / 2).is_empty());
        assert!(arrivals(1e-9, 0, u64::MAX, u64::MAX / 2).is_empty());
    }
}
