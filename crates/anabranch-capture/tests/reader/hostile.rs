//! Files that nobody vouches for: no input panics, and the work grows with the length of the input only.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::common::*;

/// Link types that are read, and one that is not.
const LINKS: [u32; 20] =
    [0, 1, 9, 12, 14, 50, 51, 101, 104, 105, 108, 113, 127, 204, 219, 228, 229, 239, 276, 147];

/// Whole files of each format, from which others are made by changes.
fn files() -> Vec<Vec<u8>> {
    let sctp = ipv4(
        132,
        1,
        &join(&[
            &[0, 9, 0, 8, 1, 2, 3, 4, 0, 0, 0, 0],
            &[3, 0, 0, 20],
            &[1; 8],
            &[0, 1, 0, 1],
            &[0, 2, 0, 3],
        ]),
    );
    let mptcp = ipv4(6, 1, &tcp(1, 2, &[30, 12, 0x11, 4, 0, 0, 1, 2, 0, 0, 0, 0], &[]));
    let vxlan = ipv4(17, 1, &udp(1, 4_789, &join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(&IPV4, &packet())])));
    let extended =
        ipv6(0, &join(&[&[44, 0], &[0; 6], &[17, 0, 0, 1, 0, 0, 0, 1], &udp(1, 2_152, &[0x34; 60])]));
    let gre = ipv4(47, 1, &join(&[&[0, 0, 0x88, 0x47, 0, 0, 0x11, 1], &packet()]));
    let packets = [packet(), sctp, mptcp, vxlan, extended, gre];
    let frames: Vec<Vec<u8>> =
        packets.iter().map(|packet| ethernet(&[0x81, 0, 0, 4, 8, 0], packet)).collect();
    let mut pcapng = join(&[&section(), &interface(&option(2, b"lan"))]);
    let mut snoop = join(&[b"snoop\0\0\0", &2_u32.to_be_bytes(), &4_u32.to_be_bytes()]);
    let mut erf = Vec::new();
    for frame in &frames {
        let length = frame.len() as u32;
        pcapng.extend(enhanced(0, 1_000_000, frame, &option(1, b"said")));
        for field in [length, length, 24 + length, 0, 1, 1] {
            snoop.extend(field.to_be_bytes());
        }
        snoop.extend(frame);
        erf.extend(join(&[
            &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0],
            &(18 + length as u16).to_be_bytes(),
            &[0, 0, 1, 0, 0, 0],
            frame,
        ]));
    }
    vec![pcap(1, &frames), pcap(101, &packets), pcapng, snoop, erf]
}

/// What must hold of whatever was read.
fn check(bytes: &[u8]) {
    let Ok(read) = Read::tried(bytes, None) else { return };
    let packets = read.len();
    for (name, column) in &read.columns {
        if !name.contains('.') {
            assert_eq!(column.len(), packets, "{name}");
        }
    }
    for table in ["sacks", "chunks", "multipath", "datagrams"] {
        let rows = read.column(&format!("{table}.packet"));
        assert!(rows.is_sorted() && rows.iter().all(|row| (*row as usize) < packets), "{table}");
    }
    // Four bytes are the least that a row takes.
    let rows: usize = ["sacks.packet", "chunks.packet", "gaps.chunk", "multipath.packet", "datagrams.packet"]
        .iter()
        .map(|name| read.column(name).len())
        .sum();
    assert!(4 * rows <= bytes.len());
    let in_table =
        |name: &str, entries: usize| read.column(name).iter().all(|at| (-1..entries as i64).contains(at));
    assert!(in_table("place", read.places.len()) && in_table("comment", read.comments.len()));
    assert!(in_table("source", read.hosts.len()) && in_table("destination", read.hosts.len()));
    for ((captured, octets), payload) in
        read.column("captured").iter().zip(read.column("octets")).zip(read.column("payload"))
    {
        assert!(0 <= *captured && captured <= octets && 0 <= *payload && payload <= octets);
    }
    let frames: u64 = read.interfaces.iter().map(|(_, frames)| frames).sum();
    assert!(packets as u64 <= frames);
    let names: BTreeSet<&String> = read.places.iter().collect();
    assert!(names.len() <= read.places.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any bytes as frames of any link type.
    #[test]
    fn any_frame(link in prop::sample::select(&LINKS[..]), frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)) {
        check(&pcap(link, &frames));
    }

    /// Whole files with some bytes changed, or cut off.
    #[test]
    fn any_damage(which in 0..5_usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12), end in any::<prop::sample::Index>(), is_cut in any::<bool>()) {
        let mut file = files().swap_remove(which);
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        if is_cut {
            file.truncate(end.index(file.len()));
        }
        check(&file);
    }

    /// Any bytes behind each magic number.
    #[test]
    fn any_file(which in 0..7_usize, rest in prop::collection::vec(any::<u8>(), 0..300)) {
        let magics: [&[u8]; 7] = [
            &[0xa1, 0xb2, 0xc3, 0xd4], &[0x34, 0xcd, 0xb2, 0xa1], &[0x0a, 0x0d, 0x0d, 0x0a],
            b"snoop\0\0\0\0\0\0\x02\0\0\0\x04", &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], &[],
        ];
        check(&join(&[magics[which], &rest]));
    }
}

/// The files that damage is done to have what they are thought to have.
#[test]
fn the_whole_files_are_read() {
    for (number, file) in files().iter().enumerate() {
        let read = Read::of(file);
        assert_eq!((read.len(), read.left_out(), &read.damage), (6, vec![], &None), "{number}");
        check(file);
    }
}

/// Input that would let headers within headers, tables or pieces grow: the time is that of its length. 8 MB
/// each take well below a second in a build with optimisation; a square would take hours.
#[test]
fn the_work_is_linear() {
    let long = 1 << 20;
    let stacks: [(u32, Vec<u8>); 8] = [
        // Labels without end, tags without end, pseudowires in each other.
        (219, vec![0; 8 * long]),
        (1, ethernet(&[0x81, 0], &[0, 1, 0x81, 0].repeat(2 * long))),
        (219, join(&[&[0, 0, 1, 1, 0, 0, 0, 0], &MACS, &[0x88, 0x47]]).repeat(8 * long / 22)),
        (239, join(&[&[0; 4], &[4, 0, 1, 0].repeat(2 * long)])),
        (127, join(&[&[0, 0, 24, 0], &vec![0xff; 8 * long]])),
        // Extension headers, chunks, gap blocks of a packet that has no length.
        (101, join(&[&[0x60, 0, 0, 0, 0, 0, 60, 9], &[1; 32], &[60, 0, 0, 0, 0, 0, 0, 0].repeat(long)])),
        (101, join(&[&[0x45, 0, 0, 0, 0, 0, 0, 0, 9, 132, 0, 0], &[1; 20], &[11, 0, 0, 4].repeat(2 * long)])),
        (
            101,
            join(&[
                &[0x45, 0, 0, 0, 0, 0, 0, 0, 9, 132, 0, 0],
                &[1; 20],
                &[3, 0, 0xff, 0xfc, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0].repeat(long / 2),
            ]),
        ),
    ];
    for (link, frame) in stacks {
        check(&pcap(link, &[frame]));
    }
    // Interfaces, unknown blocks and hosts that are all different.
    let mut file = section();
    for number in 0..70_000_u32 {
        file.extend(block(0x1000 + number, &[]));
    }
    assert_eq!(Read::of(&file).left_out.len(), 257);
    let hosts: Vec<Vec<u8>> = (0..100_000_u32)
        .map(|number| {
            let mut packet = packet();
            packet[12..16].copy_from_slice(&number.to_be_bytes());
            packet
        })
        .collect();
    assert_eq!(Read::of(&pcap(101, &hosts)).hosts.len(), 100_001);
}
