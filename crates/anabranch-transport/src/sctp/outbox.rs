//! What an association has for its caller: packets and events. A packet gets its memory from one that has
//! arrived.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::answers::Answers;
use crate::endpoint::{Event, Output};
use crate::flow::{Ecn, PathId};
use crate::packet_pool::{Boxes, PacketPool};
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::Chunk;
use crate::wire::{Body, Packet};

/// Stands in for the first chunk of a packet that is to be filled in. Like DATA, which may stand there too,
/// it owns no memory.
const BLANK: Chunk = Chunk::CookieAck;

thread_local! {
    /// Boxes of packets whose first chunk owns no memory, and is the only one.
    static SPARE_PACKETS: RefCell<Boxes> = const { RefCell::new(Vec::new()) };
}

/// A packet to be filled in.
#[cold]
pub(super) fn blank_packet() -> Box<Packet> {
    let (first, rest) = (BLANK, Vec::new());
    let sctp = SctpPacket { source_port: 0, destination_port: 0, verification_tag: 0, first, rest };
    Box::new(Packet { path: PathId::default(), ecn: Ecn::default(), size: 0, body: Body::Sctp(sctp) })
}

/// The outputs of an association, in their order.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) outputs: VecDeque<Output>,
    /// The answers to the packet at hand, which leave together.
    pub(super) answers: Answers,
    spare: PacketPool,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { outputs: VecDeque::new(), answers: Answers::default(), spare: PacketPool::new(&SPARE_PACKETS) }
    }
}

impl Outbox {
    /// Tells the application of an event.
    #[inline]
    pub(super) fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Has the outputs of another outbox, which no longer answers the packet that it was about to.
    pub(super) fn take_over(&mut self, other: Self) {
        (self.outputs, self.spare) = (other.outputs, other.spare);
    }

    /// Keeps the memory of a packet that has been taken in.
    #[inline]
    pub(super) fn keep(&mut self, mut packet: Box<Packet>) {
        if let Body::Sctp(sctp) = &mut packet.body {
            // DATA owns no memory either, and half of all packets begin with it.
            if !matches!(sctp.first, Chunk::Data(_)) {
                sctp.first = BLANK;
            }
            sctp.rest.clear();
        }
        self.spare.keep(packet);
    }

    /// A packet with one chunk, in memory that was used before if possible.
    #[inline(always)]
    pub(super) fn packet(
        &mut self,
        [source_port, destination_port]: [u16; 2],
        tag: u32,
        first: Chunk,
    ) -> Box<Packet> {
        let mut packet = self.spare.take().unwrap_or_else(blank_packet);
        if let Body::Sctp(sctp) = &mut packet.body {
            (sctp.source_port, sctp.destination_port) = (source_port, destination_port);
            sctp.verification_tag = tag;
            // The chunk that is there owns no memory. Without its destructor the compiler writes the new one
            // directly into its place.
            std::mem::forget(std::mem::replace(&mut sctp.first, first));
        }
        packet
    }
}
