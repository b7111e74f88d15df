//! What traces, time accounts and results read of an endpoint, and the samples that they take.

use crate::endpoint::StreamId;
use crate::flow::PathId;
use crate::path::PathState;
use crate::report::Report;
use crate::time::{Duration, Time};
use crate::units::Rate;

/// What traces, time accounts and results read of an endpoint. Reading changes nothing.
pub trait Observed {
    /// The state of every path, for traces.
    fn sample_paths(&self, samples: &mut Vec<PathSample>);

    /// What holds each path back now, for time accounts; empty if there is no connection.
    fn sample_limits(&self, _now: Time, _limits: &mut Vec<PathLimit>) {}

    /// What the receiving half waits for, for time accounts; `None` if no data waits for earlier data.
    fn head_of_line(&self) -> Option<HeadOfLine> {
        None
    }

    /// How the sending half has sent the data that a [`HeadOfLine`] of its peer names; `None` if it no longer
    /// keeps it.
    fn transmission(&self, _missing: Missing) -> Option<Transmission> {
        None
    }

    /// What the last feedback on media has said, for traces; `None` if the transport has none.
    fn sample_media(&self) -> Option<MediaSample> {
        None
    }

    /// Writes the endpoint's counters as scalars.
    fn report(&self, report: &mut Report<'_>);
}

/// The state of one path at one moment, for traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSample {
    /// The path.
    pub path: PathId,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes sent and neither acknowledged nor given up.
    pub outstanding: u32,
    /// Smoothed round-trip time; [`None`] before the first sample.
    pub srtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// The last measured delivery rate (TCP).
    pub delivery_rate: Option<Rate>,
    /// Errors in a row.
    pub error_count: u32,
    /// Active, inactive or potentially failed.
    pub state: PathState,
    /// Whether new data is sent on this path.
    pub is_primary: bool,
    /// How often the sender has reacted to losses and marks here.
    pub repairs: Repairs,
    /// Congestion marks here.
    pub marks: Marks,
}

/// A sender of media after a feedback message, for traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaSample {
    /// The path that the message is about.
    pub path: PathId,
    /// Feedback messages so far, about all paths.
    pub reports: u64,
    /// What the encoder is to make.
    pub target: Rate,
    /// How fast packets may leave.
    pub pacing: Rate,
    /// What was sent in the last half second, with all headers and retransmissions.
    pub sending_bits_per_sec: u64,
    /// The mean one-way delay of the packets that the message reports to have arrived, in ms; NaN if there
    /// are none.
    pub one_way_delay_ms: f64,
    /// The round trip of the last of them.
    pub rtt: Option<Duration>,
    /// The share of the packets that the message is about that are lost.
    pub loss: f64,
}

impl MediaSample {
    /// The state before any feedback.
    pub(crate) const fn new(path: PathId, target: Rate) -> Self {
        let (sending_bits_per_sec, one_way_delay_ms, loss) = (0, f64::NAN, f64::NAN);
        Self {
            path,
            reports: 0,
            target,
            pacing: target,
            sending_bits_per_sec,
            one_way_delay_ms,
            rtt: None,
            loss,
        }
    }
}

/// How often a sender has reacted to losses or marks on one path. When one of these counters has grown,
/// traces say what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// The retransmission timer has expired.
    pub timeouts: u64,
    /// Fast recovery has begun.
    pub fast_recoveries: u64,
    /// The window was reduced because of congestion marks.
    pub ecn_reductions: u64,
}

/// Packets with the mark of congestion on one path (RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// That have arrived.
    pub received: u64,
    /// That the peer has reported.
    pub reported: u64,
}

/// What prevents a path, or a whole connection, from carrying more data at a given moment. Linux has such
/// accounts for the receive window and the send buffer (`tcp_chrono_start`, in `TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// Nothing waits to be sent, or too little for a packet (Nagle's algorithm).
    Application,
    /// Data waits for the congestion window or the pace of the congestion control: the path is used as far as
    /// it allows.
    CongestionWindow,
    /// The connection is being opened.
    Handshake,
    /// The path has failed, or there is no such address.
    PathDown,
    /// Data waits for room in the receiver's buffer.
    ReceiveWindow,
    /// Losses are being repaired (fast recovery).
    Recovery,
    /// Data waits and the path has room, but scheduler or policy leave it idle.
    Scheduler,
    /// The application waits for room in the send buffer, which acknowledgements must free.
    SendBuffer,
    /// The path is on standby: new data is sent elsewhere.
    Standby,
    /// A retransmission timeout has expired, and what was outstanding then is not acknowledged.
    Timeout,
}

impl LimitedBy {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::CongestionWindow,
        Self::Application,
        Self::ReceiveWindow,
        Self::SendBuffer,
        Self::Scheduler,
        Self::Recovery,
        Self::Timeout,
        Self::PathDown,
        Self::Standby,
        Self::Handshake,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application_limited",
            Self::CongestionWindow => "cwnd_limited",
            Self::Handshake => "handshake",
            Self::PathDown => "path_down",
            Self::ReceiveWindow => "receive_window_limited",
            Self::Recovery => "in_recovery",
            Self::Scheduler => "scheduler_waiting",
            Self::SendBuffer => "send_buffer_limited",
            Self::Standby => "standby",
            Self::Timeout => "in_timeout",
        }
    }

    /// Its rank among the limits of a connection's paths; the limit of the whole connection is the one with
    /// the lowest rank. Limits of the ends or the scheduler rank before those of a path, and among paths the
    /// one that does best counts.
    pub fn rank(self) -> usize {
        const ORDER: [LimitedBy; 10] = [
            LimitedBy::ReceiveWindow,
            LimitedBy::SendBuffer,
            LimitedBy::Application,
            LimitedBy::Scheduler,
            LimitedBy::CongestionWindow,
            LimitedBy::Recovery,
            LimitedBy::Timeout,
            LimitedBy::Handshake,
            LimitedBy::PathDown,
            LimitedBy::Standby,
        ];
        ORDER.iter().position(|&other| other == self).expect("all are there")
    }
}

/// The limit of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLimit {
    /// The path.
    pub path: PathId,
    /// The limit.
    pub limit: LimitedBy,
    /// For a full buffer: the path of the earliest data that is not acknowledged.
    pub waits_for: Option<PathId>,
    /// The path's smoothed round-trip time; [`None`] before the first sample.
    pub srtt: Option<Duration>,
}

impl PathLimit {
    /// A limit of this path; `earliest` is the path of the earliest data that is not acknowledged.
    pub fn new(
        path: PathId,
        limit: LimitedBy,
        earliest: impl FnOnce() -> Option<PathId>,
        srtt: Option<Duration>,
    ) -> Self {
        let is_buffer = matches!(limit, LimitedBy::ReceiveWindow | LimitedBy::SendBuffer);
        Self { path, limit, waits_for: if is_buffer { earliest() } else { None }, srtt }
    }
}

/// Data that has arrived and waits for earlier data, which is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOfLine {
    /// Bytes that wait.
    pub waiting: u64,
    /// What is missing.
    pub missing: Missing,
}

/// The first data that is missing where later data waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The stream, where each is delivered by itself and waits for nothing else (QUIC); 0 elsewhere.
    pub stream: StreamId,
    /// The number, as sender and receiver number the data (TSN, sequence number, position in the stream).
    pub number: u64,
}

impl From<u64> for Missing {
    /// What is missing of the only stream.
    fn from(number: u64) -> Self {
        Self { stream: StreamId(0), number }
    }
}

/// The last transmission of some data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The path that carried it.
    pub path: PathId,
    /// Whether the data had been sent before.
    pub is_again: bool,
}
