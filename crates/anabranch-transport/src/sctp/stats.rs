//! The counters of an association.

use crate::ground::PathId;
use crate::report::Report;
use crate::time::{Duration, Time};

/// Counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// DATA chunks sent for the first time.
    pub data_chunks_sent: u64,
    /// DATA chunks sent again.
    pub data_chunks_retransmitted: u64,
    /// DATA chunks given up after they had been sent.
    pub data_chunks_abandoned: u64,
    /// Messages given up.
    pub messages_abandoned: u64,
    /// DATA chunks that arrived for the first time.
    pub data_chunks_received: u64,
    /// DATA chunks that arrived again.
    pub duplicates_received: u64,
    /// Duplicates that the peer reported.
    pub duplicates_reported: u64,
    /// Messages delivered to the application.
    pub messages_delivered: u64,
    /// T3-rtx expiries.
    pub t3_expiries: u64,
    /// Times that fast retransmit began.
    pub fast_retransmits: u64,
    /// HEARTBEAT chunks sent.
    pub heartbeats_sent: u64,
    /// HEARTBEAT ACK chunks that arrived.
    pub heartbeats_acked: u64,
    /// HEARTBEAT chunks that were not answered in time.
    pub heartbeats_unanswered: u64,
    /// ASCONF chunks sent, those sent again included.
    pub asconfs_sent: u64,
    /// SACK chunks sent.
    pub sacks_sent: u64,
    /// SACK chunks that arrived.
    pub sacks_received: u64,
    /// FORWARD TSN chunks sent.
    pub forward_tsns_sent: u64,
    /// Times that a path became inactive.
    pub path_failures: u64,
    /// Times that a path became potentially failed.
    pub potential_failures: u64,
    /// Times that another path became the primary one.
    pub primary_changes: u64,
    /// Changes of the primary path that were taken back within 10 s.
    pub switches_reverted: u64,
    /// Times that a path policy had a path probed with new data.
    pub checkpoints: u64,
    /// Bytes of that data, and of heartbeats sent in pairs, with all headers.
    pub probe_bytes: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Time during which every path was inactive.
    pub dormant: Duration,
    pub(super) dormant_since: Option<Time>,
    /// The last change of the primary path, from one to another.
    last_change: Option<(Time, PathId, PathId)>,
}

/// A change that is taken back within this time was of no use (paper `sctp-handover`).
const REVERTED_WITHIN: Duration = Duration::from_secs(10);
const NANOS_PER_MINUTE: f64 = 60e9;

impl Stats {
    /// Records that another path became the primary one.
    #[cold]
    pub(super) fn record_primary_change(&mut self, now: Time, from: PathId, to: PathId) {
        self.primary_changes += 1;
        let is_reverted = self.last_change.is_some_and(|(at, old_from, old_to)| {
            (old_from, old_to) == (to, from) && now.saturating_since(at) <= REVERTED_WITHIN
        });
        self.switches_reverted += u64::from(is_reverted);
        self.last_change = Some((now, from, to));
    }

    /// Records that every path has become inactive, or that one has come back.
    pub(super) fn record_dormant(&mut self, now: Time, dormant: bool) {
        match (self.dormant_since, dormant) {
            (None, true) => self.dormant_since = Some(now),
            (Some(since), false) => {
                self.dormant += now.saturating_since(since);
                self.dormant_since = None;
            }
            _ => {}
        }
    }

    /// Writes the counters.
    pub(super) fn report(&self, last_now: Time, report: &mut Report<'_>) {
        let dormant = self.dormant
            + self.dormant_since.map_or(Duration::ZERO, |since| last_now.saturating_since(since));
        for (name, value) in [
            ("data_chunks_sent", self.data_chunks_sent),
            ("data_chunks_retransmitted", self.data_chunks_retransmitted),
            ("data_chunks_abandoned", self.data_chunks_abandoned),
            ("messages_abandoned", self.messages_abandoned),
            ("data_chunks_received", self.data_chunks_received),
            ("duplicates_received", self.duplicates_received),
            ("duplicates_reported", self.duplicates_reported),
            ("messages_delivered", self.messages_delivered),
            ("t3_expiries", self.t3_expiries),
            ("fast_retransmits", self.fast_retransmits),
            ("heartbeats_sent", self.heartbeats_sent),
            ("heartbeats_acked", self.heartbeats_acked),
            ("heartbeats_unanswered", self.heartbeats_unanswered),
            ("asconfs_sent", self.asconfs_sent),
            ("sacks_sent", self.sacks_sent),
            ("sacks_received", self.sacks_received),
            ("forward_tsns_sent", self.forward_tsns_sent),
            ("path_failures", self.path_failures),
            ("potential_failures", self.potential_failures),
            ("primary_changes", self.primary_changes),
            ("switches_reverted", self.switches_reverted),
            ("checkpoints", self.checkpoints),
            ("probe_bytes", self.probe_bytes),
            ("packets_sent", self.packets_sent),
            ("packets_received", self.packets_received),
        ] {
            report.count(name, value);
        }
        report.mean(
            "switches_per_minute",
            self.primary_changes as f64 * NANOS_PER_MINUTE,
            last_now.as_nanos(),
        );
        report.scalar("dormant_s", dormant.as_secs_f64());
    }
}
