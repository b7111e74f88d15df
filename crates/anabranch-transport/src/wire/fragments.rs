//! Fragments put together (RFC 791 section 3.2, RFC 8200 section 4.5): what the host does where a driver
//! reads whole packets of IP by itself.
//!
//! Fragments that arrive belong to no connection yet, so what is kept of them is bounded: the oldest are
//! dropped first. A packet whose fragments overlap is dropped completely (RFC 5722 section 3; Linux does so
//! for IPv4 as well): no two receivers then read it differently.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::bytes::Malformed;
use super::ip::{self, Place, Split};
use crate::flow::Ecn;
use crate::time::{Duration, Time};

/// How long fragments wait for the others (Linux: `net.ipv4.ipfrag_time`).
const LIFE: Duration = Duration::from_secs(30);
/// The most bytes kept: a few packets of the largest size.
const MOST_BYTES: usize = 256 << 10;
/// The cost of a fragment besides its bytes.
const OVERHEAD: usize = 64;
/// The longest payload of a packet.
const LONGEST: usize = 65_535;

/// Packets of which fragments have arrived.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// The packets, the oldest one first.
    packets: VecDeque<Partial>,
    bytes: usize,
}

/// A packet of which fragments have arrived.
#[derive(Debug)]
struct Partial {
    key: Key,
    since: Time,
    /// In order and without overlaps; `None` once the packet is known to be bad.
    pieces: Vec<Piece>,
    /// The length of the payload, once the last fragment has arrived.
    length: Option<usize>,
    ecn: Ecn,
    is_bad: bool,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    addresses: [IpAddr; 2],
    protocol: u8,
    identification: u32,
}

#[derive(Debug)]
struct Piece {
    start: usize,
    bytes: Box<[u8]>,
}

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "IP", problem }
}

impl Reassembly {
    /// Takes a fragment, and returns the packet that it completes, put together.
    ///
    /// # Errors
    /// When the bytes are not a packet, or not a fragment that a sender could have made.
    pub fn take(&mut self, now: Time, packet: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        self.expire(now);
        let Split { addresses, ecn, protocol, payload, fragment, .. } = Split::of(packet)?;
        let Some(place) = fragment else { return Ok(Some(packet.to_vec())) };
        if payload.is_empty() || (place.has_more && !payload.len().is_multiple_of(8)) {
            return Err(malformed("a fragment does not end where another one can begin"));
        }
        if place.start + payload.len() > LONGEST {
            return Err(malformed("a fragment lies behind the end of any packet"));
        }
        let key = Key { addresses, protocol, identification: place.identification };
        let index = self.packets.iter().position(|partial| partial.key == key).unwrap_or_else(|| {
            self.packets.push_back(Partial::new(key, now));
            self.bytes += OVERHEAD;
            self.packets.len() - 1
        });
        let partial = &mut self.packets[index];
        let before = partial.bytes;
        partial.insert(place, payload, ecn);
        self.bytes = self.bytes - before + partial.bytes;
        let whole = partial.whole();
        if whole.is_some() {
            self.remove(index);
        }
        while self.bytes > MOST_BYTES {
            self.remove(0);
        }
        Ok(whole)
    }

    /// Forgets what has waited too long.
    pub fn expire(&mut self, now: Time) {
        while self.packets.front().is_some_and(|oldest| oldest.since + LIFE <= now) {
            self.remove(0);
        }
    }

    /// The number of bytes kept.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, index: usize) {
        if let Some(partial) = self.packets.remove(index) {
            self.bytes -= partial.bytes;
        }
    }
}

impl Partial {
    const fn new(key: Key, since: Time) -> Self {
        let ecn = Ecn::NotEct;
        Self { key, since, pieces: Vec::new(), length: None, ecn, is_bad: false, bytes: OVERHEAD }
    }

    fn insert(&mut self, place: Place, payload: &[u8], ecn: Ecn) {
        if self.is_bad {
            return;
        }
        let (start, end) = (place.start, place.start + payload.len());
        let at = self.pieces.partition_point(|piece| piece.start < start);
        if self.pieces.get(at).is_some_and(|piece| piece.start == start && *piece.bytes == *payload) {
            // A fragment that came twice.
            return;
        }
        let overlaps_next = self.pieces.get(at).is_some_and(|piece| piece.start < end);
        let overlaps_last = at > 0 && self.pieces[at - 1].end() > start;
        let contradicts = match self.length {
            Some(length) => end > length || (!place.has_more && end != length),
            None => !place.has_more && self.pieces.last().is_some_and(|piece| piece.end() > end),
        };
        if overlaps_next || overlaps_last || contradicts {
            self.is_bad = true;
            self.pieces = Vec::new();
            self.bytes = OVERHEAD;
            return;
        }
        if !place.has_more {
            self.length = Some(end);
        }
        // RFC 3168 section 5.3: a mark on one fragment marks the whole packet.
        if self.pieces.is_empty() || ecn == Ecn::Ce {
            self.ecn = ecn;
        }
        self.bytes += payload.len() + OVERHEAD;
        self.pieces.insert(at, Piece { start, bytes: payload.into() });
    }

    /// The packet, if all of it has arrived.
    fn whole(&self) -> Option<Vec<u8>> {
        let length = self.length?;
        let held: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
        if held != length {
            return None;
        }
        let Key { addresses, protocol, identification } = self.key;
        let mut payload = Vec::with_capacity(length);
        self.pieces.iter().for_each(|piece| payload.extend(&piece.bytes));
        // A header of 20 bytes must fit, too.
        let longest = if addresses[0].is_ipv4() { LONGEST - 20 } else { LONGEST };
        (length <= longest)
            .then(|| ip::wrap(protocol, addresses, self.ecn, Some(identification as u16), &payload))
    }
}

impl Piece {
    fn end(&self) -> usize {
        self.start + self.bytes.len()
    }
}
