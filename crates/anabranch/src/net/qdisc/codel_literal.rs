//! An ablation of CoDel: every packet that has waited longer than the target is dropped.
//!
//! This is how the prose of Felix, Santos and Nogueira describes CoDel. RFC 8289 drops one packet per
//! interval, and only once the delay has lasted for an interval. It is here only to be compared with
//! [`codel`](super::codel).

use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::interface::{Drops, Place, QueueDisc, check_range, kept_in};
use crate::net::packets::Held;

/// CoDel as it is described in prose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelLiteralConfig {
    /// Most packets that wait, at least 1; a packet that finds as many is dropped. Default: 1000.
    pub packets: u32,
    /// A packet that has waited longer than this is dropped. Default: 5 ms.
    pub target: Duration,
}

impl Default for CodelLiteralConfig {
    fn default() -> Self {
        Self { packets: 1000, target: Duration::from_millis(5) }
    }
}

impl CodelLiteralConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<CodelLiteral, String> {
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        let (packets, target) = (self.packets.into(), self.target.as_nanos());
        Ok(CodelLiteral { packets, target, queue: Fifo::default() })
    }
}

/// A queue with this control.
#[derive(Clone, Debug)]
pub(crate) struct CodelLiteral {
    packets: u64,
    target: u64,
    queue: Fifo,
}

impl QueueDisc for CodelLiteral {
    fn enqueue(&mut self, _: u64, packet: Held, drops: &mut Drops) {
        if self.queue.backlog().packets < self.packets {
            self.queue.push(packet);
        } else {
            drops.overflow(packet);
        }
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        loop {
            let packet = self.queue.pop_oldest()?;
            if now - packet.arrived <= self.target {
                return Some(packet);
            }
            drops.early(packet);
        }
    }

    kept_in!(queue);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;

    #[test]
    fn everything_that_is_late_is_dropped() {
        let mut queue = CodelLiteralConfig::default().build(place()).unwrap();
        let mut drops = Drops::default();
        for millis in 0..10 {
            queue.enqueue(millis * 1_000_000, packet(millis as u32, millis * 1_000_000, 0), &mut drops);
        }
        let sent = queue.dequeue(12_000_000, &mut drops).map(|packet| packet.slot);
        assert_eq!((sent, drops.0.len()), (Some(7), 7));
    }
}
