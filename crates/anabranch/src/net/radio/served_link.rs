//! What radios share: the description of the link that they serve, and the check of a number.

use anabranch_transport::report::declare;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Duration;

use crate::net::qdisc::QueueConfig;

declare! {
    /// The scalars of every radio.
    SCALARS:
    /// Packets given up after too many transmissions.
    AIR_LOST_PACKETS = "air_lost_packets": One;
    /// Mean time from a packet's arrival at the radio until it left it: waiting, sending and sending again.
    MEAN_HELD_MS = "mean_held_ms": Millis, Less;
}

/// A link that a radio serves, without the settings of the radio.
#[derive(Clone, Debug)]
pub(crate) struct ServedLink<'a> {
    /// The number of the link among all links.
    pub(crate) index: u32,
    pub(crate) name: &'a str,
    /// The nodes at the ends of the link.
    pub(crate) ends: &'a [String; 2],
    /// The queue of each direction, and how messages name it.
    pub(crate) queues: [(&'a QueueConfig, String); 2],
    pub(crate) streams: Streams,
    /// Whether the changes of its queues are recorded.
    pub(crate) is_traced: bool,
}

/// Checks that a number is in its range.
pub(super) fn check_range(key: &str, name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{key}.{name} is {value}, allowed is {least} to {most}"))
}

/// Checks that a time is not too long.
pub(super) fn check_time(key: &str, name: &str, time: Duration, most: Duration) -> Result<(), String> {
    if time <= most {
        return Ok(());
    }
    Err(format!("{key}.{name} is \"{time}\", allowed is at most \"{most}\""))
}
