//! Sequence numbers of 16 bits as numbers that never wrap, what is known of them, and the sources of streams.

use std::collections::VecDeque;

/// The number nearest to `near` that has these lowest 16 bits.
pub(super) fn extend(near: u64, sequence: u16) -> u64 {
    let distance = sequence.wrapping_sub(near as u16) as i16;
    near.saturating_add_signed(distance.into())
}

/// What is known of each number from `first` on, up to the highest one: its default as long as that is
/// nothing.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    pub(super) first: u64,
    pub(super) items: VecDeque<T>,
}

impl<T: Clone + Default + PartialEq> Numbered<T> {
    pub(super) const fn new(first: u64) -> Self {
        Self { first, items: VecDeque::new() }
    }

    /// The number behind the highest one.
    pub(super) fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Keeps this of a number, and of no more than `most` numbers up to the highest. Returns false if the
    /// number lies before the first one, or something is known of it.
    pub(super) fn put(&mut self, number: u64, item: T, most: usize) -> bool {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index else { return false };
        if index >= self.items.len() {
            self.items.resize(index + 1, T::default());
        }
        if self.items[index] != T::default() {
            return false;
        }
        self.items[index] = item;
        self.forget(self.items.len().saturating_sub(most));
        true
    }

    /// Forgets so many numbers, the first ones.
    pub(super) fn forget(&mut self, count: usize) {
        self.items.drain(..count);
        self.first += count as u64;
    }
}

/// The first number of a stream, far enough from 0 that earlier ones have a place.
pub(super) const FIRST: u64 = 1 << 16;

/// The bit by which the source of retransmissions differs from that of the media (RFC 4588 section 5.3 has
/// one source for each). The source of the media is the port.
pub(super) const RETRANSMISSIONS: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_extended_towards_the_nearest() {
        assert_eq!(extend(FIRST + 65_535, 2), FIRST + 65_538);
        assert_eq!(extend(FIRST + 65_538, 65_535), FIRST + 65_535);
        assert_eq!(extend(FIRST, 0), FIRST);
        assert_eq!(extend(FIRST, 32_768), FIRST - 32_768);
    }
}
