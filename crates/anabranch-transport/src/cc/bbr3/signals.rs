//! The signals about the path in acknowledgements and losses, and the bounds that follow from them.

use super::{Bbr3, FULL_GROWTH, FULL_LOSSES, FULL_ROUNDS, NONE, Phase, Sample};
use crate::cc::bbr_model::{Recovery, bandwidth};
use crate::cc::{AckEvent, LostEvent};
use crate::time::Time;

impl Bbr3 {
    pub(super) fn read(&self, event: &AckEvent) -> Sample {
        let newly_lost = u64::from(event.newly_lost);
        let Some(rate) = &event.rate else { return Sample { newly_lost, ..Sample::default() } };
        let bandwidth = bandwidth(rate);
        Sample {
            bandwidth: bandwidth.unwrap_or(0.0),
            delivered: u64::from(rate.delivered),
            prior_delivered: rate.prior_delivered,
            outstanding_at_send: u64::from(rate.outstanding_at_send),
            lost: u64::from(rate.lost),
            newly_lost,
            is_limited: rate.is_app_limited || self.own_limit.covers(rate),
            is_valid: bandwidth.is_some(),
        }
    }

    /// `bbr_note_loss`, `bbr_skb_marked_lost`: also takes losses that no acknowledgement shows.
    pub(super) fn record_loss(&mut self, event: &LostEvent) {
        if !self.loss_in_round {
            self.loss_round_ends_at = self.delivered;
        }
        self.loss_in_round = true;
        let sample = Sample {
            outstanding_at_send: u64::from(event.outstanding_at_send),
            lost: u64::from(event.lost),
            newly_lost: u64::from(event.bytes),
            is_limited: event.is_app_limited,
            ..Sample::default()
        };
        if self.samples_are_probes && self.is_too_high(&sample) {
            let outstanding_at_send = self.inflight_at_loss(&sample);
            self.on_inflight_too_high(event.now, &Sample { outstanding_at_send, ..sample });
        }
    }

    /// `bbr_is_inflight_too_high`.
    pub(super) fn is_too_high(&self, sample: &Sample) -> bool {
        sample.lost > 0
            && sample.outstanding_at_send > 0
            && sample.lost as f64 > sample.outstanding_at_send as f64 * self.config.loss_threshold
    }

    /// `bbr_inflight_hi_from_lost_skb`: how much was in flight when the losses passed the threshold.
    pub(super) fn inflight_at_loss(&self, sample: &Sample) -> u64 {
        let inflight = sample.outstanding_at_send.saturating_sub(sample.newly_lost) as f64;
        let lost = sample.lost.saturating_sub(sample.newly_lost) as f64;
        let threshold = self.config.loss_threshold;
        let left = (inflight * threshold - lost).max(0.0) / (1.0 - threshold);
        (inflight + left) as u64
    }

    /// `bbr_handle_inflight_too_high`.
    pub(super) fn on_inflight_too_high(&mut self, now: Time, sample: &Sample) {
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
    pub(super) fn update_signals(&mut self, sample: &Sample) {
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
    pub(super) fn adapt_lower_bounds(&mut self) {
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
    pub(super) fn check_startup_losses(&mut self, sample: &Sample, state: Recovery) {
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
    pub(super) fn check_full(&mut self, sample: &Sample) {
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
}
