//! Reads a fuzzer's bytes from the front; after their end, every byte reads as 0.

/// Bytes that decide what happens.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    /// Whether there is nothing more.
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// The next number.
    pub fn word(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }

    /// The next bytes, as many as asked for or as are left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
