//! When a SACK is due (RFC 9260 section 6.2).

use crate::flow::PathId;
use crate::time::Time;

/// What the receiver has to remember since the last SACK.
#[expect(clippy::struct_excessive_bools, reason = "independent marks of the packet being taken in")]
#[derive(Debug)]
pub(super) struct DelayedSack {
    /// Packets with data since the last SACK.
    pub(super) packets: u32,
    /// Whether a SACK must be sent without delay.
    pub(super) immediate: bool,
    /// The latest time at which a SACK is due.
    pub(super) timer: Time,
    /// The path of the last data.
    pub(super) source: PathId,
    /// Whether the packet being taken in holds data or calls for a SACK in another way.
    pub(super) packet_has_data: bool,
    /// The packet holds data that has not arrived before.
    pub(super) packet_has_new_data: bool,
    /// The packet holds data that has arrived before.
    pub(super) packet_has_duplicates: bool,
}

impl DelayedSack {
    pub(super) const fn new(immediate: bool) -> Self {
        Self {
            packets: 0,
            immediate,
            timer: Time::NEVER,
            source: PathId(0),
            packet_has_data: false,
            packet_has_new_data: false,
            packet_has_duplicates: false,
        }
    }

    pub(super) const fn is_pending(&self) -> bool {
        self.packets > 0
    }

    pub(super) fn sent(&mut self) {
        self.packets = 0;
        self.immediate = false;
        self.timer = Time::NEVER;
    }
}
