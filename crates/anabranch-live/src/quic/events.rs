//! What a host of QUIC tells its application.

use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::report::Row;

use crate::route::Route;

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such connection, or it is over.
    Closed,
    /// There is no such stream, it has ended, or the peer wants nothing more of it.
    NoStream,
    /// The message is longer than this many bytes, the most that a datagram to this peer has room for; 0 if
    /// the peer takes none.
    TooLong(u32),
}

/// How a connection has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Why.
    pub reason: CloseReason,
    /// The code with which the peer has closed, and whether it is its application's.
    pub code: Option<(u64, bool)>,
    /// In words, as far as more is known.
    pub why: Option<String>,
    /// The counters of the connection, under `quic`.
    pub counted: Row,
}

/// What has happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange {
    /// An end has given it up; its path ID is never used again.
    Abandoned,
    /// It answers again.
    Answers,
    /// Its addresses or ports are others.
    Moved,
    /// An end has begun to use its path ID; whether packets arrive there is being found out.
    Opened,
    /// Its last packets got no answer: what was on its way goes elsewhere.
    Silent,
    /// The peer wants it to be a backup, or no longer.
    Status {
        /// Which.
        is_backup: bool,
    },
    /// It is known to work in both directions, and carries data.
    Validated,
}

/// What a host tells its application.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostEvent {
    /// A peer has opened the connection, with this protocol above QUIC (ALPN).
    Accepted(String),
    /// The peer permits more streams, after one could not be opened: with both directions, or with one.
    CanOpen {
        /// Which.
        bidirectional: bool,
    },
    /// The connection has ended, and its number means nothing from now on.
    Closed(Box<Ending>),
    /// The connection that was asked for is open, with this protocol above QUIC (ALPN).
    Connected(String),
    /// A message has arrived (RFC 9221).
    Datagram(Vec<u8>),
    /// Something has happened to a path of several (RFC 10069).
    Path {
        /// Its path ID.
        path: u32,
        /// Where it is.
        route: Route,
        /// What.
        change: PathChange,
    },
    /// A path that was to be opened cannot be.
    PathRefused {
        /// Where it was to be.
        route: Route,
        /// Why.
        why: String,
    },
    /// The next bytes of a stream have arrived. They count as unread until
    /// [`Host::has_read`](super::Host::has_read) says otherwise.
    Received {
        /// The stream.
        stream: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The peer's part of a stream is over, and all of it has been told.
    StreamEnded(u64),
    /// The peer has given up its part of a stream.
    StreamReset(u64),
    /// The peer wants nothing more of this end's part of a stream, which has been given up.
    StreamStopped(u64),
    /// There is room in the send buffer of a stream again, after something was refused, or the stream is
    /// over.
    Writable(u64),
}
