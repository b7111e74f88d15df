//! Wi-Fi: stations that share the air by the distributed coordination function of IEEE 802.11-2020 (section
//! 10.3).
//!
//! Both directions of a link, and all links of one medium, share a half-duplex channel. Each data frame takes
//! DIFS, backoff, its transmission, SIFS and the acknowledgement. Either the medium serves its stations in
//! turn (`cell`), or they contend for it (`contention`). A transmission is decided when it starts, so a
//! medium has one event per frame and none while nothing of the scenario waits.
//!
//! Not modelled: beacons and other management, RTS/CTS, aggregation (A-MPDU, A-MSDU), power save, capture,
//! hidden stations, other networks on the channel beside the stations of `background`, rate adaptation (the
//! rate may follow a timetable), propagation (it belongs into the link's `delay`).

mod cell;
mod config;
mod contention;
mod lane;
mod phy;

pub(crate) use cell::{Cell, SCALARS};
pub use config::{BackgroundConfig, WifiConfig};
pub(crate) use phy::MOST_PACKET_BYTES;
pub use phy::WifiStandard;
