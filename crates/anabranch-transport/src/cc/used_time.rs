//! The time that counts for a control whose window grows with time.

use super::AckEvent;
use crate::time::{Duration, Time};

/// Finds the times in which the application or the peer's window, and not the congestion window, limits the
/// sender. Its window does not grow meanwhile, and a control that goes by the time since the last loss must
/// not make up for it afterwards (RFC 9438 section 4.2).
///
/// The time before an acknowledgement counts if the window limits the sender when it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsedTime {
    seen: Time,
}

impl UsedTime {
    /// The time since the last call that does not count, at an acknowledgement.
    pub(super) fn unused_at_ack(&mut self, event: &AckEvent) -> Duration {
        let unused = self.unused_at(event.now);
        if event.is_window_limited { Duration::ZERO } else { unused }
    }

    /// The time since the last call, in which nothing was outstanding and none of which counts.
    pub(super) fn unused_at(&mut self, now: Time) -> Duration {
        let unused = now.saturating_since(self.seen);
        self.seen = now;
        unused
    }
}
