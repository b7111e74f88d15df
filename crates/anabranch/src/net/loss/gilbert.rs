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
//! The chain starts good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Chance, LossModel, LossPlace, LossSharing};
use crate::rng::{Draw, Rng};
use crate::time::{Duration, Time};
use crate::units::Probability;

/// A chain of a good and a bad state with two parameters (Gilbert) or four (Gilbert-Elliott).
///
/// Give either `p` and `r`, or `mean_loss` and the mean length of the bad state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GilbertConfig {
    /// When the state may change: `slot`, `packet`, `bit` or `on_arrival`. Default: `slot`.
    pub clock: LossClock,
    /// Length of a slot for the clocks `slot` and `on_arrival`. Default: 5 ms.
    pub slot: Duration,
    /// Probability to go from good to bad at a step of the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<Probability>,
    /// Probability to go from bad to good at a step of the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r: Option<Probability>,
    /// Mean share of lost packets (clock `bit`: of bits in error) over steps of the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_loss: Option<Probability>,
    /// Mean length of the bad state for the clocks `slot` and `on_arrival`; at least a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_bad: Option<Duration>,
    /// Mean length of the bad state in packets or bits for these clocks; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_bad_steps: Option<f64>,
    /// Probability that a packet (a bit) is lost in the bad state. Default: 1.
    pub loss_in_bad: Probability,
    /// Probability that a packet (a bit) is lost in the good state. Default: 0.
    pub loss_in_good: Probability,
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
            slot: Duration::from_millis(5),
            p: None,
            r: None,
            mean_loss: None,
            mean_bad: None,
            mean_bad_steps: None,
            loss_in_bad: Probability::ONE,
            loss_in_good: Probability::ZERO,
            at: LossPlace::default(),
            sharing: LossSharing::default(),
        }
    }
}

/// Probabilities to leave the good and the bad state at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transitions {
    leave_good: f64,
    leave_bad: f64,
}

impl GilbertConfig {
    fn transitions(&self, key: &str) -> Result<Transitions, String> {
        if self.slot == Duration::ZERO {
            return Err(format!("{key}.slot is 0 s, allowed is at least 1 ns"));
        }
        let has_mean_bad = self.mean_bad.is_some() || self.mean_bad_steps.is_some();
        match (self.p, self.r, self.mean_loss) {
            (Some(p), Some(r), None) if !has_mean_bad => {
                Ok(Transitions { leave_good: p.get(), leave_bad: r.get() })
            }
            (None, None, Some(mean_loss)) if has_mean_bad => {
                self.transitions_from_means(mean_loss.get(), self.mean_bad_in_steps(key)?, key)
            }
            _ => Err(format!(
                "{key} has to have either `p` and `r`, or `mean_loss` and the mean length of the bad state, \
                 and nothing of the other"
            )),
        }
    }

    fn mean_bad_in_steps(&self, key: &str) -> Result<f64, String> {
        let steps = match (self.clock, self.mean_bad, self.mean_bad_steps) {
            (LossClock::Slot | LossClock::OnArrival, Some(mean_bad), None) => {
                mean_bad.as_nanos() as f64 / self.slot.as_nanos() as f64
            }
            (LossClock::Bit | LossClock::Packet, None, Some(steps)) => steps,
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
            Err(format!("{key}: the mean length of the bad state is {steps} steps, allowed is at least 1"))
        }
    }

    /// The share of time in the bad state follows from the mean loss, and with the mean length of the bad
    /// state that of the good one: `P_bad = P_med/L`, `P2 = slot/T_bad`, `P1 = slot/T_good`, `T_good = T_bad
    /// (1-P_bad)/P_bad` (voip-sctp, "Loss process", there with no loss in the good state).
    fn transitions_from_means(
        &self,
        mean_loss: f64,
        bad_steps: f64,
        key: &str,
    ) -> Result<Transitions, String> {
        let (in_bad, in_good) = (self.loss_in_bad.get(), self.loss_in_good.get());
        if !(in_good..in_bad).contains(&mean_loss) {
            return Err(format!(
                "{key}.mean_loss is {mean_loss}, allowed is from loss_in_good, {in_good}, to below loss_in_bad, \
                 {in_bad}"
            ));
        }
        let share_bad = (mean_loss - in_good) / (in_bad - in_good);
        let leave_bad = 1.0 / bad_steps;
        let leave_good = leave_bad * share_bad / (1.0 - share_bad);
        if leave_good > 1.0 {
            return Err(format!(
                "{key}.mean_loss is {mean_loss}, which with a bad state of {bad_steps} steps would need a good \
                 state shorter than a step; lower it or lengthen the bad state"
            ));
        }
        Ok(Transitions { leave_good, leave_bad })
    }
}

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct Gilbert {
    chain: Chain,
    loss_in_good: f64,
    loss_in_bad: f64,
    /// Loss in the good and in the bad state.
    loss: [Chance; 2],
    /// Draws of the state; with a clock that packets move, also those per packet.
    state_rng: Rng,
    /// Draws per packet with the clock `slot`.
    packet_rng: Rng,
}

#[derive(Clone, Debug)]
struct Chain {
    clock: Clock,
    transitions: Transitions,
    /// The chances to leave the good and the bad state.
    leave: [Chance; 2],
    is_bad: bool,
}

#[derive(Clone, Debug)]
enum Clock {
    /// How many bits the state still lasts.
    Bit {
        left: u64,
    },
    /// When the state was entered, in nanoseconds.
    OnArrival {
        slot: u64,
        entered: u64,
    },
    Packet,
    /// When the state ends, in nanoseconds.
    Slot {
        slot: u64,
        until: u64,
    },
}

impl Gilbert {
    pub(crate) fn new(
        config: &GilbertConfig,
        mut state_rng: Rng,
        packet_rng: Rng,
        key: &str,
    ) -> Result<Self, String> {
        let transitions = config.transitions(key)?;
        let slot = config.slot.as_nanos();
        let clock = match config.clock {
            LossClock::Bit => Clock::Bit { left: sojourn(transitions.leave_good, &mut state_rng) },
            LossClock::OnArrival => Clock::OnArrival { slot, entered: 0 },
            LossClock::Packet => Clock::Packet,
            LossClock::Slot => {
                let first = sojourn(transitions.leave_good, &mut state_rng);
                Clock::Slot { slot, until: slot.saturating_mul(first) }
            }
        };
        Ok(Self {
            chain: Chain {
                clock,
                transitions,
                leave: [Chance::new(transitions.leave_good), Chance::new(transitions.leave_bad)],
                is_bad: false,
            },
            loss: [Chance::new(config.loss_in_good.get()), Chance::new(config.loss_in_bad.get())],
            loss_in_good: config.loss_in_good.get(),
            loss_in_bad: config.loss_in_bad.get(),
            state_rng,
            packet_rng,
        })
    }
}

impl LossModel for Gilbert {
    #[inline]
    fn is_lost(&mut self, now: Time, size: u32) -> bool {
        if let Clock::OnArrival { slot, entered } = self.chain.clock {
            self.chain.step_on_arrival(now.as_nanos(), slot, entered, &mut self.state_rng);
            return self.loss[usize::from(self.chain.is_bad)].decide(&mut self.state_rng);
        }
        self.is_lost_otherwise(now, size)
    }
}

impl Gilbert {
    /// The other clocks.
    #[inline(never)]
    fn is_lost_otherwise(&mut self, now: Time, size: u32) -> bool {
        let rng = match self.chain.clock {
            Clock::Bit { .. } => return self.is_any_bit_lost(size),
            Clock::OnArrival { .. } => unreachable!("it has been asked"),
            Clock::Packet => {
                let leaves = self.chain.leave[usize::from(self.chain.is_bad)].decide(&mut self.state_rng);
                self.chain.is_bad ^= leaves;
                &mut self.state_rng
            }
            Clock::Slot { slot, until } => {
                self.chain.step_slots(now.as_nanos(), slot, until, &mut self.state_rng);
                &mut self.packet_rng
            }
        };
        self.loss[usize::from(self.chain.is_bad)].decide(rng)
    }

    fn is_any_bit_lost(&mut self, size: u32) -> bool {
        let bits = self.chain.count_bits(u64::from(size) * 8, &mut self.state_rng);
        let survives =
            libm::pow(1.0 - self.loss_in_good, bits.good) * libm::pow(1.0 - self.loss_in_bad, bits.bad);
        Chance::new(1.0 - survives).decide(&mut self.state_rng)
    }
}

/// How many steps a state lasts that is left with this probability at each: geometric, at least 1, by
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

impl Chain {
    fn leave(&self) -> f64 {
        if self.is_bad { self.transitions.leave_bad } else { self.transitions.leave_good }
    }

    #[inline]
    fn step_on_arrival(&mut self, now: u64, slot: u64, entered: u64, rng: &mut Rng) {
        if now - entered >= slot && self.leave[usize::from(self.is_bad)].decide(rng) {
            self.is_bad = !self.is_bad;
            self.clock = Clock::OnArrival { slot, entered: now };
        }
    }

    fn step_slots(&mut self, now: u64, slot: u64, mut until: u64, rng: &mut Rng) {
        while now >= until {
            self.is_bad = !self.is_bad;
            until = until.saturating_add(slot.saturating_mul(sojourn(self.leave(), rng)));
        }
        self.clock = Clock::Slot { slot, until };
    }

    /// How many of the next `bits` bits meet the good and the bad state.
    fn count_bits(&mut self, mut bits: u64, rng: &mut Rng) -> BitCount {
        let mut count = BitCount { good: 0.0, bad: 0.0 };
        let Clock::Bit { mut left } = self.clock else { return count };
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
                left = sojourn(self.leave(), rng);
            }
        }
        self.clock = Clock::Bit { left };
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    fn build(config: &GilbertConfig) -> Result<Gilbert, String> {
        Gilbert::new(config, STREAMS.stream("state"), STREAMS.stream("packet"), "loss")
    }

    fn probability(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    #[test]
    fn sojourns_are_those_of_a_chain_stepped_slot_by_slot() {
        // The same draws, used step by step: a state is left at the first step at which the probability to
        // be still there has fallen to the draw.
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
            mean_bad: Some(Duration::from_nanos(133_333_333)),
            ..GilbertConfig::default()
        };
        let Transitions { leave_good, leave_bad } = config.transitions("loss").unwrap();
        // T_good = 1 s, T_bad = 133.3 ms.
        assert!((leave_good - 0.005).abs() < 1e-6, "{leave_good}");
        assert!((leave_bad - 0.0375).abs() < 1e-6, "{leave_bad}");
    }

    #[test]
    fn a_silent_link_stays_as_it_is() {
        let config = GilbertConfig {
            clock: LossClock::OnArrival,
            p: Some(Probability::ONE),
            r: Some(Probability::ONE),
            ..GilbertConfig::default()
        };
        let mut gilbert = build(&config).unwrap();
        let lost =
            [0, 4, 5, 9, 1_000, 1_004, 9_000].map(|millis| gilbert.is_lost(Time::from_millis(millis), 1));
        // It enters bad at 5 ms and is still bad at 9 ms; the packet at 1 s, not the time, ends it.
        assert_eq!(lost, [false, false, true, true, false, false, true]);
    }

    #[test]
    fn messages_name_key_value_and_what_is_allowed() {
        let message = |config: &GilbertConfig| build(config).unwrap_err();
        assert!(message(&GilbertConfig::default()).contains("loss has to have either `p` and `r`"));
        let means = GilbertConfig {
            mean_loss: Some(probability(0.9)),
            mean_bad: Some(Duration::from_millis(100)),
            loss_in_bad: probability(0.8),
            ..GilbertConfig::default()
        };
        assert!(message(&means).contains("loss.mean_loss is 0.9, allowed is from loss_in_good, 0, to below"));
        let short = GilbertConfig { mean_bad: Some(Duration::from_millis(4)), ..means.clone() };
        assert!(message(&short).contains("0.8 steps, allowed is at least 1"));
        let packets = GilbertConfig { clock: LossClock::Packet, ..means };
        assert!(message(&packets).contains("use `mean_bad_steps`"));
    }
}
