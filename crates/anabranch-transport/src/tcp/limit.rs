//! What holds a sender back, and what a receiver waits for, for time accounts. It is read only on request.

use super::burst::Deferral;
use super::connection::{Connection, State};
use super::recovery::CongestionState;
use crate::observed::{HeadOfLine, LimitedBy, Transmission};
use crate::time::Time;

impl Connection {
    /// What holds the sender back now; `None` without a connection. `more_waits` is whether its writer has
    /// data that was not handed over, although there was room.
    pub(crate) fn limit(&self, now: Time, more_waits: bool) -> Option<LimitedBy> {
        Some(match (self.state, self.recovery.state) {
            (State::Closed | State::TimeWait, _) => return None,
            (State::SynReceived | State::SynSent, _) => LimitedBy::Handshake,
            (_, CongestionState::Loss) => LimitedBy::Timeout,
            (_, CongestionState::Recovery) => LimitedBy::Recovery,
            _ => self.limit_of_new_data(now, more_waits),
        })
    }

    /// What holds new data back, checked in the order of [`Self::push`] (Linux: `tcp_write_xmit`).
    fn limit_of_new_data(&self, now: Time, more_waits: bool) -> LimitedBy {
        let unsent = self.sender.unsent();
        if unsent == 0 && !more_waits && !self.sender.has_refused {
            return LimitedBy::Application;
        }
        let cwnd = self.cwnd();
        if !self.may_add_to_flight(cwnd) || self.waits_for_pace(now) {
            return LimitedBy::CongestionWindow;
        }
        if unsent == 0 {
            return match more_waits {
                true if self.sender.next >= self.sender.window_end() => LimitedBy::ReceiveWindow,
                true => LimitedBy::Scheduler,
                false => LimitedBy::SendBuffer,
            };
        }
        let limit = u64::from(self.segment_limit());
        if self.sender.next + unsent.min(limit) > self.sender.window_end() {
            return LimitedBy::ReceiveWindow;
        }
        match self.deferral(now, &mut self.largest_burst(cwnd), cwnd) {
            // The rest of the burst waits for the narrower of the two windows.
            Some(Deferral::Other) => {
                let peer_room = self.sender.window_end() - self.sender.next;
                let room = cwnd.saturating_sub(self.board.in_flight()).saturating_mul(self.mss);
                if peer_room <= u64::from(room) {
                    LimitedBy::ReceiveWindow
                } else {
                    LimitedBy::CongestionWindow
                }
            }
            None if unsent < limit && self.nagle_waits() => self.limit_of_little(),
            Some(Deferral::CongestionWindow) | None => LimitedBy::CongestionWindow,
        }
    }

    /// What limits the sender when less than a segment waits for more to come.
    const fn limit_of_little(&self) -> LimitedBy {
        if self.sender.has_refused { LimitedBy::SendBuffer } else { LimitedBy::Application }
    }

    /// The data that waits above a gap.
    pub(crate) fn gap(&self) -> Option<HeadOfLine> {
        let Self { receiver, .. } = self;
        (receiver.waiting > 0)
            .then_some(HeadOfLine { waiting: receiver.waiting, missing: receiver.next.into() })
    }

    /// The last transmission of the segment with this number.
    pub(crate) fn sent(&self, number: u64) -> Option<Transmission> {
        let segment = self.board.holding(number)?;
        Some(Transmission { path: self.path, is_again: segment.ever_retransmitted })
    }
}
