//! Round-trip times of one path and the timeout that follows from them, by the rule of each transport:
//! RFC 6298 and Linux's `tcp_rtt_estimator` for TCP, RFC 9260 section 6.3.1 and the Peak-Hopper for SCTP, RFC
//! 9002 sections 5 and 6.2.1 for QUIC. Limits and back-off are the same for all.

use super::linux_rtt::LinuxRtt;
use super::peak_hopper::PeakHopper;
use crate::time::{Duration, Time};
use crate::timer::Clock;

/// How long the smallest round-trip time is remembered (Linux: `net.ipv4.tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// With [`Rule::MeanDeviation`], a sample has a weight of one divided by this (model: `MpTcpSubFlow`).
const MEAN_DEVIATION_SHARE: u64 = 10;

/// [`Rtt::backed_off`] doubles a time up to this often, so that times stay numbers.
pub const MOST_DOUBLINGS: u32 = 20;

/// How the timeout follows from round-trip times, with what the rule remembers of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Linux's `tcp_rtt_estimator`: the variation decays slowly and is never below the minimum.
    Linux(LinuxRtt),
    /// As in profile `kheirkhah_v1` of TCP: both gains 0.1, and the first sample is also the first deviation
    /// (ns-3: `RttMeanDeviation`, which counts the timeout in whole milliseconds, unlike this).
    MeanDeviation,
    /// The Peak-Hopper's timeout beside SRTT and RTTVAR of RFC 9260.
    PeakHopper(Weights, PeakHopper),
    /// RFC 6298 section 2, in nanoseconds.
    Rfc6298,
    /// RFC 9002 sections 5.3 and 6.2.1, without the peer's delay: the owner adds it. A back-off ends when the
    /// owner [says so](Rtt::end_back_off).
    Rfc9002,
    /// RFC 9260 section 6.3.1, in ticks of the clock.
    Rfc9260(Weights),
}

/// RTO.Alpha and RTO.Beta, in parts of 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weight of a sample in SRTT.
    pub alpha: u32,
    /// The weight of a sample's deviation in RTTVAR.
    pub beta: u32,
}

/// The limits of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The timeout before the first sample.
    pub initial: Duration,
    /// The least timeout after a sample.
    pub min: Duration,
    /// The largest timeout.
    pub max: Duration,
    /// A back-off ends at this multiple of the timeout; 1: there is none.
    pub most_backed_off: u64,
    /// The clock that measures (RFC 6298 section 2: its granularity is G).
    pub clock: Clock,
    /// How long the smallest round-trip time is remembered.
    pub min_rtt_window: Duration,
}

impl Default for Limits {
    /// RFC 6298 sections 2.1, 2.4 and 2.5, with an exact clock.
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            most_backed_off: u64::MAX,
            clock: Clock::new(Duration::ZERO),
            min_rtt_window: MIN_RTT_WINDOW,
        }
    }
}

/// A measured round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was measured.
    pub now: Time,
    /// The round-trip time.
    pub rtt: Duration,
    /// The position up to which data is acknowledged, in any unit (Linux, RFC 4015).
    pub acknowledged: u64,
    /// The position up to which data has been sent, in the same unit.
    pub sent: u64,
    /// How long the peer says that it held the acknowledgement back (RFC 9002).
    pub ack_delay: Duration,
}

impl Sample {
    /// A sample whose positions are times of departure: everything that leaves until now has been sent.
    pub const fn new(now: Time, rtt: Duration) -> Self {
        let sent = now.as_nanos();
        let acknowledged = sent.saturating_sub(rtt.as_nanos()) + 1;
        Self { now, rtt, acknowledged, sent, ack_delay: Duration::ZERO }
    }
}

/// Smoothed round-trip time, its variation, the timeout, and the smallest round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    rule: Rule,
    limits: Limits,
    srtt: Option<Duration>,
    rttvar: Duration,
    latest: Duration,
    first_sample: Option<Time>,
    smallest: Option<(Duration, Time)>,
    /// The timeout without back-off.
    base: Duration,
    rto: Duration,
    back_offs: u32,
    /// After a spurious timeout: what SRTT and RTTVAR become at least, with the first sample of data beyond
    /// this number.
    widening: Option<(Duration, Duration, u64)>,
}

impl Rtt {
    /// An estimator without measurements.
    pub fn new(rule: Rule, limits: Limits) -> Self {
        let base = limits.initial.min(limits.max);
        Self {
            rule,
            limits,
            srtt: None,
            rttvar: Duration::ZERO,
            latest: Duration::ZERO,
            first_sample: None,
            smallest: None,
            base,
            rto: base,
            back_offs: 0,
            widening: None,
        }
    }

    /// The smoothed round-trip time; [`None`] before the first sample.
    pub const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The variation of the round-trip time (RFC 6298 section 2), zero before the first sample.
    pub const fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The newest sample; zero before the first one.
    pub const fn latest(&self) -> Duration {
        self.latest
    }

    /// When the first sample was taken.
    pub const fn first_sample(&self) -> Option<Time> {
        self.first_sample
    }

    /// The smallest round-trip time of the last minutes.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.smallest.map(|(rtt, _)| rtt)
    }

    /// The timeout, with its back-off.
    pub const fn rto(&self) -> Duration {
        self.rto
    }

    /// The timeout without its back-off.
    pub const fn base_rto(&self) -> Duration {
        self.base
    }

    /// How many timeouts in a row have backed it off.
    pub const fn back_offs(&self) -> u32 {
        self.back_offs
    }

    /// A time that is backed off as the timeout is.
    pub fn backed_off(&self, time: Duration) -> Duration {
        time * (1 << self.back_offs.min(MOST_DOUBLINGS))
    }

    /// Takes a sample for the smallest round-trip time.
    pub fn record_min(&mut self, now: Time, rtt: Duration) {
        let window = self.limits.min_rtt_window;
        let replaces = self.smallest.is_none_or(|(min, at)| rtt <= min || now.saturating_since(at) > window);
        if replaces {
            self.smallest = Some((rtt, now));
        }
    }

    /// The smallest round-trip time is measured from the beginning.
    pub const fn restart_min(&mut self) {
        self.smallest = None;
    }

    /// A timeout was spurious, before which SRTT and RTTVAR were these: the first sample of data from `next`
    /// on counts as the first one of all, if that makes either larger (RFC 4015 section 3.1 step 11).
    pub fn widen_after(&mut self, srtt: Duration, rttvar: Duration, next: u64) {
        self.widening = Some((srtt, rttvar, next));
    }

    /// Takes a sample, which ends a back-off except by [`Rule::Rfc9002`].
    #[inline]
    pub fn on_sample(&mut self, sample: &Sample) {
        let Limits { min, max, .. } = self.limits;
        self.latest = sample.rtt;
        self.first_sample = self.first_sample.or(Some(sample.now));
        // What most acknowledgements of TCP do stands here, so that it is inlined there.
        if let Rule::Linux(linux) = &mut self.rule {
            linux.on_sample(min, sample.rtt, sample.acknowledged, sample.sent);
            (self.srtt, self.rttvar) = (linux.srtt(), linux.deviation());
            self.base = linux.rto().max(min).min(max);
            return self.end_back_off();
        }
        self.base = self.smooth(sample).max(min).min(max);
        if matches!(self.rule, Rule::Rfc9002) {
            self.rto = self.backed_off(self.base).min(max);
        } else {
            self.end_back_off();
        }
    }

    /// Takes a sample by any rule but Linux's, and returns the timeout without its limits.
    fn smooth(&mut self, sample: &Sample) -> Duration {
        match &mut self.rule {
            Rule::Linux(linux) => linux.rto(),
            Rule::MeanDeviation => self.smooth_by_mean_deviation(sample.rtt),
            Rule::PeakHopper(weights, hopper) => {
                let timeout = hopper.on_sample(sample.rtt, self.limits.clock.granularity);
                let weights = *weights;
                self.smooth_by_rfc_9260(weights, sample);
                timeout
            }
            Rule::Rfc6298 => self.smooth_by_rfc_6298(sample),
            Rule::Rfc9002 => self.smooth_by_rfc_9002(sample),
            Rule::Rfc9260(weights) => {
                let weights = *weights;
                self.smooth_by_rfc_9260(weights, sample)
            }
        }
    }

    /// RFC 6298 sections 2.2 and 2.3, RTTVAR before SRTT.
    fn smooth_by_rfc_6298(&mut self, sample: &Sample) -> Duration {
        let rtt = sample.rtt;
        let half = Duration::from_nanos(rtt.as_nanos() / 2);
        let widening = self.widening.take_if(|(.., next)| sample.acknowledged > *next);
        let srtt = match (self.srtt, widening) {
            (_, Some((srtt, rttvar, _))) => {
                self.rttvar = rttvar.max(half);
                srtt.max(rtt)
            }
            (None, None) => {
                self.rttvar = half;
                rtt
            }
            (Some(srtt), None) => {
                let error = srtt.as_nanos().abs_diff(rtt.as_nanos());
                self.rttvar = Duration::from_nanos(self.rttvar.as_nanos() / 4 * 3 + error / 4);
                Duration::from_nanos(srtt.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)
            }
        };
        self.srtt = Some(srtt);
        srtt + (self.rttvar * 4).max(self.limits.clock.granularity)
    }

    /// ns-3: `RttMeanDeviation::Measurement` and `RetransmitTimeout`.
    fn smooth_by_mean_deviation(&mut self, rtt: Duration) -> Duration {
        let share = |from: Duration, to: Duration| {
            let step = from.as_nanos().abs_diff(to.as_nanos()) / MEAN_DEVIATION_SHARE;
            let nanos = if to > from { from.as_nanos() + step } else { from.as_nanos() - step };
            Duration::from_nanos(nanos)
        };
        let (srtt, rttvar) = match self.srtt {
            None => (rtt, rtt),
            Some(srtt) => {
                let error = Duration::from_nanos(srtt.as_nanos().abs_diff(rtt.as_nanos()));
                (share(srtt, rtt), share(self.rttvar, error))
            }
        };
        (self.srtt, self.rttvar) = (Some(srtt), rttvar);
        srtt + rttvar * 4
    }

    /// RFC 9002 sections 5.2, 5.3 and 6.2.1. The owner has [recorded](Self::record_min) the sample before.
    fn smooth_by_rfc_9002(&mut self, sample: &Sample) -> Duration {
        let rtt = sample.rtt;
        let srtt = match self.srtt {
            None => {
                self.rttvar = Duration::from_nanos(rtt.as_nanos() / 2);
                rtt
            }
            Some(srtt) => {
                let least = self.min_rtt().unwrap_or(rtt) + sample.ack_delay;
                let adjusted = if rtt >= least { rtt - sample.ack_delay } else { rtt };
                let (smoothed, adjusted) = (srtt.as_nanos(), adjusted.as_nanos());
                let error = smoothed.abs_diff(adjusted);
                self.rttvar = Duration::from_nanos((3 * self.rttvar.as_nanos() + error) / 4);
                Duration::from_nanos((7 * smoothed + adjusted) / 8)
            }
        };
        self.srtt = Some(srtt);
        srtt + (self.rttvar * 4).max(self.limits.clock.granularity)
    }

    /// RFC 9260 section 6.3.1: C2, C3 and G1. It is computed in whole nanoseconds, or with a granularity of
    /// the clock in whole ticks with the truncation of Linux (`srtt - srtt/8 + rtt/8`).
    fn smooth_by_rfc_9260(&mut self, weights: Weights, sample: &Sample) -> Duration {
        let clock = self.limits.clock;
        let tick = clock.granularity.as_nanos().max(1);
        let sent_at = Time::from_nanos(sample.now.as_nanos() - sample.rtt.as_nanos());
        let rtt = clock.ticks_between(sent_at, sample.now);
        let (srtt, rttvar) = match self.srtt {
            // C2: the first measurement.
            None => (rtt, rtt / 2),
            // C3, RTTVAR before SRTT.
            Some(srtt) => {
                let (srtt, rttvar) = (clock.ticks(srtt), clock.ticks(self.rttvar));
                (blend(srtt, rtt, weights.alpha), blend(rttvar, srtt.abs_diff(rtt), weights.beta))
            }
        };
        // G1: never zero where the clock has a granularity.
        let rttvar = if clock.granularity == Duration::ZERO { rttvar } else { rttvar.max(1) };
        self.srtt = Some(Duration::from_nanos(srtt * tick));
        self.rttvar = Duration::from_nanos(rttvar * tick);
        Duration::from_nanos((srtt + 4 * rttvar) * tick)
    }

    /// Doubles the timeout (RFC 6298 section 5.5, RFC 9260 section 6.3.3 E2, RFC 9002 section 6.2.1).
    pub fn back_off(&mut self) {
        self.back_offs += 1;
        let most = (self.base * self.limits.most_backed_off).min(self.limits.max);
        self.rto = self.rto.doubled().min(most);
    }

    /// Ends a back-off.
    pub const fn end_back_off(&mut self) {
        self.back_offs = 0;
        self.rto = self.base;
    }

    /// Sets the timeout; that of a doubled SYN is not kept for data (RFC 6298 section 5.7).
    pub const fn set_rto(&mut self, rto: Duration) {
        self.rto = rto;
    }

    /// Applies new limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        if self.srtt.is_none() {
            (self.base, self.rto) = (limits.initial, limits.initial);
        }
        self.base = self.base.max(limits.min).min(limits.max);
        self.rto = self.rto.max(limits.min).min(limits.max);
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

    const WEIGHTS: Weights = Weights { alpha: 8_192, beta: 16_384 };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Limits of an SCTP end with an exact clock.
    fn exact() -> Limits {
        Limits {
            initial: Duration::from_secs(3),
            min: ms(20),
            max: Duration::from_secs(1),
            ..Limits::default()
        }
    }

    fn sample(rtt: &mut Rtt, rtt_ms: u64) {
        rtt.on_sample(&Sample::new(Time::from_secs(1) + ms(rtt_ms), ms(rtt_ms)));
    }

    #[test]
    fn initial_then_first_then_smoothed() {
        let unlimited = Limits { max: Duration::from_secs(60), ..exact() };
        let mut rtt = Rtt::new(Rule::Rfc9260(WEIGHTS), unlimited);
        assert_eq!(rtt.rto(), Duration::from_secs(3));
        sample(&mut rtt, 80);
        // C2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(80)), ms(240)));
        sample(&mut rtt, 160);
        // C3: RTTVAR = 3/4 40 + 1/4 80 = 50, SRTT = 7/8 80 + 1/8 160 = 90.
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(90)), ms(290)));
    }

    #[test]
    fn limits_and_doubling() {
        let mut rtt = Rtt::new(Rule::Rfc9260(WEIGHTS), exact());
        assert_eq!(rtt.rto(), Duration::from_secs(1), "RTO.Max limits RTO.Initial too");
        sample(&mut rtt, 2);
        assert_eq!(rtt.rto(), ms(20), "RTO.Min");
        for expected in [40, 80, 160, 320, 640, 1000, 1000] {
            rtt.back_off();
            assert_eq!(rtt.rto(), ms(expected));
        }
        assert_eq!((rtt.back_offs(), rtt.base_rto()), (7, ms(20)));
        sample(&mut rtt, 2);
        assert_eq!((rtt.rto(), rtt.back_offs()), (ms(20), 0), "a measurement ends the back-off");
    }

    #[test]
    fn new_limits_hold_at_once() {
        let mut rtt = Rtt::new(Rule::Rfc9260(WEIGHTS), exact());
        rtt.set_limits(Limits { initial: ms(500), ..exact() });
        assert_eq!(rtt.rto(), ms(500), "the initial timeout, without a sample");
        sample(&mut rtt, 10);
        assert_eq!(rtt.rto(), ms(30));
        rtt.set_limits(Limits { min: ms(100), ..exact() });
        assert_eq!((rtt.rto(), rtt.base_rto()), (ms(100), ms(100)));
    }

    #[test]
    fn ticks_are_truncated_as_in_linux() {
        let mut rtt =
            Rtt::new(Rule::Rfc9260(WEIGHTS), Limits { clock: Clock::new(ms(1)), min: ms(1), ..exact() });
        sample(&mut rtt, 41);
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(41)), ms(41 + 4 * 20)));
        sample(&mut rtt, 60);
        // 41 - 5 + 7 = 43; 20 - 5 + 19/4 = 19.
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(43)), ms(43 + 4 * 19)));
    }

    /// RTO in ms after each of these round-trip times in ms.
    fn timeouts(rule: Rule, rtts_ms: &[u64]) -> Vec<u64> {
        let mut rtt = Rtt::new(rule, Limits { max: Duration::from_secs(60), ..exact() });
        let mut now = Time::from_secs(1);
        rtts_ms
            .iter()
            .map(|&each| {
                rtt.on_sample(&Sample::new(now + ms(each), ms(each)));
                now = now + ms(each) + ms(1);
                rtt.rto().as_nanos() / 1_000_000
            })
            .collect()
    }

    #[test]
    fn a_delay_spike_inflates_every_rule_differently() {
        let spike = [100, 100, 100, 100, 1_000, 100, 100, 100];
        // SRTT 100 + 900/8 and RTTVAR 3/4 21 + 1/4 900 after the spike; the way back counts too.
        assert_eq!(timeouts(Rule::Rfc9260(WEIGHTS), &spike), [300, 250, 212, 184, 1_175, 1_033, 910, 804]);
        // The deviation's maximum of a round trip falls by a quarter in the next ones.
        assert_eq!(
            timeouts(Rule::Linux(LinuxRtt::default()), &spike),
            [300, 300, 278, 254, 1_175, 1_129, 1_065, 992]
        );
        // 1.75 RTT, then max(23/24 RTO, (1 + 0.75 (23/24)^n) RTT); a rise by 900 of 1000 ms: B = 1.
        let hopper = Rule::PeakHopper(WEIGHTS, PeakHopper::default());
        assert_eq!(timeouts(hopper, &spike), [175, 171, 168, 166, 2_000, 1_958, 1_876, 1_798]);
    }

    #[test]
    fn a_rising_peak_hops_and_a_falling_one_fades() {
        // B = 2 (110 - 100) / 110 = 0.18 is below the faded 0.72.
        let hopper = Rule::PeakHopper(WEIGHTS, PeakHopper::default());
        assert_eq!(timeouts(hopper, &[100, 110, 50]), [175, 189, 185]);
    }

    #[test]
    fn without_back_off_the_timeout_stays() {
        let mut rtt = Rtt::new(Rule::Rfc9260(WEIGHTS), Limits { most_backed_off: 1, ..exact() });
        sample(&mut rtt, 10);
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(30));
    }

    /// RFC 9002 section 5.3, with numbers worked out by hand.
    #[test]
    fn the_peers_delay_is_taken_off_unless_less_than_the_least_is_left() {
        let mut rtt = Rtt::new(Rule::Rfc9002, Limits { min: Duration::ZERO, ..Limits::default() });
        let mut take = |at: u64, each: u64, delay: u64| {
            let now = Time::from_millis(at);
            rtt.record_min(now, ms(each));
            rtt.on_sample(&Sample { ack_delay: ms(delay), ..Sample::new(now, ms(each)) });
            (rtt.srtt().expect("there is a sample").as_nanos(), rtt.rttvar().as_nanos(), rtt.min_rtt())
        };
        assert_eq!(take(100, 100, 50), (100_000_000, 50_000_000, Some(ms(100))));
        // 120 - 20 = 100 is not below the least.
        assert_eq!(take(200, 120, 20), (100_000_000, 37_500_000, Some(ms(100))));
        // 110 - 20 would be below it: the delay does not count.
        let expected = (101_250_000, (3 * 37_500_000 + 10_000_000) / 4, Some(ms(100)));
        assert_eq!(take(300, 110, 20), expected);
        assert_eq!((rtt.first_sample(), rtt.latest()), (Some(Time::from_millis(100)), ms(110)));
    }

    /// RFC 9002 appendix A.7: an acknowledgement ends the back-off, not its sample.
    #[test]
    fn a_sample_of_quic_keeps_the_back_off() {
        let limits = Limits { min: Duration::ZERO, clock: Clock::new(ms(1)), ..Limits::default() };
        let mut rtt = Rtt::new(Rule::Rfc9002, limits);
        rtt.back_off();
        rtt.on_sample(&Sample::new(Time::from_millis(1), Duration::from_micros(10)));
        assert_eq!(rtt.base_rto(), Duration::from_micros(1_010), "the variation counts as 1 ms at least");
        assert_eq!((rtt.rto(), rtt.backed_off(ms(5))), (Duration::from_micros(2_020), ms(10)));
        rtt.end_back_off();
        assert_eq!((rtt.rto(), rtt.backed_off(ms(5))), (Duration::from_micros(1_010), ms(5)));
    }
}
