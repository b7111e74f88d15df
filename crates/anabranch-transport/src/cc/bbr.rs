//! BBR, version 1: sends at the bottleneck's rate with at most two bandwidth-delay products on their way,
//! from its own model of the path, not from losses.
//!
//! N. Cardwell et al., "BBR: congestion-based congestion control", 2016, as in Linux's `tcp_bbr.c`, under
//! all rules; the policer detection included.
//!
//! Known deviations: bandwidth and gains are floating-point numbers, not 1/2^24 and 1/256, and count bytes
//! where Linux counts packets, so that short segments are not taken for full ones. A delayed
//! acknowledgement's round-trip time may renew the smallest one. The phase of the gain cycle is drawn from
//! the setup's seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bbr_model::{
    Aggregation, MIN_WINDOW, MaxFilter, OwnLimit, Pacing, Recovery, RecoveryState, bandwidth, in_network,
    interface_bytes, segments_up,
};
use super::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, LostEvent, RateSample,
    RecoveryEndEvent, RttEvent, SendLimits, SentEvent, Setup, UndoEvent, check_range,
};
use crate::rng::{BlockRng, Draw as _};
use crate::time::{Duration, Time};

/// Settings of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "BbrConfig")]
pub struct Config {
    /// How many bandwidth-delay products may be on their way; default 2.
    pub cwnd_gain: f64,
    /// How long the smallest round-trip time is kept before it is measured anew; default 10 s.
    pub min_rtt_window: Duration,
    /// How long the window is held down to measure the round-trip time; default 200 ms.
    pub probe_rtt_duration: Duration,
    /// Whether heavy losses make it look for a policer; default true.
    pub policer_detection: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cwnd_gain: 2.0,
            min_rtt_window: Duration::from_secs(10),
            probe_rtt_duration: Duration::from_millis(200),
            policer_detection: true,
        }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("cwnd_gain", self.cwnd_gain, 1.0, 10.0)?;
        if self.min_rtt_window < Duration::from_millis(100) {
            return Err(format!(
                "min_rtt_window = {} is too short; it must be at least 100 ms",
                self.min_rtt_window
            ));
        }
        Ok(())
    }

    pub(super) fn build(&self, setup: &Setup) -> Bbr {
        Bbr::new(self, setup)
    }
}

/// Linux: `bbr_high_gain`, 2 / ln 2: the least that doubles the rate in every round.
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// Linux: `bbr_drain_gain`.
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// Linux: `bbr_pacing_gain`: probe, drain, cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Linux: `bbr_bw_rtts`: rounds for which a bandwidth is remembered.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Linux: `bbr_full_bw_thresh`, `bbr_full_bw_cnt`.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Linux: `bbr_extra_acked_win_rtts`.
const AGGREGATION_ROUNDS: u32 = 5;
/// Linux: `TCP_INIT_CWND` in segments.
const INITIAL_SEGMENTS: u64 = 10;
/// Linux: `bbr_min_tso_rate`, in bytes per second.
const MIN_TSO_RATE: f64 = 1_200_000.0 / 8.0;
/// Linux: `bbr_lt_intvl_min_rtts`, `bbr_lt_loss_thresh` (50/256), `bbr_lt_bw_ratio`, `bbr_lt_bw_diff`
/// (bytes per second), `bbr_lt_bw_max_rtts`.
const POLICER_MIN_ROUNDS: u32 = 4;
const POLICER_LOSS: f64 = 50.0 / 256.0;
const POLICER_RATIO: f64 = 0.125;
const POLICER_DIFFERENCE: f64 = 500.0;
const POLICER_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Drain,
    ProbeBw,
    ProbeRtt,
    Startup,
}

/// The policer detection's state (Linux: `lt_*`).
#[derive(Clone, Copy, Debug, Default)]
struct Policer {
    sampling: bool,
    in_use: bool,
    bandwidth: f64,
    rounds: u32,
    delivered: u64,
    lost: u64,
    since: Time,
}

/// BBR.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "Linux's flags, each a fact of its own")]
pub struct Bbr {
    config: Config,
    mss: u64,
    draws: BlockRng,
    mode: Mode,
    cwnd: u64,
    prior_cwnd: u64,
    ssthresh: Option<u64>,
    pacing: Pacing,
    pacing_gain: f64,
    cwnd_gain: f64,
    recovery: RecoveryState,
    /// The state at the last acknowledgement.
    previous: Recovery,
    /// Whether the first round of recovery sends only as much as was delivered.
    conserves: bool,
    round: u64,
    is_round: bool,
    round_ends_at: u64,
    bandwidths: MaxFilter,
    full_bandwidth: f64,
    full_rounds: u32,
    is_full: bool,
    cycle: usize,
    cycle_start: Time,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    probe_rtt_until: Option<Time>,
    probe_rtt_round: bool,
    restarts: bool,
    aggregation: Aggregation,
    own_limit: OwnLimit,
    policer: Policer,
    delivered: u64,
    lost: u64,
}

impl Bbr {
    fn new(config: &Config, setup: &Setup) -> Self {
        let mss = u64::from(setup.mss.max(1));
        let cwnd = u64::from(setup.initial_cwnd).max(mss);
        Self {
            config: *config,
            mss,
            draws: BlockRng::new(setup.seed, 0),
            mode: Mode::Startup,
            cwnd,
            prior_cwnd: 0,
            ssthresh: None,
            pacing: Pacing::new(cwnd, HIGH_GAIN),
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            recovery: RecoveryState::default(),
            previous: Recovery::None,
            conserves: false,
            round: 0,
            is_round: false,
            round_ends_at: 0,
            bandwidths: MaxFilter::default(),
            full_bandwidth: 0.0,
            full_rounds: 0,
            is_full: false,
            cycle: 0,
            cycle_start: Time::ZERO,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round: false,
            restarts: false,
            aggregation: Aggregation::default(),
            own_limit: OwnLimit::default(),
            policer: Policer::default(),
            delivered: 0,
            lost: 0,
        }
    }

    fn max_bandwidth(&self) -> f64 {
        self.bandwidths.get()
    }

    fn bandwidth(&self) -> f64 {
        if self.policer.in_use { self.policer.bandwidth } else { self.max_bandwidth() }
    }

    /// Linux: `bbr_tso_segs_goal`: what a host sends at once, in bytes.
    fn burst(&self) -> u64 {
        let least = u64::from(self.least_burst());
        let segments = (self.pacing.rate / 1_024.0).min(65_535.0) as u64 / self.mss;
        segments.clamp(least, 127) * self.mss
    }

    /// Linux: `bbr_bdp`.
    fn bdp(&self, bandwidth: f64, gain: f64) -> u64 {
        let Some(min_rtt) = self.min_rtt else { return INITIAL_SEGMENTS * self.mss };
        segments_up(bandwidth * min_rtt.as_secs_f64() * gain, self.mss)
    }

    /// Linux: `bbr_quantization_budget`.
    fn quantized(&self, bytes: u64) -> u64 {
        let segments = (bytes + 3 * self.burst()).div_ceil(self.mss);
        let mut segments = segments.next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle == 0 {
            segments += 2;
        }
        segments * self.mss
    }

    /// Linux: `bbr_inflight`.
    fn inflight(&self, bandwidth: f64, gain: f64) -> u64 {
        self.quantized(self.bdp(bandwidth, gain))
    }

    fn save_cwnd(&mut self) {
        let good = self.previous == Recovery::None && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// Linux: `bbr_update_bw`.
    fn update_bandwidth(&mut self, now: Time, sample: &RateSample, losses: bool) {
        let Some(bandwidth) = bandwidth(sample) else { return };
        if sample.prior_delivered >= self.round_ends_at {
            self.round_ends_at = sample.total_delivered;
            self.round += 1;
            self.is_round = true;
            self.conserves = false;
        }
        let limited = sample.is_app_limited || self.own_limit.covers(sample);
        self.sample_policer(now, losses, limited);
        if !limited || bandwidth >= self.max_bandwidth() {
            self.bandwidths.update(BANDWIDTH_ROUNDS, self.round, bandwidth);
        }
        if self.is_round && !self.is_full && !limited {
            // Linux: bbr_check_full_bw_reached.
            if self.max_bandwidth() >= self.full_bandwidth * FULL_GROWTH {
                self.full_bandwidth = self.max_bandwidth();
                self.full_rounds = 0;
            } else {
                self.full_rounds += 1;
                self.is_full = self.full_rounds >= FULL_ROUNDS;
            }
        }
    }

    fn restart_policer(&mut self, now: Time) {
        self.policer.since = now;
        self.policer.delivered = self.delivered;
        self.policer.lost = self.lost;
        self.policer.rounds = 0;
    }

    fn forget_policer(&mut self, now: Time) {
        self.policer = Policer::default();
        self.restart_policer(now);
    }

    /// Linux: `bbr_lt_bw_sampling`: two intervals with heavy losses and the same throughput are a policer's.
    fn sample_policer(&mut self, now: Time, losses: bool, limited: bool) {
        if !self.config.policer_detection {
            return;
        }
        if self.policer.in_use {
            if self.mode == Mode::ProbeBw && self.is_round {
                self.policer.rounds += 1;
                if self.policer.rounds >= POLICER_ROUNDS {
                    self.forget_policer(now);
                    self.enter_probe_bw(now);
                }
            }
            return;
        }
        if !self.policer.sampling {
            if !losses {
                return;
            }
            self.restart_policer(now);
            self.policer.sampling = true;
        }
        if limited {
            self.forget_policer(now);
            return;
        }
        self.policer.rounds += u32::from(self.is_round);
        if self.policer.rounds < POLICER_MIN_ROUNDS {
            return;
        }
        if self.policer.rounds > 4 * POLICER_MIN_ROUNDS {
            self.forget_policer(now);
            return;
        }
        let lost = (self.lost - self.policer.lost) as f64;
        let delivered = (self.delivered - self.policer.delivered) as f64;
        let elapsed = now.saturating_since(self.policer.since);
        let enough = delivered > 0.0 && lost >= POLICER_LOSS * delivered;
        if !losses || !enough || elapsed < Duration::from_millis(1) {
            return;
        }
        let bandwidth = delivered / elapsed.as_secs_f64();
        let last = self.policer.bandwidth;
        let difference = (bandwidth - last).abs();
        if last > 0.0 && (difference <= POLICER_RATIO * last || difference <= POLICER_DIFFERENCE) {
            self.policer.bandwidth = f64::midpoint(bandwidth, last);
            self.policer.in_use = true;
            self.policer.rounds = 0;
            self.pacing_gain = 1.0;
        } else {
            self.policer.bandwidth = bandwidth;
            self.restart_policer(now);
        }
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        // Any phase but the one that drains the queue.
        self.cycle = (CYCLE.len() - self.draws.below(7) as usize) % CYCLE.len();
        self.cycle_start = now;
    }

    fn in_network(&self, event: &AckEvent, outstanding: u32) -> u64 {
        let burst = if self.pacing_gain > 1.0 { self.burst() } else { 0 };
        in_network(event, outstanding, self.bandwidth(), burst, self.mss)
    }

    /// Linux: `bbr_is_next_cycle_phase`.
    fn update_cycle(&mut self, event: &AckEvent, losses: bool) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let is_long = self.min_rtt.is_some_and(|rtt| event.now.saturating_since(self.cycle_start) > rtt);
        let before = self.in_network(event, event.outstanding_before);
        let bandwidth = self.max_bandwidth();
        let next = if self.pacing_gain > 1.0 {
            is_long && (losses || before >= self.inflight(bandwidth, self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            is_long || before <= self.inflight(bandwidth, 1.0)
        } else {
            is_long
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_start = event.now;
        }
    }

    /// Linux: `bbr_check_drain`.
    fn check_drain(&mut self, event: &AckEvent) {
        let target = self.inflight(self.max_bandwidth(), 1.0);
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            self.ssthresh = Some(target);
        }
        if self.mode == Mode::Drain && self.in_network(event, event.outstanding) <= target {
            self.enter_probe_bw(event.now);
        }
    }

    /// Linux: `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, event: &AckEvent) {
        let expired = self.min_rtt.is_some() && event.now > self.min_rtt_at + self.config.min_rtt_window;
        if let Some(rtt) = event.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt < least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = event.now;
        }
        let wanted = expired && !self.config.probe_rtt_duration.is_zero();
        if wanted && !self.restarts && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.own_limit.mark(self.delivered, event.outstanding);
            if self.probe_rtt_until.is_none() {
                if u64::from(event.outstanding) <= MIN_WINDOW * self.mss {
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

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_until.is_some_and(|until| now > until) {
            self.min_rtt_at = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.is_full {
                self.enter_probe_bw(now);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.in_use => (1.0, self.config.cwnd_gain),
            Mode::ProbeBw => (CYCLE[self.cycle], self.config.cwnd_gain),
            Mode::ProbeRtt => (1.0, 1.0),
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
        };
    }

    /// Linux: `bbr_set_cwnd`, `bbr_set_cwnd_to_recover_or_restore`.
    fn set_cwnd(&mut self, event: &AckEvent, newly_lost: u64) {
        let acked = u64::from(event.newly_acked);
        if acked > 0 {
            let state = self.recovery.on_ack(event);
            let delivering = u64::from(event.outstanding) + acked;
            let mut cwnd = self.cwnd.saturating_sub(newly_lost).max(self.mss);
            if state == Recovery::Fast && self.previous != Recovery::Fast {
                self.conserves = true;
                self.round_ends_at = self.delivered;
                cwnd = delivering;
            } else if state == Recovery::None && self.previous != Recovery::None {
                cwnd = cwnd.max(self.prior_cwnd);
                self.conserves = false;
            }
            self.previous = state;
            if self.conserves {
                cwnd = cwnd.max(delivering);
            } else {
                let bandwidth = self.bandwidth();
                let mut target = self.bdp(bandwidth, self.cwnd_gain);
                if self.is_full {
                    target += self.aggregation.window(bandwidth);
                }
                let target = self.quantized(target);
                if self.is_full {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || self.delivered < INITIAL_SEGMENTS * self.mss {
                    cwnd += acked;
                }
                cwnd = cwnd.max(MIN_WINDOW * self.mss);
            }
            self.cwnd = cwnd.max(self.mss);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_WINDOW * self.mss);
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, event: &AckEvent) {
        self.is_round = false;
        self.delivered += u64::from(event.newly_acked);
        let newly_lost = u64::from(event.newly_lost);
        if let Some(rtt) = event.rtt {
            self.pacing.on_rtt(rtt, self.cwnd, HIGH_GAIN);
        }
        if let Some(sample) = &event.rate {
            self.update_bandwidth(event.now, sample, newly_lost > 0);
            let (bandwidth, window) = (self.bandwidth(), (self.cwnd, self.mss));
            self.aggregation.update(event, self.is_round, bandwidth, window, AGGREGATION_ROUNDS);
        }
        self.update_cycle(event, newly_lost > 0);
        self.check_drain(event);
        self.update_min_rtt(event);
        self.update_gains();
        self.pacing.set(self.bandwidth(), self.pacing_gain, self.is_full);
        self.set_cwnd(event, newly_lost);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        match event.kind {
            // BBR, version 1, does not answer marks.
            CongestionKind::Ecn => {}
            CongestionKind::FastRetransmit => self.save_cwnd(),
            CongestionKind::Restart => self.cwnd = self.mss,
            CongestionKind::Timeout => {
                self.save_cwnd();
                // Linux, tcp_enter_loss.
                self.cwnd = u64::from(event.remaining) + self.mss;
                // Linux, bbr_set_state: like the end of a round with losses.
                self.previous = Recovery::Timeout;
                self.full_bandwidth = 0.0;
                self.is_round = true;
                self.sample_policer(event.now, true, false);
            }
        }
        self.recovery.on_congestion(event);
    }

    fn limits(&self) -> SendLimits {
        self.pacing.limits(self.cwnd)
    }

    fn state(&self) -> ControlState {
        let phase = match self.mode {
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt => "probe_rtt",
            Mode::Startup => "startup",
        };
        ControlState { cwnd: self.limits().cwnd, ssthresh: interface_bytes(self.ssthresh), phase }
    }

    fn on_recovery_end(&mut self, _event: &RecoveryEndEvent) {
        self.recovery.end();
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        self.recovery.end();
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        self.forget_policer(event.now);
    }

    fn on_lost(&mut self, event: &LostEvent) {
        self.lost += u64::from(event.bytes);
    }

    /// Linux: `bbr_min_tso_segs`.
    fn least_burst(&self) -> u32 {
        if self.pacing.rate < MIN_TSO_RATE { 1 } else { 2 }
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        // Linux, bbr_init: the handshake's round-trip time is the first smallest one.
        if self.min_rtt.is_none() {
            self.min_rtt = Some(event.rtt);
            self.min_rtt_at = event.now;
        }
        self.pacing.on_rtt(event.rtt, self.cwnd, HIGH_GAIN);
    }

    fn on_sent(&mut self, event: &SentEvent) {
        // Linux, CA_EVENT_TX_START: back from idleness without a burst.
        if event.outstanding == event.bytes && event.is_app_limited && self.delivered > 0 {
            self.restarts = true;
            self.aggregation.restart(event.now);
            match self.mode {
                Mode::ProbeBw => self.pacing.set(self.bandwidth(), 1.0, self.is_full),
                Mode::ProbeRtt => self.check_probe_rtt_done(event.now),
                Mode::Drain | Mode::Startup => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MSS, Path, Sender, build};
    use super::super::{Controller, Rules};
    use super::*;

    fn inner(control: &Controller) -> &Bbr {
        match control {
            Controller::Bbr(bbr) => bbr,
            other => panic!("not BBR: {other:?}"),
        }
    }

    fn sender(buffer: usize, seed: fn(u64) -> bool) -> Sender {
        let path = Path { loses: seed, ..Path::new(1_000.0, Duration::from_millis(100), buffer) };
        Sender::new(build(Config::default(), Rules::Linux6, 10), path)
    }

    #[test]
    fn converges_to_the_bottlenecks_rate_and_two_bandwidth_delay_products() {
        let mut sender = sender(1_000, |_| false);
        sender.run(Duration::from_secs(9));
        let bbr = inner(&sender.control);
        assert!((bbr.bandwidth() / (1_000.0 * f64::from(MSS)) - 1.0).abs() < 0.02, "{}", bbr.bandwidth());
        let rtt = bbr.min_rtt.unwrap();
        assert!((100.9..102.0).contains(&rtt.as_millis_f64()), "{rtt}");
        let skip = Duration::from_secs(5);
        assert!(sender.goodput_after(skip) > 980.0, "{}", sender.goodput_after(skip));
        let most = sender.after(skip).map(|sample| sample.outstanding).fold(0.0, f64::max);
        // Two times 101, three bursts of two segments, and two segments in the probing phase.
        assert!(most <= 2.0 * 102.0 + 8.0, "{most}");
        // A sender that is alone causes a queue only while it probes.
        let rtt = sender.mean_after(skip, |sample| sample.rtt.as_millis_f64());
        assert!(rtt < 112.0, "{rtt}");
        assert_eq!(sender.drops, 0);
    }

    #[test]
    fn the_handshakes_round_trip_time_is_the_smallest_until_one_is_smaller() {
        let mut control = build(Config::default(), Rules::Linux6, 10);
        let (begin, handshake) = (Time::from_secs(1), Duration::from_millis(40));
        control.on_rtt_sample(&RttEvent::new(begin, handshake));
        for (second, millis) in [(2, 80), (5, 40)] {
            let (now, rtt) = (Time::from_secs(second), Duration::from_millis(millis));
            control.on_ack(&AckEvent { rtt: Some(rtt), ..AckEvent::new(now, MSS, 10 * MSS) });
            let bbr = inner(&control);
            // A round-trip time that is equally small does not put off the next measurement (Linux:
            // bbr_update_min_rtt).
            assert_eq!((bbr.min_rtt, bbr.min_rtt_at), (Some(handshake), begin), "{rtt}");
        }
    }

    #[test]
    fn losses_count_also_where_there_is_no_sample_of_the_rate() {
        let mut control = build(Config::default(), Rules::Linux6, 20);
        let now = Time::from_secs(1);
        control.on_lost(&LostEvent::new(now, 3 * MSS));
        control.on_ack(&AckEvent { newly_lost: 3 * MSS, ..AckEvent::new(now, MSS, 20 * MSS) });
        let bbr = inner(&control);
        assert_eq!((bbr.delivered, bbr.lost), (u64::from(MSS), 3 * u64::from(MSS)));
        // Linux, bbr_set_cwnd_to_recover_or_restore, and one more for what was delivered.
        assert_eq!(bbr.cwnd, 18 * u64::from(MSS));
    }

    #[test]
    fn at_a_low_rate_one_segment_leaves_at_a_time() {
        let mut control = build(Config::default(), Rules::Linux6, 10);
        assert_eq!(control.least_burst(), 2);
        // 2.89 initial windows of 10,000 bytes in 200 ms are 1.2 Mbit/s.
        control.on_rtt_sample(&RttEvent::new(Time::ZERO, Duration::from_millis(200)));
        assert_eq!(control.least_burst(), 1);
    }

    #[test]
    fn startup_finds_the_rate_in_a_few_rounds_and_drains() {
        let mut sender = sender(1_000, |_| false);
        sender.run(Duration::from_secs(3));
        let first =
            |phase| sender.samples.iter().find(|sample| sample.phase == phase).map(|sample| sample.at);
        let (drain, probe) = (first("drain").unwrap(), first("probe_bw").unwrap());
        // log2(100 / 10) rounds, three without growth, and the rounds that drain their queue.
        assert!(drain < Time::from_secs(1) + Duration::from_millis(1_600), "{drain}");
        assert!(probe.saturating_since(drain) < Duration::from_millis(600), "{drain} {probe}");
    }

    #[test]
    fn the_smallest_round_trip_time_is_measured_anew_after_ten_seconds() {
        let mut sender = sender(1_000, |_| false);
        sender.run(Duration::from_secs(25));
        let low: Vec<_> = sender.samples.iter().filter(|sample| sample.phase == "probe_rtt").collect();
        assert!(low.iter().all(|sample| sample.cwnd <= 4.0));
        assert!(low.len() > 10);
        // This takes two per cent of the time.
        assert!(sender.goodput_after(Duration::from_secs(5)) > 950.0);
        let first = low[0].at;
        assert!(first > Time::from_secs(11) && first < Time::from_secs(13), "{first}");
    }

    #[test]
    fn random_losses_do_not_slow_it_down() {
        let mut sender = sender(1_000, |n| n % 50 == 49);
        sender.run(Duration::from_secs(30));
        let goodput = sender.goodput_after(Duration::from_secs(5));
        // 2 % are lost; Reno would get 1.22 / sqrt(0.02) per round, 86 packets per second.
        assert!(goodput > 900.0, "{goodput}");
    }

    #[test]
    fn the_phase_depends_on_the_seed_only() {
        let cycle = |seed| {
            let setup = Setup {
                mss: MSS,
                initial_cwnd: 10 * MSS,
                rules: Rules::Linux6,
                seed,
                is_paced: false,
                headers: 0,
            };
            let mut bbr = Config::default().build(&setup);
            bbr.enter_probe_bw(Time::ZERO);
            bbr.cycle
        };
        assert_eq!(cycle(5), cycle(5));
        let phases: Vec<usize> = (0..50).map(cycle).collect();
        assert!(phases.iter().all(|&phase| phase != 1 && phase < 8));
        assert!((0..8).filter(|&phase| phase != 1).all(|phase| phases.contains(&phase)));
    }
}
