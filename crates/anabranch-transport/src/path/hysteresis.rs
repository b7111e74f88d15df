//! What policies that compare paths share: which path is fastest, and the time for which a new primary path
//! is kept.

use super::PathStatus;
use crate::flow::PathId;
use crate::time::{Duration, Time};

/// The path with the smallest smoothed round-trip time, the first of equals; with `skip_failed`, of those
/// that are usable.
#[inline]
pub(super) fn smallest_srtt(paths: &[PathStatus], skip_failed: bool) -> Option<(PathId, Duration)> {
    let (index, srtt) = paths
        .iter()
        .enumerate()
        .filter(|(_, status)| !skip_failed || status.is_usable())
        .filter_map(|(index, status)| status.srtt.map(|srtt| (index, srtt)))
        .min_by_key(|&(index, srtt)| (srtt, index))?;
    Some((PathId(index as u8), srtt))
}

/// The dwell time after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dwell {
    length: Duration,
    changed_at: Option<Time>,
}

impl Dwell {
    pub(super) const fn new(length: Duration) -> Self {
        Self { length, changed_at: None }
    }

    /// Whether the last change is too recent for another one.
    pub(super) fn holds(&self, now: Time) -> bool {
        self.changed_at.is_some_and(|at| now.saturating_since(at) < self.length)
    }

    /// Starts the dwell time after the primary path has changed.
    pub(super) const fn start(&mut self, now: Time) {
        self.changed_at = Some(now);
    }
}
