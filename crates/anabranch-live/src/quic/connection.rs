//! A connection with its bytes, its keys and the handshake of TLS.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use anabranch_transport::endpoint::{
    CloseReason, Command, Endpoint as _, Event, Input, Output, Received, StreamId,
};
use anabranch_transport::flow::{Ecn, PathId, Payload, Side};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::quic::tls::{Failure, Tls};
use anabranch_transport::quic::{Connection, LivePath, code};
use anabranch_transport::report::Row;
use anabranch_transport::time::Time;
use anabranch_transport::wire::quic::{
    ConnectionId, Content, Datagram, Fields, Frame, Keys, Level, Packet as QuicPacket, Part, Real,
};
use anabranch_transport::wire::{Body, Packet};

use super::events::{Ending, HostEvent};
use super::paths::{Numbered, Paths};
use crate::incoming::Incoming;
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::route::{Route, version};

/// Bytes of the connection IDs of a host, by which it finds the connections of packets with short headers.
pub(super) const ID_BYTES: usize = 8;
/// Datagrams that wait for their keys (RFC 9001 section 5.7).
const MOST_WAITING: usize = 10;
/// How far CRYPTO frames reach beyond what has been read, at most: as far as the endpoint takes them.
const CRYPTO_BUFFER: u64 = 1 << 18;
/// Bytes that the application has not read, from which on nothing more is read until half of them are.
const MOST_UNREAD: u64 = 4 << 20;
/// Pieces of streams and of the handshake that wait for others. Beyond them, what is not next counts as lost
/// in the network.
const MOST_PIECES: usize = 8192;
/// What a message costs beside its bytes.
const MESSAGE_COST: u64 = 64;
/// What may be forgotten is searched for after so many bytes, and what a stream costs beside its bytes.
const SWEEP_AFTER: usize = 256 * 1024;
const STREAM_COST: usize = 1024;
/// Packets that may be forged: with `ChaCha20-Poly1305` 2^36, with AES-GCM more (RFC 9001 section 6.6).
const MOST_FORGED: u64 = 1 << 36;
/// The alert for a peer that has not said its transport parameters (RFC 9001 section 8.2).
const MISSING_EXTENSION: u8 = 109;
const INTERNAL_ERROR: u8 = 80;
/// The header of UDP.
const UDP_BYTES: u32 = 8;

/// The bytes of TLS at one level.
#[derive(Debug, Default)]
struct Crypto {
    sent: Vec<u8>,
    incoming: Incoming,
    /// How many bytes TLS has been given.
    read: u64,
}

/// The bytes of a stream.
#[derive(Debug, Default)]
struct Stream {
    outgoing: Outgoing,
    incoming: Incoming,
}

/// The bytes of a connection.
#[derive(Debug, Default)]
struct Bytes {
    /// Of Initial and of Handshake packets.
    crypto: [Crypto; 2],
    streams: BTreeMap<u64, Stream>,
    messages: Outgoing,
    /// The messages of the datagrams that have been read since the connection was last drained.
    arrived: Vec<Vec<u8>>,
    /// How many pieces wait for others.
    pieces: usize,
}

impl Bytes {
    /// Whether one more datagram with these pieces may be kept: there are not too many that wait, or some of
    /// them are what the others wait for.
    fn has_room(&self, pieces: &[Piece]) -> bool {
        let is_next = |piece: &Piece| match piece.part {
            Part::Crypto if piece.level == Level::OneRtt => false,
            Part::Crypto => self.crypto[place(piece.level)].incoming.is_next(piece.position),
            Part::Datagram => false,
            Part::Stream(id) => {
                self.streams.get(&id).is_none_or(|stream| stream.incoming.is_next(piece.position))
            }
        };
        self.pieces < MOST_PIECES || pieces.is_empty() || pieces.iter().any(is_next)
    }
}

/// Changes what has arrived, and counts its pieces.
fn counted<T>(pieces: &mut usize, incoming: &mut Incoming, change: impl FnOnce(&mut Incoming) -> T) -> T {
    let before = incoming.pieces();
    let changed = change(incoming);
    *pieces = *pieces + incoming.pieces() - before;
    changed
}

/// A connection of a host.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
pub struct Live {
    pub(super) end: Connection,
    tls: Option<Tls>,
    keys: Keys<Real>,
    /// Where the client's first packet went, of which the keys of Initial packets are made.
    first: ConnectionId,
    /// The keys of packets with short headers, until the handshake is complete.
    one_rtt: Option<[Real; 2]>,
    has_peer_parameters: bool,
    forged: u64,
    side: Side,
    /// Where its packets go, with several paths those of the first one.
    pub(super) route: Route,
    pub(super) paths: Paths,
    /// The bytes of the headers of IP, as the endpoint counts them.
    ip_header: u32,
    bytes: Bytes,
    /// How much of the peer's streams is kept: what the settings offer.
    window: u64,
    /// Datagrams that wait for their keys, from the first packet on that does: where they came from, their
    /// marks and their bytes.
    waiting: Vec<(Route, Ecn, Vec<u8>)>,
    unread: u64,
    is_paused: bool,
    /// What may be forgotten, at most, in bytes.
    owed: usize,
    /// The kinds of streams of which one could not be opened.
    wants_streams: [bool; 2],
    /// Why TLS, or the network, has ended it.
    pub(super) why: Option<String>,
    /// Whether it is open, and whether the application has been told of the end.
    pub(super) is_open: bool,
    pub(super) has_ended: bool,
    /// The version of the IDs by which the host finds it, and these IDs.
    pub(super) ids_version: u64,
    pub(super) ids: Vec<ConnectionId>,
}

/// A part of a datagram: what it belongs to, at which position, and its place.
struct Piece {
    level: Level,
    part: Part,
    position: u64,
    place: Range<usize>,
}

/// What is found in a datagram, whose bytes stay where they are.
struct Reading {
    start: usize,
    level: Level,
    pieces: Vec<Piece>,
    /// The number of the next message.
    messages: u64,
}

impl Reading {
    /// Nothing yet of a datagram that begins there, before which so many messages have arrived.
    fn of(datagram: *const u8, messages: usize) -> Self {
        Self { start: datagram.addr(), level: Level::Initial, pieces: Vec::new(), messages: messages as u64 }
    }
}

impl Fields for Reading {
    fn begin(&mut self, level: Level) {
        self.level = level;
    }

    fn append(&mut self, _: Part, _: Payload, _: &mut Vec<u8>) {}

    fn keep(&mut self, part: Part, position: u64, bytes: &[u8]) -> u64 {
        let start = bytes.as_ptr().addr() - self.start;
        self.pieces.push(Piece { level: self.level, part, position, place: start..start + bytes.len() });
        if part == Part::Datagram {
            self.messages += 1;
            return self.messages - 1;
        }
        position
    }
}

/// The bytes of packets that leave.
struct Writing<'a> {
    bytes: &'a mut Bytes,
    level: Level,
}

impl Fields for Writing<'_> {
    fn begin(&mut self, level: Level) {
        self.level = level;
    }

    fn append(&mut self, part: Part, data: Payload, out: &mut Vec<u8>) {
        match part {
            Part::Crypto => {
                let start = data.offset as usize;
                out.extend(&self.bytes.crypto[place(self.level)].sent[start..start + data.length as usize]);
            }
            Part::Datagram => {
                self.bytes.messages.read(data, out);
                // It is never sent again.
                self.bytes.messages.forget_before(data.offset + u64::from(data.length));
            }
            Part::Stream(id) if data.length > 0 => {
                self.bytes.streams[&id].outgoing.read(data, out);
            }
            Part::Stream(_) => {}
        }
    }

    fn keep(&mut self, _: Part, _: u64, _: &[u8]) -> u64 {
        0
    }
}

/// The place of a level's bytes of TLS.
const fn place(level: Level) -> usize {
    if matches!(level, Level::Initial) { 0 } else { 1 }
}

impl Live {
    /// A connection that is about to begin; of a server, the packet that opens it has been taken.
    pub(super) fn new(end: Connection, side: Side, route: Route, window: u64) -> Self {
        Self {
            end,
            tls: None,
            keys: Keys::default(),
            first: ConnectionId::default(),
            one_rtt: None,
            has_peer_parameters: false,
            forged: 0,
            side,
            route,
            paths: Paths::new(side, route),
            ip_header: version(route.remote).header_bytes(),
            bytes: Bytes::default(),
            window,
            waiting: Vec::new(),
            unread: 0,
            is_paused: false,
            owed: 0,
            wants_streams: [false; 2],
            why: None,
            is_open: false,
            has_ended: false,
            ids_version: u64::MAX,
            ids: Vec::new(),
        }
    }

    /// The endpoint has begun a connection, for which this is TLS.
    pub(super) fn begin(&mut self, tls: Tls) {
        self.tls = Some(tls);
        self.make_initial_keys();
    }

    /// RFC 9001 section 5.2; after a Retry packet the keys are others.
    fn make_initial_keys(&mut self) {
        let first = self.end.first_destination();
        if first != self.first {
            self.first = first;
            self.keys.set(Level::Initial, Real::initial(first, self.side == Side::A));
            // Only the first flight is answered by Retry (RFC 9000 section 17.2.5.2).
            self.keys.original = (first == self.end.original_destination()).then_some(first);
        }
    }

    /// Whether a datagram comes from where the peer is, as far as this end knows. A server does not move.
    pub(super) fn comes_from_peer(&self, route: Route) -> bool {
        let is_on_path = |path: &LivePath| path.is_open && self.paths.route_of(path) == route;
        self.side == Side::A || self.route == route || self.end.live_paths().any(|path| is_on_path(&path))
    }

    /// Takes a datagram, whose bytes are lost. Whoever calls this [drains](Self::drain) the connection next.
    pub(super) fn receive(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &mut [u8]) {
        self.receive_one(now, route, ecn, datagram);
        self.go_on(now);
    }

    /// Takes one datagram of several, whose bytes are lost. Behind the last one the connection has to
    /// [go on](Self::go_on).
    pub(super) fn receive_one(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &mut [u8]) {
        let length = datagram.len() as u32;
        self.open(now, route, ecn, datagram, length);
    }

    /// Gives TLS what there is, and opens what waited for keys.
    pub(super) fn go_on(&mut self, now: Time) {
        // There are keys of two more levels.
        for _ in 0..2 {
            if !self.shake_hands(now) {
                break;
            }
            for (route, ecn, mut datagram) in std::mem::take(&mut self.waiting) {
                self.open(now, route, ecn, &mut datagram, 0);
            }
        }
        self.shake_hands(now);
        self.end.handle_input(now, Input::Timeout);
    }

    /// Opens a datagram, of which so many bytes count as received, and gives the endpoint what is in it.
    fn open(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &mut [u8], bytes: u32) {
        let mut reading = Reading::of(datagram.as_ptr(), self.bytes.arrived.len());
        let Ok(parsed) = Content::parse(datagram, ID_BYTES, &mut self.keys, &mut reading) else { return };
        self.forged += u64::from(parsed.forged);
        if self.forged > MOST_FORGED {
            self.end.fail_with(now, code::AEAD_LIMIT_REACHED, "too many packets are forged");
        }
        let awaits = self.end.awaits_keys(Level::Handshake) || self.end.awaits_keys(Level::OneRtt);
        if let Some(at) = parsed.without_key_at.filter(|_| awaits && self.waiting.len() < MOST_WAITING) {
            self.waiting.push((route, ecn, datagram[at..].to_vec()));
        }
        if !self.end.is_closing() {
            if !self.bytes.has_room(&reading.pieces) {
                return;
            }
            self.keep(datagram, &reading.pieces);
        }
        let is_empty = matches!(&parsed.content, Content::Packets(packets) if packets.is_empty());
        if !is_empty {
            self.give(now, route, ecn, parsed.content, bytes);
        }
        if let Some(token) = parsed.reset {
            self.give(now, route, ecn, Content::Reset { noise: Box::default(), token }, bytes);
        }
        if let Some(problem) = parsed.violation {
            self.end.fail_with(now, code::FRAME_ENCODING_ERROR, problem.problem);
        }
        self.make_initial_keys();
    }

    /// Gives the endpoint what a datagram carries.
    fn give(&mut self, now: Time, route: Route, ecn: Ecn, content: Content, bytes: u32) {
        let [own, peer] = self.end.ports();
        let Numbered { network, client_host } = self.paths.number(route, &self.end);
        // A server has one port; where a client is may change (RFC 9000 section 9).
        let source_port = route.port.filter(|_| self.side == Side::B).unwrap_or(peer);
        let datagram = Datagram { source_port, destination_port: own, client_host, content };
        let size = self.ip_header + UDP_BYTES + bytes;
        let body = Body::Quic(Box::new(datagram));
        self.end.take(now, Box::new(Packet { path: network, ecn, size, body }));
    }

    /// Keeps the bytes of what is genuine, as far as the endpoint may want them.
    fn keep(&mut self, datagram: &[u8], pieces: &[Piece]) {
        for Piece { level, part, position, place: range } in pieces {
            let bytes = &datagram[range.clone()];
            match part {
                Part::Crypto if *level != Level::OneRtt => {
                    let Bytes { crypto, pieces, .. } = &mut self.bytes;
                    let incoming = &mut crypto[place(*level)].incoming;
                    counted(pieces, incoming, |incoming| incoming.put(*position, bytes, CRYPTO_BUFFER));
                }
                Part::Datagram => self.bytes.arrived.push(bytes.to_vec()),
                Part::Stream(id) if !bytes.is_empty() && self.end.wants_bytes(*id) => {
                    let stream = self.bytes.streams.entry(*id).or_insert_with(|| {
                        self.owed += STREAM_COST;
                        Stream::default()
                    });
                    let put = |incoming: &mut Incoming| incoming.put(*position, bytes, self.window);
                    counted(&mut self.bytes.pieces, &mut stream.incoming, put);
                }
                // Session tickets, of which no use is made, and streams that are over.
                Part::Crypto | Part::Stream(_) => {}
            }
        }
    }

    /// Updates the keys, if the peer has acknowledged a packet under those in use (RFC 9001 section 6.1).
    pub(super) fn update_keys(&mut self) -> bool {
        self.end.update_keys()
    }

    /// How many times the keys have been updated.
    pub(super) const fn key_updates(&self) -> u64 {
        self.end.key_updates()
    }

    /// Gives TLS what has come without a gap, and takes what it has to say. Returns whether there are new
    /// keys.
    fn shake_hands(&mut self, now: Time) -> bool {
        if self.end.is_closing() {
            return false;
        }
        let Some(mut tls) = self.tls.take() else { return false };
        let result = self.talk(now, &mut tls);
        self.tls = Some(tls);
        result.unwrap_or_else(|Failure { alert, reason }| {
            self.why = Some(reason);
            self.end.fail_handshake(now, alert);
            false
        })
    }

    fn talk(&mut self, now: Time, tls: &mut Tls) -> Result<bool, Failure> {
        let gone = || Failure { alert: INTERNAL_ERROR, reason: "bytes of the handshake are missing".into() };
        for level in [Level::Initial, Level::Handshake] {
            let Bytes { crypto, pieces, .. } = &mut self.bytes;
            let (crypto, until) = (&mut crypto[place(level)], self.end.crypto_read(level));
            if until > crypto.read {
                let payload = Payload { offset: crypto.read, length: (until - crypto.read) as u32 };
                let taken = counted(pieces, &mut crypto.incoming, |incoming| incoming.take(payload));
                let bytes = taken.ok_or_else(gone)?;
                crypto.read = until;
                tls.read(&bytes)?;
            }
        }
        if self.side == Side::B {
            self.take_peer_parameters(now, tls, false)?;
        }
        let mut has_new = false;
        // It ends: TLS has nothing more to say once it waits for the peer.
        while let Some(flight) = tls.write() {
            if flight.level != Level::OneRtt && !flight.bytes.is_empty() {
                self.bytes.crypto[place(flight.level)].sent.extend(&flight.bytes);
                self.end.add_crypto(flight.level, flight.bytes.len() as u64);
            }
            match flight.keys {
                Some((Level::OneRtt, keys)) => self.one_rtt = Some(keys),
                Some((level, keys)) => {
                    self.keys.set(level, keys);
                    self.end.take_handshake_keys();
                    has_new = true;
                }
                None => {}
            }
        }
        if tls.completes()? {
            self.take_peer_parameters(now, tls, true)?;
            if let Some(keys) = self.one_rtt.take() {
                self.keys.set(Level::OneRtt, keys);
                self.end.complete_handshake(now);
                has_new = true;
            }
        }
        Ok(has_new)
    }

    /// Gives the endpoint the peer's transport parameters, once; they `must` be there at the end.
    fn take_peer_parameters(&mut self, now: Time, tls: &Tls, must: bool) -> Result<(), Failure> {
        if self.has_peer_parameters {
            return Ok(());
        }
        match tls.peer_parameters() {
            Some(bytes) => {
                self.has_peer_parameters = true;
                self.end.take_peer_parameters(now, bytes);
                Ok(())
            }
            None if must => Err(Failure {
                alert: MISSING_EXTENSION,
                reason: "the peer has said no transport parameters".into(),
            }),
            None => Ok(()),
        }
    }

    /// Opens a stream, if the peer permits one.
    pub(super) fn open_stream(&mut self, bidirectional: bool) -> Option<u64> {
        let id = self.end.open_stream(bidirectional);
        match id {
            Some(id) => {
                self.owed += STREAM_COST;
                self.bytes.streams.entry(id).or_default();
            }
            None => self.wants_streams[usize::from(!bidirectional)] = true,
        }
        id
    }

    /// Appends bytes to a stream, as many as there is room for, and ends it behind all of them with `fin`.
    /// Returns how many were taken; [`None`] if nothing can be written there.
    pub(super) fn write(&mut self, id: u64, bytes: &[u8], fin: bool) -> Option<usize> {
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let taken = self.end.write_some(id, bytes.len() as u32, fin)? as usize;
        self.owed += taken;
        self.bytes.streams.entry(id).or_default().outgoing.append(&bytes[..taken]);
        Some(taken)
    }

    /// Sends a message; whether it was taken.
    pub(super) fn send_datagram(&mut self, bytes: &[u8]) -> bool {
        let payload = self.bytes.messages.push(bytes.to_vec());
        let is_taken = self.end.push_datagram(payload);
        if !is_taken {
            self.bytes.messages.take_back();
        }
        is_taken
    }

    /// The application has read so many of the bytes that it was told.
    pub(super) fn has_read(&mut self, now: Time, bytes: u64) {
        self.unread = self.unread.saturating_sub(bytes);
        if self.is_paused && self.unread <= MOST_UNREAD / 2 {
            self.is_paused = false;
            self.end.handle_input(now, Input::Command(Command::ResumeReading));
        }
    }

    /// Carries out what the endpoint wants done. Returns when it wants to be woken.
    pub(super) fn drain(&mut self, now: Time, outbox: &mut Outbox, mut tell: impl FnMut(HostEvent)) -> Time {
        let mut ended = Vec::new();
        if self.paths.open(now, &mut self.end, &mut tell) {
            self.end.handle_input(now, Input::Timeout);
        }
        let mut bytes = None;
        let wakes_at = loop {
            match self.end.poll_output(now) {
                Output::Event(Event::Received(received)) if continues(&mut bytes, &received) => {}
                Output::Event(event) => {
                    self.tell_bytes(now, bytes.take(), &mut tell);
                    match event {
                        Event::Received(received) if has_bytes(&received) => {
                            bytes = Some((received.stream.0, received.payload));
                        }
                        event => self.on_event(now, event, &mut ended, &mut tell),
                    }
                }
                Output::Transmit(packet) => {
                    let Body::Quic(datagram) = &packet.body else { continue };
                    let number = Numbered { network: packet.path, client_host: datagram.client_host };
                    let route = self.paths.route(&number, datagram.destination_port);
                    let mut writing = Writing { bytes: &mut self.bytes, level: Level::Initial };
                    let keys = &mut self.keys;
                    outbox.push(route, packet.ecn, |out| {
                        datagram.content.emit(keys, &mut writing, out);
                    });
                }
                // What is told may have more to do follow.
                Output::Timeout(_) if bytes.is_some() => self.tell_bytes(now, bytes.take(), &mut tell),
                Output::Timeout(at) => break at,
            }
        };
        let (network, client_host, port) = self.end.place_of_peer();
        self.route = self.paths.route(&Numbered { network, client_host }, port);
        if self.end.has_several_paths() == Some(true) {
            self.paths.tell(&self.end, &mut tell);
        }
        self.forget(&ended);
        for (place, bidirectional) in [(0, true), (1, false)] {
            if self.wants_streams[place] && self.end.can_open(bidirectional) {
                self.wants_streams[place] = false;
                tell(HostEvent::CanOpen { bidirectional });
            }
        }
        wakes_at
    }

    /// Forgets what is no longer needed.
    fn forget(&mut self, ended: &[u64]) {
        self.bytes.arrived.clear();
        for level in [Level::Initial, Level::Handshake] {
            let is_over = !self.end.has_keys(level) && !self.end.awaits_keys(level);
            if is_over && !self.end.is_closing() && self.keys.sealing[level as usize].is_some() {
                self.keys.sealing[level as usize] = None;
                self.keys.opening[level as usize] = None;
                let gone = Crypto { read: u64::MAX, ..Crypto::default() };
                let crypto = std::mem::replace(&mut self.bytes.crypto[place(level)], gone);
                self.bytes.pieces -= crypto.incoming.pieces();
            }
        }
        if self.end.is_closing() {
            // What is said now has no bytes of an application.
            self.bytes = Bytes { crypto: std::mem::take(&mut self.bytes.crypto), ..Bytes::default() };
            self.waiting.clear();
            return;
        }
        for id in ended {
            if self.end.acknowledged(*id).is_none() && !self.end.wants_bytes(*id) {
                self.remove_stream(*id);
            }
        }
        self.bytes.messages.forget_before(self.end.first_datagram().unwrap_or(u64::MAX));
        if self.owed >= SWEEP_AFTER {
            self.owed = 0;
            self.sweep();
        }
    }

    fn on_event(&mut self, now: Time, event: Event, ended: &mut Vec<u64>, tell: &mut impl FnMut(HostEvent)) {
        match event {
            Event::Closed(reason) => {
                self.has_ended = true;
                tell(HostEvent::Closed(Box::new(self.ending(reason))));
            }
            Event::Connected => {
                self.is_open = true;
                let protocol = self.tls.as_ref().and_then(Tls::protocol).unwrap_or_default();
                tell(match self.side {
                    Side::A => HostEvent::Connected(protocol),
                    Side::B => HostEvent::Accepted(protocol),
                });
            }
            Event::Received(received) => self.on_received(now, received, ended, tell),
            Event::StreamReset(id) => {
                ended.push(id.0);
                tell(HostEvent::StreamStopped(id.0));
            }
            Event::StreamResetByPeer(Some(id)) => {
                ended.push(id.0);
                tell(HostEvent::StreamReset(id.0));
            }
            Event::StreamWritable(id) => tell(HostEvent::Writable(id.0)),
            // A message that is lost is not told of, and other transports have other events.
            _ => {}
        }
    }

    fn on_received(
        &mut self,
        now: Time,
        received: Received,
        ended: &mut Vec<u64>,
        tell: &mut impl FnMut(HostEvent),
    ) {
        let (stream, payload) = (received.stream.0, received.payload);
        if received.unordered {
            let message = self.bytes.arrived.get_mut(payload.offset as usize);
            // Nobody reads: it is lost as in a full queue.
            let Some(bytes) = message.map(std::mem::take).filter(|_| self.unread < MOST_UNREAD) else {
                return;
            };
            self.count_unread(now, bytes.len() as u64 + MESSAGE_COST);
            return tell(HostEvent::Datagram(bytes));
        }
        if received.ends_stream {
            ended.push(stream);
            tell(HostEvent::StreamEnded(stream));
        }
    }

    /// Tells of bytes of a stream, if there are any.
    fn tell_bytes(&mut self, now: Time, bytes: Option<(u64, Payload)>, tell: &mut impl FnMut(HostEvent)) {
        let Some((stream, payload)) = bytes else { return };
        let Bytes { streams, pieces, .. } = &mut self.bytes;
        let take =
            |stream: &mut Stream| counted(pieces, &mut stream.incoming, |incoming| incoming.take(payload));
        match streams.get_mut(&stream).and_then(take) {
            Some(bytes) => {
                self.count_unread(now, bytes.len() as u64);
                tell(HostEvent::Received { stream, bytes });
            }
            // More pieces were outstanding than are kept.
            None => self.end.handle_input(now, Input::Command(Command::Abort)),
        }
    }

    fn count_unread(&mut self, now: Time, bytes: u64) {
        self.unread += bytes;
        if self.unread >= MOST_UNREAD && !self.is_paused {
            self.is_paused = true;
            self.end.handle_input(now, Input::Command(Command::PauseReading));
        }
    }

    /// What reading a message costs, for [`Self::has_read`].
    pub(super) const fn message_cost() -> u64 {
        MESSAGE_COST
    }

    fn ending(&self, reason: CloseReason) -> Ending {
        let mut counted = Row::default();
        self.end.report(&mut counted.section("quic"));
        let rule = self.end.violation().map(|(code, rule)| format!("{rule} (error {code:#x})"));
        let versions = (!self.end.peers_versions().is_empty())
            .then(|| "the server speaks other versions of QUIC only".to_owned());
        let is_reset = counted.value("quic.resets_received").is_some_and(|count| count > 0.0);
        let reset = is_reset.then(|| "the peer has forgotten the connection (stateless reset)".to_owned());
        let why = self.why.clone().or(rule).or(versions).or(reset);
        Ending { reason, code: self.end.closed_with(), why, counted }
    }

    /// This end, a client, has other addresses than before, or another port, of which it tells the server
    /// unless `quietly`.
    pub(super) fn go_on_from(&mut self, now: Time, before: &[IpAddr], addresses: &[IpAddr], quietly: bool) {
        let moved = self.paths.go_on_from(before, addresses);
        let open: Vec<_> = self.end.live_paths().filter(|path| path.is_open && !quietly).collect();
        for path in open {
            let is_there = |(number, _): &&(PathId, bool)| *number == path.network;
            if let Some((_, is_same_host)) = moved.iter().find(is_there) {
                self.end.change_address(now, path.path, *is_same_host);
            }
        }
        self.end.handle_input(now, Input::Timeout);
    }

    /// The IDs by which the peer calls this end have changed: these are they now.
    pub(super) fn take_ids(&mut self) {
        let ids: Vec<_> = self.end.known_as().collect();
        for path in 1..=ids.iter().map(|(path, _)| *path).max().unwrap_or(0) {
            self.keys.set_ids(path, ids.iter().filter(|(of, _)| *of == path).map(|(_, id)| *id));
        }
        self.ids = ids.into_iter().map(|(_, id)| id).collect();
    }

    /// Nobody is at the peer's port, an ICMP message says.
    pub(super) fn give_up(&mut self, why: &str) {
        self.why = Some(format!("{why} (ICMP)"));
        self.end.give_up();
    }

    fn remove_stream(&mut self, id: u64) {
        if let Some(stream) = self.bytes.streams.remove(&id) {
            self.bytes.pieces -= stream.incoming.pieces();
        }
    }

    /// Forgets streams of which the peer has everything, and bytes that it has.
    fn sweep(&mut self) {
        let Self { end, bytes: Bytes { streams, pieces, .. }, .. } = self;
        streams.retain(|id, stream| {
            let acknowledged = end.acknowledged(*id);
            stream.outgoing.forget_before(acknowledged.unwrap_or(u64::MAX));
            let is_kept = acknowledged.is_some() || end.wants_bytes(*id);
            *pieces -= if is_kept { 0 } else { stream.incoming.pieces() };
            is_kept
        });
    }

    /// The address of the peer, with the port of UDP.
    pub(super) const fn peer(&self) -> (IpAddr, u16) {
        (
            self.route.remote,
            match self.route.port {
                Some(port) => port,
                None => 0,
            },
        )
    }
}

/// Whether these are bytes of a stream, and no message or end.
const fn has_bytes(received: &Received) -> bool {
    !received.unordered && !received.ends_stream
}

/// Whether what has come continues these bytes of a stream, with which it is told then: of many packets that
/// are read together an application hears once.
fn continues(bytes: &mut Option<(u64, Payload)>, received: &Received) -> bool {
    let Some((stream, Payload { offset, length })) = bytes else { return false };
    let behind = (StreamId(*stream), *offset + u64::from(*length));
    let joins = has_bytes(received) && (received.stream, received.payload.offset) == behind;
    if joins {
        *length += received.payload.length;
    }
    joins
}

/// Opens the packet with which a client asks for a connection, with the keys that it says itself, and gives
/// its content.
pub(super) fn open_first(destination: ConnectionId, datagram: &mut [u8]) -> Option<QuicPacket> {
    let mut keys = Keys::default();
    keys.set(Level::Initial, Real::initial(destination, false));
    let parsed =
        Content::parse(datagram, ID_BYTES, &mut keys, &mut Reading::of(datagram.as_ptr(), 0)).ok()?;
    let Content::Packets(packets) = parsed.content else { return None };
    let has_hello = |packet: &QuicPacket| {
        packet.level == Level::Initial
            && packet.frames.iter().any(|frame| matches!(frame, Frame::Crypto { .. }))
    };
    packets.into_iter().next().filter(has_hello)
}

/// Appends the bytes of what a listener answers. A close in an Initial packet is sealed as the server's, and
/// has no data.
pub(super) fn emit_answer(content: &Content, out: &mut Vec<u8>) {
    let mut keys = Keys::default();
    if let Content::Packets(packets) = content {
        keys.set(Level::Initial, Real::initial(packets[0].source, false));
    }
    content.emit(&mut keys, &mut Reading::of(std::ptr::null(), 0), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that leaves gaps is not heard beyond a number of them, until it fills the first one.
    #[test]
    fn pieces_that_wait_are_bounded() {
        let mut bytes = Bytes::default();
        bytes.streams.insert(0, Stream::default());
        let mut arrives = |position: u64| {
            let piece = Piece { level: Level::OneRtt, part: Part::Stream(0), position, place: 0..1 };
            let has_room = bytes.has_room(&[piece]);
            let Bytes { streams, pieces, .. } = &mut bytes;
            let incoming = &mut streams.get_mut(&0).expect("it is there").incoming;
            if has_room {
                counted(pieces, incoming, |incoming| incoming.put(position, &[7], 1 << 20));
            }
            (has_room, bytes.pieces)
        };
        for at in 0..20_000_u64 {
            let (has_room, pieces) = arrives(2 * at + 2);
            assert_eq!((has_room, pieces), (at < MOST_PIECES as u64, MOST_PIECES.min(at as usize + 1)));
        }
        assert_eq!(arrives(0), (true, MOST_PIECES + 1));
        assert_eq!(arrives(1), (false, MOST_PIECES + 1), "nothing has been delivered yet");
    }
}
