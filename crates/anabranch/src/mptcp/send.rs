//! Sending on the connection level: which data goes on which subflow, what is sent again on another one, and when
//! (RFC 8684 sections 3.3.5 to 3.3.8; Raiciu et al. 2012, section 4.2).

use std::collections::{BTreeSet, VecDeque};

use smallvec::SmallVec;

use super::connection::{Connection, State};
use super::subflow::Subflow;
use crate::endpoint::{Event, Limit, Message, Output};
use crate::packet::{PathId, Payload};
use crate::path::scheduler::{Decision, PathView, Pending, Scheduler as _};
use crate::tcp::config::Nagle;
use crate::time::{Duration, Time};

/// What the third segment's option takes more in the first segment with data (RFC 8684 section 3.1: 22 bytes, padded).
const CAPABLE_WITH_DATA_BYTES: u32 = 24;
/// Linux: `TCP_MSS_DEFAULT`.
const DEFAULT_MSS: u64 = 536;

/// A piece of the stream that is not acknowledged on the connection level.
#[derive(Clone, Debug)]
struct Chunk {
    start: u64,
    length: u32,
    /// The subflows whose streams it is in, in the order in which it came there.
    carriers: SmallVec<[u8; 2]>,
}

impl Chunk {
    const fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

/// What is to be sent and what may be. Positions are those of our stream, counted from 0; `DATA_FIN` follows the last
/// byte.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub(super) struct Sender {
    /// What the peer has acknowledged on the connection level.
    pub(super) unacknowledged: u64,
    /// The next position to send.
    pub(super) next: u64,
    /// Bytes that the application has written.
    pub(super) written: u64,
    /// Behind the last byte that the peer has room for (RFC 8684 section 3.3.5: relative to the data acknowledgement).
    edge: u64,
    /// The largest window that was ever offered.
    max_window: u64,
    /// The application writes no more: `DATA_FIN` follows.
    pub(super) is_finished: bool,
    pub(super) has_sent_fin: bool,
    /// A segment has told of it since it was last due.
    pub(super) fin_has_left: bool,
    /// The application waits for room.
    pub(super) has_refused: bool,
    /// What was sent and is not acknowledged, in order.
    chunks: VecDeque<Chunk>,
    /// Where the chunks begin that are to be sent again on another subflow.
    again: BTreeSet<u64>,
    /// The end of the last piece that was not a full segment (Minshall).
    small_end: u64,
    /// The connection's retransmission timer, which also probes a closed window.
    pub(super) timer: Time,
    /// Its expiries in a row.
    expiries: u32,
    /// Since when the peer's window has held data back, and how long it did before, in earlier connections too.
    blocked_since: Option<Time>,
    blocked: Duration,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            unacknowledged: 0,
            next: 0,
            written: 0,
            edge: 0,
            max_window: 0,
            is_finished: false,
            has_sent_fin: false,
            fin_has_left: false,
            has_refused: false,
            chunks: VecDeque::new(),
            again: BTreeSet::new(),
            small_end: 0,
            timer: Time::NEVER,
            expiries: 0,
            blocked_since: None,
            blocked: Duration::ZERO,
        }
    }

    /// That of the next connection.
    pub(super) fn renewed(&self, now: Time) -> Self {
        Self { blocked: self.blocked_until(now), ..Self::new() }
    }

    /// Bytes that wait to be sent for the first time.
    const fn unsent(&self) -> u64 {
        self.written - self.next
    }

    /// Whether the peer has acknowledged everything, `DATA_FIN` included.
    pub(super) const fn is_done(&self) -> bool {
        self.has_sent_fin && self.unacknowledged > self.written
    }

    /// Whether the peer has acknowledged everything but `DATA_FIN`.
    pub(super) const fn has_all_data_acknowledged(&self) -> bool {
        self.has_sent_fin && self.unacknowledged >= self.written
    }

    /// Whether an acknowledgement on the connection level is to come.
    const fn has_outstanding(&self) -> bool {
        self.unacknowledged < self.next || (self.has_sent_fin && !self.is_done())
    }

    /// The peer offers this window from this position on.
    pub(super) fn open(&mut self, from: u64, window: u64) {
        self.edge = self.edge.max(from + window);
        self.max_window = self.max_window.max(window);
    }

    fn index(&self, position: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end() <= position)
    }

    /// The most bytes that go together: half of the largest window at most, so that two segments are on their way
    /// where the receiver's buffer is small (Linux: `tcp_bound_to_half_wnd`).
    fn piece_limit(&self) -> u64 {
        if self.max_window > DEFAULT_MSS { self.max_window / 2 } else { self.max_window.max(1) }
    }

    pub(super) fn note_blocked(&mut self, now: Time, is_blocked: bool) {
        match (is_blocked, self.blocked_since) {
            (true, None) => self.blocked_since = Some(now),
            (false, Some(since)) => {
                self.blocked += now.saturating_since(since);
                self.blocked_since = None;
            }
            _ => {}
        }
    }

    /// How long the peer's window has held data back so far.
    pub(super) fn blocked_until(&self, now: Time) -> Duration {
        self.blocked + self.blocked_since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }
}

/// The subflows as the scheduler sees them, and how much each would take.
struct Choice {
    views: SmallVec<[PathView; 4]>,
    limits: SmallVec<[u32; 4]>,
}

impl Choice {
    fn most(&self) -> u32 {
        self.limits.iter().copied().max().unwrap_or(0)
    }
}

impl Connection {
    /// Room in the send buffer in bytes.
    fn send_room(&self) -> u64 {
        let held = self.sender.written - self.sender.unacknowledged.min(self.sender.written);
        self.parameters.tcp.send_buffer().saturating_sub(held)
    }

    /// Appends to the stream what fits into the send buffer.
    pub(super) fn write(&mut self, Message { payload, .. }: Message) {
        let Payload { offset, length } = payload;
        let accepts = !self.sender.is_finished && !self.has_closed;
        let room = if accepts { self.send_room() } else { 0 };
        let taken = u64::from(length).min(room) as u32;
        if self.sender.unsent() == 0 {
            for subflow in &mut self.subflows {
                subflow.tcp.note_app_limited();
            }
        }
        self.sender.written += u64::from(taken);
        if taken < length {
            self.sender.has_refused = accepts;
            let rest = Payload { offset: offset + u64::from(taken), length: length - taken };
            self.outputs.push_back(Output::Event(Event::Refused(rest)));
        }
    }

    /// Takes an acknowledgement on the connection level and the window that comes with it.
    pub(super) fn on_data_ack(&mut self, now: Time, acknowledged: u64, window: u64) {
        let sender = &mut self.sender;
        if acknowledged > sender.next + u64::from(sender.has_sent_fin) {
            return;
        }
        sender.open(acknowledged, window);
        if acknowledged <= sender.unacknowledged {
            return;
        }
        let bytes = acknowledged.min(sender.written) - sender.unacknowledged.min(sender.written);
        self.stats.bytes_acknowledged += bytes;
        sender.unacknowledged = acknowledged;
        while sender.chunks.front().is_some_and(|chunk| chunk.end() <= acknowledged) {
            sender.chunks.pop_front();
        }
        if !sender.again.is_empty() {
            let first = sender.chunks.front().map_or(u64::MAX, |chunk| chunk.start);
            sender.again = sender.again.split_off(&first);
        }
        sender.expiries = 0;
        sender.timer = Time::NEVER;
        if sender.has_refused && self.send_room() >= self.parameters.tcp.send_buffer().div_ceil(3) {
            self.sender.has_refused = false;
            self.outputs.push_back(Output::Event(Event::Writable));
        }
        self.start_timer(now);
    }

    /// Sends what may be sent.
    pub(super) fn push(&mut self, now: Time) {
        if self.state != State::Established {
            return;
        }
        while self.send_again(now) || self.send_new(now) {}
        let sender = &mut self.sender;
        if sender.is_finished && !sender.has_sent_fin && sender.unsent() == 0 {
            sender.has_sent_fin = true;
            sender.fin_has_left = false;
        }
        self.start_timer(now);
    }

    /// What the scheduler may choose from; these subflows have no room.
    fn choice(&mut self, now: Time, without: &[u8]) -> Choice {
        let mut choice = Choice { views: SmallVec::new(), limits: SmallVec::new() };
        for (path, subflow) in self.subflows.iter_mut().enumerate() {
            let is_usable = subflow.is_usable();
            let may_carry = is_usable && !without.contains(&(path as u8));
            let limit = if may_carry { subflow.room(now) } else { 0 };
            choice.limits.push(limit);
            choice.views.push(PathView {
                is_usable,
                is_backup: subflow.sends_as_backup(),
                has_room: limit > 0,
                srtt: subflow.tcp.srtt(),
                rttvar: subflow.tcp.rttvar(),
                cwnd: subflow.tcp.window_bytes(),
                ssthresh: subflow.tcp.ssthresh_bytes(),
                outstanding: subflow.tcp.outstanding_bytes(),
                in_recovery: subflow.tcp.is_recovering(),
                ..PathView::new(PathId(path as u8))
            });
        }
        choice
    }

    /// Sends the next new piece of the stream. Whether there was anything to send that could leave.
    fn send_new(&mut self, now: Time) -> bool {
        let unsent = self.sender.unsent();
        if unsent == 0 {
            self.sender.note_blocked(now, false);
            return false;
        }
        let mut choice = self.choice(now, &[]);
        self.make_room_for_keys(&mut choice);
        let most = u64::from(choice.most()).min(self.sender.piece_limit());
        if most == 0 {
            return false;
        }
        let length = unsent.min(most);
        let room = self.sender.edge.saturating_sub(self.sender.next);
        let is_blocked = length > room;
        self.sender.note_blocked(now, is_blocked);
        if is_blocked {
            self.scheduler.on_blocked();
            return self.retransmit_opportunistically(now);
        }
        if length < most && !self.sender.is_finished && self.nagle_waits() {
            return false;
        }
        let window = room.min(u64::from(u32::MAX)) as u32;
        let data = Pending::new(now, length as u32, unsent, window);
        let paths: SmallVec<[PathId; 4]> = match self.scheduler.schedule(&data, &choice.views) {
            Decision::Duplicate(paths) => paths,
            Decision::Send(path) => SmallVec::from_slice(&[path]),
            Decision::Wait => SmallVec::new(),
        };
        let Some(limit) = paths.iter().map(|path| choice.limits[path.index()]).min() else { return false };
        let length = length.min(u64::from(limit)) as u32;
        self.send_piece(now, &paths, length);
        if unsent < most {
            self.sender.small_end = self.sender.next;
        }
        true
    }

    /// The first data of an end that opens carries both keys, which take more than a mapping (RFC 8684 section 3.1).
    fn make_room_for_keys(&self, choice: &mut Choice) {
        if self.sender.next > 0 || !self.parameters.has_options() {
            return;
        }
        let more = CAPABLE_WITH_DATA_BYTES.saturating_sub(self.parameters.space.data);
        for (subflow, limit) in self.subflows.iter().zip(&mut choice.limits) {
            if subflow.initiates && !subflow.joins && !subflow.is_confirmed {
                *limit = limit.saturating_sub(more);
            }
        }
    }

    /// Whether less than a full segment waits for more.
    fn nagle_waits(&self) -> bool {
        let sender = &self.sender;
        let is_idle = sender.unacknowledged == sender.next;
        match self.parameters.tcp.nagle() {
            Nagle::Off => false,
            Nagle::Minshall => !is_idle && sender.small_end > sender.unacknowledged,
            Nagle::Rfc896 => !is_idle,
        }
    }

    /// Sends the next `length` bytes on these subflows.
    fn send_piece(&mut self, now: Time, paths: &[PathId], length: u32) {
        let start = self.sender.next;
        for path in paths {
            self.subflows[path.index()].append(now, start, length);
        }
        self.stats.bytes_sent += u64::from(length);
        self.stats.bytes_duplicated += u64::from(length) * (paths.len() as u64 - 1);
        self.sender.next += u64::from(length);
        let carriers = paths.iter().map(|path| path.0).collect();
        self.sender.chunks.push_back(Chunk { start, length, carriers });
    }

    /// Sends a piece again on a subflow that does not carry it, the first of those that are to be (RFC 8684 section
    /// 3.3.6). Whether there was one that could leave.
    fn send_again(&mut self, now: Time) -> bool {
        let Some(&position) = self.sender.again.first() else { return false };
        let index = self.sender.index(position);
        self.resend(now, index).is_some()
    }

    /// Sends this chunk on a subflow that does not carry it, or as much of it as makes a segment there.
    fn resend(&mut self, now: Time, index: usize) -> Option<PathId> {
        let chunk = self.sender.chunks[index].clone();
        let choice = self.choice(now, &chunk.carriers);
        if choice.most() == 0 {
            return None;
        }
        let room = self.sender.edge.saturating_sub(self.sender.next);
        let window = room.min(u64::from(u32::MAX)) as u32;
        let data = Pending::new(now, chunk.length, u64::from(chunk.length) + self.sender.unsent(), window);
        let path = match self.scheduler.schedule(&data, &choice.views) {
            Decision::Duplicate(paths) => *paths.first()?,
            Decision::Send(path) => path,
            Decision::Wait => return None,
        };
        let length = chunk.length.min(choice.limits[path.index()]);
        let sender = &mut self.sender;
        let is_listed = sender.again.remove(&chunk.start);
        if length < chunk.length {
            // That path's segments are shorter.
            let start = chunk.start + u64::from(length);
            let rest = Chunk { start, length: chunk.length - length, carriers: chunk.carriers.clone() };
            sender.chunks.insert(index + 1, rest);
            if is_listed {
                sender.again.insert(start);
            }
        }
        sender.chunks[index].length = length;
        sender.chunks[index].carriers.push(path.0);
        self.subflows[path.index()].append(now, chunk.start, length);
        self.stats.bytes_reinjected += u64::from(length);
        Some(path)
    }

    /// The peer's window is full: a subflow with room sends what fills it from its beginning, and the slower subflow
    /// that holds this is slowed down (Raiciu et al. 2012, section 4.2; the first Linux implementation's
    /// `mptcp_rcv_buf_optimization`). Whether anything was sent.
    fn retransmit_opportunistically(&mut self, now: Time) -> bool {
        if !self.parameters.opportunistic_retransmission {
            return false;
        }
        let Some(first) = self.sender.chunks.front() else { return false };
        let holders = first.carriers.clone();
        let Some(path) = self.resend(now, 0) else { return false };
        self.stats.opportunistic_retransmissions += 1;
        self.scheduler.on_blocked();
        if self.parameters.penalisation {
            let srtt = self.subflows[path.index()].tcp.srtt();
            for holder in holders {
                self.penalise(now, usize::from(holder), srtt);
            }
        }
        true
    }

    /// Reduces the window of a subflow that is slower than this, once in a round-trip time of its own.
    fn penalise(&mut self, now: Time, holder: usize, faster: Option<Duration>) {
        let Subflow { tcp, penalised_at, .. } = &mut self.subflows[holder];
        let Some(srtt) = tcp.srtt() else { return };
        let is_slower = faster.is_some_and(|faster| faster < srtt);
        let is_due = penalised_at.is_none_or(|at| now.saturating_since(at) >= srtt);
        if is_slower && is_due && !tcp.is_recovering() {
            *penalised_at = Some(now);
            tcp.penalise(now);
            self.stats.penalties += 1;
        }
    }

    /// A subflow has failed: what it carries is sent again on others (RFC 8684 section 3.3.6).
    pub(super) fn reinject_from(&mut self, path: usize) {
        if !self.parameters.reinjection {
            return;
        }
        let sender = &mut self.sender;
        for chunk in &sender.chunks {
            if chunk.carriers.last() == Some(&(path as u8)) {
                sender.again.insert(chunk.start);
            }
        }
    }

    /// A subflow is over: what it carried, and no other one that works, must be sent again, or else it never arrives.
    pub(super) fn take_from(&mut self, path: usize) {
        let Self { sender, subflows, parameters, .. } = self;
        for chunk in &mut sender.chunks {
            let before = chunk.carriers.len();
            chunk.carriers.retain(|carrier| usize::from(*carrier) != path);
            let works = |carrier: &u8| subflows[usize::from(*carrier)].is_usable();
            let is_kept = if parameters.reinjection {
                chunk.carriers.iter().any(works)
            } else {
                !chunk.carriers.is_empty()
            };
            if chunk.carriers.len() < before && !is_kept {
                sender.again.insert(chunk.start);
            }
        }
    }

    /// The period of the connection's timer: the longest timeout of the subflows that work, doubled with every expiry
    /// (Linux: `mptcp_set_timeout`; there is no back-off there).
    fn timer_period(&self) -> Duration {
        let longest = |usable: bool| {
            let subflows =
                self.subflows.iter().filter(|it| it.is_established() && (it.is_usable() || !usable));
            subflows.map(|subflow| subflow.tcp.rto()).max()
        };
        let base = longest(true).or_else(|| longest(false)).unwrap_or(Duration::from_secs(1));
        (base * (1 << self.sender.expiries.min(16))).min(self.parameters.tcp.rto_max())
    }

    /// Starts the connection's timer if it does not run and there is something to wait for.
    fn start_timer(&mut self, now: Time) {
        let waits = self.sender.has_outstanding() || self.sender.unsent() > 0;
        if !waits || self.state != State::Established {
            self.sender.timer = Time::NEVER;
        } else if self.sender.timer.is_never() {
            self.sender.timer = now + self.timer_period();
        }
    }

    /// The connection's timer expires (RFC 8684 section 3.3.6; Linux: `__mptcp_retrans`): the first piece is sent
    /// again on a subflow with nothing to do; `DATA_FIN` is sent again; a closed window is probed.
    #[cold]
    pub(super) fn on_data_timer(&mut self, now: Time) {
        self.sender.timer = Time::NEVER;
        self.sender.expiries += 1;
        if let Some(first) = self.sender.chunks.front_mut() {
            let is_idle = |subflow: &Subflow| subflow.is_usable() && subflow.tcp.is_idle();
            if self.parameters.reinjection && self.subflows.iter().any(is_idle) {
                self.stats.timeouts += 1;
                // What a subflow has delivered may be needed on it again.
                first.carriers.retain(|carrier| !is_idle(&self.subflows[usize::from(*carrier)]));
                self.sender.again.insert(first.start);
            } else if self.subflows.iter().all(|subflow| subflow.tcp.is_idle() || !subflow.is_established()) {
                // It has arrived, and the data acknowledgement was lost: on idle subflows no other one is to come.
                self.stats.timeouts += 1;
                self.ask_all(now);
            }
        } else if self.sender.has_sent_fin && !self.sender.is_done() {
            self.stats.timeouts += 1;
            self.sender.fin_has_left = false;
        } else if self.sender.unsent() > 0 {
            self.probe_window(now);
        }
    }

    /// Nothing is on its way and the peer's window has no room for the next piece: as much as fits is sent, or else a
    /// probe (RFC 9293 section 3.8.6.1, on the connection level).
    fn probe_window(&mut self, now: Time) {
        let Some(path) = self.best_subflow() else { return };
        let room = self.sender.edge.saturating_sub(self.sender.next);
        let limit = u64::from(self.subflows[path].room(now));
        let length = self.sender.unsent().min(room).min(limit) as u32;
        if length > 0 {
            self.stats.window_probes += 1;
            return self.send_piece(now, &[PathId(path as u8)], length);
        }
        if room == 0 {
            self.stats.window_probes += 1;
            self.ask_all(now);
        }
    }

    /// Asks for an acknowledgement on every subflow.
    fn ask_all(&mut self, now: Time) {
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_established()) {
            subflow.tcp.probe(now);
            subflow.is_dirty = true;
        }
    }

    /// Whether data waits that could leave on any subflow.
    pub(super) fn has_waiting(&self) -> bool {
        self.sender.unsent() > 0 || !self.sender.again.is_empty()
    }

    /// What keeps waiting data from a subflow that has room, in the order in which [`Self::push`] asks.
    pub(super) fn limit_of_waiting(&self, subflow: &Subflow) -> Limit {
        let sender = &self.sender;
        if sender.again.is_empty() {
            let most = u64::from(subflow.tcp.full_segment()).min(sender.piece_limit());
            if sender.unsent().min(most) > sender.edge.saturating_sub(sender.next) {
                return Limit::ReceiveWindow;
            }
            if sender.unsent() < most && !sender.is_finished && self.nagle_waits() {
                return if sender.has_refused { Limit::SendBuffer } else { Limit::Application };
            }
        }
        Limit::Scheduler
    }

    /// The subflows whose streams the data at this position is in, if it is not acknowledged.
    pub(super) fn carriers(&self, position: u64) -> Option<&[u8]> {
        let chunk = self.sender.chunks.get(self.sender.index(position))?;
        (chunk.start <= position).then_some(&chunk.carriers)
    }

    #[cfg(test)]
    pub(super) fn check_sender(&self) {
        let sender = &self.sender;
        assert!(sender.next <= sender.written && sender.unacknowledged <= sender.next + 1);
        let mut next = None;
        for chunk in &sender.chunks {
            assert!(next.is_none_or(|next| chunk.start == next), "chunks follow each other");
            assert!(chunk.end() > sender.unacknowledged);
            next = Some(chunk.end());
            let is_kept = !chunk.carriers.is_empty() || sender.again.contains(&chunk.start);
            assert!(is_kept || self.state != State::Established, "nobody sends {}", chunk.start);
        }
        assert!(next.is_none_or(|next| next == sender.next));
        for start in &sender.again {
            assert!(sender.chunks.iter().any(|chunk| chunk.start == *start));
        }
    }
}
