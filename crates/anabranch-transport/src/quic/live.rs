//! What a live host needs of a connection beside its interface as an endpoint: a handshake whose messages TLS
//! makes, streams that the application opens and ends, and the connection IDs by which datagrams find it.

use super::application::Main;
use super::connection::{Connection, State};
use super::errors::{code, violation};
use super::handshake::Handshake;
use super::path::{Address, Path, Standing};
use super::profile::COARSE;
use super::space::SpaceId;
use crate::endpoint::{CloseReason, Event, Message, Output, Received, StreamId};
use crate::flow::{PathId, Payload, Side};
use crate::time::{Duration, Time};
use crate::wire::Packet;
use crate::wire::quic::{ConnectionId, Level, Parameters};

/// A path of a live connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct LivePath {
    /// Its path ID.
    pub path: u32,
    /// The pair of addresses, by which a client knows them.
    pub network: PathId,
    /// The number of the client's address, by which a server knows it.
    pub host: u8,
    /// The peer's port.
    pub port: u16,
    /// Whether it has not been given up.
    pub is_open: bool,
    /// Whether it is known to work in both directions.
    pub is_validated: bool,
    /// Whether its last packets got no answer.
    pub is_silent: bool,
    /// Whether this end wants it to be a backup.
    pub is_backup: bool,
    /// Whether the peer does.
    pub is_peers_backup: bool,
    /// Bytes of UDP payload that were sent and that came.
    pub traffic: [u64; 2],
    /// Its smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Its congestion window in bytes.
    pub cwnd: u32,
}

impl Connection {
    /// From the next connection on, the messages of the handshake are TLS's, and no stream is the
    /// application's own one. Datagrams leave in bursts, as timers of sockets are coarse. It is for an end
    /// that is closed.
    pub fn go_live(&mut self) {
        self.is_live = true;
        let burst = *self.parameters.burst.get_or_insert(COARSE);
        for path in &mut self.paths {
            path.congestion.leave_in_bursts(burst);
        }
    }

    /// Takes a packet, and does nothing else yet: whoever has given TLS what came with it continues with
    /// [`Input::Timeout`](crate::endpoint::Input::Timeout).
    pub fn take(&mut self, now: Time, packet: Box<Packet>) {
        self.on_packet_input(now, packet);
    }

    /// The IDs by which the peer calls this end, each with its path ID: until a server hears of a client that
    /// knows them, the one that the client has made up, too.
    pub fn known_as(&self) -> impl Iterator<Item = (u32, ConnectionId)> + '_ {
        let first = (self.side == Side::B).then(|| (0, self.handshake.first()));
        let places = self.paths.iter().enumerate();
        let ids = places.flat_map(|(place, path)| path.own_ids.all().map(move |id| (place as u32, id)));
        ids.chain(first)
    }

    /// A number that changes with [`Self::known_as`].
    pub fn ids_version(&self) -> u64 {
        self.paths.iter().map(|path| path.own_ids.version()).sum()
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
        let open = self.paths.iter().filter(|path| path.standing == Standing::Open);
        let addresses = open.flat_map(|path| {
            let answered = path.answer.map(|(address, ..)| address);
            let previous = path.previous.as_ref().map(|route| route.address);
            [Some(path.route.address), previous, answered]
        });
        addresses.flatten().map(|address| address.host)
    }

    /// The pair of addresses, the number of the client's address and the peer's port of the first path that
    /// is open.
    pub fn place_of_peer(&self) -> (PathId, u8, u16) {
        let open = self.paths.iter().find(|path| path.standing == Standing::Open);
        let Address { network, port, host } = open.unwrap_or(&self.paths[0]).route.address;
        (network, host, port)
    }

    /// Whether this end wants to use several paths.
    pub const fn wants_several_paths(&self) -> bool {
        self.parameters.multipath
    }

    /// Whether both ends have agreed to use several paths; [`None`] before they could.
    pub fn has_several_paths(&self) -> Option<bool> {
        self.handshake.is_complete.then_some(self.multipath.is_some())
    }

    /// Whether another path may be opened: there is a path ID that has not been used. The peer may still owe
    /// its connection IDs.
    pub fn has_unused_path(&self) -> bool {
        self.paths.iter().any(|path| path.standing == Standing::Unused)
    }

    /// A client opens a path between this pair of addresses, as a backup or not. Returns its path ID;
    /// [`None`] if that is not possible, or not yet.
    pub fn open_live_path(&mut self, now: Time, network: PathId, is_backup: bool) -> Option<u32> {
        let is_free = |path: &Path| path.standing == Standing::Unused && path.peer_ids.has_any();
        let may = self.side == Side::A && self.state == State::Open && self.handshake.is_confirmed;
        let place = self.paths.iter().position(is_free).filter(|_| may)?;
        self.open_towards(now, place, network);
        if is_backup && !self.is_own_backup(place) {
            self.paths[place].wish(true);
        }
        Some(place as u32)
    }

    /// Gives a path up (RFC 10069 section 3.4), with this code, and whether it did: the last path stays.
    pub fn abandon_path(&mut self, now: Time, path: u32, code: u64) -> bool {
        let is_open = |place: usize| self.paths[place].standing == Standing::Open;
        let (place, all) = (path as usize, 0..self.paths.len());
        let may = self.state == State::Open
            && all.contains(&place)
            && is_open(place)
            && all.into_iter().any(|other| other != place && is_open(other));
        if may {
            self.abandon(now, place, code);
        }
        may
    }

    /// Tells the peer whether a path is a backup from now on (section 3.3), and whether it did.
    pub fn set_path_status(&mut self, path: u32, is_backup: bool) -> bool {
        let may = self.multipath.is_some() && self.state == State::Open;
        let path = self.paths.get_mut(path as usize).filter(|path| may && path.standing == Standing::Open);
        path.map(|path| path.wish(is_backup)).is_some()
    }

    /// The paths that have been used, by path ID.
    pub fn live_paths(&self) -> impl Iterator<Item = LivePath> + '_ {
        let used = self.paths.iter().enumerate().filter(|(_, path)| path.standing != Standing::Unused);
        used.map(|(place, path)| {
            let Address { network, port, host } = path.route.address;
            LivePath {
                path: place as u32,
                network,
                host,
                port,
                is_open: path.standing == Standing::Open,
                is_validated: path.is_ready,
                is_silent: path.is_ready && path.rtt.back_offs() > 0,
                is_backup: self.is_own_backup(place),
                is_peers_backup: path.news.wish.is_some_and(|(_, is_backup)| is_backup),
                traffic: path.traffic,
                srtt: path.rtt.srtt(),
                cwnd: path.congestion.window(),
            }
        })
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
