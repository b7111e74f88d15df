//! The Peak-Hopper's retransmission timeout (Ekstroem and Ludwig, "The Peak-Hopper", INFOCOM 2004), as in
//! Eclipse Californium's `PeakhopperRto`, except that a falling round-trip time is not taken for a peak here.

use crate::time::Duration;

/// The Peak-Hopper's variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakHopper {
    /// The sample before.
    previous: Duration,
    /// How far RTO lies above the round-trip time: B, in parts of 65536.
    boost: u64,
    /// RTO without its limits and without back-off.
    rto: Duration,
}

/// B after the first sample and at most, in parts of 65536.
const FIRST_BOOST: u64 = 3 << 14;
const MAX_BOOST: u64 = 1 << 16;
/// F: with one sample per round trip RTO and B fade by 1/24 with each.
const FADING: u64 = 24;

impl PeakHopper {
    /// Takes a sample and returns the timeout; `tick` is the granularity of the clock.
    pub fn on_sample(&mut self, rtt: Duration, tick: Duration) -> Duration {
        let rtt_ns = rtt.as_nanos().max(1);
        let fade = |value: u64| value - value / FADING;
        if self.rto == Duration::ZERO {
            self.boost = FIRST_BOOST;
            self.rto = raised(rtt, self.boost);
        } else {
            // delta = (RTT - RTT_previous) / RTT, and B = min(max(2 delta, D B), B_max).
            let rise = rtt.as_nanos().saturating_sub(self.previous.as_nanos());
            let peak = ((u128::from(rise) << 17) / u128::from(rtt_ns)) as u64;
            self.boost = peak.max(fade(self.boost)).min(MAX_BOOST);
            // RTO = max(D RTO, (1 + B) RTT_max), at least two ticks above RTT_max.
            let highest = rtt.max(self.previous);
            let faded = Duration::from_nanos(fade(self.rto.as_nanos()));
            self.rto = faded.max(raised(highest, self.boost)).max(highest + tick + tick);
        }
        self.previous = rtt;
        self.rto
    }
}

/// (1 + `boost` / 65536) `rtt`.
fn raised(rtt: Duration, boost: u64) -> Duration {
    rtt + Duration::from_nanos(((u128::from(rtt.as_nanos()) * u128::from(boost)) >> 16) as u64)
}
