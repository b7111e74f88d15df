//! Datagrams of UDP, whose checksum is right, with and without RTP.
#![no_main]

use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, seal};
use anabranch_transport::flow::{IpVersion, PathId};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::ip;
use anabranch_transport::wire::udp::Datagram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, datagram)) = input.split_first() else { return };
    let mut world = World::new(if first & 1 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 });
    world.rtp = first & 2 != 0;
    world.retransmissions = (first & 8 != 0).then_some(97);
    let addresses = world.addresses(PathId(0));
    let mut datagram = datagram.to_vec();
    if let Some(field) = datagram.get(4..6) {
        let length = (usize::from(field[0]) << 8 | usize::from(field[1])).min(datagram.len());
        if first & 4 == 0 {
            seal::internet(&mut datagram[..length], 6, addresses, ip::UDP);
        }
    }
    let parsed = memory::parsing(datagram.len(), || Datagram::parse(&datagram, addresses, &mut world));
    let Ok(parsed) = parsed else { return };
    let mut bytes = Vec::new();
    parsed.emit(PathId(0), &world, &mut bytes);
    assert_eq!(Datagram::parse(&bytes, addresses, &mut world), Ok(parsed));
});
