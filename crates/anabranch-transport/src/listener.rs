//! Listeners wait at a port for peers that open connections.
//!
//! An [`Endpoint`] is one connection; a [`Listener`] makes one for each peer that opens one, so that a server
//! can have any number. The caller decides where a packet goes:
//!
//! 1. to the connection of its addresses;
//! 2. if there is none, to the connection that [owns](Endpoint::owns) it: a path or subflow that begins;
//! 3. otherwise to the listener, whose [`Answer`] may be a new connection.
//!
//! A fixed pair of ends, as a simulation has it, needs no listener: there each closed end accepts its peer.

use crate::endpoint::{Endpoint, Site, Transport};
use crate::flow::{IpVersion, Side};
use crate::rng::{Rng, Streams};
use crate::secret::SecretNumbers;
use crate::time::Time;
use crate::wire::Packet;

/// A transport protocol that can wait for connections.
pub trait Listen: Transport {
    /// The listener for such endpoints.
    type Listener: Listener<Endpoint = Self::Endpoint>;

    /// Builds a listener on this side. The site's paths are those that a connection begins with.
    ///
    /// # Errors
    /// As [`Transport::build`].
    fn listen(&self, site: &Site<'_>) -> Result<Self::Listener, String>;
}

/// Waits at a port. It keeps no state about peers.
pub trait Listener {
    /// The connections that the listener opens.
    type Endpoint: Endpoint;

    /// The same as [`Endpoint::draw_from`], for future connections and for answers before there is one.
    fn draw_from(&mut self, _numbers: SecretNumbers) {}

    /// Takes a packet that no connection owns.
    fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> Answer<Self::Endpoint>;
}

/// The answer to a packet that no connection owns.
#[derive(Debug)]
pub enum Answer<E> {
    /// A connection, which has taken the packet; the caller [asks it for output](Endpoint::poll_output) now.
    /// With SCTP it is known by then that the peer has the address that it sends from, with TCP only when the
    /// connection is open.
    Accepted(Box<E>),
    /// Nothing has to be done.
    Nothing,
    /// Send this packet back to where the other one came from.
    Reply(Box<Packet>),
}

/// The place of a listener's connections: a [`Site`] that owns its values.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) side: Side,
    pub(crate) mtus: Vec<u32>,
    pub(crate) ip: IpVersion,
    pub(crate) streams: Streams,
    name: String,
    /// Number of connections so far.
    count: u64,
}

impl Place {
    pub(crate) fn new(site: &Site<'_>, protocol: &str) -> Self {
        let &Site { side, mtus, ip, streams, .. } = site;
        Self { side, mtus: mtus.to_vec(), ip, streams, name: site.name(protocol), count: 0 }
    }

    /// The stream of the listener itself.
    pub(crate) fn stream(&self) -> Rng {
        self.streams.stream(&format!("{}/listener", self.name))
    }

    /// The prefix of the names of the next connection's streams; connections count from 1.
    pub(crate) fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}/{}", self.name, self.count)
    }
}
