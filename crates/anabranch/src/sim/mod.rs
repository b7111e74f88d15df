//! The simulator: events, packets in flight, and routes. It knows protocols only as the endpoints that it
//! builds.

mod address_changes;
mod alarm;
mod build;
mod cuts;
mod emulation;
mod engine;
mod event_queue;
mod flow;
mod flow_groups;
mod fragments;
mod held;
mod hops;
mod limits;
mod network;
mod packets;
mod results;
mod stepped;
mod tally;
mod topology;

pub use emulation::{Delivery, DeliveryStatus, EmulatedPath, Emulation, Inbound, LinkState};
pub use engine::{Outcome, Simulation};
pub(crate) use flow_groups::SCALARS as GROUP_SCALARS;
pub use limits::{Guard, RunError};
pub(crate) use results::SCALARS as RUN_SCALARS;
pub use stepped::Stepped;
