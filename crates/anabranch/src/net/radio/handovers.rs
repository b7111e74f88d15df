//! Handovers, in LTE and in NR: gaps in which nothing is sent in either direction.
//!
//! A station that leaves one cell for another neither sends nor receives from the command to the first
//! message in the new cell: about 50 ms in LTE (3GPP TR 36.881 counts 49.5 ms). What waits for it in the
//! downlink is forwarded to the new cell (TS 36.300 section 10.1.2.3, TS 38.300 section 9.2.3.2) or lost;
//! what waits in the station stays there.
//!
//! Not modelled: packets that are sent twice after a handover, blocks that the old cell did not finish (they
//! are finished in the new one), and what the way to the new cell adds.

use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::net::packets::Direction;
use crate::schedule::Timeline;

/// When the station changes its cell, and how long nothing is sent then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandoverConfig {
    /// When handovers begin; the times increase by more than the gap. Default: never.
    pub at: Vec<Duration>,
    /// Start the times over after this one, by which the last gap is over. By default, they do not repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Duration>,
    /// How long nothing is sent, from 1 ms to 10 s; default "50 ms" (TR 36.881 counts 49.5 ms).
    pub gap: Duration,
    /// Whether packets that wait for the station are forwarded to its new cell, and those that come during
    /// the gap, too. Otherwise they are lost. Default: true.
    pub forwarding: bool,
}

impl Default for HandoverConfig {
    fn default() -> Self {
        Self { at: Vec::new(), repeat: None, gap: Duration::from_millis(50), forwarding: true }
    }
}

/// The gaps of a link; all times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Handovers {
    begins: Vec<u64>,
    /// When the times start over; `u64::MAX` if they do not.
    period: u64,
    gap: u64,
    forwarding: bool,
}

impl Handovers {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(config: Option<&HandoverConfig>, key: &str) -> Result<Self, String> {
        let Some(HandoverConfig { at, repeat, gap, forwarding }) = config else { return Ok(Self::default()) };
        if *gap < Duration::from_millis(1) || *gap > Duration::from_secs(10) {
            return Err(format!("{key}.gap is \"{gap}\", allowed is 1 ms to 10 s"));
        }
        let mut pairs = at.iter().zip(at.iter().skip(1));
        if let Some((before, after)) = pairs.find(|(before, after)| **after <= **before + *gap) {
            return Err(format!(
                "{key}.at goes from \"{before}\" to \"{after}\", its times have to increase by more than the gap's \"{gap}\""
            ));
        }
        let end = at.last().map_or(Duration::ZERO, |last| *last + *gap);
        if let Some(repeat) = repeat.filter(|repeat| *repeat <= end) {
            return Err(format!(
                "{key}.repeat is \"{repeat}\", it has to be longer than \"{end}\", when the last gap is over"
            ));
        }
        Ok(Self {
            begins: at.iter().map(|at| at.as_nanos()).collect(),
            period: repeat.map_or(u64::MAX, Duration::as_nanos),
            gap: gap.as_nanos(),
            forwarding: *forwarding,
        })
    }

    /// When the first gap that begins at this time or later does so; `u64::MAX` if there is none.
    pub(super) fn next_begin(&self, time: u64) -> u64 {
        let Some(first) = self.begins.first() else { return u64::MAX };
        let (cycle, offset) = (time / self.period, time % self.period);
        match self.begins.iter().find(|begin| **begin >= offset) {
            Some(begin) => cycle * self.period + begin,
            None if self.period == u64::MAX => u64::MAX,
            None => (cycle + 1) * self.period + first,
        }
    }

    /// When the last gap that overlaps the time from `start` to `end` is over; [`None`] if none does.
    pub(super) fn gap_end(&self, start: u64, end: u64) -> Option<u64> {
        let begin = self.next_begin((start + 1).saturating_sub(self.gap));
        (begin < end).then(|| begin + self.gap)
    }

    /// Whether something is sent, as a function of time.
    pub(super) fn sends(&self) -> Timeline<bool> {
        let mut steps = vec![(0, true)];
        for begin in &self.begins {
            if *begin == 0 {
                steps.pop();
            }
            steps.extend([(*begin, false), (begin + self.gap, true)]);
        }
        let period = (self.period != u64::MAX && !self.begins.is_empty()).then_some(self.period);
        Timeline::new(steps, period).expect("the times were checked")
    }
}

/// The gaps in which one direction loses what waits.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    handovers: Handovers,
    /// When the next one begins; `u64::MAX` if there is none.
    next: u64,
}

impl Losses {
    /// Only the downlink loses something, and only without forwarding.
    pub(super) fn new(handovers: &Handovers, direction: Direction) -> Self {
        let loses = direction == Direction::Forward && !handovers.forwarding;
        let next = if loses { handovers.next_begin(0) } else { u64::MAX };
        Self { handovers: handovers.clone(), next }
    }

    /// Whether a packet is lost that comes now, to a direction in which perhaps none waited.
    pub(super) fn take(&mut self, now: u64) -> bool {
        if self.next == u64::MAX {
            return false;
        }
        let is_lost = self.handovers.gap_end(now, now + 1).is_some();
        if !is_lost {
            self.next = self.handovers.next_begin(now);
        }
        is_lost
    }

    /// When what waits is lost next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether a gap begins now, so that what waits is lost.
    pub(super) fn begin(&mut self, now: u64) -> bool {
        let begins = self.next <= now;
        if begins {
            self.next = self.handovers.next_begin(now + 1);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handovers(at: &[u64], repeat: Option<u64>) -> Result<Handovers, String> {
        let config = HandoverConfig {
            at: at.iter().copied().map(Duration::from_millis).collect(),
            repeat: repeat.map(Duration::from_millis),
            ..HandoverConfig::default()
        };
        Handovers::build(Some(&config), "handovers")
    }

    #[test]
    fn gaps_are_found() {
        let ms = 1_000_000;
        let once = handovers(&[0, 100], None).unwrap();
        assert_eq!(
            [0, 1, 100 * ms, 100 * ms + 1].map(|time| once.next_begin(time)),
            [0, 100 * ms, 100 * ms, u64::MAX]
        );
        assert_eq!(once.gap_end(0, 1), Some(50 * ms));
        assert_eq!(once.gap_end(50 * ms, 100 * ms), None);
        assert_eq!(once.gap_end(50 * ms, 100 * ms + 1), Some(150 * ms));
        assert_eq!(once.gap_end(149 * ms, 150 * ms), Some(150 * ms));
        assert_eq!(once.gap_end(150 * ms, 900 * ms), None);
        let again = handovers(&[10, 100], Some(200)).unwrap();
        assert_eq!(again.next_begin(101 * ms), 210 * ms);
        assert_eq!(again.gap_end(259 * ms, 260 * ms), Some(260 * ms));
        let mut sends = again.sends();
        for time in 0..1_000 {
            let (start, end) = (time * ms, time * ms + 1);
            assert_eq!(sends.at(start), again.gap_end(start, end).is_none(), "{time} ms");
        }
        assert!(Handovers::default().sends().is_constant());
        assert_eq!(Handovers::default().gap_end(5, 9), None);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            handovers(&[100, 150], None).unwrap_err(),
            "handovers.at goes from \"100 ms\" to \"150 ms\", its times have to increase by more than the gap's \
             \"50 ms\""
        );
        assert_eq!(
            handovers(&[100], Some(150)).unwrap_err(),
            "handovers.repeat is \"150 ms\", it has to be longer than \"150 ms\", when the last gap is over"
        );
    }
}
