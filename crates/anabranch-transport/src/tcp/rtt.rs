//! Round-trip times and the retransmission timeout (RFC 6298; Linux's `tcp_rtt_estimator`; ns-3's
//! `RttMeanDeviation`, which counts the timeout in whole milliseconds, as this does not).

use super::config::RtoEstimator;
use super::parameters::Parameters;
use crate::linux_rtt::LinuxRtt;
use crate::time::{Duration, Time};

/// How long the smallest round-trip time is remembered (Linux: `net.ipv4.tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// One in so many is the weight of a sample with `mean_deviation` (model: `MpTcpSubFlow`), and a back-off ends at
/// so many times the timeout (ns-3: `RttEstimator`, `MaxMultiplier`).
const MEAN_DEVIATION_SHARE: u64 = 10;
const MOST_BACKED_OFF: u64 = 64;

/// Smoothed round-trip time, its variation, the timeout, and the smallest one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    rule: RtoEstimator,
    linux: LinuxRtt,
    /// RFC 6298: smoothed and variation.
    srtt: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
    /// The largest one that a back-off leads to.
    most: Duration,
    smallest: Option<(Duration, Time)>,
}

impl Rtt {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let mut rtt = Self {
            rule: parameters.rto_estimator,
            linux: LinuxRtt::default(),
            srtt: None,
            rttvar: Duration::ZERO,
            rto: parameters.rto_initial.min(parameters.rto_max),
            most: parameters.rto_max,
            smallest: None,
        };
        rtt.limit_back_off(parameters);
        rtt
    }

    /// The smoothed round-trip time, none before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        match self.rule {
            RtoEstimator::Linux => self.linux.srtt(),
            RtoEstimator::MeanDeviation | RtoEstimator::Rfc6298 => self.srtt,
        }
    }

    /// The variation of the round-trip time (RFC 6298 section 2), zero before the first sample.
    pub(super) fn rttvar(&self) -> Duration {
        match self.rule {
            RtoEstimator::Linux => self.linux.deviation(),
            RtoEstimator::MeanDeviation | RtoEstimator::Rfc6298 => self.rttvar,
        }
    }

    /// The retransmission timeout, backed off as it is.
    pub(super) const fn rto(&self) -> Duration {
        self.rto
    }

    /// The smallest round-trip time of the last minutes.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.smallest.map(|(rtt, _)| rtt)
    }

    /// Takes a sample for the smallest round-trip time.
    pub(super) fn note_min(&mut self, now: Time, rtt: Duration) {
        let replaces =
            self.smallest.is_none_or(|(min, at)| rtt <= min || now.saturating_since(at) > MIN_RTT_WINDOW);
        if replaces {
            self.smallest = Some((rtt, now));
        }
    }

    /// Takes a sample; `acknowledged` and `sent` are the ends of what is acknowledged and sent so far. Ends a
    /// back-off.
    pub(super) fn on_sample(&mut self, parameters: &Parameters, rtt: Duration, acknowledged: u64, sent: u64) {
        let rto = match self.rule {
            RtoEstimator::Linux => {
                self.linux.on_sample(parameters.rto_min, rtt, acknowledged, sent);
                self.linux.rto()
            }
            RtoEstimator::MeanDeviation => self.take_mean_deviation(rtt).max(parameters.rto_min),
            RtoEstimator::Rfc6298 => {
                // RFC 6298 sections 2.2 and 2.3, RTTVAR before SRTT.
                let srtt = match self.srtt {
                    None => {
                        self.rttvar = Duration::from_nanos(rtt.as_nanos() / 2);
                        rtt
                    }
                    Some(srtt) => {
                        let error = srtt.as_nanos().abs_diff(rtt.as_nanos());
                        self.rttvar = Duration::from_nanos(self.rttvar.as_nanos() / 4 * 3 + error / 4);
                        Duration::from_nanos(srtt.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)
                    }
                };
                self.srtt = Some(srtt);
                let variation = (self.rttvar * 4).max(parameters.clock.granularity);
                (srtt + variation).max(parameters.rto_min)
            }
        };
        self.rto = rto.min(parameters.rto_max);
        self.limit_back_off(parameters);
    }

    /// ns-3: `RttMeanDeviation::Measurement` and `RetransmitTimeout`.
    fn take_mean_deviation(&mut self, rtt: Duration) -> Duration {
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

    fn limit_back_off(&mut self, parameters: &Parameters) {
        if self.rule == RtoEstimator::MeanDeviation {
            self.most = (self.rto * MOST_BACKED_OFF).min(parameters.rto_max);
        }
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub(super) fn back_off(&mut self) {
        self.rto = self.rto.doubled().min(self.most);
    }

    /// The timeout that goes with a doubled SYN is not kept for data (RFC 6298 section 5.7).
    pub(super) fn set_rto(&mut self, rto: Duration) {
        self.rto = rto;
    }
}
