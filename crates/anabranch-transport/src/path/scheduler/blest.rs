//! BLEST (S. Ferlin, O. Alay, O. Mehani and R. Boreli, "BLEST: blocking estimation-based MPTCP scheduler for
//! heterogeneous networks", IFIP Networking 2016; constants and estimates as in the authors' Linux module
//! `mptcp_blest.c`).
//!
//! If the fastest path has no room, data is sent on a slower one only if, while the slower path's data takes
//! up the receive window, there is still room for everything that the fastest path will send in the meantime.
//! A correction grows when a slower path kept others waiting, and shrinks while none does.
//!
//! Known deviations: the module takes a path in slow start after a loss to be in congestion avoidance at
//! once; here the window doubles up to the threshold first. The receive window is what is left of it and what
//! is outstanding, without what waits in the peer's buffer.

use super::{Decision, PathView, Pending, Scheduler, Slower, slower};
use crate::time::{Duration, Time};

/// The correction of the estimate at the beginning, its bounds, and its steps (`lambda`, `min_lambda`,
/// `max_lambda`, `dyn_lambda_good`, `dyn_lambda_bad`).
const CORRECTION: f64 = 1.2;
const LEAST_CORRECTION: f64 = 1.0;
const MOST_CORRECTION: f64 = 1.3;
const STEP_DOWN: f64 = 0.01;
const STEP_UP: f64 = 0.04;

/// A path that has never lost anything is assumed to double its window in at most this many rounds.
const DOUBLING_ROUNDS: f64 = 16.0;

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Blest {
    correction: f64,
    corrected_at: Time,
    was_blocked: bool,
    /// The smallest and the largest smoothed round-trip time of each path.
    extremes: Vec<Option<(Duration, Duration)>>,
}

impl Default for Blest {
    fn default() -> Self {
        Self { correction: CORRECTION, corrected_at: Time::ZERO, was_blocked: false, extremes: Vec::new() }
    }
}

impl Blest {
    fn measure(&mut self, paths: &[PathView]) {
        for path in paths {
            let Some(srtt) = path.srtt else { continue };
            let index = path.path.index();
            if self.extremes.len() <= index {
                self.extremes.resize(index + 1, None);
            }
            let (least, most) = self.extremes[index].unwrap_or((srtt, srtt));
            self.extremes[index] = Some((least.min(srtt), most.max(srtt)));
        }
    }

    /// The smallest and the largest smoothed round-trip time of a path in seconds.
    fn extremes(&self, path: &PathView, srtt: Duration) -> (f64, f64) {
        let extremes = self.extremes.get(path.path.index()).copied().flatten();
        let (least, most) = extremes.unwrap_or((srtt, srtt));
        (least.as_secs_f64(), most.as_secs_f64())
    }

    /// Runs at most once in the slow path's smallest round-trip time (`blestsched_update_lambda`).
    fn correct(&mut self, now: Time, least: f64) {
        if now.saturating_since(self.corrected_at).as_secs_f64() < least {
            return;
        }
        self.correction += if self.was_blocked { STEP_UP } else { -STEP_DOWN };
        self.correction = self.correction.clamp(LEAST_CORRECTION, MOST_CORRECTION);
        self.was_blocked = false;
        self.corrected_at = now;
    }

    /// Seconds until what the slow path takes now is acknowledged (`blestsched_estimate_linger_time`): the
    /// fuller its window is, the nearer this is to its largest round-trip time.
    fn linger(&self, data: &Pending, path: &PathView, srtt: Duration) -> f64 {
        let (least, most) = self.extremes(path, srtt);
        let after = path.outstanding.saturating_add(data.bytes);
        let filled = (f64::from(after) / f64::from(path.cwnd.max(1))).min(1.0);
        (least + (most - least) * filled).max(srtt.as_secs_f64())
    }

    /// The bytes that the fast path will send in this many seconds (`blestsched_estimate_bytes`).
    fn sends(&self, data: &Pending, path: &PathView, srtt: Duration, seconds: f64) -> f64 {
        let (least, most) = self.extremes(path, srtt);
        let mean = f64::midpoint(least, most);
        let mut rounds = if mean > 0.0 { (seconds / mean).floor() + 1.0 } else { 1.0 };
        let (mut window, threshold) = (f64::from(path.cwnd), f64::from(path.ssthresh));
        if window < threshold {
            rounds = rounds.min(DOUBLING_ROUNDS);
        }
        let mut bytes = 0.0;
        while window < threshold && rounds > 0.0 {
            bytes += window;
            window = (2.0 * window.max(1.0)).min(threshold);
            rounds -= 1.0;
        }
        // The window grows by one segment in every round.
        let growth = f64::from(data.bytes) * (rounds - 1.0).max(0.0) / 2.0;
        bytes += (window + growth) * rounds;
        bytes * self.correction
    }
}

impl Scheduler for Blest {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        self.measure(paths);
        let Slower { fast, slow } = match slower(paths) {
            Ok(slower) => slower,
            Err(decision) => return decision,
        };
        self.correct(data.now, self.extremes(slow.0, slow.1).0);
        let outstanding: f64 = paths.iter().map(|path| f64::from(path.outstanding)).sum();
        let window = f64::from(data.receive_window) + outstanding;
        let taken = f64::from(slow.0.outstanding) + f64::from(data.bytes);
        let linger = self.linger(data, slow.0, slow.1);
        if self.sends(data, fast.0, fast.1, linger) > window - taken {
            return Decision::Wait;
        }
        Decision::Send(slow.0.path)
    }

    fn on_blocked(&mut self) {
        self.was_blocked = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unlike;
    use super::*;
    use crate::flow::PathId;

    const SLOW: Decision = Decision::Send(PathId(1));

    /// The decision with this much of the receive window left.
    fn next(scheduler: &mut Blest, at_ms: u64, left: u32, paths: &[PathView]) -> Decision {
        let now = Time::ZERO + Duration::from_millis(at_ms);
        scheduler.schedule(&Pending::new(now, 1_000, 50_000, left), paths)
    }

    #[test]
    fn the_fast_path_must_find_room_for_what_it_will_send() {
        // 11 rounds of 10 ms, from 10 segments on one more in each: (10 + 5) * 11 = 165 segments, 198 with
        // the correction. 10 are outstanding, and one goes on the slow path.
        let paths = unlike();
        assert_eq!(next(&mut Blest::default(), 0, 189_000, &paths), SLOW);
        assert_eq!(next(&mut Blest::default(), 0, 188_000, &paths), Decision::Wait);
        let mut empty = paths;
        empty[0].has_room = true;
        assert_eq!(next(&mut Blest::default(), 0, 1_000, &empty), Decision::Send(PathId(0)));
    }

    #[test]
    fn in_slow_start_the_window_doubles() {
        let mut paths = unlike();
        paths[1].srtt = Some(Duration::from_millis(25));
        // Three rounds: 10 + 20 + 40 = 70 segments, 84 with the correction; or 10 + 15 + 15.
        paths[0].ssthresh = u32::MAX;
        assert_eq!(next(&mut Blest::default(), 0, 75_000, &paths), SLOW);
        assert_eq!(next(&mut Blest::default(), 0, 74_000, &paths), Decision::Wait);
        paths[0].ssthresh = 15_000;
        // 10 + 15 + 16 = 41 segments, 49.2 with the correction.
        assert_eq!(next(&mut Blest::default(), 0, 40_300, &paths), SLOW);
        assert_eq!(next(&mut Blest::default(), 0, 40_100, &paths), Decision::Wait);
    }

    #[test]
    fn what_is_outstanding_on_the_slow_path_takes_longer() {
        // The largest round-trip time seen is 200 ms; with half of the window outstanding and one segment
        // more it is 160 ms: 17 rounds, (10 + 8) * 17 = 306 segments, 367.2 with the correction.
        let mut paths = unlike();
        let mut scheduler = Blest::default();
        paths[1].srtt = Some(Duration::from_millis(200));
        next(&mut scheduler, 0, 1_000_000, &paths);
        paths[1].srtt = Some(Duration::from_millis(100));
        paths[1].outstanding = 5_000;
        // Left and 15 outstanding, less 6 on the slow path.
        assert_eq!(next(&mut scheduler, 0, 358_300, &paths), SLOW);
        assert_eq!(next(&mut scheduler, 0, 358_100, &paths), Decision::Wait);
    }

    #[test]
    fn the_correction_follows_what_blocks() {
        let paths = unlike();
        let mut scheduler = Blest::default();
        let after = |scheduler: &mut Blest, at_ms| {
            next(scheduler, at_ms, 1_000_000, &paths);
            (scheduler.correction * 1_000.0).round() / 1_000.0
        };
        assert_eq!(after(&mut scheduler, 99), 1.2, "not within a round trip of 100 ms");
        assert_eq!(after(&mut scheduler, 100), 1.19);
        scheduler.on_blocked();
        assert_eq!(after(&mut scheduler, 150), 1.19);
        assert_eq!(after(&mut scheduler, 200), 1.23);
        assert_eq!(after(&mut scheduler, 300), 1.22, "forgotten");
        for round in 4..100 {
            scheduler.on_blocked();
            after(&mut scheduler, round * 100);
        }
        assert_eq!(after(&mut scheduler, 9_901), 1.3);
    }
}
