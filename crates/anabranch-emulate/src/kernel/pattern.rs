//! The bytes that flows send: each follows from its position in the stream, so that the receiver can check
//! it.

/// A prime, so that bytes that are wrong by a number of blocks, segments or pages differ.
const PERIOD: usize = 65_521;

/// The longest piece that is looked at in one go.
pub(crate) const PIECE: usize = 65_536;

/// A table of the bytes.
#[derive(Debug)]
pub(crate) struct Pattern(Vec<u8>);

impl Default for Pattern {
    fn default() -> Self {
        // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let byte = |place: usize| ((place % PERIOD) as u32).wrapping_mul(2_654_435_769).to_be_bytes()[0];
        Self((0..PERIOD + PIECE).map(byte).collect())
    }
}

impl Pattern {
    /// The bytes from this offset on, at most [`PIECE`] of them.
    pub(crate) fn at(&self, offset: u64, length: usize) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        &self.0[start..start + length.min(PIECE)]
    }

    /// Whether these are the bytes from this offset on.
    pub(crate) fn is_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = offset;
        bytes.chunks(PIECE).all(|piece| {
            let is_right = piece == self.at(at, piece.len());
            at = at.wrapping_add(piece.len() as u64);
            is_right
        })
    }

    /// A message: it begins with as much of its place as there is room for, at most eight bytes.
    pub(crate) fn write_message(&self, offset: u64, length: usize, message: &mut Vec<u8>) {
        let tag = length.min(TAG);
        message.extend_from_slice(&offset.to_be_bytes()[TAG - tag..]);
        let mut at = tag;
        while at < length {
            let piece = self.at(offset + at as u64, length - at);
            message.extend_from_slice(piece);
            at += piece.len();
        }
    }

    /// The place of a message, if its bytes are right; of places that look alike in it, the one nearest to
    /// `near`.
    pub(crate) fn read_message(&self, near: u64, message: &[u8]) -> Option<u64> {
        let tag = message.len().min(TAG);
        let low = message[..tag].iter().fold(0_u64, |low, &byte| low << 8 | u64::from(byte));
        let offset = if tag == TAG { low } else { nearest(near, low, 8 * tag as u32) };
        self.is_at(offset.wrapping_add(tag as u64), &message[tag..]).then_some(offset)
    }
}

/// How many bytes of a message give its position in the stream.
const TAG: usize = 8;

/// The number with these low bits that is nearest to `near`.
fn nearest(near: u64, low: u64, bits: u32) -> u64 {
    let span = 1_u64 << bits;
    let base = near & !(span - 1) | low;
    let candidates = [base.checked_sub(span), Some(base), base.checked_add(span)];
    candidates.into_iter().flatten().min_by_key(|one| one.abs_diff(near)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_known_by_their_place() {
        let pattern = Pattern::default();
        let bytes: Vec<u8> = [pattern.at(70_000, PIECE), pattern.at(70_000 + PIECE as u64, 100)].concat();
        assert!(pattern.is_at(70_000, &bytes));
        assert!(pattern.is_at(70_000 + 10, &bytes[10..]));
        for wrong in [1, 1448, 4096, 65_536] {
            assert!(!pattern.is_at(70_000 + wrong, &bytes), "{wrong}");
        }
        let mut changed = bytes;
        changed[65_600] ^= 1;
        assert!(!pattern.is_at(70_000, &changed));
    }

    #[test]
    fn messages_say_where_they_belong() {
        let pattern = Pattern::default();
        for (length, offset, near) in
            [(160, 1 << 40, 0), (20, 4000, 0), (8, 77, 0), (2, 70_000, 69_000), (1, 300, 310), (1, 255, 256)]
        {
            let mut message = Vec::new();
            pattern.write_message(offset, length, &mut message);
            assert_eq!(message.len(), length);
            assert_eq!(pattern.read_message(near, &message), Some(offset), "{length}");
            if length > TAG {
                let last = message.last_mut().unwrap();
                *last ^= 1;
                assert_eq!(pattern.read_message(near, &message), None);
            }
        }
    }
}
