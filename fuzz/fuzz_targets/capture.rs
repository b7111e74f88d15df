//! Captures: whole files of any format, and frames of any link layer.
#![no_main]

use std::io::Cursor;

use anabranch_capture::Reader;
use anabranch_fuzz::memory;
use libfuzzer_sys::fuzz_target;

/// Link types; those of even inputs are of a file by itself.
const LINKS: [u32; 19] =
    [0, 1, 9, 50, 51, 101, 104, 105, 108, 113, 127, 204, 219, 228, 229, 239, 276, 12, 147];

/// What a reader may have before the first frame, in bytes: its buffers; and what unpacking needs, as the
/// largest window of Zstandard that is accepted.
const BEFORE: usize = 8 << 20;
const TO_UNPACK: usize = 256 << 20;

/// What it may allocate for each byte of a file: a frame of a pcap file has 16 bytes without content, and its
/// row some 250 bytes in columns that double. One byte of gzip can become 1,032 (RFC 1951), and of Zstandard
/// 128 KiB have four.
const PER_BYTE: usize = 256;
const TO_ONE: usize = 32 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let file =
        if first & 1 == 0 { rest.to_vec() } else { pcap(LINKS[usize::from(first >> 1) % LINKS.len()], rest) };
    let is_packed = file.starts_with(&[0x1f, 0x8b]) || file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let (before, unpacked) = if is_packed { (TO_UNPACK, TO_ONE) } else { (BEFORE, 1) };
    memory::within(before + PER_BYTE * unpacked * file.len(), || read(file));
});

fn read(file: Vec<u8>) {
    let Ok(mut reader) = Reader::of_bytes(Cursor::new(file), None) else { return };
    let mut packets = 0;
    while let Ok(Some(batch)) = reader.next_batch() {
        packets += batch.len();
        let rows = batch.len();
        for (name, kind, values) in batch.columns() {
            if !name.contains('.') && kind == "<i8" {
                assert_eq!(values.len(), 8 * rows, "{name}");
            }
        }
    }
    let frames: u64 = reader.interfaces().iter().map(|(_, interface)| interface.frames).sum();
    assert!(packets as u64 <= frames);
}

/// A pcap file with frames of this link type; the length of each is a byte before it.
fn pcap(link: u32, mut rest: &[u8]) -> Vec<u8> {
    let mut file = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], &[0; 12][..], &link.to_le_bytes()].concat();
    while let Some((&length, behind)) = rest.split_first() {
        let (frame, behind) = behind.split_at(behind.len().min(length.into()));
        for field in [1, 0, frame.len() as u32, u32::from(length)] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
        rest = behind;
    }
    file
}
