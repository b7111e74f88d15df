//! A message that waits for transmission, whole or in part.

use super::message::Message;
use crate::time::Time;

/// A message, or the rest of one, that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedMessage {
    pub(super) message: Message,
    /// Identifies the message among those of which fragments are outstanding.
    pub(super) id: u32,
    /// When it is given up (RFC 3758 section 4.1); [`Time::NEVER`] with any other kind of reliability.
    pub(super) expires: Time,
    /// Bytes of the message that have left as fragments.
    pub(super) sent: u32,
    /// Its number in its stream, once the first fragment has left: the Message Identifier, of which DATA has
    /// the lower half as Stream Sequence Number.
    pub(super) mid: u32,
}

impl QueuedMessage {
    pub(super) const fn remaining(&self) -> u32 {
        self.message.payload.length - self.sent
    }
}
