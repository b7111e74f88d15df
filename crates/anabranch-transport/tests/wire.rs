//! Packets as bytes and back: what is emitted is parsed as it was, and nothing that arrives does harm.
//!
//! `PROPTEST_CASES` says how many packets of each kind; `make validate` takes 100,000.

mod packets;
mod world;

use std::net::IpAddr;

use anabranch_transport::flow::{IpVersion, PathId, Payload};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::bytes::{Secret, Sending as _};
use anabranch_transport::wire::mptcp::{InfiniteMapping, Options, Reset, Signal};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::authentication::{Hmac, association_key, key_vector};
use anabranch_transport::wire::sctp::chunk::{Chunk, Cookie, Init, StateCookie};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::udp::Datagram;
use anabranch_transport::wire::{Body, Packet, ip, mptcp, rtcp};
use packets::packets;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use world::World;

/// A receiver that knows what the receiver of this packet knows.
fn receiver(ip: IpVersion, packet: &Packet) -> World {
    let mut world = World::new(ip);
    world.next = packet.body.tcp().map_or(0, |tcp| tcp.payload.offset);
    if let Body::Mptcp(segment) = &packet.body {
        let infinite = segment.options.infinite.map(|mapping| mapping.data);
        let position = infinite.or(segment.options.data_position).or(segment.options.data_fin);
        // Near the right position, but not there.
        world.near = [position.unwrap_or(0).saturating_sub(100_000), 500_000];
    }
    world.rtp = matches!(packet.body, Body::Udp(Datagram { rtp: Some(_), .. }) | Body::Rtcp(_));
    if let Body::Udp(Datagram { rtp: Some(rtp), .. }) = packet.body {
        world.retransmissions = rtp.original_sequence.map(|_| rtp.payload_type);
    }
    world
}

/// The first data of a connection comes with the keys, and its place is that in the subflow.
fn expected(mut packet: Packet) -> Packet {
    if let Body::Mptcp(segment) = &mut packet.body
        && segment.tcp.payload.length == 0
        && segment.options.data_fin.is_some()
    {
        segment.options.data_position = None;
    }
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is emitted has the size that the simulator counts, and is parsed as it was.
    #[test]
    fn parse_of_emit_is_the_packet((ip, packet, identification) in packets()) {
        let bytes = packet.emit(identification, &World::new(ip));
        prop_assert_eq!(bytes.len(), packet.size as usize);
        let mut world = receiver(ip, &packet);
        let parsed = Packet::parse(&bytes, packet.path, &mut world).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(parsed.addresses, world.addresses(packet.path));
        prop_assert_eq!(parsed.packet, expected(packet));
    }

    /// A bit that flips on the way is noticed wherever it is, except in the fields that no checksum covers.
    #[test]
    fn a_flipped_bit_is_seen((ip, packet, _) in packets(), place in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = packet.emit(None, &World::new(ip));
        // IPv6's header has no checksum; its addresses are in that of TCP and UDP.
        let covered = if ip == IpVersion::Ipv4 { 0 } else { 40 };
        let place = covered + place.index(bytes.len() - covered);
        bytes[place] ^= 1 << bit;
        let mut world = receiver(ip, &packet);
        prop_assert!(Packet::parse(&bytes, packet.path, &mut world).is_err());
    }

    /// Packets with right checksums and contents that no end would send: they are parsed or refused without a
    /// panic, and nothing that is made of them is larger than they are.
    #[test]
    fn nonsense_does_no_harm(
        (ip, packet, _) in packets(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let world = World::new(ip);
        let mut bytes = packet.emit(None, &world);
        let header = ip.header_bytes() as usize;
        for (place, value) in changes {
            let place = header + place.index(bytes.len() - header);
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(header + cut.index(bytes.len() - header));
        }
        let body = &mut bytes[header..];
        let addresses = world.addresses(packet.path);
        let mut world = receiver(ip, &packet);
        match &packet.body {
            Body::Sctp(_) => {
                if body.len() >= 12 {
                    body[8..12].fill(0);
                    let checksum = crc32c::crc32c(body);
                    body[8..12].copy_from_slice(&checksum.to_le_bytes());
                }
                if let Ok(parsed) = SctpPacket::parse(body, &mut world) {
                    prop_assert!(parsed.packet.wire_size() as usize <= 4 * body.len());
                    // What is understood can be sent again.
                    let mut again = Vec::new();
                    parsed.packet.emit(PathId(0), &world, &mut again);
                }
            }
            Body::Tcp(_) | Body::Mptcp(_) => {
                if body.len() >= 20 {
                    body[16..18].fill(0);
                    let checksum = ones_complement(addresses, ip::TCP, body);
                    body[16..18].copy_from_slice(&checksum.to_be_bytes());
                }
                if let Ok((segment, _)) = Segment::parse(body, addresses, &mut world) {
                    prop_assert!(segment.option_bytes() <= 60);
                }
            }
            Body::Rtcp(_) => {
                let body = seal(addresses, body);
                if let Ok(datagram) = rtcp::Datagram::parse(body, addresses) {
                    let mut again = Vec::new();
                    datagram.emit(packet.path, &world, &mut again);
                    prop_assert_eq!(rtcp::Datagram::parse(&again, addresses), Ok(datagram));
                }
            }
            _ => {
                let body = seal(addresses, body);
                let _ = Datagram::parse(body, addresses, &mut world);
            }
        }
    }

    /// Bytes that were never a packet.
    #[test]
    fn noise_does_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        let mut world = World::new(IpVersion::Ipv4);
        let _ = Packet::parse(&bytes, PathId(0), &mut world);
        let _ = SctpPacket::parse(&bytes, &mut world);
    }
}

/// Puts the length and the checksum of a datagram right.
fn seal(addresses: [IpAddr; 2], body: &mut [u8]) -> &[u8] {
    if body.len() >= 8 {
        let length = body.len() as u16;
        body[4..6].copy_from_slice(&length.to_be_bytes());
        body[6..8].fill(0);
        let checksum = ones_complement(addresses, ip::UDP, body);
        body[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    body
}

/// The checksum of TCP (RFC 9293 section 3.1), written for this test.
fn ones_complement([source, destination]: [IpAddr; 2], protocol: u8, body: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let sum: u64 = bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// RFC 9260 appendix A has no example; this is of RFC 3720 appendix B.4: 32 bytes of zeros.
#[test]
fn the_checksum_is_crc32c() {
    assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
}

/// A packet as the Linux kernel sends it, written down by hand from RFC 9260: SHUTDOWN of an association with
/// tag 5.
#[test]
fn a_packet_byte_by_byte() {
    let packet = SctpPacket {
        source_port: 0x1234,
        destination_port: 0x5678,
        verification_tag: 5,
        first: Chunk::Shutdown { cumulative_tsn: 0x0102_0304 },
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    let checksum = bytes[8..12].to_vec();
    bytes[8..12].fill(0);
    assert_eq!(checksum, crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(bytes, [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 5, 0, 0, 0, 0, 7, 0, 0, 8, 1, 2, 3, 4]);
}

/// The bytes of an INIT that names every extension, but addresses that change only where asked to.
fn opening(world: &World, asconf_supported: bool) -> Vec<u8> {
    let init = Init {
        initiate_tag: 1,
        a_rwnd: 1,
        outbound_streams: 1,
        max_inbound_streams: 1,
        initial_tsn: 1,
        addresses: 1,
        ip: IpVersion::Ipv4,
        forward_tsn_supported: true,
        asconf_supported,
        hmac: Hmac::Sha256,
        interleaving_supported: true,
        reconfig_supported: true,
        nr_sack_supported: true,
        names_forward_tsn: true,
        names_address_types: false,
        cookie_preservative: None,
    };
    let packet = SctpPacket {
        source_port: 1,
        destination_port: 2,
        verification_tag: 0,
        first: Chunk::Init(Box::new(init), Box::default()),
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), world, &mut bytes);
    bytes
}

/// RFC 9260 section 3.2: a chunk's length has the padding of its parameters, but not that of the last one.
#[test]
fn the_padding_of_the_last_parameter_is_the_chunks() {
    let bytes = opening(&World::new(IpVersion::Ipv4), false);
    // The chunk's header, what every INIT has, FORWARD-TSN, and five types of chunks behind a header.
    let length = 4 + 16 + 4 + (4 + 5);
    assert_eq!(bytes[12..16], [1, 0, 0, length]);
    assert_eq!(bytes.len(), 12 + usize::from(length) + 3);
}

/// RFC 9260 section 3.3.2.1: addresses and the Cookie Preservative have a fixed length. An INIT in which one
/// has another breaks the protocol, and nothing of it is believed.
#[test]
fn a_parameter_of_fixed_length_has_no_other() {
    let (v4, v6, preservative) = (5, 6, 9);
    for (kind, length, is_right) in [
        (v4, 7, false),
        (v4, 8, true),
        (v4, 9, false),
        (v4, 12, false),
        (v4, 20, false),
        (v6, 8, false),
        (v6, 19, false),
        (v6, 20, true),
        (v6, 24, false),
        (preservative, 7, false),
        (preservative, 8, true),
        (preservative, 9, false),
    ] {
        let mut world = World::new(IpVersion::Ipv4);
        let mut bytes = opening(&world, false);
        // Before it another address, which is not believed either where this one is wrong.
        bytes.truncate(12 + 4 + 16);
        bytes.extend([0, v4, 0, 8, 192, 0, 2, 1]);
        bytes.extend([0, kind, 0, length]);
        bytes.resize(bytes.len() + usize::from(length) - 4, 7);
        let chunk_length = bytes.len() - 12;
        bytes[14..16].copy_from_slice(&(chunk_length as u16).to_be_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes[8..12].fill(0);
        let checksum = crc32c::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        let parsed = SctpPacket::parse(&bytes, &mut world).expect("a packet");
        let is_address = is_right && kind != preservative;
        assert_eq!(
            parsed.addresses.len(),
            usize::from(is_right) + usize::from(is_address),
            "{kind} {length}"
        );
        match parsed.packet.first {
            Chunk::Init(init, _) => {
                assert!(is_right, "{kind} {length}");
                assert_eq!(init.cookie_preservative.is_some(), kind == preservative);
            }
            Chunk::Illegal(illegal) => {
                assert!(!is_right, "{kind} {length}");
                let told = format!("{:?}", illegal.cause);
                assert!(told.contains("13"), "a protocol violation (section 3.3.10.13): {told}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// RFC 4895 section 6.1: both ends make the same key of their vectors, whichever they call their own.
#[test]
fn both_ends_have_the_same_key() {
    let vectors = [9u8, 4].map(|secret| {
        let world = World { secret: Secret([secret; 32]), ..World::new(IpVersion::Ipv4) };
        key_vector(&opening(&world, true)).expect("it authenticates")
    });
    assert_eq!(vectors[0].len(), 36 + 6 + 8);
    assert_ne!(vectors[0], vectors[1]);
    assert_eq!(association_key(&vectors[0], &vectors[1]), association_key(&vectors[1], &vectors[0]));
}

/// RFC 9260 section 5.1.5: a cookie that another host made, or that was changed, opens nothing.
#[test]
fn a_forged_cookie_is_refused() {
    let cookie = StateCookie {
        created_at: Time::ZERO,
        life: Duration::from_secs(60),
        local_tag: 1,
        local_initial_tsn: 2,
        peer: Init {
            initiate_tag: 3,
            a_rwnd: 4,
            outbound_streams: 5,
            max_inbound_streams: 6,
            initial_tsn: 7,
            addresses: 1,
            ip: IpVersion::Ipv4,
            forward_tsn_supported: false,
            asconf_supported: false,
            hmac: Hmac::Sha1,
            interleaving_supported: false,
            reconfig_supported: false,
            nr_sack_supported: false,
            names_forward_tsn: false,
            names_address_types: false,
            cookie_preservative: None,
        },
        tie_tag: None,
        key_bytes: 0,
        keeps_addresses: false,
    };
    let packet = SctpPacket {
        source_port: 1,
        destination_port: 2,
        verification_tag: 1,
        first: Chunk::CookieEcho(Box::new(Cookie::Own(cookie))),
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    assert!(SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).is_ok());
    let mut stranger = World { secret: Secret([8; 32]), ..World::new(IpVersion::Ipv4) };
    let error = SctpPacket::parse(&bytes, &mut stranger).expect_err("it is another's");
    assert_eq!(error.to_string(), "SCTP: a cookie is not ours");
    bytes[12 + 4 + 16] ^= 1;
    bytes[8..12].fill(0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    assert!(SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).is_err());
}

/// Options of a segment of MPTCP without payload or with one of four bytes, as bytes.
fn options_of(options: Options, option_bytes: u32, length: u32) -> Vec<u8> {
    let tcp = Segment {
        source_port: 1,
        destination_port: 2,
        sequence: 3,
        acknowledgement: 4,
        flags: Flags::ACK,
        window: 5,
        payload: Payload { offset: 0x20, length },
        ..Segment::blank()
    };
    let mut bytes = Vec::new();
    let segment = mptcp::Segment { tcp, options, option_bytes };
    segment.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    bytes[20..].to_vec()
}

/// RFC 8684 section 3.3.1: the checksum of a mapping is over its whole numbers and the payload.
#[test]
fn a_mapping_has_its_checksum() {
    let options = Options { data_position: Some(7), has_checksum: true, ..Options::default() };
    let bytes = options_of(options, 20, 4);
    let first = mptcp::keys::first_data_sequence(World::new(IpVersion::Ipv4).keys[0]);
    let mut covered = first.wrapping_add(7).to_be_bytes().to_vec();
    assert_eq!(bytes[..4], [30, 20, 0x20, 0x04 | 0x08]);
    assert_eq!(bytes[4..12], covered);
    covered.extend([0, 0, 0, 0x21, 0, 4]);
    assert_eq!(bytes[12..18], covered[8..]);
    covered.extend([0, 0, 0x20, 0x21, 0x22, 0x23]);
    let words = covered.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(bytes[18..20], checksum.to_be_bytes());
    assert_eq!(bytes[20..], [0x20, 0x21, 0x22, 0x23]);
}

/// Section 3.7: data is damaged though TCP's checksum is right.
#[test]
fn a_damaged_mapping_is_known() {
    let options = Options { data_position: Some(7), has_checksum: true, ..Options::default() };
    let world = World::new(IpVersion::Ipv4);
    let parse = |change: u8| {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0xa0, 0x10, 0, 5, 0, 0, 0, 0];
        bytes.extend(options_of(options, 20, 4));
        *bytes.last_mut().expect("it has a payload") ^= change;
        let checksum = ones_complement(world.addresses(PathId(0)), ip::TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        let mut world = World { next: 0x20, ..world.clone() };
        Segment::parse(&bytes, world.addresses(PathId(0)), &mut world)
    };
    let (_, found) = parse(0).expect("it is a segment");
    assert_eq!(found, Some(options));
    let (_, found) = parse(1).expect("it is a segment");
    assert_eq!(found, Some(Options { is_damaged: true, ..options }));
}

/// RFC 8684 section 3.3: a number of 4 bytes keeps them where there is room for more, and nothing is said of
/// the number of a mapping that is not kept.
#[test]
fn a_short_number_stays_short() {
    let parse = |options: Vec<u8>, words: u8| {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, words << 4, 0x10, 0, 5, 0, 0, 0, 0];
        bytes.extend(options);
        let mut world = World { next: 0x20, ..World::new(IpVersion::Ipv4) };
        let addresses = world.addresses(PathId(0));
        let checksum = ones_complement(addresses, ip::TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        Segment::parse(&bytes, addresses, &mut world).expect("it is a segment").1
    };
    let mapped = Options { data_position: Some(7), has_short_number: true, ..Options::default() };
    let both = Options { data_ack: Some(9), ..mapped };
    let bytes = options_of(both, 24, 4);
    assert_eq!(bytes[..4], [30, 22, 0x20, 0x01 | 0x02 | 0x04]);
    assert_eq!(parse(bytes, 11), Some(both));
    let without_payload = options_of(mapped, 16, 4)[..16].to_vec();
    assert_eq!(parse(without_payload, 9), None);
}

/// RFC 8684 sections 3.4.2, 3.6 and 3.7, byte by byte.
#[test]
fn signals_of_mptcp_byte_by_byte() {
    let signal = |signal| Options { signal: Some(signal), ..Options::default() };
    let addresses = [9, 8].into_iter().collect();
    assert_eq!(options_of(signal(Signal::RemoveAddress { addresses }), 8, 0), [30, 5, 0x40, 9, 8, 1, 1, 1]);
    let reset = Some(Reset { reason: 4, is_transient: true });
    let closing = Options { reset, ..signal(Signal::FastClose) };
    assert_eq!(
        options_of(closing, 16, 0),
        [30, 12, 0x70, 0, 0xf0, 0xe0, 0xd0, 0xc0, 0xb0, 0xa0, 0x90, 0x80, 30, 4, 0x81, 4]
    );
    let failed = options_of(signal(Signal::Fail { position: 5 }), 12, 0);
    let first = mptcp::keys::first_data_sequence(World::new(IpVersion::Ipv4).keys[1]);
    assert_eq!(
        (&failed[..4], &failed[4..]),
        (&[30, 12, 0x60, 0][..], &first.wrapping_add(5).to_be_bytes()[..])
    );
    let announced = Signal::AddAddress { address: 3, is_echo: true, port: Some(0x1234) };
    assert_eq!(options_of(signal(announced), 12, 0), [30, 10, 0x31, 3, 10, 2, 0, 3, 0x12, 0x34, 1, 1]);
}

/// RFC 8684 sections 3.3.1 and 3.7: an infinite mapping has the length 0, and its checksum is 0.
#[test]
fn an_infinite_mapping_byte_by_byte() {
    let infinite = Some(InfiniteMapping { data: 0x1c, position: 0x1c });
    let options = Options { infinite, has_short_number: true, has_checksum: true, ..Options::default() };
    let bytes = options_of(options, 16, 4);
    let first = mptcp::keys::first_data_sequence(World::new(IpVersion::Ipv4).keys[0]);
    assert_eq!(bytes[..4], [30, 16, 0x20, 0x04]);
    assert_eq!(bytes[4..8], (first.wrapping_add(0x1c) as u32).to_be_bytes());
    assert_eq!(bytes[8..16], [0, 0, 0, 0x1d, 0, 0, 0, 0]);
    assert_eq!(bytes[16..], [0x20, 0x21, 0x22, 0x23]);
}

/// RFC 5061 section 4.2.7: a peer may say in one of two ways that it knows partial reliability.
#[test]
fn partial_reliability_is_offered_in_either_way() {
    for (parameter, is_offered) in [
        (&[0xc0, 0x00, 0x00, 0x04][..], true),
        (&[0x80, 0x08, 0x00, 0x06, 130, 192, 0, 0][..], true),
        (&[0x80, 0x08, 0x00, 0x06, 130, 64, 0, 0][..], false),
    ] {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20 + parameter.len() as u8];
        bytes.extend([0, 0, 0, 1, 0, 0, 255, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        bytes.extend(parameter);
        let checksum = crc32c::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        let parsed = SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).expect("a packet");
        let Chunk::Init(init, _) = &parsed.packet.first else { panic!("an INIT") };
        assert_eq!(init.forward_tsn_supported, is_offered);
    }
}
