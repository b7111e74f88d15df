//! The state LISTEN (RFC 9293 section 3.3.2): a connection for each SYN to the port.

use super::config::Config;
use super::connection::Connection;
use super::handshake::reset_for;
use super::parameters::Parameters;
use crate::endpoint::{Endpoint as _, Input, Site};
use crate::ground::{Ecn, IpVersion};
use crate::listener::{Answer, Listen, Place};
use crate::time::Time;
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{Body, Packet};

/// Waits for connections.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
}

/// Whether a segment opens a connection at this port.
pub(crate) const fn opens(segment: &Segment, port: u16) -> bool {
    let flags = segment.flags;
    let begins = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
    begins && segment.destination_port == port
}

/// The answer to a segment of no connection (RFC 9293 section 3.10.7.1).
pub(crate) fn refuse<E>(packet: &Packet, segment: &Segment, ip: IpVersion) -> Answer<E> {
    let Some(reset) = reset_for(segment) else { return Answer::Nothing };
    let size = ip.header_bytes() + reset.wire_size();
    let body = Body::Tcp(reset);
    Answer::Reply(Box::new(Packet { path: packet.path, ecn: Ecn::NotEct, size, body }))
}

impl crate::listener::Listener for Listener {
    type Endpoint = Connection;

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Connection> {
        let Some(segment) = packet.body.tcp() else { return Answer::Nothing };
        if !opens(segment, self.parameters.ports(self.place.side)[0]) {
            return refuse(&packet, segment, self.place.ip);
        }
        let name = self.place.next_name();
        let Place { side, mtus, ip, streams, .. } = &self.place;
        let mut connection = Connection::new(&self.parameters, *side, mtus, *ip, *streams, &name);
        connection.handle_input(now, Input::Packet(packet));
        Answer::Accepted(Box::new(connection))
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        let parameters = self.resolve()?;
        parameters.check_paths(site.mtus, site.ip)?;
        Ok(Listener { parameters, place: Place::new(site, "tcp") })
    }
}
