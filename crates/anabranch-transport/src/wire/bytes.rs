//! What the bytes of packets need and packets leave out: addresses and the bytes of payloads; and tools to
//! read bytes that cannot be trusted.

use std::net::IpAddr;

use crate::flow::{IpVersion, PathId, Payload};
pub use crate::secret::Secret;

/// What the bytes of a packet need that the packet does not contain, at the end that sends it. What one
/// protocol alone needs, such as its secrets, is in a trait of its own, beside its packets.
pub trait Sending {
    /// The source and the destination address of packets on this path.
    fn addresses(&self, path: PathId) -> [IpAddr; 2];

    /// The version of its addresses.
    fn ip(&self) -> IpVersion {
        if self.addresses(PathId(0))[0].is_ipv6() { IpVersion::Ipv6 } else { IpVersion::Ipv4 }
    }

    /// Appends the bytes of a payload.
    fn payload(&self, payload: Payload, out: &mut Vec<u8>);
}

/// What is needed to parse a packet, besides its bytes.
pub trait Receiving {
    /// Keeps the bytes of a message or of a part of it, and returns the offset by which they can be asked for
    /// again. At this time it is not known yet whether the packet is genuine.
    fn keep(&mut self, piece: Piece, bytes: &[u8]) -> u64;

    /// Keeps the bytes of a TCP segment whose first one has this sequence number, and returns its place in
    /// the peer's stream.
    fn keep_stream(&mut self, sequence: u32, bytes: &[u8]) -> u64;

    /// Whether its UDP datagrams carry RTP.
    fn has_rtp(&self) -> bool {
        false
    }

    /// The payload type of RTP's retransmissions (RFC 4588), if there are any.
    fn retransmissions(&self) -> Option<u8> {
        None
    }
}

/// A piece of the peer's data, which the receiver has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The user data of a DATA chunk. The fragments of a message have consecutive TSNs.
    Data {
        /// The chunk's TSN.
        tsn: u32,
    },
    /// A UDP datagram.
    Datagram,
    /// The user data of an I-DATA chunk. The fragments of a message have consecutive Fragment Sequence
    /// Numbers.
    IData {
        /// The chunk's TSN.
        tsn: u32,
        /// The stream.
        stream: u16,
        /// The U bit.
        unordered: bool,
        /// Message Identifier.
        mid: u32,
        /// Fragment Sequence Number.
        fsn: u32,
    },
}

/// An error: the bytes are not a packet. Displays as one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{protocol}: {problem}")]
pub struct Malformed {
    /// The protocol whose rules they break.
    pub protocol: &'static str,
    /// How they break them.
    pub problem: &'static str,
}

/// A slice of bytes that is read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes, if there are as many.
    pub(super) const fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        match self.0.split_at_checked(count) {
            Some((taken, rest)) => {
                self.0 = rest;
                Some(taken)
            }
            None => None,
        }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N).and_then(|bytes| bytes.try_into().ok())
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appending to bytes, with numbers in network order.
pub(super) trait Append {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    /// Appends zeros up to a multiple of 4 bytes from `start` on.
    fn pad(&mut self, start: usize);
}

impl Append for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn pad(&mut self, start: usize) {
        let length = (self.len() - start).next_multiple_of(4);
        self.resize(start + length, 0);
    }
}
