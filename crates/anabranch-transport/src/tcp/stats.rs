//! The counters of an endpoint.

use crate::report::Report;

/// Counters of one endpoint, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections opened or accepted.
    pub connections: u64,
    /// Segments sent, acknowledgements and retransmissions included.
    pub segments_sent: u64,
    /// Segments that arrived.
    pub segments_received: u64,
    /// Segments with data or FIN sent for the first time.
    pub data_segments_sent: u64,
    /// Segments with data or FIN sent again.
    pub data_segments_retransmitted: u64,
    /// SYN and SYN-ACK sent again.
    pub syns_retransmitted: u64,
    /// Bytes of data sent for the first time.
    pub bytes_sent: u64,
    /// Bytes of data that the peer has acknowledged cumulatively.
    pub bytes_acknowledged: u64,
    /// Bytes of data delivered to the application, in order.
    pub bytes_delivered: u64,
    /// Segments with data that arrived although all of it was there already.
    pub duplicates_received: u64,
    /// Segments with data that arrived above a gap.
    pub out_of_order_received: u64,
    /// Acknowledgements sent without data.
    pub acks_sent: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Times that fast recovery began.
    pub fast_recoveries: u64,
    /// Tail loss probes sent.
    pub loss_probes: u64,
    /// Window reductions after a tail loss that a probe repaired.
    pub loss_probe_recoveries: u64,
    /// Reductions that were undone.
    pub undos: u64,
    /// Timeouts that F-RTO found to be spurious.
    pub spurious_timeouts: u64,
    /// Segments taken for lost.
    pub segments_lost: u64,
    /// Window reductions because of congestion marks.
    pub ecn_reductions: u64,
    /// Packets with a congestion mark that arrived.
    pub ce_received: u64,
    /// Packets that the peer has reported to be marked; without accurate feedback, segments whose
    /// acknowledgement echoes a mark.
    pub ce_reported: u64,
    /// Probes of a closed window sent.
    pub window_probes: u64,
    /// Acknowledgements sent only to open the window.
    pub window_updates: u64,
}

impl Stats {
    /// Writes the counters.
    pub(super) fn report(&self, report: &mut Report<'_>) {
        for (name, value) in [
            ("connections", self.connections),
            ("segments_sent", self.segments_sent),
            ("segments_received", self.segments_received),
            ("data_segments_sent", self.data_segments_sent),
            ("data_segments_retransmitted", self.data_segments_retransmitted),
            ("syns_retransmitted", self.syns_retransmitted),
            ("bytes_sent", self.bytes_sent),
            ("bytes_acknowledged", self.bytes_acknowledged),
            ("bytes_delivered", self.bytes_delivered),
            ("duplicates_received", self.duplicates_received),
            ("out_of_order_received", self.out_of_order_received),
            ("acks_sent", self.acks_sent),
            ("timeouts", self.timeouts),
            ("fast_recoveries", self.fast_recoveries),
            ("loss_probes", self.loss_probes),
            ("loss_probe_recoveries", self.loss_probe_recoveries),
            ("undos", self.undos),
            ("spurious_timeouts", self.spurious_timeouts),
            ("segments_lost", self.segments_lost),
            ("ecn_reductions", self.ecn_reductions),
            ("ce_received", self.ce_received),
            ("ce_reported", self.ce_reported),
            ("window_probes", self.window_probes),
            ("window_updates", self.window_updates),
        ] {
            report.count(name, value);
        }
    }
}
