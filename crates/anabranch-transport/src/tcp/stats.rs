//! The counters of an endpoint.

use crate::report::counters;

counters! {
    /// Counters of one endpoint, over all its connections.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Stats {
        /// Connections opened or accepted.
        connections: One;
        /// Segments sent, acknowledgements and retransmissions included.
        packets_sent: One;
        /// Segments that arrived.
        packets_received: One;
        /// Segments with data or FIN sent for the first time.
        data_segments_sent: One;
        /// Segments with data or FIN that were retransmitted.
        data_segments_retransmitted: One;
        /// SYN and SYN-ACK that were retransmitted.
        syns_retransmitted: One;
        /// Bytes of data sent for the first time.
        bytes_sent: Bytes;
        /// Bytes of data that the peer has acknowledged cumulatively.
        bytes_acknowledged: Bytes;
        /// Bytes of data delivered to the application, in order.
        bytes_delivered: Bytes;
        /// Segments with data that arrived although all of it was there already.
        duplicates_received: One;
        /// Segments with data that arrived above a gap.
        out_of_order_received: One;
        /// Acknowledgements sent without data.
        acks_sent: One;
        /// Expiries of the retransmission timer (RFC 6298).
        timeouts: One;
        /// Times that fast recovery began with a fast retransmit (RFC 5681 section 3.2, RFC 6675).
        fast_retransmits: One;
        /// Tail loss probes sent (RFC 8985 section 7).
        loss_probes: One;
        /// Window reductions after a tail loss that a probe repaired.
        loss_probe_recoveries: One;
        /// Reductions that were undone.
        undos: One;
        /// Timeouts that F-RTO (RFC 5682) found to be spurious.
        spurious_timeouts: One;
        /// Segments taken for lost.
        segments_lost: One;
        /// Window reductions because of congestion marks (RFC 3168).
        ecn_reductions: One;
        /// Packets with a congestion mark that arrived.
        ce_received: One;
        /// Packets that the peer has reported to be marked; without accurate feedback (RFC 9768), segments
        /// whose acknowledgement echoes a mark.
        ce_reported: One;
        /// Probes of a closed window sent.
        window_probes: One;
        /// Acknowledgements sent only to open the window.
        window_updates: One;
    }
}
