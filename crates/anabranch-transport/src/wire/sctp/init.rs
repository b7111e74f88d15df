//! INIT (RFC 9260 section 3.3.2), whose form INIT ACK has too (`init_ack.rs`).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 1   |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Initiate Tag                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Advertised Receiver Window Credit (a_rwnd)          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Number of Outbound Streams  |   Number of Inbound Streams   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Initial TSN                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /              Optional/Variable-Length Parameters              /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::IpAddr;

use super::address::{address_bytes, emit_address, parse_address};
use super::authentication::{Hmac, offer};
use super::codes::{self, cause, chunk, parameter};
use super::fault::{Fault, SHORT, malformed};
use super::tlv::{next_value, padded};
use super::writer::Writer;
use crate::flow::IpVersion;
use crate::time::Duration;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// The common contents of INIT and INIT ACK.
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter that is there or not")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// The verification tag the sender wants to see.
    pub initiate_tag: u32,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// Streams the sender wants to use.
    pub outbound_streams: u16,
    /// Streams the sender allows.
    pub max_inbound_streams: u16,
    /// The first TSN the sender will use.
    pub initial_tsn: u32,
    /// The sender's number of addresses, each one an address parameter when there are several.
    pub addresses: u8,
    /// The addresses' version.
    pub ip: IpVersion,
    /// Whether partial reliability is supported, by the Forward-TSN-Supported parameter (RFC 3758 section
    /// 3.1). It is also true for a peer that only lists FORWARD TSN in Supported Extensions.
    pub forward_tsn_supported: bool,
    /// Whether ASCONF, ASCONF-ACK and AUTH are in the Supported Extensions parameter (RFC 5061 section
    /// 4.2.7), with the parameters that AUTH needs (RFC 4895 section 3).
    pub asconf_supported: bool,
    /// If they are, the first algorithm of HMAC-ALGO that is known here.
    pub hmac: Hmac,
    /// Whether I-DATA is in the Supported Extensions parameter (RFC 8260 section 2.2.1), and I-FORWARD-TSN
    /// with it if partial reliability is supported.
    pub interleaving_supported: bool,
    /// Whether RE-CONFIG is in the Supported Extensions parameter (RFC 6525 section 5.1.1).
    pub reconfig_supported: bool,
    /// Whether NR-SACK is in the Supported Extensions parameter (draft-natarajan-tsvwg-sctp-nrsack section
    /// 3). In a State Cookie: whether both ends named it.
    pub nr_sack_supported: bool,
    /// Whether FORWARD-TSN is named among the Supported Extensions, too (RFC 5061 section 4.2.7), if partial
    /// reliability is supported.
    pub names_forward_tsn: bool,
    /// Whether INIT names the Supported Address Types (RFC 9260 section 3.3.2.1).
    pub names_address_types: bool,
    /// Cookie Preservative parameter: by how much the sender wishes the cookie to live longer (RFC 9260
    /// section 3.3.2.1).
    pub cookie_preservative: Option<Duration>,
}

impl Init {
    /// The size of INIT, or of what INIT ACK has in common with it.
    pub(super) const fn wire_size(&self, is_ack: bool) -> u32 {
        20 + self.parameters_bytes(is_ack)
    }

    const fn parameters_bytes(&self, is_ack: bool) -> u32 {
        // RFC 9260 section 3.3.2.1: address parameters are needed only when there are several; Cookie
        // Preservative takes 8 bytes, Forward-TSN-Supported 4.
        let addresses = if self.addresses > 1 { self.addresses as u32 * address_bytes(self.ip) } else { 0 };
        // Supported Extensions, with one byte for each chunk type (RFC 5061 section 4.2.7).
        let asconf = if self.asconf_supported { 3 } else { 0 };
        let interleaving =
            if self.interleaving_supported { 1 + self.forward_tsn_supported as u32 } else { 0 };
        let extensions = asconf
            + interleaving
            + self.reconfig_supported as u32
            + self.nr_sack_supported as u32
            + (self.names_forward_tsn && self.forward_tsn_supported) as u32;
        // Supported Address Types, with one type.
        let types = if self.names_address_types && !is_ack { 8 } else { 0 };
        let supported = if extensions > 0 { 4 + padded(extensions) } else { 0 };
        // RANDOM of 32 bytes takes 36, CHUNKS with two types 8, HMAC-ALGO with SHA-1 8 (RFC 4895 section 3).
        let authentication = if self.asconf_supported { 36 + 8 + 8 } else { 0 };
        addresses
            + types
            + supported
            + authentication
            + if self.forward_tsn_supported { 4 } else { 0 }
            + if self.cookie_preservative.is_some() { 8 } else { 0 }
    }

    /// Writes what INIT and INIT ACK have in common, without the header.
    pub(super) fn emit(&self, is_ack: bool, writer: &mut Writer<'_, impl SctpSending>) {
        let out = &mut *writer.out;
        out.u32(self.initiate_tag);
        out.u32(self.a_rwnd);
        out.u16(self.outbound_streams);
        out.u16(self.max_inbound_streams);
        out.u32(self.initial_tsn);
        // In the order of FreeBSD (`sctp_send_initiate`).
        if self.forward_tsn_supported {
            writer.parameter(parameter::FORWARD_TSN_SUPPORTED, |_| {});
        }
        let forward_tsn: &[u8] =
            if self.names_forward_tsn && self.forward_tsn_supported { &[chunk::FORWARD_TSN] } else { &[] };
        let asconf: &[u8] =
            if self.asconf_supported { &[chunk::ASCONF, chunk::ASCONF_ACK, chunk::AUTH] } else { &[] };
        let interleaving: &[u8] = match (self.interleaving_supported, self.forward_tsn_supported) {
            (true, true) => &[chunk::I_DATA, chunk::I_FORWARD_TSN],
            (true, false) => &[chunk::I_DATA],
            (false, _) => &[],
        };
        let reconfig: &[u8] = if self.reconfig_supported { &[chunk::RECONFIG] } else { &[] };
        let nr_sack: &[u8] = if self.nr_sack_supported { &[chunk::NR_SACK] } else { &[] };
        let extensions = [forward_tsn, asconf, interleaving, reconfig, nr_sack].concat();
        if !extensions.is_empty() {
            writer.parameter(parameter::SUPPORTED_EXTENSIONS, |writer| writer.out.extend(extensions));
        }
        if self.asconf_supported {
            let [random, chunks, algorithms] = offer(writer.sending.secret(), self.initiate_tag, self.hmac);
            for parameter in [chunks, algorithms, random] {
                writer.parameters(&parameter);
            }
        }
        if let Some(increment) = self.cookie_preservative {
            let milliseconds = increment.as_nanos().div_ceil(1_000_000).min(u64::from(u32::MAX)) as u32;
            writer.parameter(parameter::COOKIE_PRESERVATIVE, |writer| writer.out.u32(milliseconds));
        }
        if self.names_address_types && !is_ack {
            let kind = match writer.sending.ip() {
                IpVersion::Ipv4 => parameter::IPV4_ADDRESS,
                IpVersion::Ipv6 => parameter::IPV6_ADDRESS,
            };
            writer.parameter(parameter::SUPPORTED_ADDRESS_TYPES, |writer| writer.out.u16(kind));
        }
        if self.addresses > 1 {
            for address in writer.sending.own_addresses().into_iter().take(self.addresses.into()) {
                emit_address(address, writer);
            }
        }
    }
}

/// An INIT, or an INIT ACK.
pub(super) struct Beginning<'a> {
    pub(super) init: Init,
    pub(super) cookie: Option<&'a [u8]>,
    /// Parameters that the peer reports.
    pub(super) reported: Vec<u8>,
    /// Parameters that are to be reported to the peer as unknown.
    pub(super) unrecognized: Vec<u8>,
}

/// Keeps a parameter to be reported, with its padding, if there is room.
fn keep_parameter(kept: &mut Vec<u8>, kind: u16, value: &[u8]) {
    if kept.len() + value.len() + 4 <= codes::MOST_REPORTED {
        let start = kept.len();
        kept.u16(kind);
        kept.u16(4 + value.len() as u16);
        kept.extend(value);
        kept.pad(start);
    }
}

/// The time that a Cookie Preservative asks for (RFC 9260 section 3.3.2.1.3), if it has the right length.
fn life_span_increment(mut value: Reader<'_>) -> Option<Duration> {
    let milliseconds = value.u32().filter(|_| value.is_empty())?;
    Some(Duration::from_nanos(u64::from(milliseconds) * 1_000_000))
}

impl<'a> Beginning<'a> {
    /// INIT or INIT ACK, as `chunk_kind` says.
    #[expect(clippy::too_many_lines, reason = "one arm for each parameter")]
    pub(super) fn parse(
        mut reader: Reader<'a>,
        addresses: &mut Vec<IpAddr>,
        chunk_kind: u8,
    ) -> Result<Self, Fault> {
        let mut header = || Some((reader.u32()?, reader.u32()?, reader.u16()?, reader.u16()?, reader.u32()?));
        let (initiate_tag, a_rwnd, outbound_streams, max_inbound_streams, initial_tsn) =
            header().ok_or(Fault::Silent(SHORT))?;
        if initiate_tag == 0 && chunk_kind == chunk::INIT {
            // RFC 9260 section 3.3.2.
            return Err(Fault::Silent(malformed("an INIT has the tag 0")));
        }
        if initiate_tag == 0 || outbound_streams == 0 || max_inbound_streams == 0 {
            // Sections 3.3.2 and 3.3.3.
            return Err(Fault::told(cause::INVALID_PARAMETER, &[]));
        }
        let mut init = Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            max_inbound_streams,
            initial_tsn,
            addresses: 1,
            ip: IpVersion::Ipv4,
            forward_tsn_supported: false,
            asconf_supported: false,
            hmac: Hmac::Sha1,
            interleaving_supported: false,
            reconfig_supported: false,
            nr_sack_supported: false,
            names_forward_tsn: false,
            names_address_types: false,
            cookie_preservative: None,
        };
        let mut cookie = None;
        let (mut reported, mut unrecognized) = (Vec::new(), Vec::new());
        let (mut supports_asconf, mut can_authenticate, mut names_forward_tsn) = (false, false, false);
        let mut hmac = Hmac::Sha1;
        while !reader.is_empty() {
            let Some((kind, mut value)) = next_value(&mut reader) else {
                return Err(Fault::violation("a parameter is cut off"));
            };
            match kind {
                parameter::IPV4_ADDRESS | parameter::IPV6_ADDRESS => {
                    let listed =
                        parse_address(kind, value).ok_or(malformed("an address has another length"))?;
                    addresses.push(listed);
                    if kind == parameter::IPV6_ADDRESS {
                        init.ip = IpVersion::Ipv6;
                    }
                }
                parameter::STATE_COOKIE => cookie = Some(value.0),
                parameter::COOKIE_PRESERVATIVE => {
                    let increment = life_span_increment(value);
                    let increment = increment.ok_or(malformed("a Cookie Preservative has another length"))?;
                    init.cookie_preservative = Some(increment);
                }
                // RFC 3758 section 3.1: the parameter has no value.
                parameter::FORWARD_TSN_SUPPORTED if !value.is_empty() => {
                    return Err(Fault::violation("Forward-TSN-Supported has a value"));
                }
                parameter::FORWARD_TSN_SUPPORTED => init.forward_tsn_supported = true,
                parameter::SUPPORTED_EXTENSIONS => {
                    let has = |kind: u8| value.0.contains(&kind);
                    supports_asconf = has(chunk::ASCONF) && has(chunk::ASCONF_ACK) && has(chunk::AUTH);
                    init.interleaving_supported = has(chunk::I_DATA);
                    init.reconfig_supported = has(chunk::RECONFIG);
                    init.nr_sack_supported = has(chunk::NR_SACK);
                    names_forward_tsn = has(chunk::FORWARD_TSN);
                }
                parameter::RANDOM => can_authenticate = true,
                parameter::HMAC_ALGORITHMS => {
                    hmac = std::iter::from_fn(|| value.u16()).find_map(Hmac::of).unwrap_or_default();
                }
                // Section 3.3.2.1.
                parameter::HOST_NAME_ADDRESS => {
                    let mut host = Vec::new();
                    keep_parameter(&mut host, kind, value.0);
                    return Err(Fault::told(cause::UNRESOLVABLE_ADDRESS, &host));
                }
                parameter::SUPPORTED_ADDRESS_TYPES => init.names_address_types = chunk_kind == chunk::INIT,
                parameter::UNRECOGNIZED => {
                    let whole = value.0;
                    if let Some((kind, inner)) = next_value(&mut value)
                        && value.is_empty()
                        && whole.len() == 4 + inner.0.len().next_multiple_of(4)
                    {
                        keep_parameter(&mut reported, kind, inner.0);
                    }
                }
                parameter::ADAPTATION_LAYER
                | parameter::CHUNK_LIST
                | parameter::ECN_CAPABLE
                | parameter::SET_PRIMARY => {}
                // RFC 9260 section 3.2.1.
                kind => {
                    if codes::does(kind, codes::REPORT) {
                        keep_parameter(&mut unrecognized, kind, value.0);
                    }
                    if !codes::does(kind, codes::READ_ON) {
                        reader = Reader(&[]);
                    }
                }
            }
        }
        init.asconf_supported = supports_asconf && can_authenticate;
        if init.asconf_supported {
            init.hmac = hmac;
        }
        // RFC 5061 section 4.2.7: either of the two parameters says so.
        init.forward_tsn_supported |= names_forward_tsn;
        init.names_forward_tsn = names_forward_tsn;
        init.addresses = u8::try_from(addresses.len()).unwrap_or(u8::MAX).max(1);
        Ok(Self { init, cookie, reported, unrecognized })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let init = Init {
            initiate_tag: 1,
            a_rwnd: 2,
            outbound_streams: 3,
            max_inbound_streams: 4,
            initial_tsn: 5,
            addresses: 1,
            ip: IpVersion::Ipv4,
            forward_tsn_supported: true,
            asconf_supported: false,
            hmac: Hmac::Sha1,
            interleaving_supported: true,
            reconfig_supported: false,
            nr_sack_supported: false,
            names_forward_tsn: true,
            names_address_types: true,
            cookie_preservative: Some(Duration::from_secs(1)),
        };
        // Padding behind the last parameter does not count towards the length (section 3.2).
        let bytes = [
            &[1, 0, 0, 46, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 5][..],
            &[0xc0, 0, 0, 4],
            &[0x80, 8, 0, 7, chunk::FORWARD_TSN, chunk::I_DATA, chunk::I_FORWARD_TSN, 0],
            &[0, 9, 0, 8, 0, 0, 3, 0xe8],
            &[0, 12, 0, 6, 0, 5, 0, 0],
        ];
        assert_is(&bytes.concat(), &Chunk::Init(Box::new(init), Box::default()));
    }
}
