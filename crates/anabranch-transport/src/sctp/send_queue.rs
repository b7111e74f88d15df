//! Messages that wait for transmission: in the order in which they were handed over, or as a stream scheduler
//! chooses.

use std::collections::VecDeque;

use super::message::Message;
use super::queued_message::QueuedMessage;
use super::stream_scheduler::StreamScheduler;
use crate::endpoint::Reliability;
use crate::time::Time;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    /// Messages in their order, the next one first; with a scheduler, only the message that it has chosen.
    pub(super) messages: VecDeque<QueuedMessage>,
    /// Bytes that wait.
    pub(super) bytes: u64,
    next_id: u32,
    scheduler: Option<Box<StreamScheduler>>,
}

impl SendQueue {
    /// A queue from which this scheduler chooses; without a scheduler, messages leave in the order in which
    /// they came.
    pub(super) fn new(scheduler: Option<Box<StreamScheduler>>) -> Self {
        Self { scheduler, ..Self::default() }
    }

    /// Lets chunks of different messages alternate from now on.
    pub(super) fn interleave(&mut self) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.interleaves = true;
        }
    }

    pub(super) fn push(&mut self, now: Time, message: Message) {
        if self.scheduler.is_some() {
            self.push_to_stream(now, message);
            return;
        }
        let waiting = self.queued(now, message);
        self.messages.push_back(waiting);
    }

    #[cold]
    fn push_to_stream(&mut self, now: Time, message: Message) {
        let waiting = self.queued(now, message);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.push(waiting);
            self.choose();
        }
    }

    #[inline(always)]
    fn queued(&mut self, now: Time, message: Message) -> QueuedMessage {
        let expires = match message.reliability {
            Reliability::Timed(lifetime) => now + lifetime,
            _ => Time::NEVER,
        };
        self.bytes += u64::from(message.payload.length);
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        QueuedMessage { message, id, expires, sent: 0, mid: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Records that `bytes` of the first message have left, and removes it when all of it has.
    #[inline]
    pub(super) fn advance(&mut self, bytes: u32) {
        self.bytes -= u64::from(bytes);
        let front = self.messages.front_mut().expect("a fragment left, so a message waits");
        front.sent += bytes;
        let stream = front.message.stream;
        if front.remaining() == 0 {
            self.messages.pop_front();
        }
        if self.scheduler.is_some() {
            self.charge(stream, bytes);
        }
    }

    #[cold]
    fn charge(&mut self, stream: u16, bytes: u32) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.charge(stream, bytes);
            self.choose();
        }
    }

    /// Records that a packet has been filled, after which another stream may be next.
    #[inline]
    pub(super) fn finish_packet(&mut self) {
        if self.scheduler.is_some() {
            self.choose_for_new_packet();
        }
    }

    #[cold]
    fn choose_for_new_packet(&mut self) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.finish_packet();
            self.choose();
        }
    }

    /// All messages that wait.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.messages.iter().chain(self.scheduler.iter().flat_map(|scheduler| scheduler.iter()))
    }

    /// Removes the message at this position of [`SendQueue::iter`] and what is left of it.
    pub(super) fn remove(&mut self, index: usize) -> Option<QueuedMessage> {
        let removed = match &mut self.scheduler {
            None => self.messages.remove(index)?,
            Some(scheduler) => {
                let first = usize::from(!self.messages.is_empty());
                let removed =
                    if index < first { self.messages.pop_front() } else { scheduler.remove(index - first) };
                self.choose();
                removed?
            }
        };
        self.bytes -= u64::from(removed.remaining());
        Some(removed)
    }

    /// Lets the scheduler choose again. A message that has begun to leave goes on unless chunks may
    /// alternate.
    #[cold]
    fn choose(&mut self) {
        let Some(scheduler) = &mut self.scheduler else { return };
        if let Some(front) = self.messages.front()
            && front.sent > 0
            && !scheduler.interleaves
        {
            return;
        }
        if let Some(front) = self.messages.pop_front() {
            scheduler.put_back(front);
        }
        if let Some(next) = scheduler.choose() {
            self.messages.push_back(next);
        }
    }
}
