//! What a host tells its application.

use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::flow::PathId;
use anabranch_transport::path::PathState;

/// What a host tells its application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostEvent {
    /// A peer has opened the connection.
    Accepted,
    /// The peer has another address, or there is now a path to it (MPTCP).
    AddressAdded(PathId),
    /// An address no longer exists (MPTCP).
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
    /// The peer has nothing more to send.
    PeerFinished,
    /// The next bytes of the peer's stream.
    Received(Vec<u8>),
    /// There is room in the send buffer again.
    Writable,
}
