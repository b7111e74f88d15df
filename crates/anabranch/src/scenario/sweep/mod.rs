//! Sweeps: which settings vary, and how often each cell is repeated.
//!
//! [`Config`] is what the scenario file says; a [`Sweep`] knows its cells. They are numbered: first those of
//! the sweep's own axes, then those of each sub-study ([`Part`]).

mod axis;
mod condition;
mod config;
mod part;
mod range;
mod value;

use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Value, json};

pub use config::{Axis, Config, Design, DesignKind, Level, LogRange, OneOrMore, Range, StudyConfig, Until};
pub use part::Part;
pub use value::AxisValue;

use super::{ScenarioError, edit, files};
use crate::trace;
use part::{Definition, MAIN, MOST_CELLS};

/// A sweep whose cells are known.
#[derive(Clone, Debug)]
pub struct Sweep {
    config: Config,
    parts: Vec<Part>,
    /// The first cell of each part.
    starts: Vec<u64>,
    columns: Vec<AxisColumn>,
    /// For each axis of each part: its column, and the index of each of its values there.
    places: Vec<Vec<(usize, Vec<usize>)>>,
}

/// An axis as results have it: the values of all parts that have an axis of this name.
#[derive(Clone, Debug)]
pub struct AxisColumn {
    /// The axis's name.
    pub name: String,
    /// The values as the scenario writes them.
    pub labels: Vec<String>,
    /// The values as results have them: numbers where all are numbers or quantities of one kind, truth
    /// values where all are, text otherwise.
    pub values: Vec<AxisValue>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self::new(Config::default()).expect("one cell, one replication")
    }
}

impl Sweep {
    /// The cells of a sweep.
    ///
    /// # Errors
    /// One sentence that says what does not go together.
    pub fn new(mut config: Config) -> Result<Self, ScenarioError> {
        check_names(&config)?;
        config.put_in_order();
        let main = Definition::of_sweep(&config);
        let mut parts = Vec::new();
        if main.has_cells() || config.studies.is_empty() {
            parts.push(Part::new(main)?);
        } else {
            main.check_numbers()?;
        }
        for (name, study) in &config.studies {
            let key = format!("sweep.studies.{name}");
            parts.push(Part::new(Definition::of_study(&key, name, study, &config))?);
        }
        let mut starts = Vec::with_capacity(parts.len());
        let mut cells = 0;
        for part in &parts {
            starts.push(cells);
            cells += part.cell_count();
        }
        if cells > MOST_CELLS {
            return Err(ScenarioError::new(
                "sweep.studies: they have more than 2^40 cells; use fewer values",
            ));
        }
        let (columns, places) = columns(&parts);
        Ok(Self { config, parts, starts, columns, places })
    }

    /// The sweep as the scenario file has it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a scalar is kept.
    pub fn keeps(&self, metric: &str) -> bool {
        self.config.metrics.is_empty() || self.config.metrics.iter().any(|pattern| matches(pattern, metric))
    }

    /// The number of cells: 1 without axes, 0 while a design has no points yet.
    pub fn cell_count(&self) -> u64 {
        self.parts.iter().map(Part::cell_count).sum()
    }

    /// The sweep's own cells, if it has any, and its sub-studies in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The axes of all parts, in the order in which they are met.
    pub fn columns(&self) -> &[AxisColumn] {
        &self.columns
    }

    /// The part to which a cell belongs, and the first cell of that part.
    pub fn part_of(&self, cell: u64) -> (&Part, u64) {
        let (part, start) = self.locate(cell);
        (&self.parts[part], start)
    }

    /// Name and value of the axes that a cell has.
    pub fn key(&self, cell: u64) -> Vec<(&str, &AxisValue)> {
        let (part, start) = self.locate(cell);
        let positions = self.parts[part].positions(cell - start);
        let value = |(position, (column, places)): (Option<usize>, &(usize, Vec<usize>))| {
            let column = &self.columns[*column];
            Some((column.name.as_str(), &column.values[places[position?]]))
        };
        positions.into_iter().zip(&self.places[part]).filter_map(value).collect()
    }

    fn locate(&self, cell: u64) -> (usize, u64) {
        // Parts without cells begin where the next part begins; the last of these has the cell.
        let part = self.starts.partition_point(|&start| start <= cell).max(1) - 1;
        (part, self.starts[part])
    }

    /// Makes the settings of a cell.
    pub(crate) fn apply(&self, cell: u64, tree: &mut Value) -> Result<(), ScenarioError> {
        let (part, start) = self.part_of(cell);
        part.apply(cell - start, tree)
    }

    /// Checks that each of these settings of the base scenario reaches a cell: that no axis sets the same in
    /// all of them.
    ///
    /// # Errors
    /// The first setting that reaches none.
    pub fn check_reached(&self, sets: &[(String, String)]) -> Result<(), ScenarioError> {
        for (path, _) in sets {
            let setters: Option<Vec<String>> = self.parts.iter().map(|part| part.setter_of(path)).collect();
            if let Some([first, ..]) = setters.as_deref() {
                return Err(ScenarioError::new(format!(
                    "{path}: it changes nothing, since `{first}` sets it in every cell; change the values there"
                )));
            }
        }
        Ok(())
    }

    /// The tables whose `kind` axes set, by dotted path: with another kind, a table has other keys.
    pub(crate) fn tables_of_changing_kind(&self) -> Vec<&str> {
        let Config { axes, studies, .. } = &self.config;
        let axes = axes.values().chain(studies.values().flat_map(|study| study.axes.values()));
        let paths = axes.flat_map(|axis| {
            let set = axis.set.iter().flat_map(OneOrMore::paths);
            set.chain(axis.cases.values().flat_map(IndexMap::keys))
        });
        paths.filter_map(|path| path.strip_suffix(".kind")).collect()
    }

    /// Whether any cell differs from the base scenario.
    pub(crate) fn has_axes(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The sweep in which a design has these points: for each of them a share of the way, from 0 to 1, for
    /// each axis of the part.
    ///
    /// # Errors
    /// When there is no such design, or the points are not of it.
    pub fn with_points(&self, part: &str, points: &[Vec<f64>]) -> Result<Self, ScenarioError> {
        let mut config = self.config.clone();
        let (axes, cells, design) = if part == MAIN {
            (&config.axes, &mut config.cells, &config.design)
        } else if let Some(study) = config.studies.get_mut(part) {
            (&study.axes, &mut study.cells, &study.design)
        } else {
            return Err(ScenarioError::new(format!("there is no sub-study `{part}`")));
        };
        if design.is_none() || points.is_empty() {
            return Err(ScenarioError::new(format!("`{part}` has no design, or the design no points")));
        }
        *cells = Vec::with_capacity(points.len());
        for (index, point) in points.iter().enumerate() {
            if point.len() != axes.len() || !point.iter().all(|share| (0.0..=1.0).contains(share)) {
                return Err(ScenarioError::new(format!(
                    "point {index} of the design is not {} numbers from 0 to 1",
                    axes.len()
                )));
            }
            let value = |((name, axis), &share): ((&String, &Axis), &f64)| {
                let value = axis::at_share(axis, share).expect("the axis was checked before");
                (name.clone(), value)
            };
            cells.push(axes.iter().zip(point).map(value).collect());
        }
        if design.as_ref().is_some_and(|design| design.kind != DesignKind::Saltelli) {
            // Two points may give the same whole numbers and cases.
            let mut seen = std::collections::BTreeSet::new();
            cells.retain(|cell| seen.insert(json!(cell).to_string()));
        }
        Self::new(config)
    }

    /// Everything in it that decides what a cell is.
    pub(crate) fn identity(&self) -> (Value, Option<Value>) {
        let mut config = self.config.clone();
        config.each_setting(&mut files::replace_by_contents);
        let Config { zip, conditions, design, axes, cells, mut studies, .. } = config;
        for study in studies.values_mut() {
            (study.replications, study.until) = (None, None);
        }
        let is_product = zip.is_empty()
            && conditions.is_empty()
            && design.is_none()
            && cells.is_empty()
            && studies.is_empty();
        let more =
            json!({ "zip": zip, "where": conditions, "design": design, "cells": cells, "studies": studies });
        (json!(axes), (!is_product).then_some(more))
    }
}

/// Whether TOML writes it after all other values of a table.
fn is_table(value: &Value) -> bool {
    match value {
        Value::Array(values) => !values.is_empty() && values.iter().all(Value::is_object),
        value => value.is_object(),
    }
}

/// Brings keys into the order in which TOML is written: in each table, those with tables come last.
fn put_tables_last(value: &mut Value) {
    match value {
        Value::Object(table) => {
            table.values_mut().for_each(put_tables_last);
            let (tables, plain): (Vec<_>, Vec<_>) =
                std::mem::take(table).into_iter().partition(|(_, value)| is_table(value));
            table.extend(plain.into_iter().chain(tables));
        }
        Value::Array(values) => values.iter_mut().for_each(put_tables_last),
        _ => {}
    }
}

impl Config {
    /// Whether cells are chosen by conditions, of which there may be many to look at.
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty() || self.studies.values().any(|study| !study.conditions.is_empty())
    }

    /// Makes relative file names start in a folder.
    pub(crate) fn resolve_files(&mut self, folder: &Path) {
        self.each_setting(&mut |setting| files::resolve(setting, folder));
    }

    /// Makes the order of keys irrelevant: that of a table's, and in a case that of the settings, of which a
    /// whole table is set before a key in it. So a sweep is the same when it was written and read again.
    fn put_in_order(&mut self) {
        self.each_setting(&mut put_tables_last);
        let axes = self.studies.values_mut().flat_map(|study| study.axes.values_mut());
        for case in self.axes.values_mut().chain(axes).flat_map(|axis| axis.cases.values_mut()) {
            case.sort_by_cached_key(|path, value| (path.matches('.').count(), is_table(value)));
        }
    }

    /// Every setting that an axis makes, as a table of the last part of its path to its value.
    fn each_setting(&mut self, visit: &mut impl FnMut(&mut Value)) {
        visit_settings(&mut self.axes, &mut self.cells, visit);
        for study in self.studies.values_mut() {
            visit_settings(&mut study.axes, &mut study.cells, visit);
        }
    }
}

/// Every setting that these axes make.
fn visit_settings(
    axes: &mut IndexMap<String, Axis>,
    cells: &mut [IndexMap<String, Value>],
    visit: &mut impl FnMut(&mut Value),
) {
    let mut setting = |path: &str, value: &mut Value| {
        let key = path.rsplit('.').next().unwrap_or(path);
        let mut table = json!({ key: value.take() });
        visit(&mut table);
        *value = table[key].take();
    };
    for (name, axis) in axes {
        if let Some(path) = axis.set.as_ref().and_then(|set| set.paths().first()) {
            axis.values.iter_mut().for_each(|value| setting(path, value));
            cells.iter_mut().filter_map(|cell| cell.get_mut(name)).for_each(|value| setting(path, value));
        }
        for case in axis.cases.values_mut() {
            case.iter_mut().for_each(|(path, value)| setting(path, value));
        }
    }
}

fn check_names(config: &Config) -> Result<(), ScenarioError> {
    let error = |key: &str, what: String| Err(ScenarioError::new(format!("sweep.{key}: {what}")));
    for name in config.studies.keys() {
        if !edit::is_name(name) || name == MAIN {
            let what = format!(
                "not a name; use letters, digits, `-` and `_`, and not `{MAIN}`, which is the sweep's own cells"
            );
            return error(&format!("studies.{name}"), what);
        }
    }
    if let Some(index) =
        config.traces.iter().position(|name| !trace::TABLES.iter().any(|table| table.name == name))
    {
        let tables = trace::TABLES.map(|table| format!("`{}`", table.name)).join(", ");
        let what = format!("`{}` is not a table of traces; there are {tables}", config.traces[index]);
        return error(&format!("traces.{index}"), what);
    }
    let untils = std::iter::once(("until".to_owned(), &config.until))
        .chain(config.studies.iter().map(|(name, study)| (format!("studies.{name}.until"), &study.until)));
    for (key, until) in untils {
        if let Some(Until { metric, .. }) = until
            && !config.metrics.is_empty()
            && !config.metrics.iter().any(|pattern| matches(pattern, metric))
        {
            let what = format!("`{metric}` is not kept; add it to `sweep.metrics`");
            return error(&format!("{key}.metric"), what);
        }
    }
    Ok(())
}

type Places = Vec<Vec<(usize, Vec<usize>)>>;

/// The axes of all parts, and where those of each part are among them.
fn columns(parts: &[Part]) -> (Vec<AxisColumn>, Places) {
    let mut all: IndexMap<&str, IndexMap<String, Option<bool>>> = IndexMap::new();
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let mut of_part = Vec::with_capacity(part.axes.len());
        for axis in &part.axes {
            let entry = all.entry(&axis.name);
            let column = entry.index();
            let values = entry.or_default();
            let place = |(label, flag): (String, Option<bool>)| {
                let entry = values.entry(label);
                let index = entry.index();
                // A truth value and a word that looks like it are both words.
                let known = entry.or_insert(flag);
                *known = known.filter(|_| flag.is_some());
                index
            };
            of_part.push((column, axis.labels().into_iter().zip(axis.flags()).map(place).collect()));
        }
        places.push(of_part);
    }
    let columns = all.into_iter().map(|(name, values)| {
        let (labels, flags): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        let values = value::axis_values(&labels, &flags);
        AxisColumn { name: name.to_owned(), labels, values }
    });
    (columns.collect(), places)
}

/// Whether a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().expect("a split has a part");
    let Some(last) = parts.next_back() else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    // The first possible place of each part leaves the most for those after it.
    parts.all(|part| {
        let found = rest.find(part);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

#[cfg(test)]
mod tests;
