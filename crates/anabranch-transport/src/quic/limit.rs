//! What holds a sender back, and what a receiver waits for, for time accounts. It is read only on request.

use super::connection::{Connection, State};
use crate::endpoint::StreamId;
use crate::observed::{HeadOfLine, LimitedBy, Missing, Transmission};
use crate::time::Time;

impl Connection {
    /// What holds the sender back now on a path; [`None`] without a connection.
    pub(super) fn limit(&self, now: Time, place: usize) -> Option<LimitedBy> {
        let path = &self.paths[place];
        Some(match self.state {
            State::Closed | State::Closing(_) | State::Draining { .. } => return None,
            State::Opening => LimitedBy::Handshake,
            State::Open if path.rtt.back_offs() > 0 => LimitedBy::Timeout,
            State::Open if path.congestion.is_recovering() => LimitedBy::Recovery,
            State::Open if self.has_data_to_send() => {
                let waits = !path.congestion.has_room() || path.congestion.held_until(now).is_some();
                if waits { LimitedBy::CongestionWindow } else { LimitedBy::Application }
            }
            State::Open if self.is_held_by_peer() => LimitedBy::ReceiveWindow,
            State::Open if self.main.has_refused || !self.refused.is_empty() => LimitedBy::SendBuffer,
            State::Open => LimitedBy::Application,
        })
    }

    /// Whether a flow-control limit of the peer holds data back (RFC 9000 section 4.1).
    fn is_held_by_peer(&self) -> bool {
        self.streams.iter().any(|(_, stream)| {
            stream.send.as_ref().is_some_and(|send| send.reset.is_none() && send.written > send.sent)
        })
    }

    /// The data of all streams that waits above a gap, and the first stream that has one. A loss on one
    /// stream holds no other one back.
    pub(super) fn gap(&self) -> Option<HeadOfLine> {
        let mut gap: Option<HeadOfLine> = None;
        for (id, stream) in self.streams.iter() {
            let Some(receive) = &stream.receive else { continue };
            let waiting: u64 =
                receive.waiting().filter(|run| run.0 > receive.next).map(|(start, end)| end - start).sum();
            if waiting > 0 {
                let missing = Missing { stream: StreamId(id), number: receive.next };
                gap.get_or_insert(HeadOfLine { waiting: 0, missing }).waiting += waiting;
            }
        }
        gap
    }

    /// The last transmission of the data at this place of a stream.
    pub(super) fn sent(&self, missing: Missing) -> Option<Transmission> {
        let send = self.streams.get(missing.stream.0)?.send.as_ref()?;
        let position = missing.number;
        if position >= send.sent || position < send.acknowledged {
            return None;
        }
        let carries = |path: &&super::path::Path| {
            path.space.sent.iter().any(|packet| packet.carries(missing.stream.0, position))
        };
        let carrier = if self.multipath.is_some() { self.paths.iter().rev().find(carries) } else { None };
        let path = carrier.unwrap_or(&self.paths[0]).route.address.network;
        Some(Transmission { path, is_again: send.is_repaired(position) })
    }
}
