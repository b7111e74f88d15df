//! TOML as the tree that settings are applied to.
//!
//! The tree has no place for what TOML has and JSON lacks: NaN, infinities and dates. They are no values
//! of any key, so they are mistakes here rather than missing values later.

use serde_json::{Map, Number, Value};

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

#[cfg(test)]
mod tests {
    use super::*;

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
