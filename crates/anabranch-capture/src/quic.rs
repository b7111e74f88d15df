//! Packets of QUIC under their protection, where a capture has the secrets (RFC 9001; on several paths RFC
//! 10069): which connection and path they are of, their numbers, what they acknowledge and carry.
//!
//! Only `TLS_CHACHA20_POLY1305_SHA256` is opened, which captures of `anabranch run` have: packets under
//! another cipher, and those of connections whose beginning is not there, stay closed.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_transport::flow::Payload;
use anabranch_transport::wire::quic::{
    Ack, ConnectionId, Content, Fields, Frame, Header, Keys, Level, Packet, Part, Real,
};

use crate::columns::{Batch, QuicAckRow, QuicDataRow, QuicRow};

/// What is kept of a file, at most: secrets of connections, connections, and their IDs.
const MOST_SECRETS: usize = 1 << 16;
const MOST_CONNECTIONS: usize = 1 << 12;
const MOST_IDS: usize = 1 << 16;
/// Of the IDs of other paths than the first one, of each side of a connection.
const MOST_OF_PATHS: usize = 1 << 8;

/// A datagram that opens a connection has as many bytes (RFC 9000 section 14.1).
const LEAST_FIRST: usize = 1_200;

/// The side that opened a connection, and the other one.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Secrets of a connection as lines of an SSLKEYLOGFILE name them, whose packets are at these levels.
const LABELS: [(&str, usize, Level); 5] = [
    ("CLIENT_EARLY_TRAFFIC_SECRET", CLIENT, Level::ZeroRtt),
    ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", CLIENT, Level::Handshake),
    ("SERVER_HANDSHAKE_TRAFFIC_SECRET", SERVER, Level::Handshake),
    ("CLIENT_TRAFFIC_SECRET_0", CLIENT, Level::OneRtt),
    ("SERVER_TRAFFIC_SECRET_0", SERVER, Level::OneRtt),
];

type Secret = [u8; 32];

/// The connections of a capture.
#[derive(Default)]
pub(crate) struct Decoder {
    /// By the random number of the `ClientHello`, in the order of [`LABELS`].
    secrets: BTreeMap<[u8; 32], [Option<Secret>; LABELS.len()]>,
    /// By side: what packets to it are opened with.
    connections: Vec<[Keys<Real>; 2]>,
    /// Which side of which connection packets to an ID go to.
    ids: BTreeMap<ConnectionId, (usize, usize)>,
    /// How long the IDs are.
    lengths: Vec<usize>,
}

impl fmt::Debug for Decoder {
    /// Without secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Decoder")
            .field("connections", &self.connections.len())
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// Takes the lines of an SSLKEYLOGFILE.
    pub(crate) fn learn(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let label = words.next().and_then(|word| str::from_utf8(word).ok());
            let place = LABELS.iter().position(|(known, ..)| label == Some(known));
            let (random, secret) = (words.next().and_then(bytes_of), words.next().and_then(bytes_of));
            let is_known = |random| self.secrets.len() < MOST_SECRETS || self.secrets.contains_key(random);
            if let (Some(place), Some(random), Some(secret)) = (place, random, secret)
                && is_known(&random)
            {
                self.secrets.entry(random).or_default()[place] = Some(secret);
            }
        }
    }

    /// Adds the packets of a datagram whose row is the next one of the batch.
    pub(crate) fn read(&mut self, datagram: &[u8], batch: &mut Batch) {
        if self.secrets.is_empty() {
            return;
        }
        let Some((connection, to, id_bytes)) = self.owner(datagram) else { return };
        let mut fields = OfDatagram::default();
        let open = |decoder: &mut Self, fields: &mut OfDatagram| {
            let keys = &mut decoder.connections[connection][to];
            let parsed = Content::parse(&mut datagram.to_vec(), id_bytes, keys, fields).ok()?;
            Some((parsed.content, parsed.without_key))
        };
        let Some((mut content, without_key)) = open(self, &mut fields) else { return };
        // What follows a `ClientHello` may be under its secrets.
        if fields.random.is_some_and(|random| to == SERVER && self.take_secrets(connection, &random))
            && without_key > 0
            && let Some((again, _)) = open(self, &mut fields)
        {
            content = again;
        }
        let Content::Packets(packets) = content else { return };
        for packet in &packets {
            self.take_ids(connection, to, packet);
            add(packet, connection, to == CLIENT, batch);
        }
    }

    /// The connection and the side to which a datagram goes, and how long its ID is.
    fn owner(&mut self, datagram: &[u8]) -> Option<(usize, usize, usize)> {
        if datagram.first()? & 0x80 == 0 {
            return self.lengths.iter().find_map(|length| {
                let id = ConnectionId::new(datagram.get(1..=*length)?)?;
                let (connection, side) = *self.ids.get(&id)?;
                Some((connection, side, *length))
            });
        }
        let (Header::Long(header), _) = Header::read(datagram, 0).ok()? else { return None };
        let [to, from] = header.ids;
        if let Some(&(connection, side)) = self.ids.get(&to) {
            return Some((connection, side, to.len()));
        }
        if header.level != Level::Initial || datagram.len() < LEAST_FIRST {
            return None;
        }
        // A client that answers a Retry packet is called as before.
        let connection = match self.ids.get(&from).filter(|_| !header.token.is_empty()) {
            Some(&(connection, CLIENT)) => connection,
            _ if self.connections.len() < MOST_CONNECTIONS => {
                self.connections.push([Keys::default(), Keys::default()]);
                self.connections.len() - 1
            }
            _ => return None,
        };
        for (side, keys) in self.connections[connection].iter_mut().enumerate() {
            keys.set(Level::Initial, Real::initial(to, side == CLIENT));
        }
        self.know(to, connection, SERVER);
        self.know(from, connection, CLIENT);
        Some((connection, SERVER, to.len()))
    }

    fn know(&mut self, id: ConnectionId, connection: usize, side: usize) {
        if id.len() > 0 && self.ids.len() < MOST_IDS {
            self.ids.insert(id, (connection, side));
            if !self.lengths.contains(&id.len()) {
                self.lengths.push(id.len());
            }
        }
    }

    /// Takes the secrets of the connection with this `ClientHello`; whether there are some that are new.
    fn take_secrets(&mut self, connection: usize, random: &[u8; 32]) -> bool {
        let Some(secrets) = self.secrets.get(random) else { return false };
        let keys = &mut self.connections[connection];
        let mut is_new = false;
        for (secret, (_, from, level)) in secrets.iter().zip(LABELS) {
            let place = &mut keys[1 - from].opening[level as usize];
            if let Some(secret) = secret.filter(|_| place.is_none()) {
                *place = Some(Real::of_secret(secret));
                is_new = true;
            }
        }
        is_new
    }

    /// Takes the IDs by which the sender of a packet wants to be called (RFC 9000 sections 7.2 and 19.15, RFC
    /// 10069 section 4.4).
    fn take_ids(&mut self, connection: usize, to: usize, packet: &Packet) {
        let from = 1 - to;
        if packet.level != Level::OneRtt && !self.ids.contains_key(&packet.source) {
            self.know(packet.source, connection, from);
        }
        for frame in &packet.frames {
            let Frame::NewConnectionId { path, id, .. } = frame else { continue };
            if self.ids.contains_key(id) {
                continue;
            }
            let keys = &mut self.connections[connection][from];
            match path.filter(|path| *path > 0) {
                Some(_) if keys.ids_of_paths() >= MOST_OF_PATHS => continue,
                Some(path) => keys.add_id(path, *id),
                None => {}
            }
            self.know(*id, connection, from);
        }
    }
}

/// Adds the rows of a packet.
fn add(packet: &Packet, connection: usize, of_server: bool, batch: &mut Batch) {
    let quic = batch.quic.len() as i32;
    let mut data = 0;
    for frame in &packet.frames {
        let mut add_data = |stream: i64, start: u64, length: u32| {
            data += length as i32;
            let (start, octets) = (start as i64, length as i32);
            batch.quic_data.push(QuicDataRow { quic, stream, start, octets });
        };
        match frame {
            Frame::Ack(ack) => add_ack(ack, quic, batch),
            Frame::Datagram { data, .. } => add_data(-1, 0, data.length),
            Frame::Stream(stream) => add_data(stream.id as i64, stream.position, stream.data.length),
            _ => {}
        }
    }
    batch.quic.push(QuicRow {
        packet: batch.len() as i32,
        connection: connection as i32,
        of_server,
        level: packet.level as u8,
        path: packet.path_id.into(),
        number: packet.number as i64,
        octets: packet.wire_size() as i32,
        elicits: packet.elicits_ack(),
        data,
    });
}

fn add_ack(ack: &Ack, quic: i32, batch: &mut Batch) {
    let path = ack.path.unwrap_or(0).into();
    for &(first, last) in &ack.ranges {
        let (first, last, delay) = (first as i64, last as i64, ack.delay as i64);
        batch.quic_acks.push(QuicAckRow { quic, path, first, last, delay });
    }
}

/// What is looked at of a datagram's data.
#[derive(Default)]
struct OfDatagram {
    /// The random number of a `ClientHello` (RFC 8446 section 4.1.2).
    random: Option<[u8; 32]>,
}

impl Fields for OfDatagram {
    fn append(&mut self, _: Part, _: Payload, _: &mut Vec<u8>) {}

    fn keep(&mut self, part: Part, position: u64, bytes: &[u8]) -> u64 {
        /// Where it is: behind type, length and version.
        const AT: usize = 6;
        if part == Part::Crypto && position == 0 && bytes.first() == Some(&1) {
            self.random = bytes.get(AT..).and_then(<[u8]>::first_chunk).copied();
        }
        0
    }
}

/// 32 bytes from hexadecimal digits.
fn bytes_of(digits: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = digits.try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
