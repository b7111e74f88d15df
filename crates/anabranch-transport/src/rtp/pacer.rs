//! The pacer: packets of media leave at the pace of the congestion control, retransmissions first.

use std::collections::VecDeque;

use crate::flow::Payload;
use crate::time::{Duration, Time};
use crate::units::Rate;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// When it was handed over.
    pub(super) since: Time,
    pub(super) payload: Payload,
    pub(super) marker: bool,
    pub(super) timestamp: u32,
    /// Its number, and in a retransmission 0: that has one of another stream, which it gets when it leaves.
    pub(super) number: u64,
    /// The number that it had first, in a retransmission.
    pub(super) original: Option<u64>,
}

/// Packets that wait, and when the next one may leave.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    media: VecDeque<Waiting>,
    /// Bytes of payload in `media`.
    media_bytes: u64,
    retransmissions: VecDeque<Waiting>,
    next: Time,
}

impl Pacer {
    /// Bytes of media that wait.
    pub(super) const fn media_bytes(&self) -> u64 {
        self.media_bytes
    }

    pub(super) fn push(&mut self, packet: Waiting) {
        if packet.original.is_some() {
            self.retransmissions.push_back(packet);
        } else {
            self.media_bytes += u64::from(packet.payload.length);
            self.media.push_back(packet);
        }
    }

    /// Whether this packet of media already waits to be sent again.
    pub(super) fn has_retransmission(&self, original: u64) -> bool {
        self.retransmissions.iter().any(|packet| packet.original == Some(original))
    }

    /// Whether a packet of media with this number waits.
    pub(super) fn has_media(&self, number: u64) -> bool {
        self.media.iter().any(|packet| packet.number == number)
    }

    /// For how long the first packet of media has waited.
    pub(super) fn oldest(&self, now: Time) -> Duration {
        self.media.front().map_or(Duration::ZERO, |first| now.saturating_since(first.since))
    }

    /// The packet that leaves next.
    pub(super) fn first(&self) -> Option<&Waiting> {
        self.retransmissions.front().or_else(|| self.media.front())
    }

    /// When a packet may leave next, whether one waits or not.
    pub(super) const fn free_at(&self) -> Time {
        self.next
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.media.is_empty() && self.retransmissions.is_empty()
    }

    /// How long it takes until all media that waits has left.
    pub(super) fn wait(&self, now: Time, pace: Rate) -> Duration {
        let nanos = self.media_bytes.saturating_mul(8 * 1_000_000_000) / pace.bits_per_sec().max(1);
        self.next.saturating_since(now) + Duration::from_nanos(nanos)
    }

    /// Takes out everything that waits, retransmissions first.
    pub(super) fn drain(&mut self) -> Vec<Waiting> {
        self.media_bytes = 0;
        self.retransmissions.drain(..).chain(self.media.drain(..)).collect()
    }

    /// When the next packet leaves; [`Time::NEVER`] if none waits.
    pub(super) fn next(&self) -> Time {
        if self.is_empty() { Time::NEVER } else { self.next }
    }

    /// The packet that leaves now, if there is one.
    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        if self.next > now {
            return None;
        }
        self.retransmissions.pop_front().or_else(|| {
            let packet = self.media.pop_front()?;
            self.media_bytes -= u64::from(packet.payload.length);
            Some(packet)
        })
    }

    /// A packet of so many bytes has left.
    pub(super) fn on_sent(&mut self, now: Time, size: u32, pace: Rate) {
        let nanos = u64::from(size) * 8 * 1_000_000_000 / pace.bits_per_sec();
        self.next = self.next.max(now) + Duration::from_nanos(nanos.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(1_000_000);

    fn packet(original: Option<u64>) -> Waiting {
        let payload = Payload { offset: 0, length: 1_000 };
        Waiting { since: Time::ZERO, payload, marker: false, timestamp: 0, number: 0, original }
    }

    #[test]
    fn packets_leave_at_the_pace_and_retransmissions_first() {
        let mut pacer = Pacer::default();
        assert!(pacer.next().is_never());
        for original in [None, None, Some(7)] {
            pacer.push(packet(original));
        }
        assert!(pacer.media_bytes() == 2_000 && pacer.has_retransmission(7));
        assert_eq!(pacer.pop(Time::ZERO).unwrap().original, Some(7));
        pacer.on_sent(Time::ZERO, 1_000, RATE);
        assert_eq!(pacer.next(), Time::from_millis(8));
        assert!(pacer.pop(Time::from_millis(7)).is_none());
        assert!(pacer.pop(Time::from_millis(8)).is_some());
        assert_eq!(pacer.media_bytes(), 1_000);
        assert_eq!(pacer.wait(Time::from_millis(8), RATE), Duration::from_millis(8));
        assert!(pacer.drain().len() == 1 && pacer.is_empty() && pacer.media_bytes() == 0);
    }
}
