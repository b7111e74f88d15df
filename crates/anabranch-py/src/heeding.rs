//! Calls that may take long and heed signals meanwhile. A handler that raises, as that of Ctrl-C does, gives
//! them up.

use std::cell::RefCell;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{panic, thread};

use anabranch::scenario::ScenarioError;
use pyo3::prelude::*;

use crate::scenario::scenario_error;

/// How often signals are looked for while other threads compute.
pub(crate) const HEARING: Duration = Duration::from_millis(50);

/// Computes something without Python's lock, in this thread, since it may call classes of Python, which
/// Ctrl-C interrupts in this thread alone. It asks now and then whether to give up.
pub(crate) fn heeding<T: Send>(
    py: Python<'_>,
    compute: impl FnOnce(&dyn Fn() -> bool) -> Result<T, ScenarioError> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let signal = RefCell::new(None);
        let is_cancelled = || {
            let mut signal = signal.borrow_mut();
            if signal.is_none() {
                *signal = Python::attach(|py| py.check_signals().err());
            }
            signal.is_some()
        };
        let result = compute(&is_cancelled);
        match signal.into_inner() {
            Some(signal) => Err(signal),
            None => result.map_err(scenario_error),
        }
    })
}

/// Computes something that needs no Python in a thread of its own. When it is given up, that thread finishes
/// what it does in vain.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    compute: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    py.detach(|| {
        let (done, is_done) = mpsc::channel();
        let work = thread::spawn(move || {
            let _ = done.send(compute());
        });
        loop {
            match is_done.recv_timeout(HEARING) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py: Python<'_>| py.check_signals())?,
                Err(RecvTimeoutError::Disconnected) => {
                    panic::resume_unwind(work.join().expect_err("it has given no result"))
                }
            }
        }
    })
}
