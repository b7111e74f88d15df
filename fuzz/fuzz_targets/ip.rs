//! Whole packets, whose checksums are right, and messages about packets.
#![no_main]

use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, reemit, seal};
use anabranch_transport::flow::{IpVersion, PathId};
use anabranch_transport::wire::Packet;
use anabranch_transport::wire::icmp::Message;
use anabranch_transport::wire::ip::{self, Split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, packet)) = input.split_first() else { return };
    let mut packet = packet.to_vec();
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let mut world = World::new(if is_v6 { IpVersion::Ipv6 } else { IpVersion::Ipv4 });
    world.rtp = first & 1 != 0;
    world.retransmissions = (first & 4 != 0).then_some(97);
    if first & 2 == 0 {
        right(&mut packet, &world);
    }
    let length = packet.len();
    let split = memory::parsing(length, || Split::of(&packet));
    let Ok(split) = split else {
        assert!(Packet::parse(&packet, PathId(0), &mut world).is_err());
        return;
    };
    assert!(split.header_bytes + split.payload.len() <= length);
    if let Ok(message) = memory::parsing(length, || Message::parse(split.payload, split.addresses)) {
        if let Some(quoted) = message.quoted() {
            assert!(quoted.body.len() >= 8);
        }
        let mut bytes = Vec::new();
        message.emit(split.addresses, &mut bytes);
        assert_eq!(Message::parse(&bytes, split.addresses), Ok(message));
    }
    let Ok(parsed) = memory::parsing(length, || Packet::parse(&packet, PathId(0), &mut world)) else {
        return;
    };
    assert!(parsed.packet.size as usize <= length);
    reemit::body(&parsed.packet.body, &parsed.listed, split.addresses, &mut world);
});

/// Puts the checksums of a packet right, as far as they can be found.
fn right(packet: &mut [u8], world: &World) {
    let header = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let header = header.clamp(20, packet.len());
            seal::ipv4_header(&mut packet[..header]);
            header
        }
        Some(6) if packet.len() >= 40 => 40,
        _ => return,
    };
    let Ok(Split { addresses, protocol, payload, header_bytes, .. }) = Split::of(packet) else { return };
    let body = header_bytes.max(header)..header_bytes + payload.len();
    let Some(body) = packet.get_mut(body) else { return };
    match protocol {
        ip::SCTP => seal::sctp(body, world),
        ip::TCP => seal::internet(body, 16, addresses, protocol),
        ip::UDP => {
            let length = body.get(4..6).map_or(0, |field| usize::from(field[0]) << 8 | usize::from(field[1]));
            let length = length.min(body.len());
            seal::internet(&mut body[..length], 6, addresses, protocol);
        }
        ip::ICMPV6 => seal::internet(body, 2, addresses, protocol),
        ip::ICMP => seal::plain(body, 2),
        _ => {}
    }
}
