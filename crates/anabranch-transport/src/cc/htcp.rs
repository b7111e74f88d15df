//! H-TCP: grows faster the longer ago the last loss was, and shrinks by the ratio of the round-trip
//! times with an empty and with a full queue.
//!
//! R. Shorten and D. Leith, "H-TCP: TCP for high-speed and long-distance networks", 2004, as in Linux's
//! `tcp_htcp.c`, under all rules: times in ms (HZ = 1000), alpha and beta in 1/128. An acknowledgement counts
//! for as many segments as it acknowledges, where it finds nothing missing, and for one otherwise
//! (`pkts_acked`, in 2.6.18 already).
//!
//! With [`Rules::Rfc`] the time since the last loss leaves out that in which the window does not limit the
//! sender, as RFC 9438 (section 4.2) has it for CUBIC: neither the paper nor its draft speaks of such
//! senders. And all that is acknowledged counts, also where something is missing or the window grows by it.
//!
//! Known deviation: Linux 2.6.18, the nearest source at hand to 2.6.20, measured the delay by the smoothed
//! round-trip time, and its maximum from the fourth round after a loss on; here it is Linux 6's under all
//! rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::micros;
use super::slow_start::SlowStart;
use super::used_time::UsedTime;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Cumulative, Rules, Setup};
use crate::time::{Duration, Time};

/// Settings of H-TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HtcpConfig")]
pub struct Config {
    /// Whether growth per second, not per round, is independent of the round-trip time; default true.
    pub rtt_scaling: bool,
    /// Whether the window is halved when the achieved throughput changes by more than a fifth; default true.
    pub bandwidth_switch: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { rtt_scaling: true, bandwidth_switch: true }
    }
}

impl Config {
    /// Checks that the settings are possible, which they always are.
    ///
    /// # Errors
    /// None.
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn build(self, setup: &Setup) -> Windowed<Htcp> {
        Windowed::new(setup, SlowStart::Standard, |_| Htcp {
            config: self,
            alpha: SCALE,
            beta: BETA_MIN,
            adapts: false,
            min_rtt: 0,
            max_rtt: 0,
            last_loss: None,
            used: UsedTime::default(),
            undo: None,
            acked: 1,
            packets: 0,
            since: None,
            throughput: 0,
            most: 0,
            old_most: 0,
        })
    }
}

/// 1 for alpha and beta (Linux: `ALPHA_BASE`); `BETA_MIN` 0.5 and `BETA_MAX` 0.8.
const SCALE: u64 = 128;
const BETA_MIN: u64 = 64;
const BETA_MAX: u64 = 102;
/// A second in the kernel's units of time (HZ).
const SECOND: u64 = 1_000;

/// H-TCP.
#[derive(Debug)]
pub struct Htcp {
    config: Config,
    /// Growth in segments per round, in 1/128.
    alpha: u64,
    /// The factor of a reduction, in 1/128.
    beta: u64,
    /// Whether beta may follow the delays, which it does after the first loss with a steady throughput.
    adapts: bool,
    /// The smallest round-trip time in ms; 0 if there is none.
    min_rtt: u64,
    max_rtt: u64,
    /// The end of the last recovery.
    last_loss: Option<Time>,
    used: UsedTime,
    /// While a loss is being recovered from: `last_loss`, `max_rtt` and `old_most` as they were before it.
    undo: Option<(Option<Time>, u64, u64)>,
    /// What the next acknowledgement counts for in congestion avoidance, in segments (Linux: `pkts_acked`).
    acked: u32,
    /// Segments acknowledged since.
    packets: u64,
    since: Option<u64>,
    /// Segments per second: smoothed, the most since the last loss, and the most before it.
    throughput: u64,
    most: u64,
    old_most: u64,
}

fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

impl Htcp {
    fn since_loss(&mut self, now: Time) -> u64 {
        millis(now) - millis(*self.last_loss.get_or_insert(now))
    }

    /// Leaves out this much of the time since the last loss.
    fn skip(&mut self, now: Time, unused: Duration) {
        self.last_loss = self.last_loss.map(|last| (last + unused).min(now));
    }

    /// Linux: `measure_rtt`.
    fn measure_delay(&mut self, rtt: u64, is_open: bool) {
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        if is_open {
            self.max_rtt = self.max_rtt.max(self.min_rtt);
            // A single outlier does not count.
            if self.max_rtt < rtt && rtt <= self.max_rtt + 20 {
                self.max_rtt = rtt;
            }
        }
    }

    /// Linux: `measure_achieved_throughput`.
    fn measure_throughput(&mut self, cwnd: u32, time: Time, found: Cumulative) {
        let now = millis(time);
        if found.was_in_recovery {
            self.packets = 0;
            self.since = Some(now);
            return;
        }
        self.packets += u64::from(found.segments);
        let elapsed = now - *self.since.get_or_insert(now);
        let a_window = u64::from(cwnd).saturating_sub((self.alpha / SCALE).max(1));
        if self.packets >= a_window && self.min_rtt > 0 && elapsed >= self.min_rtt {
            let sample = self.packets * SECOND / elapsed;
            if self.since_loss(time) / self.min_rtt <= 3 {
                // This is just after a loss.
                self.throughput = sample;
                self.most = sample;
            } else {
                self.throughput = (3 * self.throughput + sample) / 4;
                self.most = self.most.max(self.throughput);
            }
            self.packets = 0;
            self.since = Some(now);
        }
    }

    /// Linux: `htcp_beta_update`.
    fn update_beta(&mut self) {
        if self.config.bandwidth_switch {
            let old = std::mem::replace(&mut self.old_most, self.most);
            if !(4 * old..=6 * old).contains(&(5 * self.most)) {
                self.beta = BETA_MIN;
                self.adapts = false;
                return;
            }
        }
        if self.adapts && self.min_rtt > 10 && self.max_rtt > 0 {
            self.beta = (self.min_rtt * SCALE / self.max_rtt).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.adapts = true;
        }
    }

    /// Linux: `htcp_alpha_update`: 1 in the first second, then 1 + 10 t + (t / 2)^2.
    fn update_alpha(&mut self, now: Time) {
        let mut factor = 1;
        let elapsed = self.since_loss(now);
        if elapsed > SECOND {
            let t = elapsed - SECOND;
            factor = 1 + (10 * t + (t / 2) * (t / 2) / SECOND) / SECOND;
        }
        if self.config.rtt_scaling && self.min_rtt > 0 {
            // The ratio of 100 ms to the round-trip time, from 0.5 to 10, in 1/8.
            let scale = (SECOND * 8 / (10 * self.min_rtt)).clamp(4, 80);
            factor = (factor * 8 / scale).max(1);
        }
        self.alpha = 2 * factor * (SCALE - self.beta);
    }
}

impl Algorithm for Htcp {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        if window.rules == Rules::Rfc {
            let unused = self.used.unused_at_ack(event);
            self.skip(event.now, unused);
        }
        let found = window.found_by(event);
        if found.was_open && (found.segments > 0 || window.rules != Rules::Linux2620) {
            self.acked = found.segments;
        }
        if let Some(rtt) = event.rtt {
            self.measure_delay(u64::from(micros(rtt).div_ceil(1_000)).max(1), found.was_open);
        }
        if self.config.bandwidth_switch {
            self.measure_throughput(window.cwnd, event.now, found);
        }
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if !event.is_window_limited {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(event);
            return;
        }
        let acked = std::mem::replace(&mut self.acked, 1);
        let is_rfc = window.rules == Rules::Rfc;
        if is_rfc {
            window.count = window.count.saturating_add(event.newly_acked.div_ceil(window.mss));
        }
        let cwnd = u64::from(window.cwnd);
        let growth = u64::from(window.count) * self.alpha / SCALE / cwnd;
        if growth > 0 {
            // In Linux by one, and neither what is left counts nor what this acknowledgement acknowledges.
            let (growth, used) =
                if is_rfc { (growth, (growth * cwnd * SCALE).div_ceil(self.alpha)) } else { (1, u64::MAX) };
            window.set(window.cwnd.saturating_add(growth as u32));
            window.count = u64::from(window.count).saturating_sub(used) as u32;
            self.update_alpha(event.now);
        } else if !is_rfc {
            window.count = window.count.saturating_add(acked);
        }
    }

    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32 {
        // Linux: htcp_param_update.
        let before = (self.last_loss, self.max_rtt, self.old_most);
        self.update_beta();
        self.update_alpha(event.now);
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * 95 / 100;
        }
        self.undo = Some(before);
        (u64::from(window.cwnd) * self.beta / SCALE) as u32
    }

    fn on_state(&mut self, _window: &mut Window, state: State, now: Time) {
        match state {
            State::Loss | State::Reducing => {
                // Linux: htcp_reset.
                self.last_loss = Some(now);
            }
            State::Open => {
                if self.undo.take().is_some() {
                    self.last_loss = Some(now);
                }
            }
        }
    }

    fn on_undo(&mut self, _window: &mut Window) {
        if let Some((last_loss, max_rtt, old_most)) = self.undo.take() {
            self.last_loss = last_loss;
            self.max_rtt = max_rtt;
            self.old_most = old_most;
        }
    }

    fn on_start(&mut self, window: &Window, now: Time, _idle: Duration) {
        if window.rules == Rules::Rfc {
            let unused = self.used.unused_at(now);
            self.skip(now, unused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rounds, build, cwnd, lose};
    use super::super::{CongestionControl as _, Controller, Rules};
    use super::*;
    use crate::time::Duration;

    fn after_loss(config: Config, rtt: Duration) -> (Controller, Rounds) {
        let mut control = build(config, Rules::Linux6, 400);
        let mut rounds = Rounds::new(rtt);
        rounds.ack(&mut control, 0, rtt);
        lose(&mut control, rounds.now);
        (control, rounds)
    }

    /// The paper's section 2: alpha = 2 (1 - beta) (1 + 10 (t - 1) + ((t - 1) / 2)^2) after the first
    /// second, here with beta = 1/2.
    #[test]
    fn grows_faster_the_longer_the_loss_is_ago() {
        let rtt = Duration::from_millis(100);
        let (mut control, mut rounds) = after_loss(Config { rtt_scaling: false, ..Config::default() }, rtt);
        let begin = rounds.now;
        assert_eq!(cwnd(&control), 200);
        for _ in 0..60 {
            let before = cwnd(&control);
            let t = rounds.now.saturating_since(begin).as_secs_f64() + rtt.as_secs_f64() / 2.0;
            rounds.round(&mut control);
            let growth = f64::from(cwnd(&control) - before);
            let alpha = if t < 1.0 { 1.0 } else { 1.0 + 10.0 * (t - 1.0) + (t - 1.0) * (t - 1.0) / 4.0 };
            // A step waits until the count passes the window, and not until it reaches it.
            assert!(growth <= alpha + 1.0 && growth >= 0.75 * alpha - 1.0, "{growth} for {alpha} at {t}");
        }
    }

    #[test]
    fn growth_per_round_follows_the_round_trip_time() {
        let mut growth = [0; 2];
        for (growth, ms) in growth.iter_mut().zip([50, 200]) {
            let (mut control, mut rounds) = after_loss(Config::default(), Duration::from_millis(ms));
            let end = rounds.now + Duration::from_secs(4);
            let begin = cwnd(&control);
            while rounds.now < end {
                rounds.round(&mut control);
            }
            *growth = cwnd(&control) - begin;
        }
        // There are four times as many rounds, each with a quarter of the growth.
        assert!(growth[0].abs_diff(growth[1]) * 4 < growth[1], "{growth:?}");
    }

    /// Linux: `pkts_acked`.
    #[test]
    fn delayed_acknowledgements_do_not_slow_the_growth_down() {
        let run = |is_delayed: bool| {
            let mut control = build(Config::default(), Rules::Rfc, 100);
            let mut rounds = Rounds::new(Duration::from_millis(100));
            lose(&mut control, rounds.now);
            for _ in 0..40 {
                if is_delayed {
                    rounds.delayed(&mut control, 1);
                } else {
                    rounds.round(&mut control);
                }
            }
            cwnd(&control)
        };
        let (plain, delayed) = (run(false), run(true));
        // From 50 segments; an acknowledgement adds one segment at most.
        assert!(plain > 200 && delayed - 50 > (plain - 50) * 8 / 10, "{plain} {delayed}");
    }

    /// Linux, 2.6.20 too: `pkts_acked`, which only an acknowledgement that finds nothing missing sets.
    #[test]
    fn in_linux_an_acknowledgement_counts_for_its_segments() {
        for rules in [Rules::Linux2620, Rules::Linux6] {
            // The acknowledgements that take the window from 51 to 60 segments.
            let needed = |segments: u32, was_open: bool| {
                let mut control = build(Config::default(), rules, 102);
                let now = Time::from_secs(1);
                lose(&mut control, now);
                let cumulative = Some(Cumulative { segments, was_open, was_in_recovery: false });
                let event = AckEvent { cumulative, ..AckEvent::new(now, segments * 1_000, 51_000) };
                let acks = (1..2_000).find(|_| {
                    control.on_ack(&event);
                    cwnd(&control) == 60
                });
                acks.expect("the window grows")
            };
            let one: u32 = needed(1, true);
            assert!(needed(2, true).abs_diff(one / 2) < one / 20, "{rules:?}: {one}");
            assert_eq!(needed(2, false), one, "{rules:?}");
        }
    }

    #[test]
    fn shrinks_by_the_ratio_of_the_delays() {
        let config = Config { bandwidth_switch: false, ..Config::default() };
        let mut control = build(config, Rules::Linux6, 400);
        let mut rounds = Rounds::new(Duration::from_millis(70));
        for ms in [70, 80, 90, 100] {
            rounds.ack(&mut control, 0, Duration::from_millis(ms));
        }
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 200, "the first loss halves");
        rounds.ack(&mut control, 0, Duration::from_millis(100));
        lose(&mut control, rounds.now);
        // 70 / 100, 89/128.
        assert_eq!(cwnd(&control), 200 * 89 / 128);
    }

    /// Linux: `measure_rtt` looks at the state `TCP_CA_Open` that the acknowledgement finds.
    #[test]
    fn a_delay_counts_where_nothing_was_missing_before_it() {
        for (was_open, left) in [(true, 89), (false, BETA_MAX)] {
            let config = Config { bandwidth_switch: false, ..Config::default() };
            let mut control = build(config, Rules::Linux6, 400);
            let mut rounds = Rounds::new(Duration::from_millis(70));
            rounds.ack(&mut control, 0, Duration::from_millis(70));
            lose(&mut control, rounds.now);
            rounds.ack(&mut control, 0, Duration::from_millis(70));
            for ms in [80, 90, 100] {
                let cumulative = Some(Cumulative { segments: 0, was_open, was_in_recovery: false });
                let rtt = Some(Duration::from_millis(ms));
                control.on_ack(&AckEvent { cumulative, rtt, ..AckEvent::new(rounds.now, 0, 0) });
            }
            lose(&mut control, rounds.now);
            assert_eq!(u64::from(cwnd(&control)), 200 * left / SCALE, "{was_open}");
        }
    }
}
