//! Settings by dotted path: `flows.call.transport.rto_max=0.1 s`, from `--set` and from sweeps.

use serde_json::{Map, Value};

use super::{ScenarioError, names, shorthand, tree};

/// The most names in a path: tables may be as deep in TOML, and reading deeper ones could exhaust the stack.
const MOST_KEYS: usize = 80;

/// Sets one value, which may have a shorter form, and makes the tables on the way to it where they are
/// missing. Nothing on the way has a shorter form.
pub(crate) fn set(tree: &mut Value, path: &str, value: Value) -> Result<(), ScenarioError> {
    let error = |what: String| ScenarioError::new(format!("cannot set `{path}`: {what}"));
    if path.split('.').nth(MOST_KEYS).is_some() {
        return Err(error(format!("a path has at most {MOST_KEYS} names")));
    }
    let mut node = &mut *tree;
    let mut walked = String::new();
    for key in path.split('.') {
        if !is_name(key) {
            return Err(error(
                "a path is names joined by dots, such as `flows.call.transport.rto_max`".into(),
            ));
        }
        // A list of tables without names is indexed; everything else is a table.
        node = match node {
            Value::Array(items) => {
                let count = items.len();
                key.parse::<usize>().ok().and_then(|index| items.get_mut(index)).ok_or_else(|| {
                    error(format!(
                        "`{walked}` is a list of {count}; use a number from 0 to {}",
                        count.max(1) - 1
                    ))
                })?
            }
            Value::Object(table) => {
                let is_named = matches!(walked.as_str(), "links" | "paths" | "flows");
                if is_named && !table.contains_key(key) {
                    let there: Vec<&str> = table.keys().map(String::as_str).collect();
                    return Err(error(match names::closest(key, &there) {
                        Some(name) => format!("there is no `{key}` in `{walked}`; did you mean `{name}`?"),
                        None => format!("there is no `{key}` in `{walked}`, only {}", names::quoted(&there)),
                    }));
                }
                table.entry(key).or_insert(Value::Null)
            }
            leaf => {
                *leaf = Value::Object(Map::from_iter([(key.to_owned(), Value::Null)]));
                leaf.get_mut(key).expect("just made")
            }
        };
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(key);
    }
    *node = value;
    shorthand::expand(tree, &path.split('.').collect::<Vec<_>>());
    Ok(())
}

/// Copies the value at a path from `from` to `to`, or removes it from `to` if `from` has none. Nothing
/// happens if `to` lacks the table around it.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &str) {
    let pointer = |path: &str| format!("/{}", path.replace('.', "/"));
    let (around, key) = path.rsplit_once('.').map_or(("", path), |(around, key)| (around, key));
    let around = if around.is_empty() { String::new() } else { pointer(around) };
    match (from.pointer(&pointer(path)), to.pointer_mut(&around)) {
        (Some(value), Some(Value::Object(table))) => drop(table.insert(key.to_owned(), value.clone())),
        (Some(value), Some(Value::Array(items))) => {
            if let Some(item) = key.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                item.clone_from(value);
            }
        }
        (None, Some(Value::Object(table))) => drop(table.shift_remove(key)),
        _ => {}
    }
}

/// A value as a command line has it: TOML where it is TOML (`5`, `true`, `[1, 2]`, `"text"`), text
/// otherwise (`0.1 s`).
pub(crate) fn value_of(text: &str) -> Value {
    let table: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    table
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .and_then(|value| tree::value(value, "").ok())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Whether a key can be part of a dotted path.
pub(crate) fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_of_any_length_is_a_mistake_and_no_more() {
        let mut tree = json!({});
        let message = set(&mut tree, &"a.".repeat(300_000), json!(1)).unwrap_err().to_string();
        assert!(message.ends_with("a path has at most 80 names"), "{message}");
        let path = |names: usize| vec!["a"; names].join(".");
        assert!(set(&mut tree, &path(MOST_KEYS + 1), json!(1)).is_err());
        assert_eq!(tree, json!({}));
        assert!(set(&mut tree, &path(MOST_KEYS), json!(1)).is_ok());
    }

    #[test]
    fn sets_values_deep_in_the_tree() {
        let mut tree = json!({ "links": { "a": { "cross_traffic": [{ "kind": "poisson" }] } } });
        set(&mut tree, "links.a.cross_traffic.0.mean_wait", value_of("25 ms")).unwrap();
        set(&mut tree, "links.a.loss.kind", value_of("bernoulli")).unwrap();
        set(&mut tree, "seed", value_of("7")).unwrap();
        let expected = json!({
            "links": { "a": {
                "cross_traffic": [{ "kind": "poisson", "mean_wait": "25 ms" }],
                "loss": { "kind": "bernoulli" },
            } },
            "seed": 7,
        });
        assert_eq!(tree, expected);
    }

    #[test]
    fn a_wrong_path_is_explained() {
        let mut tree = json!({ "links": { "a": {} }, "list": [1] });
        let message = |tree: &mut Value, path: &str| set(tree, path, Value::Null).unwrap_err().to_string();
        assert_eq!(
            message(&mut tree, "links.b.rate"),
            "cannot set `links.b.rate`: there is no `b` in `links`, only `a`"
        );
        assert_eq!(
            message(&mut tree, "list.3"),
            "cannot set `list.3`: `list` is a list of 1; use a number from 0 to 0"
        );
        assert!(message(&mut tree, "a..b").contains("names joined by dots"));
    }

    #[test]
    fn values_are_toml_or_text() {
        assert_eq!(value_of("5"), json!(5));
        assert_eq!(value_of("true"), json!(true));
        assert_eq!(value_of("\"a b\""), json!("a b"));
        assert_eq!(value_of("0.1 s"), json!("0.1 s"));
        assert_eq!(value_of("nan"), json!("nan"));
        assert_eq!(value_of("1\nseed = 3"), json!("1\nseed = 3"));
    }
}
