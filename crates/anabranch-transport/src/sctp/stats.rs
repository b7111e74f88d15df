//! The counters of an association.

use crate::flow::PathId;
use crate::report::{Report, counters, declare};
use crate::time::{Duration, Time};

counters! {
    /// Counters of one endpoint.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Stats {
        /// DATA chunks sent for the first time.
        data_chunks_sent: One;
        /// DATA chunks retransmitted.
        data_chunks_retransmitted: One;
        /// DATA chunks given up after they had been sent.
        data_chunks_abandoned: One;
        /// Messages given up.
        messages_abandoned: One;
        /// DATA chunks that arrived for the first time.
        data_chunks_received: One;
        /// DATA chunks that arrived again.
        duplicates_received: One;
        /// Duplicates that the peer reported.
        duplicates_reported: One;
        /// Messages delivered to the application.
        messages_delivered: One;
        /// Expiries of a path's retransmission timer (T3-rtx, RFC 9260 section 6.3.3).
        timeouts: One;
        /// Times that fast recovery began with a fast retransmit (RFC 9260 section 7.2.4).
        fast_retransmits: One;
        /// HEARTBEAT chunks sent.
        heartbeats_sent: One;
        /// HEARTBEAT ACK chunks that arrived.
        heartbeats_acked: One;
        /// HEARTBEAT chunks that were not answered in time.
        heartbeats_unanswered: One;
        /// ASCONF chunks sent, retransmissions included.
        asconfs_sent: One;
        /// SACK chunks sent.
        sacks_sent: One;
        /// SACK chunks that arrived.
        sacks_received: One;
        /// FORWARD TSN chunks sent.
        forward_tsns_sent: One;
        /// Times that a path became inactive (RFC 9260 section 8.2).
        path_failures: One;
        /// Times that a path became potentially failed (RFC 7829).
        potential_failures: One;
        /// Times that another path became the primary one.
        primary_changes: One;
        /// Changes of the primary path that were taken back within 10 s.
        switches_reverted: One;
        /// Times that a path policy had a path probed with new data.
        checkpoints: One;
        /// Bytes of new data that probed paths so, and of heartbeats sent in pairs, with all headers.
        probe_bytes: Bytes;
        /// Packets sent.
        packets_sent: One;
        /// Packets that arrived.
        packets_received: One;
    }
    with {
        /// Time during which every path was inactive.
        pub dormant: Duration,
        pub(super) dormant_since: Option<Time>,
        /// The last change of the primary path, from one to another.
        last_change: Option<(Time, PathId, PathId)>,
    }
}

declare! {
    TIMES:
    /// How often another path became the primary one, per minute since the run began.
    SWITCHES_PER_MINUTE = "switches_per_minute": PerMinute;
    /// Time during which every path was inactive (RFC 9260 section 8.2: the dormant state).
    DORMANT_S = "dormant_s": Seconds, Less;
}

declare! {
    PATH_SCALARS:
    /// When the path first became inactive (RFC 9260 section 8.2), since the run began.
    FIRST_INACTIVE_S = "first_inactive_s": Seconds;
    /// When the path first became potentially failed (RFC 7829), since the run began.
    FIRST_PF_S = "first_pf_s": Seconds;
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
        self.count(report);
        report.mean(SWITCHES_PER_MINUTE, self.primary_changes as f64 * NANOS_PER_MINUTE, last_now.as_nanos());
        report.scalar(DORMANT_S, dormant.as_secs_f64());
    }
}
