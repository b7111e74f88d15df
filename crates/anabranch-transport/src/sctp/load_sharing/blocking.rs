//! What keeps data from leaving although a congestion window has room: a path's share of a buffer, or the
//! scheduler.

use super::config::{Config, SplitBy};
use super::{BLOCKED_BY_RECEIVE_WINDOW_S, BLOCKED_BY_SEND_BUFFER_S};
use crate::report::Report;
use crate::sctp::outstanding::Buffered;
use crate::sctp::parameters::Parameters;
use crate::sctp::routing::Routing;
use crate::sctp::sender::Sender;
use crate::time::{Duration, Time};

/// What load sharing reads of an association.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) routing: &'a Routing,
    pub(super) sender: &'a Sender,
}

/// The buffer that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    ReceiveBuffer,
    SendBuffer,
}

/// How long each buffer has kept data from leaving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockedTimes {
    since: Option<(Blocking, Time)>,
    receive_buffer: Duration,
    send_buffer: Duration,
}

impl BlockedTimes {
    /// The times up to now.
    fn until(mut self, now: Time) -> Self {
        match self.since.take() {
            Some((Blocking::ReceiveBuffer, since)) => self.receive_buffer += now.saturating_since(since),
            Some((Blocking::SendBuffer, since)) => self.send_buffer += now.saturating_since(since),
            None => {}
        }
        self
    }

    /// Records which buffer has no room from now on.
    pub(super) fn record(&mut self, now: Time, blocking: Option<Blocking>) {
        if self.since.map(|(by, _)| by) != blocking {
            *self = Self { since: blocking.map(|by| (by, now)), ..self.until(now) };
        }
    }

    pub(super) fn report(self, now: Time, report: &mut Report<'_>) {
        let Self { receive_buffer, send_buffer, .. } = self.until(now);
        report.scalar(BLOCKED_BY_RECEIVE_WINDOW_S, receive_buffer.as_secs_f64());
        report.scalar(BLOCKED_BY_SEND_BUFFER_S, send_buffer.as_secs_f64());
    }
}

impl Ground<'_> {
    /// The usable paths' equal shares of the buffers; whole buffers where they are not split. The receive
    /// buffer is `taken` and what the peer offers besides. When it is split `taken` is what is outstanding
    /// (FreeBSD's `max_rwnd_per_dest` in `sctp_med_chunk_output`, INET's `sendOnPath`), when chunks are
    /// rescheduled all that takes it up (INET's `chunkReschedulingControl`).
    pub(super) fn limits(self, config: &Config, taken: u64) -> Buffered {
        let usable = self.routing.status.iter().filter(|status| status.is_usable()).count().max(1) as u64;
        let part = |whole: u64, is_split: bool| if is_split { whole / usable } else { whole };
        Buffered {
            sender: part(self.parameters.send_buffer, config.buffer_splitting.has_sender()),
            receiver: part(u64::from(self.sender.peer_rwnd) + taken, config.buffer_splitting.has_receiver()),
            in_flight: u64::MAX,
        }
    }

    /// Says of what a path has in the buffers which of the two has no room for `length` bytes more in the
    /// path's share. One packet may always be on its way, as a probe (RFC 9260 section 6.1 A).
    pub(super) fn split(
        self,
        config: &Config,
        limits: Buffered,
        length: u32,
    ) -> impl Fn(&Buffered) -> Option<Blocking> + use<> {
        let (sides, split_by) = (config.buffer_splitting, config.split_by);
        let is_anything_outstanding = self.sender.outstanding.bytes() > 0;
        move |own| {
            let exceeds = |buffered: u64, limit: u64| {
                let taken = match split_by {
                    SplitBy::Buffered => buffered,
                    SplitBy::Outstanding => own.in_flight,
                };
                is_anything_outstanding && taken > 0 && taken + u64::from(length) > limit
            };
            if sides.has_receiver() && exceeds(own.receiver, limits.receiver) {
                Some(Blocking::ReceiveBuffer)
            } else if sides.has_sender() && exceeds(own.sender, limits.sender) {
                Some(Blocking::SendBuffer)
            } else {
                None
            }
        }
    }

    /// Says of what a path has in the buffers whether both have room for `length` bytes more.
    pub(super) fn fits(
        self,
        config: &Config,
        limits: Buffered,
        length: u32,
    ) -> impl Fn(&Buffered) -> bool + use<> {
        let split = self.split(config, limits, length);
        move |own| split(own).is_none()
    }
}
