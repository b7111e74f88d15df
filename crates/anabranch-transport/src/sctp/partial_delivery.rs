//! Partial delivery: parts of a message go to the application before its rest has arrived (RFC 9260 section
//! 6.9).
//!
//! It begins when the receive buffer is full and nothing of what has arrived is waiting for a chunk that is
//! missing: no further chunk would be taken, so that the rest of the messages that fill the buffer could
//! never come. A message that has room is delivered whole. RFC 6458 section 8.1.21 leaves the point to the
//! receiver; FreeBSD begins at a share of the buffer, Linux with the chunk that fills it (`sctp_eat_data`).
//!
//! Once begun, each further fragment is delivered as it comes. Without interleaving, other messages of the
//! association wait until the message has ended or was given up (RFC 6458 section 8.1.20); with it, a message
//! of each stream is delivered in parts at the same time (Linux: `sctp_intl_start_pd`).

use super::association::Association;
use crate::endpoint::Event;
use crate::wire::sctp::chunk::{Data, ErrorCause};

impl Association {
    /// Delivers parts of messages if nothing else can make room in the receive buffer, which is full. Returns
    /// whether it has.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_parts(&mut self) -> bool {
        // What is missing is taken however full the buffer is, and what the application reads makes room.
        if self.tcb.receiver.received.has_gaps() || self.unread > 0 || self.tcb.receiver.reassembly.bytes == 0
        {
            return false;
        }
        let before = self.tcb.receiver.reassembly.bytes;
        let is_legal = self.deliver_with(|association, tell| {
            if association.sender.interleaves {
                association
                    .tcb
                    .receiver
                    .interleaved
                    .begin_parts(&mut association.tcb.receiver.reassembly.bytes, tell);
                true
            } else {
                association.tcb.receiver.reassembly.begin_parts(tell)
            }
        });
        if !is_legal {
            self.abort(self.last_now, ErrorCause::violation("a fragment does not continue a message"));
            return false;
        }
        self.note_rare_parts();
        let has_room = self.tcb.receiver.reassembly.bytes < before;
        // The peer must hear of the room, for which it waits.
        self.tcb.receiver.delayed_sack.immediate |= has_room;
        has_room
    }

    /// Delivers parts of messages if nothing else can make room, as when the receive buffer is full: for a
    /// driver for which the fragments that wait take more memory than their bytes say. The caller then
    /// [asks](crate::endpoint::Endpoint::poll_output) what the endpoint wants done.
    pub fn deliver_parts_now(&mut self) {
        self.deliver_parts();
    }

    /// Takes a DATA chunk while a message is delivered in parts.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_beside_parts(&mut self, tsn: u64, data: &Data) {
        self.deliver_with(|association, tell| {
            association.tcb.receiver.reassembly.insert_beside_parts(tsn, *data, tell)
        });
        self.note_rare_parts();
    }

    /// Does something that delivers messages or parts of them.
    pub(super) fn deliver_with<T>(&mut self, act: impl FnOnce(&mut Self, &mut dyn FnMut(Event)) -> T) -> T {
        let mut events = Vec::new();
        let result = act(self, &mut |event| events.push(event));
        for event in events {
            let is_message = match &event {
                Event::Received(_) => true,
                Event::ReceivedPart(part) => part.is_last,
                _ => false,
            };
            self.stats.messages_delivered += u64::from(is_message);
            self.outbox.emit(event);
        }
        result
    }
}
