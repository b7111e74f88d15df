//! LIFO-CoDel (Felix, Santos and Nogueira): a stack whose drops CoDel's condition and the spread of waiting
//! times decide together.
//!
//! Every packet that is taken off the stack, dropped or not, is measured (their equations 3 to 8): delta, its
//! waiting time; Gamma, what delta is above the last one; k, how many times in a row Gamma was positive,
//! otherwise 0, and then mean and maximum of delta restart; theta, the maximum divided by the mean. The
//! packet is dropped if CoDel finds the delay sustained and k is above theta. Where the text restarts at
//! Gamma < 0 and equation 8 at Gamma <= 0, the equation counts here.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Control, Settings};
use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in};
use crate::net::packets::Held;

/// When LIFO-CoDel drops a packet that it takes off its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifoRule {
    /// As `gate`, but mean and maximum never restart.
    Cumulative,
    /// It drops a packet when the delay has been above the target for an interval and k > theta.
    #[default]
    Gate,
    /// As `gate`, but only when a drop is also due by CoDel's control law.
    Law,
    /// It never drops: this is a stack without active queue management.
    Plain,
    /// It drops a packet that has waited longer than the target when k > theta.
    Target,
    /// It drops a packet when k > theta.
    Theta,
}

/// LIFO-CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LifoCodelConfig {
    /// Most packets that wait, at least 1. Default: 1000.
    pub packets: u32,
    /// Acceptable standing delay. Default: 5 ms.
    pub target: Duration,
    /// How long the delay must be above the target before a drop. Default: 100 ms.
    pub interval: Duration,
    /// `gate`, `law` and `cumulative` drop nothing while no more bytes than this are left on the stack.
    /// Default: 1500 B.
    pub mtu: Bytes,
    /// When a packet is dropped. Default: `gate`.
    pub rule: LifoRule,
    /// Whether a full stack drops the packet at its bottom, which has waited longest, instead of the one that
    /// arrives. Default: false.
    pub drop_bottom: bool,
    /// Whether packets leave in the order in which they came until some have waited without a break for an
    /// interval, and the newest first from then on until none waits (adaptive LIFO: Maurer, "Fail at Scale",
    /// ACM Queue 13(8), 2015). Default: false, always the newest first.
    pub adaptive: bool,
}

impl Default for LifoCodelConfig {
    fn default() -> Self {
        let Settings { target, interval, mtu, .. } = Settings::DEFAULT;
        Self {
            packets: 1000,
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            mtu: Bytes(mtu),
            rule: LifoRule::default(),
            drop_bottom: false,
            adaptive: false,
        }
    }
}

impl LifoCodelConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<LifoCodel, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        let settings = Settings::new(place, self.target, self.interval, self.mtu, false)?;
        Ok(LifoCodel {
            packets: self.packets.into(),
            drop_bottom: self.drop_bottom,
            adapts_after: self.adaptive.then_some(settings.interval),
            busy_since: 0,
            stack: Fifo::default(),
            control: LifoControl::new(settings, self.rule),
        })
    }
}

/// A stack with LIFO-CoDel.
#[derive(Clone, Debug)]
pub(crate) struct LifoCodel {
    packets: u64,
    drop_bottom: bool,
    /// After a busy time this long, in nanoseconds, the newest packet leaves first; `None` if it always does.
    adapts_after: Option<u64>,
    /// Since when packets have waited without a break.
    busy_since: u64,
    stack: Fifo,
    control: LifoControl,
}

impl QueueDisc for LifoCodel {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if self.stack.len() == 0 {
            self.busy_since = now;
        }
        if self.stack.backlog().packets == self.packets {
            let bottom = if self.drop_bottom { self.stack.pop_oldest() } else { None };
            let Some(bottom) = bottom else { return drops.overflow(packet) };
            drops.overflow(bottom);
        }
        self.stack.push(packet);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        let is_calm = self.adapts_after.is_some_and(|interval| now - self.busy_since < interval);
        let pop = if is_calm { Fifo::pop_oldest } else { Fifo::pop_newest };
        self.control.dequeue_by(pop, now, &mut self.stack, drops)
    }

    kept_in!(stack);
}

/// The rule that chooses which packets of one stack are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifoControl {
    rule: LifoRule,
    codel: Control,
    /// The last waiting time, in nanoseconds.
    delta: Option<u64>,
    /// How many consecutive times the waiting time has grown.
    k: u64,
    /// Number, sum and maximum of the waiting times since k was 0.
    n: u64,
    sum: u64,
    max: u64,
}

impl LifoControl {
    pub(super) fn new(settings: Settings, rule: LifoRule) -> Self {
        Self { rule, codel: Control::new(settings), delta: None, k: 0, n: 0, sum: 0, max: 0 }
    }

    /// The next packet to send.
    pub(super) fn dequeue(&mut self, now: u64, stack: &mut Fifo, drops: &mut Drops) -> Option<Held> {
        self.dequeue_by(Fifo::pop_newest, now, stack, drops)
    }

    fn dequeue_by(
        &mut self,
        pop: fn(&mut Fifo) -> Option<Held>,
        now: u64,
        stack: &mut Fifo,
        drops: &mut Drops,
    ) -> Option<Held> {
        loop {
            let packet = pop(stack)?;
            if !self.drops(now, &packet, stack.bytes()) {
                return Some(packet);
            }
            drops.early(packet);
        }
    }

    fn drops(&mut self, now: u64, packet: &Held, bytes_left: u64) -> bool {
        let delta = now - packet.arrived;
        self.measure(delta);
        let is_above_theta = self.is_above_theta();
        let is_sustained = self.codel.is_sustained(now, packet, bytes_left);
        match self.rule {
            LifoRule::Cumulative | LifoRule::Gate => is_sustained && is_above_theta,
            LifoRule::Law => self.codel.takes_turn(now, is_sustained && is_above_theta),
            LifoRule::Plain => false,
            LifoRule::Target => delta > self.codel.settings.target && is_above_theta,
            LifoRule::Theta => is_above_theta,
        }
    }

    /// Updates k, theta and the mean with a waiting time (equations 3, 4, 5, 7 and 8).
    fn measure(&mut self, delta: u64) {
        let has_grown = self.delta.is_some_and(|last| delta > last);
        self.delta = Some(delta);
        if has_grown {
            self.k += 1;
        } else {
            self.k = 0;
            if self.rule != LifoRule::Cumulative {
                (self.n, self.sum, self.max) = (0, 0, 0);
            }
        }
        self.n += 1;
        self.sum += delta;
        self.max = self.max.max(delta);
    }

    /// k > theta = max / mean (equation 6; 0 when the mean is 0, and then k is 0), in whole numbers.
    fn is_above_theta(&self) -> bool {
        u128::from(self.k) * u128::from(self.sum) > u128::from(self.max) * u128::from(self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// The dropped packets among 20 that came a millisecond apart, when one is taken each millisecond from
    /// 200 ms on, top first: their waiting times grow by 2 ms each time.
    fn dropped(config: &LifoCodelConfig) -> Vec<u32> {
        let mut stack = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..20 {
            stack.enqueue(slot * MILLI, packet(slot as u32, slot * MILLI, 0), &mut drops);
        }
        for at in 200..220 {
            stack.dequeue(at * MILLI, &mut drops);
        }
        drops.0.iter().map(|(packet, _)| packet.slot).collect()
    }

    #[test]
    fn rules() {
        let with = |rule| LifoCodelConfig { rule, interval: Duration::from_millis(4), ..Default::default() };
        assert!(dropped(&with(LifoRule::Plain)).is_empty());
        // The waiting times are 181, 183, ...: theta is hardly above 1, so k is above it from the third
        // packet on.
        let theta = dropped(&with(LifoRule::Theta));
        assert_eq!(theta[0], 17);
        assert_eq!(dropped(&with(LifoRule::Target)), theta);
        // Packets 19, 18 leave, and 17, 16 at 202 and 203 ms; an interval after the first, 15 at 204 ms and
        // all after it but the last one, behind which no more than an MTU is left.
        let gate = dropped(&with(LifoRule::Gate));
        assert_eq!(gate.first(), Some(&15));
        assert_eq!(gate, (2..=15).rev().collect::<Vec<u32>>());
        assert_eq!(dropped(&with(LifoRule::Cumulative)), gate);
        // The first drop, of packet 15, is at 204 ms, and the second 4 ms later.
        assert_eq!(dropped(&with(LifoRule::Law))[..2], [15, 10]);
    }

    #[test]
    fn measures_restart_when_the_waiting_time_does_not_grow() {
        let settings = Settings::DEFAULT;
        let mut control = LifoControl::new(settings, LifoRule::Gate);
        let mut ks = Vec::new();
        for delta in [5, 6, 9, 9, 10, 4, 5] {
            control.measure(delta);
            ks.push((control.k, control.n, control.sum, control.max));
        }
        let expected = [
            (0, 1, 5, 5),
            (1, 2, 11, 6),
            (2, 3, 20, 9),
            (0, 1, 9, 9),
            (1, 2, 19, 10),
            (0, 1, 4, 4),
            (1, 2, 9, 5),
        ];
        assert_eq!(ks, expected);
        // k = 1 against theta = 5 / 4.5.
        assert!(!control.is_above_theta());
    }

    #[test]
    fn an_adaptive_one_is_a_stack_after_an_interval_of_waiting() {
        let config = LifoCodelConfig { adaptive: true, rule: LifoRule::Plain, ..Default::default() };
        let mut stack = config.build(place()).unwrap();
        let mut drops = Drops::default();
        let mut taken = |at: u64, stack: &mut LifoCodel| {
            let packet = stack.dequeue(at * MILLI, &mut drops);
            packet.map(|packet| packet.slot)
        };
        for slot in 0..5 {
            stack.enqueue(0, packet(slot, 0, 0), &mut Drops::default());
        }
        assert_eq!([50, 99, 100, 120].map(|at| taken(at, &mut stack)), [0, 1, 4, 3].map(Some));
        // The last packet leaves, and a new busy time begins.
        assert_eq!([130, 131].map(|at| taken(at, &mut stack)), [Some(2), None]);
        for slot in 5..7 {
            stack.enqueue(140 * MILLI, packet(slot, 140 * MILLI, 0), &mut Drops::default());
        }
        assert_eq!(taken(150, &mut stack), Some(5));
    }

    #[test]
    fn a_full_stack_drops_what_comes_or_its_bottom() {
        for (drop_bottom, expected) in [(false, 2), (true, 0)] {
            let config = LifoCodelConfig { packets: 2, drop_bottom, ..Default::default() };
            let mut stack = config.build(place()).unwrap();
            let mut drops = Drops::default();
            for slot in 0..3 {
                stack.enqueue(0, packet(slot, 0, 0), &mut drops);
            }
            assert_eq!(drops.0.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [expected]);
        }
    }
}
