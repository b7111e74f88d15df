//! Connection IDs (RFC 9000 section 5.1).

use std::fmt;

/// The most bytes of one in QUIC version 1 (section 17.2).
pub const MAX_BYTES: usize = 20;

/// A connection ID of 0 to 20 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    length: u8,
    bytes: [u8; MAX_BYTES],
}

impl ConnectionId {
    /// The ID of these bytes; [`None`] if they are more than 20.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { length: bytes.len().try_into().ok()?, ..Self::default() };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "an empty one is an ID too")]
    pub const fn len(&self) -> usize {
        self.length as usize
    }
}

impl fmt::Debug for ConnectionId {
    /// In hexadecimal digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
