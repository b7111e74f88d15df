//! CUBIC as Linux has it: `tcp_cubic.c` of Linux 6 and, with [`Rules::Linux2620`], the first version, that of
//! Linux 2.6.20 (S. Ha, I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", 2005): beta
//! 819/1024, growth limited to 16 segments per 100 ms, a first threshold of 100 segments, an estimate of the
//! acknowledgements' ratio, no HyStart.
//!
//! It counts in whole segments and milliseconds (HZ = 1000) as the kernel does. Time in which the application
//! limits the sender counts in the curve; only a pause without anything outstanding does not.
//!
//! Known deviations: 2.6.20 measured its delay with timestamps of 1 ms; here it is the round-trip time
//! rounded down to them.

use super::super::ack_ratio::AckRatio;
use super::super::round::micros;
use super::super::window::{Algorithm, State, Window};
use super::super::{AckEvent, CongestionEvent, Rules};
use super::Config;
use crate::time::{Duration, Time};

/// Linux: `BICTCP_BETA_SCALE`, and 2^`BICTCP_HZ` for the units of time.
const SCALE: u64 = 1 << 10;
/// Linux: HZ / 32, in ms.
const UPDATE_MS: u64 = 1_000 / 32;
/// Linux 2.6.20: `max_increment`, segments per 100 ms.
const MAX_INCREMENT: u64 = 16;

/// CUBIC as Linux has it.
#[derive(Debug)]
pub struct Linux {
    rules: Rules,
    fast_convergence: bool,
    tcp_friendliness: bool,
    /// Linux: `bic_scale`, C in 1/1024 of a segment per (100 ms x s^2).
    bic_scale: u64,
    /// Linux: beta in 1/1024.
    beta_1024: u64,
    /// The last maximum in segments, 0 if there is none (Linux: `last_max_cwnd`).
    last_max: u32,
    /// Linux 2.6.20: whether there was a loss since the beginning or the last timeout (`loss_cwnd`).
    had_loss: bool,
    /// The start of this epoch; `None` after a loss.
    epoch: Option<Time>,
    /// The time of the last computation of the window, and its result.
    last_update: (Time, u32),
    /// K: the time from the epoch's beginning to the origin, in 1/1024 s.
    k_1024: u64,
    origin: u32,
    /// Segments acknowledged for Reno's estimate.
    acked: u64,
    /// Reno's window (Linux: `tcp_cwnd`).
    reno: u64,
    /// The window grows by one segment for this many acknowledged ones.
    per: u32,
    /// The smallest delay in us; 0 if there is none.
    delay_min: u32,
    ratio: AckRatio,
}

impl Linux {
    pub(super) fn new(config: &Config, rules: Rules) -> Self {
        let beta = config.beta.unwrap_or(if rules == Rules::Linux2620 { 819.0 / 1024.0 } else { 0.7 });
        Self {
            rules,
            fast_convergence: config.fast_convergence,
            tcp_friendliness: config.tcp_friendliness,
            bic_scale: ((config.c * 102.4).round() as u64).max(1),
            beta_1024: (beta * 1024.0).round() as u64,
            last_max: 0,
            had_loss: false,
            epoch: None,
            last_update: (Time::ZERO, 0),
            k_1024: 0,
            origin: 0,
            acked: 0,
            reno: 0,
            per: 0,
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
        self.reno = u64::from(cwnd);
        if self.last_max <= cwnd {
            self.k_1024 = 0;
            self.origin = cwnd;
        } else {
            // K = cbrt((W_max - cwnd) / C), time in 1/1024 s, C = bic_scale x 10 / 1024 per s^3.
            let cubed =
                ((1u64 << 40) / (self.bic_scale * 10)).saturating_mul(u64::from(self.last_max - cwnd));
            self.k_1024 = libm::cbrt(cubed as f64) as u64;
            self.origin = self.last_max;
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
        let target = if t < self.k_1024 {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
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
        if self.last_max == 0 { per.min(20) } else { per }
    }

    /// Keeps the window at least as large as that of Reno with the same decrease (RFC 9438 section 4.3).
    fn follow_reno(&mut self, cwnd: u32) {
        let scale = 8 * (1024 + self.beta_1024) / 3 / (1024 - self.beta_1024);
        let per_segment = ((u64::from(cwnd) * scale) >> 3).max(1);
        if self.acked > per_segment {
            let growth = (self.acked - 1) / per_segment;
            self.acked -= growth * per_segment;
            self.reno += growth;
        }
        let reno = u32::try_from(self.reno).unwrap_or(u32::MAX);
        if reno > cwnd {
            self.per = self.per.min(cwnd / (reno - cwnd));
        }
    }
}

/// Milliseconds since the start of the run: Linux's jiffies with HZ = 1000.
fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

impl Algorithm for Linux {
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
        self.update(event.now, window.cwnd, acked);
        window.add_one_per(self.per, acked);
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        self.epoch = None;
        self.had_loss = true;
        let cwnd = u64::from(window.cwnd);
        let shrinks = self.fast_convergence && window.cwnd < self.last_max;
        let max = if shrinks { cwnd * (SCALE + self.beta_1024) / (2 * SCALE) } else { cwnd };
        self.last_max = max as u32;
        (cwnd * self.beta_1024 / SCALE) as u32
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            // Linux: bictcp_reset.
            self.last_max = 0;
            self.had_loss = false;
            self.epoch = None;
            self.last_update = (Time::ZERO, 0);
            self.per = 0;
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
