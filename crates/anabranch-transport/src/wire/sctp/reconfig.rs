//! The RE-CONFIG chunk (RFC 6525): resets of streams, and requests for more streams.

use super::codes::parameter;
use super::tlv::next_value;
use crate::wire::bytes::{Append as _, Reader};

/// Results of a request (RFC 6525 section 4.4).
pub mod outcome {
    /// Success - Nothing to do.
    pub const NOTHING_TO_DO: u32 = 0;
    /// Success - Performed.
    pub const PERFORMED: u32 = 1;
    /// Denied.
    pub const DENIED: u32 = 2;
    /// Error - Wrong SSN.
    pub const WRONG_SSN: u32 = 3;
    /// Error - Request already in progress.
    pub const ALREADY_IN_PROGRESS: u32 = 4;
    /// Error - Bad Sequence Number.
    pub const BAD_SEQUENCE_NUMBER: u32 = 5;
    /// In progress.
    pub const IN_PROGRESS: u32 = 6;
}

/// A RE-CONFIG chunk: one parameter, or two that may be together (RFC 6525 section 3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconfig {
    /// The first parameter.
    pub first: Reconfiguration,
    /// The other one, if there is one.
    pub second: Option<Reconfiguration>,
}

/// A parameter of RE-CONFIG (RFC 6525 section 4). Request numbers count from the initial TSN on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfiguration {
    /// Add Incoming Streams Request (section 4.6).
    AddIncoming {
        /// Re-configuration Request Sequence Number.
        request: u32,
        /// How many streams.
        streams: u16,
    },
    /// Add Outgoing Streams Request (section 4.5).
    AddOutgoing {
        /// Re-configuration Request Sequence Number.
        request: u32,
        /// How many streams.
        streams: u16,
    },
    /// Incoming SSN Reset Request (section 4.2).
    ResetIncoming {
        /// Re-configuration Request Sequence Number.
        request: u32,
        /// The streams; an empty list means all.
        streams: Box<[u16]>,
    },
    /// Outgoing SSN Reset Request (section 4.1).
    ResetOutgoing {
        /// Re-configuration Request Sequence Number.
        request: u32,
        /// The request of the peer that this answers, or the number before the one that is expected next.
        response: u32,
        /// The last TSN that the sender has assigned.
        last_tsn: u32,
        /// The streams; an empty list means all.
        streams: Box<[u16]>,
    },
    /// SSN/TSN Reset Request (section 4.3).
    ResetTsn {
        /// Re-configuration Request Sequence Number.
        request: u32,
    },
    /// Re-configuration Response (section 4.4).
    Response {
        /// The number of the request that this answers.
        response: u32,
        /// The [`outcome`] of the request.
        result: u32,
        /// If TSNs were reset, the sender's next one and the one that it expects next.
        tsns: Option<[u32; 2]>,
    },
}

impl Reconfig {
    /// Length on the wire in bytes, padding included.
    pub(super) fn wire_size(&self) -> u32 {
        let second = self.second.as_ref().map_or(0, |second| second.bytes().next_multiple_of(4));
        4 + self.first.bytes().next_multiple_of(4) + second
    }

    /// Appends the parameters.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.first.emit(out);
        if let Some(second) = &self.second {
            out.pad(start);
            second.emit(out);
        }
    }

    /// Reads what follows the chunk's header; [`None`] if it is not one or two whole parameters that are
    /// known.
    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let first = Reconfiguration::parse(&mut reader)?;
        let second = if reader.is_empty() { None } else { Some(Reconfiguration::parse(&mut reader)?) };
        reader.is_empty().then_some(Self { first, second })
    }
}

impl Reconfiguration {
    fn bytes(&self) -> u32 {
        match self {
            Self::AddIncoming { .. } | Self::AddOutgoing { .. } => 12,
            Self::ResetIncoming { streams, .. } => 8 + 2 * streams.len() as u32,
            Self::ResetOutgoing { streams, .. } => 16 + 2 * streams.len() as u32,
            Self::ResetTsn { .. } => 8,
            Self::Response { tsns, .. } => 12 + if tsns.is_some() { 8 } else { 0 },
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Self::AddIncoming { .. } => parameter::ADD_INCOMING_STREAMS,
            Self::AddOutgoing { .. } => parameter::ADD_OUTGOING_STREAMS,
            Self::ResetIncoming { .. } => parameter::RESET_INCOMING,
            Self::ResetOutgoing { .. } => parameter::RESET_OUTGOING,
            Self::ResetTsn { .. } => parameter::RESET_TSN,
            Self::Response { .. } => parameter::RECONFIGURATION_RESPONSE,
        };
        out.u16(kind);
        out.u16(self.bytes() as u16);
        match self {
            Self::AddIncoming { request, streams } | Self::AddOutgoing { request, streams } => {
                out.u32(*request);
                out.u16(*streams);
                out.u16(0);
            }
            Self::ResetIncoming { request, streams } => {
                out.u32(*request);
                streams.iter().for_each(|stream| out.u16(*stream));
            }
            Self::ResetOutgoing { request, response, last_tsn, streams } => {
                out.u32(*request);
                out.u32(*response);
                out.u32(*last_tsn);
                streams.iter().for_each(|stream| out.u16(*stream));
            }
            Self::ResetTsn { request } => out.u32(*request),
            Self::Response { response, result, tsns } => {
                out.u32(*response);
                out.u32(*result);
                tsns.iter().flatten().for_each(|tsn| out.u32(*tsn));
            }
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let (kind, mut value) = next_value(reader)?;
        let found = match kind {
            parameter::ADD_INCOMING_STREAMS | parameter::ADD_OUTGOING_STREAMS => {
                let (request, streams) = (value.u32()?, value.u16()?);
                value.u16()?;
                if kind == parameter::ADD_INCOMING_STREAMS {
                    Self::AddIncoming { request, streams }
                } else {
                    Self::AddOutgoing { request, streams }
                }
            }
            parameter::RESET_INCOMING => {
                Self::ResetIncoming { request: value.u32()?, streams: streams(&mut value) }
            }
            parameter::RESET_OUTGOING => Self::ResetOutgoing {
                request: value.u32()?,
                response: value.u32()?,
                last_tsn: value.u32()?,
                streams: streams(&mut value),
            },
            parameter::RESET_TSN => Self::ResetTsn { request: value.u32()? },
            parameter::RECONFIGURATION_RESPONSE => {
                let (response, result) = (value.u32()?, value.u32()?);
                let tsns = if value.is_empty() { None } else { Some([value.u32()?, value.u32()?]) };
                Self::Response { response, result, tsns }
            }
            _ => return None,
        };
        value.is_empty().then_some(found)
    }
}

fn streams(value: &mut Reader<'_>) -> Box<[u16]> {
    std::iter::from_fn(|| value.u16()).collect()
}
