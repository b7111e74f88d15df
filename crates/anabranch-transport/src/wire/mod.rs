//! Packets: structs with lengths and every field that is on the wire, as endpoints hand them over; and their
//! bytes.
//!
//! A packet has no payload of its own, only its place in an application's stream. [`Packet::emit`] makes
//! bytes of it and [`Packet::parse`] a packet of bytes, each with what only an end of the connection knows
//! ([`bytes`]). A transport's packets know nothing of its endpoints.

pub mod bytes;
mod checksum;
pub mod fragments;
pub mod icmp;
pub mod ip;
pub mod mptcp;
mod protocol;
pub mod quic;
pub mod rtcp;
pub mod rtp;
pub mod sctp;
pub mod tcp;
pub mod udp;

use crate::dscp::Dscp;
use crate::flow::{Ecn, PathId};

/// An IP packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The path it travels on, which stands for source and destination address.
    pub path: PathId,
    /// The ECN field.
    pub ecn: Ecn,
    /// Length of the whole IP packet in bytes, header included.
    pub size: u32,
    /// The content of the packet.
    pub body: Body,
}

/// The transport protocol's part of a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A packet of a real program, whose bytes are kept elsewhere.
    Foreign(Foreign),
    /// A fragment of an IPv4 packet.
    Fragment(Fragment),
    /// A TCP segment with an MPTCP option.
    Mptcp(mptcp::Segment),
    /// A UDP datagram of QUIC packets.
    Quic(Box<quic::Datagram>),
    /// A UDP datagram of RTCP packets.
    Rtcp(Box<rtcp::Datagram>),
    /// An SCTP packet: common header and chunks.
    Sctp(sctp::SctpPacket),
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// A UDP datagram.
    Udp(udp::Datagram),
}

impl Body {
    /// What the packet is, in one word, and the number of its first data (TSN, sequence number, first byte of
    /// what is sent over UDP) if it has any; for traces.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        match self {
            Self::Foreign(_) => ("foreign", None),
            Self::Fragment(_) => ("fragment", None),
            Self::Mptcp(segment) => segment.describe(),
            Self::Quic(datagram) => datagram.describe(),
            Self::Rtcp(datagram) => (datagram.packets.first().map_or("rtcp", rtcp::Packet::name), None),
            Self::Sctp(packet) => packet.describe(),
            Self::Tcp(segment) => segment.describe(),
            Self::Udp(datagram) => (datagram.name(), u32::try_from(datagram.offset).ok()),
        }
    }

    /// The record of a real program's packet, if it is one.
    pub const fn foreign(&self) -> Option<Foreign> {
        if let Self::Foreign(foreign) = *self { Some(foreign) } else { None }
    }

    /// The TCP segment, with or without an MPTCP option, if it is one.
    pub const fn tcp(&self) -> Option<&tcp::Segment> {
        match self {
            Self::Mptcp(segment) => Some(&segment.tcp),
            Self::Tcp(segment) => Some(segment),
            Self::Foreign(_)
            | Self::Fragment(_)
            | Self::Quic(_)
            | Self::Rtcp(_)
            | Self::Sctp(_)
            | Self::Udp(_) => None,
        }
    }
}

/// What is known about a packet that a real program sends over the links of a scenario, in an emulation.
/// Elsewhere it is called a packet of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The number by which whoever keeps its bytes knows the packet.
    pub handle: u32,
    /// A hash of its addresses, protocol and ports, by which queue disciplines tell flows apart.
    pub flow: u32,
    /// The treatment that it asks for.
    pub dscp: Dscp,
}

/// The bytes of a packet in flight that a fragment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The number of the packet among those that are fragmented, which the identification field has on the
    /// wire.
    pub datagram: u32,
    /// The number of the fragment, which the fragment offset has on the wire.
    pub piece: u32,
}
