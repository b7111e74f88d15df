//! Poisson arrivals in blocks of time.
//!
//! A block is 2^k nanoseconds, so that it holds 6 to 12 arrivals on average: enough that the number's draw
//! is shared by several, few enough that a block can be skipped between two packets of interest. Block n
//! draws from the generator (key, n): its number of arrivals by inversion of the Poisson distribution,
//! then one place for each.

use crate::rng::{BlockRng, Draw};

/// A Poisson process.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    key: u64,
    /// A block is 2^shift nanoseconds.
    shift: u32,
    /// 32 - `shift`: by how much a place drawn with 32 bits is too long.
    place_shift: u32,
    counts: PoissonCounts,
    /// Arrivals are in [start, stop), in nanoseconds.
    start: u64,
    stop: u64,
    /// The next block that has not been opened.
    next_block: u64,
    /// First nanosecond of the block that was opened last.
    block_start: u64,
    /// Its arrivals, in order but with gaps, in nanoseconds from its start.
    places: [u64; MOST_IN_BLOCK],
    /// Which of the places hold an arrival that has not been taken: place k if bit k is set.
    left: u64,
    /// How many arrivals the block had.
    count: u64,
    /// Blocks into which somebody has looked.
    #[cfg(test)]
    pub(crate) blocks_placed: u64,
}

/// Beyond any number of arrivals that the 64-bit inversion of a mean of 12 gives; a power of two.
const MOST_IN_BLOCK: usize = 64;

/// Up to so many arrivals are sorted by scattering them over as many slots; what moves up stays below
/// twice as many.
const MOST_SCATTERED: u64 = MOST_IN_BLOCK as u64 / 2;

/// A place takes half a draw: its top bits are uniform over the 2^shift nanoseconds of the block.
fn place_of(bits: u64, place_shift: u32) -> u64 {
    (bits >> 32) >> place_shift
}

fn lowest_bit(bits: u64) -> usize {
    bits.trailing_zeros() as usize % MOST_IN_BLOCK
}

/// A block of arrivals whose places have not been drawn.
#[derive(Debug)]
pub(crate) struct Block {
    rng: BlockRng,
    /// First nanosecond of the block.
    pub(crate) start: u64,
    /// First nanosecond after the block.
    pub(crate) end: u64,
    pub(crate) count: u64,
}

impl Poisson {
    /// Mean arrivals per block are at most this and more than half of it.
    pub(crate) const MAX_MEAN_PER_BLOCK: f64 = 12.0;

    /// A place takes 32 bits of a draw.
    pub(crate) const MOST_SHIFT: u32 = 32;

    /// `most_shift`, at most [`Self::MOST_SHIFT`], bounds the length of a block, 2^shift nanoseconds.
    pub(crate) fn new(key: u64, packets_per_sec: f64, most_shift: u32, start: u64, stop: u64) -> Self {
        let mut shift = 0;
        let mean_of = |shift: u32| packets_per_sec * (1u64 << shift) as f64 / 1e9;
        while shift < most_shift && mean_of(shift + 1) <= Self::MAX_MEAN_PER_BLOCK {
            shift += 1;
        }
        let next_block = if packets_per_sec > 0.0 { start >> shift } else { u64::MAX };
        let counts = PoissonCounts::new(mean_of(shift));
        Self {
            key,
            shift,
            place_shift: Self::MOST_SHIFT - shift,
            counts,
            start,
            stop,
            next_block,
            block_start: 0,
            places: [0; MOST_IN_BLOCK],
            left: 0,
            count: 0,
            #[cfg(test)]
            blocks_placed: 0,
        }
    }

    /// First nanosecond of the block that was opened last.
    #[inline]
    pub(crate) fn block_start(&self) -> u64 {
        self.block_start
    }

    /// Whether the open block has arrivals that have not been taken.
    #[inline]
    pub(crate) fn has_placed(&self) -> bool {
        self.left != 0
    }

    /// The next arrival of the open block, in nanoseconds.
    #[inline]
    fn next_placed(&self) -> Option<u64> {
        (self.left != 0).then(|| self.block_start + self.places[lowest_bit(self.left)])
    }

    /// At least the arrivals of the open block that have not been taken.
    #[inline]
    pub(crate) fn most_placed(&self) -> u64 {
        self.count
    }

    /// Takes the arrivals of the open block up to `now`, in their order; `take` gets them in nanoseconds
    /// from the block's start.
    #[inline]
    pub(crate) fn take_placed(&mut self, now: u64, mut take: impl FnMut(u64)) {
        let Some(last) = now.checked_sub(self.block_start) else { return };
        let mut left = self.left;
        while left != 0 {
            let place = self.places[lowest_bit(left)];
            if place > last {
                break;
            }
            take(place);
            left &= left - 1;
        }
        self.left = left;
    }

    /// The next block if it has begun by `now`; the places of the block before have to be taken.
    #[inline]
    pub(crate) fn open_block(&mut self, now: u64) -> Option<Block> {
        let block = self.next_block;
        if block > now >> self.shift {
            return None;
        }
        let start = block << self.shift;
        if start >= self.stop {
            self.next_block = u64::MAX;
            return None;
        }
        self.next_block += 1;
        let mut rng = BlockRng::new(self.key, block);
        let count = self.counts.draw(&mut rng);
        Some(Block { rng, start, end: start + (1 << self.shift), count })
    }

    /// Whether all of the block's arrivals count: it lies between start and stop.
    #[inline]
    pub(crate) fn is_whole(&self, block: &Block) -> bool {
        self.start <= block.start && block.end <= self.stop
    }

    /// Draws the places of a block's arrivals.
    #[inline]
    pub(crate) fn place(&mut self, block: Block) {
        #[cfg(test)]
        {
            self.blocks_placed += 1;
        }
        self.count = block.count;
        self.block_start = block.start;
        let is_whole = self.is_whole(&block);
        if block.count <= MOST_SCATTERED {
            self.scatter(block);
        } else {
            self.sort(block);
        }
        if !is_whole {
            self.cut();
        }
    }

    /// Sorts places as they are drawn, by linear probing (Gonnet and Munro, SIAM Journal on Computing 13,
    /// 1984): each goes where the top bits of its draw say, and moves larger ones up.
    #[inline]
    fn scatter(&mut self, mut block: Block) {
        let place_shift = self.place_shift;
        let places = &mut self.places;
        let mut left = 0_u64;
        let mut insert = |bits: u64| {
            let mut place = place_of(bits, place_shift);
            let mut slot = (bits >> (64 - MOST_SCATTERED.ilog2())) as usize;
            while left >> slot & 1 == 1 {
                let other = &mut places[slot % MOST_IN_BLOCK];
                if place < *other {
                    std::mem::swap(&mut place, other);
                }
                slot += 1;
            }
            places[slot % MOST_IN_BLOCK] = place;
            left |= 1 << slot;
        };
        for _ in 0..block.count / 2 {
            let bits = block.rng.bits();
            insert(bits);
            insert(bits << 32);
        }
        if block.count % 2 == 1 {
            insert(block.rng.bits());
        }
        self.left = left;
    }

    /// Sorts the places of a block with more arrivals than can be scattered.
    #[cold]
    fn sort(&mut self, mut block: Block) {
        let mut bits = 0;
        for index in 0..block.count as usize {
            bits = if index % 2 == 0 { block.rng.bits() } else { bits << 32 };
            self.places[index] = place_of(bits, self.place_shift);
        }
        self.places[..block.count as usize].sort_unstable();
        self.left = (1 << block.count) - 1;
    }

    /// Removes what is not between start and stop.
    #[cold]
    fn cut(&mut self) {
        for (slot, &place) in self.places.iter().enumerate() {
            let time = self.block_start + place;
            if time < self.start || time >= self.stop {
                self.left &= !(1 << slot);
            }
        }
    }

    /// The next arrival if it is not after `limit`, in nanoseconds; `u64::MAX` for none.
    pub(crate) fn peek(&mut self, limit: u64) -> u64 {
        loop {
            if let Some(place) = self.next_placed() {
                return place;
            }
            let Some(block) = self.open_block(limit) else { return u64::MAX };
            self.place(block);
        }
    }

    /// Takes the next arrival.
    pub(crate) fn pop(&mut self) {
        self.left &= self.left - 1;
    }
}

/// The Poisson distribution, by inversion of one 64-bit draw.
#[derive(Clone, Debug)]
struct PoissonCounts {
    /// `cumulative[k]` is P(N <= k) times 2^64 less 1, and the largest integer from the last k on.
    cumulative: [u64; MOST_IN_BLOCK],
    /// Where to start looking, by the draw's top bits.
    guide: [u8; Self::GUIDES],
}

impl PoissonCounts {
    const GUIDE_BITS: u32 = 6;
    const GUIDES: usize = 1 << Self::GUIDE_BITS;

    fn new(mean: f64) -> Self {
        let mut cumulative = Vec::new();
        let mut term = libm::exp(-mean);
        let mut sum = 0.0;
        // 2^64 times the tail is far below 1 where the terms are.
        while cumulative.len() < MOST_IN_BLOCK && (sum < 0.5 || term > 1e-24) {
            sum += term;
            // The conversion saturates at the largest integer.
            cumulative.push((sum * 18_446_744_073_709_551_616.0) as u64);
            term *= mean / cumulative.len() as f64;
        }
        let mut guide = [0; Self::GUIDES];
        for (top, first) in guide.iter_mut().enumerate() {
            let lowest = (top as u64) << (64 - Self::GUIDE_BITS);
            *first =
                cumulative.iter().take_while(|&&limit| limit <= lowest).count().min(MOST_IN_BLOCK - 1) as u8;
        }
        // What the tail lacks of 1 goes to the last of the numbers.
        cumulative.pop();
        cumulative.iter_mut().for_each(|limit| *limit -= 1);
        cumulative.resize(MOST_IN_BLOCK, u64::MAX);
        let cumulative = cumulative.try_into().expect("it has been resized");
        Self { cumulative, guide }
    }

    #[inline]
    fn draw(&self, rng: &mut impl Draw) -> u64 {
        let bits = rng.bits();
        let mut count = usize::from(self.guide[(bits >> (64 - Self::GUIDE_BITS)) as usize]);
        while self.cumulative[count % MOST_IN_BLOCK] < bits {
            count += 1;
        }
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(packets_per_sec: f64, start: u64, stop: u64, until: u64) -> Vec<u64> {
        let mut poisson = Poisson::new(7, packets_per_sec, Poisson::MOST_SHIFT, start, stop);
        let mut times = Vec::new();
        while poisson.peek(until) <= until {
            times.push(poisson.peek(until));
            poisson.pop();
        }
        times
    }

    #[test]
    fn gaps_are_exponential() {
        let times = arrivals(200.0, 0, u64::MAX, 1_000_000_000_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 5e6).collect();
        let count = gaps.len() as f64;
        assert!((count / 200_000.0 - 1.0).abs() < 0.01, "{count}");
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
        let beyond = gaps.iter().filter(|&&gap| gap > 3.0).count() as f64 / count;
        assert!((beyond - 0.0498).abs() < 0.002, "{beyond}");
    }

    #[test]
    fn start_and_stop_cut_the_same_process() {
        let all = arrivals(1000.0, 0, u64::MAX, 1_000_000_000);
        let part = arrivals(1000.0, 300_000_000, 700_000_001, 1_000_000_000);
        let expected: Vec<u64> =
            all.into_iter().filter(|time| (300_000_000..700_000_001).contains(time)).collect();
        assert!(!part.is_empty());
        assert_eq!(part, expected);
        assert!(arrivals(0.0, 0, u64::MAX, u64::MAX / 2).is_empty());
    }
}
