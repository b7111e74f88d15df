//! Applications: what a flow's two ends send and what their users experience.
//!
//! To add one: a file with its config (a serde struct with `build`) and its [`App`], its name here, and a
//! variant in [`AppConfig`] and [`AnyApp`] (`any.rs`). `writer` writes bytes where the transport may refuse
//! some of them; `testing` is a connection for tests that does.

mod any;
pub mod bulk;
pub mod datagrams;
pub mod drawn;
pub mod exchanges;
mod quantiles;
mod rtp;
#[cfg(test)]
pub(crate) mod testing;
pub mod video;
pub mod voip;
mod writer;

use anabranch_transport::endpoint::{Command, Event, Reliability};
use anabranch_transport::flow::Side;
use anabranch_transport::quality::Playout;
use anabranch_transport::report::Report;
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::{Duration, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::transports;

pub use any::{AnyApp, AppConfig};
pub(crate) use any::{HAVE_DIRECTIONS, SCALARS};
pub use rtp::RtpPayload;

/// The application of one flow, with both of its ends: it gives commands to the two endpoints and gets their
/// events.
///
/// One object has both ends, since it measures what one end receives of what the other sent.
pub trait App {
    /// The time of its next [`App::handle_wakeup`]; [`Time::NEVER`] if there is none.
    fn next_wakeup(&self) -> Time;

    /// Acts at the time that [`App::next_wakeup`] named. After this, the next one must lie later.
    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands);

    /// Handles an event of one end's endpoint.
    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands);

    /// Whether everything has been measured; the run ends when every application that can end is done. A
    /// background load is always done.
    fn is_done(&self) -> bool;

    /// A time before which it is certainly not done; [`Time::ZERO`], by default, if there is none.
    fn earliest_end(&self) -> Time {
        Time::ZERO
    }

    /// Writes what was measured as scalars.
    fn report(&self, now: Time, report: &mut Report<'_>);

    /// The units that this end sent and a user would notice, one by one, for traces; empty by default.
    fn frames(&self, _sender: Side) -> Vec<Frame> {
        Vec::new()
    }

    /// The rating of each second by the listener to this end, for traces; empty by default.
    fn ratings(&self, _sender: Side) -> Vec<voip::RatedInterval> {
        Vec::new()
    }

    /// The data that arrived of a transfer from this end, by interval, for traces; empty by default.
    fn intervals(&self, _sender: Side, _now: Time) -> Vec<bulk::Interval> {
        Vec::new()
    }

    /// Bytes of memory that grow with the run, roughly; by default 0.
    fn memory(&self) -> usize {
        0
    }

    /// The exchanges, one by one, for traces; empty by default.
    fn exchanges(&self) -> &[exchanges::Exchange] {
        &[]
    }
}

/// A unit that a user would notice, such as 20 ms of speech.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number; pauses are counted as well.
    pub index: u64,
    /// When the frame was made.
    pub made: Time,
    /// When the frame arrived, if it did.
    pub arrived: Option<Time>,
    /// What the receiving end did with the frame.
    pub fate: Playout,
    /// Its bytes.
    pub bytes: u32,
    /// When it was played or shown, if it was.
    pub played: Option<Time>,
    /// How long the picture had stood still then, if that was a freeze.
    pub froze: Duration,
}

/// Commands for a flow's endpoints, in order.
#[derive(Debug, Default)]
pub struct Commands {
    /// The commands so far.
    pub list: Vec<(Side, Command)>,
    /// What an application says with [`Self::change_nothing`].
    has_changed_nothing: bool,
}

impl Commands {
    /// Says that the event that is being handled gives rise to no command, and changes neither when the
    /// application wants to be woken nor whether it is done. It need not be said: the caller then asks.
    pub fn change_nothing(&mut self) {
        self.has_changed_nothing = true;
    }

    /// Whether an application has said so since this was last asked.
    pub(crate) fn take_changed_nothing(&mut self) -> bool {
        std::mem::take(&mut self.has_changed_nothing)
    }

    /// Adds a command for the endpoint of this side.
    pub fn push(&mut self, side: Side, command: Command) {
        self.list.push((side, command));
    }
}

/// The error for an application that writes as much as it can over a transport that accepts everything.
fn needs_flow_control(kind: &str) -> String {
    let choice = transports::choice(|can| can.flow_control);
    format!("kind = \"{kind}\" needs a transport with flow control; use {choice}")
}

/// Which end sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The flow's end `from`.
    #[default]
    AToB,
    /// The flow's end `to`.
    BToA,
    /// Both ends.
    Both,
}

impl Direction {
    /// Whether this end sends.
    pub const fn is_sender(self, side: Side) -> bool {
        matches!((self, side), (Self::Both, _) | (Self::AToB, Side::A) | (Self::BToA, Side::B))
    }
}

/// How hard the transport tries to deliver each message: `"reliable"`,
/// `{ limited_retransmissions = 0 }`, `{ timed = "100 ms" }` or `{ priority = 1 }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReliabilityConfig {
    /// Retransmit at most this many times (RFC 7496 section 3.1.1); 0 is "send once".
    LimitedRetransmissions(u32),
    /// Abandon it when a message of higher priority needs the buffer; 0 is the highest (RFC 7496 section
    /// 3.1.2).
    Priority(u32),
    /// Keep it until it is delivered or the connection ends.
    #[default]
    Reliable,
    /// Abandon it this long after it was handed over (RFC 3758 section 4.1).
    Timed(Duration),
}

impl From<ReliabilityConfig> for Reliability {
    fn from(config: ReliabilityConfig) -> Self {
        match config {
            ReliabilityConfig::LimitedRetransmissions(times) => Self::LimitedRetransmissions(times),
            ReliabilityConfig::Priority(priority) => Self::Priority(priority),
            ReliabilityConfig::Reliable => Self::Reliable,
            ReliabilityConfig::Timed(lifetime) => Self::Timed(lifetime),
        }
    }
}

/// When an application starts: `"10 s"`, or `{ from = "10 s", to = "20 s" }` to draw it uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "start is a time such as \"10 s\" or a range such as { from = \"10 s\", to = \"20 s\" }"
)]
pub enum Start {
    /// At this time after the start of the run.
    At(Duration),
    /// At a time that is uniform between two times.
    Between {
        /// The earliest.
        from: Duration,
        /// The latest.
        to: Duration,
    },
}

impl Start {
    /// The same start, later by this much.
    #[must_use]
    pub(crate) fn delayed(self, by: Duration) -> Self {
        match self {
            Self::At(at) => Self::At(at + by),
            Self::Between { from, to } => Self::Between { from: from + by, to: to + by },
        }
    }

    /// Draws the time.
    ///
    /// # Errors
    /// When a range ends before it begins.
    pub fn draw(self, rng: &mut Rng) -> Result<Time, String> {
        match self {
            Self::At(at) => Ok(Time::ZERO + at),
            Self::Between { from, to } if from > to => {
                Err(format!("start.from = \"{from}\" is after start.to = \"{to}\""))
            }
            Self::Between { from, to } => Ok(Time::ZERO + rng.duration_between(from, to)),
        }
    }
}
