//! Load sharing: on which paths the next data goes when several are used at the same time.

pub mod min_rtt;
pub mod redundant;
pub mod round_robin;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::packet::PathId;
use crate::time::Duration;

/// What a scheduler may know about one path.
#[expect(clippy::struct_excessive_bools, reason = "each says something else about the path")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathView {
    /// The path.
    pub path: PathId,
    /// Whether data may be sent there without second thoughts: it has been confirmed and has not failed.
    pub is_usable: bool,
    /// Whether it is to carry data only while no other path is usable (RFC 8684 section 3.3.8).
    pub is_backup: bool,
    /// Whether its windows let the data go now.
    pub has_room: bool,
    /// Smoothed round-trip time, before the first sample none.
    pub srtt: Option<Duration>,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Bytes outstanding.
    pub outstanding: u32,
    /// Whether losses are being recovered from.
    pub in_recovery: bool,
}

impl PathView {
    /// A usable path of which nothing is known, with room for data.
    pub const fn new(path: PathId) -> Self {
        Self {
            path,
            is_usable: true,
            is_backup: false,
            has_room: true,
            srtt: None,
            cwnd: 0,
            outstanding: 0,
            in_recovery: false,
        }
    }
}

/// The data to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// Bytes of data that leave together.
    pub bytes: u32,
    /// Bytes that wait, these included.
    pub queued: u64,
    /// What is left of the receive window, in bytes.
    pub receive_window: u32,
}

impl Pending {
    /// `bytes` of `queued` that wait.
    pub const fn new(bytes: u32, queued: u64, receive_window: u32) -> Self {
        Self { bytes, queued, receive_window }
    }
}

/// What to do with the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it on each of these paths, the first of which answers for it; on none it waits.
    Duplicate(SmallVec<[PathId; 4]>),
    /// Send it on this path.
    Send(PathId),
    /// Nothing for now: the next acknowledgement or timer asks again.
    Wait,
}

/// A scheduler.
pub trait Scheduler: fmt::Debug {
    /// Where this data goes. Only paths with room may be named.
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision;
}

/// The paths that may be used: without the backups while another one is usable.
fn candidates(paths: &[PathView]) -> impl Iterator<Item = &PathView> {
    let backups_wait = paths.iter().any(|path| path.is_usable && !path.is_backup);
    paths.iter().filter(move |path| path.is_usable && path.has_room && !(backups_wait && path.is_backup))
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SchedulerConfig")]
pub enum Config {
    /// The path with the smallest smoothed round-trip time of those with room (Linux's default for
    /// Multipath TCP).
    #[default]
    MinRtt,
    /// Every path with room, the same data on each.
    Redundant,
    /// One path with room after the other.
    RoundRobin,
}

impl Config {
    /// The scheduler.
    pub fn build(self) -> AnyScheduler {
        match self {
            Self::MinRtt => AnyScheduler::MinRtt(min_rtt::MinRtt),
            Self::Redundant => AnyScheduler::Redundant(redundant::Redundant),
            Self::RoundRobin => AnyScheduler::RoundRobin(round_robin::RoundRobin::default()),
        }
    }
}

/// A scheduler, dispatched statically where it is a built-in one.
#[derive(Debug)]
pub enum AnyScheduler {
    /// A user's own.
    Custom(Box<dyn Scheduler + Send>),
    /// The smallest round-trip time.
    MinRtt(min_rtt::MinRtt),
    /// All paths.
    Redundant(redundant::Redundant),
    /// One after the other.
    RoundRobin(round_robin::RoundRobin),
}

impl Scheduler for AnyScheduler {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        match self {
            Self::Custom(scheduler) => scheduler.schedule(data, paths),
            Self::MinRtt(scheduler) => scheduler.schedule(data, paths),
            Self::Redundant(scheduler) => scheduler.schedule(data, paths),
            Self::RoundRobin(scheduler) => scheduler.schedule(data, paths),
        }
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
        scheduler.schedule(&Pending::new(1_000, 5_000, 100_000), paths)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{next, views};
    use super::*;

    #[test]
    fn backups_and_failed_paths_wait_and_full_ones_are_passed_over() {
        for config in [Config::MinRtt, Config::Redundant, Config::RoundRobin] {
            let only = |paths: &[PathView]| match next(&mut config.build(), paths) {
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
}
