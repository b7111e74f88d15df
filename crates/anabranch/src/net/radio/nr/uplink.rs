//! Grants for the uplink: what the base station knows of, and for which slots that makes grants.

use std::collections::VecDeque;

use super::config::{ConfiguredGrantConfig, GrantsConfig, SchedulingRequestConfig};
use super::slots::{NEVER, Slots};
use crate::net::packets::Direction;

/// Periods of scheduling requests in slots (TS 38.331, `SchedulingRequestResourceConfig`).
const REQUEST_PERIODS: [u32; 13] = [1, 2, 4, 5, 8, 10, 16, 20, 40, 80, 160, 320, 640];

/// The longest period of a configured grant, in slots.
const MOST_PERIOD: u32 = 640;

/// The grants of a station.
#[derive(Clone, Debug)]
pub(super) struct Grants {
    period: u64,
    offset: u64,
    /// Whether the slots of that period are granted; otherwise they are for requests.
    is_configured: bool,
    /// What the base station will know of, in order of the slots.
    reports: VecDeque<Report>,
    /// Bytes that it knows of and has not given a slot.
    known: u64,
    pub(super) requests: u64,
}

/// Bytes for which slots are granted.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// The first slot that may be granted for them.
    from: u64,
    bytes: u64,
}

impl Grants {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(config: &GrantsConfig, slots: &Slots, key: &str) -> Result<Self, String> {
        let (period, offset, is_configured) = match *config {
            GrantsConfig::Configured(ConfiguredGrantConfig { period, offset }) => (period, offset, true),
            GrantsConfig::Request(SchedulingRequestConfig { period, offset }) => (period, offset, false),
        };
        if is_configured && !(1..=MOST_PERIOD).contains(&period) {
            return Err(format!("{key}.period is {period}, allowed is 1 to {MOST_PERIOD} slots"));
        }
        if !is_configured && !REQUEST_PERIODS.contains(&period) {
            return Err(format!(
                "{key}.period is {period}, allowed is one of 1, 2, 4, 5, 8, 10, 16, 20, 40, 80, 160, 320, 640 slots"
            ));
        }
        let period = u64::from(period);
        let most = |slot: &u64| (slots.data_symbols(*slot, Direction::Reverse), std::cmp::Reverse(*slot));
        let first = (0..slots.period()).max_by_key(most).expect("a pattern has slots") % period;
        let offset = offset.map_or(first, u64::from);
        if offset >= period {
            return Err(format!(
                "{key}.offset is {offset}, allowed is less than the period's {period} slots"
            ));
        }
        let symbols = if is_configured { Slots::data_symbols } else { Slots::symbols };
        if (0..slots.period()).all(|turn| symbols(slots, offset + turn * period, Direction::Reverse) == 0) {
            return Err(format!(
                "{key}.period is {period}, whose slots {offset}, {}, ... meet no slot of the uplink; allowed are \
                 an offset and a period that do",
                offset + period
            ));
        }
        let grants = Self { period, offset, is_configured, reports: VecDeque::new(), known: 0, requests: 0 };
        let will_do = |slot| grants.is_periodic(slot) && symbols(slots, slot, Direction::Reverse) > 0;
        if slots.first(0, will_do) >= NEVER {
            return Err(format!(
                "{key} has slots that all fall into gaps of `handovers`; allowed is another period or offset, a \
                 shorter `gap` or another `repeat`"
            ));
        }
        Ok(grants)
    }

    fn is_periodic(&self, slot: u64) -> bool {
        slot % self.period == self.offset
    }

    /// No block may be sent before this slot.
    pub(super) fn from(&self) -> u64 {
        if self.is_configured || self.known > 0 {
            return 0;
        }
        self.reports.front().map_or(NEVER, |report| report.from)
    }

    /// Whether a block may be sent in this slot.
    pub(super) fn allow(&self, slot: u64) -> bool {
        self.known > 0
            || self.reports.front().is_some_and(|report| report.from <= slot)
            || self.is_configured && self.is_periodic(slot)
    }

    /// The station has something to send from this time on, after a time in which it had nothing.
    pub(super) fn ask(&mut self, now: u64, slots: &Slots) {
        if self.is_configured {
            return;
        }
        let first = slots.from(now + slots.processing);
        let request =
            slots.first(first, |slot| self.is_periodic(slot) && slots.symbols(slot, Direction::Reverse) > 0);
        self.requests += 1;
        let known = slots.end(request, Direction::Reverse) + slots.processing;
        // A request asks for one grant, for whatever waits.
        self.reports.push_back(Report { from: slots.granted_from(known), bytes: 1 });
    }

    /// A block of this size is sent in this slot, and says that so many bytes still wait; the base station
    /// reads that at `received`.
    pub(super) fn sent(&mut self, slot: u64, size: u64, waiting: u64, received: u64, slots: &Slots) {
        while let Some(report) = self.reports.front().filter(|report| report.from <= slot) {
            self.known += report.bytes;
            self.reports.pop_front();
        }
        self.known = self.known.saturating_sub(size);
        if waiting == 0 {
            self.reports.clear();
            self.known = 0;
            return;
        }
        // What blocks before it said that are sent again, this one says, too.
        let from = slots.granted_from(received);
        let mut reported = self.known;
        for report in &mut self.reports {
            report.from = report.from.min(from);
            reported += report.bytes;
        }
        if waiting > reported {
            self.reports.push_back(Report { from, bytes: waiting - reported });
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.reports.capacity() * size_of::<Report>()
    }
}
