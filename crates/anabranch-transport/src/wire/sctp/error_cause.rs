//! Error causes, which ERROR and ABORT carry (RFC 9260 section 3.3.10).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Cause Code          |          Cause Length         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                   Cause-Specific Information                  /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::IpAddr;

use super::codes::{self, cause};
use super::tlv::{next_value, padded};
use super::writer::Writer;
use crate::time::Duration;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// Error causes (RFC 9260 section 3.3.10).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCause {
    /// Association Aborted due to illegal ASCONF-ACK (RFC 5061 section 4.3.4).
    IllegalAsconfAck,
    /// The State Cookie came too late, by this much.
    StaleCookie {
        /// How much too late.
        staleness: Duration,
    },
    /// Another error cause, as it came.
    Other(Box<OtherCause>),
    /// The user asked for the end of the association.
    UserInitiatedAbort,
}

/// An error cause that associations here receive but do not send by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCause {
    /// Its code.
    pub code: u16,
    /// What follows code and length, without padding.
    pub value: Box<[u8]>,
}

impl OtherCause {
    /// Cookie Received While Shutting Down (RFC 9260 section 3.3.10.10).
    pub fn cookie_while_shutting_down() -> Self {
        Self { code: cause::COOKIE_WHILE_SHUTTING_DOWN, value: Box::default() }
    }

    /// Restart of an Association with New Addresses, which are these (section 3.3.10.11).
    pub fn restart_with_new_addresses(addresses: &[IpAddr]) -> Self {
        let mut value = Vec::new();
        for address in addresses {
            match address {
                IpAddr::V4(address) => {
                    value.u16(codes::parameter::IPV4_ADDRESS);
                    value.u16(8);
                    value.extend(address.octets());
                }
                IpAddr::V6(address) => {
                    value.u16(codes::parameter::IPV6_ADDRESS);
                    value.u16(20);
                    value.extend(address.octets());
                }
            }
        }
        Self { code: cause::RESTART_WITH_NEW_ADDRESSES, value: value.into() }
    }
}

impl ErrorCause {
    /// Invalid Stream Identifier (RFC 9260 section 3.3.10.1).
    pub fn invalid_stream(stream: u16) -> Self {
        let mut value = Vec::with_capacity(4);
        value.u16(stream);
        value.u16(0);
        Self::other(cause::INVALID_STREAM, value)
    }

    /// Unrecognized Parameters (section 3.3.10.8), which holds these parameters as they came.
    pub fn unrecognized(parameters: &[u8]) -> Self {
        Self::other(cause::UNRECOGNIZED_PARAMETERS, parameters.to_vec())
    }

    /// Protocol Violation (section 3.3.10.13), described in these words.
    pub fn violation(words: &str) -> Self {
        Self::other(cause::PROTOCOL_VIOLATION, words.as_bytes().to_vec())
    }

    pub(super) fn other(code: u16, value: Vec<u8>) -> Self {
        Self::Other(Box::new(OtherCause { code, value: value.into() }))
    }

    pub(super) fn wire_size(&self) -> u32 {
        match self {
            Self::Other(other) => 4 + padded(other.value.len() as u32),
            Self::StaleCookie { .. } => 8,
            Self::IllegalAsconfAck | Self::UserInitiatedAbort => 4,
        }
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        match self {
            Self::IllegalAsconfAck => writer.parameter(cause::ILLEGAL_ASCONF_ACK, |_| {}),
            Self::Other(other) => {
                writer.parameter(other.code, |writer| writer.out.extend(&other.value));
            }
            Self::StaleCookie { staleness } => {
                let microseconds = (staleness.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
                writer.parameter(cause::STALE_COOKIE, |writer| writer.out.u32(microseconds));
            }
            Self::UserInitiatedAbort => writer.parameter(cause::USER_INITIATED_ABORT, |_| {}),
        }
    }

    /// The first cause, if there is one.
    pub(super) fn parse_first(reader: &mut Reader<'_>) -> Option<Self> {
        let (code, mut value) = next_value(reader)?;
        Some(match code {
            cause::ILLEGAL_ASCONF_ACK if value.is_empty() => Self::IllegalAsconfAck,
            cause::STALE_COOKIE => {
                let microseconds = u64::from(value.u32()?);
                Self::StaleCookie { staleness: Duration::from_nanos(microseconds * 1_000) }
            }
            cause::USER_INITIATED_ABORT if value.is_empty() => Self::UserInitiatedAbort,
            code => Self::other(code, value.0.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let stale = ErrorCause::StaleCookie { staleness: Duration::from_nanos(2_000) };
        assert_is(&[9, 0, 0, 12, 0, 3, 0, 8, 0, 0, 0, 2], &Chunk::Error(stale));
        assert_is(&[9, 0, 0, 12, 0, 1, 0, 8, 0, 5, 0, 0], &Chunk::Error(ErrorCause::invalid_stream(5)));
    }
}
