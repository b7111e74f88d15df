//! Streams begin anew (RFC 6525): the numbers of a stream's messages are counted from 0 again.
//!
//! An end resets its outgoing streams; a peer that wants the incoming ones reset asks for that. A stream is
//! reset once all of its messages have been acknowledged or given up, as data channels of WebRTC do it (RFC
//! 8831 section 6.7), and takes no further message until the peer has answered (RFC 6525 section 5.1.2 A1).
//! With interleaving both kinds of Message Identifiers begin anew (RFC 8260 section 2.3.2).
//!
//! Known deviations: requests for further streams and for new TSNs are answered with "denied" (sections 5.2.4
//! to 5.2.6); this end does not ask for the reset of incoming streams.

mod requests;

use std::collections::{BTreeSet, VecDeque};

use crate::flow::{PathId, Payload};
use crate::time::Time;
use crate::wire::sctp::chunk::{Data, IData, Init};

/// A chunk with an Outgoing SSN Reset Request that names no stream, in bytes.
const RESET_BYTES: u32 = 4 + 16;
/// How many of the peer's last requests are answered when they come again, and how many may wait for data.
/// One chunk has two at most (section 3.1), but pion sends one request for each stream and does not wait for
/// answers.
const MOST_REQUESTS: usize = 16;

/// The state of an association whose streams can be reset.
#[derive(Debug, Default)]
pub(super) struct StreamReconfiguration {
    /// Whether the peer supports RE-CONFIG.
    is_understood: bool,
    /// Outgoing streams that are to be reset and for which no request has been sent.
    wanted: BTreeSet<u16>,
    /// The request that has not been answered. There is at most one (section 5.1.1).
    outstanding: Option<Request>,
    /// The number of the peer's Incoming SSN Reset Request that asked for the wanted streams.
    asked_by_peer: Option<u32>,
    /// The timer of the request.
    timer: Option<Time>,
    next_request: u32,
    /// The number of the peer's next request.
    expected: u32,
    /// The peer's last requests, the latest first, and what became of them.
    answered: VecDeque<(u32, u32)>,
    /// The deferred requests, in the order in which they came.
    deferred: Vec<Deferred>,
}

/// An Outgoing SSN Reset Request of this end.
#[derive(Clone, Debug)]
struct Request {
    number: u32,
    /// The number of the peer's request that it answers; without one, the number before the next that is
    /// expected.
    response: u32,
    last_tsn: u32,
    streams: Box<[u16]>,
    path: PathId,
    /// Whether the peer has answered that the reset is in progress.
    is_in_progress: bool,
}

/// An Outgoing SSN Reset Request of the peer's that waits for data (section 5.2.2 E2).
#[derive(Debug)]
struct Deferred {
    number: u32,
    last_tsn: u64,
    /// The streams that are reset; `None` means all.
    streams: Option<BTreeSet<u16>>,
    /// The first chunks of these streams after the reset, by TSN.
    held: Vec<Held>,
    path: PathId,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    Data(u64, Data),
    IData(IData),
}

impl Held {
    const fn payload(&self) -> Payload {
        match self {
            Self::Data(_, data) => data.payload,
            Self::IData(data) => data.payload,
        }
    }
}

impl StreamReconfiguration {
    /// Whether the stream takes no message for now.
    pub(super) fn is_paused(&self, stream: u16) -> bool {
        let asked = self.outstanding.iter().any(|request| request.streams.contains(&stream));
        asked || self.wanted.contains(&stream)
    }

    pub(super) const fn timer(&self) -> Time {
        match self.timer {
            Some(at) => at,
            None => Time::NEVER,
        }
    }

    /// The peer says this about itself. The numbers of requests begin with the initial TSNs (section 5.1.1).
    #[cold]
    pub(super) fn begin(&mut self, peer: &Init, initial_tsn: u32) {
        *self = Self {
            is_understood: peer.reconfig_supported,
            next_request: initial_tsn,
            expected: peer.initial_tsn,
            ..Self::default()
        };
    }

    pub(super) const fn stop_timer(&mut self) {
        self.timer = None;
    }

    /// The answer to this request of the peer's, if it is one of its last.
    fn answer_to(&mut self, number: u32) -> Option<&mut u32> {
        self.answered.iter_mut().find(|(known, _)| *known == number).map(|(_, result)| result)
    }

    fn record(&mut self, number: u32, result: u32) {
        if let Some(known) = self.answer_to(number) {
            *known = result;
            return;
        }
        self.answered.truncate(MOST_REQUESTS - 1);
        self.answered.push_front((number, result));
    }

    /// Payloads of the data that is kept back.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        self.deferred.iter().flat_map(|deferred| &deferred.held).map(Held::payload)
    }
}
