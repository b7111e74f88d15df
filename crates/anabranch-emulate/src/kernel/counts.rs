//! Counters that start from zero with each connection, or with each subflow on a path.

use std::borrow::Cow;

use anabranch::outside::Counters;

/// Sums of counters, always of the same names.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The counts of connections that have ended.
    past: Vec<u64>,
    /// The counts of the present connection.
    present: Vec<u64>,
}

impl Counts {
    /// Takes the present counters; a counter that is smaller than before belongs to a new connection.
    pub(crate) fn update(&mut self, values: impl Iterator<Item = u64>) {
        let values: Vec<u64> = values.collect();
        if values.len() != self.present.len() || values.iter().zip(&self.present).any(|(new, old)| new < old)
        {
            self.end();
        }
        self.past.resize(values.len(), 0);
        self.present = values;
    }

    /// Notes that the present connection is gone.
    pub(crate) fn end(&mut self) {
        for (sum, value) in self.past.iter_mut().zip(&mut self.present) {
            *sum += std::mem::take(value);
        }
    }

    /// Adds the sums to a report, under these names behind `prefix`.
    pub(crate) fn report<'a>(
        &self,
        prefix: &str,
        names: impl Iterator<Item = &'a str>,
        counters: &mut Counters,
    ) {
        for (index, name) in names.enumerate() {
            let of = |values: &[u64]| values.get(index).copied().unwrap_or(0);
            counters.push((Cow::Owned(format!("{prefix}{name}")), of(&self.past) + of(&self.present)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_stays_counted() {
        let mut counts = Counts::default();
        let sums = |counts: &Counts| {
            let mut found = Counters::new();
            counts.report("x.", ["sent", "lost"].into_iter(), &mut found);
            found.into_iter().map(|(name, value)| (name.into_owned(), value)).collect::<Vec<_>>()
        };
        assert_eq!(sums(&counts), [("x.sent".into(), 0), ("x.lost".into(), 0)]);
        counts.update([10, 1].into_iter());
        counts.update([12, 1].into_iter());
        assert_eq!(sums(&counts), [("x.sent".into(), 12), ("x.lost".into(), 1)]);
        // One new connection that was not announced, and one that was.
        counts.update([3, 0].into_iter());
        counts.end();
        counts.update([30, 2].into_iter());
        assert_eq!(sums(&counts), [("x.sent".into(), 45), ("x.lost".into(), 3)]);
    }
}
