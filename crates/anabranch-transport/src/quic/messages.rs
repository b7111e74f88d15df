//! Messages that wait to leave in DATAGRAM frames (RFC 9221).

use std::collections::VecDeque;

use crate::flow::Payload;

/// Messages that wait.
#[derive(Debug, Default)]
pub(super) struct Messages {
    queue: VecDeque<Payload>,
    bytes: u64,
}

impl Messages {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Payload> {
        self.queue.front()
    }

    pub(super) fn pop(&mut self) -> Option<Payload> {
        let payload = self.queue.pop_front()?;
        self.bytes -= u64::from(payload.length);
        Some(payload)
    }

    /// Adds a message. The oldest one makes room for it where there are more than `most` bytes.
    pub(super) fn push(&mut self, payload: Payload, most: u64) -> Option<Payload> {
        self.bytes += u64::from(payload.length);
        self.queue.push_back(payload);
        if self.bytes > most { self.pop() } else { None }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Payload> + '_ {
        self.queue.iter().copied()
    }
}
