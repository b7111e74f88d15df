//! Associations with many peers, without a socket: datagrams, commands and the time go in; datagrams and
//! events come out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_transport::endpoint::{
    Command, Endpoint as _, Input, Keeper as _, Message, Multipath as _, Site,
};
use anabranch_transport::flow::{Ecn, IpVersion, PathId, Side};
use anabranch_transport::listener::{Answer, Listen as _, Listener as _};
use anabranch_transport::observed::{Observed as _, PathSample};
use anabranch_transport::rng::Streams;
use anabranch_transport::sctp::{Association, Config, Listener, refuse, refuse_restart};
use anabranch_transport::secret::{Secret, SecretNumbers};
use anabranch_transport::time::Time;
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::authentication::key_vector;
use anabranch_transport::wire::sctp::chunk::Chunk;
use anabranch_transport::wire::{Body, Packet, ip};

use super::association::{Live, MOST_ADDRESSES, Reading, Writing, put, usable};
use super::events::{HostEvent, Outbound, Refusal};
use super::incoming::Staged;
use crate::ports::{Listeners, dynamic_port, one_version};
use crate::route::{Route, is_unicast, source_for, version};
use crate::stack::Unreachable;
use crate::table::{Handle, Table, Tabled};

/// The longest key vector in bytes, which one with a list of all chunk types does not exceed.
const MOST_KEY_BYTES: usize = 512;
/// The chunk type of INIT (RFC 9260 section 3.2).
const INIT: u8 = 1;
/// The header of UDP, in bytes.
const UDP_HEADER: u32 = 8;

/// The settings of a host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its addresses; empty if the system chooses them.
    pub addresses: Vec<IpAddr>,
    /// The largest IP packet in bytes, on all paths.
    pub mtu: u32,
    /// Whether SCTP travels in UDP (RFC 6951).
    pub is_in_udp: bool,
    /// How many associations that peers have opened may exist at the same time; more are refused.
    pub most_accepted: usize,
    /// Whether associations can reset streams (RFC 6525) and change addresses (RFC 5061), if their peers can.
    pub offers_extensions: bool,
    /// A secret that this end and its peers share, with which changes of addresses are signed, in addition to
    /// what both ends say about themselves (RFC 4895 section 6.1); empty if there is none.
    pub shared_key: Vec<u8>,
}

/// A packet that has arrived, and what it was made of.
struct Arrival<'a> {
    packet: Box<Packet>,
    route: Route,
    /// The addresses that the packet lists.
    addresses: Vec<IpAddr>,
    /// The key vector of the sender, if the packet opens something.
    key_vector: Vec<u8>,
    /// Addresses that are to be added, and the paths to them.
    new: Vec<(PathId, IpAddr)>,
    staged: Staged,
    datagram: &'a [u8],
}

/// Associations, listeners, and packets to send. See the [module](self).
#[derive(Debug)]
pub struct Host {
    pub(super) settings: Settings,
    /// The addresses that are listed in INIT, by version of IP; empty if the system chooses.
    own: [Vec<IpAddr>; 2],
    pub(super) secret: Secret,
    numbers: SecretNumbers,
    streams: Streams,
    listeners: Listeners<Listener>,
    pub(super) table: Table<Live, HostEvent>,
    /// The associations by verification tag.
    by_tag: BTreeMap<u32, Handle>,
    /// The associations by the peer's address, its port and ours: several peers may share these behind one
    /// address.
    pub(super) by_address: ByAddress,
}

impl Host {
    /// A host whose cookies are signed with this secret.
    pub fn new(settings: Settings, secret: Secret, streams: Streams) -> Self {
        let numbers = SecretNumbers::new(Secret(secret.code(b"host", b"numbers")));
        let own = [IpVersion::Ipv4, IpVersion::Ipv6].map(|ip| {
            let own = settings.addresses.iter().copied();
            own.filter(|own| version(*own) == ip && !own.is_unspecified()).take(MOST_ADDRESSES).collect()
        });
        Self {
            table: Table::new(settings.most_accepted),
            settings,
            own,
            secret,
            numbers,
            streams,
            listeners: Listeners::default(),
            by_tag: BTreeMap::new(),
            by_address: BTreeMap::new(),
        }
    }

    /// The space in an association's packets, in bytes with the IP header.
    pub(super) const fn mtu(&self) -> u32 {
        if self.settings.is_in_udp { self.settings.mtu - UDP_HEADER } else { self.settings.mtu }
    }

    /// Waits for peers at a port, with these settings for the associations.
    ///
    /// # Errors
    /// When the port is taken, or the settings are impossible: one sentence.
    pub fn listen(&mut self, port: u16, config: &Config) -> Result<(), String> {
        let (mtu, streams) = (self.mtu(), self.streams);
        let Self { listeners, numbers, own, settings, .. } = self;
        listeners.add(port, |ip| {
            let site = Site { side: Side::B, mtus: &[mtu], ip, streams, connection: "live" };
            let mut listener = config.listen(&site)?;
            listener.draw_from(numbers.split_off());
            listener.list_addresses(own[ip as usize].len() as u8);
            if settings.offers_extensions {
                listener.offer_extensions();
                listener.enable_reconfiguration();
            }
            Ok(listener)
        })
    }

    /// Stops listening at a port; its associations stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(port);
    }

    /// Whether peers that ask for an association are refused for now, because the application has not taken
    /// note of the present ones.
    pub const fn pause_accepting(&mut self, is_paused: bool) {
        self.table.is_paused = is_paused;
    }

    /// Opens an association with a peer that has these addresses, or more that it will name; `local_port` may
    /// be 0 for any.
    ///
    /// # Errors
    /// When the addresses are not all of one version, there are none or too many, or the settings are
    /// impossible: one sentence.
    pub fn connect(
        &mut self,
        now: Time,
        config: &Config,
        local_port: u16,
        peer: &[(IpAddr, Option<u16>)],
        peer_port: u16,
    ) -> Result<Handle, String> {
        let (ip, _) = one_version(peer.iter().map(|(address, _)| *address))?;
        if peer.len() > MOST_ADDRESSES {
            let count = peer.len();
            return Err(format!("remote: {count} addresses are too many; give at most {MOST_ADDRESSES}"));
        }
        let is_taken = |port| self.listeners.has(port) || self.table.iter().any(|live| live.ports[0] == port);
        let local_port = if local_port == 0 { dynamic_port(&mut self.numbers, is_taken) } else { local_port };
        let mtus = vec![self.mtu(); peer.len()];
        let parameters = config.resolve()?;
        parameters.check_paths(&mtus)?;
        let name = self.table.next_name();
        let mut end = Association::new(&parameters, Side::A, &mtus, ip, self.streams, &name);
        end.draw_from(self.numbers.split_off());
        end.set_ports([local_port, peer_port]);
        end.list_addresses(self.own[ip as usize].len() as u8);
        if self.settings.offers_extensions {
            end.offer_extensions();
            end.enable_reconfiguration(&[])?;
        }
        let ports = [local_port, peer_port];
        let route = |&(remote, port): &(IpAddr, Option<u16>)| Route {
            local: source_for(&self.settings.addresses, remote),
            remote,
            port,
        };
        let mut live = Live::new(end, route(&peer[0]), ports);
        live.routes.extend(peer[1..].iter().map(route));
        live.end.handle_input(now, Input::Command(Command::Connect));
        let id = self.table.add(live);
        self.index(id);
        self.drain(now, id, &[]);
        Ok(id)
    }

    /// Notes by what an association is found.
    fn index(&mut self, id: Handle) {
        let live = &self.table[id];
        self.by_tag.insert(live.end.verification_tag(), id);
        let [own, peers] = live.ports;
        for route in &live.routes {
            self.by_address.entry((route.remote, peers, own)).or_default().push(id);
        }
    }

    /// Sends a message and returns its number, by which [`HostEvent::Abandoned`] names it.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn send(&mut self, now: Time, id: Handle, message: Outbound) -> Result<u64, Refusal> {
        let Some(live) = self.table.get_mut(id) else { return Err(Refusal::Closed) };
        let Outbound { stream, ppid, unordered, reliability, bytes } = message;
        let length = bytes.len();
        let payload = live.outgoing.push(bytes);
        live.is_refused = false;
        let message =
            Message { stream: stream.into(), ppid, unordered, reliability, ..Message::new(payload) };
        let command = Command::Send(message);
        live.end.handle_input(now, Input::Command(command));
        self.drain(now, id, &[]);
        let Some(live) = self.table.get_mut(id) else { return Err(Refusal::Closed) };
        if !live.is_refused {
            return Ok(payload.offset);
        }
        let bytes = live.outgoing.take_back();
        if live.end.is_closing() {
            return Err(Refusal::Closed);
        }
        if live.end.can_take(stream, length as u64) {
            return Err(Refusal::Full(Outbound { stream, ppid, unordered, reliability, bytes }));
        }
        Err(Refusal::Impossible)
    }

    /// Carries out a command other than [`Command::Send`].
    pub fn command(&mut self, now: Time, id: Handle, command: Command) {
        if let Some(live) = self.table.get_mut(id)
            && !matches!(command, Command::Send(_))
        {
            live.end.handle_input(now, Input::Command(command));
            self.drain(now, id, &[]);
        }
    }

    /// Resets outgoing streams once everything that was sent on them is acknowledged (RFC 6525); until then
    /// they take no message. For each stream, [`HostEvent::StreamReset`] or [`HostEvent::StreamResetRefused`]
    /// reports the result.
    ///
    /// # Errors
    /// When the association is not open, the peer cannot do that, or a stream is not there: one sentence.
    pub fn reset_streams(&mut self, now: Time, id: Handle, streams: &[u16]) -> Result<(), String> {
        let live = self.table.get_mut(id).ok_or("the association is closed")?;
        live.end.reset_streams(now, streams)?;
        self.drain(now, id, &[]);
        Ok(())
    }

    /// Changes the [options](Association::set_options) of an association.
    ///
    /// # Errors
    /// When the settings are impossible: one sentence.
    pub fn set_options(&mut self, now: Time, id: Handle, config: &Config) -> Result<(), String> {
        let parameters = config.resolve()?;
        if let Some(live) = self.table.get_mut(id) {
            live.end.set_options(now, &parameters);
            self.drain(now, id, &[]);
        }
        Ok(())
    }

    /// The application has read this many of the messages that arrived, with this many bytes together.
    pub fn has_read(&mut self, now: Time, id: Handle, messages: u64, bytes: u64) {
        if let Some(live) = self.table.get_mut(id) {
            live.unread.subtract(messages, bytes);
            live.end.set_unread(live.unread.room());
            self.drain(now, id, &[]);
        }
    }

    /// The association that a packet belongs to.
    fn owner(&self, arrival: &Arrival<'_>) -> Option<Handle> {
        let Body::Sctp(sctp) = &arrival.packet.body else { return None };
        let owns = |id: &Handle| self.table[*id].end.owns(&arrival.packet);
        if let Some(id) = self.by_tag.get(&sctp.verification_tag).filter(|id| owns(id)) {
            return Some(*id);
        }
        // The packet is an INIT, whose tag is 0, or carries its sender's own tag.
        self.with_peer(sctp, arrival.route).find(owns)
    }

    /// The associations with the peer that a packet comes from.
    fn with_peer(&self, sctp: &SctpPacket, from: Route) -> impl Iterator<Item = Handle> {
        let Route { remote, port, .. } = from;
        let ids = self.by_address.get(&(remote, sctp.source_port, sctp.destination_port));
        ids.into_iter().flatten().copied().filter(move |id| {
            self.table[*id].routes.iter().any(|known| (known.remote, known.port) == (remote, port))
        })
    }

    /// Whether a packet of an association's peer has another tag than the association's, so that it is
    /// discarded (RFC 9260 section 8.5). COOKIE ECHO is judged by its cookie. SHUTDOWN ACK is answered while
    /// an association is being opened, since it belongs to an earlier one (section 8.5.1 E).
    fn has_wrong_tag(&self, arrival: &Arrival<'_>) -> bool {
        let Body::Sctp(sctp) = &arrival.packet.body else { return false };
        let mut ids = self.with_peer(sctp, arrival.route);
        match sctp.first {
            Chunk::CookieEcho(_) => false,
            Chunk::ShutdownAck => ids.any(|id| !self.table[id].end.is_opening()),
            _ => ids.next().is_some(),
        }
    }

    /// Gives an association its packet.
    fn give(&mut self, now: Time, id: Handle, arrival: Arrival<'_>) {
        let Arrival { mut packet, route, addresses, staged, datagram, key_vector, new } = arrival;
        self.make_room(now, id, route, &new);
        let live = &mut self.table[id];
        let Some(path) = live.path_from(route) else { return };
        live.record_arrival(path, route.local);
        // RFC 6951 section 5.4: where the peer is behind a translator, its port may change.
        live.routes[path.index()].port = route.port;
        packet.path = path;
        live.incoming.staged = staged;
        if live.incoming.is_full(&live.end) && !self.make_room_for_pieces(now, id) {
            // The packet counts as lost in the network.
            return;
        }
        let live = &mut self.table[id];
        let restarts = live.end.restarts_with(now, &packet);
        let Body::Sctp(sctp) = &mut packet.body else { return };
        live.end.cut_unread(sctp);
        match &mut sctp.first {
            Chunk::Init(init, _) => {
                // The cookie of the answer keeps these addresses.
                live.listed = usable(&addresses, route.remote);
                live.listed_key.clone_from(&key_vector);
                (init.addresses, init.ip) = (live.listed.len() as u8, version(route.remote));
                let new = live.listed.iter().copied().filter(|address| live.path_to(*address).is_none());
                let new: Vec<_> = new.collect();
                if live.end.takes_init_for_restart() && !new.is_empty() {
                    self.refuse_restart(id, &packet, &new);
                    return;
                }
            }
            Chunk::InitAck(_) if live.end.awaits_init_ack() => self.add_routes(now, id, route, &addresses),
            Chunk::CookieEcho(_) if restarts => {
                packet.path = self.restart(id, &packet, route, &addresses);
            }
            _ => {}
        }
        let live = &mut self.table[id];
        let tag = live.end.verification_tag();
        let secret = &self.secret;
        if !key_vector.is_empty() && live.end.begins_with(&packet) {
            live.agree_on_key(&self.settings.shared_key, secret, &packet, &key_vector);
        }
        live.end.handle_input(now, Input::Packet(packet));
        let new_tag = live.end.verification_tag();
        if new_tag != tag {
            // The peer has restarted.
            self.by_tag.remove(&tag);
            self.by_tag.insert(new_tag, id);
        }
        self.finish(now, id, datagram);
    }

    /// The pieces that wait cost too much for one more datagram: has the application take parts of messages,
    /// where nothing else can make room. Returns whether there is room; if not, the datagram's data is
    /// dropped.
    fn make_room_for_pieces(&mut self, now: Time, id: Handle) -> bool {
        let live = &mut self.table[id];
        let staged = std::mem::take(&mut live.incoming.staged);
        live.end.deliver_parts_now();
        self.drain(now, id, &[]);
        let Some(live) = self.table.get_mut(id) else { return false };
        live.incoming.staged = staged;
        let has_room = !live.incoming.is_full(&live.end);
        if !has_room {
            live.incoming.staged.clear();
        }
        has_room
    }

    /// Refuses the restart of a peer that brings addresses along that its association does not have (RFC 9260
    /// section 5.2.2).
    fn refuse_restart(&mut self, id: Handle, init: &Packet, new: &[IpAddr]) {
        let routes = &self.table[id].routes.clone();
        let ip = version(routes[0].remote);
        let Some(mut reply) = refuse_restart(init, ip, new) else { return };
        let own = &self.own[ip as usize];
        let writing = Writing {
            routes,
            own,
            peers: &[],
            peer_key: &[],
            key: &[],
            outgoing: None,
            secret: &self.secret,
        };
        put(&mut self.table.outbox, &mut reply, &writing);
    }

    /// Finds which of its former addresses a restarting peer keeps; gives the number of the path to the
    /// address that it writes from.
    fn restart(&mut self, id: Handle, echo: &Packet, from: Route, addresses: &[IpAddr]) -> PathId {
        let mtu = self.mtu();
        let live = &mut self.table[id];
        let left = usable(addresses, from.remote);
        let [own, peers] = live.ports;
        for route in live.routes.extract_if(.., |route| !left.contains(&route.remote)) {
            remove_address(&mut self.by_address, (route.remote, peers, own), id);
        }
        live.changing.clear();
        live.heard_at.clear();
        live.end.restart(echo, &vec![mtu; live.routes.len()]);
        live.path_to(from.remote).expect("the packet has come from there")
    }

    /// Does what follows after an association has been given its packet.
    fn finish(&mut self, now: Time, id: Handle, datagram: &[u8]) {
        self.drain(now, id, datagram);
        if let Some(live) = self.table.get_mut(id) {
            live.incoming.keep_staged(datagram, &live.end);
            live.outgoing.sweep(&live.end);
        }
    }

    /// Adds routes to the other addresses that the peer has named.
    fn add_routes(&mut self, now: Time, id: Handle, from: Route, addresses: &[IpAddr]) {
        let mtu = self.mtu();
        let live = &mut self.table[id];
        for remote in usable(addresses, from.remote) {
            if live.path_to(remote).is_some() || live.routes.len() >= MOST_ADDRESSES {
                continue;
            }
            // The settings may not allow more paths than there are.
            if live.end.add_listed_path(now, mtu).is_err() {
                continue;
            }
            let local = source_for(&self.settings.addresses, remote);
            live.routes.push(Route { local, remote, port: from.port });
            let [own, peers] = live.ports;
            self.by_address.entry((remote, peers, own)).or_default().push(id);
        }
    }

    /// Gives a packet that belongs to no association to the listener.
    fn give_to_listener(&mut self, now: Time, arrival: Arrival<'_>) {
        let Arrival { mut packet, mut route, addresses, staged, datagram, key_vector, .. } = arrival;
        let ip = version(route.remote);
        let Body::Sctp(sctp) = &mut packet.body else { return };
        if let Chunk::CookieEcho(_) = &sctp.first {
            // A cookie was sent to the address that it begins with, and no other address is known to want the
            // association (RFC 9260 section 5.4). An association that began with another one could send that
            // address traffic that a third party asks for.
            if !addresses.contains(&route.remote) {
                return;
            }
            if route.remote != addresses[0] {
                let remote = addresses[0];
                route = Route { local: source_for(&self.settings.addresses, remote), remote, ..route };
            }
        }
        let ports = [sctp.destination_port, sctp.source_port];
        let peers = usable(&addresses, route.remote);
        if let Chunk::Init(init, _) = &mut sctp.first {
            (init.addresses, init.ip) = (peers.len() as u8, ip);
        }
        let is_full = self.table.is_full();
        let answer = match self.listeners.get_mut(ports[0], ip).filter(|_| !is_full) {
            Some(listener) => listener.handle_packet(now, packet),
            None => refuse(&packet, ip).map_or(Answer::Nothing, Answer::Reply),
        };
        match answer {
            Answer::Nothing => {}
            Answer::Reply(mut reply) => {
                let (routes, own) = (&[route], &self.own[ip as usize]);
                let (peers, peer_key) = (peers.as_slice(), key_vector.as_slice());
                let secret = &self.secret;
                let writing = Writing { routes, own, peers, peer_key, key: &[], outgoing: None, secret };
                put(&mut self.table.outbox, &mut reply, &writing);
            }
            Answer::Accepted(end) => {
                let mut live = Live::new(*end, route, ports);
                live.incoming.staged = staged;
                if !key_vector.is_empty() {
                    let tag = live.end.verification_tag();
                    live.set_key(&self.settings.shared_key, &self.secret, tag, &key_vector);
                }
                let id = self.table.accept(live, false);
                self.index(id);
                self.table.tell(id, HostEvent::Accepted { port: ports[0] });
                self.add_routes(now, id, route, &addresses);
                self.finish(now, id, datagram);
            }
        }
    }

    /// Carries out what an association wants done.
    pub(super) fn drain(&mut self, now: Time, id: Handle, datagram: &[u8]) {
        let unread = self.table[id].unread;
        let (own, secret) = (&self.own, &self.secret);
        let live = self.table.drain(id, |live, outbox, tell| {
            let own = &own[version(live.routes[0].remote) as usize];
            live.drain(now, datagram, own, secret, outbox, tell)
        });
        let has_moved = std::mem::take(&mut live.has_moved);
        if live.unread != unread {
            live.end.set_unread(live.unread.room());
        }
        if live.has_ended {
            self.remove(id);
        } else if has_moved {
            self.record_moves(id);
        }
    }

    fn remove(&mut self, id: Handle) {
        let Some(live) = self.table.remove(id) else { return };
        let tag = live.end.verification_tag();
        if self.by_tag.get(&tag) == Some(&id) {
            self.by_tag.remove(&tag);
        }
        let [own, peers] = live.ports;
        for route in &live.routes {
            remove_address(&mut self.by_address, (route.remote, peers, own), id);
        }
    }

    /// The addresses of an association's paths, and its port and the peer's; [`None`] if there is no such
    /// association.
    pub fn addresses(&self, id: Handle) -> Option<(&[Route], [u16; 2])> {
        self.table.get(id).map(|live| (live.routes.as_slice(), live.ports))
    }

    /// The endpoint of an association, to be looked at; [`None`] if there is no such association.
    pub fn endpoint(&self, id: Handle) -> Option<&Association> {
        self.table.get(id).map(|live| &live.end)
    }

    /// The state of every path of an association.
    pub fn sample_paths(&self, id: Handle, samples: &mut Vec<PathSample>) {
        if let Some(live) = self.table.get(id) {
            live.end.sample_paths(samples);
        }
    }

    /// The number of associations.
    pub fn associations(&self) -> usize {
        self.table.len()
    }

    /// The number of datagrams that were not packets of SCTP.
    pub const fn malformed(&self) -> u64 {
        self.table.malformed
    }
}

impl Tabled for Host {
    const PROTOCOL: u8 = ip::SCTP;
    type Live = Live;
    type Event = HostEvent;

    fn table(&self) -> &Table<Live, HostEvent> {
        &self.table
    }

    fn table_mut(&mut self) -> &mut Table<Live, HostEvent> {
        &mut self.table
    }

    fn receive(&mut self, now: Time, route: Route, _ecn: Ecn, datagram: &[u8]) {
        // RFC 9260 section 8.4, rule 1.
        if !is_unicast(route.remote) {
            self.table.malformed += 1;
            return;
        }
        let tag = datagram.get(4..8).and_then(|tag| tag.try_into().ok()).map(u32::from_be_bytes);
        let live = tag.and_then(|tag| self.by_tag.get(&tag)).map(|id| &self.table[*id]);
        let (secret, staged) = (&self.secret, Staged::default());
        let mut reading = Reading { datagram, secret, staged, route, live, new: Vec::new() };
        let Ok(parsed) = SctpPacket::parse(datagram, &mut reading) else {
            self.table.malformed += 1;
            return;
        };
        let Reading { staged, new, .. } = reading;
        // INIT and INIT ACK have the key vector in them; a cookie has kept that of the INIT.
        let mut key_vector = key_vector(datagram).unwrap_or(parsed.key_vector);
        key_vector.truncate(MOST_KEY_BYTES);
        let size = version(route.remote).header_bytes() + datagram.len() as u32;
        let body = Body::Sctp(parsed.packet);
        let packet = Box::new(Packet { path: PathId(0), ecn: Ecn::NotEct, size, body });
        let addresses = parsed.addresses;
        let arrival = Arrival { packet, route, addresses, key_vector, new, staged, datagram };
        match self.owner(&arrival) {
            Some(id) => self.give(now, id, arrival),
            None if self.has_wrong_tag(&arrival) => {}
            None => self.give_to_listener(now, arrival),
        }
    }

    /// RFC 9260 section 10; for SCTP in UDP, RFC 6951 section 5.5: an unreachable port of UDP is an
    /// unreachable protocol. Of what else cannot be reached, only the application is told (ICMP3).
    fn learn_unreachable(&mut self, now: Time, unreachable: Unreachable, quoted: &[u8]) {
        let Unreachable { route, is_refused, reason } = unreachable;
        let Some(&[o0, o1, p0, p1, t0, t1, t2, t3]) = quoted.first_chunk::<8>() else { return };
        let [own, peers] = [[o0, o1], [p0, p1]].map(u16::from_be_bytes);
        let tag = u32::from_be_bytes([t0, t1, t2, t3]);
        // ICMP6: an INIT, whose own tag is 0, is known by its Initiate Tag.
        let init = quoted.get(12..20).filter(|init| init[0] == INIT);
        let initiate_tag = init.and_then(|init| init[4..].try_into().ok()).map(u32::from_be_bytes);
        let Some(ids) = self.by_address.get(&(route.remote, peers, own)) else { return };
        let has_sent = |id: &Handle| self.table[*id].end.may_have_sent(tag, initiate_tag);
        let Some(id) = ids.iter().copied().find(has_sent) else { return };
        let live = &mut self.table[id];
        let Some(path) = live.path_to(route.remote) else { return };
        if live.routes[path.index()].port != route.port {
            return;
        }
        // Each packet may have such an answer; the first of a kind is news.
        if live.unreachable.replace((path, reason)) != Some((path, reason)) {
            self.table.tell(id, HostEvent::Unreachable { path, reason, is_refused });
        }
        if is_refused {
            self.table[id].end.end_unreachable(now);
            self.drain(now, id, &[]);
        }
    }

    fn wake(&mut self, now: Time, handle: Handle) {
        self.table[handle].end.handle_input(now, Input::Timeout);
        self.drain(now, handle, &[]);
    }
}

/// Associations by the peer's address, its port and ours.
pub(super) type ByAddress = BTreeMap<(IpAddr, u16, u16), Vec<Handle>>;

/// Notes that an association is no longer at this address.
pub(super) fn remove_address(by_address: &mut ByAddress, key: (IpAddr, u16, u16), id: Handle) {
    if let Some(ids) = by_address.get_mut(&key) {
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            by_address.remove(&key);
        }
    }
}
