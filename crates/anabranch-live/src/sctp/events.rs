//! What a host is told to send, and what it tells its application.

use std::net::IpAddr;

use anabranch_transport::endpoint::{CloseReason, Reliability};
use anabranch_transport::flow::PathId;
use anabranch_transport::path::PathState;
use anabranch_transport::report::Row;

/// An address that has come or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub address: IpAddr,
    /// Whether it is one of this end.
    pub is_ours: bool,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// Deliver it as soon as it is complete, without regard to order.
    pub unordered: bool,
    /// How hard to try to deliver it.
    pub reliability: Reliability,
    /// The message.
    pub bytes: Vec<u8>,
}

/// How much of a message has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The last part of it, which ends it.
    LastPart,
    /// A part: the next one on the stream, ordered or not, continues it. The receive buffer had too little
    /// room for the message.
    Part,
    /// All of it.
    Whole,
}

/// A message that has arrived, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// Whether it was delivered without regard to order.
    pub unordered: bool,
    /// Whether it is all of the message.
    pub extent: Extent,
    /// The TSN of its first fragment.
    pub tsn: u32,
    /// The message. It takes up room in the receive buffer, at least 256 bytes if many messages wait, until
    /// [`Host::has_read`](super::Host::has_read) says that it has been read.
    pub bytes: Vec<u8>,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such association, or it is closing.
    Closed,
    /// The send buffer is full: here is the message again, to be sent after [`HostEvent::Writable`].
    Full(Outbound),
    /// It is empty, longer than the send buffer, or for a stream that does not exist.
    Impossible,
}

/// What a host tells its application.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostEvent {
    /// The message of this number was given up (partial reliability).
    Abandoned(u64),
    /// A peer has opened the association.
    Accepted {
        /// The port of ours at which the host was waiting.
        port: u16,
    },
    /// An address has become part of the association (RFC 5061).
    AddressAdded(Place),
    /// An address is no longer part of the association.
    AddressDeleted(Place),
    /// The peer has refused to add or delete an address of this end, or to prefer it.
    AddressRefused(Place),
    /// The association has ended, and its number means nothing from now on.
    Closed {
        /// Why it has ended.
        reason: CloseReason,
        /// The counters of the association, under `sctp`.
        counted: Row,
    },
    /// The association that was asked for is open.
    Connected,
    /// The rest of the message that came in parts on this stream will never come: the peer has given it up.
    PartialDeliveryAborted {
        /// The stream.
        stream: u16,
        /// Whether it is the unordered message.
        unordered: bool,
    },
    /// A path is in another state.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its state.
        state: PathState,
    },
    /// New data now goes to another address first.
    PrimaryChanged {
        /// The former primary path.
        from: PathId,
        /// The new one.
        to: PathId,
    },
    /// A message has arrived, or a part of one.
    Received(Inbound),
    /// The peer has restarted, and the association is open again (RFC 9260 section 5.2.4): what had been sent
    /// and was not acknowledged may not have arrived, and will not; nor will the rest of a message in parts.
    Restarted,
    /// An outgoing stream has been reset (RFC 6525).
    StreamReset {
        /// The stream.
        stream: u16,
    },
    /// The peer has reset a stream of its own.
    StreamResetByPeer {
        /// The stream; [`None`] means all.
        stream: Option<u16>,
    },
    /// An ICMP message says that a packet has not reached an address of the peer. If nobody has SCTP there,
    /// the association has ended.
    Unreachable {
        /// The path.
        path: PathId,
        /// What is unreachable, in words.
        reason: &'static str,
        /// Whether nobody has SCTP there.
        is_refused: bool,
    },
    /// The peer has refused the reset of an outgoing stream.
    StreamResetRefused {
        /// The stream.
        stream: u16,
    },
    /// There is room in the send buffer again, after a message was refused; for all of that message, if it
    /// was refused twice.
    Writable,
}
