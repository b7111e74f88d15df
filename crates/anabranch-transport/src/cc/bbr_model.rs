//! What both versions of BBR measure, and how they pace (Linux's `tcp_bbr.c`, draft-ietf-ccwg-bbr).
//!
//! Bandwidths are in bytes per second, amounts in bytes.

use super::{AckEvent, CongestionEvent, CongestionKind, RateSample, SendLimits};
use crate::time::{Duration, Time};
use crate::units::Rate;

/// Linux: `bbr_pacing_margin_percent`: the pace stays 1 % below the estimate, so that queues drain.
const PACING_MARGIN: f64 = 0.99;
/// Linux: `bbr_extra_acked_max_us`.
const AGGREGATION_MAX: f64 = 0.1;
/// Linux: `bbr_cwnd_min_target` in segments.
pub(super) const MIN_WINDOW: u64 = 4;

/// The delivery rate that a sample shows, if it shows one.
pub(super) fn bandwidth(sample: &RateSample) -> Option<f64> {
    (!sample.interval.is_zero()).then(|| f64::from(sample.delivered) / sample.interval.as_secs_f64())
}

/// The bytes of `outstanding` that will be in the network when the pace lets the next segment out: `burst`
/// bytes more than now if the flight is to grow, less what is delivered at `bw` until then (Linux:
/// `bbr_packets_in_net_at_edt`).
pub(super) fn in_network(event: &AckEvent, outstanding: u32, bw: f64, burst: u64, mss: u64) -> u64 {
    let wait = event.next_departure.saturating_since(event.now).as_secs_f64();
    let delivered = segments_down(bw * wait, mss);
    (u64::from(outstanding) + burst).saturating_sub(delivered)
}

/// Bytes in whole segments, rounded down.
pub(super) fn segments_down(bytes: f64, mss: u64) -> u64 {
    (bytes / mss as f64) as u64 * mss
}

/// Bytes in whole segments, rounded up.
pub(super) fn segments_up(bytes: f64, mss: u64) -> u64 {
    libm::ceil(bytes / mss as f64) as u64 * mss
}

/// An amount of bytes as the interface has it; one that is not known counts as unlimited.
pub(super) fn interface_bytes(bytes: Option<u64>) -> u32 {
    bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX)
}

/// The state of loss recovery as the control sees it (Linux: `icsk_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    Fast,
    None,
    Timeout,
}

/// Keeps the state of loss recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveryState {
    now: Recovery,
    /// After a timeout: the position that must be acknowledged, once it is known.
    ends_at: Option<u64>,
}

impl Default for RecoveryState {
    fn default() -> Self {
        Self { now: Recovery::None, ends_at: None }
    }
}

impl RecoveryState {
    /// Whether this event starts a new response.
    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        match event.kind {
            CongestionKind::FastRetransmit => self.now = Recovery::Fast,
            CongestionKind::Timeout => {
                self.now = Recovery::Timeout;
                self.ends_at = None;
            }
            CongestionKind::Ecn | CongestionKind::Restart => {}
        }
    }

    pub(super) fn end(&mut self) {
        self.now = Recovery::None;
    }

    /// The state with this acknowledgement.
    pub(super) fn on_ack(&mut self, event: &AckEvent) -> Recovery {
        let over = match self.now {
            Recovery::None => false,
            Recovery::Fast => !event.in_recovery,
            Recovery::Timeout => event.acknowledged_to >= *self.ends_at.get_or_insert(event.sent_to),
        };
        if over {
            self.end();
        }
        self.now
    }
}

/// How much more is acknowledged at once than the bandwidth explains; the window must cover the silence in
/// between (Linux: `bbr_update_ack_aggregation`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    epoch: Time,
    acked: u64,
    /// The most in this window of the filter and in the one before.
    extra: [u64; 2],
    index: usize,
    rounds: u32,
}

impl Aggregation {
    pub(super) fn restart(&mut self, now: Time) {
        self.epoch = now;
        self.acked = 0;
    }

    /// `rounds` is the length of the filter's windows.
    pub(super) fn update(
        &mut self,
        event: &AckEvent,
        is_round: bool,
        bw: f64,
        (cwnd, mss): (u64, u64),
        rounds: u32,
    ) {
        if event.newly_acked == 0 {
            return;
        }
        if is_round {
            self.rounds += 1;
            if self.rounds >= rounds {
                self.rounds = 0;
                self.index = 1 - self.index;
                self.extra[self.index] = 0;
            }
        }
        let mut expected = segments_down(bw * event.now.saturating_since(self.epoch).as_secs_f64(), mss);
        if self.acked <= expected {
            self.restart(event.now);
            expected = 0;
        }
        self.acked += u64::from(event.newly_acked);
        let extra = (self.acked - expected).min(cwnd);
        self.extra[self.index] = self.extra[self.index].max(extra);
    }

    /// The extra bytes that the window should have.
    pub(super) fn window(&self, bw: f64) -> u64 {
        self.extra[0].max(self.extra[1]).min((bw * AGGREGATION_MAX) as u64)
    }
}

/// The largest bandwidth of the last rounds; three bandwidths are kept for that (Linux: `lib/win_minmax.c`,
/// Kathleen Nichols' algorithm).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// Round and bandwidth: the best one, and the best ones after it.
    best: [(u64, f64); 3],
}

impl MaxFilter {
    pub(super) fn get(&self) -> f64 {
        self.best[0].1
    }

    /// Takes the sample of a round; those of more than `window` rounds ago no longer count.
    pub(super) fn update(&mut self, window: u64, round: u64, bandwidth: f64) {
        let sample = (round, bandwidth);
        let best = &mut self.best;
        if bandwidth >= best[0].1 || round - best[2].0 > window {
            *best = [sample; 3];
            return;
        }
        if bandwidth >= best[1].1 {
            (best[1], best[2]) = (sample, sample);
        } else if bandwidth >= best[2].1 {
            best[2] = sample;
        }
        let age = round - best[0].0;
        if age > window {
            *best = [best[1], best[2], sample];
            if round - best[0].0 > window {
                *best = [best[1], best[2], sample];
            }
        } else if best[1].0 == best[0].0 && age > window / 4 {
            // A quarter of the window has passed without a second-best one.
            (best[1], best[2]) = (sample, sample);
        } else if best[2].0 == best[1].0 && age > window / 2 {
            best[2] = sample;
        }
    }
}

/// The pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Bytes per second.
    pub(super) rate: f64,
    seen_rtt: bool,
}

impl Pacing {
    /// A pace of `gain` times the initial window per ms, until there is a round-trip time (Linux:
    /// `bbr_init_pacing_rate_from_rtt`).
    pub(super) fn new(cwnd: u64, gain: f64) -> Self {
        Self { rate: cwnd as f64 / 0.001 * gain * PACING_MARGIN, seen_rtt: false }
    }

    /// Sets the first pace by the first round-trip time.
    pub(super) fn on_rtt(&mut self, rtt: Duration, cwnd: u64, gain: f64) {
        if !self.seen_rtt && !rtt.is_zero() {
            self.seen_rtt = true;
            self.rate = cwnd as f64 / rtt.as_secs_f64() * gain * PACING_MARGIN;
        }
    }

    /// Linux: `bbr_set_pacing_rate`. Until the pipe has been full once, the pace only goes up.
    pub(super) fn set(&mut self, bw: f64, gain: f64, was_full: bool) {
        let rate = bw * gain * PACING_MARGIN;
        if rate > 0.0 && (was_full || rate > self.rate) {
            self.rate = rate;
        }
    }

    /// What may be sent with this window at this pace.
    pub(super) fn limits(&self, cwnd: u64) -> SendLimits {
        let rate = Rate::from_bits_per_sec((self.rate * 8.0).clamp(1.0, 1e13) as u64);
        SendLimits { cwnd: interface_bytes(Some(cwnd)).min(1 << 30), pacing_rate: Some(rate) }
    }
}

/// Rate samples that are low because the control itself held the window down: Linux marks what is sent
/// meanwhile as limited by the application.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnLimit {
    from: u64,
    to: u64,
}

impl OwnLimit {
    /// Marks what is sent from now on until everything that is outstanding has been delivered.
    pub(super) fn mark(&mut self, delivered: u64, outstanding: u32) {
        if delivered > self.to {
            self.from = delivered;
        }
        self.to = delivered + u64::from(outstanding);
    }

    pub(super) fn covers(&self, sample: &RateSample) -> bool {
        self.to > 0 && (self.from..=self.to).contains(&sample.prior_delivered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_network_is_less_by_what_the_pace_leaves_time_to_deliver() {
        let now = Time::from_secs(1);
        let at_once = AckEvent::new(now, 1_000, 10_000);
        assert_eq!(in_network(&at_once, 10_000, 1e6, 2_000, 1_000), 12_000);
        // 2.9 segments are delivered before the next one leaves, and whole ones count.
        let later = AckEvent { next_departure: now + Duration::from_micros(2_900), ..at_once };
        assert_eq!(in_network(&later, 10_000, 1e6, 2_000, 1_000), 10_000);
        assert_eq!(in_network(&later, 1_000, 1e6, 0, 1_000), 0);
    }

    #[test]
    fn the_largest_bandwidth_is_forgotten_after_the_window() {
        let mut filter = MaxFilter::default();
        filter.update(10, 1, 100.0);
        // Later than a quarter of the window, and later than half of it.
        filter.update(10, 4, 90.0);
        filter.update(10, 7, 80.0);
        for round in 8..=11 {
            filter.update(10, round, 50.0);
            assert!((filter.get() - 100.0).abs() < 1e-9);
        }
        filter.update(10, 12, 50.0);
        assert!((filter.get() - 90.0).abs() < 1e-9, "the best one after it: {}", filter.get());
        filter.update(10, 30, 1.0);
        assert!((filter.get() - 1.0).abs() < 1e-9, "nothing is left");
    }
}
