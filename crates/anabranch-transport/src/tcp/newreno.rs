//! NewReno as RFC 5681 section 3.2 and RFC 6582 have it without selective acknowledgements, in the form of
//! the model that profile `kheirkhah_v1` follows: everything from SND.UNA to SND.NXT counts as outstanding,
//! and a control that owns recovery inflates its window for what duplicates show to have arrived. What it
//! answers to each is in `cc/coupled/frame.rs`.
//!
//! Names are those of the model's functions in `mp-tcp-socket-base.cc`.
//!
//! Known deviations from the model: a lost SYN is sent again (there it is a fatal error), the timeout is not
//! cut to whole milliseconds, couplings smooth the round-trip time of the newest segment that an
//! acknowledgement covers instead of the oldest, marks are obeyed where ECN is switched on, and
//! `Fully_Coupled` has the threshold of the others instead of `cwnd - W / 2`.

use super::acknowledgement::Ack;
use super::connection::Connection;
use super::recovery::{CongestionState, DUP_THRESHOLD, Resend};
use crate::cc::{
    CongestionControl as _, CongestionEvent, CongestionKind, DuplicateEvent, RecoveryEndEvent, Rules,
};
use crate::time::Time;

impl Connection {
    /// Whether recovery is the one of this file.
    pub(super) fn inflates(&self) -> bool {
        self.parameters.rules == Rules::Inflated && !self.has_sack && self.cc.owns_recovery()
    }

    /// Bytes from `from` to the highest that was ever sent (`BytesInFlight`).
    pub(super) fn flight_size(&self, from: u64) -> u32 {
        (self.sender.next - from) as u32
    }

    /// Handles an acknowledgement that is not plain progress (`ReceivedAck`).
    #[cold]
    pub(super) fn alert_newreno(&mut self, now: Time, ack: &Ack) -> Resend {
        if ack.advanced {
            self.on_new_ack(now, ack);
        } else if ack.is_duplicate() && !ack.is_old {
            self.on_duplicate_ack(now);
        }
        if ack.is_marked {
            self.enter_cwr(now);
        }
        Resend::Lost
    }

    /// Handles an acknowledgement that advances (`NewAckNewReno`). After a timeout, the other outstanding
    /// segments follow as the window allows.
    fn on_new_ack(&mut self, now: Time, ack: &Ack) {
        self.recovery.duplicate_acks = 0;
        let is_partial = self.sender.unacknowledged < self.recovery.high;
        match self.recovery.state {
            CongestionState::Recovery if is_partial => self.resend_first(now),
            CongestionState::Recovery => {
                // What was in flight before this acknowledgement arrived.
                let flight = self.flight_size(ack.prior);
                self.recovery.state = CongestionState::Open;
                self.cc.on_recovery_end(&RecoveryEndEvent::new(now, flight));
            }
            CongestionState::Cwr | CongestionState::Loss if is_partial => {}
            _ => self.recovery.state = CongestionState::Open,
        }
    }

    /// Handles a duplicate acknowledgement (`DupAck`). Those that came during a recovery or before a timeout
    /// also count towards the next third one, until something is acknowledged.
    fn on_duplicate_ack(&mut self, now: Time) {
        self.recovery.duplicate_acks += 1;
        if self.recovery.state == CongestionState::Recovery {
            self.cc.on_duplicate(&DuplicateEvent::new(now));
        } else if self.recovery.duplicate_acks == DUP_THRESHOLD {
            // `ReduceCWND`.
            self.stats.fast_retransmits += 1;
            self.recovery.state = CongestionState::Recovery;
            self.recovery.high = self.sender.next;
            let flight = self.flight_size(self.sender.unacknowledged);
            self.cc.on_congestion(&CongestionEvent::new(now, CongestionKind::FastRetransmit, flight));
            self.resend_first(now);
        } else if self.recovery.state == CongestionState::Open {
            self.recovery.state = CongestionState::Disorder;
        }
    }

    /// Sends the first hole again (`DoRetransmit`); only what a timeout has taken for lost is not outstanding
    /// then.
    fn resend_first(&mut self, now: Time) {
        let first = self.board.first_id();
        let counts = self.board.get(first).lost;
        self.retransmit(now, first, counts);
    }
}
