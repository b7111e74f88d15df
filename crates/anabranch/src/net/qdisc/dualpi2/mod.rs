//! DualPI2 (RFC 9332 appendix A): dual-queue coupled active queue management for L4S.
//!
//! Packets that say ECT(1) or CE wait in the L4S queue, all others in the classic queue. A proportional
//! integral controller moves a base probability p' every update by the longer of the two queues' waiting
//! times (appendix A.2); classic packets are dropped or marked with p'^2, L4S packets are marked with k p'
//! or, when they have waited for `step`, always (section 2.4). When k p' reaches 1, marks cannot say more:
//! then L4S packets are dropped with p'^2 as well, and ECN-capable classic ones instead of marked (section
//! 4.2.3, appendix A.2). Drops and marks are spread evenly by `recur` (appendix A.1), so nothing is drawn.
//! The two queues share the link by weighted round robin, as in Linux (`sch_dualpi2.c`), with the L4S queue
//! first. Constants follow from R = `rtt_max` as in appendix A.1: an update each min(target, R / 3), alpha =
//! 0.1 update / R^2, beta = 0.3 / R. Deviations: the limit is in packets, as Linux has it, and the step
//! stands for the ramp of appendix A.1, as in Linux.
//!
//! `variant = "linux"` is `sch_dualpi2.c` of Linux 6.18: an update each 16 ms with alpha = 41/256 Hz and beta
//! = 819/256 Hz, marks and drops that are drawn, none while less than two MTUs wait (`must_drop`), and a step
//! that marks beside them (`do_step_aqm`). What is left out: filters of `tc` and the class of packets that
//! are neither marked nor dropped, which only filters choose; `min_qlen_step`, which is 0 by default;
//! `split_gso`, as packets are never aggregated here. Linux rounds alpha and beta down to 44 and 879 units of
//! 2^-32 per 64 ns, 0.05 % less than here.

mod config;
#[cfg(test)]
mod tests;

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::{Draw as _, Rng};

use super::fifo::Fifo;
use super::interface::{Drops, QueueDisc, mark};
use super::lanes::Lane as Counted;
use crate::net::packets::{Held, Waiting};

pub use config::{DualPi2Config, DualPi2Variant};

declare! {
    /// The scalars of DualPI2.
    SCALARS:
    /// L4S packets marked because they had waited longer than the step.
    STEP_MARKED_PACKETS = "step_marked_packets": One;
    /// Mean of the base probability p' over its updates.
    MEAN_BASE_PROBABILITY = "mean_base_probability": One;
}

/// The sum of the two weights.
const WEIGHTS: u32 = 10_000;

/// Bytes that the queue with the larger weight is ahead of the other when both are empty: an MTU (Linux,
/// `dualpi2_calculate_c_protection`).
const FIRST_CREDIT: i64 = 1500;

/// The native marks of L4S are suppressed while no more packets than this wait (RFC 9332 appendix A.1,
/// `Th_len`).
const LEAST_LENGTH: u64 = 1;

/// Linux marks and drops nothing while less than two MTUs wait (`must_drop`).
const LEAST_BYTES: u64 = 2 * 1500;

/// Two queues whose marks and drops are coupled.
#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    config: Box<DualPi2Config>,
    /// The weight of the classic queue, out of `WEIGHTS`.
    classic_weight: i64,
    classic: Lane,
    l4s: Lane,
    /// What a shaper above has taken out and still holds.
    held_back: Waiting,
    base: Base,
    /// Linux's random numbers; with none, the RFC's rules hold.
    rng: Option<Rng>,
    /// Weighted bytes that the classic queue may send before the other; the classic queue has its turn while
    /// this is above 0.
    credit: i64,
    first_credit: i64,
    /// Packets that the step has marked.
    step_marks: u64,
}

/// A queue, and the likelihoods that have not added up to a whole yet.
#[derive(Clone, Debug, Default)]
struct Lane {
    queue: Fifo,
    likelihoods: f64,
    counted: Counted,
}

impl Lane {
    /// Whether to choose a packet: with this likelihood, evenly spread (RFC 9332 appendix A.1, `recur`).
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.likelihoods += likelihood;
        let is_chosen = self.likelihoods > 1.0;
        if is_chosen {
            self.likelihoods -= 1.0;
        }
        is_chosen
    }

    /// How long the first packet has waited, in nanoseconds.
    fn delay(&self, now: u64) -> u64 {
        self.queue.oldest().map_or(0, |packet| now - packet.arrived)
    }
}

/// The controller of the base probability. Times are in seconds, except where it says nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Base {
    target: f64,
    /// Nanoseconds from one update to the next.
    update: u64,
    alpha: f64,
    beta: f64,
    /// The largest probability.
    most: f64,
    probability: f64,
    last_delay: f64,
    /// The next update, in nanoseconds.
    next_update: u64,
    /// The sum of the probabilities after each update, and how many there were.
    sum: f64,
    updates: u64,
}

impl Base {
    /// Updates the base probability (RFC 9332 appendix A.1, `dualpi2_update`; Linux,
    /// `calculate_probability`).
    fn update(&mut self, delay: f64) {
        let change = self.alpha * (delay - self.target) + self.beta * (delay - self.last_delay);
        self.probability = (self.probability + change).clamp(0.0, self.most);
        self.last_delay = delay;
        self.sum += self.probability;
        self.updates += 1;
    }
}

impl DualPi2 {
    /// Makes the updates that are due up to `now`; nothing has come or left since the last packet did.
    fn update_until(&mut self, now: u64) {
        while self.base.next_update <= now {
            let at = self.base.next_update;
            let is_empty = self.classic.queue.len() + self.l4s.queue.len() == 0;
            if is_empty && self.base.probability == 0.0 && self.base.last_delay == 0.0 {
                // Nothing changes until a packet has waited.
                let skipped = (now - at) / self.base.update + 1;
                self.base.updates += skipped;
                self.base.next_update += skipped * self.base.update;
                return;
            }
            let delay = self.classic.delay(at).max(self.l4s.delay(at));
            self.base.update(delay as f64 / 1e9);
            self.base.next_update += self.base.update;
        }
    }

    fn backlog(&self) -> Waiting {
        self.waiting().and(self.held_back)
    }

    /// Whether there is no room for a packet of this size (Linux, `dualpi2_enqueue_skb`).
    fn is_full(&self, size: u32) -> bool {
        let memory = 2 * (self.waiting().bytes + u64::from(size));
        self.backlog().packets >= self.config.packets.into()
            || self.config.memory_limit.is_some_and(|limit| memory > limit.0)
    }

    /// Whether a packet belongs into the L4S queue (RFC 9332 section 2.3 and RFC 9331 section 5.1; Linux,
    /// `dualpi2_skb_classify`).
    fn is_l4s(&self, ecn: Ecn) -> bool {
        match ecn {
            Ecn::Ce | Ecn::Ect1 => true,
            Ecn::Ect0 => self.config.any_ect,
            Ecn::NotEct => false,
        }
    }

    /// The next packet by weighted round robin, and whether it comes from the L4S queue.
    fn schedule(&mut self) -> Option<(Held, bool)> {
        let is_classic = self.credit > 0 && self.classic.queue.len() > 0;
        if !is_classic && let Some(packet) = self.l4s.queue.pop_oldest() {
            return Some((packet, true));
        }
        self.classic.queue.pop_oldest().map(|packet| (packet, false))
    }

    /// Whether an L4S packet that leaves is marked for the time that it has waited or what it leaves behind.
    fn is_late(&self, now: u64, packet: &Held) -> bool {
        let (behind, waited, step) =
            (self.l4s.queue.len(), now - packet.arrived, self.config.step.as_nanos());
        match (self.config.step_packets, &self.rng) {
            (Some(most), _) => behind > most.into(),
            (None, Some(_)) => waited > step,
            (None, None) => behind > LEAST_LENGTH && waited >= step,
        }
    }

    /// Whether to drop a packet that leaves; it may be marked. The RFC's rules: appendix A.2.
    fn drops_evenly(&mut self, now: u64, packet: &mut Held, is_l4s: bool) -> bool {
        let probability = self.base.probability;
        let coupled = self.config.coupling * probability;
        let is_overloaded = self.config.drop_overload && coupled >= 1.0;
        if !is_l4s {
            // p_C has reached 1/k^2: overload disables ECN.
            return self.classic.recurs(probability * probability) && (is_overloaded || !mark(packet));
        }
        if is_overloaded && self.l4s.recurs(probability * probability) {
            return true;
        }
        let is_late = !is_overloaded && self.is_late(now, packet);
        let likelihood = if is_late { 1.0 } else { coupled.min(1.0) };
        if self.l4s.recurs(likelihood) {
            mark(packet);
            self.step_marks += u64::from(is_late);
        }
        false
    }

    /// Whether to drop a packet by the coupled probabilities; it may be marked (Linux, `must_drop`).
    fn drops_by_chance(&mut self, packet: &mut Held, is_l4s: bool) -> bool {
        let is_short = self.backlog().bytes < LEAST_BYTES;
        let Some(rng) = self.rng.as_mut().filter(|_| !is_short) else { return false };
        let probability = self.base.probability;
        let coupled = self.config.coupling * probability;
        // Without `drop_overload`, the probability is at most 1/k.
        let is_overloaded = self.config.drop_overload && coupled > 1.0;
        if is_l4s && !is_overloaded {
            if rng.bernoulli(coupled) {
                mark(packet);
            }
            return false;
        }
        let is_chosen = rng.bernoulli(probability) && rng.bernoulli(probability);
        if is_chosen && (is_overloaded || !mark(packet)) {
            return true;
        }
        if is_l4s {
            mark(packet);
        }
        false
    }

    /// Whether to drop a packet that leaves; it may be marked.
    fn drops(&mut self, now: u64, packet: &mut Held, is_l4s: bool) -> bool {
        if self.rng.is_none() {
            return self.drops_evenly(now, packet, is_l4s);
        }
        if !self.config.drop_early && self.drops_by_chance(packet, is_l4s) {
            return true;
        }
        // Linux, `do_step_aqm`.
        if is_l4s && self.is_late(now, packet) {
            mark(packet);
            self.step_marks += 1;
        }
        false
    }
}

impl QueueDisc for DualPi2 {
    fn enqueue(&mut self, now: u64, mut packet: Held, drops: &mut Drops) {
        self.update_until(now);
        if self.is_full(packet.size) {
            return drops.overflow(packet);
        }
        let is_l4s = self.is_l4s(packet.ecn);
        if self.config.drop_early && self.drops_by_chance(&mut packet, is_l4s) {
            return drops.early(packet);
        }
        let lane = if is_l4s { &mut self.l4s } else { &mut self.classic };
        lane.counted.enters();
        lane.queue.push(packet);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        self.update_until(now);
        while let Some((mut packet, is_l4s)) = self.schedule() {
            if self.drops(now, &mut packet, is_l4s) {
                drops.early(packet);
                continue;
            }
            // A queue that has the link to itself uses nothing up (Linux, `dequeue_packet`).
            let (lane, other, weight) = if is_l4s {
                (&mut self.l4s, &self.classic, self.classic_weight)
            } else {
                (&mut self.classic, &self.l4s, self.classic_weight - i64::from(WEIGHTS))
            };
            lane.counted.leaves(now, &packet);
            if other.queue.len() > 0 {
                self.credit += weight * i64::from(packet.size);
            }
            return Some(packet);
        }
        self.credit = self.first_credit;
        None
    }

    fn hold_back(&mut self, _: u64, held_back: Waiting) {
        self.held_back = held_back;
    }

    fn waiting(&self) -> Waiting {
        let [classic, l4s] = [self.classic.queue.waiting(), self.l4s.queue.waiting()];
        Waiting { packets: classic.packets + l4s.packets, bytes: classic.bytes + l4s.bytes }
    }

    fn memory(&self) -> usize {
        [&self.classic, &self.l4s].map(|lane| lane.queue.memory() + lane.counted.memory()).iter().sum()
    }

    fn report(&self, report: &mut Report<'_>) {
        for (name, lane) in [("classic", &self.classic), ("l4s", &self.l4s)] {
            lane.counted.report(name, report);
        }
        report.count(STEP_MARKED_PACKETS, self.step_marks);
        report.mean(MEAN_BASE_PROBABILITY, self.base.sum, self.base.updates);
    }
}
