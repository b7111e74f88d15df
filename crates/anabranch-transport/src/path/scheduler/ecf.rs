//! Earliest completion first (Y.-s. Lim, E. Nahum, D. Towsley and R. Gibbens, "ECF: an MPTCP path scheduler
//! to manage heterogeneous paths", ACM `CoNEXT` 2017; constants as in the authors' Linux module
//! `mptcp_ecf.c`).
//!
//! If the fastest path has no room, data waits for it if the fastest path alone would have sent everything
//! queued before the slower one could deliver its first window (algorithm 1 of the paper).

use super::{Decision, PathView, Pending, Scheduler, Slower, slower};

/// How much longer, as a share, the fastest path may take once it has been waited for (beta).
const HYSTERESIS: f64 = 0.25;

/// The scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ecf {
    is_waiting: bool,
}

impl Scheduler for Ecf {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        let Slower { fast, slow } = match slower(paths) {
            Ok(slower) => slower,
            Err(decision) => return decision,
        };
        let variation = fast.0.rttvar.max(slow.0.rttvar).as_secs_f64();
        let (rtt_fast, rtt_slow) = (fast.1.as_secs_f64(), slow.1.as_secs_f64());
        // The number of windows for the queued data, at least one.
        let rounds = |path: &PathView| (data.queued as f64 / f64::from(path.cwnd.max(1))).max(1.0);
        let patience = if self.is_waiting { 1.0 + HYSTERESIS } else { 1.0 };
        // A round trip until the fastest path has room, and then the time for all of it.
        if (1.0 + rounds(fast.0)) * rtt_fast < patience * (rtt_slow + variation) {
            if rounds(slow.0) * rtt_slow >= 2.0 * rtt_fast + variation {
                self.is_waiting = true;
                return Decision::Wait;
            }
        } else {
            self.is_waiting = false;
        }
        Decision::Send(slow.0.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unlike;
    use super::*;
    use crate::flow::PathId;
    use crate::time::{Duration, Time};

    const SLOW: Decision = Decision::Send(PathId(1));

    fn next(scheduler: &mut Ecf, queued: u64, paths: &[PathView]) -> Decision {
        scheduler.schedule(&Pending::new(Time::ZERO, 1_000, queued, 1_000_000), paths)
    }

    #[test]
    fn little_data_waits_and_much_does_not() {
        // 1 + queued / 10000 round trips of 10 ms against one of 100 ms: up to 90000 bytes.
        let paths = unlike();
        assert_eq!(next(&mut Ecf::default(), 89_000, &paths), Decision::Wait);
        assert_eq!(next(&mut Ecf::default(), 91_000, &paths), SLOW);
    }

    #[test]
    fn who_waits_goes_on_waiting_a_quarter_longer() {
        // (1 + queued / 10000) * 10 ms against 125 ms: up to 115000 bytes, but from 90000 to begin with.
        let paths = unlike();
        let mut scheduler = Ecf::default();
        assert_eq!(next(&mut scheduler, 89_000, &paths), Decision::Wait);
        assert_eq!(next(&mut scheduler, 114_000, &paths), Decision::Wait);
        assert_eq!(next(&mut scheduler, 116_000, &paths), SLOW);
        assert_eq!(next(&mut scheduler, 114_000, &paths), SLOW, "it has to begin anew");
    }

    #[test]
    fn what_varies_more_is_waited_for_longer_and_paths_alike_are_both_used() {
        let mut paths = unlike();
        // One round trip of the slow path and its variation of 20 ms: up to 110000 bytes.
        paths[1].rttvar = Duration::from_millis(20);
        assert_eq!(next(&mut Ecf::default(), 109_000, &paths), Decision::Wait);
        assert_eq!(next(&mut Ecf::default(), 111_000, &paths), SLOW);
        // Two round trips of the fast path, 20 ms, and the variation: the slow path delivers no later.
        paths[1].srtt = Some(Duration::from_millis(30));
        assert_eq!(next(&mut Ecf::default(), 1_000, &paths), SLOW);
        paths[1].rttvar = Duration::from_millis(5);
        assert_eq!(next(&mut Ecf::default(), 1_000, &paths), Decision::Wait);
        paths[0].has_room = true;
        assert_eq!(next(&mut Ecf::default(), 1_000, &paths), Decision::Send(PathId(0)));
    }
}
