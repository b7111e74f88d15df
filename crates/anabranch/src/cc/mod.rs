//! Congestion control: how much may be on its way on one path.
//!
//! A control hears what happened (acknowledgements, losses, timeouts) and acts only through its
//! [`SendLimits`]. The interface is in bytes and a segment size; a control that counts segments keeps
//! them inside.

pub mod sctp;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::{Duration, Time};

/// The congestion control of one path.
pub trait CongestionControl: fmt::Debug {
    /// Data was acknowledged.
    fn on_ack(&mut self, event: &AckEvent);

    /// Data was lost, or the path was marked congested.
    fn on_congestion(&mut self, event: &CongestionEvent);

    /// How much may be sent: the only way for a control to act.
    fn limits(&self) -> SendLimits;

    /// Its variables, for traces.
    fn state(&self) -> ControlState;

    /// Nothing was sent on the path for some time.
    fn on_idle(&mut self, _event: &IdleEvent) {}

    /// A round-trip time was measured.
    fn on_rtt_sample(&mut self, _event: &RttEvent) {}

    /// Data was sent.
    fn on_sent(&mut self, _event: &SentEvent) {}
}

/// What an acknowledgement says about one path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckEvent {
    /// When it arrived.
    pub now: Time,
    /// Bytes sent on this path that it acknowledges for the first time.
    pub newly_acked: u32,
    /// Bytes outstanding on this path before it arrived.
    pub outstanding_before: u32,
    /// Bytes outstanding on this path now.
    pub outstanding: u32,
    /// Whether the cumulative acknowledgement advanced.
    pub cumulative_advanced: bool,
    /// Whether the connection is in fast recovery.
    pub in_recovery: bool,
}

impl AckEvent {
    /// An acknowledgement of `newly_acked` bytes outside recovery, of `outstanding_before`
    /// outstanding, that advances the cumulative acknowledgement.
    pub const fn new(now: Time, newly_acked: u32, outstanding_before: u32) -> Self {
        Self {
            now,
            newly_acked,
            outstanding_before,
            outstanding: outstanding_before.saturating_sub(newly_acked),
            cumulative_advanced: true,
            in_recovery: false,
        }
    }
}

/// A sign of congestion on one path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// When it was noticed.
    pub now: Time,
    /// What it is.
    pub kind: CongestionKind,
    /// Bytes outstanding on this path when it was noticed.
    pub outstanding: u32,
}

impl CongestionEvent {
    /// A sign of congestion with `outstanding` bytes on their way.
    pub const fn new(now: Time, kind: CongestionKind, outstanding: u32) -> Self {
        Self { now, kind, outstanding }
    }
}

/// Kinds of signs of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionKind {
    /// Missing reports say that data was lost: fast retransmit begins.
    FastRetransmit,
    /// The path comes back from failure and starts again with one segment.
    Restart,
    /// The retransmission timer expired.
    Timeout,
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
    /// Nothing sent for `idle`.
    pub const fn new(idle: Duration, rto: Duration) -> Self {
        Self { idle, rto }
    }
}

/// A round-trip time was measured.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RttEvent {
    /// When.
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
    /// When.
    pub now: Time,
    /// Bytes of data.
    pub bytes: u32,
    /// Bytes outstanding on the path, these included.
    pub outstanding: u32,
}

impl SentEvent {
    /// `bytes` bytes sent now.
    pub const fn new(now: Time, bytes: u32, outstanding: u32) -> Self {
        Self { now, bytes, outstanding }
    }
}

/// How much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// Congestion window in bytes.
    pub cwnd: u32,
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

/// Which congestion control, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "CongestionControlConfig")]
pub enum Config {
    /// SCTP's own control (RFC 9260 section 7.2).
    Sctp(sctp::Config),
}

impl Default for Config {
    fn default() -> Self {
        Self::Sctp(sctp::Config::default())
    }
}

impl Config {
    /// Whether the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Sctp(config) => config.check(),
        }
    }

    /// A control for a path whose packets carry up to `mss` bytes of data.
    pub fn build(&self, mss: u32) -> Controller {
        match self {
            Self::Sctp(config) => Controller::Sctp(sctp::Sctp::new(config, mss)),
        }
    }
}

/// A congestion control, dispatched statically where it is a built-in one.
#[derive(Debug)]
pub enum Controller {
    /// A user's own.
    Custom(Box<dyn CongestionControl + Send>),
    /// SCTP's own control.
    Sctp(sctp::Sctp),
}

macro_rules! dispatch {
    ($self:expr, $control:ident => $call:expr) => {
        match $self {
            Controller::Custom($control) => $call,
            Controller::Sctp($control) => $call,
        }
    };
}

impl CongestionControl for Controller {
    fn on_ack(&mut self, event: &AckEvent) {
        dispatch!(self, control => control.on_ack(event));
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        dispatch!(self, control => control.on_congestion(event));
    }

    fn limits(&self) -> SendLimits {
        dispatch!(self, control => control.limits())
    }

    fn state(&self) -> ControlState {
        dispatch!(self, control => control.state())
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        dispatch!(self, control => control.on_idle(event));
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        dispatch!(self, control => control.on_rtt_sample(event));
    }

    fn on_sent(&mut self, event: &SentEvent) {
        dispatch!(self, control => control.on_sent(event));
    }
}
