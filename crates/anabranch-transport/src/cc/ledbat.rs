//! LEDBAT and LEDBAT++: yield to other traffic by keeping the queueing delay at a target.
//!
//! RFC 6817; draft-irtf-iccrg-ledbat-plus-plus-01, which counts round-trip times, shrinks multiplicatively,
//! starts slowly and slows down from time to time to see the path without its own queue.
//!
//! Known deviations: LEDBAT's queueing delay is that of the round trip, as LEDBAT++'s is, since
//! acknowledgements carry no one-way delays; delay on the way back counts as its own. Base delays are kept
//! per minute of the endpoint's time. It is the same under all rules.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, CongestionKind, Setup, check_count, check_range};
use crate::time::{Duration, Time};

/// Settings of LEDBAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LedbatConfig")]
pub struct Config {
    /// The variant; default "ledbat".
    pub variant: Variant,
    /// The queueing delay that it aims at, from 1 ms to 10 s; default 100 ms, the most that RFC 6817 (section
    /// 2.5) allows, and 60 ms in LEDBAT++.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// LEDBAT: growth in segments per round without any queueing delay, from 0.001 to 1; default 1. LEDBAT++
    /// computes its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Minutes for which the smallest delay is remembered, from 1 to 1000; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_history: Option<u32>,
}

/// The form of LEDBAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Variant {
    /// RFC 6817.
    #[default]
    #[serde(rename = "ledbat")]
    Ledbat,
    /// draft-irtf-iccrg-ledbat-plus-plus.
    #[serde(rename = "ledbat++")]
    LedbatPlusPlus,
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        if let Some(target) = self.target
            && !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&target)
        {
            return Err(format!("target = {target} is out of range; it must be from 1 ms to 10 s"));
        }
        self.gain.map_or(Ok(()), |gain| check_range("gain", gain, 0.001, 1.0))?;
        self.base_history.map_or(Ok(()), |minutes| check_count("base_history", minutes, 1, 1_000))
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Ledbat> {
        let plus_plus = self.variant == Variant::LedbatPlusPlus;
        let target = self.target.unwrap_or(Duration::from_millis(if plus_plus { 60 } else { 100 }));
        Windowed::new(setup, SlowStart::Standard, |window| {
            window.set(MIN_WINDOW);
            if !plus_plus {
                // RFC 6817 section 2.4.2 has no slow start.
                window.ssthresh = MIN_WINDOW;
            }
            Ledbat {
                plus_plus,
                target,
                gain: self.gain.unwrap_or(1.0),
                delays: Delays::new(self.base_history.unwrap_or(10) as usize),
                fraction: 0.0,
                slowdown: Slowdown::Initial,
                freeze_until: Time::ZERO,
            }
        })
    }
}

/// RFC 6817 section 2.5: `INIT_CWND`, `MIN_CWND` and `ALLOWED_INCREASE` in segments.
const MIN_WINDOW: u32 = 2;
const ALLOWED_INCREASE: u32 = 1;
/// RFC 6817 section 2.5: `CURRENT_FILTER`, at least 4 samples if a round trip has as many.
const CURRENT_FILTER: usize = 4;

/// Delays: the smallest of each of the last minutes, and the last few with the time of each.
#[derive(Debug)]
struct Delays {
    minutes: usize,
    minute: u64,
    base: VecDeque<Duration>,
    recent: VecDeque<(Time, Duration)>,
}

impl Delays {
    fn new(minutes: usize) -> Self {
        Self { minutes, minute: 0, base: VecDeque::new(), recent: VecDeque::new() }
    }

    fn on_sample(&mut self, now: Time, rtt: Duration) {
        let minute = now.as_nanos() / 60_000_000_000;
        match self.base.back_mut() {
            Some(least) if minute == self.minute => *least = (*least).min(rtt),
            _ => {
                self.minute = minute;
                self.base.push_back(rtt);
                if self.base.len() > self.minutes {
                    self.base.pop_front();
                }
            }
        }
        // RFC 6817 section 2.5: samples older than a round trip are not used.
        let is_old = |&(at, _): &(Time, Duration)| now.saturating_since(at) > rtt;
        while self.recent.len() >= CURRENT_FILTER || self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back((now, rtt));
    }

    fn base(&self) -> Option<Duration> {
        self.base.iter().copied().min()
    }

    fn queueing(&self) -> Option<Duration> {
        let current = self.recent.iter().map(|&(_, rtt)| rtt).min()?;
        Some(current.saturating_sub(self.base()?))
    }
}

/// LEDBAT++ section 4.4: when the next slowdown comes, or how far the present one is.
#[derive(Clone, Copy, Debug)]
enum Slowdown {
    /// The first slow start has not ended.
    Initial,
    /// The next slowdown comes at this time.
    At(Time),
    /// The window has been two segments since this time.
    Frozen { since: Time },
    /// The window grows back to the threshold after the slowdown that began at this time.
    Growing { since: Time },
}

/// LEDBAT.
#[derive(Debug)]
pub struct Ledbat {
    plus_plus: bool,
    target: Duration,
    gain: f64,
    delays: Delays,
    /// The part of the window below one segment.
    fraction: f64,
    slowdown: Slowdown,
    freeze_until: Time,
}

impl Ledbat {
    /// RFC 6817 section 2.4.2.
    fn grow_by_rfc(&mut self, window: &mut Window, event: &AckEvent, delay: Duration) {
        let target = self.target.as_secs_f64();
        let off_target = (target - delay.as_secs_f64()) / target;
        let acked = f64::from(event.newly_acked) / f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) + self.fraction;
        // The cap is for a sender that the application limits. A sender that the window limits may have less
        // in flight than the window while it waits for a whole burst.
        let most = if event.is_window_limited {
            f64::INFINITY
        } else {
            f64::from(event.outstanding_before.div_ceil(window.mss) + ALLOWED_INCREASE).max(cwnd)
        };
        let next = (cwnd + self.gain * off_target * acked / cwnd).min(most);
        self.set(window, next);
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    fn set(&mut self, window: &mut Window, cwnd: f64) {
        let cwnd = cwnd.max(f64::from(MIN_WINDOW));
        window.set(cwnd as u32);
        self.fraction = if window.cwnd == cwnd as u32 { cwnd - cwnd.floor() } else { 0.0 };
    }

    /// LEDBAT++ sections 4.1 to 4.4.
    fn grow_by_draft(&mut self, window: &mut Window, event: &AckEvent, delay: Duration) {
        let Some(base) = self.delays.base() else { return };
        let rtt = event.rtt.unwrap_or(base);
        match self.slowdown {
            Slowdown::At(time) if event.now >= time && !window.is_below_threshold() => {
                window.ssthresh = window.cwnd.max(MIN_WINDOW);
                self.set(window, f64::from(MIN_WINDOW));
                self.slowdown = Slowdown::Frozen { since: event.now };
                self.freeze_until = event.now + rtt * 2;
                return;
            }
            Slowdown::Frozen { since } => {
                if event.now < self.freeze_until {
                    return;
                }
                self.slowdown = Slowdown::Growing { since };
            }
            _ => {}
        }
        // Section 4.2: 1 / min(16, ceil(2 TARGET / base)).
        let ratio = libm::ceil(2.0 * self.target.as_secs_f64() / base.as_secs_f64().max(1e-9));
        let gain = 1.0 / ratio.clamp(1.0, 16.0);
        let acked = f64::from(event.newly_acked) / f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) + self.fraction;
        if window.is_below_threshold() {
            // Section 4.3: slow start ends at three quarters of the target, but only the first one.
            let late = delay.scaled(4.0) > self.target * 3;
            if late && matches!(self.slowdown, Slowdown::Initial) {
                window.ssthresh = window.cwnd;
            } else {
                self.set(window, (cwnd + gain * acked).min(f64::from(window.ssthresh)));
            }
            if !window.is_below_threshold() {
                self.schedule(event.now, rtt);
            }
            return;
        }
        if matches!(self.slowdown, Slowdown::Initial | Slowdown::Growing { .. }) {
            // A loss has ended slow start.
            self.schedule(event.now, rtt);
        }
        // Section 4.2: W += max(GAIN - Constant W (delay / target - 1), -W / 2) per round.
        let over = delay.as_secs_f64() / self.target.as_secs_f64() - 1.0;
        let per_round = if over <= 0.0 { gain } else { (gain - cwnd * over).max(-cwnd / 2.0) };
        self.set(window, cwnd + per_round * acked / cwnd);
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    /// Section 4.4: plans the next slowdown, two rounds after the first slow start, later after nine times as
    /// long as the last slowdown took.
    fn schedule(&mut self, now: Time, rtt: Duration) {
        let wait = match self.slowdown {
            Slowdown::Growing { since } | Slowdown::Frozen { since } => now.saturating_since(since) * 9,
            Slowdown::At(_) | Slowdown::Initial => rtt * 2,
        };
        self.slowdown = Slowdown::At(now + wait);
    }
}

impl Algorithm for Ledbat {
    fn on_acked(&mut self, _window: &mut Window, event: &AckEvent) {
        if let Some(rtt) = event.rtt {
            self.delays.on_sample(event.now, rtt);
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        let Some(delay) = self.delays.queueing() else { return };
        if self.plus_plus {
            if event.is_window_limited || delay > self.target || !matches!(self.slowdown, Slowdown::At(_)) {
                let before = (window.cwnd, self.fraction);
                self.grow_by_draft(window, event, delay);
                // A window that is not used does not grow, but it may shrink, and a slowdown goes on.
                if !event.is_window_limited && window.cwnd >= before.0 {
                    (window.cwnd, self.fraction) = before;
                }
            }
        } else if window.is_below_threshold() {
            // After a timeout, the window grows from one segment to the smallest window.
            window.beyond_slow_start(event);
        } else {
            self.grow_by_rfc(window, event, delay);
        }
    }

    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32 {
        self.fraction = 0.0;
        if !self.plus_plus && event.kind == CongestionKind::Timeout {
            // RFC 6817 section 2.4.2: the window is one segment, and grows from there as always.
            return MIN_WINDOW;
        }
        window.half()
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            self.fraction = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, ssthresh};
    use super::super::{CongestionControl as _, Rules};
    use super::*;

    fn run(config: Config) -> Sender {
        let path = Path::new(2_000.0, Duration::from_millis(50), 10_000);
        let mut sender = Sender::new(build(config, Rules::Rfc, 10), path);
        sender.run(Duration::from_secs(180));
        sender
    }

    #[test]
    fn holds_the_target_delay() {
        for target in [Duration::from_millis(25), Duration::from_millis(100)] {
            let sender = run(Config { target: Some(target), ..Config::default() });
            let skip = Duration::from_secs(120);
            let delay = sender.mean_after(skip, |sample| sample.rtt.as_secs_f64()) - 0.050;
            assert!((delay / target.as_secs_f64() - 1.0).abs() < 0.08, "{delay} for {target}");
            assert!(sender.goodput_after(skip) > 1_990.0);
            assert_eq!(sender.drops, 0);
        }
    }

    #[test]
    fn delays_of_earlier_round_trips_do_not_count() {
        let mut delays = Delays::new(10);
        let ms = Duration::from_millis;
        delays.on_sample(Time::from_millis(0), ms(50));
        assert_eq!(delays.queueing(), Some(Duration::ZERO));
        // There are two samples per round trip, so four of them would go back two rounds.
        delays.on_sample(Time::from_millis(100), ms(90));
        assert_eq!(delays.queueing(), Some(ms(40)), "the first is older than 90 ms");
        for at in [110, 120, 130, 140] {
            delays.on_sample(Time::from_millis(at), ms(100));
        }
        assert_eq!((delays.queueing(), delays.recent.len()), (Some(ms(50)), CURRENT_FILTER));
        // Ten minutes later the base is forgotten.
        delays.on_sample(Time::from_secs(600), ms(100));
        assert_eq!(delays.base(), Some(ms(50)), "the first minute is the tenth");
        for minute in 11..20 {
            delays.on_sample(Time::from_secs(60 * minute), ms(100));
        }
        assert_eq!(delays.base(), Some(ms(100)));
    }

    #[test]
    fn after_a_timeout_it_grows_as_ever() {
        let mut control = build(Config::default(), Rules::Rfc, 10);
        let mut rounds = Rounds::new(Duration::from_millis(50));
        for _ in 0..20 {
            rounds.round(&mut control);
        }
        let before = cwnd(&control);
        assert!(before >= 20, "{before}");
        control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, MIN_WINDOW));
        rounds.round(&mut control);
        for _ in 0..4 {
            rounds.round(&mut control);
        }
        assert!(cwnd(&control) <= 2 + 4, "no slow start: {}", cwnd(&control));
    }

    #[test]
    fn the_newer_one_stays_below_the_target_and_slows_down() {
        let sender = run(Config { variant: Variant::LedbatPlusPlus, ..Config::default() });
        let skip = Duration::from_secs(20);
        let most = sender.after(skip).map(|sample| sample.rtt).max().unwrap();
        assert!(most < Duration::from_millis(50 + 75), "{most}");
        let slow = sender.after(skip).filter(|sample| sample.cwnd <= 2.0).count();
        assert!(slow > 0, "it slows down now and then");
        // For nine tenths of the time, the flow is not slowed down (section 4.4).
        assert!(sender.goodput_after(skip) > 1_700.0, "{}", sender.goodput_after(skip));
    }
}
