//! What holds each path of a sender back, and what a receiver waits for, for time accounts. It is read only
//! on request.

use super::association::Association;
use super::tsn;
use crate::cc::CongestionControl as _;
use crate::flow::PathId;
use crate::observed::{LimitedBy, PathLimit, Transmission};
use crate::path::PathState;

impl Association {
    /// What holds each path back now; empty without an association.
    pub(super) fn limits_of_paths(&self, limits: &mut Vec<PathLimit>) {
        let opens = self.state.is_opening();
        if !self.state.is_alive() {
            return;
        }
        let paths = self.routing.ids();
        limits.extend(paths.map(|path| {
            let limit = if opens { LimitedBy::Handshake } else { self.limit_of_path(path) };
            let earliest = || self.sender.outstanding.chunks.front().map(|chunk| chunk.path);
            PathLimit::new(path, limit, earliest, self.routing.paths[path.index()].rtt.srtt())
        }));
    }

    fn limit_of_path(&self, path: PathId) -> LimitedBy {
        let (own, status) = (&self.routing.paths[path.index()], &self.routing.status[path.index()]);
        let is_current = self.routing.selection.current == path;
        let carries_new = if self.parts.shares_load() { self.routing.carries_new(path) } else { is_current };
        let is_lonely = carries_new && status.state == PathState::PotentiallyFailed;
        if !self.allows_data(path) || (status.state != PathState::Active && !is_lonely) {
            return LimitedBy::PathDown;
        }
        if !carries_new {
            return LimitedBy::Standby;
        }
        let first = self.sender.outstanding.first_tsn;
        let has_timed_out = own.timeout_exit.is_some_and(|exit| tsn::at_or_before(first, exit));
        if has_timed_out && !self.sender.outstanding.chunks.is_empty() {
            LimitedBy::Timeout
        } else if own.fast_recovery_exit.is_some() {
            LimitedBy::Recovery
        } else {
            self.limit_of_new_data(path)
        }
    }

    /// What holds new data back, checked in the order in which it is sent (RFC 9260 section 6.1).
    fn limit_of_new_data(&self, path: PathId) -> LimitedBy {
        let own = &self.routing.paths[path.index()];
        let has_queued = !self.sender.queue.is_empty();
        if !has_queued && self.sender.outstanding.lost() == 0 && self.sender.awaited_room.is_none() {
            return LimitedBy::Application;
        }
        if self.sender.outstanding.on(path) + self.parts.copied(path) >= own.cc.limits().cwnd {
            return LimitedBy::CongestionWindow;
        }
        if !has_queued && self.sender.outstanding.lost() == 0 {
            return LimitedBy::SendBuffer;
        }
        if has_queued
            && self.sender.next_fragment() > self.sender.peer_rwnd
            && self.sender.outstanding.bytes() > 0
        {
            return LimitedBy::ReceiveWindow;
        }
        let is_little = self.parameters.nagle
            && self.sender.outstanding.bytes() > 0
            && self.sender.queue.bytes < u64::from(self.sender.fragment_limit);
        if has_queued && is_little {
            return if self.sender.awaited_room.is_some() {
                LimitedBy::SendBuffer
            } else {
                LimitedBy::Application
            };
        }
        if self.routing.selection.held {
            return LimitedBy::Scheduler;
        }
        // Otherwise it is Max.Burst, which is part of congestion control (section 6.1 D).
        self.limit_of_sharing(path).unwrap_or(LimitedBy::CongestionWindow)
    }

    /// The last transmission of the chunk with this TSN.
    pub(super) fn sent(&self, missing: u64) -> Option<Transmission> {
        let chunk = self.sender.outstanding.chunks.get(self.sender.outstanding.index(missing as u32))?;
        Some(Transmission { path: chunk.path, is_again: chunk.transmissions > 1 })
    }
}
