//! The cells of a sweep or of one of its sub-studies.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::axis::{Levels, quoted};
use super::condition::Condition;
use super::config::{Axis, Config, Design, DesignKind, OneOrMore, StudyConfig, Until};
use super::value::AxisValue;
use crate::scenario::{ScenarioError, edit};

/// Cells that are repeated equally often: the sweep's own, or those of a sub-study.
#[derive(Clone, Debug)]
pub struct Part {
    /// The sub-study's name; `main` for the sweep's own cells.
    pub name: String,
    /// How often each cell is run, unless `until` is given.
    pub replications: u64,
    /// The rule by which a cell has been run often enough.
    pub until: Option<Until>,
    /// The design that its points come from.
    pub design: Option<Design>,
    pub(super) axes: Vec<Levels>,
    cells: Cells,
    point_cells: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Cells {
    /// Every combination, or only those with these numbers.
    Product(Vec<Dimension>, Option<Vec<u64>>),
    /// A position on each axis that the cell has, cell by cell.
    List(Vec<Vec<Option<u32>>>),
    /// A design whose points have not been chosen, with the combinations of the ends of its ranges.
    Open(Vec<Dimension>),
}

/// Axes that advance together.
#[derive(Clone, Debug)]
struct Dimension {
    axes: Vec<usize>,
    len: u64,
}

/// What a sweep and a sub-study share.
#[derive(Clone, Copy)]
pub(super) struct Definition<'a> {
    /// The key of the table.
    pub(super) key: &'a str,
    pub(super) name: &'a str,
    pub(super) replications: u64,
    pub(super) until: Option<&'a Until>,
    zip: &'a [Vec<String>],
    conditions: &'a [String],
    design: Option<&'a Design>,
    axes: &'a IndexMap<String, Axis>,
    cells: &'a [IndexMap<String, Value>],
}

pub(super) const MOST_CELLS: u64 = 1 << 40;
/// The most combinations for which conditions are checked one by one.
const MOST_CONDITIONED: u64 = 20_000_000;
const MOST_POINTS: u64 = 1 << 20;

impl<'a> Definition<'a> {
    pub(super) fn of_sweep(config: &'a Config) -> Self {
        Self {
            key: "sweep",
            name: MAIN,
            replications: config.replications,
            until: config.until.as_ref(),
            zip: &config.zip,
            conditions: &config.conditions,
            design: config.design.as_ref(),
            axes: &config.axes,
            cells: &config.cells,
        }
    }

    /// The definition of a sub-study; it runs its cells as often as the sweep's unless it says otherwise.
    pub(super) fn of_study(key: &'a str, name: &'a str, study: &'a StudyConfig, config: &'a Config) -> Self {
        let inherits = study.replications.is_none();
        Self {
            key,
            name,
            replications: study.replications.unwrap_or(config.replications),
            until: study.until.as_ref().or(config.until.as_ref().filter(|_| inherits)),
            zip: &study.zip,
            conditions: &study.conditions,
            design: study.design.as_ref(),
            axes: &study.axes,
            cells: &study.cells,
        }
    }

    /// Whether the part defines cells of its own.
    pub(super) fn has_cells(&self) -> bool {
        !(self.axes.is_empty()
            && self.cells.is_empty()
            && self.zip.is_empty()
            && self.conditions.is_empty()
            && self.design.is_none())
    }

    /// Checks that its numbers are possible.
    pub(super) fn check_numbers(&self) -> Result<(), ScenarioError> {
        if self.replications == 0 {
            return self.error("replications", "0 is too few; use 1 or more");
        }
        if let Some(until) = self.until {
            let Until { metric, half_width, level, least, most } = until;
            let error = |key: &str, what: String| self.error(&format!("until.{key}"), what);
            if metric.is_empty() || metric.contains('*') {
                return error("metric", format!("`{metric}` is not one scalar; name one such as `call.mos`"));
            }
            if !(*half_width > 0.0 && half_width.is_finite()) {
                return error("half_width", format!("{half_width} is never reached; use more than 0"));
            }
            if !(*level > 0.0 && *level < 1.0) {
                return error("level", format!("{level} is out of range; it must be above 0 and below 1"));
            }
            if *least < 2 {
                return error("least", format!("{least} give no interval; use 2 or more"));
            }
            if most < least {
                return error(
                    "most",
                    format!("{most} is below `least`, which is {least}; use {least} or more"),
                );
            }
        }
        if let Some(design @ Design { kind, points, .. }) = self.design {
            if !(1..=MOST_POINTS).contains(points) {
                let what = format!("{points} is out of range; it must be from 1 to {MOST_POINTS}");
                return self.error("design.points", what);
            }
            if *kind != DesignKind::LatinHypercube && !points.is_power_of_two() {
                let above = points.next_power_of_two();
                let what = format!(
                    "a Sobol' sequence is balanced at powers of two, and {points} is none; use {} or {above}",
                    above / 2
                );
                return self.error("design.points", what);
            }
            if *kind == DesignKind::Saltelli {
                self.check_saltelli(design)?;
            }
        }
        Ok(())
    }

    /// Checks that axes and conditions allow Saltelli's design.
    fn check_saltelli(&self, design: &Design) -> Result<(), ScenarioError> {
        let axes = self.axes.len() as u64;
        if axes < 2 {
            let what = format!("`saltelli` tells axes apart, and there are {axes}; give 2 `axes` or more");
            return self.error("design.kind", what);
        }
        if !self.conditions.is_empty() {
            let what = "`saltelli` needs every value of an axis with every value of the others; leave out \
                        `where` or use `sobol`";
            return self.error("where", what);
        }
        let cells = design.points * (axes + 2);
        if cells > MOST_POINTS {
            let most = (MOST_POINTS / (axes + 2)).checked_ilog2().map_or(0, |power| 1_u64 << power);
            let what = format!(
                "{} points make {cells} cells with {axes} axes, which is more than {MOST_POINTS}; use at most {most}",
                design.points
            );
            return self.error("design.points", what);
        }
        Ok(())
    }

    /// Checks that every cell has the values of all its axes: if two set the same path, only the later one
    /// would count.
    fn check_settings(&self) -> Result<(), ScenarioError> {
        let mut setters = BTreeMap::new();
        for (name, axis) in self.axes.iter().filter(|_| self.cells.is_empty()) {
            for path in axis.set.iter().flat_map(OneOrMore::paths) {
                if let Some(other) = setters.insert(path, name) {
                    let what = format!("it sets `{path}`, as `{other}` does; leave one out");
                    return self.error(&format!("axes.{name}"), what);
                }
            }
        }
        Ok(())
    }

    fn error<T>(&self, key: &str, what: impl AsRef<str>) -> Result<T, ScenarioError> {
        Err(ScenarioError::new(format!("{}.{key}: {}", self.key, what.as_ref())))
    }
}

/// The name of the sweep's own cells among sub-studies.
pub(super) const MAIN: &str = "main";

impl Part {
    pub(super) fn new(definition: Definition<'_>) -> Result<Self, ScenarioError> {
        let Definition { replications, until, design, .. } = definition;
        definition.check_numbers()?;
        if let Some(name) = definition.axes.keys().find(|name| !edit::is_name(name)) {
            return definition.error(&format!("axes.{name}"), "not a name; use letters, digits, `-` and `_`");
        }
        definition.check_settings()?;
        let (axes, cells, point_cells) =
            if definition.cells.is_empty() { product(&definition)? } else { list(&definition)? };
        let name = definition.name.to_owned();
        let (until, design) = (until.cloned(), design.cloned());
        let mut part = Self { name, replications, until, design, axes, cells, point_cells };
        part.keep(&definition)?;
        Ok(part)
    }

    /// The number of cells; a design has none before its points are chosen.
    pub fn cell_count(&self) -> u64 {
        match &self.cells {
            Cells::Product(_, Some(kept)) => kept.len() as u64,
            Cells::Product(dimensions, None) => product_of(dimensions),
            Cells::List(cells) => cells.len() as u64,
            Cells::Open(_) => 0,
        }
    }

    /// Whether the part waits for the points of its design.
    pub fn is_open(&self) -> bool {
        matches!(self.cells, Cells::Open(_))
    }

    /// The cell of each point of Saltelli's design, which may have one more than once; empty for all others.
    /// For each base point: A, A with the first axis of B, A with the second, and so on, B.
    pub fn point_cells(&self) -> &[u64] {
        &self.point_cells
    }

    /// The names of the axes.
    pub fn axis_names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.name.as_str())
    }

    /// The key of an axis in the scenario file.
    pub(crate) fn axis_key(&self, axis: usize) -> String {
        let axis = &self.axes[axis].name;
        if self.name == MAIN {
            format!("sweep.axes.{axis}")
        } else {
            format!("sweep.studies.{}.axes.{axis}", self.name)
        }
    }

    /// A value of an axis as the scenario writes it.
    pub(crate) fn label(&self, axis: usize, position: usize) -> String {
        self.axes[axis].labels().swap_remove(position)
    }

    /// The position on each axis of a cell; none on an axis that the cell does not have.
    pub fn positions(&self, cell: u64) -> Vec<Option<usize>> {
        match &self.cells {
            Cells::List(cells) => cells[cell as usize]
                .iter()
                .map(|position| position.map(|position| position as usize))
                .collect(),
            Cells::Product(dimensions, kept) => {
                let cell = kept.as_ref().map_or(cell, |kept| kept[cell as usize]);
                combination(dimensions, cell, self.axes.len())
            }
            Cells::Open(dimensions) => combination(dimensions, cell, self.axes.len()),
        }
    }

    /// The key of an axis that sets this path in every cell.
    pub(crate) fn setter_of(&self, path: &str) -> Option<String> {
        let is_everywhere = |axis: usize| match &self.cells {
            Cells::List(cells) => cells.iter().all(|cell| cell[axis].is_some()),
            Cells::Product(..) | Cells::Open(_) => true,
        };
        let axis = (0..self.axes.len()).find(|&axis| self.axes[axis].sets(path) && is_everywhere(axis))?;
        Some(self.axis_key(axis))
    }

    /// Makes the settings of a cell.
    pub(crate) fn apply(&self, cell: u64, tree: &mut Value) -> Result<(), ScenarioError> {
        for (axis, position) in self.axes.iter().zip(self.positions(cell)) {
            if let Some(position) = position {
                axis.apply(position, tree)?;
            }
        }
        Ok(())
    }

    /// For every value of every axis, a cell that has it: axis, position, cell. In combinations, the other
    /// axes have their first values.
    pub(crate) fn representatives(&self) -> Vec<(usize, usize, u64)> {
        match &self.cells {
            Cells::Product(dimensions, None) | Cells::Open(dimensions) => {
                let mut stride = product_of(dimensions);
                let mut cells = Vec::new();
                for dimension in dimensions {
                    stride /= dimension.len;
                    let axis = dimension.axes[0];
                    cells.extend((0..dimension.len).map(|at| (axis, at as usize, at * stride)));
                }
                cells
            }
            Cells::Product(_, Some(_)) | Cells::List(_) => {
                let mut seen: Vec<Vec<bool>> = self.axes.iter().map(|axis| vec![false; axis.len()]).collect();
                let mut cells = Vec::new();
                for cell in 0..self.cell_count() {
                    for (axis, position) in self.positions(cell).into_iter().enumerate() {
                        if let Some(position) = position
                            && !std::mem::replace(&mut seen[axis][position], true)
                        {
                            cells.push((axis, position, cell));
                        }
                    }
                }
                cells
            }
        }
    }

    /// Keeps the cells for which all conditions are true.
    fn keep(&mut self, definition: &Definition<'_>) -> Result<(), ScenarioError> {
        let values: Vec<Vec<AxisValue>> = self.axes.iter().map(Levels::axis_values).collect();
        let kinds: Vec<_> = self
            .axes
            .iter()
            .zip(&values)
            .map(|(axis, values)| (axis.name.as_str(), values[0].kind()))
            .collect();
        let mut conditions = Vec::new();
        for (index, text) in definition.conditions.iter().enumerate() {
            match Condition::parse(text, &kinds) {
                Ok(condition) => conditions.push(condition),
                Err(what) => return definition.error(&format!("where.{index}"), what),
            }
        }
        if conditions.is_empty() {
            return Ok(());
        }
        if let Cells::Open(dimensions) = &mut self.cells {
            // The conditions may exclude the ends of the ranges, and the points will be checked later.
            dimensions.clear();
            return Ok(());
        }
        if self.cell_count() > MOST_CONDITIONED {
            let what = format!(
                "{} combinations are too many to ask one by one; use at most {MOST_CONDITIONED}",
                self.cell_count()
            );
            return definition.error("where", what);
        }
        let is_kept = |cell: &u64| {
            let positions = self.positions(*cell);
            let cell: Vec<_> = positions
                .iter()
                .zip(&values)
                .map(|(position, values)| position.map(|at| &values[at]))
                .collect();
            conditions.iter().all(|condition| condition.holds(&cell))
        };
        let kept: Vec<u64> = (0..self.cell_count()).filter(is_kept).collect();
        if kept.is_empty() {
            return definition.error("where", "no cell is left; the conditions exclude all of them");
        }
        match &mut self.cells {
            Cells::Product(_, numbers) => *numbers = Some(kept),
            Cells::List(cells) => {
                *cells = kept.iter().map(|&cell| std::mem::take(&mut cells[cell as usize])).collect();
            }
            Cells::Open(_) => {}
        }
        Ok(())
    }
}

/// Every combination of the axes; for a design without points, placeholders.
fn product(definition: &Definition<'_>) -> Result<(Vec<Levels>, Cells, Vec<u64>), ScenarioError> {
    let is_open = definition.design.is_some();
    let mut axes = Vec::with_capacity(definition.axes.len());
    for (name, axis) in definition.axes {
        axes.push(Levels::of(&format!("{}.axes.{name}", definition.key), name, axis, is_open)?);
    }
    if is_open {
        if axes.is_empty() {
            return definition.error("design", "there is no axis to spread points over; give `axes`");
        }
        if !definition.zip.is_empty() {
            return definition.error("zip", "a design has no combinations; leave out `zip` or `design`");
        }
    }
    let dimensions = dimensions(definition, &axes)?;
    let mut cells = 1_u64;
    for dimension in &dimensions {
        cells = match cells.checked_mul(dimension.len) {
            Some(cells) if cells <= MOST_CELLS => cells,
            _ => {
                let key = format!("axes.{}", axes[dimension.axes[0]].name);
                return definition.error(&key, "the sweep has more than 2^40 cells; use fewer values");
            }
        };
    }
    let cells = if is_open { Cells::Open(dimensions) } else { Cells::Product(dimensions, None) };
    Ok((axes, cells, Vec::new()))
}

/// The axes, those that advance together at the place of the first of them.
fn dimensions(definition: &Definition<'_>, axes: &[Levels]) -> Result<Vec<Dimension>, ScenarioError> {
    let mut dimensions: Vec<Option<Dimension>> = axes
        .iter()
        .enumerate()
        .map(|(index, axis)| Some(Dimension { axes: vec![index], len: axis.len() as u64 }))
        .collect();
    let mut is_zipped = vec![false; axes.len()];
    for (group, names) in definition.zip.iter().enumerate() {
        let key = format!("zip.{group}");
        if names.len() < 2 {
            return definition.error(&key, "a group has two axes or more");
        }
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            let Some(index) = axes.iter().position(|axis| axis.name == *name) else {
                let there = quoted(definition.axes.keys());
                return definition.error(&key, format!("there is no axis `{name}`; there are {there}"));
            };
            dimensions[index] = None;
            if std::mem::replace(&mut is_zipped[index], true) {
                return definition.error(&key, format!("`{name}` is in `zip` twice; leave one out"));
            }
            let first = members.first().map_or(index, |&first: &usize| first);
            if axes[index].len() != axes[first].len() {
                return definition.error(
                    &key,
                    format!(
                        "`{}` has {} values and `{name}` has {}; axes that advance together have equally many",
                        axes[first].name,
                        axes[first].len(),
                        axes[index].len()
                    ),
                );
            }
            members.push(index);
        }
        let (first, len) =
            (*members.iter().min().expect("a group has members"), axes[members[0]].len() as u64);
        dimensions[first] = Some(Dimension { axes: members, len });
    }
    Ok(dimensions.into_iter().flatten().collect())
}

/// The cells that are named one by one, or the points of a design; and the cell of each point where points
/// may meet.
fn list(definition: &Definition<'_>) -> Result<(Vec<Levels>, Cells, Vec<u64>), ScenarioError> {
    if !definition.zip.is_empty() {
        return definition.error("zip", "`cells` names every cell already; leave out one of them");
    }
    for (index, cell) in definition.cells.iter().enumerate() {
        if let Some(name) = cell.keys().find(|name| !definition.axes.contains_key(*name)) {
            let there = quoted(definition.axes.keys());
            return definition
                .error(&format!("cells.{index}"), format!("there is no axis `{name}`; there are {there}"));
        }
    }
    let mut cells = vec![Vec::with_capacity(definition.axes.len()); definition.cells.len()];
    let mut axes = Vec::with_capacity(definition.axes.len());
    for (name, axis) in definition.axes {
        let key = format!("axes.{name}");
        if definition.design.is_none() && (axis.set.is_some() != axis.cases.is_empty() || has_values(axis)) {
            let what = "with `cells`, which has the values, an axis has either `set` alone or `cases`";
            return definition.error(&key, what);
        }
        let (levels, positions) = Levels::in_cells(definition.key, name, axis, definition.cells)?;
        if levels.len() == 0 {
            return definition.error(&key, "no cell has it; leave it out");
        }
        cells.iter_mut().zip(positions).for_each(|(cell, position)| cell.push(position));
        axes.push(levels);
    }
    if let Some(design @ Design { kind: DesignKind::Saltelli, .. }) = definition.design {
        check_points(definition, design, &axes, &cells)?;
        let mut distinct = IndexSet::new();
        let point_cells = cells.into_iter().map(|cell| distinct.insert_full(cell).0 as u64).collect();
        return Ok((axes, Cells::List(distinct.into_iter().collect()), point_cells));
    }
    let mut seen = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        if let Some(first) = seen.insert(cell, index) {
            let what = format!("it is the same as cell {first}; leave one out");
            return definition.error(&format!("cells.{index}"), what);
        }
    }
    Ok((axes, Cells::List(cells), Vec::new()))
}

/// Checks that points are those that Saltelli's design makes of its base points, in the order of
/// `Part::point_cells`.
fn check_points(
    definition: &Definition<'_>,
    design: &Design,
    axes: &[Levels],
    points: &[Vec<Option<u32>>],
) -> Result<(), ScenarioError> {
    let size = axes.len() + 2;
    let expected = design.points * size as u64;
    if points.len() as u64 != expected {
        let what = format!(
            "`saltelli` with {} points of {} axes has {expected} here, and there are {}; leave out `cells`",
            design.points,
            axes.len(),
            points.len()
        );
        return definition.error("cells", what);
    }
    for (base, group) in points.chunks(size).enumerate() {
        let (a, b) = (&group[0], &group[size - 1]);
        for (axis, point) in group[1..size - 1].iter().enumerate() {
            let mut expected = a.clone();
            expected[axis] = b[axis];
            if *point != expected {
                let (first, name) = (base * size, &axes[axis].name);
                let what = format!(
                    "`saltelli` has cell {first} here with the `{name}` of cell {}; leave out `cells`",
                    first + size - 1
                );
                return definition.error(&format!("cells.{}", first + 1 + axis), what);
            }
        }
    }
    Ok(())
}

fn has_values(axis: &Axis) -> bool {
    !axis.values.is_empty() || axis.range.is_some() || axis.log_range.is_some()
}

fn product_of(dimensions: &[Dimension]) -> u64 {
    dimensions.iter().map(|dimension| dimension.len).product()
}

/// The positions on the axes of a combination; the last dimension varies fastest.
fn combination(dimensions: &[Dimension], number: u64, axes: usize) -> Vec<Option<usize>> {
    let mut positions = vec![None; axes];
    let mut rest = number;
    for dimension in dimensions.iter().rev() {
        for &axis in &dimension.axes {
            positions[axis] = Some((rest % dimension.len) as usize);
        }
        rest /= dimension.len;
    }
    positions
}
