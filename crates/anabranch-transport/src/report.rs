//! The row of scalars of a run, and the declaration of each of them.
//!
//! A component declares what it writes beside the code that writes it, with [`declare!`](crate::declare) or
//! [`counters!`](crate::counters). A [`Report`] takes nothing else, so no scalar has a name that is not
//! declared; `anabranch list scalars` and docs/results.md come from the declarations.

#[doc(inline)]
pub use crate::{counters, declare};

/// The declaration of a scalar, or of a trace's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declared {
    /// The last part of a scalar's name in the row, or the column's name.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether more of it is better.
    pub better: Better,
    meaning: &'static str,
}

impl Declared {
    #[doc(hidden)]
    pub const fn new(name: &'static str, unit: Unit, meaning: &'static str) -> Self {
        Self { name, unit, better: Better::Neither, meaning }
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn with(mut self, better: Better) -> Self {
        self.better = better;
        self
    }

    /// What it is, in a sentence or two.
    pub fn meaning(&self) -> &'static str {
        self.meaning.trim()
    }

    /// The name without its unit, in words: `mean delay` for `mean_delay_ms`.
    pub fn words(&self) -> String {
        let (unit, name) = (self.unit.ending(), self.name.rsplit('.').next().unwrap_or_default());
        let stem = name.strip_suffix(unit).and_then(|stem| stem.strip_suffix('_'));
        stem.filter(|_| !unit.is_empty()).unwrap_or(name).replace('_', " ")
    }
}

/// The declaration of this name in a list, for a constant that another crate writes.
pub const fn declared(list: &[Declared], name: &str) -> Declared {
    let mut index = 0;
    while index < list.len() {
        if is_equal(list[index].name.as_bytes(), name.as_bytes()) {
            return list[index];
        }
        index += 1;
    }
    panic!("nothing of this name is declared")
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// The scalars of a component with parts: where in the row each part stands, behind the component's own
/// place (`.path<n>`), and the lists of what is declared of it.
pub type Parts = &'static [(&'static str, &'static [&'static [Declared]])];

/// The unit of a scalar or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what they are")]
pub enum Unit {
    BitsPerSecond,
    BitsPerSymbol,
    Bytes,
    ByteSeconds,
    Decibels,
    KilobitsPerSecond,
    Micros,
    Millis,
    /// A count, a share or a score.
    One,
    PerMinute,
    Percent,
    Seconds,
    /// Words or truth values.
    Words,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 13] = [
        Self::BitsPerSecond,
        Self::BitsPerSymbol,
        Self::Bytes,
        Self::ByteSeconds,
        Self::Decibels,
        Self::KilobitsPerSecond,
        Self::Micros,
        Self::Millis,
        Self::One,
        Self::PerMinute,
        Self::Percent,
        Self::Seconds,
        Self::Words,
    ];

    /// The unit as figures show it; `1` for plain numbers, and nothing for words.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::BitsPerSymbol => "bit/symbol",
            Self::Bytes => "B",
            Self::ByteSeconds => "B s",
            Self::Decibels => "dB",
            Self::KilobitsPerSecond => "kbit/s",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::One => "1",
            Self::PerMinute => "1/min",
            Self::Percent => "%",
            Self::Seconds => "s",
            Self::Words => "",
        }
    }

    /// The last word or words of names with this unit.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit_per_s",
            Self::BitsPerSymbol => "bits_per_symbol",
            Self::Bytes => "bytes",
            Self::ByteSeconds => "byte_s",
            Self::Decibels => "db",
            Self::KilobitsPerSecond => "kbit_per_s",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::One | Self::Words => "",
            Self::PerMinute => "per_minute",
            Self::Percent => "percent",
            Self::Seconds => "s",
        }
    }
}

/// Whether more of something is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// It depends on the question.
    Neither,
}

/// Declares what a component writes: a constant for each scalar, and the list of them. The comment of each
/// one is its meaning. `Less` or `More` after the unit says which is better.
///
/// ```
/// anabranch_transport::declare! {
///     /// What a door counts.
///     SCALARS:
///     /// Times that the door was opened.
///     OPENINGS = "openings": One;
///     /// Mean time for which it was open.
///     MEAN_OPEN_S = "mean_open_s": Seconds, Less;
/// }
/// # let mut row = anabranch_transport::report::Row::default();
/// row.section("hall").count(OPENINGS, 3);
/// row.section("hall").scalar(MEAN_OPEN_S, 4.5);
/// assert_eq!(row.value("hall.openings"), Some(3.0));
/// assert_eq!(SCALARS[1].meaning(), "Mean time for which it was open.");
/// ```
#[macro_export]
macro_rules! declare {
    (
        $(#[$of:meta])*
        $list:ident:
        $($(#[doc = $meaning:literal])+ $constant:ident = $name:literal: $unit:ident $(, $better:ident)?;)+
    ) => {
        $($(#[doc = $meaning])+
        pub(crate) const $constant: $crate::report::Declared = $crate::report::Declared::new(
            $name,
            $crate::report::Unit::$unit,
            concat!($($meaning),+),
        )$(.with($crate::report::Better::$better))?;)+

        $(#[$of])*
        pub(crate) const $list: &[$crate::report::Declared] = &[$($constant),+];
    };
}

/// Declares a struct of counters: `SCALARS` has the declaration of each, and `count` writes them all. The
/// comment of each one is its meaning; other fields may follow.
#[macro_export]
macro_rules! counters {
    (
        $(#[$of:meta])*
        pub struct $name:ident {
            $($(#[doc = $meaning:literal])+ $counter:ident: $unit:ident $(, $better:ident)?;)+
        }
        $(with { $($rest:tt)+ })?
    ) => {
        $(#[$of])*
        pub struct $name {
            $($(#[doc = $meaning])+ pub $counter: u64,)+
            $($($rest)+)?
        }

        impl $name {
            /// The declarations of the counters.
            pub const SCALARS: &[$crate::report::Declared] = &[
                $($crate::report::Declared::new(
                    stringify!($counter),
                    $crate::report::Unit::$unit,
                    concat!($($meaning),+),
                )$(.with($crate::report::Better::$better))?),+
            ];

            /// Writes the counters.
            pub(crate) fn count(&self, report: &mut $crate::report::Report<'_>) {
                for (declared, value) in Self::SCALARS.iter().zip([$(self.$counter),+]) {
                    report.count(*declared, value);
                }
            }
        }
    };
}

/// Name and value of every scalar of a run, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    scalars: Vec<(String, Written)>,
}

/// How a scalar was computed, which decides how a warm-up is excluded from it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
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

impl Written {
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
        let parts = phase.scalars.into_iter().filter(|(_, scalar)| !matches!(scalar, Written::Value(_)));
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
    /// Writes a scalar of the whole run; NaN stands for "no value".
    pub fn scalar(&mut self, scalar: Declared, value: f64) {
        self.write(scalar, Written::Value(value));
    }

    /// Writes one counter, which grows with time: a warm-up is taken off.
    pub fn count(&mut self, scalar: Declared, value: u64) {
        self.write(scalar, Written::Count(value));
    }

    /// Writes the mean of `count` values with this sum: a warm-up is taken off.
    pub fn mean(&mut self, scalar: Declared, sum: f64, count: u64) {
        self.write(scalar, Written::Mean { sum, count });
    }

    /// Writes the coefficient of variation (standard deviation of the sample over mean) of `count` values
    /// with this sum and this sum of squares: a warm-up is taken off.
    pub fn variation(&mut self, scalar: Declared, sum: f64, squares: f64, count: u64) {
        self.write(scalar, Written::Variation { sum, squares, count });
    }

    /// A writer for a part of this component: `call` and `sctp.a` give `call.sctp.a`.
    pub fn section(&mut self, name: &str) -> Report<'_> {
        Report { prefix: format!("{}.{name}", self.prefix), row: self.row }
    }

    fn write(&mut self, declared: Declared, value: Written) {
        let name = declared.name;
        let mut full = String::with_capacity(self.prefix.len() + 1 + name.len());
        full.push_str(&self.prefix);
        full.push('.');
        full.push_str(name);
        self.row.scalars.push((full, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    declare! {
        /// What the test writes.
        SCALARS:
        /// Counted.
        SENT = "sent": One;
        /// Waited
        /// for long.
        WAIT_MS = "wait_ms": Millis, Less;
        /// Rated.
        MOS = "mos": One, More;
        /// All bytes.
        BYTES_SENT = "bytes_sent": Bytes;
    }

    #[test]
    fn a_declaration_says_what_a_scalar_is() {
        let [sent, wait, mos, bytes] = SCALARS else { panic!("four are declared") };
        assert_eq!((wait.name, wait.unit, wait.better), ("wait_ms", Unit::Millis, Better::Less));
        assert_eq!(wait.meaning(), "Waited for long.");
        assert_eq!([sent, wait, mos, bytes].map(Declared::words), ["sent", "wait", "mos", "bytes sent"]);
        assert_eq!(declared(SCALARS, "mos"), MOS);
    }

    #[test]
    fn a_warm_up_is_taken_off_counters_and_means() {
        let write = |count, sum, values, value| {
            let mut row = Row::default();
            let mut report = row.section("a");
            report.count(SENT, count);
            report.section("b").mean(WAIT_MS, sum, values);
            report.scalar(MOS, value);
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
