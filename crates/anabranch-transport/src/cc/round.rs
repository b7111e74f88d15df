//! Rounds: a round ends when everything that was outstanding at its beginning is acknowledged.

use super::AckEvent;
use crate::time::Duration;

/// Tells when a round is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end: u64,
}

impl Round {
    /// Whether this acknowledgement is the first one of a new round: it passes what had been sent when
    /// the last one began (Linux: `after(snd_una, end_seq)`).
    pub(super) fn passed(&mut self, event: &AckEvent) -> bool {
        let over = event.acknowledged_to > self.end;
        if over {
            self.end = event.sent_to;
        }
        over
    }

    /// Begins a round that ends when all that has been sent is acknowledged.
    pub(super) fn restart(&mut self, event: &AckEvent) {
        self.end = event.sent_to;
    }

    /// Whether this acknowledgement reaches the end of the round (RFC 8257 section 3.3, RFC 9406 section
    /// 4.2).
    pub(super) fn reached(&mut self, event: &AckEvent) -> bool {
        let over = event.acknowledged_to >= self.end;
        if over {
            self.end = event.sent_to;
        }
        over
    }
}

/// Round-trip times as Vegas and its relatives take them (Linux's `tcp_vegas.c`): the smallest of the
/// connection and of the round, in us plus 1, so that none is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// The smallest so far.
    pub(super) base: u32,
    /// The smallest of this round.
    pub(super) min: u32,
    /// Samples in this round.
    pub(super) count: u32,
    round: Round,
    /// Whether delays are meaningful, as nothing is missing.
    pub(super) enabled: bool,
}

/// Linux's value for "no round-trip time", larger than any.
const NONE: u32 = 0x7fff_ffff;

impl Default for RoundTrips {
    fn default() -> Self {
        Self { base: NONE, min: NONE, count: 0, round: Round::default(), enabled: true }
    }
}

impl RoundTrips {
    /// Takes a sample in any state, and only then the state, so that the sample of the acknowledgement that
    /// ends a recovery does not belong to the round that it begins (Linux: `tcp_vegas_pkts_acked`, then
    /// `tcp_vegas_state`).
    pub(super) fn on_ack(&mut self, event: &AckEvent, is_open: bool) {
        if let Some(rtt) = event.rtt {
            let rtt = micros(rtt).saturating_add(1).min(NONE);
            self.base = self.base.min(rtt);
            self.min = self.min.min(rtt);
            self.count = self.count.saturating_add(1);
        }
        if is_open && !self.enabled {
            self.next_round();
            self.round.restart(event);
        }
        self.enabled = is_open;
    }

    /// Whether a round is over.
    pub(super) fn passed(&mut self, event: &AckEvent) -> bool {
        self.round.passed(event)
    }

    /// Forgets the round's samples.
    pub(super) fn next_round(&mut self) {
        self.count = 0;
        self.min = NONE;
    }

    /// Forgets everything, because the path may have changed while the connection was idle.
    pub(super) fn restart(&mut self) {
        self.base = NONE;
        self.next_round();
    }

    /// Whether there are enough samples to include one without a delayed acknowledgement.
    pub(super) fn suffice(&self) -> bool {
        self.count > 2
    }
}

/// A length of time in whole microseconds, as Linux measures round-trip times.
pub(super) const fn micros(time: Duration) -> u32 {
    let micros = time.as_nanos() / 1_000;
    if micros > u32::MAX as u64 { u32::MAX } else { micros as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    /// Linux: `tcp_vegas_pkts_acked` comes before `tcp_vegas_state`, which resets everything.
    #[test]
    fn the_sample_that_ends_a_recovery_is_not_of_the_next_round() {
        let event = |ms| AckEvent {
            rtt: Some(Duration::from_millis(ms)),
            ..AckEvent::new(Time::from_secs(1), 1_000, 1_000)
        };
        let mut times = RoundTrips::default();
        times.on_ack(&event(50), false);
        times.on_ack(&event(40), true);
        assert_eq!((times.base, times.min, times.count), (40_001, NONE, 0));
        times.on_ack(&event(60), true);
        assert_eq!((times.base, times.min, times.count), (40_001, 60_001, 1));
    }
}
