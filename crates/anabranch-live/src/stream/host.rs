//! Connections with many peers, without a socket: segments, commands and the time go in; segments and events
//! come out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_transport::endpoint::{Command, Input, Message, Site, Transport as _};
use anabranch_transport::flow::{Ecn, PathId, Side};
use anabranch_transport::listener::{Answer, Listen, Listener as _};
use anabranch_transport::mptcp as mptcp_transport;
use anabranch_transport::observed::PathSample;
use anabranch_transport::rng::Streams;
use anabranch_transport::secret::{Secret, SecretNumbers};
use anabranch_transport::tcp::refuse;
use anabranch_transport::time::Time;
use anabranch_transport::wire::mptcp::keys::token_of;
use anabranch_transport::wire::mptcp::{Handshake, Join};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::{Body, Packet, ip, mptcp};

use super::StreamEnd;
use super::connection::{Live, Reading, Staged, Tuple, Writing, put};
use super::events::HostEvent;
use super::mappings::Said;
use crate::ports::{FIRST_DYNAMIC_PORT, Listeners, dynamic_port, one_version};
use crate::route::{Route, is_unicast, source_for, version};
use crate::table::{Handle, Table, Tabled};

/// The most paths of a connection.
const MOST_PATHS: usize = 8;

/// The settings of a host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host's addresses.
    pub addresses: Vec<IpAddr>,
    /// The largest IP packet in bytes, on all paths.
    pub mtu: u32,
    /// How many connections peers may have at the same time, including those that are being opened. The
    /// oldest of these gives way to a new one; if there is none, the new one is not answered.
    pub most_accepted: usize,
}

/// Why bytes were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such connection, or it is over.
    Closed,
}

/// A segment that has arrived, and what it was made of.
struct Arrival<'a> {
    packet: Box<Packet>,
    route: Route,
    tuple: Tuple,
    staged: Staged,
    said: Said,
    datagram: &'a [u8],
}

/// Connections, listeners, and packets to send. See the [module](self).
#[derive(Debug)]
pub struct Host<E: StreamEnd> {
    settings: Settings,
    secret: Secret,
    numbers: SecretNumbers,
    streams: Streams,
    listeners: Listeners<E::Listener>,
    table: Table<Live<E>, HostEvent>,
    by_tuple: BTreeMap<Tuple, (Handle, PathId)>,
    /// Connections of MPTCP, by the tokens with which peers name them.
    by_token: BTreeMap<u32, Handle>,
}

impl<E: StreamEnd> Host<E> {
    /// A host whose secret numbers come from this secret.
    pub fn new(settings: Settings, secret: Secret, streams: Streams) -> Self {
        let numbers = SecretNumbers::new(Secret(secret.code(b"host", b"numbers")));
        Self {
            table: Table::new(settings.most_accepted),
            settings,
            secret,
            numbers,
            streams,
            listeners: Listeners::default(),
            by_tuple: BTreeMap::new(),
            by_token: BTreeMap::new(),
        }
    }

    /// Waits for peers at a port, with these settings for the connections.
    ///
    /// # Errors
    /// When the port is taken, or the settings are impossible: one sentence.
    pub fn listen(&mut self, port: u16, config: &E::Config) -> Result<(), String> {
        if port == 0 {
            return Err("port = 0 is not a port from 1 to 65535".into());
        }
        // The peer's port is the one of its SYN.
        let config = E::at_ports(config, [FIRST_DYNAMIC_PORT, port]);
        let (mtus, streams) = (&[self.settings.mtu], self.streams);
        self.listeners
            .add(port, |ip| config.listen(&Site { side: Side::B, mtus, ip, streams, connection: "live" }))
    }

    /// Stops listening at a port; its connections stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(port);
    }

    /// Opens a connection with a peer that has these addresses; `local_port` may be 0 for any.
    ///
    /// # Errors
    /// When the addresses are not all of one version, there are none, the port is in use, or the settings are
    /// impossible: one sentence.
    pub fn connect(
        &mut self,
        now: Time,
        config: &E::Config,
        local_port: u16,
        peer: &[IpAddr],
        peer_port: u16,
    ) -> Result<Handle, String> {
        let (ip, first) = one_version(peer.iter().copied())?;
        let route = |&remote: &IpAddr| {
            let local = source_for(&self.settings.addresses, remote);
            Route { local, remote, port: None }
        };
        let routes: Vec<Route> = peer.iter().map(route).collect();
        let tuple = |port| (routes[0].local, port, first, peer_port);
        let is_taken = |port| self.by_tuple.contains_key(&tuple(port)) || self.listeners.has(port);
        let local_port = if local_port == 0 { dynamic_port(&mut self.numbers, is_taken) } else { local_port };
        if self.by_tuple.contains_key(&tuple(local_port)) {
            return Err(format!(
                "port = {local_port} is in use for a connection with {first}, port {peer_port}"
            ));
        }
        let mtus = vec![self.settings.mtu; peer.len()];
        let name = self.table.next_name();
        let site = Site { side: Side::A, mtus: &mtus, ip, streams: self.streams, connection: &name };
        let mut end = E::at_ports(config, [local_port, peer_port]).build(&site)?;
        end.draw_from(self.numbers_for(tuple(local_port)));
        end.set_half_close(true);
        let mut live = Live::new(end, routes, &self.settings.addresses);
        live.end.handle_input(now, Input::Command(Command::Connect));
        let id = self.table.add(live);
        self.drain(now, id);
        Ok(id)
    }

    fn numbers_for(&mut self, (local, port, remote, peer_port): Tuple) -> SecretNumbers {
        let name = format!("{local} {port} {remote} {peer_port}");
        let by_addresses = SecretNumbers::new(Secret(self.secret.code(b"tuple", name.as_bytes())));
        E::numbers(by_addresses, self.numbers.split_off())
    }

    /// Appends bytes to the stream, and returns how many have been taken. If that is not all of them,
    /// [`HostEvent::Writable`] says when there is room for more.
    ///
    /// # Errors
    /// When there is no such connection, or it takes no more.
    pub fn send(&mut self, now: Time, id: Handle, bytes: &[u8]) -> Result<usize, Refusal> {
        let live = self.table.get_mut(id).filter(|live| !live.has_ended).ok_or(Refusal::Closed)?;
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let payload = live.outgoing.append(bytes);
        live.refused = 0;
        let message = Message::new(payload);
        live.end.handle_input(now, Input::Command(Command::Send(message)));
        self.drain(now, id);
        let live = self.table.get_mut(id).ok_or(Refusal::Closed)?;
        live.outgoing.cut(live.refused);
        Ok(bytes.len() - live.refused as usize)
    }

    /// Carries out a command other than [`Command::Send`]. A connection that has ended while reading was
    /// paused stays until [`Command::ResumeReading`] has given its last bytes, or [`Command::Abort`] gives
    /// them up.
    pub fn command(&mut self, now: Time, id: Handle, command: Command) {
        if let Some(live) = self.table.get_mut(id)
            && !matches!(command, Command::Send(_) | Command::Connect)
        {
            live.end.handle_input(now, Input::Command(command));
            self.drain(now, id);
        }
        if command == Command::Abort && self.table.get(id).is_some_and(|live| live.end.is_closed()) {
            // Nobody reads what is left.
            self.remove(id);
        }
    }

    /// The connection that a segment asks to join, by its token (RFC 8684 section 3.2).
    fn joined(&self, arrival: &Arrival<'_>) -> Option<Handle> {
        let Body::Mptcp(segment) = &arrival.packet.body else { return None };
        let Some(Handshake::Join(Join::Syn { token, .. })) = segment.options.handshake else { return None };
        self.by_token.get(&token).copied().filter(|id| self.table[*id].end.owns(&arrival.packet))
    }

    /// Gives a SYN with which the peer opens a subflow to the connection, on a path that exists or on one
    /// more.
    fn give_join(&mut self, now: Time, id: Handle, arrival: Arrival<'_>) {
        let Arrival { mut packet, route, tuple, staged, said, datagram } = arrival;
        let live = &mut self.table[id];
        let own_address = live.identifier_of(route.local);
        let Some(end) = live.end.multipath() else { return };
        let paths = (0..live.routes.len()).map(|path| PathId(path as u8));
        let free = paths.filter(|path| live.routes[path.index()] == route).find(|path| end.is_free(*path));
        let path = match free {
            Some(path) => {
                end.renew_path(path);
                path
            }
            None if live.routes.len() >= MOST_PATHS => return,
            None => match end.append_passive_path(self.settings.mtu) {
                Ok(path) => {
                    live.routes.push(route);
                    live.tuples.push(None);
                    path
                }
                // The settings may not allow more paths than there are.
                Err(_) => return,
            },
        };
        end.identify_address(path, own_address);
        packet.path = path;
        live.give(now, packet, staged, said, datagram);
        self.learn(id, path, tuple);
        self.drain(now, id);
    }

    /// Opens subflows to addresses that the peer has announced, if this end has opened the connection.
    fn join_announced(&mut self, now: Time, id: Handle) {
        let live = &mut self.table[id];
        while let Some((_, remote, port)) = live.mappings.fresh.pop_front() {
            let is_known = live.routes.iter().any(|route| route.remote == remote);
            if is_known && port.is_none()
                || live.routes.len() >= MOST_PATHS
                || version(remote) != version(live.routes[0].remote)
            {
                continue;
            }
            let local = source_for(&self.settings.addresses, remote);
            let own_address = live.identifier_of(local);
            let Some(end) = live.end.multipath().filter(|end| end.is_opener()) else { continue };
            live.routes.push(Route { local, remote, port: None });
            live.tuples.push(None);
            // The settings may not allow more paths than there are.
            if end.join_address(now, self.settings.mtu, own_address, port).is_err() {
                live.routes.pop();
                live.tuples.pop();
            }
        }
    }

    /// Notes that segments between these addresses and ports belong to a path.
    fn learn(&mut self, id: Handle, path: PathId, tuple: Tuple) {
        let live = &mut self.table[id];
        let known = live.tuples[path.index()].replace(tuple);
        if let Some(known) = known.filter(|known| *known != tuple) {
            self.by_tuple.remove(&known);
        }
        self.by_tuple.insert(tuple, (id, path));
    }

    /// Tells a peer of MPTCP which other addresses this end has, if the peer has opened the connection.
    fn announce(&mut self, now: Time, id: Handle) {
        let live = &mut self.table[id];
        let Some(end) = live.end.multipath().filter(|end| !end.is_opener()) else { return };
        for identifier in 1..live.own.len().min(MOST_PATHS) {
            end.announce_address(now, identifier as u8);
        }
    }

    /// Gives a segment that belongs to no connection to the listener.
    fn give_to_listener(&mut self, now: Time, arrival: Arrival<'_>) {
        let Arrival { packet, route, tuple, .. } = arrival;
        let ip = version(route.remote);
        let numbers = self.numbers_for(tuple);
        let is_syn = packet.body.tcp().is_some_and(|segment| {
            segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST)
        });
        if is_syn
            && self.listeners.has(tuple.1)
            && let Some(oldest) = self.table.gives_way()
        {
            self.remove(oldest);
        }
        let answer = match self.listeners.get_mut(tuple.1, ip) {
            Some(_) if is_syn && self.table.is_full() => Answer::Nothing,
            Some(listener) => {
                listener.draw_from(numbers);
                listener.handle_packet(now, packet)
            }
            None => refuse(&packet, ip).map_or(Answer::Nothing, Answer::Reply),
        };
        match answer {
            Answer::Nothing => {}
            Answer::Reply(reply) => {
                let writing = Writing {
                    routes: &[route],
                    source: 0,
                    offset: 0,
                    outgoing: None,
                    keys: [0; 2],
                    own: &[],
                    heard: &[],
                };
                put(&mut self.table.outbox, &reply, &writing);
            }
            Answer::Accepted(mut end) => {
                end.set_half_close(true);
                let live =
                    Live { is_unheard: true, ..Live::new(*end, vec![route], &self.settings.addresses) };
                let id = self.table.accept(live, true);
                self.drain(now, id);
            }
        }
    }

    /// Carries out what a connection wants done.
    fn drain(&mut self, now: Time, id: Handle) {
        let (mut begun, mut is_new) = (Vec::new(), false);
        let live = self.table.drain(id, |live, outbox, tell| {
            let begins = |path, tuple| begun.push((path, tuple));
            live.drain(now, outbox, begins, |event| {
                is_new |= event == HostEvent::Accepted;
                tell(event);
            })
        });
        live.outgoing.sweep(&live.end);
        if let Some([Some(key), _]) = live.end.as_multipath().map(mptcp_transport::Connection::keys)
            && !begun.is_empty()
        {
            live.token = token_of(key);
            self.by_token.insert(live.token, id);
        }
        for (path, tuple) in begun {
            self.learn(id, path, tuple);
        }
        if is_new {
            self.table.settle(id);
        }
        if is_new && self.settings.addresses.len() > 1 {
            self.announce(now, id);
            return self.drain(now, id);
        }
        if self.table.wakes_at(id).is_never() && self.table[id].end.is_closed() {
            self.give_way(id);
        }
    }

    /// Gives up the addresses and ports of a connection that is over. It stays for what the application has
    /// not read.
    fn give_way(&mut self, id: Handle) {
        let Some(live) = self.table.get_mut(id) else { return };
        if live.end.unread() == 0 {
            return self.remove(id);
        }
        for tuple in live.tuples.iter_mut().filter_map(Option::take) {
            self.by_tuple.remove(&tuple);
        }
    }

    fn remove(&mut self, id: Handle) {
        let Some(live) = self.table.remove(id) else { return };
        if self.by_token.get(&live.token) == Some(&id) {
            self.by_token.remove(&live.token);
        }
        for tuple in live.tuples.iter().flatten() {
            if self.by_tuple.get(tuple).is_some_and(|(owner, _)| *owner == id) {
                self.by_tuple.remove(tuple);
            }
        }
    }

    /// The addresses of a connection's paths; [`None`] if there is no such connection.
    pub fn addresses(&self, id: Handle) -> Option<&[Route]> {
        self.table.get(id).map(|live| live.routes.as_slice())
    }

    /// The endpoint of a connection, to be looked at; [`None`] if there is no such connection.
    pub fn endpoint(&self, id: Handle) -> Option<&E> {
        self.table.get(id).map(|live| &live.end)
    }

    /// The state of every path of a connection.
    pub fn sample_paths(&self, id: Handle, samples: &mut Vec<PathSample>) {
        if let Some(live) = self.table.get(id) {
            live.end.sample_paths(samples);
        }
    }

    /// The number of connections, including those in TIME-WAIT.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// The number of datagrams that were not segments.
    pub const fn malformed(&self) -> u64 {
        self.table.malformed
    }
}

impl<E: StreamEnd> Tabled for Host<E> {
    const PROTOCOL: u8 = ip::TCP;
    type Live = Live<E>;
    type Event = HostEvent;

    fn table(&self) -> &Table<Live<E>, HostEvent> {
        &self.table
    }

    fn table_mut(&mut self) -> &mut Table<Live<E>, HostEvent> {
        &mut self.table
    }

    fn receive(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]) {
        let Some(&[a, b, c, d]) = datagram.first_chunk() else {
            self.table.malformed += 1;
            return;
        };
        let [peer_port, port] = [[a, b], [c, d]].map(u16::from_be_bytes);
        let Route { local, remote, .. } = route;
        if !is_unicast(remote) || self.settings.addresses.contains(&remote) {
            // RFC 9293 section 3.9.2.3: the address cannot be a peer's, or is one of this host's own, so that
            // it would answer itself.
            self.table.malformed += 1;
            return;
        }
        let tuple = (local, port, remote, peer_port);
        let owner = self.by_tuple.get(&tuple).copied();
        let end = owner.map(|(id, path)| (&self.table[id].end, path));
        let path = owner.map_or(PathId(0), |(_, path)| path);
        let mut reading = Reading { end, datagram, staged: None, said: Said::default() };
        let Ok((segment, options)) = Segment::parse(datagram, [remote, local], &mut reading) else {
            self.table.malformed += 1;
            return;
        };
        let Reading { staged, said, .. } = reading;
        let gives_way = end.is_some_and(|(end, path)| end.gives_way_to(path, &segment));
        let size = version(remote).header_bytes() + datagram.len() as u32;
        let body = match options {
            None => Body::Tcp(segment),
            Some(options) => {
                let option_bytes = (datagram.len() as u32).saturating_sub(segment.wire_size());
                Body::Mptcp(mptcp::Segment { tcp: segment, options, option_bytes })
            }
        };
        let packet = Box::new(Packet { path, ecn, size, body });
        let arrival = Arrival { packet, route, tuple, staged, said, datagram };
        match owner {
            Some((id, _)) if !gives_way => {
                let Arrival { packet, staged, said, datagram, .. } = arrival;
                let live = &mut self.table[id];
                live.give(now, packet, staged, said, datagram);
                self.join_announced(now, id);
                self.drain(now, id);
            }
            Some((id, _)) => {
                self.give_way(id);
                self.give_to_listener(now, arrival);
            }
            None => match self.joined(&arrival) {
                Some(id) => self.give_join(now, id, arrival),
                None => self.give_to_listener(now, arrival),
            },
        }
    }

    fn wake(&mut self, now: Time, handle: Handle) {
        self.table[handle].end.handle_input(now, Input::Timeout);
        self.drain(now, handle);
    }
}
