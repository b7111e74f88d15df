//! The counters of an end.

use crate::report::{Declared, Parts, counters, declare};

counters! {
    /// Counters of one end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Stats {
        /// Packets of media sent, without retransmissions.
        packets_sent: One;
        /// Bytes of payload in these packets.
        bytes_sent: Bytes;
        /// Packets sent again, on request or as padding.
        retransmissions_sent: One;
        /// Packets sent again as padding, so that a probe has its rate.
        padding_sent: One;
        /// Packets that were asked for and not sent again, because `retransmission_share` was used up or they
        /// were too old.
        retransmissions_denied: One;
        /// Packets that the peer has reported to be lost, retransmissions among them.
        packets_lost: One;
        /// Packets that the peer has reported to be marked.
        ce_reported: One;
        /// Feedback messages that arrived (RFC 8888).
        feedback_received: One;
        /// Reports on single packets in them that were about packets unknown here.
        unknown_reports: One;
        /// Messages refused because `send_buffer` was full or no IP packet has room for them.
        refused: One;
        /// Requests of the peer for a key frame.
        key_frame_requests_received: One;
        /// Packets of media that arrived, with those that came as retransmissions.
        packets_received: One;
        /// Bytes of payload that arrived.
        bytes_delivered: Bytes;
        /// Packets that arrived as retransmissions and had not arrived before.
        packets_recovered: One;
        /// Packets that arrived again.
        duplicates_received: One;
        /// Packets asked for, each time counted.
        nacks_sent: One;
        /// Feedback messages sent (RFC 8888).
        feedback_sent: One;
        /// Bytes of all RTCP sent, with the headers of UDP and IP.
        rtcp_bytes_sent: Bytes;
        /// Packets of RTCP or of streams that are not the peer's, which were dropped.
        strangers: One;
    }
}

counters! {
    /// Counters of one path of an end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PathStats {
        /// Packets of RTP sent on the path: media, copies and retransmissions.
        packets_sent: One;
        /// Bytes of these packets, with all headers.
        wire_bytes_sent: Bytes;
        /// Copies among them of packets that were sent on another path before, for redundancy or as probes.
        copies_sent: One;
        /// Packets that the peer has reported to be lost.
        packets_lost: One;
        /// Bytes of these packets, with all headers.
        wire_bytes_lost: Bytes;
        /// Feedback messages about the path that arrived.
        feedback_received: One;
        /// Times that the path was left because nothing arrived.
        failures: One, Less;
    }
}

declare! {
    PATH_STATE:
    /// Smoothed round-trip time at the end.
    SRTT_MS = "srtt_ms": Millis, Less;
}

/// The mean delay is declared above, for all paths.
const PATH_DELAY: &[Declared] = &[MEAN_DELAY_MS];

declare! {
    RATES:
    /// The rate that the encoder was to make, averaged over time from the first message on.
    MEAN_TARGET_KBIT_PER_S = "mean_target_kbit_per_s": KilobitsPerSecond, More;
    /// The mean one-way delay of packets from the pacer to the peer, as it reported.
    MEAN_DELAY_MS = "mean_delay_ms": Millis, Less;
    /// The mean time for which packets waited for the pacer.
    MEAN_PACING_DELAY_MS = "mean_pacing_delay_ms": Millis, Less;
}

/// The scalars of an end.
pub const SCALARS: Parts = &[("", ALL), (".path<n>", &[PathStats::SCALARS, PATH_DELAY, PATH_STATE])];

const ALL: &[&[Declared]] = &[Stats::SCALARS, RATES];
