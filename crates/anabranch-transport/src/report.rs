//! The row of scalars of a run.

/// Name and value of every scalar of a run, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    scalars: Vec<(String, Scalar)>,
}

/// How a scalar was computed, which decides how a warm-up is excluded from it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scalar {
    /// A counter that grows with time: what the warm-up contributed is taken off.
    Count(u64),
    /// The mean of `count` values with this sum; the warm-up's values are taken off.
    Mean { sum: f64, count: u64 },
    /// A value that stands for itself, whatever the warm-up was.
    Value(f64),
    /// The coefficient of variation of `count` values with this sum and sum of squares: the warm-up's part is
    /// taken off.
    Variation { sum: f64, squares: f64, count: u64 },
}

impl Scalar {
    fn value(self) -> f64 {
        let value = match self {
            Self::Count(count) => count as f64,
            Self::Mean { count: 0, .. } | Self::Variation { count: 0 | 1, .. } => f64::NAN,
            Self::Mean { sum, count } => sum / count as f64,
            Self::Value(value) => value,
            Self::Variation { sum, squares, count } => {
                let mean = sum / count as f64;
                let variance = (squares - sum * mean) / (count - 1) as f64;
                libm::sqrt(variance.max(0.0)) / mean
            }
        };
        // A rate over no time, such as the goodput of a message that arrives when it is sent, is none.
        if value.is_infinite() { f64::NAN } else { value }
    }

    fn without(self, warm_up: Self) -> Self {
        match (self, warm_up) {
            // What ended before the warm-up did, but was found to have ended later, had counted for longer at
            // that time.
            (Self::Count(all), Self::Count(early)) => Self::Count(all.saturating_sub(early)),
            (Self::Mean { sum, count }, Self::Mean { sum: early_sum, count: early_count }) => {
                Self::Mean { sum: sum - early_sum, count: count.saturating_sub(early_count) }
            }
            (
                Self::Variation { sum, squares, count },
                Self::Variation { sum: early_sum, squares: early_squares, count: early_count },
            ) => Self::Variation {
                sum: sum - early_sum,
                squares: squares - early_squares,
                count: count.saturating_sub(early_count),
            },
            _ => self,
        }
    }
}

impl Row {
    /// A writer of scalars whose names start with `prefix` and a dot.
    pub fn section(&mut self, prefix: impl Into<String>) -> Report<'_> {
        Report { row: self, prefix: prefix.into() }
    }

    /// Names and values; NaN stands for "no value".
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = (&str, f64)> {
        self.scalars.iter().map(|(name, scalar)| (name.as_str(), scalar.value()))
    }

    /// The value of one scalar.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.scalars().find(|&(key, _)| key == name).map(|(_, value)| value)
    }

    /// The row without what happened before the end of the warm-up; the same components must have written
    /// `warm_up`.
    #[must_use]
    pub fn without(mut self, warm_up: &Self) -> Self {
        for ((name, scalar), (early_name, early)) in self.scalars.iter_mut().zip(&warm_up.scalars) {
            assert_eq!(name, early_name, "components write the same scalars each time");
            *scalar = scalar.without(*early);
        }
        self
    }

    /// Appends the scalars of another row.
    pub fn append(&mut self, other: Self) {
        self.scalars.extend(other.scalars);
    }

    /// Adds the scalars of a part of the run, each with `prefix` and a dot before its name. Scalars of the
    /// whole run are left out.
    pub fn add_phase(&mut self, prefix: &str, phase: Self) {
        let parts = phase.scalars.into_iter().filter(|(_, scalar)| !matches!(scalar, Scalar::Value(_)));
        self.scalars.extend(parts.map(|(name, scalar)| (format!("{prefix}.{name}"), scalar)));
    }
}

/// Writes the scalars of one component: `call.mos`, `link.wifi.forward.lost_packets`.
#[derive(Debug)]
pub struct Report<'a> {
    row: &'a mut Row,
    prefix: String,
}

impl Report<'_> {
    /// Writes a scalar of the whole run; its unit is last in its name (`mean_delay_ms`). NaN stands for "no
    /// value".
    pub fn scalar(&mut self, name: &str, value: f64) {
        self.write(name, Scalar::Value(value));
    }

    /// Writes one counter, which grows with time: a warm-up is taken off.
    pub fn count(&mut self, name: &str, value: u64) {
        self.write(name, Scalar::Count(value));
    }

    /// Writes the mean of `count` values with this sum: a warm-up is taken off.
    pub fn mean(&mut self, name: &str, sum: f64, count: u64) {
        self.write(name, Scalar::Mean { sum, count });
    }

    /// Writes the coefficient of variation (standard deviation of the sample over mean) of `count` values
    /// with this sum and this sum of squares: a warm-up is taken off.
    pub fn variation(&mut self, name: &str, sum: f64, squares: f64, count: u64) {
        self.write(name, Scalar::Variation { sum, squares, count });
    }

    /// A writer for a part of this component: `call` and `sctp.a` give `call.sctp.a`.
    pub fn section(&mut self, name: &str) -> Report<'_> {
        Report { prefix: format!("{}.{name}", self.prefix), row: self.row }
    }

    fn write(&mut self, name: &str, scalar: Scalar) {
        let mut full = String::with_capacity(self.prefix.len() + 1 + name.len());
        full.push_str(&self.prefix);
        full.push('.');
        full.push_str(name);
        self.row.scalars.push((full, scalar));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_taken_off_counters_and_means() {
        let write = |count, sum, values, value| {
            let mut row = Row::default();
            let mut report = row.section("a");
            report.count("sent", count);
            report.section("b").mean("wait_ms", sum, values);
            report.scalar("mos", value);
            row
        };
        let row = write(10, 30.0, 5, 4.0).without(&write(4, 6.0, 1, 1.0));
        assert_eq!(row.value("a.sent"), Some(6.0));
        assert_eq!(row.value("a.b.wait_ms"), Some(6.0));
        assert_eq!(row.value("a.mos"), Some(4.0));
        assert!(write(0, 0.0, 0, 0.0).value("a.b.wait_ms").unwrap().is_nan());
        assert!(write(0, 0.0, 0, 1.0 / 0.0).value("a.mos").unwrap().is_nan(), "no rate over no time");
        let mut phases = Row::default();
        phases.add_phase("run.phase_1", write(4, 6.0, 1, 1.0));
        let found: Vec<_> = phases.scalars().collect();
        assert_eq!(found, [("run.phase_1.a.sent", 4.0), ("run.phase_1.a.b.wait_ms", 6.0)]);
    }
}
