//! The phases: when one ends and the next one begins.

use super::{
    Bbr3, CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, Feedback, MIN_RTT_WINDOW, NONE, PROBE_MAX_ROUNDS,
    PROBE_RANDOM_ROUNDS, PROBE_WAIT_MAX, PROBE_WAIT_MIN, Phase, STARTUP_PACING_GAIN, Sample, UP_CWND_GAIN,
    UP_PACING_GAIN,
};
use crate::cc::AckEvent;
use crate::cc::bbr_model::in_network;
use crate::rng::Draw as _;
use crate::time::Time;

impl Bbr3 {
    fn in_network(&self, event: &AckEvent, outstanding: u32) -> u64 {
        let burst = if self.pacing_gain > 1.0 { self.burst() } else { 0 };
        in_network(event, outstanding, self.bandwidth(), burst, self.mss)
    }

    /// `bbr_check_drain`.
    pub(super) fn check_drain(&mut self, event: &AckEvent) {
        let target = self.inflight(self.max_bandwidth());
        if self.phase == Phase::Startup && self.was_full {
            self.phase = Phase::Drain;
            self.ssthresh = Some(target);
            self.reset_congestion_signals();
        }
        if self.phase == Phase::Drain && self.in_network(event, event.outstanding) <= target {
            self.start_down(event.now);
        }
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_lower_bounds();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.stopped_at_risk = false;
        self.feedback = Feedback::Refilling;
        self.round_ends_at = self.delivered;
        self.phase = Phase::Refill;
    }

    pub(super) fn start_up(&mut self, now: Time, sample: &Sample) {
        self.feedback = Feedback::Starting;
        self.round_ends_at = self.delivered;
        self.cycle_start = now;
        self.reset_full_bandwidth(sample.bandwidth);
        self.phase = Phase::Up;
        self.raise_slope();
    }

    pub(super) fn start_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.up_per = NONE;
        self.rounds_since_probe = self.draws.below(PROBE_RANDOM_ROUNDS);
        self.probe_wait = self.draws.duration_between(PROBE_WAIT_MIN, PROBE_WAIT_MAX);
        self.cycle_start = now;
        self.feedback = Feedback::Stopping;
        self.round_ends_at = self.delivered;
        self.phase = Phase::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        if self.inflight_lo != NONE {
            self.inflight_lo = self.inflight_lo.min(self.inflight_hi);
        }
        self.phase = Phase::Cruise;
    }

    /// `bbr_raise_inflight_hi_slope`: twice as much growth in every round of a probe.
    pub(super) fn raise_slope(&mut self) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per = (self.cwnd / self.mss / growth).max(1) * self.mss;
    }

    /// `bbr_adapt_upper_bounds`. Returns whether that decided the phase.
    pub(super) fn adapt_upper_bounds(&mut self, event: &AckEvent, sample: &Sample) -> bool {
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
    pub(super) fn probe_upward(&mut self, event: &AckEvent) {
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
    pub(super) fn is_time_to_probe(&self, now: Time) -> bool {
        let rounds = (self.target_inflight() / self.mss).min(PROBE_MAX_ROUNDS);
        now > self.cycle_start + self.probe_wait || self.rounds_since_probe >= rounds
    }

    /// `bbr_update_cycle_phase`.
    pub(super) fn update_cycle(&mut self, event: &AckEvent, sample: &Sample) {
        if !self.was_full || self.adapt_upper_bounds(event, sample) {
            return;
        }
        let inflight = self.in_network(event, event.outstanding_before);
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
    pub(super) fn update_min_rtt(&mut self, event: &AckEvent) {
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
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
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
    pub(super) fn gains(&self) -> (f64, f64) {
        match self.phase {
            Phase::Cruise | Phase::Refill => (1.0, CWND_GAIN),
            Phase::Down => (DOWN_PACING_GAIN, CWND_GAIN),
            Phase::Drain => (DRAIN_PACING_GAIN, CWND_GAIN),
            Phase::ProbeRtt => (1.0, 1.0),
            Phase::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Phase::Up => (UP_PACING_GAIN, UP_CWND_GAIN),
        }
    }
}
