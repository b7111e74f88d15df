//! The protocols of [`anabranch_transport`] with the parts that they leave out: the bytes of messages,
//! addresses, a clock, sockets.
//!
//! There are two layers. A host, of SCTP ([`sctp::Host`]), of TCP and Multipath TCP ([`stream::Host`]), or of
//! QUIC (`quic::Host`, with the feature `quic`), has connections with many peers and still does no input or
//! output: datagrams and the time go in, datagrams and events come out, so that it runs in a test as it does
//! on a socket. A [`Driver`](driver::Driver) is one thread with sockets, a clock and a host.
//!
//! SCTP travels in UDP (RFC 6951), as QUIC does, which needs no root, or directly in IP where the system
//! permits raw sockets. All protocols travel in IP through TUN devices, which need root.

pub mod clock;
pub mod driver;
mod incoming;
mod outbox;
mod outgoing;
mod ports;
#[cfg(feature = "quic")]
pub mod quic;
mod raw;
mod route;
pub mod sctp;
pub mod secrets;
pub mod stack;
pub mod stream;
mod table;
pub mod tun;
mod udp;

pub use table::Handle;
