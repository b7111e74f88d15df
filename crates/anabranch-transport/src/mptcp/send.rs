//! Sending on the connection level: which data is sent on which subflow, what is sent again on another one,
//! and when (RFC 8684 sections 3.3.5 to 3.3.8; Raiciu et al. 2012, section 4.2).

use std::collections::{BTreeSet, VecDeque};

use smallvec::SmallVec;

use super::connection::{Connection, State};
use super::parameters::StaleCounts;
use super::subflow::Subflow;
use crate::endpoint::{Event, Message, Output};
use crate::flow::{PathId, Payload};
use crate::observed::LimitedBy;
use crate::path::scheduler::{Decision, PathView, Pending, Scheduler as _};
use crate::tcp::config::Nagle;
use crate::tcp::subflow::Phase;
use crate::time::{Duration, Time};

/// How much longer the third segment's option is in the first segment with data (RFC 8684 section 3.1: 22
/// bytes, padded).
const CAPABLE_WITH_DATA_BYTES: u32 = 24;
/// Windows up to this size in bytes are not halved (Linux: `TCP_MSS_DEFAULT`).
const DEFAULT_MSS: u64 = 536;

/// What the send buffer has besides the queues of the subflows (Linux: the least of `tcp_wmem`).
const LEAST_SEND_BUFFER: u64 = 4096;

/// The interval of the connection's timer as long as no timer of a subflow says otherwise (Linux:
/// `TCP_RTO_MIN`).
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_millis(200);

/// What is taken and sent again together: the data that Linux keeps in one fragment of 32 KiB, which begins
/// with a `struct mptcp_data_frag` (`mptcp_sendmsg`). Each fragment is full, as it is where the application
/// writes much at a time.
pub(super) const FRAGMENT_BYTES: u64 = 32_768 - 40;

/// A piece of the stream that is not acknowledged on the connection level.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    start: u64,
    length: u32,
    /// The subflows in whose streams the piece is, in the order in which it came there.
    pub(super) carriers: SmallVec<[u8; 2]>,
}

impl Chunk {
    const fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

/// The data to send, and the limits for it. Positions are those of our stream, counted from 0; `DATA_FIN`
/// follows the last byte.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub(super) struct Sender {
    /// The position up to which the peer has acknowledged on the connection level.
    pub(super) unacknowledged: u64,
    /// Where the last piece begins that the peer has acknowledged.
    pub(super) intact: u64,
    /// The next position to send.
    pub(super) next: u64,
    /// Bytes that the application has written.
    pub(super) written: u64,
    /// The position behind the last byte for which the peer has room (RFC 8684 section 3.3.5: relative to the
    /// data acknowledgement).
    edge: u64,
    /// The largest window that was ever offered.
    max_window: u64,
    /// Whether the application has finished writing, so that `DATA_FIN` follows.
    pub(super) is_finished: bool,
    pub(super) has_sent_fin: bool,
    /// Whether a segment has carried `DATA_FIN` since it was last due.
    pub(super) fin_has_left: bool,
    /// Whether the application waits for room.
    pub(super) has_refused: bool,
    /// The pieces that were sent and are not acknowledged, in order.
    chunks: VecDeque<Chunk>,
    /// The starts of the chunks that have to be sent again on another subflow.
    again: BTreeSet<u64>,
    /// Data before this position is sent again on this subflow, whatever the scheduler says.
    aim: Option<(u8, u64)>,
    /// The end of the last piece that was not a full segment (Minshall).
    small_end: u64,
    /// The connection's retransmission timer, which also probes a closed window.
    pub(super) timer: Time,
    /// The timer's consecutive expiries.
    pub(super) expiries: u32,
    /// The timer's length if it does not follow from the expiries (Linux: `timer_ival`).
    pub(super) interval: Duration,
    /// The timer is to start again, since more has been acknowledged.
    pub(super) has_progress: bool,
    /// The interval is renewed before data is handed out.
    pub(super) renews_interval: bool,
    /// Since when the peer's window has held data back, and for how long it did before, including earlier
    /// connections.
    blocked_since: Option<Time>,
    blocked: Duration,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            unacknowledged: 0,
            intact: 0,
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
            aim: None,
            small_end: 0,
            timer: Time::NEVER,
            expiries: 0,
            interval: DEFAULT_INTERVAL,
            has_progress: false,
            renews_interval: false,
            blocked_since: None,
            blocked: Duration::ZERO,
        }
    }

    /// The sender of the next connection, which continues this one's count of the time it was blocked.
    pub(super) fn renewed(&self, now: Time) -> Self {
        Self { blocked: self.blocked_until(now), ..Self::new() }
    }

    /// Bytes that wait to be sent for the first time.
    pub(super) const fn unsent(&self) -> u64 {
        self.written - self.next
    }

    /// Whether the peer has acknowledged everything, `DATA_FIN` included.
    pub(super) const fn is_done(&self) -> bool {
        self.has_sent_fin && self.unacknowledged > self.written
    }

    /// The largest window that was ever offered, in bytes.
    pub(super) const fn max_window(&self) -> u64 {
        self.max_window
    }

    /// Whether the peer has acknowledged everything but `DATA_FIN`.
    pub(super) const fn has_all_data_acknowledged(&self) -> bool {
        self.has_sent_fin && self.unacknowledged >= self.written
    }

    /// Whether an acknowledgement on the connection level is still to come.
    pub(super) const fn has_outstanding(&self) -> bool {
        self.unacknowledged < self.next || (self.has_sent_fin && !self.is_done())
    }

    /// Whether the peer has room for more than was sent.
    pub(super) const fn has_window(&self) -> bool {
        self.edge > self.next
    }

    /// Notes that the peer offers this window from this position on.
    pub(super) fn open(&mut self, from: u64, window: u64) {
        self.edge = self.edge.max(from + window);
        self.max_window = self.max_window.max(window);
    }

    /// Whether there is data that has not been acknowledged.
    pub(super) fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Whether there is data to be sent again wherever the scheduler says.
    pub(super) fn has_failed_data(&self) -> bool {
        self.aim.is_none() && !self.again.is_empty()
    }

    /// Whether data waits for the scheduler to say where it is sent (Linux: `mptcp_send_head`).
    pub(super) fn has_pending(&self) -> bool {
        self.unsent() > 0 || self.has_failed_data()
    }

    /// Marks the first piece to be sent again. It may also go to subflows on which it was delivered before.
    pub(super) fn send_first_again(&mut self, was_delivered: impl Fn(u8) -> bool) {
        if let Some(first) = self.chunks.front_mut() {
            first.carriers.retain(|carrier| !was_delivered(*carrier));
            self.again.insert(first.start);
        }
    }

    /// Marks all pieces in the first fragment of this size to be sent again on this subflow. Returns whether
    /// they were not marked already.
    pub(super) fn send_first_again_on(&mut self, path: usize, fragment: u64) -> bool {
        let Some(start) = self.chunks.front().map(|first| first.start) else { return false };
        if self.again.contains(&start) {
            return false;
        }
        let end = (start / fragment + 1) * fragment;
        self.aim = Some((path as u8, end));
        self.again.extend(self.chunks.iter().map(|chunk| chunk.start).take_while(|start| *start < end));
        true
    }

    /// Marks all pieces for which `is_concerned` is true to be sent again.
    pub(super) fn send_again_where(&mut self, is_concerned: impl Fn(&Chunk) -> bool) {
        let concerned = self.chunks.iter().filter(|chunk| is_concerned(chunk));
        self.again.extend(concerned.map(|chunk| chunk.start));
    }

    /// Marks everything that has not been acknowledged to be sent again, wherever the scheduler says (Linux:
    /// `__mptcp_retransmit_pending_data`).
    pub(super) fn send_all_again(&mut self) {
        self.aim = None;
        self.renews_interval = true;
        self.send_again_where(|_| true);
    }

    fn index(&self, position: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end() <= position)
    }

    /// The most bytes that are sent together. It is at most half the largest window, so that two segments can
    /// be on their way where the receiver's buffer is small (Linux: `tcp_bound_to_half_wnd`).
    fn piece_limit(&self) -> u64 {
        if self.max_window > DEFAULT_MSS { self.max_window / 2 } else { self.max_window.max(1) }
    }

    pub(super) fn record_blocked(&mut self, now: Time, is_blocked: bool) {
        match (is_blocked, self.blocked_since) {
            (true, None) => self.blocked_since = Some(now),
            (false, Some(since)) => {
                self.blocked += now.saturating_since(since);
                self.blocked_since = None;
            }
            _ => {}
        }
    }

    /// For how long the peer's window has held data back so far.
    pub(super) fn blocked_until(&self, now: Time) -> Duration {
        self.blocked + self.blocked_since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }
}

/// The most bytes that one of the subflows would take together.
fn longest(views: &[PathView]) -> u32 {
    views.iter().map(|view| view.most).max().unwrap_or(0)
}

impl Connection {
    /// The size of the send buffer in bytes (Linux: `__mptcp_sync_sndbuf`).
    fn send_buffer(&self) -> u64 {
        if self.parameters.send_queue.is_some_and(|queue| queue.grows()) {
            let of_subflows = self.subflows.iter().filter(|subflow| subflow.phase != Phase::Closed);
            LEAST_SEND_BUFFER + of_subflows.filter_map(|subflow| subflow.tcp.send_memory()).sum::<u64>()
        } else {
            self.parameters.tcp.send_buffer()
        }
    }

    /// Room in the send buffer in bytes.
    fn send_room(&self) -> u64 {
        let held = self.sender.written - self.sender.unacknowledged.min(self.sender.written);
        self.send_buffer().saturating_sub(held)
    }

    /// Tells an application that is waiting that a third of the send buffer is free.
    fn report_writable(&mut self) {
        if self.sender.has_refused && self.send_room() >= self.send_buffer().div_ceil(3) {
            self.sender.has_refused = false;
            self.outputs.push_back(Output::Event(Event::Writable));
        }
    }

    /// An acknowledgement that came by this subflow has been handled: while the application waits for room,
    /// the subflow's queue grows (Linux: `tcp_check_space`).
    pub(super) fn grow_send_buffer(&mut self, path: usize) {
        if self.sender.has_refused
            && self.parameters.send_queue.is_some()
            && self.subflows[path].tcp.grow_send_queue()
        {
            self.report_writable();
        }
    }

    /// Appends to the stream what fits into the send buffer.
    pub(super) fn write(&mut self, Message { payload, .. }: Message) {
        let Payload { offset, length } = payload;
        let accepts = !self.sender.is_finished && !self.has_closed;
        let mut room = if accepts { self.send_room() } else { 0 };
        if room > 0 && self.parameters.send_queue.is_some() {
            // Linux fills the last fragment (`mptcp_sendmsg`: "we do not bound vs wspace").
            let end = (self.sender.written + room).next_multiple_of(FRAGMENT_BYTES);
            room = end - self.sender.written;
        }
        let taken = u64::from(length).min(room) as u32;
        // Linux asks whether a sender is limited by its application in tcp_sendmsg, which MPTCP does not
        // call.
        if self.sender.unsent() == 0 && !self.counts_intervals() {
            for path in 0..self.subflows.len() {
                self.subflows.unseen(path).tcp.record_app_limited();
            }
        }
        self.sender.written += u64::from(taken);
        self.sender.renews_interval |= taken > 0;
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
        while let Some(first) = sender.chunks.front().filter(|chunk| chunk.end() <= acknowledged) {
            sender.intact = first.start;
            sender.chunks.pop_front();
        }
        if !sender.again.is_empty() {
            let first = sender.chunks.front().map_or(u64::MAX, |chunk| chunk.start);
            sender.again = sender.again.split_off(&first);
        }
        self.report_writable();
        self.restart_timer(now);
    }

    /// Sends what may be sent.
    pub(super) fn push(&mut self, now: Time) {
        if self.state != State::Established {
            return;
        }
        self.renew_interval(now);
        while self.send_again(now) || self.send_new(now) {}
        if self.parameters.send_queue.is_some() {
            self.scheduler.end_push();
        }
        let sender = &mut self.sender;
        if sender.is_finished && !sender.has_sent_fin && sender.unsent() == 0 {
            sender.has_sent_fin = true;
            sender.fin_has_left = false;
        }
        self.start_timer(now);
    }

    /// Sends the next new piece of the stream. Returns whether there was something to send that could leave.
    fn send_new(&mut self, now: Time) -> bool {
        let unsent = self.sender.unsent();
        if unsent == 0 {
            self.sender.record_blocked(now, false);
            return false;
        }
        let most = if self.sender.next == 0 {
            self.subflows.look(now, &[]);
            (0..self.subflows.len()).map(|path| self.limit(path)).max().unwrap_or(0)
        } else {
            longest(self.subflows.look(now, &[])).saturating_sub(self.extra_option_bytes())
        };
        let most = u64::from(most).min(self.sender.piece_limit());
        if most == 0 {
            return false;
        }
        let wanted = unsent.min(most);
        let room = self.sender.edge.saturating_sub(self.sender.next);
        let length = wanted.min(room);
        let is_cut = length < wanted;
        // Linux sends what fits into the window (mptcp_check_allowed_size) as a small piece
        // (tcp_minshall_check).
        let is_blocked = is_cut && (length == 0 || !self.counts_intervals() || self.nagle_waits());
        self.sender.record_blocked(now, is_blocked);
        if is_blocked {
            self.scheduler.on_blocked();
            return self.retransmit_opportunistically(now);
        }
        if wanted < most && !self.sender.is_finished && self.nagle_waits() {
            return false;
        }
        let window = room.min(u64::from(u32::MAX)) as u32;
        let data = Pending::new(now, length as u32, unsent, window);
        let paths: SmallVec<[PathId; 4]> = match self.scheduler.schedule(&data, self.subflows.views()) {
            Decision::Duplicate(paths) => paths,
            Decision::Send(path) => SmallVec::from_slice(&[path]),
            Decision::Wait => SmallVec::new(),
        };
        let Some(limit) = paths.iter().map(|path| self.limit(path.index())).min() else { return false };
        let length = length.min(u64::from(limit)) as u32;
        self.send_piece(now, &paths, length);
        if unsent < most || is_cut {
            self.sender.small_end = self.sender.next;
        }
        true
    }

    /// How many bytes more the options of data take than [`Parameters`](super::Parameters) say, because the
    /// acknowledgement with them is a long one.
    pub(super) fn extra_option_bytes(&self) -> u32 {
        if self.answers_at_length { self.parameters.longer_ack } else { 0 }
    }

    /// The most bytes of new data that a subflow takes together: its room, less what a long acknowledgement
    /// needs, and what both keys need, which the first data of an end that opens carries and which take more
    /// than a mapping (RFC 8684 section 3.1).
    fn limit(&self, path: usize) -> u32 {
        let subflow = &self.subflows[path];
        let has_keys = self.sender.next == 0
            && self.parameters.has_options()
            && subflow.initiates
            && !subflow.joins
            && !subflow.is_confirmed;
        let keys =
            if has_keys { CAPABLE_WITH_DATA_BYTES.saturating_sub(self.parameters.space.data) } else { 0 };
        self.subflows.views()[path].most.saturating_sub(self.extra_option_bytes() + keys)
    }

    /// Whether less than a full segment waits for more data.
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

    /// Sends the first piece that is to be sent again (RFC 8684 section 3.3.6). Returns whether there was one
    /// that could leave.
    fn send_again(&mut self, now: Time) -> bool {
        let Some(&position) = self.sender.again.first() else { return false };
        if self.awaits_answer() {
            return false;
        }
        let index = self.sender.index(position);
        let aim = self
            .sender
            .aim
            .filter(|(path, end)| position < *end && self.subflows[usize::from(*path)].is_usable());
        self.sender.aim = aim;
        let is_free = aim.is_some() || self.counts_intervals();
        self.resend(now, index, aim.map(|(path, _)| PathId(path)), is_free).is_some()
    }

    /// Sends this chunk, or as much of it as makes a segment: on the subflow that is given, or else where the
    /// scheduler says; if that is not free, on one that does not carry the chunk yet.
    fn resend(&mut self, now: Time, index: usize, aim: Option<PathId>, is_free: bool) -> Option<PathId> {
        let chunk = self.sender.chunks[index].clone();
        let views = self.subflows.look(now, if is_free { &[] } else { &chunk.carriers });
        if aim.map_or_else(|| longest(views), |path| views[path.index()].most) == 0 {
            return None;
        }
        let room = self.sender.edge.saturating_sub(self.sender.next);
        let window = room.min(u64::from(u32::MAX)) as u32;
        let data = Pending::new(now, chunk.length, u64::from(chunk.length) + self.sender.unsent(), window);
        let decision = match aim {
            Some(path) => Decision::Send(path),
            None => self.scheduler.schedule(&data, self.subflows.views()),
        };
        let path = match decision {
            Decision::Duplicate(paths) => *paths.first()?,
            Decision::Send(path) => path,
            Decision::Wait => return None,
        };
        let length = chunk.length.min(self.subflows.views()[path.index()].most);
        let sender = &mut self.sender;
        let is_listed = sender.again.remove(&chunk.start);
        if length < chunk.length {
            // The segments of the chosen path are shorter than the chunk: the rest of it waits for another
            // one.
            let start = chunk.start + u64::from(length);
            let rest = Chunk { start, length: chunk.length - length, carriers: chunk.carriers.clone() };
            sender.chunks.insert(index + 1, rest);
            if is_listed {
                sender.again.insert(start);
            }
        }
        sender.chunks[index].length = length;
        sender.chunks[index].carriers.push(path.0);
        self.has_been_single = false;
        self.subflows[path.index()].append(now, chunk.start, length);
        self.stats.bytes_reinjected += u64::from(length);
        Some(path)
    }

    /// When the peer's window is full, has a subflow with room send the data that fills it from its
    /// beginning, unless it carries that itself, and reduces the window of the slower subflow that holds this
    /// data (Raiciu et al. 2012, section 4.2; the first Linux implementation's `mptcp_rcv_buf_optimization`,
    /// whose `path_mask` is the carriers). Returns whether anything was sent.
    fn retransmit_opportunistically(&mut self, now: Time) -> bool {
        if !self.parameters.opportunistic_retransmission {
            return false;
        }
        let Some(first) = self.sender.chunks.front() else { return false };
        let holders = first.carriers.clone();
        let Some(path) = self.resend(now, 0, None, false) else { return false };
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

    /// Reduces the window of a subflow that is slower than this, at most once in its own round-trip time.
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

    /// Handles the end of a subflow: data that it carried, and no other working one, must be sent again, or
    /// it would never arrive. Linux sends everything again (`__mptcp_close_ssk`).
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
        if parameters.reinjection && parameters.stale_counts == StaleCounts::Intervals {
            sender.send_all_again();
        }
    }

    /// If nothing is in flight and the peer's window has no room for the next piece, sends as much as fits,
    /// or else a probe (RFC 9293 section 3.8.6.1, on the connection level).
    pub(super) fn probe_window(&mut self, now: Time) {
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

    /// Whether data waits that could leave on any subflow.
    pub(super) fn has_waiting(&self) -> bool {
        self.sender.unsent() > 0 || !self.sender.again.is_empty()
    }

    /// What keeps waiting data from a subflow that has room, checked in the same order as in [`Self::push`].
    pub(super) fn limit_of_waiting(&self, subflow: &Subflow) -> LimitedBy {
        let sender = &self.sender;
        if sender.again.is_empty() {
            let most = u64::from(subflow.tcp.full_segment()).min(sender.piece_limit());
            if sender.unsent().min(most) > sender.edge.saturating_sub(sender.next) {
                return LimitedBy::ReceiveWindow;
            }
            if sender.unsent() < most && !sender.is_finished && self.nagle_waits() {
                return if sender.has_refused { LimitedBy::SendBuffer } else { LimitedBy::Application };
            }
        }
        LimitedBy::Scheduler
    }

    /// The subflows in whose streams the data at this position is, if it has not been acknowledged.
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
