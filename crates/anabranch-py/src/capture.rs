//! Captures as columns, which `anabranch.support.capture` makes arrays of.

use std::net::IpAddr;
use std::path::PathBuf;

use anabranch_capture as capture;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::AnabranchError;

/// Whether a file is a capture, also if it is compressed.
#[pyfunction]
pub(crate) fn is_capture(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    Ok(py.detach(move || capture::is_capture(&path))?)
}

/// A capture that is being read.
#[pyclass(module = "anabranch._engine")]
pub(crate) struct CaptureReader {
    reader: capture::Reader,
    path: PathBuf,
}

impl CaptureReader {
    fn error(path: &std::path::Path, error: capture::Error) -> PyErr {
        match error {
            capture::Error::Io(error) => error.into(),
            capture::Error::Unreadable(problem) => {
                AnabranchError::new_err(format!("{}: {problem}", path.display()))
            }
        }
    }
}

#[pymethods]
impl CaptureReader {
    #[new]
    #[pyo3(signature = (path, interface=None))]
    fn new(py: Python<'_>, path: PathBuf, interface: Option<String>) -> PyResult<Self> {
        let reader = py.detach(|| capture::Reader::open(&path, interface));
        match reader {
            Ok(reader) => Ok(Self { reader, path }),
            Err(error) => Err(Self::error(&path, error)),
        }
    }

    /// The columns of the next packets: the type of a value, and the values.
    fn next_batch<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let reader = &mut self.reader;
        let batch = py.detach(|| reader.next_batch()).map_err(|error| Self::error(&self.path, error))?;
        let Some(batch) = batch else { return Ok(None) };
        let columns = PyDict::new(py);
        for (name, kind, values) in batch.columns() {
            columns.set_item(name, (kind, PyBytes::new(py, &values)))?;
        }
        Ok(Some(columns))
    }

    #[getter]
    fn position(&self) -> u64 {
        self.reader.position()
    }

    #[getter]
    fn interfaces(&self) -> Vec<(String, u64)> {
        let interfaces = self.reader.interfaces().into_iter();
        interfaces.map(|(name, interface)| (name.to_owned(), interface.frames)).collect()
    }

    fn places(&self, first: usize) -> Vec<(String, String)> {
        let places = self.reader.places().skip(first);
        places.map(|place| (place.name.clone(), place.interface.clone())).collect()
    }

    fn addresses<'py>(&self, py: Python<'py>, first: usize) -> Vec<Bound<'py, PyBytes>> {
        self.reader.addresses().skip(first).map(|address| packed(py, address)).collect()
    }

    fn comments<'py>(&self, py: Python<'py>, first: usize) -> Vec<Bound<'py, PyBytes>> {
        self.reader.comments().skip(first).map(|comment| PyBytes::new(py, comment)).collect()
    }

    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let names = self.reader.names();
        names.map(|(address, name)| (packed(py, address), PyBytes::new(py, name))).collect()
    }

    #[getter]
    fn left_out(&self) -> Vec<(String, u64)> {
        self.reader.left_out()
    }

    #[getter]
    fn damage(&self) -> Option<&str> {
        self.reader.damage()
    }

    #[getter]
    fn steps_back(&self) -> (u64, i64) {
        self.reader.steps_back()
    }
}

/// An address as its bytes.
fn packed(py: Python<'_>, address: IpAddr) -> Bound<'_, PyBytes> {
    match address {
        IpAddr::V4(address) => PyBytes::new(py, &address.octets()),
        IpAddr::V6(address) => PyBytes::new(py, &address.octets()),
    }
}
