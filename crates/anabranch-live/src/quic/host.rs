//! Connections with many peers, without a socket: datagrams, commands and the time go in; datagrams and
//! events come out. A datagram belongs to the connection of its connection ID, wherever it comes from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_transport::endpoint::{Command, Endpoint as _, Input, Keeper as _, Site};
use anabranch_transport::flow::{Ecn, IpVersion, PathId, Side};
use anabranch_transport::listener::{Answer, Listen as _, Listener as _};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::quic::tls::{Client, Server};
use anabranch_transport::quic::{Config, Connection, Listener};
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::secret::{Secret, SecretNumbers};
use anabranch_transport::time::Time;
use anabranch_transport::units::Bytes;
use anabranch_transport::wire::quic::{ConnectionId, Content, Datagram, Header, Level, Packet as QuicPacket};
use anabranch_transport::wire::{Body, Packet, ip};

use super::connection::{ID_BYTES, Live, emit_answer, open_first};
use super::events::{HostEvent, Refusal};
use super::paths::{MOST_PATHS, check_versions};
use crate::route::{Route, is_unicast, source_for, version};
use crate::stack::Unreachable;
use crate::table::{Handle, Table, Tabled};

/// Connections of clients that have not completed their handshakes, above which a client has to show the
/// token of a Retry packet before anything about it is kept (RFC 9000 section 8.1.2).
const MOST_UNVALIDATED: usize = 256;
/// The receive window of a stream is kept, and what one datagram goes beyond it.
const WINDOW_SLACK: u64 = 1 << 16;
/// The header of UDP.
const UDP_BYTES: u32 = 8;
/// Where a server is in the packets that connections hand over; routes have the real ports.
const SERVER_PORT: u16 = 443;

/// The settings of a host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its addresses; empty if the system chooses them.
    pub addresses: Vec<IpAddr>,
    /// The largest IP packet in bytes.
    pub mtu: u32,
    /// How many connections peers may have at the same time, including those that are being opened. The
    /// oldest of these gives way to a new one; if there is none, the new one is not answered.
    pub most_accepted: usize,
}

/// Who accepts connections.
struct Waiting {
    /// By version of IP.
    listeners: [Listener; 2],
    server: Server,
    window: u64,
    /// Whether every client has to show a token.
    asks: bool,
}

/// Connections, a listener, and packets to send. See the [module](self).
pub struct Host {
    pub(super) settings: Settings,
    numbers: SecretNumbers,
    streams: Streams,
    waiting: Option<Waiting>,
    pub(super) table: Table<Live, HostEvent>,
    by_id: BTreeMap<ConnectionId, Handle>,
    /// By the peer's address and port: stateless resets have no connection ID.
    by_peer: BTreeMap<(IpAddr, u16), Vec<Handle>>,
    /// Memory for the datagram that is being opened.
    scratch: Vec<u8>,
    /// Connections that have got datagrams and not answered yet, with the time of the last one of each.
    batch: Vec<(Handle, Time)>,
}

/// The settings with what only a host can say.
fn config_of(config: &Config) -> Config {
    Config {
        connection_id_bytes: Some(ID_BYTES as u8),
        source_port: None,
        destination_port: None,
        path: None,
        ..config.clone()
    }
}

/// What is kept of a stream, at most, with these settings.
fn window_of(config: &Config) -> u64 {
    // The greatest value that the setting takes.
    config.max_stream_data.map_or(1 << 30, |Bytes(bytes)| bytes) + WINDOW_SLACK
}

/// The MTU of each path that a connection can have.
fn mtus_of(config: &Config, mtu: u32) -> Vec<u32> {
    vec![mtu; if config.multipath == Some(true) { MOST_PATHS } else { 1 }]
}

impl Host {
    /// A host whose connection IDs and tokens come from this secret.
    pub fn new(settings: Settings, secret: &Secret, streams: Streams) -> Self {
        Self {
            table: Table::new(settings.most_accepted),
            settings,
            numbers: SecretNumbers::new(Secret(secret.code(b"host", b"numbers"))),
            streams,
            waiting: None,
            by_id: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            scratch: Vec::new(),
            batch: Vec::new(),
        }
    }

    /// Waits for peers, with these settings for the connections.
    ///
    /// # Errors
    /// When somebody waits already, or the settings are impossible: one sentence.
    pub fn listen(&mut self, config: &Config, server: Server) -> Result<(), String> {
        if self.waiting.is_some() {
            return Err("the endpoint waits for connections already; it can do so once".into());
        }
        // A client says which paths are backups.
        let config = Config { backup: Vec::new(), ..config_of(config) };
        let mtus = mtus_of(&config, self.settings.mtu);
        let mut listener = |ip| {
            let (mtus, streams) = (&mtus[..], self.streams);
            let site = Site { side: Side::B, mtus, ip, streams, connection: "live" };
            let mut listener = config.listen(&site)?;
            listener.draw_from(self.numbers.split_off());
            listener.go_live();
            Ok::<_, String>(listener)
        };
        let listeners = [listener(IpVersion::Ipv4)?, listener(IpVersion::Ipv6)?];
        self.waiting =
            Some(Waiting { listeners, server, window: window_of(&config), asks: config.retry == Some(true) });
        Ok(())
    }

    /// Stops listening; the connections stay.
    pub fn stop_listening(&mut self) {
        self.waiting = None;
    }

    /// Whether peers that ask for a connection are ignored for now, because the application has not taken
    /// note of the present ones.
    pub const fn pause_accepting(&mut self, is_paused: bool) {
        self.table.is_paused = is_paused;
    }

    /// The way to a peer at this address and port, from the address of this end that is nearest.
    pub fn route_to(&self, remote: IpAddr, port: u16) -> Route {
        Route { local: source_for(&self.settings.addresses, remote), remote, port: Some(port) }
    }

    /// Opens a connection with a server, whose certificate is for this name or address.
    ///
    /// # Errors
    /// When the name or the settings are impossible: one sentence.
    pub fn connect(
        &mut self,
        now: Time,
        config: &Config,
        client: &Client,
        route: Route,
        server_name: &str,
    ) -> Result<Handle, String> {
        check_versions(route)?;
        self.use_address(route.local);
        let config = config_of(config);
        let (ip, mtus) = (version(route.remote), mtus_of(&config, self.settings.mtu));
        let parameters = config.resolve()?;
        parameters.check_paths(&mtus, ip)?;
        let name = self.table.next_name();
        let mut end = Connection::new(&parameters, Side::A, &mtus, ip, self.streams, &name);
        end.draw_from(self.numbers.split_off());
        end.go_live();
        end.handle_input(now, Input::Command(Command::Connect));
        let tls = client.begin(server_name, end.parameter_bytes())?;
        let mut live = Live::new(end, Side::A, route, window_of(&config));
        live.begin(tls);
        live.go_on(now);
        let peer = live.peer();
        let number = self.table.add(live);
        self.by_peer.entry(peer).or_default().push(number);
        self.drain(now, number);
        Ok(number)
    }

    /// Opens a stream, with both directions or with one; [`None`] if the peer permits none at present, of
    /// which [`HostEvent::CanOpen`] tells.
    ///
    /// # Errors
    /// When there is no such connection.
    pub fn open_stream(&mut self, number: Handle, bidirectional: bool) -> Result<Option<u64>, Refusal> {
        Ok(self.living(number)?.open_stream(bidirectional))
    }

    /// Appends bytes to a stream and, with `fin`, ends it behind all of them. Returns how many were taken. If
    /// that is not all of them, [`HostEvent::Writable`] says when there is room for more.
    ///
    /// # Errors
    /// When there is no such connection, or nothing can be written on the stream.
    pub fn write(
        &mut self,
        now: Time,
        number: Handle,
        stream: u64,
        bytes: &[u8],
        fin: bool,
    ) -> Result<usize, Refusal> {
        let live = self.living(number)?;
        let taken = live.write(stream, bytes, fin).ok_or(Refusal::NoStream)?;
        live.end.handle_input(now, Input::Timeout);
        self.drain(now, number);
        Ok(taken)
    }

    /// Sends a message, once (RFC 9221).
    ///
    /// # Errors
    /// When there is no such connection, or the message is too long.
    pub fn send_datagram(&mut self, now: Time, number: Handle, bytes: &[u8]) -> Result<(), Refusal> {
        let live = self.living(number)?;
        if !live.send_datagram(bytes) {
            return Err(Refusal::TooLong(live.end.longest_datagram()));
        }
        live.end.handle_input(now, Input::Timeout);
        self.drain(now, number);
        Ok(())
    }

    /// Gives up this end's part of a stream (`reset`), or wants nothing more of the peer's. Returns whether
    /// there was something to give up.
    pub fn give_up_stream(&mut self, now: Time, number: Handle, stream: u64, code: u64, reset: bool) -> bool {
        let Ok(live) = self.living(number) else { return false };
        let is_done =
            if reset { live.end.reset_stream(stream, code) } else { live.end.stop_sending(stream, code) };
        live.end.handle_input(now, Input::Timeout);
        self.drain(now, number);
        is_done
    }

    /// Closes a connection at once, with a code of the application.
    pub fn close(&mut self, now: Time, number: Handle, code: u64) {
        if let Ok(live) = self.living(number) {
            live.end.close_with(now, code);
            self.drain(now, number);
        }
    }

    /// Closes a connection in order, once the peer has everything that was written.
    pub fn shut_down(&mut self, now: Time, number: Handle) {
        if let Ok(live) = self.living(number) {
            live.end.handle_input(now, Input::Command(Command::Shutdown));
            self.drain(now, number);
        }
    }

    /// Updates the keys of a connection (RFC 9001 section 6). Returns false if it is too early.
    pub fn update_keys(&mut self, number: Handle) -> bool {
        self.living(number).is_ok_and(Live::update_keys)
    }

    /// How many times the keys of a connection have been updated, by either end.
    pub fn key_updates(&self, number: Handle) -> u64 {
        self.table.get(number).map_or(0, Live::key_updates)
    }

    /// The application has read so many of the bytes that it was told of, and so many messages.
    pub fn has_read(&mut self, now: Time, number: Handle, bytes: u64, messages: u64) {
        if let Ok(live) = self.living(number) {
            live.has_read(now, bytes + messages * Live::message_cost());
            self.drain(now, number);
        }
    }

    pub(super) fn living(&mut self, number: Handle) -> Result<&mut Live, Refusal> {
        self.table.get_mut(number).filter(|live| !live.has_ended).ok_or(Refusal::Closed)
    }

    /// Gives a datagram to the connection that it belongs to.
    fn give(&mut self, now: Time, number: Handle, route: Route, ecn: Ecn, datagram: &mut [u8]) {
        let live = &mut self.table[number];
        if live.is_open && !live.has_ended && live.comes_from_peer(route) {
            // RFC 9000 section 13.2.1: several datagrams that are there are acknowledged together.
            live.receive_one(now, route, ecn, datagram);
            match self.batch.iter_mut().find(|(other, _)| *other == number) {
                Some((_, at)) => *at = now,
                None => self.batch.push((number, now)),
            }
            return;
        }
        // One from elsewhere may move the connection, and what it asks is answered there: neither what came
        // before nor what comes next is to be mixed with that.
        self.end_batch();
        if let Some(live) = self.table.get_mut(number) {
            live.receive(now, route, ecn, datagram);
            self.drain(now, number);
        }
    }

    /// Takes a datagram to an ID that is not known.
    fn give_to_listener(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &mut [u8]) {
        let length = datagram.len() as u32;
        let Some(content) = content_for_listener(datagram) else { return };
        let is_first = matches!(&content, Content::Packets(packets) if packets[0].level == Level::Initial);
        if is_first {
            if self.table.is_paused {
                return;
            }
            if let Some(oldest) = self.table.gives_way() {
                self.remove(oldest);
            }
        }
        let is_full = self.table.is_full();
        let Some(waiting) = self.waiting.as_mut().filter(|_| !(is_first && is_full)) else { return };
        let ip = version(route.remote);
        let listener = &mut waiting.listeners[ip as usize];
        listener.ask_for_tokens(waiting.asks || self.table.half_open() >= MOST_UNVALIDATED);
        let body = Body::Quic(Box::new(Datagram {
            source_port: route.port.unwrap_or(0),
            destination_port: SERVER_PORT,
            client_host: 0,
            content,
        }));
        let size = ip.header_bytes() + UDP_BYTES + length;
        let packet = Box::new(Packet { path: PathId(0), ecn, size, body });
        let from = address_bytes(route.remote);
        match listener.handle_packet_of(now, &from, packet) {
            Answer::Nothing => {}
            Answer::Reply(reply) => {
                let Body::Quic(reply) = reply.body else { return };
                self.table.outbox.push(route, Ecn::NotEct, |out| emit_answer(&reply.content, out));
            }
            Answer::Accepted(end) => {
                let Ok(tls) = waiting.server.begin(end.parameter_bytes()) else { return };
                let mut live = Live::new(*end, Side::B, route, waiting.window);
                live.begin(tls);
                let peer = live.peer();
                let number = self.table.accept(live, true);
                self.by_peer.entry(peer).or_default().push(number);
                self.give(now, number, route, ecn, datagram);
            }
        }
    }

    /// Gives a datagram that looks like a stateless reset to the connection of which it has the token (RFC
    /// 9000 section 10.3.1).
    fn give_reset(&mut self, now: Time, route: Route, datagram: &mut [u8]) -> bool {
        let Some(token) = datagram.last_chunk().copied() else { return false };
        let Some(numbers) = self.by_peer.get(&(route.remote, route.port.unwrap_or(0))) else { return false };
        let table = &self.table;
        let found = numbers.iter().copied().find(|number| table[*number].end.is_reset_by(&token));
        if let Some(number) = found {
            self.give(now, number, route, Ecn::NotEct, datagram);
        }
        found.is_some()
    }

    /// Carries out what a connection wants done.
    pub(super) fn drain(&mut self, now: Time, number: Handle) {
        if let Some((_, at)) = self.batch.iter_mut().find(|(other, _)| *other == number) {
            *at = now;
        }
        let peer = self.table[number].peer();
        let live = self.table.drain(number, |live, outbox, tell| live.drain(now, outbox, tell));
        if live.peer() != peer {
            forget_peer(&mut self.by_peer, peer, number);
            self.by_peer.entry(live.peer()).or_default().push(number);
        }
        let (is_open, has_ended) = (live.is_open, live.has_ended);
        if has_ended {
            self.table.discount(number);
        } else if is_open {
            self.table.settle(number);
        }
        let live = &mut self.table[number];
        if live.end.is_closed() && live.has_ended {
            return self.remove(number);
        }
        let version = live.end.ids_version();
        if version != live.ids_version {
            live.ids_version = version;
            // A client's first packets may come again until it knows the server's own ID.
            let before = std::mem::take(&mut live.ids);
            live.take_ids();
            for gone in before.iter().filter(|id| !live.ids.contains(id)) {
                self.by_id.remove(gone);
            }
            for id in &live.ids {
                self.by_id.entry(*id).or_insert(number);
            }
        }
    }

    fn remove(&mut self, number: Handle) {
        let Some(live) = self.table.remove(number) else { return };
        for id in &live.ids {
            if self.by_id.get(id) == Some(&number) {
                self.by_id.remove(id);
            }
        }
        forget_peer(&mut self.by_peer, live.peer(), number);
    }

    /// The sockets have another port, and these addresses (none if the system chooses them): connections that
    /// this end has opened go on from there. Unless `quietly`, they tell the server (RFC 9000 section 9.2);
    /// otherwise it finds out as behind a NAT.
    pub fn go_on_from(&mut self, now: Time, addresses: Vec<IpAddr>, quietly: bool) {
        let before = std::mem::replace(&mut self.settings.addresses, addresses);
        for number in self.table.own() {
            self.table[number].go_on_from(now, &before, &self.settings.addresses, quietly);
            self.drain(now, number);
        }
    }

    /// Whether it waits for peers, or has connections that peers have opened.
    pub fn is_server(&self) -> bool {
        self.waiting.is_some() || self.table.has_accepted()
    }

    /// The addresses that a connection's packets go between.
    pub fn route(&self, number: Handle) -> Option<Route> {
        self.table.get(number).map(|live| live.route)
    }

    /// The counters of a connection, under `quic`; empty if there is none.
    pub fn counters(&self, number: Handle) -> Row {
        let mut row = Row::default();
        if let Some(live) = self.table.get(number) {
            live.end.report(&mut row.section("quic"));
        }
        row
    }

    /// The number of connections, and of those among them that clients are opening.
    pub fn connections(&self) -> [usize; 2] {
        [self.table.len(), self.table.half_open()]
    }

    /// The number of datagrams that began with no header of QUIC.
    pub const fn malformed(&self) -> u64 {
        self.table.malformed
    }
}

/// A connection is not with this peer any more.
fn forget_peer(by_peer: &mut BTreeMap<(IpAddr, u16), Vec<Handle>>, peer: (IpAddr, u16), number: Handle) {
    if let Some(numbers) = by_peer.get_mut(&peer) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            by_peer.remove(&peer);
        }
    }
}

/// The bytes of an address, to which a token is bound.
fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// What a listener is to see of a datagram for which there is no connection; its bytes stay.
fn content_for_listener(datagram: &[u8]) -> Option<Content> {
    match Header::read(datagram, ID_BYTES).ok()?.0 {
        Header::Long(header) if header.level == Level::Initial => {
            let first = open_first(header.ids[0], &mut datagram.to_vec())?;
            Some(Content::Packets([first].into_iter().collect()))
        }
        Header::OtherVersion { version, ids, rest } => {
            Some(Content::OtherVersion { version, ids: ids.map(Box::from), rest: rest.len() as u32 })
        }
        Header::Short(header) => {
            let packet = QuicPacket {
                level: Level::OneRtt,
                destination: header.destination,
                source: ConnectionId::default(),
                token: Box::default(),
                path_id: 0,
                number: 0,
                number_bytes: 1,
                key_phase: false,
                key_updates: 0,
                frames: [].into_iter().collect(),
                parameters: None,
            };
            Some(Content::Packets([packet].into_iter().collect()))
        }
        Header::Long(_) | Header::Retry { .. } | Header::VersionNegotiation { .. } => None,
    }
}

impl Tabled for Host {
    /// It travels in UDP.
    const PROTOCOL: u8 = ip::UDP;
    type Live = Live;
    type Event = HostEvent;

    fn table(&self) -> &Table<Live, HostEvent> {
        &self.table
    }

    fn table_mut(&mut self) -> &mut Table<Live, HostEvent> {
        &mut self.table
    }

    fn end_batch(&mut self) {
        while let Some((number, at)) = self.batch.pop() {
            if let Some(live) = self.table.get_mut(number) {
                live.go_on(at);
                self.drain(at, number);
            }
        }
    }

    fn receive(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]) {
        if !is_unicast(route.remote) {
            self.table.malformed += 1;
            return;
        }
        let Ok((header, _)) = Header::read(datagram, ID_BYTES) else {
            self.table.malformed += 1;
            return;
        };
        let (destination, is_short) = match header {
            Header::Long(header) => (Some(header.ids[0]), false),
            Header::Retry { ids, .. } => (Some(ids[0]), false),
            Header::Short(header) => (Some(header.destination), true),
            Header::VersionNegotiation { ids, .. } => (ConnectionId::new(ids[0]), false),
            Header::OtherVersion { .. } => (None, false),
        };
        let owner = destination.and_then(|id| self.by_id.get(&id)).copied();
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.extend_from_slice(datagram);
        match owner {
            Some(number) => self.give(now, number, route, ecn, &mut bytes),
            None if is_short && self.give_reset(now, route, &mut bytes) => {}
            None => self.give_to_listener(now, route, ecn, &mut bytes),
        }
        self.scratch = bytes;
    }

    /// A client that has no answer yet believes that nobody is at the port, if the datagram that is quoted
    /// went where its own go (RFC 9000 section 14.2.1).
    fn learn_unreachable(&mut self, now: Time, unreachable: Unreachable, quoted: &[u8]) {
        let Unreachable { route, is_refused, reason } = unreachable;
        let Some(numbers) = self.by_peer.get(&(route.remote, route.port.unwrap_or(0))) else { return };
        // First byte, version, and the length of the ID.
        let went_to = quoted.get(5).map(|length| usize::from(*length)).and_then(|end| quoted.get(6..6 + end));
        let table = &self.table;
        let has_sent = |number: &Handle| {
            let end = &table[*number].end;
            end.is_unanswered() && went_to == Some(end.first_destination().bytes())
        };
        let found = numbers.iter().copied().find(has_sent).filter(|_| is_refused);
        if let Some(number) = found {
            self.table[number].give_up(reason);
            self.drain(now, number);
        }
    }

    fn wake(&mut self, now: Time, handle: Handle) {
        self.table[handle].end.handle_input(now, Input::Timeout);
        self.drain(now, handle);
    }
}
