//! Head-of-line blocking: data that has arrived and waits for earlier data. The trace has a row for every
//! interval in which what was missing had been sent on the same path.

use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::observed::{HeadOfLine, Missing, Transmission};
use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// The side that receives.
    SIDE = "side": Words;
    /// The path on which the missing data was sent.
    MISSING_PATH = "missing_path": One;
    /// When it began.
    START_S = "start_s": Seconds;
    /// When it ended.
    END_S = "end_s": Seconds;
    /// The first stream that waits, where each waits by itself (QUIC); 0 elsewhere.
    STREAM = "stream": One;
    /// Whether the missing data had to be retransmitted.
    SENT_AGAIN = "sent_again": Words;
    /// Bytes that waited, summed over the time.
    WAITING_BYTE_S = "waiting_byte_s": ByteSeconds;
}

pub(super) const TABLE: Declaration = Declaration {
    name: "head_of_line",
    row: "an interval in which data waited for earlier data of one path, with `run.time_accounts`",
    columns: COLUMNS,
};

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

declare! {
    /// The scalars of a receiving end, with `run.time_accounts`.
    SCALARS:
    /// Share of the time in which data that had arrived waited for earlier data.
    HEAD_OF_LINE_BLOCKED_SHARE = "head_of_line_blocked_share": One;
    /// Mean over time of the bytes that waited so.
    MEAN_HEAD_OF_LINE_BYTES = "mean_head_of_line_bytes": Bytes;
}

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    start: Time,
    end: Time,
    /// The path on which the missing data had been sent, and whether it had to be retransmitted.
    path: PathId,
    stream: u64,
    is_again: bool,
    /// Bytes that waited times nanoseconds, summed up.
    byte_nanos: f64,
}

/// Data that is waiting now.
#[derive(Clone, Copy, Debug)]
struct Open {
    missing: Missing,
    waiting: u64,
    interval: Interval,
}

/// The account of one receiving end.
#[derive(Clone, Debug, Default)]
struct Account {
    intervals: Vec<Interval>,
    open: Option<Open>,
    blocked: Duration,
    byte_nanos: f64,
}

impl Account {
    /// Advances the time to `now`.
    fn advance(&mut self, now: Time) {
        if let Some(Open { waiting, interval, .. }) = &mut self.open {
            let passed = now.saturating_since(interval.end);
            let byte_nanos = *waiting as f64 * passed.as_nanos() as f64;
            interval.end = now;
            interval.byte_nanos += byte_nanos;
            self.blocked += passed;
            self.byte_nanos += byte_nanos;
        }
    }

    /// Notes what waits from now on; `sent` tells how the sender has sent data.
    fn note(&mut self, now: Time, gap: Option<HeadOfLine>, sent: impl Fn(Missing) -> Option<Transmission>) {
        self.advance(now);
        if let (Some(open), Some(gap)) = (&mut self.open, gap)
            && open.missing == gap.missing
        {
            open.waiting = gap.waiting;
            return;
        }
        if let Some(open) = self.open.take() {
            let is_again = sent(open.missing).is_some_and(|sent| sent.is_again);
            self.push(Interval { is_again, ..open.interval });
        }
        self.open = gap.map(|HeadOfLine { missing, waiting }| {
            let path = sent(missing).map_or_else(PathId::default, |sent| sent.path);
            let stream = missing.stream.0;
            let interval = Interval { start: now, end: now, path, stream, is_again: false, byte_nanos: 0.0 };
            Open { missing, waiting, interval }
        });
    }

    fn push(&mut self, interval: Interval) {
        if interval.start == interval.end {
            return;
        }
        match self.intervals.last_mut() {
            Some(last)
                if last.end == interval.start
                    && (last.path, last.stream, last.is_again)
                        == (interval.path, interval.stream, interval.is_again) =>
            {
                last.end = interval.end;
                last.byte_nanos += interval.byte_nanos;
            }
            _ => self.intervals.push(interval),
        }
    }
}

/// The accounts of all flows.
#[derive(Debug)]
pub(crate) struct HeadOfLineTrace {
    flows: Vec<[Account; 2]>,
}

impl HeadOfLineTrace {
    /// Accounts for this many flows.
    pub(crate) fn new(flows: usize) -> Self {
        Self { flows: vec![Default::default(); flows] }
    }

    /// Records a step of one end of a flow.
    pub(crate) fn record(
        &mut self,
        now: Time,
        flow: usize,
        side: Side,
        gap: Option<HeadOfLine>,
        sent: impl Fn(Missing) -> Option<Transmission>,
    ) {
        self.flows[flow][side.index()].note(now, gap, sent);
    }

    /// Writes for what share of the time data has waited at one end of a flow, and how much of it on average.
    pub(crate) fn report(&self, now: Time, flow: usize, side: Side, report: &mut Report<'_>) {
        let mut account = self.flows[flow][side.index()].clone();
        account.advance(now);
        let all = now.as_nanos();
        report.mean(HEAD_OF_LINE_BLOCKED_SHARE, account.blocked.as_nanos() as f64, all);
        report.mean(MEAN_HEAD_OF_LINE_BYTES, account.byte_nanos, all);
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        let size = |account: &Account| account.intervals.capacity() * size_of::<Interval>();
        self.flows.iter().flatten().map(size).sum()
    }

    /// The intervals up to the end of the run, by flow and receiving side.
    pub(crate) fn into_table(mut self, flows: &[String], end: Time) -> Table {
        let (mut flow, mut side) = (Vec::new(), Vec::new());
        let (mut path, mut stream) = (Vec::new(), Vec::new());
        let (mut start, mut until) = (Vec::new(), Vec::new());
        let (mut again, mut byte_s) = (Vec::new(), Vec::new());
        for (name, sides) in flows.iter().zip(&mut self.flows) {
            for (receiver, account) in [Side::A, Side::B].into_iter().zip(sides) {
                account.note(end, None, |_| None);
                for interval in &account.intervals {
                    flow.push(name.clone().into());
                    side.push(receiver.name().into());
                    path.push(i64::from(interval.path.0));
                    stream.push(i64::try_from(interval.stream).unwrap_or(i64::MAX));
                    start.push(interval.start.as_secs_f64());
                    until.push(interval.end.as_secs_f64());
                    again.push(interval.is_again);
                    byte_s.push(interval.byte_nanos / NANOS);
                }
            }
        }
        let columns = vec![
            (FLOW, Column::Text(flow)),
            (SIDE, Column::Text(side)),
            (MISSING_PATH, Column::Integers(path)),
            (START_S, Column::Numbers(start)),
            (END_S, Column::Numbers(until)),
            (STREAM, Column::Integers(stream)),
            (SENT_AGAIN, Column::Flags(again)),
            (WAITING_BYTE_S, Column::Numbers(byte_s)),
        ];
        TABLE.with(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_charged_to_the_path_of_what_is_missing() {
        let at = Time::from_secs;
        let gap = |number: u64, waiting| Some(HeadOfLine { waiting, missing: number.into() });
        let sent = |Missing { number, .. }: Missing| {
            Some(Transmission { path: PathId(u8::from(number >= 20)), is_again: number == 30 })
        };
        let mut account = Account::default();
        account.note(at(0), None, sent);
        account.note(at(1), gap(10, 100), sent);
        account.note(at(2), gap(10, 300), sent);
        account.note(at(3), gap(11, 200), sent);
        account.note(at(4), gap(20, 50), sent);
        account.note(at(6), gap(30, 50), sent);
        account.note(at(7), None, sent);
        account.note(at(9), None, sent);
        let rows: Vec<_> = account
            .intervals
            .iter()
            .map(|own| (own.start, own.end, own.path.0, own.is_again, own.byte_nanos / NANOS))
            .collect();
        let expected =
            [(at(1), at(4), 0, false, 600.0), (at(4), at(6), 1, false, 100.0), (at(6), at(7), 1, true, 50.0)];
        assert_eq!(rows, expected);
        assert_eq!((account.blocked, account.byte_nanos / NANOS), (Duration::from_secs(6), 750.0));
    }
}
