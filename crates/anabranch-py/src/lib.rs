//! The compiled engine as a Python module. This is the only code that uses `PyO3`;
//! `python/anabranch/_engine.pyi` describes the interface.

mod call;
mod capture;
mod drill;
#[cfg(target_os = "linux")]
mod emulate;
mod heeding;
mod live;
mod owned;
mod plugins;
mod quality;
#[cfg(feature = "quic")]
mod quic;
mod scenario;
mod served;
mod stepped;
mod talk;
#[cfg(target_os = "linux")]
mod testbed;

// These are Python's classes, so that they are `AnabranchError`s: a class made here can have only one base.
pyo3::import_exception!(anabranch.errors, AnabranchError);
pyo3::import_exception!(anabranch.errors, LiveError);
pyo3::import_exception!(anabranch.errors, RunError);
pyo3::import_exception!(anabranch.errors, ScenarioError);

/// The compiled engine of anabranch.
#[pyo3::pymodule]
mod _engine {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::call::LiveCall;
    #[pymodule_export]
    use super::capture::{CaptureReader, is_capture};
    #[pymodule_export]
    use super::drill::drill;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::emulate::{Emulation, enter_namespaces};
    #[pymodule_export]
    use super::live::LiveHost;
    #[pymodule_export]
    use super::plugins::control::{
        PyAckEvent, PyArrivalEvent, PyCongestionEvent, PyCumulative, PyDuplicateEvent, PyIdleEvent,
        PyLostEvent, PyProbeEvent, PyRateSample, PyRecoveryEndEvent, PyRttEvent, PySentEvent, PyUndoEvent,
    };
    #[pymodule_export]
    use super::plugins::media::{PyMediaFeedback, PyPacketReport};
    #[pymodule_export]
    use super::plugins::policy::{
        PyFailover, PyHeartbeatPair, PyPathEvent, PyPathStatus, PyProbe, PyRetransmission, PySelection,
    };
    #[pymodule_export]
    use super::plugins::queue::{PyDrops, PyPacket};
    #[pymodule_export]
    use super::plugins::scheduler::{PyPathView, PyPending};
    #[pymodule_export]
    use super::plugins::{plugin_calls, plugin_interrupt};
    #[pymodule_export]
    use super::quality::{codecs, emodel};
    #[cfg(feature = "quic")]
    #[pymodule_export]
    use super::quic::{QuicHost, certificates, check_key, self_signed};
    #[pymodule_export]
    use super::scenario::{
        Cancel, PyScenario, models, quantity, results, run, run_batch, schema, toml_tree, transports,
    };
    #[pymodule_export]
    use super::stepped::{Interval, SteppedRun};
    #[pymodule_export]
    use super::talk::{chain_log_likelihood, follow_sightings, newly_acknowledged, walk_sender};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::testbed::Testbed;
    #[allow(non_upper_case_globals, reason = "the name that Python modules give their version")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const ENGINE_VERSION: &str = anabranch::VERSION;

    // Set by `make wheel`.
    #[pymodule_export]
    const PROFILE_GUIDED: bool = option_env!("ANABRANCH_PROFILE_GUIDED").is_some();

    // Whether it speaks QUIC with peers, which costs setting up half a minute.
    #[pymodule_export]
    const QUIC: bool = cfg!(feature = "quic");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::plugins::register();
        module.add("LiveError", module.py().get_type::<super::LiveError>())?;
        module.add("RunError", module.py().get_type::<super::RunError>())?;
        module.add("ScenarioError", module.py().get_type::<super::ScenarioError>())
    }
}
