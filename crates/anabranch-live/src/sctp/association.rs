//! An association with its addresses and its bytes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anabranch_transport::endpoint::{Command, Endpoint as _, Event, Input, Output, Part, Received, StreamId};
use anabranch_transport::flow::{PathId, Payload};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::report::Row;
use anabranch_transport::sctp::Association;
use anabranch_transport::time::Time;
use anabranch_transport::wire::bytes::{Piece, Receiving, Secret, Sending};
use anabranch_transport::wire::sctp::chunk::{Chunk, Cookie};
use anabranch_transport::wire::sctp::context::{SctpReceiving, SctpSending};
use anabranch_transport::wire::{Body, Packet};

use super::events::{Extent, HostEvent, Inbound, Place};
use super::incoming::{Incoming, Staged, offset_of, tsn_of};
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::route::{Route, is_unicast, version};

/// At most this many addresses of a peer are used.
pub(super) const MOST_ADDRESSES: usize = 16;

/// An association of a host.
#[derive(Debug)]
pub struct Live {
    pub(super) end: Association,
    /// The routes of the paths.
    pub(super) routes: Vec<Route>,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// The peer's addresses by the INIT that is being processed, and its key vector.
    pub(super) listed: Vec<IpAddr>,
    pub(super) listed_key: Vec<u8>,
    /// The key that signs chunks (RFC 4895 section 6.1); empty until both ends have sent their parameters.
    pub(super) key: Vec<u8>,
    /// Paths whose address at this end is or was being added or deleted.
    pub(super) changing: BTreeSet<PathId>,
    /// For each path, the address of ours to which its last packet came.
    pub(super) heard_at: Vec<IpAddr>,
    /// Whether addresses of the peer have come or gone.
    pub(super) has_moved: bool,
    /// This end's port and the peer's.
    pub(super) ports: [u16; 2],
    /// Messages that the application has been given and has not read.
    pub(super) unread: Unread,
    /// Whether the message handed over last was refused.
    pub(super) is_refused: bool,
    /// The path of the last ICMP message, and what it said.
    pub(super) unreachable: Option<(PathId, &'static str)>,
    pub(super) has_ended: bool,
}

/// The least share of the receive buffer that a waiting message takes on average, in bytes: its cost besides
/// its payload.
const LEAST_PER_MESSAGE: u64 = 256;

/// Messages that wait for the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
    messages: u64,
    bytes: u64,
}

impl Unread {
    const fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    pub(super) const fn subtract(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The space that they take in the receive buffer, in bytes.
    pub(super) fn room(self) -> u64 {
        self.bytes.max(LEAST_PER_MESSAGE * self.messages)
    }
}

/// What is needed to write the packets of an association, or of none yet.
pub(super) struct Writing<'a> {
    pub(super) routes: &'a [Route],
    /// All addresses of this end.
    pub(super) own: &'a [IpAddr],
    /// The addresses of the peer, if its INIT is being answered.
    pub(super) peers: &'a [IpAddr],
    /// The peer's key vector.
    pub(super) peer_key: &'a [u8],
    /// The key that signs chunks.
    pub(super) key: &'a [u8],
    pub(super) outgoing: Option<&'a Outgoing>,
    pub(super) secret: &'a Secret,
}

impl Sending for Writing<'_> {
    fn addresses(&self, path: PathId) -> [IpAddr; 2] {
        let Route { local, remote, .. } = self.routes[path.index()];
        [local, remote]
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        self.outgoing.expect("only associations send data").read(payload, out);
    }
}

impl SctpSending for Writing<'_> {
    fn own_addresses(&self) -> Vec<IpAddr> {
        self.own.to_vec()
    }

    fn peer_addresses(&self) -> Vec<IpAddr> {
        self.peers.to_vec()
    }

    fn peer_key_vector(&self) -> &[u8] {
        self.peer_key
    }

    fn secret(&self) -> &Secret {
        self.secret
    }

    fn association_key(&self) -> &[u8] {
        self.key
    }
}

/// Writes a packet.
pub(super) fn put(outbox: &mut Outbox, packet: &mut Packet, writing: &Writing<'_>) {
    let Body::Sctp(sctp) = &mut packet.body else { return };
    if let Chunk::InitAck(ack) = &mut sctp.first
        && let Cookie::Own(cookie) = &mut ack.cookie
        && cookie.peer.asconf_supported
    {
        cookie.key_bytes = writing.peer_key.len() as u16;
    }
    let route = writing.routes[packet.path.index()];
    outbox.push(route, packet.ecn, |out| sctp.emit(packet.path, writing, out));
}

/// What is needed to read a datagram. Its content is not trusted yet, so its parts are positions in it.
pub(super) struct Reading<'a> {
    pub(super) datagram: &'a [u8],
    pub(super) secret: &'a Secret,
    pub(super) staged: Staged,
    /// The route on which it came.
    pub(super) route: Route,
    /// The association that has the packet's tag, if there is one.
    pub(super) live: Option<&'a Live>,
    /// Addresses that are to be added, and the paths that will lead to them.
    pub(super) new: Vec<(PathId, IpAddr)>,
}

impl Receiving for Reading<'_> {
    fn keep(&mut self, piece: Piece, bytes: &[u8]) -> u64 {
        let (Piece::Data { tsn } | Piece::IData { tsn, .. }) = piece else { return 0 };
        // The bytes are in the datagram.
        let start = bytes.as_ptr().addr() - self.datagram.as_ptr().addr();
        self.staged.push(piece, start..start + bytes.len());
        offset_of(tsn)
    }

    fn keep_stream(&mut self, _sequence: u32, _bytes: &[u8]) -> u64 {
        0
    }
}

impl SctpReceiving for Reading<'_> {
    fn path_to(&self, address: IpAddr) -> Option<PathId> {
        let new = self.new.iter().find(|(_, new)| *new == address).map(|(path, _)| *path);
        new.or_else(|| self.live?.present_path_to(address))
    }

    fn path_to_new(&mut self, address: IpAddr) -> Option<PathId> {
        let known = self.path_to(address);
        if known.is_some() || usable(&[address], self.route.remote).last() != Some(&address) {
            return known;
        }
        let path = self.live?.room(&self.new)?;
        self.new.push((path, address));
        Some(path)
    }

    fn path_of_packet(&mut self) -> Option<PathId> {
        let known = self.live?.path_from(self.route);
        known.or_else(|| self.path_to_new(self.route.remote))
    }

    fn secret(&self) -> &Secret {
        self.secret
    }

    fn association_key(&self) -> Option<&[u8]> {
        self.live.map(|live| live.key.as_slice()).filter(|key| !key.is_empty())
    }
}

impl Live {
    pub(super) fn new(end: Association, route: Route, ports: [u16; 2]) -> Self {
        Self {
            end,
            routes: vec![route],
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            listed: Vec::new(),
            listed_key: Vec::new(),
            key: Vec::new(),
            changing: BTreeSet::new(),
            heard_at: Vec::new(),
            has_moved: false,
            ports,
            unread: Unread::default(),
            is_refused: false,
            unreachable: None,
            has_ended: false,
        }
    }

    /// The path to this address of the peer.
    pub(super) fn path_to(&self, remote: IpAddr) -> Option<PathId> {
        self.find(|_, route| route.remote == remote)
    }

    /// The path to this address of the peer, if it is part of the association.
    pub(super) fn present_path_to(&self, remote: IpAddr) -> Option<PathId> {
        self.find(|path, route| route.remote == remote && self.end.has_path(path))
    }

    /// The path that a packet comes over. Of several to the same address of the peer, it is the one from that
    /// address of ours, and preferably one that is part of the association.
    pub(super) fn path_from(&self, from: Route) -> Option<PathId> {
        let Route { local, remote, .. } = from;
        self.find(|path, route| (route.local, route.remote) == (local, remote) && self.end.has_path(path))
            .or_else(|| self.present_path_to(remote))
            .or_else(|| self.path_to(remote))
    }

    fn find(&self, wanted: impl Fn(PathId, &Route) -> bool) -> Option<PathId> {
        let mut paths = (0..).map(PathId).zip(&self.routes);
        paths.find(|(path, route)| wanted(*path, route)).map(|(path, _)| path)
    }

    /// A path for another address: one that is vacant, or one more. Those in `given` have been given away
    /// already.
    pub(super) fn room(&self, given: &[(PathId, IpAddr)]) -> Option<PathId> {
        let is_free = |path: &PathId| {
            let is_new = path.index() >= self.routes.len();
            (is_new || self.end.is_vacant(*path)) && !given.iter().any(|(other, _)| other == path)
        };
        (0..MOST_ADDRESSES as u8).map(PathId).find(is_free)
    }

    /// The address of ours that packets on this path leave from, if it is known.
    pub(super) fn local(&self, path: PathId) -> IpAddr {
        let Route { local, .. } = self.routes[path.index()];
        let heard_at = self.heard_at.get(path.index()).filter(|_| local.is_unspecified());
        heard_at.copied().unwrap_or(local)
    }

    /// Carries out the endpoint's outputs; `datagram` is the one that it was given. Returns when the endpoint
    /// wants to be woken.
    pub(super) fn drain(
        &mut self,
        now: Time,
        datagram: &[u8],
        own: &[IpAddr],
        secret: &Secret,
        outbox: &mut Outbox,
        mut tell: impl FnMut(HostEvent),
    ) -> Time {
        loop {
            match self.end.poll_output(now) {
                Output::Transmit(mut packet) => {
                    let writing = Writing {
                        routes: &self.routes,
                        own,
                        peers: &self.listed,
                        peer_key: &self.listed_key,
                        key: &self.key,
                        outgoing: Some(&self.outgoing),
                        secret,
                    };
                    put(outbox, &mut packet, &writing);
                }
                Output::Event(event) => self.on_event(now, event, datagram, &mut tell),
                Output::Timeout(at) => return at,
            }
        }
    }

    /// The address that a change of this path is about.
    fn place(&self, path: PathId) -> Place {
        let is_ours = self.changing.contains(&path);
        let address = if is_ours { self.local(path) } else { self.routes[path.index()].remote };
        Place { address, is_ours }
    }

    /// Moves paths to this address of the peer, which is gone, to another one.
    fn avoid(&mut self, gone: IpAddr) {
        let Some(other) = self.find(|path, route| route.remote != gone && self.end.has_path(path)) else {
            return;
        };
        let Route { remote, port, .. } = self.routes[other.index()];
        for (path, route) in (0..).map(PathId).zip(&mut self.routes) {
            if route.remote == gone && self.end.has_path(path) {
                (route.remote, route.port) = (remote, port);
            }
        }
    }

    fn on_event(&mut self, now: Time, event: Event, datagram: &[u8], tell: &mut impl FnMut(HostEvent)) {
        match event {
            Event::AddressAdded(path) => {
                self.has_moved = true;
                tell(HostEvent::AddressAdded(self.place(path)));
            }
            Event::AddressDeleted(path) => {
                self.has_moved = true;
                let place = self.place(path);
                if !place.is_ours {
                    self.avoid(place.address);
                }
                tell(HostEvent::AddressDeleted(place));
            }
            Event::AddressRefused(path) => tell(HostEvent::AddressRefused(self.place(path))),
            Event::Abandoned(payload) => tell(HostEvent::Abandoned(payload.offset)),
            Event::Closed(reason) => {
                self.has_ended = true;
                let mut counted = Row::default();
                self.end.report(&mut counted.section("sctp"));
                tell(HostEvent::Closed { reason, counted });
            }
            Event::Connected => tell(HostEvent::Connected),
            Event::PathChanged { path, state } => tell(HostEvent::PathChanged { path, state }),
            Event::PrimaryChanged { from, to, .. } => tell(HostEvent::PrimaryChanged { from, to }),
            Event::PartialDeliveryAborted { stream, unordered } => {
                tell(HostEvent::PartialDeliveryAborted { stream: number(stream), unordered });
            }
            Event::Received(received) => self.on_message(now, received, Extent::Whole, datagram, tell),
            Event::ReceivedPart(Part { stream, ppid, unordered, is_last, payload }) => {
                let extent = if is_last { Extent::LastPart } else { Extent::Part };
                let received = Received { stream, ppid, unordered, ends_stream: false, payload };
                self.on_message(now, received, extent, datagram, tell);
            }
            Event::Refused(_) => self.is_refused = true,
            Event::Restarted => {
                self.incoming.forget();
                tell(HostEvent::Restarted);
            }
            Event::StreamReset(stream) => tell(HostEvent::StreamReset { stream: number(stream) }),
            Event::StreamResetByPeer(stream) => {
                tell(HostEvent::StreamResetByPeer { stream: stream.map(number) });
            }
            Event::StreamResetRefused(stream) => {
                tell(HostEvent::StreamResetRefused { stream: number(stream) });
            }
            Event::Writable => tell(HostEvent::Writable),
            // The other events are those of transports with streams of bytes.
            _ => {}
        }
    }

    /// Hands over the bytes of a message, or of a part of one.
    fn on_message(
        &mut self,
        now: Time,
        received: Received,
        extent: Extent,
        datagram: &[u8],
        tell: &mut impl FnMut(HostEvent),
    ) {
        let Received { stream, ppid, unordered, payload, .. } = received;
        let Some(bytes) = self.incoming.take(payload, datagram) else {
            // The peer breaks the protocol.
            self.end.handle_input(now, Input::Command(Command::Abort));
            return;
        };
        self.unread.add(bytes.len() as u64);
        let tsn = tsn_of(payload.offset);
        let stream = number(stream);
        tell(HostEvent::Received(Inbound { stream, ppid, unordered, extent, tsn, bytes }));
    }
}

/// The number of a stream of an association, which has 16 bits (RFC 9260 section 3.3.1).
fn number(stream: StreamId) -> u16 {
    stream.try_into().expect("an association names streams of SCTP")
}

/// Those addresses of the list from a peer that are of use: only those of a single host, each once, including
/// that of the peer's packet.
///
/// However long the list is, each of its addresses is compared with no more than are used.
pub(super) fn usable(listed: &[IpAddr], from: IpAddr) -> Vec<IpAddr> {
    let mut addresses = vec![from];
    for &address in listed {
        if addresses.len() == MOST_ADDRESSES {
            break;
        }
        let leads_elsewhere = !is_unicast(address) || address.is_loopback() && !from.is_loopback();
        if version(address) == version(from) && !leads_elsewhere && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
