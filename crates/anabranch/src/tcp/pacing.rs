//! Pacing: segments spread over the round trip instead of sent at once (Linux's internal pacing,
//! `tcp_update_pacing_rate` and `tcp_update_skb_after_send`).

use super::connection::Connection;
use crate::cc::CongestionControl as _;
use crate::time::{Duration, Time};

/// Segments that are never paced (Linux, as `sch_fq`: the first ten).
const UNPACED_SEGMENTS: u64 = 10;

/// The state of pacing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// When the next segment may leave.
    next: Time,
    /// Bytes per second; 0: no pacing.
    rate: u64,
    sent: u64,
    /// Runs while the pace alone holds data back.
    pub(super) timer: Time,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { next: Time::ZERO, rate: 0, sent: 0, timer: Time::NEVER }
    }
}

impl Pacing {
    /// A segment with `length` bytes of data leaves.
    pub(super) fn on_sent(&mut self, now: Time, length: u32) {
        self.sent += 1;
        if self.rate == 0 || self.sent <= UNPACED_SEGMENTS {
            return;
        }
        let takes = u64::from(length).saturating_mul(1_000_000_000) / self.rate;
        // What could have left earlier makes up for half of it at most.
        let credit = now.saturating_since(self.next).as_nanos().min(takes / 2);
        self.next = self.next.max(now) + Duration::from_nanos(takes - credit);
    }
}

impl Connection {
    /// Whether the pace holds the next segment back; its timer then runs.
    pub(super) fn is_paced(&mut self, now: Time) -> bool {
        if !self.waits_for_pace(now) {
            return false;
        }
        self.pacing.timer = self.pacing.next;
        true
    }

    /// Whether the pace holds the next segment back.
    #[inline]
    pub(super) fn waits_for_pace(&self, now: Time) -> bool {
        self.pacing.rate != 0 && self.pacing.next > now
    }

    /// The rate after an acknowledgement: the control's own, or one of window and round-trip time.
    pub(super) fn update_pacing_rate(&mut self) {
        let limits = self.cc.limits();
        self.pacing.rate = match limits.pacing_rate {
            Some(rate) => (rate.bits_per_sec() / 8).max(1),
            None if !self.parameters.pacing => return,
            None => {
                let Some(rate) = self.window_rate() else { return };
                rate
            }
        };
    }

    /// The rate of window and round-trip time in bytes per second.
    fn window_rate(&self) -> Option<u64> {
        let srtt = self.rtt.srtt()?.as_nanos();
        let control = self.cc.state();
        let percent = if control.cwnd < control.ssthresh / 2 { 200 } else { 120 };
        let window = self.cwnd().max(self.board.len());
        let bytes = u64::from(window) * u64::from(self.mss) * percent / 100;
        bytes.saturating_mul(1_000_000_000).checked_div(srtt).map(|rate| rate.max(1))
    }

    /// Until when the pace holds the next segment back.
    pub(super) const fn paced_until(&self) -> Time {
        self.pacing.next
    }

    /// The rate at which segments are paced, or would be (Linux: `sk_pacing_rate`).
    pub(super) fn pace(&self) -> Option<u64> {
        if self.pacing.rate > 0 { Some(self.pacing.rate) } else { self.window_rate() }
    }

    pub(super) fn on_pacing_timer(&mut self, now: Time) {
        self.pacing.timer = Time::NEVER;
        self.retransmit_lost(now);
        self.send(now);
    }
}
