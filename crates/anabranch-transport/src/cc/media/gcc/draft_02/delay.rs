//! From arrivals to a signal: groups, the arrival-time filter and the over-use detector.

use std::collections::VecDeque;

use super::super::super::ms_between;
use super::super::{Change, Signal};
use crate::time::{Duration, Time};

/// Section 5.2: packets sent within this time of the first one are a group.
const BURST: Duration = Duration::from_millis(5);

/// A group of packets, by its first and last one.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    arrived: Time,
}

/// Packets as groups (section 5.2).
#[derive(Debug, Default)]
pub(super) struct Groups {
    before: Option<Group>,
    current: Option<Group>,
}

impl Groups {
    /// A packet arrives. Returns what lies between the last two whole groups if it begins another one.
    pub(super) fn on_arrival(&mut self, sent: Time, arrived: Time) -> Option<Change> {
        let Some(current) = &mut self.current else {
            self.current = Some(Group { first_sent: sent, last_sent: sent, arrived });
            return None;
        };
        // A packet that arrives within the burst time and has caught up with the group belongs to it, too.
        let has_caught_up = arrived.saturating_since(current.arrived) < BURST
            && ms_between(current.arrived, arrived) < ms_between(current.last_sent, sent);
        if sent.saturating_since(current.first_sent) < BURST || has_caught_up {
            current.last_sent = current.last_sent.max(sent);
            current.arrived = current.arrived.max(arrived);
            return None;
        }
        let whole = std::mem::replace(current, Group { first_sent: sent, last_sent: sent, arrived });
        let before = self.before.replace(whole)?;
        Some(Change {
            sent: ms_between(before.last_sent, whole.last_sent),
            arrived: ms_between(before.arrived, whole.arrived),
        })
    }
}

/// Section 5.3: the noise of the state, and the error at the start.
const Q: f64 = 1e-3;
const FIRST_ERROR: f64 = 0.1;
/// Section 5.3 allows 0.001 to 0.1.
const CHI: f64 = 0.01;
/// Over so many groups the highest frequency of groups is taken.
const GROUPS: usize = 30;

/// The arrival-time filter, a Kalman filter of one state (section 5.3).
#[derive(Debug)]
pub(super) struct Filter {
    /// The change of the queueing delay (m) in ms.
    gradient: f64,
    error: f64,
    variance: f64,
    /// The last times between groups at the sender, in ms.
    sent: VecDeque<f64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { gradient: 0.0, error: FIRST_ERROR, variance: 1.0, sent: VecDeque::new() }
    }
}

impl Filter {
    /// Takes what lies between two groups, and returns the change of the queueing delay in ms.
    pub(super) fn update(&mut self, change: &Change) -> f64 {
        if self.sent.len() == GROUPS {
            self.sent.pop_front();
        }
        self.sent.push_back(change.sent.max(0.001));
        // In 1/ms; the formula of the draft has 1000 f_max for the frequency in Hz.
        let f_max = 1.0 / self.sent.iter().copied().fold(f64::INFINITY, f64::min);
        let alpha = libm::pow(1.0 - CHI, 30.0 / (1_000.0 * f_max));
        let innovation = change.variation() - self.gradient;
        // An outlier counts as three standard deviations.
        let bound = 3.0 * libm::sqrt(self.variance);
        let bounded = innovation.clamp(-bound, bound);
        self.variance = (alpha * self.variance + (1.0 - alpha) * bounded * bounded).max(1.0);
        let gain = (self.error + Q) / (self.variance + self.error + Q);
        self.gradient += bounded * gain;
        self.error = (1.0 - gain) * (self.error + Q);
        self.gradient
    }
}

/// Section 5.4: for so long, in ms, the threshold has to be exceeded.
const OVER_USE_TIME: f64 = 10.0;
/// How fast the threshold grows and shrinks, its range and its start in ms.
const K_UP: f64 = 0.01;
const K_DOWN: f64 = 0.000_18;
const THRESHOLDS: [f64; 2] = [6.0, 600.0];
const FIRST_THRESHOLD: f64 = 12.5;
/// A gradient so much above the threshold does not move it.
const SPIKE: f64 = 15.0;

/// The over-use detector.
#[derive(Debug)]
pub(super) struct Detector {
    threshold: f64,
    before: f64,
    /// For how long the gradient has exceeded the threshold, in ms.
    exceeded: f64,
}

impl Default for Detector {
    fn default() -> Self {
        Self { threshold: FIRST_THRESHOLD, before: 0.0, exceeded: 0.0 }
    }
}

impl Detector {
    pub(super) fn update(&mut self, change: &Change, gradient: f64) -> Signal {
        let signal = if gradient > self.threshold {
            self.exceeded += change.sent;
            // Over-use is not signalled while the gradient falls.
            if self.exceeded > OVER_USE_TIME && gradient >= self.before {
                Signal::OverUse
            } else {
                Signal::Normal
            }
        } else {
            self.exceeded = 0.0;
            if gradient < -self.threshold { Signal::UnderUse } else { Signal::Normal }
        };
        self.before = gradient;
        if gradient.abs() - self.threshold <= SPIKE {
            let k = if gradient.abs() < self.threshold { K_DOWN } else { K_UP };
            self.threshold += change.arrived.max(0.0) * k * (gradient.abs() - self.threshold);
            self.threshold = self.threshold.clamp(THRESHOLDS[0], THRESHOLDS[1]);
        }
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_within_5_ms_are_a_group() {
        let mut groups = Groups::default();
        let mut arrive =
            |sent: u64, arrived: u64| groups.on_arrival(Time::from_millis(sent), Time::from_millis(arrived));
        assert_eq!([arrive(0, 50), arrive(4, 54), arrive(20, 75)], [None; 3]);
        // Sent 30 ms later, it has caught up with the packet before it.
        assert_eq!(arrive(50, 76), None);
        assert_eq!(arrive(60, 90), Some(Change { sent: 46.0, arrived: 22.0 }));
    }

    #[test]
    fn the_filter_is_that_of_the_draft() {
        let mut filter = Filter::default();
        let change = Change { sent: 30.0, arrived: 32.0 };
        // alpha = 0.99^(30 / (1000 / 30)) = 0.991, so the variance stays at 1 until z^2 is above it.
        let alpha = libm::pow(0.99, 0.9);
        let variance = (alpha + (1.0 - alpha) * 4.0f64).max(1.0);
        let gain = 0.101 / (variance + 0.101);
        assert!((filter.update(&change) - 2.0 * gain).abs() < 1e-12);
        assert!((filter.error - (1.0 - gain) * 0.101).abs() < 1e-12);
        // An outlier counts as three standard deviations.
        let before = filter.gradient;
        let bound = 3.0 * libm::sqrt(filter.variance);
        let moved = filter.update(&Change { sent: 30.0, arrived: 1_000.0 }) - before;
        assert!(moved > 0.0 && moved < bound);
    }

    #[test]
    fn over_use_takes_10_ms_and_the_threshold_follows() {
        let mut detector = Detector::default();
        let change = Change { sent: 6.0, arrived: 6.0 };
        assert_eq!(detector.update(&change, 20.0), Signal::Normal);
        let threshold = 12.5 + 6.0 * 0.01 * 7.5;
        assert!((detector.threshold - threshold).abs() < 1e-12);
        assert_eq!(detector.update(&change, 21.0), Signal::OverUse);
        assert_eq!(detector.update(&change, 20.0), Signal::Normal, "the gradient falls");
        assert_eq!(detector.update(&change, -30.0), Signal::UnderUse);
        let before = detector.threshold;
        assert_eq!(detector.update(&change, before + 16.0), Signal::Normal);
        assert_eq!(detector.threshold, before, "a spike does not move it");
    }
}
