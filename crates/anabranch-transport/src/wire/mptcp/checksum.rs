//! The checksum of a mapping (RFC 8684 section 3.3.1).

use crate::wire::checksum::Sum;

/// What the checksum covers besides the payload.
pub(super) struct PseudoHeader {
    /// The data sequence number of the first byte, all 64 bits of it.
    pub(super) sequence: u64,
    /// The number of the first byte on the subflow, relative to the subflow's first one.
    pub(super) subflow: u32,
    /// The length of the mapping, in which `DATA_FIN` counts as 1.
    pub(super) length: u16,
}

impl PseudoHeader {
    /// The checksum over this header and a payload. Computed with the checksum that came, it is 0 if that is
    /// right.
    pub(super) fn checksum(&self, payload: &[u8], came: u16) -> u16 {
        let header = Sum::default().bytes(&self.sequence.to_be_bytes()).bytes(&self.subflow.to_be_bytes());
        header.bytes(&self.length.to_be_bytes()).bytes(&came.to_be_bytes()).bytes(payload).checksum()
    }
}
