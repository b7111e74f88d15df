//! Values of axes as results have them.

use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Probability, Rate};
use serde_json::Value;

/// A value of an axis as results have it.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisValue {
    /// A truth value.
    Flag(bool),
    /// A number; quantities are in base units: s, bit/s, B, shares.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// The kind of all values of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Number,
    Text,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flag => "a truth value",
            Self::Number => "a number",
            Self::Text => "text",
        }
    }
}

impl AxisValue {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Flag(_) => Kind::Flag,
            Self::Number(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
        }
    }
}

/// A value as the scenario writes it.
pub(super) fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The kinds of numbers.
const NUMBERS: [fn(&str) -> Option<f64>; 5] = [
    |text| text.parse().ok().filter(|number: &f64| number.is_finite()),
    |text| text.parse::<Duration>().ok().map(Duration::as_secs_f64),
    |text| text.parse::<Rate>().ok().map(|rate| rate.bits_per_sec() as f64),
    |text| text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64),
    |text| text.parse::<Probability>().ok().map(Probability::get),
];

/// A number or quantity in base units.
pub(super) fn base_number(text: &str) -> Option<f64> {
    NUMBERS.iter().find_map(|number| number(text))
}

/// The values of an axis: numbers if all are numbers or quantities of one kind, truth values if all are, text
/// otherwise. Each has its text in the scenario and, if it has one, its value.
pub(super) fn axis_values(labels: &[String], flags: &[Option<bool>]) -> Vec<AxisValue> {
    if let Some(flags) = flags.iter().copied().collect::<Option<Vec<_>>>()
        && !flags.is_empty()
    {
        return flags.into_iter().map(AxisValue::Flag).collect();
    }
    NUMBERS
        .iter()
        .find_map(|number| labels.iter().map(|label| number(label)).collect::<Option<Vec<_>>>())
        .map_or_else(
            || labels.iter().cloned().map(AxisValue::Text).collect(),
            |numbers| numbers.into_iter().map(AxisValue::Number).collect(),
        )
}
