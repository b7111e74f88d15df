//! The simulator: events, packets in flight, routes. It knows protocols only as endpoints that it builds.

mod address_changes;
mod cuts;
mod engine;
mod event_queue;
mod flow;
mod flow_groups;
mod fragments;
mod network;
mod packets;
mod topology;

pub use engine::{Guard, Outcome, RunError, Simulation};
