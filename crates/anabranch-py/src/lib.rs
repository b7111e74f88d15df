//! The compiled engine as a Python module. The only code that knows `PyO3`; the interface is written
//! down in `python/anabranch/_engine.pyi`.

mod quality;
mod scenario;

use pyo3::prelude::*;

mod exceptions {
    #![allow(missing_docs, reason = "the macro takes the documentation as text for Python")]

    pyo3::create_exception!(
        _engine,
        ScenarioError,
        pyo3::exceptions::PyValueError,
        "A scenario that cannot be run: one sentence with the key, what was found and what is allowed."
    );
    pyo3::create_exception!(
        _engine,
        RunError,
        pyo3::exceptions::PyRuntimeError,
        "A run that was stopped by one of its guards (events, wall time, memory)."
    );
}

pub(crate) use exceptions::{RunError, ScenarioError};

/// The compiled engine of anabranch.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::quality::{codecs, emodel};
    #[pymodule_export]
    use super::scenario::{Cancel, PyScenario, models, run, run_batch, schema};
    #[pymodule_export]
    use super::{RunError, ScenarioError};

    #[allow(non_upper_case_globals, reason = "the name that Python modules give their version")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const ENGINE_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ENGINE_SOURCES"));
}
