//! What the application wants: the main stream, which lasts as long as the connection, other streams, and
//! messages.

use super::connection::{Connection, State};
use super::errors::code;
use super::receive_stream::End;
use crate::endpoint::{CloseReason, Command, Event, Message, Output, StreamId};
use crate::flow::{Payload, Side};
use crate::time::Time;
use crate::wire::quic::{Frame, TAG_BYTES, varint};

/// The first bidirectional stream of the client, on which both applications write.
pub(super) const MAIN: u64 = 0;

/// What the application has written on the main stream, which may not be open yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Main {
    pub(super) written: u64,
    /// Whether nothing more will be written.
    pub(super) is_finished: bool,
    /// Whether something was refused for want of room.
    pub(super) has_refused: bool,
}

/// What the application has written on another stream that is not open yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub(super) written: u64,
    pub(super) is_finished: bool,
}

impl Connection {
    #[inline(never)]
    pub(super) fn on_command(&mut self, now: Time, command: Command) {
        match command {
            Command::Abort => self.abort(now),
            Command::Connect => self.connect(now),
            Command::PauseReading => self.is_paused = true,
            Command::ResumeReading => {
                self.is_paused = false;
                let all: Vec<u64> = self.streams.iter().map(|(id, _)| id).collect();
                for id in all {
                    self.deliver(now, id);
                }
            }
            Command::Send(message) if message.unordered => self.send_message(&message),
            Command::Send(message) if message.stream == StreamId(MAIN) => self.write(&message),
            Command::Send(message) => self.write_other(&message),
            Command::Shutdown => self.shut_down(now),
            Command::Rebind { path, address } => {
                if self.side == Side::A
                    && let Some(outside) = self.outside.get_mut(path.index())
                {
                    outside.rebind(address);
                }
            }
            // There is one path.
            Command::AddAddress(_)
            | Command::DeleteAddress(_)
            | Command::RequestKeyFrame
            | Command::SetPeerPrimary(_)
            | Command::SetPrimary(_) => {
                self.outputs.push_back(Output::Event(Event::Unsupported(command.name())));
            }
        }
    }

    /// Appends to the main stream what fits into the send buffer.
    fn write(&mut self, message: &Message) {
        let accepts = !self.main.is_finished && !self.has_closed;
        let taken = self.buffer(message.payload, accepts);
        self.main.written += taken;
        let is_whole = taken == u64::from(message.payload.length);
        self.main.has_refused |= accepts && !is_whole;
        self.main.is_finished |= message.ends_stream && is_whole;
        if self.parameters.datagrams {
            self.open_main_stream();
        }
        self.sync_main();
    }

    /// Appends to another stream what fits into the send buffer. One of this end's opens with that, in the
    /// order of IDs, as soon as the peer permits it.
    fn write_other(&mut self, message: &Message) {
        let id = message.stream.0;
        let is_open = self.streams.sender(id).is_some_and(|send| !send.is_finished && send.reset.is_none());
        let pending = self.pending.get(&id);
        let next = self.next_pending();
        let accepts = !self.has_closed
            && !self.main.is_finished
            && (is_open || id == next || pending.is_some_and(|pending| !pending.is_finished));
        let taken = self.buffer(message.payload, accepts);
        let is_whole = taken == u64::from(message.payload.length);
        if !accepts {
            return;
        }
        if !is_whole && !self.refused.contains(&id) {
            self.refused.push(id);
        }
        let is_finished = message.ends_stream && is_whole;
        if is_open {
            if let Some(send) = self.streams.sender(id) {
                send.written += taken;
                send.is_finished = is_finished;
            }
            self.streams.queue(id);
        } else {
            let pending = self.pending.entry(id).or_default();
            pending.written += taken;
            pending.is_finished = is_finished;
            self.open_main_stream();
        }
    }

    /// How much of a payload fits into the send buffer. The application is told what does not.
    fn buffer(&mut self, Payload { offset, length }: Payload, accepts: bool) -> u64 {
        let room =
            if accepts { self.parameters.send_buffer.saturating_sub(self.unacknowledged()) } else { 0 };
        let taken = u64::from(length).min(room);
        if taken < u64::from(length) {
            let rest = Payload { offset: offset + taken, length: length - taken as u32 };
            self.outputs.push_back(Output::Event(Event::Refused(rest)));
        }
        taken
    }

    /// The ID of the stream that the application may open next.
    fn next_pending(&self) -> u64 {
        let last = self.pending.last_key_value().map(|(id, _)| id + 4);
        // The main stream is the client's first.
        let first = if self.side == Side::A { MAIN + 4 } else { 1 };
        last.unwrap_or_else(|| self.streams.next_id()).max(first)
    }

    /// Opens streams on which the application has written, as far as the peer permits.
    fn open_pending(&mut self) {
        while let Some((&id, &Pending { written, is_finished })) = self.pending.first_key_value() {
            // The main stream comes first.
            if self.streams.next_id() != id || self.streams.open(true).is_none() {
                return;
            }
            if let Some(send) = self.streams.sender(id) {
                (send.written, send.is_finished) = (written, is_finished);
            }
            self.streams.queue(id);
            self.pending.pop_first();
        }
    }

    /// Bytes of all streams that are written and not acknowledged without a gap.
    fn unacknowledged(&self) -> u64 {
        let send = self.streams.get(MAIN).and_then(|stream| stream.send.as_ref());
        let main = self.main.written - send.map_or(0, |send| send.acknowledged);
        let others = self.streams.iter().filter(|(id, _)| *id != MAIN);
        let others = others.filter_map(|(_, stream)| stream.send.as_ref());
        let others = others.filter(|send| send.reset.is_none()).map(|send| send.written - send.acknowledged);
        main + others.sum::<u64>() + self.pending.values().map(|pending| pending.written).sum::<u64>()
    }

    /// Hands what is written over to the stream, if it is open.
    fn sync_main(&mut self) {
        let Main { written, is_finished, .. } = self.main;
        if let Some(send) = self.streams.sender(MAIN)
            && send.reset.is_none()
        {
            send.written = written;
            send.is_finished = is_finished;
            self.streams.queue(MAIN);
        }
    }

    /// The client opens the main stream as soon as the handshake is complete, so that the server can write,
    /// too.
    pub(super) fn open_main_stream(&mut self) {
        if self.is_live {
            self.wants_close |= self.main.is_finished;
            return;
        }
        if self.state != State::Open {
            return;
        }
        // Who sends messages need not have it.
        let is_wanted = !self.parameters.datagrams || self.main.written > 0 || !self.pending.is_empty();
        let is_new = !self.streams.has_opened(MAIN);
        if self.side == Side::A && is_wanted && is_new && self.streams.open(true).is_some() {
            if let Some(send) = self.streams.sender(MAIN) {
                send.is_announced = false;
            }
            self.sync_main();
        }
        if self.parameters.datagrams && self.main.is_finished {
            self.wants_close = true;
        }
        self.open_pending();
    }

    /// A frame for a stream has come, which may have opened the main stream.
    pub(super) fn take_main_stream(&mut self, id: u64) {
        if !self.is_live
            && self.side == Side::B
            && id == MAIN
            && (self.main.written > 0 || self.main.is_finished)
        {
            self.sync_main();
        }
    }

    /// There is room again in the send buffer.
    pub(super) fn report_writable(&mut self) {
        if self.is_live {
            return self.report_writable_streams();
        }
        let waits = self.main.has_refused || !self.refused.is_empty();
        // Half of the buffer, as with TCP, so that an application is not told for each packet.
        if !waits || self.unacknowledged() > self.parameters.send_buffer / 2 {
            return;
        }
        if std::mem::take(&mut self.main.has_refused) {
            self.outputs.push_back(Output::Event(Event::StreamWritable(StreamId(MAIN))));
        }
        for id in std::mem::take(&mut self.refused) {
            self.outputs.push_back(Output::Event(Event::StreamWritable(StreamId(id))));
        }
    }

    /// Sends a message in a DATAGRAM frame (RFC 9221 section 5).
    pub(super) fn send_message(&mut self, message: &Message) {
        let payload = message.payload;
        let longest = self.longest_message();
        let accepts = self.parameters.datagrams && !self.has_closed && !self.main.is_finished;
        if !accepts || u64::from(payload.length) > longest {
            self.outputs.push_back(Output::Event(Event::Refused(payload)));
        } else if let Some(oldest) = self.messages.push(payload, self.parameters.send_buffer) {
            self.stats.messages_lost += 1;
            self.outputs.push_back(Output::Event(Event::Abandoned(oldest)));
        }
    }

    /// The longest message that a datagram has room for, in bytes.
    pub fn longest_message(&self) -> u64 {
        // First byte, the longest ID and the longest number of a packet, and a frame with its length.
        let headers = 1 + 20 + 4 + TAG_BYTES + 1 + varint::size(1 << 14);
        u64::from(self.datagram_bytes) - headers as u64
    }

    /// The application has nothing more to say.
    fn shut_down(&mut self, now: Time) {
        if self.has_closed || self.main.is_finished {
            return;
        }
        if self.is_live {
            self.main.is_finished = true;
            self.wants_close = self.state == State::Open;
        } else {
            self.finish_all();
            self.wants_close = self.parameters.datagrams && self.state == State::Open;
            self.sync_main();
        }
        self.check_finished(now);
    }

    /// All of the peer's stream has been read.
    pub(super) fn on_end_of_stream(&mut self, now: Time, id: u64) {
        if self.is_live {
            return self.report_end(id);
        }
        if id != MAIN {
            return self.streams.close_if_done(id);
        }
        self.outputs.push_back(Output::Event(Event::PeerFinished));
        if !self.half_close && !self.main.is_finished {
            self.finish_all();
            self.sync_main();
        }
        self.check_finished(now);
    }

    /// Nothing more will be written on any stream.
    fn finish_all(&mut self) {
        self.main.is_finished = true;
        self.pending.values_mut().for_each(|pending| pending.is_finished = true);
        let others: Vec<u64> = self.streams.iter().map(|(id, _)| id).filter(|id| *id != MAIN).collect();
        for id in others {
            if let Some(send) = self.streams.sender(id).filter(|send| send.reset.is_none()) {
                send.is_finished = true;
                self.streams.queue(id);
            }
        }
    }

    /// Closes the connection when both directions of the main stream are through, and those of all others, or
    /// the last message has left where there are no streams.
    pub(super) fn check_finished(&mut self, now: Time) {
        // With early data all may be done before the server can read 1-RTT packets, in which the client
        // closes.
        let is_ready = match self.parameters.early_data {
            None => self.handshake.is_complete,
            Some(_) => self.handshake.is_confirmed,
        };
        if self.state != State::Open || !is_ready {
            return;
        }
        let is_finished = if self.is_live {
            self.wants_close && self.messages.is_empty() && self.has_sent_all()
        } else if self.parameters.datagrams && !self.main_has_been() {
            self.wants_close && self.messages.is_empty()
        } else {
            self.main.is_finished
                && self.messages.is_empty()
                && self.pending.is_empty()
                && self.streams.iter().all(|(id, _)| id == MAIN)
                && self.streams.get(MAIN).is_none_or(|stream| {
                    stream.send.as_ref().is_some_and(super::send_stream::SendStream::is_done)
                        && stream.receive.as_ref().is_some_and(|receive| receive.end == End::Told)
                })
                && self.main_has_been()
        };
        if is_finished {
            self.close(now, code::NO_ERROR, true, CloseReason::Shutdown);
        }
    }

    /// Whether the main stream is over, and not only not open yet.
    fn main_has_been(&self) -> bool {
        self.streams.get(MAIN).is_some() || self.streams.has_opened(MAIN)
    }

    /// Opens another stream, if the peer permits it. Both kinds count by themselves (RFC 9000 section 2.1).
    pub fn open_stream(&mut self, bidirectional: bool) -> Option<u64> {
        if self.state == State::Open { self.streams.open(bidirectional) } else { None }
    }

    /// Appends `length` bytes to a stream of its own, and ends it with `fin`. Returns false if there is no
    /// such stream, or it has ended. What waits is sent with the next input.
    pub fn write_stream(&mut self, id: u64, length: u32, fin: bool) -> bool {
        let Some(send) = self.streams.sender(id).filter(|send| !send.is_finished && send.reset.is_none())
        else {
            return false;
        };
        send.written += u64::from(length);
        send.is_finished = fin;
        self.streams.queue(id);
        true
    }

    /// Gives a stream up (RFC 9000 section 3.1). Returns false if there is nothing to give up.
    pub fn reset_stream(&mut self, id: u64, code: u64) -> bool {
        let Some(send) = self.streams.sender(id).filter(|send| send.reset.is_none() && !send.is_done())
        else {
            return false;
        };
        send.give_up(code);
        self.want_of_stream(id, |wants| wants.reset = true);
        true
    }

    /// Wants nothing more of a stream (RFC 9000 section 3.5). Returns false if there is nothing to stop.
    pub fn stop_sending(&mut self, id: u64, code: u64) -> bool {
        let Some(receive) = self.streams.get_mut(id).and_then(|stream| stream.receive.as_mut()) else {
            return false;
        };
        if receive.is_done() || receive.stopped.is_some() {
            return false;
        }
        receive.stop(code, &mut self.flow);
        self.wants.max_data |= self.flow.wants_update();
        self.want_of_stream(id, |wants| wants.stop_sending = true);
        true
    }

    /// Gives the connection up.
    fn abort(&mut self, now: Time) {
        if !self.has_closed {
            self.close(now, code::APPLICATION_ABORT, true, CloseReason::Aborted);
        }
    }

    /// The frame that closes, as a packet of this level may carry it (RFC 9000 section 10.2.3).
    pub(super) const fn close_frame(code: u64, is_of_application: bool, is_one_rtt: bool) -> Frame {
        match (is_of_application, is_one_rtt) {
            (true, true) => Frame::ConnectionClose { code, frame: None, reason: 0 },
            (true, false) => {
                Frame::ConnectionClose { code: code::APPLICATION_ERROR, frame: Some(0), reason: 0 }
            }
            (false, _) => Frame::ConnectionClose { code, frame: Some(0), reason: 0 },
        }
    }
}
