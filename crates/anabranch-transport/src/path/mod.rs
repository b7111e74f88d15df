//! Path policies: which path is the primary one, and where new data and retransmissions go.
//!
//! A policy gets events, changes the [`Selection`] in place, and may ask for ticks and for [`Request`]s; it
//! never sees the endpoint.

pub mod adaptive_primary;
pub mod delay_centric;
pub mod echo;
pub mod failover;
pub mod heartbeat_pair;
mod hysteresis;
pub mod plugin;
pub mod rtt_based;
pub mod scheduler;
mod selector;
#[cfg(test)]
mod testing;
pub mod throughput_checkpoint;

use std::fmt;

pub use selector::{Config, Selector};

use crate::flow::PathId;
use crate::time::{Duration, Time};

/// The state of a path as its endpoint sees it (RFC 9260 section 8.2, RFC 7829).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// The path is in use or ready for use.
    #[default]
    Active,
    /// More errors in a row than allowed.
    Inactive,
    /// Suspect; avoided while another path is better (RFC 7829).
    PotentiallyFailed,
}

impl PathState {
    /// The RFC's word in lower case, for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::PotentiallyFailed => "potentially_failed",
        }
    }
}

/// What a policy may know about a path.
///
/// Fields from `rto` on have the values at the event, and only for policies that measure
/// ([`PathSelector::measures`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// Active, inactive or potentially failed.
    pub state: PathState,
    /// Whether the peer has been seen at the other end (RFC 9260 section 5.4).
    pub confirmed: bool,
    /// Errors in a row.
    pub error_count: u32,
    /// Smoothed round-trip time; [`None`] before the first sample.
    pub srtt: Option<Duration>,
    /// The last time that anything arrived over it.
    pub last_heard: Time,
    /// Largest packet in bytes, all headers included.
    pub mtu: u32,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes of data sent, retransmissions included.
    pub sent_bytes: u64,
    /// Bytes of data that missing reports or a timeout said were lost.
    pub lost_bytes: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats that were not answered in time.
    pub heartbeats_lost: u64,
}

impl Default for PathStatus {
    /// A path on which nothing has happened yet.
    fn default() -> Self {
        Self {
            state: PathState::Active,
            confirmed: true,
            error_count: 0,
            srtt: None,
            last_heard: Time::ZERO,
            mtu: 1500,
            rto: Duration::ZERO,
            cwnd: 0,
            ssthresh: 0,
            sent_bytes: 0,
            lost_bytes: 0,
            heartbeats_sent: 0,
            heartbeats_lost: 0,
        }
    }
}

impl PathStatus {
    /// Whether data may be sent on it without reservation.
    pub fn is_usable(&self) -> bool {
        self.state == PathState::Active && self.confirmed
    }

    /// Sorts paths from best to worst: active before potentially failed before inactive, then few
    /// errors in a row (RFC 7829 section 3.2), an unconfirmed path after any other.
    fn rank(&self) -> (bool, u8, u32) {
        let state = match self.state {
            PathState::Active => 0,
            PathState::PotentiallyFailed => 1,
            PathState::Inactive => 2,
        };
        (!self.confirmed, state, self.error_count)
    }
}

/// An event on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// An error of this path was counted. If it changed the path's state, that is told first.
    ErrorCounted(PathId),
    /// Missing reports began a fast recovery on a path; only policies that measure are told.
    FastRetransmit {
        /// The path.
        path: PathId,
        /// Its congestion window before it was reduced, in bytes.
        cwnd_before: u32,
    },
    /// The association is open; only policies that measure are told.
    Opened,
    /// The result of a [`Request::HeartbeatPair`]: both heartbeats were answered.
    PairMeasured {
        /// The path.
        path: PathId,
        /// Round-trip time of the first one.
        rtt: Duration,
        /// Time between their arrivals at the peer.
        spacing: Duration,
        /// Size of each on the wire, in bytes.
        size: u32,
    },
    /// The user asked for another primary path.
    PrimaryRequested(PathId),
    /// The end of a [`Request::Probe`]: all of it was acknowledged, or lost and recovered.
    ProbeDone {
        /// The path.
        path: PathId,
        /// Bytes of data sent as the probe; fewer than asked for if the path failed meanwhile.
        bytes: u32,
        /// How many of these bytes were lost.
        lost: u32,
    },
    /// A fast recovery on a path is over; only policies that measure are told. A timeout ends it without this
    /// event.
    RecoveryEnded(PathId),
    /// The smoothed round-trip time of a path changed.
    SrttUpdated {
        /// The path.
        path: PathId,
        /// The sample that changed it.
        rtt: Duration,
    },
    /// A path became active, inactive or potentially failed.
    StateChanged {
        /// The path.
        path: PathId,
        /// Its state before.
        from: PathState,
    },
    /// The time of [`PathSelector::next_tick`] has come.
    Tick,
    /// The retransmission timer of a path expired. If that changed the path's state, that is told first.
    TimerExpired(PathId),
}

/// A policy's request to its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Two heartbeats back to back; answered by [`PathEvent::PairMeasured`] unless one is lost.
    HeartbeatPair {
        /// The path.
        path: PathId,
        /// Size of each on the wire in bytes, at most the path's MTU.
        size: u32,
    },
    /// Sends the next new data on this path, whatever its congestion window; answered by
    /// [`PathEvent::ProbeDone`]. Only one probe is sent at a time: requests that come before that are
    /// ignored. With load sharing, where all paths carry data, all are ignored.
    Probe {
        /// The path.
        path: PathId,
        /// Bytes to send, rounded up to whole packets; the path's congestion window and slow-start threshold
        /// are set to as much.
        bytes: u32,
        /// Whether all of it is sent at once, even beyond Max.Burst.
        is_burst: bool,
    },
}

/// A loss that asks for a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retransmission {
    /// The path on which the data was last sent.
    pub last: PathId,
    /// Whether the retransmission timer expired; otherwise missing reports revealed the loss.
    pub timeout: bool,
}

impl Retransmission {
    /// Data last sent on `last` was lost.
    pub const fn new(last: PathId, timeout: bool) -> Self {
        Self { last, timeout }
    }
}

/// The basis of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// A few words about it.
    pub words: &'static str,
    /// How the numbers compare (`<` or `>`), and their unit; `None` if there are no numbers.
    pub comparison: Option<(char, &'static str)>,
}

impl Basis {
    /// A decision without numbers.
    pub const fn words(words: &'static str) -> Self {
        Self { words, comparison: None }
    }

    /// The new path's number is below or above (`sign`) the old one's.
    pub const fn compared(words: &'static str, sign: char, unit: &'static str) -> Self {
        Self { words, comparison: Some((sign, unit)) }
    }
}

/// Why the primary path changed. Displays as `measured throughput: 5.9 Mbit/s > 3.6 Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// What was compared.
    pub basis: &'static Basis,
    /// The new primary path's number.
    pub new: f32,
    /// The old one's, or what was asked for.
    pub old: f32,
}

impl Reason {
    /// A reason without numbers.
    pub const fn new(basis: &'static Basis) -> Self {
        Self { basis, new: 0.0, old: 0.0 }
    }

    /// A reason with the numbers of the new and the old primary path.
    pub const fn compared(basis: &'static Basis, new: f64, old: f64) -> Self {
        Self { basis, new: new as f32, old: old as f32 }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Basis { words, comparison } = self.basis;
        f.write_str(words)?;
        let Some((sign, unit)) = comparison else { return Ok(()) };
        let space = if unit.is_empty() { "" } else { " " };
        let [new, old] = [self.new, self.old].map(significant);
        write!(f, ": {new}{space}{unit} {sign} {old}{space}{unit}")
    }
}

/// A number with four significant digits at most.
fn significant(value: f32) -> String {
    let (mut digits, mut rest) = (3, value.abs());
    while digits > 0 && rest >= 10.0 {
        rest /= 10.0;
        digits -= 1;
    }
    while digits < 9 && rest > 0.0 && rest < 1.0 {
        rest *= 10.0;
        digits += 1;
    }
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// The paths in use. A policy changes it in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// The primary path.
    pub primary: PathId,
    /// The path for new data.
    pub current: PathId,
    /// Whether nothing may be sent on any path for now.
    pub held: bool,
    /// Why the primary path changed last.
    pub reason: Reason,
}

impl Selection {
    /// Selects `primary` for everything.
    pub const fn new(primary: PathId) -> Self {
        const AT_FIRST: Basis = Basis::words("at first");
        Self { primary, current: primary, held: false, reason: Reason::new(&AT_FIRST) }
    }

    /// Selects `primary` for everything from now on, for this reason.
    pub fn switch(&mut self, primary: PathId, reason: Reason) {
        *self = Self { reason, ..Self::new(primary) };
    }
}

/// A path policy.
pub trait PathSelector: fmt::Debug {
    /// Something happened to a path: change `selection` if need be.
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection);

    /// The path on which data is sent again.
    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId;

    /// Whether it uses ticks or requests, or reads all of [`PathStatus`]; asked once, before the association
    /// opens. An endpoint spends no time on these for a policy that does not.
    fn measures(&self) -> bool {
        false
    }

    /// The time of its next [`PathEvent::Tick`]; asked after every event.
    fn next_tick(&self) -> Time {
        Time::NEVER
    }

    /// Its next request; called after every event until there are no more.
    fn next_request(&mut self) -> Option<Request> {
        None
    }
}

/// The consecutive errors that an endpoint allows a path.
#[derive(Clone, Copy, Debug)]
pub struct ErrorLimits {
    /// Potentially.Failed.Max.Retrans; [`None`] if paths are never potentially failed.
    pub pf_max_retrans: Option<u32>,
    /// Path.Max.Retrans.
    pub path_max_retrans: u32,
}

/// Has a policy send data again where the [`failover::Failover`] within it says.
macro_rules! retransmits_by_failover {
    () => {
        fn retransmission_path(
            &mut self,
            loss: &$crate::path::Retransmission,
            paths: &[$crate::path::PathStatus],
            selection: &$crate::path::Selection,
        ) -> $crate::flow::PathId {
            self.failover.retransmission_path(loss, paths, selection)
        }
    };
}

pub(crate) use retransmits_by_failover;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_shows_its_numbers() {
        const RATE: Basis = Basis::compared("measured throughput", '>', "Mbit/s");
        const REQUESTED: Basis = Basis::words("requested");
        let reason = Reason::compared(&RATE, 5.912_345, 3.6);
        assert_eq!(reason.to_string(), "measured throughput: 5.912 Mbit/s > 3.6 Mbit/s");
        assert_eq!(Reason::new(&REQUESTED).to_string(), "requested");
        assert_eq!([0.0, 12_345.0, 0.012_345, 100.04].map(significant), ["0", "12345", "0.01235", "100"]);
    }
}
