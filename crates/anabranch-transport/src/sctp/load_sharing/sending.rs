//! Data and copies leave over several paths, and SACKs come back.

use super::RESCHEDULING_THRESHOLD;
use super::blocking::{Blocking, Ground};
use super::config::{CwndUpdate, Sides};
use super::copies::{Copied, Ended};
use crate::cc::{AckEvent, CongestionControl as _, CongestionEvent, CongestionKind, SentEvent};
use crate::flow::PathId;
use crate::observed::LimitedBy;
use crate::path::scheduler::{Decision, Pending, Scheduler as _};
use crate::sctp::association::Association;
use crate::sctp::outstanding::{Buffered, SentState};
use crate::time::Time;

impl Association {
    /// CUC, DAC: notes that a gap block acknowledges the chunk at this position, which is still in flight.
    pub(in crate::sctp) fn record_gap_acked(&mut self, index: usize, is_earliest: bool) {
        let Some(sharing) = &mut self.parts.sharing else { return };
        sharing.lowest_gap_acked.get_or_insert(self.sender.outstanding.tsn(index));
        let chunk = self.sender.outstanding.chunks[index];
        let advances = is_earliest
            || (sharing.config.cwnd_update == CwndUpdate::PseudoCumulativeV2
                && !self.sender.outstanding.has_in_flight_of(chunk.path, chunk.is_again(), index));
        self.routing.paths[chunk.path.index()].acked.pseudo_cumulative |= advances;
    }

    /// DAC: a SACK that is for several packets and acknowledges data of only one path reports what lies
    /// before that data missing once more (FreeBSD `sctp_strike_gap_ack_chunks`).
    pub(in crate::sctp) fn record_shared_sack(&mut self, packets: u8, advanced: bool) {
        let mut paths = self.routing.paths.iter().filter(|path| path.acked.bytes > 0);
        let is_unmixed = packets >= 2 && !advanced && paths.next().is_some() && paths.next().is_none();
        if let Some(sharing) = &mut self.parts.sharing {
            let lowest = sharing.lowest_gap_acked.take();
            sharing.twice_missing_below = lowest.filter(|_| is_unmixed);
        }
    }

    /// Sends new data on all paths that the scheduler names.
    pub(in crate::sctp) fn send_shared(&mut self, now: Time) {
        for path in self.routing.ids() {
            if self.sender.outstanding.on(path) == 0 {
                self.shrink_idle_path(now, path);
            }
        }
        // What the views are of: the length of the next chunk, and whether nothing was outstanding.
        let mut seen = None;
        let mut limits = Buffered::default();
        let mut waits = false;
        // The windows of the paths are asked below.
        while !waits && self.may_send_new(now, self.routing.selection.current, u32::MAX) {
            let Self { parameters, routing, sender, parts, .. } = self;
            let Some(sharing) = &mut parts.sharing else { return };
            sharing.record_changes(&mut sender.outstanding);
            let ground = Ground { parameters, routing, sender };
            let length = sender.next_fragment();
            let is_of = Some((length, sender.outstanding.bytes() == 0));
            if seen.is_none() {
                // For this occasion, Max.Burst counts from what is outstanding now.
                limits = ground.limits(&sharing.config, sender.outstanding.bytes());
                sharing.refresh_rooms(ground);
            }
            sharing.refresh_changed(ground, limits, length);
            if seen != is_of {
                sharing.refresh_all(ground, limits, length);
            }
            seen = is_of;
            let data = Pending::new(now, length, sender.queue.bytes, sender.peer_rwnd);
            match sharing.scheduler.schedule(&data, sharing.views.as_slice()) {
                Decision::Duplicate(paths) if !paths.is_empty() => self.send_on(now, &paths),
                Decision::Send(path) => self.send_on(now, &[path]),
                Decision::Duplicate(_) | Decision::Wait => waits = true,
            }
        }
        if let Some(sharing) = &mut self.parts.sharing {
            sharing.is_waiting = waits;
        }
        self.record_blocking(now);
    }

    /// Fills one packet, sends it on the first of these paths, and sends copies of it on the others.
    fn send_on(&mut self, now: Time, paths: &[PathId]) {
        let Some((&path, further)) = paths.split_first() else { return };
        let (first, before) = (self.sender.outstanding.next_tsn(), self.sender.outstanding.bytes());
        self.send_packet(now, path);
        if let Some(sharing) = &mut self.parts.sharing {
            sharing.copies.shares[path.index()].sent_bytes += self.sender.outstanding.bytes() - before;
        }
        for &path in further {
            self.send_copies(now, path, first);
        }
    }

    /// Chunk rescheduling (INET's `chunkReschedulingControl`): where a path has room, but too much of its
    /// share of a buffer holds chunks that arrived and wait for an earlier one, that one is sent again there.
    /// To the path on which it was sent before, that is a loss.
    pub(in crate::sctp) fn reschedule(&mut self, now: Time) {
        let Some(sharing) = &self.parts.sharing else { return };
        let sides = sharing.config.chunk_rescheduling;
        let Some(blocking) = self.sender.outstanding.chunks.front() else { return };
        // A chunk is moved once.
        let can_move = blocking.state == SentState::InFlight && blocking.transmissions == 1;
        if sides == Sides::Off
            || !can_move
            || self.sender.outstanding.lost() > 0
            || self.routing.selection.held
        {
            return;
        }
        let from = blocking.path;
        let buffered = &self.sender.outstanding.buffered;
        let in_receive_buffer = buffered.iter().map(|own| own.receiver).sum();
        let ground = Ground { parameters: &self.parameters, routing: &self.routing, sender: &self.sender };
        let limits = ground.limits(&sharing.config, in_receive_buffer);
        // The least number of bytes that is too much.
        let threshold = |has: bool, limit: u64| {
            if has { (RESCHEDULING_THRESHOLD * limit as f64).ceil() as u64 } else { u64::MAX }
        };
        let of_sender = threshold(sides.has_sender(), limits.sender);
        let of_receiver = threshold(sides.has_receiver(), limits.receiver);
        let is_blocked = |own: &Buffered| {
            own.sender.saturating_sub(own.in_flight) >= of_sender
                || own.receiver.saturating_sub(own.in_flight) >= of_receiver
        };
        let target = (0..self.routing.paths.len()).find(|&index| {
            let id = PathId(index as u8);
            is_blocked(&buffered[index])
                && index != from.index()
                && self.routing.status[index].is_usable()
                && self.routing.paths[index].fast_recovery_exit.is_none()
                && self.sender.outstanding.on(id) + sharing.copied(id) < sharing.room(ground, id).window
        });
        let Some(target) = target else { return };
        self.mark_lost(now, 0, false);
        if self.sender.outstanding.chunks[0].state == SentState::Lost {
            self.sender.outstanding.chunks[0].immediate = true;
            self.retransmit_packet(now, PathId(target as u8), 0, 0);
        }
        let exit = self.sender.outstanding.next_tsn().wrapping_sub(1);
        let waits_for_forward =
            self.sender.advanced_peer_ack_point != self.sender.outstanding.cumulative_tsn();
        let own = &mut self.routing.paths[from.index()];
        if self.sender.outstanding.on(from) == 0 && !waits_for_forward {
            own.t3 = Time::NEVER;
        }
        if own.fast_recovery_exit.is_none() {
            let event =
                CongestionEvent::new(now, CongestionKind::FastRetransmit, self.sender.outstanding.on(from));
            own.cc.on_congestion(&event);
            own.fast_recovery_exit = Some(exit);
        }
        if let Some(sharing) = &mut self.parts.sharing {
            sharing.rescheduled += 1;
        }
    }
}

impl Association {
    /// Records which buffer keeps data from leaving, if one does.
    #[cold]
    pub(in crate::sctp) fn record_blocking(&mut self, now: Time) {
        let Self { parameters, routing, sender, parts, .. } = self;
        let Some(sharing) = &mut parts.sharing else { return };
        sharing.record_changes(&mut sender.outstanding);
        let ground = Ground { parameters, routing, sender };
        sharing.refresh_rooms(ground);
        let waiting = (!sender.queue.is_empty()).then(|| sender.next_fragment());
        let mut roomy = sharing.views.roomy();
        let mut roomy =
            std::iter::from_fn(|| roomy.pop()).filter(|&path| routing.carries_new(path)).peekable();
        let blocking = match waiting {
            _ if roomy.peek().is_none() => None,
            Some(length) if length > sender.peer_rwnd && sender.outstanding.bytes() > 0 => {
                Some(Blocking::ReceiveBuffer)
            }
            Some(length) => {
                let limits = ground.limits(&sharing.config, sender.outstanding.bytes());
                let split = ground.split(&sharing.config, limits, length);
                roomy.find_map(|path| split(&sender.outstanding.buffered[path.index()]))
            }
            None => sender.awaited_room.is_some().then_some(Blocking::SendBuffer),
        };
        sharing.blocked.record(now, blocking);
        if blocking == Some(Blocking::ReceiveBuffer) {
            sharing.on_blocked();
        }
    }

    /// What holds new data back on a path whose windows have room: the path's share of a buffer, or the
    /// scheduler.
    pub(in crate::sctp) fn limit_of_sharing(&self, path: PathId) -> Option<LimitedBy> {
        let sharing = self.parts.sharing.as_ref()?;
        let ground = Ground { parameters: &self.parameters, routing: &self.routing, sender: &self.sender };
        let limits = ground.limits(&sharing.config, self.sender.outstanding.bytes());
        let split = ground.split(&sharing.config, limits, self.sender.next_fragment());
        match split(&self.sender.outstanding.buffered[path.index()]) {
            Some(Blocking::ReceiveBuffer) => Some(LimitedBy::ReceiveWindow),
            Some(Blocking::SendBuffer) => Some(LimitedBy::SendBuffer),
            None => sharing.spares(path).then_some(LimitedBy::Scheduler),
        }
    }
}

impl Association {
    /// Sends copies of the chunks from TSN `first` on over a further path.
    pub(in crate::sctp) fn send_copies(&mut self, now: Time, path: PathId, first: u32) {
        let mtu = self.routing.paths[path.index()].mtu;
        let (mut packet, mut size) = (None, self.local.headers_bytes);
        let (mut bytes, mut in_window) = (0, 0);
        for index in self.sender.outstanding.index(first)..self.sender.outstanding.chunks.len() {
            let tsn = self.sender.outstanding.tsn(index);
            let chunk = self.sender.outstanding.chunks[index];
            let length = chunk.length;
            let wire = self.sender.data_header + ((length + 3) & !3);
            // Another path may have carried more in one packet.
            if size + wire > mtu
                && let Some(full) = packet.take()
            {
                self.transmit(path, full, size);
                size = self.local.headers_bytes;
            }
            self.add_data(&mut packet, &chunk, tsn);
            self.sender.outstanding.chunks[index].on_several_paths = true;
            size += wire;
            bytes += length;
            in_window += chunk.window_bytes;
            if let Some(sharing) = &mut self.parts.sharing {
                let copied = Copied { tsn, path, window_bytes: chunk.window_bytes };
                sharing.copies.under_way.push_back(copied);
            }
        }
        if let Some(packet) = packet {
            self.transmit(path, packet, size);
        }
        self.sender.outstanding.changed.insert(path);
        let Some(sharing) = &mut self.parts.sharing else { return };
        let share = &mut sharing.copies.shares[path.index()];
        share.copied += in_window;
        share.copied_bytes += u64::from(bytes);
        let outstanding = self.sender.outstanding.on(path) + share.copied;
        self.routing.paths[path.index()].cc.on_sent(&SentEvent::new(now, bytes, outstanding));
    }

    /// Makes room again for copies whose chunks have been acknowledged, lost or given up.
    pub(in crate::sctp) fn release_copies(&mut self, now: Time) {
        let Self { routing, sender, parts, .. } = self;
        let Some(sharing) = &mut parts.sharing else { return };
        if sharing.copies.under_way.is_empty() {
            return;
        }
        let ended = sharing.copies.release(&mut sender.outstanding);
        let exit = sender.outstanding.next_tsn().wrapping_sub(1);
        for (index, Ended { before, acked, has_lost }) in ended.into_iter().enumerate() {
            let path = &mut routing.paths[index];
            let in_flight = sender.outstanding.on(PathId(index as u8));
            let outstanding = in_flight + sharing.copies.shares[index].copied;
            if acked > 0 {
                let outstanding_before = in_flight + before;
                path.cc.on_ack(&AckEvent {
                    outstanding,
                    in_recovery: path.fast_recovery_exit.is_some(),
                    is_window_limited: outstanding_before >= path.cc.limits().cwnd,
                    ..AckEvent::new(now, acked, outstanding_before)
                });
            }
            if has_lost && path.fast_recovery_exit.is_none() {
                let event = CongestionEvent::new(now, CongestionKind::FastRetransmit, outstanding);
                path.cc.on_congestion(&event);
                path.fast_recovery_exit = Some(exit);
                path.repairs.fast_recoveries += 1;
                sender.outstanding.unsettled.insert(PathId(index as u8));
            }
        }
    }
}

#[cfg(test)]
impl Association {
    /// Checks that what is known of paths without a change is what a new look shows.
    pub(in crate::sctp) fn check_views(&self, sharing: &super::LoadSharing) {
        let ground = Ground { parameters: &self.parameters, routing: &self.routing, sender: &self.sender };
        for (index, view) in sharing.views.as_slice().iter().enumerate() {
            let id = PathId(index as u8);
            let changes = [sharing.group.changed(), self.sender.outstanding.changed];
            let is_changed = changes.iter().any(|set| set.contains(id));
            let [is_stale, has_stale_room] = sharing.views.is_stale(id);
            let in_use = self.sender.outstanding.on(id) + sharing.copied(id);
            if !is_changed && !has_stale_room {
                let room = sharing.room(ground, id);
                assert_eq!(sharing.views.room(id), room, "path {index}");
                assert_eq!(sharing.views.roomy().contains(id), in_use < room.cwnd, "path {index}");
            }
            if is_changed || is_stale {
                continue;
            }
            let path = &self.routing.paths[index];
            let crate::cc::ControlState { cwnd, ssthresh, .. } = path.cc.state();
            assert_eq!((view.cwnd, view.ssthresh), (cwnd, ssthresh), "path {index}");
            assert_eq!((view.srtt, view.rttvar), (path.rtt.srtt(), path.rtt.rttvar()), "path {index}");
            assert_eq!(view.outstanding, in_use);
        }
    }
}
