//! ASCONF-ACK (RFC 5061 section 4.1.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 128  |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Sequence Number                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  ASCONF Parameter Response #1                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              ...                              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  ASCONF Parameter Response #N                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A response (sections 4.2.3 and 4.2.5); Success Indication has no causes:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 0xC003 or 0xC005    |       Length = Variable       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 ASCONF-Response Correlation ID                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                          Error Causes                         /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::address::address_bytes;
use super::asconf::{AddressChange, RefusedRequest, emit_request};
use super::codes::{cause, chunk, parameter};
use super::tlv::{next_value, padded};
use super::writer::Writer;
use crate::flow::IpVersion;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// An ASCONF-ACK chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsconfAck {
    /// The serial number of the ASCONF chunk.
    pub serial: u32,
    /// The version of the addresses, since an error repeats the request.
    pub ip: IpVersion,
    /// The answers; empty if all requests were carried out.
    pub responses: Vec<AddressResponse>,
    /// The answers to further requests, and other errors.
    pub refused: Vec<RefusedRequest>,
}

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressResponse {
    /// The correlation ID of the request.
    pub correlation: u32,
    /// Why the request failed: Error Cause Indication (RFC 5061 section 4.2.3); [`None`] is Success
    /// Indication (section 4.2.5).
    pub error: Option<AddressError>,
}

/// Why a request was refused (RFC 5061 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// Request to Delete Last Remaining IP Address.
    LastAddress,
    /// Request to Delete Source IP Address.
    SourceAddress,
}

impl AsconfAck {
    pub(super) fn wire_size(&self) -> u32 {
        // An error is a cause of 4 bytes that contains the request.
        let error = 4 + 8 + address_bytes(self.ip);
        let size = |response: &AddressResponse| 8 + if response.error.is_some() { error } else { 0 };
        let refused: u32 = self.refused.iter().map(|it| 8 + 4 + padded(it.request.len() as u32)).sum();
        8 + self.responses.iter().map(size).sum::<u32>() + refused
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::ASCONF_ACK, 0, |writer| {
            writer.out.u32(self.serial);
            self.responses.iter().for_each(|response| response.emit(writer));
            for RefusedRequest { correlation, cause, request } in &self.refused {
                writer.parameter(parameter::ERROR_CAUSE_INDICATION, |writer| {
                    writer.out.u32(*correlation);
                    writer.parameter(*cause, |writer| writer.out.extend(request));
                });
            }
        });
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let serial = reader.u32()?;
        let (mut ip, mut responses, mut refused) = (IpVersion::Ipv4, Vec::new(), Vec::new());
        while let Some((kind, mut value)) = next_value(&mut reader) {
            let correlation = value.u32()?;
            let error = match kind {
                parameter::SUCCESS_INDICATION => None,
                parameter::ERROR_CAUSE_INDICATION => {
                    let (code, request) = next_value(&mut value)?;
                    let error = match code {
                        cause::LAST_ADDRESS => AddressError::LastAddress,
                        cause::SOURCE_ADDRESS => AddressError::SourceAddress,
                        cause => {
                            refused.push(RefusedRequest { correlation, cause, request: request.0.into() });
                            continue;
                        }
                    };
                    if request.0.len() > 20 {
                        ip = IpVersion::Ipv6;
                    }
                    Some(error)
                }
                _ => continue,
            };
            responses.push(AddressResponse { correlation, error });
        }
        Some(Self { serial, ip, responses, refused })
    }
}

impl AddressResponse {
    fn emit(self, writer: &mut Writer<'_, impl SctpSending>) {
        let Self { correlation, error } = self;
        let code = match error {
            None => {
                return writer.parameter(parameter::SUCCESS_INDICATION, |writer| writer.out.u32(correlation));
            }
            Some(AddressError::LastAddress) => cause::LAST_ADDRESS,
            Some(AddressError::SourceAddress) => cause::SOURCE_ADDRESS,
        };
        // Both are about a request to delete the address that it came from.
        let [_, requester] = writer.sending.addresses(writer.path);
        writer.parameter(parameter::ERROR_CAUSE_INDICATION, |writer| {
            writer.out.u32(correlation);
            writer.parameter(code, |writer| {
                emit_request(AddressChange::Delete, correlation, requester, writer);
            });
        });
    }
}
