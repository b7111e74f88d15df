//! FQ-LIFO-CoDel: flows take turns as in FQ-CoDel (RFC 8290), each with a stack and LIFO-CoDel's state of its
//! own.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::Settings;
use super::fair_queue::{FairQueue, FlowControl, Sharing};
use super::fifo::Fifo;
use super::interface::{Drops, Place};
use super::lifo_codel::{LifoControl, LifoRule};
use crate::net::packets::Held;

/// FQ-LIFO-CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqLifoCodelConfig {
    /// Most packets that wait on all stacks together, at least 1. Default: 10240.
    pub packets: u32,
    /// Number of stacks, up to 65536; a hash assigns flows to them. Default: 1024.
    pub flows: u32,
    /// Bytes that a stack may send in a turn, up to 1 MB. Default: 1500 B.
    pub quantum: Bytes,
    /// Most packets that the highest stack loses at its bottom when there are too many, at least 1. Default:
    /// 64.
    pub drop_batch: u32,
    /// Acceptable standing delay. Default: 5 ms.
    pub target: Duration,
    /// How long the delay must be above the target before a drop. Default: 100 ms.
    pub interval: Duration,
    /// `gate`, `law` and `cumulative` drop nothing while no more bytes than this are left on a stack.
    /// Default: 1500 B.
    pub mtu: Bytes,
    /// When a packet is dropped. Default: `gate`.
    pub rule: LifoRule,
}

impl Default for FqLifoCodelConfig {
    fn default() -> Self {
        let Sharing { packets, flows, quantum, drop_batch } = Sharing::DEFAULT;
        let Settings { target, interval, mtu, .. } = Settings::DEFAULT;
        Self {
            packets,
            flows,
            quantum,
            drop_batch,
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            mtu: Bytes(mtu),
            rule: LifoRule::default(),
        }
    }
}

impl FqLifoCodelConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<FqLifoCodel, String> {
        let &Self { packets, flows, quantum, drop_batch, target, interval, mtu, rule } = self;
        let control = LifoControl::new(Settings::new(place, target, interval, mtu, false)?, rule);
        Sharing { packets, flows, quantum, drop_batch }.build(place, control)
    }
}

/// Stacks with LIFO-CoDel that take turns.
pub(crate) type FqLifoCodel = FairQueue<LifoControl>;

impl FlowControl for LifoControl {
    fn dequeue(&mut self, now: u64, queue: &mut Fifo, _others: u64, drops: &mut Drops) -> Option<Held> {
        Self::dequeue(self, now, queue, drops)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;
    use crate::net::qdisc::interface::QueueDisc as _;

    #[test]
    fn flows_take_turns_and_each_is_a_stack() {
        let mut queue = FqLifoCodelConfig::default().build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, flow) in [1, 1, 1, 2, 2].into_iter().enumerate() {
            queue.enqueue(0, packet(slot as u32, 0, flow), &mut drops);
        }
        let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(1, &mut drops)).map(|p| p.slot).collect();
        assert_eq!(sent, [2, 4, 1, 3, 0]);
    }
}
