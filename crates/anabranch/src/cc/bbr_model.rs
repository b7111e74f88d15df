//! What both versions of BBR measure and how they pace (Linux's `tcp_bbr.c`, draft-ietf-ccwg-bbr).
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

/// The delivery rate that a sample says, if it says any.
pub(super) fn bandwidth(sample: &RateSample) -> Option<f64> {
    (!sample.interval.is_zero()).then(|| f64::from(sample.delivered) / sample.interval.as_secs_f64())
}

/// Bytes in whole segments, rounded up.
pub(super) fn segments_up(bytes: f64, mss: u64) -> u64 {
    libm::ceil(bytes / mss as f64) as u64 * mss
}

/// An amount as the interface has it; one that is not known is without limit.
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
    /// After a timeout: what must be acknowledged, once it is known.
    ends_at: Option<u64>,
}

impl Default for RecoveryState {
    fn default() -> Self {
        Self { now: Recovery::None, ends_at: None }
    }
}

impl RecoveryState {
    /// Whether this event begins something.
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

/// How much more is acknowledged at once than the bandwidth explains: the window must cover the silence in
/// between (Linux: `bbr_update_ack_aggregation`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    epoch: Time,
    acked: u64,
    /// The most of this window and of the one before.
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
    pub(super) fn update(&mut self, event: &AckEvent, is_round: bool, bw: f64, cwnd: u64, rounds: u32) {
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
        let mut expected = (bw * event.now.saturating_since(self.epoch).as_secs_f64()) as u64;
        if self.acked <= expected {
            self.restart(event.now);
            expected = 0;
        }
        self.acked += u64::from(event.newly_acked);
        let extra = (self.acked - expected).min(cwnd);
        self.extra[self.index] = self.extra[self.index].max(extra);
    }

    /// What the window should have in addition.
    pub(super) fn window(&self, bw: f64) -> u64 {
        self.extra[0].max(self.extra[1]).min((bw * AGGREGATION_MAX) as u64)
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
    /// `gain` times the initial window per ms, until there is a round-trip time (Linux:
    /// `bbr_init_pacing_rate_from_rtt`).
    pub(super) fn new(cwnd: u64, gain: f64) -> Self {
        Self { rate: cwnd as f64 / 0.001 * gain * PACING_MARGIN, seen_rtt: false }
    }

    /// The first round-trip time sets the first pace.
    pub(super) fn on_rtt(&mut self, rtt: Duration, cwnd: u64, gain: f64) {
        if !self.seen_rtt && !rtt.is_zero() {
            self.seen_rtt = true;
            self.rate = cwnd as f64 / rtt.as_secs_f64() * gain * PACING_MARGIN;
        }
    }

    /// Linux: `bbr_set_pacing_rate`. Until the pipe was full once the pace only goes up.
    pub(super) fn set(&mut self, bw: f64, gain: f64, was_full: bool) {
        let rate = bw * gain * PACING_MARGIN;
        if rate > 0.0 && (was_full || rate > self.rate) {
            self.rate = rate;
        }
    }

    /// This window at this pace.
    pub(super) fn limits(&self, cwnd: u64) -> SendLimits {
        let rate = Rate::from_bits_per_sec((self.rate * 8.0).clamp(1.0, 1e13) as u64);
        SendLimits { cwnd: interface_bytes(Some(cwnd)).min(1 << 30), pacing_rate: Some(rate) }
    }
}

/// Samples that are low because the control itself held the window down: Linux marks what is sent
/// meanwhile as limited by the application.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnLimit {
    from: u64,
    to: u64,
}

impl OwnLimit {
    /// What is sent from now on until all that is outstanding is delivered.
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
