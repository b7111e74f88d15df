//! SCTP chunks with all their fields and their sizes on the wire (RFC 9260 section 3.3, RFC 3758,
//! RFC 4895, RFC 5061, RFC 8260, draft-natarajan-tsvwg-sctp-nrsack).

use std::net::IpAddr;

use smallvec::SmallVec;

use super::authentication::Hmac;
use super::codes;
use super::reconfig::Reconfig;
use crate::ground::{IpVersion, PathId, Payload};
use crate::time::{Duration, Time};
use crate::wire::bytes::Append as _;

/// Size of a DATA chunk's header in bytes (RFC 9260 section 3.3.1).
pub const DATA_HEADER_BYTES: u32 = 16;
/// Size of an I-DATA chunk's header in bytes (RFC 8260 section 2.1).
pub const I_DATA_HEADER_BYTES: u32 = 20;
/// Length of a SACK chunk without Gap Ack Blocks and duplicates (RFC 9260 section 3.3.4).
pub const SACK_HEADER_BYTES: u32 = 16;
/// Length of an NR-SACK chunk without blocks and duplicates (draft-natarajan-tsvwg-sctp-nrsack section 4.2).
pub const NR_SACK_HEADER_BYTES: u32 = 20;

/// One chunk.
#[derive(Clone, Debug, PartialEq)]
#[repr(u8)]
pub enum Chunk {
    /// Ends the association at once (RFC 9260 section 3.3.7).
    Abort(Abort),
    /// Asks for a change of the sender's addresses (RFC 5061 section 4.1.1).
    Asconf(Box<Asconf>),
    /// Answers [`Chunk::Asconf`] (RFC 5061 section 4.1.2).
    AsconfAck(Box<AsconfAck>),
    /// Authenticates the chunks after it in its packet (RFC 4895 section 4.1).
    Auth(Hmac),
    /// Answers [`Chunk::CookieEcho`] (section 3.3.12).
    CookieAck,
    /// Returns the State Cookie (section 3.3.11).
    CookieEcho(Box<Cookie>),
    /// User data (section 3.3.1).
    Data(Data),
    /// An error that does not end the association (section 3.3.10).
    Error(ErrorCause),
    /// Moves the receiver's cumulative TSN past abandoned data (RFC 3758 section 3.2).
    ForwardTsn(ForwardTsn),
    /// Asks whether a path works (section 3.3.5).
    Heartbeat(HeartbeatInfo),
    /// Answers [`Chunk::Heartbeat`] with its own contents (section 3.3.6).
    HeartbeatAck(HeartbeatInfo),
    /// User data that may alternate with that of other messages (RFC 8260 section 2.1).
    IData(IData),
    /// [`Chunk::ForwardTsn`] for [`Chunk::IData`] (RFC 8260 section 2.3.1).
    IForwardTsn(IForwardTsn),
    /// A chunk that breaks the protocol, so that the association has to be aborted.
    Illegal(Box<Illegal>),
    /// Opens an association (section 3.3.2). The bytes are those parameters, as they came, that this library
    /// does not know and that are to be reported (section 3.2.1).
    Init(Box<Init>, Box<[u8]>),
    /// Answers [`Chunk::Init`] (section 3.3.3).
    InitAck(Box<InitAck>),
    /// Selective acknowledgement that also says what the receiver will not withdraw
    /// (draft-natarajan-tsvwg-sctp-nrsack section 4.2). Its flags are those of [`Chunk::Sack`].
    NrSack(u8, Box<NrSack>),
    /// An unknown chunk, or one with contents that only the peer reads: kept as it came.
    Opaque(Box<Opaque>),
    /// Asks for stream resets, or answers such a request (RFC 6525).
    Reconfig(Box<Reconfig>),
    /// Selective acknowledgement (section 3.3.4). Its flags hold how many packets with data have arrived
    /// since the last one, 0 if that is not stated (Iyengar et al. 2006, section 3.3; `SCTP_SACK_CMT_DAC`).
    Sack(u8, Sack),
    /// No more data will come (section 3.3.8).
    Shutdown {
        /// Last TSN received in sequence.
        cumulative_tsn: u32,
    },
    /// Answers [`Chunk::Shutdown`] (section 3.3.9).
    ShutdownAck,
    /// Answers [`Chunk::ShutdownAck`] (section 3.3.13).
    ShutdownComplete {
        /// The T bit: the packet's verification tag is the sender's own.
        tag_reflected: bool,
    },
}

/// A DATA chunk.
#[expect(clippy::struct_excessive_bools, reason = "the flags of RFC 9260 section 3.3.1")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; no meaning when unordered.
    pub ssn: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// U bit.
    pub unordered: bool,
    /// B bit: first fragment of its message.
    pub beginning: bool,
    /// E bit: last fragment of its message.
    pub ending: bool,
    /// I bit: acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// The user data.
    pub payload: Payload,
}

/// An I-DATA chunk.
#[expect(clippy::struct_excessive_bools, reason = "the flags of RFC 8260 section 2.1")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IData {
    /// Transmission sequence number.
    pub tsn: u32,
    /// Stream identifier.
    pub stream: u16,
    /// Message Identifier: the message's number among those of its stream with the same U bit.
    pub mid: u32,
    /// Fragment Sequence Number; 0 in the first fragment, which has the payload protocol identifier in this
    /// place.
    pub fsn: u32,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// U bit.
    pub unordered: bool,
    /// B bit: first fragment of its message.
    pub beginning: bool,
    /// E bit: last fragment of its message.
    pub ending: bool,
    /// I bit: acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// The user data.
    pub payload: Payload,
}

/// A SACK chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sack {
    /// Last TSN received in sequence.
    pub cumulative_tsn: u32,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// Runs of TSNs received after a gap.
    pub gap_blocks: SmallVec<[GapBlock; 4]>,
    /// TSNs received more than once since the last SACK.
    pub duplicates: Box<[u32]>,
}

/// An NR-SACK chunk (draft-natarajan-tsvwg-sctp-nrsack section 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrSack {
    /// What it has in common with SACK. Its Gap Ack Blocks are those that the receiver may still withdraw.
    pub sack: Sack,
    /// The Non-Renegable Gap Ack Blocks: what they cover is never sent again.
    pub final_blocks: Box<[GapBlock]>,
}

impl NrSack {
    /// A SACK that acknowledges the same data, with blocks in order that do not overlap.
    pub fn to_sack(&self) -> Sack {
        let all = self.sack.gap_blocks.iter().chain(&self.final_blocks);
        let mut blocks: Vec<GapBlock> = all.copied().filter(|block| block.start <= block.end).collect();
        blocks.sort_unstable_by_key(|block| block.start);
        let mut gap_blocks: SmallVec<[GapBlock; 4]> = SmallVec::new();
        for block in blocks {
            match gap_blocks.last_mut() {
                Some(last) if u32::from(block.start) <= u32::from(last.end) + 1 => {
                    last.end = last.end.max(block.end);
                }
                _ => gap_blocks.push(block),
            }
        }
        Sack { gap_blocks, duplicates: self.sack.duplicates.clone(), ..self.sack }
    }
}

/// A run of received TSNs, as offsets from the cumulative TSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapBlock {
    /// Offset of the first TSN.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

/// A FORWARD TSN chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The cumulative TSN the receiver should have.
    pub new_cumulative_tsn: u32,
    /// Streams in which ordered messages were abandoned.
    pub streams: Box<[SkippedStream]>,
}

/// A stream in which ordered messages were abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedStream {
    /// Stream identifier.
    pub stream: u16,
    /// The largest stream sequence number that was abandoned.
    pub ssn: u16,
}

/// An I-FORWARD-TSN chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The cumulative TSN the receiver should have.
    pub new_cumulative_tsn: u32,
    /// Streams in which messages were abandoned.
    pub messages: Box<[SkippedMessage]>,
}

/// A stream in which messages were abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// U bit: unordered messages.
    pub unordered: bool,
    /// The largest Message Identifier that was abandoned.
    pub mid: u32,
}

/// Sender-specific heartbeat information: 16 bytes behind a parameter header, 32 in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatInfo {
    /// When the heartbeat was sent.
    pub sent_at: Time,
    /// A random value that proves the path (RFC 9260 section 5.4).
    pub nonce: u32,
    /// The path it was sent on.
    pub path: PathId,
    /// Size of the PAD chunk (RFC 4820) behind the heartbeat, in bytes; the answer has none.
    pub padding: u16,
    /// Its part in a pair of heartbeats that measures the rate of a path (Nishiyama et al.), if it belongs to
    /// one.
    pub pair: Option<PairMark>,
}

/// One heartbeat of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairMark {
    /// The number of the pair.
    pub number: u32,
    /// Whether it is the second heartbeat of the pair.
    pub is_second: bool,
    /// In the answer, when the heartbeat arrived.
    pub arrived_at: Time,
}

impl HeartbeatInfo {
    /// Size of a HEARTBEAT chunk with an ordinary heartbeat: chunk header, parameter header, 16 bytes of
    /// information, as in ns-2.
    pub const ORDINARY_BYTES: u32 = 24;
    /// The length of a heartbeat of a pair.
    pub const PAIR_BYTES: u32 = 40;

    const fn bytes(&self) -> u32 {
        if self.pair.is_some() { Self::PAIR_BYTES } else { Self::ORDINARY_BYTES }
    }
}

/// An ASCONF chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asconf {
    /// Counts the sender's ASCONF chunks, from its initial TSN on.
    pub serial: u32,
    /// The version of the addresses. One address of the sender comes before the requests.
    pub ip: IpVersion,
    /// The requests, in order.
    pub requests: Vec<AddressRequest>,
    /// Further requests, which cannot be carried out.
    pub refused: Vec<RefusedRequest>,
}

/// A request without an address or of an unknown type, or another one that cannot be carried out here;
/// it occurs only in chunks that came as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// Identifies the request in the answer.
    pub correlation: u32,
    /// Why the request is refused: the code of an error cause.
    pub cause: u16,
    /// The request, with its header and without padding.
    pub request: Box<[u8]>,
}

/// One request of an ASCONF chunk (RFC 5061 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// Identifies the request in the answer.
    pub correlation: u32,
    /// The requested change.
    pub change: AddressChange,
    /// The path to the address of the sender that the request is about.
    pub path: PathId,
}

/// A change of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// Add IP Address (RFC 5061 section 4.2.1).
    Add,
    /// Delete IP Address (section 4.2.2).
    Delete,
    /// Delete all addresses but that of this path, from which the request is sent: it names the wildcard
    /// address (section 5.1 D8).
    DeleteOthers,
    /// Set Primary IP Address (section 4.2.4): asks the peer to send to the address from now on.
    SetPrimary,
}

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

/// A chunk that breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The chunk as it came.
    pub chunk: Opaque,
    /// The cause that an ABORT gives.
    pub cause: ErrorCause,
}

impl Illegal {
    /// Whether it is an INIT.
    pub const fn is_init(&self) -> bool {
        self.chunk.kind == codes::chunk::INIT
    }

    /// Whether it is an INIT ACK.
    pub const fn is_init_ack(&self) -> bool {
        self.chunk.kind == codes::chunk::INIT_ACK
    }

    /// The tag that its sender wants to see, if the chunk is an INIT or an INIT ACK that has one.
    pub fn initiate_tag(&self) -> Option<u32> {
        let tag = self.chunk.value.first_chunk().map(|tag| u32::from_be_bytes(*tag));
        tag.filter(|tag| *tag != 0 && (self.is_init() || self.is_init_ack()))
    }
}

/// A State Cookie as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// A cookie of another implementation, which only that one can read.
    Foreign(Box<[u8]>),
    /// One of this end's own cookies. If it came as bytes, its code was right.
    Own(StateCookie),
}

impl Cookie {
    const fn wire_size(&self) -> u32 {
        match self {
            Self::Foreign(bytes) => padded(bytes.len() as u32),
            Self::Own(cookie) => cookie.wire_size(),
        }
    }
}

/// A chunk of which only the header is interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// What follows the header, without padding.
    pub value: Box<[u8]>,
}

/// The State Cookie: all that the passive end must know to open the association
/// (RFC 9260 section 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCookie {
    /// When it was made.
    pub created_at: Time,
    /// The cookie's lifetime.
    pub life: Duration,
    /// The tag of the end that made it.
    pub local_tag: u32,
    /// The first TSN of the end that made it.
    pub local_initial_tsn: u32,
    /// The contents of the peer's INIT.
    pub peer: Init,
    /// If the cookie answers an INIT for an association that exists, the number by which that association
    /// recognises it (RFC 9260 section 5.2.2; the two Tie-Tags as one).
    pub tie_tag: Option<u64>,
    /// The length of the peer's key vector, which is in the cookie, in bytes: only a peer whose INIT has come
    /// as bytes has one (RFC 4895 section 6.1).
    pub key_bytes: u16,
    /// Whether the addresses that it listed are in the cookie: only an INIT that has come as bytes has any to
    /// be kept.
    pub keeps_addresses: bool,
}

impl StateCookie {
    /// Its size in bytes: creation time and life (8 each), tag and TSN (4 each), the peer's INIT
    /// fields (20) and a 20-byte authentication code (RFC 9260 section 5.1.3).
    pub const BYTES: u32 = 8 + 8 + 4 + 4 + 20 + 20;

    /// How much longer a cookie is if NR-SACK was agreed on, for which there is no bit in the others.
    pub(super) const FURTHER_BYTES: u32 = 4;

    pub(super) const fn wire_size(&self) -> u32 {
        let tie_tag = if self.tie_tag.is_some() { 8 } else { 0 };
        let further = if self.peer.nr_sack_supported { Self::FURTHER_BYTES } else { 0 };
        let addresses = self.kept_addresses() * self.address_bytes();
        Self::BYTES + tie_tag + addresses + padded(self.key_bytes as u32) + further
    }

    /// How many addresses are in the cookie: those that the INIT listed, and the one that it came from.
    pub(super) const fn kept_addresses(&self) -> u32 {
        if self.keeps_addresses { self.peer.addresses as u32 } else { 0 }
    }

    /// The size of each address in bytes.
    pub(super) const fn address_bytes(&self) -> u32 {
        match self.peer.ip {
            IpVersion::Ipv4 => 4,
            IpVersion::Ipv6 => 16,
        }
    }
}

/// An ABORT chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The T bit: the packet's verification tag is the sender's own.
    pub tag_reflected: bool,
    /// Why the association was aborted, if the chunk says so.
    pub cause: Option<ErrorCause>,
}

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
        Self { code: codes::cause::COOKIE_WHILE_SHUTTING_DOWN, value: Box::default() }
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
        Self { code: codes::cause::RESTART_WITH_NEW_ADDRESSES, value: value.into() }
    }
}

impl ErrorCause {
    /// Invalid Stream Identifier (RFC 9260 section 3.3.10.1).
    pub fn invalid_stream(stream: u16) -> Self {
        let mut value = Vec::with_capacity(4);
        value.u16(stream);
        value.u16(0);
        Self::other(codes::cause::INVALID_STREAM, value)
    }

    /// Unrecognized Parameters (section 3.3.10.8), which holds these parameters as they came.
    pub fn unrecognized(parameters: &[u8]) -> Self {
        Self::other(codes::cause::UNRECOGNIZED_PARAMETERS, parameters.to_vec())
    }

    /// Protocol Violation (section 3.3.10.13), described in these words.
    pub fn violation(words: &str) -> Self {
        Self::other(codes::cause::PROTOCOL_VIOLATION, words.as_bytes().to_vec())
    }

    pub(super) fn other(code: u16, value: Vec<u8>) -> Self {
        Self::Other(Box::new(OtherCause { code, value: value.into() }))
    }

    fn wire_size(&self) -> u32 {
        match self {
            Self::Other(other) => 4 + padded(other.value.len() as u32),
            Self::StaleCookie { .. } => 8,
            Self::IllegalAsconfAck | Self::UserInitiatedAbort => 4,
        }
    }
}

impl Opaque {
    const fn wire_size(&self) -> u32 {
        4 + padded(self.value.len() as u32)
    }

    /// The answer to the chunk, if it is a heartbeat (RFC 9260 section 8.3): its information as it came.
    pub fn heartbeat_ack(&self) -> Option<Self> {
        let kind = codes::chunk::HEARTBEAT_ACK;
        (self.kind == codes::chunk::HEARTBEAT).then(|| Self { kind, flags: 0, value: self.value.clone() })
    }

    /// The ERROR chunk that reports the chunk as unknown, if its type asks for that (section 3.2); it
    /// contains the chunk.
    pub fn report(&self) -> Option<Self> {
        if codes::is_known(self.kind) || self.kind & codes::REPORT == 0 {
            return None;
        }
        let shown = &self.value[..self.value.len().min(codes::MOST_REPORTED)];
        Some(Self::reporting(self.kind, self.flags, (4 + self.value.len()) as u16, shown))
    }

    /// An ERROR chunk that reports a chunk as unknown and shows this much of its value.
    fn reporting(kind: u8, flags: u8, length: u16, shown: &[u8]) -> Self {
        let mut value = Vec::with_capacity(8 + shown.len());
        value.u16(codes::cause::UNRECOGNIZED_CHUNK);
        value.u16(8 + shown.len() as u16);
        value.extend([kind, flags]);
        value.u16(length);
        value.extend(shown);
        Self { kind: codes::chunk::ERROR, flags: 0, value: value.into() }
    }
}

impl ForwardTsn {
    /// The report on a FORWARD TSN that was not agreed on. Its chunk type asks for one (RFC 9260 section
    /// 3.2).
    pub fn report(&self) -> Opaque {
        let mut chunk = Vec::with_capacity(8 + 4 * self.streams.len());
        let shown = self.streams.iter().take(codes::MOST_REPORTED / 4 - 2);
        chunk.u32(self.new_cumulative_tsn);
        shown.for_each(|skipped| {
            chunk.u16(skipped.stream);
            chunk.u16(skipped.ssn);
        });
        let length = 8 + 4 * self.streams.len() as u16;
        Opaque::reporting(codes::chunk::FORWARD_TSN, 0, length, &chunk)
    }
}

impl IForwardTsn {
    /// The same for an I-FORWARD-TSN.
    pub fn report(&self) -> Opaque {
        let mut chunk = Vec::with_capacity(8 + 8 * self.messages.len());
        let shown = self.messages.iter().take(codes::MOST_REPORTED / 8 - 1);
        chunk.u32(self.new_cumulative_tsn);
        shown.for_each(|skipped| {
            chunk.u16(skipped.stream);
            chunk.u16(if skipped.unordered { codes::SKIPPED_UNORDERED } else { 0 });
            chunk.u32(skipped.mid);
        });
        let length = 8 + 8 * self.messages.len() as u16;
        Opaque::reporting(codes::chunk::I_FORWARD_TSN, 0, length, &chunk)
    }
}

impl Data {
    /// Length on the wire in bytes, padding included.
    pub const fn wire_size(&self) -> u32 {
        DATA_HEADER_BYTES + padded(self.payload.length)
    }
}

impl IData {
    /// Length on the wire in bytes, padding included.
    pub const fn wire_size(&self) -> u32 {
        I_DATA_HEADER_BYTES + padded(self.payload.length)
    }
}

impl Init {
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
}

impl Asconf {
    fn wire_size(&self) -> u32 {
        let address = address_bytes(self.ip);
        let refused: u32 = self.refused.iter().map(|it| padded(it.request.len() as u32)).sum();
        8 + address + self.requests.len() as u32 * (8 + address) + refused
    }
}

impl AsconfAck {
    fn wire_size(&self) -> u32 {
        // An error is a cause of 4 bytes that contains the request.
        let error = 4 + 8 + address_bytes(self.ip);
        let size = |response: &AddressResponse| 8 + if response.error.is_some() { error } else { 0 };
        let refused: u32 = self.refused.iter().map(|it| 8 + 4 + padded(it.request.len() as u32)).sum();
        8 + self.responses.iter().map(size).sum::<u32>() + refused
    }
}

/// An address parameter (RFC 9260 section 3.3.2.1).
const fn address_bytes(ip: IpVersion) -> u32 {
    match ip {
        IpVersion::Ipv4 => 8,
        IpVersion::Ipv6 => 20,
    }
}

impl Chunk {
    /// The chunk's name in lower case and, if it has one, the TSN: that of data, of the last data
    /// acknowledged, or of the last data given up.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        match self {
            Self::Abort(_) => ("abort", None),
            Self::Asconf(_) => ("asconf", None),
            Self::AsconfAck(_) => ("asconf_ack", None),
            Self::Auth(_) => ("auth", None),
            Self::CookieAck => ("cookie_ack", None),
            Self::CookieEcho(_) => ("cookie_echo", None),
            Self::Data(data) => ("data", Some(data.tsn)),
            Self::Error(_) => ("error", None),
            Self::ForwardTsn(forward) => ("forward_tsn", Some(forward.new_cumulative_tsn)),
            Self::Heartbeat(_) => ("heartbeat", None),
            Self::HeartbeatAck(_) => ("heartbeat_ack", None),
            Self::IData(data) => ("i_data", Some(data.tsn)),
            Self::IForwardTsn(forward) => ("i_forward_tsn", Some(forward.new_cumulative_tsn)),
            Self::Illegal(_) => ("illegal", None),
            Self::Init(..) => ("init", None),
            Self::InitAck(_) => ("init_ack", None),
            Self::NrSack(_, nr_sack) => ("nr_sack", Some(nr_sack.sack.cumulative_tsn)),
            Self::Opaque(_) => ("opaque", None),
            Self::Reconfig(_) => ("re_config", None),
            Self::Sack(_, sack) => ("sack", Some(sack.cumulative_tsn)),
            Self::Shutdown { cumulative_tsn } => ("shutdown", Some(*cumulative_tsn)),
            Self::ShutdownAck => ("shutdown_ack", None),
            Self::ShutdownComplete { .. } => ("shutdown_complete", None),
        }
    }

    /// Length on the wire in bytes, padding included.
    #[inline]
    pub fn wire_size(&self) -> u32 {
        match self {
            Self::Data(data) => data.wire_size(),
            Self::ForwardTsn(forward) => 8 + 4 * forward.streams.len() as u32,
            Self::Heartbeat(info) => info.bytes() + u32::from(info.padding),
            Self::HeartbeatAck(info) => info.bytes(),
            Self::Sack(_, sack) => {
                SACK_HEADER_BYTES + 4 * (sack.gap_blocks.len() + sack.duplicates.len()) as u32
            }
            rare => rare.rare_wire_size(),
        }
    }

    /// The size of chunks that do not come with every packet.
    #[inline(never)]
    fn rare_wire_size(&self) -> u32 {
        match self {
            Self::Abort(abort) => 4 + abort.cause.as_ref().map_or(0, ErrorCause::wire_size),
            Self::Asconf(asconf) => asconf.wire_size(),
            Self::AsconfAck(ack) => ack.wire_size(),
            // RFC 4895 section 4.1.
            Self::Auth(hmac) => 8 + hmac.bytes() as u32,
            Self::CookieEcho(cookie) => 4 + cookie.wire_size(),
            Self::Error(cause) => 4 + cause.wire_size(),
            Self::IData(data) => data.wire_size(),
            // RFC 8260 section 2.3.1: 8 bytes for each stream.
            Self::IForwardTsn(forward) => 8 + 8 * forward.messages.len() as u32,
            Self::Illegal(illegal) => illegal.chunk.wire_size(),
            Self::NrSack(_, nr_sack) => {
                let NrSack { sack, final_blocks } = &**nr_sack;
                let entries = sack.gap_blocks.len() + final_blocks.len() + sack.duplicates.len();
                NR_SACK_HEADER_BYTES + 4 * entries as u32
            }
            Self::Init(init, unrecognized) => 20 + init.parameters_bytes(false) + unrecognized.len() as u32,
            Self::InitAck(ack) => {
                let InitAck { init, cookie, reported, unrecognized } = &**ack;
                let reports = reported.len() + 4 * parameters(reported).count();
                let others = (reports + unrecognized.len()) as u32;
                20 + init.parameters_bytes(true) + 4 + cookie.wire_size() + others
            }
            Self::Opaque(opaque) => opaque.wire_size(),
            Self::Reconfig(reconfig) => reconfig.wire_size(),
            Self::Shutdown { .. } => 8,
            Self::CookieAck | Self::ShutdownAck | Self::ShutdownComplete { .. } => 4,
            Self::Data(_)
            | Self::ForwardTsn(_)
            | Self::Heartbeat(_)
            | Self::HeartbeatAck(_)
            | Self::Sack(..) => unreachable!("measured by the caller"),
        }
    }
}

/// The parameters in these bytes, each with its header and its padding.
pub(super) fn parameters(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let (parameter, rest) = bytes.split_at_checked(length.next_multiple_of(4).max(4))?;
        bytes = rest;
        Some(parameter)
    })
}

/// The length of a chunk with its padding to 4 bytes (RFC 9260 section 3.2).
const fn padded(bytes: u32) -> u32 {
    (bytes + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sctp::SctpPacket;
    use smallvec::smallvec;

    fn size_with_ip(mut chunks: Vec<Chunk>) -> u32 {
        let (first, rest) = (chunks.remove(0), chunks);
        let packet = SctpPacket { source_port: 1, destination_port: 2, verification_tag: 3, first, rest };
        IpVersion::Ipv4.header_bytes() + packet.wire_size()
    }

    fn data(length: u32) -> Chunk {
        Chunk::Data(Data {
            tsn: 1,
            stream: 0,
            ssn: 0,
            ppid: 0,
            unordered: true,
            beginning: true,
            ending: true,
            immediate: false,
            payload: Payload { offset: 0, length },
        })
    }

    #[test]
    fn sizes_are_those_of_the_voip_study() {
        assert_eq!(size_with_ip(vec![data(160)]), 32 + 176);
        assert_eq!(size_with_ip(vec![data(160); 8]), 32 + 8 * 176);
        let mut sack =
            Sack { cumulative_tsn: 1, a_rwnd: 1, gap_blocks: smallvec![], duplicates: Box::default() };
        assert_eq!(size_with_ip(vec![Chunk::Sack(0, sack.clone())]), 48);
        sack.gap_blocks.push(GapBlock { start: 2, end: 3 });
        assert_eq!(size_with_ip(vec![Chunk::Sack(0, sack)]), 52);
        let info = HeartbeatInfo { sent_at: Time::ZERO, nonce: 1, path: PathId(0), padding: 0, pair: None };
        assert_eq!(size_with_ip(vec![Chunk::Heartbeat(info)]), 56);
        let forward = ForwardTsn { new_cumulative_tsn: 1, streams: Box::default() };
        assert_eq!(size_with_ip(vec![Chunk::ForwardTsn(forward)]), 40);
    }

    #[test]
    fn user_data_is_padded_to_four_bytes() {
        assert_eq!(data(1).wire_size(), 20);
        assert_eq!(data(4).wire_size(), 20);
        assert_eq!(data(5).wire_size(), 24);
    }

    #[test]
    fn what_is_moved_per_packet_is_small() {
        assert_eq!(size_of::<Chunk>(), 56);
    }
}
