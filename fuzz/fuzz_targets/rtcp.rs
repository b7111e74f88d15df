//! Datagrams of RTCP, whose checksum is right.
#![no_main]

use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, seal};
use anabranch_transport::flow::{IpVersion, PathId};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::ip;
use anabranch_transport::wire::rtcp::{Datagram, Packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let world = World::new(IpVersion::Ipv4);
    let addresses = world.addresses(PathId(0));
    let mut datagram = input.to_vec();
    if let Some(field) = datagram.get_mut(4..6) {
        field.copy_from_slice(&(input.len() as u16).to_be_bytes());
        seal::internet(&mut datagram, 6, addresses, ip::UDP);
    }
    let parsed = memory::parsing(datagram.len(), || Datagram::parse(&datagram, addresses));
    let Ok(parsed) = parsed else { return };
    for packet in &parsed.packets {
        if let Packet::Nack(nack) = packet {
            assert!(nack.sequences().count() <= 17 * nack.lost.len());
        }
    }
    let mut bytes = Vec::new();
    parsed.emit(PathId(0), &world, &mut bytes);
    assert_eq!(Datagram::parse(&bytes, addresses), Ok(parsed));
});
