//! Parameters that follow a timetable, and the files that traces are read from.
//!
//! A parameter is written as a plain value, `"1 Mbit/s"`, or as
//! `{ timetable = [["0 s", "1 Mbit/s"], ["10 s", "2 Mbit/s"]], repeat = "20 s" }`. Timetables are
//! known in advance, so that a link can compute a departure in the future.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use anabranch_transport::time::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::text_file;

/// A parameter: one value, or a timetable of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule<T> {
    /// The same value throughout.
    Constant(T),
    /// A value from each of these times on.
    Timetable(Timetable<T>),
}

/// Values and the times from which they hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{T}Timetable")]
pub struct Timetable<T> {
    /// Pairs of a time since the start of the run and the value from then on; the first time is 0 s and
    /// the times increase.
    pub timetable: Vec<(Duration, T)>,
    /// Start over after this time, which is longer than the last time of the timetable. By default, the last
    /// value stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Duration>,
}

impl<T: Default> Default for Schedule<T> {
    fn default() -> Self {
        Self::Constant(T::default())
    }
}

impl<T: Copy> Schedule<T> {
    /// Every value that the parameter takes.
    pub fn values(&self) -> impl Iterator<Item = T> {
        let (one, many) = match self {
            Self::Constant(value) => (Some(*value), [].as_slice()),
            Self::Timetable(table) => (None, table.timetable.as_slice()),
        };
        one.into_iter().chain(many.iter().map(|&(_, value)| value))
    }

    /// A schedule with the same times, and with values computed from these.
    pub(crate) fn map<V: Copy>(&self, value_of: impl Fn(T) -> V) -> Schedule<V> {
        match self {
            Self::Constant(value) => Schedule::Constant(value_of(*value)),
            Self::Timetable(table) => Schedule::Timetable(Timetable {
                timetable: table.timetable.iter().map(|&(from, value)| (from, value_of(value))).collect(),
                repeat: table.repeat,
            }),
        }
    }

    /// The value at a time of a timetable's first cycle.
    pub(crate) fn first_at(&self, at: Duration) -> T {
        match self {
            Self::Constant(value) => *value,
            Self::Timetable(table) => {
                let after = table.timetable.partition_point(|&(from, _)| from <= at);
                table.timetable[after - 1].1
            }
        }
    }

    /// The parameter as a function of time. `key` names it in messages.
    pub(crate) fn timeline(&self, key: &str) -> Result<Timeline<T>, String> {
        match self {
            Self::Constant(value) => Ok(Timeline::constant(*value)),
            Self::Timetable(table) => {
                let steps = table.timetable.iter().map(|&(from, value)| (from.as_nanos(), value)).collect();
                Timeline::new(steps, table.repeat.map(Duration::as_nanos))
                    .map_err(|what| format!("{key}: {what}"))
            }
        }
    }
}

/// The times at which any of several parameters changes, for values that depend on all of them.
#[derive(Default)]
pub(crate) struct Changes {
    /// The times in nanoseconds.
    times: Vec<u64>,
    /// The first parameter with a timetable, and when that starts over.
    repeat: Option<(String, Option<Duration>)>,
}

impl Changes {
    /// Adds a parameter, `name` below `key` in messages.
    pub(crate) fn add<T: Copy>(
        &mut self,
        schedule: &Schedule<T>,
        key: &str,
        name: &str,
    ) -> Result<(), String> {
        let Schedule::Timetable(table) = schedule else { return Ok(()) };
        let key = format!("{key}.{name}");
        schedule.timeline(&key)?;
        let (other, repeat) = self.repeat.get_or_insert_with(|| (key.clone(), table.repeat));
        if *repeat != table.repeat {
            let text =
                |repeat: Option<Duration>| repeat.map_or("not given".into(), |repeat| repeat.to_string());
            return Err(format!(
                "{key}: repeat is {}, it has to be that of {other}, which is {}",
                text(table.repeat),
                text(*repeat)
            ));
        }
        self.times.extend(table.timetable.iter().map(|(from, _)| from.as_nanos()));
        Ok(())
    }

    /// A value that depends on the parameters, as a function of time.
    pub(crate) fn timeline<V: Copy>(
        mut self,
        mut value_from: impl FnMut(Duration) -> Result<V, String>,
    ) -> Result<Timeline<V>, String> {
        self.times.push(0);
        self.times.sort_unstable();
        self.times.dedup();
        let steps = self.times.iter().map(|&at| Ok((at, value_from(Duration::from_nanos(at))?)));
        let repeat = self.repeat.and_then(|(_, repeat)| repeat);
        Timeline::new(steps.collect::<Result<_, String>>()?, repeat.map(Duration::as_nanos))
    }
}

/// The words for a message that say from when a value holds, unless it is from the start.
pub(crate) fn from_words(from: Duration) -> String {
    if from == Duration::ZERO { String::new() } else { format!(" from {from} on") }
}

/// A parameter as a function of time, read forwards.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<T> {
    /// Times in nanoseconds, which increase from 0, and the value from each of them on.
    steps: Arc<[(u64, T)]>,
    /// Length of a cycle in nanoseconds; `u64::MAX` if it does not repeat.
    period: u64,
    cycle_start: u64,
    index: usize,
    value: T,
    /// When `value` ceases to hold, in nanoseconds.
    until: u64,
}

impl<T: Copy> Timeline<T> {
    pub(crate) fn constant(value: T) -> Self {
        let steps = Arc::from([(0, value)]);
        Self { steps, period: u64::MAX, cycle_start: 0, index: 0, value, until: u64::MAX }
    }

    pub(crate) fn new(steps: Vec<(u64, T)>, repeat: Option<u64>) -> Result<Self, String> {
        let Some(&(first, value)) = steps.first() else {
            return Err("the timetable is empty, it needs at least the value from \"0 s\" on".into());
        };
        if first != 0 {
            return Err(format!(
                "the timetable starts at {}, it has to start at \"0 s\"",
                Duration::from_nanos(first)
            ));
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(format!(
                "the timetable goes from {} to {}, its times have to increase",
                Duration::from_nanos(pair[0].0),
                Duration::from_nanos(pair[1].0)
            ));
        }
        let last = steps[steps.len() - 1].0;
        if let Some(repeat) = repeat.filter(|&repeat| repeat <= last) {
            return Err(format!(
                "repeat is {}, it has to be longer than the timetable's last time {}",
                Duration::from_nanos(repeat),
                Duration::from_nanos(last)
            ));
        }
        let period = repeat.unwrap_or(u64::MAX);
        let until = steps.get(1).map_or(period, |&(from, _)| from);
        Ok(Self { steps: steps.into(), period, cycle_start: 0, index: 0, value, until })
    }

    /// Every value that it takes.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.steps.iter().map(|(_, value)| value)
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.steps.len() == 1
    }

    /// The value at `now` (nanoseconds), which never decreases.
    #[inline]
    pub(crate) fn at(&mut self, now: u64) -> T {
        if now >= self.until {
            self.advance(now);
        }
        self.value
    }

    /// The value at the time last asked for.
    #[inline]
    pub(crate) fn value(&self) -> T {
        self.value
    }

    /// The current value, by reference.
    #[inline]
    pub(crate) fn current(&self) -> &T {
        &self.value
    }

    /// When the value may change next, in nanoseconds; `u64::MAX` if it does not.
    #[inline]
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    #[cold]
    fn advance(&mut self, now: u64) {
        if self.period != u64::MAX {
            let cycles = (now - self.cycle_start) / self.period;
            if cycles > 0 {
                self.cycle_start += cycles * self.period;
                self.index = 0;
            }
        }
        let offset = now - self.cycle_start;
        while self.steps.get(self.index + 1).is_some_and(|&(from, _)| from <= offset) {
            self.index += 1;
        }
        self.value = self.steps[self.index].1;
        let end = self.steps.get(self.index + 1).map_or(self.period, |&(from, _)| from);
        self.until = self.cycle_start.saturating_add(end);
    }
}

/// A limit: a trace of a day at 1 Gbit/s is about as large.
const MAX_FILE_MEGABYTES: u64 = 1000;

/// A file of whole numbers, one per line, read when the scenario is loaded. Written as its path.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    path: String,
    numbers: Arc<[u64]>,
}

impl TraceFile {
    /// Reads a trace.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or has a line that is not a whole number.
    pub fn read(path: &str) -> Result<Self, String> {
        let text = text_file::read(Path::new(path), MAX_FILE_MEGABYTES)?;
        Self::parse(path, &text)
    }

    /// Takes a trace's text as if it had been read from `path`; empty lines and lines that start with `#`
    /// are skipped.
    ///
    /// # Errors
    /// When there is no number, or a line is not a whole number.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let mut numbers = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = line.parse().map_err(|_| {
                format!(
                    "line {} of the trace `{path}` is `{line}`, every line has to be a whole number",
                    index + 1
                )
            })?;
            numbers.push(number);
        }
        if numbers.is_empty() {
            return Err(format!("the trace `{path}` is empty, it needs at least one line with a number"));
        }
        Ok(Self { path: path.to_owned(), numbers: numbers.into() })
    }

    /// Where it was read from.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its numbers, in order.
    pub(crate) fn numbers(&self) -> &Arc<[u64]> {
        &self.numbers
    }
}

impl Serialize for TraceFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.path)
    }
}

impl<'de> Deserialize<'de> for TraceFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = String::deserialize(deserializer)?;
        Self::read(&path).map_err(de::Error::custom)
    }
}

impl JsonSchema for TraceFile {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("TraceFile")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The path of a file with one whole number per line.",
        })
    }
}

impl<T: Serialize> Serialize for Schedule<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(value) => value.serialize(serializer),
            Self::Timetable(table) => table.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Schedule<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScheduleVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Schedule<T> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("{}Schedule", T::schema_name()))
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [generator.subschema_for::<T>(), generator.subschema_for::<Timetable<T>>()],
        })
    }
}

/// Tells a plain value from a timetable by its form, so that an error message is about the form that was
/// used.
struct ScheduleVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ScheduleVisitor<T> {
    type Value = Schedule<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a table with `timetable`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(Schedule::Constant)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Schedule::Constant)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Schedule::Constant)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Schedule::Constant)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Schedule::Constant)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Timetable::deserialize(MapAccessDeserializer::new(map)).map(Schedule::Timetable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(steps: &[(u64, u32)], repeat: Option<u64>) -> Timeline<u32> {
        Timeline::new(steps.to_vec(), repeat).unwrap()
    }

    #[test]
    fn the_last_value_stays_or_the_table_repeats() {
        let mut once = timeline(&[(0, 1), (10, 2)], None);
        assert_eq!([0, 9, 10, 1000].map(|now| once.at(now)), [1, 1, 2, 2]);
        assert_eq!(once.until(), u64::MAX);
        let mut repeated = timeline(&[(0, 1), (10, 2)], Some(15));
        assert_eq!([0, 9, 10, 14, 15, 25, 151, 160].map(|now| repeated.at(now)), [1, 1, 2, 2, 1, 2, 1, 2]);
        assert_eq!(repeated.until(), 165);
    }

    #[test]
    fn a_message_names_what_was_found() {
        let error = |steps: &[(u64, u32)], repeat| Timeline::new(steps.to_vec(), repeat).unwrap_err();
        assert!(error(&[], None).contains("empty"));
        assert!(error(&[(1, 1)], None).contains("starts at 1 ns"));
        assert!(error(&[(0, 1), (5, 1), (5, 2)], None).contains("from 5 ns to 5 ns"));
        assert!(error(&[(0, 1), (5, 1)], Some(5)).contains("repeat is 5 ns"));
        assert!(
            TraceFile::parse("x", "1\nzwei\n").unwrap_err().contains("line 2 of the trace `x` is `zwei`")
        );
        assert!(TraceFile::parse("x", "# nothing\n").unwrap_err().contains("empty"));
        assert!(TraceFile::read("/nowhere/at/all").unwrap_err().contains("cannot read `/nowhere/at/all`"));
    }

    #[test]
    fn plain_values_and_timetables_parse() {
        let plain: Schedule<Duration> = serde_json::from_str("\"20 ms\"").unwrap();
        assert_eq!(plain, Schedule::Constant(Duration::from_millis(20)));
        let table: Schedule<bool> =
            serde_json::from_str(r#"{"timetable": [["0 s", true], ["1 s", false]], "repeat": "2 s"}"#)
                .unwrap();
        let mut table = table.timeline("up").unwrap();
        assert!(table.at(0) && !table.at(1_500_000_000) && table.at(2_000_000_000));
        let error = serde_json::from_str::<Schedule<Duration>>("\"20 parsecs\"").unwrap_err().to_string();
        assert!(error.contains("`20 parsecs` is not a length of time"), "{error}");
        let error =
            serde_json::from_str::<Schedule<Duration>>(r#"{"timtable": []}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `timtable`"), "{error}");
    }
}
