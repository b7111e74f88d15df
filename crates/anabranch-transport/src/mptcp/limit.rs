//! What holds each subflow of a sender back, and what a receiver waits for, for time accounts. It is read
//! only on request.

use super::connection::{Connection, State};
use super::subflow::Subflow;
use crate::flow::PathId;
use crate::observed::{HeadOfLine, LimitedBy, PathLimit, Transmission};
use crate::tcp::subflow::Phase;
use crate::time::Time;

impl Connection {
    /// What holds each subflow back now; empty without a connection.
    pub(super) fn limits_of_paths(&self, now: Time, limits: &mut Vec<PathLimit>) {
        let backups_wait = self.subflows.iter().any(|it| it.is_usable() && !it.sends_as_backup());
        for (path, subflow) in self.subflows.iter().enumerate() {
            let limit = match self.state {
                State::Closed => return,
                State::Opening => LimitedBy::Handshake,
                State::Fallback(only) if only != path => LimitedBy::Standby,
                State::Fallback(_) => match subflow.tcp.limit(now, false) {
                    Some(limit) => limit,
                    None => return,
                },
                State::Closing => LimitedBy::Application,
                State::Established => self.limit_of_subflow(now, subflow, backups_wait),
            };
            let path = PathId(path as u8);
            limits.push(PathLimit::new(path, limit, || self.earliest(), subflow.tcp.srtt()));
        }
    }

    fn limit_of_subflow(&self, now: Time, subflow: &Subflow, backups_wait: bool) -> LimitedBy {
        if !subflow.is_present || subflow.has_failed || subflow.phase == Phase::Closed {
            return LimitedBy::PathDown;
        }
        if !subflow.is_established() && subflow.phase != Phase::Closing {
            return LimitedBy::Handshake;
        }
        if backups_wait && subflow.sends_as_backup() {
            return LimitedBy::Standby;
        }
        let waits = self.has_waiting();
        match subflow.tcp.limit(now, waits || self.sender.has_refused) {
            Some(LimitedBy::Scheduler) if waits => self.limit_of_waiting(subflow),
            Some(LimitedBy::Scheduler) => LimitedBy::SendBuffer,
            Some(limit) => limit,
            None => LimitedBy::PathDown,
        }
    }

    /// The data that waits above a gap, on the connection level and on that of each subflow.
    pub(super) fn gap(&self) -> Option<HeadOfLine> {
        let of_subflows = self.subflows.iter().filter_map(|subflow| subflow.tcp.gap());
        let waiting = self.receiver.waiting + of_subflows.map(|gap| gap.waiting).sum::<u64>();
        (waiting > 0).then_some(HeadOfLine { waiting, missing: self.receiver.next.into() })
    }

    /// The last transmission of the data at this position.
    pub(super) fn sent(&self, position: u64) -> Option<Transmission> {
        let carriers = self.carriers(position)?;
        let path = PathId(*carriers.last()?);
        let is_again = carriers.len() > 1 || self.subflows[path.index()].was_sent_again(position);
        Some(Transmission { path, is_again })
    }

    /// The path of the first data that has not been acknowledged.
    fn earliest(&self) -> Option<PathId> {
        self.carriers(self.sender.unacknowledged)
            .and_then(|carriers| carriers.last())
            .map(|&path| PathId(path))
    }
}
