//! What a server says instead of a handshake, or after it: Retry, Version Negotiation (RFC 9000 sections
//! 17.2.5.2 and 6.2), and stateless resets (section 10.3.1).

use super::connection::{Connection, State};
use super::door::Door;
use super::parameters::LEAST_DATAGRAM;
use super::path::Address;
use crate::endpoint::CloseReason;
use crate::flow::{Ecn, Side};
use crate::time::{Duration, Time};
use crate::wire::quic::{ConnectionId, Content, Level, Packet, VERSION_1};

/// A longer token would leave too little of an Initial packet for the handshake.
const LONGEST_TOKEN: usize = LEAST_DATAGRAM as usize / 2;

impl Connection {
    /// Whether the server has not said anything yet.
    pub fn is_unanswered(&self) -> bool {
        let is_opening = self.side == Side::A && matches!(self.state, State::Opening | State::Open);
        is_opening && !self.has_peer_source && self.handshake.retry.is_none()
    }

    /// The server wants to see a token first: the first Retry packet is taken, if it answers this handshake
    /// (section 17.2.5.2).
    pub(super) fn on_retry(
        &mut self,
        now: Time,
        [to, source]: [ConnectionId; 2],
        original: ConnectionId,
        token: &[u8],
    ) {
        let is_ours = to == self.paths[0].own_ids.first() && original == self.handshake.original;
        let is_usable = !token.is_empty() && token.len() <= LONGEST_TOKEN && source != original;
        if !self.is_unanswered() || !is_ours || !is_usable {
            return;
        }
        self.stats.retries += 1;
        self.handshake.retry = Some(source);
        self.handshake.token = token.into();
        self.paths[0].peer_ids.set_first(source);
        // RFC 9002 section 6.2.3: recovery begins anew, with a first measure of the round trip.
        let took = now.saturating_since(self.handshake.began);
        if self.paths[0].rtt.back_offs() == 0 && took >= Duration::from_millis(1) {
            self.parameters.initial_rtt = took;
        }
        self.paths[0].rtt = self.parameters.rtt();
        let congestion = &mut self.paths[0].congestion;
        let space = &mut self.early[0];
        space.forget_sent(congestion);
        // Section 17.2.5.3: the same message, in packets with further numbers.
        let hello = &mut self.handshake.crypto[0].send;
        hello.on_lost(0, hello.sent, false);
        // RFC 9001 section 4.6.2: and early data again.
        self.send_early_data_again();
    }

    /// The server knows other versions only: the attempt is over (section 6.2).
    pub(super) fn on_version_negotiation(&mut self, [to, from]: &[Box<[u8]>; 2], versions: &[u32]) {
        let is_ours =
            **to == *self.paths[0].own_ids.first().bytes() && **from == *self.handshake.original.bytes();
        if !self.is_unanswered() || !is_ours || versions.contains(&VERSION_1) {
            return;
        }
        self.peers_versions = versions.into();
        self.state = State::Closed;
        self.end(CloseReason::Aborted);
    }

    /// The versions that the server knows, if the last connection failed for that.
    pub fn peers_versions(&self) -> &[u32] {
        &self.peers_versions
    }

    /// Whether this token is that of the ID that is used for the peer (section 10.3.1).
    pub fn is_reset_by(&self, token: &[u8; 16]) -> bool {
        let is_alive = matches!(self.state, State::Opening | State::Open | State::Closing(_));
        is_alive && self.paths.iter().any(|path| path.peer_ids.is_reset_by(token))
    }

    /// The peer has forgotten the connection: nothing is sent any more.
    pub(super) fn on_stateless_reset(&mut self, now: Time, token: &[u8; 16]) {
        if self.is_reset_by(token) {
            self.stats.resets_received += 1;
            self.drain(now);
            self.end(CloseReason::Aborted);
        }
    }

    /// Without a connection, packets of one that there was are answered with stateless resets (section
    /// 10.3).
    pub(super) fn reset_stranger(&mut self, from: Address, packet: &Packet, bytes: u32) {
        if packet.level == Level::OneRtt
            && let Some(reset) = self.door.reset(packet.destination, bytes, &mut self.numbers)
        {
            self.stats.resets_sent += 1;
            self.answer(from, reset);
        }
    }

    /// A server names its version to a client that speaks another one (section 6.1).
    pub(super) fn name_versions(&mut self, from: Address, ids: &[Box<[u8]>; 2], bytes: u32) {
        if self.side == Side::B
            && let Some(versions) = Door::versions(ids, bytes)
        {
            self.answer(from, versions);
        }
    }

    /// Sends something that belongs to no connection.
    pub(super) fn answer(&mut self, to: Address, content: Content) {
        self.stats.datagrams_sent += 1;
        let bytes = content.size() as u32;
        self.put_out_to(to, content, bytes, Ecn::NotEct);
    }
}
