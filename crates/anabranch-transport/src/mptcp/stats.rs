//! The counters of an endpoint on the connection level; subflows have counters of their own.

use crate::report::{Report, counters, declare};

counters! {
    /// Counters of one endpoint, over all its connections.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Stats {
        /// Connections opened or accepted.
        connections: One;
        /// Subflows that were established, the first ones included.
        subflows: One;
        /// Subflows that ended before the connection did.
        subflows_lost: One;
        /// How often a subflow failed after too many timeouts.
        path_failures: One;
        /// Connections that went on as plain TCP (RFC 8684 section 3.7).
        fallbacks: One;
        /// Bytes of the stream sent for the first time.
        bytes_sent: Bytes;
        /// Bytes that the peer has acknowledged on the connection level.
        bytes_acknowledged: Bytes;
        /// Bytes delivered to the application, in order.
        bytes_delivered: Bytes;
        /// Bytes retransmitted on another subflow.
        bytes_reinjected: Bytes;
        /// Bytes sent on several subflows at once, without the first copy.
        bytes_duplicated: Bytes;
        /// Bytes that arrived although they were there already.
        duplicate_bytes_received: Bytes;
        /// Data retransmitted because it filled the receive window.
        opportunistic_retransmissions: One;
        /// Congestion windows reduced because their subflow held up the receive window.
        penalties: One;
        /// Expiries of the connection's retransmission timer (RFC 8684 section 3.3.6); subflows have their
        /// own.
        timeouts: One;
        /// Probes of a closed window sent.
        window_probes: One;
        /// Acknowledgements sent only to open the window.
        window_updates: One;
    }
    with {
        /// The most bytes that waited for earlier ones from another subflow.
        pub max_reordering_bytes: u64,
    }
}

declare! {
    MORE:
    /// The most bytes that waited for earlier ones from another subflow.
    MAX_REORDERING_BYTES = "max_reordering_bytes": Bytes;
    /// Time in which the peer's receive window held data back.
    BLOCKED_BY_RECEIVE_WINDOW_S = "blocked_by_receive_window_s": Seconds, Less;
}

impl Stats {
    /// Writes the counters.
    pub(super) fn report(&self, report: &mut Report<'_>) {
        self.count(report);
        report.scalar(MAX_REORDERING_BYTES, self.max_reordering_bytes as f64);
    }
}
