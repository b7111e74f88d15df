//! Messages that wait for transmission, in the order in which they were handed over.

use super::short_queue::ShortQueue;
use crate::endpoint::{Message, Reliability};
use crate::time::Time;

/// A message, or the rest of one, that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedMessage {
    pub(super) message: Message,
    /// Tells the fragments of different messages apart.
    pub(super) id: u32,
    /// When it is given up (RFC 3758 section 4.1); [`Time::NEVER`] for any other reliability.
    pub(super) expires: Time,
    /// Bytes of it that have left as fragments.
    pub(super) sent: u32,
    /// Its stream sequence number, once the first fragment has left.
    pub(super) ssn: u16,
}

impl QueuedMessage {
    pub(super) const fn remaining(&self) -> u32 {
        self.message.payload.length - self.sent
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pub(super) messages: ShortQueue<QueuedMessage>,
    /// Bytes that wait.
    pub(super) bytes: u64,
    next_id: u32,
}

impl SendQueue {
    pub(super) fn push(&mut self, now: Time, message: Message) {
        let expires = match message.reliability {
            Reliability::Timed(lifetime) => now + lifetime,
            _ => Time::NEVER,
        };
        self.bytes += u64::from(message.payload.length);
        self.messages.push_back(QueuedMessage { message, id: self.next_id, expires, sent: 0, ssn: 0 });
        self.next_id = self.next_id.wrapping_add(1);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes note that `bytes` of the first message have left; removes it when all of it has.
    pub(super) fn advance(&mut self, bytes: u32) {
        self.bytes -= u64::from(bytes);
        let front = self.messages.front_mut().expect("a fragment left, so a message waits");
        front.sent += bytes;
        if front.remaining() == 0 {
            self.messages.pop_front();
        }
    }

    /// Removes the message at this position and what is left of it.
    pub(super) fn remove(&mut self, index: usize) -> Option<QueuedMessage> {
        let removed = self.messages.remove(index)?;
        self.bytes -= u64::from(removed.remaining());
        Some(removed)
    }
}
