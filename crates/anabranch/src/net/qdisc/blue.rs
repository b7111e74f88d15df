//! BLUE (Feng, Shin, Kandlur and Saha, "The BLUE Active Queue Management Algorithms", IEEE/ACM Transactions
//! on Networking 10(4), 2002).
//!
//! An arriving packet is dropped or marked with a probability that knows no queue length: it grows by
//! `increment` when a packet finds no room, and falls by `decrement` when the link becomes idle, each at most
//! once per `freeze` (figure 3 of the paper, without the threshold that may stand for a full queue). Defaults
//! are among the settings of the paper's experiments.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in, mark};
use crate::net::packets::Held;

/// BLUE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlueConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped. Default: 1000.
    pub packets: u32,
    /// Shortest time between two changes of the probability. Default: 100 ms.
    pub freeze: Duration,
    /// How much the probability grows when the queue overflows. Default: 2 %.
    pub increment: Probability,
    /// How much it falls when the link becomes idle. Default: 0.2 %.
    pub decrement: Probability,
    /// Mark ECN-capable packets instead of dropping them. Default: false.
    pub ecn: bool,
}

impl Default for BlueConfig {
    fn default() -> Self {
        let probability = |value| Probability::new(value).unwrap_or(Probability::ZERO);
        Self {
            packets: 1000,
            freeze: Duration::from_millis(100),
            increment: probability(0.02),
            decrement: probability(0.002),
            ecn: false,
        }
    }
}

impl BlueConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Blue, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        Ok(Blue {
            config: self.clone(),
            queue: Fifo::default(),
            rng: place.streams.stream(place.component),
            probability: 0.0,
            changed: 0,
        })
    }
}

/// A queue with BLUE.
#[derive(Clone, Debug)]
pub(crate) struct Blue {
    config: BlueConfig,
    queue: Fifo,
    rng: Rng,
    probability: f64,
    /// When it last changed, in nanoseconds.
    changed: u64,
}

impl Blue {
    /// Changes the probability, unless it was changed less than `freeze` ago.
    fn change(&mut self, now: u64, by: f64) {
        if now - self.changed > self.config.freeze.as_nanos() {
            self.probability = (self.probability + by).clamp(0.0, 1.0);
            self.changed = now;
        }
    }
}

impl QueueDisc for Blue {
    fn enqueue(&mut self, now: u64, mut packet: Held, drops: &mut Drops) {
        if self.queue.backlog().packets >= self.config.packets.into() {
            self.change(now, self.config.increment.get());
            return drops.overflow(packet);
        }
        let is_chosen = self.probability > 0.0 && self.rng.bernoulli(self.probability);
        if is_chosen && !(self.config.ecn && mark(&mut packet)) {
            return drops.early(packet);
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: u64, _: &mut Drops) -> Option<Held> {
        let packet = self.queue.pop_oldest();
        if packet.is_none() {
            self.change(now, -self.config.decrement.get());
        }
        packet
    }

    kept_in!(queue);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, place};
    use super::*;
    use crate::net::packets::DropCause;

    const MILLI: u64 = 1_000_000;

    /// Twice as much arrives as leaves. The queue of 100 is full after 100 ms; from then on, as long as the
    /// probability is far below 1/2, it is 2 % times the number of periods of 101 ms, the first whole
    /// millisecond after each `freeze`.
    #[test]
    fn the_probability_grows_linearly_while_the_queue_overflows() {
        for periods in [1, 5, 12] {
            let mut blue = BlueConfig { packets: 100, ..Default::default() }.build(place()).unwrap();
            overload(&mut blue, MILLI, 2, (101 * periods + 50) * MILLI);
            assert!(
                (blue.probability - 0.02 * periods as f64).abs() < 1e-9,
                "{} {periods}",
                blue.probability
            );
        }
    }

    /// In the end, half of the packets are dropped, nearly all of them early, at a probability of a half.
    #[test]
    fn a_constant_overload_is_halved() {
        let mut blue = BlueConfig::default().build(place()).unwrap();
        let (drops, _) = overload(&mut blue, MILLI, 2, 120_000 * MILLI);
        let late: Vec<_> = drops.iter().filter(|(at, _)| *at >= 60_000 * MILLI).collect();
        assert!((late.len() as f64 / 60_000.0 - 1.0).abs() < 0.02, "{}", late.len());
        let full = late.iter().filter(|(_, cause)| *cause == DropCause::QueueFull).count();
        assert!(full * 20 < late.len(), "{full} of {}", late.len());
        assert!((blue.probability - 0.5).abs() < 0.05, "{}", blue.probability);
    }

    /// A link that becomes idle again and again lowers the probability, at most once in 100 ms.
    #[test]
    fn the_probability_falls_while_the_link_is_idle() {
        let mut blue = BlueConfig::default().build(place()).unwrap();
        blue.probability = 0.5;
        overload(&mut blue, 10 * MILLI, 0, 1_105 * MILLI);
        // At 110 ms, 220 ms, ... 1100 ms.
        assert!((blue.probability - (0.5 - 10.0 * 0.002)).abs() < 1e-9, "{}", blue.probability);
    }

    #[test]
    fn marks_replace_early_drops() {
        let mut blue = BlueConfig { ecn: true, ..Default::default() }.build(place()).unwrap();
        blue.probability = 0.5;
        let (drops, marks) = overload(&mut blue, MILLI, 1, 90 * MILLI);
        assert!(drops.is_empty() && (30..60).contains(&marks), "{} {marks}", drops.len());
    }
}
