//! Datagrams that leave: which packets of which spaces are in them, when the window and the limit of three
//! times what came permit them (RFC 9000 sections 8.1, 12.2 and 14.1, RFC 9002 section 7).

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::connection::{Connection, State};
use super::handshake::{ACK_DELAY_EXPONENT, Handshake};
use super::parameters::LEAST_DATAGRAM;
use super::path::{Address, Outside};
use super::sent_packets::{Content, Contents, Sent};
use super::space::SpaceId;
use crate::endpoint::Output;
use crate::flow::{Ecn, Side};
use crate::time::Time;
use crate::wire::quic::{self, Datagram, Frame, LEAST_SAMPLED, Level, Packet, packet_number_length, varint};
use crate::wire::udp::HEADER_BYTES;
use crate::wire::{self, Body};

/// What a packet may carry beside acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// What tests its path.
    Own,
    /// And what is about the connection and its paths.
    Control,
    /// And data.
    Data,
}

/// A datagram in the making.
struct Making {
    packets: SmallVec<[Packet; 1]>,
    written: ArrayVec<Written, 3>,
    /// How many more bytes have room, and how many had.
    left: usize,
    room: usize,
}

/// What is to be remembered about one of its packets.
struct Written {
    id: SpaceId,
    contents: Contents,
    elicits: bool,
    /// Its length on the wire.
    size: u32,
}

impl Connection {
    /// Sends what may be sent now.
    pub(super) fn send(&mut self, now: Time) {
        if !matches!(self.state, State::Opening | State::Open) {
            return;
        }
        self.update_keys_when_due(now);
        // Each turn sends something that then no longer waits, or fills the window.
        if self.multipath.is_some() {
            self.send_on_paths(now);
        } else {
            while self.send_datagram(now, 0, Load::Data) {}
        }
        for place in 0..self.paths.len() {
            self.send_elsewhere(now, place);
            self.paths[place].congestion.end_burst();
        }
    }

    /// Sends a datagram on a path, if there is something for it.
    pub(super) fn send_datagram(&mut self, now: Time, place: usize, load: Load) -> bool {
        let path = &self.paths[place];
        let held = path.congestion.held_until(now);
        let has_window = path.congestion.has_room();
        let may_send = has_window && held.is_none();
        let allowance = path.route.allowance();
        if self.multipath.is_none() && self.handshake.is_discarded == [true; 2] {
            // Nothing waits, as often: no datagram is begun.
            let (id, space) = (SpaceId::Data(0), &path.space);
            let is_due = space.arrived.due.is_some_and(|due| due <= now);
            if !is_due && space.probes == 0 && !(may_send && self.has_content(id, load)) {
                let waits = !may_send && self.has_content(id, Load::Data);
                self.note_limit(held.filter(|_| has_window), may_send, allowance, waits);
                return false;
            }
        }
        let room = u64::from(self.datagram_bytes).min(allowance) as usize;
        let mut making = Making { packets: SmallVec::new(), written: ArrayVec::new(), left: room, room };
        for id in self.space_ids() {
            if id.path() == place && self.handshake.sending_level(id).is_some() {
                self.write_packet(now, (id, load), may_send, room, &mut making);
            }
        }
        let is_sent = !making.packets.is_empty();
        if is_sent {
            self.transmit(now, place, making);
        } else if self.multipath.is_none() {
            let waits = self
                .space_ids()
                .any(|id| self.handshake.sending_level(id).is_some() && self.has_content(id, Load::Data));
            self.note_limit(held.filter(|_| has_window), may_send, allowance, waits);
        }
        is_sent
    }

    /// Nothing leaves: what holds it back, if something waits (RFC 9002 section 7.8).
    fn note_limit(&mut self, held: Option<Time>, may_send: bool, allowance: u64, waits: bool) {
        let congestion = &mut self.paths[0].congestion;
        congestion.pacing.timer = held.filter(|_| waits).unwrap_or(Time::NEVER);
        if waits && !may_send {
            congestion.is_limited = true;
        } else if may_send {
            congestion.on_app_limited();
        }
        if allowance < u64::from(LEAST_DATAGRAM)
            && self.handshake.crypto.iter().any(|crypto| crypto.send.next(u64::MAX).is_some())
        {
            self.stats.amplification_limited +=
                u64::from(!std::mem::replace(&mut self.is_amplification_limited, true));
        }
    }

    /// Whether data, of streams or messages, waits to be sent.
    pub(super) fn has_data_to_send(&self) -> bool {
        let may_send = self.handshake.sending_level(SpaceId::Data(0)).is_some();
        may_send && (self.streams.has_ready() || !self.messages.is_empty())
    }

    /// Whether a space has something to send, among what may be in this load, that elicits an
    /// acknowledgement.
    pub(super) fn has_content(&self, id: SpaceId, load: Load) -> bool {
        if let Some(place) = Handshake::place(id) {
            return self.handshake.crypto[place].send.next(u64::MAX).is_some();
        }
        let has_data = || self.streams.has_ready() || !self.messages.is_empty();
        let has_news = || self.paths.iter().any(super::path::Path::has_news_to_send);
        let has_control = || self.wants.has_any() || self.streams.has_wanting() || has_news();
        (load == Load::Data && has_data())
            || (load >= Load::Control && has_control())
            || self.paths[id.path()].has_validation_to_send()
    }

    /// Adds a packet of a space, if it has something to send.
    fn write_packet(
        &mut self,
        now: Time,
        (id, load): (SpaceId, Load),
        may_send: bool,
        room: usize,
        making: &mut Making,
    ) {
        let is_probe = self.space(id).probes > 0;
        let told = self.acknowledged_by(id);
        let is_due = told.iter().any(|told| self.space(*told).arrived.due.is_some_and(|due| due <= now));
        // What a path that is silent has not delivered goes elsewhere, if it can.
        let goes_elsewhere = is_probe && self.goes_elsewhere(id);
        let load = if is_probe && !goes_elsewhere { Load::Data } else { load };
        // Section 14.1: a server's Initial packet that elicits an acknowledgement has 1200 bytes, or waits.
        let has_room = id != SpaceId::Initial || self.side == Side::A || room >= LEAST_DATAGRAM as usize;
        let may_elicit = (may_send || is_probe) && has_room;
        let has_content = may_elicit && (is_probe || self.has_content(id, load));
        if !is_due && !has_content {
            return;
        }
        let mut packet = self.blank(id, self.space(id).next);
        let overhead = packet.overhead();
        if making.left < overhead + LEAST_SAMPLED {
            return;
        }
        let mut left = making.left - overhead;
        let mut contents = Contents::new();
        for told in &told {
            let space = self.space(*told);
            if space.arrived.waiting == 0 {
                continue;
            }
            let exponent = if id.level() == Level::OneRtt { ACK_DELAY_EXPONENT } else { 0 };
            let path = self
                .multipath
                .is_some()
                .then_some(told.path() as u32)
                .filter(|_| *told == SpaceId::Data(told.path()));
            let room = left.saturating_sub(path.map_or(0, |path| varint::size(path.into())));
            if let Some(ack) = space.arrived.frame(now, exponent, space.marks, room) {
                contents.push(Content::Ack { path: told.path() as u8, largest: ack.ranges[0].1 });
                let frame = Frame::Ack(Box::new(quic::Ack { path, ..ack }));
                left -= frame.size();
                packet.frames.push(frame);
            }
        }
        let only_ack = packet.frames.len();
        if has_content {
            // RFC 9002 section 6.2.4: the second probe, too, carries what is outstanding if nothing is new.
            if is_probe && !goes_elsewhere && !self.has_content(id, load) {
                self.send_outstanding_again(id);
            }
            self.write_frames((id, load), &mut packet, &mut left, &mut contents);
            if is_probe && packet.frames.len() == only_ack && left > 0 {
                packet.frames.push(Frame::Ping);
                left -= 1;
                // The same section: where there is nothing to send, one packet says so.
                self.space_mut(id).probes = 1;
            }
        }
        let elicits = packet.frames.len() > only_ack;
        if packet.frames.is_empty() || (!elicits && !is_due) {
            return;
        }
        let used = making.left - overhead - left;
        let short = LEAST_SAMPLED.saturating_sub(used + usize::from(packet.number_bytes));
        if short > 0 {
            pad(&mut packet, short);
        }
        let speaks_of_itself = id == if self.side == Side::A { SpaceId::Initial } else { SpaceId::Handshake };
        if speaks_of_itself && packet.frames.iter().any(|frame| matches!(frame, Frame::Crypto { .. })) {
            // RFC 9001 section 8.2: in the ClientHello and in EncryptedExtensions.
            packet.parameters = Some(Box::new(self.own_parameters()));
        }
        let space = self.space_mut(id);
        space.next += 1;
        space.probes = space.probes.saturating_sub(u32::from(elicits));
        for told in told {
            let arrived = &mut self.space_mut(told).arrived;
            if arrived.waiting > 0 {
                arrived.on_acknowledged();
            }
        }
        making.left = left - short;
        let size = packet.wire_size() as u32;
        making.packets.push(packet);
        making.written.push(Written { id, contents, elicits, size });
    }

    /// A packet without frames.
    pub(super) fn blank(&self, id: SpaceId, number: u64) -> Packet {
        let path = &self.paths[id.path()];
        let acknowledged = self.space(id).largest_acknowledged;
        let level = self.handshake.sending_level(id).unwrap_or(id.level());
        Packet {
            level,
            destination: path.peer_ids.current(),
            source: path.own_ids.first(),
            token: if id == SpaceId::Initial { self.handshake.token.clone() } else { Box::default() },
            path_id: id.path() as u32,
            number,
            number_bytes: packet_number_length(number, acknowledged) as u8,
            key_phase: level == Level::OneRtt && self.key_phases.bit(),
            key_updates: if level == Level::OneRtt { self.key_updates() as u32 } else { 0 },
            frames: SmallVec::new(),
            parameters: None,
        }
    }

    /// Pads a datagram, remembers its packets and sends it.
    fn transmit(&mut self, now: Time, place: usize, mut making: Making) {
        let elicits = making.written.iter().any(|written| written.elicits);
        let has_initial = making.packets[0].level == Level::Initial;
        let total: u32 = making.written.iter().map(|written| written.size).sum();
        let short = LEAST_DATAGRAM.saturating_sub(total);
        let last = making.packets.len() - 1;
        if has_initial && (self.side == Side::A || elicits) && short > 0 {
            pad(&mut making.packets[last], short as usize);
            making.written[last].size += short;
        }
        let tests_path =
            |frame: &Frame| matches!(frame, Frame::PathChallenge { .. } | Frame::PathResponse { .. });
        // Sections 8.2.1 and 8.2.2: as far as the limit of three times allows.
        let short = LEAST_DATAGRAM.min(making.room as u32).saturating_sub(total);
        if !has_initial && short > 0 && making.packets[last].frames.iter().any(tests_path) {
            pad(&mut making.packets[last], short as usize);
            making.written[last].size += short;
        }
        let mark = if has_initial || making.packets[0].level == Level::Handshake {
            Ecn::NotEct
        } else {
            self.paths[place].ecn.mark()
        };
        let mut bytes = 0;
        for (packet, written) in making.packets.iter().zip(making.written) {
            bytes += written.size;
            self.remember(now, packet, written, mark);
        }
        let is_first_of_client =
            self.side == Side::A && making.packets.iter().any(|p| p.level == Level::Handshake);
        self.paths[place].route.on_sent(bytes);
        self.paths[place].traffic[0] += u64::from(bytes);
        self.stats.datagrams_sent += 1;
        self.stats.acks_sent += u64::from(!elicits);
        if elicits {
            self.on_eliciting_sent(now);
        }
        self.put_out(place, quic::Content::Packets(making.packets), bytes, mark);
        if is_first_of_client {
            // RFC 9001 section 4.9.1.
            self.discard(now, SpaceId::Initial);
        }
    }

    /// Sends a datagram with one packet of data.
    pub(super) fn send_packet(&mut self, now: Time, id: SpaceId, packet: Packet, contents: Contents) {
        self.space_mut(id).next += 1;
        let size = packet.wire_size() as u32;
        let written = [Written { id, contents, elicits: true, size }].into_iter().collect();
        let making = Making { packets: SmallVec::from_iter([packet]), written, left: 0, room: 0 };
        self.transmit(now, id.path(), making);
    }

    /// A packet has left on other addresses than the path's: it counts neither for its window nor for its
    /// round trips (RFC 9000 section 9.4), and the validation has a timer of its own.
    pub(super) fn on_probe_sent(&mut self, now: Time) {
        self.stats.packets_sent += 1;
        self.on_eliciting_sent(now);
    }

    /// Hands a datagram over to where the peer is on a path.
    pub(super) fn put_out(&mut self, place: usize, content: quic::Content, bytes: u32, ecn: Ecn) {
        self.put_out_to(self.paths[place].route.address, content, bytes, ecn);
    }

    /// Hands a datagram over to this address.
    pub(super) fn put_out_to(&mut self, to: Address, content: quic::Content, bytes: u32, ecn: Ecn) {
        let (path, destination_port) = (to.network, to.port);
        let Outside { port: source_port, host } = self.outside[path.index()];
        let client_host = if self.side == Side::A { host } else { to.host };
        let size = self.ip.header_bytes() + HEADER_BYTES + bytes;
        let packet = if let Some(mut packet) = self.spare.take() {
            (packet.path, packet.ecn, packet.size) = (path, ecn, size);
            if let Body::Quic(place) = &mut packet.body {
                (place.source_port, place.destination_port) = (source_port, destination_port);
                (place.client_host, place.content) = (client_host, content);
            } else {
                let datagram = Datagram { source_port, destination_port, client_host, content };
                packet.body = Body::Quic(Box::new(datagram));
            }
            packet
        } else {
            let datagram = Datagram { source_port, destination_port, client_host, content };
            Box::new(wire::Packet { path, ecn, size, body: Body::Quic(Box::new(datagram)) })
        };
        self.outputs.push_back(Output::Transmit(packet));
    }

    /// Remembers a packet (RFC 9002 appendix A.5).
    fn remember(&mut self, now: Time, packet: &Packet, written: Written, mark: Ecn) {
        let Written { id, contents, elicits, size } = written;
        let is_padded = packet.frames.iter().any(|frame| matches!(frame, Frame::Padding { .. }));
        let path = &mut self.paths[id.path()];
        let size = if elicits || is_padded { size } else { 0 };
        let rate = if size > 0 {
            path.congestion.on_sent(now, size)
        } else {
            crate::recovery::rate_sample::RateMark::default()
        };
        path.ecn.on_sent(mark);
        let end = path.congestion.sent;
        self.stats.packets_sent += 1;
        let space = self.space_mut(id);
        if elicits {
            space.last_eliciting_at = now;
        }
        let number = packet.number;
        space.sent.push(Sent { number, at: now, size, elicits_ack: elicits, ecn: mark, end, rate, contents });
    }
}

/// Adds padding in front, since a frame without length ends with the packet.
pub(super) fn pad(packet: &mut Packet, bytes: usize) {
    if let Some(Frame::Padding { length }) = packet.frames.first_mut() {
        *length += bytes as u32;
    } else {
        packet.frames.insert(0, Frame::Padding { length: bytes as u32 });
    }
}
