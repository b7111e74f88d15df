//! Receiving on the connection level: how the stream is put together from all subflows, the window that they
//! share, and `DATA_FIN` (RFC 8684 sections 3.3.1, 3.3.3 and 3.3.4).

use super::config;
use super::connection::{Connection, State};
#[cfg(test)]
use super::subflow::Subflow;
use crate::endpoint::{Command, Endpoint as _, Event, Input, Output, Received};
use crate::flow::Payload;
use crate::tcp::MOST_RUNS;
use crate::time::Time;
use crate::wire::mptcp::Options;

/// The data that has arrived. Positions are those of the peer's stream.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The position that is expected next; `DATA_FIN` takes one position.
    pub(super) next: u64,
    /// The position behind the last byte that the peer may send.
    edge: u64,
    /// Runs above a gap, in order and apart from each other.
    runs: Vec<(u64, u64)>,
    /// Bytes in these runs.
    pub(super) waiting: u64,
    /// Where the peer says that its stream ends, once it has said so.
    fin: Option<u64>,
    /// Whether everything that the peer has to say has arrived.
    has_ended: bool,
    /// Whether the application reads nothing for the time being.
    pub(super) is_paused: bool,
    /// Bytes in order that the application has not read.
    unread: u64,
}

impl Receiver {
    /// The runs of bytes that the application has not been given, as the positions of the first byte and
    /// behind the last.
    pub(super) fn waiting_runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let in_order = self.end_of_order();
        std::iter::once((in_order - self.unread.min(in_order), in_order)).chain(self.runs.iter().copied())
    }

    /// Bytes in order that the application has not read.
    pub(super) const fn unread(&self) -> u64 {
        self.unread
    }

    /// Hands the bytes that the application has not read over to another keeper.
    pub(super) const fn take_unread(&mut self) -> u64 {
        std::mem::replace(&mut self.unread, 0)
    }

    /// Leaves it to another keeper to tell of the end, if `is_open`.
    pub(super) const fn reopen_if(&mut self, is_open: bool) {
        self.has_ended &= !is_open;
    }

    /// Whether everything that the peer has to say has arrived.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The position behind the last byte in order. `DATA_FIN` is not a byte.
    pub(super) fn end_of_order(&self) -> u64 {
        self.next - u64::from(self.has_ended)
    }

    /// Gives `DATA_FIN` its position once everything before it has arrived. One that lies elsewhere, among
    /// what has arrived or in a gap, ends nothing (Linux: `mptcp_pending_data_fin`). Returns whether the
    /// stream ends here.
    fn take_fin(&mut self) -> bool {
        if self.has_ended || self.fin != Some(self.next) {
            return false;
        }
        self.has_ended = true;
        self.next += 1;
        // What a peer sends behind its end is ignored.
        self.runs.clear();
        self.waiting = 0;
        true
    }

    /// Takes a run. Returns how many bytes of it were there already.
    fn insert(&mut self, start: u64, end: u64) -> u64 {
        let length = end - start;
        let before = self.next + self.waiting;
        let start = start.max(self.next);
        if start >= end {
            return length;
        }
        if start == self.next {
            self.next = end;
            let reached = self.runs.partition_point(|run| run.0 <= end);
            if reached > 0 {
                self.next = end.max(self.runs[reached - 1].1);
                self.waiting -= self.runs.drain(..reached).map(|run| run.1 - run.0).sum::<u64>();
            }
        } else {
            let first = self.runs.partition_point(|run| run.1 < start);
            let last = first + self.runs[first..].partition_point(|run| run.0 <= end);
            if first == last && self.runs.len() >= MOST_RUNS {
                // The peer sends it again, like data beyond the window.
                return 0;
            }
            let touched = &self.runs[first..last];
            let known: u64 = touched.iter().map(|run| run.1 - run.0).sum();
            let merged = touched.iter().fold((start, end), |all, run| (all.0.min(run.0), all.1.max(run.1)));
            self.waiting += merged.1 - merged.0 - known;
            self.runs.splice(first..last, [merged]);
        }
        length - (self.next + self.waiting - before)
    }

    /// The window to advertise in bytes. Its right edge moves only if that gives the peer room worth using,
    /// and never back (RFC 9293 section 3.8.6.2.2).
    fn window(&mut self, buffer: u64, mss: u32, scale: u8) -> u64 {
        let free = buffer.saturating_sub(self.unread).min(65_535 << scale);
        let edge = self.next + (free >> scale << scale);
        if edge >= self.edge + (buffer / 2).min(u64::from(mss)) {
            self.edge = edge;
        }
        self.edge.saturating_sub(self.next)
    }
}

impl Connection {
    /// The window field of the next segment of this subflow.
    pub(super) fn window_field(&mut self, path: usize) -> u16 {
        let tcp = &self.subflows[path].tcp;
        let (mss, scale) = (tcp.full_segment(), tcp.own_scale());
        // Linux, __mptcp_space: data that waits for that of another subflow takes up the buffer, although it
        // lies in the window.
        let held = if self.counts_intervals() { self.receiver.waiting } else { 0 };
        let room = self.parameters.tcp.receive_buffer().saturating_sub(held);
        let window = self.receiver.window(room, mss, scale);
        (window >> scale).min(65_535) as u16
    }

    /// The peer's window on the connection level, when a segment of the peer has offered `window`.
    pub(super) fn offered(&self, window: u64) -> u64 {
        self.parameters.data_window.unwrap_or(window)
    }

    /// For the receiver `as_cited`, before a packet goes to its subflow: whether it fills the gap of the
    /// connection, so that it moves its subflow past the data that waits there, and afterwards the others as
    /// well (model: `ReceivedData`).
    pub(super) fn prepare_receiver(&mut self, path: usize, options: &Options) -> bool {
        if self.parameters.receiver == config::Receiver::Textbook {
            return false;
        }
        let fills_gap = options.data_position.is_some_and(|position| position <= self.receiver.next);
        self.subflows[path].tcp.set_stepwise(!fills_gap);
        fills_gap
    }

    /// Moves every subflow over what waits in it (model: `ReadUnOrderedData`).
    #[cold]
    pub(super) fn skip_stored(&mut self, now: Time) {
        for path in 0..self.subflows.len() {
            self.subflows[path].tcp.skip_stored(now);
            self.drain(now, path);
        }
    }

    /// Takes the next bytes of its stream that a subflow delivers.
    pub(super) fn on_subflow_data(&mut self, path: usize, mut length: u32) {
        let before = self.receiver.next;
        while length > 0 {
            // RFC 8684 section 3.3.1: bytes that no mapping covers have no place in the stream.
            let Some((data, taken)) = self.subflows[path].deliver(length) else { break };
            length -= taken;
            if self.is_beyond_window(data + u64::from(taken)) {
                // Linux, mptcp_data_queue_ofo: data without room is dropped.
                continue;
            }
            self.stats.duplicate_bytes_received += self.receiver.insert(data, data + u64::from(taken));
        }
        self.stats.max_reordering_bytes = self.stats.max_reordering_bytes.max(self.receiver.waiting);
        let arrived = self.receiver.next - before;
        self.receiver.unread += arrived;
        self.stats.bytes_delivered += arrived;
        if arrived > 0 && !self.receiver.is_paused {
            self.deliver();
        }
        self.take_data_fin();
    }

    /// Whether the stream up to here is more than this end has ever offered to take, or goes on behind its
    /// end.
    fn is_beyond_window(&self, end: u64) -> bool {
        if self.receiver.has_ended() {
            return end > self.receiver.end_of_order();
        }
        let most = self.parameters.tcp.receive_buffer() + 65_536;
        self.parameters.data_window.is_none() && end.saturating_sub(self.receiver.next) > most
    }

    /// Notes where the peer says that its stream ends.
    pub(super) fn record_data_fin(&mut self, now: Time, path: usize, position: u64, is_bare: bool) {
        if self.receiver.has_ended() {
            // Our acknowledgement was lost.
            if is_bare {
                self.acknowledge_on(now, path);
            }
            return;
        }
        self.receiver.fin = Some(position);
        self.take_data_fin();
        if is_bare {
            self.acknowledge_on(now, path);
        }
    }

    /// Takes the peer's `DATA_FIN`, if its turn has come. As with TCP, this end then closes behind what it
    /// was given, unless it may be half open.
    fn take_data_fin(&mut self) {
        if self.receiver.take_fin() {
            self.sender.is_finished |= !self.half_close;
            if self.receiver.unread == 0 {
                self.outputs.push_back(Output::Event(Event::PeerFinished));
            }
        }
    }

    /// Gives the application the data that it has not got yet.
    fn deliver(&mut self) {
        let length = std::mem::take(&mut self.receiver.unread);
        if length > 0 {
            let end = self.receiver.end_of_order();
            let payload = Payload { offset: end - length, length: length as u32 };
            let received = Received::new(payload);
            self.outputs.push_back(Output::Event(Event::Received(received)));
        }
    }

    /// Gives the application what the last connection has left unread, even if it reads nothing for the time
    /// being: the next connection takes the place of the last one.
    pub(super) fn hand_over_unread(&mut self) {
        if let State::Fallback(path) = self.state {
            let tcp = &mut self.subflows[path].tcp;
            tcp.vanish();
            tcp.handle_input(self.last_now, Input::Command(Command::ResumeReading));
            while let Output::Event(event) = tcp.poll_output(self.last_now) {
                if matches!(event, Event::Received(_) | Event::PeerFinished) {
                    self.outputs.push_back(Output::Event(event));
                }
            }
        }
        self.read();
    }

    /// Gives the application everything that waits, and then the end of the stream if that has come.
    fn read(&mut self) {
        if self.receiver.unread > 0 {
            self.deliver();
            if self.receiver.has_ended() {
                self.outputs.push_back(Output::Event(Event::PeerFinished));
            }
        }
    }

    /// Resumes reading: the peer is told of the room if that has at least doubled (Linux:
    /// `mptcp_cleanup_rbuf`), on every subflow, since any of them may lose the message.
    pub(super) fn resume_reading(&mut self, now: Time) {
        self.receiver.is_paused = false;
        if self.receiver.unread == 0 {
            return;
        }
        self.read();
        let before = self.receiver.edge.saturating_sub(self.receiver.next);
        // Without window scaling, a window field cannot exceed 65,535.
        let scales = self.subflows.iter().filter(|subflow| subflow.is_open()).map(|it| it.tcp.own_scale());
        let largest = u64::from(u16::MAX) << scales.max().unwrap_or(0);
        let after = self.parameters.tcp.receive_buffer().min(largest);
        if !self.receiver.has_ended() && after >= 2 * before {
            self.stats.window_updates += 1;
            self.acknowledge_on_all(now);
        }
    }

    #[cfg(test)]
    pub(super) fn check_receiver(&self) {
        let receiver = &self.receiver;
        assert_eq!(receiver.waiting, receiver.runs.iter().map(|run| run.1 - run.0).sum::<u64>());
        assert!(receiver.runs.first().is_none_or(|run| run.0 > receiver.next));
        assert!(receiver.runs.is_sorted_by(|one, other| one.1 < other.0));
        // RFC 8684 section 3.3.1: a mapping never changes, and segments are sent again as they were.
        assert!(self.subflows.iter().all(Subflow::has_mappings_apart));
        assert!(receiver.unread + receiver.waiting <= self.parameters.tcp.receive_buffer());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Side;
    use crate::mptcp::Profile;
    use crate::mptcp::testing::{Pair, Wire, config};

    /// By RFC 8684 section 3.3.5 it lies in the window.
    #[test]
    fn mptcp_space_is_less_by_what_waits_for_another_subflow() {
        let taken_up = |profile| {
            let mut pair = Pair::open(&config(profile), vec![Wire::default(); 2]);
            let end = pair.end_mut(Side::B);
            let next = end.receiver.next;
            end.receiver.insert(next + 250_000, next + 350_000);
            end.receiver.insert(next, next + 200_000);
            let window = u64::from(end.window_field(0)) << end.subflows[0].tcp.own_scale();
            end.parameters.tcp.receive_buffer() - window
        };
        let steps = 1 << 8;
        assert!((100_000..100_000 + steps).contains(&taken_up(Profile::Linux6)));
        assert!((0..steps).contains(&taken_up(Profile::Rfc8684)));
    }

    #[test]
    fn runs_from_all_subflows_make_one_stream() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.insert(10, 20), 0);
        assert_eq!(receiver.insert(30, 40), 0);
        assert_eq!(receiver.insert(15, 32), 7, "twelve bytes close the gap; five and two were there");
        assert_eq!((receiver.next, receiver.waiting), (0, 30));
        assert_eq!(receiver.insert(0, 12), 2);
        assert_eq!((receiver.next, receiver.waiting), (40, 0));
        assert_eq!(receiver.insert(5, 40), 35);
        assert_eq!(receiver.insert(38, 50), 2);
        assert_eq!(receiver.next, 50);
    }

    #[test]
    fn the_stream_ends_where_all_before_its_end_is_there() {
        let mut receiver = Receiver::default();
        receiver.insert(0, 100);
        for elsewhere in [0, 99, 101] {
            receiver.fin = Some(elsewhere);
            assert!(!receiver.take_fin(), "{elsewhere}");
            assert!(!receiver.has_ended());
            assert_eq!((receiver.next, receiver.end_of_order()), (100, 100));
        }
        receiver.insert(110, 120);
        receiver.fin = Some(100);
        assert!(receiver.take_fin());
        assert!(!receiver.take_fin(), "once only");
        assert_eq!((receiver.next, receiver.end_of_order(), receiver.waiting), (101, 100, 0));
        receiver.unread = 100;
        assert_eq!(receiver.waiting_runs().collect::<Vec<_>>(), [(0, 100)]);
    }

    #[test]
    fn the_windows_edge_moves_by_what_is_worth_sending_and_never_back() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.window(10_000, 1_000, 0), 10_000);
        receiver.insert(0, 900);
        assert_eq!(receiver.window(10_000, 1_000, 0), 9_100, "less than a segment is not worth telling");
        receiver.insert(900, 1_000);
        assert_eq!(receiver.window(10_000, 1_000, 0), 10_000);
        receiver.unread = 6_000;
        assert_eq!(receiver.window(10_000, 1_000, 0), 10_000, "never back");
    }
}
