//! Weighted Vegas (Y. Cao, M. Xu and X. Fu, "Delay-based congestion control for multipath TCP", IEEE ICNP
//! 2012, in the form of its authors' Linux module `mptcp_wvegas.c`).
//!
//! Each path is held at `alpha` segments in its queues as by Vegas, and what all paths hold together is
//! shared out in proportion to their rates. A path whose queueing delay is twice the least seen since it last
//! gave way is drained, so that the smallest round-trip time is measured anew.
//!
//! Known deviations: a round is over when what was outstanding at its beginning has been acknowledged,
//! selectively or not, so that it does not depend on the transport's sequence numbers. A queueing delay of
//! zero does not drain the path: twice nothing is nothing, and in a simulation, unlike in a kernel, queues
//! are empty to the microsecond.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Window, Windows};
use crate::cc::AckEvent;
use crate::flow::PathId;
use crate::time::Duration;

/// Segments in the queues: those of a path at the beginning and at least, and those of all paths together
/// (`initial_alpha`, `total_alpha`).
const INITIAL_ALPHA: f64 = 2.0;
const TOTAL_ALPHA: f64 = 10.0;
/// Slow start ends with more segments than this in the queues (`gamma`).
const GAMMA: f64 = 1.0;
/// The smallest window, in segments.
const LEAST_WINDOW: f64 = 2.0;
/// The threshold is at least this part of the window (Linux: `tcp_current_ssthresh`).
const LEAST_THRESHOLD: f64 = 0.75;

/// Settings of weighted Vegas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "WvegasConfig")]
pub struct Config {}

/// Weighted Vegas.
#[derive(Debug, Default)]
pub struct Wvegas {
    paths: Vec<State>,
}

/// The effect of an acknowledgement on the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Step {
    /// The round is not over: slow start goes on, otherwise nothing happens.
    #[default]
    Within,
    /// There are too few samples, so the window grows as Reno's does.
    Reno,
    /// The window changes by this many bytes.
    By(f64),
    /// The window shrinks by this many bytes, and slow start leads back to where it was.
    Drain(f64),
}

/// The state of one path. Times are in microseconds plus one, as the module measures them.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The smallest round-trip time.
    base: u64,
    /// The sum of the round-trip times of this round.
    sum: u64,
    samples: u64,
    /// Bytes that must be acknowledged before the round is over.
    left: u32,
    is_recovering: bool,
    /// Segments to be held in the queues.
    alpha: f64,
    /// The rate in bytes per microsecond when as many segments were last held there.
    rate: f64,
    /// The least queueing delay since the path was last drained; 0 if there is none.
    queued: u64,
    step: Step,
}

impl Default for State {
    fn default() -> Self {
        Self {
            base: u64::MAX,
            sum: 0,
            samples: 0,
            left: 0,
            is_recovering: false,
            alpha: INITIAL_ALPHA,
            rate: 0.0,
            queued: 0,
            step: Step::default(),
        }
    }
}

impl State {
    /// Begins a round with this many bytes outstanding.
    fn begin(&mut self, outstanding: u32) {
        self.left = outstanding;
        self.sum = 0;
        self.samples = 0;
    }
}

impl Wvegas {
    fn of(&mut self, path: PathId) -> &mut State {
        if self.paths.len() <= path.index() {
            self.paths.resize(path.index() + 1, State::default());
        }
        &mut self.paths[path.index()]
    }

    fn step(&self, path: PathId) -> Step {
        self.paths.get(path.index()).map_or(Step::Within, |state| state.step)
    }

    /// Adjusts the window once per round (`mptcp_wvegas_cong_avoid`).
    fn adjust(&mut self, window: &Window, path: PathId) -> Step {
        let state = *self.of(path);
        // If there are fewer samples, all of them may be of delayed acknowledgements.
        if state.samples <= 2 {
            return Step::Reno;
        }
        let rtt = state.sum / state.samples;
        let delay = rtt - state.base;
        let mss = f64::from(window.mss);
        let segments = f64::from(window.cwnd) / mss;
        let held = (segments * delay as f64 / rtt as f64).floor();
        if window.in_slow_start() {
            let target = (segments * state.base as f64 / rtt as f64).floor() + 1.0;
            return if held > GAMMA {
                Step::By((target.min(segments) - segments) * mss)
            } else {
                Step::Within
            };
        }
        if held >= state.alpha {
            self.of(path).rate = f64::from(window.cwnd) / rtt as f64;
            let total: f64 = self.paths.iter().map(|other| other.rate).sum();
            let state = self.of(path);
            state.alpha = (TOTAL_ALPHA * state.rate / total).floor().max(INITIAL_ALPHA);
        }
        let state = self.of(path);
        let mut to = segments;
        if held > state.alpha {
            to -= 1.0;
        } else if held < state.alpha {
            to += 1.0;
        }
        if state.queued == 0 || state.queued > delay {
            state.queued = delay;
        }
        if delay > 0 && delay >= 2 * state.queued {
            state.queued = 0;
            let drained = to * state.base as f64 / (2 * rtt) as f64;
            return Step::Drain((drained.max(LEAST_WINDOW) - segments) * mss);
        }
        Step::By((to.max(LEAST_WINDOW) - segments) * mss)
    }
}

impl Coupling for Wvegas {
    fn slow_start(&self, _windows: &Windows, path: PathId, acked: u32) -> f64 {
        match self.step(path) {
            Step::By(bytes) | Step::Drain(bytes) => bytes,
            Step::Reno | Step::Within => f64::from(acked),
        }
    }

    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        match self.step(path) {
            Step::By(bytes) | Step::Drain(bytes) => bytes,
            Step::Reno => windows.at(path).standard_growth(acked),
            Step::Within => 0.0,
        }
    }

    fn adjusted_threshold(&self, window: &Window, path: PathId, bytes: f64) -> u32 {
        let threshold = match self.step(path) {
            Step::Reno | Step::Within => return window.ssthresh,
            Step::By(_) if bytes < 0.0 => window.ssthresh.min(window.cwnd),
            Step::By(_) | Step::Drain(_) => window.ssthresh,
        };
        threshold.max((LEAST_THRESHOLD * f64::from(window.cwnd)) as u32)
    }

    fn on_acked(&mut self, windows: &Windows, path: PathId, event: &AckEvent) {
        let state = self.of(path);
        state.step = Step::Within;
        if event.in_recovery {
            return;
        }
        if std::mem::take(&mut state.is_recovering) {
            state.begin(event.outstanding);
            return;
        }
        state.left = state.left.saturating_sub(event.newly_acked);
        if state.left == 0 {
            let step = self.adjust(windows.at(path), path);
            let state = self.of(path);
            state.step = step;
            state.begin(event.outstanding);
        }
    }

    fn on_rtt(&mut self, path: PathId, rtt: Duration) {
        let state = self.of(path);
        let rtt = rtt.as_nanos() / 1_000 + 1;
        state.base = state.base.min(rtt);
        state.sum = state.sum.saturating_add(rtt);
        state.samples = state.samples.saturating_add(1);
    }

    fn on_loss(&mut self, path: PathId) {
        let state = self.of(path);
        *state = State { base: state.base, is_recovering: true, ..State::default() };
    }

    fn on_path(&mut self, path: PathId) {
        *self.of(path) = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, NOW, avoiding, lose, measure, setup};
    use super::super::{Config as Coupled, Controller, CoupledCongestionControl as _};
    use super::*;

    const WVEGAS: Coupled = Coupled::Wvegas(Config {});
    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    fn segments(control: &Controller, path: PathId) -> f64 {
        f64::from(control.limits(path).cwnd) / f64::from(MSS)
    }

    /// A window of acknowledgements, each with this round-trip time.
    fn rounds(control: &mut Controller, path: PathId, millis: f64) {
        let cwnd = control.limits(path).cwnd;
        for _ in 0..cwnd / MSS {
            let rtt = Duration::from_nanos((millis * 1e6) as u64);
            control.on_rtt_sample(path, &crate::cc::RttEvent::new(NOW, rtt));
            control.on_ack(path, &AckEvent::new(NOW, MSS, cwnd));
        }
    }

    /// Drives a path alone for `count` rounds until its window settles, with a bandwidth-delay product of
    /// `bdp` segments in 100 ms and a queue.
    fn run_until_steady(control: &mut Controller, path: PathId, bdp: f64, count: usize) {
        for _ in 0..count {
            let queue = (segments(control, path) - bdp).max(0.0);
            rounds(control, path, 100.0 * (1.0 + queue / bdp));
        }
    }

    #[test]
    fn a_path_alone_holds_ten_segments_in_its_queues() {
        let mut control = avoiding(&WVEGAS, &[(120, 100)]);
        run_until_steady(&mut control, FIRST, 100.0, 200);
        let held = segments(&control, FIRST) - 100.0;
        assert!((9.0..=12.0).contains(&held), "{held}");
    }

    #[test]
    fn two_paths_hold_as_much_together_in_proportion_to_their_rates() {
        let mut control = avoiding(&WVEGAS, &[(170, 100), (70, 100)]);
        for _ in 0..200 {
            run_until_steady(&mut control, FIRST, 150.0, 1);
            run_until_steady(&mut control, SECOND, 50.0, 1);
        }
        let held = [segments(&control, FIRST) - 150.0, segments(&control, SECOND) - 50.0];
        assert!((6.5..=9.0).contains(&held[0]), "{held:?}");
        assert!((1.5..=4.0).contains(&held[1]), "{held:?}");
    }

    #[test]
    fn slow_start_ends_with_more_than_one_segment_in_the_queues() {
        let mut control = WVEGAS.build();
        control.add_path(FIRST, &setup(10));
        run_until_steady(&mut control, FIRST, 50.0, 4);
        assert_eq!(control.state(FIRST).phase, "congestion_avoidance");
        run_until_steady(&mut control, FIRST, 50.0, 40);
        let window = segments(&control, FIRST);
        assert!((50.0..=63.0).contains(&window), "{window}");
    }

    #[test]
    fn a_queue_twice_as_long_as_it_has_been_is_drained() {
        let mut control = avoiding(&WVEGAS, &[(20, 100)]);
        // The delay is none and then 4 ms, so nothing is twice as long.
        rounds(&mut control, FIRST, 100.0);
        rounds(&mut control, FIRST, 104.0);
        rounds(&mut control, FIRST, 104.0);
        let before = segments(&control, FIRST);
        assert!((22.0..=24.0).contains(&before), "{before}");
        let mut after = before;
        for _ in 0..50 {
            let last = after;
            let rtt = Duration::from_millis(109);
            control.on_rtt_sample(FIRST, &crate::cc::RttEvent::new(NOW, rtt));
            control.on_ack(FIRST, &AckEvent::new(NOW, MSS, control.limits(FIRST).cwnd));
            after = segments(&control, FIRST);
            if after < last {
                // 9 ms or a little less after 4 ms: 100 / (2 * 109) of the window is left.
                let part = after / (last + 1.0);
                assert!((part - 100.0 / 218.0).abs() < 0.005, "{last} to {after}");
                break;
            }
        }
        assert!(after < before);
        // Slow start leads back to three quarters of the former window.
        assert_eq!(control.state(FIRST).phase, "slow_start");
        assert_eq!(f64::from(control.state(FIRST).ssthresh), (0.75 * before * f64::from(MSS)).floor());
    }

    #[test]
    fn few_samples_and_losses_are_answered_as_by_reno() {
        let mut control = avoiding(&WVEGAS, &[(20, 100)]);
        for _ in 0..20 {
            control.on_ack(FIRST, &AckEvent::new(NOW, MSS, 20 * MSS));
        }
        assert!((20.0..21.0).contains(&segments(&control, FIRST)));
        measure(&mut control, FIRST, 100);
        let before = control.limits(FIRST).cwnd;
        lose(&mut control, FIRST);
        assert_eq!(control.limits(FIRST).cwnd, before / 2);
    }
}
