//! The values of an axis and what each of them sets.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::config::Axis;
use super::range::Scale;
use super::value::{AxisValue, axis_values, label};
use crate::scenario::{ScenarioError, edit};

/// An axis whose values are known.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    pub(super) name: String,
    paths: Vec<String>,
    /// The values of an axis with paths; an axis without paths has cases.
    values: Vec<Value>,
    cases: IndexMap<String, IndexMap<String, Value>>,
}

impl Levels {
    /// The axis with the values that its definition gives it. An axis of a design has both ends of its range.
    pub(super) fn of(key: &str, name: &str, axis: &Axis, is_of_design: bool) -> Result<Self, ScenarioError> {
        let error = |what: String| Err(ScenarioError::new(format!("{key}: {what}")));
        if axis.set.as_ref().is_some_and(|set| set.paths().is_empty()) {
            return error("`set` is empty; name the setting that takes the values".into());
        }
        let given = [!axis.values.is_empty(), axis.range.is_some(), axis.log_range.is_some()];
        let given = given.iter().filter(|&&is_given| is_given).count();
        if given + axis.cases.len() == 0 {
            return error("the axis is empty; give it `values`, `range`, `log_range` or `cases`".into());
        }
        if given != usize::from(axis.set.is_some()) || axis.set.is_some() != axis.cases.is_empty() {
            return error(
                "an axis has either `set` with one of `values`, `range` and `log_range`, or `cases`".into(),
            );
        }
        let below = |part: &str, error: &str| ScenarioError::new(format!("{key}.{part}.{error}"));
        let both = "give it either `step` or `count`";
        let neither = "the design chooses the values; leave out `step` and `count`";
        let values = if let Some(range) = &axis.range {
            let wrong = |error: String| below("range", &error);
            let scale = Scale::linear(range).map_err(wrong)?;
            match (&range.step, range.count, is_of_design) {
                (None, None, true) => scale.ends(),
                (Some(step), None, false) => scale.steps(step).map_err(wrong)?,
                (None, Some(count), false) => scale.count(count).map_err(wrong)?,
                (_, _, true) => return error(format!("range: {neither}")),
                (_, _, false) => return error(format!("range: {both}")),
            }
        } else if let Some(range) = &axis.log_range {
            let wrong = |error: String| below("log_range", &error);
            let scale = Scale::logarithmic(range).map_err(wrong)?;
            match (range.count, is_of_design) {
                (None, true) => scale.ends(),
                (Some(count), false) => scale.count(count).map_err(wrong)?,
                (Some(_), true) => return error(format!("log_range: {neither}")),
                (None, false) => return error("log_range: give it `count`".into()),
            }
        } else {
            axis.values.clone()
        };
        let mut seen = BTreeMap::new();
        for (index, value) in values.iter().enumerate() {
            if let Some(first) = seen.insert(value.to_string(), index) {
                return error(format!(
                    "values {first} and {index} are both `{}`; leave one out",
                    label(value)
                ));
            }
        }
        Ok(Self { values, ..Self::without_values(name, axis) })
    }

    /// The axis with the values that these cells have, and their positions.
    pub(super) fn in_cells(
        key: &str,
        name: &str,
        axis: &Axis,
        cells: &[IndexMap<String, Value>],
    ) -> Result<(Self, Vec<Option<u32>>), ScenarioError> {
        let mut levels = Self::without_values(name, axis);
        // Take all values that a design lists: their kind must not depend on which of them its points have.
        levels.values.clone_from(&axis.values);
        let mut seen: BTreeMap<String, u32> =
            axis.values.iter().zip(0..).map(|(value, position)| (value.to_string(), position)).collect();
        let mut positions = Vec::with_capacity(cells.len());
        for (index, cell) in cells.iter().enumerate() {
            let Some(value) = cell.get(name) else {
                positions.push(None);
                continue;
            };
            if !levels.cases.is_empty() {
                let position = value.as_str().and_then(|name| levels.cases.get_index_of(name));
                let Some(position) = position else {
                    return Err(ScenarioError::new(format!(
                        "{key}.cells.{index}.{name}: `{}` is none of its cases; there are {}",
                        label(value),
                        quoted(levels.cases.keys())
                    )));
                };
                positions.push(Some(position as u32));
                continue;
            }
            let next = levels.values.len() as u32;
            let position = *seen.entry(value.to_string()).or_insert(next);
            if position == next {
                levels.values.push(value.clone());
            }
            positions.push(Some(position));
        }
        Ok((levels, positions))
    }

    fn without_values(name: &str, axis: &Axis) -> Self {
        let paths = axis.set.as_ref().map_or(&[][..], |set| set.paths());
        Self { name: name.to_owned(), paths: paths.to_vec(), values: Vec::new(), cases: axis.cases.clone() }
    }

    pub(super) fn len(&self) -> usize {
        if self.cases.is_empty() { self.values.len() } else { self.cases.len() }
    }

    /// The values as the scenario writes them.
    pub(super) fn labels(&self) -> Vec<String> {
        if self.cases.is_empty() {
            self.values.iter().map(label).collect()
        } else {
            self.cases.keys().cloned().collect()
        }
    }

    /// For each value, the truth value if it is one.
    pub(super) fn flags(&self) -> Vec<Option<bool>> {
        if self.cases.is_empty() {
            self.values.iter().map(Value::as_bool).collect()
        } else {
            vec![None; self.cases.len()]
        }
    }

    pub(super) fn axis_values(&self) -> Vec<AxisValue> {
        axis_values(&self.labels(), &self.flags())
    }

    /// Whether each value sets this path, or a table that it is in.
    pub(super) fn sets(&self, path: &str) -> bool {
        let covers = |set: &String| {
            path.strip_prefix(set.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.cases.is_empty() {
            self.paths.iter().any(covers)
        } else {
            self.cases.values().all(|case| case.keys().any(covers))
        }
    }

    /// Makes the settings of one value.
    pub(super) fn apply(&self, position: usize, tree: &mut Value) -> Result<(), ScenarioError> {
        if let Some((_, case)) = self.cases.get_index(position) {
            return case.iter().try_for_each(|(path, value)| edit::set(tree, path, value.clone()));
        }
        let value = &self.values[position];
        self.paths.iter().try_for_each(|path| edit::set(tree, path, value.clone()))
    }
}

/// The value of an axis at a share of the way through it, from 0 to below 1.
pub(super) fn at_share(axis: &Axis, share: f64) -> Result<Value, String> {
    if let Some(range) = &axis.range {
        return Ok(Scale::linear(range)?.at(share));
    }
    if let Some(range) = &axis.log_range {
        return Ok(Scale::logarithmic(range)?.at(share));
    }
    let choose = |count: usize| ((share * count as f64) as usize).min(count - 1);
    Ok(match axis.cases.get_index(choose(axis.cases.len().max(1))) {
        Some((name, _)) => Value::String(name.clone()),
        None => axis.values[choose(axis.values.len())].clone(),
    })
}

/// Names as a message lists them.
pub(super) fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.is_empty() { "none".to_owned() } else { names }
}
