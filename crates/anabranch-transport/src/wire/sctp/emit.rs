//! An SCTP packet as bytes (RFC 9260 section 3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::SctpPacket;
use super::authentication::{Hmac, chunk_code, cookie_code, offer};
use super::chunk::{
    Abort, AddressChange, AddressError, AddressRequest, AddressResponse, Asconf, AsconfAck, Chunk, Cookie,
    Data, ErrorCause, ForwardTsn, GapBlock, HeartbeatInfo, IData, IForwardTsn, Init, NrSack, Opaque,
    RefusedRequest, Sack, StateCookie, parameters,
};
use super::codes::{SKIPPED_UNORDERED, TAG_REFLECTED, cause, chunk, data_flag, parameter};
use crate::ground::{IpVersion, PathId};
use crate::wire::bytes::{Append as _, Secret, Sending};

/// A mark that our own heartbeats carry besides what they measure, so that they can be told from those of
/// other implementations.
pub(super) const HEARTBEAT_MARK: u16 = 0xab4a;

impl SctpPacket {
    /// Appends the bytes of the packet, checksum included, as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        let start = out.len();
        out.u16(self.source_port);
        out.u16(self.destination_port);
        out.u32(self.verification_tag);
        out.u32(0);
        let mut signed_from = None;
        for chunk in self.chunks() {
            let chunk_start = out.len();
            if let Chunk::Auth(hmac) = chunk {
                signed_from = Some((chunk_start, *hmac));
            }
            let ports = [self.source_port, self.destination_port];
            Emission { path, ports, sending, start: chunk_start, out: &mut *out }.chunk(chunk);
            debug_assert_eq!((out.len() - chunk_start) as u32, chunk.wire_size(), "{chunk:?}");
        }
        if let Some((from, hmac)) = signed_from {
            // RFC 4895 section 6.2: the code is computed over the chunk itself, with zeros in place of the
            // code, and all chunks that follow.
            let code = chunk_code(hmac, sending.association_key(), &out[from..]);
            out[from + 8..from + 8 + code.len()].copy_from_slice(&code);
        }
        // RFC 9260 section 6.8 and appendix A: CRC32c in the order in which it is computed.
        let checksum = crc32c::crc32c(&out[start..]);
        out[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The writing of one chunk.
struct Emission<'a, S> {
    path: PathId,
    ports: [u16; 2],
    sending: &'a S,
    /// Where in `out` the chunk begins.
    start: usize,
    out: &'a mut Vec<u8>,
}

impl<S: Sending> Emission<'_, S> {
    fn chunk(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::Abort(Abort { tag_reflected, cause }) => {
                self.with_header(chunk::ABORT, if *tag_reflected { TAG_REFLECTED } else { 0 }, |emission| {
                    if let Some(cause) = cause {
                        emission.cause(cause);
                    }
                });
            }
            Chunk::Asconf(asconf) => self.with_header(chunk::ASCONF, 0, |emission| emission.asconf(asconf)),
            Chunk::AsconfAck(ack) => {
                self.with_header(chunk::ASCONF_ACK, 0, |emission| emission.asconf_ack(ack));
            }
            Chunk::Auth(hmac) => self.with_header(chunk::AUTH, 0, |emission| {
                // Shared key identifier 0, the only one, which stands for the secret of the users if they
                // have one.
                emission.out.u16(0);
                emission.out.u16(hmac.identifier());
                let end = emission.out.len() + hmac.bytes();
                emission.out.resize(end, 0);
            }),
            Chunk::CookieAck => self.with_header(chunk::COOKIE_ACK, 0, |_| {}),
            Chunk::CookieEcho(cookie) => {
                self.with_header(chunk::COOKIE_ECHO, 0, |emission| emission.cookie(cookie));
            }
            Chunk::Data(data) => self.data(data),
            Chunk::Error(cause) => self.with_header(chunk::ERROR, 0, |emission| emission.cause(cause)),
            Chunk::ForwardTsn(forward) => self.forward_tsn(forward),
            Chunk::Heartbeat(info) => {
                self.with_header(chunk::HEARTBEAT, 0, |emission| emission.heartbeat_info(info));
                if info.padding > 0 {
                    // RFC 4820: padding is a chunk of its own.
                    self.with_header(chunk::PAD, 0, |emission| {
                        let end = emission.out.len() + usize::from(info.padding) - 4;
                        emission.out.resize(end, 0);
                    });
                }
            }
            Chunk::HeartbeatAck(info) => {
                self.with_header(chunk::HEARTBEAT_ACK, 0, |emission| emission.heartbeat_info(info));
            }
            Chunk::IData(data) => self.i_data(data),
            Chunk::IForwardTsn(forward) => self.i_forward_tsn(forward),
            Chunk::Illegal(illegal) => self.opaque(&illegal.chunk),
            Chunk::Init(init, unrecognized) => self.with_header(chunk::INIT, 0, |emission| {
                emission.init(init, false);
                emission.parameters(unrecognized);
            }),
            Chunk::InitAck(ack) => self.with_header(chunk::INIT_ACK, 0, |emission| {
                emission.init(&ack.init, true);
                for reported in parameters(&ack.reported) {
                    emission.parameter(parameter::UNRECOGNIZED, |emission| emission.out.extend(reported));
                }
                emission.parameter(parameter::STATE_COOKIE, |emission| emission.cookie(&ack.cookie));
                emission.parameters(&ack.unrecognized);
            }),
            Chunk::NrSack(packets, nr_sack) => self.nr_sack(*packets, nr_sack),
            Chunk::Opaque(opaque) => self.opaque(opaque),
            Chunk::Reconfig(reconfig) => {
                self.with_header(chunk::RECONFIG, 0, |emission| reconfig.emit(emission.out));
            }
            Chunk::Sack(packets, sack) => self.sack(*packets, sack),
            Chunk::Shutdown { cumulative_tsn } => {
                self.with_header(chunk::SHUTDOWN, 0, |emission| emission.out.u32(*cumulative_tsn));
            }
            Chunk::ShutdownAck => self.with_header(chunk::SHUTDOWN_ACK, 0, |_| {}),
            Chunk::ShutdownComplete { tag_reflected } => {
                let flags = if *tag_reflected { TAG_REFLECTED } else { 0 };
                self.with_header(chunk::SHUTDOWN_COMPLETE, flags, |_| {});
            }
        }
    }

    fn opaque(&mut self, Opaque { kind, flags, value }: &Opaque) {
        self.with_header(*kind, *flags, |emission| emission.out.extend(value));
    }

    /// Writes a chunk with its header (RFC 9260 section 3.2). The padding behind it does not count towards
    /// its length.
    fn with_header(&mut self, kind: u8, flags: u8, value: impl FnOnce(&mut Self)) {
        self.start = self.out.len();
        self.out.u8(kind);
        self.out.u8(flags);
        self.with_length(self.start, value);
        self.out.pad(self.start);
    }

    /// Writes a parameter, or an error cause, with its header (section 3.2.1). It is padded when something
    /// follows.
    fn parameter(&mut self, kind: u16, value: impl FnOnce(&mut Self)) {
        self.out.pad(self.start);
        let start = self.out.len();
        self.out.u16(kind);
        self.with_length(start, value);
    }

    /// Writes the length of what began at `start`, and its value.
    fn with_length(&mut self, start: usize, value: impl FnOnce(&mut Self)) {
        let place = self.out.len();
        self.out.u16(0);
        value(self);
        let length = (self.out.len() - start) as u16;
        self.out[place..place + 2].copy_from_slice(&length.to_be_bytes());
    }

    fn data(&mut self, data: &Data) {
        let flags = data_flags([data.beginning, data.ending, data.unordered, data.immediate]);
        self.with_header(chunk::DATA, flags, |emission| {
            emission.out.u32(data.tsn);
            emission.out.u16(data.stream);
            emission.out.u16(data.ssn);
            emission.out.u32(data.ppid);
            emission.sending.payload(data.payload, emission.out);
        });
    }

    fn i_data(&mut self, data: &IData) {
        let flags = data_flags([data.beginning, data.ending, data.unordered, data.immediate]);
        self.with_header(chunk::I_DATA, flags, |emission| {
            emission.out.u32(data.tsn);
            emission.out.u16(data.stream);
            emission.out.u16(0);
            emission.out.u32(data.mid);
            emission.out.u32(if data.beginning { data.ppid } else { data.fsn });
            emission.sending.payload(data.payload, emission.out);
        });
    }

    fn sack(&mut self, packets: u8, sack: &Sack) {
        self.with_header(chunk::SACK, packets, |emission| {
            let out = &mut *emission.out;
            out.u32(sack.cumulative_tsn);
            out.u32(sack.a_rwnd);
            out.u16(sack.gap_blocks.len() as u16);
            out.u16(sack.duplicates.len() as u16);
            emission.blocks_and_duplicates(&[&sack.gap_blocks], &sack.duplicates);
        });
    }

    fn nr_sack(&mut self, packets: u8, nr_sack: &NrSack) {
        let NrSack { sack, final_blocks } = nr_sack;
        self.with_header(chunk::NR_SACK, packets, |emission| {
            let out = &mut *emission.out;
            out.u32(sack.cumulative_tsn);
            out.u32(sack.a_rwnd);
            out.u16(sack.gap_blocks.len() as u16);
            out.u16(final_blocks.len() as u16);
            out.u16(sack.duplicates.len() as u16);
            // Reserved.
            out.u16(0);
            emission.blocks_and_duplicates(&[&sack.gap_blocks, final_blocks], &sack.duplicates);
        });
    }

    fn blocks_and_duplicates(&mut self, blocks: &[&[GapBlock]], duplicates: &[u32]) {
        for block in blocks.iter().copied().flatten() {
            self.out.u16(block.start);
            self.out.u16(block.end);
        }
        for tsn in duplicates {
            self.out.u32(*tsn);
        }
    }

    fn forward_tsn(&mut self, forward: &ForwardTsn) {
        self.with_header(chunk::FORWARD_TSN, 0, |emission| {
            emission.out.u32(forward.new_cumulative_tsn);
            for skipped in &forward.streams {
                emission.out.u16(skipped.stream);
                emission.out.u16(skipped.ssn);
            }
        });
    }

    fn i_forward_tsn(&mut self, forward: &IForwardTsn) {
        self.with_header(chunk::I_FORWARD_TSN, 0, |emission| {
            emission.out.u32(forward.new_cumulative_tsn);
            for skipped in &forward.messages {
                emission.out.u16(skipped.stream);
                emission.out.u16(if skipped.unordered { SKIPPED_UNORDERED } else { 0 });
                emission.out.u32(skipped.mid);
            }
        });
    }

    fn heartbeat_info(&mut self, info: &HeartbeatInfo) {
        self.parameter(parameter::HEARTBEAT_INFO, |emission| {
            let out = &mut *emission.out;
            out.u64(info.sent_at.as_nanos());
            out.u32(info.nonce);
            out.u8(info.path.0);
            out.u8(0);
            out.u16(HEARTBEAT_MARK);
            if let Some(pair) = info.pair {
                out.u32(pair.number);
                out.u32(pair.is_second.into());
                out.u64(pair.arrived_at.as_nanos());
            }
        });
    }

    /// What INIT and INIT ACK have in common.
    fn init(&mut self, init: &Init, is_ack: bool) {
        let out = &mut *self.out;
        out.u32(init.initiate_tag);
        out.u32(init.a_rwnd);
        out.u16(init.outbound_streams);
        out.u16(init.max_inbound_streams);
        out.u32(init.initial_tsn);
        // In the order of FreeBSD (`sctp_send_initiate`).
        if init.forward_tsn_supported {
            self.parameter(parameter::FORWARD_TSN_SUPPORTED, |_| {});
        }
        let forward_tsn: &[u8] =
            if init.names_forward_tsn && init.forward_tsn_supported { &[chunk::FORWARD_TSN] } else { &[] };
        let asconf: &[u8] =
            if init.asconf_supported { &[chunk::ASCONF, chunk::ASCONF_ACK, chunk::AUTH] } else { &[] };
        let interleaving: &[u8] = match (init.interleaving_supported, init.forward_tsn_supported) {
            (true, true) => &[chunk::I_DATA, chunk::I_FORWARD_TSN],
            (true, false) => &[chunk::I_DATA],
            (false, _) => &[],
        };
        let reconfig: &[u8] = if init.reconfig_supported { &[chunk::RECONFIG] } else { &[] };
        let nr_sack: &[u8] = if init.nr_sack_supported { &[chunk::NR_SACK] } else { &[] };
        let extensions = [forward_tsn, asconf, interleaving, reconfig, nr_sack].concat();
        if !extensions.is_empty() {
            self.parameter(parameter::SUPPORTED_EXTENSIONS, |emission| emission.out.extend(extensions));
        }
        if init.asconf_supported {
            let [random, chunks, algorithms] = offer(self.sending.secret(), init.initiate_tag, init.hmac);
            for parameter in [chunks, algorithms, random] {
                self.out.pad(self.start);
                self.out.extend(parameter);
            }
        }
        if let Some(increment) = init.cookie_preservative {
            let milliseconds = increment.as_nanos().div_ceil(1_000_000).min(u64::from(u32::MAX)) as u32;
            self.parameter(parameter::COOKIE_PRESERVATIVE, |emission| emission.out.u32(milliseconds));
        }
        if init.names_address_types && !is_ack {
            let kind = match self.sending.ip() {
                IpVersion::Ipv4 => parameter::IPV4_ADDRESS,
                IpVersion::Ipv6 => parameter::IPV6_ADDRESS,
            };
            self.parameter(parameter::SUPPORTED_ADDRESS_TYPES, |emission| emission.out.u16(kind));
        }
        if init.addresses > 1 {
            for address in self.sending.own_addresses().into_iter().take(init.addresses.into()) {
                self.address(address);
            }
        }
    }

    /// Writes parameters behind others, which are padded when something follows.
    fn parameters(&mut self, parameters: &[u8]) {
        if !parameters.is_empty() {
            self.out.pad(self.start);
            self.out.extend(parameters);
        }
    }

    fn cookie(&mut self, cookie: &Cookie) {
        match cookie {
            Cookie::Own(cookie) => {
                let (secret, addresses) = (self.sending.secret(), self.sending.peer_addresses());
                let key_vector = self.sending.peer_key_vector();
                self.out.extend(cookie.signed(secret, self.ports, &addresses, key_vector));
            }
            Cookie::Foreign(bytes) => self.out.extend(bytes),
        }
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.parameter(parameter::IPV4_ADDRESS, |emission| emission.out.extend(address.octets()));
            }
            IpAddr::V6(address) => {
                self.parameter(parameter::IPV6_ADDRESS, |emission| emission.out.extend(address.octets()));
            }
        }
    }

    fn asconf(&mut self, asconf: &Asconf) {
        self.out.u32(asconf.serial);
        let [source, _] = self.sending.addresses(self.path);
        self.address(source);
        for &AddressRequest { correlation, change, path } in &asconf.requests {
            let [address, _] = self.sending.addresses(path);
            self.request(change, correlation, address);
        }
        for RefusedRequest { request, .. } in &asconf.refused {
            self.out.pad(self.start);
            self.out.extend(request);
        }
    }

    fn request(&mut self, change: AddressChange, correlation: u32, address: IpAddr) {
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
        self.parameter(kind, |emission| {
            emission.out.u32(correlation);
            emission.address(address);
        });
    }

    fn asconf_ack(&mut self, ack: &AsconfAck) {
        self.out.u32(ack.serial);
        for &AddressResponse { correlation, error } in &ack.responses {
            let Some(error) = error else {
                self.parameter(parameter::SUCCESS_INDICATION, |emission| emission.out.u32(correlation));
                continue;
            };
            let code = match error {
                AddressError::LastAddress => cause::LAST_ADDRESS,
                AddressError::SourceAddress => cause::SOURCE_ADDRESS,
            };
            // Both are about a request to delete the address that it came from.
            let [_, requester] = self.sending.addresses(self.path);
            self.parameter(parameter::ERROR_CAUSE_INDICATION, |emission| {
                emission.out.u32(correlation);
                emission.parameter(code, |emission| {
                    emission.request(AddressChange::Delete, correlation, requester);
                });
            });
        }
        for RefusedRequest { correlation, cause, request } in &ack.refused {
            self.parameter(parameter::ERROR_CAUSE_INDICATION, |emission| {
                emission.out.u32(*correlation);
                emission.parameter(*cause, |emission| emission.out.extend(request));
            });
        }
    }

    fn cause(&mut self, cause: &ErrorCause) {
        match cause {
            ErrorCause::IllegalAsconfAck => self.parameter(cause::ILLEGAL_ASCONF_ACK, |_| {}),
            ErrorCause::Other(other) => {
                self.parameter(other.code, |emission| emission.out.extend(&other.value));
            }
            ErrorCause::StaleCookie { staleness } => {
                let microseconds = (staleness.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
                self.parameter(cause::STALE_COOKIE, |emission| emission.out.u32(microseconds));
            }
            ErrorCause::UserInitiatedAbort => self.parameter(cause::USER_INITIATED_ABORT, |_| {}),
        }
    }
}

fn data_flags([beginning, ending, unordered, immediate]: [bool; 4]) -> u8 {
    [
        (beginning, data_flag::BEGINNING),
        (ending, data_flag::ENDING),
        (unordered, data_flag::UNORDERED),
        (immediate, data_flag::IMMEDIATE),
    ]
    .into_iter()
    .filter(|&(is_set, _)| is_set)
    .fold(0, |flags, (_, flag)| flags | flag)
}

/// Which of the peer's abilities a State Cookie keeps, one bit for each.
pub(super) const COOKIE_FORWARD_TSN: u8 = 1;
pub(super) const COOKIE_ASCONF: u8 = 2;
pub(super) const COOKIE_INTERLEAVING: u8 = 4;
pub(super) const COOKIE_IPV6: u8 = 8;
/// Whether the peer's addresses are in the cookie.
pub(super) const COOKIE_ADDRESSES: u8 = 16;
pub(super) const COOKIE_RECONFIG: u8 = 32;
/// Whether the peer takes HMAC-SHA-256.
pub(super) const COOKIE_SHA_256: u8 = 64;
/// Whether a Tie-Tag is in the cookie.
pub(super) const COOKIE_TIE_TAG: u8 = 128;
/// Whether NR-SACK was agreed on: a bit of further ones, which are only there if one of them is set.
pub(super) const COOKIE_FURTHER_NR_SACK: u32 = 1;

impl StateCookie {
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
}
