//! What the bytes of Multipath TCP's options need besides addresses and payloads: keys, announced addresses
//! and what is known of numbers. An end of plain TCP knows nothing of it, which is the default.

use std::net::IpAddr;

use crate::flow::PathId;
use crate::wire::bytes::{Receiving, Sending};

/// What is needed to write the options of a segment.
pub trait MptcpSending: Sending {
    /// This end's key of its connection, and the peer's: 0 where it is not known.
    fn connection_keys(&self) -> [u64; 2] {
        [0; 2]
    }

    /// The address of this end that it announces with this identifier.
    fn announced(&self, identifier: u8) -> IpAddr {
        self.addresses(PathId(identifier))[0]
    }

    /// The address that the peer has announced with this identifier.
    fn announced_by_peer(&self, identifier: u8) -> IpAddr {
        self.addresses(PathId(identifier))[1]
    }
}

/// What is needed to read the options of a segment.
pub trait MptcpReceiving: Receiving {
    /// This end's key of its connection, and the peer's: 0 where it is not known.
    fn connection_keys(&self) -> [u64; 2] {
        [0; 2]
    }

    /// The positions that the numbers of the connection are close to: the one that this end expects next, and
    /// the one that the peer does. Numbers may come as their low 32 bits.
    fn data_near(&self) -> [u64; 2] {
        [0; 2]
    }

    /// The peer announces an address of its own, with an identifier and perhaps a port; the code of the
    /// announcement was right.
    fn announced(&mut self, _identifier: u8, _address: IpAddr, _port: Option<u16>) {}

    /// The peer says that `length` bytes, from `position` on in what it sends on the path, belong at `place`
    /// in its stream. A mapping may be longer than the segment that it came with.
    fn mapped(&mut self, _position: u64, _place: u64, _length: u32) {}
}
