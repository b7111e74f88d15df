//! Sweeps: which settings vary, and how often each cell is repeated.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ScenarioError, edit};
use crate::time::Duration;
use crate::units::{Bytes, Probability, Rate};

/// A full factorial sweep: every combination of the axes' values is a cell.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// How often each cell is run, each time with other random numbers; the same ones in every cell.
    /// Default: 1.
    pub replications: u64,
    /// Which scalars are kept of every run: names in which `*` stands for anything, such as `call.*`.
    /// Default: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The axes, by name; the last one varies fastest.
    pub axes: IndexMap<String, Axis>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { replications: 1, metrics: Vec::new(), axes: IndexMap::new() }
    }
}

/// One axis of a sweep: one setting that takes several values, or several settings that change
/// together.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The dotted path of the setting, or several of them that take the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<OneOrMore>,
    /// The values of the setting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<Value>,
    /// Instead of `set` and `values`: named groups of settings, dotted path to value.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    cases: IndexMap<String, IndexMap<String, Value>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`set` is a dotted path such as \"links.a.rate\", or a list of them")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

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

impl Sweep {
    /// Whether a scalar is kept.
    pub fn keeps(&self, metric: &str) -> bool {
        self.metrics.is_empty() || self.metrics.iter().any(|pattern| matches(pattern, metric))
    }

    /// The number of cells: the product of the axes' lengths, 1 without axes.
    pub fn cell_count(&self) -> u64 {
        self.axes.values().map(|axis| axis.len() as u64).product()
    }

    /// The position on each axis of a cell.
    pub fn positions(&self, cell: u64) -> Vec<usize> {
        let mut rest = cell;
        let mut positions: Vec<usize> = self
            .axes
            .values()
            .rev()
            .map(|axis| {
                let position = rest % axis.len() as u64;
                rest /= axis.len() as u64;
                position as usize
            })
            .collect();
        positions.reverse();
        positions
    }

    /// The cell at this position of one axis and the first position of the others.
    pub(super) fn cell_at(&self, axis: usize, position: usize) -> u64 {
        let stride: u64 = self.axes.values().skip(axis + 1).map(|axis| axis.len() as u64).product();
        stride * position as u64
    }

    pub(super) fn choices(&self, cell: u64) -> impl Iterator<Item = Choice<'_>> {
        self.axes.values().zip(self.positions(cell)).map(|(axis, position)| Choice { axis, position })
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let error = |key: String, what: &str| Err(ScenarioError::new(format!("sweep.{key}: {what}")));
        if self.replications == 0 {
            return error("replications".into(), "0 is too few; use 1 or more");
        }
        let mut cells = 1_u64;
        for (name, axis) in &self.axes {
            let key = format!("axes.{name}");
            if !edit::is_name(name) {
                return error(key, "not a name; use letters, digits, `-` and `_`");
            }
            if axis.len() == 0 {
                return error(key, "the axis is empty; give it `values` or `cases`");
            }
            if axis.set.is_some() == axis.values.is_empty() || axis.set.is_some() != axis.cases.is_empty() {
                return error(key, "an axis has either `set` with `values`, or `cases`");
            }
            cells = match cells.checked_mul(axis.len() as u64) {
                Some(cells) if cells <= 1 << 40 => cells,
                _ => return error(key, "the sweep has more than 2^40 cells; use fewer values"),
            };
        }
        Ok(())
    }
}

/// Whether a name fits a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|mut tail| {
            loop {
                if matches(rest, tail) {
                    return true;
                }
                let mut characters = tail.chars();
                if characters.next().is_none() {
                    return false;
                }
                tail = characters.as_str();
            }
        }),
    }
}

impl Axis {
    /// How many values the axis has.
    #[allow(clippy::len_without_is_empty, reason = "an empty axis is an error, not a case")]
    pub fn len(&self) -> usize {
        self.values.len() + self.cases.len()
    }

    /// The values as the scenario writes them.
    pub fn labels(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.values.iter().map(text).chain(self.cases.keys().cloned()).collect()
    }

    /// The values as results have them: numbers where all are numbers or quantities of one kind, truth
    /// values where all are, text otherwise.
    pub fn values(&self) -> Vec<AxisValue> {
        if let Some(flags) = self.values.iter().map(Value::as_bool).collect::<Option<Vec<_>>>()
            && !flags.is_empty()
        {
            return flags.into_iter().map(AxisValue::Flag).collect();
        }
        let labels = self.labels();
        let kinds: [fn(&str) -> Option<f64>; 5] = [
            |text| text.parse().ok().filter(|number: &f64| number.is_finite()),
            |text| text.parse::<Duration>().ok().map(Duration::as_secs_f64),
            |text| text.parse::<Rate>().ok().map(|rate| rate.bits_per_sec() as f64),
            |text| text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64),
            |text| text.parse::<Probability>().ok().map(Probability::get),
        ];
        kinds
            .iter()
            .find_map(|number| labels.iter().map(|label| number(label)).collect::<Option<Vec<_>>>())
            .map_or_else(
                || labels.iter().cloned().map(AxisValue::Text).collect(),
                |numbers| numbers.into_iter().map(AxisValue::Number).collect(),
            )
    }
}

/// One value of one axis.
pub(super) struct Choice<'a> {
    axis: &'a Axis,
    position: usize,
}

impl Choice<'_> {
    pub(super) fn apply(&self, tree: &mut Value) -> Result<(), ScenarioError> {
        let mut set = |path: &str, value: &Value| edit::set(tree, path, value.clone());
        if let Some((_, case)) = self.axis.cases.get_index(self.position) {
            return case.iter().try_for_each(|(path, value)| set(path, value));
        }
        let value = &self.axis.values[self.position];
        match self.axis.set.as_ref().expect("an axis with values has paths") {
            OneOrMore::One(path) => set(path, value),
            OneOrMore::More(paths) => paths.iter().try_for_each(|path| set(path, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str) -> Sweep {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_last_axis_varies_fastest() {
        let sweep =
            sweep("axes.a = { set = 'x', values = [1, 2] }\naxes.b = { set = 'y', values = [1, 2, 3] }");
        assert_eq!(sweep.cell_count(), 6);
        assert_eq!(sweep.positions(0), [0, 0]);
        assert_eq!(sweep.positions(1), [0, 1]);
        assert_eq!(sweep.positions(5), [1, 2]);
        assert_eq!(sweep.positions(sweep.cell_at(0, 1)), [1, 0]);
    }

    #[test]
    fn values_are_numbers_in_base_units() {
        let numbers = |text: &str| sweep(text).axes["a"].values();
        let number = AxisValue::Number;
        assert_eq!(
            numbers("axes.a = { set = 'x', values = ['10 s', '20 ms'] }"),
            [number(10.0), number(0.02)]
        );
        assert_eq!(numbers("axes.a = { cases.'2 %' = {}, cases.'10 %' = {} }"), [number(0.02), number(0.1)]);
        assert_eq!(numbers("axes.a = { set = 'x', values = [true] }"), [AxisValue::Flag(true)]);
        let text = AxisValue::Text;
        assert_eq!(
            numbers("axes.a = { set = 'x', values = ['off', '1 s'] }"),
            [text("off".into()), text("1 s".into())]
        );
    }

    #[test]
    fn metrics_are_patterns() {
        let sweep = sweep("metrics = ['call.*', 'link.*.lost']");
        assert!(sweep.keeps("call.mos") && sweep.keeps("link.p0.forward.lost"));
        assert!(!sweep.keeps("caller.mos") && !sweep.keeps("link.p0.forward.lost_packets"));
        assert!(Sweep::default().keeps("anything"));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| sweep(text).check().unwrap_err().to_string();
        assert_eq!(
            message("axes.a = { set = 'x', values = [] }"),
            "sweep.axes.a: the axis is empty; give it `values` or `cases`"
        );
        assert!(message("axes.a = { values = [1] }").contains("either `set` with `values`, or `cases`"));
        assert!(message("axes.a = { set = 'x', values = [1], cases.b = {} }").contains("either"));
        assert!(message("replications = 0").contains("use 1 or more"));
    }
}
