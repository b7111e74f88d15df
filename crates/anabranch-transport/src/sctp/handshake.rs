//! Opening an association: the four-way handshake with cookie (RFC 9260 section 5).

use super::association::Association;
use super::local::Numbers;
use super::parameters::Parameters;
use super::receiver::Receiver;
use super::state::{Intent, Opening, State, Tcb};
use crate::endpoint::{CloseReason, Event, Output};
use crate::flow::{IpVersion, PathId};
use crate::path::{PathEvent, PathState};
use crate::time::{Duration, Time};
use crate::wire::Body;
use crate::wire::sctp::authentication::Hmac;
use crate::wire::sctp::chunk::{Abort, Chunk, Cookie, ErrorCause, Illegal, Init, InitAck, StateCookie};

/// A Forward-TSN-Supported parameter (RFC 3758 section 3.1), which an end without partial reliability does
/// not know.
const FORWARD_TSN_SUPPORTED: [u8; 4] = [0xc0, 0, 0, 4];

/// What an end with these numbers says about itself in INIT or INIT ACK, apart from what concerns its
/// addresses. `extensions` is as in [`Association::offer_extensions`].
pub(super) fn offer(parameters: &Parameters, ip: IpVersion, numbers: Numbers, extensions: bool) -> Init {
    Init {
        initiate_tag: numbers.tag,
        a_rwnd: parameters.receive_buffer,
        outbound_streams: parameters.streams,
        max_inbound_streams: parameters.max_inbound_streams,
        initial_tsn: numbers.initial_tsn,
        addresses: 1,
        ip,
        forward_tsn_supported: parameters.partial_reliability,
        asconf_supported: false,
        hmac: if extensions { Hmac::Sha256 } else { Hmac::Sha1 },
        interleaving_supported: parameters.interleaving,
        reconfig_supported: extensions,
        nr_sack_supported: parameters.nr_sack,
        names_forward_tsn: false,
        names_address_types: parameters.procedures.names_address_types,
        cookie_preservative: None,
    }
}

/// The answer to INIT by an end that says `own` about itself (section 5.1 B). Its cookie keeps the addresses
/// that the INIT listed, where they have come as bytes, and the Tie-Tag of an association that exists
/// already.
pub(super) fn answer(
    now: Time,
    parameters: &Parameters,
    init: &Init,
    unrecognized: &[u8],
    own: Init,
    keeps_addresses: bool,
    tie_tag: Option<u64>,
) -> InitAck {
    // Section 5.2.6: the life may be longer for a peer that has asked for it, but no more than twice as long,
    // whatever it asks for (section 3.3.2.1).
    let extra = init.cookie_preservative.unwrap_or(Duration::ZERO).min(parameters.valid_cookie_life);
    let cookie = StateCookie {
        created_at: now,
        life: parameters.valid_cookie_life + extra,
        local_tag: own.initiate_tag,
        local_initial_tsn: own.initial_tsn,
        // The extension that it asked for is in `life`.
        peer: Init {
            cookie_preservative: None,
            names_forward_tsn: false,
            names_address_types: false,
            // Only then the cookie is longer.
            nr_sack_supported: own.nr_sack_supported && init.nr_sack_supported,
            ..*init
        },
        tie_tag,
        key_bytes: 0,
        keeps_addresses,
    };
    // Section 5.1.1: no more streams than the peer allows. INIT ACK does not name types of addresses, and no
    // extensions with long parameters that the peer lacks: a forged INIT gets as short an answer as possible.
    let own = Init {
        outbound_streams: own.outbound_streams.min(init.max_inbound_streams),
        names_address_types: false,
        asconf_supported: own.asconf_supported && init.asconf_supported,
        reconfig_supported: own.reconfig_supported && init.reconfig_supported,
        ..own
    };
    let (reported, unrecognized) = (unrecognized.into(), Box::default());
    InitAck { init: own, cookie: Cookie::Own(cookie), reported, unrecognized }
}

/// The ABORT that answers an INIT that breaks the protocol, and its tag, if the INIT has one.
pub(super) fn refusal(illegal: &Illegal) -> Option<(u32, Chunk)> {
    let abort = Abort { tag_reflected: false, cause: Some(illegal.cause.clone()) };
    Some((illegal.initiate_tag()?, Chunk::Abort(abort)))
}

/// The error that a cookie is too old, if it is (section 5.1.5 step 3).
pub(super) fn staleness(now: Time, cookie: &StateCookie) -> Option<ErrorCause> {
    let good_until = cookie.created_at + cookie.life;
    (now > good_until).then(|| ErrorCause::StaleCookie { staleness: now.saturating_since(good_until) })
}

impl Association {
    /// Section 5.1 A: sends INIT and starts T1-init.
    #[cold]
    pub(super) fn connect(&mut self, now: Time) {
        if let State::Closed(intent) = self.state {
            let path = PathId(self.parameters.primary_path);
            self.state = State::CookieWait(Opening::new(path, intent));
            self.send_init(now);
        }
    }

    fn send_init(&mut self, now: Time) {
        if let State::CookieWait(Opening { path, cookie_preservative, .. }) = self.state {
            let init = Init { cookie_preservative, ..self.own_init() };
            self.transmit_with_tag(path, 0, Chunk::Init(Box::new(init), Box::default()));
            self.start_t1(now);
        }
    }

    fn send_cookie_echo(&mut self, now: Time) {
        if let State::CookieEchoed(Opening { path, .. }, cookie, _) = &self.state {
            self.transmit_one(*path, Chunk::CookieEcho(cookie.clone()));
            self.start_t1(now);
        }
    }

    fn start_t1(&mut self, now: Time) {
        if let Some(opening) = self.state.opening_mut() {
            let rto = self.routing.paths[opening.path.index()].rtt.rto();
            let rto = self.parameters.max_init_timeout.map_or(rto, |most| rto.min(most));
            opening.t1 = self.parameters.rto.clock.deadline(now, rto);
        }
    }

    fn own_init(&self) -> Init {
        self.init_with(self.local.numbers)
    }

    fn init_with(&self, numbers: Numbers) -> Init {
        Init {
            addresses: self.local.listed_addresses.unwrap_or_else(|| self.addresses()),
            names_forward_tsn: self.local.listed_addresses.is_some(),
            asconf_supported: self.parts.changes_addresses(),
            ..offer(&self.parameters, self.local.ip, numbers, self.parts.resets_streams())
        }
    }

    /// Section 5.1 B; section 5.2.1 for an INIT while the association is being opened: the answer is made
    /// from our own tag and TSN, and the state stays as it is. Later it does too, but the answer has a new
    /// tag and a new TSN (section 5.2.2): the peer may have restarted.
    #[cold]
    pub(super) fn on_init(&mut self, now: Time, path: PathId, init: &Init, unrecognized: &[u8]) {
        if matches!(self.state, State::ShutdownAckSent(..)) {
            // Section 9.2: the peer has not seen our SHUTDOWN ACK.
            self.send_shutdown_ack(now);
            return;
        }
        let (own, tie_tag) = match self.state {
            State::Closed(_) | State::CookieWait(_) => (self.own_init(), None),
            State::CookieEchoed(..) => (self.own_init(), Some(self.local.tie_tag())),
            _ => {
                let tie_tag = self.local.tie_tag();
                let numbers = Numbers::draw(&mut self.local.source);
                (self.init_with(numbers), Some(tie_tag))
            }
        };
        let keeps_addresses = self.local.listed_addresses.is_some();
        let ack = answer(now, &self.parameters, init, unrecognized, own, keeps_addresses, tie_tag);
        self.transmit_with_tag(path, init.initiate_tag, Chunk::InitAck(Box::new(ack)));
    }

    /// Section 5.1 C; in any other state it is discarded (section 5.2.3).
    #[cold]
    pub(super) fn on_init_ack(&mut self, now: Time, path: PathId, ack: &InitAck) {
        let State::CookieWait(Opening { intent, cookie_preservative, .. }) = self.state else { return };
        let tcb = self.meet_peer(&ack.init);
        let opening = Opening { cookie_preservative, ..Opening::new(path, intent) };
        self.state = State::CookieEchoed(opening, Box::new(ack.cookie.clone()), tcb);
        self.send_cookie_echo(now);
        let mut unrecognized = ack.unrecognized.to_vec();
        if ack.init.forward_tsn_supported && !self.parameters.partial_reliability {
            unrecognized.extend(FORWARD_TSN_SUPPORTED);
        }
        if !unrecognized.is_empty() {
            // Section 3.2.1: behind the COOKIE ECHO, in its packet.
            let error = Chunk::Error(ErrorCause::unrecognized(&unrecognized));
            if let Some(Output::Transmit(packet)) = self.outbox.outputs.back_mut()
                && let Body::Sctp(sctp) = &mut packet.body
                && packet.size + error.wire_size() <= self.routing.paths[path.index()].mtu
            {
                packet.size += error.wire_size();
                sctp.rest.push(error);
            }
        }
    }

    /// A chunk breaks the protocol: the association is aborted, or not opened.
    #[cold]
    pub(super) fn on_illegal(&mut self, now: Time, path: PathId, tag: u32, illegal: &Illegal) {
        if illegal.is_init() {
            // Section 3.3.2: such an INIT changes nothing about an association that exists.
            if let Some((tag, abort)) = refusal(illegal) {
                self.transmit_with_tag(path, tag, abort);
            }
        } else if !illegal.is_init_ack() {
            self.abort(now, illegal.cause.clone());
        } else if matches!(self.state, State::CookieWait(_)) {
            // Section 3.3.3; in any other state INIT ACK is discarded.
            let to = illegal.initiate_tag();
            let abort = Abort { tag_reflected: to.is_none(), cause: Some(illegal.cause.clone()) };
            self.transmit_with_tag(path, to.unwrap_or(tag), Chunk::Abort(abort));
            self.end(now, CloseReason::Aborted);
        }
    }

    /// Section 5.1 D; section 5.2.4 when the association exists.
    #[cold]
    pub(super) fn on_cookie_echo(&mut self, now: Time, path: PathId, tag: u32, cookie: &Cookie) {
        let Cookie::Own(own) = cookie else { return };
        if own.local_tag != tag {
            return;
        }
        if tag != self.local.numbers.tag {
            // Case A; or C, which comes late and without a Tie-Tag.
            if self.is_new_beginning(tag, cookie) {
                self.on_new_beginning(now, path, own);
            }
            return;
        }
        let cookie = own;
        let known = cookie.peer.initiate_tag == self.state.peer_tag();
        match &mut self.state {
            State::Closed(_) | State::CookieWait(_) | State::CookieEchoed(..) => {
                if let Some(error) = staleness(now, cookie).filter(|_| !known) {
                    self.transmit_with_tag(path, cookie.peer.initiate_tag, Chunk::Error(error));
                    return;
                }
                // From Closed the ordinary case; otherwise both ends opened at once and this is
                // section 5.2.4 case B or D.
                let tcb = self.meet_peer(&cookie.peer);
                let intent = self.state.establish(tcb);
                self.answer(path, Chunk::CookieAck);
                self.on_open(now, path, intent);
            }
            // Section 5.2.4 case D: our COOKIE ACK was lost.
            _ if known => self.answer(path, Chunk::CookieAck),
            // Case B in an association that is open: both ends opened at once, and the peer has since chosen
            // another tag.
            State::Established(tcb) if staleness(now, cookie).is_none() => {
                tcb.peer_tag = cookie.peer.initiate_tag;
                self.answer(path, Chunk::CookieAck);
            }
            _ => {}
        }
    }

    /// Section 5.1 E.
    #[cold]
    pub(super) fn on_cookie_ack(&mut self, now: Time, path: PathId) {
        if let State::CookieEchoed(Opening { intent, .. }, ..) = self.state {
            self.state.step(State::Established);
            self.on_open(now, path, intent);
        }
    }

    /// Section 5.2.6: a stale cookie starts the handshake again, asking for a longer life.
    #[cold]
    pub(super) fn on_error(&mut self, now: Time, _path: PathId, cause: &ErrorCause) {
        if let (State::CookieEchoed(opening, ..), ErrorCause::StaleCookie { staleness }) =
            (&self.state, cause)
        {
            let Opening { t1, path, intent, .. } = *opening;
            let attempts = opening.attempts + 1;
            if attempts > self.parameters.max_init_retransmits {
                self.end(now, CloseReason::Lost);
                return;
            }
            // The round trip has to fit into the life, so the request is twice what was missing.
            let cookie_preservative = Some(staleness.doubled());
            self.state = State::CookieWait(Opening { t1, attempts, path, cookie_preservative, intent });
            self.send_init(now);
        }
    }

    /// T1-init or T1-cookie expired (section 5.1, rules in 6.3.3 for the back-off).
    #[cold]
    pub(super) fn on_t1(&mut self, now: Time) {
        let Some(opening) = self.state.opening_mut() else { return };
        opening.t1 = Time::NEVER;
        opening.attempts += 1;
        if opening.attempts > self.parameters.max_init_retransmits {
            self.give_up(now);
            return;
        }
        let path = opening.path;
        self.routing.paths[path.index()].rtt.back_off();
        // Section 6.4.1: a retransmission is sent to another address if there is one.
        let next = self.next_present(path);
        if let Some(opening) = self.state.opening_mut() {
            opening.path = next;
        }
        self.send_init(now);
        self.send_cookie_echo(now);
    }

    /// What this end has with a peer that says this about itself.
    fn meet_peer(&mut self, peer: &Init) -> Box<Tcb> {
        self.sender.peer_rwnd = peer.a_rwnd;
        self.parts.meet_peer(peer, self.local.numbers.initial_tsn);
        // Section 5.1.1: no more streams than the peer allows.
        self.sender.next_mid.truncate(usize::from(peer.max_inbound_streams.max(1)));
        let streams = peer.outbound_streams.min(self.parameters.max_inbound_streams);
        // RFC 8260 section 2.2.1: I-DATA where both ends support it.
        if peer.interleaving_supported && self.parameters.interleaving {
            self.sender.interleave();
            self.fit_chunks();
            self.sender.outstanding.memory.overhead = self.sender.memory_of_queue();
        }
        Box::new(Tcb {
            peer_tag: peer.initiate_tag,
            // draft-natarajan-tsvwg-sctp-nrsack section 3: where both ends support it.
            uses_nr_sacks: peer.nr_sack_supported && self.parameters.nr_sack,
            takes_forward_tsn: peer.forward_tsn_supported && self.parameters.partial_reliability,
            receiver: Receiver::new(&self.parameters, peer.initial_tsn, streams),
        })
    }

    /// The association has been opened, with this intent.
    fn on_open(&mut self, now: Time, path: PathId, intent: Intent) {
        let event = if intent.is_restart { Event::Restarted } else { Event::Connected };
        self.outbox.emit(event);
        if self.parameters.path_verification {
            // Section 5.4: all but the path of the handshake are unconfirmed.
            for (index, status) in self.routing.status.iter_mut().enumerate() {
                status.confirmed = index == path.index();
            }
            self.on_path_event(now, PathEvent::StateChanged { path, from: PathState::Active });
        }
        self.open_parts(now);
        self.start_heartbeats(now);
        self.send_asconf(now);
        self.send(now);
        if intent.shuts_down && self.state.is_established() {
            self.begin_shutdown(now);
        }
    }
}
