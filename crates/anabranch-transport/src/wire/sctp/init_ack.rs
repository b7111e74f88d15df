//! INIT ACK (RFC 9260 section 3.3.3): the form of INIT (`init.rs`) with type 2, and a State Cookie.

use super::codes::{cause, chunk, parameter};
use super::cookie::{Cookie, Listed, StateCookie};
use super::fault::Fault;
use super::init::{Beginning, Init};
use super::tlv::parameters;
use super::writer::Writer;
use crate::wire::bytes::Reader;
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// An INIT ACK chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitAck {
    /// The fields that INIT has too.
    pub init: Init,
    /// State Cookie parameter.
    pub cookie: Cookie,
    /// Parameters of the INIT that its receiver does not know (RFC 9260 section 3.2.2).
    pub reported: Box<[u8]>,
    /// Parameters of this chunk, as they came, that this library does not know and that are to be reported.
    pub unrecognized: Box<[u8]>,
}

impl InitAck {
    pub(super) fn wire_size(&self) -> u32 {
        let Self { init, cookie, reported, unrecognized } = self;
        let reports = reported.len() + 4 * parameters(reported).count();
        init.wire_size(true) + 4 + cookie.wire_size() + (reports + unrecognized.len()) as u32
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::INIT_ACK, 0, |writer| {
            self.init.emit(true, writer);
            for reported in parameters(&self.reported) {
                writer.parameter(parameter::UNRECOGNIZED, |writer| writer.out.extend(reported));
            }
            writer.parameter(parameter::STATE_COOKIE, |writer| self.cookie.emit(writer));
            writer.parameters(&self.unrecognized);
        });
    }

    pub(super) fn parse(
        reader: Reader<'_>,
        ports: [u16; 2],
        receiving: &impl SctpReceiving,
        listed: &mut Listed,
    ) -> Result<Self, Fault> {
        let Beginning { init, cookie, reported, unrecognized } =
            Beginning::parse(reader, &mut listed.addresses, chunk::INIT_ACK)?;
        // Section 3.3.3: an INIT ACK must have a cookie.
        let missing = [0, 0, 0, 1, 0, parameter::STATE_COOKIE as u8];
        let cookie = cookie.ok_or_else(|| Fault::told(cause::MISSING_PARAMETER, &missing))?;
        let others = &mut Listed::default();
        let cookie = match StateCookie::verified(cookie, receiving.secret(), ports, others) {
            // This end has opened an association with itself. Addresses and keys are only in the bytes,
            // which are returned as they came.
            Some(own) if !own.keeps_addresses && own.key_bytes == 0 => Cookie::Own(own),
            _ => Cookie::Foreign(cookie.into()),
        };
        Ok(Self { init, cookie, reported: reported.into(), unrecognized: unrecognized.into() })
    }
}
