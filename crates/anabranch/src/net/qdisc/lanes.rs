//! What a discipline that has several queues reports of each of them.

use anabranch_transport::report::{Report, declare};

use crate::net::packets::Held;
use crate::net::sojourns::Sojourns;

declare! {
    /// The scalars of each queue, beside waiting times.
    SCALARS:
    /// Packets put into the queue, cross traffic included.
    PACKETS = "packets": One;
}

/// The names of bands, the most urgent one first.
pub(super) const BANDS: [&str; 8] =
    ["band_0", "band_1", "band_2", "band_3", "band_4", "band_5", "band_6", "band_7"];

/// The names of tins that have no other.
pub(super) const TINS: [&str; 8] = ["tin_0", "tin_1", "tin_2", "tin_3", "tin_4", "tin_5", "tin_6", "tin_7"];

/// All names of queues.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let named = ["best_effort", "bulk", "classic", "l4s", "video", "voice"];
    named.into_iter().chain(BANDS).chain(TINS)
}

/// What is known of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) arrived: u64,
    sojourns: Box<Sojourns>,
}

impl Lane {
    /// A packet is put into the queue.
    pub(super) fn enters(&mut self) {
        self.arrived += 1;
    }

    /// A packet is taken out to be sent.
    pub(super) fn leaves(&mut self, now: u64, packet: &Held) {
        self.sojourns.record(now - packet.arrived);
    }

    pub(super) fn memory(&self) -> usize {
        self.sojourns.memory()
    }

    pub(super) fn report(&self, name: &str, report: &mut Report<'_>) {
        let mut report = report.section(name);
        report.count(PACKETS, self.arrived);
        self.sojourns.report(&mut report);
    }
}
