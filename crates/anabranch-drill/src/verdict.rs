//! The results of scripts.

use anabranch_transport::time::{Duration, Time};
use serde::Serialize;

/// The result of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A statement was not fulfilled.
    Failed,
    /// The script needs something that a simulated stack does not have.
    NotApplicable,
    /// Every statement was fulfilled.
    Passed,
}

/// The result of a script, and the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The verdict.
    pub verdict: Verdict,
    /// The line of the statement that decided it, from 1; [`None`] if the script passed.
    pub line: Option<u32>,
    /// The expected outcome of that statement.
    pub expected: Option<String>,
    /// What happened instead, in the same language.
    pub seen: Option<String>,
    /// When it happened, in seconds of virtual time since the script began.
    pub when_s: Option<f64>,
    /// Why the statement was not fulfilled, as a sentence.
    pub reason: Option<String>,
    /// The largest difference between when something was expected and when it happened, in seconds, among the
    /// statements that had a time and were fulfilled.
    pub largest_deviation_s: f64,
    /// The least tolerance of the script, in seconds.
    pub tolerance_s: f64,
}

/// Why a script does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// The caller has given the script up.
    Cancelled,
    /// A statement was not fulfilled.
    Failed {
        /// What happened instead.
        seen: String,
        /// What differs.
        reason: String,
    },
    /// The script needs this, which a simulated stack does not have.
    Needs(String),
}

impl Stop {
    /// Stops because the script needs something that we lack.
    pub(crate) fn needs(what: impl Into<String>) -> Self {
        Self::Needs(what.into())
    }

    /// A statement that was not fulfilled.
    pub(crate) fn failed(seen: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Failed { seen: seen.into(), reason: reason.into() }
    }
}

/// The result of a step.
pub(crate) type Step<T> = Result<T, Stop>;

/// A time in seconds, to the microsecond, as scripts have it.
pub(crate) fn seconds(time: Time) -> String {
    format!("{:.6}", time.as_nanos() as f64 / 1e9)
}

/// A length of time in the words of messages.
pub(crate) fn length(duration: Duration) -> String {
    format!("{:.6}", duration.as_nanos() as f64 / 1e9)
}
