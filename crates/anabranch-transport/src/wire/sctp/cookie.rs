//! The State Cookie (RFC 9260 section 5.1.3), which INIT ACK brings as a parameter of type 7 and COOKIE ECHO
//! returns (section 3.3.11).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 10   |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                             Cookie                            /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A cookie of ours; what is in brackets may be missing:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |             Creation time: nanoseconds (8 octets)             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Life: nanoseconds (8 octets)                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            Own tag                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Own initial TSN                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           Peer's tag                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         Peer's a_rwnd                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Peer's outbound streams    |  Peer's most inbound streams  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Peer's initial TSN                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Addresses   |   Abilities   |    Octets of the key vector   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     [Tie-Tags (8 octets)]                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                       [Peer's addresses]                      /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                  [Peer's key vector, padded]                  /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      [Further abilities]                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /            Code of the end that made it (20 octets)           /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::IpAddr;

use super::address::parse_address;
use super::authentication::{COOKIE_CODE_BYTES, Hmac, cookie_code, is_own_cookie};
use super::codes::parameter;
use super::init::Init;
use super::tlv::padded;
use super::writer::Writer;
use crate::flow::IpVersion;
use crate::time::{Duration, Time};
use crate::wire::bytes::{Append as _, Reader, Secret};
use crate::wire::sctp::context::SctpSending;

/// Which of the peer's abilities a State Cookie keeps, one bit for each.
const COOKIE_FORWARD_TSN: u8 = 1;
const COOKIE_ASCONF: u8 = 2;
const COOKIE_INTERLEAVING: u8 = 4;
const COOKIE_IPV6: u8 = 8;
/// Whether the peer's addresses are in the cookie.
const COOKIE_ADDRESSES: u8 = 16;
const COOKIE_RECONFIG: u8 = 32;
/// Whether the peer takes HMAC-SHA-256.
const COOKIE_SHA_256: u8 = 64;
/// Whether a Tie-Tag is in the cookie.
const COOKIE_TIE_TAG: u8 = 128;
/// Whether NR-SACK was agreed on: a bit of further ones, which are only there if one of them is set.
const COOKIE_FURTHER_NR_SACK: u32 = 1;

/// A State Cookie as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// A cookie of another implementation, which only that one can read.
    Foreign(Box<[u8]>),
    /// One of this end's own cookies. If it came as bytes, its code was right.
    Own(StateCookie),
}

impl Cookie {
    pub(super) const fn wire_size(&self) -> u32 {
        match self {
            Self::Foreign(bytes) => padded(bytes.len() as u32),
            Self::Own(cookie) => cookie.wire_size(),
        }
    }

    /// Writes the cookie itself.
    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        match self {
            Self::Own(cookie) => {
                let (secret, addresses) = (writer.sending.secret(), writer.sending.peer_addresses());
                let key_vector = writer.sending.peer_key_vector();
                writer.out.extend(cookie.signed(secret, writer.ports, &addresses, key_vector));
            }
            Self::Foreign(bytes) => writer.out.extend(bytes),
        }
    }
}

/// What a packet lists about its sender.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) key_vector: Vec<u8>,
}

/// The State Cookie: all that the passive end must know to open the association
/// (RFC 9260 section 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCookie {
    /// When it was made.
    pub created_at: Time,
    /// The cookie's lifetime.
    pub life: Duration,
    /// The tag of the end that made it.
    pub local_tag: u32,
    /// The first TSN of the end that made it.
    pub local_initial_tsn: u32,
    /// The contents of the peer's INIT.
    pub peer: Init,
    /// If the cookie answers an INIT for an association that exists, the number by which that association
    /// recognises it (RFC 9260 section 5.2.2; the two Tie-Tags as one).
    pub tie_tag: Option<u64>,
    /// The length of the peer's key vector, which is in the cookie, in bytes: only a peer whose INIT has come
    /// as bytes has one (RFC 4895 section 6.1).
    pub key_bytes: u16,
    /// Whether the addresses that it listed are in the cookie: only an INIT that has come as bytes has any to
    /// be kept.
    pub keeps_addresses: bool,
}

impl StateCookie {
    /// Its size in bytes: creation time and life (8 each), tag and TSN (4 each), the peer's INIT
    /// fields (20) and a 20-byte authentication code (RFC 9260 section 5.1.3).
    pub const BYTES: u32 = 8 + 8 + 4 + 4 + 20 + 20;

    /// How much longer a cookie is if NR-SACK was agreed on, for which there is no bit in the others.
    const FURTHER_BYTES: u32 = 4;

    const fn wire_size(&self) -> u32 {
        let tie_tag = if self.tie_tag.is_some() { 8 } else { 0 };
        let further = if self.peer.nr_sack_supported { Self::FURTHER_BYTES } else { 0 };
        let addresses = self.kept_addresses() * self.address_bytes();
        Self::BYTES + tie_tag + addresses + padded(self.key_bytes as u32) + further
    }

    /// How many addresses are in the cookie: those that the INIT listed, and the one that it came from.
    const fn kept_addresses(&self) -> u32 {
        if self.keeps_addresses { self.peer.addresses as u32 } else { 0 }
    }

    /// The size of each address in bytes.
    const fn address_bytes(&self) -> u32 {
        match self.peer.ip {
            IpVersion::Ipv4 => 4,
            IpVersion::Ipv6 => 16,
        }
    }

    /// The bytes of the cookie, with the code of the end that made it, in a packet between these ports. The
    /// life that the peer wished for is part of the cookie's own life.
    fn signed(&self, secret: &Secret, ports: [u16; 2], addresses: &[IpAddr], key_vector: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES as usize);
        bytes.u64(self.created_at.as_nanos());
        bytes.u64(self.life.as_nanos());
        bytes.u32(self.local_tag);
        bytes.u32(self.local_initial_tsn);
        let peer = &self.peer;
        bytes.u32(peer.initiate_tag);
        bytes.u32(peer.a_rwnd);
        bytes.u16(peer.outbound_streams);
        bytes.u16(peer.max_inbound_streams);
        bytes.u32(peer.initial_tsn);
        bytes.u8(peer.addresses);
        let abilities = [
            (peer.forward_tsn_supported, COOKIE_FORWARD_TSN),
            (peer.asconf_supported, COOKIE_ASCONF),
            (peer.interleaving_supported, COOKIE_INTERLEAVING),
            (peer.ip == IpVersion::Ipv6, COOKIE_IPV6),
            (self.keeps_addresses, COOKIE_ADDRESSES),
            (peer.reconfig_supported, COOKIE_RECONFIG),
            (peer.hmac == Hmac::Sha256, COOKIE_SHA_256),
            (self.tie_tag.is_some(), COOKIE_TIE_TAG),
        ];
        bytes.u8(abilities.into_iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit));
        bytes.u16(self.key_bytes);
        if let Some(tie_tag) = self.tie_tag {
            bytes.u64(tie_tag);
        }
        for address in addresses.iter().take(self.kept_addresses() as usize) {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        let mut kept = key_vector.to_vec();
        kept.resize(usize::from(self.key_bytes).next_multiple_of(4), 0);
        bytes.extend(kept);
        if peer.nr_sack_supported {
            bytes.u32(COOKIE_FURTHER_NR_SACK);
        }
        let code = cookie_code(secret, ports, &bytes);
        bytes.extend(code);
        bytes
    }

    /// A cookie whose code this end has made, for these ports, and the addresses in it; [`None`] for all
    /// others.
    pub(super) fn verified(
        bytes: &[u8],
        secret: &Secret,
        ports: [u16; 2],
        listed: &mut Listed,
    ) -> Option<Self> {
        if bytes.len() < Self::BYTES as usize {
            return None;
        }
        let (signed, code) = bytes.split_at(bytes.len() - COOKIE_CODE_BYTES);
        if !is_own_cookie(secret, ports, signed, code) {
            return None;
        }
        let mut reader = Reader(signed);
        let created_at = Time::from_nanos(reader.u64()?);
        let life = Duration::from_nanos(reader.u64()?);
        let (local_tag, local_initial_tsn) = (reader.u32()?, reader.u32()?);
        let (initiate_tag, a_rwnd) = (reader.u32()?, reader.u32()?);
        let (outbound_streams, max_inbound_streams) = (reader.u16()?, reader.u16()?);
        let (initial_tsn, count, abilities) = (reader.u32()?, reader.u8()?, reader.u8()?);
        let key_bytes = reader.u16()?;
        let can = |bit: u8| abilities & bit != 0;
        let peer = Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            max_inbound_streams,
            initial_tsn,
            addresses: count,
            ip: if can(COOKIE_IPV6) { IpVersion::Ipv6 } else { IpVersion::Ipv4 },
            forward_tsn_supported: can(COOKIE_FORWARD_TSN),
            asconf_supported: can(COOKIE_ASCONF),
            hmac: if can(COOKIE_SHA_256) { Hmac::Sha256 } else { Hmac::Sha1 },
            interleaving_supported: can(COOKIE_INTERLEAVING),
            reconfig_supported: can(COOKIE_RECONFIG),
            nr_sack_supported: false,
            names_forward_tsn: false,
            names_address_types: false,
            cookie_preservative: None,
        };
        let keeps_addresses = can(COOKIE_ADDRESSES);
        let tie_tag = if can(COOKIE_TIE_TAG) { Some(reader.u64()?) } else { None };
        let mut cookie = Self {
            created_at,
            life,
            local_tag,
            local_initial_tsn,
            peer,
            tie_tag,
            key_bytes,
            keeps_addresses,
        };
        let kind = match cookie.peer.ip {
            IpVersion::Ipv4 => parameter::IPV4_ADDRESS,
            IpVersion::Ipv6 => parameter::IPV6_ADDRESS,
        };
        for _ in 0..cookie.kept_addresses() {
            let octets = Reader(reader.take(cookie.address_bytes() as usize)?);
            listed.addresses.push(parse_address(kind, octets)?);
        }
        let key_vector = reader.take(usize::from(key_bytes).next_multiple_of(4))?;
        listed.key_vector = key_vector[..key_bytes.into()].into();
        if !reader.is_empty() {
            cookie.peer.nr_sack_supported = reader.u32()? & COOKIE_FURTHER_NR_SACK != 0;
        }
        (bytes.len() == cookie.wire_size() as usize).then_some(cookie)
    }
}
