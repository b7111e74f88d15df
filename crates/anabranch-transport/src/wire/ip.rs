//! IP packets as bytes: RFC 791, RFC 8200.

use std::net::IpAddr;

use etherparse::{IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice};

use super::bytes::{Malformed, Reader};
use super::checksum::Sum;
use super::mptcp::context::{MptcpReceiving, MptcpSending};
pub use super::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use super::sctp::context::{SctpReceiving, SctpSending};
use super::{Body, Packet, mptcp, rtcp, rtp, sctp, tcp, udp};
use crate::dscp::Dscp;
use crate::flow::{Ecn, PathId};

/// Numbers of IPv6's extension headers (RFC 8200 section 4, RFC 4302; mobility RFC 6275, HIP RFC 7401, Shim6
/// RFC 5533).
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// The time to live of sent packets: RFC 1700's recommendation.
const TIME_TO_LIVE: u8 = 64;

/// The fields of an IP header, whose checksum and lengths nothing has checked: what a capture has that was
/// cut to headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// The ECN field.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub time_to_live: u8,
    /// The number of the protocol that follows the headers.
    pub protocol: u8,
    /// Length of the headers in bytes.
    pub header_bytes: usize,
    /// Length of the packet in bytes, headers included; 0 if the length field is 0, as it is in a packet that
    /// is to be segmented later, and in a jumbogram.
    pub packet_bytes: usize,
    /// The identification field; IPv6 has it in a fragment header only.
    pub identification: Option<u32>,
    /// Whether no router may fragment it.
    pub dont_fragment: bool,
    /// Its place in the whole packet, if it is a fragment.
    pub fragment: Option<Place>,
}

/// Why there is no [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// The version is neither 4 nor 6.
    NotIp,
    /// The bytes end within it.
    Short,
    /// Its length field says less than it has.
    Contradiction,
}

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
    pub fn emit(&self, identification: Option<u16>, sending: &(impl SctpSending + MptcpSending)) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.size as usize);
        let protocol = match &self.body {
            Body::Foreign(_) => panic!("a packet of others has bytes already"),
            Body::Fragment(_) => panic!("a fragment is cut from its packet"),
            Body::Mptcp(segment) => {
                segment.emit(self.path, sending, &mut body);
                TCP
            }
            Body::Quic(datagram) => {
                datagram.emit(self.path, sending, &mut body);
                UDP
            }
            Body::Rtcp(datagram) => {
                datagram.emit(self.path, sending, &mut body);
                UDP
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
    pub fn parse(
        bytes: &[u8],
        path: PathId,
        receiving: &mut (impl SctpReceiving + MptcpReceiving),
    ) -> Result<Parsed, Malformed> {
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
            UDP if receiving.has_rtp()
                && rtp::is_rtcp(body.get(udp::HEADER_BYTES as usize..).unwrap_or(&[])) =>
            {
                Body::Rtcp(Box::new(rtcp::Datagram::parse(body, addresses)?))
            }
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
        let header = Header::read(bytes).map_err(|problem| match problem {
            NoHeader::NotIp => malformed("the version is neither 4 nor 6"),
            NoHeader::Short | NoHeader::Contradiction => NO_HEADER,
        })?;
        let is_v6 = header.addresses[0].is_ipv6();
        // The sum of the bytes, including the checksum itself.
        if !is_v6 && Sum::default().bytes(&bytes[..header.header_bytes]).checksum() != 0 {
            return Err(malformed("the header's checksum is wrong"));
        }
        // A packet of IPv6 without payload has the length 0.
        let packet_bytes = header.packet_bytes.max(if is_v6 { header.header_bytes } else { 0 });
        let packet =
            bytes.get(..packet_bytes).filter(|_| packet_bytes >= header.header_bytes).ok_or(SHORT)?;
        let mut header = header;
        if is_v6 && header.protocol == extension::FRAGMENT {
            header.take_extension(packet).map_err(|_| NO_HEADER)?;
        }
        let Header { addresses, ecn, protocol, header_bytes, fragment, .. } = header;
        Ok(Self { addresses, ecn, protocol, header_bytes, payload: &packet[header_bytes..], fragment })
    }
}

impl Header {
    /// Reads the header with which a packet begins, without IPv6's extension headers.
    ///
    /// # Errors
    /// When there is no whole header.
    pub fn read(bytes: &[u8]) -> Result<Self, NoHeader> {
        let problem = || {
            let contradicts = bytes[0] >> 4 == 4 && bytes.len() >= 20 && bytes[0] & 0xf < 5;
            if contradicts { NoHeader::Contradiction } else { NoHeader::Short }
        };
        match bytes.first().ok_or(NoHeader::Short)? >> 4 {
            4 => {
                let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|_| problem())?;
                let identification = header.identification().into();
                let place = Place {
                    identification,
                    start: usize::from(header.fragments_offset().value()) * 8,
                    has_more: header.more_fragments(),
                };
                Ok(Self {
                    addresses: [header.source_addr().into(), header.destination_addr().into()],
                    ecn: ecn_of(header.ecn()),
                    time_to_live: header.ttl(),
                    protocol: header.protocol().0,
                    header_bytes: header.slice().len(),
                    packet_bytes: header.total_len().into(),
                    identification: Some(identification),
                    dont_fragment: header.dont_fragment(),
                    fragment: header.is_fragmenting_payload().then_some(place),
                })
            }
            6 => {
                let header = Ipv6HeaderSlice::from_slice(bytes).map_err(|_| problem())?;
                let length = usize::from(header.payload_length());
                Ok(Self {
                    addresses: [header.source_addr().into(), header.destination_addr().into()],
                    ecn: ecn_of(IpEcn::try_new(header.traffic_class() & 3).expect("two bits")),
                    time_to_live: header.hop_limit(),
                    protocol: header.next_header().0,
                    header_bytes: 40,
                    packet_bytes: if length == 0 { 0 } else { 40 + length },
                    identification: None,
                    dont_fragment: true,
                    fragment: None,
                })
            }
            _ => Err(NoHeader::NotIp),
        }
    }

    /// Goes past the extension headers of IPv6 and the authentication header of either version (RFC 4302).
    /// The headers of a fragment other than the first end with its fragment header.
    ///
    /// # Errors
    /// When there are not all of them.
    pub fn take_extensions(&mut self, packet: &[u8]) -> Result<(), NoHeader> {
        let is_v6 = self.addresses[0].is_ipv6();
        loop {
            let is_extension = match self.protocol {
                extension::AUTHENTICATION => true,
                extension::HOP_BY_HOP
                | extension::ROUTING
                | extension::FRAGMENT
                | extension::DESTINATION
                | extension::MOBILITY
                | extension::HIP
                | extension::SHIM6 => is_v6,
                _ => false,
            };
            if !is_extension || self.fragment.is_some_and(|place| place.start > 0) {
                return Ok(());
            }
            self.take_extension(packet)?;
        }
    }

    /// Goes past the extension header that comes next. A fragment that is the whole packet is handled as that
    /// packet (RFC 6946).
    fn take_extension(&mut self, packet: &[u8]) -> Result<(), NoHeader> {
        let mut reader = Reader(packet.get(self.header_bytes..).unwrap_or_default());
        let (Some(next), Some(length)) = (reader.u8(), reader.u8().map(usize::from)) else {
            return Err(NoHeader::Short);
        };
        let length = match self.protocol {
            extension::FRAGMENT => {
                let mut rest = || Some((reader.u16()?, reader.u32()?));
                let (place, identification) = rest().ok_or(NoHeader::Short)?;
                let (start, has_more) = (usize::from(place & !7), place & 1 != 0);
                self.identification = Some(identification);
                self.dont_fragment = false;
                self.fragment = (start > 0 || has_more).then_some(Place { identification, start, has_more });
                8
            }
            extension::AUTHENTICATION => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
        self.protocol = next;
        self.header_bytes += length;
        Ok(())
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
    ecn_of(IpEcn::try_new(traffic_class(packet) & 3).expect("two bits"))
}

/// The ECN field as two bits (RFC 3168 section 5).
pub fn ecn_bits(ecn: Ecn) -> u8 {
    ecn_field(ecn).value()
}

/// The codepoint of a packet (RFC 2474 section 3).
pub fn dscp(packet: &[u8]) -> Dscp {
    Dscp::new(traffic_class(packet) >> 2)
}

/// Sets the codepoint of a packet.
pub fn set_dscp(packet: &mut [u8], dscp: Dscp) {
    set_traffic_class(packet, dscp.number() << 2 | traffic_class(packet) & 3);
}

/// Sets the ECN field of a packet.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    set_traffic_class(packet, traffic_class(packet) & 0xfc | ecn_bits(ecn));
}

/// The octet with both fields: IPv4's type of service, IPv6's traffic class.
fn traffic_class(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 6 { packet[0] << 4 | packet[1] >> 4 } else { packet[1] }
}

fn set_traffic_class(packet: &mut [u8], value: u8) {
    if packet[0] >> 4 == 6 {
        packet[0] = packet[0] & 0xf0 | value >> 4;
        packet[1] = packet[1] & 0x0f | value << 4;
        return;
    }
    packet[1] = value;
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
    ecn_of_bits(field.value())
}

/// The ECN field that the lowest two bits stand for.
pub(super) const fn ecn_of_bits(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}
