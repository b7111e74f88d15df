//! ASCONF (RFC 5061 section 4.1.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 193  |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Sequence Number                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Address Parameter                       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      ASCONF Parameter #1                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      ASCONF Parameter #N                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! An ASCONF parameter (sections 4.2.1, 4.2.2 and 4.2.4):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Type = 0xC001, 0xC002 or 0xC004|       Length = Variable       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 ASCONF-Request Correlation ID                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Address Parameter                       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{address_bytes, emit_address, parse_address};
use super::codes::{self, cause, chunk, parameter};
use super::tlv::{next_value, padded};
use super::writer::Writer;
use crate::flow::{IpVersion, PathId};
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// An ASCONF chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asconf {
    /// Counts the sender's ASCONF chunks, from its initial TSN on.
    pub serial: u32,
    /// The version of the addresses. One address of the sender comes before the requests.
    pub ip: IpVersion,
    /// The requests, in order.
    pub requests: Vec<AddressRequest>,
    /// Further requests, which cannot be carried out.
    pub refused: Vec<RefusedRequest>,
}

/// A request without an address or of an unknown type, or another one that cannot be carried out here;
/// it occurs only in chunks that came as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// Identifies the request in the answer.
    pub correlation: u32,
    /// Why the request is refused: the code of an error cause.
    pub cause: u16,
    /// The request, with its header and without padding.
    pub request: Box<[u8]>,
}

/// One request of an ASCONF chunk (RFC 5061 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// Identifies the request in the answer.
    pub correlation: u32,
    /// The requested change.
    pub change: AddressChange,
    /// The path to the address of the sender that the request is about.
    pub path: PathId,
}

/// A change of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// Add IP Address (RFC 5061 section 4.2.1).
    Add,
    /// Delete IP Address (section 4.2.2).
    Delete,
    /// Delete all addresses but that of this path, from which the request is sent: it names the wildcard
    /// address (section 5.1 D8).
    DeleteOthers,
    /// Set Primary IP Address (section 4.2.4): asks the peer to send to the address from now on.
    SetPrimary,
}

impl Asconf {
    pub(super) fn wire_size(&self) -> u32 {
        let address = address_bytes(self.ip);
        let refused: u32 = self.refused.iter().map(|it| padded(it.request.len() as u32)).sum();
        8 + address + self.requests.len() as u32 * (8 + address) + refused
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::ASCONF, 0, |writer| {
            writer.out.u32(self.serial);
            let [source, _] = writer.sending.addresses(writer.path);
            emit_address(source, writer);
            for &AddressRequest { correlation, change, path } in &self.requests {
                let [address, _] = writer.sending.addresses(path);
                emit_request(change, correlation, address, writer);
            }
            for RefusedRequest { request, .. } in &self.refused {
                writer.parameters(request);
            }
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>, receiving: &mut impl SctpReceiving) -> Option<Self> {
        let serial = reader.u32()?;
        let (kind, value) = next_value(&mut reader)?;
        let ip = match parse_address(kind, value)? {
            IpAddr::V4(_) => IpVersion::Ipv4,
            IpAddr::V6(_) => IpVersion::Ipv6,
        };
        let (mut requests, mut refused) = (Vec::new(), Vec::new());
        loop {
            let whole = reader.0;
            let Some((kind, mut value)) = next_value(&mut reader) else { break };
            let request: Box<[u8]> = whole[..4 + value.0.len()].into();
            let correlation = value.u32()?;
            let change = match kind {
                parameter::ADD_ADDRESS => AddressChange::Add,
                parameter::DELETE_ADDRESS => AddressChange::Delete,
                parameter::SET_PRIMARY => AddressChange::SetPrimary,
                _ => {
                    if codes::does(kind, codes::REPORT) {
                        refused.push(RefusedRequest {
                            correlation,
                            cause: cause::UNRECOGNIZED_PARAMETERS,
                            request,
                        });
                    }
                    if !codes::does(kind, codes::READ_ON) {
                        break;
                    }
                    continue;
                }
            };
            let address = next_value(&mut value).and_then(|(kind, value)| parse_address(kind, value));
            match address.map(|address| place(change, address, receiving)) {
                Some(Ok((change, path))) => requests.push(AddressRequest { correlation, change, path }),
                Some(Err(cause)) => refused.push(RefusedRequest { correlation, cause, request }),
                None => {
                    refused.push(RefusedRequest { correlation, cause: cause::UNRESOLVABLE_ADDRESS, request });
                }
            }
        }
        Some(Self { serial, ip, requests, refused })
    }
}

/// A request to change an address.
pub(super) fn emit_request(
    change: AddressChange,
    correlation: u32,
    address: IpAddr,
    writer: &mut Writer<'_, impl SctpSending>,
) {
    let address = match (change, address) {
        (AddressChange::DeleteOthers, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (AddressChange::DeleteOthers, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        (_, address) => address,
    };
    let kind = match change {
        AddressChange::Add => parameter::ADD_ADDRESS,
        AddressChange::Delete | AddressChange::DeleteOthers => parameter::DELETE_ADDRESS,
        AddressChange::SetPrimary => parameter::SET_PRIMARY,
    };
    writer.parameter(kind, |writer| {
        writer.out.u32(correlation);
        emit_address(address, writer);
    });
}

/// The change that a request asks for and the path that it is about, or why it cannot be done (RFC 5061
/// sections 4.3 and 5.2).
fn place(
    change: AddressChange,
    address: IpAddr,
    receiving: &mut impl SctpReceiving,
) -> Result<(AddressChange, PathId), u16> {
    if address.is_unspecified() {
        let change = if change == AddressChange::Delete { AddressChange::DeleteOthers } else { change };
        let path = receiving.path_of_packet().ok_or(cause::UNRESOLVABLE_ADDRESS)?;
        return Ok((change, path));
    }
    match change {
        AddressChange::Add => receiving.path_to_new(address).ok_or(cause::RESOURCE_SHORTAGE),
        _ => receiving.path_to(address).ok_or(cause::UNRESOLVABLE_ADDRESS),
    }
    .map(|path| (change, path))
}
