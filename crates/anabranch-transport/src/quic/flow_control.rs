//! The connection's flow control in both directions (RFC 9000 section 4.1).

use super::errors::{Violation, code, violation};

/// What may be on its way or unread, and when the peer is told of more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) bytes: u64,
    /// Once more than this part of it, the first of so many, has been read.
    pub(super) parts: u64,
}

impl Window {
    /// Whether the peer is to be told that it may send beyond `offered`.
    pub(super) const fn wants_update(self, offered: u64, read: u64) -> bool {
        read + self.bytes - offered > self.bytes / self.parts
    }
}

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
    window: Window,
}

impl FlowControl {
    pub(super) const fn new(window: Window) -> Self {
        Self { limit: 0, sent: 0, blocked_at: None, offered: window.bytes, received: 0, consumed: 0, window }
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

    /// Whether a `MAX_DATA` frame is due (section 4.2).
    pub(super) const fn wants_update(&self) -> bool {
        self.window.wants_update(self.offered, self.consumed)
    }

    /// The limit of a `MAX_DATA` frame that is sent now.
    pub(super) fn offer(&mut self) -> u64 {
        self.offered = self.offered.max(self.consumed + self.window.bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An eighth in quinn, a quarter in quic-go, half elsewhere.
    #[test]
    fn the_peer_is_told_once_a_part_has_been_read() {
        for (parts, read) in [(8, 1_000), (4, 2_000), (2, 4_000)] {
            let mut flow = FlowControl::new(Window { bytes: 8_000, parts });
            flow.on_received(read + 1).unwrap();
            flow.consumed = read;
            assert!(!flow.wants_update());
            flow.consumed += 1;
            assert!(flow.wants_update());
            assert_eq!(flow.offer(), 8_000 + read + 1);
            assert!(!flow.wants_update());
        }
    }
}
