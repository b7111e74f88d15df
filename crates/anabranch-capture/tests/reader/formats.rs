//! Each format of files, and what of a file is not used.

use std::io::Write as _;

use crate::common::*;

#[test]
fn pcap_in_both_orders_and_units() {
    let frame = ethernet(&IPV4, &packet());
    let length = frame.len() as u32;
    for (magic, part, part_ns) in
        [(0xa1b2_c3d4_u32, 250_000_u32, 250_000_000), (0xa1b2_3c4d, 250_000, 250_000)]
    {
        for order in [u32::to_be_bytes, u32::to_le_bytes] {
            let mut file = order(magic).to_vec();
            file.extend([0; 16]);
            // The upper half of the link type says that there are checksums.
            file.extend(order(0x1400_0001));
            for field in [1_600_000_000, part, length, length] {
                file.extend(order(field));
            }
            file.extend(&frame);
            let read = Read::of(&file);
            assert_eq!(read.only("time_ns"), 1_600_000_000_000_000_000 + part_ns);
            assert_eq!(read.only("octets"), 140);
            assert_eq!(read.places, ["0"]);
            assert_eq!(read.interfaces, [("0".to_owned(), 1)]);
            assert_eq!(read.left_out(), []);
            assert_eq!(read.damage, None);
        }
    }
}

#[test]
fn modified_pcap_has_interfaces() {
    let frame = ethernet(&IPV4, &packet());
    let length = (frame.len() as u32).to_le_bytes();
    let mut file = join(&[&0xa1b2_cd34_u32.to_le_bytes(), &[2, 0, 4, 0], &[0; 12], &1_u32.to_le_bytes()]);
    for (interface, kind) in [(3, 0), (4, 4)] {
        file.extend(join(&[&[9, 0, 0, 0, 1, 0, 0, 0], &length, &length]));
        file.extend([interface, 0, 0, 0, 8, 0, kind, 0]);
        file.extend(&frame);
    }
    let read = Read::of(&file);
    assert_eq!(read.places, ["0:if3", "0:if4"]);
    assert_eq!(read.column("place"), [0, 1]);
    assert_eq!(read.column("direction"), [0, 1]);
    assert_eq!(read.column("time_ns"), [9_000_001_000; 2]);
    assert_eq!(Read::wanted(&file, Some("0:if4")).column("index"), [1]);
    assert_eq!(Read::wanted(&file, Some("0")).len(), 2);
    assert_eq!(Read::wanted(&file, Some("1")).len(), 0);
}

#[test]
fn pcapng_has_interfaces_units_names_and_comments() {
    let frame = ethernet(&IPV4, &packet());
    let resolution = join(&[&option(2, b"wan"), &option(9, &[0x8a]), &option(14, &(-5_i64).to_le_bytes())]);
    let name = join(&[&[192, 0, 2, 1], b"near\0other\0"]);
    let file = join(&[
        &section(),
        &interface(&option(2, b"lan")),
        &interface(&resolution),
        // Microseconds, where nothing is said.
        &enhanced(
            0,
            3_000_000,
            &frame,
            &join(&[&option(1, b"dropped here: queue"), &option(2, &[2, 0, 0, 0])]),
        ),
        &enhanced(1, 10 << 10 | 512, &frame, &option(2, &[1, 0, 0, 0])),
        // A simple packet block, statistics, a block of a kind that nobody knows.
        &block(3, &join(&[&(frame.len() as u32).to_le_bytes(), &frame])),
        &block(5, &[0; 12]),
        &block(0x77, &[]),
        &block(4, &join(&[&option(1, &name), &[0; 4]])),
        &section(),
        &interface(&option(2, b"lan")),
        &enhanced(0, 4_000_000, &frame, &option(1, b"dropped here: queue")),
    ]);
    let read = Read::of(&file);
    assert_eq!(read.column("time_ns"), [3_000_000_000, 5_500_000_000, 4_000_000_000]);
    assert_eq!(read.places, ["lan", "wan"]);
    assert_eq!(read.column("place"), [0, 1, 0]);
    assert_eq!(read.column("index"), [0, 1, 3]);
    assert_eq!(read.column("direction"), [1, 0, -1]);
    assert_eq!(read.column("comment"), [0, -1, 0]);
    assert_eq!(read.comments, ["dropped here: queue"]);
    assert_eq!(read.names, [("192.0.2.1".to_owned(), "near".to_owned())]);
    assert_eq!(read.interfaces, [("lan".to_owned(), 2), ("wan".to_owned(), 1)]);
    assert_eq!(
        read.left_out(),
        [("blocks of the unknown type 0x77", 1), ("packets without a time (simple packet blocks)", 1)]
    );
    assert_eq!(read.damage, None);
}

/// The obsolete block has a count of drops behind a shorter number of the interface.
#[test]
fn packet_blocks_and_the_other_order() {
    let frame = packet();
    let length = (frame.len() as u32).to_be_bytes();
    let body = join(&[&[0, 0, 0, 9], &[0, 0, 0, 0, 0, 0, 0, 7], &length, &length, &frame]);
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_be_bytes();
        join(&[&kind.to_be_bytes(), &length, body, &length])
    };
    let file = join(&[
        &block(0x0a0d_0d0a, &join(&[&0x1a2b_3c4d_u32.to_be_bytes(), &[0; 12]])),
        &block(1, &[0, 101, 0, 0, 0, 0, 0, 0]),
        &block(2, &body),
    ]);
    let read = Read::of(&file);
    assert_eq!((read.only("time_ns"), read.only("link_source")), (7_000, 0));
}

#[test]
fn times_that_no_number_has_are_the_nearest() {
    let interfaces = [
        join(&[&option(9, &[0]), &option(14, &i64::MAX.to_le_bytes())]),
        option(9, &[127]),
        option(9, &[255]),
        join(&[&option(9, &[0]), &option(14, &i64::MIN.to_le_bytes())]),
    ];
    let mut file = section();
    for options in &interfaces {
        file.extend(interface(options));
    }
    for number in 0..4 {
        let ticks = if number == 3 { 0 } else { u64::MAX };
        file.extend(enhanced(number, ticks, &ethernet(&IPV4, &packet()), &[]));
    }
    assert_eq!(Read::of(&file).column("time_ns"), [i64::MAX, 0, 0, i64::MIN]);
}

/// RFC 1761 section 3.
#[test]
fn snoop() {
    let frame = ethernet(&IPV4, &packet());
    let mut file = join(&[b"snoop\0\0\0", &2_u32.to_be_bytes(), &4_u32.to_be_bytes()]);
    for seconds in [5_u32, 6] {
        let length = frame.len() as u32;
        for field in [length, length, 24 + length + 2, 0, seconds, 250_000] {
            file.extend(field.to_be_bytes());
        }
        file.extend(&frame);
        file.extend([0; 2]);
    }
    assert_eq!(Read::of(&file).column("time_ns"), [5_250_000_000, 6_250_000_000]);
    file[11] = 3;
    let error = Read::tried(&file, None).unwrap_err();
    assert_eq!(error.to_string(), "snoop of version 3; only version 2 is read");
}

fn erf(seconds: u64, kind: u8, flags: u8, before: &[u8], frame: &[u8]) -> Vec<u8> {
    let length = (16 + before.len() + frame.len()) as u16;
    let padding = length.next_multiple_of(8) - length;
    join(&[
        &(seconds << 32 | 1 << 31).to_le_bytes(),
        &[kind, flags],
        &(length + padding).to_be_bytes(),
        &[0, 0],
        &(frame.len() as u16).to_be_bytes(),
        before,
        frame,
        &vec![0; padding.into()],
    ])
}

#[test]
fn erf_records() {
    let frame = ethernet(&IPV4, &packet());
    let file = join(&[
        &erf(100, 2, 4, &[0; 2], &frame),
        // An extension header, behind which none follows.
        &erf(101, 0x82, 5, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0], &frame),
        &erf(102, 22, 4, &[], &packet()),
        &erf(103, 27, 4, &[], &[0; 8]),
    ]);
    let read = Read::of(&file);
    assert_eq!(read.column("time_ns"), [100_500_000_000, 101_500_000_000, 102_500_000_000]);
    assert_eq!(read.column("octets"), [140; 3]);
    assert_eq!(read.places, ["0", "1"]);
    assert_eq!(read.left_out(), [("ERF records of type 27, which is not read", 1)]);
    // Text is none, however it begins.
    let text = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n".repeat(2_000);
    let error = Read::tried(text.as_bytes(), None).unwrap_err();
    assert_eq!(error.to_string(), "neither pcap, pcapng, snoop nor ERF");
}

#[test]
fn compressed_files_are_read_as_they_are() {
    let file = pcap(1, &vec![ethernet(&IPV4, &packet()); 30_000]);
    let (first, second) = file.split_at(1_234_567);
    let zip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd =
        |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    // Several members or frames are one file; a frame may be there to be passed over (RFC 8878 section
    // 3.1.2).
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let packed =
        [join(&[&zip(first), &zip(second)]), join(&[&zstd(first), &skipped, &zstd(&[]), &zstd(second)])];
    for packed in packed {
        let read = Read::of(&packed);
        assert_eq!((read.len(), &read.damage), (30_000, &None));
        assert_eq!(read.only_value("identity"), Read::of(&file).only_value("identity"));
        let read = Read::of(&packed[..packed.len() / 2]);
        assert!(read.len() < 30_000 && read.damage.is_some(), "{:?}", read.damage);
    }
}

/// A window that the decoder would have to keep is refused, also in the first frame.
#[test]
fn a_window_of_terabytes_is_refused() {
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8, 1, 0, 0];
    assert!(Read::tried(&frame, None).unwrap_err().to_string().starts_with("it cannot be read any further"));
}

#[test]
fn a_damaged_file_is_read_up_to_the_damage() {
    let frame = ethernet(&IPV4, &packet());
    let whole = pcap(1, &[frame.clone(), frame.clone()]);
    let in_header = whole.len() - frame.len() - 3;
    let damage = |file: &[u8]| {
        let read = Read::of(file);
        (read.len(), read.damage.expect("it is damaged"))
    };
    assert_eq!(damage(&whole[..whole.len() - 1]), (1, "the file is cut off in a packet".to_owned()));
    assert_eq!(damage(&whole[..in_header]), (1, "the last packet is cut off".to_owned()));
    let mut long = whole.clone();
    long[24 + 16 + frame.len() + 11] = 1;
    let expected = "a packet cannot have 16777370 bytes; the file is damaged";
    assert_eq!(damage(&long), (2 - 1, expected.to_owned()));
    // Nothing comes before it.
    let error = Read::tried(&whole[..30], None).unwrap_err();
    assert_eq!(error.to_string(), "the last packet is cut off");
    assert_eq!(Read::of(&whole[..24]).len(), 0);

    let file =
        join(&[&section(), &interface(&[]), &enhanced(0, 1, &frame, &[]), &enhanced(1, 1, &frame, &[])]);
    let expected = "a packet's block contradicts itself; the file is damaged";
    assert_eq!(damage(&file), (1, expected.to_owned()));
    let file = join(&[&section(), &interface(&[]), &enhanced(0, 1, &frame, &[]), &[6, 0, 0, 0, 11, 0, 0, 0]]);
    assert_eq!(damage(&file), (1, "a block cannot have 11 bytes; the file is damaged".to_owned()));
}

#[test]
fn steps_back_in_time_are_told() {
    let frame = ethernet(&IPV4, &packet());
    let mut file = join(&[&section(), &interface(&option(2, b"a")), &interface(&option(2, b"b"))]);
    // The second interface's clock is its own.
    for (number, seconds) in [(0, 50), (1, 3), (0, 51), (1, 4), (0, 21), (1, 5), (0, 22)] {
        file.extend(enhanced(number, seconds * 1_000_000, &frame, &[]));
    }
    file.extend(enhanced(0, 21_950_000, &frame, &[]));
    let read = Read::of(&file);
    assert_eq!(read.steps_back, (2, 30_000_000_000));
}

#[test]
fn batches_have_a_limit() {
    let read = Read::of(&pcap(101, &vec![packet(); 70_000]));
    assert_eq!(read.batches, [65_536, 70_000 - 65_536]);
    assert_eq!(read.column("index"), (0..70_000).collect::<Vec<i64>>());
    // 16,000 chunks in each packet.
    let chunks = join(&[&[0; 12], &[11, 0, 0, 4].repeat(16_000)]);
    let read = Read::of(&pcap(101, &vec![ipv4(132, 1, &chunks); 20]));
    assert_eq!(read.batches, [9, 9, 2]);
    assert_eq!(read.column("chunks.packet").len(), 320_000);
}
