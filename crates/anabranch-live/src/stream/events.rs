//! What a host tells.

use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::ground::PathId;
use anabranch_transport::path::PathState;

/// What a host tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostEvent {
    /// A peer has opened the connection.
    Accepted,
    /// The peer has another address, or a path to it is there (MPTCP).
    AddressAdded(PathId),
    /// An address is there no longer (MPTCP).
    AddressDeleted(PathId),
    /// The connection has ended.
    Closed(CloseReason),
    /// The connection that was asked for is open.
    Connected,
    /// A path is in another state (MPTCP).
    PathChanged {
        /// The path.
        path: PathId,
        /// Its state.
        state: PathState,
    },
    /// The peer has nothing more to say.
    PeerFinished,
    /// The next bytes of the peer's stream.
    Received(Vec<u8>),
    /// There is room in the send buffer again.
    Writable,
}
