//! Messages as an association keeps them, with the number of their stream in 16 bits (RFC 9260 section
//! 3.3.1).

use std::num::TryFromIntError;

use crate::endpoint::{self, Received, Reliability, StreamId};
use crate::flow::Payload;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) stream: u16,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
    pub(super) reliability: Reliability,
    pub(super) payload: Payload,
}

impl TryFrom<endpoint::Message> for Message {
    type Error = TryFromIntError;

    fn try_from(message: endpoint::Message) -> Result<Self, TryFromIntError> {
        let endpoint::Message { stream, ppid, unordered, reliability, payload, .. } = message;
        Ok(Self { stream: stream.try_into()?, ppid, unordered, reliability, payload })
    }
}

/// A message that has arrived whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) stream: u16,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
    pub(super) payload: Payload,
}

impl From<Whole> for Received {
    #[inline]
    fn from(message: Whole) -> Self {
        let Whole { stream, ppid, unordered, payload } = message;
        Self { stream: StreamId::from(stream), ppid, unordered, ends_stream: false, payload }
    }
}
