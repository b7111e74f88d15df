//! FQ-CoDel (RFC 8290): flows take turns, and CoDel acts on each one's queue.
//!
//! `fair_queue.rs` says how flows are told apart and take turns, `codel.rs` how CoDel differs from Linux's.
//! Defaults are Linux's (RFC 8290 section 5.2), marks included.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Control, Settings, SquareRoot};
use super::fair_queue::{FairQueue, FlowControl, Sharing};
use super::fifo::Fifo;
use super::interface::{Drops, Place};
use crate::net::packets::Held;

/// FQ-CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelConfig {
    /// Most packets that wait in all queues together, at least 1. Default: 10240.
    pub packets: u32,
    /// Number of queues, up to 65536; a hash assigns flows to them. Default: 1024.
    pub flows: u32,
    /// Bytes that a queue may send in a turn, up to 1 MB. Default: 1500 B.
    pub quantum: Bytes,
    /// Most packets that the longest queue loses when there are too many, at least 1. Default: 64.
    pub drop_batch: u32,
    /// Acceptable standing delay. Default: 5 ms.
    pub target: Duration,
    /// How long the delay must be above the target before the first drop. Default: 100 ms.
    pub interval: Duration,
    /// Nothing is dropped while no more bytes than this wait in the flow's queue. Default: 1500 B.
    pub mtu: Bytes,
    /// Whether `mtu` is compared with what waits in all queues together, as Linux does (`sch_fq_codel.c`),
    /// instead of the flow's own. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mtu_of_all: bool,
    /// Mark ECN-capable packets instead of dropping them. Default: true.
    pub ecn: bool,
    /// How the times between drops are computed. Default: `exact`.
    #[serde(skip_serializing_if = "SquareRoot::is_default")]
    pub square_root: SquareRoot,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        let Sharing { packets, flows, quantum, drop_batch } = Sharing::DEFAULT;
        let Settings { target, interval, mtu, square_root, .. } = Settings::DEFAULT;
        Self {
            packets,
            flows,
            quantum,
            drop_batch,
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            mtu: Bytes(mtu),
            mtu_of_all: false,
            ecn: true,
            square_root,
        }
    }
}

impl FqCodelConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<FqCodel, String> {
        let Self { packets, flows, quantum, drop_batch, mtu_of_all, square_root, .. } = *self;
        let settings = Settings::new(place, self.target, self.interval, self.mtu, self.ecn)?;
        let control = Control::new(Settings { mtu_of_all, square_root, ..settings });
        Sharing { packets, flows, quantum, drop_batch }.build(place, control)
    }
}

/// Queues with CoDel that take turns.
pub(crate) type FqCodel = FairQueue<Control>;

impl FlowControl for Control {
    fn dequeue(&mut self, now: u64, queue: &mut Fifo, others: u64, drops: &mut Drops) -> Option<Held> {
        Self::dequeue(self, now, queue, others, drops)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;
    use crate::net::qdisc::interface::QueueDisc as _;

    fn order(config: &FqCodelConfig, flows: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, &flow) in flows.iter().enumerate() {
            queue.enqueue(0, packet(slot as u32, 0, flow), &mut drops);
        }
        let sent = std::iter::from_fn(|| queue.dequeue(1, &mut drops)).map(|packet| packet.slot).collect();
        (sent, drops.0.iter().map(|(packet, _)| packet.slot).collect())
    }

    #[test]
    fn flows_take_turns() {
        // Three packets of one flow, then two of another: they alternate.
        let (sent, _) = order(&FqCodelConfig::default(), &[1, 1, 1, 2, 2]);
        assert_eq!(sent, [0, 3, 1, 4, 2]);
        // A single queue is first in, first out.
        let (sent, _) = order(&FqCodelConfig { flows: 1, ..Default::default() }, &[1, 1, 1, 2, 2]);
        assert_eq!(sent, [0, 1, 2, 3, 4]);
        // A turn is two packets long.
        let config = FqCodelConfig { quantum: Bytes(3000), ..Default::default() };
        assert_eq!(order(&config, &[1, 1, 1, 2, 2]).0, [0, 1, 3, 4, 2]);
    }

    /// Two flows whose packets come and go one for one, each with no more than one left behind the one that
    /// leaves.
    #[test]
    fn a_short_queue_is_left_alone_or_not_beside_others() {
        let drops_with = |mtu_of_all| {
            let config = FqCodelConfig { mtu_of_all, ecn: false, ..Default::default() };
            let mut queue = config.build(place()).unwrap();
            let mut drops = Drops::default();
            for slot in 0..4 {
                queue.enqueue(0, packet(slot, 0, slot % 2), &mut drops);
            }
            for slot in 4..100 {
                let now = u64::from(slot) * 10_000_000;
                let Some(left) = queue.dequeue(now, &mut drops) else { break };
                queue.enqueue(now, packet(slot, now, left.flow), &mut drops);
            }
            drops.0.len()
        };
        assert_eq!(drops_with(false), 0);
        assert!(drops_with(true) > 0);
    }

    #[test]
    fn the_longest_queue_makes_room_at_its_head() {
        let config = FqCodelConfig { packets: 4, ..Default::default() };
        // The fifth packet is one too many, so half of the four packets of flow 1 are dropped.
        assert_eq!(order(&config, &[1, 1, 1, 1, 2]).1, [0, 1]);
        let config = FqCodelConfig { packets: 4, drop_batch: 1, ..Default::default() };
        assert_eq!(order(&config, &[1, 1, 1, 1, 2]).1, [0]);
    }
}
