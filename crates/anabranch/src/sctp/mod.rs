//! SCTP (RFC 9260).
pub mod packet;
