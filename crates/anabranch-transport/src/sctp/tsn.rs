//! Serial number arithmetic of TSNs (RFC 9260 section 1.6, RFC 1982).

/// Whether `a` comes before `b`.
pub(super) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` is `b` or comes before it.
pub(super) const fn at_or_before(a: u32, b: u32) -> bool {
    !before(b, a)
}

/// The full number that `wire` stands for, which is the one closest to `near`.
pub(super) const fn unwrap_near(near: u64, wire: u32) -> u64 {
    near.wrapping_add(wire.wrapping_sub(near as u32) as i32 as i64 as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        assert!(before(u32::MAX, 0) && before(1, 2) && !before(2, 2) && !before(0, u32::MAX));
        assert!(at_or_before(2, 2) && at_or_before(u32::MAX, 3));
    }

    #[test]
    fn a_wire_number_unwraps_to_the_closest() {
        let near = (5 << 32) + 3;
        assert_eq!(unwrap_near(near, 10), (5 << 32) + 10);
        assert_eq!(unwrap_near(near, u32::MAX), (5 << 32) - 1);
    }
}
