//! Writing bytes to a transport with flow control, as a program does that blocks when the send buffer
//! is full.
//!
//! Over a stream of bytes (TCP; QUIC), writes that take no time go to the
//! transport in pieces as large as it takes: it answers each with what did not fit, and writing goes on when
//! it says that there is room. So there is one command per time that room is made, not one per write. Over
//! messages (SCTP), and where a write takes time, each write is a command of its own. Over several streams
//! (QUIC) they are written one after the other, each to its end.

use std::collections::VecDeque;

use anabranch_transport::endpoint::{Command, Message, Service, StreamId};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::time::{Duration, Time};

use super::Commands;

/// The largest piece of a stream in one command, in bytes.
const PIECE: u64 = 1 << 30;

/// Bytes per write over messages, those of iperf3 over SCTP (`DEFAULT_SCTP_BLKSIZE`).
pub(super) const MESSAGE: u64 = 64 * 1024;

/// Writes one end's data to a connection.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) side: Side,
    /// Whether messages are delivered without regard to their order.
    unordered: bool,
    /// The most bytes per command.
    write_size: u64,
    /// The time from one write to the next.
    cost: Duration,
    /// The bytes that have been handed over and were not returned, which is the position in the stream.
    offset: u64,
    /// The streams that are written to their ends, and how many bytes have been written by then; empty where
    /// there is one without end.
    streams: VecDeque<(StreamId, u64)>,
    /// How many bytes had been written before the first of them.
    before: u64,
    /// The end of the write in progress.
    write_end: u64,
    /// The end of everything to write.
    end: u64,
    /// When the write in progress will be over.
    next_write: Time,
    /// Whether the transport has refused data and has not reported room since.
    is_blocked: bool,
}

impl Writer {
    /// Writes of `write_size` bytes, `cost` apart; without a cost, pieces are as large as the transport
    /// takes, if it does not keep them apart.
    pub(super) fn new(side: Side, service: Service, write_size: u64, cost: Option<Duration>) -> Self {
        let is_free = cost.is_none() && service.is_of_bytes();
        Self {
            side,
            unordered: false,
            write_size: if is_free { PIECE } else { write_size },
            cost: cost.unwrap_or_default().max(Duration::from_nanos(1)),
            offset: 0,
            streams: VecDeque::new(),
            before: 0,
            write_end: 0,
            end: 0,
            next_write: Time::NEVER,
            is_blocked: false,
        }
    }

    /// Sets whether messages are sent unordered.
    pub(super) fn unordered(self, unordered: bool) -> Self {
        Self { unordered, ..self }
    }

    /// Writes this many more bytes; `u64::MAX` means without end.
    pub(super) fn write(&mut self, now: Time, bytes: u64, commands: &mut Commands) {
        self.end = self.end.saturating_add(bytes);
        if self.next_write.is_never() && !self.is_blocked {
            self.hand_over(now, commands);
        }
    }

    /// Writes streams of these lengths at once, and their ends.
    pub(super) fn write_streams(
        &mut self,
        now: Time,
        streams: impl IntoIterator<Item = (StreamId, u64)>,
        commands: &mut Commands,
    ) {
        let mut bytes = 0;
        for (stream, length) in streams {
            bytes += length;
            self.streams.push_back((stream, self.end + bytes));
        }
        self.write(now, bytes, commands);
    }

    /// When the writer next wants [`Writer::handle_wakeup`].
    pub(super) const fn next_wakeup(&self) -> Time {
        self.next_write
    }

    /// Goes on if the write in progress is over.
    pub(super) fn handle_wakeup(&mut self, now: Time, commands: &mut Commands) {
        if self.next_write <= now {
            self.next_write = Time::NEVER;
            self.hand_over(now, commands);
        }
    }

    /// Keeps what the transport has not taken.
    pub(super) fn on_refused(&mut self, rest: Payload) {
        let offset = self.before + rest.offset;
        debug_assert!(offset + u64::from(rest.length) == self.offset, "{rest:?} was just written");
        self.offset = offset;
        self.next_write = Time::NEVER;
        self.is_blocked = true;
    }

    /// Goes on, since the transport has room again.
    pub(super) fn on_writable(&mut self, now: Time, commands: &mut Commands) {
        if std::mem::take(&mut self.is_blocked) {
            self.hand_over(now, commands);
        }
    }

    /// Stops writing: nothing is written beyond what the transport has accepted.
    pub(super) fn stop(&mut self) {
        self.end = self.offset;
        self.write_end = self.offset;
        self.is_blocked = false;
    }

    /// Forgets what the connection had, which is gone: the next one starts from nothing.
    pub(super) fn reset(&mut self) {
        self.offset = 0;
        self.streams.clear();
        self.before = 0;
        self.next_write = Time::NEVER;
        self.stop();
    }

    /// Bytes that the transport has taken.
    pub(super) const fn taken(&self) -> u64 {
        self.offset
    }

    /// Whether the transport has accepted everything.
    pub(super) const fn is_all_taken(&self) -> bool {
        self.offset == self.end && self.next_write.is_never() && !self.is_blocked
    }

    fn hand_over(&mut self, now: Time, commands: &mut Commands) {
        if self.streams.front().is_some_and(|(_, end)| *end <= self.offset) {
            self.streams.pop_front();
            self.before = self.offset;
        }
        let (stream, last) = self.streams.front().copied().unwrap_or((StreamId(0), self.end));
        if self.offset == self.write_end {
            self.write_end = self.offset.saturating_add(self.write_size).min(last);
        }
        let length = (self.write_end - self.offset) as u32;
        if length == 0 {
            return;
        }
        let payload = Payload { offset: self.offset - self.before, length };
        let ends_stream = !self.streams.is_empty() && self.write_end == last;
        let more = ends_stream && self.streams.len() > 1;
        let message =
            Message { stream, unordered: self.unordered, ends_stream, more, ..Message::new(payload) };
        commands.push(self.side, Command::Send(message));
        self.offset = self.write_end;
        // The transport's refusal is known before that.
        self.next_write = now + self.cost;
    }
}
