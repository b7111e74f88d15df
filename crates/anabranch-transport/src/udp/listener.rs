//! A port that waits for datagrams, and opens an end for each peer that sends one.

use super::{Config, UdpEndpoint};
use crate::endpoint::{Endpoint as _, Input, Site, Transport as _};
use crate::flow::Side;
use crate::listener::{Answer, Listen, Place};
use crate::time::Time;
use crate::wire::{Body, Packet};

/// Waits for datagrams.
#[derive(Debug)]
pub struct Listener {
    config: Config,
    place: Place,
}

impl crate::listener::Listener for Listener {
    type Endpoint = UdpEndpoint;

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<UdpEndpoint> {
        let Body::Udp(datagram) = &packet.body else { return Answer::Nothing };
        let mut config = self.config;
        let (own, peer) = match self.place.side {
            Side::A => (config.source_port, &mut config.destination_port),
            Side::B => (config.destination_port, &mut config.source_port),
        };
        // RFC 1122 section 4.1.3.1: a datagram to a port without a listener is discarded; ICMP is the host's
        // task.
        if datagram.destination_port != own {
            return Answer::Nothing;
        }
        *peer = datagram.source_port;
        let Place { side, mtus, ip, .. } = &self.place;
        let mut endpoint = UdpEndpoint::new(&config, *side, mtus.len(), *ip);
        endpoint.handle_input(now, Input::Packet(packet));
        Answer::Accepted(Box::new(endpoint))
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        self.build(site)?;
        Ok(Listener { config: *self, place: Place::new(site, "udp") })
    }
}
