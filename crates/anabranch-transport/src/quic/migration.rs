//! Migration to another address and the validation of addresses (RFC 9000 sections 8.2 and 9). The client
//! moves; the server follows the packets that come with the highest number.

use smallvec::SmallVec;

use super::config::Migration;
use super::connection::{Connection, State};
use super::errors::code;
use super::parameters::LEAST_DATAGRAM;
use super::path::{AMPLIFICATION, Address, Challenge, Route, Standing};
use super::sent_packets::Content;
use super::space::SpaceId;
use crate::endpoint::CloseReason;
use crate::flow::{Ecn, PathId, Side};
use crate::rng::Draw as _;
use crate::time::{Duration, Time};
use crate::wire::quic::{self, Frame, Packet};

/// Probe timeouts in a row after which a client takes its path for dead.
const FAILED_AFTER: u32 = 2;

/// What changes with the addresses.
#[derive(Clone, Copy)]
struct Move {
    /// Packets go to another connection ID.
    has_new_id: bool,
    /// The port alone is another one.
    is_same_host: bool,
}

/// Whether a packet only probes a path (section 9.1).
pub(super) fn is_probing(packet: &Packet) -> bool {
    packet.frames.iter().all(|frame| {
        matches!(
            frame,
            Frame::NewConnectionId { .. }
                | Frame::Padding { .. }
                | Frame::PathChallenge { .. }
                | Frame::PathResponse { .. }
        )
    })
}

impl Connection {
    /// Three of these, but at least as with the first round-trip time, are the time of a validation.
    fn validation_step(&self, place: usize) -> Duration {
        let initial = self.parameters.rtt().base_rto();
        self.probe_timeout(place).max(initial)
    }

    /// A challenge that no one can guess.
    pub(super) fn challenge(&mut self, now: Time) -> Challenge {
        let data = self.numbers.bits().to_be_bytes();
        Challenge { sent: [data].into_iter().collect(), next: now + self.validation_step(0), due: Some(data) }
    }

    /// Whether a packet that comes from there may be read: from elsewhere only once the handshake is
    /// confirmed (section 9).
    pub(super) fn may_come_from(&self, place: usize, from: Address) -> bool {
        from == self.paths[place].route.address || self.handshake.is_confirmed
    }

    /// A server follows a client whose newest packet, which is not for probing, comes from elsewhere (section
    /// 9.3).
    pub(super) fn follow(&mut self, now: Time, place: usize, from: Address, bytes: u32) {
        if self.side == Side::A || from == self.paths[place].route.address {
            return;
        }
        let known = self.paths[place].previous.take_if(|route| route.address == from);
        let is_known = known.is_some();
        let mut route = known.unwrap_or_else(|| Route::new(from, false));
        route.on_received(bytes);
        self.move_to(now, place, route);
        if !is_known {
            let challenge = self.challenge(now);
            self.paths[place].route.challenge = Some(challenge);
        }
        // Section 9.3.3: an attacker may have been faster than the client.
        if self.paths[place].previous.is_some() {
            let challenge = self.challenge(now);
            if let Some(previous) = &mut self.paths[place].previous {
                previous.challenge = Some(challenge);
            }
        }
    }

    /// A client whose packets get no answer goes on with its next address, if it may.
    pub(super) fn migrate_on_failure(&mut self, now: Time) -> bool {
        let count = self.mtus.len() as u8;
        let may = self.parameters.migration == Migration::OnFailure
            && self.multipath.is_none()
            && self.paths[0].rtt.back_offs() >= FAILED_AFTER
            && count > 1
            && self.may_migrate(0);
        if may {
            let Address { network, port, host } = self.paths[0].route.address;
            let network = PathId((network.0 + 1) % count);
            self.go_on_from(
                now,
                0,
                Address { network, port, host },
                Move { has_new_id: true, is_same_host: false },
            );
        }
        may
    }

    /// The client has another address, or another port alone, on a path that it uses, and says so (section
    /// 9.2). Returns false where it may not, so that its packets go on as from behind a NAT.
    pub fn change_address(&mut self, now: Time, path: u32, is_same_host: bool) -> bool {
        let place = path as usize;
        let may = place < self.paths.len() && self.may_migrate(place);
        if may {
            let address = self.paths[place].route.address;
            self.go_on_from(now, place, address, Move { has_new_id: true, is_same_host });
        }
        may
    }

    fn may_migrate(&self, place: usize) -> bool {
        self.side == Side::A
            && self.handshake.is_confirmed
            && !self.peer.disable_active_migration
            && self.paths[place].standing == Standing::Open
            // Section 9.5: not with an ID that was used elsewhere.
            && self.paths[place].peer_ids.has_spare()
    }

    /// A client goes on, from another address of its own, with the server at this address.
    fn go_on_from(&mut self, now: Time, place: usize, address: Address, how: Move) {
        // The server's address is known to be its own.
        self.take_route(now, place, Route::new(address, true), how);
        let challenge = self.challenge(now);
        self.paths[place].route.challenge = Some(challenge);
        self.paths[place].previous = None;
        // Section 8.4 of draft-ietf-quic-ack-frequency-14.
        self.wants.immediate_ack = self.asks_for_acknowledgements();
    }

    /// Everything goes to these addresses from now on: with another connection ID, unless a NAT has bound the
    /// client anew (section 9.5), and with congestion control and round trips from the beginning, unless the
    /// port alone is another one (section 9.4).
    fn move_to(&mut self, now: Time, place: usize, route: Route) {
        let (from, to) = (self.paths[place].route.address, route.address);
        let is_rebound = from.network == to.network;
        self.take_route(
            now,
            place,
            route,
            Move { has_new_id: !is_rebound, is_same_host: is_rebound && from.host == to.host },
        );
    }

    fn take_route(&mut self, now: Time, place: usize, route: Route, Move { has_new_id, is_same_host }: Move) {
        let control = if is_same_host { None } else { self.new_control(place) };
        let path = &mut self.paths[place];
        let old = std::mem::replace(&mut path.route, route);
        if old.is_validated {
            path.previous = Some(old.at_rest());
        }
        if has_new_id {
            self.stats.migrations += 1;
            path.peer_ids.advance();
        } else {
            self.stats.rebindings += 1;
        }
        if !is_same_host {
            path.rtt = self.parameters.rtt();
            // Section 8.4 of draft-ietf-quic-ack-frequency-14: the round trip is another one.
            self.wants.ack_frequency = self.asks_for_acknowledgements();
        }
        let path = &mut self.paths[place];
        // What is on its way says nothing about the new path: it is sent again, and no loss.
        let contents = path.space.forget_sent(&mut path.congestion);
        if let Some(control) = control {
            path.congestion.begin_anew(control);
        }
        for content in contents {
            if let Content::Ack { path, .. } = content {
                self.paths[usize::from(path)].space.arrived.acknowledge_again(now);
            }
            self.on_content_lost(SpaceId::Data(place), content, matches!(content, Content::Datagram(_)));
        }
    }

    /// Section 8.2.2: a challenge is answered on the addresses on which it came, with at most three times as
    /// much.
    pub(super) fn answer_to(&mut self, place: usize, from: Address, response: Option<[u8; 8]>, bytes: u32) {
        let path = &mut self.paths[place];
        if path.route.address == from {
            path.route.response = response;
        } else if let Some(data) = response {
            path.answer = Some((from, data, bytes.saturating_mul(AMPLIFICATION as u32)));
        }
    }

    /// RFC 9000 section 8.2.3: it counts wherever it comes.
    pub(super) fn on_path_response(&mut self, data: [u8; 8]) {
        let answers =
            |route: &Route| route.challenge.as_ref().is_some_and(|challenge| challenge.sent.contains(&data));
        for path in &mut self.paths {
            if answers(&path.route) {
                path.route.is_validated = true;
                path.route.challenge = None;
                path.is_ready = true;
                return;
            }
            if let Some(previous) = path.previous.as_mut().filter(|previous| answers(previous)) {
                previous.challenge = None;
                return;
            }
        }
    }

    /// When a challenge is due, or a validation fails.
    pub(super) fn validation_timer(&self) -> Time {
        self.paths.iter().map(super::path::Path::next_challenge).min().unwrap_or(Time::NEVER)
    }

    pub(super) fn on_validation_timer(&mut self, now: Time) {
        for place in 0..self.paths.len() {
            self.go_on_validating(now, place);
        }
    }

    /// Sends the next challenge of a path if it is due, or gives its validation up.
    fn go_on_validating(&mut self, now: Time, place: usize) {
        if self.paths[place].next_challenge() > now {
            return;
        }
        let step = self.validation_step(place);
        let data = self.numbers.bits().to_be_bytes();
        let path = &mut self.paths[place];
        let mut has_failed = [false; 2];
        let routes = [Some(&mut path.route), path.previous.as_mut()];
        for (route, has_failed) in routes.into_iter().zip(&mut has_failed) {
            let Some(challenge) = route.and_then(|route| route.challenge.as_mut()) else { continue };
            if challenge.next > now {
                continue;
            }
            *has_failed = challenge.sent.try_push(data).is_err();
            challenge.due = Some(data);
            challenge.next = now + step;
        }
        let [is_unreachable, was_left] = has_failed;
        if was_left {
            path.previous = None;
        }
        if !is_unreachable {
            return;
        }
        path.route.challenge = None;
        match path.previous.take() {
            // Section 9.3.2: back to the last address that was validated.
            Some(previous) => self.move_to(now, place, previous.at_rest()),
            // RFC 10069 section 3.1: a path that could not be opened is given up.
            None if self.multipath.is_some() => self.abandon(now, place, code::PATH_UNSTABLE_OR_POOR),
            // A client waits for the next probe timeouts, which lead to its next address.
            None if self.side == Side::A => {}
            None => {
                self.state = State::Closed;
                self.end(CloseReason::Lost);
            }
        }
    }

    /// Sends what goes to other addresses than the present ones: a challenge, and an answer to one.
    pub(super) fn send_elsewhere(&mut self, now: Time, place: usize) {
        if let Some((to, data, most)) = self.paths[place].answer.take() {
            self.send_probe(now, (place, to), Frame::PathResponse { data }, most);
        }
        let previous = self.paths[place].previous.as_mut();
        if let Some(route) = previous
            && let Some(data) = route.challenge.as_mut().and_then(|challenge| challenge.due.take())
        {
            let to = route.address;
            self.send_probe(now, (place, to), Frame::PathChallenge { data }, LEAST_DATAGRAM);
        }
    }

    /// Sends a packet of one frame, padded to 1200 bytes or `most` (sections 8.2.1 and 8.2.2).
    fn send_probe(&mut self, now: Time, (place, to): (usize, Address), frame: Frame, most: u32) {
        let id = SpaceId::Data(place);
        let number = self.space(id).next;
        let mut packet = self.blank(id, number);
        packet.frames.push(frame);
        let short = (most.min(LEAST_DATAGRAM) as usize).saturating_sub(packet.wire_size());
        if short > 0 {
            super::send::pad(&mut packet, short);
        }
        self.space_mut(id).next += 1;
        self.on_probe_sent(now);
        let content = quic::Content::Packets(SmallVec::from_iter([packet]));
        let bytes = content.size() as u32;
        self.stats.datagrams_sent += 1;
        self.put_out_to(to, content, bytes, Ecn::NotEct);
    }
}
