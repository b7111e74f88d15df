//! Packets of SCTP, whose checksum and signature are right.
#![no_main]

use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, reemit, seal};
use anabranch_transport::flow::IpVersion;
use anabranch_transport::wire::sctp::authentication::{association_key, key_vector};
use anabranch_transport::wire::sctp::{Parsed, SctpPacket};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, packet)) = input.split_first() else { return };
    let mut world = World::new(if first & 1 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 });
    let mut packet = packet.to_vec();
    if first & 2 == 0 {
        seal::sctp(&mut packet, &world);
    }
    if let Some(vector) = memory::parsing(packet.len(), || key_vector(&packet)) {
        assert!(association_key(&vector, b"another one").len() <= packet.len() + 11);
    }
    let Ok(Parsed { packet: parsed, addresses, .. }) =
        memory::parsing(packet.len(), || SctpPacket::parse(&packet, &mut world))
    else {
        return;
    };
    reemit::sctp(&parsed, &addresses, &mut world);
});
