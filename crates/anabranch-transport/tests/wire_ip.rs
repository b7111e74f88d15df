//! Packets of IP taken apart, cut into fragments and put together again, and the messages about them.
//!
//! `PROPTEST_CASES` says how many of each; `make validate` takes 100,000.

mod world;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_transport::flow::{Ecn, IpVersion, PathId};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::fragments::Reassembly;
use anabranch_transport::wire::icmp::{Message, Problem};
use anabranch_transport::wire::ip::{self, Place, Split, fragment, wrap};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use world::World;

fn addresses() -> impl Strategy<Value = [IpAddr; 2]> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|both| both.map(|octets| Ipv4Addr::from(octets).into())),
        any::<[[u8; 16]; 2]>().prop_map(|both| both.map(|octets| Ipv6Addr::from(octets).into())),
    ]
}

fn marks() -> impl Strategy<Value = Ecn> {
    prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)]
}

/// Messages that can be sent between addresses of this version.
fn messages(is_v6: bool) -> impl Strategy<Value = Message> {
    let codes = any::<u8>().prop_map(move |code| if !is_v6 && code == 4 { 3 } else { code });
    let most = if is_v6 { u32::MAX } else { 65_535 };
    let farthest = if is_v6 { u32::MAX } else { 255 };
    let problems = prop_oneof![
        (any::<u8>(), 0..=farthest).prop_map(|(code, pointer)| Problem::Parameter { code, pointer }),
        any::<u8>().prop_map(|code| Problem::TimeExceeded { code }),
        (0..=most).prop_map(|mtu| Problem::TooBig { mtu }),
        codes.prop_map(|code| Problem::Unreachable { code }),
    ];
    let about = (problems, vec(any::<u8>(), 0..100))
        .prop_map(|(problem, packet)| Message::About { problem, packet: packet.into() });
    // Echo and its answer, and messages of neighbours and routers.
    let kinds = if is_v6 { vec![128u8, 129, 133, 134, 135, 136] } else { vec![0u8, 8, 9, 10, 13, 14] };
    let other = (proptest::sample::select(kinds), any::<u8>(), vec(any::<u8>(), 0..100))
        .prop_map(|(kind, code, body)| Message::Other { kind, code, body: body.into() });
    prop_oneof![3 => about, 1 => other]
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_packet_is_taken_apart_as_it_was_made(
        addresses in addresses(),
        ecn in marks(),
        protocol in prop_oneof![Just(ip::SCTP), Just(ip::TCP), Just(ip::UDP), Just(ip::ICMP), Just(ip::ICMPV6)],
        identification in option::of(any::<u16>()),
        payload in vec(any::<u8>(), 0..200),
    ) {
        let bytes = wrap(protocol, addresses, ecn, identification, &payload);
        let header_bytes = if addresses[0].is_ipv4() { 20 } else { 40 };
        let expected = Split { addresses, ecn, protocol, header_bytes, payload: &payload, fragment: None };
        prop_assert_eq!(Split::of(&bytes), Ok(expected));
    }

    #[test]
    fn a_message_is_read_as_it_was_written(
        (addresses, message) in addresses().prop_flat_map(|both| (Just(both), messages(both[0].is_ipv6()))),
        place in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let mut bytes = Vec::new();
        message.emit(addresses, &mut bytes);
        prop_assert_eq!(Message::parse(&bytes, addresses), Ok(message));
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        prop_assert!(Message::parse(&bytes, addresses).is_err());
    }

    /// Fragments in any order, twice or with those of another packet between them, are the packet that was
    /// cut.
    #[test]
    fn what_was_cut_is_put_together(
        length in 1..4_000usize,
        mut cuts in vec(any::<prop::sample::Index>(), 0..8),
        order in any::<u64>(),
        identification in any::<u16>(),
        ecn in marks(),
        mark in option::of(any::<prop::sample::Index>()),
        again in any::<prop::sample::Index>(),
    ) {
        let world = World::new(IpVersion::Ipv4);
        let payload: Vec<u8> = (0..length).map(|at| ((at * 7) >> 3) as u8).collect();
        let packet = |number| wrap(ip::SCTP, world.addresses(PathId(0)), ecn, Some(number), &payload);
        let whole = packet(identification);
        let mut places: Vec<usize> = cuts.drain(..).map(|cut| cut.index(length) / 8 * 8).chain([0, length]).collect();
        places.sort_unstable();
        places.dedup();
        let pieces = |whole: &[u8]| -> Vec<Vec<u8>> {
            places.windows(2).map(|ends| fragment(whole, ends[0], ends[1])).collect()
        };
        let mut sent = pieces(&whole);
        let mut expected = whole.clone();
        if let Some(mark) = mark.filter(|_| ecn != Ecn::NotEct) {
            ip::set_ecn(&mut sent[mark.index(places.len() - 1)], Ecn::Ce);
            ip::set_ecn(&mut expected, Ecn::Ce);
        }
        let twice = sent[again.index(sent.len())].clone();
        let last = sent.len() - 1;
        let by = order as usize % sent.len();
        sent.rotate_left(by);
        if order & 1 << 40 != 0 {
            sent.reverse();
        }
        if last > 0 {
            sent.insert(0, twice);
            sent.insert(1, pieces(&packet(identification.wrapping_add(1))).swap_remove(0));
        }
        let mut reassembly = Reassembly::default();
        let mut put_together = Vec::new();
        for piece in &sent {
            put_together.extend(reassembly.take(Time::ZERO, piece).expect("they are right"));
        }
        prop_assert_eq!(put_together, [expected]);
        reassembly.expire(Time::from_secs(30));
        prop_assert_eq!(reassembly.bytes(), 0);
    }

    #[test]
    fn noise_does_no_harm(bytes in vec(any::<u8>(), 0..200), addresses in addresses()) {
        let _ = Split::of(&bytes);
        if let Ok(message) = Message::parse(&bytes, addresses) {
            let _ = message.quoted();
        }
        let message = Message::About { problem: Problem::TooBig { mtu: 0 }, packet: bytes.into() };
        let _ = message.quoted();
    }
}

/// RFC 1191 section 4 and RFC 4443 section 3.2, byte by byte.
#[test]
fn too_big_byte_by_byte() {
    let message = Message::About { problem: Problem::TooBig { mtu: 1_280 }, packet: [1, 2].into() };
    let both = [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()];
    let mut bytes = Vec::new();
    message.emit(both, &mut bytes);
    let checksum = !(0x0304 + 0x0500 + 0x0102u16);
    let [high, low] = checksum.to_be_bytes();
    assert_eq!(bytes, [3, 4, high, low, 0, 0, 5, 0, 1, 2]);
    let both = [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    bytes.clear();
    message.emit(both, &mut bytes);
    // Both addresses are 1, the length is 10, the protocol 58.
    let checksum = !(1 + 1 + 10 + 58 + 0x0200 + 0x0500 + 0x0102u16);
    let [high, low] = checksum.to_be_bytes();
    assert_eq!(bytes, [2, 0, high, low, 0, 0, 5, 0, 1, 2]);
}

/// What a message quotes of a packet says whose it is.
#[test]
fn a_message_says_whose_packet_it_is_about() {
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        let world = World::new(version);
        let addresses = world.addresses(PathId(1));
        let body = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 5];
        let packet = wrap(ip::SCTP, addresses, Ecn::NotEct, None, &body);
        let problem = Problem::Unreachable { code: 1 };
        let message = Message::About { problem, packet: packet.clone().into() };
        let quoted = message.quoted().expect("it is all there");
        assert_eq!(
            (quoted.addresses, quoted.protocol, quoted.ports),
            (addresses, ip::SCTP, [0x1234, 0x5678])
        );
        assert_eq!((quoted.number, quoted.body), (5, &body[..]));
        let message = Message::About { problem, packet: packet[..packet.len() - 1].into() };
        assert_eq!(message.quoted(), None, "eight bytes are the least");
    }
}

/// A fragment of IPv6 with its header (RFC 8200 section 4.5).
fn fragment_of_v6(start: usize, has_more: bool, payload: &[u8]) -> Vec<u8> {
    let world = World::new(IpVersion::Ipv6);
    let mut bytes = vec![ip::UDP, 0];
    bytes.extend((start as u16 | u16::from(has_more)).to_be_bytes());
    bytes.extend([0, 0, 0, 9]);
    bytes.extend(payload);
    wrap(44, world.addresses(PathId(0)), Ecn::NotEct, None, &bytes)
}

#[test]
fn fragments_of_ipv6() {
    let mut reassembly = Reassembly::default();
    let first = fragment_of_v6(0, true, &[1; 16]);
    let place = Place { identification: 9, start: 0, has_more: true };
    assert_eq!(Split::of(&first).map(|split| (split.protocol, split.fragment)), Ok((ip::UDP, Some(place))));
    assert_eq!(reassembly.take(Time::ZERO, &first), Ok(None));
    let whole = reassembly.take(Time::ZERO, &fragment_of_v6(16, false, &[2; 3])).expect("they are right");
    let whole = whole.expect("all of it is there");
    let split = Split::of(&whole).expect("it is a packet");
    assert_eq!((split.protocol, split.fragment, split.payload.len()), (ip::UDP, None, 19));
    // RFC 6946: all of its packet.
    let alone = fragment_of_v6(0, false, &[3; 5]);
    assert_eq!(Split::of(&alone).map(|split| (split.fragment, split.payload.len())), Ok((None, 5)));
}

/// RFC 5722 section 3, and fragments that no sender makes.
#[test]
fn fragments_that_contradict_each_other() {
    let refused = [
        (0, true, vec![0; 7], "IP: a fragment does not end where another one can begin"),
        (0, true, vec![], "IP: a fragment does not end where another one can begin"),
        (65_528, true, vec![0; 8], "IP: a fragment lies behind the end of any packet"),
    ];
    for (start, has_more, payload, message) in refused {
        let error = Reassembly::default().take(Time::ZERO, &fragment_of_v6(start, has_more, &payload));
        assert_eq!(error.expect_err(message).to_string(), message);
    }
    // Each is followed by all that would make the packet whole.
    let overlapping = [
        [(0, true, 16), (8, true, 16)],
        [(8, true, 16), (0, true, 16)],
        [(24, false, 8), (24, false, 16)],
        [(24, false, 8), (32, true, 8)],
        [(32, true, 8), (24, false, 8)],
    ];
    for pieces in overlapping {
        let mut reassembly = Reassembly::default();
        let rest = [(0, true, 8), (8, true, 8), (16, true, 8), (24, false, 8)];
        for (start, has_more, length) in pieces.into_iter().chain(rest) {
            let piece = fragment_of_v6(start, has_more, &vec![length as u8; length]);
            assert_eq!(reassembly.take(Time::ZERO, &piece), Ok(None), "{pieces:?}");
        }
        // Once its time has passed, it is as if it had never arrived.
        let late = Time::ZERO + Duration::from_secs(30);
        let whole: Vec<_> = rest
            .iter()
            .filter_map(|&(start, has_more, length)| {
                reassembly
                    .take(late, &fragment_of_v6(start, has_more, &vec![1; length]))
                    .expect("it is right")
            })
            .collect();
        assert_eq!(whole.len(), 1);
    }
}

/// However many packets are begun, what is kept of them is limited.
#[test]
fn fragments_of_many_packets_are_forgotten() {
    let world = World::new(IpVersion::Ipv4);
    let mut reassembly = Reassembly::default();
    let mut most = 0;
    for number in 0..10_000u16 {
        let packet = wrap(
            ip::UDP,
            world.addresses(PathId((number >> 8) as u8)),
            Ecn::NotEct,
            Some(number),
            &[0; 1_400],
        );
        let piece = fragment(&packet, 0, 8 * (1 + usize::from(number % 100)));
        assert_eq!(reassembly.take(Time::ZERO, &piece), Ok(None));
        most = most.max(reassembly.bytes());
    }
    assert!((200_000..=262_144).contains(&most), "{most}");
}
