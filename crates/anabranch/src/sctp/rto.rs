//! The retransmission timeout of one path (RFC 9260 section 6.3.1).
//!
//! In whole nanoseconds, with RTO.Alpha and RTO.Beta as fractions of 65536; or, with a clock
//! granularity, in whole ticks with the truncation of Linux (`srtt - srtt/8 + rtt/8`).

use crate::time::{Duration, Time};
use crate::timer::Clock;

/// The parameters of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RtoParameters {
    pub(super) initial: Duration,
    pub(super) min: Duration,
    pub(super) max: Duration,
    pub(super) alpha_per_65536: u32,
    pub(super) beta_per_65536: u32,
    pub(super) clock: Clock,
}

/// Smoothed round-trip time, its variation and the timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct RtoEstimator {
    pub(super) srtt: Option<Duration>,
    rttvar: Duration,
    pub(super) rto: Duration,
}

impl RtoEstimator {
    pub(super) fn new(parameters: &RtoParameters) -> Self {
        // RFC 9260 section 6.3.1 C1: RTO.Initial until there is a measurement.
        Self { srtt: None, rttvar: Duration::ZERO, rto: parameters.initial.min(parameters.max) }
    }

    /// Takes the round-trip time of something sent at `sent_at` and answered at `now`.
    pub(super) fn on_sample(&mut self, parameters: &RtoParameters, sent_at: Time, now: Time) {
        let clock = parameters.clock;
        let tick = clock.granularity.as_nanos().max(1);
        let rtt = clock.ticks_between(sent_at, now);
        let (srtt, rttvar) = match self.srtt {
            // C2: the first measurement.
            None => (rtt, rtt / 2),
            // C3, RTTVAR before SRTT.
            Some(srtt) => {
                let srtt = clock.ticks(srtt);
                let rttvar = clock.ticks(self.rttvar);
                (
                    blend(srtt, rtt, parameters.alpha_per_65536),
                    blend(rttvar, srtt.abs_diff(rtt), parameters.beta_per_65536),
                )
            }
        };
        // G1: never zero where the clock has a granularity.
        let rttvar = if clock.granularity == Duration::ZERO { rttvar } else { rttvar.max(1) };
        self.srtt = Some(Duration::from_nanos(srtt * tick));
        self.rttvar = Duration::from_nanos(rttvar * tick);
        // C6 and C7.
        let rto = Duration::from_nanos((srtt + 4 * rttvar) * tick);
        self.rto = rto.max(parameters.min).min(parameters.max);
    }

    /// Doubles the timeout (section 6.3.3 E2).
    pub(super) fn back_off(&mut self, parameters: &RtoParameters) {
        self.rto = self.rto.doubled().min(parameters.max);
    }
}

/// (1 - weight) old + weight new, each product truncated as Linux does.
fn blend(old: u64, new: u64, weight: u32) -> u64 {
    let part = |value: u64| ((u128::from(value) * u128::from(weight)) >> 16) as u64;
    old - part(old) + part(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: RtoParameters = RtoParameters {
        initial: Duration::from_secs(3),
        min: Duration::from_millis(20),
        max: Duration::from_secs(1),
        alpha_per_65536: 8_192,
        beta_per_65536: 16_384,
        clock: Clock { granularity: Duration::ZERO, uptime: Duration::ZERO },
    };

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn sample(estimator: &mut RtoEstimator, parameters: &RtoParameters, rtt_ms: u64) {
        estimator.on_sample(parameters, Time::from_secs(1), Time::from_secs(1) + ms(rtt_ms));
    }

    #[test]
    fn initial_then_first_then_smoothed() {
        let unlimited = RtoParameters { max: Duration::from_secs(60), ..EXACT };
        let mut estimator = RtoEstimator::new(&unlimited);
        assert_eq!(estimator.rto, Duration::from_secs(3));
        sample(&mut estimator, &unlimited, 80);
        // C2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
        assert_eq!((estimator.srtt, estimator.rto), (Some(ms(80)), ms(240)));
        sample(&mut estimator, &unlimited, 160);
        // C3: RTTVAR = 3/4 40 + 1/4 80 = 50, SRTT = 7/8 80 + 1/8 160 = 90.
        assert_eq!((estimator.srtt, estimator.rto), (Some(ms(90)), ms(290)));
    }

    #[test]
    fn limits_and_doubling() {
        let mut estimator = RtoEstimator::new(&EXACT);
        assert_eq!(estimator.rto, Duration::from_secs(1), "RTO.Max limits RTO.Initial too");
        sample(&mut estimator, &EXACT, 2);
        assert_eq!(estimator.rto, ms(20), "RTO.Min");
        for expected in [40, 80, 160, 320, 640, 1000, 1000] {
            estimator.back_off(&EXACT);
            assert_eq!(estimator.rto, ms(expected));
        }
        sample(&mut estimator, &EXACT, 2);
        assert!(estimator.rto < ms(40), "a measurement ends the back-off");
    }

    #[test]
    fn ticks_are_truncated_as_in_linux() {
        let linux = RtoParameters { clock: Clock::new(ms(1)), min: ms(1), ..EXACT };
        let mut estimator = RtoEstimator::new(&linux);
        sample(&mut estimator, &linux, 41);
        assert_eq!((estimator.srtt, estimator.rto), (Some(ms(41)), ms(41 + 4 * 20)));
        sample(&mut estimator, &linux, 60);
        // 41 - 5 + 7 = 43; 20 - 5 + 19/4 = 19.
        assert_eq!((estimator.srtt, estimator.rto), (Some(ms(43)), ms(43 + 4 * 19)));
    }
}
