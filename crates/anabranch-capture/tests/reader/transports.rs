//! TCP, UDP, SCTP and ICMP, whole and cut off.

use crate::common::*;
use anabranch_transport::wire::mptcp::keys::token_of;

const CUT: i64 = 1;
const DAMAGED: i64 = 2;
const CUT_CHUNKS: i64 = 3;

#[track_caller]
fn read(packets: &[Vec<u8>]) -> Read {
    let read = Read::of(&pcap(101, packets));
    assert_eq!(read.left_out(), []);
    read
}

/// A packet that a snap length has cut to so many bytes.
fn cut(packet: &[u8], length: usize) -> Read {
    let mut file = pcap(101, &[packet[..length].to_vec()]);
    file[36..40].copy_from_slice(&(packet.len() as u32).to_le_bytes());
    Read::of(&file)
}

#[test]
fn tcp_with_its_options() {
    let syn = join(&[&[2, 4, 5, 0xb4, 4, 2, 8, 10], &[0, 0, 0, 9, 0, 0, 0, 8], &[1, 3, 3, 7]]);
    let sack = join(&[&[1, 1, 5, 18], &[0, 0, 0, 1, 0, 0, 0, 2], &[0xff, 0xff, 0xff, 0, 0, 0, 0, 5]]);
    let packets = [tcp(5, 2, &syn, &[]), tcp(6, 0x18, &[], &[7; 10]), tcp(16, 0x10, &sack, &[])];
    let packets = packets.map(|segment| ipv4(6, 1, &segment));
    let read = read(&packets);
    assert_eq!(read.column("source_port"), [40_000; 3]);
    assert_eq!(read.column("destination_port"), [443; 3]);
    assert_eq!(read.column("sequence"), [5, 6, 16]);
    assert_eq!(read.column("acknowledgement"), [-1, 7_000, 7_000]);
    assert_eq!(read.column("flags"), [2, 0x18, 0x10]);
    assert_eq!(read.column("window"), [512; 3]);
    assert_eq!(read.column("payload"), [0, 10, 0]);
    assert_eq!(read.column("mss"), [1_460, -1, -1]);
    assert_eq!(read.column("window_scale"), [7, -1, -1]);
    assert_eq!(read.column("permits_sack"), [1, 0, 0]);
    assert_eq!(read.column("stamp"), [9, -1, -1]);
    assert_eq!(read.column("echo"), [8, -1, -1]);
    assert_eq!(read.column("sacks.packet"), [2, 2]);
    assert_eq!(read.column("sacks.start"), [1, 0xffff_ff00]);
    assert_eq!(read.column("sacks.end"), [2, 5]);
    assert_eq!(read.column("fault"), [0; 3]);
}

#[test]
fn tcp_that_is_cut_off_or_damaged() {
    let packet = ipv4(6, 1, &tcp(5, 0x10, &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8], &[7; 10]));
    let whole = cut(&packet, packet.len());
    // Without data, without a part of its options: what is there counts.
    for length in [52, 45] {
        let cut = cut(&packet, length);
        assert_eq!((cut.only("sequence"), cut.only("payload"), cut.only("fault")), (5, 10, 0));
        assert_eq!(cut.only("stamp"), if length == 52 { 9 } else { -1 });
        assert_ne!(cut.only("content"), whole.only("content"));
    }
    let ports = cut(&packet, 30);
    assert_eq!((ports.only("source_port"), ports.only("fault"), ports.only("payload")), (40_000, CUT, 0));
    assert_eq!(cut(&packet, 22).only("source_port"), -1);
    let mut offset = packet.clone();
    offset[32] = 0x40;
    assert_eq!(read(&[offset.clone()]).only("fault"), DAMAGED);
    offset[32] = 0xf0;
    assert_eq!(read(&[offset]).only("fault"), DAMAGED);
    assert_eq!(read(&[ipv4(6, 1, &[1; 19])]).only("fault"), DAMAGED);
}

#[test]
fn multipath_tcp() {
    let (key, peer) = (0x0102_0304_0506_0708_u64, 0x1112_1314_1516_1718_u64);
    let keys = join(&[&key.to_be_bytes(), &peer.to_be_bytes()]);
    let options = [
        join(&[&[30, 20, 1, 0x81], &keys]),
        join(&[&[30, 20, 0, 0x81], &keys]),
        [&[30, 12, 0x11, 4, 0, 0, 1, 2], &[0; 4][..]].concat(),
        // A Data ACK of 8 bytes and a mapping with a number of 4.
        join(&[&[30, 22, 0x20, 7, 0, 0, 0, 1, 0, 0, 0, 2], &[0, 0, 0, 3, 0, 0, 0, 4, 0, 5, 1, 1]]),
        join(&[&[30, 8, 0x30, 9], &[192, 0, 2, 9]]),
        vec![30, 3, 0x51, 1],
    ];
    let flags = [0x10, 0x10, 2, 0x10, 0x10, 0x10];
    let packets: Vec<_> =
        options.iter().zip(flags).map(|(option, flags)| ipv4(6, 1, &tcp(5, flags, option, &[]))).collect();
    let read = read(&packets);
    let column = |name: &str| read.column(&format!("multipath.{name}")).to_vec();
    assert_eq!(column("packet"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(column("kind"), [0, 0, 1, 2, 3, 5]);
    assert_eq!(column("version"), [1, 0, -1, -1, -1, -1]);
    assert_eq!(column("flags"), [0x81, 0x81, 1, 7, 0, 1]);
    assert_eq!(column("address"), [-1, -1, 4, -1, 9, -1]);
    assert_eq!(column("key"), [key as i64, key as i64, 0, 0, 0, 0]);
    assert_eq!(column("peer_key"), [peer as i64, peer as i64, 0, 0, 0, 0]);
    // RFC 6824 has the same beginning of SHA-1: `printf 0102030405060708 | xxd -r -p | sha1sum`.
    assert_eq!(column("token"), [token_of(key).into(), 0xdd57_83bc, 258, -1, -1, -1]);
    assert_eq!(column("peer_token")[0], i64::from(token_of(peer)));
    assert_eq!(column("data_ack"), [-1, -1, -1, 2, -1, -1]);
    assert_eq!(column("data_sequence"), [-1, -1, -1, 3, -1, -1]);
    assert_eq!(column("subflow_sequence"), [-1, -1, -1, 4, -1, -1]);
    assert_eq!(column("data_octets"), [-1, -1, -1, 5, -1, -1]);
}

#[test]
fn udp_and_the_beginning_of_what_it_carries() {
    let mut short = ipv4(17, 1, &udp(5_004, 5_006, &[9; 4]));
    let length = short.len();
    short[length - 8 - 4 + 5] = 7;
    let packets = [
        ipv4(17, 1, &udp(5_004, 5_006, &[7; 40])),
        ipv4(17, 1, &udp(5_004, 5_006, &[8, 9])),
        ipv4(17, 1, &udp(5_004, 5_006, &[])),
        short,
    ];
    let read = read(&packets);
    assert_eq!(read.column("payload"), [40, 2, 0, 0]);
    assert_eq!(read.column("fault"), [0, 0, 0, DAMAGED]);
    assert_eq!(read.column("source_port"), [5_004; 4]);
    assert_eq!(read.column("datagrams.packet"), [0, 1, 2]);
    assert_eq!(read.column("datagrams.captured"), [40, 2, 0]);
    assert_eq!(read.column("datagrams.head")[38..55], [7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 9, 0]);
}

fn sctp(chunks: &[&[u8]]) -> Vec<u8> {
    join(&[&[0, 9, 0, 8, 1, 2, 3, 4, 0xaa, 0xbb, 0xcc, 0xdd], &chunks.concat()])
}

const DATA: [u8; 20] = [0, 3, 0, 19, 0, 0, 0, 50, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0];
const SACK: [u8; 28] =
    [3, 0, 0, 28, 0xff, 0xff, 0xff, 0xf0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 2, 0, 4, 0, 6, 0, 30, 0, 0, 0, 9];

#[test]
fn sctp_chunks() {
    let init = [1, 0, 0, 20, 0, 0, 0, 7, 0, 2, 0, 0, 0, 5, 0, 6, 0, 0, 1, 0];
    let i_data = join(&[&[64, 1, 0, 24, 0, 0, 0, 51, 0, 3], &[0; 14]]);
    let nr_sack = join(&[
        &[16, 0, 0, 32, 0, 0, 0, 100, 0, 1, 0, 0],
        &[0, 1, 0, 1, 0, 1, 0, 0],
        &[0, 2, 0, 3, 0, 5, 0, 5],
        &[0, 0, 0, 9],
    ]);
    let heartbeat = [4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    let mut answer = heartbeat;
    answer[0] = 5;
    let forward = [192, 0, 0, 8, 0, 0, 0, 60];
    let shutdown = [7, 0, 0, 8, 0, 0, 0, 61];
    let chunks: [&[u8]; 9] =
        [&init, &DATA, &i_data, &SACK, &nr_sack, &heartbeat, &answer, &forward, &shutdown];
    let read = read(&[ipv4(132, 1, &sctp(&[])), ipv4(132, 1, &sctp(&chunks))]);
    assert_eq!(read.column("tag"), [0x0102_0304; 2]);
    assert_eq!(read.column("source_port"), [9; 2]);
    assert_eq!(read.column("fault"), [0, 0]);
    let column = |name: &str| read.column(&format!("chunks.{name}")).to_vec();
    assert_eq!(column("packet"), [1; 9]);
    assert_eq!(column("kind"), [1, 0, 64, 3, 16, 4, 5, 192, 7]);
    assert_eq!(column("flags"), [0, 3, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(column("octets"), [20, 19, 24, 28, 32, 12, 12, 8, 8]);
    assert_eq!(column("number"), [256, 50, 51, 0xffff_fff0, 100, -1, -1, 60, 61]);
    assert_eq!(column("data"), [0, 3, 4, 0, 0, 0, 0, 0, 0]);
    assert_eq!(column("stream"), [-1, 2, 3, -1, -1, -1, -1, -1, -1]);
    assert_eq!(column("window"), [131_072, -1, -1, 65_536, 65_536, -1, -1, -1, -1]);
    assert_eq!(column("tag"), [7, -1, -1, -1, -1, -1, -1, -1, -1]);
    assert_eq!(column("duplicates"), [0, 0, 0, 1, 1, 0, 0, 0, 0]);
    let identities = column("identity");
    assert!(identities[5] != 0 && identities[5] == identities[6] && identities[4] == 0);
    assert_eq!(read.column("gaps.chunk"), [3, 3, 4, 4]);
    assert_eq!(read.column("gaps.start"), [0xffff_fff2, 0xffff_fff6, 102, 105]);
    assert_eq!(read.column("gaps.end"), [0xffff_fff5, 0x1_0000_000f, 104, 106]);
}

#[test]
fn sctp_that_ends_otherwise_than_it_should() {
    let packet = ipv4(132, 1, &sctp(&[&DATA, &SACK]));
    let faults = |packet: &[u8], length: usize| {
        let read = cut(packet, length);
        (read.only("fault"), read.column("chunks.kind").to_vec())
    };
    assert_eq!(faults(&packet, packet.len()), (0, vec![0, 3]));
    // A chunk of which some is there, and one of which nothing is.
    assert_eq!(faults(&packet, packet.len() - 9), (0, vec![0, 3]));
    assert_eq!(cut(&packet, packet.len() - 8).column("gaps.start"), [0xffff_fff2]);
    assert_eq!(faults(&packet, 54), (CUT_CHUNKS, vec![0]));
    assert_eq!(faults(&packet, 31), (CUT, vec![]));
    // Zeros, a chunk that is longer than the packet, one that is shorter than its header.
    let ends =
        [(vec![0; 44], 0), (vec![3, 0, 0, 40, 1, 1, 1, 1], CUT_CHUNKS), (vec![3, 0, 0, 3], CUT_CHUNKS)];
    for (end, fault) in ends {
        let packet = ipv4(132, 1, &sctp(&[&DATA, &end]));
        assert_eq!(faults(&packet, packet.len()), (fault, vec![0]));
    }
}

#[test]
fn sctp_inside_udp() {
    let inner = sctp(&[&DATA]);
    let packets = [
        ipv4(17, 1, &udp(9_899, 9_899, &inner)),
        ipv4(17, 1, &udp(9_899, 9_899, &join(&[&inner, &inner]))),
        ipv4(17, 1, &udp(9_899, 9_899, &[1; 9])),
    ];
    let read = read(&packets);
    assert_eq!(read.column("protocol"), [132, 132, 17]);
    assert_eq!(read.column("in_udp"), [1, 1, 0]);
    assert_eq!(read.column("source_port"), [9, 9, 9_899]);
    // A packet of several that a system cuts apart behind the capture.
    assert_eq!(read.column("chunks.packet"), [0, 1, 1]);
}

#[test]
fn icmp() {
    let echo = [8, 0, 9, 9, 0, 5, 0, 6, 1, 1];
    let unreachable = [3, 4, 9, 9, 0, 0, 5, 0xdc];
    let packets = [
        ipv4(1, 1, &echo),
        ipv4(1, 1, &unreachable),
        ipv6(58, &[129, 0, 0, 0, 0, 5, 0, 6]),
        ipv4(1, 1, &[8, 0, 0]),
    ];
    let read = read(&packets);
    assert_eq!(read.column("icmp_kind"), [8, 3, 129, 8]);
    assert_eq!(read.column("icmp_code"), [0, 4, 0, 0]);
    assert_eq!(read.column("icmp_identifier"), [5, -1, 5, -1]);
    assert_eq!(read.column("icmp_sequence"), [6, -1, 6, -1]);
    assert_eq!(read.column("payload"), [2, 0, 0, 0]);
    assert_eq!(read.column("fault"), [0, 0, 0, DAMAGED]);
}

#[test]
fn other_protocols_have_rows() {
    let read = read(&[ipv4(50, 1, &[7; 30])]);
    assert_eq!((read.only("protocol"), read.only("payload"), read.only("source_port")), (50, 30, -1));
}

/// Identity and content of a packet after a change.
fn hashes(packet: &[u8], changes: &[(usize, u8)]) -> (i64, i64) {
    let mut packet = packet.to_vec();
    for &(at, value) in changes {
        packet[at] = value;
    }
    let read = Read::of(&pcap(101, &[packet]));
    (read.only("identity"), read.only("content"))
}

/// What routers, network cards and senders change.
#[test]
fn identity_and_content() {
    for (protocol, payload, checksums) in [
        (6, tcp(5, 0x10, &[], &[7; 100]), vec![36, 37]),
        (17, udp(1, 2, &[7; 120]), vec![26, 27]),
        (132, sctp(&[&DATA, &SACK, &DATA, &DATA, &DATA]), vec![28, 29, 30, 31]),
        (17, udp(9_899, 9_899, &sctp(&[&DATA, &DATA, &DATA, &DATA])), vec![26, 27, 36, 37, 38, 39]),
        (50, vec![7; 100], vec![]),
    ] {
        let packet = ipv4(protocol, 1, &payload);
        let (identity, content) = hashes(&packet, &[]);
        // Time to live and IP's checksum, ECN.
        assert_eq!(hashes(&packet, &[(8, 9), (10, 9), (11, 9), (1, 3)]), (identity, content));
        let changed: Vec<(usize, u8)> = checksums.iter().map(|at| (*at, 99)).collect();
        assert_eq!(hashes(&packet, &changed), (identity, content), "{protocol}");
        for at in 20..packet.len() {
            if checksums.contains(&at) {
                continue;
            }
            let other = hashes(&packet, &[(at, packet[at] ^ 0x80)]);
            assert_eq!(other.0 == identity, at >= 84, "byte {at} of protocol {protocol}");
            assert_ne!(other.1, content, "byte {at} of protocol {protocol}");
        }
        // Identification and addresses.
        for at in [5, 15, 19] {
            let other = hashes(&packet, &[(at, 200)]);
            assert!(other.0 != identity && other.1 == content);
        }
    }
    // The same in every process.
    assert_eq!(hashes(&packet(), &[]), (IDENTITY, CONTENT));
}

const IDENTITY: i64 = 5_768_851_391_623_839_527;
const CONTENT: i64 = -7_710_655_022_490_816_071;
