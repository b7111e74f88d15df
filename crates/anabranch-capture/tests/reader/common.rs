//! Packets and files as bytes, and what a reader says of them.

use std::collections::BTreeMap;
use std::io::Cursor;

use anabranch_capture::{Error, Reader};

/// What was read of a capture.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// All values of each column as whole numbers; 16 for each row of `datagrams.head`.
    pub(crate) columns: BTreeMap<String, Vec<i64>>,
    pub(crate) places: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) comments: Vec<String>,
    pub(crate) names: Vec<(String, String)>,
    pub(crate) interfaces: Vec<(String, u64)>,
    pub(crate) left_out: Vec<(String, u64)>,
    pub(crate) damage: Option<String>,
    pub(crate) steps_back: (u64, i64),
    pub(crate) batches: Vec<usize>,
}

impl Read {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::wanted(bytes, None)
    }

    pub(crate) fn wanted(bytes: &[u8], interface: Option<&str>) -> Self {
        Self::tried(bytes, interface).expect("it is a capture")
    }

    pub(crate) fn tried(bytes: &[u8], interface: Option<&str>) -> Result<Self, Error> {
        let mut reader = Reader::of_bytes(Cursor::new(bytes.to_vec()), interface.map(str::to_owned))?;
        let mut read = Self::default();
        while let Some(batch) = reader.next_batch()? {
            read.batches.push(batch.len());
            for (name, kind, bytes) in batch.columns() {
                read.columns.entry(name).or_default().extend(values(kind, &bytes));
            }
        }
        read.places = reader.places().map(|place| place.name.clone()).collect();
        read.hosts = reader.addresses().map(|address| address.to_string()).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        read.comments = reader.comments().map(text).collect();
        read.names = reader.names().map(|(address, name)| (address.to_string(), text(name))).collect();
        let interfaces = reader.interfaces().into_iter();
        read.interfaces = interfaces.map(|(name, each)| (name.to_owned(), each.frames)).collect();
        read.left_out = reader.left_out();
        read.damage = reader.damage().map(str::to_owned);
        read.steps_back = reader.steps_back();
        Ok(read)
    }

    pub(crate) fn column(&self, name: &str) -> &[i64] {
        &self.columns[name]
    }

    pub(crate) fn len(&self) -> usize {
        self.column("time_ns").len()
    }

    /// The only value of a column.
    #[track_caller]
    pub(crate) fn only(&self, name: &str) -> i64 {
        let [value] = self.column(name) else {
            panic!("{name}: {:?}; {:?}", self.column(name), self.left_out)
        };
        *value
    }

    pub(crate) fn left_out(&self) -> Vec<(&str, u64)> {
        self.left_out.iter().map(|(what, count)| (what.as_str(), *count)).collect()
    }
}

fn values(kind: &str, bytes: &[u8]) -> Vec<i64> {
    let (width, is_signed) = match kind {
        "<i1" => (1, true),
        "<i2" => (2, true),
        "<i4" => (4, true),
        "<i8" | "<u8" => (8, true),
        "?" | "<u1" | "(16,)u1" => (1, false),
        _ => panic!("a new type of column: {kind}"),
    };
    assert_eq!(bytes.len() % width, 0);
    bytes
        .chunks(width)
        .map(|chunk| {
            let is_negative = is_signed && chunk[width - 1] & 0x80 != 0;
            let mut wide = [if is_negative { 0xff } else { 0 }; 8];
            wide[..width].copy_from_slice(chunk);
            i64::from_le_bytes(wide)
        })
        .collect()
}

/// Bytes one after another.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

pub(crate) const SOURCE: [u8; 4] = [192, 0, 2, 1];
pub(crate) const DESTINATION: [u8; 4] = [198, 51, 100, 7];

/// An IPv4 packet with this identification, which may not be fragmented.
pub(crate) fn ipv4(protocol: u8, identification: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let [high, low] = identification.to_be_bytes();
    let header = [0x45, 2, length[0], length[1], high, low, 0x40, 0, 61, protocol, 0, 0];
    join(&[&header, &SOURCE, &DESTINATION, payload])
}

/// An IPv6 packet; what comes behind its header begins with extension headers, if there are some.
pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0x10, 0, 0, length[0], length[1], next, 57];
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(payload);
    packet
}

/// A TCP segment of port 40,000 to port 443; options fill whole words.
pub(crate) fn tcp(sequence: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let offset = (((20 + options.len()) / 4) << 4) as u8;
    join(&[
        &[0x9c, 0x40, 1, 0xbb],
        &sequence.to_be_bytes(),
        &7_000_u32.to_be_bytes(),
        &[offset, flags, 2, 0, 0xab, 0xcd, 0, 0],
        options,
        payload,
    ])
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let fields = [source, destination, length, 0x1234].map(u16::to_be_bytes);
    join(&[fields.as_flattened(), payload])
}

pub(crate) const MACS: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];

/// An Ethernet frame; `kind` may have tags before it.
pub(crate) fn ethernet(kind: &[u8], payload: &[u8]) -> Vec<u8> {
    join(&[&MACS, kind, payload])
}

pub(crate) const IPV4: [u8; 2] = [8, 0];

/// An IPv4 packet with 100 bytes of TCP.
pub(crate) fn packet() -> Vec<u8> {
    ipv4(6, 77, &tcp(1_000, 0x18, &[], &[5; 100]))
}

/// A little-endian pcap file with frames 1 ms apart, from 1.5 s on.
pub(crate) fn pcap(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = join(&[&0xa1b2_c3d4_u32.to_le_bytes(), &[2, 0, 4, 0], &[0; 12], &link.to_le_bytes()]);
    for (number, frame) in (0_u32..).zip(frames) {
        let length = frame.len() as u32;
        for field in [1, 500_000 + 1_000 * number, length, length] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// A pcapng block.
pub(crate) fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded as u32).to_le_bytes();
    let padding = vec![0; padded - body.len()];
    join(&[&kind.to_le_bytes(), &length, body, &padding, &length])
}

/// A pcapng option.
pub(crate) fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    join(&[&code.to_le_bytes(), &(value.len() as u16).to_le_bytes(), value, &padding])
}

/// The beginning of a section.
pub(crate) fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &join(&[&0x1a2b_3c4d_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xff; 8]]))
}

/// An interface of Ethernet.
pub(crate) fn interface(options: &[u8]) -> Vec<u8> {
    block(1, &join(&[&[1, 0, 0, 0, 0, 0, 0, 0], options]))
}

/// An enhanced packet block.
pub(crate) fn enhanced(interface: u32, ticks: u64, frame: &[u8], options: &[u8]) -> Vec<u8> {
    let length = frame.len() as u32;
    let mut body = Vec::new();
    for field in [interface, (ticks >> 32) as u32, ticks as u32, length, length] {
        body.extend(field.to_le_bytes());
    }
    body.extend(frame);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(options);
    block(6, &body)
}

impl Read {
    /// The value that all rows of a column have.
    #[track_caller]
    pub(crate) fn only_value(&self, name: &str) -> i64 {
        let column = self.column(name);
        assert!(column.iter().all(|value| *value == column[0]), "{name}: {column:?}");
        column[0]
    }
}
