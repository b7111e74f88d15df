//! Addresses that come and go while the association lives (RFC 5061).
//!
//! A path is a pair of addresses, so what is added or deleted here is the path whose address at the
//! requesting end comes or goes; the other end's address on it is always there. Both ends know from the start
//! which paths there can be. An added path is verified by a heartbeat from both ends before it carries data:
//! RFC 5061 section 5.3 F1 asks that of the receiver of the request, RFC 9260 section 5.4 of every new path.
//!
//! ASCONF and ASCONF-ACK are authenticated as RFC 4895 has it: an AUTH chunk comes before them. On a live
//! host the addresses are those of the paths' routes, and the host makes a path for each new one.
//!
//! Known deviations: packets of an association from an address that is no part of it are discarded without
//! an ABORT, which the other end would have to ignore (section 5.3.1); what is changed before the
//! association is open is asked for right after.

mod paths;
mod requests;

use crate::flow::PathId;
use crate::path::Selection;
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::authentication::Hmac;
use crate::wire::sctp::chunk::{AddressChange, Asconf, AsconfAck, Chunk, Init};

/// A chunk holds at most this many requests. With IPv6, so many fit into the smallest MTU (section 5.1.1 C5).
const MAX_REQUESTS: usize = 8;

/// The state of a path's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// It is not part of the association.
    Absent,
    /// This end has asked for it to be added: nothing but ASCONF may be sent from it (section 5.3 F1).
    Adding,
    /// This end has asked for it to be deleted: nothing is sent from it any more, but what arrives at it is
    /// taken (section 5.3 F4).
    Deleting,
    /// Part of the association.
    Present,
}

/// The state of an association with changing addresses, besides its paths.
#[derive(Debug)]
pub(super) struct Reconfiguration {
    addresses: Vec<Address>,
    /// Changes that have not been asked for yet.
    wanted: Vec<(AddressChange, PathId)>,
    /// The ASCONF that has not been answered and the path it took. There is at most one (section 5.1.1 C1).
    outstanding: Option<(Asconf, PathId)>,
    /// T4-rto: when it expires, the ASCONF is sent again.
    pub(super) t4: Time,
    next_serial: u32,
    next_correlation: u32,
    /// The serial number of the peer's last ASCONF, and the answer to it.
    peer_serial: u32,
    last_ack: Option<AsconfAck>,
    /// Whether the peer supports all this. Otherwise nothing is asked for.
    is_understood: bool,
    /// The HMAC with which the peer wants chunks to be signed.
    hmac: Hmac,
    /// The policy's choice, whether data may be sent there or not.
    pub(super) chosen: Selection,
}

impl Reconfiguration {
    fn is(&self, path: PathId, address: Address) -> bool {
        self.addresses[path.index()] == address
    }

    fn count(&self, address: Address) -> usize {
        self.addresses.iter().filter(|&&other| other == address).count()
    }

    /// Whether the current ASCONF asks for this.
    fn is_asked(&self, wanted: (AddressChange, PathId)) -> bool {
        let requests = self.outstanding.iter().flat_map(|(asconf, _)| &asconf.requests);
        requests.into_iter().any(|request| (request.change, request.path) == wanted)
    }

    fn paths(&self) -> impl Iterator<Item = PathId> + Clone + use<> {
        (0..self.addresses.len()).map(|index| PathId(index as u8))
    }

    /// The peer says this about itself; its serial numbers begin with its initial TSN (section 5.1 A2).
    pub(super) const fn expect_from(&mut self, peer: &Init) {
        self.peer_serial = peer.initial_tsn.wrapping_sub(1);
        self.is_understood = peer.asconf_supported;
        self.hmac = peer.hmac;
    }

    /// A path has been added to the table; its address is part of the association, or not yet.
    pub(super) fn add_path(&mut self, is_present: bool) {
        self.addresses.push(if is_present { Address::Present } else { Address::Absent });
    }

    /// Whether a packet on this path belongs to the association.
    #[inline(never)]
    pub(super) fn is_known_to_us(&self, path: PathId, packet: &SctpPacket) -> bool {
        match self.addresses[path.index()] {
            Address::Adding | Address::Present => true,
            // Section 5.3 F4: an ABORT to an address that is being deleted is ignored (section 5.3.1).
            Address::Deleting => !matches!(packet.first, Chunk::Abort(_)),
            // Section 5.2: the association of an ASCONF is found by the address in it.
            Address::Absent => packet.chunks().any(|chunk| matches!(chunk, Chunk::Asconf(_))),
        }
    }
}
