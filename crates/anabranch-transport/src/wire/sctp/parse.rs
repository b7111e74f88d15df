//! An SCTP packet from bytes that cannot be trusted (RFC 9260 section 3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

use super::SctpPacket;
use super::authentication::{COOKIE_CODE_BYTES, Hmac, is_genuine, is_own_cookie};
use super::chunk::{
    Abort, AddressChange, AddressError, AddressRequest, AddressResponse, Asconf, AsconfAck, Chunk, Cookie,
    Data, ErrorCause, ForwardTsn, GapBlock, HeartbeatInfo, IData, IForwardTsn, Illegal, Init, InitAck,
    NrSack, Opaque, OtherCause, PairMark, RefusedRequest, Sack, SkippedMessage, SkippedStream, StateCookie,
};
use super::codes::{self, SKIPPED_UNORDERED, TAG_REFLECTED, cause, chunk, data_flag, parameter};
use super::emit::{
    COOKIE_ADDRESSES, COOKIE_ASCONF, COOKIE_FORWARD_TSN, COOKIE_FURTHER_NR_SACK, COOKIE_INTERLEAVING,
    COOKIE_IPV6, COOKIE_RECONFIG, COOKIE_SHA_256, COOKIE_TIE_TAG, HEARTBEAT_MARK,
};
use super::reconfig::Reconfig;
use super::tlv::next_value;
use crate::ground::{IpVersion, PathId, Payload};
use crate::time::{Duration, Time};
use crate::wire::bytes::{Append as _, Malformed, Piece, Reader, Receiving, Secret};

/// An SCTP packet that came as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The packet.
    pub packet: SctpPacket,
    /// The addresses that an INIT or INIT ACK in it lists, or that our own cookie in it keeps.
    pub addresses: Vec<IpAddr>,
    /// The peer's key vector that our own cookie in it keeps (RFC 4895 section 6.1); empty if there is none.
    pub key_vector: Vec<u8>,
}

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "SCTP", problem }
}

const SHORT: Malformed = malformed("a field lies behind the end");

impl SctpPacket {
    /// Reads a packet: everything behind the IP header, or behind the UDP header if it is encapsulated in UDP
    /// (RFC 6951).
    ///
    /// A chunk that is cut off at the end is [illegal](Chunk::Illegal) (RFC 9260 section 6.10).
    ///
    /// # Errors
    /// When the bytes are not a packet, the checksum is wrong, or what is signed is not genuine, so that
    /// nothing in the packet can be trusted.
    pub fn parse(bytes: &[u8], receiving: &mut impl Receiving) -> Result<Parsed, Malformed> {
        let mut reader = Reader(bytes);
        let mut header = || Some((reader.u16()?, reader.u16()?, reader.u32()?, reader.u32()?.swap_bytes()));
        let (source_port, destination_port, verification_tag, checksum) =
            header().ok_or(malformed("there is no common header"))?;
        if source_port == 0 || destination_port == 0 {
            return Err(malformed("a port is 0"));
        }
        let in_its_place = crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &[0; 4]);
        if crc32c::crc32c_append(in_its_place, &bytes[12..]) != checksum {
            return Err(malformed("the checksum is wrong"));
        }
        let ports = [source_port, destination_port];
        let mut listed = Listed::default();
        let mut chunks = Vec::new();
        let mut is_signed = false;
        while !reader.is_empty() {
            let whole = reader.0;
            let Some(header) = ChunkHeader::read(&mut reader) else {
                // Section 6.10: that is forbidden. The sender of such an INIT is unknown yet, and whether an
                // NR-SACK was agreed on; if not, it has to be passed over (section 3.2).
                if let [kind, flags, _, _, value @ ..] = whole
                    && codes::is_known(*kind)
                    && !matches!(*kind, chunk::INIT | chunk::NR_SACK)
                {
                    let chunk = Opaque { kind: *kind, flags: *flags, value: value.into() };
                    let cause = ErrorCause::violation("a chunk is cut off");
                    chunks.push(Chunk::Illegal(Box::new(Illegal { chunk, cause })));
                }
                break;
            };
            let padding = header.value.len().next_multiple_of(4) - header.value.len();
            // The padding of the last chunk may be missing.
            reader.take(padding.min(reader.0.len()));
            match header.kind {
                chunk::PAD => {
                    if let Some(Chunk::Heartbeat(info)) = chunks.last_mut() {
                        let length = (4 + header.value.len()).next_multiple_of(4);
                        info.padding = u16::try_from(length).unwrap_or(65_532);
                    }
                }
                chunk::AUTH => {
                    if std::mem::replace(&mut is_signed, true) {
                        return Err(malformed("there are two AUTH chunks"));
                    }
                    chunks.push(Chunk::Auth(check_signature(header.value, whole, receiving)?));
                }
                // RFC 5061 section 4.1: only signed ones count.
                chunk::ASCONF | chunk::ASCONF_ACK if !is_signed => {}
                _ => chunks.push(header.chunk(ports, receiving, &mut listed)?),
            }
            if !codes::is_known(header.kind) && header.kind & codes::READ_ON == 0 {
                break;
            }
        }
        if chunks.is_empty() {
            return Err(malformed("there is no chunk"));
        }
        let alone = |chunk: &Chunk| {
            matches!(chunk, Chunk::Init(..) | Chunk::InitAck(_) | Chunk::ShutdownComplete { .. })
                || matches!(chunk, Chunk::Illegal(illegal) if illegal.is_init() || illegal.is_init_ack())
        };
        if chunks.len() > 1 && chunks.iter().any(alone) {
            // RFC 9260 section 6.10.
            return Err(malformed("INIT, INIT ACK and SHUTDOWN COMPLETE come alone"));
        }
        let first = chunks.remove(0);
        let packet = SctpPacket { source_port, destination_port, verification_tag, first, rest: chunks };
        let Listed { addresses, key_vector } = listed;
        Ok(Parsed { packet, addresses, key_vector })
    }
}

/// What a packet lists about its sender.
#[derive(Default)]
struct Listed {
    addresses: Vec<IpAddr>,
    key_vector: Vec<u8>,
}

/// Checks the signature of a packet (RFC 4895 section 6.3). `value` is that of the AUTH chunk with which
/// `signed` begins.
fn check_signature(value: &[u8], signed: &[u8], receiving: &impl Receiving) -> Result<Hmac, Malformed> {
    let mut reader = Reader(value);
    let (shared_key, algorithm) = (reader.u16(), reader.u16());
    let algorithm = algorithm.and_then(Hmac::of).filter(|hmac| reader.0.len() == hmac.bytes());
    let Some(hmac) = algorithm.filter(|_| shared_key == Some(0)) else {
        return Err(malformed("an AUTH chunk is signed in a way that was not agreed on"));
    };
    let key = receiving.association_key().ok_or(malformed("an AUTH chunk without an association"))?;
    let mut blank = signed.to_vec();
    blank[8..8 + hmac.bytes()].fill(0);
    if is_genuine(hmac, key, &blank, reader.0) {
        Ok(hmac)
    } else {
        Err(malformed("an AUTH chunk is not genuine"))
    }
}

/// A chunk's header and what it contains, without padding.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader<'a> {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its length in bytes, header included.
    pub length: u16,
    /// What it contains, as far as it is there.
    pub value: &'a [u8],
}

/// Numbers of a chunk that a capture has; each is [`None`] if such a chunk has none or it is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers<'a> {
    /// DATA, I-DATA: the TSN. SACK, NR-SACK, SHUTDOWN: the cumulative TSN. FORWARD TSN, I-FORWARD-TSN: the
    /// new one. INIT, INIT ACK: the initial TSN.
    pub tsn: Option<u32>,
    /// DATA, I-DATA: the stream.
    pub stream: Option<u16>,
    /// DATA, I-DATA: bytes of user data.
    pub data: u16,
    /// SACK, NR-SACK, INIT, INIT ACK: the receiver's window in bytes.
    pub a_rwnd: Option<u32>,
    /// INIT, INIT ACK: the tag.
    pub initiate_tag: Option<u32>,
    /// SACK, NR-SACK: how many TSNs it reports as duplicate.
    pub duplicates: u16,
    /// SACK, NR-SACK: Gap Ack Blocks of either kind.
    blocks: &'a [u8],
}

impl Numbers<'_> {
    /// The Gap Ack Blocks.
    pub fn gap_blocks(&self) -> impl Iterator<Item = GapBlock> {
        let (blocks, _) = self.blocks.as_chunks::<4>();
        let block = |&[a, b, c, d]: &[u8; 4]| GapBlock {
            start: u16::from_be_bytes([a, b]),
            end: u16::from_be_bytes([c, d]),
        };
        blocks.iter().map(block)
    }
}

/// Lengths of DATA and I-DATA without user data (RFC 9260 section 3.3.1, RFC 8260 section 2.1).
const DATA_BYTES: u16 = 16;
const I_DATA_BYTES: u16 = 20;

impl<'a> ChunkHeader<'a> {
    /// Reads a chunk; [`None`] if no whole chunk is left.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let (kind, flags, length) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let value = reader.take(usize::from(length).checked_sub(4)?)?;
        Some(Self { kind, flags, length, value })
    }

    /// Reads the chunk with which these bytes begin, which may end within it; [`None`] if they end within its
    /// header, or its length is none.
    pub fn of_cut(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (kind, flags, length) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let contained = usize::from(length).checked_sub(4)?;
        let value = &reader.0[..contained.min(reader.0.len())];
        Some(Self { kind, flags, length, value })
    }

    /// Its numbers, as far as they are there, without a check.
    pub fn numbers(&self) -> Numbers<'a> {
        let mut numbers = Numbers::default();
        let mut reader = Reader(self.value);
        match self.kind {
            chunk::DATA | chunk::I_DATA => {
                (numbers.tsn, numbers.stream) = (reader.u32(), reader.u16());
                let header = if self.kind == chunk::DATA { DATA_BYTES } else { I_DATA_BYTES };
                numbers.data = self.length.saturating_sub(header);
            }
            chunk::INIT | chunk::INIT_ACK => {
                (numbers.initiate_tag, numbers.a_rwnd) = (reader.u32(), reader.u32());
                let _streams = reader.u32();
                numbers.tsn = reader.u32();
            }
            chunk::SACK | chunk::NR_SACK => {
                (numbers.tsn, numbers.a_rwnd) = (reader.u32(), reader.u32());
                let (gaps, others) = (reader.u16().unwrap_or(0), reader.u16().unwrap_or(0));
                let blocks = if self.kind == chunk::SACK {
                    numbers.duplicates = others;
                    usize::from(gaps)
                } else {
                    // draft-natarajan-tsvwg-sctp-nrsack section 4.2: a second kind of block, duplicates,
                    // reserved.
                    numbers.duplicates = reader.u16().unwrap_or(0);
                    let _reserved = reader.u16();
                    usize::from(gaps) + usize::from(others)
                };
                numbers.blocks = &reader.0[..(4 * blocks).min(reader.0.len())];
            }
            chunk::FORWARD_TSN | chunk::I_FORWARD_TSN | chunk::SHUTDOWN => numbers.tsn = reader.u32(),
            _ => {}
        }
        numbers
    }

    /// The chunk, in a packet between these ports, or an illegal one (RFC 9260 section 3.3.10.13: fields that
    /// lie beyond its end break the protocol).
    fn chunk(
        &self,
        ports: [u16; 2],
        receiving: &mut impl Receiving,
        listed: &mut Listed,
    ) -> Result<Chunk, Malformed> {
        let known = listed.addresses.len();
        let illegal = |cause| {
            let chunk = Opaque { kind: self.kind, flags: self.flags, value: self.value.into() };
            Chunk::Illegal(Box::new(Illegal { chunk, cause }))
        };
        match self.legal(ports, receiving, listed) {
            Ok(chunk) => Ok(chunk),
            Err(Fault::Silent(problem)) => Err(problem),
            Err(Fault::Told(cause)) => {
                listed.addresses.truncate(known);
                Ok(illegal(cause))
            }
        }
    }

    fn legal(
        &self,
        ports: [u16; 2],
        receiving: &mut impl Receiving,
        listed: &mut Listed,
    ) -> Result<Chunk, Fault> {
        let Self { kind, flags, value, .. } = *self;
        let mut reader = Reader(value);
        let tag_reflected = flags & TAG_REFLECTED != 0;
        Ok(match kind {
            chunk::ABORT => Chunk::Abort(Abort { tag_reflected, cause: first_cause(&mut reader) }),
            chunk::ASCONF => Chunk::Asconf(Box::new(asconf(reader, receiving).ok_or(Fault::Silent(SHORT))?)),
            chunk::ASCONF_ACK => Chunk::AsconfAck(Box::new(asconf_ack(reader).ok_or(Fault::Silent(SHORT))?)),
            chunk::COOKIE_ACK => Chunk::CookieAck,
            chunk::COOKIE_ECHO => {
                // RFC 9260 section 5.1.5: such a cookie is silently discarded.
                let cookie = StateCookie::verified(value, receiving.secret(), ports, listed)
                    .ok_or(Fault::Silent(malformed("a cookie is not ours")))?;
                Chunk::CookieEcho(Box::new(Cookie::Own(cookie)))
            }
            chunk::DATA => Chunk::Data(data(flags, reader, receiving)?),
            chunk::ERROR => match first_cause(&mut reader) {
                // Of several causes, all are kept as they came, unless the first one is to be acted on.
                Some(cause) if reader.is_empty() || matches!(cause, ErrorCause::StaleCookie { .. }) => {
                    Chunk::Error(cause)
                }
                _ => self.opaque(),
            },
            chunk::FORWARD_TSN => forward_tsn(reader).map_or_else(|| self.opaque(), Chunk::ForwardTsn),
            chunk::HEARTBEAT => heartbeat_info(reader).map_or_else(|| self.opaque(), Chunk::Heartbeat),
            chunk::HEARTBEAT_ACK => heartbeat_info(reader).map_or_else(|| self.opaque(), Chunk::HeartbeatAck),
            chunk::I_DATA => Chunk::IData(i_data(flags, reader, receiving)?),
            chunk::I_FORWARD_TSN => Chunk::IForwardTsn(i_forward_tsn(reader).ok_or(Fault::Silent(SHORT))?),
            chunk::INIT => {
                let Beginning { init, unrecognized, .. } = init(reader, &mut listed.addresses, kind)?;
                Chunk::Init(Box::new(init), unrecognized.into())
            }
            chunk::INIT_ACK => {
                let Beginning { init, cookie, reported, unrecognized } =
                    init(reader, &mut listed.addresses, kind)?;
                // Section 3.3.3: an INIT ACK must have a cookie.
                let missing = [0, 0, 0, 1, 0, parameter::STATE_COOKIE as u8];
                let cookie = cookie.ok_or_else(|| Fault::told(cause::MISSING_PARAMETER, &missing))?;
                let others = &mut Listed::default();
                let cookie = match StateCookie::verified(cookie, receiving.secret(), ports, others) {
                    // This end has opened an association with itself. Addresses and keys are only in the
                    // bytes, which are returned as they came.
                    Some(own) if !own.keeps_addresses && own.key_bytes == 0 => Cookie::Own(own),
                    _ => Cookie::Foreign(cookie.into()),
                };
                let (reported, unrecognized) = (reported.into(), unrecognized.into());
                Chunk::InitAck(Box::new(InitAck { init, cookie, reported, unrecognized }))
            }
            chunk::NR_SACK => {
                Chunk::NrSack(flags, Box::new(nr_sack(&mut reader).ok_or(Fault::Silent(SHORT))?))
            }
            chunk::RECONFIG => Reconfig::parse(reader)
                .map_or_else(|| self.opaque(), |reconfig| Chunk::Reconfig(Box::new(reconfig))),
            chunk::SACK => Chunk::Sack(flags, sack(&mut reader).ok_or(Fault::Silent(SHORT))?),
            chunk::SHUTDOWN => Chunk::Shutdown { cumulative_tsn: reader.u32().ok_or(Fault::Silent(SHORT))? },
            chunk::SHUTDOWN_ACK => Chunk::ShutdownAck,
            chunk::SHUTDOWN_COMPLETE => Chunk::ShutdownComplete { tag_reflected },
            _ => self.opaque(),
        })
    }

    fn opaque(&self) -> Chunk {
        Chunk::Opaque(Box::new(Opaque { kind: self.kind, flags: self.flags, value: self.value.into() }))
    }
}

/// Why a chunk cannot be taken.
enum Fault {
    /// Nothing is to be said about it to the peer.
    Silent(Malformed),
    /// The peer is told by an ABORT with this cause.
    Told(ErrorCause),
}

impl Fault {
    fn told(code: u16, value: &[u8]) -> Self {
        Self::Told(ErrorCause::other(code, value.to_vec()))
    }

    fn violation(words: &str) -> Self {
        Self::Told(ErrorCause::violation(words))
    }
}

impl From<Malformed> for Fault {
    fn from(problem: Malformed) -> Self {
        Self::violation(problem.problem)
    }
}

fn data(flags: u8, mut reader: Reader<'_>, receiving: &mut impl Receiving) -> Result<Data, Fault> {
    let mut header = || Some((reader.u32()?, reader.u16()?, reader.u16()?, reader.u32()?));
    let (tsn, stream, ssn, ppid) = header().ok_or(SHORT)?;
    Ok(Data {
        tsn,
        stream,
        ssn,
        ppid,
        unordered: flags & data_flag::UNORDERED != 0,
        beginning: flags & data_flag::BEGINNING != 0,
        ending: flags & data_flag::ENDING != 0,
        immediate: flags & data_flag::IMMEDIATE != 0,
        payload: kept(Piece::Data { tsn }, reader, receiving)?,
    })
}

fn i_data(flags: u8, mut reader: Reader<'_>, receiving: &mut impl Receiving) -> Result<IData, Fault> {
    let mut header = || {
        let (tsn, stream) = (reader.u32()?, reader.u16()?);
        reader.u16()?;
        Some((tsn, stream, reader.u32()?, reader.u32()?))
    };
    let (tsn, stream, mid, last) = header().ok_or(SHORT)?;
    let beginning = flags & data_flag::BEGINNING != 0;
    let (ppid, fsn) = if beginning { (last, 0) } else { (0, last) };
    let unordered = flags & data_flag::UNORDERED != 0;
    Ok(IData {
        tsn,
        stream,
        mid,
        fsn,
        ppid,
        unordered: flags & data_flag::UNORDERED != 0,
        beginning,
        ending: flags & data_flag::ENDING != 0,
        immediate: flags & data_flag::IMMEDIATE != 0,
        payload: kept(Piece::IData { tsn, stream, unordered, mid, fsn }, reader, receiving)?,
    })
}

fn kept(piece: Piece, reader: Reader<'_>, receiving: &mut impl Receiving) -> Result<Payload, Fault> {
    if reader.is_empty() {
        // RFC 9260 section 6.2.
        let (Piece::Data { tsn } | Piece::IData { tsn, .. }) = piece else { return Err(SHORT.into()) };
        return Err(Fault::told(cause::NO_USER_DATA, &tsn.to_be_bytes()));
    }
    Ok(Payload { offset: receiving.keep(piece, reader.0), length: reader.0.len() as u32 })
}

fn sack(reader: &mut Reader<'_>) -> Option<Sack> {
    let (cumulative_tsn, a_rwnd) = (reader.u32()?, reader.u32()?);
    let counts = [reader.u16()?, 0, reader.u16()?];
    let ([gap_blocks, _], duplicates) = blocks_and_duplicates(reader, counts)?;
    Some(Sack { cumulative_tsn, a_rwnd, gap_blocks, duplicates })
}

fn nr_sack(reader: &mut Reader<'_>) -> Option<NrSack> {
    let (cumulative_tsn, a_rwnd) = (reader.u32()?, reader.u32()?);
    let counts = [reader.u16()?, reader.u16()?, reader.u16()?];
    // Reserved.
    reader.u16()?;
    let ([gap_blocks, final_blocks], duplicates) = blocks_and_duplicates(reader, counts)?;
    let sack = Sack { cumulative_tsn, a_rwnd, gap_blocks, duplicates };
    Some(NrSack { sack, final_blocks: final_blocks.into_vec().into() })
}

type Blocks = SmallVec<[GapBlock; 4]>;

/// Blocks of two kinds and duplicates, of which there are so many.
#[inline]
fn blocks_and_duplicates(reader: &mut Reader<'_>, counts: [u16; 3]) -> Option<([Blocks; 2], Box<[u32]>)> {
    // What the chunk announces does not count until it has been read.
    if reader.0.len() < 4 * counts.map(usize::from).iter().sum::<usize>() {
        return None;
    }
    let [renegable, non_renegable, duplicates] = counts;
    let mut blocks = |count: u16| {
        let mut blocks = SmallVec::with_capacity(count.into());
        for _ in 0..count {
            blocks.push(GapBlock { start: reader.u16()?, end: reader.u16()? });
        }
        Some(blocks)
    };
    let blocks = [blocks(renegable)?, blocks(non_renegable)?];
    let duplicates = (0..duplicates).map(|_| reader.u32()).collect::<Option<_>>()?;
    Some((blocks, duplicates))
}

fn forward_tsn(mut reader: Reader<'_>) -> Option<ForwardTsn> {
    let new_cumulative_tsn = reader.u32()?;
    let count = reader.0.len() / 4;
    let mut next = || Some(SkippedStream { stream: reader.u16()?, ssn: reader.u16()? });
    Some(ForwardTsn { new_cumulative_tsn, streams: (0..count).map(|_| next()).collect::<Option<_>>()? })
}

fn i_forward_tsn(mut reader: Reader<'_>) -> Option<IForwardTsn> {
    let new_cumulative_tsn = reader.u32()?;
    let count = reader.0.len() / 8;
    let mut next = || {
        let (stream, flags, mid) = (reader.u16()?, reader.u16()?, reader.u32()?);
        Some(SkippedMessage { stream, unordered: flags & SKIPPED_UNORDERED != 0, mid })
    };
    Some(IForwardTsn { new_cumulative_tsn, messages: (0..count).map(|_| next()).collect::<Option<_>>()? })
}

/// RFC 9260 section 3.3.2.1: the length of such a parameter is fixed, 8 or 20 octets with its header. A
/// longer one is not an address with something behind it, but is refused altogether.
fn address(kind: u16, value: Reader<'_>) -> Option<IpAddr> {
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

/// The information of a heartbeat, if it is one of ours; that of other implementations is opaque.
fn heartbeat_info(mut reader: Reader<'_>) -> Option<HeartbeatInfo> {
    let (kind, mut info) = next_value(&mut reader)?;
    if kind != parameter::HEARTBEAT_INFO || !reader.is_empty() {
        return None;
    }
    let (sent_at, nonce, path) = (info.u64()?, info.u32()?, info.u8()?);
    if (info.u8()?, info.u16()?) != (0, HEARTBEAT_MARK) {
        return None;
    }
    let pair = if info.is_empty() {
        None
    } else {
        let (number, is_second) = (info.u32()?, info.u32()?);
        let arrived_at = Time::from_nanos(info.u64()?);
        if is_second > 1 || !info.is_empty() {
            return None;
        }
        Some(PairMark { number, is_second: is_second == 1, arrived_at })
    };
    Some(HeartbeatInfo { sent_at: Time::from_nanos(sent_at), nonce, path: PathId(path), padding: 0, pair })
}

/// An INIT, or an INIT ACK.
struct Beginning<'a> {
    init: Init,
    cookie: Option<&'a [u8]>,
    /// Parameters that the peer reports.
    reported: Vec<u8>,
    /// Parameters that are to be reported to the peer as unknown.
    unrecognized: Vec<u8>,
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

/// INIT or INIT ACK, as `chunk_kind` says.
#[expect(clippy::too_many_lines, reason = "one arm for each parameter")]
fn init<'a>(
    mut reader: Reader<'a>,
    addresses: &mut Vec<IpAddr>,
    chunk_kind: u8,
) -> Result<Beginning<'a>, Fault> {
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
                let listed = address(kind, value).ok_or(malformed("an address has another length"))?;
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
    Ok(Beginning { init, cookie, reported, unrecognized })
}

fn asconf(mut reader: Reader<'_>, receiving: &mut impl Receiving) -> Option<Asconf> {
    let serial = reader.u32()?;
    let (kind, value) = next_value(&mut reader)?;
    let ip = match address(kind, value)? {
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
        let address = next_value(&mut value).and_then(|(kind, value)| address(kind, value));
        match address.map(|address| place(change, address, receiving)) {
            Some(Ok((change, path))) => requests.push(AddressRequest { correlation, change, path }),
            Some(Err(cause)) => refused.push(RefusedRequest { correlation, cause, request }),
            None => {
                refused.push(RefusedRequest { correlation, cause: cause::UNRESOLVABLE_ADDRESS, request });
            }
        }
    }
    Some(Asconf { serial, ip, requests, refused })
}

/// The change that a request asks for and the path that it is about, or why it cannot be done (RFC 5061
/// sections 4.3 and 5.2).
fn place(
    change: AddressChange,
    address: IpAddr,
    receiving: &mut impl Receiving,
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

fn asconf_ack(mut reader: Reader<'_>) -> Option<AsconfAck> {
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
    Some(AsconfAck { serial, ip, responses, refused })
}

/// The first error cause, if there is one.
fn first_cause(reader: &mut Reader<'_>) -> Option<ErrorCause> {
    let (code, mut value) = next_value(reader)?;
    Some(match code {
        cause::ILLEGAL_ASCONF_ACK if value.is_empty() => ErrorCause::IllegalAsconfAck,
        cause::STALE_COOKIE => {
            let microseconds = u64::from(value.u32()?);
            ErrorCause::StaleCookie { staleness: Duration::from_nanos(microseconds * 1_000) }
        }
        cause::USER_INITIATED_ABORT if value.is_empty() => ErrorCause::UserInitiatedAbort,
        code => ErrorCause::Other(Box::new(OtherCause { code, value: value.0.into() })),
    })
}

impl StateCookie {
    /// A cookie whose code this end has made, for these ports, and the addresses in it; [`None`] for all
    /// others.
    fn verified(bytes: &[u8], secret: &Secret, ports: [u16; 2], listed: &mut Listed) -> Option<Self> {
        if bytes.len() < Self::BYTES as usize {
            return None;
        }
        let (signed, code) = bytes.split_at(bytes.len() - COOKIE_CODE_BYTES);
        if !is_own_cookie(secret, ports, signed, code) {
            return None;
        }
        let mut reader = Reader(signed);
        let created_at = Time::from_nanos(reader.u64()?);
        let life = Duration::from_nanos(reader.u64()?);
        let (local_tag, local_initial_tsn) = (reader.u32()?, reader.u32()?);
        let (initiate_tag, a_rwnd) = (reader.u32()?, reader.u32()?);
        let (outbound_streams, max_inbound_streams) = (reader.u16()?, reader.u16()?);
        let (initial_tsn, count, abilities) = (reader.u32()?, reader.u8()?, reader.u8()?);
        let key_bytes = reader.u16()?;
        let can = |bit: u8| abilities & bit != 0;
        let peer = Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            max_inbound_streams,
            initial_tsn,
            addresses: count,
            ip: if can(COOKIE_IPV6) { IpVersion::Ipv6 } else { IpVersion::Ipv4 },
            forward_tsn_supported: can(COOKIE_FORWARD_TSN),
            asconf_supported: can(COOKIE_ASCONF),
            hmac: if can(COOKIE_SHA_256) { Hmac::Sha256 } else { Hmac::Sha1 },
            interleaving_supported: can(COOKIE_INTERLEAVING),
            reconfig_supported: can(COOKIE_RECONFIG),
            nr_sack_supported: false,
            names_forward_tsn: false,
            names_address_types: false,
            cookie_preservative: None,
        };
        let keeps_addresses = can(COOKIE_ADDRESSES);
        let tie_tag = if can(COOKIE_TIE_TAG) { Some(reader.u64()?) } else { None };
        let mut cookie = Self {
            created_at,
            life,
            local_tag,
            local_initial_tsn,
            peer,
            tie_tag,
            key_bytes,
            keeps_addresses,
        };
        let kind = match cookie.peer.ip {
            IpVersion::Ipv4 => parameter::IPV4_ADDRESS,
            IpVersion::Ipv6 => parameter::IPV6_ADDRESS,
        };
        for _ in 0..cookie.kept_addresses() {
            let octets = Reader(reader.take(cookie.address_bytes() as usize)?);
            listed.addresses.push(address(kind, octets)?);
        }
        let key_vector = reader.take(usize::from(key_bytes).next_multiple_of(4))?;
        listed.key_vector = key_vector[..key_bytes.into()].into();
        if !reader.is_empty() {
            cookie.peer.nr_sack_supported = reader.u32()? & COOKIE_FURTHER_NR_SACK != 0;
        }
        (bytes.len() == cookie.wire_size() as usize).then_some(cookie)
    }
}
