//! What packets need that become bytes, and bytes that become packets: for tests and fuzz targets.

#![allow(unreachable_pub, reason = "the fuzz targets take it from a library")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_transport::flow::{IpVersion, PathId, Payload};
use anabranch_transport::wire::bytes::{Piece, Receiving, Secret, Sending};
use anabranch_transport::wire::mptcp::context::{MptcpReceiving, MptcpSending};
use anabranch_transport::wire::sctp::context::{SctpReceiving, SctpSending};

/// Both ends of a connection, which share what they know: the one that sends and the one that receives. The
/// byte at an offset is the offset's last.
#[derive(Clone, Debug)]
pub struct World {
    /// The version of IP.
    pub ip: IpVersion,
    /// Which of the two ends sends, 1 or 2: a byte of its addresses.
    pub sender: u8,
    /// What cookies are signed with.
    pub secret: Secret,
    /// What chunks are signed with.
    pub key: Vec<u8>,
    /// The sender's key of MPTCP, and the receiver's.
    pub keys: [u64; 2],
    /// Where the next payload came from: what a receiver knows of its peer's stream.
    pub next: u64,
    /// What numbers of MPTCP are near; see [`Receiving::data_near`].
    pub near: [u64; 2],
    /// Whether UDP carries RTP.
    pub rtp: bool,
    /// The payload type of retransmissions in RTP, if there are any.
    pub retransmissions: Option<u8>,
}

impl World {
    /// Ends that have keys, and nothing received yet.
    pub fn new(ip: IpVersion) -> Self {
        Self {
            ip,
            sender: 1,
            secret: Secret([7; 32]),
            key: b"both know it".to_vec(),
            keys: [0x0102_0304_0506_0708, 0xf0e0_d0c0_b0a0_9080],
            next: 0,
            near: [0; 2],
            rtp: false,
            retransmissions: None,
        }
    }

    fn address(&self, end: u8, path: u8) -> IpAddr {
        match self.ip {
            IpVersion::Ipv4 => Ipv4Addr::new(10, end, 0, path).into(),
            IpVersion::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0, end.into(), 0, 0, 0, path.into()).into(),
        }
    }
}

/// The end that sends: its key is the first one.
impl Sending for World {
    fn addresses(&self, path: PathId) -> [IpAddr; 2] {
        [self.address(self.sender, path.0), self.address(3 - self.sender, path.0)]
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        out.extend((0..payload.length).map(|at| payload.offset.wrapping_add(at.into()) as u8));
    }
}

impl SctpSending for World {
    fn own_addresses(&self) -> Vec<IpAddr> {
        (0..=u8::MAX).map(|path| self.address(self.sender, path)).collect()
    }

    fn peer_addresses(&self) -> Vec<IpAddr> {
        (0..=u8::MAX).map(|path| self.address(3 - self.sender, path)).collect()
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> &[u8] {
        &self.key
    }
}

impl MptcpSending for World {
    fn connection_keys(&self) -> [u64; 2] {
        self.keys
    }
}

/// The end that receives: its key is the second one.
impl Receiving for World {
    fn keep(&mut self, _piece: Piece, bytes: &[u8]) -> u64 {
        // Offsets in these tests are below 256.
        bytes.first().map_or(self.next, |first| u64::from(*first))
    }

    fn keep_stream(&mut self, _sequence: u32, _bytes: &[u8]) -> u64 {
        self.next
    }

    fn has_rtp(&self) -> bool {
        self.rtp
    }

    fn retransmissions(&self) -> Option<u8> {
        self.retransmissions
    }
}

impl SctpReceiving for World {
    fn path_to(&self, address: IpAddr) -> Option<PathId> {
        (0..=u8::MAX).find(|path| self.address(self.sender, *path) == address).map(PathId)
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> Option<&[u8]> {
        Some(&self.key)
    }
}

impl MptcpReceiving for World {
    fn connection_keys(&self) -> [u64; 2] {
        let [sender, receiver] = self.keys;
        [receiver, sender]
    }

    fn data_near(&self) -> [u64; 2] {
        self.near
    }
}
