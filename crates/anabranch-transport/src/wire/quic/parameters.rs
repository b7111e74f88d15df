//! Transport parameters (RFC 9000 section 18, RFC 9221 section 3).

use std::net::{SocketAddrV4, SocketAddrV6};

use super::connection_id::ConnectionId;
use super::varint;
use crate::wire::bytes::{Append as _, Reader};

/// What an end says of itself in the handshake. What is left out has the values of [`Default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The destination of the client's first packet; the server alone says it.
    pub original_destination: Option<ConnectionId>,
    /// How long it may be silent, in ms; 0 for ever.
    pub max_idle_timeout: u64,
    /// What a stateless reset by the server has.
    pub stateless_reset_token: Option<[u8; 16]>,
    /// The largest datagram that it takes, from 1200 B on.
    pub max_udp_payload_size: u64,
    /// How many bytes it takes on all streams.
    pub initial_max_data: u64,
    /// How many bytes it takes on a stream that it opens in two directions.
    pub initial_max_stream_data_bidi_local: u64,
    /// How many bytes it takes on a stream that the peer opens in two directions.
    pub initial_max_stream_data_bidi_remote: u64,
    /// How many bytes it takes on a stream with one direction.
    pub initial_max_stream_data_uni: u64,
    /// How many streams with two directions the peer may open.
    pub initial_max_streams_bidi: u64,
    /// How many streams with one direction the peer may open.
    pub initial_max_streams_uni: u64,
    /// The exponent of the unit of delays in ACK frames, at most 20.
    pub ack_delay_exponent: u64,
    /// How long it delays acknowledgements, in ms, less than 2^14.
    pub max_ack_delay: u64,
    /// Whether the peer stays at its address.
    pub disable_active_migration: bool,
    /// Where the server would rather be.
    pub preferred_address: Option<PreferredAddress>,
    /// How many connection IDs of the peer it keeps, at least 2.
    pub active_connection_id_limit: u64,
    /// The source of its first packet.
    pub initial_source: Option<ConnectionId>,
    /// The source of the server's Retry packet.
    pub retry_source: Option<ConnectionId>,
    /// The largest DATAGRAM frame that it takes; 0 for none (RFC 9221 section 3).
    pub max_datagram_frame_size: u64,
    /// The shortest delay of its acknowledgements that the peer may ask for, in microseconds; [`None`] if it
    /// may not ask (draft-ietf-quic-ack-frequency-14 section 3).
    pub min_ack_delay: Option<u64>,
    /// The greatest path ID that the peer may use at first (RFC 10069 section 2.1); [`None`] without
    /// multipath.
    pub initial_max_path_id: Option<u32>,
    /// What the same message says about early data. It stands in TLS's own extensions and is not among the
    /// bytes of the parameters.
    pub early_data: EarlyData,
}

/// What a message of the handshake says about early data (RFC 8446 section 4.2.10, RFC 9001 section 4.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// Nothing: there is none, or the server rejects it.
    #[default]
    None,
    /// The client sends some, with a ticket that has what it remembers of the server (RFC 9000 section
    /// 7.4.1).
    Offered(Box<Parameters>),
    /// The server takes it.
    Accepted,
}

/// Another address of the server (RFC 9000 section 18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// The IPv4 address, if the port is not 0.
    pub v4: SocketAddrV4,
    /// The IPv6 address, if the port is not 0.
    pub v6: SocketAddrV6,
    /// The connection ID there, of 1 to 20 bytes.
    pub id: ConnectionId,
    /// What a stateless reset of it has.
    pub reset_token: [u8; 16],
}

impl Default for Parameters {
    /// What a parameter that is absent means (section 18.2).
    fn default() -> Self {
        Self {
            original_destination: None,
            max_idle_timeout: 0,
            stateless_reset_token: None,
            max_udp_payload_size: 65_527,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay: 25,
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: 2,
            initial_source: None,
            retry_source: None,
            max_datagram_frame_size: 0,
            min_ack_delay: None,
            initial_max_path_id: None,
            early_data: EarlyData::None,
        }
    }
}

/// An error: the peer's parameters break a rule (`TRANSPORT_PARAMETER_ERROR`). Displays as one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The bytes are not parameters.
    #[error("the transport parameters are not whole")]
    Short,
    /// One comes twice.
    #[error("transport parameter {0:#x} comes twice")]
    Twice(u64),
    /// One has an impossible value.
    #[error("transport parameter {0:#x} has an impossible value")]
    Value(u64),
    /// A client says what only a server may.
    #[error("transport parameter {0:#x} is not a client's")]
    NotTheClients(u64),
}

/// Numbers of parameters (section 18.2).
mod id {
    pub(super) const ORIGINAL_DESTINATION: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE: u64 = 0x0f;
    pub(super) const RETRY_SOURCE: u64 = 0x10;
    pub(super) const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub(super) const INITIAL_MAX_PATH_ID: u64 = 0x3e;
    pub(super) const MIN_ACK_DELAY: u64 = 0xff04_de1b;
}

/// Streams of a kind are at most 2^60 (section 4.6).
const MOST_STREAMS: u64 = 1 << 60;

impl Parameters {
    /// The numbers among them: the number of the parameter, the least and the most that it may be, and where
    /// it is kept.
    fn numbers(&mut self) -> [(u64, u64, u64, &mut u64); 12] {
        [
            (id::MAX_IDLE_TIMEOUT, 0, varint::MAX, &mut self.max_idle_timeout),
            (id::MAX_UDP_PAYLOAD_SIZE, 1200, varint::MAX, &mut self.max_udp_payload_size),
            (id::INITIAL_MAX_DATA, 0, varint::MAX, &mut self.initial_max_data),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
                0,
                varint::MAX,
                &mut self.initial_max_stream_data_bidi_local,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
                0,
                varint::MAX,
                &mut self.initial_max_stream_data_bidi_remote,
            ),
            (id::INITIAL_MAX_STREAM_DATA_UNI, 0, varint::MAX, &mut self.initial_max_stream_data_uni),
            (id::INITIAL_MAX_STREAMS_BIDI, 0, MOST_STREAMS, &mut self.initial_max_streams_bidi),
            (id::INITIAL_MAX_STREAMS_UNI, 0, MOST_STREAMS, &mut self.initial_max_streams_uni),
            (id::ACK_DELAY_EXPONENT, 0, 20, &mut self.ack_delay_exponent),
            (id::MAX_ACK_DELAY, 0, (1 << 14) - 1, &mut self.max_ack_delay),
            (id::ACTIVE_CONNECTION_ID_LIMIT, 2, varint::MAX, &mut self.active_connection_id_limit),
            (id::MAX_DATAGRAM_FRAME_SIZE, 0, varint::MAX, &mut self.max_datagram_frame_size),
        ]
    }

    /// The connection IDs among them, each with the number of its parameter.
    fn ids(&mut self) -> [(u64, &mut Option<ConnectionId>); 3] {
        [
            (id::ORIGINAL_DESTINATION, &mut self.original_destination),
            (id::INITIAL_SOURCE, &mut self.initial_source),
            (id::RETRY_SOURCE, &mut self.retry_source),
        ]
    }

    /// Appends the bytes of those that are not as if they were absent.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut parameter = |number: u64, value: &[u8]| {
            varint::emit(number, out);
            varint::emit(value.len() as u64, out);
            out.extend(value);
        };
        let (mut own, mut absent) = (self.clone(), Self::default());
        for ((number, _, _, value), (_, _, _, usual)) in own.numbers().into_iter().zip(absent.numbers()) {
            if value != usual {
                let mut bytes = Vec::new();
                varint::emit(*value, &mut bytes);
                parameter(number, &bytes);
            }
        }
        for (number, id) in own.ids() {
            if let Some(id) = id {
                parameter(number, id.bytes());
            }
        }
        if let Some(token) = &self.stateless_reset_token {
            parameter(id::STATELESS_RESET_TOKEN, token);
        }
        if let Some(delay) = self.min_ack_delay {
            let mut bytes = Vec::new();
            varint::emit(delay, &mut bytes);
            parameter(id::MIN_ACK_DELAY, &bytes);
        }
        if let Some(path) = self.initial_max_path_id {
            let mut bytes = Vec::new();
            varint::emit(path.into(), &mut bytes);
            parameter(id::INITIAL_MAX_PATH_ID, &bytes);
        }
        if self.disable_active_migration {
            parameter(id::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if let Some(address) = &self.preferred_address {
            parameter(id::PREFERRED_ADDRESS, &address.bytes());
        }
    }

    /// Reads the parameters of a client or of a server. Unknown ones are passed over (section 7.4.2).
    ///
    /// # Errors
    /// When a rule is broken: one sentence that names the parameter.
    pub fn parse(bytes: &[u8], is_client: bool) -> Result<Self, ParameterError> {
        let mut reader = Reader(bytes);
        let mut parameters = Self::default();
        let mut seen = Vec::new();
        while !reader.is_empty() {
            let number = varint::read(&mut reader).ok_or(ParameterError::Short)?;
            let length = varint::read(&mut reader).and_then(|length| usize::try_from(length).ok());
            let value = length.and_then(|length| reader.take(length)).ok_or(ParameterError::Short)?;
            if parameters.take(number, value, is_client)? {
                if seen.contains(&number) {
                    return Err(ParameterError::Twice(number));
                }
                seen.push(number);
            }
        }
        Ok(parameters)
    }

    /// Takes one of them; gives whether it is known.
    fn take(&mut self, number: u64, value: &[u8], is_client: bool) -> Result<bool, ParameterError> {
        const SERVERS: [u64; 4] =
            [id::ORIGINAL_DESTINATION, id::STATELESS_RESET_TOKEN, id::PREFERRED_ADDRESS, id::RETRY_SOURCE];
        if is_client && SERVERS.contains(&number) {
            return Err(ParameterError::NotTheClients(number));
        }
        let wrong = ParameterError::Value(number);
        if let Some((_, least, most, place)) = self.numbers().into_iter().find(|(known, ..)| *known == number)
        {
            let mut reader = Reader(value);
            *place = varint::read(&mut reader)
                .filter(|value| reader.is_empty() && (least..=most).contains(value))
                .ok_or(wrong)?;
            return Ok(true);
        }
        if let Some((_, place)) = self.ids().into_iter().find(|(known, _)| *known == number) {
            *place = Some(ConnectionId::new(value).ok_or(wrong)?);
            return Ok(true);
        }
        match number {
            id::STATELESS_RESET_TOKEN => {
                self.stateless_reset_token = Some(value.try_into().map_err(|_| wrong)?);
            }
            id::DISABLE_ACTIVE_MIGRATION if value.is_empty() => self.disable_active_migration = true,
            id::DISABLE_ACTIVE_MIGRATION => return Err(wrong),
            id::MIN_ACK_DELAY => {
                let mut reader = Reader(value);
                let delay = varint::read(&mut reader).filter(|_| reader.is_empty());
                self.min_ack_delay = Some(delay.ok_or(wrong)?);
            }
            id::INITIAL_MAX_PATH_ID => {
                let mut reader = Reader(value);
                let path = varint::read(&mut reader).filter(|_| reader.is_empty());
                self.initial_max_path_id = Some(path.and_then(|path| path.try_into().ok()).ok_or(wrong)?);
            }
            id::PREFERRED_ADDRESS => {
                self.preferred_address = Some(PreferredAddress::parse(value).ok_or(wrong)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl PreferredAddress {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.v4.ip().octets());
        out.u16(self.v4.port());
        out.extend(self.v6.ip().octets());
        out.u16(self.v6.port());
        out.u8(self.id.len() as u8);
        out.extend(self.id.bytes());
        out.extend(self.reset_token);
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let address: [u8; 4] = reader.take(4)?.try_into().ok()?;
        let v4 = SocketAddrV4::new(address.into(), reader.u16()?);
        let address: [u8; 16] = reader.take(16)?.try_into().ok()?;
        let v6 = SocketAddrV6::new(address.into(), reader.u16()?, 0, 0);
        let length = usize::from(reader.u8()?);
        let id = ConnectionId::new(reader.take(length)?).filter(|id| id.len() > 0)?;
        let reset_token = reader.take(16)?.try_into().ok()?;
        reader.is_empty().then_some(Self { v4, v6, id, reset_token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bytes: &[u8]) -> ConnectionId {
        ConnectionId::new(bytes).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let server = Parameters {
            original_destination: Some(id(&[1; 8])),
            max_idle_timeout: 30_000,
            stateless_reset_token: Some([7; 16]),
            max_udp_payload_size: 1_472,
            initial_max_data: 1 << 40,
            initial_max_streams_bidi: 100,
            ack_delay_exponent: 0,
            max_ack_delay: 5,
            disable_active_migration: true,
            preferred_address: Some(PreferredAddress {
                v4: "192.0.2.1:443".parse().unwrap(),
                v6: "[2001:db8::1]:444".parse().unwrap(),
                id: id(&[9; 20]),
                reset_token: [3; 16],
            }),
            initial_source: Some(id(&[])),
            max_datagram_frame_size: 65_535,
            initial_max_path_id: Some(u32::MAX),
            ..Parameters::default()
        };
        let mut bytes = Vec::new();
        server.emit(&mut bytes);
        assert_eq!(Parameters::parse(&bytes, false).unwrap(), server);
        assert_eq!(Parameters::parse(&bytes, true), Err(ParameterError::NotTheClients(0)));
        for length in 0..bytes.len() {
            // A prefix is a shorter list, or no list at all.
            let _ = Parameters::parse(&bytes[..length], false);
        }
        bytes.clear();
        Parameters::default().emit(&mut bytes);
        assert!(bytes.is_empty());
    }

    /// RFC 9000 sections 7.4 and 18.2.
    #[test]
    fn rules_of_their_own_are_kept() {
        for (bytes, error) in [
            (&[0x03, 2, 0x44, 0xaf][..], ParameterError::Value(3)),
            (&[0x0a, 1, 21], ParameterError::Value(0x0a)),
            (&[0x0b, 4, 0x80, 0, 0x40, 0], ParameterError::Value(0x0b)),
            (&[0x0e, 1, 1], ParameterError::Value(0x0e)),
            (&[0x08, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1], ParameterError::Value(8)),
            (&[0x04, 2, 1, 1], ParameterError::Value(4)),
            (&[0x0c, 1, 0], ParameterError::Value(0x0c)),
            (&[0x0f, 21], ParameterError::Short),
            (&[0x04, 1, 1, 0x04, 1, 1], ParameterError::Twice(4)),
        ] {
            assert_eq!(Parameters::parse(bytes, false), Err(error), "{bytes:02x?}");
        }
        // A reserved one, 31 N + 27 (section 18.1), may come in any number.
        assert_eq!(Parameters::parse(&[27, 1, 0, 27, 0], false), Ok(Parameters::default()));
    }
}
