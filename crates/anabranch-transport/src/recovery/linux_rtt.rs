//! The round-trip time estimator of TCP in Linux (`tcp_rtt_estimator`), in integers as there.

use crate::time::Duration;

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinuxRtt {
    /// Eight times the smoothed round-trip time in microseconds.
    srtt_us_8: u64,
    /// Four times the mean deviation in microseconds.
    mdev_us_4: u64,
    mdev_max_us: u64,
    rttvar_us: u64,
    /// The position after which something must have been sent and acknowledged before the variation may
    /// shrink.
    round_end: u64,
}

impl LinuxRtt {
    /// The smoothed round-trip time; [`None`] before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt_us_8 > 0).then(|| Duration::from_micros(self.srtt_us_8 >> 3))
    }

    /// The mean deviation of the round-trip time.
    pub fn deviation(&self) -> Duration {
        Duration::from_micros(self.mdev_us_4 >> 2)
    }

    /// The retransmission timeout, without its upper limit.
    pub fn rto(&self) -> Duration {
        Duration::from_micros((self.srtt_us_8 >> 3) + self.rttvar_us)
    }

    /// Takes a sample. `acknowledged` is the position up to which data is acknowledged, `sent` that up to
    /// which it has been sent, in any unit; `rto_min` is the least that the variation adds.
    pub fn on_sample(&mut self, rto_min: Duration, rtt: Duration, acknowledged: u64, sent: u64) {
        let sample = (rtt.as_nanos() / 1_000).max(1) as i64;
        let floor = rto_min.as_nanos() / 1_000;
        if self.srtt_us_8 == 0 {
            self.srtt_us_8 = (sample << 3) as u64;
            self.mdev_us_4 = (sample << 1) as u64;
            self.rttvar_us = self.mdev_us_4.max(floor);
            self.mdev_max_us = self.rttvar_us;
            self.round_end = sent;
            return;
        }
        let error = sample - (self.srtt_us_8 >> 3) as i64;
        self.srtt_us_8 = (self.srtt_us_8 as i64 + error).max(1) as u64;
        let change = error.abs() - (self.mdev_us_4 >> 2) as i64;
        // A round-trip time that falls raises the deviation with an eighth of the gain.
        let change = if error < 0 && change > 0 { change >> 3 } else { change };
        self.mdev_us_4 = (self.mdev_us_4 as i64 + change).max(0) as u64;
        if self.mdev_us_4 > self.mdev_max_us {
            self.mdev_max_us = self.mdev_us_4;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if acknowledged > self.round_end {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.round_end = sent;
            self.mdev_max_us = floor;
        }
    }
}
