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
use super::receiver::Receiver;
use crate::endpoint::Event;
use crate::wire::sctp::chunk::{Data, ErrorCause};

impl Association {
    /// Delivers parts of messages if nothing else can make room in the receive buffer, which is full. Returns
    /// whether it has.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_parts(&mut self) -> bool {
        let waits = |receiver: &Receiver| !receiver.received.has_gaps() && receiver.reassembly.bytes > 0;
        let Some(receiver) = self.state.receiver().filter(|receiver| waits(receiver)) else { return false };
        // What is missing is taken however full the buffer is, and what the application reads makes room.
        if self.unread > 0 {
            return false;
        }
        let before = receiver.reassembly.bytes;
        let interleaves = self.sender.interleaves;
        let is_legal = self.deliver_with(|receiver, tell| receiver.begin_parts(interleaves, tell));
        if is_legal == Some(false) {
            self.abort(self.last_now, ErrorCause::violation("a fragment does not continue a message"));
            return false;
        }
        self.refresh_parts();
        let Some(receiver) = self.state.receiver_mut() else { return false };
        let has_room = receiver.reassembly.bytes < before;
        // The peer must hear of the room, for which it waits.
        receiver.delayed_sack.immediate |= has_room;
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
        self.deliver_with(|receiver, tell| receiver.reassembly.insert_beside_parts(tsn, *data, tell));
        self.refresh_parts();
    }

    /// Does something that delivers messages or parts of them; nothing without a peer.
    pub(super) fn deliver_with<T>(
        &mut self,
        act: impl FnOnce(&mut Receiver, &mut dyn FnMut(Event)) -> T,
    ) -> Option<T> {
        let Self { state, outbox, stats, .. } = self;
        let receiver = state.receiver_mut()?;
        Some(act(receiver, &mut |event| {
            let is_message = match &event {
                Event::Received(_) => true,
                Event::ReceivedPart(part) => part.is_last,
                _ => false,
            };
            stats.messages_delivered += u64::from(is_message);
            outbox.emit(event);
        }))
    }
}
