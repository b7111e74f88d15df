//! When to probe, and at which rate (`probe_controller.cc`, as of 2025, commit 0467d2b: a probe at the
//! highest rate asks for no further one).
//!
//! Known deviations, all decisions of the application there: it is always probed for while the application
//! sends little (`EnablePeriodicAlrProbing`, which a call's audio asks for); what its streams can use at most
//! bounds no probe and begins none (`OnMaxTotalAllocatedBitrate`); and first probes are not repeated
//! (`EnableRepeatedInitialProbing`).

use crate::time::{Duration, Time};

/// `first_exponential_probe_scale`, `second_...`, `further_...` and `alr_probe_scale`.
const INITIAL: [f64; 2] = [3.0, 6.0];
const FURTHER: f64 = 2.0;
const IN_ALR: f64 = 2.0;
/// `further_probe_threshold`.
const THRESHOLD: f64 = 0.7;
/// `kMaxWaitingTimeForProbingResult`, `alr_probing_interval`.
const WAIT: Duration = Duration::from_secs(1);
const ALR_INTERVAL: Duration = Duration::from_secs(5);
/// `kBitrateDropThreshold`, `kBitrateDropTimeout`, `kProbeFractionAfterDrop`, `kProbeUncertainty`,
/// `kAlrEndedTimeout` and `kMinTimeBetweenAlrProbes`.
const DROP: f64 = 0.66;
const DROP_TIMEOUT: Duration = Duration::from_secs(5);
const AFTER_DROP: f64 = 0.85;
const UNCERTAINTY: f64 = 0.05;
const ALR_ENDED: Duration = Duration::from_secs(3);
const BETWEEN_DROP_PROBES: Duration = Duration::from_secs(5);

/// What limits the estimate (`BandwidthLimitedCause`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The delay, which does not grow.
    Delay,
    /// A delay that grows or falls, or losses: no probe is sent.
    Congestion,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Initial,
    /// A result above this many bit/s asks for another probe.
    Waiting(f64),
    Complete,
}

/// When to probe.
#[derive(Debug)]
pub(super) struct Probing {
    max: f64,
    state: State,
    estimate: f64,
    cause: Cause,
    initiated: Time,
    alr_since: Option<Time>,
    alr_ended: Option<Time>,
    /// When the estimate last fell by a third, and from where.
    drop: Option<(Time, f64)>,
    drop_probed: Option<Time>,
}

impl Probing {
    pub(super) const fn new(initial: f64, max: f64) -> Self {
        Self {
            max,
            state: State::Initial,
            estimate: initial,
            cause: Cause::Delay,
            initiated: Time::ZERO,
            alr_since: None,
            alr_ended: None,
            drop: None,
            drop_probed: None,
        }
    }

    /// `InitiateExponentialProbing`, when the first packet leaves.
    pub(super) fn begin(&mut self, now: Time) -> Vec<f64> {
        if self.state != State::Initial {
            return Vec::new();
        }
        self.initiate(now, &INITIAL.map(|scale| scale * self.estimate), true)
    }

    /// `SetAlrStartTimeMs`.
    pub(super) const fn set_alr(&mut self, since: Option<Time>) {
        self.alr_since = since;
    }

    /// `SetAlrEndedTimeMs`.
    pub(super) const fn on_alr_ended(&mut self, now: Time) {
        self.alr_ended = Some(now);
    }

    /// `SetEstimatedBitrate`.
    pub(super) fn set_estimate(&mut self, now: Time, estimate: f64, cause: Cause) -> Vec<f64> {
        self.cause = cause;
        if estimate < DROP * self.estimate {
            self.drop = Some((now, self.estimate));
        }
        self.estimate = estimate;
        match self.state {
            State::Waiting(least) if estimate > least => self.initiate(now, &[FURTHER * estimate], true),
            _ => Vec::new(),
        }
    }

    /// `RequestProbe`: over-use is over, after a large drop of the estimate.
    pub(super) fn on_recovered(&mut self, now: Time) -> Vec<f64> {
        let is_recent = |at: Option<Time>, within| at.is_some_and(|at| now.saturating_since(at) < within);
        let is_limited = self.alr_since.is_some() || is_recent(self.alr_ended, ALR_ENDED);
        let Some((dropped, before)) = self.drop.filter(|_| is_limited && self.state == State::Complete)
        else {
            return Vec::new();
        };
        let rate = AFTER_DROP * before;
        if (1.0 - UNCERTAINTY) * rate > self.estimate
            && now.saturating_since(dropped) < DROP_TIMEOUT
            && !is_recent(self.drop_probed, BETWEEN_DROP_PROBES)
        {
            self.drop_probed = Some(now);
            return self.initiate(now, &[rate], false);
        }
        Vec::new()
    }

    /// `Process`.
    pub(super) fn on_timeout(&mut self, now: Time) -> Vec<f64> {
        if matches!(self.state, State::Waiting(_)) && now.saturating_since(self.initiated) > WAIT {
            self.state = State::Complete;
        }
        let since = self.alr_since.filter(|_| self.state == State::Complete);
        match since {
            Some(since) if now >= since.max(self.initiated) + ALR_INTERVAL => {
                self.initiate(now, &[IN_ALR * self.estimate], true)
            }
            _ => Vec::new(),
        }
    }

    /// `InitiateProbing`: the rates at which to probe.
    fn initiate(&mut self, now: Time, rates: &[f64], further: bool) -> Vec<f64> {
        if self.cause == Cause::Congestion {
            return Vec::new();
        }
        let probes: Vec<f64> = rates.iter().map(|rate| rate.min(self.max)).collect();
        let may_go_on = further && rates.iter().all(|&rate| rate < self.max);
        self.initiated = now;
        self.state = match probes.last() {
            Some(last) if may_go_on => State::Waiting(THRESHOLD * last),
            _ => State::Complete,
        };
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn it_begins_with_three_and_six_times_the_rate_and_goes_on_while_results_are_good() {
        let mut probing = Probing::new(300e3, 10e6);
        assert_eq!(probing.begin(ms(0)), [900e3, 1.8e6]);
        assert!(probing.begin(ms(1)).is_empty());
        assert!(probing.set_estimate(ms(100), 900e3, Cause::Delay).is_empty());
        assert_eq!(probing.set_estimate(ms(200), 1.7e6, Cause::Delay), [3.4e6]);
        // 0.7 of 3.4 Mbit/s are not reached within a second.
        assert!(probing.on_timeout(ms(1_201)).is_empty());
        assert!(probing.set_estimate(ms(1_300), 3e6, Cause::Delay).is_empty());
    }

    #[test]
    fn in_a_limited_region_it_doubles_every_five_seconds_and_not_during_congestion() {
        let mut probing = Probing::new(300e3, 10e6);
        probing.begin(ms(0));
        probing.set_alr(Some(ms(2_000)));
        assert!(probing.on_timeout(ms(6_999)).is_empty());
        assert_eq!(probing.on_timeout(ms(7_000)), [600e3]);
        assert!(probing.on_timeout(ms(9_000)).is_empty());
        probing.set_estimate(ms(9_000), 300e3, Cause::Congestion);
        assert!(probing.on_timeout(ms(20_000)).is_empty());
        probing.set_estimate(ms(20_000), 300e3, Cause::Delay);
        assert_eq!(probing.on_timeout(ms(20_000)), [600e3]);
    }

    #[test]
    fn after_a_large_drop_most_of_the_old_rate_is_probed_once() {
        let mut probing = Probing::new(2e6, 2e6);
        probing.begin(ms(0));
        probing.set_alr(Some(ms(5_000)));
        probing.set_estimate(ms(6_000), 1e6, Cause::Congestion);
        probing.set_estimate(ms(6_100), 1e6, Cause::Delay);
        assert_eq!(probing.on_recovered(ms(7_000)), [1.7e6]);
        assert!(probing.on_recovered(ms(7_100)).is_empty());
    }

    #[test]
    fn a_large_drop_is_probed_for_up_to_three_seconds_after_a_limited_region() {
        let recovered = |at| {
            let mut probing = Probing::new(2e6, 2e6);
            probing.begin(ms(0));
            probing.set_estimate(ms(6_000), 1e6, Cause::Delay);
            probing.on_alr_ended(ms(6_000));
            probing.on_recovered(at)
        };
        assert_eq!(recovered(ms(8_999)), [1.7e6]);
        assert!(recovered(ms(9_000)).is_empty());
    }
}
