//! What a stranger can learn about an SCTP association, and what it can send.

use anabranch_transport::flow::Side;
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::chunk::Chunk;
use anabranch_transport::wire::{Body, Packet};

use crate::script::Script;
use crate::seal;
use crate::stage::Dialect;
use crate::world::World;

/// What each end has revealed about itself.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    tag: u32,
    port: u16,
    /// The last TSN that it used.
    tsn: u32,
    /// The serial number of its next ASCONF.
    serial: u32,
}

/// What was seen on the network.
#[derive(Debug, Default)]
pub struct Overheard([Shown; 2]);

impl Dialect for Overheard {
    fn hear(&mut self, from: Side, packet: &Packet) {
        let Body::Sctp(sctp) = &packet.body else { panic!("SCTP sends SCTP") };
        let shown = &mut self.0[from.index()];
        shown.port = sctp.source_port;
        for chunk in sctp.chunks() {
            match chunk {
                Chunk::Init(init, _) => {
                    (shown.tag, shown.tsn, shown.serial) =
                        (init.initiate_tag, init.initial_tsn.wrapping_sub(1), init.initial_tsn);
                }
                Chunk::InitAck(ack) => {
                    (shown.tag, shown.tsn, shown.serial) =
                        (ack.init.initiate_tag, ack.init.initial_tsn.wrapping_sub(1), ack.init.initial_tsn);
                }
                Chunk::Data(data) => shown.tsn = data.tsn,
                Chunk::IData(data) => shown.tsn = data.tsn,
                Chunk::Asconf(asconf) => shown.serial = asconf.serial.wrapping_add(1),
                _ => {}
            }
        }
    }

    fn forge(&mut self, script: &mut Script<'_>, to: Side, world: &World) -> Option<Body> {
        let how = script.byte();
        let length = usize::from(script.word() % 1_480);
        let (own, peer) = (self.0[to.index()], self.0[to.peer().index()]);
        let tag = match how & 3 {
            // INIT has none (RFC 9260 section 8.5.1).
            0 | 1 => own.tag,
            2 => 0,
            _ => peer.tag,
        };
        let ports = if how & 4 == 0 { [peer.port, own.port] } else { [peer.port ^ 1, own.port] };
        let mut bytes = Vec::with_capacity(12 + length);
        bytes.extend(ports[0].max(1).to_be_bytes());
        bytes.extend(ports[1].max(1).to_be_bytes());
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(script.bytes(length));
        seal::sctp(&mut bytes, world);
        let mut packet = SctpPacket::parse(&bytes, &mut world.clone()).ok()?.packet;
        if how & 8 == 0 {
            rebase(&mut packet.first, own, peer);
            packet.rest.iter_mut().for_each(|chunk| rebase(chunk, own, peer));
        }
        Some(Body::Sctp(packet))
    }

    fn advance(&self, body: &mut Body, by: u8) {
        let Body::Sctp(packet) = body else { return };
        let by = u32::from(by);
        for chunk in std::iter::once(&mut packet.first).chain(&mut packet.rest) {
            match chunk {
                Chunk::Asconf(asconf) => asconf.serial = asconf.serial.wrapping_add(by),
                Chunk::Data(data) => {
                    data.tsn = data.tsn.wrapping_add(by);
                    data.ssn = data.ssn.wrapping_add(by as u16 >> 2);
                }
                Chunk::ForwardTsn(forward) => {
                    forward.new_cumulative_tsn = forward.new_cumulative_tsn.wrapping_add(by);
                }
                Chunk::IData(data) => {
                    data.tsn = data.tsn.wrapping_add(by);
                    data.mid = data.mid.wrapping_add(by >> 2);
                }
                Chunk::IForwardTsn(forward) => {
                    forward.new_cumulative_tsn = forward.new_cumulative_tsn.wrapping_add(by);
                }
                Chunk::NrSack(_, nr_sack) => {
                    nr_sack.sack.cumulative_tsn = nr_sack.sack.cumulative_tsn.wrapping_add(by);
                }
                Chunk::Sack(_, sack) => sack.cumulative_tsn = sack.cumulative_tsn.wrapping_add(by),
                _ => {}
            }
        }
    }
}

/// Numbers that the script gives are those near the ones that are expected.
fn rebase(chunk: &mut Chunk, own: Shown, peer: Shown) {
    let near = |number: &mut u32, base: u32| *number = base.wrapping_add_signed((*number as i16).into());
    match chunk {
        Chunk::Asconf(asconf) => near(&mut asconf.serial, peer.serial),
        Chunk::AsconfAck(ack) => near(&mut ack.serial, own.serial),
        Chunk::Data(data) => near(&mut data.tsn, peer.tsn),
        Chunk::ForwardTsn(forward) => near(&mut forward.new_cumulative_tsn, peer.tsn),
        Chunk::IData(data) => near(&mut data.tsn, peer.tsn),
        Chunk::IForwardTsn(forward) => near(&mut forward.new_cumulative_tsn, peer.tsn),
        Chunk::NrSack(_, nr_sack) => near(&mut nr_sack.sack.cumulative_tsn, own.tsn),
        Chunk::Sack(_, sack) => near(&mut sack.cumulative_tsn, own.tsn),
        Chunk::Shutdown { cumulative_tsn } => near(cumulative_tsn, own.tsn),
        _ => {}
    }
}
