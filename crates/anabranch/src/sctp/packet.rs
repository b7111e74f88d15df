//! SCTP packets.
/// An SCTP packet.
#[derive(Clone, Debug, PartialEq)]
pub struct SctpPacket {}
