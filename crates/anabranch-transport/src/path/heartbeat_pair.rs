//! Selection by pairs of heartbeats (Nishiyama et al., as the paper of `throughput_checkpoint` has it): at an
//! interval, two heartbeats back to back on every path give its round-trip time and, by their spacing at the
//! peer, its rate. The primary path is kept while both are as required; otherwise another path takes over
//! that meets the requirements or has a rate sufficiently higher. Failures are handled as by the standard.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::{Basis, ErrorLimits, PathEvent, PathSelector, PathStatus, Reason, Request, Selection};
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate, check_range};

/// Settings of selection by pairs of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HeartbeatPairConfig")]
pub struct Config {
    /// The rate that the application requires; default 2 Mbit/s.
    pub required_rate: Rate,
    /// The round-trip time that the application tolerates; default 0.3 s (150 ms each way, ITU-T G.114).
    pub required_rtt: Duration,
    /// The time between pairs, above 0 s; default 1 s.
    pub interval: Duration,
    /// Size of each heartbeat on the wire, from 100 B to 65535 B and at most the path's MTU; default 1500 B.
    pub size: Bytes,
    /// Another path takes over whatever the requirements if its rate is above this many times the primary
    /// path's, from 0 to 100; default 1.
    pub weight: f64,
    /// The part of the old average in the new one, from 0 to 1; default 7/8.
    pub smoothing: f64,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            required_rate: Rate::from_bits_per_sec(2_000_000),
            required_rtt: Duration::from_millis(300),
            interval: Duration::from_secs(1),
            size: Bytes(1500),
            weight: 1.0,
            smoothing: 0.875,
            failover: super::failover::Config::default(),
        }
    }
}

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        check_range("weight", self.weight, 0.0, 100.0)?;
        check_range("smoothing", self.smoothing, 0.0, 1.0)?;
        if self.interval.is_zero() {
            return Err("interval = 0 s is too small; it must be above 0 s".into());
        }
        if !(100..=65_535).contains(&self.size.0) {
            return Err(format!("size = {} is out of range; it must be from 100 B to 65535 B", self.size));
        }
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }
}

const HIGHER_RATE: Basis = Basis::compared("higher rate", '>', "Mbit/s");
const AS_REQUIRED: Basis = Basis::compared("rate and round-trip time as required", '>', "Mbit/s");

/// Averages of one path.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The measured rate in bit/s.
    rate: f64,
    rtt_secs: f64,
}

/// Selection by pairs of heartbeats.
#[derive(Clone, Debug)]
pub struct HeartbeatPair {
    config: Config,
    estimates: Vec<Option<Estimate>>,
    timer: Time,
    requests: VecDeque<Request>,
    failover: Failover,
}

impl HeartbeatPair {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self {
            config: *config,
            estimates: Vec::new(),
            timer: Time::NEVER,
            requests: VecDeque::new(),
            failover: Failover::new(&config.failover, profile),
        }
    }

    fn on_tick(&mut self, now: Time, paths: &[PathStatus]) {
        if now < self.timer {
            return;
        }
        self.timer = now + self.config.interval;
        let size = self.config.size.0 as u32;
        self.requests.clear();
        self.requests.extend(
            (0..paths.len())
                .filter(|&index| paths[index].confirmed)
                .map(|index| Request::HeartbeatPair { path: PathId(index as u8), size }),
        );
    }

    fn on_pair(&mut self, path: PathId, rtt: Duration, spacing: Duration, size: u32, paths: usize) {
        self.estimates.resize(paths, None);
        let own = &mut self.estimates[path.index()];
        let sample = Estimate {
            // On a path with no limit to its rate, both heartbeats arrive together.
            rate: f64::from(size) * 8.0 / spacing.max(Duration::from_nanos(1)).as_secs_f64(),
            rtt_secs: rtt.as_secs_f64(),
        };
        let weight = self.config.smoothing;
        let blend = |old: f64, new: f64| weight * old + (1.0 - weight) * new;
        *own = Some(own.map_or(sample, |old| Estimate {
            rate: blend(old.rate, sample.rate),
            rtt_secs: blend(old.rtt_secs, sample.rtt_secs),
        }));
    }

    fn meets_requirements(&self, estimate: &Estimate) -> bool {
        estimate.rate >= self.config.required_rate.bits_per_sec() as f64
            && estimate.rtt_secs <= self.config.required_rtt.as_secs_f64()
    }

    /// The path to take instead of the primary one, and why.
    fn better(&self, paths: &[PathStatus], primary: PathId) -> Option<(PathId, Reason)> {
        let old = self.estimates[primary.index()]?;
        if self.meets_requirements(&old) {
            return None;
        }
        // The path with the highest rate: of those that meet the requirements, or of all paths if none does.
        let (index, new) = (0..paths.len())
            .filter(|&index| index != primary.index() && paths[index].is_usable())
            .filter_map(|index| self.estimates[index].map(|estimate| (index, estimate)))
            .max_by(|(_, a), (_, b)| {
                let order = self.meets_requirements(a).cmp(&self.meets_requirements(b));
                order.then(a.rate.total_cmp(&b.rate))
            })?;
        let required = self.config.required_rate.bits_per_sec() as f64;
        let reason = if self.meets_requirements(&new) {
            Reason::compared(&AS_REQUIRED, new.rate / 1e6, required / 1e6)
        } else if new.rate > self.config.weight * old.rate {
            Reason::compared(&HIGHER_RATE, new.rate / 1e6, old.rate / 1e6)
        } else {
            return None;
        };
        Some((PathId(index as u8), reason))
    }
}

impl PathSelector for HeartbeatPair {
    #[inline(never)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::Opened => self.timer = now + self.config.interval,
            PathEvent::PairMeasured { path, rtt, spacing, size } => {
                self.on_pair(path, rtt, spacing, size, paths.len());
                if let Some((path, reason)) = self.better(paths, selection.primary) {
                    selection.switch(path, reason);
                }
            }
            PathEvent::Tick => self.on_tick(now, paths),
            _ => self.failover.select(now, event, paths, selection),
        }
    }

    super::retransmits_by_failover!();

    fn measures(&self) -> bool {
        true
    }

    fn next_tick(&self) -> Time {
        self.timer
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIRST, SECOND};
    use super::*;

    /// The path after pairs with these rates in Mbit/s and round-trip times in ms on both paths.
    fn after(config: &Config, pairs: [(f64, u64); 2]) -> (PathId, String) {
        let mut policy = HeartbeatPair::new(config, Settings::default());
        let paths = [PathStatus::default(); 2];
        let mut selection = Selection::new(FIRST);
        for (path, (rate, rtt_ms)) in [FIRST, SECOND].into_iter().zip(pairs) {
            let spacing = Duration::from_secs_f64(12_000.0 / (rate * 1e6));
            let rtt = Duration::from_millis(rtt_ms);
            let event = PathEvent::PairMeasured { path, rtt, spacing, size: 1500 };
            policy.select(Time::ZERO, event, &paths, &mut selection);
        }
        (selection.primary, selection.reason.to_string())
    }

    #[test]
    fn the_primary_path_is_kept_while_it_is_as_required() {
        let config = Config::default();
        assert_eq!(after(&config, [(2.1, 100), (50.0, 10)]).0, FIRST);
        let (path, reason) = after(&config, [(1.5, 100), (3.0, 10)]);
        assert_eq!((path, &*reason), (SECOND, "rate and round-trip time as required: 3 Mbit/s > 2 Mbit/s"));
        let (path, reason) = after(&config, [(5.0, 400), (3.0, 10)]);
        assert_eq!((path, &*reason), (SECOND, "rate and round-trip time as required: 3 Mbit/s > 2 Mbit/s"));
        let (path, reason) = after(&config, [(1.0, 100), (1.5, 100)]);
        assert_eq!((path, &*reason), (SECOND, "higher rate: 1.5 Mbit/s > 1 Mbit/s"));
        assert_eq!(after(&Config { weight: 2.0, ..config }, [(1.0, 100), (1.5, 100)]).0, FIRST);
    }

    #[test]
    fn every_interval_asks_for_a_pair_on_every_confirmed_path() {
        let mut policy = HeartbeatPair::new(&Config::default(), Settings::default());
        let mut paths = [PathStatus::default(); 3];
        paths[1].confirmed = false;
        let mut selection = Selection::new(FIRST);
        policy.select(Time::ZERO, PathEvent::Opened, &paths, &mut selection);
        assert_eq!((policy.next_tick(), policy.next_request()), (Time::from_secs(1), None));
        policy.select(Time::from_secs(1), PathEvent::Tick, &paths, &mut selection);
        let asked: Vec<_> = std::iter::from_fn(|| policy.next_request()).collect();
        let pair = |path| Request::HeartbeatPair { path: PathId(path), size: 1500 };
        assert_eq!(asked, [pair(0), pair(2)]);
        assert_eq!(policy.next_tick(), Time::from_secs(2));
    }
}
