//! Scenarios, runs and batches of runs.

#![allow(clippy::disallowed_types, reason = "wall-clock guards live outside the simulator")]
#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{panic, thread};

use anabranch::batch::{self, BatchError, Job, Options};
use anabranch::capture::Sink;
use anabranch::scenario::AxisValue;
use anabranch::scenario::sweep::{Design, DesignKind, Until};
use anabranch::sim::{Guard, Simulation};
use anabranch::study::Study;
use anabranch::trace::{Column, Table};
use anabranch_transport::units::{Bytes, Rate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};

use crate::heeding::{HEARING, apart, heeding};
use crate::plugins::take_interrupt;
use crate::{RunError, ScenarioError};

/// A checked scenario, with its sweep if it has one. `anabranch.load` reads one from a file or from text.
///
/// Examples
/// --------
/// >>> scenario = anabranch.load("scenarios/rto-sweep.toml")
/// >>> scenario
/// Scenario("rto-sweep", 9 cells)
/// >>> scenario.cell_key(4)
/// {'rto_max': 1.0, 'pmr': 1.0}
#[pyclass(name = "Scenario", frozen, module = "anabranch._engine")]
pub(crate) struct PyScenario(pub(crate) Arc<Study>);

type Sets = Vec<(String, String)>;

pub(crate) fn scenario_error(error: impl std::fmt::Display) -> PyErr {
    // Ctrl-C may have been pressed while a class of Python was read or an object of it was made.
    take_interrupt().unwrap_or_else(|| ScenarioError::new_err(error.to_string()))
}

#[pymethods]
impl PyScenario {
    #[staticmethod]
    #[pyo3(signature = (path, sets = Vec::new()))]
    fn load(py: Python<'_>, path: PathBuf, sets: Sets) -> PyResult<Self> {
        heeding(py, |is_cancelled| Study::load_unless(&path, &sets, is_cancelled)).map(Self::new)
    }

    #[staticmethod]
    #[pyo3(signature = (text, sets = Vec::new(), folder = PathBuf::from(".")))]
    fn parse(py: Python<'_>, text: &str, sets: Sets, folder: PathBuf) -> PyResult<Self> {
        let folder = Path::new(&folder);
        heeding(py, |is_cancelled| Study::parse_unless(text, &sets, folder, is_cancelled)).map(Self::new)
    }

    fn check_reached(&self, sets: Sets) -> PyResult<()> {
        self.0.sweep.check_reached(&sets).map_err(scenario_error)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.scenario.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.scenario.description
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.scenario.seed
    }

    #[getter]
    fn replications(&self) -> u64 {
        self.0.sweep.config().replications
    }

    #[getter]
    fn metrics(&self) -> Vec<String> {
        self.0.sweep.config().metrics.clone()
    }

    #[getter]
    fn traces(&self) -> Vec<String> {
        self.0.sweep.config().traces.clone()
    }

    #[getter]
    fn until<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.0.sweep.config().until.as_ref().map(|until| until_of(py, until)).transpose()
    }

    #[getter]
    fn design<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.0.sweep.config().design.as_ref().map(|design| design_of(py, design)).transpose()
    }

    #[getter]
    fn studies(&self) -> Vec<&str> {
        let sweep = &self.0.sweep;
        let parts = if sweep.config().studies.is_empty() { &[] } else { sweep.parts() };
        parts.iter().map(|part| part.name.as_str()).collect()
    }

    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let parts = PyList::empty(py);
        let mut first_cell = 0;
        for part in self.0.sweep.parts() {
            let dict = PyDict::new(py);
            dict.set_item("study", &part.name)?;
            dict.set_item("first_cell", first_cell)?;
            dict.set_item("cell_count", part.cell_count())?;
            dict.set_item("replications", part.replications)?;
            let until = part.until.as_ref().map(|until| until_of(py, until)).transpose()?;
            dict.set_item("until", until)?;
            let design = part.design.as_ref().map(|design| design_of(py, design)).transpose()?;
            dict.set_item("design", design)?;
            dict.set_item("is_open", part.is_open())?;
            dict.set_item("axes", part.axis_names().collect::<Vec<_>>())?;
            parts.append(dict)?;
            first_cell += part.cell_count();
        }
        Ok(parts)
    }

    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let axes = PyList::empty(py);
        for axis in self.0.sweep.columns() {
            let dict = PyDict::new(py);
            dict.set_item("name", &axis.name)?;
            dict.set_item("labels", &axis.labels)?;
            let values =
                axis.values.iter().map(|value| axis_value(py, value)).collect::<PyResult<Vec<_>>>()?;
            dict.set_item("values", values)?;
            axes.append(dict)?;
        }
        Ok(axes)
    }

    #[getter]
    fn cell_count(&self) -> u64 {
        self.0.sweep.cell_count()
    }

    #[getter]
    fn hash(&self, py: Python<'_>) -> PyResult<String> {
        let study = Arc::clone(&self.0);
        Ok(format!("{:016x}", apart(py, move || study.hash())?))
    }

    /// What a notebook shows, which the Python package draws.
    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<String> {
        let views = slf.py().import("anabranch.support.views")?.call_method0("views")?;
        views.call_method1("of_scenario", (slf,))?.extract()
    }

    fn cell_hashes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let study = Arc::clone(&self.0);
        let hashes = apart(py, move || study.cell_hashes())?.map_err(scenario_error)?;
        Ok(hashes.into_iter().map(|hash| format!("{hash:016x}")).collect())
    }

    fn cell_key<'py>(&self, py: Python<'py>, cell: i128) -> PyResult<Bound<'py, PyDict>> {
        let cell = self.checked_cell(cell)?;
        let key = PyDict::new(py);
        for (name, value) in self.0.sweep.key(cell) {
            key.set_item(name, axis_value(py, value)?)?;
        }
        Ok(key)
    }

    fn cell_study(&self, cell: i128) -> PyResult<&str> {
        let cell = self.checked_cell(cell)?;
        Ok(&self.0.sweep.part_of(cell).0.name)
    }

    fn cell_toml(&self, cell: i128) -> PyResult<String> {
        let cell = self.checked_cell(cell)?;
        Ok(self.0.cell(cell).map_err(scenario_error)?.to_toml())
    }

    #[pyo3(signature = (cell = 0))]
    fn scalars(&self, py: Python<'_>, cell: i128) -> PyResult<Vec<String>> {
        let cell = self.checked_cell(cell)?;
        let study = Arc::clone(&self.0);
        let names = move || {
            let simulation = Simulation::build(&study.cell(cell)?, 0, false)?;
            let names = simulation.scalars().into_iter().filter(|name| study.sweep.keeps(name));
            Ok::<_, anabranch::scenario::ScenarioError>(names.collect())
        };
        py.detach(names).map_err(scenario_error)
    }

    #[pyo3(signature = (study = "main"))]
    fn point_cells(&self, study: &str) -> PyResult<Vec<u64>> {
        let mut first_cell = 0;
        for part in self.0.sweep.parts() {
            if part.name == study {
                return Ok(part.point_cells().iter().map(|cell| first_cell + cell).collect());
            }
            first_cell += part.cell_count();
        }
        Err(scenario_error(format!("there is no sub-study `{study}`")))
    }

    #[pyo3(signature = (points, study = "main"))]
    fn with_points(&self, py: Python<'_>, points: Vec<Vec<f64>>, study: &str) -> PyResult<Self> {
        heeding(py, |is_cancelled| self.0.with_points(study, &points, is_cancelled)).map(Self::new)
    }

    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        let study = Arc::clone(&self.0);
        apart(py, move || study.to_toml())
    }

    /// The text and the folder in which its file names start, from which another process can read it again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyType>,))> {
        let folder = std::env::current_dir()?;
        let arguments = ("parse", slf.get().to_toml(slf.py())?, Sets::new(), folder);
        let parse = slf.py().import("operator")?.call_method1("methodcaller", arguments)?;
        Ok((parse, (slf.get_type(),)))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("Scenario({:?}, {} cells)", self.0.scenario.name, self.0.sweep.cell_count())
    }
}

impl PyScenario {
    fn new(study: Study) -> Self {
        Self(Arc::new(study))
    }

    /// The number of a cell if there is such a cell, since users may ask for anything.
    pub(crate) fn checked_cell(&self, cell: i128) -> PyResult<u64> {
        let count = self.0.sweep.cell_count();
        if let Ok(cell) = u64::try_from(cell)
            && cell < count
        {
            return Ok(cell);
        }
        if count == 0 {
            return Err(scenario_error(
                "the sweep's design has no points yet; `anabranch.load` chooses them",
            ));
        }
        Err(scenario_error(format!("cell {cell} is not in the sweep; its cells are 0 to {}", count - 1)))
    }
}

fn until_of<'py>(py: Python<'py>, until: &Until) -> PyResult<Bound<'py, PyDict>> {
    let Until { metric, half_width, level, least, most } = until;
    let dict = PyDict::new(py);
    dict.set_item("metric", metric)?;
    dict.set_item("half_width", half_width)?;
    dict.set_item("level", level)?;
    dict.set_item("least", least)?;
    dict.set_item("most", most)?;
    Ok(dict)
}

fn design_of<'py>(py: Python<'py>, design: &Design) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let kind = match design.kind {
        DesignKind::LatinHypercube => "latin_hypercube",
        DesignKind::Sobol => "sobol",
        DesignKind::Saltelli => "saltelli",
    };
    dict.set_item("kind", kind)?;
    dict.set_item("points", design.points)?;
    dict.set_item("seed", design.seed)?;
    Ok(dict)
}

fn axis_value<'py>(py: Python<'py>, value: &AxisValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        AxisValue::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        AxisValue::Number(number) => number.into_pyobject(py)?.into_any(),
        AxisValue::Text(text) => text.into_pyobject(py)?.into_any(),
    })
}

/// Runs a scenario once.
#[expect(clippy::too_many_arguments, reason = "Python names them")]
#[pyfunction]
#[pyo3(signature = (scenario, cell = 0, seed = None, replication = 0, trace = false, capture = None, capture_at = None))]
pub(crate) fn run<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    cell: i128,
    seed: Option<u64>,
    replication: u64,
    trace: bool,
    capture: Option<Py<PyAny>>,
    capture_at: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let cell = scenario.checked_cell(cell)?;
    let study = &scenario.0;
    let failure = Arc::new(OnceLock::new());
    let sink = capture.map(|file| Box::new(PyFile { file, failure: Arc::clone(&failure) }) as Sink);
    let outcome = py.detach(|| {
        let mut one = study.cell(cell).map_err(scenario_error)?;
        one.seed = seed.unwrap_or(one.seed);
        let simulation = match sink {
            Some(sink) => Simulation::build_captured(&one, replication, trace, sink, capture_at),
            None => Simulation::build(&one, replication, trace),
        };
        let simulation = simulation.map_err(scenario_error)?;
        let mut watch = watch(&simulation, Duration::ZERO);
        // A run may take an hour, so Ctrl-C and the like are checked during it.
        let mut signal = None;
        let mut guard = || {
            signal = Python::attach(|py| py.check_signals().err());
            if signal.is_some() { Some("a signal".to_owned()) } else { watch() }
        };
        let guard: &mut Guard<'_> = &mut guard;
        let outcome = simulation.run(guard);
        outcome.map_err(|error| {
            // Python's own exceptions, Ctrl-C among them, are better known to the callers than a sentence of
            // ours.
            let raised = Python::attach(|py| failure.get().map(|raised: &PyErr| raised.clone_ref(py)));
            signal.or(raised).or_else(take_interrupt).unwrap_or_else(|| RunError::new_err(error.to_string()))
        })
    })?;
    let summary = PyDict::new(py);
    for (name, value) in outcome.row.scalars() {
        summary.set_item(name, value)?;
    }
    let traces = columns_of(py, &outcome.tables)?;
    let result = PyDict::new(py);
    result.set_item("summary", summary)?;
    result.set_item("traces", traces)?;
    Ok(result)
}

/// A Python file that is open for writing bytes.
struct PyFile {
    file: Py<PyAny>,
    /// The first exception that it raised.
    failure: Arc<OnceLock<PyErr>>,
}

impl PyFile {
    /// Keeps the exception for the code that began the run.
    fn noted<T>(&self, result: PyResult<T>) -> io::Result<T> {
        result.map_err(|error| {
            let text = error.to_string();
            let _ = self.failure.set(error); // the first one counts
            io::Error::other(text)
        })
    }
}

impl io::Write for PyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Raw files may take less than they are given.
        self.noted(Python::attach(|py| self.file.call_method1(py, "write", (bytes,))?.extract(py)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.noted(Python::attach(|py| self.file.call_method0(py, "flush")).map(drop))
    }
}

/// Table to column to values.
pub(crate) fn columns_of<'py>(py: Python<'py>, tables: &[Table]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for table in tables {
        dict.set_item(table.name, columns(py, table)?)?;
    }
    Ok(dict)
}

fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in &table.columns {
        match column {
            Column::Flags(values) => dict.set_item(name, values)?,
            Column::Integers(values) => dict.set_item(name, values)?,
            Column::Numbers(values) => dict.set_item(name, values)?,
            Column::Text(values) => {
                dict.set_item(name, values.iter().map(AsRef::as_ref).collect::<Vec<&str>>())?;
            }
        }
    }
    Ok(dict)
}

/// Lets another thread end a batch early.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct Cancel(AtomicBool);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Python's signals during a batch, which end it. Only Python's main thread hears them.
struct Signals<'a> {
    cancel: &'a AtomicBool,
    raised: OnceLock<PyErr>,
}

impl Signals<'_> {
    /// Whether a signal has come that raises an exception.
    fn come(&self) -> bool {
        if let Some(signal) = Python::attach(|py| py.check_signals().err()) {
            self.cancel.store(true, Ordering::Relaxed);
            let _ = self.raised.set(signal); // the first one counts
        }
        self.raised.get().is_some()
    }

    /// Has another thread compute something, and hears signals meanwhile.
    fn awaiting<T: Send>(&self, compute: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            let work = scope.spawn(move || {
                // It is dropped at the end, whichever that is.
                let _done = done;
                compute()
            });
            while is_done.recv_timeout(HEARING) == Err(RecvTimeoutError::Timeout) {
                self.come();
            }
            work.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }
}

/// Many runs on several threads.
#[pyfunction]
#[pyo3(signature = (scenario, jobs, threads, seed = None, cancel = None, traces = Vec::new()))]
pub(crate) fn run_batch<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    jobs: Vec<(u64, u64)>,
    threads: usize,
    seed: Option<u64>,
    cancel: Option<&Cancel>,
    traces: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    for &(cell, _) in &jobs {
        scenario.checked_cell(cell.into())?;
    }
    let jobs: Vec<Job> = jobs.into_iter().map(|(cell, replication)| Job { cell, replication }).collect();
    let own = AtomicBool::new(false);
    let cancel = cancel.map_or(&own, |cancel| &cancel.0);
    let options = Options { seed, threads, traces: &traces, cancel: Some(cancel) };
    let signals = Signals { cancel, raised: OnceLock::new() };
    let results = py.detach(|| {
        let guard = |run: &Simulation| {
            let (mut watch, signals) = (watch(run, Duration::ZERO), &signals);
            move || if signals.come() { Some("a signal".to_owned()) } else { watch() }
        };
        let compute = || batch::run(&scenario.0, &jobs, &options, guard);
        if threads == 1 { compute() } else { signals.awaiting(compute) }
    });
    if let Some(signal) = signals.raised.into_inner() {
        return Err(signal);
    }
    let results = results.map_err(|error| match error {
        BatchError::Scenario { .. } => scenario_error(error),
        BatchError::Run { .. } | BatchError::Threads { .. } => {
            take_interrupt().unwrap_or_else(|| RunError::new_err(error.to_string()))
        }
    })?;
    let dict = PyDict::new(py);
    for (name, values) in results.columns {
        dict.set_item(name, values)?;
    }
    if !traces.is_empty() {
        let list = PyList::empty(py);
        for (job, tables) in &results.traces {
            list.append((job.cell, job.replication, columns_of(py, tables)?))?;
        }
        dict.set_item("traces", list)?;
    }
    Ok(dict)
}

/// Keeps the wall-clock limit of a run that has been computed for a time `used` before.
pub(crate) fn watch(simulation: &Simulation, used: Duration) -> impl FnMut() -> Option<String> + use<> {
    let started = Instant::now();
    let limit = simulation.max_wall_time();
    move || {
        ((used + started.elapsed()).as_secs_f64() > limit.as_secs_f64())
            .then(|| format!("run.max_wall_time = {limit} is over"))
    }
}

/// The tree that a TOML text is, as JSON text, before anything in it has a meaning.
#[pyfunction]
pub(crate) fn toml_tree(py: Python<'_>, text: &str) -> PyResult<String> {
    let text = text.to_owned();
    let tree = move || anabranch::study::toml_tree(&text).map(|tree| tree.to_string());
    apart(py, tree)?.map_err(scenario_error)
}

/// The number of nanoseconds, bits in a second or bytes that a text is, by the kind of the quantity.
#[pyfunction]
pub(crate) fn quantity(kind: &str, text: &str) -> PyResult<f64> {
    let number = match kind {
        "duration" => text.parse().map(|time: anabranch_transport::time::Duration| time.as_nanos() as f64),
        "rate" => text.parse().map(|rate: Rate| rate.bits_per_sec() as f64),
        "size" => text.parse().map(|Bytes(bytes)| bytes as f64),
        other => panic!("no kind of quantity: {other}"),
    };
    number.map_err(scenario_error)
}

/// The JSON Schema of scenario files.
#[pyfunction]
pub(crate) fn schema() -> String {
    let schema = anabranch::scenario::schema();
    serde_json::to_string_pretty(&schema).expect("a schema is a tree of plain values") + "\n"
}

/// What each transport can do, as JSON: kind -> capabilities.
#[pyfunction]
pub(crate) fn transports() -> String {
    let all: std::collections::BTreeMap<_, _> = anabranch::transports::CAPABILITIES.into_iter().collect();
    serde_json::to_string(&all).expect("capabilities are plain values")
}

/// The available models: category -> kinds, each with its description.
#[pyfunction]
pub(crate) fn models(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (category, kinds) in anabranch::scenario::models() {
        dict.set_item(category, kinds)?;
    }
    Ok(dict)
}

/// The declarations of scalars and of the tables of traces, as JSON text.
#[pyfunction]
pub(crate) fn results() -> String {
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "emulations are Linux's"))]
    let mut groups = anabranch::results::groups();
    #[cfg(target_os = "linux")]
    groups.extend(anabranch_emulate::results::groups());
    anabranch::results::as_json(&groups).to_string()
}
