//! The target of the encoder and the pace of packets ("Media Rate Control", "Packet Pacing").

use super::super::Frame;
use super::config::Config;
use super::delay::Delays;
use super::window::ReferenceWindow;
use crate::time::Time;
use crate::units::Rate;

/// `PACKET_OVERHEAD` in bytes.
const PACKET_OVERHEAD: f64 = 20.0;
/// `RATE_ADJUST_GAIN` and `FRAME_SIZE_DEV_ALPHA`.
const RATE_ADJUST_GAIN: f64 = 1.0 / 16.0;
const FRAME_SIZE_DEV_ALPHA: f64 = 1.0 / 64.0;
/// `RATE_PACE_MIN` in bit/s.
const RATE_PACE_MIN: f64 = 50_000.0;
/// `RELAXED_PACING_LIMIT_LOW`.
const RELAXED_PACING_LIMIT_LOW: f64 = 0.8;
/// `ACKED_BITRATE_MARGIN` ("Reference window undershoot at congestion").
const ACKED_BITRATE_MARGIN: f64 = 0.8;
/// `frame_period` in s before there were two frames, and the weight of a new one (`newMediaFrame` in the
/// reference).
const FRAME_PERIOD: f64 = 0.02;
const FRAME_PERIOD_WEIGHT: f64 = 0.9;

/// The target of the encoder.
#[derive(Debug)]
pub(super) struct MediaRate {
    /// The least and the highest target, and the target itself, in bit/s.
    bounds: [f64; 2],
    target: f64,
    mss: f64,
    /// `rate_adjust_factor`: more than 0 while frames wait for the pacer.
    adjustment: f64,
    /// `frame_size_dev`: by how much frames exceed the size that the target gives them.
    excess: f64,
    frame_period: f64,
    last_frame: Option<Time>,
    /// Bytes acknowledged since a time, and their rate before it (`acked_bitrate`) in bit/s.
    acked: (Time, u64),
    acked_rate: f64,
}

impl MediaRate {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            bounds: [config.min_rate, config.max_rate].map(|rate| rate.bits_per_sec() as f64),
            target: config.initial_rate.bits_per_sec() as f64,
            mss: config.mss.0 as f64,
            adjustment: 0.0,
            excess: 0.0,
            frame_period: FRAME_PERIOD,
            last_frame: None,
            acked: (Time::ZERO, 0),
            acked_rate: 0.0,
        }
    }

    pub(super) fn target(&self) -> Rate {
        Rate::from_bits_per_sec(self.target as u64)
    }

    pub(super) fn is_at_most(&self) -> bool {
        self.target >= self.bounds[1]
    }

    /// Whether the target is well below the rate of what arrives, which is measured over a round trip, at
    /// least over two frames.
    pub(super) fn on_acked(&mut self, now: Time, bytes: u64, rtt: f64) -> bool {
        self.acked.1 += bytes;
        let since = now.saturating_since(self.acked.0).as_secs_f64();
        if since >= rtt.max(2.0 * self.frame_period) {
            self.acked_rate = self.acked.1 as f64 * 8.0 / since;
            self.acked = (now, 0);
        }
        self.target < self.acked_rate * ACKED_BITRATE_MARGIN
    }

    pub(super) fn on_frame(&mut self, frame: &Frame) {
        if let Some(before) = self.last_frame.replace(frame.now) {
            let period = frame.now.saturating_since(before).as_secs_f64();
            self.frame_period += FRAME_PERIOD_WEIGHT * (period - self.frame_period);
        }
        // Frames of one time would have no period.
        let period = self.frame_period.max(1e-3);
        let error = (frame.waiting.as_secs_f64() - period / 4.0) / period;
        self.adjustment = (self.adjustment + error * RATE_ADJUST_GAIN).clamp(0.0, 0.5);
        let nominal = self.target * period / 8.0;
        let deviation = ((frame.bytes as f64 - nominal) / nominal).max(0.0);
        self.excess =
            ((1.0 - FRAME_SIZE_DEV_ALPHA) * self.excess + FRAME_SIZE_DEV_ALPHA * deviation).min(0.2);
    }

    /// Follows the window and the round trip, once there is one.
    pub(super) fn update(&mut self, window: &ReferenceWindow, delays: &Delays, now: Time) {
        if delays.rtt() == 0.0 {
            return;
        }
        let small = 1.0 - (window.packet_share() - 0.1).clamp(0.0, 0.2);
        let headers = self.mss / (self.mss + PACKET_OVERHEAD);
        let drain = if delays.is_draining(now) { 0.5 } else { 1.0 };
        let share = small * headers * drain / (1.2 + self.adjustment + self.excess);
        let [min, max] = self.bounds;
        self.target = (share * 8.0 * window.bytes() / delays.rtt()).clamp(min, max);
    }

    /// "Packet Pacing".
    pub(super) fn pacing(&self, config: &Config) -> Rate {
        let pace = self.target.max(RATE_PACE_MIN) * config.packet_pacing_headroom;
        let nominal = self.target / self.bounds[1];
        let relaxed = (nominal - RELAXED_PACING_LIMIT_LOW) / (1.0 - RELAXED_PACING_LIMIT_LOW);
        let scale = (1.0 - relaxed.min(1.0)).clamp(1.0 / config.max_relaxed_pacing_factor, 1.0);
        Rate::from_bits_per_sec((pace / scale) as u64)
    }
}
