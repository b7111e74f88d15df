//! TOML as the tree that settings are applied to.
//!
//! The tree has no place for what TOML has and JSON lacks: NaN, infinities and dates. They are no values
//! of any key, so they are mistakes here rather than missing values later.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::ScenarioError;

/// The tree of a TOML text.
pub(crate) fn parse(text: &str) -> Result<Value, ScenarioError> {
    let table = toml::from_str(text).map_err(|error| ScenarioError::syntax(text, &error))?;
    value(toml::Value::Table(table), "")
}

/// The tree of one value; `key` is the dotted path to it.
pub(crate) fn value(value: toml::Value, key: &str) -> Result<Value, ScenarioError> {
    let error = |what: String| Err(ScenarioError::new(format!("{key}: {what}")));
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    Ok(match value {
        toml::Value::Array(items) => Value::Array(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| self::value(item, &below(&index.to_string())))
                .collect::<Result<_, _>>()?,
        ),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(date) => {
            return error(format!("`{date}` is a date; use a number, a quantity such as \"20 ms\", or text"));
        }
        toml::Value::Float(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => return error(format!("`{number}` is not a number; use a finite one")),
        },
        toml::Value::Integer(number) => Value::Number(number.into()),
        toml::Value::String(text) => Value::String(text),
        toml::Value::Table(table) => Value::Object(
            table
                .into_iter()
                .map(|(name, item)| Ok((name.clone(), self::value(item, &below(&name))?)))
                .collect::<Result<Map<_, _>, ScenarioError>>()?,
        ),
    })
}

/// The number of the line with this byte of a text.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Where the keys of a TOML text are.
pub(crate) struct Lines<'a> {
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> Lines<'a> {
    /// Those of this text; [`None`] if it is not TOML.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        Some(Self { text, table: DeTable::parse(text).ok()?.into_inner() })
    }

    /// The line of a key or, if it is not in the text, of the last table on the way to it that is.
    pub(crate) fn of_key(&self, key: &[&str]) -> Option<usize> {
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

    #[test]
    fn what_no_key_can_be_is_named() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message("a.b = [1, nan]"), "a.b.1: `NaN` is not a number; use a finite one");
        assert_eq!(message("a = -inf"), "a: `-inf` is not a number; use a finite one");
        assert!(message("a = 1979-05-27").starts_with("a: `1979-05-27` is a date;"));
        assert!(message("a = ").starts_with("line 1: "));
        assert_eq!(
            parse("b = 1\na = [true, 'x', 1.5]").unwrap().to_string(),
            r#"{"b":1,"a":[true,"x",1.5]}"#
        );
    }
}
