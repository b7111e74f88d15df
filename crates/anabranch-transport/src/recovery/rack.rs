//! The state and the conclusions of RACK and tail loss probes (RFC 8985; Linux's `tcp_recovery.c`). The owner
//! keeps the outstanding segments and the timers.

use crate::time::{Duration, Time};

/// For how many recoveries a wider reordering window is kept (RFC 8985 section 6.2 step 4).
const KEPT_RECOVERIES: u32 = 16;
/// The reordering window grows to at most this many steps (Linux).
const MAX_STEPS: u32 = 255;

/// The state of RACK-TLP.
#[derive(Debug)]
pub struct Rack {
    /// The number of the transmission of the segment that was sent last among those that arrived, and its
    /// round-trip time (RFC 8985: `RACK.xmit_ts`, RACK.rtt). Two segments sent at the same time are told
    /// apart by the order in which they were sent. The RFC and Linux use the sequence number for this, but
    /// that of a retransmission is lower.
    order: u64,
    rtt: Duration,
    /// Whether something has arrived since losses were last looked for.
    has_advanced: bool,
    /// The reordering window in quarters of the smallest round-trip time (`RACK.reo_wnd_mult`).
    steps: u32,
    /// For how many more recoveries the window is kept (`RACK.reo_wnd_persist`).
    kept: u32,
    has_duplicate: bool,
    /// Bytes delivered when the window was last widened.
    widened_at: u64,
    /// The probe that is outstanding (`TLP.end_seq`, `TLP.is_retrans`).
    pub probe: Option<Probe>,
}

/// A tail loss probe.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The position behind the probe.
    pub end: u64,
    /// Whether it was a retransmission.
    pub is_retransmission: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            order: 0,
            rtt: Duration::ZERO,
            has_advanced: false,
            steps: 1,
            kept: 0,
            has_duplicate: false,
            widened_at: 0,
            probe: None,
        }
    }
}

impl Rack {
    /// Notes that a segment has arrived that was last sent at `sent_at` (RFC 8985 section 6.2 step 2; Linux:
    /// `tcp_rack_advance`).
    #[inline]
    pub fn advance(
        &mut self,
        now: Time,
        sent_at: Time,
        order: u64,
        was_retransmitted: bool,
        min_rtt: Option<Duration>,
    ) {
        let rtt = now.saturating_since(sent_at);
        if was_retransmitted && min_rtt.is_some_and(|min| rtt < min) {
            // It acknowledges the original.
            return;
        }
        self.has_advanced = true;
        self.rtt = rtt;
        self.order = self.order.max(order);
    }

    /// Notes that the peer reports a duplicate (RFC 8985 section 6.2 step 4).
    pub fn record_duplicate(&mut self) {
        self.has_duplicate = true;
    }

    /// Adapts the reordering window (Linux: `tcp_rack_update_reo_wnd`). `prior` is the number of bytes
    /// delivered when the segment of the acknowledgement was sent.
    #[inline]
    pub fn adapt(&mut self, prior: Option<u64>, delivered: u64) {
        let Some(prior) = prior else { return };
        if prior < self.widened_at {
            // No round trip has passed since the window was widened.
            self.has_duplicate = false;
        }
        if self.has_duplicate {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.has_duplicate = false;
            self.widened_at = delivered;
            self.kept = KEPT_RECOVERIES;
        } else if self.kept == 0 {
            self.steps = 1;
        }
    }

    /// Notes that a recovery ended without an undo.
    pub fn forget_duplicates(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }

    /// Notes that a recovery was undone because of duplicates.
    pub fn keep_duplicates(&mut self) {
        self.kept = (self.kept + 1).min(KEPT_RECOVERIES);
    }

    /// Whether to look for losses; then not again until something else arrives.
    pub fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.has_advanced)
    }

    /// Makes the next acknowledgement look for losses again.
    pub fn look_again(&mut self) {
        self.has_advanced = true;
    }

    /// How late a segment may be if segments can overtake each other (RFC 8985 section 6.2 step 4; Linux:
    /// `tcp_rack_reo_wnd`).
    pub fn window(&self, min_rtt: Option<Duration>, srtt: Option<Duration>) -> Duration {
        let quarter = min_rtt.map_or(0, Duration::as_nanos) / 4;
        let most = srtt.unwrap_or(Duration::ZERO);
        Duration::from_nanos(quarter.saturating_mul(u64::from(self.steps))).min(most)
    }

    /// Whether this transmission came before the last one that has arrived, so that it may be lost.
    pub const fn is_passed(&self, order: u64) -> bool {
        order < self.order
    }

    /// Time left until a segment that left at `departure` counts as lost; [`None`] if it does already (RFC
    /// 8985 section 6.2 step 5; Linux: `tcp_rack_skb_timeout`).
    pub fn time_left(&self, now: Time, departure: Time, window: Duration) -> Option<Duration> {
        let age = now.saturating_since(departure);
        let limit = self.rtt + window;
        (age < limit).then(|| limit - age)
    }

    /// An acknowledgement while a probe is out (RFC 8985 section 7.4; Linux: `tcp_process_tlp_ack`). Whether
    /// the probe has repaired a loss that nothing else showed.
    ///
    /// `is_duplicate_of_probe`: it says that the probe had been there; `is_pure_duplicate`: it says nothing
    /// new.
    pub fn on_probe_acknowledged(
        &mut self,
        acknowledged: u64,
        is_duplicate_of_probe: bool,
        is_pure_duplicate: bool,
    ) -> bool {
        let Some(probe) = self.probe.filter(|probe| acknowledged >= probe.end) else { return false };
        if !probe.is_retransmission
            || is_duplicate_of_probe
            || (acknowledged == probe.end && is_pure_duplicate)
        {
            self.probe = None;
            return false;
        }
        // The probe is kept until the following reduction forgets it.
        acknowledged > probe.end
    }
}
