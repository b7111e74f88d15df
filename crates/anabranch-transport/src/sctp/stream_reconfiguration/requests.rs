//! Requests for resets, and their answers (RFC 6525 section 5).

use std::collections::BTreeSet;

use super::{Deferred, Held, MOST_REQUESTS, RESET_BYTES, Request};
use crate::endpoint::{Event, Output};
use crate::flow::PathId;
use crate::sctp::association::Association;
use crate::sctp::failure::Strike;
use crate::sctp::reassembly::unwrap_tsn;
use crate::time::Time;
use crate::wire::sctp::chunk::{Chunk, Data, IData};
use crate::wire::sctp::reconfig::{Reconfig, Reconfiguration, outcome};

impl Association {
    /// Makes this end say in its INIT or INIT ACK that it understands RE-CONFIG (RFC 6525). Call it before
    /// the association is opened.
    pub fn offer_extensions(&mut self) {
        self.parts.resets = Some(Box::default());
        self.parts.is_any = true;
    }

    /// Resets outgoing streams once everything that was sent on them is acknowledged; until then they take no
    /// message. [`Event::StreamReset`] or [`Event::StreamResetRefused`] reports the result for each.
    ///
    /// # Errors
    /// When the association is not open, the peer does not understand that, or a stream is not there: one
    /// sentence, and nothing has been done.
    pub fn reset_streams(&mut self, now: Time, streams: &[u16]) -> Result<(), String> {
        if !self.state.is_established() {
            return Err("the association is not open".into());
        }
        let Some(reset) = self.parts.resets.as_mut().filter(|reset| reset.is_understood) else {
            return Err("streams: the peer cannot reset streams (RFC 6525)".into());
        };
        let count = self.sender.next_mid.len();
        if let Some(stream) = streams.iter().find(|stream| usize::from(**stream) >= count) {
            return Err(format!(
                "streams: there is no stream {stream}; they are numbered 0 to {}",
                count - 1
            ));
        }
        let asked = reset.outstanding.iter().flat_map(|request| request.streams.iter());
        let asked: BTreeSet<u16> = asked.copied().collect();
        reset.wanted.extend(streams.iter().filter(|stream| !asked.contains(stream)));
        self.continue_stream_reconfiguration(now);
        Ok(())
    }

    /// Continues with what waited for data to arrive or to be acknowledged, if it now can.
    #[cold]
    pub(in crate::sctp) fn continue_stream_reconfiguration(&mut self, now: Time) {
        while let Some(reset) = &mut self.parts.resets
            && let Some(first) = reset.deferred.first()
            && let Some(receiver) = self.state.receiver()
            && first.last_tsn <= receiver.received.cumulative
        {
            let first = reset.deferred.remove(0);
            self.end_deferral(first);
        }
        self.ask_for_reset(now);
    }

    /// Section 5.1.2: asks for the wanted resets that are possible now.
    fn ask_for_reset(&mut self, now: Time) {
        let Some(reset) = &self.parts.resets else { return };
        let is_open = self.state.sends_data();
        if reset.wanted.is_empty() || reset.outstanding.is_some() || !is_open || self.routing.selection.held {
            return;
        }
        let queued = self.sender.queue.iter().map(|waiting| waiting.message.stream);
        let sent = self.sender.outstanding.chunks.iter().map(|chunk| chunk.message.stream);
        let busy: BTreeSet<u16> = queued.chain(sent).filter(|stream| reset.wanted.contains(stream)).collect();
        // An answer to the peer must name all streams that it has asked for.
        if !busy.is_empty() && (reset.asked_by_peer.is_some() || busy.len() == reset.wanted.len()) {
            return;
        }
        let path = self.routing.selection.current;
        let most = (self.routing.paths[path.index()].mtu - self.local.headers_bytes - RESET_BYTES) / 2;
        let ready = reset.wanted.difference(&busy).copied().take(most as usize).collect();
        let last_tsn = self.sender.outstanding.next_tsn().wrapping_sub(1);
        self.send_reset(now, path, ready, last_tsn);
    }

    fn send_reset(&mut self, now: Time, path: PathId, streams: Box<[u16]>, last_tsn: u32) {
        let Some(reset) = &mut self.parts.resets else { return };
        for stream in &streams {
            reset.wanted.remove(stream);
        }
        let response = if reset.wanted.is_empty() { reset.asked_by_peer.take() } else { None };
        if let Some(number) = response {
            reset.record(number, outcome::PERFORMED);
        }
        let response = response.unwrap_or_else(|| reset.expected.wrapping_sub(1));
        let number = reset.next_request;
        reset.next_request = number.wrapping_add(1);
        reset.outstanding =
            Some(Request { number, response, last_tsn, streams, path, is_in_progress: false });
        self.transmit_reset(now, path);
    }

    fn transmit_reset(&mut self, now: Time, path: PathId) {
        let timer = self.deadline(now, self.routing.paths[path.index()].rtt.rto());
        let Some(reset) = &mut self.parts.resets else { return };
        let Some(request) = &mut reset.outstanding else { return };
        (request.path, request.is_in_progress) = (path, false);
        reset.timer = Some(timer);
        let Request { number, response, last_tsn, streams, .. } = request.clone();
        let first = Reconfiguration::ResetOutgoing { request: number, response, last_tsn, streams };
        self.transmit_one(path, Chunk::Reconfig(Box::new(Reconfig { first, second: None })));
    }

    /// The timer of the request has expired (section 5.1.1).
    #[cold]
    pub(in crate::sctp) fn on_reconfiguration_timer(&mut self, now: Time) {
        let Some(reset) = &mut self.parts.resets else { return };
        reset.timer = None;
        let Some(Request { path, is_in_progress, .. }) = reset.outstanding else { return };
        let mut next = path;
        // A peer that has said that it is still at work is alive.
        if !is_in_progress {
            self.strike(now, path, Strike::Timeout);
            next = self.next_present(path);
        }
        if !self.is_over() {
            self.transmit_reset(now, next);
        }
    }

    /// A RE-CONFIG chunk has arrived (section 5.2.1).
    #[cold]
    pub(in crate::sctp) fn on_reconfig(&mut self, now: Time, from: PathId, reconfig: &Reconfig) {
        let is_open = self.state.takes_requests();
        let understands = self.parts.resets.as_ref().is_some_and(|reset| reset.is_understood);
        if !is_open || !understands {
            return;
        }
        let mut answers = Vec::new();
        for parameter in std::iter::once(&reconfig.first).chain(&reconfig.second) {
            let number = match parameter {
                Reconfiguration::Response { response, result, .. } => {
                    self.on_reset_response(now, *response, *result);
                    continue;
                }
                Reconfiguration::AddIncoming { request, .. }
                | Reconfiguration::AddOutgoing { request, .. }
                | Reconfiguration::ResetIncoming { request, .. }
                | Reconfiguration::ResetOutgoing { request, .. }
                | Reconfiguration::ResetTsn { request } => *request,
            };
            let result = self.carry_out_request(from, number, parameter);
            answers.push(Reconfiguration::Response { response: number, result, tsns: None });
        }
        let mut answers = answers.into_iter();
        if let Some(first) = answers.next() {
            let second = answers.next();
            self.transmit_one(from, Chunk::Reconfig(Box::new(Reconfig { first, second })));
        }
    }

    /// Carries out a request of the peer's.
    fn carry_out_request(&mut self, from: PathId, number: u32, parameter: &Reconfiguration) -> u32 {
        let Some(reset) = &mut self.parts.resets else { return outcome::DENIED };
        // A copy of one of the last requests gets the same answer, or the one that it has by now.
        if let Some(known) = reset.answer_to(number) {
            return *known;
        }
        if number != reset.expected {
            return outcome::BAD_SEQUENCE_NUMBER;
        }
        reset.expected = number.wrapping_add(1);
        let result = match parameter {
            Reconfiguration::ResetIncoming { streams, .. } => self.peer_wants_reset(number, streams),
            Reconfiguration::ResetOutgoing { last_tsn, streams, .. } => {
                self.peer_resets(from, number, *last_tsn, streams)
            }
            _ => outcome::DENIED,
        };
        if let Some(reset) = &mut self.parts.resets {
            reset.record(number, result);
        }
        result
    }

    /// Section 5.2.3: the peer wants outgoing streams of this end to be reset.
    fn peer_wants_reset(&mut self, number: u32, streams: &[u16]) -> u32 {
        let count = self.sender.next_mid.len();
        if streams.iter().any(|stream| usize::from(*stream) >= count) {
            return outcome::WRONG_SSN;
        }
        let Some(reset) = &mut self.parts.resets else { return outcome::DENIED };
        if reset.outstanding.is_some() || !reset.wanted.is_empty() {
            return outcome::ALREADY_IN_PROGRESS;
        }
        if streams.is_empty() {
            reset.wanted.extend((0..count).map(|stream| stream as u16));
        } else {
            reset.wanted.extend(streams);
        }
        reset.asked_by_peer = Some(number);
        // The request that this end then sends is the answer.
        outcome::IN_PROGRESS
    }

    /// Section 5.2.2: the peer resets outgoing streams of its own.
    fn peer_resets(&mut self, from: PathId, number: u32, last_tsn: u32, streams: &[u16]) -> u32 {
        let Some(receiver) = self.state.receiver() else { return outcome::DENIED };
        if streams.iter().any(|stream| *stream >= receiver.inbound_streams) {
            return outcome::WRONG_SSN;
        }
        let streams = (!streams.is_empty()).then(|| streams.iter().copied().collect());
        let last_tsn = unwrap_tsn(receiver.received.cumulative, last_tsn);
        let deferred = Deferred { number, last_tsn, streams, held: Vec::new(), path: from };
        let Some(reset) = &mut self.parts.resets else { return outcome::DENIED };
        if reset.deferred.len() == MOST_REQUESTS {
            return outcome::ALREADY_IN_PROGRESS;
        }
        if last_tsn > receiver.received.cumulative || !reset.deferred.is_empty() {
            reset.deferred.push(deferred);
            return outcome::IN_PROGRESS;
        }
        self.perform(deferred.streams.as_ref());
        outcome::PERFORMED
    }

    /// Restarts incoming streams (section 5.2.2 E3).
    fn perform(&mut self, streams: Option<&BTreeSet<u16>>) {
        let is_reset = |stream: u16| streams.is_none_or(|streams| streams.contains(&stream));
        self.deliver_with(|receiver, tell| receiver.reset(is_reset, tell));
        match streams {
            None => self.outbox.emit(Event::StreamResetByPeer(None)),
            Some(streams) => {
                let events = streams.iter().map(|stream| Event::StreamResetByPeer(Some((*stream).into())));
                self.outbox.outputs.extend(events.map(Output::Event));
            }
        }
    }

    /// Everything that the peer sent before its request has arrived: carries it out (section 5.2.2 E3 to E5).
    fn end_deferral(&mut self, deferred: Deferred) {
        let Deferred { number, streams, held, path, .. } = deferred;
        if let Some(reset) = &mut self.parts.resets {
            reset.record(number, outcome::PERFORMED);
        }
        self.perform(streams.as_ref());
        for chunk in held {
            if let Some(receiver) = self.state.receiver_mut() {
                receiver.reassembly.bytes -= u64::from(chunk.payload().length);
            }
            match chunk {
                Held::Data(tsn, data) => self.take_data(tsn, &data),
                Held::IData(data) => self.deliver_i_data(&data),
            }
        }
        let first = Reconfiguration::Response { response: number, result: outcome::PERFORMED, tsns: None };
        let path = if self.allows_data(path) { path } else { self.routing.selection.current };
        self.transmit_one(path, Chunk::Reconfig(Box::new(Reconfig { first, second: None })));
    }

    /// Whether a chunk of user data is kept back because its stream has not been reset yet (section 5.2.2
    /// E2).
    #[cold]
    fn is_held(&mut self, tsn: u64, stream: u16, chunk: Held) -> bool {
        let Some(reset) = &mut self.parts.resets else { return false };
        let is_affected = |deferred: &&mut Deferred| {
            let streams = &deferred.streams;
            tsn > deferred.last_tsn && streams.as_ref().is_none_or(|streams| streams.contains(&stream))
        };
        // A conforming peer has only one request for a stream at a time.
        let Some(deferred) = reset.deferred.iter_mut().rfind(is_affected) else { return false };
        deferred.held.push(chunk);
        if let Some(receiver) = self.state.receiver_mut() {
            receiver.reassembly.bytes += u64::from(chunk.payload().length);
        }
        true
    }

    #[inline(always)]
    pub(in crate::sctp) fn holds_data(&mut self, tsn: u64, data: &Data) -> bool {
        self.parts.resets.is_some() && self.is_held(tsn, data.stream, Held::Data(tsn, *data))
    }

    pub(in crate::sctp) fn holds_i_data(&mut self, tsn: u64, data: &IData) -> bool {
        self.is_held(tsn, data.stream, Held::IData(*data))
    }

    /// The peer has answered the request (section 5.2.7).
    fn on_reset_response(&mut self, now: Time, number: u32, result: u32) {
        let Some(reset) = &mut self.parts.resets else { return };
        let Some(request) = &mut reset.outstanding else { return };
        if request.number != number {
            return;
        }
        let path = request.path;
        if result == outcome::IN_PROGRESS {
            request.is_in_progress = true;
            let timer = self.deadline(now, self.routing.paths[path.index()].rtt.rto());
            if let Some(reset) = &mut self.parts.resets {
                reset.timer = Some(timer);
            }
            return;
        }
        reset.timer = None;
        let streams = reset.outstanding.take().map(|request| request.streams).unwrap_or_default();
        self.routing.clear_errors(path);
        let is_done = matches!(result, outcome::NOTHING_TO_DO | outcome::PERFORMED);
        for stream in streams {
            if is_done {
                self.sender.reset_stream(stream);
            }
            let stream = stream.into();
            let event = if is_done { Event::StreamReset(stream) } else { Event::StreamResetRefused(stream) };
            self.outbox.emit(event);
        }
        // The streams take messages again.
        if self.sender.awaited_room.take().is_some() {
            self.outbox.emit(Event::Writable);
        }
    }
}
