//! The sending part of a stream (RFC 9000 section 3.1).

use super::ranges::Ranges;
use crate::flow::PathId;

/// The sending part of a stream. Positions count from 0.
#[derive(Debug)]
pub(super) struct SendStream {
    /// Bytes that the application has written.
    pub(super) written: u64,
    /// Whether nothing more will be written.
    pub(super) is_finished: bool,
    /// Bytes that have been sent at least once.
    pub(super) sent: u64,
    /// Everything before this has been acknowledged, and these runs beyond it.
    pub(super) acknowledged: u64,
    beyond: Ranges,
    /// What is to be sent again, and the end of what has been.
    lost: Ranges,
    repaired: u64,
    fin: Fin,
    /// The peer's limit (`MAX_STREAM_DATA`), and the one that a `STREAM_DATA_BLOCKED` frame has been sent
    /// for.
    pub(super) limit: u64,
    pub(super) blocked_at: Option<u64>,
    /// Whether the peer is to hear of the stream before there is data.
    pub(super) is_announced: bool,
    /// Given up with this code; whether the peer knows.
    pub(super) reset: Option<(u64, bool)>,
    /// Whether it stands in the queue of streams that have something to send.
    pub(super) is_queued: bool,
    /// The path on which it stays as long as that works.
    pub(super) path: Option<PathId>,
}

/// Where the end of the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    Unsent,
    Outstanding,
    Acknowledged,
}

/// Something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) position: u64,
    pub(super) length: u64,
    /// Whether it has been sent before.
    pub(super) is_again: bool,
}

impl SendStream {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            written: 0,
            is_finished: false,
            sent: 0,
            acknowledged: 0,
            beyond: Ranges::default(),
            lost: Ranges::default(),
            repaired: 0,
            fin: Fin::Unsent,
            limit,
            blocked_at: None,
            is_announced: true,
            reset: None,
            is_queued: false,
            path: None,
        }
    }

    /// What is to be sent next, when the connection has room for `room` bytes of new data; [`None`] if there
    /// is nothing, or flow control holds it back.
    pub(super) fn next(&self, room: u64) -> Option<Chunk> {
        if self.reset.is_some() {
            return None;
        }
        if let Some((start, end)) = self.lost.first() {
            return Some(Chunk { position: start, length: end - start, is_again: true });
        }
        let end = self.written.min(self.limit).min(self.sent.saturating_add(room));
        if end > self.sent || self.fin_is_due(self.sent) || !self.is_announced {
            return Some(Chunk { position: self.sent, length: end - self.sent, is_again: false });
        }
        None
    }

    /// Whether the end of the stream belongs to a frame that ends there.
    pub(super) fn fin_is_due(&self, end: u64) -> bool {
        self.is_finished && self.fin == Fin::Unsent && end == self.written
    }

    /// What is sent in a frame is on its way.
    pub(super) fn on_sent(&mut self, position: u64, length: u64, fin: bool) {
        let end = position + length;
        if position < self.sent {
            self.lost.remove(position, end);
            self.repaired = self.repaired.max(end);
        }
        self.sent = self.sent.max(end);
        self.is_announced = true;
        if fin {
            self.fin = Fin::Outstanding;
        }
    }

    /// A frame has arrived. Returns how many of its bytes were not known to have.
    pub(super) fn on_acknowledged(&mut self, position: u64, length: u64, fin: bool) -> u64 {
        let end = position + length;
        if fin {
            self.fin = Fin::Acknowledged;
        }
        if length == 0 || end <= self.acknowledged {
            return 0;
        }
        if !self.lost.is_empty() {
            self.lost.remove(position, end);
        }
        if position > self.acknowledged {
            return self.beyond.insert(position, end);
        }
        let known: u64 = if self.beyond.is_empty() {
            0
        } else {
            self.beyond.iter().map(|run| run.1.min(end).saturating_sub(run.0)).sum()
        };
        let new = end - self.acknowledged - known;
        self.acknowledged = end;
        while let Some((start, run_end)) = self.beyond.first() {
            if start > self.acknowledged {
                break;
            }
            self.acknowledged = self.acknowledged.max(run_end);
            self.beyond.pop_first();
        }
        new
    }

    /// A frame is taken for lost: what has not arrived otherwise is to be sent again.
    pub(super) fn on_lost(&mut self, position: u64, length: u64, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin && self.fin == Fin::Outstanding {
            self.fin = Fin::Unsent;
        }
        self.is_announced &= length > 0 || fin || self.sent > 0;
        let (mut start, end) = (position.max(self.acknowledged), position + length);
        for (run_start, run_end) in self.beyond.iter() {
            if run_start >= end || start >= end {
                break;
            }
            self.lost.insert(start, run_start.clamp(start, end));
            start = start.max(run_end);
        }
        self.lost.insert(start, end.max(start));
    }

    /// Whether everything, the end included, has been acknowledged, or the peer knows that it will not come
    /// (section 3.1: "Data Recvd" and "Reset Recvd").
    pub(super) fn is_done(&self) -> bool {
        match self.reset {
            Some((_, is_known)) => is_known,
            None => self.fin == Fin::Acknowledged && self.acknowledged == self.written,
        }
    }

    /// Whether flow control of the stream holds new data back.
    pub(super) fn is_blocked(&self) -> bool {
        self.reset.is_none() && self.written > self.limit && self.sent == self.limit
    }

    /// As if nothing had been sent yet, under this limit.
    pub(super) fn begin_anew(&mut self, limit: u64) {
        let fresh = Self::new(limit);
        let (written, is_finished, reset) = (self.written, self.is_finished, self.reset);
        let is_queued = self.is_queued;
        *self = Self { written, is_finished, reset, is_queued, is_announced: false, ..fresh };
    }

    /// Gives the stream up.
    pub(super) fn give_up(&mut self, code: u64) {
        self.reset = Some((code, false));
        self.lost.clear();
    }

    /// Whether this byte, which has been sent, has been sent again.
    pub(super) fn is_repaired(&self, position: u64) -> bool {
        position < self.repaired && !self.lost.contains(position)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.acknowledged <= self.sent && self.sent <= self.written.min(self.limit));
        let mut runs = self.beyond.iter().chain(self.lost.iter());
        assert!(runs.all(|(start, end)| start >= self.acknowledged && end <= self.sent));
        assert!(self.lost.iter().all(|(start, end)| (start..end).all(|byte| !self.beyond.contains(byte))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_sent_again_unless_it_has_arrived() {
        let mut stream = SendStream::new(10_000);
        stream.written = 5_000;
        stream.is_finished = true;
        assert_eq!(stream.next(3_000), Some(Chunk { position: 0, length: 3_000, is_again: false }));
        for position in [0, 1_000, 2_000, 3_000] {
            stream.on_sent(position, 1_000, false);
        }
        stream.on_sent(4_000, 1_000, true);
        assert_eq!(stream.next(u64::MAX - 5_000), None);
        assert_eq!(stream.on_acknowledged(2_000, 1_000, false), 1_000);
        stream.on_lost(0, 4_000, false);
        stream.check();
        assert_eq!(stream.next(0), Some(Chunk { position: 0, length: 2_000, is_again: true }));
        // The first transmission arrives after all.
        assert_eq!(stream.on_acknowledged(0, 2_000, false), 2_000);
        assert_eq!(stream.acknowledged, 3_000);
        assert_eq!(stream.next(0), Some(Chunk { position: 3_000, length: 1_000, is_again: true }));
        stream.on_sent(3_000, 1_000, false);
        stream.on_lost(4_000, 1_000, true);
        assert!(stream.fin_is_due(5_000) && !stream.is_done());
        stream.on_sent(4_000, 1_000, true);
        assert_eq!(stream.on_acknowledged(3_000, 2_000, true), 2_000);
        assert!(stream.is_done());
    }

    /// RFC 9000 section 4.1.
    #[test]
    fn flow_control_of_stream_and_connection_holds_data_back() {
        let mut stream = SendStream::new(1_500);
        stream.written = 5_000;
        assert_eq!(stream.next(1_000).map(|chunk| chunk.length), Some(1_000));
        stream.on_sent(0, 1_500, false);
        assert!(stream.next(1 << 30).is_none() && stream.is_blocked());
        stream.limit = 4_000;
        assert!(!stream.is_blocked());
        assert_eq!(stream.next(1 << 30).map(|chunk| chunk.length), Some(2_500));
        // What is sent again needs no room.
        stream.on_lost(0, 1_500, false);
        assert_eq!(stream.next(0).map(|chunk| chunk.length), Some(1_500));
    }

    #[test]
    fn an_empty_stream_ends_with_an_empty_frame() {
        let mut stream = SendStream::new(0);
        assert_eq!(stream.next(0), None);
        stream.is_finished = true;
        assert_eq!(stream.next(0), Some(Chunk { position: 0, length: 0, is_again: false }));
        stream.on_sent(0, 0, true);
        assert_eq!(stream.next(0), None);
        stream.on_lost(0, 0, true);
        assert!(stream.next(0).is_some());
        stream.on_sent(0, 0, true);
        stream.on_acknowledged(0, 0, true);
        assert!(stream.is_done());
    }
}
