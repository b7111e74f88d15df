//! SCTP with bytes: a [`Host`] and its associations.

mod addresses;
mod association;
mod events;
mod host;
mod incoming;

pub use events::{Extent, HostEvent, Inbound, Outbound, Place, Refusal};
pub use host::{Host, Settings};

pub use crate::outbox::Transmit;
pub use crate::route::Route;
