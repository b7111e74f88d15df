//! The passive end before there is an association (RFC 9260 section 5.1): it answers INIT out of the INIT alone and
//! remembers nothing of it, whatever number of peers begin.

use super::association::{Association, Numbers, answer_out_of_the_blue, blank_packet};
use super::config::Config;
use super::handshake::{answer, offer, staleness};
use super::parameters::Parameters;
use crate::endpoint::{Endpoint as _, Input, Site};
use crate::ground::PathId;
use crate::listener::{Answer, Listen, Place};
use crate::rng::Rng;
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Chunk, Cookie, Init, StateCookie};
use crate::wire::{Body, Packet};

/// Waits for associations.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
    rng: Rng,
    /// Whether the addresses of the associations may change (RFC 5061).
    addresses_change: bool,
}

impl Listener {
    /// Lets the addresses of the associations to come change; see
    /// [`enable_reconfiguration`](crate::endpoint::Endpoint::enable_reconfiguration).
    pub fn enable_reconfiguration(&mut self) {
        self.addresses_change = true;
    }

    /// The association that the cookie stands for. A cookie that came as bytes has been verified.
    fn accept(
        &mut self,
        now: Time,
        packet: Box<Packet>,
        cookie: &StateCookie,
        ports: [u16; 2],
    ) -> Association {
        let name = self.place.next_name();
        let Place { side, mtus, ip, streams, .. } = &self.place;
        let mut association = Association::new(&self.parameters, *side, mtus, *ip, *streams, &name);
        association.adopt_promise(cookie, ports);
        if self.addresses_change {
            association.let_addresses_change(&[]).expect("no path is absent");
        }
        association.handle_input(now, Input::Packet(packet));
        association
    }

    /// An answer to a packet, with this tag.
    fn reply(&self, path: PathId, to: &SctpPacket, tag: u32, chunk: Chunk) -> Answer<Association> {
        let mut packet = blank_packet();
        if let Body::Sctp(sctp) = &mut packet.body {
            (sctp.source_port, sctp.destination_port) = (to.destination_port, to.source_port);
            (sctp.verification_tag, sctp.first) = (tag, chunk);
            packet.size = self.place.ip.header_bytes() + sctp.wire_size();
        }
        packet.path = path;
        Answer::Reply(packet)
    }
}

impl crate::listener::Listener for Listener {
    type Endpoint = Association;

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Association> {
        let path = packet.path;
        let Body::Sctp(sctp) = &packet.body else { return Answer::Nothing };
        let tag = sctp.verification_tag;
        match &sctp.first {
            // Section 8.5.1 A: INIT carries tag 0.
            Chunk::Init(_) if tag != 0 => Answer::Nothing,
            Chunk::Init(init) => {
                let own = offer(&self.parameters, self.place.ip, Numbers::draw(&mut self.rng));
                let (addresses, asconf_supported) = (self.place.mtus.len() as u8, self.addresses_change);
                let own = Init { addresses, asconf_supported, ..own };
                let ack = Box::new(answer(now, &self.parameters, init, own));
                self.reply(path, sctp, init.initiate_tag, Chunk::InitAck(ack))
            }
            Chunk::CookieEcho(cookie) => {
                // Section 5.1.5 step 2: the tag is the one in the cookie.
                let Cookie::Own(cookie) = &**cookie else { return Answer::Nothing };
                if cookie.local_tag != tag {
                    return Answer::Nothing;
                }
                if let Some(error) = staleness(now, cookie) {
                    return self.reply(path, sctp, cookie.peer.initiate_tag, Chunk::Error(error));
                }
                let (cookie, ports) = (*cookie, [sctp.destination_port, sctp.source_port]);
                Answer::Accepted(Box::new(self.accept(now, packet, &cookie, ports)))
            }
            _ => match answer_out_of_the_blue(sctp) {
                Some(chunk) => self.reply(path, sctp, tag, chunk),
                None => Answer::Nothing,
            },
        }
    }
}

impl Listen for Config {
    type Listener = Listener;

    fn listen(&self, site: &Site<'_>) -> Result<Listener, String> {
        let parameters = self.resolve()?;
        parameters.check_paths(site.mtus)?;
        let place = Place::new(site, "sctp");
        let rng = place.stream();
        Ok(Listener { parameters, place, rng, addresses_change: false })
    }
}
