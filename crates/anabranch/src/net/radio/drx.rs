//! Discontinuous reception, in LTE and in NR: a station listens at the start of each cycle, and for a time
//! after each grant.
//!
//! Source: 3GPP TS 36.321 and TS 38.321 section 5.7; the values are those of TS 36.331 and TS 38.331
//! (`DRX-Config`). The downlink waits until the station listens. The uplink does not wait: a station that
//! asks for a grant listens for it, and so it does for retransmissions.
//!
//! Not modelled: short cycles, and that the station listens while its request is pending.

use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A station that sleeps. The downlink waits until it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrxConfig {
    /// Time from one on-duration to the next, from 1 ms to 10.24 s; default "160 ms" (drx-LongCycle).
    pub cycle: Duration,
    /// How long the station listens in each cycle, at least 1 ms and less than the cycle; default "10 ms"
    /// (drx-onDurationTimer).
    pub on: Duration,
    /// How long it listens after the start of each block, in either direction, up to 2.56 s; default "100 ms"
    /// (drx-InactivityTimer).
    pub inactivity: Duration,
    /// When the first on-duration begins, less than the cycle; default "0 s" (drx-StartOffset).
    pub offset: Duration,
}

impl Default for DrxConfig {
    fn default() -> Self {
        Self {
            cycle: Duration::from_millis(160),
            on: Duration::from_millis(10),
            inactivity: Duration::from_millis(100),
            offset: Duration::ZERO,
        }
    }
}

/// When the station of a link listens; all times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drx {
    cycle: u64,
    on: u64,
    inactivity: u64,
    offset: u64,
    /// When the inactivity timer expires.
    until: u64,
}

impl Drx {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(config: &DrxConfig, key: &str) -> Result<Self, String> {
        let DrxConfig { cycle, on, inactivity, offset } = *config;
        let millis = Duration::from_millis;
        let (before, less) = (cycle.saturating_sub(Duration::from_nanos(1)), "less than the cycle's");
        for (name, value, least, most, words, limit) in [
            ("cycle", cycle, millis(1), millis(10_240), "at most", millis(10_240)),
            ("on", on, millis(1), before, less, cycle),
            ("inactivity", inactivity, Duration::ZERO, millis(2_560), "at most", millis(2_560)),
            ("offset", offset, Duration::ZERO, before, less, cycle),
        ] {
            if value < least || value > most {
                return Err(format!(
                    "{key}.{name} is \"{value}\", allowed is at least \"{least}\" and {words} \"{limit}\""
                ));
            }
        }
        let [cycle, on, inactivity, offset] = [cycle, on, inactivity, offset].map(Duration::as_nanos);
        Ok(Self { cycle, on, inactivity, offset, until: 0 })
    }

    /// The first time from this one on at which the station listens.
    pub(super) fn listens_from(&self, time: u64) -> u64 {
        let since = (time + self.cycle - self.offset) % self.cycle;
        if time < self.until || since < self.on { time } else { time + (self.cycle - since) }
    }

    /// A block begins at this time, so the station listens for a while.
    pub(super) fn block_begins(&mut self, time: u64) {
        self.until = self.until.max(time + self.inactivity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_listens_in_each_cycle_and_after_blocks() {
        let millis = |value: f64| (value * 1e6) as u64;
        let config = DrxConfig { offset: Duration::from_millis(5), ..DrxConfig::default() };
        let mut drx = Drx::build(&config, "drx").unwrap();
        for (from, to) in
            [(0.0, 5.0), (5.0, 5.0), (14.9, 14.9), (15.0, 165.0), (164.9, 165.0), (1_000.0, 1_125.0)]
        {
            assert_eq!(drx.listens_from(millis(from)), millis(to), "{from}");
        }
        drx.block_begins(millis(12.0));
        assert_eq!(drx.listens_from(millis(111.9)), millis(111.9));
        assert_eq!(drx.listens_from(millis(112.0)), millis(165.0));
    }

    #[test]
    fn mistakes_are_named() {
        let millis = Duration::from_millis;
        let base = DrxConfig::default();
        for (config, sentence) in [
            (
                DrxConfig { cycle: Duration::ZERO, ..base },
                "drx.cycle is \"0 s\", allowed is at least \"1 ms\" and at most \"10.24 s\"",
            ),
            (
                DrxConfig { on: millis(160), ..base },
                "drx.on is \"160 ms\", allowed is at least \"1 ms\" and less than the cycle's \"160 ms\"",
            ),
            (
                DrxConfig { offset: millis(200), ..base },
                "drx.offset is \"200 ms\", allowed is at least \"0 s\" and less than the cycle's \"160 ms\"",
            ),
        ] {
            assert_eq!(Drx::build(&config, "drx").unwrap_err(), sentence);
        }
    }
}
