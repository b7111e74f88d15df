//! Messages about packets that went wrong: ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).
//!
//! They are not signed. A receiver that acts on one first checks that the packet in it is one of its own, by
//! its addresses, ports and tag or sequence number ([`Quoted`]; RFC 9260 section 10, RFC 5927 section 4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::bytes::{Append as _, Malformed, Reader};
use super::checksum::Sum;
use super::protocol::ICMPV6;

/// An ICMP or `ICMPv6` message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A message about a packet that caused it.
    About {
        /// What happened to the packet.
        problem: Problem,
        /// The beginning of the packet, from its IP header on, as far as the message has it.
        packet: Box<[u8]>,
    },
    /// A message of another type, such as Echo, as it came.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
        /// What follows the checksum.
        body: Box<[u8]>,
    },
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A field of the packet's header is wrong.
    Parameter {
        /// The code.
        code: u8,
        /// Where the field is in the packet, in bytes; with IPv4 at most 255.
        pointer: u32,
    },
    /// Its time to live ran out, or its fragments did not come in time.
    TimeExceeded {
        /// The code.
        code: u8,
    },
    /// The packet was longer than a link carries and must not be fragmented: Fragmentation Needed (RFC 1191),
    /// Packet Too Big (RFC 4443 section 3.2).
    TooBig {
        /// The largest packet of the link, in bytes; 0 if an old router does not tell (RFC 1191 section 5),
        /// and at most 65,535 with IPv4.
        mtu: u32,
    },
    /// The packet could not be delivered.
    Unreachable {
        /// Why it could not be delivered; with IPv4 all codes but 4, which is [`Problem::TooBig`].
        code: u8,
    },
}

/// The parts of a packet in a message that tell which connection it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// The number of its protocol.
    pub protocol: u8,
    /// Source and destination port of SCTP, TCP or UDP.
    pub ports: [u16; 2],
    /// What follows the ports: the verification tag of SCTP, the sequence number of TCP, or length and
    /// checksum of UDP.
    pub number: u32,
    /// What followed its IP header, ports included, as far as the message has it: at least 8 bytes.
    pub body: &'a [u8],
}

/// Types, and a code.
mod v4 {
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const FRAGMENTATION_NEEDED: u8 = 4;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    pub(super) const PARAMETER_PROBLEM: u8 = 12;
}

mod v6 {
    pub(super) const UNREACHABLE: u8 = 1;
    pub(super) const TOO_BIG: u8 = 2;
    pub(super) const TIME_EXCEEDED: u8 = 3;
    pub(super) const PARAMETER_PROBLEM: u8 = 4;
}

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "ICMP", problem }
}

impl Message {
    /// Appends the bytes of the message, checksum included, as they are sent between these addresses, whose
    /// version says which protocol it is: [`ICMP`](super::protocol::ICMP) or [`ICMPV6`].
    pub fn emit(&self, addresses: [IpAddr; 2], out: &mut Vec<u8>) {
        let start = out.len();
        let is_v6 = addresses[0].is_ipv6();
        let Self::About { problem, packet } = self else {
            let Self::Other { kind, code, body } = self else { unreachable!("there is no third form") };
            out.extend([*kind, *code, 0, 0]);
            out.extend(body);
            return put_checksum(addresses, &mut out[start..]);
        };
        let (kind, code, rest) = match (*problem, is_v6) {
            (Problem::Parameter { code, pointer }, false) => {
                (v4::PARAMETER_PROBLEM, code, pointer.min(255) << 24)
            }
            (Problem::Parameter { code, pointer }, true) => (v6::PARAMETER_PROBLEM, code, pointer),
            (Problem::TimeExceeded { code }, false) => (v4::TIME_EXCEEDED, code, 0),
            (Problem::TimeExceeded { code }, true) => (v6::TIME_EXCEEDED, code, 0),
            (Problem::TooBig { mtu }, false) => (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, mtu.min(65_535)),
            (Problem::TooBig { mtu }, true) => (v6::TOO_BIG, 0, mtu),
            (Problem::Unreachable { code }, false) => (v4::UNREACHABLE, code, 0),
            (Problem::Unreachable { code }, true) => (v6::UNREACHABLE, code, 0),
        };
        out.extend([kind, code, 0, 0]);
        out.u32(rest);
        out.extend(packet);
        put_checksum(addresses, &mut out[start..]);
    }

    /// Reads a message: everything behind an IP header with these addresses.
    ///
    /// # Errors
    /// When the bytes are not a message, or the checksum is wrong.
    pub fn parse(bytes: &[u8], addresses: [IpAddr; 2]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let mut header = || Some((reader.u8()?, reader.u8()?, reader.u16()?));
        let (kind, code, _) = header().ok_or(malformed("there is no header"))?;
        if checksum(addresses, bytes) != 0 {
            return Err(malformed("the checksum is wrong"));
        }
        let body = reader.0;
        let rest = reader.u32();
        let about = |rest: u32| match (kind, addresses[0].is_ipv6()) {
            (v4::PARAMETER_PROBLEM, false) => Some(Problem::Parameter { code, pointer: rest >> 24 }),
            (v6::PARAMETER_PROBLEM, true) => Some(Problem::Parameter { code, pointer: rest }),
            (v4::TIME_EXCEEDED, false) | (v6::TIME_EXCEEDED, true) => Some(Problem::TimeExceeded { code }),
            (v4::UNREACHABLE, false) if code == v4::FRAGMENTATION_NEEDED => {
                Some(Problem::TooBig { mtu: rest & 0xffff })
            }
            (v6::TOO_BIG, true) => Some(Problem::TooBig { mtu: rest }),
            (v4::UNREACHABLE, false) | (v6::UNREACHABLE, true) => Some(Problem::Unreachable { code }),
            _ => None,
        };
        Ok(match rest.and_then(about) {
            Some(problem) => Self::About { problem, packet: reader.0.into() },
            None => Self::Other { kind, code, body: body.into() },
        })
    }

    /// The parts that tell which connection the packet belongs to; `None` if too little of it is there.
    pub fn quoted(&self) -> Option<Quoted<'_>> {
        let Self::About { packet, .. } = self else { return None };
        let mut reader = Reader(packet);
        let (addresses, protocol): ([IpAddr; 2], u8) = match packet.first()? >> 4 {
            4 => {
                let header = reader.take(20)?;
                let options = (usize::from(header[0] & 0xf) * 4).checked_sub(20)?;
                reader.take(options)?;
                let address =
                    |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
                ([address(12).into(), address(16).into()], header[9])
            }
            6 => {
                let header = reader.take(40)?;
                let address = |at: usize| {
                    let octets: [u8; 16] = header[at..at + 16].try_into().expect("sixteen");
                    Ipv6Addr::from(octets)
                };
                ([address(8).into(), address(24).into()], header[6])
            }
            _ => return None,
        };
        let body = reader.0;
        let (ports, number) = ([reader.u16()?, reader.u16()?], reader.u32()?);
        Some(Quoted { addresses, protocol, ports, number, body })
    }
}

fn put_checksum(addresses: [IpAddr; 2], message: &mut [u8]) {
    let checksum = checksum(addresses, message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// The checksum: over the message (RFC 792), with IPv6 over a pseudo-header as well (RFC 4443 section 2.3).
fn checksum(addresses: [IpAddr; 2], message: &[u8]) -> u16 {
    let sum = if addresses[0].is_ipv6() {
        Sum::pseudo_header(addresses, ICMPV6, message.len())
    } else {
        Sum::default()
    };
    sum.bytes(message).checksum()
}
