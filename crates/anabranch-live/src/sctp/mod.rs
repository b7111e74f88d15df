//! SCTP with bytes: a [`Host`] and its associations.

mod addresses;
mod association;
mod host;
mod incoming;

pub use host::{AssociationId, Host, HostEvent, Inbound, Outbound, Place, Refusal, Settings};

pub use crate::outbox::Transmit;
pub use crate::route::Route;
