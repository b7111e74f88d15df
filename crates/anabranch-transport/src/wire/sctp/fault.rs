//! Why bytes are not a chunk, or not one that can be taken.

use super::error_cause::ErrorCause;
use crate::wire::bytes::Malformed;

pub(super) const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "SCTP", problem }
}

pub(super) const SHORT: Malformed = malformed("a field lies behind the end");

/// Why a chunk cannot be taken.
pub(super) enum Fault {
    /// Nothing is to be said about it to the peer.
    Silent(Malformed),
    /// The peer is told by an ABORT with this cause.
    Told(ErrorCause),
}

impl Fault {
    pub(super) fn told(code: u16, value: &[u8]) -> Self {
        Self::Told(ErrorCause::other(code, value.to_vec()))
    }

    pub(super) fn violation(words: &str) -> Self {
        Self::Told(ErrorCause::violation(words))
    }
}

impl From<Malformed> for Fault {
    fn from(problem: Malformed) -> Self {
        Self::violation(problem.problem)
    }
}
