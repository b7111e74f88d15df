//! CUBIC: the window is a cubic function of the time since the last loss, flat at the window where the
//! loss was.
//!
//! RFC 9438; Linux 6's `tcp_cubic.c` and, with [`Rules::Linux2620`], the first version that Linux 2.6.20
//! had (S. Ha, I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", 2005): beta 819/1024,
//! growth limited to 16 segments per 100 ms, a first threshold of 100 segments, an estimate of the
//! acknowledgements' ratio, no HyStart.
//!
//! Linux's forms count in whole segments and milliseconds (HZ = 1000) as the kernel does; the RFC's form
//! counts in fractions of a segment and in nanoseconds.
//!
//! Known deviations: 2.6.20 measured its delay with timestamps of 1 ms; here it is the round-trip time
//! rounded down to them. The RFC's growth restarts after every idle period as Linux's does (RFC 9438
//! section 5.8 leaves open how).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ack_ratio::AckRatio;
use super::round::micros;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup, check_range};
use crate::time::{Duration, Time};

/// Settings of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CubicConfig")]
pub struct Config {
    /// C in segments per cubed second: how fast the window grows away from its last maximum; default 0.4
    /// (RFC 9438 section 4.1).
    pub c: f64,
    /// The share of the window that is left after a loss; default 0.7 (RFC 9438 section 4.6), in Linux
    /// 2.6.20 819/1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Whether a loss below the last maximum makes room for other flows (RFC 9438 section 4.7); default true.
    pub fast_convergence: bool,
    /// Whether the window is at least what Reno's would be (RFC 9438 section 4.3); default true.
    pub tcp_friendliness: bool,
    /// The slow start; default "hystart" as in Linux 6, with the RFC's rules "hystart++", in Linux
    /// 2.6.20 "standard".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
}

impl Default for Config {
    fn default() -> Self {
        Self { c: 0.4, beta: None, fast_convergence: true, tcp_friendliness: true, slow_start: None }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("c", self.c, 0.01, 100.0)?;
        self.beta.map_or(Ok(()), |beta| check_range("beta", beta, 0.1, 0.95))
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Cubic> {
        let slow_start = self.slow_start.unwrap_or(match setup.rules {
            Rules::Linux2620 => SlowStart::Standard,
            Rules::Linux6 => SlowStart::Hystart,
            Rules::Inflated | Rules::Rfc => SlowStart::HystartPlusPlus,
        });
        Windowed::new(setup, slow_start, |window| {
            if setup.rules == Rules::Linux2620 {
                // Linux 2.6.20: initial_ssthresh.
                window.ssthresh = 100;
            }
            Cubic::new(self, setup.rules)
        })
    }
}

/// Linux: `BICTCP_BETA_SCALE`, and 2^`BICTCP_HZ` for the units of time.
const SCALE: u64 = 1 << 10;
/// Linux: HZ / 32, in ms.
const UPDATE_MS: u64 = 1_000 / 32;
/// Linux 2.6.20: `max_increment`, segments per 100 ms.
const MAX_INCREMENT: u64 = 16;

/// CUBIC.
#[derive(Debug)]
pub struct Cubic {
    rules: Rules,
    c: f64,
    beta: f64,
    fast_convergence: bool,
    tcp_friendliness: bool,
    /// Linux: `bic_scale`, C in 1/1024 of a segment per (100 ms x s^2).
    bic_scale: u64,
    /// Linux: beta in 1/1024.
    beta_1024: u64,
    /// The last maximum in segments, 0 if there is none (Linux: `last_max_cwnd`, RFC: `W_max`).
    last_max: f64,
    /// Linux 2.6.20: whether there was a loss since the beginning or the last timeout (`loss_cwnd`).
    had_loss: bool,
    /// The start of this epoch; `None` after a loss.
    epoch: Option<Time>,
    /// The time of the last computation of the window, and its result.
    last_update: (Time, u32),
    /// K: the time from the epoch's beginning to the origin, in 1/1024 s.
    k_1024: u64,
    /// K in seconds.
    k: f64,
    origin: f64,
    /// Segments acknowledged for Reno's estimate.
    acked: u64,
    /// Reno's window (Linux: `tcp_cwnd`, RFC: `W_est`).
    reno: f64,
    /// The window grows by one segment for this many acknowledged ones.
    per: u32,
    /// RFC: the part of the window below one segment.
    fraction: f64,
    /// The smallest delay in us; 0 if there is none.
    delay_min: u32,
    ratio: AckRatio,
}

impl Cubic {
    fn new(config: &Config, rules: Rules) -> Self {
        let beta = config.beta.unwrap_or(if rules == Rules::Linux2620 { 819.0 / 1024.0 } else { 0.7 });
        Self {
            rules,
            c: config.c,
            beta,
            fast_convergence: config.fast_convergence,
            tcp_friendliness: config.tcp_friendliness,
            bic_scale: ((config.c * 102.4).round() as u64).max(1),
            beta_1024: (beta * 1024.0).round() as u64,
            last_max: 0.0,
            had_loss: false,
            epoch: None,
            last_update: (Time::ZERO, 0),
            k_1024: 0,
            k: 0.0,
            origin: 0.0,
            acked: 0,
            reno: 0.0,
            per: 0,
            fraction: 0.0,
            delay_min: 0,
            ratio: AckRatio::default(),
        }
    }

    /// Linux: `bictcp_update`. Sets how many acknowledged segments make one more.
    fn update(&mut self, now: Time, cwnd: u32, acked: u32) {
        self.acked += u64::from(acked);
        let ms = millis(now);
        if self.last_update.1 == cwnd && ms.saturating_sub(millis(self.last_update.0)) <= UPDATE_MS {
            return;
        }
        // Linux 6 computes the cubic function at most once per jiffy.
        let fresh = self.epoch.is_some() && ms == millis(self.last_update.0);
        if self.rules == Rules::Linux2620 || !fresh {
            self.last_update = (now, cwnd);
            let begin = match self.epoch {
                Some(epoch) => epoch,
                None => self.begin_epoch(now, cwnd, acked),
            };
            self.per = self.cubic_per(ms, millis(begin), cwnd);
        }
        if self.tcp_friendliness {
            self.follow_reno(cwnd);
        }
        if self.rules == Rules::Linux2620 {
            self.per = self.ratio.scaled(self.per);
        } else {
            // At most half a segment for each acknowledged one.
            self.per = self.per.max(2);
        }
    }

    fn begin_epoch(&mut self, now: Time, cwnd: u32, acked: u32) -> Time {
        self.epoch = Some(now);
        self.acked = u64::from(acked);
        self.reno = f64::from(cwnd);
        let last_max = self.last_max as u32;
        if last_max <= cwnd {
            self.k_1024 = 0;
            self.origin = f64::from(cwnd);
        } else {
            // K = cbrt((W_max - cwnd) / C), time in 1/1024 s, C = bic_scale x 10 / 1024 per s^3.
            let cubed = ((1u64 << 40) / (self.bic_scale * 10)).saturating_mul(u64::from(last_max - cwnd));
            self.k_1024 = libm::cbrt(cubed as f64) as u64;
            self.origin = f64::from(last_max);
        }
        now
    }

    fn cubic_per(&self, now_ms: u64, epoch_ms: u64, cwnd: u32) -> u32 {
        let elapsed_ms = now_ms - epoch_ms + u64::from(self.delay_min.div_ceil(1_000));
        let t = elapsed_ms * SCALE / 1_000;
        let offset = t.abs_diff(self.k_1024);
        let scale = u128::from(self.bic_scale * 10);
        let delta = (scale * u128::from(offset) * u128::from(offset) * u128::from(offset)) >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let origin = self.origin as u32;
        let target =
            if t < self.k_1024 { origin.saturating_sub(delta) } else { origin.saturating_add(delta) };
        let per = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) };
        if self.rules == Rules::Linux2620 {
            let mut per = per;
            let delay_ms = u64::from(self.delay_min / 1_000);
            if delay_ms > 0 {
                // At most max_increment segments per 100 ms.
                let least = u64::from(cwnd) * 1_000 * 8 / (10 * MAX_INCREMENT * delay_ms);
                per = per.max(u32::try_from(least).unwrap_or(u32::MAX));
            }
            return if self.had_loss { per } else { 50 };
        }
        // Without a maximum to aim at, the window grows by at least 5 % per round.
        if self.last_max == 0.0 { per.min(20) } else { per }
    }

    /// Keeps the window at least as large as that of Reno with the same decrease (RFC 9438 section 4.3).
    fn follow_reno(&mut self, cwnd: u32) {
        let scale = 8 * (1024 + self.beta_1024) / 3 / (1024 - self.beta_1024);
        let per_segment = ((u64::from(cwnd) * scale) >> 3).max(1);
        if self.acked > per_segment {
            let growth = (self.acked - 1) / per_segment;
            self.acked -= growth * per_segment;
            self.reno += growth as f64;
        }
        let reno = self.reno as u32;
        if reno > cwnd {
            self.per = self.per.min(cwnd / (reno - cwnd));
        }
    }

    /// Grows the window by RFC 9438 sections 4.2 to 4.5 for `acked` segments.
    fn grow_by_rfc(&mut self, window: &mut Window, event: &AckEvent, acked: u32) {
        let cwnd = f64::from(window.cwnd) + self.fraction;
        let epoch = *self.epoch.get_or_insert_with(|| {
            // Section 4.2: K from the window at the epoch's beginning; section 4.8: without a maximum the
            // curve begins here.
            self.origin = self.last_max.max(cwnd);
            self.k = libm::cbrt((self.origin - cwnd) / self.c);
            self.reno = cwnd;
            event.now
        });
        let rtt = event.rtt.or(event.min_rtt).map_or(0.0, Duration::as_secs_f64);
        let t = event.now.saturating_since(epoch).as_secs_f64();
        let cubic = |t: f64| {
            let offset = t - self.k;
            self.c * offset * offset * offset + self.origin
        };
        let acked = f64::from(acked);
        // Section 4.3; alpha is 1 once the last maximum is reached.
        let alpha = if self.reno < self.last_max { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) } else { 1.0 };
        self.reno += alpha * acked / cwnd;
        let grown = if self.tcp_friendliness && cubic(t) < self.reno {
            cwnd.max(self.reno)
        } else {
            let target = cubic(t + rtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * acked / cwnd
        };
        let whole = grown.floor();
        window.set(whole as u32);
        self.fraction = if window.cwnd == whole as u32 { grown - whole } else { 0.0 };
    }
}

/// Milliseconds since the start of the run: Linux's jiffies with HZ = 1000.
fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

impl Algorithm for Cubic {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        if self.rules == Rules::Linux2620 {
            self.ratio.on_ack(window, event);
        }
        // Linux: delays right after fast recovery are discarded.
        let recent = |epoch: Time| event.now.saturating_since(epoch) < Duration::from_secs(1);
        if let Some(rtt) = event.rtt
            && !self.epoch.is_some_and(recent)
        {
            let delay = micros(rtt).max(1);
            if self.delay_min == 0 || delay < self.delay_min {
                self.delay_min = delay;
            }
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        let Some(acked) = window.beyond_slow_start(event) else { return };
        if self.rules == Rules::Rfc {
            self.grow_by_rfc(window, event, acked);
        } else {
            self.update(event.now, window.cwnd, acked);
            window.add_one_per(self.per, acked);
        }
    }

    fn threshold(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        self.epoch = None;
        self.had_loss = true;
        if self.rules == Rules::Rfc {
            // Sections 4.6 and 4.7.
            let cwnd = f64::from(window.cwnd) + self.fraction;
            self.fraction = 0.0;
            let shrinks = self.fast_convergence && cwnd < self.last_max;
            self.last_max = if shrinks { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
            return ((cwnd * self.beta) as u32).max(2);
        }
        let cwnd = u64::from(window.cwnd);
        let shrinks = self.fast_convergence && window.cwnd < self.last_max as u32;
        let max = if shrinks { cwnd * (SCALE + self.beta_1024) / (2 * SCALE) } else { cwnd };
        self.last_max = max as f64;
        ((cwnd * self.beta_1024 / SCALE) as u32).max(2)
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            // Linux: bictcp_reset; RFC 9438 section 4.8: the curve begins anew after the slow start.
            self.last_max = 0.0;
            self.had_loss = false;
            self.epoch = None;
            self.last_update = (Time::ZERO, 0);
            self.per = 0;
            self.fraction = 0.0;
            self.delay_min = 0;
            self.ratio = AckRatio::default();
        }
    }

    fn on_start(&mut self, _window: &Window, now: Time, idle: Duration) {
        // The curve does not advance while nothing is sent (Linux 6: cubictcp_cwnd_event).
        if self.rules != Rules::Linux2620
            && let Some(epoch) = &mut self.epoch
        {
            *epoch = (*epoch + idle).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
    use super::super::{CongestionControl as _, CongestionKind, Controller};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// After a loss at a window of `initial` segments.
    fn after_loss(config: Config, rules: Rules, initial: u32) -> (Controller, Rounds) {
        let mut control = build(config, rules, initial);
        let mut rounds = Rounds::new(RTT);
        rounds.ack(&mut control, 0, RTT);
        lose(&mut control, rounds.now);
        (control, rounds)
    }

    /// RFC 9438 section 4.2: W(t) = C (t - K)^3 + `W_max`, first concave, then convex.
    #[test]
    fn the_window_follows_the_cubic_function() {
        for rules in [Rules::Linux6, Rules::Rfc] {
            let config = Config { tcp_friendliness: false, ..Config::default() };
            let (mut control, mut rounds) = after_loss(config, rules, 400);
            let begin = f64::from(cwnd(&control));
            assert_eq!(begin, 280.0);
            let start = rounds.now;
            let k = libm::cbrt((400.0 - begin) / 0.4);
            let end = start + Duration::from_secs(14);
            while rounds.now < end {
                rounds.round(&mut control);
                let t = rounds.now.saturating_since(start).as_secs_f64() - k;
                let expected = 0.4 * t * t * t + 400.0;
                let window = f64::from(cwnd(&control));
                assert!((window / expected - 1.0).abs() < 0.02, "{window} for {expected}, {rules:?}");
            }
            assert!(cwnd(&control) > 520, "beyond the last maximum");
        }
    }

    /// RFC 9438 section 5.1: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4).
    #[test]
    fn the_mean_window_follows_the_response_function() {
        for rules in [Rules::Linux6, Rules::Rfc] {
            let path = Path { loses: |n| n % 10_000 == 9_999, ..Path::new(1e6, RTT, usize::MAX) };
            // The formula leaves out fast convergence, and the mean is approached slowly.
            let config = Config { fast_convergence: false, ..Config::default() };
            let mut control = build(config, rules, 200);
            lose(&mut control, Time::ZERO);
            let mut sender = Sender::new(control, path);
            sender.run(Duration::from_secs(400));
            let window = sender.goodput_after(Duration::from_secs(100)) * RTT.as_secs_f64();
            let law = libm::pow(0.4 * 3.7 / (4.0 * 0.3), 0.25) * libm::pow(0.1 * 10_000.0, 0.75);
            assert!((window / law - 1.0).abs() < 0.06, "{window} instead of {law}, {rules:?}");
        }
    }

    /// RFC 9438 section 4.3: where Reno's window would be larger, CUBIC has Reno's.
    #[test]
    fn a_short_path_is_shared_as_reno_shares_it() {
        let rtt = Duration::from_millis(10);
        for rules in [Rules::Linux6, Rules::Rfc] {
            let path = Path { loses: |n| n % 1_000 == 999, ..Path::new(1e6, rtt, usize::MAX) };
            let mut sender = Sender::new(build(Config::default(), rules, 10), path);
            sender.run(Duration::from_secs(60));
            let window = sender.goodput_after(Duration::from_secs(10)) * rtt.as_secs_f64();
            let law = libm::sqrt(1.5 * 1_000.0);
            assert!((window / law - 1.0).abs() < 0.12, "{window} instead of {law}, {rules:?}");
        }
    }

    #[test]
    fn decrease_and_fast_convergence() {
        for (rules, first, second) in
            [(Rules::Linux6, 700, 490), (Rules::Rfc, 700, 490), (Rules::Linux2620, 799, 639)]
        {
            let mut control = build(Config::default(), rules, 1_000);
            lose(&mut control, Time::from_secs(1));
            assert_eq!(cwnd(&control), first, "{rules:?}");
            lose(&mut control, Time::from_secs(2));
            assert!(cwnd(&control).abs_diff(second) <= 1, "{rules:?}");
        }
        // The second loss is below the first maximum of 1000: the maximum is then 700 x 1.7 / 2 = 595.
        let config = Config { tcp_friendliness: false, ..Config::default() };
        for (fast_convergence, max) in [(true, 595.0), (false, 700.0)] {
            let (mut control, mut rounds) =
                after_loss(Config { fast_convergence, ..config }, Rules::Linux6, 1_000);
            lose(&mut control, rounds.now);
            // The window is flat at the maximum, K after the loss.
            let k = libm::cbrt((max - 490.0) / 0.4);
            let end = rounds.now + Duration::from_secs_f64(k);
            while rounds.now < end {
                rounds.round(&mut control);
            }
            assert!((f64::from(cwnd(&control)) - max).abs() < 3.0, "{} for {max}", cwnd(&control));
        }
    }

    #[test]
    fn the_first_version_starts_with_a_threshold_and_limits_its_growth() {
        let mut control = build(Config::default(), Rules::Linux2620, 10);
        assert_eq!(ssthresh(&control), 100);
        let mut rounds = Rounds::new(RTT);
        for _ in 0..4 {
            rounds.round(&mut control);
        }
        // Slow start goes up to the threshold; then the window grows by one per 50 x 16 / 31 + 1 = 26.
        assert_eq!(cwnd(&control), 103);
        // Far below the maximum, the window grows by at most 16 segments per 100 ms.
        let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux2620, 20_000);
        for _ in 0..30 {
            let before = cwnd(&control);
            rounds.round(&mut control);
            assert!(cwnd(&control) - before <= 34, "{}", cwnd(&control) - before);
        }
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux6, 1_000);
        control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, 490));
        while cwnd(&control) < 490 {
            rounds.round(&mut control);
        }
        let begin = cwnd(&control);
        rounds.round(&mut control);
        // Without a maximum to aim at, the window grows by one per 20.
        assert!(cwnd(&control) >= begin + begin / 21, "{} after {begin}", cwnd(&control));
    }

    #[test]
    fn the_curve_stands_still_while_nothing_is_sent() {
        let growth = |idle: bool| {
            let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux6, 1_000);
            rounds.round(&mut control);
            let event = |now| super::super::SentEvent::new(now, 1_000, 1_000);
            control.on_sent(&event(rounds.now));
            if idle {
                rounds.now += Duration::from_secs(30);
            }
            control.on_sent(&event(rounds.now));
            let begin = cwnd(&control);
            for _ in 0..5 {
                rounds.round(&mut control);
            }
            cwnd(&control) - begin
        };
        assert_eq!(growth(true), growth(false));
    }

    #[test]
    fn impossible_settings_are_one_sentence() {
        let message = Config { beta: Some(1.5), ..Config::default() }.check().unwrap_err();
        assert_eq!(message, "beta = 1.5 is out of range; it must be from 0.1 to 0.95");
    }
}
