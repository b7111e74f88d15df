//! The information on a connection, in the words of Linux's `struct tcp_info`: for conformance tests and
//! tools; a simulation has its traces.

use super::connection::{Connection, State};
use super::recovery::CongestionState;
use crate::cc::CongestionControl as _;
use crate::time::Duration;

/// The information on a connection.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The state, in the RFC's words, such as `SYN-SENT` (RFC 9293 section 3.3.2).
    pub state: &'static str,
    /// The congestion state: `Open`, `Disorder`, `CWR`, `Recovery` or `Loss`.
    pub congestion_state: &'static str,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The slow-start threshold in segments; [`None`] as long as there has been no reduction.
    pub ssthresh: Option<u32>,
    /// Most bytes of data in a segment that is sent.
    pub send_mss: u32,
    /// Bytes of data in the peer's segments, as estimated.
    pub receive_mss: u32,
    /// The segment size that this end announced, less its options.
    pub advertised_mss: u32,
    /// Segments that are outstanding.
    pub outstanding: u32,
    /// How many of them have been acknowledged selectively.
    pub sacked: u32,
    /// How many of them are taken for lost.
    pub lost: u32,
    /// How many of them have been sent again and count as on their way.
    pub retransmitted: u32,
    /// How far segments overtake each other, in segments.
    pub reordering: u32,
    /// How often reordering was seen.
    pub reorderings_seen: u32,
    /// Segments that have been delivered, SYN not among them.
    pub delivered: u64,
    /// How many of them the peer has reported to be marked.
    pub delivered_ce: u64,
    /// Bytes that the peer has reported in the option of accurate ECN: as ECT(0), marked, as ECT(1).
    pub delivered_bytes: [u32; 3],
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The variation of the round-trip time.
    pub rttvar: Duration,
    /// The smallest recent round-trip time.
    pub min_rtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Timeouts in a row, of data or of a SYN.
    pub timeouts: u32,
    /// Probes of a closed window in a row.
    pub probes: u32,
    /// Segments sent again since the connection began.
    pub total_retransmissions: u64,
    /// Whether timestamps were agreed on.
    pub timestamps: bool,
    /// Whether selective acknowledgements were agreed on.
    pub sack: bool,
    /// Whether window scaling was agreed on.
    pub window_scaling: bool,
    /// Whether ECN was agreed on.
    pub ecn: bool,
    /// Whether the data of a SYN has been accepted, by either end (RFC 7413).
    pub syn_data: bool,
    /// Bytes that have arrived and that the application has not read.
    pub unread: u64,
    /// Bytes that the application has written and that have not been sent.
    pub unsent: u64,
    /// Bytes that the application has written and that have not been acknowledged.
    pub unacknowledged: u64,
    /// The largest window that the peer has offered, in bytes.
    pub largest_window: u64,
    /// Whether the peer's FIN has arrived, and everything before it.
    pub peer_has_finished: bool,
}

impl Connection {
    /// The information on the connection now.
    pub fn info(&self) -> Info {
        let ssthresh = self.cc.state().ssthresh;
        let sender = &self.sender;
        let first = sender.unacknowledged.clamp(1, sender.written + 1);
        Info {
            state: match self.state {
                State::Closed => "CLOSED",
                State::CloseWait => "CLOSE-WAIT",
                State::Closing => "CLOSING",
                State::Established => "ESTABLISHED",
                State::FinWait1 => "FIN-WAIT-1",
                State::FinWait2 => "FIN-WAIT-2",
                State::LastAck => "LAST-ACK",
                State::OpenedFast | State::SynReceived => "SYN-RECEIVED",
                State::SynSent => "SYN-SENT",
                State::TimeWait => "TIME-WAIT",
            },
            congestion_state: match self.recovery.state {
                CongestionState::Open => "Open",
                CongestionState::Disorder => "Disorder",
                CongestionState::Cwr => "CWR",
                CongestionState::Recovery => "Recovery",
                CongestionState::Loss => "Loss",
            },
            cwnd: self.cwnd(),
            ssthresh: (ssthresh < 1 << 30).then(|| ssthresh / self.mss),
            send_mss: self.mss,
            receive_mss: self.delayed_ack.segment_size,
            advertised_mss: self.parameters.mss(self.mtu, self.ip) - self.segment_options(),
            outstanding: self.board.len(),
            sacked: self.board.sacked,
            lost: self.board.lost,
            retransmitted: self.board.retransmitted,
            reordering: self.recovery.reordering,
            reorderings_seen: self.recovery.reorderings_seen,
            delivered: self.rate.delivered_segments,
            delivered_ce: self.stats.ce_reported,
            delivered_bytes: self.ecn.accurate.reported_bytes(),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min_rtt(),
            rto: self.rtt.rto(),
            timeouts: self.timer.timeouts,
            probes: self.timer.probes,
            total_retransmissions: self.recovery.retransmissions,
            timestamps: self.has_timestamps,
            sack: self.has_sack,
            window_scaling: self.has_window_scaling(),
            ecn: self.ecn.is_on(),
            syn_data: self.has_opened_fast(),
            unread: self.receiver.unread,
            unsent: sender.unsent(),
            unacknowledged: sender.written + 1 - first,
            largest_window: sender.max_window,
            peer_has_finished: self.receiver.has_ended(),
        }
    }
}
