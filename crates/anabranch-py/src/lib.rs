//! Python bindings.
use pyo3::prelude::*;

#[pymodule]
mod _engine {}
