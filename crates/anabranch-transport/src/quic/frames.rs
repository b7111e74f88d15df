//! The frames of packets that leave, in the order in which they matter: what keeps the connection going, then
//! messages, then streams in turn.

use super::connection::Connection;
use super::handshake::Handshake;
use super::send::Load;
use super::sent_packets::{Content, Contents};
use super::space::SpaceId;
use super::streams::Stream as Entry;
use crate::flow::{PathId, Payload};
use crate::wire::quic::{Frame, Level, Packet, Stream, varint};

/// Frames about the connection that wait to be sent.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a frame of its own")]
pub(super) struct Wants {
    pub(super) handshake_done: bool,
    pub(super) max_data: bool,
    pub(super) data_blocked: bool,
    pub(super) ping: bool,
    pub(super) ack_frequency: bool,
    pub(super) immediate_ack: bool,
}

impl Wants {
    pub(super) const fn has_any(self) -> bool {
        self.handshake_done
            || self.max_data
            || self.data_blocked
            || self.ping
            || self.ack_frequency
            || self.immediate_ack
    }
}

/// The part of a packet that is being filled.
struct Room<'a> {
    packet: &'a mut Packet,
    left: &'a mut usize,
    contents: &'a mut Contents,
}

impl Room<'_> {
    /// Adds a frame, if it fits.
    fn add(&mut self, frame: Frame, content: Option<Content>) -> bool {
        let size = frame.size();
        if size > *self.left {
            return false;
        }
        *self.left -= size;
        self.packet.frames.push(frame);
        self.contents.extend(content);
        true
    }
}

impl Connection {
    /// Adds the frames that fit.
    pub(super) fn write_frames(
        &mut self,
        (id, load): (SpaceId, Load),
        packet: &mut Packet,
        left: &mut usize,
        contents: &mut Contents,
    ) {
        let mut room = Room { packet, left, contents };
        if let Some(place) = Handshake::place(id) {
            self.write_crypto(place, &mut room);
            return;
        }
        if load >= Load::Control && self.wants.has_any() {
            self.write_of_connection(&mut room);
        }
        if self.paths[id.path()].has_validation_to_send() {
            self.write_validation(id.path(), &mut room);
        }
        if load >= Load::Control {
            for place in 0..self.paths.len() {
                if self.paths[place].has_news_to_send() {
                    self.write_news(place, &mut room);
                }
            }
            if self.streams.has_wanting() {
                self.write_about_streams(&mut room);
            }
        }
        if load < Load::Data {
            return;
        }
        if !self.messages.is_empty() {
            self.write_messages(&mut room);
        }
        if self.streams.has_ready() {
            self.write_streams(id.path(), &mut room);
        }
    }

    /// RFC 9000 section 19.6.
    fn write_crypto(&mut self, place: usize, room: &mut Room<'_>) {
        let send = &mut self.handshake.crypto[place].send;
        while let Some(chunk) = send.next(u64::MAX) {
            // Type, position, and a length of two bytes.
            let overhead = 1 + varint::size(chunk.position) + 2;
            let most = room.left.saturating_sub(overhead) as u64;
            let length = chunk.length.min(most).min(16_383) as u32;
            if length == 0 {
                return;
            }
            let data = Payload { offset: chunk.position, length };
            let content = Content::Crypto { position: chunk.position, length };
            if !room.add(Frame::Crypto { position: chunk.position, data }, Some(content)) {
                return;
            }
            send.on_sent(chunk.position, length.into(), false);
        }
    }

    fn write_of_connection(&mut self, room: &mut Room<'_>) {
        if self.wants.handshake_done && room.add(Frame::HandshakeDone, Some(Content::HandshakeDone)) {
            self.wants.handshake_done = false;
        }
        if self.wants.max_data {
            let frame = Frame::MaxData { limit: self.flow.offer() };
            self.wants.max_data = !room.add(frame, Some(Content::MaxData));
        }
        if self.wants.data_blocked {
            let frame = Frame::DataBlocked { limit: self.flow.limit };
            self.wants.data_blocked = !room.add(frame, Some(Content::DataBlocked));
            self.stats.data_blocked_sent += u64::from(!self.wants.data_blocked);
        }
        if self.wants.ack_frequency {
            let (frame, content) = self.request_of_acknowledgements();
            self.wants.ack_frequency = !room.add(frame, Some(content));
            if !self.wants.ack_frequency {
                self.note_request();
            }
        }
        if self.wants.immediate_ack {
            self.wants.immediate_ack = !room.add(Frame::ImmediateAck, None);
        }
        if self.wants.ping {
            self.wants.ping = !room.add(Frame::Ping, None);
        }
    }

    /// A challenge, or the answer to one, which go on their path.
    fn write_validation(&mut self, place: usize, room: &mut Room<'_>) {
        let path = &mut self.paths[place];
        if let Some(data) = path.route.response
            && room.add(Frame::PathResponse { data }, None)
        {
            path.route.response = None;
        }
        if let Some(data) = path.route.challenge.as_ref().and_then(|challenge| challenge.due)
            && room.add(Frame::PathChallenge { data }, None)
            && let Some(challenge) = &mut path.route.challenge
        {
            challenge.due = None;
        }
    }

    /// What belongs to a path ID and may go on any path: its connection IDs, and whether it is used.
    fn write_news(&mut self, place: usize, room: &mut Room<'_>) {
        let of_several = self.multipath.is_some().then_some(place as u32);
        let (number, path) = (place as u8, &mut self.paths[place]);
        if let Some(code) = path.news.abandon {
            let content = Content::PathAbandon { path: number, code };
            if room.add(Frame::PathAbandon { path: place as u32, code }, Some(content)) {
                path.news.abandon = None;
            }
        }
        if path.has_status_to_send() {
            let (sequence, is_backup) = path.news.own_wish;
            let frame = Frame::PathStatus { path: place as u32, sequence, is_available: !is_backup };
            path.news.status = !room.add(frame, Some(Content::PathStatus(number)));
        }
        while let Some(&sequence) = path.own_ids.to_announce.front() {
            if let Some(id) = path.own_ids.get(sequence) {
                let reset_token = self.door.reset_token(id);
                let path = of_several;
                let frame = Frame::NewConnectionId { path, sequence, retire_prior_to: 0, id, reset_token };
                if !room.add(frame, Some(Content::NewConnectionId { path: number, sequence })) {
                    break;
                }
            }
            path.own_ids.to_announce.pop_front();
        }
        while let Some(&sequence) = path.peer_ids.to_retire.front() {
            let content = Content::RetireConnectionId { path: number, sequence };
            let frame = Frame::RetireConnectionId { path: of_several, sequence };
            if !room.add(frame, Some(content)) {
                break;
            }
            path.peer_ids.to_retire.pop_front();
        }
    }

    /// RFC 9000 sections 19.4, 19.5, 19.10, 19.11, 19.13 and 19.14.
    fn write_about_streams(&mut self, room: &mut Room<'_>) {
        for kind in 0..2 {
            let is_bidirectional = kind == 0;
            if self.streams.wants_limit[kind] {
                let limit = self.streams.offer(kind);
                let content = Content::MaxStreams { is_bidirectional };
                let is_sent = room.add(Frame::MaxStreams { is_bidirectional, limit }, Some(content));
                self.streams.wants_limit[kind] = !is_sent;
            }
            if self.streams.wants_blocked[kind] {
                let limit = self.streams.limits[kind];
                let content = Content::StreamsBlocked { is_bidirectional };
                let is_sent = room.add(Frame::StreamsBlocked { is_bidirectional, limit }, Some(content));
                self.streams.wants_blocked[kind] = !is_sent;
            }
        }
        while let Some((id, stream)) = self.streams.next_wanting() {
            if !write_about_stream(id, stream, room, &mut self.stats.stream_data_blocked_sent) {
                return;
            }
        }
    }

    /// RFC 9221 section 5.
    fn write_messages(&mut self, room: &mut Room<'_>) {
        while let Some(&data) = self.messages.front() {
            let length = data.length as usize;
            // The last frame needs no length.
            let has_length = 1 + varint::size(length as u64) + length < *room.left;
            if !room.add(Frame::Datagram { data, has_length }, Some(Content::Datagram(data))) {
                return;
            }
            self.stats.messages_sent += 1;
            self.messages.pop();
            if !has_length {
                *room.left = 0;
                return;
            }
        }
    }

    /// RFC 9000 section 19.8.
    fn write_streams(&mut self, place: usize, room: &mut Room<'_>) {
        let others = self.kept_from(place);
        while let Some(id) = self.streams.next_ready(&self.flow, &others) {
            let Some(send) = self.streams.sender(id) else { return };
            let Some(chunk) = send.next(self.flow.room()) else { return };
            let overhead = Stream::overhead(id, chunk.position);
            let Some(most) = room.left.checked_sub(overhead).filter(|most| *most > 0 || chunk.length == 0)
            else {
                return;
            };
            let mut length = chunk.length.min(most as u64);
            let left = most - length as usize;
            // The last frame of a packet needs no length (section 12.4).
            let has_length = left > varint::size(length);
            if !has_length {
                length = chunk.length.min(most as u64);
            }
            let fin = send.fin_is_due(chunk.position + length);
            let data = Payload { offset: chunk.position, length: length as u32 };
            let frame = Frame::Stream(Stream { id, position: chunk.position, data, fin, has_length });
            let content = Content::Stream { id, position: chunk.position, length: length as u32, fin };
            if !room.add(frame, Some(content)) {
                return;
            }
            send.on_sent(chunk.position, length, fin);
            if self.parameters.pin_streams {
                send.path = Some(PathId(place as u8));
            }
            if chunk.is_again {
                self.stats.bytes_retransmitted += length;
            } else {
                self.flow.sent += length;
                self.stats.bytes_sent += length;
                if room.packet.level == Level::ZeroRtt {
                    self.stats.early_bytes_sent += length;
                }
            }
            self.streams.rotate();
            if !has_length {
                *room.left = 0;
                break;
            }
        }
        // Streams that have nothing more leave the queue.
        if self.streams.next_ready(&self.flow, &others).is_none() {
            self.note_connection_blocked();
        }
    }

    /// Section 4.1: says once for each limit that the connection's flow control holds data back.
    fn note_connection_blocked(&mut self) {
        if self.flow.room() > 0 || self.flow.blocked_at == Some(self.flow.limit) {
            return;
        }
        if self.streams.iter().any(|(_, stream)| stream.has_unsent()) {
            self.flow.blocked_at = Some(self.flow.limit);
            self.wants.data_blocked = true;
        }
    }
}

/// Adds the frames about a stream that wait; whether all of them fit.
fn write_about_stream(id: u64, stream: &mut Entry, room: &mut Room<'_>, blocked_sent: &mut u64) -> bool {
    let wants = &mut stream.wants;
    if wants.max_stream_data {
        let receive = stream.receive.as_mut().filter(|receive| !receive.has_final_size());
        if let Some(receive) = receive {
            let frame = Frame::MaxStreamData { stream: id, limit: receive.offer() };
            if !room.add(frame, Some(Content::MaxStreamData(id))) {
                return false;
            }
        }
        wants.max_stream_data = false;
    }
    if wants.stop_sending {
        let code = stream.receive.as_ref().filter(|receive| !receive.has_final_size());
        if let Some(code) = code.and_then(|receive| receive.stopped)
            && !room.add(Frame::StopSending { stream: id, code }, Some(Content::StopSending(id)))
        {
            return false;
        }
        wants.stop_sending = false;
    }
    if wants.reset {
        if let Some((send, code)) = stream.send.as_ref().and_then(|send| Some((send, send.reset?.0))) {
            let frame = Frame::ResetStream { stream: id, code, final_size: send.sent };
            if !room.add(frame, Some(Content::ResetStream(id))) {
                return false;
            }
        }
        wants.reset = false;
    }
    if wants.blocked {
        if let Some(send) = stream.send.as_ref().filter(|send| send.is_blocked()) {
            let frame = Frame::StreamDataBlocked { stream: id, limit: send.limit };
            if !room.add(frame, Some(Content::StreamDataBlocked(id))) {
                return false;
            }
            *blocked_sent += 1;
        }
        wants.blocked = false;
    }
    true
}
