//! UDP (RFC 768) and RTP over it.

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// What it carries.
    pub payload: crate::packet::Payload,
}
