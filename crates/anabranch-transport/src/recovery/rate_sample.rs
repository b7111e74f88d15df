//! How fast data is delivered: a sample for each acknowledgement (draft-ietf-ccwg-bbr section 4.1, formerly
//! draft-cheng-iccrg-delivery-rate-estimation; Linux's `tcp_rate.c`).

use crate::cc::RateSample;
use crate::time::{Duration, Time};
use crate::units::Rate;

/// What is recorded with a segment when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMark {
    delivered: u64,
    /// `None` once its delivery has been counted.
    delivered_at: Option<Time>,
    first_sent_at: Time,
    lost: u64,
    /// Bytes on their way, this segment included.
    in_flight: u32,
    is_app_limited: bool,
}

/// The connection's counters.
#[derive(Debug, Default)]
pub struct RateSampler {
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Segments delivered so far.
    pub delivered_segments: u64,
    /// Bytes found to be lost so far.
    pub lost: u64,
    /// The last sample: bytes and the time in which they were delivered.
    latest: Option<(u32, Duration)>,
    delivered_at: Time,
    first_sent_at: Time,
    /// The bubble that the application left is gone when this many bytes have been delivered; 0 if there is
    /// no bubble.
    app_limited_until: u64,
}

/// The sample of the acknowledgement that is being processed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenSample {
    /// The mark of the segment that was sent last among those that the acknowledgement acknowledges.
    mark: Option<RateMark>,
    since: Time,
    sent_at: Time,
    end: u64,
    send_interval: Duration,
}

impl RateMark {
    /// Bytes on their way when the segment was sent, itself included.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether its delivery has been counted.
    pub const fn is_delivered(&self) -> bool {
        self.delivered_at.is_none()
    }

    /// Whether the application left the pipe idle before it was sent.
    pub const fn is_app_limited(&self) -> bool {
        self.is_app_limited
    }
}

impl OpenSample {
    /// Bytes delivered when the segment was sent; [`None`] if no segment was acknowledged.
    pub fn prior_delivered(&self) -> Option<u64> {
        self.mark.map(|mark| mark.delivered)
    }
}

impl RateSampler {
    /// The mark of a segment that is sent now. With `is_idle`, nothing was on its way (Linux:
    /// `tcp_rate_skb_sent`).
    pub fn mark(&mut self, now: Time, is_idle: bool, in_flight: u32) -> RateMark {
        if is_idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        RateMark {
            delivered: self.delivered,
            delivered_at: Some(self.delivered_at),
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            in_flight,
            is_app_limited: self.app_limited_until > 0,
        }
    }

    /// Counts a segment that has been delivered and was last sent at `sent_at` (Linux:
    /// `tcp_rate_skb_delivered`).
    #[inline]
    pub fn on_delivered(&mut self, sample: &mut OpenSample, mark: &mut RateMark, sent_at: Time, end: u64) {
        let Some(since) = mark.delivered_at.take() else { return };
        if sample.mark.is_none() || (sent_at, end) > (sample.sent_at, sample.end) {
            *sample = OpenSample {
                mark: Some(*mark),
                since,
                sent_at,
                end,
                send_interval: sent_at.saturating_since(mark.first_sent_at),
            };
            self.first_sent_at = sent_at;
        }
    }

    /// Counts a segment that is taken for lost. Returns the bytes that have been found to be lost since it
    /// was sent.
    pub fn on_lost(&mut self, mark: &RateMark, bytes: u32) -> u32 {
        self.lost += u64::from(bytes);
        (self.lost - mark.lost) as u32
    }

    /// Notes that the application has left a bubble while `in_flight` bytes are on their way (Linux:
    /// `tcp_rate_check_app_limited`).
    pub fn limit_by_app(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Closes a sample (Linux: `tcp_rate_gen`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub fn close(
        &mut self,
        now: Time,
        sample: &OpenSample,
        has_delivered: bool,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if has_delivered {
            self.delivered_at = now;
        }
        let mark = sample.mark?;
        let interval = sample.send_interval.max(now.saturating_since(sample.since));
        // The interval is shorter than the smallest round-trip time: acknowledgements came in a bunch.
        if interval < min_rtt.unwrap_or(Duration::ZERO) || interval.is_zero() {
            return None;
        }
        let delivered = (self.delivered - mark.delivered) as u32;
        let mut result = RateSample::new(delivered, interval, self.delivered);
        result.outstanding_at_send = mark.in_flight;
        result.lost = (self.lost - mark.lost) as u32;
        result.is_app_limited = mark.is_app_limited;
        self.latest = Some((delivered, interval));
        Some(result)
    }

    /// The last sample as a rate.
    pub fn latest(&self) -> Option<Rate> {
        self.latest.map(|(delivered, interval)| {
            let bits = u128::from(delivered) * 8 * 1_000_000_000 / u128::from(interval.as_nanos());
            Rate::from_bits_per_sec((bits as u64).max(1))
        })
    }
}
