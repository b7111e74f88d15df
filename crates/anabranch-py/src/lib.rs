//! The compiled engine as a Python module. The only code that knows `PyO3`; the interface is written
//! down in `python/anabranch/_engine.pyi`.

mod quality;
mod scenario;

use pyo3::prelude::*;

pyo3::create_exception!(_engine, ScenarioError, pyo3::exceptions::PyValueError);
pyo3::create_exception!(_engine, RunError, pyo3::exceptions::PyRuntimeError);

/// The compiled engine of anabranch.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::quality::{codecs, emodel};
    #[pymodule_export]
    use super::scenario::{PyScenario, models, run, run_batch, schema};
    #[pymodule_export]
    use super::{RunError, ScenarioError};

    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
