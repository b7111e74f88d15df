//! The settings of a link over satellites in low orbit.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use anabranch_transport::time::Duration;
use anabranch_transport::units::{Probability, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::schedule::TraceFile;

/// A link over satellites in low orbit. Its first end is the ground station: forward is downlink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeoConfig {
    /// Time between two choices of satellites, from 1 s to 1 h; default "15 s".
    pub period: Duration,
    /// When the first choice after the start of the run takes effect, less than the period; default "12 s",
    /// as Starlink's are 12, 27, 42 and 57 s after each full minute.
    pub offset: Duration,
    /// Towards the dish; by default 50 to 200 Mbit/s and 14 to 20 ms.
    pub downlink: LeoWay,
    /// From the dish; by default 10 to 25 Mbit/s and 20 to 30 ms.
    pub uplink: LeoWay,
}

impl Default for LeoConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(15),
            offset: Duration::from_secs(12),
            downlink: LeoWay::default(),
            uplink: LeoWay::default(),
        }
    }
}

/// One direction of such a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeoWay {
    /// Rate in each period: a value, `{ between = [A, B] }` (drawn evenly), `{ values = [...] }` one after
    /// the other, or `{ file = "periods.txt" }` with a line for each period in kbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PerPeriod<Rate>>,
    /// Delay in each period, likewise; the lines of a file are in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<PerPeriod<Duration>>,
    /// What happens when a period begins; its delay is 140 ms by default.
    pub begin: LeoBorder,
    /// What happens before a period ends; its delay is 75 ms by default.
    pub end: LeoBorder,
}

/// What happens at the border of two periods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeoBorder {
    /// The longest delay, of a packet that comes when the border begins, up to 10 s. One below the period's
    /// has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Over which length the delay falls evenly to the period's. By default the link stands still instead,
    /// for as long as makes that delay, and packets wait in its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Duration>,
    /// Probability that a packet is lost meanwhile; default 0. Published measurements disagree, from none to
    /// a half.
    pub loss: Probability,
}

/// A quantity that has one value in each period.
#[derive(Clone, Debug, PartialEq)]
pub enum PerPeriod<T> {
    /// The same in all of them.
    Same(T),
    /// Drawn for each, evenly between the two.
    Between([T; 2]),
    /// One after the other, and then from the first one again.
    Values(Vec<T>),
    /// The same, from a file.
    File(TraceFile),
}

/// The table forms of such a quantity.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{T}PerPeriodTable")]
struct Table<T> {
    /// Two values, the lower one first: each period's is drawn evenly between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    between: Option<[T; 2]>,
    /// One value for each period; they start over after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<T>>,
    /// A file with a whole number for each period; it starts over after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<TraceFile>,
}

impl<T: Serialize + Clone> Serialize for PerPeriod<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = Table { between: None, values: None, file: None };
        match self.clone() {
            Self::Same(value) => return value.serialize(serializer),
            Self::Between(between) => Table { between: Some(between), ..none },
            Self::Values(values) => Table { values: Some(values), ..none },
            Self::File(file) => Table { file: Some(file), ..none },
        }
        .serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerPeriod<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PerPeriodVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for PerPeriod<T> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("{}PerPeriod", T::schema_name()))
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [generator.subschema_for::<T>(), generator.subschema_for::<Table<T>>()],
        })
    }
}

/// Tells a plain value from a table by its form.
struct PerPeriodVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PerPeriodVisitor<T> {
    type Value = PerPeriod<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a table with `between`, `values` or `file`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(PerPeriod::Same)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table { between: Some(between), values: None, file: None } => Ok(PerPeriod::Between(between)),
            Table { between: None, values: Some(values), file: None } => Ok(PerPeriod::Values(values)),
            Table { between: None, values: None, file: Some(file) } => Ok(PerPeriod::File(file)),
            _ => Err(de::Error::custom(
                "a quantity by period has to have one of `between`, `values` and `file`",
            )),
        }
    }
}
