//! UDP datagrams (RFC 768), with or without an RTP header (RFC 3550).

use std::net::IpAddr;

use super::bytes::{Append as _, Malformed, Piece, Reader, Receiving, Sending};
use super::checksum::Sum;
use super::protocol::UDP;
use crate::flow::{PathId, Payload};

/// The UDP header, RFC 768, in bytes.
pub const HEADER_BYTES: u32 = 8;
/// The RTP header without contributing sources, RFC 3550 section 5.1, in bytes.
pub const RTP_HEADER_BYTES: u32 = 12;

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
    pub rtp: Option<Rtp>,
}

/// What an RTP header says (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp {
    /// What the payload is, 7 bits.
    pub payload_type: u8,
    /// The number of the packet.
    pub sequence: u16,
    /// When the first sample was taken, in ticks of the clock that belongs to the payload type.
    pub timestamp: u32,
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

/// Version 2, without padding, extension, contributing sources and marker.
const RTP_BEGINNING: u16 = 0x8000;
const PAYLOAD_TYPE: u16 = 0x7f;

impl Rtp {
    /// Appends the bytes of the header. Its source (SSRC) is the port: each port has a stream of its own.
    pub fn emit(&self, source_port: u16, out: &mut Vec<u8>) {
        out.u16(RTP_BEGINNING | u16::from(self.payload_type) & PAYLOAD_TYPE);
        out.u16(self.sequence);
        out.u32(self.timestamp);
        out.u32(source_port.into());
    }
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

impl Datagram {
    /// Appends the bytes of the datagram, checksum included, as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        let ports = [self.source_port, self.destination_port];
        wrap(ports, sending.addresses(path), out, |out| {
            if let Some(rtp) = self.rtp {
                rtp.emit(self.source_port, out);
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
        let Header { ports: [source_port, destination_port], length, checksum: sum } =
            Header::read(bytes).ok_or(malformed("there is no header"))?;
        let whole = bytes.get(..usize::from(length)).filter(|whole| whole.len() >= HEADER_BYTES as usize);
        let whole = whole.ok_or(malformed("the length is not that of the packet"))?;
        if source_port == 0 || destination_port == 0 {
            return Err(malformed("a port is 0"));
        }
        let is_covered = sum != 0 || addresses[0].is_ipv6();
        if is_covered && checksum(addresses, whole) != 0 {
            return Err(malformed("the checksum is wrong"));
        }
        let mut reader = Reader(&whole[HEADER_BYTES as usize..]);
        let rtp = if receiving.has_rtp() {
            let mut header = || {
                let (beginning, sequence, timestamp) = (reader.u16()?, reader.u16()?, reader.u32()?);
                reader.u32()?;
                let payload_type = (beginning & PAYLOAD_TYPE) as u8;
                (beginning & !PAYLOAD_TYPE == RTP_BEGINNING).then_some(Rtp {
                    payload_type,
                    sequence,
                    timestamp,
                })
            };
            Some(header().ok_or(malformed("there is no header of RTP"))?)
        } else {
            None
        };
        let (offset, length) = (receiving.keep(Piece::Datagram, reader.0), reader.0.len() as u32);
        Ok(Self { source_port, destination_port, offset, length, rtp })
    }
}

fn checksum(addresses: [IpAddr; 2], datagram: &[u8]) -> u16 {
    Sum::pseudo_header(addresses, UDP, datagram.len()).bytes(datagram).checksum()
}
