//! How the congestion window shrinks in recovery: in proportion to the delivered data (RFC 6937, RFC 9937;
//! Linux's `tcp_cwnd_reduction`), or by rate halving (Linux before 3.2, `tcp_cwnd_down`). Everything is
//! counted in segments.
//!
//! Known deviation: rate halving stops at the threshold; where 2.6.20's control had a `min_cwnd`, it stopped
//! there: Reno, Vegas, Hybla and Scalable at half the threshold, Westwood at bandwidth x smallest round-trip
//! time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the window is reduced in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowReduction {
    /// The window is reduced at the beginning of recovery (RFC 6675 section 5).
    AtOnce,
    /// The window is reduced in proportion to what is delivered (RFC 6937, RFC 9937).
    Prr,
    /// The window is reduced by one segment for every second acknowledgement (Linux before 3.2:
    /// `tcp_cwnd_down`).
    RateHalving,
}

/// A reduction in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    is_active: bool,
    /// The window at the end of the reduction.
    ssthresh: u32,
    /// The window when the reduction began (RFC 9937: `RecoverFS`).
    prior_cwnd: u32,
    delivered: u32,
    out: u32,
    /// The window now.
    pub cwnd: u32,
    /// With rate halving: whether the next acknowledgement is the second one, which counts.
    is_odd: bool,
}

/// The progress that an acknowledgement brought.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Segments delivered.
    pub delivered: u32,
    /// Segments found to be lost.
    pub lost: u32,
    /// Whether the cumulative acknowledgement advanced.
    pub advanced: bool,
    /// Segments on their way after the acknowledgement.
    pub in_flight: u32,
}

impl Prr {
    /// Begins a reduction from `cwnd` to `ssthresh`.
    pub fn begin(cwnd: u32, ssthresh: u32) -> Self {
        let prior_cwnd = cwnd.max(1);
        Self { is_active: true, ssthresh, prior_cwnd, delivered: 0, out: 0, cwnd, is_odd: false }
    }

    /// The reduction goes on, to another window.
    pub fn aim_at(&mut self, ssthresh: u32) {
        self.ssthresh = ssthresh;
    }

    /// Ends the reduction.
    pub fn end(&mut self) {
        self.is_active = false;
    }

    /// Counts segments that were sent, new ones or again.
    pub fn on_sent(&mut self, segments: u32) {
        self.out += segments;
    }

    /// Adjusts the window to an acknowledgement in recovery.
    pub fn on_ack(&mut self, rule: WindowReduction, progress: &Progress) {
        if !self.is_active {
            return;
        }
        match rule {
            WindowReduction::AtOnce => {}
            WindowReduction::Prr => self.reduce_in_proportion(progress),
            WindowReduction::RateHalving => self.halve(progress),
        }
    }

    fn reduce_in_proportion(&mut self, progress: &Progress) {
        let &Progress { delivered, lost, advanced, in_flight } = progress;
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let send = if in_flight > self.ssthresh {
            // RFC 9937 section 6: CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out.
            let share = u64::from(self.ssthresh) * u64::from(self.delivered);
            (share.div_ceil(u64::from(self.prior_cwnd)) as u32).saturating_sub(self.out)
        } else {
            // PRR-SSRB: one segment more when the acknowledgement is safe, but no more than the gap.
            let owed = self.delivered.saturating_sub(self.out).max(delivered);
            (owed + u32::from(advanced && lost == 0)).min(self.ssthresh - in_flight)
        };
        // The retransmission that begins recovery is sent whatever the formula says.
        let send = send.max(u32::from(self.out == 0));
        self.cwnd = (in_flight + send).max(1);
    }

    fn halve(&mut self, progress: &Progress) {
        if progress.delivered == 0 {
            return;
        }
        self.is_odd = !self.is_odd;
        if !self.is_odd && self.cwnd > self.ssthresh {
            self.cwnd -= 1;
        }
        self.cwnd = self.cwnd.min(progress.in_flight + 1).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_in_proportion_until_the_threshold_is_reached() {
        // An example like that of RFC 9937 section 7: a window of 20 is halved after one loss, and 19
        // segments arrive.
        let mut prr = Prr::begin(20, 10);
        let mut in_flight = 19;
        let mut sent = 0;
        for _ in 0..19 {
            in_flight -= 1;
            prr.on_ack(WindowReduction::Prr, &Progress { delivered: 1, lost: 0, advanced: false, in_flight });
            while in_flight < prr.cwnd {
                prr.on_sent(1);
                in_flight += 1;
                sent += 1;
            }
        }
        assert_eq!((in_flight, sent), (10, 10), "half as many as were delivered");
    }

    #[test]
    fn grows_back_by_slow_start_after_heavy_loss() {
        let mut prr = Prr::begin(20, 10);
        let heavy = Progress { delivered: 1, lost: 10, advanced: false, in_flight: 3 };
        prr.on_ack(WindowReduction::Prr, &heavy);
        assert_eq!(prr.cwnd, 4, "as much as was delivered");
        prr.on_sent(1);
        let safe = Progress { delivered: 1, lost: 0, advanced: true, in_flight: 3 };
        prr.on_ack(WindowReduction::Prr, &safe);
        assert_eq!(prr.cwnd, 5, "one more on a safe acknowledgement");
    }

    #[test]
    fn rate_halving_takes_one_for_two() {
        let mut prr = Prr::begin(20, 10);
        for in_flight in [19, 19, 18, 18] {
            let progress = Progress { delivered: 1, lost: 0, advanced: false, in_flight };
            prr.on_ack(WindowReduction::RateHalving, &progress);
        }
        assert_eq!(prr.cwnd, 18);
    }
}
