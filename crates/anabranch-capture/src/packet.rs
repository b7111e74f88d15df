//! The IP packet of a frame: its headers, and those of the packet in it where it is a tunnel's.

use anabranch_transport::wire::ip::{Header, NoHeader, UDP};
use anabranch_transport::wire::udp;

use crate::bytes::{array, be16};
use crate::link::{self, Link};
use crate::tables::LeftOut;

/// Numbers of protocols that are tunnels.
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

/// UDP ports of tunnels: VXLAN (RFC 7348), also as Linux had it before; GTP-U (3GPP TS 29.281).
const VXLAN: [u16; 2] = [4_789, 8_472];
const GTP_U: u16 = 2_152;

/// Tunnels in tunnels of more levels than this are not looked at.
const MOST_TUNNELS: u8 = 8;

/// No packet is longer, whatever a file says, in bytes.
const MOST_OCTETS: usize = 1 << 24;

/// A packet, whose headers have been read up to its transport's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) header: Header,
    /// Its length in bytes.
    pub(crate) octets: usize,
    /// How many of these are there.
    pub(crate) captured: usize,
    /// What follows the headers, as far as it is there.
    pub(crate) payload: &'a [u8],
    pub(crate) tunnels: u8,
}

/// What the bytes of a frame are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Packet(Packet<'a>),
    /// A fragment other than the first, which has no header of a transport.
    Fragment {
        header: Header,
        /// How many bytes of the packet's payload it has.
        octets: usize,
        tunnels: u8,
    },
}

impl<'a> Packet<'a> {
    /// Reads the packet with which these bytes begin, which had `length` bytes before they were cut off.
    pub(crate) fn read(bytes: &'a [u8], length: usize, tunnels: u8) -> Result<Found<'a>, LeftOut> {
        let mut header = Header::read(bytes).map_err(|problem| match problem {
            NoHeader::NotIp => LeftOut::NoIp,
            NoHeader::Short => LeftOut::Cut,
            NoHeader::Contradiction => LeftOut::Damaged,
        })?;
        // What is to be segmented later may have no length.
        let octets = if header.packet_bytes == 0 {
            length.max(bytes.len()).min(MOST_OCTETS)
        } else {
            header.packet_bytes
        };
        let packet = &bytes[..octets.min(bytes.len())];
        let extensions = header.take_extensions(packet);
        if header.fragment.is_some_and(|place| place.start > 0) {
            let octets = octets.saturating_sub(header.header_bytes);
            return Ok(Found::Fragment { header, octets, tunnels });
        }
        if extensions.is_err() && header.header_bytes + 8 <= octets {
            return Err(LeftOut::Cut);
        }
        if extensions.is_err() || octets < header.header_bytes {
            return Err(LeftOut::Damaged);
        }
        let payload = packet.get(header.header_bytes..).unwrap_or_default();
        let outer = Self { header, octets, captured: packet.len(), payload, tunnels };
        if tunnels < MOST_TUNNELS
            && let Some(inner) = inner(header.protocol, payload)
        {
            let before = packet.len() - inner.len();
            match Self::read(inner, octets.saturating_sub(before), tunnels + 1) {
                // What only looks like a tunnel, or is cut off in it, counts as the packet that it is.
                Err(_) => {}
                found => return found,
            }
        }
        Ok(Found::Packet(outer))
    }

    /// How many bytes follow the headers, whether they are there or not.
    pub(crate) const fn payload_octets(&self) -> usize {
        self.octets - self.header.header_bytes
    }

    /// Whether the packet was longer than its first fragment, which this is.
    pub(crate) const fn is_fragment(&self) -> bool {
        self.header.fragment.is_some()
    }
}

/// The IP packet that a packet carries, if it is a tunnel's.
fn inner(protocol: u8, payload: &[u8]) -> Option<&[u8]> {
    match protocol {
        IPV4_IN_IP | IPV6_IN_IP => Some(payload),
        GRE => in_gre(payload),
        UDP => {
            let header = udp::Header::read(payload)?;
            let datagram = payload.get(udp::HEADER_BYTES as usize..)?;
            if VXLAN.contains(&header.ports[1]) {
                // RFC 7348 section 5: the flag says that there is a network identifier.
                return if *datagram.first()? == 8 {
                    link::ethernet(datagram.get(8..)?, &mut Link::default()).ok()
                } else {
                    None
                };
            }
            if header.ports.contains(&GTP_U) { in_gtp(datagram) } else { None }
        }
        _ => None,
    }
}

/// RFC 2784 and RFC 2890; version 1 is PPTP's (RFC 2637 section 4.1).
fn in_gre(payload: &[u8]) -> Option<&[u8]> {
    const PPP: u16 = 0x880b;
    /// A mirrored frame (ERSPAN).
    const MIRRORED: u16 = 0x88be;
    let (flags, kind) = (be16(payload, 0)?, be16(payload, 2)?);
    let has = |bit: u16| flags & bit != 0;
    let fields = |bits: &[u16]| 4 * bits.iter().filter(|bit| has(**bit)).count();
    match (flags & 7, kind) {
        (1, PPP) => link::in_pptp(payload.get(8 + fields(&[0x1000, 0x0080])..)?).ok(),
        // Its second form has a sequence number and a header of its own.
        (0, MIRRORED) => {
            let header = fields(&[0x8000, 0x2000, 0x1000]) + if has(0x1000) { 8 } else { 0 };
            link::ethernet(payload.get(4 + header..)?, &mut Link::default()).ok()
        }
        // Not the source routes of RFC 1701.
        (0, _) if !has(0x4000) => {
            let bytes = payload.get(4 + fields(&[0x8000, 0x2000, 0x1000])..)?;
            link::ethertype(kind, bytes, &mut Link::default()).ok()
        }
        _ => None,
    }
}

/// 3GPP TS 29.281 section 5.1.
fn in_gtp(datagram: &[u8]) -> Option<&[u8]> {
    /// A packet of the user.
    const T_PDU: u8 = 255;
    let [flags, kind] = array(datagram, 0)?;
    // Version 1, protocol type GTP.
    if flags & 0xf0 != 0x30 || kind != T_PDU {
        return None;
    }
    let has_more = flags & 7 != 0;
    if !has_more {
        return datagram.get(8..);
    }
    let mut rest = datagram.get(12..)?;
    let mut next = datagram[11];
    // Section 5.2.1: each header has its length in words of 4 bytes first, and the next type last.
    while flags & 4 != 0 && next != 0 {
        let (header, behind) = rest.split_at_checked(4 * usize::from(*rest.first()?))?;
        next = *header.last()?;
        rest = behind;
    }
    Some(rest)
}
