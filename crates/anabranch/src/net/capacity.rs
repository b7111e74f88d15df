//! The capacity of a link's server: its rate as a function of time.
//!
//! Work is counted in integers: one bit is 10^9 units, so that a rate of R bit/s does exactly R units
//! per nanosecond. Unfinished work at a whole nanosecond is then a whole number, nothing is ever rounded,
//! and the sub-nanosecond remainder of a transmission time is kept in it. A packet has left at the first
//! whole nanosecond by which all of its work is done.

use std::borrow::Cow;
use std::fmt;

use anabranch_transport::time::Duration;
use anabranch_transport::units::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::schedule::{Schedule, Timeline, Timetable, TraceFile};

/// Units of work per byte.
pub(crate) const UNITS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// Unfinished work stays below this (1.15 GB), so that no sum of units overflows.
pub(crate) const MAX_BACKLOG_UNITS: u64 = 1 << 63;

/// One delivery opportunity of a Mahimahi trace, in bits: 1500 bytes (mm-link(1)).
const MAHIMAHI_OPPORTUNITY_BITS: u64 = 1500 * 8;

/// The rate of a link: a value, a timetable, or a trace in Mahimahi's format.
///
/// `{ mahimahi = "file" }`: every line is a time in milliseconds at which 1500 bytes can be sent; the
/// trace starts over after its last time. Here an opportunity at t is a rate of 12 Mbit/s (times the
/// number of opportunities) during the millisecond that ends at t, so that a full-sized packet that waits
/// leaves at t as it does in Mahimahi. Deviation: a smaller packet can use a part of an opportunity, and
/// a packet can start in one opportunity and end in the next.
#[derive(Clone, Debug, PartialEq)]
pub enum RateConfig {
    /// The same rate at all times, or a timetable.
    Scheduled(Schedule<Rate>),
    /// A trace in Mahimahi's format.
    Mahimahi(TraceFile),
}

impl RateConfig {
    /// The rate in bit/s as a function of time.
    pub(crate) fn timeline(&self, key: &str) -> Result<Timeline<u64>, String> {
        match self {
            Self::Scheduled(schedule) => schedule.map(Rate::bits_per_sec).timeline(key),
            Self::Mahimahi(trace) => mahimahi_timeline(trace).map_err(|what| format!("{key}: {what}")),
        }
    }
}

/// One step per change of rate; see [`RateConfig`] for the mapping.
fn mahimahi_timeline(trace: &TraceFile) -> Result<Timeline<u64>, String> {
    let millis = trace.numbers();
    if let Some((before, after)) = millis.iter().zip(&millis[1..]).find(|(before, after)| before > after) {
        return Err(format!(
            "the trace `{}` goes back from {before} ms to {after} ms, its times must not decrease",
            trace.path(),
        ));
    }
    let period = millis[millis.len() - 1];
    if period == 0 || period > 1_000_000_000 {
        return Err(format!(
            "the trace `{}` ends at {period} ms, the last time has to be from 1 ms to 1e9 ms",
            trace.path()
        ));
    }
    // An opportunity at 0 ms belongs to the millisecond that ends there, which is the last one of the cycle.
    let at_zero = millis.iter().take_while(|&&at| at == 0).count() as u64;
    let mut steps: Vec<(u64, u64)> = vec![(0, 0)];
    let mut set_rate = |from_millis: u64, rate: u64| {
        let from = from_millis * 1_000_000;
        match steps.last_mut() {
            Some((at, last)) if *at == from => *last = rate,
            Some((_, last)) if *last == rate => {}
            _ => steps.push((from, rate)),
        }
    };
    for group in millis[at_zero as usize..].chunk_by(|a, b| a == b) {
        let at = group[0];
        let count = group.len() as u64 + if at == period { at_zero } else { 0 };
        set_rate(at - 1, count * MAHIMAHI_OPPORTUNITY_BITS * 1000);
        if at < period {
            set_rate(at, 0);
        }
    }
    Timeline::new(steps, Some(period * 1_000_000))
}

/// A rate that does not change, in bit/s, which is units per nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConstantRate {
    pub(crate) bits_per_sec: u64,
    /// 2^64 / rate, rounded down.
    inverse: u64,
}

impl ConstantRate {
    pub(crate) fn new(bits_per_sec: u64) -> Self {
        Self { bits_per_sec, inverse: u64::MAX / bits_per_sec }
    }

    /// How long this much work takes, in nanoseconds, rounded up: `units.div_ceil(bits_per_sec)` without a
    /// division, which would take longer than all the rest of an idle link's work.
    #[inline]
    pub(crate) fn time_for(self, units: u64) -> u64 {
        // The result is at most 2 below the quotient, since both roundings are down.
        let quotient = ((u128::from(units) * u128::from(self.inverse)) >> 64) as u64;
        let rest = units - quotient * self.bits_per_sec;
        let rest_after_one = rest.saturating_sub(self.bits_per_sec);
        quotient
            + u64::from(rest > 0)
            + u64::from(rest_after_one > 0)
            + u64::from(rest_after_one > self.bits_per_sec)
    }
}

/// How a link serves its queue over time.
#[derive(Clone, Debug)]
pub(crate) enum Capacity {
    Constant(ConstantRate),
    /// A rate that changes, or a server that stops.
    Varying(Varying),
}

/// A rate that changes at known times.
#[derive(Clone, Debug)]
pub(crate) struct Varying {
    pub(crate) rate: Timeline<u64>,
    /// Whether the server works; while it does not, it stands still.
    pub(crate) up: Timeline<bool>,
    /// Whether going down empties the queue.
    pub(crate) flush_when_down: bool,
}

/// When a packet leaves the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// At this time in nanoseconds.
    At(u64),
    /// The link goes down at this time and takes the packet with it.
    Flushed(u64),
    /// The server never works again.
    Never,
}

impl Varying {
    /// The rate in bit/s at `now`, which never decreases.
    fn rate_at(&mut self, now: u64) -> u64 {
        let rate = self.rate.at(now);
        if self.up.at(now) { rate } else { 0 }
    }

    /// The earliest time of its next change, in nanoseconds.
    pub(crate) fn until(&self) -> u64 {
        self.rate.until().min(self.up.until())
    }
}

impl Capacity {
    /// How much of the work that was unfinished at `from` is left at `to`, both in nanoseconds.
    #[inline]
    pub(crate) fn drain(&mut self, backlog: u64, from: u64, to: u64) -> u64 {
        match self {
            Self::Constant(rate) => backlog.saturating_sub(rate.bits_per_sec.saturating_mul(to - from)),
            Self::Varying(varying) => varying.drain(backlog, from, to),
        }
    }

    /// When work that is unfinished at `from` will be done if no other work goes before it.
    #[inline]
    pub(crate) fn departure(&self, backlog: u64, from: u64) -> Departure {
        match self {
            Self::Constant(rate) => Departure::At(from + rate.time_for(backlog)),
            Self::Varying(varying) => varying.departure(backlog, from),
        }
    }
}

impl Varying {
    /// After this many changes without progress the server counts as standing still for ever: a rate and an
    /// up/down timetable, each valid, can be combined so that the link is never up while it has a rate.
    pub(crate) const MAX_CHANGES: u32 = 10_000_000;

    fn drain(&mut self, mut backlog: u64, mut from: u64, to: u64) -> u64 {
        let mut rate = self.rate_at(from);
        while from < to {
            if backlog == 0 {
                // There is nothing to serve: only the position in the timetables has to advance.
                self.rate_at(to);
                return 0;
            }
            let end = self.until().min(to);
            backlog = backlog.saturating_sub(rate.saturating_mul(end - from));
            let was_up = self.up.value();
            rate = self.rate_at(end);
            if self.flush_when_down && was_up && !self.up.value() {
                backlog = 0;
            }
            from = end;
        }
        backlog
    }

    fn departure(&self, mut backlog: u64, mut from: u64) -> Departure {
        let mut ahead = self.clone();
        for _ in 0..Self::MAX_CHANGES {
            let rate = ahead.rate_at(from);
            let end = ahead.until();
            let done = rate.saturating_mul(end - from);
            if rate > 0 && backlog <= done {
                return Departure::At(from + backlog.div_ceil(rate));
            }
            if end == u64::MAX {
                return Departure::Never;
            }
            backlog -= done;
            let was_up = ahead.up.value();
            if self.flush_when_down && was_up && !ahead.up.at(end) {
                return Departure::Flushed(end);
            }
            from = end;
        }
        Departure::Never
    }
}

impl Serialize for RateConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scheduled(schedule) => schedule.serialize(serializer),
            Self::Mahimahi(trace) => {
                RateTable { mahimahi: Some(trace.clone()), ..RateTable::default() }.serialize(serializer)
            }
        }
    }
}

/// The table forms of a rate.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RateTable {
    /// Pairs of a time since the start of the run and the rate from then on; the first time is 0 s and
    /// the times increase.
    #[serde(skip_serializing_if = "Option::is_none")]
    timetable: Option<Vec<(Duration, Rate)>>,
    /// Start the timetable over after this time. By default, the last rate stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat: Option<Duration>,
    /// A file in Mahimahi's format: one line per opportunity to send 1500 bytes, its time in
    /// milliseconds; starts over after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    mahimahi: Option<TraceFile>,
}

impl<'de> Deserialize<'de> for RateConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

impl JsonSchema for RateConfig {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("RateConfig")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [generator.subschema_for::<Rate>(), generator.subschema_for::<RateTable>()],
        })
    }
}

struct RateVisitor;

impl<'de> Visitor<'de> for RateVisitor {
    type Value = RateConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate such as \"1 Mbit/s\", or a table with `timetable` or `mahimahi`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Rate::deserialize(text.into_deserializer())
            .map(|rate| RateConfig::Scheduled(Schedule::Constant(rate)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        match RateTable::deserialize(MapAccessDeserializer::new(map))? {
            RateTable { timetable: Some(timetable), repeat, mahimahi: None } => {
                Ok(RateConfig::Scheduled(Schedule::Timetable(Timetable { timetable, repeat })))
            }
            RateTable { timetable: None, repeat: None, mahimahi: Some(trace) } => {
                Ok(RateConfig::Mahimahi(trace))
            }
            _ => Err(de::Error::custom(
                "the rate's table has to have either `timetable`, with or without `repeat`, or `mahimahi` alone",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn varying(rate: &[(u64, u64)], up: &[(u64, bool)], flush_when_down: bool) -> Capacity {
        Capacity::Varying(Varying {
            rate: Timeline::new(rate.to_vec(), None).unwrap(),
            up: Timeline::new(up.to_vec(), None).unwrap(),
            flush_when_down,
        })
    }

    #[test]
    fn a_packet_leaves_at_the_first_nanosecond_by_which_it_is_sent() {
        // 1 byte at 3 bit/s takes 8/3 s.
        let capacity = Capacity::Constant(ConstantRate::new(3));
        assert_eq!(capacity.departure(UNITS_PER_BYTE, 10), Departure::At(10 + 2_666_666_667));
        // The remainder is kept: three bytes take 8 s, not 3 ns more.
        assert_eq!(capacity.departure(3 * UNITS_PER_BYTE, 10), Departure::At(10 + 8_000_000_000));
    }

    #[test]
    fn a_varying_rate_is_inverted() {
        let second = 1_000_000_000;
        let mut capacity = varying(&[(0, 8), (second, 16)], &[(0, true), (2 * second, false)], false);
        // Of 2 bytes, one leaves in the first second and one in the half second after it.
        assert_eq!(capacity.departure(2 * UNITS_PER_BYTE, 0), Departure::At(second + second / 2));
        assert_eq!(capacity.departure(3 * UNITS_PER_BYTE, 0), Departure::At(2 * second));
        assert_eq!(capacity.departure(4 * UNITS_PER_BYTE, 0), Departure::Never);
        assert_eq!(capacity.drain(4 * UNITS_PER_BYTE, 0, 10 * second), UNITS_PER_BYTE);
        let capacity = varying(&[(0, 8)], &[(0, true), (2 * second, false)], true);
        assert_eq!(capacity.departure(3 * UNITS_PER_BYTE, 0), Departure::Flushed(2 * second));
    }

    #[test]
    fn a_mahimahi_opportunity_ends_at_its_time() {
        let trace = TraceFile::parse("t", "1\n2\n2\n5\n").unwrap();
        let rate = RateConfig::Mahimahi(trace).timeline("rate").unwrap();
        let capacity =
            Capacity::Varying(Varying { rate, up: Timeline::constant(true), flush_when_down: false });
        let full = 1500 * UNITS_PER_BYTE;
        let millis = [1, 2, 3, 4, 5, 6, 7].map(|count| match capacity.departure(count * full, 0) {
            Departure::At(at) => at,
            other => panic!("{other:?}"),
        });
        assert_eq!(millis, [1_000_000, 1_500_000, 2_000_000, 5_000_000, 6_000_000, 6_500_000, 7_000_000]);
    }

    #[test]
    fn a_rate_has_one_form_at_a_time() {
        let error = serde_json::from_str::<RateConfig>(r#"{"repeat": "1 s"}"#).unwrap_err().to_string();
        assert!(error.contains("either `timetable`"), "{error}");
        let error = serde_json::from_str::<RateConfig>("\"-1 Mbit/s\"").unwrap_err().to_string();
        assert!(error.contains("`-1 Mbit/s` is not a rate"), "{error}");
        let error =
            serde_json::from_str::<RateConfig>(r#"{"mahimahi": "/nowhere"}"#).unwrap_err().to_string();
        assert!(error.contains("cannot read `/nowhere`"), "{error}");
    }

    proptest! {
        #[test]
        fn a_constant_rate_divides_exactly(rate in 1..=u64::MAX, units in any::<u64>(), shift in 0..64u32) {
            for rate in [rate, (rate >> shift).max(1)] {
                for units in [units, units >> shift, units / rate * rate, (units / rate * rate).saturating_add(1)] {
                    prop_assert_eq!(ConstantRate::new(rate).time_for(units), units.div_ceil(rate));
                }
            }
        }
    }
}
