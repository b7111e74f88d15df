//! Opportunistic linked increases (R. Khalili et al., "MPTCP is not Pareto-optimal", ACM
//! `CoNEXT` 2012; draft-khalili-mptcp-congestion-control-05).
//!
//! Known deviation: the draft ranks paths by `l^2 / rtt`; as in the authors' Linux module it is `l / rtt^2`
//! here, the square of the rate that a loss every `l` bytes allows. The module grows a window once per
//! acknowledgement and drops the rest with each whole segment; here growth is in bytes that are acknowledged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Window, Windows};
use crate::cc::AckEvent;
use crate::flow::PathId;

/// Settings of opportunistic linked increases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "OliaConfig")]
pub struct Config {
    /// What a loss leaves of the window: "half" of it (default), or 0.85 with "`two_connections`", as in the
    /// Multipath QUIC of 2017 (`qdeconinck/mp-quic`: `OliaSender.RenoBeta`).
    pub decrease: Decrease,
}

/// What a loss leaves of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OliaDecrease")]
pub enum Decrease {
    /// Half of it.
    #[default]
    Half,
    /// What is left when one of two connections loses 0.3 of its half.
    TwoConnections,
}

/// Opportunistic linked increases.
#[derive(Debug, Default)]
pub struct Olia {
    decrease: Decrease,
    intervals: Vec<Intervals>,
}

/// Bytes acknowledged between the last two losses of a path, and since the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Intervals {
    before: u64,
    since: u64,
}

impl Olia {
    pub(super) fn new(config: Config) -> Self {
        Self { decrease: config.decrease, intervals: Vec::new() }
    }

    fn of(&mut self, path: PathId) -> &mut Intervals {
        if self.intervals.len() <= path.index() {
            self.intervals.resize(path.index() + 1, Intervals::default());
        }
        &mut self.intervals[path.index()]
    }

    /// The presumed quality of a path.
    fn quality(&self, path: PathId, window: &Window) -> f64 {
        let intervals = self.intervals.get(path.index()).copied().unwrap_or_default();
        let bytes = intervals.before.max(intervals.since) as f64;
        window.srtt.map_or(0.0, |srtt| bytes / (srtt * srtt))
    }

    /// The draft's alpha, which moves traffic to good paths whose windows are small.
    fn alpha(&self, windows: &Windows, path: PathId) -> f64 {
        let known = || windows.iter().filter(|(_, window)| window.srtt.is_some());
        let largest = known().map(|(_, window)| window.cwnd).max().unwrap_or(0);
        let best = known().map(|(id, window)| self.quality(id, window)).fold(0.0, f64::max);
        let is_collected =
            |id: PathId, window: &Window| window.cwnd < largest && self.quality(id, window) == best;
        let collected = known().filter(|&(id, window)| is_collected(id, window)).count();
        if collected == 0 {
            return 0.0;
        }
        let paths = known().count() as f64;
        let window = windows.at(path);
        if is_collected(path, window) {
            1.0 / (paths * collected as f64)
        } else if window.cwnd == largest {
            let maximal = known().filter(|(_, window)| window.cwnd == largest).count();
            -1.0 / (paths * maximal as f64)
        } else {
            0.0
        }
    }
}

impl Coupling for Olia {
    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        let window = windows.at(path);
        let (Some(rate), Some(srtt)) = (window.rate(), window.srtt) else {
            return window.standard_growth(acked);
        };
        let bytes = f64::from(acked) * f64::from(window.mss);
        let sum = windows.total_rate();
        bytes * (rate / srtt / (sum * sum) + self.alpha(windows, path) / f64::from(window.cwnd))
    }

    fn reduced(&self, windows: &Windows, path: PathId, least: u32) -> f64 {
        let share = match self.decrease {
            Decrease::Half => 0.5,
            Decrease::TwoConnections => 0.85,
        };
        (f64::from(windows.at(path).cwnd) * share).max(f64::from(least))
    }

    fn on_acked(&mut self, _windows: &Windows, path: PathId, event: &AckEvent) {
        self.of(path).since += u64::from(event.newly_acked);
    }

    fn on_loss(&mut self, path: PathId) {
        let intervals = self.of(path);
        // Several losses with nothing acknowledged in between count as one.
        if intervals.since > 0 {
            *intervals = Intervals { before: intervals.since, since: 0 };
        }
    }

    fn on_path(&mut self, path: PathId) {
        *self.of(path) = Intervals::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, NOW, avoiding, lose, round};
    use super::super::{Config as Coupled, Controller, CoupledCongestionControl as _};
    use super::*;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    #[test]
    fn equal_paths_grow_as_one_connection_together() {
        // (w/r^2) / (2w/r)^2 = 1/4w: a quarter of a segment per round.
        let mut control = avoiding(&Coupled::Olia(Config::default()), &[(20, 100), (20, 100)]);
        let grown = round(&mut control, FIRST);
        assert!((grown - 0.25).abs() < 0.02, "{grown}");
    }

    #[test]
    fn two_connections_lose_less_than_one() {
        for (decrease, left) in [(Decrease::Half, 10), (Decrease::TwoConnections, 17)] {
            let mut control = avoiding(&Coupled::Olia(Config { decrease }), &[(20, 100), (20, 100)]);
            lose(&mut control, FIRST);
            assert_eq!(control.limits(FIRST).cwnd / MSS, left);
            assert_eq!(control.limits(SECOND).cwnd / MSS, 20);
        }
    }

    #[test]
    fn a_good_path_with_a_small_window_is_given_more_and_the_largest_less() {
        let mut control = avoiding(&Coupled::Olia(Config::default()), &[(60, 100), (20, 100)]);
        // The second path has gone longer without a loss.
        for (path, acks) in [(FIRST, 10), (SECOND, 1_000)] {
            for _ in 0..acks {
                let ack = AckEvent { is_window_limited: false, ..AckEvent::new(NOW, MSS, 0) };
                control.on_ack(path, &ack);
            }
        }
        // (20/r^2) / (80/r)^2 + 1/(2 w) and (60/r^2) / (80/r)^2 - 1/(2 w), times w segments per round.
        let (first, second) = (round(&mut control, FIRST), round(&mut control, SECOND));
        assert!((second - (1.0 / 16.0 + 0.5)).abs() < 0.03, "{second}");
        assert!((first - (9.0 / 16.0 - 0.5)).abs() < 0.03, "{first}");
        // After two losses, this is forgotten: the first path is the better one again, and it is the larger
        // one already.
        let ack = |control: &mut Controller, path| {
            let unused = AckEvent { is_window_limited: false, ..AckEvent::new(NOW, MSS, 0) };
            control.on_ack(path, &unused);
        };
        for _ in 0..2 {
            lose(&mut control, SECOND);
            ack(&mut control, SECOND);
        }
        let segments = f64::from(control.limits(SECOND).cwnd) / f64::from(MSS);
        let total = segments + f64::from(control.limits(FIRST).cwnd) / f64::from(MSS);
        let grown = round(&mut control, SECOND);
        assert!((grown - segments * segments / total / total).abs() < 0.01, "{grown}");
    }
}
