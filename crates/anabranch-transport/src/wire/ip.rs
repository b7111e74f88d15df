//! IP packets as bytes: RFC 791, RFC 8200.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv6Header};

use super::bytes::{Malformed, Reader, Receiving, Sending};
use super::checksum::Sum;
pub use super::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use super::{Body, Packet, mptcp, sctp, tcp, udp};
use crate::ground::{Ecn, PathId};

/// The header of a fragment in IPv6 (RFC 8200 section 4.5).
const IPV6_FRAGMENT: u8 = 44;

/// The time to live of sent packets: RFC 1700's recommendation.
const TIME_TO_LIVE: u8 = 64;

/// The fields of an IP header, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split<'a> {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// The ECN field.
    pub ecn: Ecn,
    /// The number of the protocol that it carries.
    pub protocol: u8,
    /// Length of the headers in bytes.
    pub header_bytes: usize,
    /// What follows the headers.
    pub payload: &'a [u8],
    /// Its place in the whole packet, if it is a fragment.
    pub fragment: Option<Place>,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The packet's identification; 16 bits with IPv4.
    pub identification: u32,
    /// Its start in the packet's payload, in bytes.
    pub start: usize,
    /// Whether more fragments follow.
    pub has_more: bool,
}

/// A packet without its header.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// The packet; its path is the given one.
    pub packet: Packet,
    /// The addresses that an INIT or INIT ACK of SCTP lists, or that our own cookie keeps.
    pub listed: Vec<IpAddr>,
}

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "IP", problem }
}

impl Packet {
    /// The bytes of the packet. With an identification, it may be fragmented on its way; IPv6 has neither.
    ///
    /// # Panics
    /// For a fragment, which is [cut](fragment) from the bytes of its packet, and for a packet of a real
    /// program, whose bytes are not known here.
    pub fn emit(&self, identification: Option<u16>, sending: &impl Sending) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.size as usize);
        let protocol = match &self.body {
            Body::Foreign(_) => panic!("a packet of others has bytes already"),
            Body::Fragment(_) => panic!("a fragment is cut from its packet"),
            Body::Mptcp(segment) => {
                segment.emit(self.path, sending, &mut body);
                TCP
            }
            Body::Sctp(packet) => {
                packet.emit(self.path, sending, &mut body);
                SCTP
            }
            Body::Tcp(segment) => {
                segment.emit(self.path, sending, &mut body);
                TCP
            }
            Body::Udp(datagram) => {
                datagram.emit(self.path, sending, &mut body);
                UDP
            }
        };
        let bytes = wrap(protocol, sending.addresses(self.path), self.ecn, identification, &body);
        debug_assert_eq!(bytes.len(), self.size as usize, "{self:?}");
        bytes
    }

    /// Reads a packet that came on this path. It must not be a fragment; the host puts those together first.
    ///
    /// # Errors
    /// When the bytes are not a packet, or its protocol is not known here.
    pub fn parse(bytes: &[u8], path: PathId, receiving: &mut impl Receiving) -> Result<Parsed, Malformed> {
        let Split { addresses, ecn, protocol, header_bytes: header, payload: body, fragment } =
            Split::of(bytes)?;
        if fragment.is_some() {
            return Err(malformed("it is a fragment"));
        }
        let size = (header + body.len()) as u32;
        let mut listed = Vec::new();
        let body = match protocol {
            SCTP => {
                let sctp::Parsed { packet, addresses, .. } = sctp::SctpPacket::parse(body, receiving)?;
                listed = addresses;
                Body::Sctp(packet)
            }
            TCP => match tcp::Segment::parse(body, addresses, receiving)? {
                (tcp, None) => Body::Tcp(tcp),
                (tcp, Some(options)) => Body::Mptcp(mptcp::Segment::of(tcp, options, size, header as u32)),
            },
            UDP => Body::Udp(udp::Datagram::parse(body, addresses, receiving)?),
            _ => return Err(malformed("the protocol is not one of those known here")),
        };
        Ok(Parsed { addresses, packet: Packet { path, ecn, size, body }, listed })
    }
}

impl<'a> Split<'a> {
    /// Takes a packet apart.
    ///
    /// # Errors
    /// When the packet is not whole, or its header is damaged.
    pub fn of(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const NO_HEADER: Malformed = malformed("there is no whole header");
        const SHORT: Malformed = malformed("the length is not that of the packet");
        match bytes.first().map(|first| first >> 4) {
            Some(4) => {
                let (header, rest) = Ipv4Header::from_slice(bytes).map_err(|_| NO_HEADER)?;
                // The sum of the bytes, including the checksum itself.
                let header_bytes = header.header_len();
                if Sum::default().bytes(&bytes[..header_bytes]).checksum() != 0 {
                    return Err(malformed("the header's checksum is wrong"));
                }
                let length = usize::from(header.total_len).checked_sub(header_bytes);
                let place = Place {
                    identification: header.identification.into(),
                    start: usize::from(header.fragment_offset.value()) * 8,
                    has_more: header.more_fragments,
                };
                Ok(Self {
                    addresses: [header.source, header.destination]
                        .map(|octets| Ipv4Addr::from(octets).into()),
                    ecn: ecn_of(header.ecn),
                    protocol: header.protocol.0,
                    header_bytes,
                    payload: length.and_then(|length| rest.get(..length)).ok_or(SHORT)?,
                    fragment: header.is_fragmenting_payload().then_some(place),
                })
            }
            Some(6) => {
                let (header, rest) = Ipv6Header::from_slice(bytes).map_err(|_| NO_HEADER)?;
                let whole = Self {
                    addresses: [header.source, header.destination]
                        .map(|octets| Ipv6Addr::from(octets).into()),
                    ecn: ecn_of(IpEcn::try_new(header.traffic_class & 3).expect("two bits")),
                    protocol: header.next_header.0,
                    header_bytes: 40,
                    payload: rest.get(..header.payload_length.into()).ok_or(SHORT)?,
                    fragment: None,
                };
                if whole.protocol == IPV6_FRAGMENT { whole.behind_fragment_header() } else { Ok(whole) }
            }
            _ => Err(malformed("the version is neither 4 nor 6")),
        }
    }

    /// Takes off a fragment header (RFC 8200 section 4.5). A fragment that is the whole packet is handled as
    /// that packet (RFC 6946).
    fn behind_fragment_header(self) -> Result<Self, Malformed> {
        let mut reader = Reader(self.payload);
        let mut header = || Some((reader.u16()?, reader.u16()?, reader.u32()?));
        let (next, place, identification) = header().ok_or(malformed("there is no whole header"))?;
        let (start, has_more) = (usize::from(place & !7), place & 1 != 0);
        let is_part = start > 0 || has_more;
        Ok(Self {
            protocol: (next >> 8) as u8,
            header_bytes: self.header_bytes + 8,
            payload: reader.0,
            fragment: is_part.then_some(Place { identification, start, has_more }),
            ..self
        })
    }
}

/// An IP packet with this payload. With an identification, it may be fragmented on its way; IPv6 has neither.
pub fn wrap(
    protocol: u8,
    [source, destination]: [IpAddr; 2],
    ecn: Ecn,
    identification: Option<u16>,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40 + payload.len());
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = Ipv4Header::new(
                payload.len() as u16,
                TIME_TO_LIVE,
                IpNumber(protocol),
                source.octets(),
                destination.octets(),
            )
            .expect("a packet is no longer than its length field says");
            header.ecn = ecn_field(ecn);
            header.identification = identification.unwrap_or(0);
            header.dont_fragment = identification.is_none();
            header.header_checksum = header.calc_header_checksum();
            bytes.extend(header.to_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                traffic_class: ecn_field(ecn).value(),
                payload_length: payload.len() as u16,
                next_header: IpNumber(protocol),
                hop_limit: TIME_TO_LIVE,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            bytes.extend(header.to_bytes());
        }
        _ => panic!("both addresses are of one version"),
    }
    bytes.extend(payload);
    bytes
}

/// A fragment of an IPv4 packet, or of a fragment of one: the part of its payload from `start` to `end`, in
/// bytes; all fragments but the last begin and end at multiples of 8 (RFC 791 section 3.2).
pub fn fragment(packet: &[u8], start: usize, end: usize) -> Vec<u8> {
    let (mut header, payload) = Ipv4Header::from_slice(packet).expect("it is one of ours");
    header.total_len = (header.header_len() + end - start) as u16;
    let offset = header.fragment_offset.value() + (start / 8) as u16;
    header.fragment_offset = IpFragOffset::try_new(offset).expect("a packet is that short");
    header.more_fragments |= end < payload.len();
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(&payload[start..end]);
    bytes
}

/// The ECN field of a packet.
pub fn ecn(packet: &[u8]) -> Ecn {
    let value = if packet[0] >> 4 == 6 { packet[1] >> 4 & 3 } else { packet[1] & 3 };
    ecn_of(IpEcn::try_new(value).expect("two bits"))
}

/// Sets the ECN field of a packet.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let value = ecn_field(ecn).value();
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & 0xcf | value << 4;
        return;
    }
    packet[1] = packet[1] & 0xfc | value;
    let (mut header, _) = Ipv4Header::from_slice(packet).expect("it is one of ours");
    header.header_checksum = header.calc_header_checksum();
    packet[10..12].copy_from_slice(&header.header_checksum.to_be_bytes());
}

fn ecn_field(ecn: Ecn) -> IpEcn {
    match ecn {
        Ecn::NotEct => IpEcn::ZERO,
        Ecn::Ect1 => IpEcn::ONE,
        Ecn::Ect0 => IpEcn::TWO,
        Ecn::Ce => IpEcn::THREE,
    }
}

fn ecn_of(field: IpEcn) -> Ecn {
    match field.value() {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}
