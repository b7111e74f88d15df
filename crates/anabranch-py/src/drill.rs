//! Scripts in packetdrill's language.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::cell::RefCell;
use std::path::PathBuf;

use anabranch::scenario::MAX_FILE_MEGABYTES;
use anabranch::text_file;
use anabranch_drill::Options;
use pyo3::prelude::*;

use crate::ScenarioError;

/// Runs a script and returns what came of it as JSON text. Files that it names are looked for in these
/// folders, in their order.
#[pyfunction]
#[pyo3(signature = (text, profile = None, folders = Vec::new()))]
pub(crate) fn drill(
    py: Python<'_>,
    text: &str,
    profile: Option<&str>,
    folders: Vec<PathBuf>,
) -> PyResult<String> {
    let read = |name: &str| {
        folders.iter().find_map(|folder| text_file::read(&folder.join(name), MAX_FILE_MEGABYTES).ok())
    };
    let report = py.detach(|| {
        // A script may be long, so Ctrl-C and the like are checked during it.
        let signal = RefCell::new(None);
        let is_cancelled = || {
            *signal.borrow_mut() = Python::attach(|py| py.check_signals().err());
            signal.borrow().is_some()
        };
        let report =
            anabranch_drill::drill(text, &Options { profile, read: &read, is_cancelled: &is_cancelled });
        report.map_err(|error| signal.take().unwrap_or_else(|| ScenarioError::new_err(error)))
    })?;
    serde_json::to_string(&report).map_err(|error| ScenarioError::new_err(error.to_string()))
}
