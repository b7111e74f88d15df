//! Round-trip times and the retransmission timeout (RFC 6298; Linux's `tcp_rtt_estimator`; ns-3's
//! `RttMeanDeviation`, which counts the timeout in whole milliseconds, unlike this).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linux_rtt::LinuxRtt;
use crate::time::{Duration, Time};

/// How long the smallest round-trip time is remembered (Linux: `net.ipv4.tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// With `mean_deviation`, a sample has a weight of one divided by this (model: `MpTcpSubFlow`), and a
/// back-off ends at this multiple of the timeout (ns-3: `RttEstimator`, `MaxMultiplier`).
const MEAN_DEVIATION_SHARE: u64 = 10;
const MOST_BACKED_OFF: u64 = 64;

/// The formula of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtoEstimator {
    /// Linux's `tcp_rtt_estimator`: the variation decays slowly and is never below the minimum.
    Linux,
    /// As in profile `kheirkhah_v1`: both gains 0.1, the first sample also the first deviation, no sample in
    /// the handshake, and a timeout that doubles up to 64 times.
    MeanDeviation,
    /// RFC 6298 section 2.
    Rfc6298,
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
    /// The granularity of the clock (RFC 6298 section 2: G).
    pub granularity: Duration,
}

/// Smoothed round-trip time, its variation, the timeout, and the smallest round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    rule: RtoEstimator,
    limits: Limits,
    linux: LinuxRtt,
    /// RFC 6298's smoothed round-trip time and its variation.
    srtt: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
    /// The largest timeout to which a back-off leads.
    most: Duration,
    smallest: Option<(Duration, Time)>,
    /// After a spurious timeout: what SRTT and RTTVAR become at least, with the first sample of data beyond
    /// this number.
    widening: Option<(Duration, Duration, u64)>,
}

impl Rtt {
    /// An estimator without measurements.
    pub fn new(rule: RtoEstimator, limits: Limits) -> Self {
        let mut rtt = Self {
            rule,
            limits,
            linux: LinuxRtt::default(),
            srtt: None,
            rttvar: Duration::ZERO,
            rto: limits.initial.min(limits.max),
            most: limits.max,
            smallest: None,
            widening: None,
        };
        rtt.limit_back_off();
        rtt
    }

    /// The smoothed round-trip time; [`None`] before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        match self.rule {
            RtoEstimator::Linux => self.linux.srtt(),
            RtoEstimator::MeanDeviation | RtoEstimator::Rfc6298 => self.srtt,
        }
    }

    /// The variation of the round-trip time (RFC 6298 section 2), zero before the first sample.
    pub fn rttvar(&self) -> Duration {
        match self.rule {
            RtoEstimator::Linux => self.linux.deviation(),
            RtoEstimator::MeanDeviation | RtoEstimator::Rfc6298 => self.rttvar,
        }
    }

    /// The retransmission timeout, with its back-off.
    pub const fn rto(&self) -> Duration {
        self.rto
    }

    /// The smallest round-trip time of the last minutes.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.smallest.map(|(rtt, _)| rtt)
    }

    /// Takes a sample for the smallest round-trip time.
    pub fn record_min(&mut self, now: Time, rtt: Duration) {
        let replaces =
            self.smallest.is_none_or(|(min, at)| rtt <= min || now.saturating_since(at) > MIN_RTT_WINDOW);
        if replaces {
            self.smallest = Some((rtt, now));
        }
    }

    /// A timeout was spurious, before which SRTT and RTTVAR were these: the first sample of data from `next`
    /// on counts as the first one of all, if that makes either larger (RFC 4015 section 3.1 step 11).
    pub fn widen_after(&mut self, srtt: Duration, rttvar: Duration, next: u64) {
        self.widening = Some((srtt, rttvar, next));
    }

    /// Takes a sample; `acknowledged` and `sent` are the ends of what is acknowledged and sent so far. It
    /// ends a back-off.
    pub fn on_sample(&mut self, rtt: Duration, acknowledged: u64, sent: u64) {
        let rto = match self.rule {
            RtoEstimator::Linux => {
                self.linux.on_sample(self.limits.min, rtt, acknowledged, sent);
                self.linux.rto()
            }
            RtoEstimator::MeanDeviation => self.take_mean_deviation(rtt).max(self.limits.min),
            RtoEstimator::Rfc6298 => {
                // RFC 6298 sections 2.2 and 2.3, RTTVAR before SRTT.
                let widening = self.widening.take_if(|(.., next)| acknowledged > *next);
                let srtt = match (self.srtt, widening) {
                    (_, Some((srtt, rttvar, _))) => {
                        self.rttvar = rttvar.max(Duration::from_nanos(rtt.as_nanos() / 2));
                        srtt.max(rtt)
                    }
                    (None, None) => {
                        self.rttvar = Duration::from_nanos(rtt.as_nanos() / 2);
                        rtt
                    }
                    (Some(srtt), None) => {
                        let error = srtt.as_nanos().abs_diff(rtt.as_nanos());
                        self.rttvar = Duration::from_nanos(self.rttvar.as_nanos() / 4 * 3 + error / 4);
                        Duration::from_nanos(srtt.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)
                    }
                };
                self.srtt = Some(srtt);
                let variation = (self.rttvar * 4).max(self.limits.granularity);
                (srtt + variation).max(self.limits.min)
            }
        };
        self.rto = rto.min(self.limits.max);
        self.limit_back_off();
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

    fn limit_back_off(&mut self) {
        if self.rule == RtoEstimator::MeanDeviation {
            self.most = (self.rto * MOST_BACKED_OFF).min(self.limits.max);
        }
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub fn back_off(&mut self) {
        self.rto = self.rto.doubled().min(self.most);
    }

    /// Sets the timeout; that of a doubled SYN is not kept for data (RFC 6298 section 5.7).
    pub fn set_rto(&mut self, rto: Duration) {
        self.rto = rto;
    }
}
