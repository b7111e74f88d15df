//! QUIC with bytes, over UDP: a [`Host`] and its connections, with the bytes of their streams, the handshake
//! of TLS and the keys of packets.

mod certificate;
mod connection;
mod events;
mod host;
mod host_paths;
mod paths;

pub use anabranch_transport::quic::LivePath;
pub use anabranch_transport::quic::tls::{Client, Server, Trust, certificates};
pub use certificate::{SelfSigned, self_signed};
pub use events::{Ending, HostEvent, PathChange, Refusal};
pub use host::{Host, Settings};

pub use crate::route::Route;
