//! Queue disciplines that are classes of the program around the library (see
//! [`anabranch_transport::plugin`]).
//!
//! The packets stay here; a plug-in knows them by number and says which of them is sent or dropped.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::Ecn;
use anabranch_transport::plugin::{Config, Maker, Role};

use super::interface::{Drops, Place, QueueDisc};
use crate::net::packets::{DropCause, Held, Waiting};

/// A packet as a plug-in sees it.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPacket {
    /// Its number in this queue.
    pub id: u64,
    /// Bytes, all headers included.
    pub size: u32,
    /// What its transport understands of congestion marks.
    pub ecn: Ecn,
    /// The flow, side and path that sent it, as a number; cross traffic has numbers of its own.
    pub flow: u32,
    /// The nodes that send and receive it, as numbers.
    pub hosts: [u8; 2],
    /// The treatment that it asks for.
    pub dscp: Dscp,
}

/// A packet that goes no further.
#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    /// Its number.
    pub id: u64,
    /// Whether there was no room for it; otherwise the discipline dropped it before.
    pub is_overflow: bool,
}

/// A packet that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its number.
    pub id: u64,
    /// Whether it is marked, if its transport understands marks.
    pub is_marked: bool,
}

/// A discipline of a plug-in. It names only packets that it has been given and has not given away. Times are
/// in nanoseconds and never decrease.
pub trait PluginQueue: fmt::Debug + Send {
    /// Takes a packet that comes; those that do not stay, it or others, are appended to `dropped`.
    fn enqueue(&mut self, now: u64, packet: &QueuedPacket, dropped: &mut Vec<Dropped>);

    /// Called when the server is free: gives the packet to send. `None` if nothing waits, or if what waits
    /// may not leave before the time in `not_before`.
    fn dequeue(&mut self, now: u64, dropped: &mut Vec<Dropped>) -> Option<Sent>;

    /// When to call `dequeue` again after it gave `None`, later than that was; `u64::MAX` if only a packet
    /// that arrives changes anything.
    fn not_before(&self) -> u64;

    /// The link goes down: everything that waited is gone.
    fn clear(&mut self, now: u64);
}

/// Makes a discipline, with this seed for its random numbers.
pub type Make = fn(&Config, seed: u64) -> Box<dyn PluginQueue>;

/// What makes disciplines.
pub static MAKER: Maker<Make> = Maker::new();

/// A discipline of a plug-in and its packets.
#[derive(Debug)]
pub(crate) struct Plugin {
    queue: Box<dyn PluginQueue>,
    packets: BTreeMap<u64, Held>,
    bytes: u64,
    next_id: u64,
    dropped: Vec<Dropped>,
}

/// Memory of a packet here and in the plug-in, about, in bytes.
const PACKET_BYTES: usize = 300;

impl Plugin {
    pub(super) fn build(config: &Config, place: Place<'_>) -> Result<Self, String> {
        config.check(Role::QueueDiscipline).map_err(|error| format!("{}.{error}", place.key))?;
        let queue = MAKER.get()(config, place.streams.key(place.component));
        Ok(Self { queue, packets: BTreeMap::new(), bytes: 0, next_id: 0, dropped: Vec::new() })
    }

    fn take(&mut self, id: u64) -> Held {
        let packet = self.packets.remove(&id).expect("a plug-in names packets that it has");
        self.bytes -= u64::from(packet.size);
        packet
    }

    fn hand_over(&mut self, drops: &mut Drops) {
        for Dropped { id, is_overflow } in std::mem::take(&mut self.dropped) {
            let cause = if is_overflow { DropCause::QueueFull } else { DropCause::Aqm };
            let packet = self.take(id);
            drops.0.push((packet, cause));
        }
    }
}

impl QueueDisc for Plugin {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        let Held { size, ecn, flow, hosts, .. } = packet;
        let id = self.next_id;
        self.next_id += 1;
        self.packets.insert(id, packet);
        self.bytes += u64::from(size);
        self.queue.enqueue(
            now,
            &QueuedPacket { id, size, ecn, flow, hosts, dscp: packet.dscp() },
            &mut self.dropped,
        );
        self.hand_over(drops);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        if self.packets.is_empty() {
            // It is told of the free server, too: CoDel leaves its dropping state then.
            self.queue.dequeue(now, &mut self.dropped);
            return None;
        }
        let sent = self.queue.dequeue(now, &mut self.dropped);
        self.hand_over(drops);
        let Sent { id, is_marked } = sent?;
        let mut packet = self.take(id);
        if is_marked && packet.ecn != Ecn::NotEct {
            packet.mark();
        }
        Some(packet)
    }

    fn not_before(&self) -> u64 {
        if self.packets.is_empty() { u64::MAX } else { self.queue.not_before() }
    }

    fn flush(&mut self, now: u64, _drops: &mut Drops) -> Vec<Held> {
        self.queue.clear(now);
        self.bytes = 0;
        std::mem::take(&mut self.packets).into_values().collect()
    }

    fn waiting(&self) -> Waiting {
        Waiting { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    fn memory(&self) -> usize {
        self.packets.len() * PACKET_BYTES
    }
}
