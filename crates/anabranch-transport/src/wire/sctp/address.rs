//! The parameters that hold an address (RFC 9260 section 3.3.2.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Type = 5           |           Length = 8          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          IPv4 Address                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Type = 6           |          Length = 20          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                    IPv6 Address (16 octets)                   /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::codes::parameter;
use super::writer::Writer;
use crate::flow::IpVersion;
use crate::wire::bytes::Reader;
use crate::wire::sctp::context::SctpSending;

/// The length of such a parameter.
pub(super) const fn address_bytes(ip: IpVersion) -> u32 {
    match ip {
        IpVersion::Ipv4 => 8,
        IpVersion::Ipv6 => 20,
    }
}

pub(super) fn emit_address(address: IpAddr, writer: &mut Writer<'_, impl SctpSending>) {
    match address {
        IpAddr::V4(address) => {
            writer.parameter(parameter::IPV4_ADDRESS, |writer| writer.out.extend(address.octets()));
        }
        IpAddr::V6(address) => {
            writer.parameter(parameter::IPV6_ADDRESS, |writer| writer.out.extend(address.octets()));
        }
    }
}

/// RFC 9260 section 3.3.2.1: the length of such a parameter is fixed, 8 or 20 octets with its header. A
/// longer one is not an address with something behind it, but is refused altogether.
pub(super) fn parse_address(kind: u16, value: Reader<'_>) -> Option<IpAddr> {
    match kind {
        parameter::IPV4_ADDRESS => {
            value.0.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into())
        }
        parameter::IPV6_ADDRESS => {
            value.0.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}
