//! A satellite link of a constellation in low orbit: its scheduler chooses anew, at the same times for all
//! dishes, over which satellite each of them is served (Starlink: every 15 s).
//!
//! Between two such times the base delay and the rate stay as they are; with each they change. Around them
//! packets are held: one that comes at the border has a delay of about 140 ms, one that comes at the worst
//! time before it 75 ms, as probes at 500 Hz found one way (arXiv:2601.08439). Without a `length` the link
//! stands still at a border, so that packets wait in its queue and leave at its rate: a probe's delay falls
//! by a millisecond each millisecond. With one, the delay falls over that length, and the queue sees nothing.
//!
//! All of that is known when a run begins, so there is nothing to do at events: the link becomes one whose
//! rate, delay and loss follow timetables, and has the queue disciplines, the cross traffic and the order of
//! packets that these have.
//!
//! Not modelled: the way of the satellites, the frames of the uplink's scheduler (about 1.3 ms), rain, and
//! what stands before the sky.

mod config;
mod periods;

pub use config::{LeoBorder, LeoConfig, LeoWay, PerPeriod};
pub(crate) use periods::LeoSchedules;
