//! The counters of an endpoint.

use crate::report::{Declared, counters, declare};

counters! {
    /// Counters of one endpoint, over all its connections.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Stats {
        /// Connections opened or accepted.
        connections: One;
        /// UDP datagrams sent.
        datagrams_sent: One;
        /// UDP datagrams that arrived.
        datagrams_received: One;
        /// Packets sent, several of which may be in a datagram.
        packets_sent: One;
        /// Packets that arrived and were processed.
        packets_received: One;
        /// Packets that arrived again.
        duplicates_received: One;
        /// Packets that arrived out of order.
        out_of_order_received: One;
        /// Packets sent that only acknowledge.
        acks_sent: One;
        /// `ACK_FREQUENCY` frames sent (draft of QUIC, ack-frequency-14).
        ack_frequency_sent: One;
        /// Packets taken for lost.
        packets_lost: One;
        /// Packets taken for lost that had arrived.
        spurious_losses: One;
        /// Expiries of the probe timeout (RFC 9002 section 6.2).
        timeouts: One;
        /// Times that the window was reduced because of losses (RFC 9002 section 7.3.2).
        loss_events: One;
        /// Times that congestion was persistent (RFC 9002 section 7.6).
        persistent_congestions: One;
        /// Window reductions because of congestion marks (RFC 9002 section 7.1).
        ecn_reductions: One;
        /// Packets with a congestion mark that arrived.
        ce_received: One;
        /// Packets that the peer has reported to be marked.
        ce_reported: One;
        /// Bytes of stream data sent for the first time.
        bytes_sent: Bytes;
        /// Bytes of stream data sent before the handshake was complete (0-RTT); they are among `bytes_sent`
        /// unless the server has rejected them.
        early_bytes_sent: Bytes;
        /// The part of them that the server has rejected.
        early_bytes_rejected: Bytes;
        /// Bytes of stream data sent again.
        bytes_retransmitted: Bytes;
        /// Bytes of stream data that the peer has acknowledged.
        bytes_acknowledged: Bytes;
        /// Bytes of stream data and messages delivered to the application.
        bytes_delivered: Bytes;
        /// Messages sent in DATAGRAM frames (RFC 9221).
        messages_sent: One;
        /// Messages that arrived in DATAGRAM frames.
        messages_received: One;
        /// Messages that were given up, because their packet was lost or they did not fit.
        messages_lost: One;
        /// `DATA_BLOCKED` frames sent: the connection's flow control (`max_data`) held data back.
        data_blocked_sent: One;
        /// `STREAM_DATA_BLOCKED` frames sent: a stream's flow control (`max_stream_data`) held data back.
        stream_data_blocked_sent: One;
        /// Retry packets that a server sent, and that a client took (RFC 9000 section 8.1.2).
        retries: One;
        /// Stateless resets sent (RFC 9000 section 10.3).
        resets_sent: One;
        /// Connections that a stateless reset ended.
        resets_received: One;
        /// Moves to other addresses, of the client or to follow it (RFC 9000 section 9).
        migrations: One;
        /// Times that a server followed its client to another port or address that a NAT gave it.
        rebindings: One;
        /// Times that keys were updated, by either end (RFC 9001 section 6).
        key_updates: One;
        /// Times that the limit of three times what came held a server back (RFC 9000 section 8).
        amplification_limited: One;
    }
}

declare! {
    /// The state of an end when the run is over.
    STATE:
    /// Smoothed round-trip time at the end, of path ID 0.
    SRTT_MS = "srtt_ms": Millis, Less;
    /// Smallest round-trip time, of path ID 0.
    MIN_RTT_MS = "min_rtt_ms": Millis, Less;
    /// Probe timeout at the end, of path ID 0.
    PTO_MS = "pto_ms": Millis, Less;
    /// Congestion window at the end, of path ID 0.
    CWND_BYTES = "cwnd_bytes": Bytes;
    /// Time from the first packet to the end of the handshake, of the last connection.
    HANDSHAKE_MS = "handshake_ms": Millis, Less;
}

impl Stats {
    /// Everything that an end declares.
    pub(super) const ALL: [&'static [Declared]; 2] = [Self::SCALARS, STATE];
}
