//! The rate at which segments are paced (Linux: `tcp_update_pacing_rate`), and what waits for it.

use super::connection::Connection;
use crate::cc::{CongestionControl as _, Rules};
use crate::time::Time;

impl Connection {
    /// Whether the pace holds the next segment back. If it does, this starts the timer that ends the wait.
    pub(super) fn is_paced(&mut self, now: Time) -> bool {
        if !self.waits_for_pace(now) {
            return false;
        }
        self.pacing.timer = self.pacing.next();
        true
    }

    /// Whether the pace holds the next segment back; starts no timer.
    #[inline]
    pub(super) fn waits_for_pace(&self, now: Time) -> bool {
        self.pacing.holds(now)
    }

    /// Updates the rate after an acknowledgement: the control's own, or one that follows from window and
    /// round-trip time.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
        if self.parameters.pacing || !self.cc.is_only_window() {
            self.compute_pacing_rate();
        }
    }

    fn compute_pacing_rate(&mut self) {
        let limits = self.cc.limits();
        let rate = match limits.pacing_rate {
            Some(rate) => self.counted(rate.bits_per_sec() / 8).max(1),
            None if !self.parameters.pacing => return,
            None => {
                let window = self.cwnd().max(self.board.len());
                let Some(rate) = self.window_rate(window) else { return };
                rate
            }
        };
        self.pacing.set_rate(rate);
    }

    /// The rate that follows from the window, or what is outstanding if that is more, of `window` segments
    /// and the round-trip time, in bytes per second.
    fn window_rate(&self, window: u32) -> Option<u64> {
        let srtt = self.rtt.srtt()?.as_nanos();
        let control = self.cc.state();
        let percent = if control.cwnd < control.ssthresh / 2 { 200 } else { 120 };
        let bytes = self.counted(u64::from(window) * u64::from(self.mss) * percent / 100);
        bytes.saturating_mul(1_000_000_000).checked_div(srtt).map(|rate| rate.max(1))
    }

    /// What a rate is in the kernel. It multiplies segments by `mss_cache`, in which the options of a subflow
    /// are not left out, and then counts the data that leaves, in which they are (`tcp_current_mss`,
    /// `tcp_update_skb_after_send`): a subflow sends faster than it was told to.
    #[inline]
    fn counted(&self, rate: u64) -> u64 {
        let options = self.option_space.data;
        if options == 0 || self.parameters.rules != Rules::Linux6 {
            return rate;
        }
        rate.saturating_mul(u64::from(self.mss + options)) / u64::from(self.mss)
    }

    /// Until when the pace holds the next segment back.
    pub(super) const fn paced_until(&self) -> Time {
        self.pacing.next()
    }

    /// The rate at which segments are paced, or would be with `window` segments on their way, in bytes per
    /// second (Linux: `sk_pacing_rate`).
    pub(super) fn pace(&self, window: u32) -> Option<u64> {
        if self.pacing.rate() > 0 { Some(self.pacing.rate()) } else { self.window_rate(window) }
    }

    /// The rate in bytes per second that the congestion control sets, if it does.
    pub(crate) fn pace_of_control(&self) -> Option<u64> {
        (self.pacing.rate() > 0).then(|| self.pacing.rate())
    }

    pub(super) fn on_pacing_timer(&mut self, now: Time) {
        self.pacing.timer = Time::NEVER;
        self.retransmit_lost(now);
        self.send(now);
    }
}
