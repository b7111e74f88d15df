//! One sentence for every mistake in a scenario.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// A scenario that cannot be run. Displays as one sentence: which key, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    /// An error from its sentence. Line breaks and the like, which can only come from what was found, are
    /// shown as escapes, so that a message is one line. Long words and quotations are shortened.
    pub fn new(sentence: impl Into<String>) -> Self {
        let mut sentence = shortened(&sentence.into());
        if sentence.contains(char::is_control) {
            let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
            sentence = sentence.chars().map(shown).collect();
        }
        Self(sentence)
    }

    /// Text that is not TOML: the line and what the parser says of it.
    pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().replace('\n', ", ");
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Self::new(format!("line {line}: {message}"))
    }
}

/// The most characters that a message repeats of quoted text, or of a word; longer ones keep both ends.
/// `errors.py` does the same with the messages of the package.
const LONGEST: usize = 260;

/// A sentence in which no quoted text and no word is longer than `LONGEST`.
fn shortened(sentence: &str) -> String {
    let mut short = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let is_between = |c: char| c.is_whitespace() || matches!(c, '`' | '"');
        if !is_between(first) {
            let (word, end) = rest.split_at(rest.find(is_between).unwrap_or(rest.len()));
            short += &ends(word);
            rest = end;
            continue;
        }
        short.push(first);
        rest = after;
        if !first.is_whitespace()
            && let Some((quoted, end)) = after.split_once(first)
        {
            short += &ends(quoted);
            short.push(first);
            rest = end;
        }
    }
    short
}

/// Text shortened to at most `LONGEST` characters from its two ends, more of them from the first.
fn ends(text: &str) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text.to_owned();
    }
    let last = LONGEST / 4;
    let head: String = text.chars().take(LONGEST - last - 1).collect();
    let tail: String = text.chars().skip(count - last).collect();
    format!("{head}…{tail}")
}

/// Reads a part of a scenario. Errors name the key, after `root`.
///
/// # Errors
/// One sentence: the key, what was found and what is allowed.
pub fn from_value<T: DeserializeOwned>(tree: &Value, root: &str) -> Result<T, ScenarioError> {
    serde_path_to_error::deserialize::<_, T>(tree).map_err(|error| {
        let mut path: Vec<String> = error.path().iter().filter_map(part).collect();
        narrow::<T>(tree, &mut path, &error.inner().to_string());
        let mut message = in_toml_words(&error.inner().to_string());
        if let Some((found, _)) = message
            .split_once(", expected string or map")
            .or(message.split_once(", expected map with a single"))
            && let Some(allowed) = names_allowed::<T>(tree, &mut path)
        {
            message = format!("{found}, expected {allowed}");
        }
        let key = std::iter::once(root.to_owned()).chain(path).filter(|part| !part.is_empty());
        let key = key.collect::<Vec<_>>().join(".");
        ScenarioError::new(if key.is_empty() { message } else { format!("{key}: {message}") })
    })
}

/// The names allowed at a path or, when serde reports a key of a table there, one level above; found from the
/// error about an empty table. It runs only after mistakes.
fn names_allowed<T: DeserializeOwned>(tree: &Value, path: &mut Vec<String>) -> Option<String> {
    let mut at = path.clone();
    for _ in 0..2 {
        let mut trial = tree.clone();
        *find_mut(&mut trial, &at)? = Value::String(String::new());
        let error = serde_path_to_error::deserialize::<_, T>(&trial).err()?.inner().to_string();
        if let Some(allowed) = error.strip_prefix("unknown variant ``, expected ") {
            *path = at;
            return Some(allowed.to_owned());
        }
        at.pop();
    }
    None
}

/// A part of a dotted path: items of a list are counted from 0.
fn part(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Unknown => None,
    }
}

/// Serde loses the path inside a table with a `kind`: find the key without which the message changes, again
/// and again. Of a list, the items from there on are left out, so that the last one that matters is found.
/// This runs only when there is a mistake.
fn narrow<T: DeserializeOwned>(tree: &Value, path: &mut Vec<String>, message: &str) {
    // A missing key is missing from a table: the values beside it are not to blame.
    let is_missing = message.starts_with("missing field");
    let blames = |path: &[String]| {
        if is_missing && !find(tree, path).is_some_and(|value| value.is_object() || value.is_array()) {
            return false;
        }
        let mut trial = tree.clone();
        remove(&mut trial, path)
            && serde_path_to_error::deserialize::<_, T>(&trial)
                .map_or_else(|error| error.inner().to_string() != message, |_: T| true)
    };
    let most_keys = MOST_WORK / size(tree);
    loop {
        let keys: Vec<String> = match find(tree, path) {
            Some(Value::Object(table)) => table.keys().cloned().collect(),
            // No single item is to blame for the length of its list.
            Some(Value::Array(items)) if !message.starts_with("invalid length") => {
                (0..items.len()).rev().map(|index| index.to_string()).collect()
            }
            _ => break,
        };
        if keys.len() > most_keys {
            break;
        }
        let culprit = keys.into_iter().find(|key| {
            path.push(key.clone());
            let blamed = key != "kind" && blames(path);
            path.pop();
            blamed
        });
        match culprit {
            Some(key) => path.push(key),
            None => break,
        }
    }
    let is_unknown = |kind: &Value| {
        kind.as_str().is_some_and(|kind| message.starts_with(&format!("unknown variant `{kind}`")))
    };
    if find(tree, path).and_then(|table| table.get("kind")).is_some_and(is_unknown) {
        path.push("kind".into());
    }
}

/// Values that are read once more, with one of them left out each time, to find which one is to blame: a
/// fraction of a second. A scenario of a size that a person writes needs a hundredth of it.
const MOST_WORK: usize = 5_000_000;

/// How many values a tree has, itself included.
fn size(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(table) => table.values().map(size).sum(),
        _ => 0,
    }
}

/// The expectation in serde's message, in the words of a scenario file.
fn in_toml_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let found = if found == "invalid type: unit variant" { "invalid type: a name alone" } else { found };
    let expected = match expected {
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "f64" => "a number",
        "newtype variant" => "a table of this name and what belongs to it",
        "unit" => "the name alone",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        // TOML's integers have 64 bits with a sign.
        "u64" => "a whole number from 0 to 9223372036854775807",
        _ if expected.starts_with("struct ") || expected.contains("tagged enum") => "a table",
        expected => expected,
    };
    format!("{found}, expected {expected}")
}

fn find<'a>(tree: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(tree, |node, key| match node {
        Value::Object(table) => table.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

fn find_mut<'a>(tree: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(tree, |node, key| match node {
        Value::Object(table) => table.get_mut(key),
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    })
}

fn remove(tree: &mut Value, path: &[String]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    match find_mut(tree, parents) {
        Some(Value::Object(table)) => table.remove(last).is_some(),
        Some(Value::Array(items)) => last.parse::<usize>().is_ok_and(|index| {
            let is_there = index < items.len();
            items.truncate(index);
            is_there
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_not_repeated_at_any_length() {
        let message = |found: &str| ScenarioError::new(found).to_string();
        let long = "x > ".repeat(2500);
        let shown = message(&format!("where: `{long}`, character 1: `x` is not an axis; \"y\""));
        assert!(shown.starts_with("where: `x > x > ") && shown.chars().count() < LONGEST + 100, "{shown}");
        assert!(shown.ends_with(" > `, character 1: `x` is not an axis; \"y\""), "{shown}");
        assert!(message(&format!("a.{}: unknown", "k".repeat(10_000))).ends_with("kkk: unknown"));
        assert_eq!(message(&"µ".repeat(10_000)).chars().count(), LONGEST);
        assert!(message(&format!("string \"{long}\", expected")).chars().count() < LONGEST + 100);
        for whole in ["", "a `b", "`a` \"b\" c", " `` \"", &"x".repeat(LONGEST), &"short ".repeat(1000)] {
            assert_eq!(message(whole), whole);
        }
    }
}
