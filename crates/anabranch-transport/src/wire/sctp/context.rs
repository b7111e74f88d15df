//! What the bytes of SCTP's packets need besides addresses and payloads: the addresses that chunks list, and
//! secrets.

use std::net::IpAddr;

use crate::flow::PathId;
use crate::wire::bytes::{Receiving, Secret, Sending};

/// What is needed to write a packet of SCTP.
pub trait SctpSending: Sending {
    /// All addresses of this end, as many as its paths or fewer, in the order of its paths.
    fn own_addresses(&self) -> Vec<IpAddr>;

    /// The addresses that the INIT listed which is being answered, as many as the cookie of the answer says,
    /// all of one version.
    fn peer_addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// The key vector of the peer whose INIT is answered (RFC 4895 section 6.1); it has as many bytes as the
    /// cookie of the answer says.
    fn peer_key_vector(&self) -> &[u8] {
        &[]
    }

    /// The secret that signs this end's State Cookies.
    fn secret(&self) -> &Secret;

    /// What both ends sign chunks with (RFC 4895 section 6.1), as
    /// [`association_key`](super::authentication::association_key) makes it.
    fn association_key(&self) -> &[u8];
}

/// What is needed to read a packet of SCTP.
pub trait SctpReceiving: Receiving {
    /// The path to this address of the peer, if there is one.
    fn path_to(&self, address: IpAddr) -> Option<PathId>;

    /// The path to an address that the peer asks to add: a new address gets a path; `None` if there
    /// is no room for another one.
    fn path_to_new(&mut self, address: IpAddr) -> Option<PathId> {
        self.path_to(address)
    }

    /// The path that the packet comes over, which may be a new one: this is what the wildcard address stands
    /// for (RFC 5061 section 5.1).
    fn path_of_packet(&mut self) -> Option<PathId> {
        None
    }

    /// The secret that signs this end's State Cookies.
    fn secret(&self) -> &Secret;

    /// The key that signs chunks; `None` before there is an association.
    fn association_key(&self) -> Option<&[u8]>;
}
