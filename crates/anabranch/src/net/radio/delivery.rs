//! Packets leave the receiver in the order in which they were sent, in LTE and in NR.
//!
//! Order is kept by RLC in LTE (3GPP TS 36.322 section 5.1.3.2.2) and by PDCP in NR (TS 38.323 section
//! 5.2.2.2). A packet waits for those before it that are still under way. Behind a lost one, packets wait
//! until t-Reordering expires, which runs from the arrival of the first of them. Deviations: it is the first
//! in the order of sending, and t-Reordering does not expire for packets that are under way.

use anabranch_transport::report::Report;
use anabranch_transport::time::Duration;

use super::buffer::Buffer;
use super::served_link::{AIR_LOST_PACKETS, MEAN_HELD_MS, check_time};
use crate::net::packets::{DropCause, Fate, Held, Release};

/// The receiver of one direction; all times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    t_reordering: u64,
    /// From when a packet may leave to its departure.
    delay: u64,
    /// When the last packet could leave.
    last: u64,
    /// Whether packets were lost after the last one that arrived.
    has_gap: bool,
    air_lost: u64,
    released: u64,
    held_ns: u128,
}

impl Delivery {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(t_reordering: Duration, delay: Duration, key: &str) -> Result<Self, String> {
        check_time(key, "t_reordering", t_reordering, Duration::from_secs(10))?;
        Ok(Self { t_reordering: t_reordering.as_nanos(), delay: delay.as_nanos(), ..Self::default() })
    }

    /// Releases a packet that arrives at this time.
    pub(super) fn deliver(&mut self, packet: Held, arrival: u64, buffer: &Buffer) -> Release {
        let wait = if std::mem::take(&mut self.has_gap) { self.t_reordering } else { 0 };
        self.release(packet, arrival.saturating_add(wait), Fate::Delivered, buffer)
    }

    /// Releases a packet that is lost, whose first transmission ended at this time.
    pub(super) fn lose(&mut self, packet: Held, sent: u64, buffer: &Buffer) -> Release {
        self.has_gap = true;
        self.air_lost += 1;
        self.release(packet, sent, Fate::Dropped(DropCause::Lost), buffer)
    }

    fn release(&mut self, packet: Held, ready: u64, fate: Fate, buffer: &Buffer) -> Release {
        self.last = self.last.max(ready);
        let at = self.last.saturating_add(self.delay);
        self.released += 1;
        self.held_ns += u128::from(at - packet.arrived);
        buffer.release(packet, at, fate)
    }

    pub(super) fn report(&self, report: &mut Report<'_>) {
        report.count(AIR_LOST_PACKETS, self.air_lost);
        report.mean(MEAN_HELD_MS, self.held_ns as f64 / 1e6, self.released);
    }
}
