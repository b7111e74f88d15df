//! Helpers for the tests of several policies.

use super::{PathEvent, PathSelector, PathStatus, Selection};
use crate::flow::PathId;
use crate::time::{Duration, Time};

pub(super) const FIRST: PathId = PathId(0);
pub(super) const SECOND: PathId = PathId(1);

/// Two paths with these smoothed round-trip times in ms.
pub(super) fn delays(first_ms: u64, second_ms: u64) -> [PathStatus; 2] {
    [first_ms, second_ms]
        .map(|ms| PathStatus { srtt: Some(Duration::from_millis(ms)), ..PathStatus::default() })
}

/// The primary path after a sample of `path`, where `from` was it before.
pub(super) fn sampled(
    policy: &mut impl PathSelector,
    now_ms: u64,
    path: PathId,
    paths: &[PathStatus],
    from: PathId,
) -> PathId {
    let mut selection = Selection::new(from);
    let event = PathEvent::SrttUpdated { path, rtt: Duration::ZERO };
    policy.select(Time::from_millis(now_ms), event, paths, &mut selection);
    assert_eq!(selection.primary, selection.current);
    selection.primary
}
