//! Sequence numbers: 32 bits that wrap on the wire, 64 bits that do not inside.
//!
//! Inside, SYN is number 0 of its sender, the byte at position p of its stream is number p + 1, and FIN
//! follows the last byte.

/// The numbers of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbering {
    /// The initial sequence number, which SYN has on the wire.
    initial: u32,
}

impl Numbering {
    pub(super) const fn new(initial: u32) -> Self {
        Self { initial }
    }

    /// The number as it is on the wire.
    pub(super) const fn wire(self, number: u64) -> u32 {
        self.initial.wrapping_add(number as u32)
    }

    /// The number that stands for `wire`: of several, the one nearest to `near`. [`None`] if it lies before
    /// SYN.
    pub(super) const fn number(self, wire: u32, near: u64) -> Option<u64> {
        let distance = wire.wrapping_sub(self.wire(near)) as i32;
        near.checked_add_signed(distance as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_wrapping() {
        let numbering = Numbering::new(u32::MAX - 10);
        for number in [0_u64, 5, 11, 1 << 31, (1 << 32) - 1, 1 << 40] {
            for near in [number, number.saturating_sub(70_000), number + 70_000] {
                assert_eq!(numbering.number(numbering.wire(number), near), Some(number));
            }
        }
        assert_eq!(numbering.number(numbering.wire(0).wrapping_sub(1), 3), None);
    }
}
