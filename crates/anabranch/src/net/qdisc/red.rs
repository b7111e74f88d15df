//! RED (Floyd and Jacobson, "Random early detection gateways for congestion avoidance", 1993) and adaptive
//! RED (Floyd, Gummadi and Shenker, "Adaptive RED", 2001).
//!
//! An arriving packet is dropped or marked with a probability that grows with the mean of the queue's length.
//! The gentle form lets it grow on to 1 at twice `max_threshold` (Floyd, "Recommendation on using the gentle
//! variant of RED", 2000). Adaptive RED moves `max_p` twice a second so that the mean stays halfway between
//! the thresholds (section 4 of its paper). Defaults are ns-2's: thresholds 5 and 15 packets, weight 0.002,
//! `max_p` 1/10, gentle. Lengths are in packets. While the queue is empty, the mean falls as if packets as
//! long as the last transmission had found it so.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, mark};
use crate::net::packets::{Held, Waiting};

/// RED.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped. Default: 50.
    pub packets: u32,
    /// Nothing is dropped while the mean length is below this, in packets. Default: 5.
    pub min_threshold: f64,
    /// The probability is `max_p` at this mean length, in packets; more than `min_threshold`. Default: 15.
    pub max_threshold: f64,
    /// The probability at `max_threshold`. Default: 0.1.
    pub max_p: Probability,
    /// Weight of a new length in the mean, above 0 and at most 1. Default: 0.002.
    pub weight: f64,
    /// Whether the probability goes on growing from `max_p` to 1 at twice `max_threshold`; otherwise it is 1
    /// from `max_threshold` on. Default: true.
    pub gentle: bool,
    /// Whether `max_p` follows the mean length (adaptive RED), from 0.01 to 0.5. Default: false.
    pub adaptive: bool,
    /// Mark ECN-capable packets instead of dropping them, as long as the probability is below 1. Default:
    /// false.
    pub ecn: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            packets: 50,
            min_threshold: 5.0,
            max_threshold: 15.0,
            max_p: Probability::new(0.1).unwrap_or(Probability::ZERO),
            weight: 0.002,
            gentle: true,
            adaptive: false,
            ecn: false,
        }
    }
}

impl RedConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Red, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        let (key, least, most) = (place.key, self.min_threshold, self.max_threshold);
        if !(least >= 0.0 && least < most && most <= 1e9) {
            return Err(format!(
                "{key}.max_threshold is {most} with min_threshold = {least}, allowed is 0 <= min_threshold < \
                 max_threshold <= 1e9"
            ));
        }
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(format!("{key}.weight is {}, allowed is more than 0 to 1", self.weight));
        }
        Ok(Red {
            config: self.clone(),
            queue: Fifo::default(),
            rng: place.streams.stream(place.component),
            mean: 0.0,
            max_p: self.max_p.get(),
            since_last: 0,
            empty_since: Some(0),
            last_departure: 0,
            transmission: 0,
            next_adaptation: ADAPTATION,
        })
    }
}

/// A queue with RED.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    config: RedConfig,
    queue: Fifo,
    rng: Rng,
    /// Mean length, in packets.
    mean: f64,
    max_p: f64,
    /// Packets above the threshold since the last drop or mark.
    since_last: u64,
    /// Since when nothing has waited.
    empty_since: Option<u64>,
    last_departure: u64,
    /// Time from one departure to the next without a pause, in nanoseconds.
    transmission: u64,
    next_adaptation: u64,
}

/// Adaptive RED, section 4: every 0.5 s, `max_p` grows by at most 0.01 and falls to 0.9 of itself, between
/// 0.01 and 0.5.
const ADAPTATION: u64 = 500_000_000;
const GROWTH: f64 = 0.01;
const DECREASE: f64 = 0.9;
const LEAST_MAX_P: f64 = 0.01;
const MOST_MAX_P: f64 = 0.5;

impl Red {
    /// Updates the mean at an arrival (section 4 of the paper of 1993).
    fn average(&mut self, now: u64) {
        let keeps = 1.0 - self.config.weight;
        if let Some(since) = self.empty_since.take()
            && self.transmission > 0
        {
            let packets = (now - since) as f64 / self.transmission as f64;
            self.mean *= libm::pow(keeps, packets);
        }
        self.mean = keeps * self.mean + self.config.weight * self.queue.backlog().packets as f64;
    }

    fn adapt(&mut self, now: u64) {
        let RedConfig { min_threshold, max_threshold, .. } = self.config;
        let span = max_threshold - min_threshold;
        while self.config.adaptive && self.next_adaptation <= now {
            self.next_adaptation += ADAPTATION;
            if self.mean > min_threshold + 0.6 * span && self.max_p <= MOST_MAX_P {
                self.max_p += GROWTH.min(self.max_p / 4.0);
            } else if self.mean < min_threshold + 0.4 * span && self.max_p >= LEAST_MAX_P {
                self.max_p *= DECREASE;
            } else {
                // Nothing has changed for the remaining updates.
                let left = now.saturating_sub(self.next_adaptation);
                self.next_adaptation += left / ADAPTATION * ADAPTATION;
            }
        }
    }

    /// The probability at this mean, without regard to the packets since the last drop.
    fn base_probability(&self) -> f64 {
        let RedConfig { min_threshold, max_threshold, gentle, .. } = self.config;
        let above = |threshold: f64, span: f64| (self.mean - threshold) / span;
        if self.mean < min_threshold {
            0.0
        } else if self.mean < max_threshold {
            self.max_p * above(min_threshold, max_threshold - min_threshold)
        } else if gentle && self.mean < 2.0 * max_threshold {
            self.max_p + (1.0 - self.max_p) * above(max_threshold, max_threshold)
        } else {
            1.0
        }
    }

    /// Whether to drop or mark the arriving packet; drops are spread evenly (section 7, method 2).
    fn chooses(&mut self, base: f64) -> bool {
        if base == 0.0 {
            self.since_last = 0;
            return false;
        }
        let spread = 1.0 - self.since_last as f64 * base;
        let probability = if spread > base { base / spread } else { 1.0 };
        let is_chosen = self.rng.bernoulli(probability);
        self.since_last = if is_chosen { 0 } else { self.since_last + 1 };
        is_chosen
    }
}

impl QueueDisc for Red {
    fn enqueue(&mut self, now: u64, mut packet: Held, drops: &mut Drops) {
        self.average(now);
        self.adapt(now);
        if self.queue.backlog().packets >= self.config.packets.into() {
            self.since_last = 0;
            return drops.overflow(packet);
        }
        let base = self.base_probability();
        if self.chooses(base) && !(self.config.ecn && base < 1.0 && mark(&mut packet)) {
            if self.queue.backlog().packets == 0 {
                self.empty_since = Some(now);
            }
            return drops.early(packet);
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: u64, _: &mut Drops) -> Option<Held> {
        let packet = self.queue.pop_oldest();
        match packet {
            Some(packet) if packet.arrived <= self.last_departure => {
                self.transmission = now - self.last_departure;
            }
            _ => {}
        }
        self.last_departure = now;
        if self.queue.len() == 0 && self.empty_since.is_none() {
            self.empty_since = Some(now);
        }
        packet
    }

    fn hold_back(&mut self, now: u64, held_back: Waiting) {
        self.queue.hold_back(held_back);
        // What is held back is no pause.
        self.empty_since = (self.queue.backlog().packets == 0).then_some(now);
    }

    fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    fn memory(&self) -> usize {
        self.queue.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, place};
    use super::*;
    use crate::net::packets::DropCause;

    #[test]
    fn the_probability_grows_with_the_mean() {
        let mut red = RedConfig::default().build(place()).unwrap();
        let mut at = |mean: f64| {
            red.mean = mean;
            red.base_probability()
        };
        assert_eq!([4.9, 10.0, 15.0, 30.0].map(&mut at), [0.0, 0.05, 0.1, 1.0]);
        assert!((at(22.5) - 0.55).abs() < 1e-12);
        let mut abrupt = RedConfig { gentle: false, ..Default::default() }.build(place()).unwrap();
        abrupt.mean = 15.0;
        assert_eq!(abrupt.base_probability(), 1.0);
    }

    /// With a probability of 1/10, the distance between drops is uniform from 1 to 10 (section 7, method 2).
    #[test]
    fn drops_are_spread_evenly() {
        let mut red = RedConfig::default().build(place()).unwrap();
        let mut distances = [0_u32; 12];
        let mut distance = 0;
        for _ in 0..100_000 {
            distance += 1;
            if red.chooses(0.1) {
                distances[distance.min(11)] += 1;
                distance = 0;
            }
        }
        let total: u32 = distances.iter().sum();
        assert_eq!(distances[11], 0);
        for count in &distances[1..=9] {
            assert!((f64::from(*count) / f64::from(total) - 0.1).abs() < 0.01, "{distances:?}");
        }
    }

    /// Twice as much arrives as leaves. Half of it is dropped, all of it early, when the probability is 2 p /
    /// (1 + p) = 1/2 and so p = 1/3, at a mean of 15 + 15 x (1/3 - 1/10) / (9/10) packets.
    #[test]
    fn a_constant_overload_is_halved() {
        let mut red = RedConfig::default().build(place()).unwrap();
        let (drops, _) = overload(&mut red, 1_000_000, 2, 60_000_000_000);
        let late: Vec<_> = drops.iter().filter(|(at, _)| *at >= 30_000_000_000).collect();
        assert!(late.iter().all(|(_, cause)| *cause == DropCause::Aqm));
        assert!((late.len() as f64 / 30_000.0 - 1.0).abs() < 0.01, "{}", late.len());
        let expected = 15.0 + 15.0 * (1.0 / 3.0 - 0.1) / 0.9;
        assert!((red.mean - expected).abs() < 1.5, "{} {expected}", red.mean);
    }

    #[test]
    fn adaptive_red_keeps_the_mean_between_the_thresholds() {
        let config = RedConfig { adaptive: true, max_threshold: 30.0, packets: 200, ..Default::default() };
        let mut red = config.build(place()).unwrap();
        overload(&mut red, 1_000_000, 2, 60_000_000_000);
        assert!(red.max_p > 0.3, "{}", red.max_p);
        // With `max_p` at 0.1, the mean would be above 30.
        assert!((5.0..30.0).contains(&red.mean), "{}", red.mean);
    }
}
