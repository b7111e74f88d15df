//! Packets as an attacker writes them, who may write what the protocols forbid.

use std::net::IpAddr;

/// A chunk of SCTP that says how long it is, with its padding.
pub(crate) fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    chunk_of_length(kind, flags, 4 + value.len() as u16, value)
}

/// A chunk of SCTP that claims to have this length.
pub(crate) fn chunk_of_length(kind: u8, flags: u8, length: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, flags];
    bytes.extend(length.to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A packet of SCTP with its checksum, between these ports.
pub(crate) fn sctp(ports: [u16; 2], tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(ports.map(u16::to_be_bytes).as_flattened());
    bytes.extend(tag.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(chunks.concat());
    let checksum = crc32c::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Several numbers of 32 bits.
pub(crate) fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.map(u32::to_be_bytes).as_flattened().to_vec()
}

/// Two numbers of 16 bits in one of 32.
pub(crate) const fn pair(high: u16, low: u16) -> u32 {
    (high as u32) << 16 | low as u32
}

/// The parts of a TCP segment that is to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) ports: [u16; 2],
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

impl Segment {
    /// The bytes of the segment between these addresses, with their checksum.
    pub(crate) fn emit(&self, addresses: [IpAddr; 2]) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 1);
        let mut bytes = Vec::new();
        bytes.extend(self.ports.map(u16::to_be_bytes).as_flattened());
        bytes.extend(words([self.sequence, self.acknowledgement]));
        bytes.extend([(5 + options.len() as u8 / 4) << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(&self.payload);
        let checksum = internet_checksum(&bytes, addresses);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The fields of a segment on the network that matter here.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let header = usize::from(bytes[12] >> 4) * 4;
        Self {
            ports: [u16_at(0), u16_at(2)],
            sequence: u32_at(4),
            acknowledgement: u32_at(8),
            flags: bytes[13],
            options: bytes[20..header].to_vec(),
            payload: bytes[header..].to_vec(),
        }
    }

    /// The value of the segment's first option of this kind.
    pub(crate) fn option(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match *rest {
                [0, ..] | [] => return None,
                [1, ..] => rest = &rest[1..],
                [found, length, ..] if found == kind => return rest.get(2..length.into()),
                [_, length, ..] => rest = rest.get(length.max(2).into()..)?,
                [_] => return None,
            }
        }
    }
}

/// The checksum of RFC 9293 section 3.1; its place in the bytes must be zero.
fn internet_checksum(bytes: &[u8], addresses: [IpAddr; 2]) -> u16 {
    let mut all = Vec::new();
    for address in addresses {
        match address {
            IpAddr::V4(address) => all.extend(address.octets()),
            IpAddr::V6(address) => all.extend(address.octets()),
        }
    }
    all.extend(words([6, bytes.len() as u32]));
    all.extend(bytes);
    let pairs =
        all.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| (*low).into()));
    let mut sum = pairs.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
