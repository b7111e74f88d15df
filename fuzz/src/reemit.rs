//! Emits again what was parsed and compares what is then parsed from it, if its options have room as they are
//! laid out here.

use std::net::IpAddr;

use anabranch_transport::flow::PathId;
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::mptcp::{self, Handshake, Options, Signal};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::chunk::{Chunk, Init};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::udp::Datagram;
use anabranch_transport::wire::{Body, ip, rtcp};

use crate::world::World;

/// The packet of any protocol.
pub fn body(body: &Body, listed: &[IpAddr], addresses: [IpAddr; 2], world: &mut World) {
    let path = PathId(0);
    match body {
        // Parsers read the packets of QUIC as datagrams of UDP; the target `quic` is about theirs.
        Body::Foreign(_) | Body::Fragment(_) | Body::Quic(_) => panic!("it is a whole packet of ours"),
        Body::Mptcp(mptcp::Segment { tcp, options, option_bytes }) => {
            let length = (tcp.wire_size() + option_bytes) as usize;
            segment(tcp, Some(*options), length, addresses, world);
        }
        Body::Sctp(packet) => sctp(packet, listed, world),
        Body::Tcp(tcp) => segment(tcp, None, 0, addresses, world),
        Body::Rtcp(datagram) => {
            let mut bytes = Vec::new();
            datagram.emit(path, world, &mut bytes);
            assert_eq!(rtcp::Datagram::parse(&bytes, world.addresses(path)).as_ref(), Ok(&**datagram));
        }
        Body::Udp(datagram) => {
            let mut bytes = Vec::new();
            datagram.emit(path, world, &mut bytes);
            assert_eq!(Datagram::parse(&bytes, world.addresses(path), world).as_ref(), Ok(datagram));
        }
    }
}

/// A packet of SCTP that lists these addresses.
pub fn sctp(packet: &SctpPacket, listed: &[IpAddr], world: &mut World) {
    // These ends would not list addresses of another version, or more addresses than there are paths.
    let is_others = |init: &Init| init.ip != world.ip || listed.len() > 255;
    let is_foreign = packet.chunks().any(|chunk| match chunk {
        Chunk::Asconf(asconf) => asconf.ip != world.ip,
        Chunk::AsconfAck(ack) => ack.ip != world.ip,
        // No end sends such a thing.
        Chunk::Illegal(_) => true,
        Chunk::Init(init, _) => is_others(init),
        Chunk::InitAck(ack) => is_others(&ack.init),
        _ => false,
    });
    if is_foreign || packet.wire_size() > 65_000 {
        return;
    }
    let mut bytes = Vec::new();
    packet.emit(PathId(0), world, &mut bytes);
    let again = SctpPacket::parse(&bytes, world).expect("what was parsed can be sent");
    assert_eq!(again.packet, *packet);
}

/// A segment of so many bytes, with its options of MPTCP.
pub fn segment(
    tcp: &Segment,
    options: Option<Options>,
    length: usize,
    addresses: [IpAddr; 2],
    world: &mut World,
) {
    let path = PathId(0);
    let mut bytes = Vec::new();
    let own = tcp.option_bytes();
    if own > 40 || !own.is_multiple_of(4) {
        return;
    }
    // It is only sent with the flag.
    let acknowledgement = if tcp.flags.has(Flags::ACK) { tcp.acknowledgement } else { 0 };
    let tcp = Segment { acknowledgement, ..tcp.clone() };
    let Some(options) = options else {
        tcp.emit(path, world, &mut bytes);
        let (again, options) = Segment::parse(&bytes, world.addresses(path), world).expect("it can be sent");
        assert_eq!((again, options), (tcp, None));
        return;
    };
    let option_bytes = (length as u32).saturating_sub(tcp.wire_size());
    let data = tcp.payload.length > 0;
    let needed = needed(&options, data, world);
    if needed > option_bytes || own + option_bytes > 40 || !option_bytes.is_multiple_of(4) {
        return;
    }
    // A mapping of more than the segment is sent as one of the segment, and MP_CAPABLE's position is the
    // subflow's.
    let is_mapped = options.data_position.is_some() || options.data_fin.is_some();
    let ends_elsewhere = options.data_fin.is_some()
        && options.data_fin != options.data_position.map(|at| at.wrapping_add(tcp.payload.length.into()))
        && (data || options.data_position.is_some());
    let is_mixed = options.handshake.is_some() && (is_mapped || options.data_ack.is_some());
    // A position that does not fit into its width is near another one.
    let is_far = [options.data_ack, options.data_position, options.data_fin]
        .into_iter()
        .flatten()
        .zip([world.near[1], world.near[0], world.near[0]])
        .any(|(position, near)| position.abs_diff(near) > 1 << 30);
    // No end sends a wrong checksum.
    if options.is_damaged {
        return;
    }
    let is_join = matches!(options.handshake, Some(Handshake::Join(_)));
    let checksum_of_nothing = options.has_checksum && !is_mapped && options.handshake.is_none();
    if ends_elsewhere || is_mixed || is_far || (is_join && options.has_checksum) || checksum_of_nothing {
        return;
    }
    let sent = mptcp::Segment { tcp, options, option_bytes };
    sent.emit(path, world, &mut bytes);
    let (tcp, again) = Segment::parse(&bytes, world.addresses(path), world).expect("it can be sent");
    assert_eq!((tcp, again), (sent.tcp, Some(options)), "{addresses:?} {:?}", ip::TCP);
}

/// The least that options take, or more.
fn needed(options: &Options, data: bool, world: &World) -> u32 {
    let handshake = match options.handshake {
        Some(Handshake::Capable { sender_key, receiver_key }) => {
            let keys = sender_key.is_some() as u32 + receiver_key.is_some() as u32;
            4 + 8 * keys + if data { 4 } else { 0 }
        }
        Some(Handshake::Join(_)) => 24,
        None => 0,
    };
    let is_mapped = options.data_position.is_some() || options.data_fin.is_some();
    let ack = if options.data_ack.is_some() { 4 } else { 0 };
    let mapping = if is_mapped { 4 + if options.has_checksum { 8 } else { 6 } } else { 0 };
    let dss = if ack + mapping > 0 { 4 + ack + mapping } else { 0 };
    let address = if world.ip == anabranch_transport::flow::IpVersion::Ipv4 { 4 } else { 16 };
    let signal = match options.signal {
        Some(Signal::AddAddress { is_echo, port, .. }) => {
            4 + address + if is_echo { 0 } else { 8 } + if port.is_some() { 4 } else { 0 }
        }
        Some(Signal::Fail { .. } | Signal::FastClose) => 12,
        Some(Signal::Priority { .. }) => 4,
        Some(Signal::RemoveAddress { addresses }) => {
            (3 + addresses.iter().count() as u32).next_multiple_of(4)
        }
        None => 0,
    };
    handshake + dss + signal + if options.reset.is_some() { 4 } else { 0 }
}
