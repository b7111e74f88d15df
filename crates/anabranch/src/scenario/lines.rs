//! In which lines of a scenario file its keys are.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// The number of the line with this byte of a text.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Where the keys of a TOML text are.
pub(super) struct Lines<'a> {
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> Lines<'a> {
    /// Those of this text; [`None`] if it is not TOML.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        Some(Self { text, table: DeTable::parse(text).ok()?.into_inner() })
    }

    /// The line of a key or, if it is not in the text, of the last table on the way to it that is.
    pub(super) fn of_key(&self, key: &[&str]) -> Option<usize> {
        let (first, rest) = key.split_first()?;
        let (mut at, mut value) = entry(&self.table, first)?;
        for key in rest {
            let below = match value {
                DeValue::Table(table) => entry(table, key),
                DeValue::Array(items) => key
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get(index))
                    .map(|item| (item.span(), item.get_ref())),
                _ => None,
            };
            let Some(below) = below else { break };
            (at, value) = below;
        }
        Some(line_at(self.text, at.start))
    }
}

/// Where the key of a table is, and its value.
fn entry<'t, 'a>(table: &'t DeTable<'a>, key: &str) -> Option<(Range<usize>, &'t DeValue<'a>)> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(name, value)| (name.span(), value.get_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_line() {
        let text = "seed = 1\n\n[links.a]\nrate = \"x\"\nqueue.kind = \"y\"\ncross_traffic = [\n  { kind = 1 },\n  {},\n]\n";
        let lines = Lines::of(text).unwrap();
        for (key, line) in [
            ("seed", Some(1)),
            ("links.a", Some(3)),
            ("links.a.rate", Some(4)),
            ("links.a.rate.timetable.1", Some(4)),
            ("links.a.queue.kind", Some(5)),
            ("links.a.cross_traffic.0.kind", Some(7)),
            ("links.a.cross_traffic.1", Some(8)),
            ("links.a.missing", Some(3)),
            ("flows", None),
            ("", None),
        ] {
            assert_eq!(lines.of_key(&key.split('.').collect::<Vec<_>>()), line, "{key}");
        }
        assert!(Lines::of("a = ").is_none());
    }
}
