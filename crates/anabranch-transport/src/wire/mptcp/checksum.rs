//! The checksum of a mapping (RFC 8684 section 3.3.1).

use crate::wire::checksum::Sum;

/// What it covers besides the payload.
pub(super) struct PseudoHeader {
    /// The whole number of the first byte on the level of the connection.
    pub(super) sequence: u64,
    /// Its number on the subflow, relative to the first one.
    pub(super) subflow: u32,
    /// The length of the mapping; `DATA_FIN` has one of them.
    pub(super) length: u16,
}

impl PseudoHeader {
    /// The checksum over this and a payload; with the checksum that came it is 0 where that is right.
    pub(super) fn checksum(&self, payload: &[u8], came: u16) -> u16 {
        let header = Sum::default().bytes(&self.sequence.to_be_bytes()).bytes(&self.subflow.to_be_bytes());
        header.bytes(&self.length.to_be_bytes()).bytes(&came.to_be_bytes()).bytes(payload).checksum()
    }
}
