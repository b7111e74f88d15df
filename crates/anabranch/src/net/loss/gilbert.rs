//! Gilbert and Gilbert-Elliott loss: a good and a bad state (E. N. Gilbert, Bell System Technical Journal
//! 39, 1960; E. O. Elliott, ibid. 42, 1963).
//!
//! The clock says when the state may change:
//! - `slot`: once per slot of time, whether or not there is a packet. Evaluated as the chain's geometric
//!   sojourns: one draw per sojourn, none per slot.
//! - `packet`: before every packet.
//! - `bit`: with every bit; the states' losses are bit error probabilities, and a packet is lost if any of
//!   its bits is in error.
//! - `on_arrival`: ns-2's `ErrorModel/MultiState` with time transitions as the voip-sctp specification
//!   describes it: at a packet, if the state was entered at least a slot ago, one draw to change it; a
//!   change restarts the slot. While nothing is sent the state is frozen.
//!
//! The chain starts good. Where a parameter follows a timetable, the chain keeps its state at a change and is
//! left with the new probability from then on. Sojourns are geometric, so what is left of one at a change is
//! drawn anew and the chain is that of a draw per step, exactly; with the clock `slot` the draws are in the
//! order of simulated time, whenever and however often packets ask.

use anabranch_transport::rng::{Draw, Rng};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Chance, LossModel, LossPlace, LossSharing};
use crate::schedule::{Changes, Schedule, Timeline, from_words};

/// A chain of a good and a bad state with two parameters (Gilbert) or four (Gilbert-Elliott).
///
/// Give either `p` and `r`, or `mean_loss` and the mean length of the bad state. All numbers may follow
/// timetables with the same `repeat`; at a change the chain keeps its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GilbertConfig {
    /// When the state may change: `slot`, `packet`, `bit` or `on_arrival`. Default: `slot`.
    pub clock: LossClock,
    /// Length of a slot for the clocks `slot` and `on_arrival`; may follow a timetable, and a slot in
    /// progress takes its new length. Default: 5 ms.
    pub slot: Schedule<Duration>,
    /// Probability to go from good to bad at a step of the clock; may follow a timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<Schedule<Probability>>,
    /// Probability to go from bad to good at a step of the clock; may follow a timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r: Option<Schedule<Probability>>,
    /// Mean share of lost packets (clock `bit`: of bits in error) over steps of the clock; may follow a
    /// timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_loss: Option<Schedule<Probability>>,
    /// Mean length of the bad state for the clocks `slot` and `on_arrival`; at least a slot; may follow a
    /// timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_bad: Option<Schedule<Duration>>,
    /// Mean length of the bad state in packets or bits for these clocks; at least 1; may follow a timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_bad_steps: Option<Schedule<f64>>,
    /// Probability that a packet (a bit) is lost in the bad state; may follow a timetable. Default: 1.
    pub loss_in_bad: Schedule<Probability>,
    /// Probability that a packet (a bit) is lost in the good state; may follow a timetable. Default: 0.
    pub loss_in_good: Schedule<Probability>,
    /// Where packets are lost: `ingress` (before the queue) or `wire` (after it). Default: `wire`.
    pub at: LossPlace,
    /// One chain for both directions, `shared`, or one each, `per_direction`. Default: `per_direction`.
    pub sharing: LossSharing,
}

/// When the state of a chain may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossClock {
    /// With every bit.
    Bit,
    /// At a packet, if the state is at least a slot old: ns-2's rule.
    OnArrival,
    /// Before every packet.
    Packet,
    /// Once per slot of time.
    #[default]
    Slot,
}

impl Default for GilbertConfig {
    fn default() -> Self {
        Self {
            clock: LossClock::default(),
            slot: Schedule::Constant(Duration::from_millis(5)),
            p: None,
            r: None,
            mean_loss: None,
            mean_bad: None,
            mean_bad_steps: None,
            loss_in_bad: Schedule::Constant(Probability::ONE),
            loss_in_good: Schedule::Constant(Probability::ZERO),
            at: LossPlace::default(),
            sharing: LossSharing::default(),
        }
    }
}

/// The chain's numbers at one time; pairs are of the good and the bad state.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    slot: u64,
    /// Probability to leave the state at a step.
    leave: [f64; 2],
    leave_chance: [Chance; 2],
    /// Probability that a packet or bit is lost.
    loss: [f64; 2],
    loss_chance: [Chance; 2],
}

impl GilbertConfig {
    fn numbers(&self, key: &str) -> Result<Timeline<Numbers>, String> {
        let mut changes = Changes::default();
        changes.add(&self.slot, key, "slot")?;
        for (probability, name) in [
            (self.p.as_ref(), "p"),
            (self.r.as_ref(), "r"),
            (self.mean_loss.as_ref(), "mean_loss"),
            (Some(&self.loss_in_bad), "loss_in_bad"),
            (Some(&self.loss_in_good), "loss_in_good"),
        ] {
            probability.map_or(Ok(()), |probability| changes.add(probability, key, name))?;
        }
        self.mean_bad.iter().try_for_each(|mean_bad| changes.add(mean_bad, key, "mean_bad"))?;
        self.mean_bad_steps.iter().try_for_each(|steps| changes.add(steps, key, "mean_bad_steps"))?;
        changes.timeline(|from| self.numbers_from(from, key))
    }

    fn numbers_from(&self, from: Duration, key: &str) -> Result<Numbers, String> {
        let slot = self.slot.first_at(from);
        if slot == Duration::ZERO {
            return Err(format!("{key}.slot is 0 s{}, allowed is at least 1 ns", from_words(from)));
        }
        let loss = [&self.loss_in_good, &self.loss_in_bad].map(|loss| loss.first_at(from).get());
        let has_mean_bad = self.mean_bad.is_some() || self.mean_bad_steps.is_some();
        let leave = match (&self.p, &self.r, &self.mean_loss) {
            (Some(p), Some(r), None) if !has_mean_bad => [p, r].map(|leave| leave.first_at(from).get()),
            (None, None, Some(mean_loss)) if has_mean_bad => {
                let bad_steps = self.mean_bad_in_steps(from, key)?;
                leave_from_means(mean_loss.first_at(from).get(), bad_steps, loss, from, key)?
            }
            _ => {
                return Err(format!(
                    "{key} has to have either `p` and `r`, or `mean_loss` and the mean length of the bad state, \
                     and nothing of the other"
                ));
            }
        };
        Ok(Numbers {
            slot: slot.as_nanos(),
            leave,
            leave_chance: leave.map(Chance::new),
            loss,
            loss_chance: loss.map(Chance::new),
        })
    }

    fn mean_bad_in_steps(&self, from: Duration, key: &str) -> Result<f64, String> {
        let steps = match (self.clock, &self.mean_bad, &self.mean_bad_steps) {
            (LossClock::Slot | LossClock::OnArrival, Some(mean_bad), None) => {
                mean_bad.first_at(from).as_nanos() as f64 / self.slot.first_at(from).as_nanos() as f64
            }
            (LossClock::Bit | LossClock::Packet, None, Some(steps)) => steps.first_at(from),
            (LossClock::Slot | LossClock::OnArrival, ..) => {
                return Err(format!(
                    "{key}.mean_bad_steps is for the clocks `packet` and `bit`, use `mean_bad`"
                ));
            }
            (LossClock::Bit | LossClock::Packet, ..) => {
                return Err(format!(
                    "{key}.mean_bad is for the clocks `slot` and `on_arrival`, use `mean_bad_steps`"
                ));
            }
        };
        if steps.is_finite() && steps >= 1.0 {
            Ok(steps)
        } else {
            Err(format!(
                "{key}: the mean length of the bad state is {steps} steps{}, allowed is at least 1",
                from_words(from)
            ))
        }
    }
}

/// The probabilities to leave the good and the bad state at a step. The share of time in the bad state
/// follows from the mean loss, and with the mean length of the bad state that of the good one: `P_bad =
/// P_med/L`, `P2 = slot/T_bad`, `P1 = slot/T_good`, `T_good = T_bad (1-P_bad)/P_bad` (voip-sctp, "Loss
/// process", there with no loss in the good state).
fn leave_from_means(
    mean_loss: f64,
    bad_steps: f64,
    [in_good, in_bad]: [f64; 2],
    from: Duration,
    key: &str,
) -> Result<[f64; 2], String> {
    let from = from_words(from);
    if !(in_good..in_bad).contains(&mean_loss) {
        return Err(format!(
            "{key}.mean_loss is {mean_loss}{from}, allowed is from loss_in_good, {in_good}, to below loss_in_bad, \
             {in_bad}"
        ));
    }
    let share_bad = (mean_loss - in_good) / (in_bad - in_good);
    let leave_bad = 1.0 / bad_steps;
    let leave_good = leave_bad * share_bad / (1.0 - share_bad);
    if leave_good > 1.0 {
        return Err(format!(
            "{key}.mean_loss is {mean_loss}{from}, which with a bad state of {bad_steps} steps would need a good \
             state shorter than a step; lower it or lengthen the bad state"
        ));
    }
    Ok([leave_good, leave_bad])
}

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct Gilbert {
    numbers: Timeline<Numbers>,
    clock: Clock,
    is_bad: bool,
    /// Draws for the state; with a clock that packets move, also those for each packet.
    state_rng: Rng,
    /// Draws for each packet, with the clock `slot`.
    packet_rng: Rng,
}

/// Times are in nanoseconds.
#[derive(Clone, Debug)]
enum Clock {
    /// The number of bits for which the state still lasts.
    Bit {
        left: u64,
    },
    /// When the state was entered.
    OnArrival {
        entered: u64,
    },
    Packet,
    /// When the state ends, and the start of some slot that lies before the next change of the numbers.
    Slot {
        until: u64,
        grid: u64,
    },
}

impl Gilbert {
    pub(crate) fn new(
        config: &GilbertConfig,
        mut state_rng: Rng,
        packet_rng: Rng,
        key: &str,
    ) -> Result<Self, String> {
        let numbers = config.numbers(key)?;
        let Numbers { slot, leave: [leave_good, _], .. } = numbers.value();
        let clock = match config.clock {
            LossClock::Bit => Clock::Bit { left: sojourn(leave_good, &mut state_rng) },
            LossClock::OnArrival => Clock::OnArrival { entered: 0 },
            LossClock::Packet => Clock::Packet,
            LossClock::Slot => {
                let first = sojourn(leave_good, &mut state_rng);
                Clock::Slot { until: slot.saturating_mul(first), grid: 0 }
            }
        };
        Ok(Self { numbers, clock, is_bad: false, state_rng, packet_rng })
    }
}

impl LossModel for Gilbert {
    #[inline]
    fn is_lost(&mut self, now: Time, size: u32) -> bool {
        if let Clock::OnArrival { entered } = self.clock {
            if now.as_nanos() >= self.numbers.until() {
                return self.is_lost_after_change(now, size);
            }
            let numbers = self.numbers.current();
            let is_old = now.as_nanos() - entered >= numbers.slot;
            if is_old && numbers.leave_chance[usize::from(self.is_bad)].decide(&mut self.state_rng) {
                self.is_bad = !self.is_bad;
                self.clock = Clock::OnArrival { entered: now.as_nanos() };
            }
            return numbers.loss_chance[usize::from(self.is_bad)].decide(&mut self.state_rng);
        }
        self.is_lost_otherwise(now, size)
    }
}

impl Gilbert {
    /// Whether the chain is in the bad state, as of the last time at which it was asked.
    pub(super) fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Whether the chain's state changes with time alone.
    pub(super) fn runs_by_itself(&self) -> bool {
        matches!(self.clock, Clock::Slot { .. })
    }

    /// If the state changes with time alone, the next time at which it does, in nanoseconds, up to `end`.
    pub(super) fn next_change(&mut self, end: u64) -> Option<u64> {
        let was_bad = self.is_bad;
        loop {
            let Clock::Slot { until, grid } = self.clock else { return None };
            let next = until.min(self.numbers.until());
            if next > end {
                return None;
            }
            self.step_slots(next, until, grid);
            if self.is_bad != was_bad {
                return Some(next);
            }
        }
    }

    /// The clock `on_arrival` when the numbers change, apart from the code for packets between changes.
    #[cold]
    #[inline(never)]
    fn is_lost_after_change(&mut self, now: Time, size: u32) -> bool {
        self.numbers.at(now.as_nanos());
        self.is_lost(now, size)
    }

    /// The same for the other clocks.
    #[inline(never)]
    fn is_lost_otherwise(&mut self, now: Time, size: u32) -> bool {
        let now = now.as_nanos();
        match self.clock {
            Clock::Bit { left } => self.is_any_bit_lost(now, size, left),
            Clock::OnArrival { .. } => unreachable!("it has been asked"),
            Clock::Packet => {
                let numbers = self.numbers.at(now);
                self.is_bad ^= numbers.leave_chance[usize::from(self.is_bad)].decide(&mut self.state_rng);
                numbers.loss_chance[usize::from(self.is_bad)].decide(&mut self.state_rng)
            }
            Clock::Slot { until, grid } => {
                self.step_slots(now, until, grid);
                self.numbers.value().loss_chance[usize::from(self.is_bad)].decide(&mut self.packet_rng)
            }
        }
    }

    /// The number of steps for which the state lasts from now on.
    fn sojourn(&mut self) -> u64 {
        sojourn(self.numbers.value().leave[usize::from(self.is_bad)], &mut self.state_rng)
    }

    fn step_slots(&mut self, now: u64, mut until: u64, mut grid: u64) {
        while now >= until.min(self.numbers.until()) {
            let change = self.numbers.until();
            if until < change {
                self.is_bad = !self.is_bad;
                until = until.saturating_add(self.numbers.value().slot.saturating_mul(self.sojourn()));
            } else {
                // The slot in progress at the change (a step at that very time would end it) goes on with the
                // new length, or is over if it has lasted longer already.
                let old_slot = self.numbers.value().slot;
                let begun = grid + (change - 1 - grid) / old_slot * old_slot;
                let slot = self.numbers.at(change).slot;
                grid = begun.max(change.saturating_sub(slot));
                until = grid.saturating_add(slot.saturating_mul(self.sojourn()));
            }
        }
        self.clock = Clock::Slot { until, grid };
    }

    fn is_any_bit_lost(&mut self, now: u64, size: u32, mut left: u64) -> bool {
        if now >= self.numbers.until() {
            self.numbers.at(now);
            left = self.sojourn();
        }
        let bits = self.count_bits(u64::from(size) * 8, left);
        let [in_good, in_bad] = self.numbers.value().loss;
        let survives = libm::pow(1.0 - in_good, bits.good) * libm::pow(1.0 - in_bad, bits.bad);
        Chance::new(1.0 - survives).decide(&mut self.state_rng)
    }

    /// How many of the next `bits` bits meet the good and the bad state, which lasts `left` bits from now on.
    fn count_bits(&mut self, mut bits: u64, mut left: u64) -> BitCount {
        let mut count = BitCount { good: 0.0, bad: 0.0 };
        while bits > 0 {
            let here = bits.min(left);
            if self.is_bad {
                count.bad += here as f64;
            } else {
                count.good += here as f64;
            }
            bits -= here;
            left -= here;
            if left == 0 {
                self.is_bad = !self.is_bad;
                left = self.sojourn();
            }
        }
        self.clock = Clock::Bit { left };
        count
    }
}

/// The number of steps of a state that is left with this probability at each step: geometric, at least 1, by
/// inversion.
fn sojourn(leave: f64, rng: &mut Rng) -> u64 {
    if leave >= 1.0 {
        return 1;
    }
    // The conversion saturates: a state that is never left lasts for ever.
    let steps = libm::ceil(-rng.exponential() / libm::log1p(-leave));
    (steps as u64).max(1)
}

struct BitCount {
    good: f64,
    bad: f64,
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;
    use crate::schedule::Timetable;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    fn build(config: &GilbertConfig) -> Result<Gilbert, String> {
        Gilbert::new(config, STREAMS.stream("state"), STREAMS.stream("packet"), "loss")
    }

    fn probability(value: f64) -> Schedule<Probability> {
        Schedule::Constant(Probability::new(value).unwrap())
    }

    fn from_millis<T>(steps: impl IntoIterator<Item = (u64, T)>) -> Schedule<T> {
        let timetable = steps.into_iter().map(|(from, value)| (Duration::from_millis(from), value)).collect();
        Schedule::Timetable(Timetable { timetable, repeat: None })
    }

    #[test]
    fn sojourns_are_those_of_a_chain_stepped_slot_by_slot() {
        // The same draws, used step by step: a state is left at the first step at which the probability of
        // still being in it has fallen to the draw.
        let config = GilbertConfig {
            p: Some(probability(0.1)),
            r: Some(probability(0.3)),
            ..GilbertConfig::default()
        };
        let mut lazy = build(&config).unwrap();
        let mut rng = STREAMS.stream("state");
        let (mut is_bad, mut still) = (false, 1.0);
        let mut draw = rng.uniform_positive();
        let mut changes = 0;
        for slot in 1..200_000u64 {
            still *= 1.0 - if is_bad { 0.3 } else { 0.1 };
            if still <= draw {
                is_bad = !is_bad;
                still = 1.0;
                draw = rng.uniform_positive();
                changes += 1;
            }
            // The packets come irregularly, and not in every slot.
            if slot % 7 < 3 {
                let now = Time::from_nanos(slot * 5_000_000 + slot % 5_000_000);
                assert_eq!(lazy.is_lost(now, 100), is_bad, "slot {slot}");
            }
        }
        assert!(changes > 20_000);
    }

    #[test]
    fn means_give_the_papers_transitions() {
        let config = GilbertConfig {
            mean_loss: Some(probability(0.1)),
            loss_in_bad: probability(0.85),
            mean_bad: Some(Schedule::Constant(Duration::from_nanos(133_333_333))),
            ..GilbertConfig::default()
        };
        let [leave_good, leave_bad] = config.numbers("loss").unwrap().value().leave;
        // T_good = 1 s, T_bad = 133.3 ms.
        assert!((leave_good - 0.005).abs() < 1e-6, "{leave_good}");
        assert!((leave_bad - 0.0375).abs() < 1e-6, "{leave_bad}");
    }

    #[test]
    fn a_silent_link_stays_as_it_is() {
        let config = GilbertConfig {
            clock: LossClock::OnArrival,
            p: Some(probability(1.0)),
            r: Some(probability(1.0)),
            ..GilbertConfig::default()
        };
        let mut gilbert = build(&config).unwrap();
        let lost =
            [0, 4, 5, 9, 1_000, 1_004, 9_000].map(|millis| gilbert.is_lost(Time::from_millis(millis), 1));
        // The chain enters the bad state at 5 ms and is still in it at 9 ms. It ends with the packet at 1 s,
        // not with the time.
        assert_eq!(lost, [false, false, true, true, false, false, true]);
    }

    #[test]
    fn slots_take_their_new_length_at_a_change() {
        // The chain steps at the end of every slot.
        let config = GilbertConfig {
            slot: from_millis(
                [(0, 5), (12, 1), (15, 4), (16, 5)].map(|(from, slot)| (from, Duration::from_millis(slot))),
            ),
            p: Some(probability(1.0)),
            r: Some(probability(1.0)),
            ..GilbertConfig::default()
        };
        let mut gilbert = build(&config).unwrap();
        let lost: Vec<bool> = (0..30).map(|millis| gilbert.is_lost(Time::from_millis(millis), 1)).collect();
        // The slot from 10 ms on is over at 12 ms, since it has lasted longer than 1 ms then. The slot from
        // 14 ms on first takes 4 ms and then 5 ms.
        let ends: Vec<usize> = (1..30).filter(|&millis| lost[millis] != lost[millis - 1]).collect();
        assert_eq!(ends, [5, 10, 12, 13, 14, 19, 24, 29]);
    }

    #[test]
    fn states_do_not_depend_on_who_asks_when() {
        let repeat = Some(Duration::from_millis(333));
        let mut slot =
            from_millis([(0, 5), (40, 7), (222, 3)].map(|(from, slot)| (from, Duration::from_millis(slot))));
        let mut p = from_millis([(0, 0.1), (101, 0.5)].map(|(from, p)| (from, Probability::new(p).unwrap())));
        if let (Schedule::Timetable(slot), Schedule::Timetable(p)) = (&mut slot, &mut p) {
            (slot.repeat, p.repeat) = (repeat, repeat);
        }
        let config =
            GilbertConfig { slot, p: Some(p), r: Some(probability(0.3)), ..GilbertConfig::default() };
        let (mut often, mut seldom) = (build(&config).unwrap(), build(&config).unwrap());
        let mut changes = 0;
        let mut was_lost = false;
        for millis in 0..200_000 {
            let now = Time::from_millis(millis);
            let is_lost = often.is_lost(now, 1);
            changes += u32::from(is_lost != was_lost);
            was_lost = is_lost;
            if millis % 1_000 < millis / 1_000 {
                assert_eq!(seldom.is_lost(now, 1), is_lost, "{millis} ms");
            }
        }
        assert!(changes > 5_000, "{changes}");
    }

    #[test]
    fn messages_name_key_value_and_what_is_allowed() {
        let message = |config: &GilbertConfig| build(config).unwrap_err();
        assert!(message(&GilbertConfig::default()).contains("loss has to have either `p` and `r`"));
        let means = GilbertConfig {
            mean_loss: Some(probability(0.9)),
            mean_bad: Some(Schedule::Constant(Duration::from_millis(100))),
            loss_in_bad: probability(0.8),
            ..GilbertConfig::default()
        };
        assert!(message(&means).contains("loss.mean_loss is 0.9, allowed is from loss_in_good, 0, to below"));
        let short =
            GilbertConfig { mean_bad: Some(Schedule::Constant(Duration::from_millis(4))), ..means.clone() };
        assert!(message(&short).contains("0.8 steps, allowed is at least 1"));
        let packets = GilbertConfig { clock: LossClock::Packet, ..means };
        assert!(message(&packets).contains("use `mean_bad_steps`"));
    }
}
