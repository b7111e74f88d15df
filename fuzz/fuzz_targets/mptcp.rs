//! Options of MPTCP, whose codes are right, on segments of all kinds.
#![no_main]

use anabranch_fuzz::script::Script;
use anabranch_fuzz::world::World;
use anabranch_fuzz::{memory, reemit, seal};
use anabranch_transport::flow::{IpVersion, PathId};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::ip;
use anabranch_transport::wire::tcp::Segment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let how = script.byte();
    let mut world = World::new(if how & 1 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 });
    world.next = u64::from(script.word());
    world.near = [u64::from(script.word()) << (how >> 2 & 31), u64::from(script.word())];
    let addresses = world.addresses(PathId(0));
    let flags = script.byte();
    let length = usize::from(script.byte());
    // Options that begin as MPTCP's do, and are as long as they say.
    let mut options = Vec::new();
    while !script.is_over() && options.len() < 38 {
        let subtype = script.byte();
        let length = usize::from(script.byte()).min(37 - options.len());
        let value = script.bytes(length);
        options.extend([30, 3 + value.len() as u8, subtype]);
        options.extend(value);
    }
    options.resize(options.len().next_multiple_of(4), 1);
    options.truncate(40);
    let words = 5 + options.len() as u16 / 4;
    let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
    bytes.extend((words << 12 | u16::from(flags)).to_be_bytes());
    bytes.extend([0, 5, 0, 0, 0, 0]);
    bytes.extend(&options);
    bytes.resize(bytes.len() + length, 7);
    seal::address_codes(&mut bytes[20..20 + options.len()], &world);
    seal::internet(&mut bytes, 16, addresses, ip::TCP);
    let parsed = memory::parsing(bytes.len(), || Segment::parse(&bytes, addresses, &mut world));
    if let Ok((tcp, options)) = parsed {
        reemit::segment(&tcp, options, bytes.len(), addresses, &mut world);
    }
});
