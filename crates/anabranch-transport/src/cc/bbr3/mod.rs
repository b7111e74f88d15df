//! BBR, version 3: as version 1, but bounded by what losses say, and slower to probe.
//!
//! draft-ietf-ccwg-bbr and the reference implementation for Linux (github.com/google/bbr, branch v3,
//! `tcp_bbr.c`), whose functions the comments name; under all rules.
//!
//! The model has a longer-term bound, `inflight_hi`, that probing raises and heavy loss lowers, and
//! shorter-term ones, `bw_lo` and `inflight_lo`, that follow losses until the next probe.
//!
//! Known deviations: floating-point bandwidths and gains; no answer to ECN marks (the reference answers
//! them only on routes that are configured for it); no path change by flow labels; a delayed acknowledgement
//! may renew the smallest round-trip time; a tail loss that a probe repaired is not noticed. Random waits are
//! drawn from the setup's seed.

mod cycle;
mod signals;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bbr_model::{
    Aggregation, MIN_WINDOW, OwnLimit, Pacing, Recovery, RecoveryState, interface_bytes, segments_up,
};
use super::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, LostEvent, RecoveryEndEvent,
    RttEvent, SendLimits, SentEvent, Setup, UndoEvent, check_range,
};
use crate::rng::BlockRng;
use crate::time::{Duration, Time};

/// Settings of BBR, version 3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Bbr3Config")]
pub struct Config {
    /// The share of losses that shows that too much is on its way; default 0.02.
    pub loss_threshold: f64,
    /// The share that heavy losses take off the bounds; default 0.3.
    pub beta: f64,
    /// The share of the longer-term bound that is left to others while cruising; default 0.15.
    pub headroom: f64,
    /// How long the smallest round-trip time is kept before it is measured anew; default 5 s.
    pub probe_rtt_interval: Duration,
    /// How long the window is held down to measure the round-trip time; default 200 ms.
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
    /// Checks that the settings are possible.
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
/// Growth by less than a quarter for this many rounds shows that the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// This many acknowledgements with losses in a round of recovery end Startup.
const FULL_LOSSES: u32 = 6;
/// `bbr_extra_acked_win_rtts`.
const AGGREGATION_ROUNDS: u32 = 5;
/// `bbr_min_rtt_win_sec`.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The time between two probes: at most 63 rounds, of which up to 1 is random, and 2 s to 3 s.
const PROBE_MAX_ROUNDS: u64 = 63;
const PROBE_RANDOM_ROUNDS: u64 = 2;
const PROBE_WAIT_MIN: Duration = Duration::from_secs(2);
const PROBE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Stands for "no bound".
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

/// What the arriving acknowledgements say about probing (`bbr_ack_phase`).
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
    pacing_gain: f64,
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
    // Whether the pipe is full.
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
            pacing_gain: STARTUP_PACING_GAIN,
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
            // 64 KiB, halved for every 512 us of the round-trip time.
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
        self.delivered += u64::from(event.newly_acked);
        let sample = self.read(event);
        self.is_round = sample.is_valid && sample.prior_delivered >= self.round_ends_at;
        if self.is_round {
            self.round_ends_at = self.delivered;
            self.rounds_since_probe += 1;
        }
        self.update_signals(&sample);
        if sample.is_valid {
            let rounds = if self.was_full { AGGREGATION_ROUNDS } else { 1 };
            self.aggregation.update(event, self.is_round, self.bandwidth(), (self.cwnd, self.mss), rounds);
        }
        self.check_startup_losses(&sample, state);
        self.check_full(&sample);
        self.check_drain(event);
        self.update_cycle(event, &sample);
        self.update_min_rtt(event);
        let (pacing_gain, cwnd_gain) = self.gains();
        self.pacing_gain = pacing_gain;
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
        self.pacing.limits(self.cwnd)
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
        ControlState { cwnd: self.limits().cwnd, ssthresh: interface_bytes(self.ssthresh), phase }
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

    fn on_lost(&mut self, event: &LostEvent) {
        self.record_loss(event);
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        // `bbr_init`: the handshake's round-trip time is the first smallest one.
        if self.probe_rtt_min.is_none() {
            (self.probe_rtt_min, self.probe_rtt_min_at) = (Some(event.rtt), event.now);
            (self.min_rtt, self.min_rtt_at) = (Some(event.rtt), event.now);
        }
        self.pacing.on_rtt(event.rtt, self.cwnd, STARTUP_PACING_GAIN);
    }

    fn on_sent(&mut self, event: &SentEvent) {
        if event.outstanding == event.bytes && event.is_app_limited && self.delivered > 0 {
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
mod tests;
