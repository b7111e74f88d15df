//! Counters that start from zero with each connection, or with each subflow on a path.

use std::borrow::Cow;

use anabranch::outside::Counters;
use anabranch_transport::report::{Declared, declare, declared};
use anabranch_transport::sctp;

declare! {
    /// What every end outside counts of its associations.
    ASSOCIATION:
    /// Associations opened or accepted.
    CONNECTIONS = "connections": One;
}

/// What a simulated association counts by this name.
pub(crate) const fn sctp(name: &str) -> Declared {
    declared(sctp::Stats::SCALARS, name)
}

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

    /// Adds the sums of what is declared to the counters of a part of an end.
    pub(crate) fn report(
        &self,
        part: impl Into<Cow<'static, str>>,
        declared: impl Iterator<Item = Declared>,
        counters: &mut Counters,
    ) {
        let part = part.into();
        for (index, declared) in declared.enumerate() {
            let of = |values: &[u64]| values.get(index).copied().unwrap_or(0);
            counters.push((part.clone(), declared, of(&self.past) + of(&self.present)));
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::tcp::Stats;

    use super::*;

    #[test]
    fn what_has_ended_stays_counted() {
        let mut counts = Counts::default();
        let sums = |counts: &Counts| {
            let mut found = Counters::new();
            counts.report("x", Stats::SCALARS[..2].iter().copied(), &mut found);
            found
                .into_iter()
                .map(|(part, it, value)| (format!("{part}.{}", it.name), value))
                .collect::<Vec<_>>()
        };
        assert_eq!(sums(&counts), [("x.connections".into(), 0), ("x.packets_sent".into(), 0)]);
        counts.update([10, 1].into_iter());
        counts.update([12, 1].into_iter());
        assert_eq!(sums(&counts), [("x.connections".into(), 12), ("x.packets_sent".into(), 1)]);
        // One new connection that was not announced, and one that was.
        counts.update([3, 0].into_iter());
        counts.end();
        counts.update([30, 2].into_iter());
        assert_eq!(sums(&counts), [("x.connections".into(), 45), ("x.packets_sent".into(), 3)]);
    }
}
