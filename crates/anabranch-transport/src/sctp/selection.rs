//! The policy chooses among the paths.

use super::association::Association;
use crate::endpoint::Event;
use crate::path::{PathEvent, PathSelector as _, Selection};
use crate::time::Time;
use crate::wire::sctp::chunk::SACK_HEADER_BYTES;

impl Association {
    /// Tells the policy what happened, and reports its decision.
    pub(super) fn on_path_event(&mut self, now: Time, event: PathEvent) {
        if self.parts.probing.is_some() {
            self.on_measured_event(now, event);
        } else {
            self.select(now, event);
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Time, event: PathEvent) {
        let from = self.routing.selection.primary;
        if self.parts.addresses.is_some() {
            self.select_among_addresses(now, event);
        } else {
            self.routing.selector.select(now, event, &self.routing.status, &mut self.routing.selection);
        }
        let Selection { primary: to, reason, .. } = self.routing.selection;
        if to != from {
            self.stats.record_primary_change(now, from, to);
            self.outbox.emit(Event::PrimaryChanged { from, to, reason });
        }
    }

    /// The policy does not know about changing addresses: it continues from its own choice.
    #[cold]
    fn select_among_addresses(&mut self, now: Time, event: PathEvent) {
        if let Some(addresses) = &self.parts.addresses {
            self.routing.selection = addresses.chosen;
        }
        self.routing.selector.select(now, event, &self.routing.status, &mut self.routing.selection);
        self.keep_to_present_addresses();
    }

    /// Finds the longest chunks that fit into a packet on every path.
    pub(super) fn fit_chunks(&mut self) {
        let room = self.routing.smallest_mtu() - self.local.headers_bytes;
        self.sender.fragment_limit = (room - self.sender.data_header) & !3;
        self.routing.sack_entries = ((room - SACK_HEADER_BYTES) / 4) as usize;
    }
}
