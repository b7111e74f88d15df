//! The slots of a carrier: what of each belongs to which direction, and which ones follow from others.
//!
//! Slots are counted from the start of the run. A slot that overlaps the gap of a handover is none. Symbols
//! are equally long: the first ones of each half millisecond are longer by 0.5 us (TS 38.211 section 5.3.1).

use anabranch_transport::time::Duration;

use super::super::handovers::Handovers;
use super::super::served_link::{check_range, check_time};
use super::config::{DuplexConfig, NrConfig, TddConfig};
use crate::net::packets::Direction;

/// A slot that does not come.
pub(super) const NEVER: u64 = 1 << 40;

/// After this many slots of which none will do, there is none: patterns and the longest periods of grants
/// meet after 102,240 slots at the latest.
const MOST_SLOTS: u32 = 200_000;

const SYMBOLS: u32 = 14;
const SUBFRAME: u64 = 1_000_000;

/// The least number of symbols with data in the downlink and in the uplink: those of mapping type A (TS
/// 38.214 tables 5.1.2.1-1 and 6.1.2.1-1).
const LEAST_SYMBOLS: [u32; 2] = [3, 4];

/// Patterns repeat a whole number of times in 20 ms (TS 38.213 section 11.1).
const MOST_PATTERN_MS: u32 = 20;

/// The slots of a link; all times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    length: u64,
    /// Symbols of each direction, for each slot of the pattern.
    pattern: Vec<[u32; 2]>,
    control_symbols: u32,
    k1: u64,
    k2: u64,
    pub(super) processing: u64,
    pub(super) handovers: Handovers,
}

impl Slots {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(config: &NrConfig, key: &str) -> Result<Self, String> {
        let NrConfig { numerology, control_symbols, k1, k2, processing_delay, .. } = *config;
        for (name, value, most) in [
            ("numerology", numerology, 3),
            ("control_symbols", control_symbols, 3),
            ("k1", k1, 15),
            ("k2", k2, 32),
        ] {
            check_range(key, name, value.into(), 0.0, most.into())?;
        }
        check_time(key, "processing_delay", processing_delay, Duration::from_millis(10))?;
        let pattern = match &config.duplex {
            DuplexConfig::Fdd(_) => vec![[SYMBOLS; 2]],
            DuplexConfig::Tdd(tdd) => pattern(tdd, numerology, &format!("{key}.duplex"))?,
        };
        let slots = Self {
            length: SUBFRAME >> numerology,
            pattern,
            control_symbols,
            k1: k1.into(),
            k2: k2.into(),
            processing: processing_delay.as_nanos(),
            handovers: Handovers::build(config.handovers.as_ref(), &format!("{key}.handovers"))?,
        };
        for (direction, name) in [(Direction::Forward, "downlink"), (Direction::Reverse, "uplink")] {
            if let DuplexConfig::Tdd(TddConfig { pattern, .. }) = &config.duplex
                && (0..slots.period()).all(|slot| slots.data_symbols(slot, direction) == 0)
            {
                let least = LEAST_SYMBOLS[direction.index()];
                return Err(format!(
                    "{key}.duplex.pattern is \"{pattern}\", which has no slot with {least} symbols or more for data of \
                     the {name}"
                ));
            }
        }
        Ok(slots)
    }

    /// After how many slots the pattern starts over.
    pub(super) fn period(&self) -> u64 {
        self.pattern.len() as u64
    }

    pub(super) fn start(&self, slot: u64) -> u64 {
        slot * self.length
    }

    /// When the symbols of a direction in this slot are over.
    pub(super) fn end(&self, slot: u64, direction: Direction) -> u64 {
        match direction {
            Direction::Forward => {
                let symbols = self.symbols(slot, direction);
                self.start(slot) + (self.length * u64::from(symbols)).div_ceil(SYMBOLS.into())
            }
            Direction::Reverse => self.start(slot + 1),
        }
    }

    /// The first slot that starts at this time or later.
    pub(super) fn from(&self, time: u64) -> u64 {
        time.div_ceil(self.length)
    }

    /// Symbols of a direction in this slot.
    pub(super) fn symbols(&self, slot: u64, direction: Direction) -> u32 {
        self.pattern[(slot % self.period()) as usize][direction.index()]
    }

    /// Those for data and its reference signals; 0 if they are too few. What is left for control has place
    /// for requests, feedback and grants.
    pub(super) fn data_symbols(&self, slot: u64, direction: Direction) -> u32 {
        let control = if direction == Direction::Forward { self.control_symbols } else { 0 };
        let symbols = self.symbols(slot, direction).saturating_sub(control);
        if symbols < LEAST_SYMBOLS[direction.index()] { 0 } else { symbols }
    }

    /// The first slot from this one on that will do and is in no gap.
    pub(super) fn first(&self, mut slot: u64, will_do: impl Fn(u64) -> bool) -> u64 {
        for _ in 0..MOST_SLOTS {
            if slot >= NEVER {
                break;
            }
            match self.handovers.gap_end(self.start(slot), self.start(slot + 1)) {
                Some(end) => slot = self.from(end),
                None if will_do(slot) => return slot,
                None => slot += 1,
            }
        }
        NEVER
    }

    /// The first slot from this one on in which a direction has symbols.
    pub(super) fn first_of(&self, slot: u64, direction: Direction) -> u64 {
        self.first(slot, |slot| self.symbols(slot, direction) > 0)
    }

    /// The first slot from this one on in which a direction has place for data.
    pub(super) fn first_data(&self, slot: u64, direction: Direction) -> u64 {
        self.first(slot, |slot| self.data_symbols(slot, direction) > 0)
    }

    /// The first slot of the uplink for which there is a grant when the base station knows of data from this
    /// time on.
    pub(super) fn granted_from(&self, known: u64) -> u64 {
        self.first_of(self.from(known), Direction::Forward) + self.k2
    }

    /// The first slot in which a block of this slot can be sent again, or its process another block, `wait`
    /// after the sender knows of its fate.
    pub(super) fn after(&self, slot: u64, direction: Direction, wait: u64) -> u64 {
        let end = match direction {
            Direction::Forward => {
                let feedback = self.first_of(slot + self.k1, Direction::Reverse);
                self.end(feedback, Direction::Reverse)
            }
            Direction::Reverse => self.end(slot, direction),
        };
        let known = end + self.processing + wait;
        let next = match direction {
            Direction::Forward => self.from(known),
            Direction::Reverse => self.granted_from(known),
        };
        self.first_data(next, direction)
    }
}

/// The symbols of each direction in the slots of a pattern.
fn pattern(config: &TddConfig, numerology: u32, key: &str) -> Result<Vec<[u32; 2]>, String> {
    let TddConfig { pattern, downlink_symbols, uplink_symbols } = config;
    if let Some(other) = pattern.chars().find(|letter| !"DSU".contains(*letter)) {
        return Err(format!(
            "{key}.pattern is \"{pattern}\", allowed are the letters D, S and U, not {other}"
        ));
    }
    let most = (MOST_PATTERN_MS << numerology) as usize;
    if pattern.is_empty() || !most.is_multiple_of(pattern.len()) {
        return Err(format!(
            "{key}.pattern is \"{pattern}\" of {} slots, allowed are numbers that divide {most}, which take \
             {MOST_PATTERN_MS} ms",
            pattern.len()
        ));
    }
    for (name, value) in [("downlink_symbols", *downlink_symbols), ("uplink_symbols", *uplink_symbols)] {
        check_range(key, name, value.into(), 0.0, SYMBOLS.into())?;
    }
    if downlink_symbols + uplink_symbols > SYMBOLS {
        return Err(format!(
            "{key}.uplink_symbols is {uplink_symbols}, allowed is at most {} beside {downlink_symbols} of the \
             downlink",
            SYMBOLS - downlink_symbols
        ));
    }
    Ok(pattern
        .chars()
        .map(|letter| match letter {
            'D' => [SYMBOLS, 0],
            'U' => [0, SYMBOLS],
            _ => [*downlink_symbols, *uplink_symbols],
        })
        .collect())
}
