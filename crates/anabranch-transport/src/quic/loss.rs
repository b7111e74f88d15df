//! Which packets are lost, and when to probe (RFC 9002 section 6, appendix A.8 to A.10).

use super::connection::{Connection, State};
use super::errors::code;
use super::handshake::Handshake;
use super::parameters::{GRANULARITY, LEAST_DATAGRAM};
use super::path::Standing;
use super::sent_packets::Sent;
use super::space::{Space, SpaceId};
use crate::cc::CongestionKind;
use crate::flow::Side;
use crate::recovery::rtt::MOST_DOUBLINGS;
use crate::time::{Duration, Time};

impl Connection {
    pub(super) fn space(&self, id: SpaceId) -> &Space {
        match id {
            SpaceId::Initial => &self.early[0],
            SpaceId::Handshake => &self.early[1],
            SpaceId::Data(path) => &self.paths[path].space,
        }
    }

    pub(super) fn space_mut(&mut self, id: SpaceId) -> &mut Space {
        match id {
            SpaceId::Initial => &mut self.early[0],
            SpaceId::Handshake => &mut self.early[1],
            SpaceId::Data(path) => &mut self.paths[path].space,
        }
    }

    /// The probe timeout of a path's data, without doublings (section 6.2.1).
    pub(super) fn probe_timeout(&self, path: usize) -> Duration {
        self.paths[path].rtt.base_rto() + self.peer_ack_delay()
    }

    /// The longest probe timeout of all paths (RFC 10069 sections 2.5 and 2.6).
    pub(super) fn longest_timeout(&self) -> Duration {
        let open = (0..self.paths.len()).filter(|place| self.paths[*place].standing == Standing::Open);
        open.map(|place| self.probe_timeout(place)).max().unwrap_or_else(|| self.probe_timeout(0))
    }

    /// The longest delay of the peer's acknowledgements.
    pub(super) fn peer_ack_delay(&self) -> Duration {
        self.ack_frequency.delay_of(&self.peer)
    }

    /// Whether the server has certainly validated the client's address (appendix A.8). If it has not, its
    /// data may be held back until more comes from the client.
    pub(super) fn peer_has_validated(&self) -> bool {
        self.side == Side::B
            || self.handshake.is_confirmed
            || self.space(SpaceId::Handshake).largest_acknowledged.is_some()
    }

    /// Whether something that has a probe timeout waits for an acknowledgement: data has none before the
    /// handshake is confirmed (section 6.2.1), and does not keep a client from asking.
    fn has_eliciting_in_flight(&self) -> bool {
        let is_timed = |id: &SpaceId| self.handshake.is_confirmed || Handshake::place(*id).is_some();
        self.space_ids().filter(is_timed).any(|id| self.space(id).sent.eliciting > 0)
    }

    /// The probe timeout that expires first, and its space (appendix A.8: `GetPtoTimeAndSpace`).
    fn probe_time(&self, now: Time) -> (Time, SpaceId) {
        let rtt = &self.paths[0].rtt;
        if !self.has_eliciting_in_flight() {
            let id = if self.handshake.has_keys(SpaceId::Handshake.level()) {
                SpaceId::Handshake
            } else {
                SpaceId::Initial
            };
            return (now + rtt.rto(), id);
        }
        let mut first = (Time::NEVER, SpaceId::Initial);
        for id in self.space_ids() {
            let space = self.space(id);
            if space.sent.eliciting == 0 {
                continue;
            }
            let rtt = &self.paths[id.path()].rtt;
            let mut timeout = rtt.base_rto();
            if matches!(id, SpaceId::Data(_)) {
                // Section 6.2.1: not before the handshake is confirmed.
                if !self.handshake.is_confirmed {
                    continue;
                }
                timeout += self.peer_ack_delay();
            }
            let at = space.last_eliciting_at + rtt.backed_off(timeout);
            let at = self.given_up_at(id).map_or(at, |given_up| at.min(given_up));
            if at < first.0 {
                first = (at, id);
            }
        }
        first
    }

    fn first_loss_time(&self) -> Option<(Time, SpaceId)> {
        let times = self.space_ids().filter_map(|id| Some((self.space(id).loss_time?, id)));
        times.min_by_key(|(time, _)| *time)
    }

    /// Starts the timer anew (appendix A.8: `SetLossDetectionTimer`).
    pub(super) fn set_loss_timer(&mut self, now: Time) {
        self.loss_timer = match self.first_loss_time() {
            Some((time, _)) => time,
            // Section 6.2.2.1: a server that may send nothing waits for the client.
            None if self.is_at_limit() => Time::NEVER,
            None if !self.has_eliciting_in_flight() && self.peer_has_validated() => Time::NEVER,
            None => self.probe_time(now).0,
        };
    }

    /// Whether a server has too little left of three times what came for a datagram (RFC 9000 section 8.1).
    pub(super) fn is_at_limit(&self) -> bool {
        self.paths[0].route.allowance() < LEAST_DATAGRAM.into()
    }

    /// Starts the timer anew. What is due already, as after a probe timeout that an acknowledgement has
    /// shortened, is done at once.
    pub(super) fn serve_loss_timer(&mut self, now: Time) {
        for _ in 0..=MOST_DOUBLINGS {
            if !matches!(self.state, State::Opening | State::Open) {
                return;
            }
            self.set_loss_timer(now);
            if self.loss_timer > now {
                return;
            }
            self.on_loss_timer(now);
            self.send(now);
        }
        self.loss_timer = now + GRANULARITY;
    }

    /// The timer has expired (appendix A.9: `OnLossDetectionTimeout`).
    pub(super) fn on_loss_timer(&mut self, now: Time) {
        if let Some((_, id)) = self.first_loss_time() {
            let mut lost = std::mem::take(&mut self.scratch);
            self.find_lost(now, id, &mut lost);
            self.on_packets_lost(now, id, &mut lost);
            self.scratch = lost;
            return;
        }
        let (_, id) = self.probe_time(now);
        if let SpaceId::Data(place) = id
            && self.given_up_at(id).is_some_and(|at| at <= now)
        {
            self.abandon(now, place, code::PATH_UNSTABLE_OR_POOR);
            return;
        }
        self.stats.timeouts += 1;
        let path = &mut self.paths[id.path()];
        path.rtt.back_off();
        path.repairs.timeouts += 1;
        if self.migrate_on_failure(now) {
            return;
        }
        if let SpaceId::Data(place) = id
            && self.reinject(place)
        {
            // What is outstanding goes elsewhere; whether the path works is still asked.
            self.space_mut(id).probes = 1;
            return;
        }
        if self.has_eliciting_in_flight() {
            self.probe(id);
            // Section 6.2.4: in the other spaces of the handshake as well, if they have something. What the
            // client cannot read yet fills the window, and must not hold back what it needs to read it.
            for place in 0..2 {
                let other = [SpaceId::Initial, SpaceId::Handshake][place];
                let waits = self.handshake.crypto[place].send.next(u64::MAX).is_some();
                let has_keys = self.handshake.has_keys(other.level());
                if other != id && has_keys && (waits || self.space(other).sent.eliciting > 0) {
                    self.probe(other);
                }
            }
        } else {
            // Section 6.2.2.1: the server may be waiting for permission to send.
            self.space_mut(id).probes = 1;
        }
    }

    /// Has a space send two packets that elicit acknowledgements. They carry what is outstanding, unless
    /// there is something new; a handshake sends all of it again (section 6.2.4).
    fn probe(&mut self, id: SpaceId) {
        let has_new = Handshake::place(id).is_none() && self.has_data_to_send();
        self.space_mut(id).probes = 2;
        // Section 7 of draft-ietf-quic-ack-frequency-14.
        self.wants.immediate_ack |= matches!(id, SpaceId::Data(_)) && self.asks_for_acknowledgements();
        if !has_new {
            self.send_outstanding_again(id);
        }
    }

    /// Has a space send again what is outstanding, of data what its first two packets carried.
    pub(super) fn send_outstanding_again(&mut self, id: SpaceId) {
        let most = if Handshake::place(id).is_some() { usize::MAX } else { 2 };
        let outstanding: Vec<_> = {
            let eliciting = self.space(id).sent.iter().filter(|packet| packet.elicits_ack);
            eliciting.take(most).map(|packet| packet.contents.clone()).collect()
        };
        for contents in outstanding {
            for content in contents {
                self.on_content_lost(id, content, true);
            }
        }
    }

    /// How much later than a packet that is acknowledged a lost one was sent (section 6.1.2).
    fn loss_delay(&self, path: usize) -> Duration {
        let rtt = &self.paths[path].rtt;
        let longest = rtt.latest().max(rtt.srtt().unwrap_or(self.parameters.initial_rtt));
        longest.scaled(self.parameters.time_threshold).max(GRANULARITY)
    }

    /// Takes out the packets that are lost (section 6.1, appendix A.10: `DetectAndRemoveLostPackets`).
    pub(super) fn find_lost(&mut self, now: Time, id: SpaceId, lost: &mut Vec<Sent>) {
        let delay = self.loss_delay(id.path());
        let threshold = self.parameters.packet_threshold;
        let space = self.space_mut(id);
        space.loss_time = None;
        // Without an acknowledgement in this space nothing in it is lost (neqo pull request 2492).
        let Some(largest) = space.largest_acknowledged else { return };
        let mut next = None;
        space.sent.take_lost(largest, lost, |packet| {
            let at = packet.at + delay;
            if at <= now || largest >= packet.number + threshold {
                return true;
            }
            next = Some(next.map_or(at, |next: Time| next.min(at)));
            false
        });
        space.loss_time = next;
    }

    /// Packets are lost (appendix B.8: `OnPacketsLost`). Returns how many of their bytes were in flight.
    pub(super) fn on_packets_lost(&mut self, now: Time, id: SpaceId, lost: &mut Vec<Sent>) -> u32 {
        if lost.is_empty() {
            return 0;
        }
        let mut bytes = 0;
        let mut newest = None;
        for packet in lost.iter() {
            if packet.size > 0 {
                self.stats.packets_lost += 1;
                self.paths[id.path()].congestion.on_lost(now, packet);
                bytes += packet.size;
                newest = newest.max(Some(packet.end));
            }
        }
        let is_persistent = self.is_persistent(id, lost);
        let path = &mut self.paths[id.path()];
        if let Some(newest) = newest
            && path.congestion.on_congestion(now, newest, CongestionKind::FastRetransmit, &path.rtt)
        {
            path.repairs.fast_recoveries += 1;
            self.stats.loss_events += 1;
        }
        if is_persistent {
            self.stats.persistent_congestions += 1;
            self.paths[id.path()].congestion.on_persistent_congestion(now);
        }
        for packet in lost.drain(..) {
            for content in packet.contents.clone() {
                self.on_content_lost(id, content, false);
            }
            self.space_mut(id).sent.remember(packet);
        }
        bytes
    }

    /// Whether nothing arrived for so long that congestion is persistent (section 7.6): two lost packets that
    /// elicit acknowledgements, with nothing in between that arrived, are far enough apart.
    fn is_persistent(&self, id: SpaceId, lost: &[Sent]) -> bool {
        let path = &self.paths[id.path()];
        let Some(first_sample) = path.rtt.first_sample() else { return false };
        // Section 7.6.1: with the peer's delay in every space.
        let period = self.probe_timeout(id.path()) * u64::from(self.parameters.persistent_congestion);
        let mut began: Option<(Time, u64)> = None;
        for packet in lost.iter().filter(|packet| packet.at > first_sample) {
            began = match began {
                // A number in between has arrived, or is not lost yet.
                Some((at, last)) if packet.number == last + 1 => Some((at, packet.number)),
                _ if packet.elicits_ack => Some((packet.at, packet.number)),
                _ => None,
            };
            if let Some((at, _)) = began
                && packet.elicits_ack
                && packet.at.saturating_since(at) > period
            {
                return true;
            }
        }
        false
    }
}
