//! The numbers by which an IP header names the protocol that it carries. They are part of checksums, too (RFC
//! 9293 section 3.1).

/// SCTP, RFC 9260.
pub const SCTP: u8 = 132;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;

/// ICMP, RFC 792.
pub const ICMP: u8 = 1;
/// `ICMPv6`, RFC 4443.
pub const ICMPV6: u8 = 58;
