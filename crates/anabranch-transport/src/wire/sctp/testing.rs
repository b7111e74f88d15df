//! An end for the tests of chunks.

use std::net::{IpAddr, Ipv4Addr};

use super::SctpPacket;
use super::chunk::Chunk;
use crate::flow::{PathId, Payload};
use crate::wire::bytes::{Piece, Receiving, Secret, Sending};
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// An end at 10.0.0.1 whose peer is 10.0.0.2, and which keeps its user data at offset 0.
struct End {
    secret: Secret,
    kept: Vec<u8>,
}

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

impl Sending for End {
    fn addresses(&self, _: PathId) -> [IpAddr; 2] {
        ADDRESSES.map(IpAddr::V4)
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        out.extend(&self.kept[..payload.length as usize]);
    }
}

impl SctpSending for End {
    fn own_addresses(&self) -> Vec<IpAddr> {
        vec![ADDRESSES[0].into()]
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> &[u8] {
        &[]
    }
}

impl Receiving for End {
    fn keep(&mut self, _: Piece, bytes: &[u8]) -> u64 {
        self.kept = bytes.to_vec();
        0
    }

    fn keep_stream(&mut self, _: u32, _: &[u8]) -> u64 {
        0
    }
}

impl SctpReceiving for End {
    fn path_to(&self, address: IpAddr) -> Option<PathId> {
        (address == ADDRESSES[1]).then_some(PathId(0))
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> Option<&[u8]> {
        None
    }
}

/// Checks that these bytes are read as this chunk, and that it is written as them.
#[track_caller]
pub(super) fn assert_is(bytes: &[u8], chunk: &Chunk) {
    let mut end = End { secret: Secret([0; 32]), kept: Vec::new() };
    let mut packet = [&[0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0], bytes].concat();
    let checksum = crc32c::crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    let parsed = SctpPacket::parse(&packet, &mut end).expect("it is a packet").packet;
    assert_eq!(parsed.first, *chunk);
    let mut written = Vec::new();
    parsed.emit(PathId(0), &end, &mut written);
    assert_eq!(written, packet);
}
