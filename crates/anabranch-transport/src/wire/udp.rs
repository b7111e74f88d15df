//! UDP datagrams (RFC 768), with or without an RTP header.

use std::net::IpAddr;

use super::bytes::{Append as _, Malformed, Piece, Reader, Receiving, Sending};
use super::checksum::Sum;
use super::protocol::UDP;
use super::rtp;
use crate::flow::{PathId, Payload};

/// The UDP header, RFC 768, in bytes.
pub const HEADER_BYTES: u32 = 8;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Where what it carries starts in the application's stream, in bytes.
    pub offset: u64,
    /// The length of what it carries in bytes.
    pub length: u32,
    /// The RTP header in front of that, if there is one.
    pub rtp: Option<rtp::Header>,
}

/// The header, whose fields nothing has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// The length field: that of the datagram in bytes.
    pub length: u16,
    /// The checksum field.
    pub checksum: u16,
}

impl Header {
    /// Reads the header with which a datagram begins; [`None`] if there are less than [`HEADER_BYTES`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let ports = [reader.u16()?, reader.u16()?];
        Some(Self { ports, length: reader.u16()?, checksum: reader.u16()? })
    }
}

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "UDP", problem }
}

/// Appends a datagram between these ports, checksum included; `payload` appends what it carries.
pub fn wrap(ports: [u16; 2], addresses: [IpAddr; 2], out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.u16(ports[0]);
    out.u16(ports[1]);
    out.u32(0);
    payload(out);
    let length = (out.len() - start) as u16;
    out[start + 4..start + 6].copy_from_slice(&length.to_be_bytes());
    // RFC 768: 0 would mean that there is no checksum.
    let checksum = match checksum(addresses, &out[start..]) {
        0 => u16::MAX,
        checksum => checksum,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// The ports of a datagram and what it carries; the datagram is everything behind an IP header with these
/// addresses.
///
/// # Errors
/// When the bytes are not a datagram, or the checksum is wrong.
pub(super) fn unwrap(bytes: &[u8], addresses: [IpAddr; 2]) -> Result<([u16; 2], &[u8]), Malformed> {
    let Header { ports, length, checksum: sum } =
        Header::read(bytes).ok_or(malformed("there is no header"))?;
    let whole = bytes.get(..usize::from(length)).filter(|whole| whole.len() >= HEADER_BYTES as usize);
    let whole = whole.ok_or(malformed("the length is not that of the packet"))?;
    if ports.contains(&0) {
        return Err(malformed("a port is 0"));
    }
    let is_covered = sum != 0 || addresses[0].is_ipv6();
    if is_covered && checksum(addresses, whole) != 0 {
        return Err(malformed("the checksum is wrong"));
    }
    Ok((ports, &whole[HEADER_BYTES as usize..]))
}

impl Datagram {
    /// Headers of UDP and RTP in front of what it carries, in bytes.
    pub const fn header_bytes(&self) -> u32 {
        HEADER_BYTES
            + match &self.rtp {
                Some(rtp) => rtp.bytes(),
                None => 0,
            }
    }

    /// What it is, in one word; for traces.
    pub(super) fn name(&self) -> &'static str {
        if self.rtp.is_some_and(|rtp| rtp.original_sequence.is_some()) {
            "retransmission"
        } else {
            "datagram"
        }
    }

    /// Appends the bytes of the datagram, checksum included, as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        let ports = [self.source_port, self.destination_port];
        wrap(ports, sending.addresses(path), out, |out| {
            if let Some(rtp) = self.rtp {
                rtp.emit(out);
            }
            sending.payload(Payload { offset: self.offset, length: self.length }, out);
        });
    }

    /// Reads a datagram: everything behind an IP header with these addresses.
    ///
    /// # Errors
    /// When the bytes are not a datagram, or the checksum is wrong.
    pub fn parse(
        bytes: &[u8],
        addresses: [IpAddr; 2],
        receiving: &mut impl Receiving,
    ) -> Result<Self, Malformed> {
        let ([source_port, destination_port], payload) = unwrap(bytes, addresses)?;
        let (rtp, payload) = if receiving.has_rtp() {
            let (rtp, payload) = rtp::Header::parse(payload, receiving.retransmissions())?;
            (Some(rtp), payload)
        } else {
            (None, payload)
        };
        let (offset, length) = (receiving.keep(Piece::Datagram, payload), payload.len() as u32);
        Ok(Self { source_port, destination_port, offset, length, rtp })
    }
}

fn checksum(addresses: [IpAddr; 2], datagram: &[u8]) -> u16 {
    Sum::pseudo_header(addresses, UDP, datagram.len()).bytes(datagram).checksum()
}
