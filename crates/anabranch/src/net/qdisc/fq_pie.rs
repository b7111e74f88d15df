//! FQ-PIE: flows take turns as in FQ-CoDel (RFC 8290), and PIE (RFC 8033) acts on each one's queue.
//!
//! As Linux has it (`sch_fq_pie.c`): a packet that finds the limit of all queues reached is dropped, and the
//! probability of each queue follows the waiting time in it alone; two full packets in it are not spared, as
//! they are by RFC 8033, and the probability may grow beyond 1. `fair_queue.rs` says how flows are told apart
//! and take turns, `pie.rs` how PIE differs from Linux's. Defaults are Linux's.

use anabranch_transport::rng::BlockRng;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fair_queue::{FairQueue, FlowControl, Sharing};
use super::fifo::Fifo;
use super::interface::{Drops, Place};
use super::pie::{self, PieConfig, PieVariant};
use crate::net::packets::{Held, Waiting};

/// FQ-PIE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqPieConfig {
    /// Most packets that wait in all queues together, at least 1; a packet that finds as many is dropped.
    /// Default: 10240.
    pub packets: u32,
    /// Number of queues, up to 65536; a hash assigns flows to them. Default: 1024.
    pub flows: u32,
    /// Bytes that a queue may send in a turn, up to 1 MB. Default: 1500 B.
    pub quantum: Bytes,
    /// The waiting time that queues are held to. Default: 15 ms.
    pub target: Duration,
    /// Time between updates of the probabilities, from 1 ms to 1 s. Default: 15 ms.
    pub update: Duration,
    /// When the first update is made, at most 10 s. Default: as `update`; Linux makes it half a second after
    /// the discipline is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_update: Option<Duration>,
    /// Change of a probability per update and second above the target, from 0 to 100. Default: 0.125.
    pub alpha: f64,
    /// Change of a probability per update and second of growth, from 0 to 100. Default: 1.25.
    pub beta: f64,
    /// After an idle time of its queue, nothing of a flow is dropped for this long. Default: 150 ms.
    pub burst: Duration,
    /// Mark ECN-capable packets instead of dropping them, as long as the probability is not above
    /// `mark_up_to`. Default: false.
    pub ecn: bool,
    /// Above this probability ECN-capable packets are dropped as well. Default: 10 %.
    pub mark_up_to: Probability,
}

impl Default for FqPieConfig {
    fn default() -> Self {
        let Sharing { packets, flows, quantum, .. } = Sharing::DEFAULT;
        let PieConfig { target, update, first_update, alpha, beta, burst, ecn, mark_up_to, .. } =
            PieConfig::default();
        Self { packets, flows, quantum, target, update, first_update, alpha, beta, burst, ecn, mark_up_to }
    }
}

impl FqPieConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<FqPie, String> {
        let &Self { packets, flows, quantum, target, update, first_update, .. } = self;
        let &Self { alpha, beta, burst, ecn, mark_up_to, .. } = self;
        let variant = PieVariant::Linux;
        let pie =
            PieConfig { packets, target, update, first_update, alpha, beta, burst, ecn, mark_up_to, variant };
        pie.check(place)?;
        let key = place.streams.key(place.component);
        let control = pie::Control::new(pie, BlockRng::new(key, 0));
        let control = FlowPie { packets: packets.into(), key, control };
        // No packet ever exceeds the limit, so none has to be dropped for that.
        Sharing { packets, flows, quantum, drop_batch: 1 }.build(place, control)
    }
}

/// Queues with PIE that take turns.
pub(crate) type FqPie = FairQueue<FlowPie>;

/// PIE for one flow's queue.
#[derive(Clone, Debug)]
pub(crate) struct FlowPie {
    /// Most packets that wait in all queues.
    packets: u64,
    key: u64,
    control: pie::Control<BlockRng>,
}

impl FlowControl for FlowPie {
    fn for_queue(&self, number: u32) -> Self {
        let rng = BlockRng::new(self.key, number.into());
        Self { control: self.control.with_rng(rng), ..*self }
    }

    fn admits(
        &mut self,
        now: u64,
        packet: &mut Held,
        queue: &Fifo,
        waiting: Waiting,
        drops: &mut Drops,
    ) -> bool {
        self.control.admits(now, packet, queue, waiting.packets >= self.packets, drops)
    }

    fn dequeue(&mut self, now: u64, queue: &mut Fifo, _: u64, _: &mut Drops) -> Option<Held> {
        self.control.dequeue(now, queue)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{overload, packet, place};
    use super::*;
    use crate::net::packets::DropCause;
    use crate::net::qdisc::interface::QueueDisc as _;

    const MILLI: u64 = 1_000_000;

    /// Flow 1 sends three packets per departure and flow 2 one in four departures: the first is limited to
    /// what is left, and the second loses nothing. With one queue for both, both lose packets.
    #[test]
    fn a_flow_that_sends_little_loses_nothing() {
        let lost = |flows| {
            let mut queue = FqPieConfig { flows, ..Default::default() }.build(place()).unwrap();
            let (mut drops, mut sent) = (Drops::default(), [0_u32; 3]);
            for step in 0..20_000 {
                let now = step * MILLI;
                for _ in 0..3 {
                    queue.enqueue(now, packet(0, now, 1), &mut drops);
                }
                if step % 4 == 0 {
                    queue.enqueue(now, packet(0, now, 2), &mut drops);
                }
                if let Some(packet) = queue.dequeue(now, &mut drops) {
                    sent[packet.flow as usize] += 1;
                }
            }
            let count = |flow| drops.0.iter().filter(|(packet, _)| packet.flow == flow).count();
            let early = drops.0.iter().filter(|(_, cause)| *cause == DropCause::Aqm).count();
            (sent, count(1), count(2), early)
        };
        let (sent, first, second, early) = lost(1024);
        assert_eq!((sent[2], second), (5000, 0));
        assert!(first > 40_000 && early > 20_000, "{first} {early}");
        assert!(lost(1).2 > 1000);
    }

    #[test]
    fn what_finds_the_limit_of_all_queues_is_dropped() {
        let mut queue = FqPieConfig { packets: 4, ..Default::default() }.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, flow) in [1, 1, 1, 1, 2].into_iter().enumerate() {
            queue.enqueue(0, packet(slot as u32, 0, flow), &mut drops);
        }
        assert_eq!(drops.0.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [4]);
    }

    /// Nothing is dropped before the first update, as the probability is 0 until then.
    #[test]
    fn the_first_update_can_be_late() {
        let first_drop = |first_update| {
            let config = FqPieConfig { first_update, ..Default::default() };
            overload(&mut config.build(place()).unwrap(), MILLI, 2, 2_000 * MILLI).0[0].0
        };
        let late = first_drop(Some(Duration::from_millis(500)));
        assert!((500 * MILLI..600 * MILLI).contains(&late), "{late}");
        assert!(first_drop(None) < 450 * MILLI);
    }

    /// Each queue has draws of its own.
    #[test]
    fn each_queue_has_its_own_draws() {
        let queue = FqPieConfig::default().build(place()).unwrap();
        let control = queue.control();
        assert_ne!(format!("{:?}", control.for_queue(1)), format!("{:?}", control.for_queue(2)));
    }
}
