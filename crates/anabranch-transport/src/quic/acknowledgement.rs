//! What an ACK frame brings about (RFC 9000 section 19.3, RFC 9002 appendix A.7).

use super::congestion::Progress;
use super::connection::Connection;
use super::errors::{Violation, code, violation};
use super::path::Standing;
use super::sent_packets::{Content, Sent};
use super::space::SpaceId;
use crate::cc::CongestionKind;
use crate::endpoint::{Event, Output};
use crate::recovery::rtt::Sample;
use crate::time::{Duration, Time};
use crate::wire::quic::Ack;

impl Connection {
    /// Takes an ACK frame that came in a packet of this space. Without a path ID it is about path 0 (RFC
    /// 10069 section 2.3).
    pub(super) fn on_ack_frame(&mut self, now: Time, carrier: SpaceId, ack: &Ack) -> Result<(), Violation> {
        let id = match (ack.path, carrier) {
            (Some(path), _) => match self.place_in_frame(path)? {
                Some(place) => SpaceId::Data(place),
                None => return Ok(()),
            },
            (None, SpaceId::Data(_)) => SpaceId::Data(0),
            (None, carrier) => carrier,
        };
        if let SpaceId::Data(place) = id
            && std::mem::replace(&mut self.paths[place].acknowledged_on, carrier.path()) != carrier.path()
        {
            // Section 5.4: the smallest round trip was that of another pair of paths.
            self.paths[place].rtt.restart_min();
        }
        self.on_ack(now, id, ack)
    }

    /// Takes an ACK frame of a space.
    pub(super) fn on_ack(&mut self, now: Time, id: SpaceId, ack: &Ack) -> Result<(), Violation> {
        let Some(&(_, largest)) = ack.ranges.first() else { return Ok(()) };
        let space = self.space_mut(id);
        if largest >= space.next {
            // RFC 9000 section 13.1.
            return Err(violation(code::PROTOCOL_VIOLATION, "a packet is acknowledged that was not sent"));
        }
        if let SpaceId::Data(place) = id {
            self.key_phases.on_acknowledged(now, place, largest);
        }
        let space = self.space_mut(id);
        let is_newest = space.largest_acknowledged.is_none_or(|known| largest > known);
        space.largest_acknowledged = space.largest_acknowledged.max(Some(largest));
        let mut packets = std::mem::take(&mut self.scratch);
        let space = self.space_mut(id);
        space.sent.take_spurious(&ack.ranges, &mut packets);
        let spurious = packets.len();
        let late = packets.iter().filter(|packet| packet.size > 0).count() as u64;
        for &(first, last) in &ack.ranges {
            space.sent.take_acknowledged(first, last, &mut packets);
        }
        self.stats.spurious_losses += late;
        if !packets.is_empty() {
            self.on_acknowledged(now, id, ack, &mut packets, spurious, is_newest);
        }
        packets.clear();
        self.scratch = packets;
        Ok(())
    }

    /// Packets are acknowledged, of which the first `spurious` had been taken for lost.
    fn on_acknowledged(
        &mut self,
        now: Time,
        id: SpaceId,
        ack: &Ack,
        packets: &mut [Sent],
        spurious: usize,
        is_newest: bool,
    ) {
        let path = id.path();
        let before = self.paths[path].congestion.in_flight;
        let rtt = self.sample(now, id, ack, &packets[spurious..]);
        let marked = self.paths[path].ecn.on_ack(ack.ecn, &packets[spurious..], is_newest);
        self.stats.ce_reported += marked;
        self.paths[path].marks.reported += marked;
        let newest = packets[spurious..].first().map(|packet| packet.end);
        if let Some(newest) = newest
            && marked > 0
        {
            let path = &mut self.paths[path];
            if path.congestion.on_congestion(now, newest, CongestionKind::Ecn, &path.rtt) {
                path.repairs.ecn_reductions += 1;
                self.stats.ecn_reductions += 1;
            }
        }
        for packet in &mut *packets {
            for content in &packet.contents {
                self.on_content_acknowledged(id, *content);
            }
        }
        let mut lost = std::mem::take(&mut self.lost);
        self.find_lost(now, id, &mut lost);
        let lost_bytes = self.on_packets_lost(now, id, &mut lost);
        self.lost = lost;
        let progress = Progress {
            before,
            rtt,
            lost: lost_bytes,
            marked: marked as u32,
            has_unsent: self.has_data_to_send(),
        };
        let timeout = self.probe_timeout(path);
        let kept = Time::from_nanos(now.as_nanos().saturating_sub(3 * timeout.as_nanos()));
        self.space_mut(id).sent.forget_lost(kept);
        if packets.len() > spurious {
            // Appendix A.7: not while the server may be waiting for the client.
            let ends_back_off = self.peer_has_validated();
            let path = &mut self.paths[path];
            path.congestion.on_acknowledged(now, &mut packets[spurious..], &path.rtt, &progress);
            if ends_back_off {
                let was_silent = path.rtt.back_offs() > 0;
                path.rtt.end_back_off();
                if was_silent && matches!(id, SpaceId::Data(_)) {
                    self.report_answer(id.path());
                }
            }
        }
        self.report_writable();
        self.check_finished(now);
    }

    /// Takes a sample of the round trip, if the newest packet is among these (RFC 9002 section 5.1).
    fn sample(&mut self, now: Time, id: SpaceId, ack: &Ack, packets: &[Sent]) -> Option<Duration> {
        let newest = packets.first()?;
        let is_largest = ack.ranges.first().is_some_and(|run| run.1 == newest.number);
        if !is_largest || !packets.iter().any(|packet| packet.elicits_ack) {
            return None;
        }
        let rtt = now.saturating_since(newest.at);
        let mut delay = Duration::ZERO;
        if matches!(id, SpaceId::Data(_)) {
            // Section 5.3. The delay of Initial packets does not count; Handshake packets are not delayed.
            let units = ack.delay.saturating_mul(1 << self.peer.ack_delay_exponent.min(20));
            delay = Duration::from_nanos(units.saturating_mul(1_000));
            if self.handshake.is_confirmed {
                delay = delay.min(self.peer_ack_delay());
            }
        }
        let path = &mut self.paths[id.path()];
        path.rtt.record_min(now, rtt);
        path.rtt.on_sample(&Sample { ack_delay: delay, ..Sample::new(now, rtt) });
        path.congestion.on_rtt(now, rtt);
        Some(rtt)
    }

    /// A packet with this content has arrived.
    fn on_content_acknowledged(&mut self, id: SpaceId, content: Content) {
        match content {
            Content::Ack { path, largest } => {
                let told = if let SpaceId::Data(_) = id { SpaceId::Data(path.into()) } else { id };
                self.space_mut(told).arrived.forget_up_to(largest);
            }
            Content::AckFrequency(sequence) => self.ack_frequency.on_acknowledged(sequence),
            Content::Crypto { position, length } => {
                if let Some(place) = super::handshake::Handshake::place(id) {
                    self.handshake.crypto[place].send.on_acknowledged(position, length.into(), false);
                }
            }
            Content::Stream { id, position, length, fin } => {
                if let Some(send) = self.streams.sender(id) {
                    self.stats.bytes_acknowledged += send.on_acknowledged(position, length.into(), fin);
                    if send.is_done() {
                        self.streams.close_if_done(id);
                    }
                }
            }
            Content::ResetStream(id) => {
                if let Some(send) = self.streams.sender(id)
                    && let Some((_, is_known)) = &mut send.reset
                {
                    *is_known = true;
                    self.streams.close_if_done(id);
                }
            }
            Content::DataBlocked
            | Content::Datagram(_)
            | Content::HandshakeDone
            | Content::MaxData
            | Content::MaxStreamData(_)
            | Content::MaxStreams { .. }
            | Content::NewConnectionId { .. }
            | Content::PathAbandon { .. }
            | Content::PathStatus(_)
            | Content::RetireConnectionId { .. }
            | Content::StopSending(_)
            | Content::StreamDataBlocked(_)
            | Content::StreamsBlocked { .. } => {}
        }
    }

    /// A packet with this content is lost, or a probe sends it again (RFC 9000 section 13.3): what still says
    /// something is sent again, in its present form.
    pub(super) fn on_content_lost(&mut self, id: SpaceId, content: Content, is_probe: bool) {
        match content {
            Content::Ack { .. } => {}
            Content::AckFrequency(sequence) => {
                self.wants.ack_frequency |= self.ack_frequency.on_lost(sequence);
            }
            Content::Crypto { position, length } => {
                if let Some(place) = super::handshake::Handshake::place(id) {
                    self.handshake.crypto[place].send.on_lost(position, length.into(), false);
                }
            }
            Content::DataBlocked => self.wants.data_blocked = self.flow.room() == 0,
            Content::Datagram(payload) => {
                // RFC 9221 section 5: it is not sent again.
                if !is_probe {
                    self.stats.messages_lost += 1;
                    self.outputs.push_back(Output::Event(Event::Abandoned(payload)));
                }
            }
            Content::HandshakeDone => self.wants.handshake_done = true,
            Content::MaxData => self.wants.max_data = true,
            Content::MaxStreamData(id) => self.want_of_stream(id, |wants| wants.max_stream_data = true),
            Content::MaxStreams { is_bidirectional } => {
                self.streams.wants_limit[usize::from(!is_bidirectional)] = true;
            }
            Content::NewConnectionId { path, sequence } => {
                let ids = &mut self.paths[usize::from(path)].own_ids;
                if ids.get(sequence).is_some() && !ids.to_announce.contains(&sequence) {
                    ids.to_announce.push_back(sequence);
                }
            }
            Content::PathAbandon { path, code } => {
                self.paths[usize::from(path)].news.abandon = Some(code);
            }
            Content::PathStatus(path) => {
                let path = &mut self.paths[usize::from(path)];
                path.news.status = path.standing == Standing::Open;
            }
            Content::ResetStream(id) => self.want_of_stream(id, |wants| wants.reset = true),
            Content::RetireConnectionId { path, sequence } => {
                let path = &mut self.paths[usize::from(path)];
                if path.standing == Standing::Open {
                    path.peer_ids.retire_again(sequence);
                }
            }
            Content::StopSending(id) => self.want_of_stream(id, |wants| wants.stop_sending = true),
            Content::Stream { id, position, length, fin } => {
                if let Some(send) = self.streams.sender(id) {
                    send.on_lost(position, length.into(), fin);
                    self.streams.queue(id);
                }
            }
            Content::StreamDataBlocked(id) => self.want_of_stream(id, |wants| wants.blocked = true),
            Content::StreamsBlocked { is_bidirectional } => {
                self.streams.wants_blocked[usize::from(!is_bidirectional)] = true;
            }
        }
    }

    /// Notes that a frame about a stream is to be sent, if the stream is still there.
    pub(super) fn want_of_stream(&mut self, id: u64, note: impl FnOnce(&mut super::streams::Wants)) {
        if let Some(stream) = self.streams.get_mut(id) {
            note(&mut stream.wants);
            self.streams.want(id);
        }
    }
}
