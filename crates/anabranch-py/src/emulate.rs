//! Emulations: scenarios in real time, with programs of the system at their ends. Linux only.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anabranch::scenario::Scenario;
use anabranch_emulate as emulate;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::live::scalars;
use crate::owned::Owned;
use crate::{LiveError, ScenarioError};

type Sets = Vec<(String, String)>;

/// An interface: path, device, node at the other end, own addresses, those at the other end.
type InterfaceRow = (String, String, String, Vec<String>, Vec<String>);

/// A direction of a link: its name, the direction, the rate in bit/s, packets in it, packets and bytes
/// delivered, packets dropped by cause.
type LinkRow = (String, &'static str, Option<u64>, u64, u64, u64, Vec<(&'static str, u64)>);

/// A scenario in real time.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct Emulation {
    name: String,
    seed: u64,
    /// The scenario as TOML, with every default filled in.
    settings: String,
    links: Vec<String>,
    running: Owned<emulate::Emulator>,
}

impl Emulation {
    fn start(
        py: Python<'_>,
        scenario: &Scenario,
        replication: u64,
        capture: Option<PathBuf>,
    ) -> PyResult<Self> {
        let emulator = py.detach(|| {
            // Mistakes in the scenario are reported before those of the machine.
            anabranch::sim::Emulation::build(scenario, replication)
                .map_err(|error| ScenarioError::new_err(error.to_string()))?;
            let create = |path: PathBuf| {
                File::create(&path).map_err(|error| {
                    LiveError::new_err(format!("the capture {} cannot be written: {error}", path.display()))
                })
            };
            let file = capture.map(create).transpose()?;
            interruptible(|stop| emulate::Emulator::start(scenario, replication, file, stop))
        })?;
        let links = scenario.links.keys().cloned().collect();
        let (name, seed, settings) = (scenario.name.clone(), scenario.seed, scenario.to_toml());
        Ok(Self { name, seed, settings, links, running: Owned::new("emulation", emulator) })
    }

    /// Asks the emulation, while other Python threads go on.
    fn ask<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&emulate::Emulator) -> T + Send) -> PyResult<T> {
        let answer = py.detach(|| self.running.ask(ask))?;
        answer.ok_or_else(|| LiveError::new_err("the emulation has ended"))
    }
}

#[pymethods]
impl Emulation {
    #[staticmethod]
    #[pyo3(signature = (path, sets = Vec::new(), replication = 0, capture = None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        sets: Sets,
        replication: u64,
        capture: Option<PathBuf>,
    ) -> PyResult<Self> {
        let scenario = Scenario::load_network(&path, &sets)
            .map_err(|error| ScenarioError::new_err(error.to_string()))?;
        Self::start(py, &scenario, replication, capture)
    }

    #[staticmethod]
    #[pyo3(signature = (text, sets = Vec::new(), folder = PathBuf::from("."), replication = 0, capture = None))]
    fn parse(
        py: Python<'_>,
        text: &str,
        sets: Sets,
        folder: PathBuf,
        replication: u64,
        capture: Option<PathBuf>,
    ) -> PyResult<Self> {
        let scenario = Scenario::parse_network(text, &sets, &folder)
            .map_err(|error| ScenarioError::new_err(error.to_string()))?;
        Self::start(py, &scenario, replication, capture)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    #[getter]
    fn settings(&self) -> &str {
        &self.settings
    }

    #[getter]
    fn links(&self) -> Vec<&str> {
        self.links.iter().map(String::as_str).collect()
    }

    /// The thread that carries packets.
    #[getter]
    fn thread_id(&self, py: Python<'_>) -> PyResult<i32> {
        self.ask(py, emulate::Emulator::thread_id)
    }

    /// Which devices the nodes have.
    #[getter]
    fn devices(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.ask(py, |emulator| emulator.device_kind().name())
    }

    /// The nodes, in the order in which paths name them, with their interfaces.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<InterfaceRow>)>> {
        let row = |interface: &emulate::Interface| {
            let [own, remote] = [&interface.own, &interface.remote]
                .map(|addresses| addresses.iter().map(ToString::to_string).collect());
            (interface.path_name.clone(), interface.device.clone(), interface.peer.clone(), own, remote)
        };
        self.ask(py, |emulator| {
            let nodes = emulator.plan().nodes.iter();
            nodes.map(|node| (node.name.clone(), node.interfaces.iter().map(row).collect())).collect()
        })
    }

    /// The descriptors of a node's network, mount and process namespaces.
    fn descriptors(&self, py: Python<'_>, node: &str) -> PyResult<Option<[i32; 3]>> {
        self.ask(py, |emulator| emulator.descriptors(node))
    }

    fn set(&self, py: Python<'_>, link: String, values: Sets) -> PyResult<()> {
        self.ask(py, |emulator| emulator.set(link, values))?
            .map_err(|error| ScenarioError::new_err(error.to_string()))
    }

    fn states(&self, py: Python<'_>) -> PyResult<Vec<LinkRow>> {
        let causes = anabranch::net::DropCause::ALL;
        self.ask(py, |emulator| {
            let row = |state: anabranch::sim::LinkState| {
                let [packets, bytes] = state.delivered;
                let dropped = causes.iter().zip(state.dropped).map(|(cause, count)| (cause.name(), count));
                let direction = state.direction.name();
                (state.link, direction, state.rate, state.held, packets, bytes, dropped.collect())
            };
            emulator.states().into_iter().map(row).collect()
        })
    }

    /// The scalars up to now.
    fn row<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let row = self.ask(py, emulate::Emulator::row)?;
        scalars(py, &row)
    }

    /// Ends the emulation, with all programs that run in it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let emulator = self.running.take()?;
        py.detach(|| emulator.map_or(Ok(()), |emulator| emulator.stop())).map_err(LiveError::new_err)
    }
}

/// Makes namespaces and devices, in a thread of its own: this one hears of signals meanwhile, and a handler
/// that raises gives it up.
pub(crate) fn interruptible<T: Send>(
    make: impl FnOnce(&emulate::Stop) -> Result<T, String> + Send,
) -> PyResult<T> {
    const LOOK: Duration = Duration::from_millis(50);
    let stop = emulate::Stop::default();
    let (done, made) = mpsc::channel();
    thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || done.send(make(stop)));
        loop {
            match made.recv_timeout(LOOK) {
                Ok(made) => return made.map_err(LiveError::new_err),
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(|py: Python<'_>| py.check_signals()).inspect_err(|_| stop.stop())?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the thread that makes namespaces has panicked")
                }
            }
        }
    })
}

/// Moves the calling thread into the namespaces of these files; programs that it starts are in them.
#[pyfunction]
pub(crate) fn enter_namespaces(network: PathBuf, mounts: PathBuf, processes: PathBuf) -> PyResult<()> {
    emulate::enter(&network, &mounts, Some(&processes)).map_err(LiveError::new_err)
}
