//! A scenario file as a study: the scenario, the sweep over it, and each of its cells.
//!
//! What is read here can be run: every scenario, and every value of every axis, is checked by building its
//! simulation.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_transport::rng;
use serde_json::{Value, json};

use crate::parallel;
use crate::scenario::{
    MAX_FILE_MEGABYTES, Scenario, ScenarioError, Sweep, edit, error, files, include, shorthand, sweep, tree,
};
use crate::sim::Simulation;
use crate::text_file;

/// A scenario file: a base scenario and the sweep over it, if there is one.
#[derive(Clone, Debug)]
pub struct Study {
    /// The base scenario as a tree without `sweep`; cells are edits of it.
    base: Value,
    /// The base scenario.
    pub scenario: Scenario,
    /// The sweep over it; without a sweep there is one cell and one replication.
    pub sweep: Sweep,
}

/// Gives this thread, where there is no disk, the files that the scenarios it reads may name: name to text.
/// They replace those given before.
pub fn give_files(files: BTreeMap<String, String>) {
    text_file::give(files);
}

impl Study {
    /// Reads a scenario file and applies `path = value` settings to it.
    ///
    /// # Errors
    /// When the file cannot be read or is not a scenario.
    pub fn load(file: &Path, sets: &[(String, String)]) -> Result<Self, ScenarioError> {
        Self::load_unless(file, sets, &|| false)
    }

    /// As [`Study::load`], unless `is_cancelled` says in the meantime that it is to be given up. It is asked
    /// by the calling thread, at least some times in a second as long as much is left to do.
    ///
    /// # Errors
    /// As for [`Study::load`], and when it is given up.
    pub fn load_unless(
        file: &Path,
        sets: &[(String, String)],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, ScenarioError> {
        let parse = |text: &str, folder: &Path| Self::parse_unless(text, sets, folder, is_cancelled);
        let mut study = in_file(file, parse)?;
        study.scenario.name_after(file);
        Ok(study)
    }

    /// Reads a study from TOML text.
    ///
    /// # Errors
    /// When the text is not a scenario.
    pub fn parse(text: &str, sets: &[(String, String)], folder: &Path) -> Result<Self, ScenarioError> {
        Self::parse_unless(text, sets, folder, &|| false)
    }

    /// As [`Study::parse`], unless it is given up, as in [`Study::load_unless`].
    ///
    /// # Errors
    /// As for [`Study::parse`], and when it is given up.
    pub fn parse_unless(
        text: &str,
        sets: &[(String, String)],
        folder: &Path,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, ScenarioError> {
        let base = read(text, sets, folder, is_cancelled);
        base.and_then(|base| Self::of_tree(base, folder, is_cancelled))
            .map_err(|error| error.with_lines(text, sets))
    }

    fn of_tree(
        mut base: Value,
        folder: &Path,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, ScenarioError> {
        let sweep = match base.as_object_mut().and_then(|table| table.remove("sweep")) {
            Some(tree) => {
                let config = error::from_value(&tree, "sweep");
                let mut config: sweep::Config = config.map_err(|error| {
                    // What else is wrong in the file is said with it.
                    let other = error::from_value::<Scenario>(&base, "").err();
                    ScenarioError::joined(std::iter::once(error).chain(other))
                })?;
                config.resolve_files(folder);
                if config.has_conditions() {
                    parallel::apart(is_cancelled, move || Sweep::new(config)).ok_or_else(given_up)??
                } else {
                    Sweep::new(config)?
                }
            }
            None => Sweep::default(),
        };
        let scenario: Scenario = error::from_value(&base, "")?;
        check_name(&scenario.name)?;
        let study = Self { base, scenario, sweep };
        study.scenario.check()?;
        study.check_sweep(is_cancelled)?;
        Ok(study)
    }

    /// A cell of the sweep as a scenario of its own.
    ///
    /// # Errors
    /// When the cell's settings do not go together.
    pub fn cell(&self, cell: u64) -> Result<Scenario, ScenarioError> {
        if !self.sweep.has_axes() {
            return Ok(self.scenario.clone());
        }
        let mut tree = self.base.clone();
        self.sweep.apply(cell, &mut tree)?;
        let mut scenario: Scenario = error::from_value(&tree, "")?;
        scenario.name.clone_from(&self.scenario.name);
        scenario.check_names()?;
        Ok(scenario)
    }

    /// The scenario and its sweep as TOML, every default filled in. A table whose `kind` the sweep changes
    /// stays as it was given, since other kinds do not have its keys.
    pub fn to_toml(&self) -> String {
        let mut scenario = self.scenario.to_toml();
        let given = self.sweep.tables_of_changing_kind();
        if !given.is_empty() {
            let mut tree = toml::from_str(&scenario).expect("just written");
            for table in given {
                edit::copy(&self.base, &mut tree, table);
            }
            scenario =
                toml::to_string_pretty(&tree).expect("a scenario is a tree of tables and plain values");
        }
        if json!(self.sweep.config()) == json!(sweep::Config::default()) {
            return scenario;
        }
        let sweep = toml::to_string_pretty(&json!({ "sweep": self.sweep.config() }));
        format!("{scenario}\n{}", sweep.expect("a sweep is a tree of tables and plain values"))
    }

    /// 64 bits that identify everything that can change a result: the base scenario with its seed, the axes
    /// and the contents of the files it names, but no names, descriptions or replications.
    pub fn hash(&self) -> u64 {
        let (axes, more) = self.sweep.identity();
        hash(&self.scenario, &axes, more.as_ref())
    }

    /// The hash of each cell as a scenario of its own, so that equal cells of different sweeps have the
    /// same one. Computed on all cores.
    ///
    /// # Errors
    /// The first cell whose settings do not go together.
    pub fn cell_hashes(&self) -> Result<Vec<u64>, ScenarioError> {
        let no_axes = json!({});
        let hash = |cell: u64| {
            let in_cell = |error: ScenarioError| error.at(&format!("cell {cell}"));
            Ok(hash(&self.cell(cell).map_err(in_cell)?, &no_axes, None))
        };
        parallel::map((0..self.sweep.cell_count()).collect(), hash).into_iter().collect()
    }

    /// The study in which a design has these points: for each of them a share of the way, from 0 to 1, for
    /// each axis of the part of this name.
    ///
    /// # Errors
    /// When there is no such design, when the points are not of it, or when one of them cannot be built.
    pub fn with_points(
        &self,
        part: &str,
        points: &[Vec<f64>],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, ScenarioError> {
        let study = Self { sweep: self.sweep.with_points(part, points)?, ..self.clone() };
        study.check_sweep(is_cancelled)?;
        Ok(study)
    }

    /// Checks that every value of every axis gives a scenario that can be built, in the first cell that has
    /// it.
    fn check_sweep(&self, is_cancelled: &dyn Fn() -> bool) -> Result<(), ScenarioError> {
        let count = self.sweep.parts().iter().map(|part| part.representatives().len()).sum::<usize>();
        if count == 0 {
            return Ok(());
        }
        let (study, flag) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&flag);
        let checked = parallel::apart(is_cancelled, move || study.first_mistakes(&told));
        // What has been begun is finished, and nothing else is begun.
        flag.store(true, Ordering::Relaxed);
        checked.ok_or_else(given_up)?.map_or(Ok(()), Err)
    }

    /// The first mistake of each axis in the cells that [`Study::check_sweep`] looks at, as long as it is not
    /// given up. What several axes show is said once.
    fn first_mistakes(&self, is_given_up: &AtomicBool) -> Option<ScenarioError> {
        let mut found: Vec<ScenarioError> = Vec::new();
        let mut places = Vec::new();
        for part in self.sweep.parts() {
            let mistake = |(axis, position, cell)| {
                if is_given_up.load(Ordering::Relaxed) {
                    return None;
                }
                let mut tree = self.base.clone();
                let scenario = part.apply(cell, &mut tree).and_then(|()| error::from_value(&tree, ""));
                let checked = scenario.and_then(|scenario: Scenario| scenario.check());
                Some((
                    format!("{}, value `{}`", part.axis_key(axis), part.label(axis, position)),
                    checked.err()?,
                ))
            };
            let cells = part.representatives();
            for of_axis in cells.chunk_by(|one, other| one.0 == other.0) {
                if let Some((place, error)) = parallel::find_first(of_axis.to_vec(), mistake)
                    && !found.contains(&error)
                {
                    found.push(error);
                    places.push(place);
                }
            }
        }
        let at_place = found.into_iter().zip(places).map(|(error, place)| error.at(&place));
        (at_place.len() > 0).then(|| ScenarioError::joined(at_place))
    }
}

/// Bytes of text that are read within a tenth of a second on any machine.
const LONG_TEXT: usize = 100_000;

fn given_up() -> ScenarioError {
    ScenarioError::new("it was given up")
}

/// Reads TOML text as a tree, with its includes and these settings.
fn read(
    text: &str,
    sets: &[(String, String)],
    folder: &Path,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Value, ScenarioError> {
    let mut base = if text.len() > LONG_TEXT {
        let text = text.to_owned();
        parallel::apart(is_cancelled, move || tree::parse(&text)).ok_or_else(given_up)??
    } else {
        tree::parse(text)?
    };
    include::resolve(&mut base, sets, folder)?;
    shorthand::expand(&mut base, &[]);
    for (path, value) in sets.iter().filter(|(path, _)| path != include::KEY) {
        edit::set(&mut base, path, edit::value_of(value))?;
    }
    files::resolve(&mut base, folder);
    Ok(base)
}

/// The tree that a TOML text is, as JSON, before anything in it has a meaning: no file that it names is read.
/// The time that this takes is in proportion to the text, whatever that is.
///
/// # Errors
/// When the text is not TOML.
pub fn toml_tree(text: &str) -> Result<Value, ScenarioError> {
    tree::parse(text)
}

/// Parses a file's text with the file's folder; an error names the file.
fn in_file<T>(
    file: &Path,
    parse: impl FnOnce(&str, &Path) -> Result<T, ScenarioError>,
) -> Result<T, ScenarioError> {
    let text = text_file::read(file, MAX_FILE_MEGABYTES).map_err(ScenarioError::new)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    parse(&text, folder).map_err(|error| error.in_file(&file.display().to_string()))
}

impl Scenario {
    /// Reads a scenario file for an [`Emulation`](crate::sim::Emulation), which checks it: it may have no
    /// flows, and a sweep over it is ignored.
    ///
    /// # Errors
    /// When the file cannot be read or is not a scenario.
    pub fn load_network(file: &Path, sets: &[(String, String)]) -> Result<Self, ScenarioError> {
        let mut scenario = in_file(file, |text, folder| Self::parse_network(text, sets, folder))?;
        scenario.name_after(file);
        Ok(scenario)
    }

    /// Reads a scenario for an emulation from TOML text.
    ///
    /// # Errors
    /// When the text is not a scenario.
    pub fn parse_network(
        text: &str,
        sets: &[(String, String)],
        folder: &Path,
    ) -> Result<Self, ScenarioError> {
        let mut base = read(text, sets, folder, &|| false)?;
        if let Some(table) = base.as_object_mut() {
            table.remove("sweep");
            table.entry("flows").or_insert_with(|| json!({}));
        }
        let scenario: Result<Self, _> = error::from_value(&base, "");
        let scenario = scenario.map_err(|error| error.with_lines(text, sets))?;
        check_name(&scenario.name)?;
        scenario.check_names()?;
        Ok(scenario)
    }

    /// Names a scenario without a name after its file.
    fn name_after(&mut self, file: &Path) {
        if self.name.is_empty()
            && let Some(stem) = file.file_stem()
        {
            self.name = stem.to_string_lossy().into_owned();
        }
    }

    /// Checks that a simulation can be built from it.
    ///
    /// # Errors
    /// The sentence that says why not.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_names()?;
        Simulation::build(self, 0, false).map(drop)
    }

    fn check_names(&self) -> Result<(), ScenarioError> {
        let sections: [(&str, Vec<&String>); 3] = [
            ("links", self.links.keys().collect()),
            ("paths", self.paths.keys().collect()),
            ("flows", self.flows.keys().collect()),
        ];
        for (section, names) in sections {
            if let Some(name) = names.iter().find(|name| !edit::is_name(name)) {
                return Err(ScenarioError::new(format!(
                    "{section}: `{name}` is not a name; use letters, digits, `-` and `_`"
                )));
            }
        }
        for (link, config) in &self.links {
            if let Some(node) = config.ends.iter().find(|node| !is_node(node)) {
                return Err(ScenarioError::new(format!(
                    "links.{link}.ends: `{node}` is not the name of a node; use 1 to {MAX_NAME} characters on \
                     one line, none of them a control character"
                )));
            }
        }
        Ok(())
    }
}

/// A hash of a scenario, of the axes over it and of what else the sweep says about cells.
fn hash(scenario: &Scenario, axes: &Value, more: Option<&Value>) -> u64 {
    let mut scenario = json!(scenario);
    scenario["name"] = Value::String(String::new());
    if let Some(table) = scenario.as_object_mut() {
        table.shift_remove("description");
    }
    // The contents of files matter, not their paths.
    files::replace_by_contents(&mut scenario);
    let mut tree = json!({ "scenario": scenario, "axes": axes, "files": [] });
    if let Some(more) = more {
        tree["sweep"] = more.clone();
    }
    rng::fnv1a(tree.to_string().as_bytes())
}

/// Checks a scenario's name, which is also used for names of files.
fn check_name(name: &str) -> Result<(), ScenarioError> {
    let is_fine = |c: char| !c.is_control() && !matches!(c, '/' | '\\' | ':');
    if name.chars().count() <= MAX_NAME && name.chars().all(is_fine) && !name.starts_with('.') {
        return Ok(());
    }
    Err(ScenarioError::new(format!(
        "name: it names files, too; use at most {MAX_NAME} characters, no `/`, `\\`, `:` or control characters, \
         and no `.` first"
    )))
}

/// Whether a node may have this name, which stands in tables, figures and lines of files.
fn is_node(name: &str) -> bool {
    let is_fine = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(is_fine)
}

/// The most characters of a scenario's name, and of a node's.
const MAX_NAME: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = r#"
        links.a = { ends = ["x", "y"], rate = "1 Mbit/s", delay = "20 ms" }
        paths.p.via = ["a"]
        [flows.f]
        from = "x"
        to = "y"
        paths = ["p"]
        app.kind = "bulk"
    "#;

    fn read(text: &str) -> Study {
        Study::parse(text, &[], Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_sweep_over_kinds_is_read_as_it_was_written() {
        let given = [
            // With all defaults, a control has keys that others do not know; the last one is not given at
            // all.
            "transport = { kind = 'tcp', cc = { kind = 'cubic' } }",
            "transport = { kind = 'tcp', cc.kind = 'cubic', profile = 'rfc' }",
            "transport.kind = 'tcp'",
        ];
        let axes = [
            "[sweep.axes.cc]\nset = 'flows.f.transport.cc.kind'\nvalues = ['vegas', 'cubic']",
            "[sweep.axes.cc.cases]\na = { 'flows.f.transport.cc.kind' = 'vegas' }\nb = {}",
            "[sweep.studies.one.axes.queue]\nset = 'links.a.queue.kind'\nvalues = ['codel', 'drop_tail']",
        ];
        let over_tcp = given.iter().flat_map(|transport| axes.map(|axis| format!("{transport}\n{axis}")));
        let unordered = "transport.kind = 'sctp'\n[sweep.axes.kind.cases]\n\
            a = { 'flows.f.transport' = { cc = { kind = 'cubic' }, kind = 'tcp', nagle = 'off' } }\n\
            b = { 'flows.f.transport' = { kind = 'tcp', cc = { fast_convergence = false, kind = 'cubic' } } }";
        let whole_and_part = "transport.kind = 'tcp'\n[sweep.axes.kind.cases]\n\
            a = { 'flows.f.transport.nagle' = 'off', 'flows.f.transport' = { kind = 'tcp', profile = 'rfc' } }\n\
            b = { 'flows.f.transport' = { kind = 'tcp' }, 'flows.f.transport.nagle' = 'off' }";
        let over_tcp = over_tcp.chain([unordered, whole_and_part].map(str::to_owned));
        // TOML has no way to write an option of SCTP that is not set.
        let over_sctp = format!("transport.kind = 'sctp'\n{}", axes[2]);
        for settings in over_tcp.chain([over_sctp]) {
            let study = read(&format!("{NETWORK}\n{settings}"));
            let again = read(&study.to_toml());
            assert_eq!(again.hash(), study.hash(), "{settings}");
            assert_eq!(again.cell_hashes().unwrap(), study.cell_hashes().unwrap(), "{settings}");
            assert_eq!(again.to_toml(), study.to_toml());
        }
    }
}
