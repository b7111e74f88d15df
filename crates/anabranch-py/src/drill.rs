//! Scripts in packetdrill's language.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::fs;
use std::path::PathBuf;

use anabranch_drill::Options;
use pyo3::prelude::*;

use crate::ScenarioError;

/// Runs a script and returns what came of it as JSON text.
#[pyfunction]
#[pyo3(signature = (text, profile = None, folder = None))]
pub(crate) fn drill(
    py: Python<'_>,
    text: &str,
    profile: Option<&str>,
    folder: Option<PathBuf>,
) -> PyResult<String> {
    let read = |name: &str| folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(name)).ok());
    let report = py.detach(|| anabranch_drill::drill(text, &Options { profile, read: &read }));
    let report = report.map_err(ScenarioError::new_err)?;
    serde_json::to_string(&report).map_err(|error| ScenarioError::new_err(error.to_string()))
}
