//! The congestion states of a sender and the ways between them (RFC 5681, RFC 6675, RFC 6582; Linux's
//! `icsk_ca_state`).

use super::config::{LossDetection, WindowReduction};
use super::connection::Connection;
use super::duplicates::Duplicates;
use crate::cc::{CongestionControl as _, CongestionEvent, CongestionKind, RecoveryEndEvent, Rules};
use crate::recovery::prr::Prr;
use crate::time::{Duration, Time};

/// A segment is lost when this many segments above it have arrived (RFC 6675 section 2: `DupThresh`).
pub(super) const DUP_THRESHOLD: u32 = 3;
/// The most segments by which reordering is believed to happen (Linux: `net.ipv4.tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;

/// The state of the sender's reaction to congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CongestionState {
    /// There is no reaction in progress.
    #[default]
    Open,
    /// Something is out of order.
    Disorder,
    /// The window shrinks because of a mark (RFC 3168).
    Cwr,
    /// Fast recovery.
    Recovery,
    /// A timeout.
    Loss,
}

/// What to send in response to an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    Nothing,
    /// Send what is lost.
    Lost,
    /// New data, to see whether it arrives (RFC 5682 section 3.1 step 2b).
    New,
}

/// What was so when a timeout began a recovery (RFC 4015 section 3.1 step 0).
#[derive(Clone, Copy, Debug)]
pub(super) struct BeforeTimeout {
    /// `pipe_prev`: the bytes outstanding, or the slow-start threshold if that was larger.
    pub(super) pipe: u32,
    /// SND.MAX.
    pub(super) next: u64,
    /// `SRTT_prev`, which is two granularities longer, and `RTTVAR_prev`.
    pub(super) srtt: Duration,
    pub(super) rttvar: Duration,
}

/// The state, and what an undo needs to know.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) state: CongestionState,
    /// The state ends when this is acknowledged (RFC 6675: `RecoveryPoint`; Linux: `high_seq`).
    pub(super) high: u64,
    /// Duplicate acknowledgements since SND.UNA last advanced, where the window is inflated.
    pub(super) duplicate_acks: u32,
    /// SND.UNA when the window was reduced; [`None`] when there is nothing to undo.
    pub(super) undo_from: Option<u64>,
    /// Retransmissions since then that no DSACK has reported; [`None`] before the first.
    pub(super) undo_retransmissions: Option<u32>,
    /// Whether an undo restores the window: not if a mark caused the reduction.
    pub(super) restores_window: bool,
    /// Our timestamp on the first retransmission.
    pub(super) first_retransmission: Option<u32>,
    /// How far segments overtake each other, in segments, at least [`DUP_THRESHOLD`].
    pub(super) reordering: u32,
    pub(super) has_reordering: bool,
    /// How often reordering was seen (Linux: `reord_seen`).
    pub(super) reorderings_seen: u32,
    /// Segments sent again in this connection, and duplicates that the peer has reported.
    pub(super) retransmissions: u64,
    pub(super) duplicates: u64,
    /// What D-SACKs have shown, where RFC 3708 says what they mean.
    pub(super) reported: Duplicates,
    /// What was so before the timeout that began this recovery, if one did.
    pub(super) timeout: Option<BeforeTimeout>,
    /// Whether F-RTO is deciding if the timeout was spurious (RFC 5682).
    pub(super) f_rto: bool,
    pub(super) prr: Prr,
}

impl Default for Recovery {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Recovery {
    pub(super) fn new(high: u64) -> Self {
        Self {
            state: CongestionState::Open,
            high,
            duplicate_acks: 0,
            undo_from: None,
            undo_retransmissions: None,
            restores_window: false,
            first_retransmission: None,
            reordering: DUP_THRESHOLD,
            has_reordering: false,
            reorderings_seen: 0,
            retransmissions: 0,
            duplicates: 0,
            reported: Duplicates::default(),
            timeout: None,
            f_rto: false,
            prr: Prr::default(),
        }
    }

    /// Whether the window is being reduced (Linux: `tcp_in_cwnd_reduction`).
    pub(super) fn is_reducing(&self) -> bool {
        matches!(self.state, CongestionState::Cwr | CongestionState::Recovery)
    }

    /// Whether nothing has been taken for lost.
    pub(super) fn is_calm(&self) -> bool {
        matches!(self.state, CongestionState::Open | CongestionState::Disorder)
    }

    /// Notes that a segment has been sent again, with this timestamp of ours.
    pub(super) fn record_retransmission(&mut self, timestamp: u32) {
        self.first_retransmission.get_or_insert(timestamp);
        self.undo_retransmissions = Some(self.undo_retransmissions.unwrap_or(0) + 1);
    }
}

impl Connection {
    /// The congestion window in segments, at least one.
    pub(super) fn cwnd(&self) -> u32 {
        let holds = self.recovery.is_reducing()
            && self.parameters.window_reduction != WindowReduction::AtOnce
            && !self.cc.owns_recovery();
        if holds { self.recovery.prr.cwnd } else { (self.cc.limits().cwnd / self.mss).max(1) }
    }

    pub(super) fn uses_rack(&self) -> bool {
        self.has_sack && self.parameters.loss_detection == LossDetection::Rack
    }

    /// Asks the control for a new threshold and begins the reduction towards it (Linux:
    /// `tcp_init_cwnd_reduction`).
    pub(super) fn begin_reduction(&mut self, now: Time, kind: CongestionKind) {
        let cwnd = self.cwnd();
        self.recovery.high = self.sender.next;
        self.rack.probe = None;
        self.cc.on_congestion(&CongestionEvent::new(now, kind, self.in_flight_bytes()));
        let state = self.cc.state();
        // A mark may leave less of the window than the least threshold (RFC 9438 section 4.6).
        let left = if kind == CongestionKind::Ecn { state.cwnd.min(state.ssthresh) } else { state.ssthresh };
        self.recovery.prr = Prr::begin(cwnd, (left / self.mss).max(1));
        self.ecn.record_reduction();
    }

    /// Ends the reduction (Linux: `tcp_end_cwnd_reduction`; with rate halving `tcp_complete_cwr`).
    pub(super) fn end_reduction(&mut self, now: Time) {
        let mut event = RecoveryEndEvent::new(now, self.in_flight_bytes());
        if self.parameters.window_reduction == WindowReduction::RateHalving {
            event.reached = Some(self.recovery.prr.cwnd.saturating_mul(self.mss));
        }
        self.recovery.prr.end();
        self.cc.on_recovery_end(&event);
    }

    /// Begins fast recovery (RFC 6675 section 5 step 4; Linux: `tcp_enter_recovery`).
    pub(super) fn enter_recovery(&mut self, now: Time, is_marked: bool) {
        self.stats.fast_retransmits += 1;
        self.init_undo();
        self.recovery.restores_window = false;
        if !self.recovery.is_reducing() {
            self.recovery.restores_window = !is_marked;
            self.begin_reduction(now, CongestionKind::FastRetransmit);
        } else if self.recovery.state == CongestionState::Cwr && self.cc.answers_loss_after_mark() {
            let kind = CongestionKind::FastRetransmit;
            self.cc.on_congestion(&CongestionEvent::new(now, kind, self.in_flight_bytes()));
            self.recovery.prr.aim_at((self.cc.state().ssthresh / self.mss).max(1));
        }
        self.recovery.state = CongestionState::Recovery;
    }

    /// Begins to reduce the window because of a mark (RFC 3168 section 6.1.2; Linux: `tcp_enter_cwr`).
    pub(super) fn enter_cwr(&mut self, now: Time) {
        self.recovery.restores_window = false;
        if self.recovery.is_calm() {
            self.stats.ecn_reductions += 1;
            self.recovery.undo_from = None;
            if self.cwnd() == 1 && self.parameters.rules == Rules::Rfc {
                self.hold_back(now);
            }
            self.begin_reduction(now, CongestionKind::Ecn);
            self.recovery.state = CongestionState::Cwr;
        }
    }

    /// Sets the state to Open, or to Disorder while something is out of order (Linux: `tcp_try_keep_open`).
    pub(super) fn try_keep_open(&mut self) {
        let is_calm = self.board.sacked + self.board.lost == 0 && !self.has_retransmitted();
        let state = if is_calm { CongestionState::Open } else { CongestionState::Disorder };
        if self.recovery.state != state {
            self.recovery.state = state;
            self.recovery.high = self.sender.next;
        }
    }

    /// Handles an acknowledgement outside of recovery: a mark begins a reduction, otherwise the state follows
    /// what is out of order (Linux: `tcp_try_to_open`).
    pub(super) fn try_to_open(&mut self, now: Time, is_marked: bool) {
        if !self.has_retransmitted() {
            self.recovery.first_retransmission = None;
        }
        if is_marked {
            self.enter_cwr(now);
        }
        if self.recovery.state != CongestionState::Cwr {
            self.try_keep_open();
        }
    }

    /// Whether something that is outstanding was sent twice (Linux: `tcp_any_retrans_done`).
    pub(super) fn has_retransmitted(&self) -> bool {
        self.board.retransmitted > 0 || self.board.front().is_some_and(|first| first.ever_retransmitted)
    }

    /// Notes that segments overtook each other from this number on (Linux: `tcp_check_sack_reordering`).
    pub(super) fn record_reordering(&mut self, from: u64) {
        let highest =
            if self.board.sacked == 0 { self.sender.unacknowledged } else { self.board.highest_sacked };
        if from >= highest {
            return;
        }
        let segments = (highest - from).div_ceil(u64::from(self.mss)).min(u64::from(MAX_REORDERING));
        self.recovery.reordering = self.recovery.reordering.max(segments as u32);
        self.recovery.has_reordering = true;
        self.recovery.reorderings_seen += 1;
    }

    /// Sends again what is lost, as far as the window has room (Linux: `tcp_xmit_retransmit_queue`). What was
    /// sent in one packet is sent in one packet again, as far as all of it is lost.
    pub(super) fn retransmit_lost(&mut self, now: Time) {
        let mut restarts = false;
        let mut largest = None;
        // Segments of the present packet that have been sent.
        let mut sent = 0;
        while let Some(id) = self.board.first_waiting() {
            let cwnd = self.cwnd();
            let room = cwnd.saturating_sub(self.board.in_flight());
            if room == 0 || self.is_paced(now) {
                break;
            }
            let goes_on = room > 1
                && self.board.goes_on_behind(id)
                && sent + 1 < largest.get_or_insert_with(|| self.largest_burst(cwnd)).of(self);
            self.retransmit_part(now, id, true, sent > 0 && !goes_on);
            if goes_on {
                sent += 1;
            } else {
                sent = 0;
                self.board.cut_behind(id);
            }
            if self.recovery.is_reducing() {
                self.recovery.prr.on_sent(1);
            }
            restarts |= id == self.board.first_id() && !self.timer.is_reordering();
        }
        if restarts {
            let rto = self.rtt.rto();
            let deadline = self.schedule(now, rto);
            self.timer.start_retransmission(deadline);
        }
    }
}
