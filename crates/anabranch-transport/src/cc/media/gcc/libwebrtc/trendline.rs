//! From arrivals to a signal: groups of packets (`inter_arrival_delta.cc`), and the trend of their delays
//! (`trendline_estimator.cc`).

use std::collections::VecDeque;

use super::super::super::ms_between;
use super::super::{Change, Signal};
use crate::time::{Duration, Time};

/// `kSendTimeGroupLength`, `kBurstDeltaThreshold` and `kMaxBurstDuration`.
const GROUP: Duration = Duration::from_millis(5);
const BURST: Duration = Duration::from_millis(5);
const MAX_BURST: Duration = Duration::from_millis(100);
/// `kReorderedResetThreshold` and `kArrivalTimeOffsetThreshold`, the latter in ms.
const REORDERED: u32 = 3;
const ARRIVAL_OFFSET: f64 = 3_000.0;

/// Packets that were sent together.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    first_arrived: Time,
    last_arrived: Time,
    /// When the last report on one of them came.
    reported: Time,
}

/// Packets as groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    before: Option<Group>,
    current: Option<Group>,
    reordered: u32,
}

impl Groups {
    /// A report on a packet came. Returns what lies between the last two whole groups if it begins another.
    pub(super) fn on_packet(&mut self, sent: Time, arrived: Time, now: Time) -> Option<Change> {
        let fresh = Group {
            first_sent: sent,
            last_sent: sent,
            first_arrived: arrived,
            last_arrived: arrived,
            reported: now,
        };
        let Some(current) = &mut self.current else {
            self.current = Some(fresh);
            return None;
        };
        if sent < current.first_sent {
            return None;
        }
        if !belongs(current, sent, arrived) {
            let whole = *current;
            let Ok(delta) = self.between(&whole) else { return None };
            self.before = Some(whole);
            self.current = Some(fresh);
            return delta;
        }
        current.last_sent = current.last_sent.max(sent);
        current.last_arrived = arrived;
        current.reported = now;
        None
    }

    /// What lies between the group before and this one, if there was one. An error drops the packet.
    fn between(&mut self, current: &Group) -> Result<Option<Change>, ()> {
        let Some(before) = self.before else { return Ok(None) };
        let arrived = ms_between(before.last_arrived, current.last_arrived);
        if arrived - ms_between(before.reported, current.reported) >= ARRIVAL_OFFSET {
            *self = Self::default();
            return Err(());
        }
        if arrived < 0.0 {
            self.reordered += 1;
            if self.reordered >= REORDERED {
                *self = Self::default();
            }
            return Err(());
        }
        self.reordered = 0;
        Ok(Some(Change { sent: ms_between(before.last_sent, current.last_sent), arrived }))
    }
}

/// Whether a packet is one of the group: sent within 5 ms of its first one, or caught up with it.
fn belongs(group: &Group, sent: Time, arrived: Time) -> bool {
    let (sent_after, arrived_after) =
        (ms_between(group.last_sent, sent), ms_between(group.last_arrived, arrived));
    let is_burst = sent_after == 0.0
        || arrived_after < sent_after
            && arrived_after <= BURST.as_millis_f64()
            && ms_between(group.first_arrived, arrived) < MAX_BURST.as_millis_f64();
    is_burst || sent.saturating_since(group.first_sent) <= GROUP
}

/// `kDefaultTrendlineWindowSize`, `kDefaultTrendlineSmoothingCoeff` and `kDefaultTrendlineThresholdGain`.
const WINDOW: usize = 20;
const SMOOTHING: f64 = 0.9;
const GAIN: f64 = 4.0;
/// `kMinNumDeltas` and `kDeltaCounterMax`.
const MIN_DELTAS: u32 = 60;
const MAX_DELTAS: u32 = 1_000;
/// `kOverUsingTimeThreshold`, `kMaxAdaptOffsetMs`, `k_up_`, `k_down_`, and the range of the threshold in ms.
const OVER_USE_MS: f64 = 10.0;
const MAX_ADAPT_MS: f64 = 15.0;
const K_UP: f64 = 0.0087;
const K_DOWN: f64 = 0.039;
const FIRST_THRESHOLD: f64 = 12.5;
const THRESHOLDS: [f64; 2] = [6.0, 600.0];

/// The trend of the delay, and a threshold for it that adapts.
#[derive(Debug)]
pub(super) struct Trendline {
    deltas: u32,
    first_arrival: Option<Time>,
    accumulated: f64,
    smoothed: f64,
    /// When groups arrived, in ms after the first one, and the smoothed delay then.
    history: VecDeque<(f64, f64)>,
    trend: f64,
    threshold: f64,
    threshold_updated: Option<Time>,
    /// For how long the trend has been above the threshold, in ms.
    over_use: Option<f64>,
    over_use_count: u32,
    usage: Signal,
}

impl Default for Trendline {
    fn default() -> Self {
        Self {
            deltas: 0,
            first_arrival: None,
            accumulated: 0.0,
            smoothed: 0.0,
            history: VecDeque::with_capacity(WINDOW + 1),
            trend: 0.0,
            threshold: FIRST_THRESHOLD,
            threshold_updated: None,
            over_use: None,
            over_use_count: 0,
            usage: Signal::Normal,
        }
    }
}

impl Trendline {
    pub(super) const fn usage(&self) -> Signal {
        self.usage
    }

    /// Takes what lies between two groups; `arrived` is when the packet behind them did.
    pub(super) fn update(&mut self, change: &Change, arrived: Time) {
        self.deltas = (self.deltas + 1).min(MAX_DELTAS);
        let first = *self.first_arrival.get_or_insert(arrived);
        self.accumulated += change.variation();
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.accumulated;
        self.history.push_back((ms_between(first, arrived), self.smoothed));
        if self.history.len() > WINDOW {
            self.history.pop_front();
        }
        let trend =
            if self.history.len() == WINDOW { self.slope().unwrap_or(self.trend) } else { self.trend };
        self.detect(trend, change.sent, arrived);
    }

    /// Least squares.
    fn slope(&self) -> Option<f64> {
        let count = self.history.len() as f64;
        let (x, y) = self.history.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (x, y) = (x / count, y / count);
        let (above, below) = self.history.iter().fold((0.0, 0.0), |sum, point| {
            (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x) * (point.0 - x))
        });
        (below != 0.0).then(|| above / below)
    }

    fn detect(&mut self, trend: f64, sent_ms: f64, arrived: Time) {
        if self.deltas < 2 {
            self.usage = Signal::Normal;
            return;
        }
        let modified = f64::from(self.deltas.min(MIN_DELTAS)) * trend * GAIN;
        if modified > self.threshold {
            // At first, half of the time since the last group is assumed.
            let over = self.over_use.map_or(sent_ms / 2.0, |over| over + sent_ms);
            self.over_use = Some(over);
            self.over_use_count += 1;
            if over > OVER_USE_MS && self.over_use_count > 1 && trend >= self.trend {
                self.over_use = Some(0.0);
                self.over_use_count = 0;
                self.usage = Signal::OverUse;
            }
        } else {
            self.over_use = None;
            self.over_use_count = 0;
            self.usage = if modified < -self.threshold { Signal::UnderUse } else { Signal::Normal };
        }
        self.trend = trend;
        self.adapt(modified.abs(), arrived);
    }

    fn adapt(&mut self, modified: f64, arrived: Time) {
        let before = self.threshold_updated.replace(arrived).unwrap_or(arrived);
        // Spikes, as from a sudden fall of the capacity, do not move it.
        if modified > self.threshold + MAX_ADAPT_MS {
            return;
        }
        let k = if modified < self.threshold { K_DOWN } else { K_UP };
        let ms = ms_between(before, arrived).min(100.0);
        self.threshold += k * (modified - self.threshold) * ms;
        self.threshold = self.threshold.clamp(THRESHOLDS[0], THRESHOLDS[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn packets_sent_within_5_ms_or_caught_up_are_a_group() {
        let mut groups = Groups::default();
        let mut packet = |sent, arrived| groups.on_packet(ms(sent), ms(arrived), ms(1_000));
        assert_eq!([packet(0, 50), packet(5, 56), packet(20, 75)], [None; 3]);
        // It has caught up with the one before it.
        assert_eq!(packet(50, 76), None);
        assert_eq!(packet(60, 90), Some(Change { sent: 45.0, arrived: 20.0 }));
        // One that was sent before the group is passed over.
        assert_eq!(packet(40, 91), None);
    }

    #[test]
    fn groups_that_arrive_backwards_reset_after_three() {
        let mut groups = Groups::default();
        for (sent, arrived) in [(0, 100), (10, 50), (20, 40), (30, 30), (40, 20)] {
            assert_eq!(groups.on_packet(ms(sent), ms(arrived), ms(1_000)), None);
        }
        assert!(groups.before.is_none());
    }

    /// Groups sent every 20 ms whose delay grows by so many ms from each to the next.
    fn grow(trendline: &mut Trendline, start: u64, groups: u64, growth: f64) {
        for group in 0..groups {
            let delta = Change { sent: 20.0, arrived: 20.0 + growth };
            trendline.update(&delta, ms(start + 20 * group));
        }
    }

    #[test]
    fn a_delay_that_grows_is_over_use_and_one_that_falls_under_use() {
        let mut trendline = Trendline::default();
        grow(&mut trendline, 0, 100, 0.0);
        assert_eq!(trendline.usage(), Signal::Normal);
        // At rest, the threshold falls to its least value: a slope of 6 / (60 x 4) per ms.
        assert_eq!(trendline.threshold, 6.0);
        grow(&mut trendline, 2_000, 15, 3.0);
        assert_eq!(trendline.usage(), Signal::OverUse);
        grow(&mut trendline, 2_300, 30, -3.0);
        assert_eq!(trendline.usage(), Signal::UnderUse);
    }

    #[test]
    fn the_slope_is_that_of_least_squares() {
        let mut trendline = Trendline::default();
        grow(&mut trendline, 0, 400, 1.0);
        // The smoothed delay grows by 1 ms in 20, as does the delay.
        assert!((trendline.trend - 0.05).abs() < 1e-9, "{}", trendline.trend);
    }
}
