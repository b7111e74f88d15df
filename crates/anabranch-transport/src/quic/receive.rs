//! Datagrams that arrive: packets, and what their frames bring about (RFC 9000 sections 12, 13 and 19).

use super::connection::{Connection, State};
use super::door::{Door, Verdict};
use super::errors::{Violation, code, violation};
use super::handshake::MOST_WAITING;
use super::migration::is_probing;
use super::multipath::ids_of;
use super::path::{Address, Outside, Route, Standing};
use super::space::{SpaceId, may_come};
use crate::endpoint::{Event, Output, Received, StreamId};
use crate::flow::{Ecn, PathId, Payload, Side};
use crate::time::Time;
use crate::wire::quic::{ConnectionId, Content, Datagram, Frame, Level, Packet, Stream};

impl Connection {
    /// Takes a datagram, of `bytes` bytes of UDP payload.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        network: PathId,
        datagram: &mut Datagram,
        bytes: u32,
        ecn: Ecn,
    ) {
        let Some(&Outside { port, host }) = self.outside.get(network.index()) else { return };
        let is_server = self.side == Side::B;
        let is_for_client = datagram.client_host == host && datagram.source_port == self.ports[1];
        if datagram.destination_port != port || !(is_server || is_for_client) {
            return;
        }
        let host = if is_server { datagram.client_host } else { 0 };
        let from = Address { network, port: datagram.source_port, host };
        self.stats.datagrams_received += 1;
        let packets = match &mut datagram.content {
            Content::OtherVersion { ids, .. } => return self.name_versions(from, ids, bytes),
            Content::Packets(packets) => packets,
            Content::Reset { token, .. } => return self.on_stateless_reset(now, token),
            Content::Retry { ids, original, token } => return self.on_retry(now, *ids, *original, token),
            Content::VersionNegotiation { ids, versions } => {
                return self.on_version_negotiation(ids, versions);
            }
        };
        let Some(first) = packets.first() else { return };
        if self.opens_anew(first, bytes) {
            let [own, peer] = [port, from.port].map(u16::to_be_bytes);
            let client = [&[network.0, host][..], &peer, &own].concat();
            match self.door.admit(now, &client, first, &mut self.numbers) {
                Verdict::Accept(admission) => self.accept(now, from, first, admission),
                Verdict::Answer(content) => {
                    self.stats.retries += u64::from(matches!(content, Content::Retry { .. }));
                    return self.answer(from, content);
                }
                Verdict::Nothing => return,
            }
        }
        match self.state {
            State::Closed => return self.reset_stranger(from, first, bytes),
            State::Draining { .. } => return,
            State::Closing { .. } => return self.answer_closing(now),
            State::Opening | State::Open => {}
        }
        let place = self.place_of(first.destination).unwrap_or(0);
        if !self.may_come_from(place, from) {
            return;
        }
        if self.paths[place].standing == Standing::Unused && self.side == Side::B {
            // RFC 10069 section 3.1: the client opens a path.
            self.open_path(now, place, Route::new(from, false));
        }
        let path = &mut self.paths[place];
        path.traffic[1] += u64::from(bytes);
        if from == path.route.address {
            path.route.on_received(bytes);
        } else if let Some(previous) = path.previous.as_mut().filter(|route| route.address == from) {
            previous.on_received(bytes);
        }
        if ecn == Ecn::Ce {
            path.marks.received += 1;
            self.stats.ce_received += 1;
        }
        for packet in &*packets {
            self.on_packet(now, from, bytes, packet, ecn);
        }
        // What waited for keys that have come since.
        while let Some(at) =
            self.waiting.iter().position(|(packet, _)| !self.handshake.awaits_keys(packet.level))
        {
            let (packet, ecn) = self.waiting.remove(at);
            self.on_packet(now, from, bytes, &packet, ecn);
        }
    }

    /// Whether a packet asks for another connection than there is, or was.
    fn opens_anew(&self, packet: &Packet, bytes: u32) -> bool {
        let id = packet.destination;
        self.side == Side::B
            && Door::is_first(packet, bytes)
            && self.place_of(id).is_none()
            && !self.opened_by.contains(&id)
    }

    fn on_packet(&mut self, now: Time, from: Address, bytes: u32, packet: &Packet, ecn: Ecn) {
        if matches!(self.state, State::Closing { .. } | State::Draining { .. } | State::Closed) {
            return;
        }
        let known = self.place_of(packet.destination);
        let is_ours = known.is_some()
            || (matches!(packet.level, Level::Initial | Level::ZeroRtt)
                && packet.destination == self.handshake.first());
        if !is_ours {
            return;
        }
        if self.handshake.awaits_keys(packet.level) {
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push((packet.clone(), ecn));
            }
            return;
        }
        if !self.handshake.has_keys(packet.level) {
            return;
        }
        let place = known.unwrap_or(0);
        let id = match packet.level {
            Level::Initial => SpaceId::Initial,
            Level::Handshake => SpaceId::Handshake,
            Level::OneRtt => SpaceId::Data(place),
            Level::ZeroRtt if self.reads_early_data(now) => SpaceId::Data(0),
            Level::ZeroRtt => return,
        };
        if packet.level == Level::OneRtt {
            match self.take_key_phase(now, packet) {
                Ok(true) => {}
                Ok(false) => return,
                Err(violation) => return self.fail(now, violation),
            }
        }
        if self.space(id).arrived.is_known(packet.number) {
            self.stats.duplicates_received += 1;
            return;
        }
        self.take_source(packet);
        let is_newest = self.space(id).arrived.largest().is_none_or(|largest| packet.number > largest);
        if let Err(violation) = self.on_content(now, id, packet, ecn) {
            self.fail(now, violation);
        }
        let path = &mut self.paths[place];
        if from != path.route.address && path.standing == Standing::Open && self.state == State::Open {
            let response = path.route.response.take();
            if is_newest && !is_probing(packet) {
                self.follow(now, place, from, bytes);
            }
            self.answer_to(place, from, response, bytes);
        }
    }

    /// The peer's first packet says how it wants to be called (RFC 9000 section 7.2); later ones that say
    /// otherwise are ignored.
    fn take_source(&mut self, packet: &Packet) {
        if self.side == Side::A && packet.level != Level::OneRtt && !self.has_peer_source {
            self.has_peer_source = true;
            self.peer_source = packet.source;
            self.paths[0].peer_ids.set_first(packet.source);
        }
    }

    /// Takes a packet that is new and readable.
    fn on_content(&mut self, now: Time, id: SpaceId, packet: &Packet, ecn: Ecn) -> Result<(), Violation> {
        self.stats.packets_received += 1;
        self.heard(now);
        if id == SpaceId::Handshake && self.side == Side::B {
            // RFC 9000 section 8.1, RFC 9001 section 4.9.1: only the client can have sent it.
            self.paths[0].route.is_validated = true;
            self.discard(now, SpaceId::Initial);
        }
        if let Some(parameters) = &packet.parameters {
            self.handshake.peer.get_or_insert_with(|| parameters.clone());
        }
        // It counts as arrived before its frames are looked at, so that what they bring about acknowledges
        // it.
        if let SpaceId::Data(place) = id {
            self.paths[place].heard_at = now;
        }
        let rule = self.rule_of(id);
        let elicits = packet.elicits_ack();
        let space = self.space_mut(id);
        let is_late = space.arrived.largest().is_some_and(|largest| packet.number < largest);
        space.arrived.insert(now, packet.number, elicits, ecn == Ecn::Ce, rule);
        space.count_mark(ecn);
        self.stats.out_of_order_received += u64::from(is_late);
        for frame in &packet.frames {
            if !may_come(frame, packet.level) {
                return Err(violation(
                    code::PROTOCOL_VIOLATION,
                    "a frame came in a packet that may not have it",
                ));
            }
            self.on_frame(now, id, frame, packet.destination)?;
        }
        Ok(())
    }

    fn on_frame(
        &mut self,
        now: Time,
        id: SpaceId,
        frame: &Frame,
        destination: ConnectionId,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Stream(stream) => return self.on_stream(now, stream),
            Frame::Ack(ack) => return self.on_ack_frame(now, id, ack),
            &Frame::AckFrequency { sequence, threshold, delay, reordering } => {
                return self.on_ack_frequency(sequence, threshold, delay, reordering);
            }
            Frame::ImmediateAck => return self.on_immediate_ack(now, id),
            Frame::Padding { .. } | Frame::Ping | Frame::DataBlocked { .. } => {}
            Frame::Crypto { position, data } => return self.on_crypto(now, id, *position, data.length),
            Frame::Datagram { data, .. } => return self.on_message(*data),
            Frame::MaxData { limit } => {
                self.flow.on_max_data(*limit);
                self.streams.queue_all();
            }
            Frame::MaxStreamData { stream, limit } => {
                if let Some(entry) = self.streams.of_frame(*stream, true)?
                    && let Some(send) = &mut entry.send
                {
                    send.limit = send.limit.max(*limit);
                    self.streams.queue(*stream);
                }
            }
            Frame::MaxStreams { is_bidirectional, limit } => {
                self.streams.on_max_streams(*is_bidirectional, *limit);
                self.open_main_stream();
            }
            Frame::ConnectionClose { code, frame, .. } => self.on_close(now, *code, frame.is_none()),
            Frame::HandshakeDone => {
                if self.side == Side::B {
                    return Err(violation(
                        code::PROTOCOL_VIOLATION,
                        "a client says that the handshake is done",
                    ));
                }
                self.confirm(now);
            }
            Frame::NewConnectionId { path, sequence, retire_prior_to, id: new, reset_token } => {
                let Some(place) = path.map_or(Ok(Some(0)), |path| self.place_in_frame(path))? else {
                    return Ok(());
                };
                let ids = &mut self.paths[place].peer_ids;
                ids.add(*sequence, *retire_prior_to, *new, *reset_token, super::connection_ids::MOST)?;
            }
            Frame::RetireConnectionId { path, sequence } => {
                let Some(place) = path.map_or(Ok(Some(0)), |path| self.place_in_frame(path))? else {
                    return Ok(());
                };
                let ids = &mut self.paths[place].own_ids;
                ids.retire(*sequence, destination)?;
                let (limit, length) =
                    (self.peer.active_connection_id_limit, self.parameters.connection_id_bytes);
                ids.fill(limit.min(ids_of(place)), length, &mut self.numbers);
            }
            Frame::NewToken { .. } => {
                if self.side == Side::B {
                    return Err(violation(code::PROTOCOL_VIOLATION, "a client sends a token"));
                }
            }
            Frame::MaxPathId { .. }
            | Frame::PathAbandon { .. }
            | Frame::PathCidsBlocked { .. }
            | Frame::PathStatus { .. }
            | Frame::PathsBlocked { .. } => return self.on_path_frame(now, frame),
            Frame::PathChallenge { data } => self.paths[id.path()].route.response = Some(*data),
            Frame::PathResponse { data } => self.on_path_response(*data),
            Frame::ResetStream { stream, final_size, .. } => return self.on_reset(now, *stream, *final_size),
            Frame::StopSending { stream, code } => {
                if let Some(entry) = self.streams.of_frame(*stream, true)?
                    && let Some(send) =
                        entry.send.as_mut().filter(|send| send.reset.is_none() && !send.is_done())
                {
                    // Section 3.5: it is answered with RESET_STREAM.
                    send.give_up(*code);
                    if self.is_live {
                        self.outputs.push_back(Output::Event(Event::StreamReset(StreamId(*stream))));
                    }
                    self.want_of_stream(*stream, |wants| wants.reset = true);
                }
            }
            Frame::StreamDataBlocked { stream, .. } => {
                self.streams.of_frame(*stream, false)?;
            }
            Frame::StreamsBlocked { limit, .. } => {
                if *limit > 1 << 60 {
                    return Err(violation(code::PROTOCOL_VIOLATION, "there cannot be so many streams"));
                }
            }
        }
        Ok(())
    }

    /// RFC 9000 section 19.8.
    fn on_stream(&mut self, now: Time, frame: &Stream) -> Result<(), Violation> {
        let Some(stream) = self.streams.of_frame(frame.id, false)? else { return Ok(()) };
        let Some(receive) = &mut stream.receive else { return Ok(()) };
        receive.on_data(frame.position, frame.data.length.into(), frame.fin, &mut self.flow)?;
        self.take_main_stream(frame.id);
        self.deliver(now, frame.id);
        Ok(())
    }

    /// RFC 9000 section 19.4.
    fn on_reset(&mut self, now: Time, id: u64, final_size: u64) -> Result<(), Violation> {
        let Some(stream) = self.streams.of_frame(id, false)? else { return Ok(()) };
        let Some(receive) = &mut stream.receive else { return Ok(()) };
        let was_done = receive.is_done();
        receive.on_reset(final_size, &mut self.flow)?;
        if !was_done {
            self.outputs.push_back(Output::Event(Event::StreamResetByPeer(Some(StreamId(id)))));
            self.update_limits(id);
            self.streams.close_if_done(id);
            self.check_finished(now);
        }
        Ok(())
    }

    /// Delivers what is in order.
    pub(super) fn deliver(&mut self, now: Time, id: u64) {
        let Some(receive) = self.streams.get_mut(id).and_then(|stream| stream.receive.as_mut()) else {
            return;
        };
        if self.is_paused {
            return;
        }
        // The end of the main stream is an event of its own, and those of a live host are told apart from
        // bytes.
        let is_apart = id == super::application::MAIN || self.is_live;
        let mut has_told = false;
        while let Some((offset, length)) = receive.deliver(&mut self.flow) {
            self.stats.bytes_delivered += length;
            let payload = Payload { offset, length: length as u32 };
            let ends_stream = !is_apart && receive.ends_at(offset + length);
            has_told |= ends_stream;
            let received = Received { stream: StreamId(id), ends_stream, ..Received::new(payload) };
            self.outputs.push_back(Output::Event(Event::Received(received)));
        }
        let (ends, offset, is_wanted) = (receive.take_end(), receive.next, receive.stopped.is_none());
        if ends && !is_apart && !has_told && is_wanted {
            let received = Received { ends_stream: true, ..Received::new(Payload { offset, length: 0 }) };
            let received = Received { stream: StreamId(id), ..received };
            self.outputs.push_back(Output::Event(Event::Received(received)));
        }
        self.update_limits(id);
        if ends {
            self.on_end_of_stream(now, id);
        }
    }

    /// Notes which limits are to be moved (RFC 9000 section 4.2).
    fn update_limits(&mut self, id: u64) {
        self.wants.max_data |= self.flow.wants_update();
        let receive = self.streams.get(id).and_then(|stream| stream.receive.as_ref());
        if receive.is_some_and(super::receive_stream::ReceiveStream::wants_update) {
            self.want_of_stream(id, |wants| wants.max_stream_data = true);
        }
    }

    /// RFC 9221 section 3: without the parameter no DATAGRAM frame may come.
    fn on_message(&mut self, payload: Payload) -> Result<(), Violation> {
        if !self.parameters.datagrams {
            return Err(violation(code::PROTOCOL_VIOLATION, "a message came that may not"));
        }
        self.stats.messages_received += 1;
        self.stats.bytes_delivered += u64::from(payload.length);
        self.outputs.push_back(Output::Event(Event::Received(Received::unordered(payload))));
        Ok(())
    }
}
