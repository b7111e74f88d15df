//! The packets that a host wants to send, one after the other, each with the addresses that it goes between.

use std::ops::Range;

use anabranch_transport::flow::Ecn;

use crate::route::Route;

/// Several packets of one length are sent together only as long as they fit into one IP packet.
const MOST_BYTES_TOGETHER: usize = u16::MAX as usize - 64;

/// The most bytes that wait for a device without room. Further packets count as lost in the network.
const MOST_WAITING: usize = 16 << 20;

/// Datagrams to be sent, all to the same place.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The addresses and ports that it goes between.
    pub route: Route,
    /// The ECN field of each datagram.
    pub ecn: Ecn,
    /// One or several datagrams, one after the other.
    pub bytes: &'a [u8],
    /// The length of each datagram, of which the last one may be shorter; if there is only one, that of
    /// `bytes`.
    pub segment: usize,
}

/// Packets that are to be sent, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    packets: Vec<(Route, Ecn, Range<usize>)>,
    /// How many packets have been taken.
    taken: usize,
}

impl Outbox {
    /// Adds a packet, which `write` appends.
    pub(crate) fn push(&mut self, route: Route, ecn: Ecn, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.len() >= MOST_WAITING {
            return;
        }
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.packets.push((route, ecn, start..self.bytes.len()));
    }

    /// The next datagrams to send: up to `most` datagrams of one length, and a shorter one after them, to one
    /// address.
    pub(crate) fn take(&mut self, most: usize) -> Option<Transmit<'_>> {
        let Some((route, ecn, first)) = self.packets.get(self.taken).cloned() else {
            self.packets.clear();
            self.bytes.clear();
            self.taken = 0;
            return None;
        };
        let segment = first.len();
        let mut end = first.end;
        let mut count = 1;
        for (other, mark, range) in self.packets[self.taken + 1..].iter().take(most - 1) {
            let goes_along = (*other, *mark) == (route, ecn) && range.len() <= segment;
            if !goes_along || range.end - first.start > MOST_BYTES_TOGETHER {
                break;
            }
            (count, end) = (count + 1, range.end);
            if range.len() < segment {
                break;
            }
        }
        self.taken += count;
        Some(Transmit { route, ecn, bytes: &self.bytes[first.start..end], segment })
    }

    /// Puts back the last `count` of the datagrams taken, which could not be sent.
    pub(crate) fn put_back(&mut self, count: usize) {
        self.taken -= count;
    }
}
