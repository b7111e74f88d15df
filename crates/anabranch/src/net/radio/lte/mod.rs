//! LTE: a user's bearer in acknowledged or unacknowledged mode, as the scheduler of its base station serves
//! it.
//!
//! Uplink: a packet waits until it is reported, in a scheduling request or a buffer status report (3GPP TS
//! 36.321 sections 5.4.4 and 5.4.5); the grant comes 4 ms later and the transmission another 4 ms after it
//! (TS 36.213 sections 7.3 and 8.0: n + 4). Downlink: a constant delay of scheduling and processing. What is
//! sent shares transport blocks, one in each subframe of 1 ms; a block that fails is sent again after 8 ms
//! (HARQ, TS 36.213 section 8.0, TS 36.321 section 5.4.2), up to a number of transmissions, after which RLC
//! sends it again (acknowledged mode) or its packets are lost (TS 36.322 section 5.2). Packets arrive in
//! order (TS 36.322 section 5.1.3.2.2), so those behind a failed block come in a burst.
//!
//! Not modelled: the radio channel itself and its modulation (the rate is given: a value, a timetable or a
//! trace), other users of the cell beside what that rate leaves, control channels that fail, segmentation
//! into blocks of RLC headers, and capacity that retransmissions take. How a station sleeps is in `drx`, how
//! it changes its cell in `handovers`; a packet that is being sent when a gap begins goes on after it.

mod bearer;
mod config;

pub(crate) use bearer::Bearer;
pub use config::{HarqConfig, LteConfig};
