//! SCTP with bytes: a [`Host`] and its associations.

mod association;
mod host;
mod incoming;
mod outgoing;
mod route;

pub use host::{AssociationId, Host, HostEvent, Inbound, Outbound, Refusal, Settings, Transmit};
pub use route::Route;
