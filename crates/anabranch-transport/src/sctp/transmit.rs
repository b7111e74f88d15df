//! Packets are filled and leave.

use super::association::Association;
use crate::endpoint::Output;
use crate::flow::{Ecn, PathId};
use crate::wire::sctp::chunk::Chunk;
use crate::wire::{Body, Packet};

impl Association {
    /// A packet with one chunk.
    #[inline(always)]
    pub(super) fn packet_with(&mut self, tag: u32, first: Chunk) -> Box<Packet> {
        self.outbox.packet(self.local.ports, tag, first)
    }

    /// Adds a chunk to a packet that is being filled.
    #[inline(always)]
    pub(super) fn add_chunk(&mut self, packet: &mut Option<Box<Packet>>, chunk: Chunk) {
        match packet.as_deref_mut() {
            None => *packet = Some(self.packet_with(self.state.peer_tag(), chunk)),
            Some(Packet { body: Body::Sctp(sctp), .. }) => sctp.rest.push(chunk),
            Some(_) => {}
        }
    }

    #[inline(always)]
    pub(super) fn transmit_one(&mut self, path: PathId, chunk: Chunk) {
        self.transmit_with_tag(path, self.state.peer_tag(), chunk);
    }

    #[inline(always)]
    pub(super) fn transmit_with_tag(&mut self, path: PathId, tag: u32, chunk: Chunk) {
        let size = self.local.headers_bytes + chunk.wire_size();
        let packet = self.packet_with(tag, chunk);
        self.transmit(path, packet, size);
    }

    /// Sends a packet; `size` in bytes, all headers included.
    #[inline(always)]
    pub(super) fn transmit(&mut self, path: PathId, mut packet: Box<Packet>, size: u32) {
        (packet.path, packet.ecn, packet.size) = (path, Ecn::NotEct, size);
        debug_assert!(
            matches!(&packet.body, Body::Sctp(sctp) if size == self.local.ip.header_bytes() + sctp.wire_size())
        );
        debug_assert!(
            size <= self.routing.paths[path.index()].mtu,
            "{size} bytes do not fit into the path MTU"
        );
        if self.parts.addresses.is_some() && !self.may_leave(&packet) {
            return;
        }
        self.stats.packets_sent += 1;
        self.outbox.outputs.push_back(Output::Transmit(packet));
    }
}
