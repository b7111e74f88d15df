//! The encoder: when the next frame is made, and how large it is (RFC 8593 section 5).
//!
//! Known deviation: the size of a key frame is a multiple of the mean frame's and not 13.5 kB at every rate.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Rate;

use super::config::VideoConfig;

/// An encoder at work.
#[derive(Debug)]
pub(super) struct Encoder {
    /// What it makes, in bit/s.
    rate: f64,
    /// What it was asked to make.
    wanted: f64,
    /// When its rate has changed last.
    changed: Option<Time>,
    /// Whether the next frame is a key frame in any case.
    is_key_due: bool,
    last_key: Time,
    /// How many frames are left that make up for the last key frame.
    smaller: u32,
    rng: Rng,
}

impl Encoder {
    pub(super) fn new(config: &VideoConfig, rng: Rng) -> Self {
        let rate = config.rate.bits_per_sec() as f64;
        Self { rate, wanted: rate, changed: None, is_key_due: true, last_key: Time::ZERO, smaller: 0, rng }
    }

    /// It is to make this much from now on, within its limits.
    pub(super) fn set_target(&mut self, config: &VideoConfig, target: Rate) {
        self.wanted = target.clamp(config.min_rate, config.max_rate).bits_per_sec() as f64;
    }

    pub(super) fn request_key_frame(&mut self) {
        self.is_key_due = true;
    }

    /// The size of the frame that is made now, in bytes, and whether it is a key frame.
    pub(super) fn make(&mut self, config: &VideoConfig, now: Time) -> (u32, bool) {
        // RFC 8593 section 5.1: after a change it ignores further ones for a while.
        let may_change = self.changed.is_none_or(|at| now.saturating_since(at) >= config.reaction);
        if may_change && self.wanted != self.rate {
            let (low, high) = (self.rate.min(self.wanted), self.rate.max(self.wanted));
            self.is_key_due |= self.changed.is_some() && high >= low * (1.0 + config.large_change);
            self.rate = self.wanted;
            self.changed = Some(now);
        }
        if config.key_frame_interval.is_some_and(|interval| now.saturating_since(self.last_key) >= interval) {
            self.is_key_due = true;
        }
        let mean = self.rate * config.frame_interval.as_secs_f64() / 8.0;
        let is_key = std::mem::take(&mut self.is_key_due);
        // RFC 8593 section 5.2: a transient begins with a large frame, and has the target rate on average.
        let share = if is_key {
            self.last_key = now;
            self.smaller = config.transient_frames - 1;
            config.key_frame_ratio
        } else if self.smaller > 0 {
            self.smaller -= 1;
            let frames = f64::from(config.transient_frames);
            ((frames - config.key_frame_ratio) / (frames - 1.0)).max(LEAST)
        } else {
            // Section 5.3.
            self.vary(config.size_deviation)
        };
        ((mean * share).max(1.0) as u32, is_key)
    }

    /// The time to the next frame (RFC 8593 section 5.3).
    pub(super) fn interval(&mut self, config: &VideoConfig) -> Duration {
        config.frame_interval.scaled(self.vary(config.interval_deviation)).max(Duration::from_nanos(1))
    }

    /// 1 and a deviation from the Laplace distribution, truncated so that its mean stays 1.
    fn vary(&mut self, scale: f64) -> f64 {
        let deviation = (scale * self.rng.exponential()).min(1.0 - LEAST);
        if self.rng.bernoulli(0.5) { 1.0 + deviation } else { 1.0 - deviation }
    }
}

/// The smallest frame, and the shortest time between two, as a share of the mean.
const LEAST: f64 = 0.1;

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;

    const SECOND: Rate = Rate::from_bits_per_sec(500_000);

    fn encoder(config: &VideoConfig) -> Encoder {
        Encoder::new(config, Streams { seed: 1, replication: 0 }.stream("video"))
    }

    #[test]
    fn frames_vary_around_the_rate() {
        let config = VideoConfig::default();
        let mut encoder = encoder(&config);
        let (mut bytes, mut now, mut keys) = (0, Time::ZERO, 0);
        for _ in 0..30_000 {
            let (size, is_key) = encoder.make(&config, now);
            bytes += u64::from(size);
            keys += u32::from(is_key);
            now += encoder.interval(&config);
        }
        assert_eq!(keys, 1);
        let rate = bytes as f64 * 8.0 / now.as_secs_f64();
        assert!((rate / 1e6 - 1.0).abs() < 0.005, "{rate}");
        assert!((now.as_secs_f64() / 990.0 - 1.0).abs() < 0.005, "{now}");
    }

    #[test]
    fn a_key_frame_is_made_up_for_by_smaller_ones() {
        let config = VideoConfig { size_deviation: 0.0, ..VideoConfig::default() };
        let mut encoder = encoder(&config);
        let sizes: Vec<u32> = (0..9).map(|_| encoder.make(&config, Time::ZERO).0).collect();
        assert_eq!((sizes[0], sizes[8]), (13_365, 4_125));
        assert!((sizes[..8].iter().sum::<u32>()).abs_diff(8 * 4_125) < 8, "{sizes:?}");
    }

    #[test]
    fn a_change_of_the_rate_waits_for_the_reaction_and_a_large_one_begins_with_a_key_frame() {
        let config = VideoConfig { size_deviation: 0.0, transient_frames: 1, ..VideoConfig::default() };
        let mut encoder = encoder(&config);
        assert!(encoder.make(&config, Time::ZERO).1);
        encoder.set_target(&config, Rate::from_bits_per_sec(900_000));
        assert_eq!(encoder.make(&config, Time::from_millis(33)), (3_712, false));
        encoder.set_target(&config, SECOND);
        assert_eq!(encoder.make(&config, Time::from_millis(200)), (3_712, false));
        assert_eq!(encoder.make(&config, Time::from_millis(233)), (6_682, true));
        encoder.set_target(&config, Rate::from_bits_per_sec(1));
        encoder.request_key_frame();
        assert!(encoder.make(&config, Time::from_millis(300)).1);
        assert_eq!(encoder.make(&config, Time::from_secs(1)), (2_004, true), "the least rate");
    }
}
