//! MPTCP options as bytes (RFC 8684 section 3).

use super::checksum::PseudoHeader;
use super::keys::{address_code, first_data_sequence};
use super::{Handshake, InfiniteMapping, Join, Reset, Segment, Signal};
use crate::flow::PathId;
use crate::wire::bytes::Append as _;
use crate::wire::mptcp::context::MptcpSending;
use crate::wire::tcp::option::{MPTCP, NOP};

/// Subtypes of the option.
pub(super) mod subtype {
    pub(crate) const CAPABLE: u8 = 0;
    pub(crate) const JOIN: u8 = 1;
    pub(crate) const DSS: u8 = 2;
    pub(crate) const ADD_ADDRESS: u8 = 3;
    pub(crate) const REMOVE_ADDRESS: u8 = 4;
    pub(crate) const PRIORITY: u8 = 5;
    pub(crate) const FAIL: u8 = 6;
    pub(crate) const FAST_CLOSE: u8 = 7;
    pub(crate) const RESET: u8 = 8;
}

/// The version of MPTCP, which is 1.
pub(super) const VERSION: u8 = 1;
/// `MP_CAPABLE`'s flag H: HMAC-SHA-256.
pub(super) const HMAC_SHA_256: u8 = 1;
/// `MP_CAPABLE`'s flag B: the option has something that this version does not know.
pub(super) const EXTENSIBILITY: u8 = 0x40;
/// `MP_CAPABLE`'s flag A: mappings have checksums.
pub(super) const CHECKSUMS: u8 = 0x80;
/// `MP_TCPRST`'s flag T.
pub(super) const TRANSIENT: u8 = 1;
/// `MP_JOIN`'s and `MP_PRIO`'s flag B.
pub(super) const BACKUP: u8 = 1;
/// `ADD_ADDR`'s flag E.
pub(super) const ECHO: u8 = 1;

/// Flags of DSS (section 3.3).
pub(super) mod dss {
    pub(crate) const HAS_ACK: u8 = 1;
    pub(crate) const ACK_IS_LONG: u8 = 2;
    pub(crate) const HAS_MAPPING: u8 = 4;
    pub(crate) const SEQUENCE_IS_LONG: u8 = 8;
    pub(crate) const DATA_FIN: u8 = 16;
}

impl Segment {
    /// Appends the bytes of the segment, checksum included, as they are sent on a path. Options that have no
    /// room, as in a model whose options are not on the wire, are left out.
    pub fn emit(&self, path: PathId, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        let mut options = Vec::with_capacity(self.option_bytes as usize);
        if self.option_bytes > 0 {
            self.emit_handshake(sending, &mut options);
            self.emit_dss(sending, &mut options);
            self.emit_signal(sending, &mut options);
            if let Some(Reset { reason, is_transient }) = self.options.reset {
                let flags = if is_transient { TRANSIENT } else { 0 };
                options.extend([MPTCP, 4, subtype::RESET << 4 | flags, reason]);
            }
            debug_assert!(options.len() <= self.option_bytes as usize, "{self:?}");
        }
        options.resize(self.option_bytes as usize, NOP);
        self.tcp.emit_with(&options, path, sending, out);
    }

    /// Appends the checksum of a mapping of this segment's payload.
    fn emit_checksum(&self, header: &PseudoHeader, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(self.tcp.payload.length as usize);
        if self.tcp.payload.length > 0 {
            sending.payload(self.tcp.payload, &mut payload);
        }
        out.u16(header.checksum(&payload, 0));
    }

    fn emit_handshake(&self, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        let has_checksum = self.options.has_checksum;
        match self.options.handshake {
            Some(Handshake::Capable { sender_key, receiver_key }) => {
                let keys = [sender_key, receiver_key].into_iter().flatten();
                let length = self.tcp.payload.length;
                let mapping = if length > 0 { 2 + if has_checksum { 2 } else { 0 } } else { 0 };
                let bytes = 4 + 8 * keys.clone().count() as u8 + mapping;
                let flags = HMAC_SHA_256 | if has_checksum { CHECKSUMS } else { 0 };
                out.extend([MPTCP, bytes, subtype::CAPABLE << 4 | VERSION, flags]);
                keys.for_each(|key| out.u64(key));
                if length > 0 {
                    // Section 3.1: of the mapping of the first data, everything but its length is known.
                    out.u16(length as u16);
                    if has_checksum {
                        let [own, _] = sending.connection_keys().map(first_data_sequence);
                        let header = PseudoHeader { sequence: own, subflow: 1, length: length as u16 };
                        self.emit_checksum(&header, sending, out);
                    }
                }
            }
            Some(Handshake::Join(Join::Syn { token, nonce, address, is_backup })) => {
                out.extend([MPTCP, 12, join(is_backup), address]);
                out.u32(token);
                out.u32(nonce);
            }
            Some(Handshake::Join(Join::Answer { code, nonce, address, is_backup })) => {
                out.extend([MPTCP, 16, join(is_backup), address]);
                out.u64(code);
                out.u32(nonce);
            }
            Some(Handshake::Join(Join::Third { code })) => {
                out.extend([MPTCP, 24, join(false), 0]);
                out.extend(code);
            }
            None => {}
        }
    }

    /// Appends DSS (section 3.3). Numbers are as long as there is room for: the mapping's, unless it is to be
    /// short, comes before the acknowledgement's.
    fn emit_dss(&self, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        let options = &self.options;
        let is_mapped =
            options.infinite.is_some() || options.data_position.is_some() || options.data_fin.is_some();
        let is_implied = matches!(options.handshake, Some(Handshake::Capable { .. }));
        let has_mapping = is_mapped && !is_implied;
        if options.data_ack.is_none() && !has_mapping {
            return;
        }
        let signal = options.signal.map_or(0, |signal| signal.wire_bytes(sending.ip()));
        let reset = options.reset.map_or(0, |_| Reset::BYTES);
        let room = (self.option_bytes as usize).saturating_sub((signal + reset) as usize + out.len());
        let has_ack = options.data_ack.is_some();
        let mapping = if options.has_checksum { 8 } else { 6 };
        let size = |[ack, sequence]: [usize; 2]| {
            4 + if has_ack { ack } else { 0 } + if has_mapping { sequence + mapping } else { 0 }
        };
        let is_short = has_mapping && options.has_short_number;
        let widths = [[8, 8], [4, 8], [8, 4], [4, 4]].into_iter();
        let widths = widths.filter(|[_, sequence]| !is_short || *sequence == 4).find(|it| size(*it) <= room);
        let Some(widths) = widths else { return };
        let [is_long_ack, is_long] = widths.map(|width| width == 8);
        let flags = [
            (has_ack, dss::HAS_ACK),
            (has_ack && is_long_ack, dss::ACK_IS_LONG),
            (has_mapping, dss::HAS_MAPPING),
            (has_mapping && is_long, dss::SEQUENCE_IS_LONG),
            (options.data_fin.is_some() && options.infinite.is_none(), dss::DATA_FIN),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        out.extend([MPTCP, size(widths) as u8, subtype::DSS << 4, flags]);
        let mut number = |value: u64, is_long: bool| {
            if is_long { out.u64(value) } else { out.u32(value as u32) }
        };
        let [own, peers] = sending.connection_keys().map(first_data_sequence);
        if let Some(position) = options.data_ack {
            number(peers.wrapping_add(position), is_long_ack);
        }
        if !has_mapping {
            return;
        }
        let has_fin = options.data_fin.is_some();
        let header = if let Some(InfiniteMapping { data, position }) = options.infinite {
            PseudoHeader { sequence: own.wrapping_add(data), subflow: position.wrapping_add(1), length: 0 }
        } else if let Some(position) = options.data_position {
            PseudoHeader {
                sequence: own.wrapping_add(position),
                subflow: (self.tcp.payload.offset as u32).wrapping_add(1),
                length: (self.tcp.payload.length + u32::from(has_fin)) as u16,
            }
        } else {
            // Section 3.3.3: without data, `DATA_FIN` has no place in the subflow's stream.
            let position = options.data_fin.unwrap_or_default();
            PseudoHeader { sequence: own.wrapping_add(position), subflow: 0, length: 1 }
        };
        number(header.sequence, is_long);
        out.u32(header.subflow);
        out.u16(header.length);
        if options.has_checksum && options.infinite.is_some() {
            // Section 3.3.1: the checksum of an infinite mapping is 0.
            out.u16(0);
        } else if options.has_checksum {
            self.emit_checksum(&header, sending, out);
        }
    }

    fn emit_signal(&self, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        let [own_key, peers_key] = sending.connection_keys();
        match self.options.signal {
            Some(Signal::AddAddress { address, is_echo, port }) => {
                // An echo repeats the address of the peer.
                let ip =
                    if is_echo { sending.announced_by_peer(address) } else { sending.announced(address) };
                let flags = if is_echo { ECHO } else { 0 };
                let start = out.len();
                out.extend([MPTCP, 0, subtype::ADD_ADDRESS << 4 | flags, address]);
                match ip {
                    std::net::IpAddr::V4(ip) => out.extend(ip.octets()),
                    std::net::IpAddr::V6(ip) => out.extend(ip.octets()),
                }
                if let Some(port) = port {
                    out.u16(port);
                }
                if !is_echo {
                    out.extend(address_code([own_key, peers_key], address, ip, port));
                }
                out[start + 1] = (out.len() - start) as u8;
            }
            Some(Signal::Fail { position }) => {
                out.extend([MPTCP, 12, subtype::FAIL << 4, 0]);
                out.u64(first_data_sequence(peers_key).wrapping_add(position));
            }
            Some(Signal::FastClose) => {
                out.extend([MPTCP, 12, subtype::FAST_CLOSE << 4, 0]);
                out.u64(peers_key);
            }
            Some(Signal::Priority { is_backup }) => {
                let flags = if is_backup { BACKUP } else { 0 };
                out.extend([MPTCP, 3, subtype::PRIORITY << 4 | flags, NOP]);
            }
            Some(Signal::RemoveAddress { addresses }) => {
                out.extend([MPTCP, 3 + addresses.count, subtype::REMOVE_ADDRESS << 4]);
                out.extend(addresses.iter());
            }
            None => {}
        }
    }
}

const fn join(is_backup: bool) -> u8 {
    subtype::JOIN << 4 | if is_backup { BACKUP } else { 0 }
}
