//! Copies of chunks on further paths, where the scheduler sends data on several.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::flow::{PathId, PathSet};
use crate::sctp::outstanding::{Outstanding, SentState};
use crate::sctp::tsn;

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
pub(super) struct Ended {
    /// Bytes of copies that were on their way before.
    pub(super) before: u32,
    pub(super) acked: u32,
    pub(super) has_lost: bool,
}

/// All copies that are on their way, by TSN, and the shares of the paths.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) under_way: VecDeque<Copied>,
    pub(super) shares: Vec<Share>,
}

impl Copies {
    /// Removes the copies whose chunks have been acknowledged, lost or given up; what they were, by path.
    pub(super) fn release(&mut self, outstanding: &mut Outstanding) -> SmallVec<[Ended; 4]> {
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
