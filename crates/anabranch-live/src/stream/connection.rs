//! A connection with its addresses and its bytes.

use std::net::IpAddr;
use std::ops::Range;

use anabranch_transport::endpoint::{Command, Event, Input, Output};
use anabranch_transport::flow::{PathId, Payload};
use anabranch_transport::mptcp;
use anabranch_transport::time::Time;
use anabranch_transport::wire::bytes::{Piece, Receiving, Sending};
use anabranch_transport::wire::mptcp::context::{MptcpReceiving, MptcpSending};
use anabranch_transport::wire::tcp::Flags;
use anabranch_transport::wire::{Body, Packet};

use super::StreamEnd;
use super::events::HostEvent;
use super::mappings::{Mappings, Said};
use crate::incoming::Incoming;
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::route::Route;

/// The addresses and ports of a segment: this end's first, then the peer's.
pub(super) type Tuple = (IpAddr, u16, IpAddr, u16);

/// A window is no wider than the receive buffer, rounded up to what a shift count can say.
const WINDOW_SLACK: u64 = 1 << 16;

/// A connection of a host.
#[derive(Debug)]
pub struct Live<E> {
    pub(super) end: E,
    /// The routes of the paths.
    pub(super) routes: Vec<Route>,
    /// This end's addresses by their identifiers; that of the first subflow has 0 (RFC 8684 section 3.4.1).
    pub(super) own: Vec<IpAddr>,
    /// The addresses and ports by which the segments of each path are recognised.
    pub(super) tuples: Vec<Option<Tuple>>,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) mappings: Mappings,
    /// The token by which the peer identifies the connection, in MPTCP.
    pub(super) token: u32,
    /// Whether a peer has opened it and the application has not been told yet.
    pub(super) is_unheard: bool,
    /// How many of the bytes handed over last were refused.
    pub(super) refused: u32,
    /// Whether the application has been told of the end.
    pub(super) has_ended: bool,
}

/// What is needed to write segments.
pub(super) struct Writing<'a> {
    pub(super) routes: &'a [Route],
    /// The position of the segment's payload in this end's stream, and in its path's.
    pub(super) source: u64,
    pub(super) offset: u64,
    pub(super) outgoing: Option<&'a Outgoing>,
    /// The keys of MPTCP, this end's first.
    pub(super) keys: [u64; 2],
    /// This end's addresses by their identifiers, and those that the peer has announced.
    pub(super) own: &'a [IpAddr],
    pub(super) heard: &'a [(u8, IpAddr, Option<u16>)],
}

impl Sending for Writing<'_> {
    fn addresses(&self, path: PathId) -> [IpAddr; 2] {
        let Route { local, remote, .. } = self.routes[path.index()];
        [local, remote]
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        if let Some(outgoing) = self.outgoing.filter(|_| payload.length > 0) {
            let offset = self.source + (payload.offset - self.offset);
            outgoing.read(Payload { offset, ..payload }, out);
        }
    }
}

impl MptcpSending for Writing<'_> {
    fn announced(&self, identifier: u8) -> IpAddr {
        self.own.get(usize::from(identifier)).copied().unwrap_or(self.routes[0].local)
    }

    fn announced_by_peer(&self, identifier: u8) -> IpAddr {
        let known = self.heard.iter().find(|(other, ..)| *other == identifier);
        known.map_or(self.routes[0].remote, |(_, address, _)| *address)
    }

    fn connection_keys(&self) -> [u64; 2] {
        self.keys
    }
}

/// Writes a segment.
pub(super) fn put(outbox: &mut Outbox, packet: &Packet, writing: &Writing<'_>) {
    let (path, route) = (packet.path, writing.routes[packet.path.index()]);
    outbox.push(route, packet.ecn, |out| match &packet.body {
        Body::Mptcp(segment) => segment.emit(path, writing, out),
        Body::Tcp(segment) => segment.emit(path, writing, out),
        Body::Foreign(_)
        | Body::Fragment(_)
        | Body::Quic(_)
        | Body::Rtcp(_)
        | Body::Sctp(_)
        | Body::Udp(_) => {}
    });
}

/// The position of a segment's bytes in the peer's stream on a path, and their place in the datagram.
pub(super) type Staged = Option<(u64, Range<usize>)>;

/// What is needed to read a segment. Its content is not trusted yet, so its bytes stay where they are.
pub(super) struct Reading<'a, E> {
    pub(super) end: Option<(&'a E, PathId)>,
    pub(super) datagram: &'a [u8],
    pub(super) staged: Staged,
    pub(super) said: Said,
}

impl<E: StreamEnd> Receiving for Reading<'_, E> {
    fn keep(&mut self, _piece: Piece, _bytes: &[u8]) -> u64 {
        0
    }

    fn keep_stream(&mut self, sequence: u32, bytes: &[u8]) -> u64 {
        let position = self.end.and_then(|(end, path)| end.position_of(path, sequence));
        if let Some(position) = position {
            // The bytes are in the datagram.
            let start = bytes.as_ptr().addr() - self.datagram.as_ptr().addr();
            self.staged = Some((position, start..start + bytes.len()));
        }
        position.unwrap_or(0)
    }
}

impl<E: StreamEnd> MptcpReceiving for Reading<'_, E> {
    fn connection_keys(&self) -> [u64; 2] {
        self.end.map_or([0; 2], |(end, _)| keys(end))
    }

    fn data_near(&self) -> [u64; 2] {
        self.end.and_then(|(end, _)| end.as_multipath()).map_or([0; 2], mptcp::Connection::data_near)
    }

    fn announced(&mut self, identifier: u8, address: IpAddr, port: Option<u16>) {
        self.said.address = Some((identifier, address, port));
    }

    fn mapped(&mut self, position: u64, place: u64, length: u32) {
        self.said.mapping = Some((position, place, length));
    }
}

/// Whether a segment may come from the peer, or helps to open the connection: mappings and announcements of
/// strangers are ignored.
fn is_near(end: &mptcp::Connection, packet: &Packet) -> bool {
    let (Some(segment), Some(subflow)) = (packet.body.tcp(), end.subflow(packet.path)) else { return false };
    segment.flags.has(Flags::SYN) || subflow.is_near(segment)
}

/// The keys of a connection, its own first; 0 for an unknown key.
fn keys(end: &impl StreamEnd) -> [u64; 2] {
    let keys = end.as_multipath().map_or([None; 2], mptcp::Connection::keys);
    keys.map(|key| key.unwrap_or(0))
}

impl<E: StreamEnd> Live<E> {
    pub(super) fn new(end: E, routes: Vec<Route>, addresses: &[IpAddr]) -> Self {
        let first = routes[0].local;
        let others =
            addresses.iter().copied().filter(|own| *own != first && own.is_ipv4() == first.is_ipv4());
        Self {
            end,
            own: std::iter::once(first).chain(others).collect(),
            tuples: vec![None; routes.len()],
            routes,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            mappings: Mappings::default(),
            token: 0,
            is_unheard: false,
            refused: 0,
            has_ended: false,
        }
    }

    /// Hands a segment to the endpoint, and keeps those of its bytes that were taken.
    pub(super) fn give(
        &mut self,
        now: Time,
        mut packet: Box<Packet>,
        staged: Staged,
        said: Said,
        datagram: &[u8],
    ) {
        if let Some(end) = self.end.as_multipath()
            && is_near(end, &packet)
            && !self.mappings.apply(end, &mut packet, said)
        {
            // The segment counts as lost in the network.
            return;
        }
        let Some((position, range)) = staged else {
            self.end.handle_input(now, Input::Packet(packet));
            return;
        };
        let (path, place) = (packet.path, self.end.place(&packet));
        let bytes = &datagram[range];
        let mut wanted = Vec::new();
        self.end.missing(path, position, position + bytes.len() as u64, &mut |start, end| {
            wanted.push((start, end));
        });
        self.end.handle_input(now, Input::Packet(packet));
        // With this segment, the connection may have fallen back to TCP, so that the path is the stream.
        let falls_back = self.end.as_multipath().is_some_and(mptcp::Connection::has_fallen_back);
        let Some(place) = place.or_else(|| falls_back.then_some(position)) else { return };
        let most = self.end.receive_buffer() + WINDOW_SLACK;
        for (start, end) in wanted {
            // Bytes beyond the window, or after a FIN, are cut off at the end.
            let mut taken = end;
            self.end.missing(path, start, end, &mut |from, _| taken = taken.min(from));
            if start < taken {
                let part = &bytes[(start - position) as usize..(taken - position) as usize];
                self.incoming.put(place + (start - position), part, most);
            }
        }
    }

    /// The identifier of an address of this end.
    pub(super) fn identifier_of(&self, own: IpAddr) -> u8 {
        self.own.iter().position(|other| *other == own).unwrap_or(0) as u8
    }

    /// Carries out the endpoint's outputs; gives each SYN that leaves, with its ports. Returns when the
    /// endpoint wants to be woken.
    pub(super) fn drain(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mut begins: impl FnMut(PathId, Tuple),
        mut tell: impl FnMut(HostEvent),
    ) -> Time {
        loop {
            match self.end.poll_output(now) {
                Output::Transmit(packet) => {
                    let Some(segment) = packet.body.tcp() else { continue };
                    let (path, route) = (packet.path, self.routes[packet.path.index()]);
                    if segment.flags.has(Flags::SYN) {
                        let ports = (segment.source_port, segment.destination_port);
                        begins(path, (route.local, ports.0, route.remote, ports.1));
                    }
                    let writing = Writing {
                        routes: &self.routes,
                        source: self.end.source(&packet),
                        offset: segment.payload.offset,
                        outgoing: Some(&self.outgoing),
                        keys: keys(&self.end),
                        own: &self.own,
                        heard: &self.mappings.heard,
                    };
                    put(outbox, &packet, &writing);
                }
                Output::Event(event) => self.on_event(now, event, &mut tell),
                Output::Timeout(at) => return at,
            }
        }
    }

    fn on_event(&mut self, now: Time, event: Event, tell: &mut impl FnMut(HostEvent)) {
        match event {
            Event::AddressAdded(path) => tell(HostEvent::AddressAdded(path)),
            Event::AddressDeleted(path) => tell(HostEvent::AddressDeleted(path)),
            Event::Closed(reason) => {
                self.has_ended = true;
                if !self.is_unheard {
                    tell(HostEvent::Closed(reason));
                }
            }
            Event::Connected => {
                let was_asked_for = !std::mem::take(&mut self.is_unheard);
                tell(if was_asked_for { HostEvent::Connected } else { HostEvent::Accepted });
            }
            Event::PathChanged { path, state } => tell(HostEvent::PathChanged { path, state }),
            Event::PeerFinished => tell(HostEvent::PeerFinished),
            Event::Received(received) => match self.incoming.take(received.payload) {
                Some(bytes) => tell(HostEvent::Received(bytes)),
                // The peer breaks the protocol.
                None => self.end.handle_input(now, Input::Command(Command::Abort)),
            },
            Event::Refused(payload) => self.refused = payload.length,
            Event::Writable => tell(HostEvent::Writable),
            // The other events are those of transports with messages.
            _ => {}
        }
    }
}
