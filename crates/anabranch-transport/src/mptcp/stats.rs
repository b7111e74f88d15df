//! The counters of an endpoint on the connection level; subflows have counters of their own.

use crate::report::Report;

/// Counters of one endpoint, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections opened or accepted.
    pub connections: u64,
    /// Subflows that were established, the first ones included.
    pub subflows: u64,
    /// Subflows that ended before the connection did.
    pub subflows_lost: u64,
    /// How often a subflow failed after too many timeouts.
    pub subflows_failed: u64,
    /// Connections that went on as plain TCP.
    pub fallbacks: u64,
    /// Bytes of the stream sent for the first time.
    pub bytes_sent: u64,
    /// Bytes that the peer has acknowledged on the connection level.
    pub bytes_acknowledged: u64,
    /// Bytes delivered to the application, in order.
    pub bytes_delivered: u64,
    /// Bytes sent again on another subflow.
    pub bytes_reinjected: u64,
    /// Bytes sent on several subflows at once, without the first copy.
    pub bytes_duplicated: u64,
    /// Bytes that arrived although they were there already.
    pub duplicate_bytes_received: u64,
    /// Data sent again because it filled the receive window.
    pub opportunistic_retransmissions: u64,
    /// Congestion windows reduced because their subflow held up the receive window.
    pub penalties: u64,
    /// Expiries of the connection's retransmission timer.
    pub timeouts: u64,
    /// Probes of a closed window sent.
    pub window_probes: u64,
    /// Acknowledgements sent only to open the window.
    pub window_updates: u64,
    /// The most bytes that waited for earlier ones from another subflow.
    pub max_reordering_bytes: u64,
}

impl Stats {
    /// Writes the counters.
    pub(super) fn report(&self, report: &mut Report<'_>) {
        for (name, value) in [
            ("connections", self.connections),
            ("subflows", self.subflows),
            ("subflows_lost", self.subflows_lost),
            ("subflows_failed", self.subflows_failed),
            ("fallbacks", self.fallbacks),
            ("bytes_sent", self.bytes_sent),
            ("bytes_acknowledged", self.bytes_acknowledged),
            ("bytes_delivered", self.bytes_delivered),
            ("bytes_reinjected", self.bytes_reinjected),
            ("bytes_duplicated", self.bytes_duplicated),
            ("duplicate_bytes_received", self.duplicate_bytes_received),
            ("opportunistic_retransmissions", self.opportunistic_retransmissions),
            ("penalties", self.penalties),
            ("timeouts", self.timeouts),
            ("window_probes", self.window_probes),
            ("window_updates", self.window_updates),
        ] {
            report.count(name, value);
        }
        report.scalar("max_reordering_bytes", self.max_reordering_bytes as f64);
    }
}
