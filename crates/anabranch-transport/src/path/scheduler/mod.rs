//! Load sharing: the paths on which the next data is sent when several are used at the same time.

mod any;
pub mod backup_only;
pub mod blest;
pub mod ecf;
pub mod linux;
pub mod min_rtt;
pub mod plugin;
pub mod priority;
pub mod proportional;
pub mod redundant;
pub mod round_robin;
pub mod weighted;

use std::fmt;

use smallvec::SmallVec;

pub use any::{AnyScheduler, Config};

use crate::flow::PathId;
use crate::time::{Duration, Time};

/// What a scheduler may know about a path.
#[expect(clippy::struct_excessive_bools, reason = "each says something else about the path")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathView {
    /// The path.
    pub path: PathId,
    /// Whether data may be sent there without reservation: it has been confirmed and has not failed.
    pub is_usable: bool,
    /// Whether it is to carry data only while no other path is usable (RFC 8684 section 3.3.8).
    pub is_backup: bool,
    /// Whether its windows let the data go now.
    pub has_room: bool,
    /// The most bytes that leave there together, where paths differ in this.
    pub most: u32,
    /// Smoothed round-trip time; [`None`] before the first sample.
    pub srtt: Option<Duration>,
    /// The variation of the round-trip time (RFC 6298 section 2), zero before the first sample.
    pub rttvar: Duration,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes outstanding.
    pub outstanding: u32,
    /// Bytes of memory of the data that waits in a queue of the path or is on its way, where data may be sent
    /// although the congestion window is full.
    pub queued: Option<u64>,
    /// The rate in bytes per second at which its congestion control has it send, if that sets one.
    pub pace: Option<u64>,
    /// Whether losses are being recovered from.
    pub in_recovery: bool,
    /// Whether its timer has expired since something was last acknowledged there.
    pub has_timed_out: bool,
}

impl PathView {
    /// A usable path about which nothing is known yet, with room for data.
    pub const fn new(path: PathId) -> Self {
        Self {
            path,
            is_usable: true,
            is_backup: false,
            has_room: true,
            most: u32::MAX,
            srtt: None,
            rttvar: Duration::ZERO,
            cwnd: 0,
            ssthresh: u32::MAX,
            outstanding: 0,
            queued: None,
            pace: None,
            in_recovery: false,
            has_timed_out: false,
        }
    }
}

/// The data to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// When the scheduler is asked.
    pub now: Time,
    /// Bytes of data that leave together, on a path that can take that many.
    pub bytes: u32,
    /// Bytes that wait, these included.
    pub queued: u64,
    /// The bytes left in the receive window.
    pub receive_window: u32,
}

impl Pending {
    /// `bytes` of `queued` that wait now.
    pub const fn new(now: Time, bytes: u32, queued: u64, receive_window: u32) -> Self {
        Self { now, bytes, queued, receive_window }
    }
}

/// The decision about the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it on each of these paths, the first of which counts as the one that carries it. If there are
    /// none, the data waits.
    Duplicate(SmallVec<[PathId; 4]>),
    /// Send it on this path.
    Send(PathId),
    /// Send nothing for now: the next acknowledgement or timer asks again.
    Wait,
}

/// A scheduler.
pub trait Scheduler: fmt::Debug {
    /// Decides where this data is sent. Only paths with room may be named, and waiting makes sense only while
    /// data is outstanding whose acknowledgement will ask again.
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision;

    /// Tells the scheduler that the receive window keeps data from leaving although a path has room, because
    /// what was sent on a slower one has not arrived.
    fn on_blocked(&mut self) {}
}

/// Whether a path may be used: no backup while another one is usable.
fn is_eligible(paths: &[PathView]) -> impl Fn(&&PathView) -> bool + use<> {
    let backups_wait = paths.iter().any(|path| path.is_usable && !path.is_backup);
    move |path| path.is_usable && !(backups_wait && path.is_backup)
}

/// The paths that may be used.
fn eligible(paths: &[PathView]) -> impl Iterator<Item = &PathView> {
    paths.iter().filter(is_eligible(paths))
}

/// The paths that may be used and have room in their windows.
fn candidates(paths: &[PathView]) -> impl Iterator<Item = &PathView> {
    // What decides most often comes first.
    paths.iter().filter(|path| path.has_room).filter(is_eligible(paths))
}

/// The path with the smallest smoothed round-trip time; one that has not been measured yet comes first.
fn fastest<'a>(paths: impl Iterator<Item = &'a PathView>) -> Option<&'a PathView> {
    let mut fastest: Option<&PathView> = None;
    for path in paths {
        if fastest.is_none_or(|other| path.srtt < other.srtt) {
            fastest = Some(path);
        }
    }
    fastest
}

/// Two paths between which it may pay to wait.
struct Slower<'a> {
    /// The fastest path, which has no room, with its smoothed round-trip time.
    fast: (&'a PathView, Duration),
    /// The fastest path with room.
    slow: (&'a PathView, Duration),
}

/// The two where `min_rtt` would take a slower path because the fastest one has no room; otherwise what
/// `min_rtt` does. With nothing outstanding on the fastest path there is nothing to wait for, and nobody
/// waits for a path that is silent (Linux MPTCP 0.9x: `mptcp_is_temp_unavailable`, `TCP_CA_Loss`).
fn slower(paths: &[PathView]) -> Result<Slower<'_>, Decision> {
    let (Some(fast), Some(slow)) = (fastest(eligible(paths)), fastest(candidates(paths))) else {
        return Err(Decision::Wait);
    };
    match (fast.srtt, slow.srtt) {
        (Some(least), Some(more))
            if fast.path != slow.path && fast.outstanding > 0 && !fast.has_timed_out =>
        {
            Ok(Slower { fast: (fast, least), slow: (slow, more) })
        }
        _ => Err(Decision::Send(slow.path)),
    }
}

#[cfg(test)]
pub(in crate::path) mod testing {
    use super::*;

    /// Paths with these round-trip times in ms, 0 for none measured.
    pub(in crate::path) fn views(srtts_ms: &[u64]) -> Vec<PathView> {
        srtts_ms
            .iter()
            .enumerate()
            .map(|(index, &ms)| PathView {
                srtt: (ms > 0).then_some(Duration::from_millis(ms)),
                ..PathView::new(PathId(index as u8))
            })
            .collect()
    }

    pub(in crate::path) fn next(scheduler: &mut impl Scheduler, paths: &[PathView]) -> Decision {
        scheduler.schedule(&Pending::new(Time::ZERO, 1_000, 5_000, 100_000), paths)
    }

    /// A fast path of 10 ms without room and a slow one of 100 ms with room, each with a window of ten
    /// segments of 1000 bytes.
    pub(in crate::path) fn unlike() -> Vec<PathView> {
        let mut paths = views(&[10, 100]);
        for path in &mut paths {
            path.cwnd = 10_000;
            path.ssthresh = 10_000;
        }
        paths[0].has_room = false;
        paths[0].outstanding = 10_000;
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{next, views};
    use super::*;

    #[test]
    fn backups_and_failed_paths_wait_and_full_ones_are_passed_over() {
        for config in [
            Config::BackupOnly,
            Config::Blest,
            Config::Ecf,
            Config::Linux,
            Config::MinRtt,
            Config::Priority,
            Config::Proportional,
            Config::Redundant,
            Config::RoundRobin,
            Config::Weighted(vec![3, 2]),
        ] {
            let only = |paths: &[PathView]| match next(&mut config.build(0), paths) {
                Decision::Send(path) => Some(path.0),
                Decision::Duplicate(paths) => {
                    assert_eq!(paths.len(), 1, "{config:?}");
                    Some(paths[0].0)
                }
                Decision::Wait => None,
            };
            let mut paths = views(&[10, 20, 30]);
            paths[0].is_usable = false;
            paths[1].is_backup = true;
            assert_eq!(only(&paths), Some(2), "{config:?}");
            paths[2].has_room = false;
            assert_eq!(only(&paths), None, "{config:?}: a backup does not help out");
            paths[2].is_usable = false;
            assert_eq!(only(&paths), Some(1), "{config:?}: a backup takes over");
        }
    }

    #[test]
    fn nobody_waits_for_a_path_that_is_silent_or_on_which_nothing_is_outstanding() {
        for config in [Config::Blest, Config::Ecf] {
            let data = Pending::new(Time::ZERO, 1_000, 1_000, 2_000);
            let next = |paths: &[PathView]| config.build(0).schedule(&data, paths);
            let mut paths = super::testing::unlike();
            assert_eq!(next(&paths), Decision::Wait, "{config:?}");
            paths[0].has_timed_out = true;
            assert_eq!(next(&paths), Decision::Send(PathId(1)), "{config:?}");
            paths[0].has_timed_out = false;
            paths[0].outstanding = 0;
            assert_eq!(next(&paths), Decision::Send(PathId(1)), "{config:?}");
        }
    }

    #[test]
    fn there_are_not_more_weights_than_paths_and_none_is_zero() {
        let check = |weights: &[u16]| Config::Weighted(weights.to_vec()).check(2);
        assert_eq!(check(&[3]), Ok(()));
        assert_eq!(check(&[3, 1]), Ok(()));
        let message = "weighted = 3 values are too many; the flow has 2 paths";
        assert_eq!(check(&[3, 1, 1]).unwrap_err(), message);
        assert_eq!(check(&[3, 0]).unwrap_err(), "weighted = 0 is too small; each must be at least 1");
    }
}
