//! The queueing delay and the round trip ("Detecting Increased Queue Delay").

use std::collections::VecDeque;

use super::config::Config;
use crate::time::{Duration, Time};

/// RFC 6817 section 4.2: the base delay is the least one of so many minutes.
const BASE_HISTORY: usize = 10;
/// `QDELAY_AVG_G`, `QDELAY_MIN_MAX_AVG_G`, `QDELAY_DEV_AVG_G`: the weight of a new value.
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
const QDELAY_MIN_MAX_AVG_G: f64 = 1.0 / 16.0;
const QDELAY_DEV_AVG_G: f64 = 1.0 / 32.0;
/// `QDELAY_DEV_THRESHOLD` in s: a variation of the delay that stops the growth.
const QDELAY_DEV_THRESHOLD: f64 = 0.01;
/// `QDELAY_MIN_AVG_ALPHA` ("Clock drift issues and remedies").
const QDELAY_MIN_AVG_ALPHA: f64 = 1.0 / 256.0;
/// RFC 6298 section 2: the weight of a new round trip.
const RTT_ALPHA: f64 = 1.0 / 8.0;

/// Least one-way delays in s, by clocks that need not agree.
#[derive(Debug, Default)]
struct Base {
    /// The least one of each minute, the current one last.
    minutes: VecDeque<f64>,
    minute: u64,
}

impl Base {
    fn on_delay(&mut self, now: Time, delay: f64) {
        let minute = now.as_nanos() / 60_000_000_000;
        match self.minutes.back_mut() {
            Some(least) if minute == self.minute => *least = least.min(delay),
            _ => {
                self.minute = minute;
                self.minutes.push_back(delay);
                if self.minutes.len() > BASE_HISTORY {
                    self.minutes.pop_front();
                }
            }
        }
    }

    fn least(&self) -> f64 {
        self.minutes.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Delays of packets and round trips.
#[derive(Debug)]
pub(super) struct Delays {
    virtual_rtt: f64,
    reduces_jitter: bool,
    base: Base,
    /// The queueing delay of the last packet (`qdelay`) in s.
    pub(super) qdelay: f64,
    /// Its mean (`qdelay_avg`), which rises slowly and falls at once.
    pub(super) qdelay_avg: f64,
    /// `qdelay_target` in s.
    pub(super) target: f64,
    max_avg: f64,
    min_avg: f64,
    dev_avg: f64,
    averaged: Time,
    /// The smoothed round trip (`s_rtt`) in s; `None` before there is one.
    smoothed_rtt: Option<f64>,
    competition: Option<Competition>,
    drift: Drift,
}

impl Delays {
    pub(super) fn new(config: &Config) -> Self {
        let target = config.qdelay_target_lo.as_secs_f64();
        let bounds = [target, config.qdelay_target_hi.as_secs_f64()];
        Self {
            virtual_rtt: config.virtual_rtt.as_secs_f64(),
            reduces_jitter: config.reduce_jitter,
            base: Base::default(),
            qdelay: 0.0,
            qdelay_avg: 0.0,
            target,
            max_avg: target,
            min_avg: 0.0,
            dev_avg: 0.0,
            averaged: Time::ZERO,
            smoothed_rtt: None,
            competition: config.compete.then(|| Competition::new(bounds)),
            drift: Drift::default(),
        }
    }

    /// `s_rtt` in s, 0 before there is one.
    pub(super) fn rtt(&self) -> f64 {
        self.smoothed_rtt.unwrap_or(0.0)
    }

    /// `VIRTUAL_RTT` in s.
    pub(super) const fn virtual_rtt(&self) -> f64 {
        self.virtual_rtt
    }

    /// How much of its reactions and growth the variation of the delay leaves (`ref_wnd_delay_scale`), from 0
    /// to 1.
    pub(super) fn scale(&self) -> f64 {
        if self.reduces_jitter { (1.0 - self.dev_avg / QDELAY_DEV_THRESHOLD).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// Whether the target is halved, so that the queue drains and the base delay can be measured anew.
    pub(super) fn is_draining(&self, now: Time) -> bool {
        now < self.drift.drains_until
    }

    pub(super) fn on_packet(&mut self, now: Time, sent: Time, arrival: Time) {
        let delay = (arrival.as_nanos() as f64 - sent.as_nanos() as f64) / 1e9;
        self.base.on_delay(now, delay);
        self.qdelay = delay - self.base.least();
        self.max_avg = self.target.min(self.qdelay.max(self.max_avg));
        self.min_avg = self.min_avg.min(self.qdelay);
        self.drift.least = self.drift.least.min(self.qdelay);
    }

    /// Feedback came, `rtt` after its last packet was sent.
    pub(super) fn on_feedback(&mut self, now: Time, rtt: Duration, has_loss: bool) {
        let sample = rtt.as_secs_f64();
        let smoothed = self.smoothed_rtt.map_or(sample, |old| old + RTT_ALPHA * (sample - old));
        self.smoothed_rtt = Some(smoothed);
        let interval = self.virtual_rtt.min(smoothed);
        if now.saturating_since(self.averaged).as_secs_f64() >= interval {
            self.averaged = now;
            self.qdelay_avg = if self.qdelay < self.qdelay_avg {
                self.qdelay
            } else {
                QDELAY_AVG_G * self.qdelay + (1.0 - QDELAY_AVG_G) * self.qdelay_avg
            };
            self.update_deviation();
        }
        if let Some(competition) = &mut self.competition {
            competition.on_feedback(now, smoothed, has_loss);
            self.target = competition.target(self.target, self.qdelay);
        }
        if self.drift.is_found(now, smoothed, self.target) {
            self.base = Base::default();
        }
    }

    /// `calculate_ref_wnd_delay_scale`.
    fn update_deviation(&mut self) {
        self.max_avg *= 1.0 - QDELAY_MIN_MAX_AVG_G;
        self.min_avg = self.min_avg * (1.0 - QDELAY_MIN_MAX_AVG_G) + self.max_avg * QDELAY_MIN_MAX_AVG_G;
        self.dev_avg =
            (1.0 - QDELAY_DEV_AVG_G) * self.dev_avg + QDELAY_DEV_AVG_G * (self.max_avg - self.min_avg);
    }
}

/// A queue that never drains, or a clock that drifts ("Clock drift issues and remedies").
#[derive(Debug)]
struct Drift {
    /// The least queueing delay in this round trip (`qdelay_min`), in s.
    least: f64,
    /// `qdelay_min_avg`.
    average: f64,
    round: Time,
    drains_until: Time,
}

impl Default for Drift {
    fn default() -> Self {
        Self { least: f64::INFINITY, average: 0.0, round: Time::ZERO, drains_until: Time::ZERO }
    }
}

impl Drift {
    /// Once a round trip: whether the base delay is to be forgotten.
    fn is_found(&mut self, now: Time, rtt: f64, target: f64) -> bool {
        if now.saturating_since(self.round).as_secs_f64() < rtt || self.least.is_infinite() {
            return false;
        }
        self.round = now;
        self.average += QDELAY_MIN_AVG_ALPHA * (self.least - self.average);
        self.least = f64::INFINITY;
        let is_found = self.average > target / 4.0;
        if is_found {
            self.average = 0.0;
            self.drains_until = now + Duration::from_secs_f64((5.0 * rtt).max(0.2));
        }
        is_found
    }
}

/// "Competing Flows Compensation": the target of the queueing delay beside flows that fill the queue.
#[derive(Debug)]
struct Competition {
    /// `QDELAY_TARGET_LO` and `QDELAY_TARGET_HI` in s.
    bounds: [f64; 2],
    /// The last queueing delays over `QDELAY_TARGET_LO`, the latest last.
    history: VecDeque<f64>,
    /// The share of round trips with losses (`loss_event_rate`).
    loss_event_rate: f64,
    round: Time,
    has_loss: bool,
}

/// Over so many delays the variance is taken, and over so many the mean.
const VARIANCE_OF: usize = 200;
const AVERAGE_OF: usize = 50;
/// The weight of a round trip in `loss_event_rate` (`updateCwnd` in the reference).
const LOSS_EVENT_WEIGHT: f64 = 0.02;

impl Competition {
    fn new(bounds: [f64; 2]) -> Self {
        Self { bounds, history: VecDeque::new(), loss_event_rate: 0.0, round: Time::ZERO, has_loss: false }
    }

    fn on_feedback(&mut self, now: Time, rtt: f64, has_loss: bool) {
        self.has_loss |= has_loss;
        if now.saturating_since(self.round).as_secs_f64() >= rtt {
            self.round = now;
            let event = if std::mem::take(&mut self.has_loss) { 1.0 } else { 0.0 };
            self.loss_event_rate += LOSS_EVENT_WEIGHT * (event - self.loss_event_rate);
        }
    }

    /// `adjust_qdelay_target`: the target that follows `target`.
    fn target(&mut self, target: f64, qdelay: f64) -> f64 {
        let [lo, hi] = self.bounds;
        if self.history.len() == VARIANCE_OF {
            self.history.pop_front();
        }
        self.history.push_back(qdelay / lo);
        let mean = |count: usize| {
            let count = count.min(self.history.len());
            self.history.iter().rev().take(count).sum::<f64>() / count as f64
        };
        let all = mean(VARIANCE_OF);
        let squares = self.history.iter().map(|value| (value - all) * (value - all));
        let variance = squares.sum::<f64>() / self.history.len() as f64;
        let new = (mean(AVERAGE_OF) + libm::sqrt(variance)) * lo;
        let adjusted = if self.loss_event_rate > 0.002 {
            1.5 * new
        } else if variance < 0.2 {
            new
        } else if new < lo {
            (target * 0.5).max(new)
        } else {
            target * 0.9
        };
        adjusted.clamp(lo, hi)
    }
}
