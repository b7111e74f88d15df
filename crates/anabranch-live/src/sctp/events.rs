//! What a host is told to send, and what it tells.

use std::net::IpAddr;

use anabranch_transport::endpoint::{CloseReason, Reliability};
use anabranch_transport::ground::PathId;
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
    /// Deliver as soon as it is complete, without regard to order.
    pub unordered: bool,
    /// How hard to try.
    pub reliability: Reliability,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// Whether it was delivered without regard to order.
    pub unordered: bool,
    /// The TSN of its first fragment.
    pub tsn: u32,
    /// The message. It takes up room in the receive buffer, 256 bytes at least where many wait, until
    /// [`Host::has_read`](super::Host::has_read) says that it has been read.
    pub bytes: Vec<u8>,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such association, or it is closing.
    Closed,
    /// The send buffer is full: here it is again, for [`HostEvent::Writable`].
    Full(Outbound),
    /// It is empty, longer than the send buffer, or for a stream that is not there.
    Impossible,
}

/// What a host tells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostEvent {
    /// The message of this number was given up (partial reliability).
    Abandoned(u64),
    /// A peer has opened the association.
    Accepted {
        /// The port of ours at which it was waited for.
        port: u16,
    },
    /// An address has become part of the association (RFC 5061).
    AddressAdded(Place),
    /// An address is part of the association no longer.
    AddressDeleted(Place),
    /// The peer has refused to add or delete an address of this end, or to prefer it.
    AddressRefused(Place),
    /// The association has ended, and its number means nothing any more.
    Closed {
        /// Why.
        reason: CloseReason,
        /// What was counted, under `sctp`.
        counted: Row,
    },
    /// The association that was asked for is open.
    Connected,
    /// A path is in another state.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its state.
        state: PathState,
    },
    /// Data goes to another address first.
    PrimaryChanged {
        /// The former primary path.
        from: PathId,
        /// The new one.
        to: PathId,
    },
    /// A message has arrived.
    Received(Inbound),
    /// The peer has restarted, and the association is open again (RFC 9260 section 5.2.4): what had been sent
    /// and was not acknowledged may not have arrived, and will not.
    Restarted,
    /// An outgoing stream has begun anew (RFC 6525).
    StreamReset {
        /// The stream.
        stream: u16,
    },
    /// The peer has begun its stream anew.
    StreamResetByPeer {
        /// The stream; none means all.
        stream: Option<u16>,
    },
    /// The peer has refused to let an outgoing stream begin anew.
    StreamResetRefused {
        /// The stream.
        stream: u16,
    },
    /// There is room in the send buffer again.
    Writable,
}
