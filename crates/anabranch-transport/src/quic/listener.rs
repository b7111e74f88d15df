//! The passive end before there is a connection. It keeps nothing about peers; what it says to them is in
//! `door.rs`.

use super::config::Config;
use super::connection::Connection;
use super::connection_ids::Numbers;
use super::door::{Door, Verdict};
use super::parameters::Parameters;
use super::path::Address;
use crate::endpoint::{Endpoint as _, Input, Keeper as _, Site};
use crate::flow::Ecn;
use crate::listener::{Answer, Listen, Place};
use crate::secret::SecretNumbers;
use crate::time::Time;
use crate::wire::quic::{Content, Datagram, Level};
use crate::wire::{Body, Packet};

/// Waits for connections.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
    numbers: Numbers,
    door: Door,
    is_live: bool,
}

impl Listener {
    /// The connections are live ones (`live.rs`), and accepted before they take the packet that opens them.
    pub const fn go_live(&mut self) {
        self.is_live = true;
    }

    /// Whether a client has to show a token before anything about it is kept, which costs it a round trip
    /// (RFC 9000 section 8.1.2). Who counts connections whose handshakes are not complete switches it on
    /// above a number.
    pub const fn ask_for_tokens(&mut self, on: bool) {
        self.door.asks = on;
    }

    /// Takes a packet that no connection owns, of a peer at the address `from`, to which tokens are bound.
    ///
    /// A packet with a short header that cannot be opened is given as one without frames. Its answer is a
    /// stateless reset.
    pub fn handle_packet_of(&mut self, now: Time, from: &[u8], packet: Box<Packet>) -> Answer<Connection> {
        let Body::Quic(datagram) = &packet.body else { return Answer::Nothing };
        let [own, peer] = [datagram.destination_port, datagram.source_port];
        if own != self.parameters.ports(self.place.side)[0] {
            return Answer::Nothing;
        }
        // As it came: a peer may write its packets longer than ours would be, and zeros behind them.
        let bytes = packet.size.saturating_sub(self.headers());
        let content = match &datagram.content {
            Content::OtherVersion { ids, .. } => Door::versions(ids, bytes),
            Content::Packets(packets) => {
                let Some(first) = packets.first() else { return Answer::Nothing };
                if first.level == Level::OneRtt {
                    self.door.reset(first.destination, bytes, &mut self.numbers)
                } else if Door::is_first(first, bytes) {
                    let from = [from, &peer.to_be_bytes()].concat();
                    match self.door.admit(now, &from, first, &mut self.numbers) {
                        Verdict::Accept(admission) => {
                            let mut connection = self.connection([own, peer]);
                            let network = packet.path;
                            let from = Address { network, port: peer, host: datagram.client_host };
                            connection.accept(now, from, first, admission);
                            if !self.is_live {
                                connection.handle_input(now, Input::Packet(packet));
                            }
                            return Answer::Accepted(Box::new(connection));
                        }
                        Verdict::Answer(content) => Some(content),
                        Verdict::Nothing => None,
                    }
                } else {
                    None
                }
            }
            // Section 6.1: nobody answers Version Negotiation with the same.
            Content::Reset { .. } | Content::Retry { .. } | Content::VersionNegotiation { .. } => None,
        };
        let Some(content) = content else { return Answer::Nothing };
        let datagram =
            Datagram { source_port: own, destination_port: peer, client_host: datagram.client_host, content };
        let size = self.headers() + datagram.payload_bytes();
        let (path, body) = (packet.path, Body::Quic(Box::new(datagram)));
        Answer::Reply(Box::new(Packet { path, ecn: Ecn::NotEct, size, body }))
    }

    /// Bytes before the payload of UDP.
    const fn headers(&self) -> u32 {
        self.place.ip.header_bytes() + crate::wire::udp::HEADER_BYTES
    }

    fn connection(&mut self, ports: [u16; 2]) -> Connection {
        let name = self.place.next_name();
        let Place { side, mtus, ip, streams, .. } = &self.place;
        let mut connection = Connection::new(&self.parameters, *side, mtus, *ip, *streams, &name);
        if let Numbers::Secret(numbers) = &mut self.numbers {
            connection.draw_from(numbers.split_off());
        }
        connection.is_live = self.is_live;
        // The listener resets what its connections have been.
        connection.door = self.door.clone();
        connection.ports = ports;
        connection
    }
}

impl crate::listener::Listener for Listener {
    type Endpoint = Connection;

    fn draw_from(&mut self, numbers: SecretNumbers) {
        self.numbers = Numbers::Secret(numbers);
        self.door = Door::new(&mut self.numbers, self.door.asks);
    }

    /// The number of the packet's path stands for the address of the peer.
    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Connection> {
        self.handle_packet_of(now, &[packet.path.0], packet)
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        let parameters = self.resolve()?;
        parameters.check_paths(site.mtus, site.ip)?;
        let place = Place::new(site, "quic");
        let mut numbers = Numbers::Stream(place.stream());
        let door = Door::new(&mut numbers, parameters.retry);
        Ok(Listener { parameters, place, numbers, door, is_live: false })
    }
}
