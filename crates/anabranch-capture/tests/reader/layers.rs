//! Link layers, tunnels, IP.

use crate::common::*;

const NO_IP: &str = "frames without an IP packet";
const CUT: &str = "packets whose headers are cut off";

/// What is read of a frame of a link layer that carries `packet()`.
#[track_caller]
fn one(link: u32, frame: &[u8]) -> Read {
    let read = Read::of(&pcap(link, &[frame.to_vec()]));
    assert_eq!(read.left_out(), [], "of a whole frame");
    assert_eq!(read.only("sequence"), 1_000);
    assert_eq!(read.only("octets"), 140);
    assert_eq!(read.only("captured"), 140);
    // Cut off anywhere, it is read, counted as cut off, or has nothing that could be an IP packet.
    for length in 0..frame.len() {
        let mut file = pcap(link, &[frame[..length].to_vec()]);
        file[36..40].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        let cut = Read::of(&file);
        match cut.left_out()[..] {
            [] => assert!(cut.only("captured") < 140),
            [(why, 1)] => assert_eq!((why, cut.len()), (CUT, 0), "{length} bytes"),
            _ => panic!("{:?}", cut.left_out()),
        }
    }
    read
}

#[test]
fn ethernet_and_its_tags() {
    let read = one(1, &ethernet(&IPV4, &packet()));
    assert_eq!(read.places, ["0"]);
    assert_eq!(
        (read.only("link_destination"), read.only("link_source")),
        (0x0200_0000_0009, 0x0200_0000_0008)
    );
    // IEEE 802.1ad with 802.1Q in it, which has priority 5; then a tag that is for its priority only.
    let tags = [0x88, 0xa8, 0, 7, 0x81, 0, 0xa0, 9, 0x91, 0, 0x40, 0, 8, 0];
    assert_eq!(one(1, &ethernet(&tags, &packet())).places, ["0.7.9"]);
    // IEEE 802.2 with SNAP.
    one(1, &ethernet(&[0, 148, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &packet()));
    // Padding at the end belongs to no packet.
    let padded = ethernet(&IPV4, &join(&[&packet(), &[0; 9]]));
    assert_eq!(Read::of(&pcap(1, &[padded])).only("payload"), 100);
    let arp = ethernet(&[8, 6], &[0; 28]);
    assert_eq!(Read::of(&pcap(1, &[arp])).left_out(), [(NO_IP, 1)]);
}

#[test]
fn vlans_are_places_and_can_be_wanted() {
    let frames: Vec<Vec<u8>> =
        [5, 6, 5].iter().map(|vlan| ethernet(&[0x81, 0, 0, *vlan, 8, 0], &packet())).collect();
    let file = pcap(1, &frames);
    let read = Read::of(&file);
    assert_eq!(
        (read.places.as_slice(), read.column("place")),
        (&["0.5".to_owned(), "0.6".to_owned()][..], &[0, 1, 0][..])
    );
    assert_eq!(read.interfaces, [("0".to_owned(), 3)]);
    assert_eq!(read.column("identity")[0], read.column("identity")[1]);
    assert_eq!(Read::wanted(&file, Some("0.6")).column("index"), [1]);
}

#[test]
fn raw_and_loopback() {
    for link in [12, 14, 101, 228] {
        one(link, &packet());
    }
    one(0, &join(&[&[2, 0, 0, 0], &packet()]));
    one(108, &join(&[&[0, 0, 0, 2], &packet()]));
}

#[test]
fn cooked_captures() {
    let sll =
        |kind: u8, protocol: [u8; 2]| join(&[&[0, kind, 0, 1, 0, 6, 2, 0, 0, 0, 0, 8, 0, 0], &protocol]);
    let read = one(113, &join(&[&sll(4, IPV4), &packet()]));
    assert_eq!((read.only("direction"), read.only("link_source")), (1, 0x0200_0000_0008));
    let read = one(113, &join(&[&sll(0, [0x81, 0]), &[0x40, 12, 8, 0], &packet()]));
    assert_eq!((read.only("direction"), read.places), (0, vec!["0.12".to_owned()]));
    let sll2 = |protocol: [u8; 2], interface: u8| {
        join(&[&protocol, &[0, 0, 0, 0, 0, interface, 0, 1, 4, 6, 2, 0, 0, 0, 0, 8, 0, 0]])
    };
    let read = one(276, &join(&[&sll2(IPV4, 3), &packet()]));
    assert_eq!((read.only("direction"), read.only("link_source")), (1, 0x0200_0000_0008));
    assert_eq!(read.places, ["0:if3"]);
    assert_eq!(one(276, &join(&[&sll2([0x81, 0], 3), &[0, 12, 8, 0], &packet()])).places, ["0:if3.12"]);
}

#[test]
fn ppp_and_pppoe() {
    one(9, &join(&[&[0xff, 3, 0, 0x21], &packet()]));
    one(9, &join(&[&[0x21], &packet()]));
    one(50, &join(&[&[0x0f, 0, 8, 0], &packet()]));
    one(104, &join(&[&[0x0f, 0, 8, 0], &packet()]));
    assert_eq!(one(204, &join(&[&[1, 0xff, 3, 0, 0x21], &packet()])).only("direction"), 1);
    let session = [0x11, 0, 0, 9, 0, 142, 0, 0x21];
    one(51, &join(&[&session, &packet()]));
    assert_eq!(
        one(1, &ethernet(&[0x81, 0, 0, 3, 0x88, 0x64], &join(&[&session, &packet()]))).places,
        ["0.3"]
    );
    // PAP, and a discovery.
    let others =
        [ethernet(&[0x88, 0x64], &[0x11, 0, 0, 9, 0, 2, 0xc0, 0x23]), ethernet(&[0x88, 0x63], &[0; 20])];
    assert_eq!(Read::of(&pcap(1, &others)).left_out(), [(NO_IP, 2)]);
}

#[test]
fn mpls() {
    let labels = [0, 0, 0x10, 64, 0, 0, 0x21, 63];
    one(1, &ethernet(&[0x88, 0x47], &join(&[&labels, &packet()])));
    one(219, &join(&[&labels, &packet()]));
    // A pseudowire with its control word.
    let inner = ethernet(&[0x81, 0, 0, 8, 8, 0], &packet());
    one(1, &ethernet(&[0x88, 0x47], &join(&[&labels, &[0; 4], &inner])));
}

#[test]
fn nflog() {
    let log = join(&[&[2, 0, 0, 5], &[8, 0, 1, 0, 8, 0, 3, 0], &[5, 0, 10, 0, b'x', 0, 0, 0]]);
    one(239, &join(&[&log, &[144, 0, 9, 0], &packet()]));
    let log = join(&[&[2, 0, 0, 5], &[0, 8, 0, 1, 8, 0, 3, 0]]);
    one(239, &join(&[&log, &[0, 144, 0, 9], &packet()]));
}

#[test]
fn wireless() {
    let data = |first: u8, second: u8, more: &[u8]| {
        let addresses = [4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 2, 4, 0, 0, 0, 0, 3];
        join(&[
            &[first, second, 0, 0],
            &addresses,
            &[0x10, 0],
            more,
            &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
            &packet(),
        ])
    };
    assert_eq!(one(105, &data(0x08, 1, &[])).only("link_source"), 0x0400_0000_0002);
    one(105, &data(0x88, 2, &[0, 0]));
    one(105, &data(0x88, 3, &[4, 0, 0, 0, 0, 4, 0, 0]));
    // A time, then flags; with padding to whole words behind 26 bytes.
    let radiotap = |flags: u8| join(&[&[0, 0, 24, 0, 3, 0, 0, 0], &[9; 8], &[flags], &[0; 7]]);
    one(127, &join(&[&radiotap(0x10), &data(0x08, 1, &[])]));
    one(127, &join(&[&radiotap(0x20), &data(0x88, 1, &[0, 0, 0, 0])]));
    // A beacon, a null, one that is encrypted, aggregated, in fragments, damaged.
    let mut fragment = data(0x08, 1, &[]);
    fragment[22] = 0x11;
    let others =
        [data(0x80, 0, &[]), data(0x48, 1, &[]), data(8, 0x41, &[]), data(0x88, 1, &[0x80, 0]), fragment];
    let mut others = others.map(|frame| join(&[&radiotap(0), &frame])).to_vec();
    others.push(join(&[&radiotap(0x40), &data(0x08, 1, &[])]));
    assert_eq!(Read::of(&pcap(127, &others)).left_out(), [(NO_IP, 6)]);
}

#[test]
fn link_types_that_are_not_read_are_named() {
    let read = Read::of(&pcap(147, &[packet()]));
    assert_eq!(read.left_out(), [("frames of link type 147, which is not read", 1)]);
}

#[track_caller]
fn tunnelled(outer: &[u8], tunnels: i64) {
    assert_eq!(one_in(outer).only("tunnels"), tunnels);
}

#[track_caller]
fn one_in(outer: &[u8]) -> Read {
    let read = Read::of(&pcap(101, &[outer.to_vec()]));
    assert_eq!((read.only("sequence"), read.only("octets"), read.only("captured")), (1_000, 140, 140));
    assert_eq!(read.only("ttl"), 61);
    read
}

#[test]
fn tunnels() {
    let inner = packet();
    let frame = ethernet(&[0x81, 0, 0, 4, 8, 0], &inner);
    tunnelled(&ipv4(4, 1, &inner), 1);
    tunnelled(&ipv6(4, &inner), 1);
    tunnelled(&ipv4(4, 1, &ipv6(4, &ipv4(4, 1, &inner))), 3);
    // GRE: plain; with checksum, key and number; with a frame; PPTP's; a mirrored frame of either form.
    tunnelled(&ipv4(47, 1, &join(&[&[0, 0, 8, 0], &inner])), 1);
    tunnelled(&ipv4(47, 1, &join(&[&[0xb0, 0, 8, 0], &[0; 12], &inner])), 1);
    tunnelled(&ipv4(47, 1, &join(&[&[0, 0, 0x65, 0x58], &frame])), 1);
    tunnelled(
        &ipv4(47, 1, &join(&[&[0x30, 0x81, 0x88, 0x0b, 0, 142, 0, 1], &[0; 8], &[0, 0x21], &inner])),
        1,
    );
    tunnelled(&ipv4(47, 1, &join(&[&[0x10, 0, 0x88, 0xbe], &[0; 12], &frame])), 1);
    tunnelled(&ipv4(47, 1, &join(&[&[0, 0, 0x88, 0xbe], &frame])), 1);
    tunnelled(&ipv4(17, 1, &udp(50_000, 4_789, &join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &frame]))), 1);
    tunnelled(&ipv4(17, 1, &udp(2_152, 2_152, &join(&[&[0x30, 255, 0, 140, 0, 0, 0, 1], &inner]))), 1);
    // With a sequence number and one extension header, of 5G's sessions.
    let gtp = [0x34, 255, 0, 148, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 9, 0];
    tunnelled(&ipv4(17, 1, &udp(2_152, 2_152, &join(&[&gtp, &inner]))), 1);
    // Eight levels are looked at.
    let mut deep = inner;
    for _ in 0..9 {
        deep = ipv4(4, 1, &deep);
    }
    assert_eq!(Read::of(&pcap(101, &[deep])).only("tunnels"), 8);
}

#[test]
fn what_only_looks_like_a_tunnel_is_a_packet_as_others() {
    let outers = [
        (17, ipv4(17, 1, &udp(50_000, 4_789, &[8; 60]))),
        (17, ipv4(17, 1, &udp(2_152, 2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]))),
        (47, ipv4(47, 1, &[0, 0, 0x20, 0, 9, 9, 9, 9])),
        (4, ipv4(4, 1, &[0x45, 0, 0, 20])),
    ];
    for (protocol, outer) in outers {
        let read = Read::of(&pcap(101, &[outer]));
        assert_eq!((read.only("protocol"), read.only("tunnels")), (protocol, 0));
        assert_eq!(read.left_out(), []);
    }
}

#[test]
fn ip_headers() {
    let read = Read::of(&pcap(101, &[packet()]));
    assert_eq!(read.hosts, ["192.0.2.1", "198.51.100.7"]);
    assert_eq!((read.only("source"), read.only("destination")), (0, 1));
    assert_eq!((read.only("ttl"), read.only("ecn"), read.only("identification")), (61, 2, 77));
    assert_eq!((read.only("is_atomic"), read.only("protocol")), (1, 6));
    // Hop-by-hop options of 16 bytes, a routing header, an authentication header of 12.
    let extensions = join(&[&[43, 1], &[0; 14], &[51, 0], &[0; 6], &[6, 1], &[0; 10]]);
    let packet6 = ipv6(0, &join(&[&extensions, &tcp(9, 0x10, &[], &[1, 2])]));
    let read = Read::of(&pcap(229, &[packet6]));
    assert_eq!(read.hosts, ["2001:db8::1", "2001:db8::2"]);
    assert_eq!((read.only("payload"), read.only("octets")), (2, 40 + 36 + 22));
    assert_eq!((read.only("ttl"), read.only("ecn"), read.only("identification")), (57, 1, -1));
    assert_eq!((read.only("is_atomic"), read.only("sequence")), (1, 9));
}

#[test]
fn fragments() {
    let mut first = packet();
    first[6] = 0x20;
    let mut second = packet();
    (second[6], second[7]) = (0, 9);
    let fragment =
        |place: u8| ipv6(44, &join(&[&[6, 0, 0, place, 0, 0, 1, 2], &tcp(9, 0x10, &[], &[1; 40])]));
    // The second fragment carries what could be an extension header, if it were the first.
    let mut odd = fragment(0x40);
    odd[40] = 43;
    let read = Read::of(&pcap(101, &[first, second, fragment(1), fragment(0x40), odd]));
    assert_eq!(read.column("identification"), [77, 258]);
    assert_eq!(read.column("is_atomic"), [0, 0]);
    assert_eq!(
        read.left_out(),
        [("fragments other than the first of their packet, but for their lengths", 3)]
    );
    // What follows IP's headers in the others makes their packets longer.
    assert_eq!(read.column("octets"), [140 + 120, 108 + 60 + 60]);
    assert_eq!(read.column("payload"), [100 + 120, 40 + 60 + 60]);
    // Whichever comes first, and each copy is as long.
    let [mut head, mut tail] = [packet(), packet()];
    (head[6], tail[6], tail[7]) = (0x20, 0, 9);
    let read = Read::of(&pcap(101, &[tail.clone(), head.clone()]));
    assert_eq!(read.column("payload"), [220]);
    let read = Read::of(&pcap(101, &[head.clone(), head.clone(), tail.clone(), tail.clone()]));
    assert_eq!(read.column("payload"), [220, 220]);
    // A chunk of SCTP may end in another fragment.
    let datagram = join(&[&[0, 1, 0, 2], &188_u16.to_be_bytes(), &[0; 2 + 60]]);
    let chunk = join(&[&[0, 3], &100_u16.to_be_bytes(), &[0, 0, 0, 7], &[0; 52]]);
    for (protocol, payload) in [(17, datagram), (132, join(&[&[0, 1, 0, 2], &[0; 8], &chunk]))] {
        let mut head = ipv4(protocol, 5, &payload);
        head[6] = 0x20;
        let mut tail = ipv4(protocol, 5, &[0; 120]);
        tail[7] = 9;
        let read = Read::of(&pcap(101, &[head, tail]));
        assert_eq!((read.only("payload"), read.only("fault")), (180, 0));
    }
    // Also in a tunnel.
    let mut inner = packet();
    (inner[6], inner[7]) = (0, 9);
    assert_eq!(Read::of(&pcap(101, &[ipv4(4, 1, &inner)])).len(), 0);
}

#[test]
fn packets_that_are_to_be_segmented_have_the_length_of_their_frame() {
    let mut long = ipv4(6, 1, &tcp(9, 0x10, &[], &[1; 9_000]));
    (long[2], long[3]) = (0, 0);
    let read = Read::of(&pcap(1, &[ethernet(&IPV4, &long)]));
    assert_eq!((read.only("octets"), read.only("payload")), (9_040, 9_000));
    // Whatever the file says, within reason.
    let mut file = pcap(101, &[long]);
    file[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Read::of(&file).only("octets"), 1 << 24);
}

#[test]
fn contradictions() {
    let mut short_header = packet();
    short_header[0] = 0x44;
    let mut short_packet = packet();
    short_packet[3] = 19;
    let mut version = packet();
    version[0] = 0x55;
    let extension = ipv6(0, &[6]);
    let read = Read::of(&pcap(101, &[short_header, short_packet, extension, version]));
    assert_eq!(read.left_out(), [("packets whose lengths contradict each other", 3), (NO_IP, 1)]);
}
