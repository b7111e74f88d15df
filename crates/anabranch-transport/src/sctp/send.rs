//! New data leaves: congestion and receiver window, bundling, fragmentation
//! (RFC 9260 sections 6.1, 6.9 and 6.10).

use super::association::Association;
use super::message::Message;
use super::outstanding::{Sent, SentState};
use super::sender::limit_burst;
use crate::cc::{CongestionControl as _, IdleEvent, SentEvent};
use crate::flow::{PathId, Payload};
use crate::time::Time;
use crate::wire::Packet;
use crate::wire::sctp::chunk::{Chunk, Data, IData};

/// A packet that is being filled with new data.
struct Filling {
    packet: Option<Box<Packet>>,
    /// Bytes, all headers included.
    size: u32,
    /// Bytes of user data.
    bytes: u32,
    chunks: u32,
}

impl Association {
    /// Sends what may be sent: marked chunks first, then new ones (section 6.1 C).
    #[inline(always)]
    pub(super) fn send(&mut self, now: Time) {
        if self.sender.outstanding.lost() > 0 || !self.sender.queue.is_empty() || !self.state.is_established()
        {
            self.send_waiting(now);
        }
    }

    #[inline(never)]
    fn send_waiting(&mut self, now: Time) {
        if !self.state.sends_data() {
            return;
        }
        if !self.routing.selection.held {
            if self.sender.outstanding.lost() > 0 {
                self.retransmit(now);
            }
            self.send_new_data(now);
        }
        if !self.state.is_established() {
            self.continue_shutdown(now);
        }
    }

    pub(super) fn send_new(&mut self, now: Time) {
        let path = self.routing.selection.current;
        self.shrink_idle_path(now, path);
        let limit = self.burst_limit(path);
        while self.may_send_new(now, path, limit) {
            self.send_packet(now, path);
        }
    }

    /// Whether one more packet of new data may leave on a path where up to `limit` bytes may be outstanding.
    #[inline(always)]
    pub(super) fn may_send_new(&mut self, now: Time, path: PathId, limit: u32) -> bool {
        while let Some(front) = self.sender.queue.messages.front() {
            if front.sent == 0 && front.expires <= now {
                // RFC 3758 section 4.1: messages may be given up before they have a TSN.
                self.discard_queued(0);
                continue;
            }
            // Section 6.1 B: nothing new while cwnd or more is outstanding.
            if self.sender.outstanding.on(path) >= limit {
                return false;
            }
            // Section 6.1 A: the receiver's window, except that one packet may always leave as a probe.
            let length = front.remaining().min(self.sender.fragment_limit);
            if length > self.sender.peer_rwnd && self.sender.outstanding.bytes() > 0 {
                return false;
            }
            // Section 6.1, Nagle's algorithm; a message of which a part has left is not small (Linux
            // `can_delay`).
            return !(self.parameters.nagle
                && (front.sent == 0 || self.parameters.procedures.holds_back_writes)
                && self.sender.outstanding.bytes() > 0
                && !self.sender.is_past_nagle
                && self.sender.queue.bytes < u64::from(self.sender.fragment_limit));
        }
        false
    }

    /// The window for this occasion: cwnd, but no more than Max.Burst packets (section 6.1 D).
    pub(super) fn burst_limit(&self, path: PathId) -> u32 {
        let own = &self.routing.paths[path.index()];
        let in_flight = self.sender.outstanding.on(path);
        limit_burst(self.parameters.max_burst, in_flight, own.segment, own.cc.limits().cwnd)
    }

    pub(super) fn shrink_idle_path(&mut self, now: Time, path: PathId) {
        if self.parameters.procedures.idle_window_shrinks_with_heartbeats {
            return;
        }
        let outstanding = self.sender.outstanding.on(path);
        let path = &mut self.routing.paths[path.index()];
        // RFC 9260 section 7.2.1: before the first data the initial window counts, however long that takes.
        // Once data has been sent, `last_data` is no longer [`Time::NEVER`].
        if outstanding == 0 {
            let idle = now.saturating_since(path.last_data);
            if idle >= path.rtt.rto() {
                path.cc.on_idle(&IdleEvent::new(idle, path.rtt.rto()));
                // The window shrinks once for every idle period, whether data leaves now or has to wait.
                path.last_data = now;
            }
        }
    }

    /// Fills and sends one packet with new data.
    #[inline(never)]
    pub(super) fn send_packet(&mut self, now: Time, path: PathId) {
        let mut packet = None;
        let mtu = self.routing.paths[path.index()].mtu;
        let mut size = self.local.headers_bytes;
        // Section 6.1: a SACK that waits travels with the data if both fit.
        if let Some(receiver) = self.state.receiver()
            && receiver.delayed_sack.is_pending()
            && self.sack_path(receiver.delayed_sack.source) == path
            && let Some((_, sack)) = self.take_sack()
        {
            let sack_size = sack.wire_size();
            if size + sack_size + self.sender.data_header + self.next_length() > mtu {
                self.transmit_one(path, sack);
            } else {
                size += sack_size;
                self.add_chunk(&mut packet, sack);
            }
        }
        let mut filling = Filling { packet, size, bytes: 0, chunks: 0 };
        if let Some(next) = self.next_sizes(now) {
            filling = self.fill(now, path, filling, next);
        }
        if let Some(next) = self.next_sizes(now)
            && self.has_room(path, mtu, &filling, next)
        {
            filling = self.fill_up(now, path, mtu, filling, next);
        }
        let Filling { packet, size, bytes, .. } = filling;
        self.sender.queue.finish_packet();
        self.on_data_sent(now, path, bytes);
        if let Some(packet) = packet {
            self.transmit(path, packet, size);
        }
    }

    /// The bytes of the next fragment, and of its chunk. Messages that have expired before it are given up.
    #[inline(always)]
    fn next_sizes(&mut self, now: Time) -> Option<[u32; 2]> {
        loop {
            let front = self.sender.queue.messages.front()?;
            if front.sent > 0 || front.expires > now {
                let length = front.remaining().min(self.sender.fragment_limit);
                return Some([length, self.sender.data_header + ((length + 3) & !3)]);
            }
            self.discard_queued(0);
        }
    }

    /// Whether a packet with data has room for one more chunk of these sizes, and the windows have.
    #[inline(always)]
    fn has_room(&self, path: PathId, mtu: u32, filling: &Filling, [length, wire]: [u32; 2]) -> bool {
        let is_window_full = || {
            self.parameters.procedures.asks_window_for_chunks
                && self.sender.outstanding.on(path) >= self.routing.paths[path.index()].cc.limits().cwnd
        };
        filling.size + wire <= mtu
            && filling.chunks != self.parameters.bundle_max
            && length <= self.sender.peer_rwnd
            && !is_window_full()
    }

    /// Bundles as many chunks as there is room for.
    #[inline(never)]
    fn fill_up(
        &mut self,
        now: Time,
        path: PathId,
        mtu: u32,
        mut filling: Filling,
        mut next: [u32; 2],
    ) -> Filling {
        loop {
            filling = self.fill(now, path, filling, next);
            match self.next_sizes(now) {
                Some(sizes) if self.has_room(path, mtu, &filling, sizes) => next = sizes,
                _ => return filling,
            }
        }
    }

    /// Adds the next fragment, of these sizes, to a packet.
    #[inline(always)]
    fn fill(&mut self, now: Time, path: PathId, filling: Filling, [length, wire]: [u32; 2]) -> Filling {
        let Filling { mut packet, size, bytes, chunks } = filling;
        let front = self.sender.queue.messages.front_mut().expect("its fragment is the next one");
        let beginning = front.sent == 0;
        if beginning && (!front.message.unordered || self.sender.interleaves) {
            let numbers = if front.message.unordered {
                &mut self.sender.next_unordered_mid
            } else {
                &mut self.sender.next_mid
            };
            let next = &mut numbers[usize::from(front.message.stream)];
            front.mid = *next;
            *next = next.wrapping_add(1);
        }
        let ending = front.remaining() == length;
        let tsn = self.sender.outstanding.next_tsn();
        let window_bytes = self.parameters.accounting.chunk_bytes(length, wire);
        let sent = Sent {
            message: front.message,
            message_id: front.id,
            expires: front.expires,
            departure: now,
            start: front.sent,
            length,
            window_bytes,
            mid: front.mid,
            beginning,
            ending,
            state: SentState::InFlight,
            path,
            missing_reports: 0,
            fast_retransmitted: false,
            timed_out: false,
            immediate: false,
            transmissions: 1,
            on_several_paths: false,
        };
        self.add_data(&mut packet, &sent, tsn);
        self.sender.outstanding.push(sent);
        self.sender.queue.advance(length);
        let own = &mut self.routing.paths[path.index()];
        // RFC 9260 section 6.3.1 C4: one measurement per round trip.
        own.rtt_probe.get_or_insert(tsn);
        self.sender.peer_rwnd = self.sender.peer_rwnd.saturating_sub(length);
        self.stats.data_chunks_sent += 1;
        Filling { packet, size: size + wire, bytes: bytes + length, chunks: chunks + 1 }
    }

    /// Adds a chunk of user data to a packet that is being filled.
    #[inline(always)]
    pub(super) fn add_data(&mut self, packet: &mut Option<Box<Packet>>, sent: &Sent, tsn: u32) {
        if self.sender.interleaves {
            self.add_i_data(packet, sent, tsn);
        } else {
            self.add_chunk(packet, Chunk::Data(sent.data(tsn)));
        }
    }

    #[cold]
    fn add_i_data(&mut self, packet: &mut Option<Box<Packet>>, sent: &Sent, tsn: u32) {
        // Every fragment but the last has the full length.
        let fsn = sent.start / self.sender.fragment_limit;
        self.add_chunk(packet, Chunk::IData(sent.i_data(tsn, fsn)));
    }

    fn next_length(&self) -> u32 {
        let length = self
            .sender
            .queue
            .messages
            .front()
            .map_or(0, |front| front.remaining().min(self.sender.fragment_limit));
        (length + 3) & !3
    }

    /// Sets timers and the beginning of idleness after data has left (section 6.3.2 R1, section 8.3).
    #[inline(always)]
    pub(super) fn on_data_sent(&mut self, now: Time, id: PathId, bytes: u32) {
        let clock = self.parameters.rto.clock;
        let path = &mut self.routing.paths[id.index()];
        path.last_data = now;
        path.heartbeat.idle_since = now;
        if path.t3.is_never() {
            path.t3 = clock.deadline(now, path.rtt.rto());
            self.routing.next_of_paths = None;
            self.sender.outstanding.unsettled.insert(id);
        }
        path.cc.on_sent(&SentEvent::new(now, bytes, self.sender.outstanding.on(id)));
        self.routing.status[id.index()].sent_bytes += u64::from(bytes);
    }
}

impl Sent {
    const fn data(&self, tsn: u32) -> Data {
        let Message { stream, ppid, unordered, payload: Payload { offset, .. }, .. } = self.message;
        Data {
            tsn,
            stream,
            ssn: self.mid as u16,
            ppid,
            unordered,
            beginning: self.beginning,
            ending: self.ending,
            immediate: self.immediate,
            payload: Payload { offset: offset + self.start as u64, length: self.length },
        }
    }

    const fn i_data(&self, tsn: u32, fsn: u32) -> IData {
        let Data { stream, ppid, unordered, beginning, ending, immediate, payload, .. } = self.data(tsn);
        IData { tsn, stream, mid: self.mid, fsn, ppid, unordered, beginning, ending, immediate, payload }
    }
}
