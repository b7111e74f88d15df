//! The connection's flow control in both directions (RFC 9000 section 4.1).

use super::errors::{Violation, code, violation};

/// Bytes of all streams together.
#[derive(Debug)]
pub(super) struct FlowControl {
    /// What the peer permits, and how much of it is used.
    pub(super) limit: u64,
    pub(super) sent: u64,
    /// The limit that a `DATA_BLOCKED` frame has been sent for.
    pub(super) blocked_at: Option<u64>,
    /// What the peer has been told that it may send, how much of it has come, and how much of that has been
    /// read or given up.
    offered: u64,
    received: u64,
    pub(super) consumed: u64,
    window: u64,
}

impl FlowControl {
    pub(super) const fn new(window: u64) -> Self {
        Self { limit: 0, sent: 0, blocked_at: None, offered: window, received: 0, consumed: 0, window }
    }

    /// How much new data may be sent.
    pub(super) const fn room(&self) -> u64 {
        self.limit.saturating_sub(self.sent)
    }

    /// The peer permits more; less than before means nothing.
    pub(super) fn on_max_data(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// `bytes` have come beyond what had.
    pub(super) fn on_received(&mut self, bytes: u64) -> Result<(), Violation> {
        self.received += bytes;
        if self.received > self.offered {
            return Err(violation(code::FLOW_CONTROL_ERROR, "more data came than the connection may have"));
        }
        Ok(())
    }

    /// Whether a `MAX_DATA` frame is due: half of the window has been used up (section 4.2).
    pub(super) const fn wants_update(&self) -> bool {
        self.offered - self.consumed < self.window / 2 + self.window % 2
    }

    /// The limit of a `MAX_DATA` frame that is sent now.
    pub(super) fn offer(&mut self) -> u64 {
        self.offered = self.offered.max(self.consumed + self.window);
        self.offered
    }

    #[cfg(test)]
    pub(super) const fn offered(&self) -> u64 {
        self.offered
    }

    #[cfg(test)]
    pub(super) const fn received(&self) -> u64 {
        self.received
    }
}
