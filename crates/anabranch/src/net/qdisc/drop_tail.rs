//! `DropTail`: first in, first out; a packet that finds the queue full is dropped.
//!
//! The limit counts waiting packets, not the one in service, as ns-2's `DropTail` with its link does. A
//! packet that finds the server idle is always taken. Packets with an ECN-capable transport are marked
//! from a threshold on, compared with what waits at their arrival (the step marking of RFC 8257 section
//! 3.1); packets without are not affected by the threshold. Limits and thresholds that follow a timetable
//! decide about arrivals from then on: a packet that waits already stays.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::net::capacity::{MAX_BACKLOG_UNITS, UNITS_PER_BYTE};
use crate::net::packets::Waiting;
use crate::schedule::{Changes, Schedule, Timeline, from_words};

/// First in, first out, up to a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DropTailConfig {
    /// Most packets that wait, not counting the one in service; may follow a timetable, and packets that wait
    /// when it shrinks stay. Default: 50, or no such limit when `bytes` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Schedule<u32>>,
    /// Most bytes that wait, not counting the packet in service; at most 1 GB; may follow a timetable, as
    /// `packets` does. Default: no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Schedule<Bytes>>,
    /// Mark ECN-capable packets that find at least this many packets waiting; may follow a timetable.
    /// Default: no marking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_packets: Option<Schedule<u32>>,
    /// Mark ECN-capable packets that find at least this many bytes waiting; may follow a timetable.
    /// Default: no marking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_bytes: Option<Schedule<Bytes>>,
    /// Whether waiting times are also reported as quantiles and the queue as its mean length, as they are for
    /// the other disciplines. The results are the same, but each departure is simulated. Default: false.
    pub measure: bool,
}

impl DropTailConfig {
    /// ns-2's default limit (`Queue set limit_ 50`).
    const DEFAULT_PACKETS: u32 = 50;
    /// Work in the queue is counted in 63 bits: 1.15 GB.
    const MAX_BYTES: u64 = 1_000_000_000;

    /// The limits as a function of time.
    pub(crate) fn timeline(&self, key: &str) -> Result<Timeline<DropTail>, String> {
        let mut changes = Changes::default();
        for (packets, name) in [(&self.packets, "packets"), (&self.mark_packets, "mark_packets")] {
            packets.iter().try_for_each(|packets| changes.add(packets, key, name))?;
        }
        for (bytes, name) in [(&self.bytes, "bytes"), (&self.mark_bytes, "mark_bytes")] {
            bytes.iter().try_for_each(|bytes| changes.add(bytes, key, name))?;
        }
        changes.timeline(|from| self.from(from, key))
    }

    /// The limits from this time on.
    fn from(&self, from: Duration, key: &str) -> Result<DropTail, String> {
        let bytes = self.bytes.as_ref().map(|bytes| bytes.first_at(from));
        if let Some(bytes) = bytes.filter(|bytes| bytes.0 > Self::MAX_BYTES) {
            return Err(format!(
                "{key}.bytes is {bytes}{}, allowed is at most {} B",
                from_words(from),
                Self::MAX_BYTES
            ));
        }
        let packets = match (&self.packets, bytes) {
            (Some(packets), _) => u64::from(packets.first_at(from)),
            (None, None) => u64::from(Self::DEFAULT_PACKETS),
            (None, Some(_)) => u64::MAX,
        };
        Ok(DropTail {
            packets,
            bytes: bytes.map_or(u64::MAX, |bytes| bytes.0),
            safe_units: bytes.map_or(MAX_BACKLOG_UNITS - 1, |bytes| bytes.0 * UNITS_PER_BYTE),
            mark_packets: self
                .mark_packets
                .as_ref()
                .map_or(u64::MAX, |packets| packets.first_at(from).into()),
            mark_bytes: self.mark_bytes.as_ref().map_or(u64::MAX, |bytes| bytes.first_at(from).0),
            marks: self.mark_packets.is_some() || self.mark_bytes.is_some(),
        })
    }
}

/// The limits of one queue at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropTail {
    packets: u64,
    bytes: u64,
    safe_units: u64,
    mark_packets: u64,
    mark_bytes: u64,
    marks: bool,
}

impl DropTail {
    /// Whether packets are certainly accepted while the system, server included, has at most this many
    /// packets and this much work with them.
    #[inline]
    pub(crate) fn surely_admits(&self, packets: u64, units: u64) -> bool {
        packets <= self.packets && units <= self.safe_units
    }

    /// The most unfinished work with which the queue certainly accepts a packet, if all packets are of
    /// `packet_units` work.
    pub(crate) fn sure_units(&self, packet_units: u64) -> u64 {
        self.packets.saturating_sub(1).saturating_mul(packet_units).min(self.safe_units)
    }

    /// Whether a busy server's queue accepts a packet of this many bytes.
    pub(crate) fn admits(&self, waiting: Waiting, size: u64) -> bool {
        waiting.packets < self.packets && waiting.bytes + size <= self.bytes
    }

    /// Whether ECN-capable packets may be marked at all.
    #[inline]
    pub(crate) fn marks(&self) -> bool {
        self.marks
    }

    /// Whether an ECN-capable packet that finds this much waiting is marked.
    pub(crate) fn is_marked(&self, waiting: Waiting) -> bool {
        waiting.packets >= self.mark_packets || waiting.bytes >= self.mark_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_thresholds() {
        let bytes = |bytes| Some(Schedule::Constant(Bytes(bytes)));
        let packets = Some(Schedule::Constant(2));
        let queue = DropTailConfig { packets, mark_bytes: bytes(100), ..Default::default() };
        let queue = queue.timeline("queue").unwrap().value();
        assert!(queue.admits(Waiting { packets: 1, bytes: 0 }, 1));
        assert!(!queue.admits(Waiting { packets: 2, bytes: 0 }, 1));
        assert!(queue.is_marked(Waiting { packets: 0, bytes: 100 }));
        assert!(!queue.is_marked(Waiting { packets: 9, bytes: 99 }));
        let queue = DropTailConfig { bytes: bytes(100), ..Default::default() };
        let queue = queue.timeline("queue").unwrap().value();
        assert!(queue.admits(Waiting { packets: 1_000, bytes: 60 }, 40));
        assert!(!queue.admits(Waiting { packets: 1, bytes: 60 }, 41));
        assert_eq!(
            DropTailConfig { bytes: bytes(2_000_000_000), ..Default::default() }
                .timeline("link.a.queue")
                .unwrap_err(),
            "link.a.queue.bytes is 2000000000 B, allowed is at most 1000000000 B"
        );
    }
}
