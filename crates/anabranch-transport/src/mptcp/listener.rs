//! The listener for connections of MPTCP: RFC 8684 section 3.1. A subflow that joins belongs to its
//! connection, which [owns](crate::endpoint::Endpoint::owns) it by its token.

use super::config::Config;
use super::connection::Connection;
use super::parameters::Parameters;
use crate::endpoint::{Endpoint as _, Input, Keeper as _, Site};
use crate::listener::{Answer, Listen, Place};
use crate::secret::SecretNumbers;
use crate::tcp::listener::{Arrival, refuse};
use crate::time::Time;
use crate::wire::mptcp::{Handshake, Options, Reset, Segment};
use crate::wire::{Body, Packet};

/// Waits for connections, of MPTCP and of TCP.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
    numbers: Option<SecretNumbers>,
}

impl Listener {
    /// Answers a SYN whose token belongs to no connection with a reset that says why (RFC 8684 section 3.2).
    fn refuse_join(&self, packet: &Packet) -> Answer<Connection> {
        let Some(mut reply) = refuse(packet, self.place.ip) else { return Answer::Nothing };
        if let Body::Tcp(tcp) = reply.body {
            let options = Options { reset: Some(Reset::MPTCP_ERROR), ..Options::default() };
            reply.body = Body::Mptcp(Segment { tcp, options, option_bytes: Reset::BYTES });
            reply.size += Reset::BYTES;
        }
        Answer::Reply(reply)
    }
}

impl crate::listener::Listener for Listener {
    type Endpoint = Connection;

    fn draw_from(&mut self, numbers: SecretNumbers) {
        self.numbers = Some(numbers);
    }

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Connection> {
        let Some(segment) = packet.body.tcp() else { return Answer::Nothing };
        let joins = match &packet.body {
            Body::Mptcp(segment) => matches!(segment.options.handshake, Some(Handshake::Join(_))),
            _ => false,
        };
        if joins {
            return self.refuse_join(&packet);
        }
        match self.parameters.tcp.arrival(segment, self.place.side) {
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
        connection.handle_input(now, Input::Packet(packet));
        Answer::Accepted(Box::new(connection))
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        let parameters = self.resolve()?;
        parameters.check_paths(site.mtus, site.ip)?;
        Ok(Listener { parameters, place: Place::new(site, "mptcp"), numbers: None })
    }
}
