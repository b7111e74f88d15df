//! Where the time of each path went: an account of what held its sender back, and the limit trace, with a row
//! for every interval in which that stayed the same.

use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::observed::{LimitedBy, PathLimit};
use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// The side that sends.
    SIDE = "side": Words;
    /// The number of the path among the flow's, from 0; -1 for the whole connection.
    PATH = "path": One;
    /// When it began.
    START_S = "start_s": Seconds;
    /// When it ended.
    END_S = "end_s": Seconds;
    /// What held the sender back, as the shares of time are named.
    LIMIT = "limit": Words;
    /// The path on which the data was sent that a full buffer waits for; -1 if no buffer is the limit.
    WAITS_FOR = "waits_for": One;
}

pub(super) const TABLE: Declaration = Declaration {
    name: "limits",
    row: "an interval in which the same limit held the sender of a path back, with `run.time_accounts`",
    columns: COLUMNS,
};

declare! {
    /// The share of the time in which each limit held the sender back, in the order of [`LimitedBy::ALL`]. A
    /// meaning is the limit in words.
    SHARES:
    /// congestion window used up
    CWND_LIMITED_SHARE = "cwnd_limited_share": One;
    /// nothing to send
    APPLICATION_LIMITED_SHARE = "application_limited_share": One;
    /// receive window closed
    RECEIVE_WINDOW_LIMITED_SHARE = "receive_window_limited_share": One;
    /// send buffer full
    SEND_BUFFER_LIMITED_SHARE = "send_buffer_limited_share": One;
    /// scheduler leaves it idle
    SCHEDULER_WAITING_SHARE = "scheduler_waiting_share": One;
    /// fast recovery
    IN_RECOVERY_SHARE = "in_recovery_share": One;
    /// timeout
    IN_TIMEOUT_SHARE = "in_timeout_share": One;
    /// path down
    PATH_DOWN_SHARE = "path_down_share": One;
    /// stands by
    STANDBY_SHARE = "standby_share": One;
    /// opening
    HANDSHAKE_SHARE = "handshake_share": One;
}

declare! {
    /// What else a path has.
    PATH_SCALARS:
    /// Mean over time of the smoothed round-trip time.
    MEAN_SRTT_MS = "mean_srtt_ms": Millis, Less;
}

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    start: Time,
    end: Time,
    state: State,
}

/// What holds a sender back, and the path that a full buffer waits for.
type State = (LimitedBy, Option<PathId>);

/// The mean of a round-trip time over the time in which it was known.
#[derive(Clone, Copy, Debug, Default)]
struct MeanRtt {
    /// The present state, and since when.
    now: Option<(Duration, Time)>,
    /// The sum of round-trip times (in nanoseconds) times nanoseconds, and the nanoseconds in which they were
    /// known.
    sum: f64,
    time: u64,
}

impl MeanRtt {
    fn note(&mut self, now: Time, rtt: Option<Duration>) {
        if let Some((before, since)) = self.now {
            let passed = now.saturating_since(since).as_nanos();
            self.sum += before.as_nanos() as f64 * passed as f64;
            self.time += passed;
        }
        self.now = rtt.map(|rtt| (rtt, now));
    }

    fn report(mut self, now: Time, report: &mut Report<'_>) {
        self.note(now, None);
        report.mean(MEAN_SRTT_MS, self.sum / NANOS_PER_MILLI, self.time);
    }
}

/// Nanoseconds in a millisecond.
const NANOS_PER_MILLI: f64 = 1e6;

/// The account of one path, or of a whole connection. Its intervals do not overlap, and leave gaps only while
/// there is no connection.
#[derive(Clone, Debug, Default)]
struct Account {
    intervals: Vec<Interval>,
    /// The present state, and since when.
    open: Option<(State, Time)>,
    /// Time for each limit, without the open interval.
    totals: [Duration; LimitedBy::ALL.len()],
}

/// The position of a limit in the list of all limits.
fn place(limit: LimitedBy) -> usize {
    LimitedBy::ALL.iter().position(|&other| other == limit).expect("all are there")
}

impl Account {
    fn note(&mut self, now: Time, limit: Option<&PathLimit>) {
        let state = limit.map(|own| (own.limit, own.waits_for));
        if self.open.map(|(state, _)| state) == state {
            return;
        }
        self.close(now);
        self.open = state.map(|state| {
            // The state in between lasted no time.
            let last = self.intervals.pop_if(|last| last.state == state && last.end == now);
            let start = last.map_or(now, |last| {
                self.totals[place(state.0)] -= last.end - last.start;
                last.start
            });
            (state, start)
        });
    }

    fn close(&mut self, now: Time) {
        if let Some((state, start)) = self.open.take()
            && start < now
        {
            self.intervals.push(Interval { start, end: now, state });
            self.totals[place(state.0)] += now - start;
        }
    }

    /// Time for each limit until now.
    fn totals(&self, now: Time) -> [Duration; LimitedBy::ALL.len()] {
        let mut totals = self.totals;
        if let Some(((limit, _), start)) = self.open {
            totals[place(limit)] += now.saturating_since(start);
        }
        totals
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        let totals = self.totals(now);
        let all: u64 = totals.iter().map(|time| time.as_nanos()).sum();
        for (share, time) in SHARES.iter().zip(totals) {
            report.mean(*share, time.as_nanos() as f64, all);
        }
    }
}

/// The accounts of one end of a flow.
#[derive(Clone, Debug)]
struct End {
    connection: Account,
    paths: Vec<Account>,
    rtts: Vec<MeanRtt>,
}

/// The accounts of all flows.
#[derive(Debug)]
pub(crate) struct LimitTrace {
    flows: Vec<[End; 2]>,
}

impl LimitTrace {
    /// Accounts for flows, each with this many paths.
    pub(crate) fn new(paths: impl Iterator<Item = usize>) -> Self {
        let end = |count| End {
            connection: Account::default(),
            paths: vec![Account::default(); count],
            rtts: vec![MeanRtt::default(); count],
        };
        Self { flows: paths.map(|count| [end(count), end(count)]).collect() }
    }

    /// Records a step of one end of a flow, and what holds its paths back from now on.
    pub(crate) fn record(&mut self, now: Time, flow: usize, side: Side, limits: &[PathLimit]) {
        let End { connection, paths, rtts } = &mut self.flows[flow][side.index()];
        for (index, (account, rtt)) in paths.iter_mut().zip(rtts).enumerate() {
            let own = limits.iter().find(|limit| limit.path.index() == index);
            account.note(now, own);
            rtt.note(now, own.and_then(|own| own.srtt));
        }
        connection.note(now, limits.iter().min_by_key(|own| own.limit.rank()));
    }

    /// Writes the shares of time of one end of a flow, of its connection first.
    pub(crate) fn report(&self, now: Time, flow: usize, side: Side, report: &mut Report<'_>) {
        let End { connection, paths, rtts } = &self.flows[flow][side.index()];
        connection.report(now, report);
        for (index, (account, rtt)) in paths.iter().zip(rtts).enumerate() {
            let mut report = report.section(&format!("path{index}"));
            account.report(now, &mut report);
            rtt.report(now, &mut report);
        }
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        let size = |account: &Account| account.intervals.capacity() * size_of::<Interval>();
        let ends = self.flows.iter().flatten();
        ends.map(|end| size(&end.connection) + end.paths.iter().map(size).sum::<usize>()).sum()
    }

    /// The intervals up to the end of the run, by flow, side and path; path -1 is the whole connection.
    /// `waits_for` is the path of the earliest data that a full buffer waits for, -1 if no buffer is the
    /// limit.
    pub(crate) fn into_table(mut self, flows: &[String], end: Time) -> Table {
        let (mut flow, mut side, mut path) = (Vec::new(), Vec::new(), Vec::new());
        let (mut start, mut until) = (Vec::new(), Vec::new());
        let (mut limit, mut waits_for) = (Vec::new(), Vec::new());
        for (name, sides) in flows.iter().zip(&mut self.flows) {
            for (sender, End { connection, paths, .. }) in [Side::A, Side::B].into_iter().zip(sides) {
                for (number, account) in (-1..).zip(std::iter::once(connection).chain(paths)) {
                    account.close(end);
                    for interval in &account.intervals {
                        flow.push(name.clone().into());
                        side.push(sender.name().into());
                        path.push(number);
                        start.push(interval.start.as_secs_f64());
                        until.push(interval.end.as_secs_f64());
                        let (what, other) = interval.state;
                        limit.push(what.name().into());
                        waits_for.push(other.map_or(-1, |path| i64::from(path.0)));
                    }
                }
            }
        }
        let columns = vec![
            (FLOW, Column::Text(flow)),
            (SIDE, Column::Text(side)),
            (PATH, Column::Integers(path)),
            (START_S, Column::Numbers(start)),
            (END_S, Column::Numbers(until)),
            (LIMIT, Column::Text(limit)),
            (WAITS_FOR, Column::Integers(waits_for)),
        ];
        TABLE.with(columns)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::flow::PathId;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    fn intervals(account: &Account) -> Vec<(u64, u64, LimitedBy)> {
        let seconds = |time: Time| time.as_nanos() / 1_000_000_000;
        account.intervals.iter().map(|own| (seconds(own.start), seconds(own.end), own.state.0)).collect()
    }

    fn of(limit: LimitedBy) -> PathLimit {
        PathLimit::new(PathId(0), limit, || None, None)
    }

    #[test]
    fn every_limit_has_its_share() {
        let shares = SHARES.iter().map(|share| share.name);
        assert!(shares.eq(LimitedBy::ALL.iter().map(|limit| format!("{}_share", limit.name()))));
    }

    #[test]
    fn what_takes_no_time_leaves_no_interval() {
        let mut account = Account::default();
        account.note(at(1), Some(&of(LimitedBy::Handshake)));
        account.note(at(2), Some(&of(LimitedBy::Application)));
        account.note(at(2), Some(&of(LimitedBy::CongestionWindow)));
        account.note(at(5), Some(&of(LimitedBy::Application)));
        account.note(at(5), Some(&of(LimitedBy::CongestionWindow)));
        account.note(at(9), None);
        let expected = [(1, 2, LimitedBy::Handshake), (2, 9, LimitedBy::CongestionWindow)];
        assert_eq!(intervals(&account), expected);
        let totals = account.totals(at(20));
        assert_eq!(totals[place(LimitedBy::CongestionWindow)], Duration::from_secs(7));
        assert_eq!(totals.iter().map(|time| time.as_nanos()).sum::<u64>(), 8_000_000_000);
    }

    #[test]
    fn a_full_buffer_waits_for_one_path_after_the_other() {
        let waits = |path| PathLimit::new(PathId(0), LimitedBy::ReceiveWindow, || Some(PathId(path)), None);
        let mut account = Account::default();
        account.note(at(0), Some(&waits(1)));
        account.note(at(2), Some(&waits(1)));
        account.note(at(3), Some(&waits(0)));
        account.close(at(4));
        assert_eq!(intervals(&account), [(0, 3, LimitedBy::ReceiveWindow), (3, 4, LimitedBy::ReceiveWindow)]);
        assert_eq!(account.intervals[0].state.1, Some(PathId(1)));
        let is_no_buffer = PathLimit::new(PathId(0), LimitedBy::Timeout, || Some(PathId(1)), None);
        assert_eq!(is_no_buffer.waits_for, None);
    }

    #[test]
    fn a_connection_is_held_back_by_its_ends_before_its_paths() {
        let connection = |limits: &[LimitedBy]| {
            let mut trace = LimitTrace::new([limits.len()].into_iter());
            let paths: Vec<_> = (0..)
                .zip(limits)
                .map(|(path, &limit)| PathLimit::new(PathId(path), limit, || None, None))
                .collect();
            trace.record(at(0), 0, Side::A, &paths);
            trace.flows[0][0].connection.open.map(|((limit, _), _)| limit)
        };
        assert_eq!(connection(&[]), None);
        let of = [LimitedBy::Timeout, LimitedBy::CongestionWindow, LimitedBy::Standby];
        assert_eq!(connection(&of), Some(LimitedBy::CongestionWindow));
        let of = [LimitedBy::CongestionWindow, LimitedBy::ReceiveWindow];
        assert_eq!(connection(&of), Some(LimitedBy::ReceiveWindow));
        assert_eq!(connection(&[LimitedBy::PathDown, LimitedBy::Timeout]), Some(LimitedBy::Timeout));
    }

    #[test]
    fn shares_are_of_the_time_since_the_warm_up() {
        let row = |trace: &LimitTrace, now| {
            let mut row = anabranch_transport::report::Row::default();
            trace.report(now, 0, Side::A, &mut row.section("a"));
            row
        };
        let mut trace = LimitTrace::new([2].into_iter());
        let limit = |limit| PathLimit { path: PathId(1), ..of(limit) };
        trace.record(at(0), 0, Side::A, &[limit(LimitedBy::Handshake)]);
        trace.record(at(1), 0, Side::A, &[limit(LimitedBy::CongestionWindow)]);
        let early = row(&trace, at(2));
        trace.record(at(3), 0, Side::A, &[limit(LimitedBy::Timeout)]);
        let after = row(&trace, at(4)).without(&early);
        assert_eq!(after.value("a.path1.cwnd_limited_share"), Some(0.5));
        assert_eq!(after.value("a.in_timeout_share"), Some(0.5));
        assert_eq!(after.value("a.path1.handshake_share"), Some(0.0));
        assert!(after.value("a.path0.cwnd_limited_share").unwrap().is_nan(), "not used");
    }
}
