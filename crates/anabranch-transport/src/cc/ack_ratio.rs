//! How many segments one acknowledgement acknowledges, as BIC and the first CUBIC estimate it to make up
//! for delayed acknowledgements (Linux's `tcp_bic.c`: `delayed_ack`, `ACK_RATIO_SHIFT`).

use super::window::Window;
use super::{AckEvent, Cumulative, Rules};

/// A moving average of segments per acknowledgement in 1/16, weight 1/16.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRatio(u32);

impl Default for AckRatio {
    /// The ratio when every second segment is acknowledged.
    fn default() -> Self {
        Self(2 << 4)
    }
}

impl AckRatio {
    /// Takes an acknowledgement that finds nothing missing. One that acknowledges nothing cumulatively counts
    /// too, but not in 2.6.20 (`bictcp_acked`: `cnt > 0`).
    pub(super) fn on_ack(&mut self, window: &Window, event: &AckEvent) {
        let Cumulative { segments, was_open, .. } = window.found_by(event);
        let least = u32::from(window.rules == Rules::Linux2620 || event.cumulative.is_none());
        if was_open && segments >= least {
            // A stretched acknowledgement counts as at most 16 x 16 segments, far above any real one.
            self.0 = (self.0 + segments.min(256)).saturating_sub(self.0 >> 4).max(1);
        }
    }

    #[cfg(test)]
    pub(super) const fn sixteenths(self) -> u32 {
        self.0
    }

    /// The number of acknowledgements for `per` segments, at least one.
    pub(super) fn scaled(self, per: u32) -> u32 {
        let scaled = (u64::from(per) << 4) / u64::from(self.0);
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }
}
