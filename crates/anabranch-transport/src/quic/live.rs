//! What a live host needs of a connection beside its interface as an endpoint: a handshake whose messages TLS
//! makes, streams that the application opens and ends, and the connection IDs by which datagrams find it.

use super::application::Main;
use super::connection::{Connection, State};
use super::errors::{code, violation};
use super::handshake::Handshake;
use super::space::SpaceId;
use crate::endpoint::{CloseReason, Event, Message, Output, Received, StreamId};
use crate::flow::{Payload, Side};
use crate::time::Time;
use crate::wire::Packet;
use crate::wire::quic::{ConnectionId, Level, Parameters};

impl Connection {
    /// From the next connection on, the messages of the handshake are TLS's, and no stream is the
    /// application's own one. It is for an end that is closed.
    pub fn go_live(&mut self) {
        self.is_live = true;
    }

    /// Takes a packet, and does nothing else yet: whoever has given TLS what came with it continues with
    /// [`Input::Timeout`](crate::endpoint::Input::Timeout).
    pub fn take(&mut self, now: Time, packet: Box<Packet>) {
        self.on_packet_input(now, packet);
    }

    /// The IDs by which the peer calls this end: until a server hears of a client that knows them, the one
    /// that the client has made up, too.
    pub fn known_as(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        let first = (self.side == Side::B).then(|| self.handshake.first());
        self.paths[0].own_ids.all().chain(first)
    }

    /// A number that changes with [`Self::known_as`].
    pub fn ids_version(&self) -> u64 {
        self.paths[0].own_ids.version()
    }

    /// Where the client's first packet went (RFC 9000 section 7.3).
    pub const fn original_destination(&self) -> ConnectionId {
        self.handshake.original
    }

    /// Whether this end seals and opens packets of a level now.
    pub const fn has_keys(&self, level: Level) -> bool {
        self.handshake.has_keys(level)
    }

    /// Whether the keys of a level are yet to come.
    pub const fn awaits_keys(&self, level: Level) -> bool {
        self.handshake.awaits_keys(level)
    }

    /// Where the client's Initial packets go until the server has named its own ID, from which their keys are
    /// made (RFC 9001 section 5.2).
    pub fn first_destination(&self) -> ConnectionId {
        self.handshake.first()
    }

    /// The numbers of the addresses that it uses at present ([`Datagram::client_host`]).
    ///
    /// [`Datagram::client_host`]: crate::wire::quic::Datagram::client_host
    pub fn hosts_in_use(&self) -> impl Iterator<Item = u8> + '_ {
        let path = &self.paths[0];
        let answered = path.answer.map(|(address, ..)| address);
        let previous = path.previous.as_ref().map(|route| route.address);
        [Some(path.route.address), previous, answered].into_iter().flatten().map(|address| address.host)
    }

    /// Where the peer is: the number of its address, and its port.
    pub fn place_of_peer(&self) -> (u8, u16) {
        let address = self.paths[0].route.address;
        (address.host, address.port)
    }

    /// The port of this end and the peer's, as its packets have them.
    pub const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// The bytes of this end's transport parameters.
    pub fn parameter_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.own_parameters().emit(&mut bytes);
        bytes
    }

    /// How many bytes of the peer's messages of the handshake have come without a gap at this level.
    pub fn crypto_read(&self, level: Level) -> u64 {
        place(level).map_or(0, |place| self.handshake.crypto[place].read)
    }

    /// TLS has written so many bytes at this level.
    pub fn add_crypto(&mut self, level: Level, bytes: u64) {
        if let Some(place) = place(level) {
            self.handshake.crypto[place].send.written += bytes;
        }
    }

    /// TLS has given the keys of Handshake packets.
    pub fn take_handshake_keys(&mut self) {
        self.handshake.has_handshake_keys = true;
    }

    /// TLS has given the peer's transport parameters. A client gives them when the handshake is complete,
    /// since nothing vouches for them before (RFC 9001 section 8.2). If they break a rule, the connection
    /// ends.
    pub fn take_peer_parameters(&mut self, now: Time, bytes: &[u8]) {
        const WRONG: &str = "the transport parameters break a rule";
        let Ok(parameters) = Parameters::parse(bytes, self.side == Side::B) else {
            return self.fail(now, violation(code::TRANSPORT_PARAMETER_ERROR, WRONG));
        };
        self.handshake.peer = Some(Box::new(parameters));
        if let Err(violation) = self.take_parameters() {
            self.fail(now, violation);
        }
    }

    /// TLS is through, and this end has the keys of packets with short headers.
    pub fn complete_handshake(&mut self, now: Time) {
        if self.state == State::Opening && !self.handshake.is_complete {
            self.complete(now);
        }
    }

    /// TLS has failed with this alert (RFC 9001 section 4.8), which ends the connection.
    pub fn fail_handshake(&mut self, now: Time, alert: u8) {
        if matches!(self.state, State::Opening | State::Open) {
            self.fail(now, violation(code::CRYPTO_ERROR + u64::from(alert), "TLS has failed"));
        }
    }

    /// The peer has broken a rule that is seen in bytes (RFC 9000 section 12.4).
    pub fn fail_with(&mut self, now: Time, code: u64, reason: &'static str) {
        if matches!(self.state, State::Opening | State::Open) {
            self.fail(now, violation(code, reason));
        }
    }

    /// Closes the connection with a code of the application.
    pub fn close_with(&mut self, now: Time, code: u64) {
        if matches!(self.state, State::Opening | State::Open) {
            let reason = if code == code::NO_ERROR { CloseReason::Shutdown } else { CloseReason::Aborted };
            self.close(now, code, true, reason);
        }
    }

    /// The code with which the peer has closed, if it has, and whether it is its application's.
    pub const fn closed_with(&self) -> Option<(u64, bool)> {
        self.closed_with
    }

    /// Whether nothing more is sent or taken but answers (RFC 9000 section 10.2).
    pub const fn is_closing(&self) -> bool {
        !matches!(self.state, State::Opening | State::Open)
    }

    /// Whether the connection is over completely.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Nobody is there: the connection is over.
    pub fn give_up(&mut self) {
        self.on_idle_timer();
    }

    /// Whether bytes of the peer on this stream are wanted: it is not over, stopped or reset.
    pub fn wants_bytes(&self, id: u64) -> bool {
        match self.streams.get(id) {
            None => !self.streams.has_opened(id),
            Some(stream) => {
                stream.receive.as_ref().is_some_and(|receive| !receive.is_done() && receive.stopped.is_none())
            }
        }
    }

    /// Whether there is a stream on which this end may still have to send, and up to where the peer has all
    /// of it.
    pub fn acknowledged(&self, id: u64) -> Option<u64> {
        let send = self.streams.get(id)?.send.as_ref().filter(|send| send.reset.is_none())?;
        Some(send.acknowledged)
    }

    /// Whether the peer permits another stream.
    pub fn can_open(&self, bidirectional: bool) -> bool {
        self.state == State::Open && self.streams.can_open(bidirectional)
    }

    /// Appends up to `length` bytes to a stream as far as the send buffer has room, and ends it with `fin`
    /// behind all of them. Returns how many were taken, or [`None`] if nothing can be written there. Once
    /// some were refused, [`Event::StreamWritable`] says that there is room.
    pub fn write_some(&mut self, id: u64, length: u32, fin: bool) -> Option<u32> {
        let most = self.parameters.send_buffer;
        let send = self.streams.sender(id).filter(|send| !send.is_finished && send.reset.is_none())?;
        let room = most.saturating_sub(send.written - send.acknowledged);
        let taken = room.min(length.into()) as u32;
        if taken < length && !self.refused.contains(&id) {
            self.refused.push(id);
        }
        if taken > 0 || (fin && length == 0) {
            self.write_stream(id, taken, fin && taken == length);
        }
        Some(taken)
    }

    /// The longest message that a DATAGRAM frame may carry to this peer (RFC 9221 section 3); 0 if it takes
    /// none.
    pub fn longest_datagram(&self) -> u32 {
        // Type, and a length of at most four bytes.
        let most = self.peer.max_datagram_frame_size.saturating_sub(5);
        self.longest_message().min(most) as u32
    }

    /// Sends a message in a DATAGRAM frame; whether it was taken.
    pub fn push_datagram(&mut self, payload: Payload) -> bool {
        let may = self.state == State::Open && payload.length <= self.longest_datagram();
        if may {
            self.send_message(&Message { unordered: true, ..Message::new(payload) });
        }
        may
    }

    /// The message that has waited longest to leave begins there.
    pub fn first_datagram(&self) -> Option<u64> {
        self.messages.front().map(|payload| payload.offset)
    }

    /// The peer's part of a stream is over, and all of it has been delivered.
    pub(super) fn report_end(&mut self, id: u64) {
        let receive = self.streams.get(id).and_then(|stream| stream.receive.as_ref());
        let payload = Payload { offset: receive.map_or(0, |receive| receive.next), length: 0 };
        let end = Received { stream: StreamId(id), ends_stream: true, ..Received::new(payload) };
        self.outputs.push_back(Output::Event(Event::Received(end)));
        self.streams.close_if_done(id);
    }

    /// Whether the peer has everything that was written.
    pub(super) fn has_sent_all(&self) -> bool {
        let mut sending = self.streams.iter().filter_map(|(_, stream)| stream.send.as_ref());
        sending.all(|send| send.is_done() || (!send.is_finished && send.acknowledged == send.written))
    }

    /// There is room again in the send buffers of streams, half of each, or the streams are gone.
    pub(super) fn report_writable_streams(&mut self) {
        let Self { refused, streams, parameters, outputs, .. } = self;
        refused.retain(|id| {
            let send = streams.sender(*id).filter(|send| send.reset.is_none());
            let waits =
                send.is_some_and(|send| send.written - send.acknowledged > parameters.send_buffer / 2);
            if !waits {
                outputs.push_back(Output::Event(Event::StreamWritable(StreamId(*id))));
            }
            waits
        });
    }

    /// Whether the application has said that it has nothing more to say.
    pub const fn is_shutting_down(&self) -> bool {
        let Main { is_finished, .. } = self.main;
        is_finished
    }
}

/// The place of a level's messages of the handshake.
const fn place(level: Level) -> Option<usize> {
    match level {
        Level::Initial => Handshake::place(SpaceId::Initial),
        Level::Handshake => Handshake::place(SpaceId::Handshake),
        Level::ZeroRtt | Level::OneRtt => None,
    }
}
