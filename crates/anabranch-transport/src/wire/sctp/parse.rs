//! An SCTP packet from bytes that cannot be trusted (RFC 9260 section 3).

use std::net::IpAddr;

use super::SctpPacket;
use super::authentication::check_signature;
use super::chunk::{
    Abort, Asconf, AsconfAck, Chunk, Cookie, Data, ErrorCause, ForwardTsn, GapBlock, HeartbeatInfo, IData,
    IForwardTsn, Illegal, InitAck, NrSack, Opaque, Sack, StateCookie,
};
use super::codes::{self, TAG_REFLECTED, chunk};
use super::cookie::Listed;
use super::fault::{Fault, SHORT, malformed};
use super::init::Beginning;
use super::reconfig::Reconfig;
use crate::wire::bytes::{Malformed, Reader};
use crate::wire::sctp::context::SctpReceiving;

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

impl SctpPacket {
    /// Reads a packet: everything behind the IP header, or behind the UDP header if it is encapsulated in UDP
    /// (RFC 6951).
    ///
    /// A chunk that is cut off at the end is [illegal](Chunk::Illegal) (RFC 9260 section 6.10).
    ///
    /// # Errors
    /// When the bytes are not a packet, the checksum is wrong, or what is signed is not genuine, so that
    /// nothing in the packet can be trusted.
    pub fn parse(bytes: &[u8], receiving: &mut impl SctpReceiving) -> Result<Parsed, Malformed> {
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
        receiving: &mut impl SctpReceiving,
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
        receiving: &mut impl SctpReceiving,
        listed: &mut Listed,
    ) -> Result<Chunk, Fault> {
        let Self { kind, flags, value, .. } = *self;
        let mut reader = Reader(value);
        let short = Fault::Silent(SHORT);
        Ok(match kind {
            chunk::ABORT => Chunk::Abort(Abort::parse(flags, reader)),
            chunk::ASCONF => Chunk::Asconf(Box::new(Asconf::parse(reader, receiving).ok_or(short)?)),
            chunk::ASCONF_ACK => Chunk::AsconfAck(Box::new(AsconfAck::parse(reader).ok_or(short)?)),
            chunk::COOKIE_ACK => Chunk::CookieAck,
            chunk::COOKIE_ECHO => {
                // RFC 9260 section 5.1.5: such a cookie is silently discarded.
                let cookie = StateCookie::verified(value, receiving.secret(), ports, listed)
                    .ok_or(Fault::Silent(malformed("a cookie is not ours")))?;
                Chunk::CookieEcho(Box::new(Cookie::Own(cookie)))
            }
            chunk::DATA => Chunk::Data(Data::parse(flags, reader, receiving)?),
            chunk::ERROR => match ErrorCause::parse_first(&mut reader) {
                // Of several causes, all are kept as they came, unless the first one is to be acted on.
                Some(cause) if reader.is_empty() || matches!(cause, ErrorCause::StaleCookie { .. }) => {
                    Chunk::Error(cause)
                }
                _ => self.opaque(),
            },
            chunk::FORWARD_TSN => ForwardTsn::parse(reader).map_or_else(|| self.opaque(), Chunk::ForwardTsn),
            chunk::HEARTBEAT => HeartbeatInfo::parse(reader).map_or_else(|| self.opaque(), Chunk::Heartbeat),
            chunk::HEARTBEAT_ACK => {
                HeartbeatInfo::parse(reader).map_or_else(|| self.opaque(), Chunk::HeartbeatAck)
            }
            chunk::I_DATA => Chunk::IData(IData::parse(flags, reader, receiving)?),
            chunk::I_FORWARD_TSN => Chunk::IForwardTsn(IForwardTsn::parse(reader).ok_or(short)?),
            chunk::INIT => {
                let Beginning { init, unrecognized, .. } =
                    Beginning::parse(reader, &mut listed.addresses, kind)?;
                Chunk::Init(Box::new(init), unrecognized.into())
            }
            chunk::INIT_ACK => Chunk::InitAck(Box::new(InitAck::parse(reader, ports, receiving, listed)?)),
            chunk::NR_SACK => Chunk::NrSack(flags, Box::new(NrSack::parse(reader).ok_or(short)?)),
            chunk::RECONFIG => Reconfig::parse(reader)
                .map_or_else(|| self.opaque(), |reconfig| Chunk::Reconfig(Box::new(reconfig))),
            chunk::SACK => Chunk::Sack(flags, Sack::parse(reader).ok_or(short)?),
            chunk::SHUTDOWN => Chunk::Shutdown { cumulative_tsn: reader.u32().ok_or(short)? },
            chunk::SHUTDOWN_ACK => Chunk::ShutdownAck,
            chunk::SHUTDOWN_COMPLETE => Chunk::ShutdownComplete { tag_reflected: flags & TAG_REFLECTED != 0 },
            _ => self.opaque(),
        })
    }

    fn opaque(&self) -> Chunk {
        Chunk::Opaque(Box::new(Opaque { kind: self.kind, flags: self.flags, value: self.value.into() }))
    }
}
