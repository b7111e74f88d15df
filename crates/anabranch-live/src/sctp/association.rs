//! An association with its addresses and its bytes.

use std::net::IpAddr;

use anabranch_transport::endpoint::{Command, Endpoint as _, Event, Input, Output};
use anabranch_transport::ground::{PathId, Payload};
use anabranch_transport::report::Row;
use anabranch_transport::sctp::Association;
use anabranch_transport::time::Time;
use anabranch_transport::wire::bytes::{Piece, Receiving, Secret, Sending};
use anabranch_transport::wire::{Body, Packet};

use super::host::{HostEvent, Inbound};
use super::incoming::{Incoming, Staged, offset_of};
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::route::Route;

/// An association of a host.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) end: Association,
    /// By path.
    pub(super) routes: Vec<Route>,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// The peer's addresses by the INIT at hand.
    pub(super) listed: Vec<IpAddr>,
    /// When the endpoint wants to be woken.
    pub(super) timeout: Time,
    /// This end's port and the peer's.
    pub(super) ports: [u16; 2],
    /// Bytes of messages that the application has been given and has not read.
    pub(super) unread: u64,
    /// The message handed over last was refused.
    pub(super) is_refused: bool,
    pub(super) has_ended: bool,
}

/// What packets of an association, or of none yet, are written with.
pub(super) struct Writing<'a> {
    pub(super) routes: &'a [Route],
    /// All addresses of this end.
    pub(super) own: &'a [IpAddr],
    /// The peer's, where its INIT is answered.
    pub(super) peers: &'a [IpAddr],
    pub(super) outgoing: Option<&'a Outgoing>,
    pub(super) secret: &'a Secret,
}

impl Sending for Writing<'_> {
    fn addresses(&self, path: PathId) -> [IpAddr; 2] {
        let Route { local, remote, .. } = self.routes[path.index()];
        [local, remote]
    }

    fn own_addresses(&self) -> Vec<IpAddr> {
        self.own.to_vec()
    }

    fn peer_addresses(&self) -> Vec<IpAddr> {
        self.peers.to_vec()
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        self.outgoing.expect("only associations send data").read(payload, out);
    }

    fn secret(&self) -> &Secret {
        self.secret
    }

    /// No chunk is signed, since addresses do not change in use.
    fn association_key(&self) -> &[u8] {
        &[]
    }

    fn connection_keys(&self) -> [u64; 2] {
        [0; 2]
    }
}

/// Writes a packet.
pub(super) fn put(outbox: &mut Outbox, packet: &Packet, writing: &Writing<'_>) {
    let Body::Sctp(sctp) = &packet.body else { return };
    let route = writing.routes[packet.path.index()];
    outbox.push(route, packet.ecn, |out| sctp.emit(packet.path, writing, out));
}

/// What a datagram is read with: nothing of it is believed yet, so its pieces are places in it.
pub(super) struct Reading<'a> {
    pub(super) datagram: &'a [u8],
    pub(super) secret: &'a Secret,
    pub(super) staged: Staged,
}

impl Receiving for Reading<'_> {
    fn path_to(&self, _address: IpAddr) -> Option<PathId> {
        None
    }

    fn keep(&mut self, piece: Piece, bytes: &[u8]) -> u64 {
        let (Piece::Data { tsn } | Piece::IData { tsn, .. }) = piece else { return 0 };
        // The bytes lie in the datagram.
        let start = bytes.as_ptr().addr() - self.datagram.as_ptr().addr();
        self.staged.push((piece, start..start + bytes.len()));
        offset_of(tsn)
    }

    fn keep_stream(&mut self, _sequence: u32, _bytes: &[u8]) -> u64 {
        0
    }

    fn secret(&self) -> &Secret {
        self.secret
    }

    /// Addresses do not change in use, so nobody has a reason to sign chunks.
    fn association_key(&self) -> Option<&[u8]> {
        None
    }

    fn connection_keys(&self) -> [u64; 2] {
        [0; 2]
    }

    fn data_near(&self) -> [u64; 2] {
        [0; 2]
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
            timeout: Time::NEVER,
            ports,
            unread: 0,
            is_refused: false,
            has_ended: false,
        }
    }

    /// The path to this address of the peer.
    pub(super) fn path_to(&self, remote: IpAddr) -> Option<PathId> {
        let position = self.routes.iter().position(|route| route.remote == remote)?;
        Some(PathId(position as u8))
    }

    /// Does what the endpoint wants done; `datagram` is the one that it has been given.
    pub(super) fn drain(
        &mut self,
        now: Time,
        datagram: &[u8],
        own: &[IpAddr],
        secret: &Secret,
        outbox: &mut Outbox,
        mut tell: impl FnMut(HostEvent),
    ) {
        loop {
            match self.end.poll_output(now) {
                Output::Transmit(packet) => {
                    let writing = Writing {
                        routes: &self.routes,
                        own,
                        peers: &self.listed,
                        outgoing: Some(&self.outgoing),
                        secret,
                    };
                    put(outbox, &packet, &writing);
                }
                Output::Event(event) => self.on_event(now, event, datagram, &mut tell),
                Output::Timeout(at) => {
                    self.timeout = at;
                    return;
                }
            }
        }
    }

    fn on_event(&mut self, now: Time, event: Event, datagram: &[u8], tell: &mut impl FnMut(HostEvent)) {
        match event {
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
            Event::Received(received) => match self.incoming.take(received.payload, datagram) {
                Some(bytes) => {
                    self.unread += bytes.len() as u64;
                    let (stream, ppid, unordered) = (received.stream, received.ppid, received.unordered);
                    tell(HostEvent::Received(Inbound { stream, ppid, unordered, bytes }));
                }
                // The peer breaks the protocol.
                None => self.end.handle_input(now, Input::Command(Command::Abort)),
            },
            Event::Refused(_) => self.is_refused = true,
            Event::Restarted => {
                self.incoming.forget();
                tell(HostEvent::Restarted);
            }
            Event::StreamReset(stream) => tell(HostEvent::StreamReset { stream }),
            Event::StreamResetByPeer(stream) => tell(HostEvent::StreamResetByPeer { stream }),
            Event::StreamResetRefused(stream) => tell(HostEvent::StreamResetRefused { stream }),
            Event::Writable => tell(HostEvent::Writable),
            // Of transports with streams of bytes, or not to be had without addresses that change.
            _ => {}
        }
    }
}
