//! Fragments of packets, in any order and at any time.
#![no_main]

use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::seal;
use anabranch_transport::flow::Ecn;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::fragments::Reassembly;
use anabranch_transport::wire::ip::{self, Split};
use libfuzzer_sys::fuzz_target;

/// The receiver keeps 256 KiB by its own count; twice as much with the reserve of vectors.
const MOST_HELD: usize = 512 << 10;

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let held = Held::default();
    let mut now = Time::ZERO;
    let mut reassembly = Reassembly::default();
    while !script.is_over() {
        let how = script.byte();
        now = now + Duration::from_millis(u64::from(script.byte()) << (how >> 5));
        let place = usize::from(script.word());
        let length = usize::from(script.byte()) << (how & 7);
        let (identification, has_more) = (how >> 3 & 1, place & 1 != 0);
        let packet = if how & 16 == 0 {
            let addresses =
                [[10, 0, 0, 1], [10, 0, 0, 2]].map(|octets| std::net::Ipv4Addr::from(octets).into());
            let mut packet =
                ip::wrap(17, addresses, Ecn::Ect0, Some(identification.into()), &vec![how; length]);
            let field = (place >> 3) as u16 & 0x1fff | if has_more { 0x2000 } else { 0 };
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            seal::ipv4_header(&mut packet[..20]);
            packet
        } else {
            let addresses =
                [1u16, 2].map(|end| std::net::Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, end).into());
            let mut payload = vec![17, 0];
            payload.extend((place as u16 & !6).to_be_bytes());
            payload.extend([0, 0, 0, identification]);
            payload.resize(8 + length, how);
            ip::wrap(44, addresses, Ecn::Ect0, None, &payload)
        };
        if let Ok(Some(whole)) = reassembly.take(now, &packet) {
            let split = Split::of(&whole).expect("it is a packet");
            assert_eq!(split.fragment, None);
        }
        assert!(reassembly.bytes() <= 256 << 10);
        let held = held.bytes();
        assert!(held <= MOST_HELD, "{held} bytes are held");
    }
    reassembly.expire(now + Duration::from_secs(30));
    assert_eq!(reassembly.bytes(), 0);
});
