//! Integers of variable length (RFC 9000 section 16).

use crate::wire::bytes::{Append as _, Reader};

/// The largest one: 62 bits.
pub const MAX: u64 = (1 << 62) - 1;

/// How many bytes a value takes: 1, 2, 4 or 8. Values above [`MAX`] count as it.
pub const fn size(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends a value in as few bytes as it takes; one above [`MAX`] becomes that.
pub(super) fn emit(value: u64, out: &mut Vec<u8>) {
    match size(value) {
        1 => out.u8(value as u8),
        2 => out.u16(0x4000 | value as u16),
        4 => out.u32(0x8000_0000 | value as u32),
        _ => out.u64(0xc000_0000_0000_0000 | value.min(MAX)),
    }
}

/// Reads a value, whose first two bits say how many bytes it takes.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<u64> {
    let first = reader.u8()?;
    let length = 1 << (first >> 6);
    let rest = reader.take(length - 1)?;
    Some(rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            // More bytes than it takes.
            (&[0x40, 0x25], 37),
        ] {
            let mut reader = Reader(bytes);
            assert_eq!((read(&mut reader), reader.is_empty()), (Some(value), true));
            let mut out = Vec::new();
            emit(value, &mut out);
            assert_eq!(out.len(), size(value));
            if bytes.len() == size(value) {
                assert_eq!(out, bytes);
            }
        }
        assert_eq!(read(&mut Reader(&[0x7b])), None);
    }
}
