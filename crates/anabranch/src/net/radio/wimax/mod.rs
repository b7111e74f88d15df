//! A fixed `WiMAX` cell: IEEE 802.16 OFDM with time-division duplex frames.
//!
//! A frame (section 8.3.5.1) is a downlink part, a gap, an uplink part and a gap. What a frame carries is
//! decided when it starts, by the base station, from what waits there and from what the stations have asked
//! for in earlier frames; so the base station has one event per frame, and none while nothing waits.
//!
//! Simplifications: both directions of a station have the same SNR and burst profile; a station has one
//! connection per direction; bandwidth is asked for when the station is polled, which happens in each frame
//! without a burst of its own, and with its bursts (no collisions in contention); headers are never damaged
//! on their own; broadcast messages always arrive; what a station sends in a granted burst is decided at the
//! frame's start.

mod base_station;
mod burst;
mod config;
mod frame;
mod lane;

pub(crate) use base_station::{BaseStation, RadioSample, SCALARS};
pub use config::{ArqConfig, CellConfig, Fairness, WimaxConfig, WimaxProfile};
