//! Segments of TCP with all their options, whose checksum is right.
#![no_main]

use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, reemit, seal};
use anabranch_transport::flow::{IpVersion, PathId};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::ip;
use anabranch_transport::wire::tcp::Segment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, segment)) = input.split_first() else { return };
    let mut world = World::new(if first & 1 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 });
    let addresses = world.addresses(PathId(0));
    let mut segment = segment.to_vec();
    seal::internet(&mut segment, 16, addresses, ip::TCP);
    let parsed = memory::parsing(segment.len(), || Segment::parse(&segment, addresses, &mut world));
    if let Ok((tcp, options)) = parsed {
        reemit::segment(&tcp, options, segment.len(), addresses, &mut world);
    }
});
