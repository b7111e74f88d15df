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

use anabranch_transport::ground::Ecn;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, mark};
use crate::net::packets::{Held, Waiting};

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
    /// The longest round-trip time that is expected, from 3 ms to 10 s. Default: 100 ms.
    pub rtt_max: Duration,
    /// k: how many times the base probability is that with which L4S packets are marked; from 1 to 10.
    /// Default: 2.
    pub coupling: f64,
    /// L4S packets that have waited this long are marked, if others wait behind them. Default: 1 ms.
    pub step: Duration,
    /// The classic queue's share of the link while both have packets; more than 0 % and less than 100 %.
    /// Default: 10 %.
    pub classic_share: Probability,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            packets: 10_000,
            target: Duration::from_millis(15),
            rtt_max: Duration::from_millis(100),
            coupling: 2.0,
            step: Duration::from_millis(1),
            classic_share: Probability::new(0.1).unwrap_or(Probability::ZERO),
        }
    }
}

impl DualPi2Config {
    pub(super) fn build(&self, place: Place<'_>) -> Result<DualPi2, String> {
        let Self { packets, target, rtt_max, coupling, step, classic_share } = *self;
        let key = place.key;
        check_range(place, "packets", packets.into(), 1, u32::MAX.into())?;
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&target) {
            return Err(format!("{key}.target is {target}, allowed is 1 ms to 1 s"));
        }
        if !(Duration::from_millis(3)..=Duration::from_secs(10)).contains(&rtt_max) {
            return Err(format!("{key}.rtt_max is {rtt_max}, allowed is 3 ms to 10 s"));
        }
        if !(1.0..=10.0).contains(&coupling) {
            return Err(format!("{key}.coupling is {coupling}, allowed is 1 to 10"));
        }
        let classic_weight = libm::round(classic_share.get() * f64::from(WEIGHTS)) as i64;
        if !(1..i64::from(WEIGHTS)).contains(&classic_weight) {
            return Err(format!(
                "{key}.classic_share is {classic_share}, allowed is 0.01 % to less than 100 %"
            ));
        }
        let update = target.as_nanos().min(rtt_max.as_nanos() / 3);
        let (interval, longest) = (update as f64 / 1e9, rtt_max.as_secs_f64());
        let credit = FIRST_CREDIT * (2 * classic_weight - i64::from(WEIGHTS));
        Ok(DualPi2 {
            packets: packets.into(),
            step: step.as_nanos(),
            coupling,
            classic_weight,
            classic: Lane::default(),
            l4s: Lane::default(),
            held_back: Waiting::default(),
            base: Base {
                target: target.as_secs_f64(),
                update,
                alpha: 0.1 * interval / (longest * longest),
                beta: 0.3 / longest,
                probability: 0.0,
                last_delay: 0.0,
                next_update: update,
            },
            first_credit: credit,
            credit,
        })
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

/// Two queues whose marks and drops are coupled.
#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    packets: u64,
    /// The step threshold in nanoseconds.
    step: u64,
    coupling: f64,
    /// The weight of the classic queue, out of `WEIGHTS`.
    classic_weight: i64,
    classic: Lane,
    l4s: Lane,
    /// What a shaper above has taken out and still holds.
    held_back: Waiting,
    base: Base,
    /// Weighted bytes that the classic queue may send before the other; the classic queue has its turn while
    /// this is above 0.
    credit: i64,
    first_credit: i64,
}

/// A queue, and the likelihoods that have not added up to a whole yet.
#[derive(Clone, Debug, Default)]
struct Lane {
    queue: Fifo,
    likelihoods: f64,
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
    probability: f64,
    last_delay: f64,
    /// The next update, in nanoseconds.
    next_update: u64,
}

impl Base {
    /// Updates the base probability (RFC 9332 appendix A.1, `dualpi2_update`).
    fn update(&mut self, delay: f64) {
        let change = self.alpha * (delay - self.target) + self.beta * (delay - self.last_delay);
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        self.last_delay = delay;
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
                self.base.next_update += ((now - at) / self.base.update + 1) * self.base.update;
                return;
            }
            let delay = self.classic.delay(at).max(self.l4s.delay(at));
            self.base.update(delay as f64 / 1e9);
            self.base.next_update += self.base.update;
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

    /// Whether to drop an L4S packet that leaves; it may be marked (RFC 9332 appendix A.2).
    fn drops_l4s(&mut self, now: u64, packet: &mut Held) -> bool {
        let coupled = self.coupling * self.base.probability;
        let likelihood = if coupled >= 1.0 {
            if self.l4s.recurs(self.base.probability * self.base.probability) {
                return true;
            }
            coupled
        } else {
            let is_late = self.l4s.queue.len() > LEAST_LENGTH && now - packet.arrived >= self.step;
            if is_late { 1.0 } else { coupled }
        };
        if self.l4s.recurs(likelihood.min(1.0)) {
            mark(packet);
        }
        false
    }

    /// The same for a classic packet.
    fn drops_classic(&mut self, packet: &mut Held) -> bool {
        let probability = self.base.probability;
        if !self.classic.recurs(probability * probability) {
            return false;
        }
        // p_C has reached 1/k^2: overload disables ECN.
        self.coupling * probability >= 1.0 || !mark(packet)
    }
}

impl QueueDisc for DualPi2 {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        self.update_until(now);
        if self.waiting().and(self.held_back).packets >= self.packets {
            return drops.overflow(packet);
        }
        // RFC 9332 section 2.3 and RFC 9331 section 5.1.
        match packet.ecn {
            Ecn::Ce | Ecn::Ect1 => self.l4s.queue.push(packet),
            Ecn::Ect0 | Ecn::NotEct => self.classic.queue.push(packet),
        }
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        self.update_until(now);
        while let Some((mut packet, is_l4s)) = self.schedule() {
            let is_dropped =
                if is_l4s { self.drops_l4s(now, &mut packet) } else { self.drops_classic(&mut packet) };
            if is_dropped {
                drops.early(packet);
                continue;
            }
            // A queue that has the link to itself uses nothing up (Linux, `dequeue_packet`).
            let (other, weight) = if is_l4s {
                (&self.classic, self.classic_weight)
            } else {
                (&self.l4s, self.classic_weight - i64::from(WEIGHTS))
            };
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
        self.classic.queue.memory() + self.l4s.queue.memory()
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
}
