//! The state LISTEN (RFC 9293 section 3.3.2): every SYN to the port opens a connection.

use super::config::Config;
use super::connection::Connection;
use super::fast_open::Server;
use super::handshake::reset_for;
use super::parameters::Parameters;
use crate::endpoint::{Endpoint as _, Input, Keeper as _, Site};
use crate::flow::{Ecn, IpVersion, Side};
use crate::listener::{Answer, Listen, Place};
use crate::secret::SecretNumbers;
use crate::time::Time;
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{Body, Packet};

/// Waits for connections.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
    numbers: Option<SecretNumbers>,
    fast_open: Option<Server>,
}

impl Listener {
    /// Sets how the next connection takes data of its SYN (RFC 7413); [`None`] means not at all. How many
    /// such connections may be there at a time is the caller's to decide, who knows them (section 5.1).
    pub fn set_fast_open(&mut self, server: Option<Server>) {
        self.fast_open = server;
    }
}

/// What becomes of a segment that comes to an end that waits for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Drop,
    Open,
    Refuse,
}

impl Parameters {
    /// What becomes of a segment that belongs to no connection where this side waits for connections (RFC
    /// 9293 section 3.10.7.2).
    pub(crate) fn arrival(&self, segment: &Segment, side: Side) -> Arrival {
        let flags = segment.flags;
        if segment.destination_port != self.ports(side)[0] || flags.has(Flags::ACK) {
            return Arrival::Refuse;
        }
        let drops_fin = self.procedures.drops_syn_with_fin;
        if flags.has(Flags::RST) || !flags.has(Flags::SYN) || (drops_fin && flags.has(Flags::FIN)) {
            return Arrival::Drop;
        }
        Arrival::Open
    }
}

/// The answer to a segment that belongs to no connection and no listener, if it calls for one: a reset (RFC
/// 9293 section 3.10.7.1).
pub fn refuse(packet: &Packet, ip: IpVersion) -> Option<Box<Packet>> {
    let reset = reset_for(packet.body.tcp()?)?;
    let size = ip.header_bytes() + reset.wire_size();
    let body = Body::Tcp(reset);
    Some(Box::new(Packet { path: packet.path, ecn: Ecn::NotEct, size, body }))
}

impl crate::listener::Listener for Listener {
    type Endpoint = Connection;

    fn draw_from(&mut self, numbers: SecretNumbers) {
        self.numbers = Some(numbers);
    }

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Connection> {
        let Some(segment) = packet.body.tcp() else { return Answer::Nothing };
        match self.parameters.arrival(segment, self.place.side) {
            Arrival::Drop => return Answer::Nothing,
            Arrival::Open => {}
            Arrival::Refuse => return refuse(&packet, self.place.ip).map_or(Answer::Nothing, Answer::Reply),
        }
        let name = self.place.next_name();
        let Place { side, mtus, ip, streams, .. } = &self.place;
        let mut connection = Connection::new(&self.parameters, *side, mtus, *ip, *streams, &name);
        if let Some(numbers) = &mut self.numbers {
            connection.draw_from(numbers.split_off());
        }
        if self.fast_open.is_some() {
            connection.set_fast_open(None, self.fast_open.clone());
        }
        connection.handle_input(now, Input::Packet(packet));
        Answer::Accepted(Box::new(connection))
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        let parameters = self.resolve()?;
        parameters.check_paths(site.mtus, site.ip)?;
        Ok(Listener { parameters, place: Place::new(site, "tcp"), numbers: None, fast_open: None })
    }
}
