//! UDP datagrams (RFC 768), with or without an RTP header (RFC 3550).

/// The UDP header, RFC 768, in bytes.
pub const HEADER_BYTES: u32 = 8;
/// The RTP header without contributing sources, RFC 3550 section 5.1, in bytes.
pub const RTP_HEADER_BYTES: u32 = 12;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Where what it carries starts in the application's stream, in bytes.
    pub offset: u64,
    /// The length of what it carries in bytes.
    pub length: u32,
}
