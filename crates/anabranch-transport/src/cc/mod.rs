//! Congestion control: how much may be on its way on one path.
//!
//! A control is told what happened (acknowledgements, losses, timeouts) and acts only through its
//! [`SendLimits`]. The interface is in bytes with a segment size; a control that counts in segments does so
//! internally.

mod ack_ratio;
pub mod bbr;
pub mod bbr3;
mod bbr_model;
pub mod bic;
mod controller;
pub mod coupled;
pub mod cubic;
pub mod dctcp;
#[cfg(test)]
mod growth;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod illinois;
pub mod ledbat;
pub mod media;
pub mod plugin;
pub mod prague;
#[cfg(test)]
mod properties;
pub mod reno;
mod round;
pub mod scalable;
pub mod sctp;
pub mod slow_start;
#[cfg(test)]
mod testing;
mod used_time;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod window;
pub mod yeah;

use std::fmt;

pub use controller::{Config, Controller};

use crate::time::{Duration, Time};
use crate::units::{Rate, check_range};

/// The congestion control of one path.
pub trait CongestionControl: fmt::Debug {
    /// Data was acknowledged.
    fn on_ack(&mut self, event: &AckEvent);

    /// Data was lost, or the path was marked congested.
    fn on_congestion(&mut self, event: &CongestionEvent);

    /// The limits for sending, which are the only way for a control to act.
    fn limits(&self) -> SendLimits;

    /// Its variables, for traces.
    fn state(&self) -> ControlState;

    /// A duplicate acknowledgement arrived in fast recovery. This is called only for a control that owns
    /// recovery, and where acknowledgements are not selective.
    fn on_duplicate(&mut self, _event: &DuplicateEvent) {}

    /// Called when nothing was sent on the path for some time.
    fn on_idle(&mut self, _event: &IdleEvent) {}

    /// Recovery is over, and everything that was outstanding when it began is acknowledged.
    fn on_recovery_end(&mut self, _event: &RecoveryEndEvent) {}

    /// Called when the last [`CongestionEvent`] was a mistake: nothing had been lost (RFC 3522, RFC 5682).
    /// Window and threshold return to their earlier values.
    fn on_undo(&mut self, _event: &UndoEvent) {}

    /// Called when an acknowledgement arrives, before its losses are found; [`Self::on_ack`] follows if data
    /// was outstanding (Linux: `pkts_acked`, `in_ack_event`).
    fn on_arrival(&mut self, _event: &ArrivalEvent) {}

    /// A segment is taken for lost (Linux with BBR, version 3: `skb_marked_lost`).
    fn on_lost(&mut self, _event: &LostEvent) {}

    /// Whether it never sets a pace, and what is [sent](Self::on_sent) changes neither its limits nor its
    /// state nor [its least burst](Self::least_burst), so that they need not be asked for each segment.
    fn is_only_window(&self) -> bool {
        false
    }

    /// The fewest segments that are sent together where there are as many (Linux: `min_tso_segs`).
    fn least_burst(&self) -> u32 {
        LEAST_BURST
    }

    /// The most segments that are sent together, if the control sets it (Linux's L4S tree: `tso_segs`).
    fn most_burst(&self) -> Option<u32> {
        None
    }

    /// Whether the control itself sets the limits in recovery. For all others, a transport that knows
    /// proportional rate reduction (RFC 6937) applies it, towards [`ControlState::ssthresh`].
    fn owns_recovery(&self) -> bool {
        false
    }

    /// Whether it answers a loss as well while the window shrinks because of a mark, where others have
    /// answered both by that (RFC 8257 section 3.5; RFC 9331 section 4.3; Linux: `set_state` of
    /// `tcp_dctcp.c` and `tcp_prague.c`).
    fn answers_loss_after_mark(&self) -> bool {
        false
    }

    /// The path is about to be probed with a window of data: window and threshold are set to it (SCTP).
    fn on_probe(&mut self, _event: &ProbeEvent) {}

    /// A round-trip time was measured.
    fn on_rtt_sample(&mut self, _event: &RttEvent) {}

    /// Data was sent.
    fn on_sent(&mut self, _event: &SentEvent) {}
}

/// What [`CongestionControl::least_burst`] is by itself (Linux: `net.ipv4.tcp_min_tso_segs`).
pub const LEAST_BURST: u32 = 2;

/// What is needed to build a control.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Bytes of data in a full segment.
    pub mss: u32,
    /// The window to start with, in bytes.
    pub initial_cwnd: u32,
    /// Whose form of the algorithm is used where a setting leaves it open.
    pub rules: Rules,
    /// The seed of a control's random choices (BBR: when it probes).
    pub seed: u64,
    /// Whether the transport paces what the window lets out.
    pub is_paced: bool,
    /// Bytes of headers in the packet of a full segment, IP's included.
    pub headers: u32,
}

/// Whose form of an algorithm is meant where the settings leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Reno and couplings with windows in bytes that fast recovery inflates (RFC 5681 section 3.2), as in the
    /// ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis. The other controls are then as with
    /// [`Rules::Rfc`].
    Inflated,
    /// Linux 2.6.20 (2007).
    Linux2620,
    /// Linux 6.
    Linux6,
    /// The RFC's form, or the paper's if there is no RFC.
    Rfc,
}

/// What an acknowledgement says about one path.
///
/// A transport leaves unknown values as in [`AckEvent::new`], as SCTP does with several.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each says something else about the acknowledgement")]
pub struct AckEvent {
    /// The time of its arrival.
    pub now: Time,
    /// Bytes sent on this path that it acknowledges for the first time, selectively or not.
    pub newly_acked: u32,
    /// The acknowledged segments that count for the window's growth: under RFC 5681's rule of one increase
    /// per acknowledgement, 1. A control whose source counts segments in any case, delayed acknowledgements
    /// or not, takes [`AckEvent::newly_acked`].
    pub segments_acked: u32,
    /// Bytes outstanding on this path before it arrived.
    pub outstanding_before: u32,
    /// Bytes outstanding on this path now.
    pub outstanding: u32,
    /// Whether the cumulative acknowledgement advanced.
    pub cumulative_advanced: bool,
    /// The values that Linux passes to `pkts_acked`; unknown in SCTP.
    pub cumulative: Option<Cumulative>,
    /// Whether the connection is in fast recovery, or reduces its window for another reason.
    pub in_recovery: bool,
    /// Whether nothing is known to be missing: no segment is selectively acknowledged, lost or sent again,
    /// and no timeout is being recovered from (Linux: `TCP_CA_Open`).
    pub is_open: bool,
    /// Whether the window limited the sender (RFC 7661, Linux's `tcp_is_cwnd_limited`): a window that is
    /// not used should not grow.
    pub is_window_limited: bool,
    /// How many of the newly acknowledged bytes were marked with CE.
    pub marked: u32,
    /// Whether the peer counts marks (RFC 9768, RFC 8257 section 3.2). If not, [`AckEvent::marked`] only says
    /// that there was one in the last round (RFC 3168).
    pub counts_marks: bool,
    /// Whether data waits that the peer's window has room for: only the congestion window or the pace holds
    /// it back.
    pub has_unsent: bool,
    /// Bytes found to be lost by this acknowledgement.
    pub newly_lost: u32,
    /// The round-trip time of the newest segment that it acknowledges; [`None`] if something was sent twice,
    /// for which Linux uses timestamps.
    pub rtt: Option<Duration>,
    /// The smallest round-trip time seen so far (Linux: within the last 5 minutes).
    pub min_rtt: Option<Duration>,
    /// The smoothed round-trip time (RFC 6298); unknown in SCTP.
    pub srtt: Option<Duration>,
    /// The first position on this path that is not acknowledged: a byte of the stream (TCP, cumulatively), or
    /// the packet number behind the largest acknowledged one (QUIC). Positions are in the order of sending,
    /// and are only compared with each other.
    pub acknowledged_to: u64,
    /// The position of what is sent next: a round that begins now ends when everything before it is
    /// acknowledged.
    pub sent_to: u64,
    /// All bytes acknowledged on this path so far: cumulatively in TCP, any others where each packet is
    /// acknowledged by itself.
    pub total_acked: u64,
    /// The rate at which data was delivered.
    pub rate: Option<RateSample>,
    /// The time at which the pace lets the next segment out; a time in the past means at once.
    pub next_departure: Time,
}

impl AckEvent {
    /// An acknowledgement of `newly_acked` bytes, one segment, outside recovery, of `outstanding_before`
    /// outstanding, that advances the cumulative acknowledgement of a sender that its window limits.
    pub const fn new(now: Time, newly_acked: u32, outstanding_before: u32) -> Self {
        Self {
            now,
            newly_acked,
            segments_acked: 1,
            outstanding_before,
            outstanding: outstanding_before.saturating_sub(newly_acked),
            cumulative_advanced: true,
            cumulative: None,
            in_recovery: false,
            is_open: true,
            is_window_limited: true,
            marked: 0,
            counts_marks: true,
            has_unsent: false,
            newly_lost: 0,
            rtt: None,
            min_rtt: None,
            srtt: None,
            acknowledged_to: 0,
            sent_to: 0,
            total_acked: 0,
            rate: None,
            next_departure: Time::ZERO,
        }
    }
}

/// What an acknowledgement removes from the beginning of the outstanding data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cumulative {
    /// Segments that the acknowledgement acknowledges, whether or not they had been acknowledged selectively
    /// before.
    pub segments: u32,
    /// Whether nothing was known to be missing before it came (see [`AckEvent::is_open`]).
    pub was_open: bool,
    /// Whether the connection was in fast recovery or reduced its window before it came, after a timeout too.
    pub was_in_recovery: bool,
}

/// The rate at which data was delivered between the sending of a segment and its acknowledgement
/// (draft-ietf-ccwg-bbr section 4.1, Linux's `rate_sample`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes delivered in the interval.
    pub delivered: u32,
    /// The longer one of the times in which they were sent and acknowledged.
    pub interval: Duration,
    /// All bytes delivered on this path so far, this acknowledgement's included.
    pub total_delivered: u64,
    /// The total delivered when the segment was sent: a round is over when this passes the total at the
    /// round's beginning.
    pub prior_delivered: u64,
    /// Bytes outstanding when the segment was sent, itself included.
    pub outstanding_at_send: u32,
    /// Bytes found to be lost between the sending of the segment and now.
    pub lost: u32,
    /// Whether the application had too little to send when the segment was sent.
    pub is_app_limited: bool,
}

impl RateSample {
    /// `delivered` bytes in `interval`, of which `total_delivered` had been delivered by its end.
    pub const fn new(delivered: u32, interval: Duration, total_delivered: u64) -> Self {
        Self {
            delivered,
            interval,
            total_delivered,
            prior_delivered: total_delivered - delivered as u64,
            outstanding_at_send: delivered,
            lost: 0,
            is_app_limited: false,
        }
    }
}

/// An acknowledgement has arrived.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ArrivalEvent {
    /// When it arrived.
    pub now: Time,
    /// The same as [`AckEvent::acknowledged_to`].
    pub acknowledged_to: u64,
    /// The same as [`AckEvent::total_acked`].
    pub total_acked: u64,
    /// The same as [`AckEvent::rtt`].
    pub rtt: Option<Duration>,
    /// Whether it has SACK blocks or marks, or changes the window, so that header prediction does not expect
    /// it (Linux: `CA_ACK_SLOWPATH`).
    pub is_special: bool,
}

impl ArrivalEvent {
    /// An acknowledgement of every byte before `acknowledged_to` arrives now.
    pub const fn new(now: Time, acknowledged_to: u64) -> Self {
        Self { now, acknowledged_to, total_acked: acknowledged_to, rtt: None, is_special: false }
    }
}

/// A segment is taken for lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostEvent {
    /// When it was taken for lost.
    pub now: Time,
    /// Bytes of the segment.
    pub bytes: u32,
    /// Bytes outstanding when it was sent, itself included.
    pub outstanding_at_send: u32,
    /// Bytes found to be lost since it was sent, itself included.
    pub lost: u32,
    /// Whether the application had too little to send when it was sent.
    pub is_app_limited: bool,
}

impl LostEvent {
    /// A segment of `bytes` bytes that was sent with nothing else outstanding.
    pub const fn new(now: Time, bytes: u32) -> Self {
        Self { now, bytes, outstanding_at_send: bytes, lost: bytes, is_app_limited: false }
    }
}

/// A sign of congestion on one path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// The time at which it was noticed.
    pub now: Time,
    /// The kind of congestion.
    pub kind: CongestionKind,
    /// Bytes outstanding on this path when it was noticed.
    pub outstanding: u32,
    /// Bytes that a timeout leaves on their way: those sent too recently to be taken for lost (RFC 8985
    /// section 6.3).
    pub remaining: u32,
}

impl CongestionEvent {
    /// A sign of congestion with `outstanding` bytes on their way.
    pub const fn new(now: Time, kind: CongestionKind, outstanding: u32) -> Self {
        Self { now, kind, outstanding, remaining: 0 }
    }
}

/// Kinds of signs of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionKind {
    /// The peer echoes a congestion mark (RFC 3168 section 6.1.2); at most once per window.
    Ecn,
    /// Missing reports say that data was lost: fast retransmit begins.
    FastRetransmit,
    /// The path comes back from failure and starts again with one segment.
    Restart,
    /// The retransmission timer expired.
    Timeout,
}

/// A duplicate acknowledgement arrived in fast recovery (RFC 5681 section 3.2 step 4).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DuplicateEvent {
    /// When it arrived.
    pub now: Time,
}

impl DuplicateEvent {
    /// An acknowledgement that arrives now.
    pub const fn new(now: Time) -> Self {
        Self { now }
    }
}

/// Nothing was sent on the path for this long.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IdleEvent {
    /// The time since something was last sent.
    pub idle: Duration,
    /// The path's retransmission timeout.
    pub rto: Duration,
}

impl IdleEvent {
    /// An event for a path on which nothing was sent for `idle`.
    pub const fn new(idle: Duration, rto: Duration) -> Self {
        Self { idle, rto }
    }
}

/// A path is about to be probed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProbeEvent {
    /// When the probe begins.
    pub now: Time,
    /// The window to probe with, in bytes.
    pub window: u32,
}

impl ProbeEvent {
    /// A probe with a window of `window` bytes.
    pub const fn new(now: Time, window: u32) -> Self {
        Self { now, window }
    }
}

/// Recovery is over.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecoveryEndEvent {
    /// When it is over.
    pub now: Time,
    /// Bytes outstanding.
    pub outstanding: u32,
    /// The window in bytes that the reduction came to, if it stays there although that may be below the
    /// threshold (Linux 2.6.20: `tcp_complete_cwr`); [`None`] if it becomes the threshold (Linux:
    /// `tcp_end_cwnd_reduction`).
    pub reached: Option<u32>,
}

impl RecoveryEndEvent {
    /// Recovery ends with `outstanding` bytes on their way, at the threshold.
    pub const fn new(now: Time, outstanding: u32) -> Self {
        Self { now, outstanding, reached: None }
    }
}

/// A sign of congestion was a mistake.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UndoEvent {
    /// The time at which it was noticed.
    pub now: Time,
    /// What a timeout leaves that was spurious; [`None`]: the window before the mistake.
    pub response: Option<Response>,
}

/// The response to a spurious timeout (RFC 4015 section 3.1 step 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The congestion window in bytes.
    pub cwnd: u32,
    /// The slow-start threshold in bytes; [`u32::MAX`] where slow start has no limit.
    pub ssthresh: u32,
}

impl UndoEvent {
    /// A mistake that is noticed now.
    pub const fn new(now: Time) -> Self {
        Self { now, response: None }
    }
}

/// A round-trip time was measured.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RttEvent {
    /// When it was measured.
    pub now: Time,
    /// The sample.
    pub rtt: Duration,
}

impl RttEvent {
    /// A sample taken now.
    pub const fn new(now: Time, rtt: Duration) -> Self {
        Self { now, rtt }
    }
}

/// Data was sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SentEvent {
    /// When it was sent.
    pub now: Time,
    /// Bytes of data.
    pub bytes: u32,
    /// Bytes outstanding on the path, these included.
    pub outstanding: u32,
    /// Whether the application had too little to send.
    pub is_app_limited: bool,
}

impl SentEvent {
    /// `bytes` bytes sent now.
    pub const fn new(now: Time, bytes: u32, outstanding: u32) -> Self {
        Self { now, bytes, outstanding, is_app_limited: false }
    }
}

/// The limits for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// The pacing rate, if the control sets one; `None` if the transport paces as with any window, or not at
    /// all.
    pub pacing_rate: Option<Rate>,
}

impl SendLimits {
    /// A window of `cwnd` bytes without a pacing rate.
    pub const fn window(cwnd: u32) -> Self {
        Self { cwnd, pacing_rate: None }
    }
}

/// A control's variables, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlState {
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// The phase, in the algorithm's own word.
    pub phase: &'static str,
}

/// Checks that an integer setting is within `low` and `high`; otherwise gives one sentence.
fn check_count(key: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    check_range(key, f64::from(value), f64::from(low), f64::from(high))
}
