//! Connection IDs (RFC 9000 section 5.1): those of this end, and those of the peer. A path ID has both.

use std::collections::VecDeque;

use super::errors::{Violation, code, violation};
use crate::rng::{Draw, Rng};
use crate::secret::SecretNumbers;
use crate::wire::quic::{ConnectionId, MAX_CONNECTION_ID_BYTES as MAX_BYTES};

/// The most IDs that this end issues, whatever the peer permits; and that it lets the peer issue.
pub(super) const MOST: u64 = 4;
/// `RETIRE_CONNECTION_ID` frames that wait to be sent (section 5.1.2 wants a limit of at least twice the
/// IDs).
const MOST_RETIRING: usize = 3 * MOST as usize;

/// The source of IDs: of a simulation, or of an end that talks to strangers.
#[derive(Debug)]
pub(super) enum Numbers {
    Secret(SecretNumbers),
    Stream(Rng),
}

impl Draw for Numbers {
    fn bits(&mut self) -> u64 {
        match self {
            Self::Secret(numbers) => numbers.bits(),
            Self::Stream(stream) => stream.bits(),
        }
    }
}

/// Whether two codes are equal, in a time that does not depend on them (section 10.3.1).
pub(super) fn is_equal(one: &[u8; 16], other: &[u8; 16]) -> bool {
    one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// The IDs by which the peer calls this end.
#[derive(Debug, Default)]
pub(super) struct OwnIds {
    /// Number and ID of those that have not been retired.
    active: Vec<(u64, ConnectionId)>,
    next: u64,
    /// Numbers of those that are to be announced.
    pub(super) to_announce: VecDeque<u64>,
}

impl OwnIds {
    /// Makes another ID, which is announced if it is not the first one.
    pub(super) fn issue(&mut self, length: usize, numbers: &mut impl Draw) {
        let mut draw = || {
            let mut bytes = [0; 24];
            for part in bytes.chunks_exact_mut(8) {
                part.copy_from_slice(&numbers.bits().to_be_bytes());
            }
            ConnectionId::new(&bytes[..length.min(MAX_BYTES)]).unwrap_or_default()
        };
        // Of four bytes, two may be equal once in a great while.
        let mut id = draw();
        for _ in 0..4 {
            if self.owns(id) {
                id = draw();
            }
        }
        self.active.push((self.next, id));
        if self.next > 0 {
            self.to_announce.push_back(self.next);
        }
        self.next += 1;
    }

    /// The number that the next one will have.
    pub(super) const fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Makes IDs up to the number that the peer keeps.
    pub(super) fn fill(&mut self, limit: u64, length: usize, numbers: &mut impl Draw) {
        while (self.active.len() as u64) < limit.min(MOST) {
            self.issue(length, numbers);
        }
    }

    /// Those that have not been retired.
    pub(super) fn all(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.active.iter().map(|(_, id)| *id)
    }

    /// A number that changes whenever one comes or goes: IDs are never issued twice, and never come back.
    pub(super) fn version(&self) -> u64 {
        self.next * (MOST + 1) + self.active.len() as u64
    }

    /// The ID of the handshake.
    pub(super) fn first(&self) -> ConnectionId {
        self.active.first().map_or_else(ConnectionId::default, |(_, id)| *id)
    }

    /// The ID with this number, if it has not been retired.
    pub(super) fn get(&self, sequence: u64) -> Option<ConnectionId> {
        self.active.iter().find(|(number, _)| *number == sequence).map(|(_, id)| *id)
    }

    pub(super) fn owns(&self, id: ConnectionId) -> bool {
        self.active.iter().any(|(_, own)| *own == id)
    }

    /// The peer no longer uses an ID; the packet that says so came to `used` (section 19.16).
    pub(super) fn retire(&mut self, sequence: u64, used: ConnectionId) -> Result<(), Violation> {
        if sequence >= self.next {
            return Err(violation(code::PROTOCOL_VIOLATION, "an ID is retired that was not issued"));
        }
        if self.get(sequence).is_some_and(|id| id == used) {
            return Err(violation(code::PROTOCOL_VIOLATION, "an ID is retired by a packet to it"));
        }
        self.active.retain(|(number, _)| *number != sequence);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }
}

/// An ID by which this end calls the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PeerId {
    sequence: u64,
    id: ConnectionId,
    /// What a stateless reset has that ends the connection. That of a client's first ID is never known.
    token: Option<[u8; 16]>,
}

/// The IDs by which this end calls the peer.
#[derive(Debug, Default)]
pub(super) struct PeerIds {
    /// Those that may be used; the first one is.
    active: VecDeque<PeerId>,
    /// All numbers before it are retired.
    retired_to: u64,
    /// Numbers of which `RETIRE_CONNECTION_ID` is to be sent.
    pub(super) to_retire: VecDeque<u64>,
}

impl PeerIds {
    /// The ID of the handshake, which may be another one later.
    pub(super) fn set_first(&mut self, id: ConnectionId) {
        self.active.retain(|known| known.sequence > 0);
        self.active.push_front(PeerId { sequence: 0, id, token: None });
    }

    /// Whether there is an ID to send to.
    pub(super) fn has_any(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether there is an ID that has not been used.
    pub(super) fn has_spare(&self) -> bool {
        self.active.len() > 1 && self.to_retire.len() < MOST_RETIRING
    }

    /// Goes over to another ID, if there is one, and gives the present one up (section 9.5).
    pub(super) fn advance(&mut self) {
        if self.has_spare()
            && let Some(old) = self.active.pop_front()
        {
            self.to_retire.push_back(old.sequence);
        }
    }

    /// The server's parameters say what a stateless reset of its first ID has (section 18.2).
    pub(super) fn set_first_token(&mut self, token: Option<[u8; 16]>) {
        if let Some(first) = self.active.front_mut().filter(|known| known.sequence == 0) {
            first.token = token;
        }
    }

    /// Whether this token is that of the ID that is used. Those of others count for nothing (section 10.3.1).
    pub(super) fn is_reset_by(&self, token: &[u8; 16]) -> bool {
        self.active.front().and_then(|used| used.token).is_some_and(|known| is_equal(&known, token))
    }

    /// The ID to send to.
    pub(super) fn current(&self) -> ConnectionId {
        self.active.front().map_or_else(ConnectionId::default, |used| used.id)
    }

    /// Takes an ID that the peer has issued, when this end keeps at most `limit` (section 19.15).
    pub(super) fn add(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        id: ConnectionId,
        token: [u8; 16],
        limit: u64,
    ) -> Result<(), Violation> {
        let new = PeerId { sequence, id, token: Some(token) };
        if let Some(known) = self.active.iter().find(|known| known.sequence == sequence || known.id == id) {
            if *known != new {
                return Err(violation(code::PROTOCOL_VIOLATION, "a connection ID is used twice"));
            }
        } else if sequence < self.retired_to {
            // It is retired at once.
            self.retire(sequence)?;
        } else {
            self.active.push_back(new);
        }
        if retire_prior_to > self.retired_to {
            self.retired_to = retire_prior_to;
            let old: Vec<u64> = self
                .active
                .iter()
                .map(|known| known.sequence)
                .filter(|number| *number < retire_prior_to)
                .collect();
            self.active.retain(|known| known.sequence >= retire_prior_to);
            for number in old {
                self.retire(number)?;
            }
        }
        if self.active.len() as u64 > limit {
            return Err(violation(code::CONNECTION_ID_LIMIT_ERROR, "the peer issues more IDs than we keep"));
        }
        Ok(())
    }

    /// A peer that has this end retire IDs, and acknowledges nothing, does not fill the memory
    /// (CVE-2024-22189).
    fn retire(&mut self, sequence: u64) -> Result<(), Violation> {
        if self.to_retire.contains(&sequence) {
            return Ok(());
        }
        if self.to_retire.len() >= MOST_RETIRING {
            return Err(violation(code::CONNECTION_ID_LIMIT_ERROR, "too many IDs wait to be retired"));
        }
        self.to_retire.push_back(sequence);
        Ok(())
    }

    /// The frame that retired an ID was lost.
    pub(super) fn retire_again(&mut self, sequence: u64) {
        if !self.to_retire.contains(&sequence) {
            self.to_retire.push_back(sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    fn id(byte: u8) -> ConnectionId {
        ConnectionId::new(&[byte; 8]).unwrap()
    }

    /// RFC 9000 sections 5.1.1, 5.1.2, 19.15 and 19.16.
    #[test]
    fn ids_of_the_peer_are_kept_up_to_the_limit() {
        let mut ids = PeerIds::default();
        ids.set_first(id(0));
        ids.add(1, 0, id(1), [1; 16], 2).unwrap();
        ids.add(1, 0, id(1), [1; 16], 2).unwrap();
        assert_eq!(ids.add(1, 0, id(9), [9; 16], 2).unwrap_err().code, code::PROTOCOL_VIOLATION);
        assert_eq!(ids.add(2, 0, id(1), [1; 16], 2).unwrap_err().code, code::PROTOCOL_VIOLATION);
        assert_eq!(ids.add(1, 0, id(1), [9; 16], 2).unwrap_err().code, code::PROTOCOL_VIOLATION);
        assert_eq!(ids.add(2, 0, id(2), [2; 16], 2).unwrap_err().code, code::CONNECTION_ID_LIMIT_ERROR);
        let mut ids = PeerIds::default();
        ids.set_first(id(0));
        ids.add(2, 2, id(2), [2; 16], 2).unwrap();
        assert_eq!((ids.current(), ids.to_retire.make_contiguous()), (id(2), &mut [0][..]));
        ids.add(1, 0, id(1), [1; 16], 2).unwrap();
        assert_eq!(ids.to_retire, [0, 1], "it comes late and is retired at once");
    }

    /// CVE-2024-22189 of quic-go and CVE-2024-1410 of quiche.
    #[test]
    fn a_peer_cannot_make_the_queue_of_retirements_grow() {
        let mut ids = PeerIds::default();
        ids.set_first(id(0));
        let mut result = Ok(());
        for sequence in 1..1_000_u64 {
            let bytes = sequence.to_be_bytes();
            result = result
                .and_then(|()| ids.add(sequence, sequence, ConnectionId::new(&bytes).unwrap(), [0; 16], 2));
        }
        assert_eq!(result.unwrap_err().code, code::CONNECTION_ID_LIMIT_ERROR);
        assert!(ids.to_retire.len() <= MOST_RETIRING);
    }

    #[test]
    fn own_ids_are_bounded_and_retired_once() {
        let mut numbers = Streams { seed: 1, replication: 0 }.stream("ids");
        let mut ids = OwnIds::default();
        ids.issue(8, &mut numbers);
        ids.fill(1_000, 8, &mut numbers);
        assert_eq!((ids.len(), ids.to_announce.len()), (MOST as usize, MOST as usize - 1));
        let first = ids.first();
        assert_eq!(ids.retire(0, first).unwrap_err().code, code::PROTOCOL_VIOLATION);
        assert_eq!(ids.retire(99, first).unwrap_err().code, code::PROTOCOL_VIOLATION);
        ids.retire(1, first).unwrap();
        ids.retire(1, first).unwrap();
        ids.fill(1_000, 8, &mut numbers);
        assert_eq!(ids.len(), MOST as usize);
    }
}
