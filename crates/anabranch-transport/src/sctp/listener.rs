//! The passive end before there is an association (RFC 9260 section 5.1). It answers INIT from what the INIT
//! itself says and remembers nothing of it, however many peers open.

use std::net::IpAddr;

use super::answers::answer_out_of_the_blue;
use super::association::Association;
use super::config::Config;
use super::handshake::{answer, offer, refusal, staleness};
use super::local::Numbers;
use super::outbox::blank_packet;
use super::parameters::Parameters;
use crate::endpoint::{Endpoint as _, Input, Keeper as _, Site};
use crate::flow::{IpVersion, PathId};
use crate::listener::{Answer, Listen, Place};
use crate::secret::{NumberSource, SecretNumbers};
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Abort, Chunk, Cookie, ErrorCause, Init, OtherCause, StateCookie};
use crate::wire::{Body, Packet};

/// Waits for associations.
#[derive(Debug)]
pub struct Listener {
    parameters: Parameters,
    place: Place,
    numbers: NumberSource,
    /// The number of addresses that it lists; `None` if these are the addresses of a connection's paths.
    listed_addresses: Option<u8>,
    /// Whether the addresses of the associations may change (RFC 5061).
    addresses_change: bool,
    offers_extensions: bool,
}

impl Listener {
    /// Lets the addresses of future associations change; see
    /// [`enable_reconfiguration`](crate::endpoint::Endpoint::enable_reconfiguration).
    pub fn enable_reconfiguration(&mut self) {
        self.addresses_change = true;
    }

    /// The same as [`Association::offer_extensions`], for future associations.
    pub const fn offer_extensions(&mut self) {
        self.offers_extensions = true;
    }

    /// The same as [`Association::list_addresses`], for future associations.
    pub const fn list_addresses(&mut self, count: u8) {
        self.listed_addresses = Some(count);
    }

    /// The association of a cookie. A cookie that came as bytes has been verified.
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
        if let NumberSource::Secret(numbers) = &mut self.numbers {
            association.draw_from(numbers.split_off());
        }
        if let Some(count) = self.listed_addresses {
            association.list_addresses(count);
        }
        if self.offers_extensions {
            association.offer_extensions();
        }
        association.adopt_promise(cookie, ports);
        if self.addresses_change {
            association.let_addresses_change(&[]).expect("no path is absent");
        }
        association.handle_input(now, Input::Packet(packet));
        association
    }

    /// An answer to a packet, with tag `tag`.
    fn reply(&self, path: PathId, to: &SctpPacket, tag: u32, chunk: Chunk) -> Answer<Association> {
        Answer::Reply(reply(path, to, tag, chunk, self.place.ip))
    }
}

/// The answer to a packet for a port without a listener, if there is one (RFC 9260 section 8.4).
pub fn refuse(packet: &Packet, ip: IpVersion) -> Option<Box<Packet>> {
    let Body::Sctp(sctp) = &packet.body else { return None };
    let (tag, chunk) = match &sctp.first {
        // Section 8.4, rule 3: an ABORT with the tag that the peer has chosen.
        Chunk::Init(init, _) if sctp.verification_tag == 0 => {
            (init.initiate_tag, Chunk::Abort(Abort { tag_reflected: false, cause: None }))
        }
        _ => (sctp.verification_tag, answer_out_of_the_blue(sctp)?),
    };
    Some(reply(packet.path, sctp, tag, chunk, ip))
}

/// The answer to an INIT from a peer that seems to have restarted, but lists these addresses that its
/// association does not have (RFC 9260 section 5.2.2).
pub fn refuse_restart(packet: &Packet, ip: IpVersion, addresses: &[IpAddr]) -> Option<Box<Packet>> {
    let Body::Sctp(sctp) = &packet.body else { return None };
    let Chunk::Init(init, _) = &sctp.first else { return None };
    let cause = ErrorCause::Other(Box::new(OtherCause::restart_with_new_addresses(addresses)));
    let abort = Chunk::Abort(Abort { tag_reflected: false, cause: Some(cause) });
    Some(reply(packet.path, sctp, init.initiate_tag, abort, ip))
}

/// An answer to a packet, with tag `tag`.
fn reply(path: PathId, to: &SctpPacket, tag: u32, chunk: Chunk, ip: IpVersion) -> Box<Packet> {
    let mut packet = blank_packet();
    if let Body::Sctp(sctp) = &mut packet.body {
        (sctp.source_port, sctp.destination_port) = (to.destination_port, to.source_port);
        (sctp.verification_tag, sctp.first) = (tag, chunk);
        packet.size = ip.header_bytes() + sctp.wire_size();
    }
    packet.path = path;
    packet
}

impl crate::listener::Listener for Listener {
    type Endpoint = Association;

    fn draw_from(&mut self, numbers: SecretNumbers) {
        self.numbers = NumberSource::Secret(numbers);
    }

    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Association> {
        let path = packet.path;
        let Body::Sctp(sctp) = &packet.body else { return Answer::Nothing };
        let tag = sctp.verification_tag;
        match &sctp.first {
            // Section 8.5.1 A: INIT carries tag 0.
            Chunk::Init(..) if tag != 0 => Answer::Nothing,
            Chunk::Illegal(illegal) if illegal.is_init() => match refusal(illegal) {
                Some((own, abort)) if tag == 0 => self.reply(path, sctp, own, abort),
                _ => Answer::Nothing,
            },
            Chunk::Init(init, unrecognized) => {
                let numbers = Numbers::draw(&mut self.numbers);
                let own = offer(&self.parameters, self.place.ip, numbers, self.offers_extensions);
                let addresses = self.listed_addresses.unwrap_or(self.place.mtus.len() as u8);
                let asconf_supported = self.addresses_change;
                let is_listed = self.listed_addresses.is_some();
                let own = Init { addresses, asconf_supported, names_forward_tsn: is_listed, ..own };
                let ack = answer(now, &self.parameters, init, unrecognized, own, is_listed, None);
                self.reply(path, sctp, init.initiate_tag, Chunk::InitAck(Box::new(ack)))
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
        let numbers = NumberSource::Stream(place.stream());
        Ok(Listener {
            parameters,
            place,
            numbers,
            listed_addresses: None,
            addresses_change: false,
            offers_extensions: false,
        })
    }
}
