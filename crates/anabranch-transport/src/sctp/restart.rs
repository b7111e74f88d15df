//! A peer that has restarted opens the association again (RFC 9260 sections 5.2.2 and 5.2.4, case A).
//!
//! Nothing of the old association is kept but its settings and counters: what was not delivered is gone, and
//! the application is told. A live host knows which addresses the peer has now
//! ([`Association::restart`]); without one they are those of the paths.
//!
//! Known deviation: the two Tie-Tags are one number that is drawn for them, so that a cookie does not show
//! the tags of an association that lives.

use super::association::Association;
use super::handshake::staleness;
use super::state::{Intent, State};
use crate::flow::PathId;
use crate::time::Time;
use crate::wire::sctp::chunk::{Chunk, Cookie, ErrorCause, OtherCause, StateCookie};
use crate::wire::{Body, Packet};

impl Association {
    /// Whether a cookie restarts this association: both of its tags differ from ours, and its Tie-Tag is
    /// ours.
    #[cold]
    pub(super) fn is_new_beginning(&self, tag: u32, cookie: &Cookie) -> bool {
        let Cookie::Own(cookie) = cookie else { return false };
        let is_ours = cookie.tie_tag.is_some() && cookie.tie_tag == self.local.tie_tag;
        let is_another = cookie.local_tag == tag
            && tag != self.local.numbers.tag
            && cookie.peer.initiate_tag != self.state.peer_tag();
        is_ours && is_another && !matches!(self.state, State::Closed(_) | State::CookieWait(_))
    }

    /// Whether this packet is about to restart the association, so that its driver may say which addresses
    /// the peer has left, with [`Association::restart`].
    pub fn restarts_with(&self, now: Time, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        let Chunk::CookieEcho(cookie) = &sctp.first else { return false };
        let Cookie::Own(own) = &**cookie else { return false };
        !matches!(self.state, State::ShutdownAckSent(..))
            && self.is_new_beginning(sctp.verification_tag, cookie)
            && staleness(now, own).is_none()
    }

    /// Whether the association has been opened far enough that an INIT from the peer means that the peer
    /// restarts (section 5.2.2).
    pub const fn takes_init_for_restart(&self) -> bool {
        self.state.is_alive() && !matches!(self.state, State::CookieWait(_) | State::ShutdownAckSent(..))
    }

    /// Closes this end and forgets everything but its settings and counters, to be opened by this packet that
    /// [restarts](Association::restarts_with) it, which it is to be given next. It has a path per MTU then
    /// (bytes, IP header included).
    ///
    /// # Panics
    /// When there are no paths, or more than there were.
    pub fn restart(&mut self, packet: &Packet, mtus: &[u32]) {
        if let Body::Sctp(sctp) = &packet.body
            && let Chunk::CookieEcho(cookie) = &sctp.first
            && let Cookie::Own(cookie) = &**cookie
        {
            self.begin_anew(cookie, mtus);
        }
    }

    #[cold]
    fn begin_anew(&mut self, cookie: &StateCookie, mtus: &[u32]) {
        assert!((1..=self.routing.paths.len()).contains(&mtus.len()), "a restart adds no paths");
        let mut parameters = self.parameters.clone();
        if usize::from(parameters.primary_path) >= mtus.len() {
            parameters.primary_path = 0;
        }
        let (numbers, heartbeat) = (self.local.source.clone(), self.routing.heartbeat.clone());
        let closed = Self::closed(parameters, self.local.ports, mtus, self.local.ip, numbers, heartbeat);
        let old = std::mem::replace(self, closed);
        self.local.listed_addresses = old.local.listed_addresses;
        self.unread = old.unread;
        self.outbox.take_over(old.outbox);
        (self.stats, self.last_now) = (old.stats, old.last_now);
        (self.sender.awaited_room, self.sender.last_refused) =
            (old.sender.awaited_room, old.sender.last_refused);
        // An application that has asked to close still wants to.
        let shuts_down = matches!(old.state, State::ShutdownPending(_) | State::ShutdownSent(..));
        self.state = State::Closed(Intent { is_restart: true, shuts_down });
        self.adopt_promise(cookie, self.local.ports);
        if old.parts.resets_streams() {
            self.offer_extensions();
        }
        if old.parts.changes_addresses() {
            self.let_addresses_change(&[]).expect("no path is absent");
        }
    }

    /// Restarts the association for a peer that has restarted (section 5.2.4 A).
    #[cold]
    pub(super) fn on_new_beginning(&mut self, now: Time, path: PathId, cookie: &StateCookie) {
        if let Some(error) = staleness(now, cookie) {
            self.transmit_with_tag(path, cookie.peer.initiate_tag, Chunk::Error(error));
            return;
        }
        if matches!(self.state, State::ShutdownAckSent(..)) {
            let cause = ErrorCause::Other(Box::new(OtherCause::cookie_while_shutting_down()));
            self.transmit_with_tag(path, cookie.peer.initiate_tag, Chunk::Error(cause));
            self.send_shutdown_ack(now);
            return;
        }
        let mtus: Vec<u32> = self.routing.paths.iter().map(|path| path.mtu).collect();
        self.begin_anew(cookie, &mtus);
        let cookie = Cookie::Own(*cookie);
        self.on_cookie_echo(now, path, self.verification_tag(), &cookie);
    }
}
