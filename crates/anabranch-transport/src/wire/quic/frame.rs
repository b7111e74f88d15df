//! Frames (RFC 9000 section 19, RFC 9221, RFC 10069 section 4).

use arrayvec::ArrayVec;

use super::codes as kind;
use super::connection_id::ConnectionId;
use super::{Fields, Part, malformed, varint};
use crate::flow::Payload;
use crate::wire::bytes::{Append as _, Malformed, Reader};

/// Ranges of an ACK frame that are read: a sender need not hear of older ones (RFC 9000 section 13.2.4).
pub const MAX_ACK_RANGES: usize = 64;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Acknowledges packets (section 19.3).
    Ack(Box<Ack>),
    /// How the peer is to acknowledge (draft-ietf-quic-ack-frequency-14 section 4).
    AckFrequency {
        /// Counts the frames of this kind.
        sequence: u64,
        /// How many packets that elicit an acknowledgement may come without one.
        threshold: u64,
        /// How long an acknowledgement may be delayed, in microseconds.
        delay: u64,
        /// How far packets may be out of order before that is acknowledged at once; 0 for any distance.
        reordering: u64,
    },
    /// Ends the connection (section 19.19).
    ConnectionClose {
        /// The code, of QUIC or of the application.
        code: u64,
        /// The type of the frame that broke a rule, 0 if it is not known; [`None`] if the application closes.
        frame: Option<u64>,
        /// The length of the reason in bytes, which is not kept.
        reason: u64,
    },
    /// A part of the handshake (section 19.6).
    Crypto {
        /// Where it starts in the handshake's stream of this level.
        position: u64,
        /// Its bytes.
        data: Payload,
    },
    /// The connection's limit holds data back (section 19.12).
    DataBlocked {
        /// The limit.
        limit: u64,
    },
    /// A message that is not sent again (RFC 9221 section 4).
    Datagram {
        /// Its bytes.
        data: Payload,
        /// Whether the frame says how long it is; otherwise it ends with the packet.
        has_length: bool,
    },
    /// The server has confirmed the handshake (section 19.20).
    HandshakeDone,
    /// The peer is to acknowledge at once (draft-ietf-quic-ack-frequency-14 section 5).
    ImmediateAck,
    /// How much the connection may send in all (section 19.9).
    MaxData {
        /// Bytes.
        limit: u64,
    },
    /// How much may be sent on a stream (section 19.10).
    MaxStreamData {
        /// The stream.
        stream: u64,
        /// Bytes.
        limit: u64,
    },
    /// The greatest path ID that the peer may use (RFC 10069 section 4.6).
    MaxPathId {
        /// The ID.
        limit: u32,
    },
    /// How many streams may be opened in all (section 19.11).
    MaxStreams {
        /// Whether they have two directions.
        is_bidirectional: bool,
        /// How many.
        limit: u64,
    },
    /// Another connection ID by which the peer may call this end (section 19.15; RFC 10069 section 4.4).
    NewConnectionId {
        /// The path ID that it is for; [`None`] in a frame without one, which is about path 0.
        path: Option<u32>,
        /// Its number.
        sequence: u64,
        /// Those with smaller numbers are to be retired.
        retire_prior_to: u64,
        /// The ID, of 1 to 20 bytes.
        id: ConnectionId,
        /// What a stateless reset of it has.
        reset_token: [u8; 16],
    },
    /// A token for a later connection (section 19.7).
    NewToken {
        /// The token.
        token: Box<[u8]>,
    },
    /// Nothing, this many times (section 19.1).
    Padding {
        /// Bytes.
        length: u32,
    },
    /// The sender gives a path up (RFC 10069 section 4.2).
    PathAbandon {
        /// The path ID.
        path: u32,
        /// Why (section 4.2.1 there).
        code: u64,
    },
    /// Asks for an answer on the path (section 19.17).
    PathChallenge {
        /// What the answer has to have.
        data: [u8; 8],
    },
    /// The answer (section 19.18).
    PathResponse {
        /// What was asked for.
        data: [u8; 8],
    },
    /// The sender has no connection ID for a path (RFC 10069 section 4.7).
    PathCidsBlocked {
        /// The path ID.
        path: u32,
        /// The number of the ID that it waits for.
        next: u64,
    },
    /// How the sender would have a path used (RFC 10069 section 4.3).
    PathStatus {
        /// The path ID.
        path: u32,
        /// Counts the frames about this path.
        sequence: u64,
        /// Whether it is a path like others, and not one that waits until they fail.
        is_available: bool,
    },
    /// The greatest path ID holds a path back (RFC 10069 section 4.7).
    PathsBlocked {
        /// The ID.
        limit: u32,
    },
    /// Asks for an acknowledgement (section 19.2).
    Ping,
    /// The sender gives a stream up (section 19.4).
    ResetStream {
        /// The stream.
        stream: u64,
        /// The application's code.
        code: u64,
        /// How many bytes it had sent.
        final_size: u64,
    },
    /// A connection ID of the peer is no longer used (section 19.16; RFC 10069 section 4.5).
    RetireConnectionId {
        /// The path ID that it is for; [`None`] in a frame without one, which is about path 0.
        path: Option<u32>,
        /// Its number.
        sequence: u64,
    },
    /// The receiver gives a stream up (section 19.5).
    StopSending {
        /// The stream.
        stream: u64,
        /// The application's code.
        code: u64,
    },
    /// Data of a stream (section 19.8).
    Stream(Stream),
    /// A stream's limit holds data back (section 19.13).
    StreamDataBlocked {
        /// The stream.
        stream: u64,
        /// The limit.
        limit: u64,
    },
    /// The number of streams holds one back (section 19.14).
    StreamsBlocked {
        /// Whether they have two directions.
        is_bidirectional: bool,
        /// The limit.
        limit: u64,
    },
}

/// A STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream, whose last two bits say who opened it and whether it has two directions (section 2.1).
    pub id: u64,
    /// Where the data starts in the stream.
    pub position: u64,
    /// The data.
    pub data: Payload,
    /// Whether the stream ends with it.
    pub fin: bool,
    /// Whether the frame says how long the data is; otherwise it ends with the packet.
    pub has_length: bool,
}

/// An ACK frame, or a `PATH_ACK` frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The path ID whose packets it acknowledges (RFC 10069 section 4.1); [`None`] in an ACK frame.
    pub path: Option<u32>,
    /// First and last number of each run that has arrived, the largest run first; at least one, at most
    /// [`MAX_ACK_RANGES`].
    pub ranges: ArrayVec<(u64, u64), MAX_ACK_RANGES>,
    /// How long the largest one has waited, in units of 2 to the power of `ack_delay_exponent` us.
    pub delay: u64,
    /// Packets that came with ECT(0), ECT(1) and CE, if they are counted (section 19.3.2).
    pub ecn: Option<[u64; 3]>,
}

impl Frame {
    /// Whether the peer has to acknowledge it (section 13.2).
    pub const fn elicits_ack(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::ConnectionClose { .. } | Self::Padding { .. })
    }

    /// Whether a packet of nothing else tests a path, and moves nobody to it (section 9.1).
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::NewConnectionId { .. }
                | Self::Padding { .. }
                | Self::PathChallenge { .. }
                | Self::PathResponse { .. }
        )
    }

    /// Its name in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack(ack) if ack.path.is_some() => "path_ack",
            Self::Ack(_) => "ack",
            Self::AckFrequency { .. } => "ack_frequency",
            Self::ConnectionClose { .. } => "connection_close",
            Self::Crypto { .. } => "crypto",
            Self::DataBlocked { .. } => "data_blocked",
            Self::Datagram { .. } => "datagram",
            Self::HandshakeDone => "handshake_done",
            Self::ImmediateAck => "immediate_ack",
            Self::MaxData { .. } => "max_data",
            Self::MaxPathId { .. } => "max_path_id",
            Self::MaxStreamData { .. } => "max_stream_data",
            Self::MaxStreams { .. } => "max_streams",
            Self::NewConnectionId { path: Some(_), .. } => "path_new_connection_id",
            Self::NewConnectionId { .. } => "new_connection_id",
            Self::NewToken { .. } => "new_token",
            Self::Padding { .. } => "padding",
            Self::PathAbandon { .. } => "path_abandon",
            Self::PathChallenge { .. } => "path_challenge",
            Self::PathCidsBlocked { .. } => "path_cids_blocked",
            Self::PathResponse { .. } => "path_response",
            Self::PathStatus { is_available: true, .. } => "path_status_available",
            Self::PathStatus { .. } => "path_status_backup",
            Self::PathsBlocked { .. } => "paths_blocked",
            Self::Ping => "ping",
            Self::ResetStream { .. } => "reset_stream",
            Self::RetireConnectionId { path: Some(_), .. } => "path_retire_connection_id",
            Self::RetireConnectionId { .. } => "retire_connection_id",
            Self::StopSending { .. } => "stop_sending",
            Self::Stream(_) => "stream",
            Self::StreamDataBlocked { .. } => "stream_data_blocked",
            Self::StreamsBlocked { .. } => "streams_blocked",
        }
    }

    /// Its length on the wire in bytes.
    pub fn size(&self) -> usize {
        let v = varint::size;
        // A type of two bytes in the place of one, and the path ID.
        let of_path = |path: Option<u32>| path.map_or(0, |path| 1 + v(path.into()));
        match self {
            Self::Ack(ack) => ack.size(),
            Self::AckFrequency { sequence, threshold, delay, reordering } => {
                v(kind::ACK_FREQUENCY) + v(*sequence) + v(*threshold) + v(*delay) + v(*reordering)
            }
            Self::ConnectionClose { code, frame, reason } => {
                1 + v(*code) + frame.map_or(0, v) + v(*reason) + *reason as usize
            }
            Self::Crypto { position, data } => {
                1 + v(*position) + v(data.length.into()) + data.length as usize
            }
            Self::DataBlocked { limit }
            | Self::MaxData { limit }
            | Self::MaxStreams { limit, .. }
            | Self::StreamsBlocked { limit, .. } => 1 + v(*limit),
            Self::Datagram { data, has_length } => {
                1 + if *has_length { v(data.length.into()) } else { 0 } + data.length as usize
            }
            Self::HandshakeDone | Self::ImmediateAck | Self::Ping => 1,
            Self::MaxPathId { limit } | Self::PathsBlocked { limit } => 2 + v((*limit).into()),
            Self::MaxStreamData { stream, limit } | Self::StreamDataBlocked { stream, limit } => {
                1 + v(*stream) + v(*limit)
            }
            Self::NewConnectionId { path, sequence, retire_prior_to, id, .. } => {
                1 + of_path(*path) + v(*sequence) + v(*retire_prior_to) + 1 + id.len() + 16
            }
            Self::NewToken { token } => 1 + v(token.len() as u64) + token.len(),
            Self::Padding { length } => *length as usize,
            Self::PathAbandon { path, code: number }
            | Self::PathCidsBlocked { path, next: number }
            | Self::PathStatus { path, sequence: number, .. } => 2 + v((*path).into()) + v(*number),
            Self::PathChallenge { .. } | Self::PathResponse { .. } => 9,
            Self::ResetStream { stream, code, final_size } => 1 + v(*stream) + v(*code) + v(*final_size),
            Self::RetireConnectionId { path, sequence } => 1 + of_path(*path) + v(*sequence),
            Self::StopSending { stream, code } => 1 + v(*stream) + v(*code),
            Self::Stream(stream) => stream.size(),
        }
    }

    /// Appends its bytes.
    pub fn emit(&self, fields: &mut impl Fields, out: &mut Vec<u8>) {
        let mut numbers = |code: u64, values: &[u64]| {
            varint::emit(code, out);
            for value in values {
                varint::emit(*value, out);
            }
        };
        match self {
            Self::Ack(ack) => ack.emit(out),
            Self::AckFrequency { sequence, threshold, delay, reordering } => {
                numbers(kind::ACK_FREQUENCY, &[*sequence, *threshold, *delay, *reordering]);
            }
            Self::ConnectionClose { code, frame: Some(frame), reason } => {
                numbers(kind::CONNECTION_CLOSE, &[*code, *frame, *reason]);
                out.resize(out.len() + *reason as usize, b' ');
            }
            Self::ConnectionClose { code, frame: None, reason } => {
                numbers(kind::CONNECTION_CLOSE_APPLICATION, &[*code, *reason]);
                out.resize(out.len() + *reason as usize, b' ');
            }
            Self::Crypto { position, data } => {
                numbers(kind::CRYPTO, &[*position, data.length.into()]);
                fields.append(Part::Crypto, *data, out);
            }
            Self::DataBlocked { limit } => numbers(kind::DATA_BLOCKED, &[*limit]),
            Self::Datagram { data, has_length } => {
                if *has_length {
                    numbers(kind::DATAGRAM_WITH_LENGTH, &[data.length.into()]);
                } else {
                    numbers(kind::DATAGRAM, &[]);
                }
                fields.append(Part::Datagram, *data, out);
            }
            Self::HandshakeDone => numbers(kind::HANDSHAKE_DONE, &[]),
            Self::ImmediateAck => numbers(kind::IMMEDIATE_ACK, &[]),
            Self::MaxData { limit } => numbers(kind::MAX_DATA, &[*limit]),
            Self::MaxPathId { limit } => numbers(kind::MAX_PATH_ID, &[(*limit).into()]),
            Self::MaxStreamData { stream, limit } => numbers(kind::MAX_STREAM_DATA, &[*stream, *limit]),
            Self::MaxStreams { is_bidirectional, limit } => {
                numbers(kind::MAX_STREAMS_BIDI + u64::from(!is_bidirectional), &[*limit]);
            }
            Self::NewConnectionId { path, sequence, retire_prior_to, id, reset_token } => {
                match path {
                    None => numbers(kind::NEW_CONNECTION_ID, &[*sequence, *retire_prior_to]),
                    Some(path) => {
                        let values = [(*path).into(), *sequence, *retire_prior_to];
                        numbers(kind::PATH_NEW_CONNECTION_ID, &values);
                    }
                }
                out.u8(id.len() as u8);
                out.extend(id.bytes());
                out.extend(reset_token);
            }
            Self::NewToken { token } => {
                numbers(kind::NEW_TOKEN, &[token.len() as u64]);
                out.extend(token);
            }
            Self::Padding { length } => out.resize(out.len() + *length as usize, kind::PADDING as u8),
            Self::PathAbandon { path, code } => numbers(kind::PATH_ABANDON, &[(*path).into(), *code]),
            Self::PathCidsBlocked { path, next } => {
                numbers(kind::PATH_CIDS_BLOCKED, &[(*path).into(), *next]);
            }
            Self::PathStatus { path, sequence, is_available } => {
                numbers(kind::PATH_STATUS_BACKUP + u64::from(*is_available), &[(*path).into(), *sequence]);
            }
            Self::PathsBlocked { limit } => numbers(kind::PATHS_BLOCKED, &[(*limit).into()]),
            Self::PathChallenge { data } => {
                numbers(kind::PATH_CHALLENGE, &[]);
                out.extend(data);
            }
            Self::PathResponse { data } => {
                numbers(kind::PATH_RESPONSE, &[]);
                out.extend(data);
            }
            Self::Ping => numbers(kind::PING, &[]),
            Self::ResetStream { stream, code, final_size } => {
                numbers(kind::RESET_STREAM, &[*stream, *code, *final_size]);
            }
            Self::RetireConnectionId { path: None, sequence } => {
                numbers(kind::RETIRE_CONNECTION_ID, &[*sequence]);
            }
            Self::RetireConnectionId { path: Some(path), sequence } => {
                numbers(kind::PATH_RETIRE_CONNECTION_ID, &[(*path).into(), *sequence]);
            }
            Self::StopSending { stream, code } => numbers(kind::STOP_SENDING, &[*stream, *code]),
            Self::Stream(stream) => stream.emit(fields, out),
            Self::StreamDataBlocked { stream, limit } => {
                numbers(kind::STREAM_DATA_BLOCKED, &[*stream, *limit]);
            }
            Self::StreamsBlocked { is_bidirectional, limit } => {
                numbers(kind::STREAMS_BLOCKED_BIDI + u64::from(!is_bidirectional), &[*limit]);
            }
        }
    }

    /// Reads all frames of a packet's content.
    ///
    /// # Errors
    /// When it has none, or one that is not whole, not known, or breaks a rule of its own (section 12.4).
    pub fn parse_all(bytes: &[u8], fields: &mut impl Fields) -> Result<Vec<Self>, Malformed> {
        let mut reader = Reader(bytes);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            frames.push(Self::parse(&mut reader, fields)?);
        }
        if frames.is_empty() {
            return Err(malformed("a packet has no frame"));
        }
        Ok(frames)
    }

    fn parse(reader: &mut Reader<'_>, fields: &mut impl Fields) -> Result<Self, Malformed> {
        const SHORT: Malformed = malformed("a frame is not whole");
        let before = reader.0.len();
        let code = varint::read(reader).ok_or(SHORT)?;
        // Section 12.4: the type has its shortest form.
        if before - reader.0.len() != varint::size(code) {
            return Err(malformed("a frame's type is longer than it need be"));
        }
        match code {
            kind::PADDING => {
                let more = reader.0.iter().take_while(|byte| **byte == 0).count();
                reader.take(more);
                Ok(Self::Padding { length: 1 + more as u32 })
            }
            kind::ACK | kind::ACK_ECN | kind::PATH_ACK | kind::PATH_ACK_ECN => {
                Ack::parse(reader, code).map(|ack| Self::Ack(Box::new(ack)))
            }
            kind::STREAM..=kind::STREAM_LAST => Stream::parse(reader, code, fields).map(Self::Stream),
            kind::CRYPTO | kind::DATAGRAM | kind::DATAGRAM_WITH_LENGTH => {
                Self::parse_data(reader, code, fields)
            }
            kind::NEW_CONNECTION_ID => Self::parse_new_connection_id(reader, None),
            kind::PATH_NEW_CONNECTION_ID => {
                let path = path_id(reader).ok_or(SHORT)??;
                Self::parse_new_connection_id(reader, Some(path))
            }
            kind::PATH_ABANDON..=kind::PATH_CIDS_BLOCKED => {
                Self::parse_of_paths(reader, code).ok_or(SHORT)?
            }
            _ => Self::parse_numbers(reader, code).ok_or(SHORT)?,
        }
    }

    /// A frame that consists of numbers, and perhaps of bytes that are kept with it; [`None`] if it is not
    /// whole.
    fn parse_numbers(reader: &mut Reader<'_>, code: u64) -> Option<Result<Self, Malformed>> {
        let mut number = || varint::read(reader);
        Some(Ok(match code {
            kind::PING => Self::Ping,
            kind::HANDSHAKE_DONE => Self::HandshakeDone,
            kind::IMMEDIATE_ACK => Self::ImmediateAck,
            kind::ACK_FREQUENCY => Self::AckFrequency {
                sequence: number()?,
                threshold: number()?,
                delay: number()?,
                reordering: number()?,
            },
            kind::RESET_STREAM => {
                Self::ResetStream { stream: number()?, code: number()?, final_size: number()? }
            }
            kind::STOP_SENDING => Self::StopSending { stream: number()?, code: number()? },
            kind::MAX_DATA => Self::MaxData { limit: number()? },
            kind::MAX_STREAM_DATA => Self::MaxStreamData { stream: number()?, limit: number()? },
            kind::MAX_STREAMS_BIDI | kind::MAX_STREAMS_UNI => {
                Self::MaxStreams { is_bidirectional: code == kind::MAX_STREAMS_BIDI, limit: number()? }
            }
            kind::DATA_BLOCKED => Self::DataBlocked { limit: number()? },
            kind::STREAM_DATA_BLOCKED => Self::StreamDataBlocked { stream: number()?, limit: number()? },
            kind::STREAMS_BLOCKED_BIDI | kind::STREAMS_BLOCKED_UNI => Self::StreamsBlocked {
                is_bidirectional: code == kind::STREAMS_BLOCKED_BIDI,
                limit: number()?,
            },
            kind::RETIRE_CONNECTION_ID => Self::RetireConnectionId { path: None, sequence: number()? },
            kind::CONNECTION_CLOSE | kind::CONNECTION_CLOSE_APPLICATION => {
                let error = number()?;
                let frame = if code == kind::CONNECTION_CLOSE { Some(number()?) } else { None };
                let reason = number()?;
                reader.take(usize::try_from(reason).ok()?)?;
                Self::ConnectionClose { code: error, frame, reason }
            }
            kind::NEW_TOKEN => {
                let length = number()?;
                let token = reader.take(usize::try_from(length).ok()?)?;
                if token.is_empty() {
                    return Some(Err(malformed("a token is empty")));
                }
                Self::NewToken { token: token.into() }
            }
            kind::PATH_CHALLENGE => Self::PathChallenge { data: reader.take(8)?.try_into().ok()? },
            kind::PATH_RESPONSE => Self::PathResponse { data: reader.take(8)?.try_into().ok()? },
            _ => return Some(Err(malformed("a frame's type is not known"))),
        }))
    }

    /// A frame about a path (RFC 10069 section 4) that consists of numbers; [`None`] if it is not whole.
    fn parse_of_paths(reader: &mut Reader<'_>, code: u64) -> Option<Result<Self, Malformed>> {
        let path = match path_id(reader)? {
            Ok(path) => path,
            Err(error) => return Some(Err(error)),
        };
        let mut number = || varint::read(reader);
        Some(Ok(match code {
            kind::PATH_ABANDON => Self::PathAbandon { path, code: number()? },
            kind::PATH_STATUS_AVAILABLE | kind::PATH_STATUS_BACKUP => {
                let is_available = code == kind::PATH_STATUS_AVAILABLE;
                Self::PathStatus { path, sequence: number()?, is_available }
            }
            kind::PATH_RETIRE_CONNECTION_ID => {
                Self::RetireConnectionId { path: Some(path), sequence: number()? }
            }
            kind::MAX_PATH_ID => Self::MaxPathId { limit: path },
            kind::PATHS_BLOCKED => Self::PathsBlocked { limit: path },
            kind::PATH_CIDS_BLOCKED => Self::PathCidsBlocked { path, next: number()? },
            _ => return Some(Err(malformed("a frame's type is not known"))),
        }))
    }

    fn parse_data(reader: &mut Reader<'_>, code: u64, fields: &mut impl Fields) -> Result<Self, Malformed> {
        const SHORT: Malformed = malformed("a frame with data is not whole");
        let position = if code == kind::CRYPTO { varint::read(reader).ok_or(SHORT)? } else { 0 };
        let bytes = take_data(reader, code != kind::DATAGRAM).ok_or(SHORT)?;
        if position + bytes.len() as u64 > varint::MAX {
            return Err(malformed("a stream has at most 2^62 - 1 bytes"));
        }
        Ok(if code == kind::CRYPTO {
            Self::Crypto { position, data: fields.kept(Part::Crypto, position, bytes) }
        } else {
            let data = fields.kept(Part::Datagram, 0, bytes);
            Self::Datagram { data, has_length: code == kind::DATAGRAM_WITH_LENGTH }
        })
    }

    fn parse_new_connection_id(reader: &mut Reader<'_>, path: Option<u32>) -> Result<Self, Malformed> {
        const SHORT: Malformed = malformed("a NEW_CONNECTION_ID frame is not whole");
        let sequence = varint::read(reader).ok_or(SHORT)?;
        let retire_prior_to = varint::read(reader).ok_or(SHORT)?;
        let length = usize::from(reader.u8().ok_or(SHORT)?);
        let id = reader.take(length).ok_or(SHORT)?;
        let id = ConnectionId::new(id).filter(|id| id.len() > 0);
        let id = id.ok_or(malformed("a connection ID has 1 to 20 bytes"))?;
        let token = reader.take(16).and_then(|token| token.try_into().ok()).ok_or(SHORT)?;
        if retire_prior_to > sequence {
            return Err(malformed("a new connection ID retires itself"));
        }
        Ok(Self::NewConnectionId { path, sequence, retire_prior_to, id, reset_token: token })
    }
}

/// A path ID, which has 32 bits (RFC 10069 section 2.4); [`None`] if it is not whole.
fn path_id(reader: &mut Reader<'_>) -> Option<Result<u32, Malformed>> {
    let path = varint::read(reader)?;
    Some(u32::try_from(path).map_err(|_| malformed("a path ID is above 2^32 - 1")))
}

/// Data with its length in front, or up to the end of the packet.
fn take_data<'a>(reader: &mut Reader<'a>, has_length: bool) -> Option<&'a [u8]> {
    let length = if has_length { usize::try_from(varint::read(reader)?).ok()? } else { reader.0.len() };
    reader.take(length)
}

impl Stream {
    /// The length of a frame whose data starts there, without data and without its length, in bytes.
    pub fn overhead(id: u64, position: u64) -> usize {
        1 + varint::size(id) + if position > 0 { varint::size(position) } else { 0 }
    }

    /// Bits of the type (section 19.8).
    const OFF: u64 = 4;
    const LEN: u64 = 2;
    const FIN: u64 = 1;

    fn size(&self) -> usize {
        let length = if self.has_length { varint::size(self.data.length.into()) } else { 0 };
        Self::overhead(self.id, self.position) + length + self.data.length as usize
    }

    fn emit(&self, fields: &mut impl Fields, out: &mut Vec<u8>) {
        let bits = if self.position > 0 { Self::OFF } else { 0 }
            | if self.has_length { Self::LEN } else { 0 }
            | if self.fin { Self::FIN } else { 0 };
        varint::emit(kind::STREAM | bits, out);
        varint::emit(self.id, out);
        if self.position > 0 {
            varint::emit(self.position, out);
        }
        if self.has_length {
            varint::emit(self.data.length.into(), out);
        }
        fields.append(Part::Stream(self.id), self.data, out);
    }

    fn parse(reader: &mut Reader<'_>, code: u64, fields: &mut impl Fields) -> Result<Self, Malformed> {
        const SHORT: Malformed = malformed("a STREAM frame is not whole");
        let id = varint::read(reader).ok_or(SHORT)?;
        let position = if code & Self::OFF != 0 { varint::read(reader).ok_or(SHORT)? } else { 0 };
        let has_length = code & Self::LEN != 0;
        let bytes = take_data(reader, has_length).ok_or(SHORT)?;
        if position + bytes.len() as u64 > varint::MAX {
            return Err(malformed("a stream has at most 2^62 - 1 bytes"));
        }
        let data = fields.kept(Part::Stream(id), position, bytes);
        Ok(Self { id, position, data, fin: code & Self::FIN != 0, has_length })
    }
}

impl Ack {
    fn size(&self) -> usize {
        let (mut size, v) = (0, varint::size);
        self.for_each_number(|number| size += v(number));
        size
    }

    fn emit(&self, out: &mut Vec<u8>) {
        self.for_each_number(|number| varint::emit(number, out));
    }

    /// The numbers that it consists of, its type included.
    fn for_each_number(&self, mut each: impl FnMut(u64)) {
        let Some(&(first, last)) = self.ranges.first() else { return };
        let has_ecn = u64::from(self.ecn.is_some());
        match self.path {
            None => each(kind::ACK + has_ecn),
            Some(path) => {
                each(kind::PATH_ACK + has_ecn);
                each(path.into());
            }
        }
        each(last);
        each(self.delay);
        each(self.ranges.len() as u64 - 1);
        each(last - first);
        for runs in self.ranges.windows(2) {
            let [(newer, _), (first, last)] = *runs else { continue };
            // Section 19.3.1: one less than the number of those that are missing between them.
            each(newer - last - 2);
            each(last - first);
        }
        self.ecn.iter().flatten().for_each(|count| each(*count));
    }

    fn parse(reader: &mut Reader<'_>, code: u64) -> Result<Self, Malformed> {
        const SHORT: Malformed = malformed("an ACK frame is not whole");
        const BELOW: Malformed = malformed("an ACK frame acknowledges packets below 0");
        let is_of_path = matches!(code, kind::PATH_ACK | kind::PATH_ACK_ECN);
        let path = if is_of_path { Some(path_id(reader).ok_or(SHORT)??) } else { None };
        let mut number = || varint::read(reader).ok_or(SHORT);
        let (mut last, delay, count) = (number()?, number()?, number()?);
        let mut ack = Self { path, delay, ..Self::default() };
        let mut first = last.checked_sub(number()?).ok_or(BELOW)?;
        let _ = ack.ranges.try_push((first, last));
        for _ in 0..count {
            // Each range takes two bytes at least, so that the packet's length bounds them.
            last = first.checked_sub(number()?).and_then(|last| last.checked_sub(2)).ok_or(BELOW)?;
            first = last.checked_sub(number()?).ok_or(BELOW)?;
            let _ = ack.ranges.try_push((first, last));
        }
        if matches!(code, kind::ACK_ECN | kind::PATH_ACK_ECN) {
            ack.ecn = Some([number()?, number()?, number()?]);
        }
        Ok(ack)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::quic::testing::{Store, frames, without_places};

    proptest! {
        /// What is written is read, and takes as many bytes as it says.
        #[test]
        fn frames_survive(frames in frames()) {
            let mut store = Store::full();
            let mut bytes = Vec::new();
            for frame in &frames {
                let before = bytes.len();
                frame.emit(&mut store, &mut bytes);
                prop_assert_eq!(bytes.len() - before, frame.size(), "{:?}", frame);
            }
            let mut kept = Store::default();
            let mut read = Frame::parse_all(&bytes, &mut kept).unwrap();
            without_places(&mut read);
            prop_assert_eq!(&read, &frames);
            let expected: Vec<u8> = frames
                .iter()
                .filter_map(|frame| match frame {
                    Frame::Crypto { data, .. } | Frame::Datagram { data, .. } => Some(data.length),
                    Frame::Stream(stream) => Some(stream.data.length),
                    _ => None,
                })
                .flat_map(|length| (0..length).map(|index| index as u8))
                .collect();
            prop_assert_eq!(kept.0, expected);
        }

        /// Nothing that comes is too much, and what is taken for a frame is no longer than what came.
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut kept = Store::default();
            if let Ok(frames) = Frame::parse_all(&bytes, &mut kept) {
                prop_assert!(frames.len() <= bytes.len());
                prop_assert!(kept.0.len() < bytes.len());
            }
        }
    }

    /// RFC 9000 section 19.3.1: ranges that reach below 0; section 12.4: an empty packet, unknown types and
    /// types that are longer than they need be; section 19.7: an empty token; section 19.15: IDs.
    #[test]
    fn rules_of_frames_are_kept() {
        for (bytes, problem) in [
            (&[][..], "a packet has no frame"),
            (&[0x02, 5, 0, 0, 6], "an ACK frame acknowledges packets below 0"),
            (&[0x02, 5, 0, 1, 3, 1, 0], "an ACK frame acknowledges packets below 0"),
            (&[0x02, 5, 0, 1, 0, 0], "an ACK frame is not whole"),
            (&[0x40, 0x01], "a frame's type is longer than it need be"),
            (&[0x21], "a frame's type is not known"),
            (&[0x07, 0], "a token is empty"),
            (&[0x07, 1], "a frame is not whole"),
            (
                &[0x18, 1, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                "a new connection ID retires itself",
            ),
            (&[0x18, 1, 0, 0], "a connection ID has 1 to 20 bytes"),
            (
                &[0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
                "a stream has at most 2^62 - 1 bytes",
            ),
            (&[0x0a, 0, 5, 1], "a STREAM frame is not whole"),
            // RFC 10069 sections 2.4 and 4.
            (&[0x3e], "an ACK frame is not whole"),
            (&[0x3e, 1, 5, 0, 0, 6], "an ACK frame acknowledges packets below 0"),
            (&[0x3e, 0xc0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 6], "a path ID is above 2^32 - 1"),
            (&[0x7e, 0x75, 1], "a frame is not whole"),
            (&[0x7e, 0x7a, 0xc0, 0, 0, 1, 0, 0, 0, 0], "a path ID is above 2^32 - 1"),
            (&[0x7e, 0x78, 1, 1, 2, 1, 9], "a NEW_CONNECTION_ID frame is not whole"),
            (&[0x7e, 0x7d, 0], "a frame's type is not known"),
        ] {
            let error = Frame::parse_all(bytes, &mut Store::default()).unwrap_err();
            assert_eq!(error.problem, problem, "{bytes:02x?}");
        }
    }
}
