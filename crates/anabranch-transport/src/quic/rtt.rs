//! Round-trip times (RFC 9002 section 5) and the probe timeout that follows from them (section 6.2.1).

use crate::time::{Duration, Time};

/// The granularity of timers (RFC 9002 section 6.1.2: kGranularity).
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// What is known about the round trip of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) latest: Duration,
    pub(super) smoothed: Duration,
    pub(super) variation: Duration,
    min: Duration,
    /// When the first sample was taken.
    pub(super) first_sample: Option<Time>,
}

impl Rtt {
    /// Before the first sample (RFC 9002 section 6.2.2).
    pub(super) fn new(initial: Duration) -> Self {
        Self {
            latest: Duration::ZERO,
            smoothed: initial,
            variation: Duration::from_nanos(initial.as_nanos() / 2),
            min: Duration::ZERO,
            first_sample: None,
        }
    }

    /// The smoothed round-trip time, once there is a sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.first_sample.map(|_| self.smoothed)
    }

    /// The smallest round-trip time, once there is a sample.
    pub(super) fn min(&self) -> Option<Duration> {
        self.first_sample.map(|_| self.min)
    }

    /// Takes a sample, which the peer says was delayed by `ack_delay` (sections 5.2 and 5.3).
    pub(super) fn on_sample(&mut self, now: Time, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        if self.first_sample.is_none() {
            self.first_sample = Some(now);
            self.min = latest;
            self.smoothed = latest;
            self.variation = Duration::from_nanos(latest.as_nanos() / 2);
            return;
        }
        self.min = self.min.min(latest);
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        let (smoothed, adjusted) = (self.smoothed.as_nanos(), adjusted.as_nanos());
        let error = smoothed.abs_diff(adjusted);
        self.variation = Duration::from_nanos((3 * self.variation.as_nanos() + error) / 4);
        self.smoothed = Duration::from_nanos((7 * smoothed + adjusted) / 8);
    }

    /// The probe timeout without the peer's delay (section 6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        self.smoothed + (self.variation * 4).max(GRANULARITY)
    }

    /// How much later than a packet that is acknowledged a lost one was sent (section 6.1.2).
    pub(super) fn loss_delay(&self, threshold: f64) -> Duration {
        self.latest.max(self.smoothed).scaled(threshold).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// RFC 9002 sections 5.3 and 6.2.2, with numbers worked out by hand.
    #[test]
    fn samples_are_smoothed_as_the_rfc_says() {
        let mut rtt = Rtt::new(ms(333));
        assert_eq!(rtt.probe_timeout(), ms(333 + 2 * 333));
        rtt.on_sample(Time::from_millis(100), ms(100), ms(50));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.min()), (ms(100), ms(50), Some(ms(100))));
        // 120 - 20 = 100 is not below the least.
        rtt.on_sample(Time::from_millis(200), ms(120), ms(20));
        assert_eq!((rtt.smoothed, rtt.variation), (ms(100), Duration::from_nanos(37_500_000)));
        // 110 - 20 would be below it: the delay does not count.
        rtt.on_sample(Time::from_millis(300), ms(110), ms(20));
        assert_eq!(rtt.smoothed, Duration::from_nanos(101_250_000));
        assert_eq!(rtt.variation, Duration::from_nanos((3 * 37_500_000 + 10_000_000) / 4));
        assert_eq!(rtt.min(), Some(ms(100)));
    }

    #[test]
    fn delays_have_a_least() {
        let mut rtt = Rtt::new(ms(333));
        rtt.on_sample(Time::from_millis(1), Duration::from_micros(10), Duration::ZERO);
        assert_eq!(rtt.loss_delay(1.125), GRANULARITY);
        assert_eq!(rtt.probe_timeout(), Duration::from_micros(1_010));
    }
}
