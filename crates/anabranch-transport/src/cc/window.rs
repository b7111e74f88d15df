//! A congestion window in whole segments, as Linux counts it, and the frame around the algorithms that
//! steer one.
//!
//! The frame ([`Windowed`]) knows what all of them have in common: when a threshold is taken, what a
//! timeout, an undo, the end of recovery and idleness do (RFC 5681, Linux's `net/ipv4/tcp_input.c`). An
//! [`Algorithm`] says what is its own, in hooks like those of Linux's `struct tcp_congestion_ops`.

use std::fmt;

use super::slow_start::{self, SlowStart};
use super::{
    AckEvent, ArrivalEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, Cumulative,
    IdleEvent, RecoveryEndEvent, Response, RttEvent, Rules, SendLimits, SentEvent, Setup, UndoEvent,
};
use crate::time::{Duration, Time};

/// The threshold before the first loss: slow start has no limit.
pub(super) const INFINITE: u32 = u32::MAX;

/// The least threshold, and the least window after a loss, in segments (RFC 5681 equation 4, RFC 9438 section
/// 4.6; Linux: each control's `ssthresh`).
pub(super) const LEAST: u32 = 2;

/// The largest window in bytes, which is the most that TCP's window field can express (RFC 7323 section 2.3).
const MAX_BYTES: u32 = 1 << 30;

/// The rule that steers a window.
pub trait Algorithm: fmt::Debug {
    /// Data was acknowledged, in recovery or not (Linux: `pkts_acked`). Called before [`Algorithm::grow`].
    fn on_acked(&mut self, _window: &mut Window, _event: &AckEvent) {}

    /// Data was acknowledged cumulatively outside fast recovery: the window may grow (Linux:
    /// `cong_avoid`).
    fn grow(&mut self, window: &mut Window, event: &AckEvent);

    /// What this sign of congestion leaves of the window, in segments; the frame sees to the least (Linux:
    /// `ssthresh`).
    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32;

    /// Called when an acknowledgement arrives, before its losses are found (Linux: `in_ack_event`).
    fn on_arrival(&mut self, _event: &ArrivalEvent) {}

    /// The window's state has changed (Linux: `set_state`).
    fn on_state(&mut self, _window: &mut Window, _state: State, _now: Time) {}

    /// The window has been reduced and recovery is over (Linux: `CA_EVENT_COMPLETE_CWR`).
    fn on_recovered(&mut self, _window: &mut Window) {}

    /// Called when the reduction was a mistake; window and threshold have their earlier values again (Linux:
    /// `undo_cwnd`).
    fn on_undo(&mut self, _window: &mut Window) {}

    /// The first data is sent after a time without any outstanding, `idle` after the last data (Linux:
    /// `CA_EVENT_TX_START`).
    fn on_start(&mut self, _window: &Window, _now: Time, _idle: Duration) {}

    /// A round-trip time was measured, perhaps in the handshake.
    fn on_rtt(&mut self, _window: &mut Window, _event: &RttEvent) {}

    /// As [`CongestionControl::answers_loss_after_mark`].
    fn answers_loss_after_mark(&self) -> bool {
        false
    }

    /// Called when nothing was sent for longer than the retransmission timeout (Linux:
    /// `CA_EVENT_CWND_RESTART`).
    fn on_restart(&mut self, _window: &mut Window) {}
}

/// The state of a window's reaction to congestion (Linux: `icsk_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A timeout has set the window to one segment.
    Loss,
    /// No reaction is in progress.
    Open,
    /// The window is being reduced after a loss or a mark.
    Reducing,
}

/// A congestion window in segments.
#[derive(Debug)]
pub struct Window {
    pub(super) mss: u32,
    pub(super) rules: Rules,
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    /// Segments acknowledged since the window last grew in congestion avoidance (Linux: `snd_cwnd_cnt`).
    pub(super) count: u32,
    pub(super) state: State,
    initial: u32,
    limit: u32,
    slow_start: slow_start::Exit,
    /// The least window that the present reduction leaves, in segments.
    pub(super) least: u32,
    /// The window and threshold that an undo restores.
    prior_cwnd: u32,
    prior_ssthresh: u32,
}

impl Window {
    fn new(setup: &Setup, slow_start: SlowStart) -> Self {
        let mss = setup.mss.clamp(1, MAX_BYTES);
        let limit = MAX_BYTES / mss;
        let initial = (setup.initial_cwnd / mss).clamp(1, limit);
        Self {
            mss,
            rules: setup.rules,
            cwnd: initial,
            ssthresh: INFINITE,
            count: 0,
            state: State::Open,
            initial,
            limit,
            slow_start: slow_start::Exit::new(slow_start, setup.is_paced),
            least: LEAST,
            prior_cwnd: 0,
            prior_ssthresh: 0,
        }
    }

    /// Linux: `tcp_in_slow_start`; up to 4.1 and in RFC 5681 a window equal to the threshold may be in slow
    /// start too, as it was in 2.6.20.
    pub(super) fn in_slow_start(&self) -> bool {
        self.is_below_threshold() || (self.rules == Rules::Linux2620 && self.cwnd == self.ssthresh)
    }

    /// Whether the window is below the threshold, for algorithms that keep the two together.
    pub(super) fn is_below_threshold(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window, at least one segment and at most what TCP can express.
    pub(super) fn set(&mut self, segments: u32) {
        self.cwnd = segments.clamp(1, self.limit);
    }

    /// Slow start up to the threshold; the acknowledged segments that it leaves are for congestion
    /// avoidance (Linux: `tcp_slow_start`).
    pub(super) fn slow_start(&mut self, event: &AckEvent) -> u32 {
        let acked = event.segments_acked;
        let growth = self.slow_start.growth(acked, self.cwnd, self.ssthresh == INFINITE);
        // 2.6.20 compared with "at most": its last step may pass the threshold.
        let threshold = if self.rules == Rules::Linux2620 { INFINITE } else { self.ssthresh };
        let cwnd = self.cwnd.saturating_add(growth).min(threshold).max(self.cwnd);
        let used = cwnd - self.cwnd;
        self.set(cwnd);
        if used < growth { acked.saturating_sub(used) } else { 0 }
    }

    /// Adds one segment for each `per` acknowledged ones (Linux: `tcp_cong_avoid_ai`).
    pub(super) fn add_one_per(&mut self, per: u32, acked: u32) {
        if self.rules == Rules::Linux2620 {
            // 2.6.20 looked before it counted: one in `per` + 1 acknowledgements.
            if self.count >= per {
                self.set(self.cwnd.saturating_add(1));
                self.count = 0;
            } else {
                self.count = self.count.saturating_add(acked);
            }
            return;
        }
        let per = per.max(1);
        // The divisor may now be smaller than the count.
        if self.count >= per {
            self.count = 0;
            self.set(self.cwnd.saturating_add(1));
        }
        self.count = self.count.saturating_add(acked);
        if self.count >= per {
            let growth = self.count / per;
            self.count -= growth * per;
            self.set(self.cwnd.saturating_add(growth));
        }
    }

    /// Slow start, then one segment per window (RFC 5681 section 3.1, Linux: `tcp_reno_cong_avoid`).
    pub(super) fn grow_as_reno(&mut self, event: &AckEvent) {
        if let Some(acked) = self.beyond_slow_start(event) {
            self.add_one_per(self.cwnd, acked);
        }
    }

    /// Grows the window as slow start asks, and returns the acknowledged segments that count for congestion
    /// avoidance, if any. A window that does not limit the sender does not grow.
    pub(super) fn beyond_slow_start(&mut self, event: &AckEvent) -> Option<u32> {
        if !event.is_window_limited {
            return None;
        }
        if !self.in_slow_start() {
            return Some(event.segments_acked);
        }
        let left = self.slow_start(event);
        (left > 0).then_some(left)
    }

    /// Half the window (RFC 5681 equation 4 with the window for FlightSize, as Linux's `tcp_reno_ssthresh`).
    pub(super) const fn half(&self) -> u32 {
        self.cwnd / 2
    }

    /// Linux: `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.state == State::Reducing {
            self.ssthresh
        } else {
            self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
        }
    }

    /// The values that Linux passes to `pkts_acked`: the state that the acknowledgement found, before it had
    /// any effect (`tcp_ack`: `tcp_clean_rtx_queue`, then `tcp_fastretrans_alert`). For SCTP only the state
    /// afterwards is known.
    pub(super) fn found_by(&self, event: &AckEvent) -> Cumulative {
        event.cumulative.unwrap_or(Cumulative {
            segments: event.segments_acked,
            was_open: event.is_open && self.state == State::Open,
            was_in_recovery: event.in_recovery || self.state != State::Open,
        })
    }

    fn bytes(&self, segments: u32) -> u32 {
        segments.saturating_mul(self.mss)
    }

    fn save(&mut self) {
        self.prior_ssthresh = self.current_ssthresh();
        self.prior_cwnd = self.cwnd;
    }

    /// Reduces the window after idleness: it is halved once per timeout, but not below the initial window
    /// (RFC 2861, Linux: `tcp_cwnd_restart`), or set to the initial window (RFC 5681 section 4.1).
    fn restart(&mut self, event: &IdleEvent) {
        if self.ssthresh == INFINITE && self.slow_start.on_restart() {
            self.ssthresh = self.cwnd;
        }
        self.ssthresh = self.current_ssthresh();
        let floor = self.initial.min(self.cwnd);
        if self.rules == Rules::Rfc || event.rto.is_zero() {
            self.set(floor);
        } else {
            let mut left = event.idle;
            while left > event.rto && self.cwnd > floor {
                self.cwnd /= 2;
                left = left.saturating_sub(event.rto);
            }
            self.set(self.cwnd.max(floor));
        }
        self.count = 0;
    }
}

/// A window and the algorithm that steers it: together, a congestion control.
#[derive(Debug)]
pub struct Windowed<A> {
    window: Window,
    algorithm: A,
    /// In [`State::Loss`]: the position that has to be acknowledged to leave it, once that is known.
    loss_ends_at: Option<u64>,
    /// Whether anything was acknowledged cumulatively since the last timeout.
    progressed: bool,
    last_sent: Time,
}

impl<A: Algorithm> Windowed<A> {
    /// A control whose algorithm is made by `algorithm`, which may also change the window that it is given.
    pub(super) fn new(
        setup: &Setup,
        slow_start: SlowStart,
        algorithm: impl FnOnce(&mut Window) -> A,
    ) -> Self {
        let mut window = Window::new(setup, slow_start);
        let algorithm = algorithm(&mut window);
        Self { window, algorithm, loss_ends_at: None, progressed: false, last_sent: Time::ZERO }
    }

    fn enter(&mut self, state: State, now: Time) {
        self.window.state = state;
        self.algorithm.on_state(&mut self.window, state, now);
    }

    /// Takes a new threshold, and returns the window that is left.
    fn reduce(&mut self, event: &CongestionEvent) -> u32 {
        self.window.save();
        let left = self.algorithm.reduced(&self.window, event);
        let window = &mut self.window;
        window.ssthresh = left.max(LEAST);
        // RFC 3168 section 6.1.2, RFC 9438 section 4.6: marks that go on take the window to one segment. In
        // Linux it has the threshold's least.
        let is_mark = event.kind == CongestionKind::Ecn;
        window.least = if is_mark && window.rules == Rules::Rfc { 1 } else { LEAST };
        left.max(window.least)
    }

    fn on_timeout(&mut self, event: &CongestionEvent) {
        // Linux, tcp_enter_loss: a timeout in recovery, or a second one without progress, gets no new
        // threshold (RFC 5681 section 3.1: ssthresh is held constant when a retransmission is lost).
        match self.window.state {
            State::Reducing => {}
            State::Loss if !self.progressed => {}
            State::Loss | State::Open => {
                self.reduce(event);
            }
        }
        // Linux, tcp_enter_loss: one segment more than what is still on its way.
        self.window.set(event.remaining / self.window.mss + 1);
        self.window.count = 0;
        self.window.slow_start.on_timeout();
        self.loss_ends_at = None;
        self.progressed = false;
        self.enter(State::Loss, event.now);
    }

    /// Leaves a state that the acknowledgement shows to be over, in case no event has said so.
    fn leave_if_over(&mut self, event: &AckEvent) {
        self.progressed |= event.cumulative_advanced;
        let over = match self.window.state {
            State::Open => false,
            State::Reducing => !event.in_recovery,
            State::Loss => event.acknowledged_to >= *self.loss_ends_at.get_or_insert(event.sent_to),
        };
        if over {
            self.enter(State::Open, event.now);
        }
    }
}

impl<A: Algorithm> CongestionControl for Windowed<A> {
    fn on_ack(&mut self, event: &AckEvent) {
        self.leave_if_over(event);
        self.algorithm.on_acked(&mut self.window, event);
        let window = &mut self.window;
        if window.in_slow_start() {
            let is_first = window.ssthresh == INFINITE;
            if window.slow_start.ends(event, window.cwnd, window.mss, is_first) {
                window.ssthresh = window.cwnd;
            }
        }
        if event.cumulative_advanced && !event.in_recovery {
            let before = self.window.cwnd;
            self.algorithm.grow(&mut self.window, event);
            if !event.is_window_limited && self.window.rules == Rules::Rfc {
                // RFC 7661, RFC 9438 section 5.8: a window that is not used does not grow, whatever the
                // control. In Linux each control sees to it, and Vegas does not.
                self.window.cwnd = self.window.cwnd.min(before);
            }
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        match event.kind {
            // Linux, tcp_enter_cwr and tcp_enter_recovery: a window that is being reduced is not reduced
            // again.
            CongestionKind::Ecn if self.window.state != State::Open => {}
            CongestionKind::FastRetransmit
                if self.window.state == State::Reducing && !self.algorithm.answers_loss_after_mark() => {}
            CongestionKind::Ecn | CongestionKind::FastRetransmit => {
                let left = self.reduce(event);
                self.window.set(left);
                self.window.count = 0;
                self.enter(State::Reducing, event.now);
            }
            CongestionKind::Restart => self.window.set(1),
            CongestionKind::Timeout => self.on_timeout(event),
        }
    }

    fn is_only_window(&self) -> bool {
        true
    }

    fn limits(&self) -> SendLimits {
        SendLimits::window(self.window.bytes(self.window.cwnd))
    }

    fn state(&self) -> ControlState {
        let window = &self.window;
        let phase = match window.state {
            State::Loss => "loss",
            State::Open if window.in_slow_start() => "slow_start",
            State::Open => "congestion_avoidance",
            State::Reducing => "recovery",
        };
        ControlState { cwnd: window.bytes(window.cwnd), ssthresh: window.bytes(window.ssthresh), phase }
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        if event.idle > event.rto {
            self.algorithm.on_restart(&mut self.window);
            self.window.restart(event);
        }
    }

    fn on_arrival(&mut self, event: &ArrivalEvent) {
        self.algorithm.on_arrival(event);
    }

    fn on_recovery_end(&mut self, event: &RecoveryEndEvent) {
        match self.window.state {
            State::Loss => {}
            State::Open => return,
            State::Reducing => {
                // Linux, tcp_end_cwnd_reduction; tcp_complete_cwr. A mark may have left less than the
                // threshold.
                let reached = event.reached.map_or(u32::MAX, |bytes| bytes / self.window.mss);
                let left = if self.window.least < LEAST { self.window.cwnd } else { self.window.ssthresh };
                self.window.set(reached.min(left));
                self.algorithm.on_recovered(&mut self.window);
            }
        }
        self.enter(State::Open, event.now);
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        // Linux, tcp_undo_cwnd_reduction. RFC 9438 section 4.9.2: not if the window has come beyond the one
        // before the reduction since.
        let window = &mut self.window;
        let is_late = window.rules == Rules::Rfc && window.cwnd > window.prior_cwnd;
        if window.prior_cwnd > 0 && !is_late {
            window.set(window.cwnd.max(window.prior_cwnd));
            window.ssthresh = window.ssthresh.max(window.prior_ssthresh);
            window.prior_cwnd = 0;
            window.prior_ssthresh = 0;
            self.algorithm.on_undo(window);
            if let Some(Response { cwnd, ssthresh }) = event.response {
                window.set(cwnd / window.mss);
                window.ssthresh = if ssthresh == u32::MAX { INFINITE } else { ssthresh / window.mss };
                window.count = 0;
            }
        }
        if self.window.state != State::Open {
            self.enter(State::Open, event.now);
        }
    }

    fn answers_loss_after_mark(&self) -> bool {
        self.algorithm.answers_loss_after_mark()
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        self.algorithm.on_rtt(&mut self.window, event);
    }

    fn on_sent(&mut self, event: &SentEvent) {
        if event.outstanding == event.bytes {
            let idle = event.now.saturating_since(self.last_sent);
            self.algorithm.on_start(&self.window, event.now, idle);
        }
        self.last_sent = event.now;
    }
}

#[cfg(test)]
impl<A> Windowed<A> {
    pub(super) const fn algorithm(&self) -> &A {
        &self.algorithm
    }

    pub(super) fn into_algorithm(self) -> A {
        self.algorithm
    }
}
