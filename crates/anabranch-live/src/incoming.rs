//! The bytes of a peer's stream that have arrived and have not been delivered.

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::flow::Payload;

/// The most pieces that are kept. An endpoint takes fewer, so it has not taken what is dropped here.
const MOST_PIECES: usize = 1 << 15;

/// Bytes by their position in the stream, from the first one that has not been delivered.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    first: u64,
    /// Pieces with gaps between them, by position.
    pieces: BTreeMap<u64, VecDeque<u8>>,
}

impl Incoming {
    /// Keeps bytes that the endpoint has taken. Bytes that are already there or were delivered before are
    /// left out, and so are bytes at least `most` beyond those, as no endpoint offers such a wide window.
    pub(crate) fn put(&mut self, position: u64, bytes: &[u8], most: u64) {
        let end = position.saturating_add(bytes.len() as u64);
        if end <= self.first || end - self.first > most {
            return;
        }
        let mut from = position.max(self.first);
        // Fills the gaps between the pieces.
        while from < end {
            let before = self.pieces.range(..=from).next_back();
            let known = before.map_or(0, |(start, piece)| start + piece.len() as u64);
            if known > from {
                from = known;
                continue;
            }
            let until = self.pieces.range(from..).next().map_or(end, |(start, _)| end.min(*start));
            self.insert(from, &bytes[(from - position) as usize..(until - position) as usize]);
            from = until;
        }
    }

    /// How many pieces there are, with gaps between them.
    #[cfg(feature = "quic")]
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Whether bytes from this position on are the next ones, or were delivered before.
    #[cfg(feature = "quic")]
    pub(crate) const fn is_next(&self, position: u64) -> bool {
        position <= self.first
    }

    /// Keeps bytes none of which is kept yet; others may adjoin them at either end.
    fn insert(&mut self, position: u64, bytes: &[u8]) {
        let end = position + bytes.len() as u64;
        let (joins_behind, is_full) = (self.pieces.contains_key(&end), self.pieces.len() >= MOST_PIECES);
        let before = self.pieces.range_mut(..position).next_back();
        let start = match before.filter(|(start, piece)| *start + piece.len() as u64 == position) {
            Some((start, piece)) => {
                piece.extend(bytes);
                *start
            }
            None if joins_behind => position,
            None if is_full => return,
            None => {
                self.pieces.insert(position, bytes.iter().copied().collect());
                return;
            }
        };
        let Some(mut behind) = self.pieces.remove(&end) else { return };
        let front = self.pieces.remove(&start);
        let mut front = front.unwrap_or_else(|| bytes.iter().copied().collect());
        // The shorter piece is moved.
        let whole = if front.len() >= behind.len() {
            front.append(&mut behind);
            front
        } else {
            front.iter().rev().for_each(|byte| behind.push_front(*byte));
            behind
        };
        self.pieces.insert(start, whole);
    }

    /// The next bytes of the stream, which are delivered; [`None`] if these are not the next ones.
    pub(crate) fn take(&mut self, payload: Payload) -> Option<Vec<u8>> {
        let length = payload.length as usize;
        let mut entry = self.pieces.first_entry()?;
        if payload.offset != self.first || *entry.key() != self.first || length > entry.get().len() {
            return None;
        }
        self.first += u64::from(payload.length);
        if entry.get().len() == length {
            return Some(entry.remove().into());
        }
        let taken = entry.get_mut().drain(..length).collect();
        let rest = entry.remove();
        self.pieces.insert(self.first, rest);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn payload(offset: u64, length: u32) -> Payload {
        Payload { offset, length }
    }

    #[test]
    fn bytes_come_in_any_order_and_leave_in_that_of_the_stream() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let mut incoming = Incoming::default();
        let put = |incoming: &mut Incoming, from: usize, to: usize| {
            incoming.put(from as u64, &bytes[from..to], 8_000);
        };
        put(&mut incoming, 3_000, 5_000);
        put(&mut incoming, 0, 1_500);
        assert_eq!(incoming.take(payload(0, 1_000)).as_deref(), Some(&bytes[..1_000]));
        // Bytes that were delivered before, and bytes that overlap.
        put(&mut incoming, 500, 3_100);
        put(&mut incoming, 4_000, 8_500);
        put(&mut incoming, 900, 950);
        assert_eq!(incoming.pieces.len(), 1);
        assert_eq!(incoming.take(payload(1_000, 7_500)).as_deref(), Some(&bytes[1_000..8_500]));
        put(&mut incoming, 8_500, 10_000);
        assert_eq!(incoming.take(payload(8_500, 1_500)).as_deref(), Some(&bytes[8_500..]));
        assert_eq!(incoming.take(payload(10_000, 1)), None);
    }

    #[test]
    fn a_byte_costs_what_a_byte_costs_wherever_it_lies() {
        let mut incoming = Incoming::default();
        incoming.put(1 << 40, &[1; 1_000], 65_536);
        incoming.put(u64::MAX - 10, &[1; 5], 65_536);
        incoming.put(u64::MAX - 3, &[1; 5], 65_536);
        incoming.put(65_000, &[1; 1_000], 65_536);
        assert_eq!(incoming.pieces.len(), 0, "too far ahead");
        incoming.put(65_000, &[1], 65_536);
        assert!(incoming.pieces.values().all(|piece| piece.capacity() < 64));
        for run in 0..2 * MOST_PIECES as u64 {
            incoming.put(2 * run, &[1], 1 << 20);
        }
        assert_eq!(incoming.pieces.len(), MOST_PIECES);
    }

    proptest! {
        #[test]
        fn as_an_array_would(puts in prop::collection::vec((0..500_u64, 1..80_usize), 0..60)) {
            let octet = |at: u64| (at % 251) as u8;
            let mut incoming = Incoming::default();
            let mut model = [None; 600];
            for (position, length) in puts {
                let bytes: Vec<u8> = (position..).map(octet).take(length).collect();
                incoming.put(position, &bytes, 1_000);
                for at in position..position + length as u64 {
                    model[at as usize] = Some(octet(at));
                }
                let mut found = [None; 600];
                for (start, piece) in &incoming.pieces {
                    for (at, byte) in (*start..).zip(piece) {
                        prop_assert!(found[at as usize].replace(*byte).is_none(), "pieces overlap");
                    }
                }
                prop_assert!(found == model);
                let ends = incoming.pieces.iter().map(|(start, piece)| start + piece.len() as u64);
                prop_assert!(ends.zip(incoming.pieces.keys().skip(1)).all(|(end, start)| end < *start), "they touch");
            }
            let whole = model.iter().take_while(|byte| byte.is_some()).count();
            if whole > 1 {
                let half = whole as u32 / 2;
                let rest = whole as u32 - half;
                let taken = [incoming.take(payload(0, half)), incoming.take(payload(half.into(), rest))];
                let taken: Vec<u8> = taken.into_iter().flatten().flatten().collect();
                prop_assert_eq!(taken, (0..whole as u64).map(octet).collect::<Vec<_>>());
            }
        }
    }
}
