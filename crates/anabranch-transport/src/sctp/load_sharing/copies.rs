//! Copies of chunks on further paths, where the scheduler sends data on several.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::cc::{AckEvent, CongestionControl as _, CongestionEvent, CongestionKind, SentEvent};
use crate::ground::{PathId, PathSet};
use crate::sctp::association::Association;
use crate::sctp::outstanding::{Outstanding, SentState};
use crate::sctp::tsn;
use crate::time::Time;

/// A copy of a chunk on another path than the one that the chunk was first sent on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) tsn: u32,
    pub(super) path: PathId,
    /// The same as in [`Sent`](crate::sctp::outstanding::Sent).
    pub(super) window_bytes: u32,
}

/// The load-sharing state of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Bytes of copies that are on their way on this path.
    pub(super) copied: u32,
    /// New data and copies sent, in bytes.
    pub(super) sent_bytes: u64,
    pub(super) copied_bytes: u64,
}

/// The copies that one SACK ends, on one path.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    /// Bytes of copies that were on their way before.
    before: u32,
    acked: u32,
    has_lost: bool,
}

/// All copies that are on their way, by TSN, and the shares of the paths.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) under_way: VecDeque<Copied>,
    pub(super) shares: Vec<Share>,
}

impl Copies {
    /// Removes the copies whose chunks have been acknowledged, lost or given up; what they were, by path.
    fn release(&mut self, outstanding: &mut Outstanding) -> SmallVec<[Ended; 4]> {
        let Self { under_way, shares } = self;
        let of = |share: &Share| Ended { before: share.copied, ..Ended::default() };
        let mut ended: SmallVec<[Ended; 4]> = shares.iter().map(of).collect();
        let mut changed = PathSet::default();
        under_way.retain(|copy| {
            let own = &mut ended[copy.path.index()];
            let state = if tsn::before(copy.tsn, outstanding.first_tsn) {
                SentState::Acked
            } else {
                outstanding.chunks[outstanding.index(copy.tsn)].state
            };
            match state {
                SentState::InFlight => return true,
                SentState::Acked | SentState::Final => own.acked += copy.window_bytes,
                SentState::Abandoned => {}
                SentState::Lost => own.has_lost = true,
            }
            shares[copy.path.index()].copied -= copy.window_bytes;
            changed.insert(copy.path);
            false
        });
        outstanding.changed.insert_all(changed);
        ended
    }
}

impl Association {
    /// Sends copies of the chunks from TSN `first` on over a further path.
    pub(super) fn send_copies(&mut self, now: Time, path: PathId, first: u32) {
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
