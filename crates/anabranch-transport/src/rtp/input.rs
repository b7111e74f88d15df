//! What comes from the peer: media, and what it says of this end's.

use super::endpoint::RtpEndpoint;
use super::history::Sent;
use super::pacer::Waiting;
use super::receiver::Arrived;
use crate::endpoint::{Event, Received};
use crate::flow::{Ecn, PathId, Payload};
use crate::observed::MediaSample;
use crate::time::Time;
use crate::wire::rtcp::{self, CongestionFeedback, Nack};
use crate::wire::udp::Datagram;
use crate::wire::{Body, Packet};

impl RtpEndpoint {
    /// Takes a packet.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet) {
        let is_known = packet.path.index() < self.paths.all.len();
        match &packet.body {
            Body::Udp(datagram)
                if is_known && self.is_own(datagram.source_port, datagram.destination_port) =>
            {
                self.receive_media(now, packet.path, packet.ecn, datagram);
            }
            Body::Rtcp(datagram)
                if is_known && self.is_own(datagram.source_port, datagram.destination_port) =>
            {
                datagram.packets.iter().for_each(|rtcp| self.receive_rtcp(now, packet.path, rtcp));
            }
            _ => {}
        }
    }

    fn receive_media(&mut self, now: Time, path: PathId, ecn: Ecn, datagram: &Datagram) {
        let Some(header) = datagram.rtp else {
            self.stats.strangers += 1;
            return;
        };
        let is_again = header.ssrc == self.inbound[1].ssrc();
        if !is_again && header.ssrc != self.inbound[0].ssrc() {
            self.stats.strangers += 1;
            return;
        }
        let ticks = [self.ticks(now), header.timestamp];
        let number = self.inbound[usize::from(is_again)].number(header.sequence);
        if self.paths[path].on_arrival(now, is_again, number, ecn) {
            self.paths[path].expect_feedback(now, self.config.feedback_interval);
            if self.config.feedback_per_frame && header.marker {
                self.paths[path].feedback_at = now;
            }
        }
        self.heard = Some(path);
        if !is_again {
            self.missing.on_arrival(now, path, number);
        }
        let arrived = self.inbound[usize::from(is_again)].on_arrival(number, ticks);
        let Arrived::New { missing_from } = arrived else {
            self.stats.duplicates_received += 1;
            return;
        };
        self.start_reports(now);
        if let Some(original) = header.original_sequence {
            let number = self.inbound[0].number(original);
            if !self.missing.remove(number) || !self.inbound[0].see(number) {
                self.stats.duplicates_received += 1;
                return;
            }
            self.stats.packets_recovered += 1;
        } else {
            self.missing.remove(number);
            if self.config.nack {
                self.missing.add(now, missing_from..number, path);
            }
        }
        self.stats.packets_received += 1;
        self.stats.bytes_delivered += u64::from(datagram.length);
        let payload = Payload { offset: datagram.offset, length: datagram.length };
        self.event(Event::Received(Received::unordered(payload)));
    }

    fn receive_rtcp(&mut self, now: Time, path: PathId, packet: &rtcp::Packet) {
        let (peer, own) = (self.inbound[0].ssrc(), self.ssrc());
        match packet {
            rtcp::Packet::CongestionFeedback(feedback) if feedback.sender == peer => {
                self.receive_feedback(now, path, feedback);
            }
            rtcp::Packet::Nack(nack) if nack.sender == peer && nack.media == own => {
                self.send_again(now, nack);
            }
            rtcp::Packet::PictureLoss { sender, media } if *sender == peer && *media == own => {
                self.stats.key_frame_requests_received += 1;
                self.event(Event::KeyFrameRequested);
            }
            rtcp::Packet::SenderReport { sender, info, .. } if *sender == peer => {
                self.inbound[0].on_sender_report(now, info.ntp);
            }
            rtcp::Packet::ReceiverReport { sender, .. } if *sender == peer => {}
            rtcp::Packet::SourceDescription { source, .. } if *source == peer => {}
            _ => self.stats.strangers += 1,
        }
    }

    /// RFC 4588: what is asked for is sent again, once within `nack_interval`, as far as the budget goes.
    fn send_again(&mut self, now: Time, nack: &Nack) {
        let target = self.paths.target();
        for sequence in nack.sequences() {
            let interval = self.config.nack_interval;
            let Some((last, sent)) = self.paths.find(sequence) else {
                self.stats.retransmissions_denied += 1;
                continue;
            };
            let is_recent = sent.again.is_some_and(|before| now.saturating_since(before) < interval);
            if is_recent || self.paths.has_retransmission(sent.number) {
                continue;
            }
            if !self.budget.take(now, sent.size, target) {
                self.stats.retransmissions_denied += 1;
                continue;
            }
            self.paths.on_sent_again(now, sent.number);
            let Sent { payload, marker, timestamp, .. } = sent;
            self.recent.on_sent(now, payload.length, true);
            let original = Some(sent.number);
            let waiting = Waiting { since: now, payload, marker, timestamp, number: 0, original };
            let path = self.paths.retransmission_path(last);
            self.paths[path].pacer.push(waiting);
        }
    }

    /// Takes feedback, which is about the path that it comes on.
    fn receive_feedback(&mut self, now: Time, path: PathId, feedback: &CongestionFeedback) {
        self.stats.feedback_received += 1;
        let ssrc = self.ssrc();
        let news = self.paths[path].on_feedback(now, feedback, ssrc);
        self.stats.unknown_reports += news.unknown;
        self.stats.strangers += news.strangers;
        self.stats.ce_reported += news.marked();
        self.stats.packets_lost += news.lost();
        let events = self.paths.on_feedback(now, path, news.rtt);
        if news.rtt.is_some() {
            self.sample = MediaSample { reports: self.stats.feedback_received, ..self.paths[path].sample };
            self.events(events);
            self.tell_target(now);
        }
    }
}
