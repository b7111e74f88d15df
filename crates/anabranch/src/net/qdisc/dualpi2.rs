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

use anabranch_transport::ground::Ecn;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, mark};
use crate::net::packets::{Held, Waiting};
use crate::net::sojourns::Sojourns;

declare! {
    /// The scalars of DualPI2.
    SCALARS:
    /// L4S packets marked because they had waited longer than the step.
    STEP_MARKED_PACKETS = "step_marked_packets": One;
    /// Mean of the base probability p' over its updates.
    MEAN_BASE_PROBABILITY = "mean_base_probability": One;
}

declare! {
    /// The scalars of each of its queues, beside waiting times.
    LANE_SCALARS:
    /// Packets put into the queue, cross traffic included.
    PACKETS = "packets": One;
}

/// DualPI2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DualPi2Config")]
pub struct DualPi2Config {
    /// Most packets that wait in both queues, at least 1; a packet that finds as many is dropped. Default:
    /// 10000.
    pub packets: u32,
    /// The waiting time that the classic queue is held to, from 1 ms to 1 s. Default: 15 ms.
    pub target: Duration,
    /// The longest round-trip time that is expected, from 3 ms to 10 s; `update`, `alpha` and `beta` follow
    /// from it with the variant `rfc`, and with no other it may be given. Default: 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_max: Option<Duration>,
    /// Time between updates of the base probability, from 1 ms to 1 s. Default: the smaller of `target` and
    /// `rtt_max` / 3; in Linux 16 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Duration>,
    /// Change of the base probability per update and second above the target, from 0 to 100. Default: 0.1
    /// `update` / `rtt_max`^2; in Linux 41/256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Change of the base probability per update and second of growth, from 0 to 100. Default: 0.3 /
    /// `rtt_max`; in Linux 819/256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// k: how many times the base probability is that with which L4S packets are marked; from 1 to 10.
    /// Default: 2.
    pub coupling: f64,
    /// L4S packets that have waited this long are marked, if others wait behind them. With the variant
    /// `linux` it is for longer than this, and whatever waits behind. Default: 1 ms.
    pub step: Duration,
    /// In place of `step`: L4S packets are marked that leave more than this many behind. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_packets: Option<u32>,
    /// The classic queue's share of the link while both have packets; more than 0 % and less than 100 %.
    /// Default: 10 %.
    pub classic_share: Probability,
    /// A packet is dropped that would take the memory in both queues above this; each counts with twice its
    /// size. Default: no limit; that of Linux, two MTUs for each of `packets`, is never reached before
    /// `packets` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Packets that say ECT(0) count as L4S as well. Default: false.
    pub any_ect: bool,
    /// Decide by the coupled probabilities at arrival, not at departure; only with the variant `linux`. The
    /// step is always for departures. Default: false.
    pub drop_early: bool,
    /// When marks cannot say more, drop L4S packets as well, and ECN-capable classic ones; without it, the
    /// queue grows until it is full. Default: true.
    pub drop_overload: bool,
    /// Whose DualPI2 it is. Default: `rfc`.
    pub variant: DualPi2Variant,
}

/// Where Linux's DualPI2 differs from that of RFC 9332.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DualPi2Variant")]
pub enum DualPi2Variant {
    /// That of RFC 9332 appendix A: constants follow from `rtt_max`, marks and drops are spread evenly.
    #[default]
    Rfc,
    /// That of Linux 6.18: constants of its own, marks and drops are drawn, and none while less than 3000 B
    /// wait.
    Linux,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            packets: 10_000,
            target: Duration::from_millis(15),
            rtt_max: None,
            update: None,
            alpha: None,
            beta: None,
            coupling: 2.0,
            step: Duration::from_millis(1),
            step_packets: None,
            classic_share: Probability::new(0.1).unwrap_or(Probability::ZERO),
            memory_limit: None,
            any_ect: false,
            drop_early: false,
            drop_overload: true,
            variant: DualPi2Variant::Rfc,
        }
    }
}

/// RFC 9332 appendix A.1, `RTT_max`.
const RTT_MAX: Duration = Duration::from_millis(100);

impl DualPi2Config {
    fn check(&self, place: Place<'_>) -> Result<(), String> {
        let key = place.key;
        let within = |name: &str, value: Duration, least: Duration, most: Duration| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("{key}.{name} is {value}, allowed is {least} to {most}"))
        };
        let (milli, second) = (Duration::from_millis(1), Duration::from_secs(1));
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        within("target", self.target, milli, second)?;
        if let Some(longest) = self.rtt_max {
            within("rtt_max", longest, Duration::from_millis(3), Duration::from_secs(10))?;
            if self.variant == DualPi2Variant::Linux {
                return Err(format!(
                    "{key}.rtt_max is {longest}, allowed with variant = \"linux\" is none: it has alpha and beta"
                ));
            }
        }
        if let Some(update) = self.update {
            within("update", update, milli, second)?;
        }
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if let Some(value) = value
                && !(0.0..=100.0).contains(&value)
            {
                return Err(format!("{key}.{name} is {value}, allowed is 0 to 100"));
            }
        }
        if !(1.0..=10.0).contains(&self.coupling) {
            return Err(format!("{key}.coupling is {}, allowed is 1 to 10", self.coupling));
        }
        if let Some(packets) = self.step_packets
            && self.step != Self::default().step
        {
            return Err(format!(
                "{key}.step_packets is {packets}, allowed beside step is none: one of them is the threshold"
            ));
        }
        if self.memory_limit == Some(Bytes(0)) {
            return Err(format!("{key}.memory_limit is 0 B, allowed is at least 1 B"));
        }
        if self.drop_early && self.variant == DualPi2Variant::Rfc {
            return Err(format!("{key}.drop_early is true, allowed with variant = \"rfc\" is only false"));
        }
        Ok(())
    }

    pub(super) fn build(&self, place: Place<'_>) -> Result<DualPi2, String> {
        self.check(place)?;
        let classic_weight = libm::round(self.classic_share.get() * f64::from(WEIGHTS)) as i64;
        if !(1..i64::from(WEIGHTS)).contains(&classic_weight) {
            return Err(format!(
                "{}.classic_share is {}, allowed is 0.01 % to less than 100 %",
                place.key, self.classic_share
            ));
        }
        let credit = FIRST_CREDIT * (2 * classic_weight - i64::from(WEIGHTS));
        let is_linux = self.variant == DualPi2Variant::Linux;
        Ok(DualPi2 {
            config: Box::new(self.clone()),
            classic_weight,
            classic: Lane::default(),
            l4s: Lane::default(),
            held_back: Waiting::default(),
            base: self.base(),
            rng: is_linux.then(|| place.streams.stream(place.component)),
            credit,
            first_credit: credit,
            step_marks: 0,
        })
    }

    fn base(&self) -> Base {
        let longest = self.rtt_max.unwrap_or(RTT_MAX);
        let is_linux = self.variant == DualPi2Variant::Linux;
        let update = self.update.unwrap_or_else(|| match self.variant {
            DualPi2Variant::Rfc => self.target.min(Duration::from_nanos(longest.as_nanos() / 3)),
            DualPi2Variant::Linux => Duration::from_millis(16),
        });
        let (interval, longest) = (update.as_secs_f64(), longest.as_secs_f64());
        // Linux, `dualpi2_reset_default`.
        let (alpha, beta) = if is_linux {
            (41.0 / 256.0, 819.0 / 256.0)
        } else {
            (0.1 * interval / (longest * longest), 0.3 / longest)
        };
        Base {
            target: self.target.as_secs_f64(),
            update: update.as_nanos(),
            alpha: self.alpha.unwrap_or(alpha),
            beta: self.beta.unwrap_or(beta),
            // Without drops, L4S packets are marked with at most certainty, so that windows stay fair (Linux,
            // `calculate_probability`).
            most: if self.drop_overload { 1.0 } else { 1.0 / self.coupling },
            probability: 0.0,
            last_delay: 0.0,
            next_update: update.as_nanos(),
            sum: 0.0,
            updates: 0,
        }
    }
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
    /// Packets that were put into it.
    arrived: u64,
    sojourns: Box<Sojourns>,
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
        lane.arrived += 1;
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
            lane.sojourns.record(now - packet.arrived);
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
        [&self.classic, &self.l4s].map(|lane| lane.queue.memory() + lane.sojourns.memory()).iter().sum()
    }

    fn report(&self, report: &mut Report<'_>) {
        for (name, lane) in [("classic", &self.classic), ("l4s", &self.l4s)] {
            let mut report = report.section(name);
            report.count(PACKETS, lane.arrived);
            lane.sojourns.report(&mut report);
        }
        report.count(STEP_MARKED_PACKETS, self.step_marks);
        report.mean(MEAN_BASE_PROBABILITY, self.base.sum, self.base.updates);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn dualpi2() -> DualPi2 {
        DualPi2Config::default().build(place()).unwrap()
    }

    fn with_ecn(slot: u32, now: u64, ecn: Ecn) -> Held {
        Held { ecn, ..packet(slot, now, 0) }
    }

    /// RFC 9332 appendix A.1: an update each 15 ms, alpha = 0.1 x 0.015 / 0.01 = 0.15 and beta = 3 per
    /// second.
    #[test]
    fn the_probability_follows_the_delay() {
        let mut queue = dualpi2();
        assert_eq!(queue.base.update, 15 * MILLI);
        let mut drops = Drops::default();
        // The packet has waited for 10 ms at the first update, 25 ms at the second.
        queue.enqueue(5 * MILLI, packet(0, 5 * MILLI, 0), &mut drops);
        queue.update_until(30 * MILLI);
        let first = (0.15 * (0.010 - 0.015) + 3.0 * 0.010_f64).max(0.0);
        let second = first + 0.15 * (0.025 - 0.015) + 3.0 * 0.015;
        assert!((queue.base.probability - second).abs() < 1e-12, "{}", queue.base.probability);
    }

    #[test]
    fn ect1_and_ce_are_l4s() {
        let mut queue = dualpi2();
        let mut drops = Drops::default();
        for (slot, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().enumerate() {
            queue.enqueue(0, with_ecn(slot as u32, 0, ecn), &mut drops);
        }
        // The L4S queue is served first.
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
        assert_eq!(sent, [2, 3, 0, 1]);
    }

    /// Lets `count` packets of a kind pass; gives how many are marked, and dropped.
    fn pass(queue: &mut DualPi2, ecn: Ecn, count: u32) -> (u32, usize) {
        let (mut drops, mut marked) = (Drops::default(), 0);
        queue.base.next_update = u64::MAX;
        for slot in 0..count {
            queue.enqueue(0, with_ecn(slot, 0, ecn), &mut drops);
            marked += u32::from(queue.dequeue(0, &mut drops).is_some_and(|packet| packet.is_marked));
        }
        (marked, drops.0.len())
    }

    /// The classic queue drops with p'^2, and L4S is marked with k p' (section 2.1, equation 1): 4 % and 40 %
    /// at p' = 0.2.
    #[test]
    fn probabilities_are_coupled() {
        let mut queue = dualpi2();
        queue.base.probability = 0.2;
        assert!(pass(&mut queue, Ecn::NotEct, 10_000).1.abs_diff(400) <= 1);
        assert!(pass(&mut queue, Ecn::Ect0, 10_000).0.abs_diff(400) <= 1);
        let (marked, dropped) = pass(&mut queue, Ecn::Ect1, 10_000);
        assert!(marked.abs_diff(4000) <= 1 && dropped == 0, "{marked} {dropped}");
    }

    /// At p' = 0.6, k p' is above 1: 36 % of everything is dropped, and what is left of L4S is marked.
    #[test]
    fn overload_drops_what_marks_cannot_hold() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let mut queue = dualpi2();
            queue.base.probability = 0.6;
            let (marked, dropped) = pass(&mut queue, ecn, 10_000);
            assert!(dropped.abs_diff(3600) <= 1, "{ecn:?} {dropped}");
            let kept = if ecn == Ecn::Ect1 { 6400 } else { 0 };
            assert!(marked.abs_diff(kept) <= 1, "{ecn:?} {marked}");
        }
    }

    #[test]
    fn l4s_packets_are_marked_from_the_step_on() {
        let mut queue = dualpi2();
        let mut drops = Drops::default();
        for slot in 0..5 {
            queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
        }
        let mut marks = |now| queue.dequeue(now, &mut drops).unwrap().is_marked;
        assert!(!marks(MILLI - 1));
        assert!(!marks(MILLI), "the first of them makes a whole with the next");
        assert!(marks(MILLI));
        // At most one packet waits behind.
        assert!(!marks(2 * MILLI));
    }

    /// With both queues always full, nine of ten packets come from the L4S queue, and the classic queue is
    /// not starved.
    #[test]
    fn queues_share_by_weight() {
        let mut queue = dualpi2();
        let mut drops = Drops::default();
        queue.base.next_update = u64::MAX;
        let mut classic = 0;
        for slot in 0..2000 {
            queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
            queue.enqueue(0, with_ecn(slot, 0, Ecn::NotEct), &mut drops);
        }
        for _ in 0..1000 {
            classic += u32::from(queue.dequeue(0, &mut drops).unwrap().ecn == Ecn::NotEct);
        }
        assert_eq!(classic, 100);
    }

    /// A queue that was alone has used up nothing: after a thousand packets of L4S, the classic queue waits
    /// for its turn.
    #[test]
    fn a_queue_that_is_alone_keeps_its_credit() {
        let mut queue = dualpi2();
        let mut drops = Drops::default();
        queue.base.next_update = u64::MAX;
        for slot in 0..1010 {
            queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
        }
        for _ in 0..1000 {
            queue.dequeue(0, &mut drops);
        }
        queue.enqueue(0, with_ecn(2000, 0, Ecn::NotEct), &mut drops);
        queue.enqueue(0, with_ecn(2001, 0, Ecn::NotEct), &mut drops);
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
        // The L4S queue is 1500 B x 80 % ahead, and the classic queue gains a tenth of each packet, so it has
        // its turn after the ninth.
        let position = sent.iter().position(|&slot| slot == 2000).unwrap();
        assert_eq!((position, sent.len()), (9, 12), "{sent:?}");
    }

    #[test]
    fn updates_at_rest_are_skipped() {
        let mut queue = dualpi2();
        queue.update_until(1_000_000_000_000_007);
        let next = queue.base.next_update;
        assert!(
            next > 1_000_000_000_000_007 && next <= 1_000_015_000_000_007 && next.is_multiple_of(15 * MILLI),
            "{next}"
        );
    }

    fn linux() -> DualPi2Config {
        DualPi2Config { variant: DualPi2Variant::Linux, ..Default::default() }
    }

    /// Linux, `dualpi2_reset_default` and `calculate_probability`: in units of 2^-32, alpha is 41 x 2^32 /
    /// 256 / 10^9 x 2^6 = 44 per 64 ns and beta 879, each rounded down. The longer of the two delays counts.
    #[test]
    fn linux_integrates_the_longer_delay_with_its_own_constants() {
        let mut queue = linux().build(place()).unwrap();
        let mut drops = Drops::default();
        queue.enqueue(0, with_ecn(0, 0, Ecn::NotEct), &mut drops);
        queue.enqueue(10 * MILLI, with_ecn(1, 10 * MILLI, Ecn::Ect1), &mut drops);
        let (mut probability, mut last) = (0_i64, 0_i64);
        for update in 1..=12 {
            let at = update * 16 * MILLI;
            queue.update_until(at);
            // The classic packet leaves after six updates, and the L4S packet is the oldest one.
            let delay = if update <= 6 { at } else { at - 10 * MILLI } as i64;
            let delta = (delay - 15 * MILLI as i64) * 44 + (delay - last) * 879;
            (probability, last) = ((probability + delta / 64).clamp(0, u32::MAX.into()), delay);
            let due = probability as f64 / f64::from(u32::MAX);
            assert!((queue.base.probability / due - 1.0).abs() < 6e-4, "{} {due}", queue.base.probability);
            if update == 6 {
                queue.classic.queue.pop_oldest();
            }
        }
        assert!(queue.base.probability < 1.0);
    }

    /// Lets packets of a kind pass, while many others wait; gives the shares that are marked and dropped.
    /// Drawn shares of 10,000 are within 0.02, four standard deviations.
    fn shares(config: &DualPi2Config, probability: f64, ecn: Ecn) -> (f64, f64) {
        const COUNT: u32 = 10_000;
        let mut queue = DualPi2Config { packets: 2 * COUNT, ..config.clone() }.build(place()).unwrap();
        let (mut drops, mut marked) = (Drops::default(), 0);
        queue.base.next_update = u64::MAX;
        queue.base.probability = probability;
        for slot in 0..COUNT + 8 {
            queue.enqueue(0, with_ecn(slot, 0, ecn), &mut drops);
        }
        while queue.waiting().packets > 8 {
            marked += u32::from(queue.dequeue(0, &mut drops).is_some_and(|packet| packet.is_marked));
        }
        (f64::from(marked) / f64::from(COUNT), drops.0.len() as f64 / f64::from(COUNT))
    }

    /// Linux, `must_drop`, at departure and at arrival: p'^2 for classic packets, k p' for L4S; overload from
    /// k p' > 1 on.
    #[test]
    fn linux_draws_its_marks_and_drops() {
        for drop_early in [false, true] {
            let config = DualPi2Config { drop_early, ..linux() };
            for (probability, ecn, marked, dropped) in [
                (0.2, Ecn::NotEct, 0.0, 0.04),
                (0.2, Ecn::Ect0, 0.04, 0.0),
                (0.2, Ecn::Ect1, 0.4, 0.0),
                (0.6, Ecn::NotEct, 0.0, 0.36),
                (0.6, Ecn::Ect0, 0.0, 0.36),
                (0.6, Ecn::Ect1, 0.64, 0.36),
            ] {
                let found = shares(&config, probability, ecn);
                let is_close = |found: f64, due: f64| (found - due).abs() < 0.02;
                assert!(
                    is_close(found.0, marked) && is_close(found.1, dropped),
                    "{drop_early} {probability} {ecn:?} {found:?}"
                );
            }
        }
    }

    /// Linux, `calculate_probability` without `drop_overload`: p' is at most 1/k, so every L4S packet is
    /// marked and ECN-capable classic ones are never dropped.
    #[test]
    fn without_drops_on_overload_the_probability_has_a_limit() {
        for variant in [DualPi2Variant::Linux, DualPi2Variant::Rfc] {
            let config = DualPi2Config { drop_overload: false, variant, ..Default::default() };
            let mut base = config.base();
            base.update(10.0);
            assert_eq!(base.probability, 0.5, "{variant:?}");
            for (ecn, marked, dropped) in
                [(Ecn::NotEct, 0.0, 0.25), (Ecn::Ect0, 0.25, 0.0), (Ecn::Ect1, 1.0, 0.0)]
            {
                let found = shares(&config, 0.5, ecn);
                let is_close = |found: f64, due: f64| (found - due).abs() < 0.02;
                assert!(is_close(found.0, marked) && is_close(found.1, dropped), "{variant:?} {found:?}");
            }
        }
    }

    /// Linux, `must_drop`: nothing is marked or dropped while less than two MTUs wait.
    #[test]
    fn linux_spares_a_short_queue() {
        for (behind, marks) in [(1, false), (2, true)] {
            let mut queue = linux().build(place()).unwrap();
            let mut drops = Drops::default();
            queue.base.probability = 0.5;
            for slot in 0..=behind {
                queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
            }
            assert_eq!(queue.dequeue(0, &mut drops).unwrap().is_marked, marks, "{behind}");
        }
    }

    /// Linux, `do_step_aqm`: by time it is for longer than the step, whatever waits behind; by packets it is
    /// for more of them behind than the step.
    #[test]
    fn the_steps_of_linux() {
        let marks = |config: DualPi2Config, behind: u32, at: u64| {
            let mut queue = config.build(place()).unwrap();
            let mut drops = Drops::default();
            for slot in 0..=behind {
                queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
            }
            let is_marked = queue.dequeue(at, &mut drops).unwrap().is_marked;
            assert_eq!(queue.step_marks, u64::from(is_marked));
            is_marked
        };
        assert!(!marks(linux(), 0, MILLI) && marks(linux(), 0, MILLI + 1));
        let packets = || DualPi2Config { step_packets: Some(3), ..linux() };
        assert!(!marks(packets(), 3, 10 * MILLI) && marks(packets(), 4, 0));
    }

    #[test]
    fn memory_has_a_limit_and_any_ect_is_l4s() {
        let limited = DualPi2Config { memory_limit: Some(Bytes(9000)), any_ect: true, ..Default::default() };
        let mut queue = limited.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().enumerate() {
            queue.enqueue(0, with_ecn(slot as u32, 0, ecn), &mut drops);
        }
        assert_eq!((drops.0.len(), drops.0[0].0.slot), (1, 3));
        assert_eq!([queue.classic.arrived, queue.l4s.arrived], [1, 2]);
        assert_eq!(queue.dequeue(0, &mut drops).unwrap().slot, 1);
    }

    #[test]
    fn impossible_settings_are_refused() {
        let milli = |millis| Some(Duration::from_millis(millis));
        for (config, message) in [
            (DualPi2Config { update: milli(0), ..linux() }, "queue.update is 0 s, allowed is 1 ms to 1 s"),
            (DualPi2Config { alpha: Some(-1.0), ..linux() }, "queue.alpha is -1, allowed is 0 to 100"),
            (DualPi2Config { beta: Some(f64::NAN), ..linux() }, "queue.beta is NaN, allowed is 0 to 100"),
            (
                DualPi2Config { rtt_max: milli(50), ..linux() },
                "queue.rtt_max is 50 ms, allowed with variant = \"linux\" is none: it has alpha and beta",
            ),
            (
                DualPi2Config { step_packets: Some(3), step: Duration::ZERO, ..linux() },
                "queue.step_packets is 3, allowed beside step is none: one of them is the threshold",
            ),
            (
                DualPi2Config { memory_limit: Some(Bytes(0)), ..linux() },
                "queue.memory_limit is 0 B, allowed is at least 1 B",
            ),
            (
                DualPi2Config { drop_early: true, ..Default::default() },
                "queue.drop_early is true, allowed with variant = \"rfc\" is only false",
            ),
        ] {
            assert_eq!(config.build(place()).unwrap_err(), message);
        }
    }
}
