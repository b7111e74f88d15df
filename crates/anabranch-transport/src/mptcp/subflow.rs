//! A subflow: a TCP connection on one path, and the place of its stream on the connection level.

use std::collections::VecDeque;

use super::damage::{Damage, Parting};
use crate::endpoint::{CloseReason, Command, Endpoint as _, Input};
use crate::flow::Payload;
use crate::path::PathState;
use crate::tcp;
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::{Reset, Signal};

/// The most mappings that wait for their data. That is more than there are full segments in any window, and
/// bounds the cost of a peer that maps single bytes.
const MOST_MAPPINGS: usize = 1 << 16;

/// A run of a subflow's stream and its place on the connection level (RFC 8684 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// The position in the subflow's stream.
    pub(super) position: u64,
    /// The position on the connection level.
    pub(super) data: u64,
    pub(super) length: u32,
}

impl Mapping {
    const fn end(&self) -> u64 {
        self.position + self.length as u64
    }
}

/// A subflow, or the path for one.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) tcp: tcp::Connection,
    /// The phase that the connection has taken note of.
    pub(super) phase: Phase,
    /// Why its TCP connection ended.
    pub(super) ended: CloseReason,
    /// The identifiers of its addresses at this end and at the peer's (RFC 8684 section 3.4.1): those of its
    /// path, unless something else has been said.
    pub(super) own_address: u8,
    pub(super) peer_address: u8,
    /// Whether it begins with `MP_JOIN`, not with `MP_CAPABLE`.
    pub(super) joins: bool,
    /// The nonces of an `MP_JOIN`: our own and the peer's.
    pub(super) nonces: [u32; 2],
    /// Whether this end has opened it.
    pub(super) initiates: bool,
    /// Whether the peer has shown that it knows our part of the handshake.
    pub(super) is_confirmed: bool,
    /// Whether this end has an address here.
    pub(super) is_present: bool,
    /// Whether this end sends here only while nothing else is usable.
    pub(super) is_backup: bool,
    /// What this end asks of the peer, what it has told the peer about it, and what the peer asks of this
    /// end.
    pub(super) asks_backup: bool,
    pub(super) told_backup: bool,
    pub(super) is_asked_backup: bool,
    /// Whether it has been silent for so long that no data is sent here.
    pub(super) has_failed: bool,
    /// For how many intervals of the connection's timer the subflow has heard nothing although data was
    /// outstanding, and when it last heard anything (Linux: `stale_count`, `stale_rcv_tstamp`).
    pub(super) silent_intervals: u32,
    pub(super) silent_since: Time,
    /// Whether it has opened, and its end has not been noted yet.
    pub(super) is_up: bool,
    /// Whether there is output to be taken.
    pub(super) is_dirty: bool,
    /// Mappings of data that was sent and is not acknowledged on the subflow.
    sent: VecDeque<Mapping>,
    /// Mappings of data that arrived and waits on the subflow for earlier data.
    received: VecDeque<Mapping>,
    /// The position up to which the subflow's stream has been taken.
    delivered: u64,
    /// Whether what it sends has no MPTCP options, because its connection is over and only the peer's FIN is
    /// missing or has come (in Linux, a socket in TIME-WAIT then answers, which knows nothing about MPTCP).
    pub(super) is_bare: bool,
    /// The signal that the next segment without data carries.
    pub(super) signal: Option<Signal>,
    /// The reason that the next reset gives.
    pub(super) reset: Option<Reset>,
    /// When its TCP connection wants to be woken.
    pub(super) timeout: Time,
    /// Damaged data about which the peer has been told, until it answers.
    pub(super) damage: Option<Damage>,
    /// What its first new segment says if the connection goes on as TCP after it worked with MPTCP.
    pub(super) parting: Option<Parting>,
    /// When the third segment of an `MP_JOIN`, or `MP_FAIL`, is sent again.
    pub(super) confirm_at: Time,
    /// When it is opened again.
    pub(super) rejoin_at: Time,
    /// When its address is announced again, and how often that has happened.
    pub(super) announce_at: Time,
    pub(super) announcements: u32,
    /// When its window was last reduced because it held up the receive window.
    pub(super) penalised_at: Option<Time>,
}

impl Subflow {
    /// When the first of its timers expires.
    #[inline]
    pub(super) fn next_timeout(&self) -> Time {
        self.timeout.min(self.confirm_at).min(self.rejoin_at).min(self.announce_at)
    }

    pub(super) fn new(tcp: tcp::Connection, path: u8, is_backup: bool) -> Self {
        Self {
            tcp,
            phase: Phase::Closed,
            ended: CloseReason::Lost,
            own_address: path,
            peer_address: path,
            joins: false,
            nonces: [0; 2],
            initiates: false,
            is_confirmed: false,
            is_present: true,
            is_backup,
            asks_backup: is_backup,
            told_backup: false,
            is_asked_backup: false,
            has_failed: false,
            silent_intervals: 0,
            silent_since: Time::NEVER,
            is_up: false,
            is_dirty: false,
            sent: VecDeque::new(),
            received: VecDeque::new(),
            delivered: 0,
            is_bare: false,
            signal: None,
            reset: None,
            timeout: Time::NEVER,
            damage: None,
            parting: None,
            confirm_at: Time::NEVER,
            rejoin_at: Time::NEVER,
            announce_at: Time::NEVER,
            announcements: 0,
            penalised_at: None,
        }
    }

    /// Forgets the last subflow on this path, because another one begins.
    pub(super) fn begin(&mut self, joins: bool, initiates: bool) {
        (self.joins, self.initiates) = (joins, initiates);
        self.is_confirmed = false;
        self.is_asked_backup = false;
        // RFC 8684 section 3.3.8: MP_JOIN can say that a subflow is a backup, MP_CAPABLE cannot.
        self.told_backup = joins && self.asks_backup;
        self.has_failed = false;
        self.silent_intervals = 0;
        self.phase = Phase::Opening;
        self.forget();
        self.delivered = 0;
        self.is_bare = false;
        self.is_dirty = true;
    }

    /// Forgets its mappings and timers, which have no meaning any more.
    pub(super) fn forget(&mut self) {
        self.sent.clear();
        self.received.clear();
        (self.signal, self.reset) = (None, None);
        (self.damage, self.parting) = (None, None);
        self.penalised_at = None;
        (self.confirm_at, self.rejoin_at) = (Time::NEVER, Time::NEVER);
    }

    /// Resets the subflow for this reason, if there is one.
    pub(super) fn abort(&mut self, now: Time, reason: Reset) {
        if self.phase == Phase::Closed {
            return;
        }
        self.reset = Some(reason);
        self.tcp.handle_input(now, Input::Command(Command::Abort));
        self.is_dirty = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the handshake allows data on it: an end that joins waits for the answer to its third segment
    /// (RFC 8684 section 3.2).
    pub(super) fn is_established(&self) -> bool {
        self.phase == Phase::Open && (self.is_confirmed || !(self.joins && self.initiates))
    }

    /// Whether new data may be sent on it when its windows allow it.
    pub(super) fn is_usable(&self) -> bool {
        self.is_established() && !self.has_failed
    }

    /// Whether data goes here only while no other subflow is usable.
    pub(super) const fn sends_as_backup(&self) -> bool {
        self.is_backup || self.is_asked_backup
    }

    pub(super) const fn state(&self) -> PathState {
        match (self.phase, self.has_failed) {
            (Phase::Open, false) => PathState::Active,
            (Phase::Open, true) => PathState::PotentiallyFailed,
            _ => PathState::Inactive,
        }
    }

    /// The most bytes that may be appended now. While it is 0, the timer of the pace may run.
    pub(super) fn room(&mut self, now: Time) -> u32 {
        let room = self.tcp.room(now);
        self.is_dirty |= room == 0;
        room
    }

    /// Appends data to its stream, which must have room for it.
    pub(super) fn append(&mut self, now: Time, data: u64, length: u32) {
        let position = self.tcp.append(now, length);
        self.sent.push_back(Mapping { position, data, length });
        self.is_dirty = true;
    }

    /// The data that its TCP connection may send again, by its place on the connection level.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = Payload> {
        self.sent.iter().map(|mapping| Payload { offset: mapping.data, length: mapping.length })
    }

    /// Removes what is acknowledged on the subflow.
    pub(super) fn release(&mut self) {
        let acknowledged = self.tcp.acknowledged_position();
        while self.sent.front().is_some_and(|mapping| mapping.end() <= acknowledged) {
            self.sent.pop_front();
        }
    }

    /// The place on the connection level of what its TCP connection sends from this position.
    pub(super) fn place(&self, position: u64) -> Option<u64> {
        let index = self.sent.partition_point(|mapping| mapping.end() <= position);
        let mapping = self.sent.get(index).filter(|mapping| mapping.position <= position)?;
        Some(mapping.data + (position - mapping.position))
    }

    /// Whether its TCP connection has sent the data at this place on the connection level more than once.
    pub(super) fn was_sent_again(&self, data: u64) -> bool {
        let holds =
            |mapping: &&Mapping| mapping.data <= data && data < mapping.data + u64::from(mapping.length);
        self.sent.iter().rev().find(holds).is_some_and(|mapping| {
            // The first byte of the stream has the number 1.
            let number = mapping.position + (data - mapping.data) + 1;
            self.tcp.sent(number).is_some_and(|sent| sent.is_again)
        })
    }

    /// Notes a mapping with which data has arrived. It is kept until the subflow delivers the data.
    pub(super) fn record_mapping(&mut self, mapping: Mapping) {
        if self.received.len() >= MOST_MAPPINGS {
            return;
        }
        let known = self.delivered.saturating_sub(mapping.position);
        if known >= u64::from(mapping.length) {
            return;
        }
        let mapping = Mapping {
            position: mapping.position + known,
            data: mapping.data + known,
            length: mapping.length - known as u32,
        };
        let index = self.received.partition_point(|other| other.position < mapping.position);
        if self.received.get(index).is_none_or(|other| other.position != mapping.position) {
            self.received.insert(index, mapping);
        }
    }

    /// Whether any of the peer's data with a mapping has arrived in order.
    pub(super) const fn has_delivered(&self) -> bool {
        self.delivered > 0
    }

    /// Forgets where data from this position of the connection level on belongs.
    pub(super) fn forget_mappings_from(&mut self, position: u64) {
        self.received.retain_mut(|mapping| {
            mapping.length = mapping.length.min(position.saturating_sub(mapping.data) as u32);
            mapping.length > 0
        });
    }

    /// Whether the place on the connection level of all these bytes is known, or they were delivered before.
    pub(super) fn is_mapped(&self, Payload { offset, length }: Payload) -> bool {
        let end = offset + u64::from(length);
        end <= self.delivered.max(offset)
            || self.received.iter().any(|mapping| mapping.position <= offset && end <= mapping.end())
    }

    /// Whether what waits above a gap has the same place on the connection level as in its stream.
    pub(super) fn maps_to_itself(&self) -> bool {
        self.received.iter().all(|mapping| mapping.position == mapping.data)
    }

    /// The place on the connection level of the next of `length` bytes that the subflow delivers, and how
    /// many of them go there.
    pub(super) fn deliver(&mut self, length: u32) -> Option<(u64, u32)> {
        let mapping = self.received.front_mut()?;
        let taken = mapping.length.min(length);
        let data = mapping.data;
        if taken == mapping.length {
            self.received.pop_front();
        } else {
            mapping.position += u64::from(taken);
            mapping.data += u64::from(taken);
            mapping.length -= taken;
        }
        self.delivered += u64::from(taken);
        Some((data, taken))
    }

    /// Whether no byte that waits has two places, and none was delivered before.
    #[cfg(test)]
    pub(super) fn has_mappings_apart(&self) -> bool {
        let is_new = self.received.front().is_none_or(|first| first.position >= self.delivered);
        is_new && self.received.iter().is_sorted_by(|one, other| one.end() <= other.position)
    }
}
