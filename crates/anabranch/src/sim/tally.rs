//! Counts the packets that endpoints have sent, and their fates.

use anabranch_transport::time::Time;

/// Counts of packets: sent + duplicated = delivered + dropped + in flight.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    /// Copies that links have made.
    pub(super) duplicated: u64,
    pub(super) delivered: u64,
    /// Dropped packets, including drops at times that lie ahead.
    dropped: u64,
    /// The drop times of packets that were computed ahead of time. Past times are removed now and then.
    drops_ahead: Vec<Time>,
}

impl Tally {
    /// Panics unless this number of packets in flight completes the sum.
    pub(super) fn check(&self, in_flight: u64) {
        let Self { sent, duplicated, delivered, dropped, .. } = *self;
        assert_eq!(sent + duplicated, delivered + dropped + in_flight, "packets are conserved");
    }

    /// The number of packets dropped by this time.
    pub(super) fn dropped(&self, now: Time) -> u64 {
        self.dropped - self.drops_ahead.iter().filter(|&&at| at > now).count() as u64
    }

    /// Counts a packet that is dropped at `at`, which may lie ahead.
    pub(super) fn count_drop(&mut self, now: Time, at: Time) {
        self.dropped += 1;
        if at > now {
            if self.drops_ahead.len() == self.drops_ahead.capacity() {
                self.drops_ahead.retain(|&at| at > now);
                self.drops_ahead.reserve(self.drops_ahead.len().max(16));
            }
            self.drops_ahead.push(at);
        }
    }

    /// A packet that was counted as dropped at `at` was not.
    pub(super) fn take_back_drop(&mut self, at: Time) {
        self.dropped -= 1;
        if let Some(index) = self.drops_ahead.iter().position(|&ahead| ahead == at) {
            self.drops_ahead.swap_remove(index);
        }
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.drops_ahead.capacity() * size_of::<Time>()
    }
}
