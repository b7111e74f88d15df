//! The row of scalars that a run gives.

/// Name and value of every scalar of a run, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    scalars: Vec<(String, f64)>,
}

impl Row {
    /// A writer of scalars whose names start with `prefix` and a dot.
    pub fn section(&mut self, prefix: impl Into<String>) -> Report<'_> {
        Report { row: self, prefix: prefix.into() }
    }

    /// Names and values.
    pub fn scalars(&self) -> &[(String, f64)] {
        &self.scalars
    }

    /// The value of one scalar.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.scalars.iter().find(|(key, _)| key == name).map(|&(_, value)| value)
    }
}

/// Writes the scalars of one component: `call.mos`, `link.wifi.forward.lost`.
#[derive(Debug)]
pub struct Report<'a> {
    row: &'a mut Row,
    prefix: String,
}

impl Report<'_> {
    /// Writes one scalar; its unit is last in its name (`mean_delay_ms`). NaN stands for "no value".
    pub fn scalar(&mut self, name: &str, value: f64) {
        self.row.scalars.push((format!("{}.{name}", self.prefix), value));
    }

    /// Writes one counter.
    pub fn count(&mut self, name: &str, value: u64) {
        self.scalar(name, value as f64);
    }

    /// A writer for a part of this component: `call` and `sctp.a` give `call.sctp.a`.
    pub fn section(&mut self, name: &str) -> Report<'_> {
        Report { prefix: format!("{}.{name}", self.prefix), row: self.row }
    }
}
