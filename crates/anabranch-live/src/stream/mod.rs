//! TCP and MPTCP with bytes: a [`Host`] and its connections, with the bytes of their streams and their
//! addresses.

mod connection;
mod events;
mod host;
mod mappings;
mod multipath;
mod tcp;

use std::fmt::Debug;

use anabranch_transport::endpoint::{HalfClose, Keeper};
use anabranch_transport::flow::PathId;
use anabranch_transport::listener::{Listen, Listener};
use anabranch_transport::mptcp;
use anabranch_transport::observed::Observed;
use anabranch_transport::secret::SecretNumbers;
use anabranch_transport::wire::Packet;
use anabranch_transport::wire::tcp::Segment;

pub use events::HostEvent;
pub use host::{Host, Refusal, Settings};

pub use crate::route::Route;

/// What a host needs from the ends of a transport with a stream of bytes, besides the interfaces of
/// endpoints.
pub trait StreamEnd: Keeper + HalfClose + Observed + Debug + Sized + Send + 'static {
    /// The settings of a connection.
    type Config: Listen<Endpoint = Self, Listener = Self::Listener> + Clone + Send;

    /// The listener for such ends.
    type Listener: Listener<Endpoint = Self> + Debug + Send;

    /// These settings with the ports of this end and of the peer.
    fn at_ports(config: &Self::Config, ports: [u16; 2]) -> Self::Config;

    /// The source of its numbers: those that are a function of addresses and ports, or those that are always
    /// new.
    fn numbers(by_addresses: SecretNumbers, fresh: SecretNumbers) -> SecretNumbers;

    /// Whether the connection is over completely.
    fn is_closed(&self) -> bool;

    /// Whether this SYN, between the same addresses and ports, replaces this connection by a new one.
    fn gives_way_to(&self, path: PathId, segment: &Segment) -> bool;

    /// The largest window that the connection offers, in bytes.
    fn receive_buffer(&self) -> u64;

    /// Bytes that have arrived and that the application has not read.
    fn unread(&self) -> u64;

    /// The position of the byte with this number in what the peer sends on this path.
    fn position_of(&self, path: PathId, sequence: u32) -> Option<u64>;

    /// Tells which parts of what the peer sends on this path have not arrived.
    fn missing(&self, path: PathId, start: u64, end: u64, each: &mut dyn FnMut(u64, u64));

    /// The position in the peer's stream of what this packet carries.
    fn place(&self, packet: &Packet) -> Option<u64>;

    /// The position in this end's stream of the data that this packet carries.
    fn source(&self, packet: &Packet) -> u64;

    /// The connection as one with several paths, if the transport has them.
    fn multipath(&mut self) -> Option<&mut mptcp::Connection> {
        None
    }

    /// The connection of [`Self::multipath`], for reading only.
    fn as_multipath(&self) -> Option<&mptcp::Connection> {
        None
    }
}
