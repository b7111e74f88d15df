//! The path that would be the first to have sent what it has, at its pace (Linux: `mptcp_subflow_get_send`):
//! of those with room the one with the least outstanding over its pacing rate, whose mean is kept over
//! bursts; it then gets a burst of data.
//!
//! Where paths have queues, it chooses among all of them, and waits if the queue of the one that it has
//! chosen is full; elsewhere it chooses among those with room.

use super::{Decision, PathView, Pending, Scheduler, candidates, eligible};
use crate::flow::PathId;

/// Bytes of data that a path gets at a time (Linux: `MPTCP_SEND_BURST_SIZE`, 64 KiB less headers).
const BURST: u64 = 65_428;

/// The scheduler.
#[derive(Clone, Debug, Default)]
pub struct Linux {
    /// The path of the present burst, and the bytes left of it.
    burst: Option<(PathId, u64)>,
    /// The mean pacing rate of each path in bytes per second, 0 before the first burst.
    rates: Vec<u64>,
}

/// The rate of a path in bytes per second (Linux: `sk_pacing_rate`): that of its congestion control, or the
/// one at which a window is paced (`tcp_update_pacing_rate`), twice the window per round-trip time in slow
/// start, 1.2 times later; [`None`] before the first sample.
fn pacing_rate(path: &PathView) -> Option<u64> {
    if path.pace.is_some() {
        return path.pace;
    }
    let srtt = path.srtt?.as_nanos().max(1);
    let percent = if path.cwnd < path.ssthresh / 2 { 200 } else { 120 };
    let window = u64::from(path.cwnd.max(path.outstanding));
    Some((window * percent / 100).saturating_mul(1_000_000_000).checked_div(srtt)?.max(1))
}

/// The bytes that the path has not got rid of.
fn queued(path: &PathView) -> u64 {
    path.queued.unwrap_or(u64::from(path.outstanding))
}

impl Linux {
    /// The mean rate of a path; if there is none yet, the rate that follows from its window.
    fn rate(&self, path: &PathView) -> Option<u64> {
        let mean = self.rates.get(path.path.index()).copied().filter(|rate| *rate > 0);
        mean.or_else(|| pacing_rate(path))
    }

    /// How long the path needs for the data that it already has, in units of 2^-32 s; a path without
    /// measurements comes first.
    fn linger_time(&self, path: &PathView) -> u64 {
        let queued = u128::from(queued(path)) << 32;
        self.rate(path).map_or(0, |rate| u64::try_from(queued / u128::from(rate)).unwrap_or(u64::MAX))
    }

    /// Forgets the present burst once everything has been sent that may be: the kernel chooses anew whenever
    /// it begins to send (`__mptcp_push_pending`).
    pub(super) fn end_push(&mut self) {
        self.burst = None;
    }

    fn choose<'a>(&self, paths: &'a [PathView]) -> Option<&'a PathView> {
        let first = |path: &&PathView| (self.linger_time(path), path.path);
        if paths.iter().any(|path| path.queued.is_some()) {
            eligible(paths).min_by_key(first).filter(|path| path.has_room)
        } else {
            candidates(paths).min_by_key(first)
        }
    }

    fn begin_burst(&mut self, data: &Pending, path: &PathView) {
        let burst = BURST.min(u64::from(data.receive_window)).max(1);
        self.burst = Some((path.path, burst));
        let Some((mean, now)) = self.rate(path).zip(pacing_rate(path)) else { return };
        let index = path.path.index();
        if self.rates.len() <= index {
            self.rates.resize(index + 1, 0);
        }
        let queued = u128::from(queued(path));
        let sum = u128::from(mean) * queued + u128::from(now) * u128::from(burst);
        self.rates[index] = (sum / (queued + u128::from(burst))) as u64;
    }
}

impl Scheduler for Linux {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        let going_on = self.burst.filter(|(_, left)| *left > 0);
        let same = going_on.and_then(|(last, _)| candidates(paths).find(|path| path.path == last));
        if same.is_none() {
            let Some(best) = self.choose(paths) else { return Decision::Wait };
            self.begin_burst(data, best);
        }
        let Some((path, left)) = &mut self.burst else { return Decision::Wait };
        *left = left.saturating_sub(u64::from(data.bytes));
        Decision::Send(*path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{next, views};
    use super::*;

    #[test]
    fn the_path_that_is_done_first_gets_a_burst() {
        let mut paths = views(&[10, 100]);
        for path in &mut paths {
            (path.cwnd, path.ssthresh) = (20_000, 20_000);
        }
        // 20 kB x 1.2 in 10 ms and in 100 ms: 9 kB take 3.75 ms there, 1 kB takes 4.2 ms here.
        (paths[0].outstanding, paths[1].outstanding) = (9_000, 1_000);
        let mut scheduler = Linux::default();
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(0)));
        paths[0].outstanding = 15_000;
        for _ in 1..66 {
            assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(0)), "the burst goes on");
        }
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(1)));
        paths[1].has_room = false;
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(0)), "no room for the rest of it");
    }

    #[test]
    fn where_paths_have_queues_the_one_that_is_done_first_is_waited_for() {
        let mut paths = views(&[10, 100]);
        for path in &mut paths {
            (path.cwnd, path.ssthresh) = (20_000, 20_000);
        }
        (paths[0].queued, paths[1].queued) = (Some(15_000), Some(20_000));
        paths[0].has_room = false;
        let mut scheduler = Linux::default();
        // 15 kB take 6.25 ms there, 20 kB take 83 ms here.
        assert_eq!(next(&mut scheduler, &paths), Decision::Wait);
        paths[0].has_room = true;
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(0)));
        paths[0].queued = Some(300_000);
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(0)), "the burst goes on");
        scheduler.end_push();
        assert_eq!(next(&mut scheduler, &paths), Decision::Send(PathId(1)), "a push begins with a choice");
    }

    #[test]
    fn the_rate_of_the_congestion_control_counts() {
        let mut paths = views(&[10, 100]);
        for path in &mut paths {
            (path.cwnd, path.ssthresh, path.outstanding) = (20_000, 20_000, 10_000);
        }
        assert_eq!(next(&mut Linux::default(), &paths), Decision::Send(PathId(0)));
        (paths[0].pace, paths[1].pace) = (Some(100_000), Some(200_000));
        assert_eq!(next(&mut Linux::default(), &paths), Decision::Send(PathId(1)));
    }

    #[test]
    fn the_rate_is_a_mean_over_bursts() {
        let mut paths = views(&[100]);
        (paths[0].cwnd, paths[0].ssthresh) = (100_000, 100_000);
        let mut scheduler = Linux::default();
        next(&mut scheduler, &paths);
        assert_eq!(scheduler.rates, [1_200_000]);
        (paths[0].cwnd, paths[0].outstanding) = (50_000, BURST as u32);
        scheduler.burst = None;
        next(&mut scheduler, &paths);
        // 65428 B x 1.2 in 100 ms are 785130 B/s, with as much weight as the mean.
        assert_eq!(scheduler.rates, [992_565]);
    }
}
