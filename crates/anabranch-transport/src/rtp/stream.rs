//! Sequence numbers of 16 bits as numbers that never wrap, and the sources of streams.

/// The number nearest to `near` that has these lowest 16 bits.
pub(super) fn extend(near: u64, sequence: u16) -> u64 {
    let distance = sequence.wrapping_sub(near as u16) as i16;
    near.saturating_add_signed(distance.into())
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
