//! BBR, version 3: as version 1, but bounded by what losses say, and slower to probe.
//!
//! draft-ietf-ccwg-bbr and the reference implementation for Linux (github.com/google/bbr, branch v3,
//! `tcp_bbr.c`), whose functions the comments name; under all rules.
//!
//! The model has a longer-term bound, `inflight_hi`, that probing raises and heavy loss lowers, and
//! shorter-term ones, `bw_lo` and `inflight_lo`, that follow losses until the next probe.
//!
//! Known deviations: floating-point bandwidths and gains; no answer to ECN marks (the reference answers
//! them only on routes that are configured for it); no path change by flow labels; losses are judged by
//! the sample of the acknowledgement that shows them, not packet by packet; a delayed acknowledgement may
//! renew the smallest round-trip time; a repaired tail loss counts as any loss. Random waits are drawn
//! from the setup's seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bbr_model::{
    Aggregation, MIN_WINDOW, OwnLimit, Pacing, Recovery, RecoveryState, bandwidth, segments_up,
};
use super::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, RateSample, RecoveryEndEvent,
    RttEvent, SendLimits, SentEvent, Setup, UndoEvent, check_range,
};
use crate::rng::{BlockRng, Draw as _};
use crate::time::{Duration, Time};

/// Settings of BBR, version 3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Bbr3Config")]
pub struct Config {
    /// The share of losses that says that too much is on its way; default 0.02.
    pub loss_threshold: f64,
    /// The share that heavy losses take from the bounds; default 0.3.
    pub beta: f64,
    /// The share of the longer-term bound that is left to others while cruising; default 0.15.
    pub headroom: f64,
    /// The smallest round-trip time is measured anew after so long; default 5 s.
    pub probe_rtt_interval: Duration,
    /// How long the window is held down for that; default 200 ms.
    pub probe_rtt_duration: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            loss_threshold: 0.02,
            beta: 0.3,
            headroom: 0.15,
            probe_rtt_interval: Duration::from_secs(5),
            probe_rtt_duration: Duration::from_millis(200),
        }
    }
}

impl Config {
    /// Whether the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("loss_threshold", self.loss_threshold, 0.001, 0.5)?;
        check_range("beta", self.beta, 0.01, 0.9)?;
        check_range("headroom", self.headroom, 0.0, 0.9)?;
        if self.probe_rtt_interval < Duration::from_millis(100) {
            return Err(format!(
                "probe_rtt_interval = {} is too short; it must be at least 100 ms",
                self.probe_rtt_interval
            ));
        }
        Ok(())
    }

    pub(super) fn build(&self, setup: &Setup) -> Bbr3 {
        Bbr3::new(self, setup)
    }
}

/// draft-ietf-ccwg-bbr section 2.4: 4 ln 2, 2, 1/2.885 and the gains of `ProbeBW`.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.35;
const UP_PACING_GAIN: f64 = 1.25;
const DOWN_PACING_GAIN: f64 = 0.91;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Rounds without growth by a quarter that say that the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Acknowledgements with losses in a round of recovery that end Startup.
const FULL_LOSSES: u32 = 6;
/// `bbr_extra_acked_win_rtts`.
const AGGREGATION_ROUNDS: u32 = 5;
/// `bbr_min_rtt_win_sec`.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Between two probes: at most 63 rounds, of them up to 1 at random, and 2 s to 3 s.
const PROBE_MAX_ROUNDS: u64 = 63;
const PROBE_RANDOM_ROUNDS: u64 = 2;
const PROBE_WAIT_MIN: Duration = Duration::from_secs(2);
const PROBE_WAIT_MAX: Duration = Duration::from_secs(3);

/// No bound.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Cruise,
    Down,
    Drain,
    ProbeRtt,
    Refill,
    Startup,
    Up,
}

/// What the acknowledgements that arrive say about probing (`bbr_ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feedback {
    None,
    Probing,
    Refilling,
    Starting,
    Stopping,
}

/// One acknowledgement's sample.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    bandwidth: f64,
    delivered: u64,
    prior_delivered: u64,
    outstanding_at_send: u64,
    lost: u64,
    newly_lost: u64,
    is_limited: bool,
    is_valid: bool,
}

/// BBR, version 3.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the reference's flags, each a fact of its own")]
pub struct Bbr3 {
    config: Config,
    mss: u64,
    draws: BlockRng,
    phase: Phase,
    cwnd: u64,
    initial_cwnd: u64,
    prior_cwnd: u64,
    ssthresh: Option<u64>,
    pacing: Pacing,
    recovery: RecoveryState,
    previous: Recovery,
    delivered: u64,
    is_round: bool,
    round_ends_at: u64,
    // The model: bandwidth of the last two cycles, and its bounds.
    bw_hi: [f64; 2],
    bw_lo: f64,
    inflight_hi: u64,
    inflight_lo: u64,
    undo: (f64, u64, u64),
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Time,
    probe_rtt_until: Option<Time>,
    probe_rtt_round: bool,
    restarts: bool,
    aggregation: Aggregation,
    own_limit: OwnLimit,
    // Is the pipe full?
    full_bandwidth: f64,
    full_rounds: u32,
    is_full_now: bool,
    was_full: bool,
    // Losses and delivery of the latest round.
    loss_round_ends_at: u64,
    is_loss_round: bool,
    loss_in_round: bool,
    losses_in_round: u32,
    bw_latest: f64,
    inflight_latest: u64,
    // The cycle of probing.
    feedback: Feedback,
    cycle_start: Time,
    probe_wait: Duration,
    rounds_since_probe: u64,
    up_rounds: u32,
    up_per: u64,
    up_acked: u64,
    samples_are_probes: bool,
    last_probe_was_too_high: bool,
    stopped_at_risk: bool,
}

impl Bbr3 {
    fn new(config: &Config, setup: &Setup) -> Self {
        let mss = u64::from(setup.mss.max(1));
        let cwnd = u64::from(setup.initial_cwnd).max(mss);
        Self {
            config: *config,
            mss,
            draws: BlockRng::new(setup.seed, 0),
            phase: Phase::Startup,
            cwnd,
            initial_cwnd: cwnd,
            prior_cwnd: 0,
            ssthresh: None,
            pacing: Pacing::new(cwnd, STARTUP_PACING_GAIN),
            recovery: RecoveryState::default(),
            previous: Recovery::None,
            delivered: 0,
            is_round: false,
            round_ends_at: 0,
            bw_hi: [0.0; 2],
            bw_lo: f64::INFINITY,
            inflight_hi: NONE,
            inflight_lo: NONE,
            undo: (0.0, 0, 0),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round: false,
            restarts: false,
            aggregation: Aggregation::default(),
            own_limit: OwnLimit::default(),
            full_bandwidth: 0.0,
            full_rounds: 0,
            is_full_now: false,
            was_full: false,
            loss_round_ends_at: 1,
            is_loss_round: false,
            loss_in_round: false,
            losses_in_round: 0,
            bw_latest: 0.0,
            inflight_latest: 0,
            feedback: Feedback::None,
            cycle_start: Time::ZERO,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_per: NONE,
            up_acked: 0,
            samples_are_probes: false,
            last_probe_was_too_high: false,
            stopped_at_risk: false,
        }
    }

    fn max_bandwidth(&self) -> f64 {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    fn bandwidth(&self) -> f64 {
        self.max_bandwidth().min(self.bw_lo)
    }

    fn floor(&self) -> u64 {
        MIN_WINDOW * self.mss
    }

    fn is_probe_bw(&self) -> bool {
        matches!(self.phase, Phase::Cruise | Phase::Down | Phase::Refill | Phase::Up)
    }

    fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Refill | Phase::Startup | Phase::Up)
    }

    /// `bbr_tso_segs_goal`: what a host sends at once, in bytes.
    fn burst(&self) -> u64 {
        let mut bytes = (self.pacing.rate / 1_024.0) as u64;
        if let Some(rtt) = self.min_rtt {
            // 64 KiB, halved for every 512 us.
            let shift = rtt.as_nanos() / 1_000 / 512;
            bytes += if shift < 32 { 65_536 >> shift } else { 0 };
        }
        (bytes.min(65_535) / self.mss).max(2) * self.mss
    }

    /// `bbr_bdp`.
    fn bdp(&self, bandwidth: f64, gain: f64) -> u64 {
        let Some(min_rtt) = self.min_rtt else { return self.initial_cwnd };
        segments_up(bandwidth * min_rtt.as_secs_f64() * gain, self.mss)
    }

    /// `bbr_quantization_budget`.
    fn quantized(&self, bytes: u64) -> u64 {
        let bytes = bytes.max(3 * self.burst()).max(self.floor());
        if self.phase == Phase::Up { bytes + 2 * self.mss } else { bytes }
    }

    /// `bbr_inflight`.
    fn inflight(&self, bandwidth: f64) -> u64 {
        self.quantized(self.bdp(bandwidth, 1.0))
    }

    /// `bbr_target_inflight`.
    fn target_inflight(&self) -> u64 {
        self.inflight(self.bandwidth()).min(self.cwnd)
    }

    /// `bbr_inflight_with_headroom`.
    fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_hi == NONE {
            return NONE;
        }
        let headroom = ((self.inflight_hi as f64 * self.config.headroom) as u64).max(self.mss);
        self.inflight_hi.saturating_sub(headroom).max(self.floor())
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bandwidth(), PROBE_RTT_CWND_GAIN).max(self.floor())
    }

    fn save_cwnd(&mut self) {
        let good = self.previous == Recovery::None && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn reset_full_bandwidth(&mut self, bandwidth: f64) {
        self.full_bandwidth = bandwidth;
        self.full_rounds = 0;
        self.is_full_now = false;
    }

    fn reset_lower_bounds(&mut self) {
        self.bw_lo = f64::INFINITY;
        self.inflight_lo = NONE;
    }

    fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    fn read(&mut self, rate: Option<&RateSample>) -> Sample {
        let Some(rate) = rate else { return Sample::default() };
        self.delivered = rate.total_delivered;
        let bandwidth = bandwidth(rate);
        Sample {
            bandwidth: bandwidth.unwrap_or(0.0),
            delivered: u64::from(rate.delivered),
            prior_delivered: rate.prior_delivered,
            outstanding_at_send: u64::from(rate.outstanding_at_send),
            lost: u64::from(rate.lost),
            newly_lost: u64::from(rate.newly_lost),
            is_limited: rate.is_app_limited || self.own_limit.covers(rate),
            is_valid: bandwidth.is_some(),
        }
    }

    /// `bbr_note_loss`, `bbr_skb_marked_lost`.
    fn on_loss(&mut self, now: Time, sample: &Sample) {
        if !self.loss_in_round {
            self.loss_round_ends_at = self.delivered;
        }
        self.loss_in_round = true;
        if self.samples_are_probes && self.is_too_high(sample) {
            let outstanding_at_send = self.inflight_at_loss(sample);
            self.on_inflight_too_high(now, &Sample { outstanding_at_send, ..*sample });
        }
    }

    /// `bbr_is_inflight_too_high`.
    fn is_too_high(&self, sample: &Sample) -> bool {
        sample.lost > 0
            && sample.outstanding_at_send > 0
            && sample.lost as f64 > sample.outstanding_at_send as f64 * self.config.loss_threshold
    }

    /// `bbr_inflight_hi_from_lost_skb`: where in the flight the losses passed the threshold.
    fn inflight_at_loss(&self, sample: &Sample) -> u64 {
        let inflight = sample.outstanding_at_send.saturating_sub(sample.newly_lost) as f64;
        let lost = sample.lost.saturating_sub(sample.newly_lost) as f64;
        let threshold = self.config.loss_threshold;
        let left = (inflight * threshold - lost).max(0.0) / (1.0 - threshold);
        (inflight + left) as u64
    }

    /// `bbr_handle_inflight_too_high`.
    fn on_inflight_too_high(&mut self, now: Time, sample: &Sample) {
        self.last_probe_was_too_high = true;
        self.samples_are_probes = false;
        if !sample.is_limited {
            let cut = self.target_inflight() as f64 * (1.0 - self.config.beta);
            self.inflight_hi = sample.outstanding_at_send.max(cut as u64);
        }
        if self.phase == Phase::Up {
            self.start_down(now);
        }
    }

    /// `bbr_update_latest_delivery_signals`, `bbr_update_congestion_signals`.
    fn update_signals(&mut self, sample: &Sample) {
        self.is_loss_round = false;
        if !sample.is_valid {
            return;
        }
        self.bw_latest = self.bw_latest.max(sample.bandwidth);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.loss_round_ends_at {
            self.loss_round_ends_at = self.delivered;
            self.is_loss_round = true;
        }
        if !sample.is_limited || sample.bandwidth >= self.max_bandwidth() {
            self.bw_hi[1] = self.bw_hi[1].max(sample.bandwidth);
        }
        if self.is_loss_round {
            self.adapt_lower_bounds();
            self.loss_in_round = false;
        }
    }

    /// `bbr_adapt_lower_bounds`.
    fn adapt_lower_bounds(&mut self) {
        if self.is_probing() || !self.loss_in_round {
            return;
        }
        if self.bw_lo.is_infinite() {
            self.bw_lo = self.max_bandwidth();
        }
        if self.inflight_lo == NONE {
            self.inflight_lo = self.cwnd;
        }
        let left = 1.0 - self.config.beta;
        self.bw_lo = self.bw_latest.max(self.bw_lo * left).max(1.0);
        self.inflight_lo = self.inflight_latest.max((self.inflight_lo as f64 * left) as u64);
    }

    /// `bbr_check_loss_too_high_in_startup`.
    fn check_startup_losses(&mut self, sample: &Sample, state: Recovery) {
        if self.was_full {
            return;
        }
        self.losses_in_round += u32::from(sample.newly_lost > 0);
        let many = self.losses_in_round >= FULL_LOSSES && self.is_too_high(sample);
        if self.is_loss_round && state == Recovery::Fast && many {
            self.was_full = true;
            self.inflight_hi = self.inflight(self.max_bandwidth()).max(self.inflight_latest);
        } else if self.is_loss_round {
            self.losses_in_round = 0;
        }
    }

    /// `bbr_check_full_bw_reached`.
    fn check_full(&mut self, sample: &Sample) {
        if self.is_full_now || sample.is_limited {
            return;
        }
        if sample.bandwidth >= self.full_bandwidth * FULL_GROWTH {
            self.reset_full_bandwidth(sample.bandwidth);
        } else if self.is_round {
            self.full_rounds += 1;
            self.is_full_now = self.full_rounds >= FULL_ROUNDS;
            self.was_full |= self.is_full_now;
        }
    }

    /// `bbr_check_drain`.
    fn check_drain(&mut self, event: &AckEvent) {
        let target = self.inflight(self.max_bandwidth());
        if self.phase == Phase::Startup && self.was_full {
            self.phase = Phase::Drain;
            self.ssthresh = Some(target);
            self.reset_congestion_signals();
        }
        if self.phase == Phase::Drain && u64::from(event.outstanding) <= target {
            self.start_down(event.now);
        }
    }

    fn start_refill(&mut self) {
        self.reset_lower_bounds();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.stopped_at_risk = false;
        self.feedback = Feedback::Refilling;
        self.round_ends_at = self.delivered;
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, now: Time, sample: &Sample) {
        self.feedback = Feedback::Starting;
        self.round_ends_at = self.delivered;
        self.cycle_start = now;
        self.reset_full_bandwidth(sample.bandwidth);
        self.phase = Phase::Up;
        self.raise_slope();
    }

    fn start_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.up_per = NONE;
        self.rounds_since_probe = self.draws.below(PROBE_RANDOM_ROUNDS);
        self.probe_wait = self.draws.duration_between(PROBE_WAIT_MIN, PROBE_WAIT_MAX);
        self.cycle_start = now;
        self.feedback = Feedback::Stopping;
        self.round_ends_at = self.delivered;
        self.phase = Phase::Down;
    }

    fn start_cruise(&mut self) {
        if self.inflight_lo != NONE {
            self.inflight_lo = self.inflight_lo.min(self.inflight_hi);
        }
        self.phase = Phase::Cruise;
    }

    /// `bbr_raise_inflight_hi_slope`: twice as much growth in every round of a probe.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per = (self.cwnd / self.mss / growth).max(1) * self.mss;
    }

    /// `bbr_adapt_upper_bounds`; whether that decided the phase.
    fn adapt_upper_bounds(&mut self, event: &AckEvent, sample: &Sample) -> bool {
        if self.is_round && self.feedback == Feedback::Starting {
            self.feedback = Feedback::Probing;
        }
        if self.is_round && self.feedback == Feedback::Stopping {
            self.samples_are_probes = false;
            self.feedback = Feedback::None;
            if self.is_probe_bw() && !sample.is_limited && self.bw_hi[1] > 0.0 {
                self.bw_hi = [self.bw_hi[1], 0.0];
            }
            if self.is_probe_bw() && self.stopped_at_risk && !self.last_probe_was_too_high {
                self.start_refill();
                return true;
            }
        }
        if self.is_too_high(sample) {
            if self.samples_are_probes {
                self.on_inflight_too_high(event.now, sample);
            }
        } else if self.inflight_hi != NONE {
            self.inflight_hi = self.inflight_hi.max(sample.outstanding_at_send);
            if self.phase == Phase::Up {
                self.probe_upward(event);
            }
        }
        false
    }

    /// `bbr_probe_inflight_hi_upward`.
    fn probe_upward(&mut self, event: &AckEvent) {
        if !event.is_window_limited || self.cwnd < self.inflight_hi {
            return;
        }
        self.up_acked += u64::from(event.newly_acked);
        if self.up_acked >= self.up_per {
            let steps = self.up_acked / self.up_per;
            self.up_acked -= steps * self.up_per;
            self.inflight_hi += steps * self.mss;
        }
        if self.is_round {
            self.raise_slope();
        }
    }

    /// `bbr_check_time_to_probe_bw`.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let rounds = (self.target_inflight() / self.mss).min(PROBE_MAX_ROUNDS);
        now > self.cycle_start + self.probe_wait || self.rounds_since_probe >= rounds
    }

    /// `bbr_update_cycle_phase`.
    fn update_cycle(&mut self, event: &AckEvent, sample: &Sample) {
        if !self.was_full || self.adapt_upper_bounds(event, sample) {
            return;
        }
        let inflight = u64::from(event.outstanding_before);
        match self.phase {
            Phase::Cruise => {
                if self.is_time_to_probe(event.now) {
                    self.start_refill();
                }
            }
            Phase::Down => {
                if self.is_time_to_probe(event.now) {
                    self.start_refill();
                } else if inflight <= self.inflight_with_headroom()
                    && inflight <= self.inflight(self.max_bandwidth())
                {
                    self.start_cruise();
                }
            }
            Phase::Refill => {
                if self.is_round {
                    self.samples_are_probes = true;
                    self.start_up(event.now, sample);
                }
            }
            Phase::Up => {
                // What is about to be sent counts too.
                let inflight = inflight + self.burst();
                let done = if self.last_probe_was_too_high && inflight >= self.inflight_hi {
                    self.stopped_at_risk = true;
                    true
                } else if event.is_window_limited && self.cwnd >= self.inflight_hi {
                    self.reset_full_bandwidth(sample.bandwidth);
                    false
                } else {
                    self.is_full_now
                };
                if done {
                    self.last_probe_was_too_high = false;
                    self.start_down(event.now);
                }
            }
            Phase::Drain | Phase::ProbeRtt | Phase::Startup => {}
        }
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, event: &AckEvent) {
        let expired = self.probe_rtt_min.is_some()
            && event.now > self.probe_rtt_min_at + self.config.probe_rtt_interval;
        if let Some(rtt) = event.rtt
            && (expired || self.probe_rtt_min.is_none_or(|least| rtt < least))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_min_at = event.now;
        }
        let is_old = event.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = self.probe_rtt_min
            && (is_old || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = self.probe_rtt_min_at;
        }
        let wanted = expired && !self.config.probe_rtt_duration.is_zero();
        if wanted && !self.restarts && self.phase != Phase::ProbeRtt {
            self.save_cwnd();
            self.phase = Phase::ProbeRtt;
            self.probe_rtt_until = None;
            self.feedback = Feedback::Stopping;
            self.round_ends_at = self.delivered;
        }
        if self.phase == Phase::ProbeRtt {
            self.own_limit.mark(self.delivered, event.outstanding);
            if self.probe_rtt_until.is_none() {
                if u64::from(event.outstanding) <= self.probe_rtt_cwnd() {
                    self.probe_rtt_until = Some(event.now + self.config.probe_rtt_duration);
                    self.probe_rtt_round = false;
                    self.round_ends_at = self.delivered;
                }
            } else {
                self.probe_rtt_round |= self.is_round;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(event.now);
                }
            }
        }
        if event.newly_acked > 0 {
            self.restarts = false;
        }
    }

    /// `bbr_check_probe_rtt_done`, `bbr_exit_probe_rtt`.
    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.probe_rtt_min_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.was_full {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.phase = Phase::Startup;
        }
    }

    /// `bbr_update_gains`: of the pace and of the window.
    fn gains(&self) -> (f64, f64) {
        match self.phase {
            Phase::Cruise | Phase::Refill => (1.0, CWND_GAIN),
            Phase::Down => (DOWN_PACING_GAIN, CWND_GAIN),
            Phase::Drain => (DRAIN_PACING_GAIN, CWND_GAIN),
            Phase::ProbeRtt => (1.0, 1.0),
            Phase::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Phase::Up => (UP_PACING_GAIN, UP_CWND_GAIN),
        }
    }

    /// `bbr_set_cwnd`, `bbr_bound_cwnd_for_inflight_model`.
    fn set_cwnd(&mut self, acked: u64, gain: f64) {
        if acked > 0 {
            let bandwidth = self.bandwidth();
            let extra = self.aggregation.window(bandwidth);
            let target = self.quantized(self.bdp(bandwidth, gain) + extra);
            if self.was_full {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || self.cwnd < 2 * self.initial_cwnd {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(self.floor());
        }
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_hi,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(),
            Phase::Drain | Phase::Startup => NONE,
        };
        self.cwnd = self.cwnd.min(bound.min(self.inflight_lo).max(self.floor()));
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, event: &AckEvent) {
        let state = self.recovery.on_ack(event);
        if self.previous == Recovery::Timeout && state != Recovery::Timeout {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        if let Some(rtt) = event.rtt {
            self.pacing.on_rtt(rtt, self.cwnd, STARTUP_PACING_GAIN);
        }
        let sample = self.read(event.rate.as_ref());
        if sample.newly_lost > 0 {
            self.on_loss(event.now, &sample);
        }
        self.is_round = sample.is_valid && sample.prior_delivered >= self.round_ends_at;
        if self.is_round {
            self.round_ends_at = self.delivered;
            self.rounds_since_probe += 1;
        }
        self.update_signals(&sample);
        if sample.is_valid {
            let rounds = if self.was_full { AGGREGATION_ROUNDS } else { 1 };
            self.aggregation.update(event, self.is_round, self.bandwidth(), self.cwnd, rounds);
        }
        self.check_startup_losses(&sample, state);
        self.check_full(&sample);
        self.check_drain(event);
        self.update_cycle(event, &sample);
        self.update_min_rtt(event);
        let (pacing_gain, cwnd_gain) = self.gains();
        self.pacing.set(self.bandwidth(), pacing_gain, self.was_full);
        self.set_cwnd(u64::from(event.newly_acked), cwnd_gain);
        if self.is_loss_round {
            self.bw_latest = sample.bandwidth;
            self.inflight_latest = sample.delivered;
        }
        self.previous = state;
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        match event.kind {
            CongestionKind::Ecn => {}
            CongestionKind::FastRetransmit | CongestionKind::Timeout => {
                self.save_cwnd();
                self.undo = (self.bw_lo, self.inflight_lo, self.inflight_hi);
            }
            CongestionKind::Restart => self.cwnd = self.mss,
        }
        if event.kind == CongestionKind::Timeout {
            if !self.loss_in_round {
                self.loss_round_ends_at = self.delivered;
            }
            self.loss_in_round = true;
            self.cwnd = u64::from(event.remaining) + self.mss;
            self.previous = Recovery::Timeout;
            self.reset_full_bandwidth(0.0);
            if !self.is_probing() && self.inflight_lo == NONE {
                self.inflight_lo = self.prior_cwnd;
            }
        }
        self.recovery.on_congestion(event);
    }

    fn limits(&self) -> SendLimits {
        let cwnd = u32::try_from(self.cwnd).unwrap_or(u32::MAX).min(1 << 30);
        SendLimits { cwnd, pacing_rate: Some(self.pacing.limit()) }
    }

    fn state(&self) -> ControlState {
        let phase = match self.phase {
            Phase::Cruise => "probe_bw_cruise",
            Phase::Down => "probe_bw_down",
            Phase::Drain => "drain",
            Phase::ProbeRtt => "probe_rtt",
            Phase::Refill => "probe_bw_refill",
            Phase::Startup => "startup",
            Phase::Up => "probe_bw_up",
        };
        let ssthresh = self.ssthresh.map_or(u32::MAX, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        ControlState { cwnd: self.limits().cwnd, ssthresh, phase }
    }

    fn on_recovery_end(&mut self, _event: &RecoveryEndEvent) {
        self.recovery.end();
    }

    fn on_undo(&mut self, _event: &UndoEvent) {
        self.recovery.end();
        self.reset_full_bandwidth(0.0);
        self.loss_in_round = false;
        let (bw_lo, inflight_lo, inflight_hi) = self.undo;
        self.bw_lo = self.bw_lo.max(bw_lo);
        self.inflight_lo = self.inflight_lo.max(inflight_lo);
        self.inflight_hi = self.inflight_hi.max(inflight_hi);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        self.pacing.on_rtt(event.rtt, self.cwnd, STARTUP_PACING_GAIN);
    }

    fn on_sent(&mut self, event: &SentEvent) {
        if event.outstanding == event.bytes && self.delivered > 0 {
            self.restarts = true;
            self.aggregation.restart(event.now);
            if self.is_probe_bw() {
                self.pacing.set(self.bandwidth(), 1.0, self.was_full);
            } else if self.phase == Phase::ProbeRtt {
                self.check_probe_rtt_done(event.now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::{Path, Sender, build};
    use super::*;

    fn sender(buffer: usize, loses: fn(u64) -> bool) -> Sender {
        let path = Path { loses, ..Path::new(1_000.0, Duration::from_millis(100), buffer) };
        Sender::new(build(Config::default(), Rules::Linux6, 10), path)
    }

    #[test]
    fn converges_to_the_bottlenecks_rate() {
        let mut sender = sender(1_000, |_| false);
        sender.run(Duration::from_secs(30));
        let skip = Duration::from_secs(5);
        assert!(sender.goodput_after(skip) > 960.0, "{}", sender.goodput_after(skip));
        let most = sender.after(skip).map(|sample| sample.outstanding).fold(0.0, f64::max);
        // 2.25 times 102 and two segments in the probing phase.
        assert!(most <= 2.25 * 102.0 + 4.0, "{most}");
        let rtt = sender.mean_after(skip, |sample| sample.rtt.as_millis_f64());
        assert!(rtt < 115.0, "{rtt}");
        assert_eq!(sender.drops, 0);
    }

    #[test]
    fn goes_through_the_phases_of_a_cycle_and_probes_the_round_trip_time_every_five_seconds() {
        let mut sender = sender(1_000, |_| false);
        sender.run(Duration::from_secs(20));
        let mut phases: Vec<&str> = sender.samples.iter().map(|sample| sample.phase).collect();
        phases.dedup();
        let begin =
            ["startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up"];
        assert_eq!(phases[..6], begin);
        let probes: Vec<Time> = sender
            .samples
            .windows(2)
            .filter(|pair| pair[0].phase != "probe_rtt" && pair[1].phase == "probe_rtt")
            .map(|pair| pair[1].at)
            .collect();
        assert!((2..=4).contains(&probes.len()), "{probes:?}");
        let low = sender.samples.iter().filter(|sample| sample.phase == "probe_rtt");
        assert!(low.map(|sample| sample.cwnd).fold(0.0, f64::max) <= 52.0, "half a bandwidth-delay product");
    }

    #[test]
    fn a_shallow_buffer_bounds_what_is_on_its_way() {
        // The path holds 100 packets and 20 in the queue.
        let mut sender = sender(20, |_| false);
        sender.run(Duration::from_secs(40));
        let skip = Duration::from_secs(20);
        let drops = sender.drops as f64 / sender.samples.len() as f64;
        assert!(drops < 0.03, "{drops}");
        assert!(sender.goodput_after(skip) > 850.0, "{}", sender.goodput_after(skip));
        let outstanding = sender.mean_after(skip, |sample| sample.outstanding);
        assert!(outstanding < 122.0, "{outstanding}");
    }

    #[test]
    fn losses_below_the_threshold_do_not_slow_it_down() {
        let mut sender = sender(1_000, |n| n % 200 == 199);
        sender.run(Duration::from_secs(30));
        assert!(sender.goodput_after(Duration::from_secs(5)) > 850.0);
    }
}
