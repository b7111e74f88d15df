//! COBALT: CoDel and BLUE at once (Palmei et al., "Design and Evaluation of COBALT Queue Discipline", LANMAN
//! 2019).
//!
//! CoDel signals to flows that respond, BLUE drops those of flows that do not: its probability grows when the
//! queue overflows and falls when it is found empty. The rules are those of Linux (`sch_cake.c`,
//! `cobalt_should_drop`, `cobalt_queue_full`, `cobalt_queue_empty`): CoDel's count falls by the same law by
//! which it grew, and the last packet of a queue is never dropped. Linux begins with an inverse square root
//! of 0 (`cobalt_vars_init`), not 1, so that a queue that has never been late drops the second packet that
//! is, and waits for an interval only from then on. Deviation: the square root is exact where Linux has a
//! table and a Newton step.

use anabranch_transport::rng::{Draw, Rng};
use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::check_times;
use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in, mark};
use crate::net::packets::Held;

/// COBALT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CobaltConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped, and BLUE's probability
    /// grows. Default: 1000.
    pub packets: u32,
    /// Acceptable standing delay, and the shortest time between two changes of BLUE's probability. Default: 5
    /// ms.
    pub target: Duration,
    /// How long the delay must be above the target before the first drop. Default: 100 ms.
    pub interval: Duration,
    /// Mark ECN-capable packets where CoDel would drop them; BLUE drops in any case. Default: true.
    pub ecn: bool,
}

impl Default for CobaltConfig {
    fn default() -> Self {
        Self {
            packets: 1000,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: true,
        }
    }
}

impl CobaltConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Cobalt, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        check_times(place, self.target, self.interval)?;
        let (target, interval) = (self.target.as_nanos(), self.interval.as_nanos());
        Ok(Cobalt {
            packets: self.packets.into(),
            settings: Settings { target, interval, mtu_time: 0, ecn: self.ecn },
            queue: Fifo::default(),
            control: Control::default(),
            rng: place.streams.stream(place.component),
        })
    }
}

/// A queue with COBALT.
#[derive(Clone, Debug)]
pub(crate) struct Cobalt {
    packets: u64,
    settings: Settings,
    queue: Fifo,
    control: Control,
    rng: Rng,
}

impl QueueDisc for Cobalt {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if self.queue.backlog().packets < self.packets {
            return self.queue.push(packet);
        }
        self.control.queue_full(now, &self.settings);
        drops.overflow(packet);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        self.control.dequeue(now, &self.settings, &mut self.queue, &mut self.rng, drops)
    }

    kept_in!(queue);
}

/// Parameters, in nanoseconds (`struct cobalt_params`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) target: u64,
    pub(super) interval: u64,
    /// Transmission time of a packet of the largest size; 0 if it is not known.
    pub(super) mtu_time: u64,
    pub(super) ecn: bool,
}

/// The state of one queue (`struct cobalt_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    /// CoDel: how fast it drops.
    count: u32,
    /// Whether the law has changed the count yet: Linux computes its inverse square root only then.
    has_root: bool,
    is_dropping: bool,
    /// When the next drop is due, or the last time that there was something to do.
    drop_next: u64,
    /// BLUE: the probability in units of 2^-32, and when it changed last.
    probability: u32,
    changed: u64,
}

/// Steps of BLUE's probability: 1/256 up and 1/4096 down (`cake_set_rate`).
const GROWTH: u32 = 1 << 24;
const DECREASE: u32 = 1 << 20;

impl Control {
    /// The next packet to send.
    pub(super) fn dequeue(
        &mut self,
        now: u64,
        settings: &Settings,
        queue: &mut Fifo,
        rng: &mut impl Draw,
        drops: &mut Drops,
    ) -> Option<Held> {
        loop {
            let Some(mut packet) = queue.pop_oldest() else {
                self.queue_empty(now, settings);
                return None;
            };
            // The last packet may be marked, but is not dropped.
            if !self.drops(now, settings, &mut packet, rng) || queue.len() == 0 {
                return Some(packet);
            }
            drops.early(packet);
        }
    }

    /// Notes that a packet was lost because there was no room (`cobalt_queue_full`).
    pub(super) fn queue_full(&mut self, now: u64, settings: &Settings) {
        if now - self.changed > settings.target {
            self.probability = self.probability.saturating_add(GROWTH);
            self.changed = now;
        }
        self.is_dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Notes that the queue had its turn and was empty (`cobalt_queue_empty`).
    fn queue_empty(&mut self, now: u64, settings: &Settings) {
        if self.probability > 0 && now - self.changed > settings.target {
            self.probability = self.probability.saturating_sub(DECREASE);
            self.changed = now;
        }
        self.is_dropping = false;
        if self.is_due(now) {
            self.set_count(self.count - 1, settings);
        }
    }

    /// Whether its state has returned to the initial one.
    pub(super) fn is_at_rest(&self, now: u64) -> bool {
        self.probability == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Whether to drop this packet, which leaves the queue; it may be marked instead (`cobalt_should_drop`).
    fn drops(&mut self, now: u64, settings: &Settings, packet: &mut Held, rng: &mut impl Draw) -> bool {
        let waited = now - packet.arrived;
        let is_late = waited > settings.target && waited > 4 * settings.mtu_time;
        let mut is_due = self.is_due(now);
        let mut is_past = now > self.drop_next;
        if is_late {
            if !self.is_dropping {
                self.is_dropping = true;
                self.drop_next = self.control_law(now, settings);
            }
            self.count = self.count.max(1);
        } else {
            self.is_dropping = false;
        }
        let mut is_dropped = false;
        if is_due && self.is_dropping {
            is_dropped = !(settings.ecn && mark(packet));
            self.set_count(self.count.saturating_add(1), settings);
            is_past = now > self.drop_next;
        } else {
            while is_due {
                self.set_count(self.count - 1, settings);
                is_past = now > self.drop_next;
                is_due = self.is_due(now);
            }
        }
        // BLUE, "lack of ECN is deliberate".
        if self.probability > 0 {
            is_dropped |= ((rng.bits() >> 32) as u32) < self.probability;
        }
        if self.count == 0 {
            self.drop_next = now + settings.interval;
        } else if is_past && !is_dropped {
            self.drop_next = now;
        }
        is_dropped
    }

    fn is_due(&self, now: u64) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    /// Sets the count (`cobalt_invsqrt`), by which the next drop is due.
    fn set_count(&mut self, count: u32, settings: &Settings) {
        (self.count, self.has_root) = (count, true);
        self.drop_next = self.control_law(self.drop_next, settings);
    }

    /// RFC 8289 section 5.6: the next drop after one at `from`.
    fn control_law(&self, from: u64, settings: &Settings) -> u64 {
        if !self.has_root {
            return from;
        }
        from + (settings.interval as f64 / libm::sqrt(f64::from(self.count.max(1)))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, packet, place};
    use super::*;
    use crate::net::packets::DropCause;

    const MILLI: u64 = 1_000_000;

    /// The second packet above the target has the first signal, and later ones come closer together, as
    /// interval / sqrt(count), where count is 2 after the first.
    #[test]
    fn marks_follow_the_control_law() {
        let mut queue = CobaltConfig { packets: 100_000, ..Default::default() }.build(place()).unwrap();
        let (mut drops, mut slot, mut marks) = (Drops::default(), 0, Vec::new());
        for now in (0..1_500 * MILLI).step_by(100_000) {
            for _ in 0..2 {
                queue.enqueue(now, packet(slot, now, 0), &mut drops);
                slot += 1;
            }
            if queue.dequeue(now, &mut drops).is_some_and(|packet| packet.is_marked()) {
                marks.push(now);
            }
        }
        assert!(drops.0.is_empty());
        // Packet i, which leaves at i x 100 us, has waited for half of that.
        let mut due = 10_100_000_u64;
        for (index, &at) in marks.iter().enumerate() {
            if index > 0 {
                due += (100.0 * MILLI as f64 / ((index + 1) as f64).sqrt()) as u64;
            }
            assert!(at >= due && at - due <= 100_000, "mark {index} at {at}, due {due}");
        }
        assert!(marks.len() > 40, "{}", marks.len());
    }

    /// Linux's inverse square root is 0 at the beginning and 1 when the count has come back to 0.
    #[test]
    fn only_the_first_signal_of_all_comes_at_once() {
        let settings = Settings { target: 5 * MILLI, interval: 100 * MILLI, mtu_time: 0, ecn: false };
        let (mut control, mut rng) = (Control::default(), place().streams.stream("test"));
        let mut drops = |at: u64, waited: u64| {
            control.drops(at * MILLI, &settings, &mut packet(0, (at - waited) * MILLI, 0), &mut rng)
        };
        assert!(!drops(999, 1));
        assert_eq!([1_000, 1_001, 1_002].map(|at| drops(at, 10)), [false, true, false]);
        assert!(!drops(3_000, 1));
        assert_eq!([3_001, 3_002, 3_100, 3_101].map(|at| drops(at, 10)), [false, false, false, true]);
    }

    /// As long as the delay is below the target, the count falls by the law by which it grew.
    #[test]
    fn the_count_falls_while_there_is_no_delay() {
        let settings = Settings { target: 5 * MILLI, interval: 100 * MILLI, mtu_time: 0, ecn: false };
        let mut control =
            Control { count: 4, drop_next: 1_000 * MILLI, is_dropping: true, ..Default::default() };
        let mut rng = place().streams.stream("test");
        // Drops are due at 1 s, then 100 / sqrt(3) and 100 / sqrt(2) ms later.
        let mut on_time = packet(0, 1_130 * MILLI, 0);
        assert!(!control.drops(1_130 * MILLI, &settings, &mut on_time, &mut rng));
        assert_eq!((control.count, control.is_dropping), (1, false));
        assert_eq!(control.drop_next, 1_000 * MILLI + 57_735_026 + 70_710_678 + 100 * MILLI);
    }

    /// BLUE: a queue that is always full adds 1/256 in every target, and one that is empty takes off 1/4096.
    #[test]
    fn the_probability_follows_overflows_and_idleness() {
        let mut queue = CobaltConfig { packets: 10, ..Default::default() }.build(place()).unwrap();
        // Ten times as many packets arrive as leave; the probability of 90 % that balances this is not
        // reached before 230 steps.
        let (drops, _) = overload(&mut queue, MILLI, 10, 600 * MILLI);
        assert!(drops.iter().any(|(_, cause)| *cause == DropCause::QueueFull));
        // A step comes with the first overflow later than 5 ms after the last one, at whole milliseconds:
        // every 6 ms.
        let steps = u64::from(queue.control.probability / GROWTH);
        assert!((98..=100).contains(&steps), "{steps}");
        let mut gone = Drops::default();
        while queue.dequeue(601 * MILLI, &mut gone).is_some() {}
        let before = queue.control.probability;
        for step in 1..=10 {
            assert!(queue.dequeue((601 + 6 * step) * MILLI, &mut gone).is_none());
        }
        assert_eq!(before - queue.control.probability, 10 * DECREASE);
    }

    #[test]
    fn the_last_packet_is_not_dropped() {
        let mut queue = CobaltConfig::default().build(place()).unwrap();
        queue.control.probability = u32::MAX;
        let mut drops = Drops::default();
        for slot in 0..3 {
            queue.enqueue(0, packet(slot, 0, 0), &mut drops);
        }
        assert_eq!(queue.dequeue(0, &mut drops).map(|packet| packet.slot), Some(2));
        assert_eq!(drops.0.len(), 2);
    }
}
