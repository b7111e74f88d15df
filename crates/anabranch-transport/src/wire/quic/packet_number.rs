//! Packet numbers, of which a packet carries the last bits (RFC 9000 section 17.1, appendix A.2 and A.3).

/// How many bytes of a packet's number to send, 1 to 4, where the peer has acknowledged
/// `largest_acknowledged`: enough for twice the packets that may be on their way.
pub const fn length(number: u64, largest_acknowledged: Option<u64>) -> usize {
    let unacknowledged = match largest_acknowledged {
        Some(largest) => number.saturating_sub(largest),
        None => number.saturating_add(1),
    };
    // One bit more than the number of unacknowledged packets has.
    let bits = 64 - unacknowledged.leading_zeros() as usize + 1;
    let bytes = bits.div_ceil(8);
    if bytes > 4 { 4 } else { bytes }
}

/// The number whose last `length` bytes are these: the one that is closest to the one after `largest`, the
/// largest that has arrived.
pub const fn decode(truncated: u32, length: usize, largest: Option<u64>) -> u64 {
    let expected = match largest {
        Some(largest) => largest + 1,
        None => 0,
    };
    let window = 1_u64 << (8 * length);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated as u64;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 appendix A.2 and A.3.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(length(0x00ac_5c02, Some(0x00ab_e8b3)), 2);
        assert_eq!(length(0x00ac_e8fe, Some(0x00ab_e8b3)), 3);
        assert_eq!(decode(0x9b32, 2, Some(0xa82f_30ea)), 0xa82f_9b32);
        assert_eq!((length(0, None), decode(0, 1, None)), (1, 0));
    }

    proptest! {
        /// Whatever is on its way, and however it is reordered, the receiver finds the number.
        #[test]
        fn a_number_that_is_sent_is_found(
            acknowledged in 0..1_u64 << 61,
            ahead in 1..1_u64 << 20,
            arrived in 0..1_u64 << 20,
        ) {
            let number = acknowledged + ahead;
            let bytes = length(number, Some(acknowledged));
            let truncated = number as u32 & (u32::MAX >> (32 - 8 * bytes));
            // What has arrived lies between what the sender knows of and what it has sent.
            let largest = acknowledged + arrived.min(2 * ahead);
            prop_assert_eq!(decode(truncated, bytes, Some(largest)), number);
        }
    }
}
