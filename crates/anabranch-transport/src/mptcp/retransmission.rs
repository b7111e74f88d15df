//! The connection's retransmission timer: when data is sent again on another subflow, and when a subflow has
//! failed (RFC 8684 section 3.3.6). Profile `linux_6` has the timer of Linux 6.12, whose intervals also count
//! for how long a subflow is silent; the others double the timer, and count each subflow's own timeouts.

use super::connection::{Connection, State};
use super::parameters::StaleCounts;
use super::send::{Chunk, DEFAULT_INTERVAL, FRAGMENT_BYTES};
use super::subflow::Subflow;
use crate::path::PathState;
use crate::time::{Duration, Time};
use crate::wire::mptcp::Options;

/// The unit in which the kernel counts time, at 1000 Hz.
const JIFFY: Duration = Duration::from_millis(1);
/// For a `DATA_FIN`, the interval doubles at most this many times (Linux: `mptcp_set_datafin_timeout`,
/// `TCP_RTO_MAX` over `TCP_RTO_MIN`).
const MOST_DOUBLINGS: u32 = 9;
/// After this many intervals in which no other subflow received anything, a backup is used (Linux:
/// `mptcp_subflow_get_retrans`).
const BACKUP_AFTER: u32 = 2;

impl Connection {
    pub(super) fn counts_intervals(&self) -> bool {
        self.parameters.stale_counts == StaleCounts::Intervals
    }

    /// The period of the connection's timer: the longest timeout of the subflows that work, doubled with
    /// every expiry. Linux has intervals instead, and leaves a closed window to the timers of its subflows,
    /// which double too.
    fn timer_period(&self) -> Duration {
        if self.counts_intervals() && self.sender.has_outstanding() {
            return self.sender.interval;
        }
        let longest = |usable: bool| {
            let subflows =
                self.subflows.iter().filter(|it| it.is_established() && (it.is_usable() || !usable));
            subflows.map(|subflow| subflow.tcp.rto()).max()
        };
        let base = longest(true).or_else(|| longest(false)).unwrap_or(Duration::from_secs(1));
        (base * (1 << self.sender.expiries.min(16))).min(self.parameters.tcp.rto_max())
    }

    /// Starts the connection's timer if it does not run and there is something to wait for.
    pub(super) fn start_timer(&mut self, now: Time) {
        let waits = self.sender.has_outstanding() || self.sender.unsent() > 0;
        if !waits || self.state != State::Established {
            self.sender.timer = Time::NEVER;
        } else if self.sender.timer.is_never() {
            self.sender.timer = self.clock.deadline(now, self.timer_period());
        }
    }

    /// Restarts the connection's timer after the peer has acknowledged more on the connection level.
    pub(super) fn restart_timer(&mut self, now: Time) {
        self.sender.expiries = 0;
        if self.counts_intervals() {
            // The timers of the subflows have not been restarted by the acknowledgement yet.
            self.sender.has_progress = true;
            return;
        }
        self.sender.timer = Time::NEVER;
        self.start_timer(now);
    }

    /// Renews the interval before data is handed to subflows (Linux: `mptcp_subflow_get_send`), if the
    /// application has written (`mptcp_sendmsg`), data is to be sent again, or the timer has expired
    /// (`mptcp_check_and_set_pending`). Then restarts a timer whose data has been acknowledged
    /// (`__mptcp_clean_una`).
    pub(super) fn renew_interval(&mut self, now: Time) {
        if !self.counts_intervals() {
            return;
        }
        if std::mem::take(&mut self.sender.renews_interval) && self.sender.has_pending() {
            self.sender.interval = self.interval(now, None);
        }
        if std::mem::take(&mut self.sender.has_progress) {
            self.sender.timer = Time::NEVER;
            self.start_timer(now);
        }
    }

    /// A segment with a data acknowledgement came on this path: where data waits for a subflow, the scheduler
    /// is asked, which renews the interval, whether or not a subflow has room (Linux: `ack_update_msk`,
    /// `__mptcp_check_push`). By then the acknowledgement has restarted the subflow's timer, and what it lets
    /// the subflow send has not yet.
    pub(super) fn renew_interval_after(&mut self, now: Time, path: usize, options: &Options) {
        let counts = self.counts_intervals() && options.data_ack.is_some();
        if counts && self.sender.has_pending() && self.sender.has_window() {
            self.sender.interval = self.interval(now, Some(path));
        }
    }

    /// The interval of the connection's timer: up to the last of the timers of subflows that have not been
    /// silent for an interval (Linux: `mptcp_timeout_from_subflow`, `__mptcp_set_timeout`). Less than a jiffy
    /// counts as none. An acknowledgement may have come on one of the paths, and nothing counts that it let
    /// the subflow send.
    fn interval(&self, now: Time, acknowledged: Option<usize>) -> Duration {
        let left = |(path, subflow): (usize, &Subflow)| {
            if acknowledged == Some(path) && subflow.tcp.heard_at() == now {
                subflow.tcp.time_to_timer_of_ack(now)
            } else {
                subflow.tcp.time_to_timer(now)
            }
        };
        let heard = self
            .subflows
            .iter()
            .enumerate()
            .filter(|(_, subflow)| subflow.is_established() && subflow.silent_intervals == 0);
        heard.filter_map(left).max().filter(|left| *left >= JIFFY).unwrap_or(DEFAULT_INTERVAL)
    }

    /// The connection's timer expires (RFC 8684 section 3.3.6): the first piece is sent again on a subflow
    /// with nothing to do; `DATA_FIN` is sent again; a closed window is probed.
    #[cold]
    pub(super) fn on_data_timer(&mut self, now: Time) {
        self.sender.timer = Time::NEVER;
        self.sender.expiries += 1;
        if self.counts_intervals() {
            // Linux, __mptcp_retrans: the timer is started again before anything else, with the same
            // interval, which is renewed when pending data is handed out after that.
            self.start_timer(now);
            self.sender.renews_interval = true;
        }
        if self.sender.has_chunks() {
            let is_sent_again =
                if self.counts_intervals() { self.end_interval() } else { self.send_first_again() };
            let is_idle = |subflow: &Subflow| subflow.tcp.is_idle() || !subflow.is_established();
            if is_sent_again {
                self.stats.timeouts += 1;
            } else if self.subflows.iter().all(is_idle) {
                // The data has arrived, and its acknowledgement was lost: on idle subflows no other one will
                // come.
                self.stats.timeouts += 1;
                self.ask_all(now);
            }
        } else if self.sender.has_sent_fin && !self.sender.is_done() {
            self.stats.timeouts += 1;
            self.sender.fin_has_left = false;
            self.sender.interval = DEFAULT_INTERVAL * (1 << self.sender.expiries.min(MOST_DOUBLINGS));
        } else if self.sender.unsent() > 0 {
            self.probe_window(now);
        }
    }

    /// Sends the first piece again on a subflow with nothing to do; gives whether there is one.
    fn send_first_again(&mut self) -> bool {
        let is_idle = |subflow: &Subflow| subflow.is_usable() && subflow.tcp.is_idle();
        let does = self.parameters.reinjection && self.subflows.iter().any(is_idle);
        if does {
            // Data that a subflow has delivered may have to be sent on it again.
            let subflows = &self.subflows;
            self.sender.send_first_again(|carrier| is_idle(&subflows[usize::from(carrier)]));
        }
        does
    }

    /// Handles an interval without an acknowledgement on the connection level: the first fragment is sent on
    /// the first subflow with nothing to do, and on a backup only if no other subflow receives anything
    /// (Linux: `__mptcp_retrans`, `mptcp_subflow_get_retrans`). Gives whether there is such a subflow.
    fn end_interval(&mut self) -> bool {
        let (mut regular, mut backup, mut least) = (None, None, u32::MAX);
        for path in 0..self.subflows.len() {
            let subflow = &self.subflows[path];
            if !subflow.is_established() {
                continue;
            }
            if !subflow.tcp.is_idle() {
                self.record_silence(path);
                least = least.min(self.subflows[path].silent_intervals);
            } else if subflow.sends_as_backup() {
                backup = backup.or(Some(path));
            } else {
                regular = regular.or(Some(path));
            }
        }
        let chosen = regular.or_else(|| backup.filter(|_| least >= BACKUP_AFTER));
        let Some(path) = chosen.filter(|_| self.parameters.reinjection) else { return false };
        self.sender.send_first_again_on(path, FRAGMENT_BYTES)
    }

    /// Counts the intervals in which a subflow with data outstanding receives nothing (Linux:
    /// `mptcp_pm_subflow_chk_stale`).
    fn record_silence(&mut self, path: usize) {
        let subflow = &mut self.subflows[path];
        let heard_at = subflow.tcp.heard_at();
        if subflow.silent_intervals == 0 {
            subflow.silent_since = heard_at;
            subflow.silent_intervals = 1;
        } else if subflow.silent_since == heard_at {
            subflow.silent_intervals += 1;
            self.record_stale(path);
        } else {
            subflow.silent_intervals = 0;
        }
    }

    /// Notes that a subflow was silent for an interval. If it was silent for too long and another one works,
    /// it has failed, and everything is sent again (Linux: `mptcp_pm_nl_subflow_chk_stale`,
    /// `__mptcp_retransmit_pending_data`).
    fn record_stale(&mut self, path: usize) {
        let (subflow, most) = (&self.subflows[path], self.parameters.stale_after);
        if subflow.has_failed || subflow.silent_intervals <= most {
            return;
        }
        let works = |it: &Subflow| it.is_usable() && it.silent_intervals < most.saturating_sub(1).max(1);
        let has_other =
            self.subflows.iter().enumerate().any(|(other, subflow)| other != path && works(subflow));
        if has_other {
            self.fail(path);
        }
    }

    /// Notes whether a subflow works.
    pub(super) fn record_failure(&mut self, path: usize) {
        let subflow = &self.subflows[path];
        let fails = match self.parameters.stale_counts {
            // Linux, mptcp_subflow_active: the failure lasts until it receives anything.
            StaleCounts::Intervals => subflow.has_failed && subflow.tcp.heard_at() == subflow.silent_since,
            StaleCounts::Timeouts => subflow.tcp.timeouts() >= self.parameters.stale_after,
        };
        let has_failed = fails && subflow.is_open();
        if has_failed == subflow.has_failed || self.state != State::Established {
            return;
        }
        if has_failed {
            self.fail(path);
        } else {
            self.subflows[path].has_failed = false;
            if self.subflows[path].is_open() {
                self.report_path(path, PathState::Active);
            }
        }
    }

    pub(super) fn fail(&mut self, path: usize) {
        self.subflows[path].has_failed = true;
        self.stats.path_failures += 1;
        if self.parameters.reinjection {
            if self.counts_intervals() {
                self.sender.send_all_again();
            } else {
                // RFC 8684 section 3.3.6: the data that the subflow carried last.
                let is_concerned = |chunk: &Chunk| chunk.carriers.last() == Some(&(path as u8));
                self.sender.send_again_where(is_concerned);
            }
        }
        self.report_path(path, PathState::PotentiallyFailed);
    }

    /// Asks for an acknowledgement on every subflow.
    pub(super) fn ask_all(&mut self, now: Time) {
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_established()) {
            subflow.tcp.probe(now);
            subflow.is_dirty = true;
        }
    }
}
