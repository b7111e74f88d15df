//! The retransmission timeout of one path (RFC 9260 section 6.3.1).
//!
//! It is computed in whole nanoseconds, with RTO.Alpha and RTO.Beta as fractions of 65536; or, with a clock
//! granularity, in whole ticks with the truncation of Linux (`srtt - srtt/8 + rtt/8`). Other published
//! rules are in [`RtoRule`].

use super::config::{RtoBackoff, RtoRule};
use crate::recovery::linux_rtt::LinuxRtt;
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
    pub(super) rule: RtoRule,
    pub(super) backoff: RtoBackoff,
}

/// The state of a rule besides SRTT and RTTVAR.
#[derive(Clone, Copy, Debug)]
enum Memory {
    LinuxTcp(LinuxRtt),
    PeakHopper(PeakHopper),
    Rfc,
}

/// The Peak-Hopper's variables.
#[derive(Clone, Copy, Debug, Default)]
struct PeakHopper {
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

/// Smoothed round-trip time, its variation and the timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct RtoEstimator {
    pub(super) srtt: Option<Duration>,
    pub(super) rttvar: Duration,
    pub(super) rto: Duration,
    memory: Memory,
}

impl RtoEstimator {
    pub(super) fn new(parameters: &RtoParameters) -> Self {
        // RFC 9260 section 6.3.1 C1: RTO.Initial until there is a measurement.
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            rto: parameters.initial.min(parameters.max),
            memory: match parameters.rule {
                RtoRule::LinuxTcp => Memory::LinuxTcp(LinuxRtt::default()),
                RtoRule::PeakHopper => Memory::PeakHopper(PeakHopper::default()),
                RtoRule::Rfc => Memory::Rfc,
            },
        }
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
        let rto = match &mut self.memory {
            Memory::Rfc => Duration::from_nanos((srtt + 4 * rttvar) * tick),
            // Positions of the timer's clock are departure times: everything that leaves until now has been
            // sent.
            Memory::LinuxTcp(linux) => {
                linux.on_sample(parameters.min, now - sent_at, sent_at.as_nanos() + 1, now.as_nanos());
                self.srtt = linux.srtt();
                linux.rto()
            }
            Memory::PeakHopper(hopper) => hopper.on_sample(now - sent_at, clock.granularity),
        };
        // C6 and C7.
        self.rto = rto.max(parameters.min).min(parameters.max);
    }

    /// Applies new values of RTO.Initial, RTO.Min and RTO.Max.
    pub(super) fn set_limits(&mut self, parameters: &RtoParameters) {
        if self.srtt.is_none() {
            self.rto = parameters.initial;
        }
        self.rto = self.rto.max(parameters.min).min(parameters.max);
    }

    /// Doubles the timeout (section 6.3.3 E2).
    pub(super) fn back_off(&mut self, parameters: &RtoParameters) {
        if parameters.backoff == RtoBackoff::Exponential {
            self.rto = self.rto.doubled().min(parameters.max);
        }
    }
}

impl PeakHopper {
    /// Ekstroem and Ludwig, "The Peak-Hopper", INFOCOM 2004, as in Eclipse Californium's `PeakhopperRto`,
    /// except that a falling round-trip time is not taken for a peak here.
    fn on_sample(&mut self, rtt: Duration, tick: Duration) -> Duration {
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
        rule: RtoRule::Rfc,
        backoff: RtoBackoff::Exponential,
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
    /// RTO in ms after each of these round-trip times in ms.
    fn timeouts(rule: RtoRule, rtts_ms: &[u64]) -> Vec<u64> {
        let parameters = RtoParameters { rule, max: Duration::from_secs(60), ..EXACT };
        let mut estimator = RtoEstimator::new(&parameters);
        let mut now = Time::from_secs(1);
        rtts_ms
            .iter()
            .map(|&rtt| {
                estimator.on_sample(&parameters, now, now + ms(rtt));
                now = now + ms(rtt) + ms(1);
                estimator.rto.as_nanos() / 1_000_000
            })
            .collect()
    }

    #[test]
    fn a_delay_spike_inflates_every_rule_differently() {
        let spike = [100, 100, 100, 100, 1_000, 100, 100, 100];
        // SRTT 100 + 900/8 and RTTVAR 3/4 21 + 1/4 900 after the spike; the way back counts too.
        assert_eq!(timeouts(RtoRule::Rfc, &spike), [300, 250, 212, 184, 1_175, 1_033, 910, 804]);
        // The deviation's maximum of a round trip falls by a quarter in the next ones.
        assert_eq!(timeouts(RtoRule::LinuxTcp, &spike), [300, 300, 278, 254, 1_175, 1_129, 1_065, 992]);
        // 1.75 RTT, then max(23/24 RTO, (1 + 0.75 (23/24)^n) RTT); a rise by 900 of 1000 ms: B = 1.
        assert_eq!(timeouts(RtoRule::PeakHopper, &spike), [175, 171, 168, 166, 2_000, 1_958, 1_876, 1_798]);
    }

    #[test]
    fn a_rising_peak_hops_and_a_falling_one_fades() {
        // B = 2 (110 - 100) / 110 = 0.18 is below the faded 0.72.
        assert_eq!(timeouts(RtoRule::PeakHopper, &[100, 110, 50]), [175, 189, 185]);
    }

    #[test]
    fn without_back_off_the_timeout_stays() {
        let constant = RtoParameters { backoff: RtoBackoff::None, ..EXACT };
        let mut estimator = RtoEstimator::new(&constant);
        sample(&mut estimator, &constant, 10);
        estimator.back_off(&constant);
        assert_eq!(estimator.rto, ms(30));
    }
}
