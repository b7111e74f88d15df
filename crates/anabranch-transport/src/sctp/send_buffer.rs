//! The send buffer takes messages from the application, or refuses them.

use super::association::Association;
use super::message::Message;
use crate::endpoint::{self, Event, Reliability};
use crate::time::Time;

impl Association {
    #[inline(never)]
    pub(super) fn enqueue(&mut self, now: Time, message: endpoint::Message) {
        let Ok(message) = Message::try_from(message) else {
            self.outbox.emit(Event::Refused(message.payload));
            return;
        };
        let length = message.payload.length;
        if self.parts.pause(message.stream) {
            self.refuse(message, 1);
            return;
        }
        if !self.state.takes_messages() || !self.can_take(message.stream, u64::from(length)) {
            self.outbox.emit(Event::Refused(message.payload));
            return;
        }
        if self.sender.buffered() + u64::from(length) > self.parameters.send_buffer {
            let may_make_room = matches!(message.reliability, Reliability::Priority(_));
            if let Reliability::Priority(priority) = message.reliability {
                self.make_room(u64::from(length), priority);
            }
            // Linux takes the message that fills the buffer (`sctp_wspace` in `sctp_sendmsg_to_asoc`).
            let needed = if self.sender.outstanding.memory.is_charged() { 1 } else { u64::from(length) };
            if self.sender.buffered() + needed > self.parameters.send_buffer {
                self.refuse(message, if may_make_room { 1 } else { needed });
                self.record_blocking(now);
                return;
            }
        }
        self.sender.queue.push(now, message);
        self.sender.outstanding.memory.charge_message(length, self.sender.fragment_limit);
        self.sender.is_past_nagle = false;
        self.send(now);
    }

    /// Refuses a message that needs this much room in the send buffer, in bytes. An application that tries
    /// the same message again waits for that room. Of another one it is not known whether it waits, so that
    /// any room ends what counts as waiting; with load sharing, times are accounted for by that.
    fn refuse(&mut self, message: Message, room: u64) {
        let is_tried_again = self.sender.last_refused.replace(message.payload) == Some(message.payload);
        let room = if is_tried_again && !self.parts.shares_load() { room } else { 1 };
        self.sender.awaited_room = Some(self.sender.awaited_room.map_or(room, |awaited| awaited.min(room)));
        self.outbox.emit(Event::Refused(message.payload));
    }

    /// Whether a message of `length` bytes can be sent on this stream, now or later: it is not empty, it is
    /// no larger than the send buffer, and the stream exists.
    pub fn can_take(&self, stream: u16, length: u64) -> bool {
        (1..=self.parameters.send_buffer).contains(&length)
            && usize::from(stream) < self.sender.next_mid.len()
    }
}
