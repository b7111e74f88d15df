//! CoDel (RFC 8289): controlled delay.
//!
//! At departure, a packet that has waited for `target` or longer, when all have for an `interval`, is dropped
//! or marked; then the next ones at times that come closer as interval / sqrt(count). The state machine is
//! that of RFC 8289 section 5 in the form that Linux gives it (`codel_impl.h`), whose defaults are the same:
//! target 5 ms, interval 100 ms, 1000 packets, at most one MTU left alone. The square root is exact, as in
//! the RFC; Linux approximates it (`square_root = "newton"`). Deviation: packets have no link-layer header,
//! so an MTU is 1500 B where Linux has 1514 B.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in, mark};
use crate::net::packets::Held;

/// How 1 / sqrt(count) of CoDel's control law is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SquareRoot {
    /// Exactly (RFC 8289).
    #[default]
    Exact,
    /// As Linux and ns-3 do: one Newton step in 16 bits from the last value each time that the count changes.
    /// When dropping begins again with a lower count than it ended with, the first drops come sooner.
    Newton,
}

impl SquareRoot {
    /// Whether it is the default, which scenario files may leave out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped. Default: 1000.
    pub packets: u32,
    /// Acceptable standing delay. Default: 5 ms.
    pub target: Duration,
    /// How long the delay must be above the target before the first drop; about the longest round-trip time.
    /// Default: 100 ms.
    pub interval: Duration,
    /// Nothing is dropped while no more bytes than this wait behind the packet. Default: 1500 B.
    pub mtu: Bytes,
    /// Mark ECN-capable packets instead of dropping them. Default: false.
    pub ecn: bool,
    /// How the times between drops are computed. Default: `exact`.
    #[serde(skip_serializing_if = "SquareRoot::is_default")]
    pub square_root: SquareRoot,
}

impl Default for CodelConfig {
    fn default() -> Self {
        let Settings { target, interval, mtu, ecn, square_root, .. } = Settings::DEFAULT;
        Self {
            packets: 1000,
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            mtu: Bytes(mtu),
            ecn,
            square_root,
        }
    }
}

impl CodelConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Codel, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        let settings = Settings::new(place, self.target, self.interval, self.mtu, self.ecn)?;
        let settings = Settings { square_root: self.square_root, ..settings };
        Ok(Codel { packets: self.packets.into(), queue: Fifo::default(), control: Control::new(settings) })
    }
}

/// A queue with CoDel.
#[derive(Clone, Debug)]
pub(crate) struct Codel {
    packets: u64,
    queue: Fifo,
    control: Control,
}

impl QueueDisc for Codel {
    fn enqueue(&mut self, _: u64, packet: Held, drops: &mut Drops) {
        if self.queue.backlog().packets < self.packets {
            self.queue.push(packet);
        } else {
            drops.overflow(packet);
        }
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        self.control.dequeue(now, &mut self.queue, 0, drops)
    }

    kept_in!(queue);
}

/// The parameters of RFC 8289 section 4, in nanoseconds and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) target: u64,
    pub(super) interval: u64,
    pub(super) mtu: u64,
    /// Whether the data in other queues counts as well.
    pub(super) mtu_of_all: bool,
    pub(super) ecn: bool,
    pub(super) square_root: SquareRoot,
}

impl Settings {
    /// RFC 8289 sections 4.3 and 4.4; one packet of Ethernet's MTU.
    pub(super) const DEFAULT: Self = Self {
        target: 5_000_000,
        interval: 100_000_000,
        mtu: 1500,
        mtu_of_all: false,
        ecn: false,
        square_root: SquareRoot::Exact,
    };

    pub(super) fn new(
        place: Place<'_>,
        target: Duration,
        interval: Duration,
        mtu: Bytes,
        ecn: bool,
    ) -> Result<Self, String> {
        check_times(place, target, interval)?;
        Ok(Self {
            target: target.as_nanos(),
            interval: interval.as_nanos(),
            mtu: mtu.0,
            ecn,
            ..Self::DEFAULT
        })
    }
}

const MAX_INTERVAL: Duration = Duration::from_secs(1000);

/// Checks that an interval of CoDel is in its range.
pub(super) fn check_interval(place: Place<'_>, name: &str, interval: Duration) -> Result<(), String> {
    if interval.is_zero() || interval > MAX_INTERVAL {
        return Err(format!(
            "{}.{name} is {interval}, allowed is more than 0 s to {MAX_INTERVAL}",
            place.key
        ));
    }
    Ok(())
}

/// Checks that CoDel's target and interval are in their ranges.
pub(super) fn check_times(place: Place<'_>, target: Duration, interval: Duration) -> Result<(), String> {
    check_interval(place, "interval", interval)?;
    if target > MAX_INTERVAL {
        return Err(format!("{}.target is {target}, allowed is at most {MAX_INTERVAL}", place.key));
    }
    Ok(())
}

/// The state of RFC 8289 section 5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    pub(super) settings: Settings,
    /// When the delay will have been above the target for an interval; 0 while it is below.
    first_above: u64,
    is_dropping: bool,
    drop_next: u64,
    /// Drops since dropping began.
    count: u64,
    /// The value of `count` when dropping last began.
    last_count: u64,
    /// Linux's approximation of 1 / sqrt(count), in 2^-16 (`rec_inv_sqrt`).
    inverse_root: u16,
}

impl Control {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            first_above: 0,
            is_dropping: false,
            drop_next: 0,
            count: 0,
            last_count: 0,
            inverse_root: 0,
        }
    }

    /// Whether the delay has been above the target for an interval, including this packet's, which leaves
    /// `bytes_left` behind it (RFC 8289 section 5.6, `dodequeue`).
    pub(super) fn is_sustained(&mut self, now: u64, packet: &Held, bytes_left: u64) -> bool {
        if now - packet.arrived < self.settings.target || bytes_left <= self.settings.mtu {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + self.settings.interval;
            return false;
        }
        now >= self.first_above
    }

    /// Whether a drop is due once the delay is sustained, and if so, records it: the schedule of `dequeue`
    /// for disciplines with a further condition.
    pub(super) fn takes_turn(&mut self, now: u64, is_sustained: bool) -> bool {
        if !is_sustained {
            self.is_dropping = false;
            return false;
        }
        if !self.is_dropping {
            self.begin(now);
            return true;
        }
        let is_due = now >= self.drop_next;
        if is_due {
            self.set_count(self.count + 1);
            self.drop_next = self.control_law(self.drop_next);
        }
        is_due
    }

    /// The next packet to send (RFC 8289 section 5.5, `deque`). `others` bytes wait in other queues for the
    /// same server.
    pub(super) fn dequeue(
        &mut self,
        now: u64,
        queue: &mut Fifo,
        others: u64,
        drops: &mut Drops,
    ) -> Option<Held> {
        let Some((mut packet, mut is_sustained)) = self.pop(now, queue, others) else {
            self.is_dropping = false;
            return None;
        };
        if self.is_dropping {
            if !is_sustained {
                self.is_dropping = false;
            }
            while self.is_dropping && now >= self.drop_next {
                self.set_count(self.count + 1);
                if self.settings.ecn && mark(&mut packet) {
                    self.drop_next = self.control_law(self.drop_next);
                    return Some(packet);
                }
                drops.early(packet);
                let Some(next) = self.pop(now, queue, others) else {
                    self.is_dropping = false;
                    return None;
                };
                (packet, is_sustained) = next;
                if is_sustained {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.is_dropping = false;
                }
            }
            return Some(packet);
        }
        if is_sustained {
            let is_marked = self.settings.ecn && mark(&mut packet);
            self.begin(now);
            if !is_marked {
                drops.early(packet);
                return self.pop(now, queue, others).map(|(packet, _)| packet);
            }
        }
        Some(packet)
    }

    /// Begins to drop, at the former rate if that is not long ago (RFC 8289 section 5.5; Linux counts only
    /// the drops of the last time).
    fn begin(&mut self, now: u64) {
        self.is_dropping = true;
        let since_last = self.count - self.last_count;
        let is_recent = now.saturating_sub(self.drop_next) < 16 * self.settings.interval;
        if since_last > 1 && is_recent {
            self.set_count(since_last);
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
    }

    fn pop(&mut self, now: u64, queue: &mut Fifo, others: u64) -> Option<(Held, bool)> {
        let Some(packet) = queue.pop_oldest() else {
            self.first_above = 0;
            return None;
        };
        let left = queue.bytes() + if self.settings.mtu_of_all { others } else { 0 };
        Some((packet, self.is_sustained(now, &packet, left)))
    }

    /// Sets the count and with it Linux's root (`codel_Newton_step`): x (3 - count x^2) / 2.
    fn set_count(&mut self, count: u64) {
        self.count = count;
        if self.settings.square_root == SquareRoot::Newton {
            let root = u64::from(self.inverse_root) << 16;
            let square = (root * root) >> 32;
            let rest = (3_u64 << 32).saturating_sub(count * square) >> 2;
            self.inverse_root = ((rest * root) >> 47) as u16;
        }
    }

    /// RFC 8289 section 5.6: the next drop after one at `from`.
    fn control_law(&self, from: u64) -> u64 {
        let interval = self.settings.interval;
        from + match self.settings.square_root {
            SquareRoot::Exact => (interval as f64 / libm::sqrt(self.count as f64)) as u64,
            SquareRoot::Newton => (interval * u64::from(self.inverse_root)) >> 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, place};
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// Constant overload: the first drop comes an interval after the delay reached the target, and the n-th
    /// interval / sqrt(n) after the one before it (RFC 8289 section 5.6).
    #[test]
    fn drops_follow_the_control_law() {
        let mut codel = CodelConfig { packets: 100_000, ..Default::default() }.build(place()).unwrap();
        // One packet leaves every 100 us, and two arrive.
        let (drops, _) = overload(&mut codel, 100_000, 2, 1_500 * MILLI);
        let times: Vec<u64> = drops.iter().map(|&(at, _)| at).collect();
        // Packet i, which leaves at i x 100 us, came in the first half of that time, so packet 99 has waited
        // for 5 ms.
        assert_eq!(times[0], 109_900_000);
        let mut due = times[0];
        for (index, &at) in times.iter().enumerate().skip(1) {
            due += (100.0 * MILLI as f64 / (index as f64).sqrt()) as u64;
            // The drop comes with the next departure.
            assert!(at >= due && at - due <= 100_000, "drop {index} at {at}, due {due}");
        }
        assert!(times.len() > 40, "{}", times.len());
    }

    /// The numbers of `codel_Newton_step` in 2^-16, each one step from the last.
    #[test]
    fn the_approximated_root_is_that_of_linux() {
        let settings = Settings { square_root: SquareRoot::Newton, ..Settings::DEFAULT };
        let mut control = Control::new(settings);
        control.begin(0);
        assert_eq!((control.count, control.inverse_root), (1, 65_535));
        let roots: Vec<u16> = (2..=5)
            .map(|count| {
                control.set_count(count);
                control.inverse_root
            })
            .collect();
        assert_eq!(roots, [32_769, 36_864, 31_968, 28_935]);
        // Dropping begins again with the drops of the last time: 100 ms x 0.533 instead of 100 ms / sqrt(3).
        control.last_count = 2;
        control.begin(MILLI);
        assert_eq!(control.count, 3);
        assert_eq!(control.drop_next, 54_315_734);
    }

    #[test]
    fn marks_replace_drops() {
        let mut codel =
            CodelConfig { packets: 100_000, ecn: true, ..Default::default() }.build(place()).unwrap();
        let (drops, marks) = overload(&mut codel, 100_000, 2, 1_000 * MILLI);
        assert!(drops.is_empty() && marks > 20, "{} {marks}", drops.len());
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        let mut codel =
            CodelConfig { target: Duration::ZERO, packets: 2, ..Default::default() }.build(place()).unwrap();
        // Two packets of 1500 B wait at most, so no more than an MTU waits behind the one that leaves.
        let (drops, _) = overload(&mut codel, MILLI, 2, 1_000 * MILLI);
        assert!(drops.iter().all(|&(_, cause)| cause == crate::net::packets::DropCause::QueueFull));
        assert!(!drops.is_empty());
    }
}
