//! Partial reliability: when a message is given up, and how the peer is told
//! (RFC 3758 section 3.5, RFC 7496).

use super::association::Association;
use super::outstanding::{Sent, SentState};
use super::queued_message::QueuedMessage;
use super::sender::Sender;
use super::tsn;
use crate::endpoint::{Event, Output, Reliability};
use crate::flow::Payload;
use crate::time::Time;
use crate::wire::Body;
use crate::wire::sctp::chunk::{Chunk, ForwardTsn, IForwardTsn, SkippedMessage, SkippedStream};

impl Association {
    /// Whether a chunk that was sent may be given up since its lifetime is over.
    #[inline]
    pub(super) fn has_expired(&self, now: Time, chunk: &Sent) -> bool {
        chunk.expires <= now && self.state.takes_forward_tsn()
    }

    /// Whether a chunk that was just lost is given up instead of being sent again.
    pub(super) fn is_given_up(&self, now: Time, index: usize) -> bool {
        if !self.state.takes_forward_tsn() {
            return false;
        }
        let chunk = &self.sender.outstanding.chunks[index];
        match chunk.message.reliability {
            // RFC 7496 section 3.1.1.
            Reliability::LimitedRetransmissions(limit) => chunk.transmissions > limit,
            // RFC 3758 section 4.1.
            Reliability::Timed(_) => chunk.expires <= now,
            Reliability::Priority(_) | Reliability::Reliable => false,
        }
    }

    /// Gives up the message that the chunk at this position belongs to: all of its chunks, and what
    /// of it has not been sent (RFC 3758 section 3.5 A3).
    pub(super) fn abandon_message(&mut self, index: usize) {
        let id = self.sender.outstanding.chunks[index].message_id;
        let message = self.sender.outstanding.chunks[index].message.payload;
        let mut first = index;
        // With interleaving, there may be fragments of other messages in between.
        let interleaves = self.sender.interleaves;
        let is_part = |chunk: &Sent| interleaves || chunk.message_id == id;
        while first > 0 && is_part(&self.sender.outstanding.chunks[first - 1]) {
            first -= 1;
        }
        let mut last = index;
        for at in first..self.sender.outstanding.chunks.len() {
            if !is_part(&self.sender.outstanding.chunks[at]) {
                break;
            }
            if self.sender.outstanding.chunks[at].message_id != id {
                continue;
            }
            last = at;
            let Sent { state, path, .. } = self.sender.outstanding.chunks[at];
            if state == SentState::InFlight {
                self.stop_waiting_for(at);
            }
            if state != SentState::Abandoned {
                self.sender.outstanding.change(at, SentState::Abandoned, path);
                self.stats.data_chunks_abandoned += 1;
            }
        }
        let waiting = if self.sender.interleaves {
            self.sender.queue.iter().position(|waiting| waiting.id == id)
        } else {
            self.sender.queue.messages.front().filter(|front| front.id == id).map(|_| 0)
        };
        if let Some(waiting) = waiting {
            // The rest has no TSN. It gets one, which is never sent: without it the fragments that
            // did arrive could be acknowledged, no FORWARD TSN would follow, and the receiver would
            // wait for the rest for ever.
            self.sender.take_queued(waiting);
            let last = self.sender.outstanding.chunks[last];
            self.sender.outstanding.push(Sent {
                start: last.start + last.length,
                length: 0,
                window_bytes: 0,
                state: SentState::Abandoned,
                beginning: false,
                ending: true,
                ..last
            });
        }
        self.report_abandoned(message);
    }

    /// Gives up the data whose lifetime is over and behind which a gap block acknowledges something.
    #[cold]
    pub(super) fn give_up_reported(&mut self, now: Time) {
        let Some((_, last)) = self.sender.outstanding.gap_acked.runs().next_back() else { return };
        for index in 0..self.sender.outstanding.index(last) {
            let chunk = &self.sender.outstanding.chunks[index];
            let is_pending = matches!(chunk.state, SentState::InFlight | SentState::Lost);
            if is_pending && self.has_expired(now, chunk) {
                self.abandon_message(index);
            }
        }
    }

    /// Gives up a message of which nothing has been sent.
    pub(super) fn discard_queued(&mut self, index: usize) {
        if let Some(removed) = self.sender.take_queued(index) {
            self.report_abandoned(removed.message.payload);
            self.report_writable();
        }
    }

    fn report_abandoned(&mut self, message: Payload) {
        self.stats.messages_abandoned += 1;
        self.outbox.emit(Event::Abandoned(message));
    }

    /// RFC 7496 section 3.1.2: gives up messages of lower priority, the lowest first and the latest of equals
    /// first, until `bytes` fit into the send buffer. If that cannot be reached, none is given up.
    pub(super) fn make_room(&mut self, bytes: u64, priority: u32) {
        let lower = |reliability: Reliability| match reliability {
            Reliability::Priority(other) if other > priority => Some(other),
            _ => None,
        };
        let waiting = self.sender.queue.iter().filter(|waiting| waiting.sent == 0);
        let queued = waiting.filter(|waiting| lower(waiting.message.reliability).is_some());
        let (memory, limit) = (&self.sender.outstanding.memory, self.sender.fragment_limit);
        let room = |length: u32| u64::from(length) + memory.of_message(length, limit);
        let mut available: u64 = queued.map(|waiting| room(waiting.message.payload.length)).sum();
        if self.state.takes_forward_tsn() {
            let unacknowledged = |state| matches!(state, SentState::InFlight | SentState::Lost);
            let chunks = self.sender.outstanding.chunks.iter();
            let sent = chunks
                .filter(|chunk| unacknowledged(chunk.state) && lower(chunk.message.reliability).is_some());
            available += sent.map(|chunk| room(chunk.length)).sum::<u64>();
        }
        if self.sender.buffered() + bytes > self.parameters.send_buffer + available {
            return;
        }
        while self.sender.buffered() + bytes > self.parameters.send_buffer {
            let queued = self
                .sender
                .queue
                .iter()
                .enumerate()
                .filter(|(_, waiting)| waiting.sent == 0)
                .filter_map(|(index, waiting)| Some((lower(waiting.message.reliability)?, index)))
                .max();
            if let Some((_, index)) = queued {
                self.discard_queued(index);
                continue;
            }
            let sent = self
                .sender
                .outstanding
                .chunks
                .iter()
                .enumerate()
                .filter(|(_, chunk)| matches!(chunk.state, SentState::InFlight | SentState::Lost))
                .filter_map(|(index, chunk)| Some((lower(chunk.message.reliability)?, index)))
                .max();
            match sent {
                Some((_, index)) if self.state.takes_forward_tsn() => self.abandon_message(index),
                _ => return,
            }
        }
    }

    /// Sends a FORWARD TSN as long as the peer has not passed what was given up (RFC 3758 section 3.5 C3).
    pub(super) fn send_forward_tsn(&mut self, now: Time) {
        let cumulative = self.sender.outstanding.cumulative_tsn();
        if self.sender.advanced_peer_ack_point == cumulative || self.routing.selection.held {
            return;
        }
        let path = self.routing.selection.current;
        self.stats.forward_tsns_sent += 1;
        let chunk = if self.sender.interleaves {
            self.sender.i_forward_tsn()
        } else {
            // As many as fit into a packet in all cases.
            let fits = || self.sender.passed().count() <= self.routing.sack_entries;
            self.sender.forward_tsn(self.parameters.procedures.names_streams_by_chunk && fits())
        };
        self.transmit_one(path, chunk);
        // C5: T3-rtx runs, so that a FORWARD TSN that is lost is sent again.
        if self.parameters.send_on_timeout && self.routing.paths[path.index()].t3.is_never() {
            let rto = self.routing.paths[path.index()].rtt.rto();
            self.routing.paths[path.index()].t3 = self.deadline(now, rto);
            self.sender.outstanding.unsettled.insert(path);
        }
    }

    /// The FORWARD TSN that was sent last shares the packet of the data behind it, where they fit into one.
    #[cold]
    pub(super) fn bundle_forward_tsn(&mut self) {
        let is_alone = |output: &Output| {
            matches!(output, Output::Transmit(packet)
                if matches!(&packet.body, Body::Sctp(sctp)
                    if matches!(sctp.first, Chunk::ForwardTsn(_)) && sctp.rest.is_empty()))
        };
        let Some(at) = self.outbox.outputs.iter().rposition(is_alone) else { return };
        let (Some(Output::Transmit(forward)), Some(Output::Transmit(data))) =
            (self.outbox.outputs.get(at), self.outbox.outputs.get(at + 1))
        else {
            return;
        };
        let (Body::Sctp(first), Body::Sctp(second)) = (&forward.body, &data.body) else { return };
        let size = data.size + first.first.wire_size();
        let has_data = matches!(second.first, Chunk::Data(_));
        if !has_data || forward.path != data.path || size > self.routing.paths[data.path.index()].mtu {
            return;
        }
        let Some(Output::Transmit(forward)) = self.outbox.outputs.remove(at) else { return };
        if let (Body::Sctp(mut first), Some(Output::Transmit(data))) =
            (forward.body, self.outbox.outputs.get_mut(at))
            && let Body::Sctp(second) = &mut data.body
        {
            std::mem::swap(&mut first.first, &mut second.first);
            second.rest.insert(0, first.first);
            data.size = size;
        }
        self.stats.packets_sent -= 1;
    }
}

impl Sender {
    /// Takes a message, or the rest of one, out of the queue and the send buffer.
    fn take_queued(&mut self, index: usize) -> Option<QueuedMessage> {
        let removed = self.queue.remove(index)?;
        self.outstanding.memory.release_message(removed.remaining(), self.fragment_limit);
        Some(removed)
    }

    /// Moves the Advanced.Peer.Ack.Point over what was given up (RFC 3758 section 3.5 C1 and C2), and over
    /// whole messages in between that an NR-SACK has acknowledged for good (FreeBSD
    /// `sctp_try_advance_peer_ack_point`). Of others the receiver would drop the fragments that it has.
    pub(super) fn advance_peer_ack_point(&mut self) {
        let cumulative = self.outstanding.cumulative_tsn();
        if tsn::before(self.advanced_peer_ack_point, cumulative) {
            self.advanced_peer_ack_point = cumulative;
        }
        if self.outstanding.abandoned() == 0 {
            return;
        }
        loop {
            let next = self.advanced_peer_ack_point.wrapping_add(1);
            let chunk = self.outstanding.chunks.get(self.outstanding.index(next));
            let is_passed = |chunk: &Sent| {
                chunk.state == SentState::Abandoned
                    || (chunk.state == SentState::Final && chunk.beginning && chunk.ending)
            };
            if !chunk.is_some_and(is_passed) {
                return;
            }
            self.advanced_peer_ack_point = next;
        }
    }

    /// The chunks that a FORWARD TSN gives up.
    fn passed(&self) -> impl Iterator<Item = &Sent> {
        let cumulative = self.outstanding.cumulative_tsn();
        let passed = self.advanced_peer_ack_point.wrapping_sub(cumulative) as usize;
        let chunks = self.outstanding.chunks.iter().take(passed);
        chunks.filter(|chunk| chunk.state != SentState::Final)
    }

    /// A FORWARD TSN, which names a stream by each chunk if it `names_chunks`.
    fn forward_tsn(&self, names_chunks: bool) -> Chunk {
        let mut streams: Vec<SkippedStream> = Vec::new();
        for chunk in self.passed().filter(|chunk| !chunk.message.unordered) {
            // C4: every stream is named with its largest stream sequence number; later chunks have larger
            // ones.
            let ssn = chunk.mid as u16;
            match streams.iter_mut().find(|skip| !names_chunks && skip.stream == chunk.message.stream) {
                Some(skip) => skip.ssn = ssn,
                None => streams.push(SkippedStream { stream: chunk.message.stream, ssn }),
            }
        }
        let new_cumulative_tsn = self.advanced_peer_ack_point;
        Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn, streams: streams.into() })
    }

    /// An I-FORWARD-TSN (RFC 8260 section 2.3.1), which names unordered messages too.
    fn i_forward_tsn(&self) -> Chunk {
        let mut messages: Vec<SkippedMessage> = Vec::new();
        for Sent { message, mid, .. } in self.passed() {
            let is_same = |skip: &&mut SkippedMessage| {
                (skip.stream, skip.unordered) == (message.stream, message.unordered)
            };
            match messages.iter_mut().find(is_same) {
                Some(skip) => skip.mid = *mid,
                None => messages.push(SkippedMessage {
                    stream: message.stream,
                    unordered: message.unordered,
                    mid: *mid,
                }),
            }
        }
        let new_cumulative_tsn = self.advanced_peer_ack_point;
        Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn, messages: messages.into() })
    }
}
