//! The headers of transports, as rows: TCP with its options, UDP, SCTP with its chunks, ICMP.

use std::hash::{BuildHasher as _, Hasher as _};

use anabranch_transport::wire::ip::{ICMP, ICMPV6, SCTP, TCP, UDP};
use anabranch_transport::wire::mptcp::{self, Said, keys};
use anabranch_transport::wire::sctp::codes::chunk;
use anabranch_transport::wire::sctp::{COMMON_HEADER_BYTES, ChunkHeader};
use anabranch_transport::wire::tcp::{self, Flags, option};
use anabranch_transport::wire::udp;
use foldhash::quality::{FixedState, FoldHasher};
use sha1::{Digest as _, Sha1};

use crate::bytes::{array, be16, be32};
use crate::columns::{Batch, ChunkRow, DatagramRow, GapRow, HEAD_BYTES, MultipathRow, Row, SackRow, fault};
use crate::packet::Packet;

/// The port of SCTP inside UDP (RFC 6951 section 5.1).
const SCTP_IN_UDP: u16 = 9_899;

/// Chunks of one packet; 64 KiB of the shortest ones are as many.
const MOST_CHUNKS: usize = 1 << 14;

/// How many bytes behind IP's header tell packets apart.
const IDENTITY_BYTES: usize = 64;

/// Adds what the transport of a packet says to its row and to the tables beside it.
pub(crate) fn read(packet: &Packet<'_>, row: &mut Row, batch: &mut Batch) {
    let (payload, octets) = (packet.payload, packet.payload_octets());
    row.protocol = packet.header.protocol;
    // A first fragment has less than its headers say.
    let most = if packet.is_fragment() { usize::from(u16::MAX) } else { octets };
    let read = match packet.header.protocol {
        ICMP | ICMPV6 => icmp(payload, octets, row),
        SCTP => sctp(payload, octets, most, row, batch),
        TCP => tcp(payload, octets, row, batch),
        UDP => udp(payload, octets, most, row, batch),
        _ => {
            row.payload = octets as i32;
            Some(())
        }
    };
    if read.is_none() {
        row.fault = if payload.len() < octets { fault::CUT } else { fault::DAMAGED };
        row.payload = 0;
    }
    hash(packet, row);
}

/// The same in every capture and process. All of a capture goes through it, so it is a fast one.
fn hasher() -> FoldHasher<'static> {
    FixedState::default().build_hasher()
}

/// Fills the hashes by which packets are recognised.
fn hash(packet: &Packet<'_>, row: &mut Row) {
    // Checksums that a network card may compute behind the capture.
    let checksums: &[(usize, usize)] = match (row.protocol, row.in_udp) {
        (TCP, _) => &[(16, 18)],
        (UDP, _) => &[(6, 8)],
        (SCTP, false) => &[(8, 12)],
        (SCTP, true) => &[(6, 8), (16, 20)],
        _ => &[],
    };
    let write = |hasher: &mut FoldHasher<'_>, bytes: &[u8]| {
        let mut from = 0;
        for &(start, end) in checksums {
            hasher.write(bytes.get(from..start.min(bytes.len())).unwrap_or_default());
            from = end;
        }
        hasher.write(bytes.get(from..).unwrap_or_default());
    };
    let mut content = hasher();
    write(&mut content, packet.payload);
    row.content = content.finish();
    let mut identity = hasher();
    for address in packet.header.addresses {
        match address {
            std::net::IpAddr::V4(address) => identity.write(&address.octets()),
            std::net::IpAddr::V6(address) => identity.write(&address.octets()),
        }
    }
    identity.write(&[row.protocol]);
    identity.write(&row.identification.to_le_bytes());
    write(&mut identity, &packet.payload[..packet.payload.len().min(IDENTITY_BYTES)]);
    row.identity = identity.finish();
}

/// Source and destination port.
fn ports(bytes: &[u8], row: &mut Row) -> Option<()> {
    (row.source_port, row.destination_port) = (be16(bytes, 0)?.into(), be16(bytes, 2)?.into());
    Some(())
}

fn icmp(payload: &[u8], octets: usize, row: &mut Row) -> Option<()> {
    /// Echo and Echo Reply (RFC 792, RFC 4443 section 4).
    const ECHOES: [(u8, u8); 4] = [(ICMP, 8), (ICMP, 0), (ICMPV6, 128), (ICMPV6, 129)];
    let [kind, code] = array(payload, 0)?;
    (row.icmp_kind, row.icmp_code) = (kind.into(), code.into());
    let (identifier, sequence) = (be16(payload, 4)?, be16(payload, 6)?);
    if ECHOES.contains(&(row.protocol, kind)) {
        (row.icmp_identifier, row.icmp_sequence) = (identifier.into(), sequence.into());
    }
    row.payload = octets.saturating_sub(8) as i32;
    Some(())
}

fn tcp(payload: &[u8], octets: usize, row: &mut Row, batch: &mut Batch) -> Option<()> {
    ports(payload, row)?;
    let header = tcp::Header::read(payload)?;
    let fixed = tcp::HEADER_BYTES as usize;
    if header.length < fixed || header.length > octets {
        row.fault = fault::DAMAGED;
        return Some(());
    }
    let flags = Flags::from_bits(header.bits);
    row.sequence = header.sequence.into();
    if flags.has(Flags::ACK) {
        row.acknowledgement = header.acknowledgement.into();
    }
    row.flags = header.bits as i16;
    row.window = header.window.into();
    row.payload = (octets - header.length) as i32;
    for (kind, value) in tcp::options(&payload[fixed..header.length.min(payload.len())]) {
        tcp_option(kind, value, flags, row, batch);
    }
    Some(())
}

fn tcp_option(kind: u8, value: &[u8], flags: Flags, row: &mut Row, batch: &mut Batch) {
    let packet = batch.len() as i32;
    let is_syn = flags.has(Flags::SYN);
    match (kind, value.len()) {
        (option::MSS, 2) if is_syn => row.mss = be16(value, 0).map_or(-1, i32::from),
        (option::WINDOW_SCALE, 1) if is_syn => row.window_scale = value[0].into(),
        (option::SACK_PERMITTED, 0) => row.permits_sack |= is_syn,
        (option::TIMESTAMPS, 8) => {
            row.stamp = be32(value, 0).map_or(-1, i64::from);
            row.echo = be32(value, 4).map_or(-1, i64::from);
        }
        (option::SACK, _) => {
            for block in value.as_chunks::<8>().0 {
                let edge = |at| be32(block, at).map_or(-1, i64::from);
                batch.sacks.push(SackRow { packet, start: edge(0), end: edge(4) });
            }
        }
        (option::MPTCP, _) => {
            if let Some((kind, low, said)) = Said::read(value, flags) {
                batch.multipath.push(multipath(packet, kind, low, said));
            }
        }
        _ => {}
    }
}

fn multipath(packet: i32, kind: u8, low: u8, said: Said) -> MultipathRow {
    /// `ADD_ADDR` (RFC 8684 section 3.4.1), whose identifier follows its subtype.
    const ADD_ADDRESS: u8 = 3;
    let mut row = MultipathRow { packet, kind, flags: low, ..MultipathRow::default() };
    match said {
        Said::Capable(mptcp::Capable { version, flags, keys: [key, peer_key] }) => {
            let token = |key: Option<u64>| key.map_or(-1, |key| token_of(version, key).into());
            row.version = version as i8;
            row.flags = flags;
            (row.key, row.peer_key) = (key.unwrap_or(0), peer_key.unwrap_or(0));
            (row.token, row.peer_token) = (token(key), token(peer_key));
        }
        Said::Dss(dss) => {
            row.flags = dss.flags;
            row.data_ack = dss.ack.map_or(-1, |ack| ack.low().into());
            if let Some(mapping) = dss.mapping {
                row.data_sequence = mapping.sequence.low().into();
                row.subflow_sequence = mapping.subflow.into();
                row.data_octets = mapping.length.into();
            }
        }
        Said::Join(mptcp::Join::Syn { token, address, .. }) => {
            (row.token, row.address) = (token.into(), address.into());
        }
        Said::Join(mptcp::Join::Answer { address, .. }) => row.address = address.into(),
        Said::Other(next) if kind == ADD_ADDRESS => row.address = next.map_or(-1, i16::from),
        Said::Join(mptcp::Join::Third { .. }) | Said::Other(_) => {}
    }
    row
}

/// What names the connection of an end with this key: RFC 8684 section 3.1 has SHA-256 for it, version 0 has
/// SHA-1 (RFC 6824 section 3.1).
fn token_of(version: u8, key: u64) -> u32 {
    if version == 0 {
        let hash = Sha1::digest(key.to_be_bytes());
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
    } else {
        keys::token_of(key)
    }
}

fn udp(payload: &[u8], octets: usize, most: usize, row: &mut Row, batch: &mut Batch) -> Option<()> {
    ports(payload, row)?;
    let header = udp::Header::read(payload)?;
    let fixed = udp::HEADER_BYTES as usize;
    // What is to be segmented later may have no length, and a first fragment has less than it says.
    let length = match usize::from(header.length) {
        0 => octets,
        length => length.min(octets),
    };
    if length < fixed {
        row.fault = fault::DAMAGED;
        return Some(());
    }
    let datagram = &payload[fixed..length.min(payload.len())];
    let common = COMMON_HEADER_BYTES as usize;
    if header.ports.contains(&SCTP_IN_UDP) && length >= fixed + common + 4 && datagram.len() >= common {
        row.protocol = SCTP;
        row.in_udp = true;
        // Of several packets in one that is cut apart later, UDP's length may be that of the first.
        return sctp(&payload[fixed..], octets - fixed, most, row, batch);
    }
    row.payload = (length - fixed) as i32;
    let mut head = [0; HEAD_BYTES];
    let captured = datagram.len().min(head.len());
    head[..captured].copy_from_slice(&datagram[..captured]);
    batch.datagrams.push(DatagramRow { packet: batch.len() as i32, captured: captured as u8, head });
    Some(())
}

/// Chunks up to the end, to the first that contradicts the packet's length, or to zeros (which some systems
/// put behind the last one).
fn sctp(payload: &[u8], octets: usize, most: usize, row: &mut Row, batch: &mut Batch) -> Option<()> {
    let common = COMMON_HEADER_BYTES as usize;
    ports(payload, row)?;
    let (_checksum, tag) = (be32(payload, 8)?, be32(payload, 4)?);
    row.tag = tag.into();
    row.payload = octets.saturating_sub(common) as i32;
    let first = batch.chunks.len();
    let mut at = common;
    while at + 4 <= payload.len() {
        if payload[at..].starts_with(&payload[..8]) {
            // The next packet of several that the sender's system cuts apart later (`UDP_SEGMENT`).
            at += common;
            continue;
        }
        let rest = &payload[at..];
        if rest[..4] == [0; 4] {
            return Some(());
        }
        let chunk = ChunkHeader::of_cut(rest).filter(|chunk| at + usize::from(chunk.length) <= most + 3);
        let Some(chunk) = chunk.filter(|_| batch.chunks.len() - first < MOST_CHUNKS) else {
            row.fault = fault::CUT_CHUNKS;
            return Some(());
        };
        add_chunk(chunk, batch);
        at += usize::from(chunk.length).next_multiple_of(4);
    }
    if at + 4 <= octets {
        row.fault = fault::CUT_CHUNKS;
    }
    Some(())
}

fn add_chunk(chunk: ChunkHeader<'_>, batch: &mut Batch) {
    let numbers = chunk.numbers();
    let number = batch.chunks.len() as i32;
    if let Some(cumulative) = numbers.tsn {
        let tsn = |offset: u16| i64::from(cumulative) + i64::from(offset);
        for block in numbers.gap_blocks() {
            batch.gaps.push(GapRow { chunk: number, start: tsn(block.start), end: tsn(block.end) + 1 });
        }
    }
    let identity = match chunk.kind {
        chunk::HEARTBEAT | chunk::HEARTBEAT_ACK => {
            let mut hasher = hasher();
            hasher.write(chunk.value);
            hasher.finish()
        }
        _ => 0,
    };
    batch.chunks.push(ChunkRow {
        packet: batch.len() as i32,
        kind: chunk.kind,
        flags: chunk.flags,
        octets: chunk.length.into(),
        number: numbers.tsn.map_or(-1, i64::from),
        data: numbers.data.into(),
        stream: numbers.stream.map_or(-1, i32::from),
        window: numbers.a_rwnd.map_or(-1, i64::from),
        tag: numbers.initiate_tag.map_or(-1, i64::from),
        duplicates: numbers.duplicates.into(),
        identity,
    });
}
