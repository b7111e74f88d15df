//! Pacing: segments spread over the round trip instead of sent at once (Linux's internal pacing,
//! `tcp_update_skb_after_send`).

use crate::time::{Duration, Time};

/// How many segments leave before the pace takes effect: the packet with this segment is the first one after
/// which others wait (Linux, as `sch_fq`, lets the first ten segments leave at once).
const FIRST_PACED: u64 = 10;

/// The state of pacing.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// When the next segment may leave.
    next: Time,
    /// Bytes per second; 0 before there is a pace.
    rate: u64,
    sent: u64,
    /// The packet that is being sent, which may have several segments: the earliest time at which it could
    /// leave, how late it was, and how long it takes so far.
    packet: (Time, Duration, Duration),
    /// Runs while only the pace holds data back. The owner of the pacing starts it, and sends when it
    /// expires.
    pub timer: Time,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            next: Time::ZERO,
            rate: 0,
            sent: 0,
            packet: (Time::ZERO, Duration::ZERO, Duration::ZERO),
            timer: Time::NEVER,
        }
    }
}

impl Pacing {
    /// Holds the next segment back until then, with or without a pace.
    pub fn hold_until(&mut self, time: Time) {
        self.next = self.next.max(time);
    }

    /// Sets the rate in bytes per second, from the next segment on.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// The rate in bytes per second; 0 before there is a pace.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// When the next segment may leave; a time in the past means at once.
    pub const fn next(&self) -> Time {
        self.next
    }

    /// Whether the next segment has to wait.
    #[inline]
    pub fn holds(&self, now: Time) -> bool {
        self.next > now
    }

    /// Lets the first ten segments leave at once again.
    pub fn allow_burst(&mut self) {
        self.sent = 0;
    }

    /// Begins a packet that the segments that leave next belong to.
    pub fn begin_packet(&mut self, now: Time) {
        self.packet = (self.next.max(now), now.saturating_since(self.next), Duration::ZERO);
    }

    /// Notes that a segment with `length` bytes of data leaves (Linux: `tcp_update_skb_after_send`).
    pub fn on_sent(&mut self, length: u32) {
        self.sent += 1;
        if self.rate == 0 {
            return;
        }
        let (start, late, takes) = &mut self.packet;
        *takes += Duration::from_nanos(u64::from(length).saturating_mul(1_000_000_000) / self.rate);
        if self.sent >= FIRST_PACED {
            // A packet that could have left earlier makes up for at most half of its time.
            let credit = (*late).min(Duration::from_nanos(takes.as_nanos() / 2));
            self.next = *start + takes.saturating_sub(credit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets at these seconds, each with this many segments of 1000 bytes, which take 1 s each; gives
    /// when the next one may leave.
    fn next(packets: &[(u64, u32)]) -> Time {
        let mut pacing = Pacing { rate: 1_000, ..Pacing::default() };
        for &(second, segments) in packets {
            pacing.begin_packet(Time::from_secs(second));
            for _ in 0..segments {
                pacing.on_sent(1_000);
            }
        }
        pacing.next
    }

    #[test]
    fn the_first_ten_segments_leave_at_once() {
        assert_eq!(next(&[(1, 9)]), Time::ZERO);
        // Linux looks at the count after adding the packet, so the packet with the tenth segment is the first
        // that takes time.
        assert_eq!(next(&[(1, 2); 5]), Time::from_secs(1) + Duration::from_secs(1), "late by 1 s");
    }

    #[test]
    fn a_burst_that_is_allowed_leaves_at_once() {
        let mut pacing = Pacing { rate: 1_000, ..Pacing::default() };
        for _ in 0..3 {
            pacing.allow_burst();
            for _ in 0..9 {
                pacing.begin_packet(Time::from_secs(1));
                pacing.on_sent(1_000);
                assert!(!pacing.holds(Time::from_secs(1)));
            }
        }
        for _ in 0..2 {
            pacing.begin_packet(Time::from_secs(1));
            pacing.on_sent(1_000);
        }
        assert!(pacing.holds(Time::from_secs(1)));
    }

    #[test]
    fn a_late_packet_makes_up_for_half_of_its_time() {
        assert_eq!(next(&[(1, 10), (20, 2)]), Time::from_secs(21));
        assert_eq!(next(&[(1, 10), (10, 2)]), Time::from_secs(12), "it is in time");
        assert_eq!(next(&[(1, 10), (11, 4)]), Time::from_secs(14), "1 s late");
    }
}
