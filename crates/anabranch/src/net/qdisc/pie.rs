//! PIE (RFC 8033): proportional integral controller enhanced.
//!
//! An arriving packet is dropped or marked with a probability that follows the waiting time: every `update`
//! it moves by alpha times what the waiting time is above the target and beta times what it has grown, in
//! steps that are smaller while it is small (RFC 8033 section 4.2). The waiting time is that of the packet
//! that left last, by its time stamp (section 4.3), instead of an estimate of the departure rate (section
//! 5.2); that is Linux's default (`sch_pie.c`, `pie_process_dequeue`). Defaults are those of RFC 8033
//! sections 4 and 5 and of Linux, 1000 packets included. Updates between two packets change nothing that was
//! not known at the first, so they are made up for at the second.

use anabranch_transport::rng::{Draw, Rng};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, mark};
use crate::net::packets::{Held, Waiting};

/// PIE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PieConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped. Default: 1000.
    pub packets: u32,
    /// The waiting time that the queue is held to. Default: 15 ms.
    pub target: Duration,
    /// Time between updates of the probability, from 1 ms to 1 s. Default: 15 ms.
    pub update: Duration,
    /// When the first update is made, at most 10 s. Default: as `update`; Linux makes it half a second after
    /// the discipline is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_update: Option<Duration>,
    /// Change of the probability per update and second above the target, from 0 to 100. Default: 0.125.
    pub alpha: f64,
    /// Change of the probability per update and second of growth, from 0 to 100. Default: 1.25.
    pub beta: f64,
    /// After an idle time, nothing is dropped for this long. Default: 150 ms.
    pub burst: Duration,
    /// Mark ECN-capable packets instead of dropping them, as long as the probability is not above
    /// `mark_up_to`. Default: false.
    pub ecn: bool,
    /// Above this probability ECN-capable packets are dropped as well. Default: 10 %.
    pub mark_up_to: Probability,
    /// Whose PIE it is. Default: `rfc`.
    pub variant: PieVariant,
}

/// Where Linux's PIE differs from that of RFC 8033.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PieVariant {
    /// That of RFC 8033: the probability is at most 1, and up to two waiting packets are spared.
    #[default]
    Rfc,
    /// That of Linux: the probability may grow beyond 1 while the queue is long, and has to fall below it
    /// again before any packet stays that finds two waiting packets or more.
    Linux,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            packets: 1000,
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            first_update: None,
            alpha: 0.125,
            beta: 1.25,
            burst: Duration::from_millis(150),
            ecn: false,
            mark_up_to: Probability::new(0.1).unwrap_or(Probability::ZERO),
            variant: PieVariant::Rfc,
        }
    }
}

impl PieConfig {
    /// Checks that the settings are possible.
    pub(super) fn check(&self, place: Place<'_>) -> Result<(), String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&self.update) {
            return Err(format!("{}.update is {}, allowed is 1 ms to 1 s", place.key, self.update));
        }
        if let Some(first) = self.first_update
            && first > MAX_FIRST_UPDATE
        {
            return Err(format!(
                "{}.first_update is {first}, allowed is at most {MAX_FIRST_UPDATE}",
                place.key
            ));
        }
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(0.0..=100.0).contains(&value) {
                return Err(format!("{}.{name} is {value}, allowed is 0 to 100", place.key));
            }
        }
        Ok(())
    }

    pub(super) fn build(&self, place: Place<'_>) -> Result<Pie, String> {
        self.check(place)?;
        let config = self.clone();
        let control = Control::new(config, place.streams.stream(place.component));
        Ok(Pie { packets: self.packets.into(), queue: Fifo::default(), control })
    }
}

const MAX_FIRST_UPDATE: Duration = Duration::from_secs(10);

/// A queue with PIE.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    packets: u64,
    queue: Fifo,
    control: Control<Rng>,
}

#[cfg(test)]
impl Pie {
    pub(super) fn probability(&self) -> f64 {
        self.control.probability
    }

    pub(super) fn set_probability(&mut self, probability: f64) {
        self.control.probability = probability;
    }
}

impl QueueDisc for Pie {
    fn enqueue(&mut self, now: u64, mut packet: Held, drops: &mut Drops) {
        let is_full = self.queue.backlog().packets >= self.packets;
        if self.control.admits(now, &mut packet, &self.queue, is_full, drops) {
            self.queue.push(packet);
        }
    }

    fn dequeue(&mut self, now: u64, _: &mut Drops) -> Option<Held> {
        self.control.dequeue(now, &mut self.queue)
    }

    fn hold_back(&mut self, now: u64, held_back: Waiting) {
        // Updates until now have seen what was held back before.
        self.control.update_until(now, self.queue.backlog().bytes);
        self.queue.hold_back(held_back);
    }

    fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    fn memory(&self) -> usize {
        self.queue.memory()
    }
}

/// The state of RFC 8033 section 4 and appendix A. Times are in seconds, except where it says nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Control<R> {
    config: PieConfig,
    target: f64,
    /// Nothing is dropped while no more bytes than this wait.
    spared_bytes: u64,
    /// A probability that would reach this becomes 1.
    overflow: f64,
    rng: R,
    probability: f64,
    /// The sum of the probabilities since the last drop.
    accumulated: f64,
    delay: f64,
    old_delay: f64,
    /// For how many more nanoseconds nothing is dropped.
    burst_left: u64,
    /// The time of the next update, in nanoseconds, and the time between two updates.
    next_update: u64,
    period: u64,
}

/// RFC 8033 section 5.4: below the first sum nothing is dropped, and from the second one on a packet is
/// certainly dropped.
const LEAST_ACCUMULATED: f64 = 0.85;
const MOST_ACCUMULATED: f64 = 8.5;

/// RFC 8033 section 4.1: while no more than two packets of 1500 B wait, nothing is dropped.
const SPARED_BYTES: u64 = 2 * 1500;

impl<R: Draw> Control<R> {
    pub(super) fn new(config: PieConfig, rng: R) -> Self {
        let burst = config.burst.as_nanos();
        let first_update = config.first_update.unwrap_or(config.update).as_nanos();
        // Linux does not spare two waiting packets (`pie_drop_early`), and bounds the probability by what its
        // counter holds (`pie_calculate_probability`).
        let (spared_bytes, overflow) = match config.variant {
            PieVariant::Rfc => (SPARED_BYTES, 1.0),
            PieVariant::Linux => (SPARED_BYTES - 1, LINUX_OVERFLOW),
        };
        Self {
            target: config.target.as_secs_f64(),
            spared_bytes,
            overflow,
            config,
            rng,
            probability: 0.0,
            accumulated: 0.0,
            delay: 0.0,
            old_delay: 0.0,
            burst_left: burst,
            next_update: first_update,
            period: first_update,
        }
    }

    /// The same control with other random numbers.
    pub(super) fn with_rng(&self, rng: R) -> Self {
        Self { config: self.config.clone(), rng, ..*self }
    }

    /// Whether to keep a packet that comes to a queue; if not, because it is full or by chance, it is added
    /// to `drops`.
    pub(super) fn admits(
        &mut self,
        now: u64,
        packet: &mut Held,
        queue: &Fifo,
        is_full: bool,
        drops: &mut Drops,
    ) -> bool {
        let backlog = queue.backlog().bytes;
        self.update_until(now, backlog);
        if is_full {
            // A drop starts the accumulation again.
            self.accumulated = 0.0;
            drops.overflow(*packet);
            return false;
        }
        if self.drops_early(backlog) && !(self.may_mark() && mark(packet)) {
            drops.early(*packet);
            return false;
        }
        true
    }

    /// The next packet to send.
    pub(super) fn dequeue(&mut self, now: u64, queue: &mut Fifo) -> Option<Held> {
        self.update_until(now, queue.backlog().bytes);
        let packet = queue.pop_oldest()?;
        self.has_left(now - packet.arrived, queue.bytes());
        Some(packet)
    }

    /// Handles the departure of a packet after this many nanoseconds, with this many bytes waiting.
    fn has_left(&mut self, waited: u64, bytes: u64) {
        self.delay = if bytes == 0 { 0.0 } else { waited as f64 / 1e9 };
    }

    fn may_mark(&self) -> bool {
        self.config.ecn && self.probability <= self.config.mark_up_to.get()
    }

    /// Whether a packet is dropped early (RFC 8033 sections 4.1 and 5.4).
    fn drops_early(&mut self, bytes: u64) -> bool {
        if self.burst_left > 0 {
            return false;
        }
        let is_calm = self.delay < self.target / 2.0 && self.probability < 0.2;
        if is_calm || bytes <= self.spared_bytes {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < LEAST_ACCUMULATED {
            return false;
        }
        let is_dropped = self.accumulated >= MOST_ACCUMULATED || self.rng.bernoulli(self.probability);
        if is_dropped {
            self.accumulated = 0.0;
        }
        is_dropped
    }

    /// Makes the updates up to `now`, with the bytes that have waited since the last packet came or left.
    fn update_until(&mut self, now: u64, bytes: u64) {
        while self.next_update <= now {
            if self.is_at_rest() {
                // Nothing changes until a packet has waited.
                let update = self.config.update.as_nanos();
                self.next_update += (now - self.next_update) / update * update + update;
                self.period = update;
                return;
            }
            self.update(bytes);
            self.period = self.config.update.as_nanos();
            self.next_update += self.period;
        }
    }

    /// Whether updates would change nothing.
    fn is_at_rest(&self) -> bool {
        self.probability == 0.0
            && self.delay == 0.0
            && self.old_delay == 0.0
            && self.burst_left == self.config.burst.as_nanos()
    }

    /// Updates the probability (RFC 8033 sections 4.2 and 4.4).
    fn update(&mut self, bytes: u64) {
        let Self { delay, old_delay, target, .. } = *self;
        let is_tiny = delay == 0.0 && bytes > 0;
        let error = self.config.alpha * (delay - target) + self.config.beta * (delay - old_delay);
        let mut change = error / scale(self.probability);
        // RFC 8033 section 5.5.
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        // Linux (`pie_calculate_probability`) reacts to a long delay at once.
        if delay > 0.25 {
            change += 0.02;
        }
        self.probability = (self.probability + change).max(0.0);
        if self.probability >= self.overflow {
            self.probability = 1.0;
        }
        if delay == 0.0 && old_delay == 0.0 && !is_tiny {
            // RFC 8033 section 4.2; Linux has 1 - 1/64.
            self.probability *= 1.0 - 1.0 / 64.0;
            if self.probability < LEAST_PROBABILITY {
                self.probability = 0.0;
            }
        }
        self.burst_left = self.burst_left.saturating_sub(self.period);
        if self.probability == 0.0 && delay < target / 2.0 && old_delay < target / 2.0 {
            self.burst_left = self.config.burst.as_nanos();
        }
        self.old_delay = delay;
    }
}

/// Linux counts in units of 2^-56 in 64 bits, and only what exceeds them becomes 1.
const LINUX_OVERFLOW: f64 = 256.0;

/// A smaller probability counts as 0; Linux counts in 2^-56.
const LEAST_PROBABILITY: f64 = 1.0 / (1_u64 << 56) as f64;

/// The number by which a change is divided at this probability (RFC 8033 section 4.2).
fn scale(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] =
        [(0.000_001, 2048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
    STEPS.iter().find(|(below, _)| probability < *below).map_or(1.0, |&(_, divisor)| divisor)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, packet, place};
    use super::*;
    use crate::net::packets::DropCause;

    const MILLI: u64 = 1_000_000;

    /// RFC 8033 section 4.2 limits the probability to 1; Linux does not, and an overflow of its 64 bits gives
    /// 1.
    #[test]
    fn only_linux_lets_the_probability_grow_beyond_one() {
        let after = |probability: f64, is_linux: bool| {
            let variant = if is_linux { PieVariant::Linux } else { PieVariant::Rfc };
            let mut control = PieConfig { variant, ..Default::default() }.build(place()).unwrap().control;
            // With a long delay, 2 % for what is above the target, and 2 % for being above 250 ms.
            (control.probability, control.delay, control.old_delay) = (probability, 0.3, 0.3);
            control.update(9_000);
            control.probability
        };
        assert_eq!(after(0.99, false), 1.0);
        assert!((after(0.99, true) - 1.03).abs() < 1e-12);
        assert_eq!(after(255.97, true), 1.0);
    }

    /// The probability after each update when the delay is always 20 ms, computed by hand.
    #[test]
    fn the_probability_follows_the_delay() {
        let mut pie = PieConfig::default().build(place()).unwrap();
        let control = &mut pie.control;
        control.delay = 0.02;
        control.update(9_000);
        // (0.125 x 0.005 + 1.25 x 0.02) / 2048.
        let first = 0.025_625 / 2048.0;
        assert!((control.probability - first).abs() < 1e-15);
        control.update(9_000);
        // There is no growth any more, and the probability is from 0.00001 to 0.0001.
        assert!((control.probability - first - 0.000_625 / 128.0).abs() < 1e-15);
        assert_eq!(control.burst_left, 120 * MILLI);
        control.probability = 0.5;
        control.delay = 0.3;
        control.update(9_000);
        assert!((control.probability - 0.54).abs() < 1e-12);
    }

    /// RFC 8033 spares two packets that wait, and Linux does not.
    #[test]
    fn short_queues_are_spared() {
        let rng = || place().streams.stream("test");
        for (control, most) in [
            (Control::new(PieConfig::default(), rng()), 3000),
            (Control::new(PieConfig { variant: PieVariant::Linux, ..Default::default() }, rng()), 2999),
        ] {
            let mut control = Control { probability: 1.0, delay: 0.1, burst_left: 0, ..control };
            assert!(!control.drops_early(most));
            assert!(control.drops_early(most + 1));
        }
    }

    /// A delay of 30 ms that nothing changes, as packets are marked: after the first update, which sees it
    /// grow, the probability rises by alpha (30 ms - 15 ms) / s, where s depends on it (RFC 8033 section
    /// 4.2). So a band from a to b is passed in s (b - a) / (alpha 15 ms) updates, and the probability is
    /// linear in time within it.
    #[test]
    fn the_probability_is_that_of_the_closed_form() {
        const BANDS: [(f64, f64); 7] = [
            (1e-6, 2048.0),
            (1e-5, 512.0),
            (1e-4, 128.0),
            (1e-3, 32.0),
            (1e-2, 8.0),
            (1e-1, 2.0),
            (1.0, 1.0),
        ];
        let expected = |updates: u64| {
            let (mut probability, mut left) = (0.125 * 0.015 / 2048.0 + 1.25 * 0.03 / 2048.0, updates - 1);
            for (edge, divisor) in BANDS {
                let step = 0.125 * 0.015 / divisor;
                let passed = (((edge - probability) / step).ceil().max(0.0) as u64).min(left);
                probability += passed as f64 * step;
                left -= passed;
            }
            probability
        };
        let config =
            PieConfig { ecn: true, mark_up_to: Probability::new(1.0).unwrap(), ..Default::default() };
        let mut pie = config.build(place()).unwrap();
        let mut drops = Drops::default();
        // One packet leaves each millisecond; the first one leaves 30 ms after it came, between two updates.
        let mut checked = 0;
        for step in 0..6000 {
            let now = step * MILLI;
            pie.enqueue(now, packet(0, now, 0), &mut drops);
            if step >= 30 {
                let sent = pie.dequeue(now, &mut drops).unwrap();
                assert_eq!(now - sent.arrived, 30 * MILLI);
            }
            // No packet had left at the update at 30 ms.
            if step % 15 == 1 && step > 45 {
                let due = expected(step / 15 - 2);
                let found = pie.control.probability;
                assert!((found / due - 1.0).abs() < 1e-9, "{found} {due} after {step} ms");
                checked += 1;
            }
        }
        assert!(checked > 390 && drops.0.is_empty() && pie.control.probability > 0.2);
    }

    /// Twice as much arrives as leaves, so half of it is dropped in the end. Below a probability of 0.85 no
    /// two packets in a row are dropped (section 5.4), so it settles there.
    #[test]
    fn a_constant_overload_is_halved() {
        let mut pie = PieConfig::default().build(place()).unwrap();
        let (drops, _) = overload(&mut pie, MILLI, 2, 60_000 * MILLI);
        let late: Vec<_> = drops.iter().filter(|(at, _)| *at >= 30_000 * MILLI).collect();
        assert!(late.iter().all(|(_, cause)| *cause == DropCause::Aqm));
        assert!((late.len() as f64 / 30_000.0 - 1.0).abs() < 0.01, "{}", late.len());
        assert!((pie.control.probability - 0.85).abs() < 0.05, "{}", pie.control.probability);
        assert!(drops[0].0 > 150 * MILLI, "a burst passes");
    }

    /// Nothing is dropped before the first update, however long packets wait.
    #[test]
    fn the_first_update_can_be_late() {
        let first_drop = |first_update| {
            let config = PieConfig { first_update, ..Default::default() };
            overload(&mut config.build(place()).unwrap(), MILLI, 2, 2_000 * MILLI).0[0].0
        };
        let late = first_drop(Some(Duration::from_millis(500)));
        assert!((500 * MILLI..600 * MILLI).contains(&late), "{late}");
        assert!(first_drop(None) < 450 * MILLI);
    }

    #[test]
    fn marks_replace_drops_up_to_a_probability() {
        let config = PieConfig { ecn: true, ..Default::default() };
        let mut pie = config.build(place()).unwrap();
        let (drops, marks) = overload(&mut pie, MILLI, 1, 2_000 * MILLI);
        assert!(drops.is_empty() && marks == 0, "no queue");
        let (drops, marks) = overload(&mut config.build(place()).unwrap(), MILLI, 2, 20_000 * MILLI);
        assert!(marks > 0 && !drops.is_empty(), "{marks}");
    }
}
