//! Loss that is read from a file: one line per packet or per slot of time, 1 for lost and 0 for not lost,
//! starting over at the end.

use std::sync::Arc;

use anabranch_transport::time::{Duration, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{LossModel, LossPlace, LossSharing};
use crate::schedule::TraceFile;

/// Loss that is read from a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LossTraceConfig {
    /// A file with a line for every packet or slot: 1 is lost, 0 is not; starts over at its end. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<TraceFile>,
    /// Whether a line is for a `packet` or a `slot` of time. Default: `packet`.
    pub clock: TraceClock,
    /// Length of a slot. Default: 5 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Duration>,
    /// Where packets are lost: `ingress` (before the queue) or `wire` (after it). Default: `wire`.
    pub at: LossPlace,
    /// Whether packets of both directions are counted together, `shared`, or `per_direction`. Default:
    /// `per_direction`.
    pub sharing: LossSharing,
}

/// What a line of a loss trace is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceClock {
    /// A packet.
    #[default]
    Packet,
    /// A slot of time.
    Slot,
}

const DEFAULT_SLOT: Duration = Duration::from_millis(5);

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct LossTrace {
    lines: Arc<[u64]>,
    /// Nanoseconds per line; [`None`] if there is a line per packet.
    slot: Option<u64>,
    /// Number of packets so far.
    packets: u64,
}

impl LossTrace {
    pub(crate) fn new(config: &LossTraceConfig, key: &str) -> Result<Self, String> {
        let Some(file) = &config.file else {
            return Err(format!("{key}.file is missing, a loss trace needs one"));
        };
        if let Some(found) = file.numbers().iter().find(|&&line| line > 1) {
            return Err(format!("{key}.file `{}` has a line {found}, allowed are 0 and 1", file.path()));
        }
        let slot = config.slot.unwrap_or(DEFAULT_SLOT);
        if slot == Duration::ZERO {
            return Err(format!("{key}.slot is 0 s, allowed is at least 1 ns"));
        }
        let slot = (config.clock == TraceClock::Slot).then_some(slot.as_nanos());
        Ok(Self { lines: file.numbers().clone(), slot, packets: 0 })
    }
}

impl LossModel for LossTrace {
    fn is_lost(&mut self, now: Time, _size: u32) -> bool {
        let line = match self.slot {
            Some(slot) => now.as_nanos() / slot,
            None => self.packets,
        };
        self.packets += 1;
        self.lines[(line % self.lines.len() as u64) as usize] == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_a_packet_or_a_slot() {
        let file = Some(TraceFile::parse("t", "0\n1\n0\n").unwrap());
        let mut packets =
            LossTrace::new(&LossTraceConfig { file: file.clone(), ..Default::default() }, "loss").unwrap();
        let lost = [0; 6].map(|_| packets.is_lost(Time::ZERO, 1));
        assert_eq!(lost, [false, true, false, false, true, false]);
        let config = LossTraceConfig { file, clock: TraceClock::Slot, ..Default::default() };
        let mut slots = LossTrace::new(&config, "loss").unwrap();
        let lost = [0, 4, 5, 9, 10, 20].map(|millis| slots.is_lost(Time::from_millis(millis), 1));
        assert_eq!(lost, [false, false, true, true, false, true]);
    }

    #[test]
    fn other_numbers_are_refused() {
        let file = Some(TraceFile::parse("t", "0\n2\n").unwrap());
        let error =
            LossTrace::new(&LossTraceConfig { file, ..Default::default() }, "link.a.loss").unwrap_err();
        assert_eq!(error, "link.a.loss.file `t` has a line 2, allowed are 0 and 1");
        assert!(LossTrace::new(&LossTraceConfig::default(), "loss").unwrap_err().contains("missing"));
    }
}
