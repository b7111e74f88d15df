//! The hooks by which the procedures of the other files ask the [parts](super::parts) of an association,
//! where these do something to it.

use super::association::Association;
use crate::flow::PathId;
use crate::path::PathEvent;
use crate::time::Time;

impl Association {
    /// Finds out whether there is work at the end of an input.
    pub(super) fn refresh_parts(&mut self) {
        let delivers_parts =
            self.state.receiver().is_some_and(|receiver| receiver.reassembly.delivers_parts());
        self.parts.is_any = self.parts.probing.is_some()
            || delivers_parts
            || self.parts.addresses.is_some()
            || self.parts.resets.is_some()
            || self.parameters.procedures.bundles_forward_tsn
            || self.parameters.procedures.holds_back_writes;
    }

    /// The association is open.
    pub(super) fn open_parts(&mut self, now: Time) {
        if self.parts.probing.is_some() {
            self.on_path_event(now, PathEvent::Opened);
        }
    }

    /// A SACK for `packets` packets has acknowledged data, of which the paths have not heard.
    #[inline(always)]
    pub(super) fn on_sack_read(&mut self, packets: u8, advanced: bool) {
        if self.parts.sharing.is_some() {
            self.record_shared_sack(packets, advanced);
        }
    }

    /// The paths have heard of a SACK.
    #[inline(always)]
    pub(super) fn on_sack_applied(&mut self, now: Time) {
        if self.parts.probing.is_some() {
            self.follow_sack(now);
        }
    }

    /// What a SACK reports missing has been counted.
    #[inline(always)]
    pub(super) fn on_sack_done(&mut self, now: Time) {
        if self.parts.sharing.is_some() {
            self.release_copies(now);
            self.reschedule(now);
        }
    }

    /// A gap block acknowledges the chunk at this position, which is in flight.
    #[inline(always)]
    pub(super) fn on_gap_acked(&mut self, index: usize, is_earliest: bool) {
        if self.parts.sharing.is_some() {
            self.record_gap_acked(index, is_earliest);
        }
    }

    /// A chunk in flight on `path` was found lost.
    #[inline(always)]
    pub(super) fn on_chunk_lost(&mut self, path: PathId, tsn: u32, length: u32) {
        if self.parts.probing.is_some() {
            self.record_probe_loss(path, tsn, length);
        }
    }

    /// Sends new data, as load sharing has it or on the path in use.
    #[inline(always)]
    pub(super) fn send_new_data(&mut self, now: Time) {
        if self.parts.sharing.is_some() {
            self.send_shared(now);
        } else if self.sender.outstanding.lost() == 0 && !self.sender.queue.is_empty() {
            if self.parts.probing.is_some() {
                self.send_probe(now);
            }
            self.send_new(now);
        }
    }

    /// Lets the parts do what follows from the input that has just been handled.
    #[inline]
    pub(super) fn finish_input(&mut self, now: Time) {
        if self.parts.is_any {
            self.finish_parts(now);
        }
    }

    #[cold]
    fn finish_parts(&mut self, now: Time) {
        if self.parts.resets.is_some() {
            self.routing.next_of_paths = None;
            self.continue_stream_reconfiguration(now);
        }
        self.sender.is_past_nagle = self.parameters.procedures.holds_back_writes;
        if self.parameters.procedures.bundles_forward_tsn {
            self.bundle_forward_tsn();
        }
    }

    /// Timers may have expired.
    #[cold]
    pub(super) fn on_part_timers(&mut self, now: Time) {
        if self.parts.addresses.as_ref().is_some_and(|addresses| addresses.t4 <= now) {
            self.on_t4(now);
        }
        if self.parts.resets.as_ref().is_some_and(|resets| resets.timer() <= now) {
            self.on_reconfiguration_timer(now);
        }
        if self.parts.probing.as_ref().is_some_and(|probing| probing.tick <= now) {
            self.on_policy_tick(now);
        }
    }
}
