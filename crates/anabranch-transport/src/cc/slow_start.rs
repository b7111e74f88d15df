//! Slow starts: how fast the window grows below the threshold, and when that ends without a loss.
//!
//! - standard: one segment per acknowledged segment until the threshold (RFC 5681 section 3.1);
//! - limited: slower above 100 segments (RFC 3742);
//! - HyStart as in Linux 6's `tcp_cubic.c` (S. Ha and I. Rhee, "Taming the elephants", 2011): ends when
//!   the train of acknowledgements is as long as the path, or when the delay rises;
//! - HyStart++ (RFC 9406): a rising delay first slows the growth and ends it five rounds later. Only the
//!   first slow start is one, whose threshold has its initial value; the later ones are standard and end at
//!   the threshold that it found (section 4.3).
//!
//! Known deviations: HyStart's allowance for bursts uses the last round-trip time where Linux uses the
//! smoothed one, in its estimate of the pacing rate. HyStart++ grows by what an acknowledgement acknowledges,
//! with the L that section 4.3 recommends, only where the transport counts that; elsewhere by one segment,
//! which is L = 1, as in the slow starts after it (RFC 5681).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AckEvent;
use super::round::{Round, micros};

/// Which slow start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlowStart {
    /// It ends when acknowledgements or delay show that the path is full (Linux 6).
    Hystart,
    /// It slows down when the delay rises, and then ends (RFC 9406).
    #[serde(rename = "hystart++")]
    HystartPlusPlus,
    /// It grows by at most 50 segments per round above 100 segments (RFC 3742).
    Limited,
    /// It ends at the threshold or at a loss (RFC 5681).
    #[default]
    Standard,
}

impl fmt::Display for SlowStart {
    /// The name in a configuration.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// The state of a slow start.
#[derive(Clone, Debug)]
pub(super) enum Exit {
    Hystart(Hystart),
    HystartPlusPlus(HystartPlusPlus),
    Limited(Limited),
    Standard,
}

impl Exit {
    pub(super) fn new(kind: SlowStart, is_paced: bool) -> Self {
        match kind {
            SlowStart::Hystart => Self::Hystart(Hystart { is_paced, ..Hystart::default() }),
            SlowStart::HystartPlusPlus => Self::HystartPlusPlus(HystartPlusPlus::new(is_paced)),
            SlowStart::Limited => Self::Limited(Limited::default()),
            SlowStart::Standard => Self::Standard,
        }
    }

    /// Segments to grow by when `acked` segments are acknowledged; in the first slow start the threshold has
    /// no limit yet.
    pub(super) fn growth(&mut self, acked: u32, cwnd: u32, is_first: bool) -> u32 {
        match self {
            Self::HystartPlusPlus(slow_start) if is_first => slow_start.growth(acked),
            Self::Hystart(_) | Self::HystartPlusPlus(_) | Self::Standard => acked,
            Self::Limited(slow_start) => slow_start.growth(acked, cwnd),
        }
    }

    /// Whether slow start ends with this acknowledgement.
    pub(super) fn ends(&mut self, event: &AckEvent, cwnd: u32, mss: u32, is_first: bool) -> bool {
        match self {
            Self::Hystart(slow_start) => slow_start.ends(event, cwnd, mss),
            Self::HystartPlusPlus(slow_start) => is_first && slow_start.ends(event),
            Self::Limited(_) | Self::Standard => false,
        }
    }

    /// Begins anew with the restart window of a sender that was idle in its first slow start. Returns whether
    /// that slow start had found that the path is full, so that it has ended with the window that it came to.
    pub(super) fn on_restart(&mut self) -> bool {
        match self {
            // RFC 9406 section 4.3: HyStart++ may grow the restart window where there is no threshold yet.
            // The rounds of conservative slow start do not go on in it.
            Self::HystartPlusPlus(slow_start) => {
                let has_found = slow_start.baseline.is_some();
                let is_paced = slow_start.most == u32::MAX;
                *slow_start = HystartPlusPlus::new(is_paced);
                has_found
            }
            Self::Hystart(_) | Self::Limited(_) | Self::Standard => false,
        }
    }

    /// Looks for the end of slow start again after a timeout (Linux: `cubictcp_state`).
    pub(super) fn on_timeout(&mut self) {
        if let Self::Hystart(slow_start) = self {
            *slow_start = Hystart { is_paced: slow_start.is_paced, ..Hystart::default() };
        }
    }
}

/// RFC 3742 section 2: `max_ssthresh` in segments.
const MAX_SSTHRESH: u32 = 100;

/// Limited slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited {
    count: u32,
}

impl Limited {
    fn growth(&mut self, acked: u32, cwnd: u32) -> u32 {
        if cwnd <= MAX_SSTHRESH {
            return acked;
        }
        // RFC 3742: K = int(cwnd / (0.5 max_ssthresh)); cwnd += MSS / K.
        let per = cwnd / (MAX_SSTHRESH / 2);
        self.count += acked;
        let growth = self.count / per;
        self.count %= per;
        growth
    }
}

/// Linux: `hystart_low_window`, in segments.
const LOW_WINDOW: u32 = 16;
/// Linux: `hystart_ack_delta_us`: acknowledgements this close belong to one train.
const ACK_DELTA_US: u64 = 2_000;
/// Linux: `HYSTART_MIN_SAMPLES`; RFC 9406: `N_RTT_SAMPLE`.
const MIN_SAMPLES: u32 = 8;
/// Linux: `HYSTART_DELAY_MIN` and `HYSTART_DELAY_MAX`; RFC 9406: `MIN_RTT_THRESH` and `MAX_RTT_THRESH`.
const DELAY_MIN_US: u32 = 4_000;
const DELAY_MAX_US: u32 = 16_000;
/// Linux: a burst is four times `sk_gso_max_size` bytes, at most 1 ms long.
const BURST_BYTES: u64 = 4 * 65_536;
const BURST_MAX_US: u64 = 1_000;

/// Linux's HyStart.
#[derive(Clone, Debug, Default)]
pub(super) struct Hystart {
    round: Round,
    started: bool,
    round_start_us: u64,
    last_ack_us: u64,
    /// The smallest round-trip time of the connection so far; zero if there is none.
    delay_min: u32,
    /// The smallest round-trip time of this round.
    round_rtt: u32,
    samples: u32,
    found: bool,
    is_paced: bool,
}

impl Hystart {
    fn ends(&mut self, event: &AckEvent, cwnd: u32, mss: u32) -> bool {
        let Some(rtt) = event.rtt else { return false };
        let rtt = micros(rtt).max(1);
        if self.delay_min == 0 || rtt < self.delay_min {
            self.delay_min = rtt;
        }
        if self.found {
            return false;
        }
        let now = event.now.as_nanos() / 1_000;
        if self.round.passed(event) || !self.started {
            self.started = true;
            self.round_start_us = now;
            self.last_ack_us = now;
            self.round_rtt = u32::MAX;
            self.samples = 0;
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        if now - self.last_ack_us <= ACK_DELTA_US {
            self.last_ack_us = now;
            // Linux, tcp_update_pacing_rate: in slow start, twice the window per round trip.
            let rate = 2 * u64::from(cwnd) * u64::from(mss) * 1_000_000 / u64::from(rtt);
            let burst = (BURST_BYTES * 1_000_000).checked_div(rate).map_or(0, |time| time.min(BURST_MAX_US));
            let longest = u64::from(self.delay_min) + burst;
            // Linux: acknowledgements of a sender that is not paced come within half a round trip.
            let longest = if self.is_paced { longest } else { longest / 2 };
            if now - self.round_start_us > longest {
                self.found = true;
            }
        }
        self.round_rtt = self.round_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (self.delay_min / 8).clamp(DELAY_MIN_US, DELAY_MAX_US);
            self.found |= self.round_rtt > self.delay_min.saturating_add(rise);
        }
        self.found
    }
}

/// RFC 9406 section 4.2: the divisor of the growth, and the rounds, of conservative slow start.
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;
/// RFC 9406 section 4.2: L, the most segments to grow by at once; a paced sender has no limit.
const MAX_GROWTH: u32 = 8;

/// HyStart++.
#[derive(Clone, Debug)]
pub(super) struct HystartPlusPlus {
    round: Round,
    last_rtt: u32,
    current_rtt: u32,
    samples: u32,
    /// In conservative slow start: the smallest round-trip time of the round before it.
    baseline: Option<u32>,
    rounds: u32,
    count: u32,
    most: u32,
}

impl HystartPlusPlus {
    fn new(is_paced: bool) -> Self {
        Self {
            round: Round::default(),
            last_rtt: u32::MAX,
            current_rtt: u32::MAX,
            samples: 0,
            baseline: None,
            rounds: 0,
            count: 0,
            most: if is_paced { u32::MAX } else { MAX_GROWTH },
        }
    }

    fn growth(&mut self, acked: u32) -> u32 {
        let acked = acked.min(self.most);
        if self.baseline.is_none() {
            return acked;
        }
        self.count += acked;
        let growth = self.count / CSS_GROWTH_DIVISOR;
        self.count %= CSS_GROWTH_DIVISOR;
        growth
    }

    fn ends(&mut self, event: &AckEvent) -> bool {
        if self.round.reached(event) {
            if self.baseline.is_some() {
                self.rounds += 1;
                if self.rounds >= CSS_ROUNDS {
                    return true;
                }
            }
            self.last_rtt = self.current_rtt;
            self.current_rtt = u32::MAX;
            self.samples = 0;
        }
        if let Some(rtt) = event.rtt {
            self.current_rtt = self.current_rtt.min(micros(rtt));
            self.samples += 1;
        }
        if self.samples < MIN_SAMPLES {
            return false;
        }
        match self.baseline {
            None if self.last_rtt != u32::MAX => {
                let rise = (self.last_rtt / 8).clamp(DELAY_MIN_US, DELAY_MAX_US);
                if self.current_rtt >= self.last_rtt.saturating_add(rise) {
                    self.baseline = Some(self.current_rtt);
                    self.rounds = 0;
                }
            }
            // The delay has fallen again, so it was noise.
            Some(baseline) if self.current_rtt < baseline => self.baseline = None,
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
    use super::super::{Config, CongestionControl as _, IdleEvent, Rules, Setup, UndoEvent, reno};
    use super::*;
    use crate::time::Duration;

    fn sender(slow_start: SlowStart, buffer: usize) -> Sender {
        let path = Path::new(1_000.0, Duration::from_millis(100), buffer);
        Sender::new(build(reno::Config { slow_start, ..reno::Config::default() }, Rules::Rfc, 10), path)
    }

    #[test]
    fn leaves_before_the_queue_overflows() {
        // The path holds 100 packets. HyStart++ sees the delay when the window is near 300, and grows to
        // three times that in its five slow rounds.
        for (slow_start, buffer) in [(SlowStart::Hystart, 100), (SlowStart::HystartPlusPlus, 900)] {
            let mut careful = sender(slow_start, buffer);
            careful.run(Duration::from_secs(5));
            assert_eq!(careful.drops, 0, "{slow_start:?}");
            let window = cwnd(&careful.control);
            assert!((50..100 + buffer).contains(&(window as usize)), "{slow_start:?}: {window}");
            assert_eq!(careful.control.state().phase, "congestion_avoidance", "{slow_start:?}");
            let mut standard = sender(SlowStart::Standard, buffer);
            standard.run(Duration::from_secs(5));
            assert!(standard.drops > 50);
        }
    }

    #[test]
    fn hystart_needs_a_window_of_sixteen_segments() {
        let mut control = build(
            reno::Config { slow_start: SlowStart::Hystart, ..reno::Config::default() },
            Rules::Linux6,
            2,
        );
        let mut rounds = Rounds::new(Duration::from_millis(100));
        for ms in [100, 120, 140, 160] {
            let before = cwnd(&control);
            assert_eq!(control.state().phase, "slow_start", "{before}");
            rounds.round_with(&mut control, Duration::from_millis(ms));
        }
        // 2, 4, 8, 16 segments; slow start is over with the ninth sample of the next round.
        rounds.round_with(&mut control, Duration::from_millis(180));
        assert_eq!(control.state().phase, "congestion_avoidance");
    }

    /// RFC 9406 section 4.2: a quarter of the growth for five rounds, unless the delay goes down again.
    #[test]
    fn hystart_plus_plus_slows_down_for_five_rounds() {
        let mut control = build(
            reno::Config { slow_start: SlowStart::HystartPlusPlus, ..reno::Config::default() },
            Rules::Rfc,
            16,
        );
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.round(&mut control);
        rounds.round(&mut control);
        let slow = Duration::from_millis(115);
        rounds.round_with(&mut control, slow);
        let mut growth = Vec::new();
        while control.state().phase == "slow_start" {
            let before = f64::from(cwnd(&control));
            rounds.round_with(&mut control, slow);
            growth.push(f64::from(cwnd(&control)) / before);
        }
        assert!((4..=5).contains(&growth.len()), "{growth:?}");
        assert!(growth[..4].iter().all(|factor| (factor - 1.25).abs() < 0.05), "{growth:?}");
    }

    /// RFC 9406 section 4.3: a later slow start, here after an idle time, is standard and ends at the
    /// threshold that the first one found, however long the delay is.
    #[test]
    fn hystart_plus_plus_is_for_the_first_slow_start() {
        let mut control = build(
            reno::Config { slow_start: SlowStart::HystartPlusPlus, ..reno::Config::default() },
            Rules::Rfc,
            16,
        );
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.round(&mut control);
        let slow = Duration::from_millis(115);
        while control.state().phase == "slow_start" {
            rounds.round_with(&mut control, slow);
        }
        let threshold = ssthresh(&control);
        assert!((32..200).contains(&threshold), "{threshold}");
        for _ in 0..2 {
            control.on_idle(&IdleEvent::new(Duration::from_secs(5), Duration::from_secs(1)));
            assert_eq!((cwnd(&control), ssthresh(&control)), (16, threshold));
            rounds.round_with(&mut control, slow);
            assert_eq!(cwnd(&control), 32);
            while cwnd(&control) < threshold {
                let doubled = 2 * cwnd(&control);
                rounds.round_with(&mut control, slow);
                assert!(cwnd(&control) >= doubled.min(threshold), "{}", cwnd(&control));
            }
        }
    }

    /// The same, where the idle time comes while the first slow start is conservative: it ends with the
    /// window that it has come to, not with the restart window. Before it is conservative, HyStart++ goes on.
    #[test]
    fn an_idle_time_ends_a_conservative_slow_start() {
        let pause = IdleEvent::new(Duration::from_secs(5), Duration::from_secs(1));
        let slow = Duration::from_millis(115);
        for is_conservative in [true, false] {
            let mut control = build(
                reno::Config { slow_start: SlowStart::HystartPlusPlus, ..reno::Config::default() },
                Rules::Rfc,
                16,
            );
            let mut rounds = Rounds::new(Duration::from_millis(100));
            rounds.round(&mut control);
            if is_conservative {
                rounds.round_with(&mut control, slow);
                rounds.round_with(&mut control, slow);
            }
            let window = cwnd(&control);
            assert_eq!(control.state().phase, "slow_start");
            control.on_idle(&pause);
            assert_eq!(cwnd(&control), 16);
            if is_conservative {
                assert_eq!(ssthresh(&control), window);
                continue;
            }
            assert_eq!(control.state().ssthresh, u32::MAX);
            rounds.round(&mut control);
            while control.state().phase == "slow_start" {
                rounds.round_with(&mut control, slow);
            }
            assert!(ssthresh(&control) < 2_000, "{}", ssthresh(&control));
        }
    }

    /// RFC 9406 section 4.2: a paced sender grows by all that is acknowledged, another one by 8 segments at
    /// most; this goes on after an undo, which gives the threshold its first value again.
    #[test]
    fn hystart_plus_plus_limits_growth_without_a_pace() {
        for (is_paced, growth) in [(false, 8), (true, 32)] {
            let config = Config::Reno(reno::Config {
                slow_start: SlowStart::HystartPlusPlus,
                ..reno::Config::default()
            });
            let setup =
                Setup { mss: 1_000, initial_cwnd: 64_000, rules: Rules::Rfc, seed: 1, is_paced, headers: 0 };
            let mut control = config.build(&setup);
            let mut rounds = Rounds::new(Duration::from_millis(100));
            rounds.ack(&mut control, 32, rounds.rtt);
            assert_eq!(cwnd(&control), 64 + growth);
            lose(&mut control, rounds.now);
            control.on_undo(&UndoEvent::new(rounds.now));
            rounds.ack(&mut control, 32, rounds.rtt);
            assert_eq!(cwnd(&control), 64 + 2 * growth);
        }
    }

    /// RFC 3742 section 2: at most `max_ssthresh` / 2 segments per round above `max_ssthresh`.
    #[test]
    fn limited_slow_start_grows_by_fifty_segments_per_round() {
        let mut control =
            build(reno::Config { slow_start: SlowStart::Limited, ..reno::Config::default() }, Rules::Rfc, 50);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.round(&mut control);
        assert_eq!(cwnd(&control), 100);
        rounds.round(&mut control);
        for _ in 0..5 {
            let before = cwnd(&control);
            rounds.round(&mut control);
            assert!((40..=60).contains(&(cwnd(&control) - before)), "{} after {before}", cwnd(&control));
        }
    }
}
