//! Testbeds: the flows of a scenario on the kernel's own stacks, in real time. Linux only.

use std::fs::File;
use std::path::PathBuf;

use anabranch_emulate as emulate;
use anabranch_transport::time::Duration;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::emulate::interruptible;
use crate::owned::Owned;
use crate::scenario::{PyScenario, columns_of};
use crate::{LiveError, ScenarioError};

/// A run of a scenario on the kernel, from the time when it is made.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct Testbed(Owned<emulate::Testbed>);

impl Testbed {
    fn ask<T>(&self, ask: impl FnOnce(&emulate::Testbed) -> T) -> PyResult<T> {
        self.0.ask(ask)?.ok_or_else(|| LiveError::new_err("the testbed has ended"))
    }
}

#[pymethods]
impl Testbed {
    /// `interval_ms` is how often connections are asked for their state; `usrsctp` is the program of an end
    /// on usrsctp, if flows of SCTP run on that.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        scenario: &PyScenario,
        cell: i128,
        seed: u64,
        replication: u64,
        trace: bool,
        interval_ms: u64,
        capture: Option<PathBuf>,
        usrsctp: Option<PathBuf>,
    ) -> PyResult<Self> {
        let cell = scenario.checked_cell(cell)?;
        let study = &scenario.0;
        let bed = py.detach(|| {
            let mut one = study.cell(cell).map_err(|error| ScenarioError::new_err(error.to_string()))?;
            one.seed = seed;
            let interval = Duration::from_millis(interval_ms);
            // Errors about what no kernel has come before those about what this machine does not permit.
            let prepared = emulate::Prepared::new(&one, replication, trace, interval, usrsctp);
            let prepared = prepared.map_err(ScenarioError::new_err)?;
            let create = |path: PathBuf| {
                File::create(&path).map_err(|error| {
                    LiveError::new_err(format!("the capture {} cannot be written: {error}", path.display()))
                })
            };
            let capture = capture.map(create).transpose()?;
            interruptible(|stop| prepared.start(capture, stop))
        })?;
        Ok(Self(Owned::new("testbed", bed)))
    }

    /// The release of the kernel.
    #[staticmethod]
    fn kernel() -> String {
        emulate::Testbed::kernel()
    }

    /// Whether that kernel is a user-mode Linux in virtual time.
    #[staticmethod]
    fn is_virtual() -> bool {
        emulate::Testbed::is_virtual()
    }

    /// The thread that carries packets and serves the sockets.
    #[getter]
    fn thread_id(&self) -> PyResult<i32> {
        self.ask(emulate::Testbed::thread_id)
    }

    /// Whether it has ended by itself.
    fn is_over(&self) -> PyResult<bool> {
        self.ask(emulate::Testbed::is_over)
    }

    /// Ends the run, and returns its scalars and traces.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bed = self.0.take()?.ok_or_else(|| LiveError::new_err("the testbed has ended"))?;
        let outcome = py.detach(|| bed.finish()).map_err(LiveError::new_err)?;
        let result = PyDict::new(py);
        result.set_item("summary", crate::live::scalars(py, &outcome.row)?)?;
        result.set_item("traces", columns_of(py, &outcome.tables)?)?;
        Ok(result)
    }
}
