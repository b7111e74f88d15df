//! One sentence for every mistake in a scenario, and all mistakes of a file at once.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::Segment;

use super::lines::{self, Lines};
use super::{names, shorthand};

/// A scenario that cannot be run. Displays as one sentence for each mistake: which key, what was found, what
/// is allowed; with several, each is on a line of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file with the mistakes, if one was read.
    file: Option<String>,
    sentences: Vec<String>,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let [sentence] = &*self.sentences {
            return f.write_str(sentence);
        }
        write!(f, "{} mistakes", self.sentences.len())?;
        self.sentences.iter().try_for_each(|sentence| write!(f, "\n  {sentence}"))
    }
}

impl ScenarioError {
    /// An error from its sentence. Line breaks and the like, which can only come from what was found, are
    /// shown as escapes, so that a sentence is one line. Long words and quotations are shortened.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { file: None, sentences: vec![one_line(&sentence.into())] }
    }

    /// What these are, or all their mistakes.
    pub(crate) fn all<T>(results: impl IntoIterator<Item = Result<T, Self>>) -> Result<Vec<T>, Self> {
        let (mut values, mut errors) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(value) => values.push(value),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(values) } else { Err(Self::joined(errors)) }
    }

    /// The mistakes of several parts of a file, at least one.
    pub(crate) fn joined(errors: impl IntoIterator<Item = Self>) -> Self {
        let mut sentences = Vec::new();
        for sentence in errors.into_iter().flat_map(|error| error.sentences) {
            // Each of several flows that are one in the file has the mistakes of that one.
            if sentences.len() < MOST_MISTAKES && !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        Self { file: None, sentences }
    }

    /// The same mistakes, said to be at this place.
    #[must_use]
    pub(crate) fn at(self, place: &str) -> Self {
        self.reworded(|sentence| Some(one_line(&format!("{place}: {sentence}"))))
    }

    /// The same mistakes in other words, where there are any.
    #[must_use]
    pub(crate) fn reworded(mut self, words: impl Fn(&str) -> Option<String>) -> Self {
        for sentence in &mut self.sentences {
            if let Some(other) = words(sentence) {
                *sentence = other;
            }
        }
        self
    }

    /// The same mistakes, in this file.
    #[must_use]
    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = Some(one_line(file));
        self
    }

    /// The same mistakes, each with the line of this text where its key is, unless one of these settings,
    /// which are not in the text, is at the key.
    #[must_use]
    pub(crate) fn with_lines(mut self, text: &str, sets: &[(String, String)]) -> Self {
        let Some(lines) = Lines::of(text) else { return self };
        let with_line = |mut sentence: String| {
            let end = sentence.find([' ', ':', ',']).unwrap_or(sentence.len());
            let key: Vec<&str> = sentence[..end].split('.').collect();
            let is_set =
                sets.iter().any(|(path, _)| path.split('.').zip(&key).all(|(one, other)| one == *other));
            let line = lines.of_key(&key).filter(|_| !is_set);
            if let Some(line) = line {
                sentence = format!("line {line}: {sentence}");
            }
            (line, sentence)
        };
        let mut found: Vec<_> = self.sentences.into_iter().map(with_line).collect();
        found.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
        self.sentences = found.into_iter().map(|(_, sentence)| sentence).collect();
        self
    }

    /// Text that is not TOML: the line and what the parser says of it.
    pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().replace('\n', ", ");
        let line = lines::line_at(text, error.span().map_or(0, |span| span.start));
        Self::new(format!("line {line}: {message}"))
    }
}

/// The most mistakes that are said at once.
const MOST_MISTAKES: usize = 20;

fn one_line(sentence: &str) -> String {
    let sentence = shortened(sentence);
    if !sentence.contains(char::is_control) {
        return sentence;
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    sentence.chars().map(shown).collect()
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
/// For each mistake one sentence: the key, what was found and what is allowed.
pub fn from_value<T: DeserializeOwned>(tree: &Value, root: &str) -> Result<T, ScenarioError> {
    read(tree).map_err(|error| mistakes::<T>(tree, root, error))
}

type ReadError = serde_path_to_error::Error<serde_json::Error>;

fn read<T: DeserializeOwned>(tree: &Value) -> Result<T, ReadError> {
    serde_path_to_error::deserialize(tree)
}

/// All mistakes of a tree, of which reading has found the first. Reading ends at a mistake, so each one is
/// put right in a copy, in which the next is looked for. In a tree larger than people write, only the first
/// is.
fn mistakes<T: DeserializeOwned>(tree: &Value, root: &str, first: ReadError) -> ScenarioError {
    let most = if size(tree) > LARGE { 1 } else { MOST_MISTAKES };
    let mut tree = tree.clone();
    let mut next = Some(first);
    let mut sentences = Vec::new();
    let mut paths: Vec<Vec<String>> = Vec::new();
    while let Some(error) = next.take() {
        let mistake = Mistake::of::<T>(&tree, &error);
        if !mistake.follows_from(&paths) {
            sentences.push(one_line(&mistake.sentence(&tree, root)));
        }
        paths.push(mistake.path.clone());
        if paths.len() < most
            && let Some((repaired, error)) = mistake.repaired::<T>(&tree)
        {
            (tree, next) = (repaired, error);
        }
    }
    ScenarioError { file: None, sentences }
}

/// The most values of a tree in which all mistakes are looked for.
const LARGE: usize = 20_000;

/// A mistake in a tree.
struct Mistake {
    path: Vec<String>,
    /// What serde says, in the words of a scenario file.
    message: String,
}

impl Mistake {
    fn of<T: DeserializeOwned>(tree: &Value, error: &ReadError) -> Self {
        let mut path: Vec<String> = error.path().iter().filter_map(part).collect();
        let said = error.inner().to_string();
        narrow::<T>(tree, &mut path, &said);
        let mut message = in_toml_words(&said);
        if let Some((found, _)) = message
            .split_once(", expected string or map")
            .or(message.split_once(", expected map with a single"))
            && let Some(allowed) = names_allowed::<T>(tree, &mut path)
        {
            message = format!("{found}, expected {allowed}");
        }
        path.retain(|part| !part.is_empty());
        Self { path, message }
    }

    /// Whether a table is only wrong since a value in it was, which has been taken away.
    fn follows_from(&self, paths: &[Vec<String>]) -> bool {
        let holds = |path: &Vec<String>| path.len() > self.path.len() && path.starts_with(&self.path);
        !self.message.starts_with("missing field") && paths.iter().any(holds)
    }

    /// What was found and the names that are allowed, if a name was found that is not allowed.
    fn names(&self) -> Option<(&str, &str, Vec<&str>)> {
        let (found, allowed) = self.message.split_once(", expected ")?;
        let given = found.strip_prefix("unknown field `").or(found.strip_prefix("unknown variant `"))?;
        let names = allowed.split('`').skip(1).step_by(2).collect();
        Some((found, given.strip_suffix('`')?, names))
    }

    /// The name that was probably meant.
    fn meant(&self) -> Option<&str> {
        let (_, given, names) = self.names()?;
        names::closest(given, &names)
    }

    fn sentence(&self, tree: &Value, root: &str) -> String {
        let mut key: Vec<&str> = root.split('.').filter(|part| !part.is_empty()).collect();
        let in_root = key.len();
        key.extend(self.path.iter().map(String::as_str));
        let what = match self.names() {
            Some((found, _, names)) => {
                let last = usize::from(found.contains(" field ") || key.last() == Some(&"kind"));
                let table = &key[..key.len().saturating_sub(last)];
                let list = (names.len() > FEW && !table.is_empty())
                    .then(|| category(tree, root, in_root, table))
                    .flatten()
                    .map(|words| format!("`anabranch list {words}`"));
                match (self.meant(), list) {
                    (Some(name), Some(list)) => format!("{found}; did you mean `{name}`? {list} has all"),
                    (Some(name), None) => format!("{found}; did you mean `{name}`?"),
                    (None, Some(list)) => format!("{found}; {list} has all"),
                    (None, None) => self.message.clone(),
                }
            }
            None => with_unit(&self.message),
        };
        if key.is_empty() { what } else { format!("{}: {what}", key.join(".")) }
    }

    /// The tree without this mistake, and the next one in it; nothing if there is no way to put it right.
    fn repaired<T: DeserializeOwned>(&self, tree: &Value) -> Option<(Value, Option<ReadError>)> {
        let mut at = self.path.clone();
        if self.message.starts_with("unknown field") {
            // The value is read as that of the key that was meant.
            let (mut trial, value) = (tree.clone(), find(tree, &at).cloned());
            put(&mut trial, &at, None)?;
            if let Some(name) = self.meant() {
                name.clone_into(at.last_mut()?);
                if find(&trial, &at).is_none() {
                    put(&mut trial, &at, value)?;
                }
            }
            let error = read::<T>(&trial).err();
            return Some((trial, error));
        }
        let mut instead = Vec::new();
        let missing = self.message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        match (self.names(), self.meant(), missing) {
            // What belongs to the kind that was meant can be read, what belongs to no kind cannot.
            (Some(_), Some(name), _) => instead.push(Some(json!(name))),
            (Some(_), None, _) if at.last().is_some_and(|key| key == "kind") => drop(at.pop()),
            (Some((_, _, names)), None, _) => instead.extend(names.first().map(|name| Some(json!(name)))),
            (_, _, Some(key)) if key != "kind" => at.push(key.to_owned()),
            _ => {}
        }
        if find(tree, &at).is_some() {
            instead.push(None);
        }
        instead.extend(SAMPLES.iter().map(|text| Some(serde_json::from_str(text).expect("it is JSON"))));
        instead.into_iter().find_map(|value| {
            let mut trial = tree.clone();
            put(&mut trial, &at, value)?;
            let Err(error) = read::<T>(&trial) else { return Some((trial, None)) };
            let next = Self::of::<T>(&trial, &error);
            (!next.path.starts_with(&at) && !next.is_of_leaving_out(&at)).then_some((trial, Some(error)))
        })
    }

    /// Whether it is there only because this is not: a key that has to be there, or an item of a list of a
    /// fixed length.
    fn is_of_leaving_out(&self, at: &[String]) -> bool {
        at.split_last().is_some_and(|(key, around)| {
            let is_length =
                ["invalid length", "invalid value: map"].iter().any(|one| self.message.starts_with(one));
            self.path.starts_with(around) && self.message == format!("missing field `{key}`")
                || self.path == around && is_length
        })
    }
}

/// Values of which one is allowed wherever a value has to be, but for its range.
const SAMPLES: [&str; 11] = [
    "\"1 ms\"",
    "\"1 Mbit/s\"",
    "\"1 B\"",
    "0.5",
    "1",
    "true",
    "\"x\"",
    "[]",
    "{}",
    "{\"kind\": \"udp\"}",
    "{\"kind\": \"bulk\"}",
];

/// So many names, or fewer, are all in the message.
const FEW: usize = 7;

/// What `anabranch list` calls the table at a key whose first parts are not in the tree.
fn category(tree: &Value, root: &str, in_root: usize, table: &[&str]) -> Option<String> {
    if in_root == 0 {
        return shorthand::category(tree, table);
    }
    let whole = root.rsplit('.').fold(tree.clone(), |inner, key| json!({ key: inner }));
    shorthand::category(&whole, table)
}

/// A message about a quantity without its unit, and two that may have been meant.
fn with_unit(message: &str) -> String {
    const UNITS: [(&str, [&str; 2]); 3] = [
        ("a length of time such as", ["s", "ms"]),
        ("a rate such as", ["Mbit/s", "kbit/s"]),
        ("a size such as", ["B", "kB"]),
    ];
    let given = message.split('`').nth(1).filter(|text| text.parse().is_ok_and(|number: f64| number > 0.0));
    let units = UNITS.iter().find(|(words, _)| message.contains(words));
    match (given, units) {
        (Some(number), Some((_, [first, second]))) => {
            format!("{message}; did you mean \"{number} {first}\" or \"{number} {second}\"?")
        }
        _ => message.to_owned(),
    }
}

/// Puts a value at a path, or takes away what is there.
fn put(tree: &mut Value, path: &[String], value: Option<Value>) -> Option<()> {
    let Some((last, around)) = path.split_last() else {
        *tree = value?;
        return Some(());
    };
    match (find_mut(tree, around)?, value) {
        (Value::Object(table), Some(value)) => drop(table.insert(last.clone(), value)),
        (Value::Object(table), None) => drop(table.shift_remove(last)?),
        (Value::Array(items), Some(value)) => *items.get_mut(last.parse::<usize>().ok()?)? = value,
        (Value::Array(items), None) => {
            let index = last.parse().ok().filter(|index| *index < items.len())?;
            items.remove(index);
        }
        _ => return None,
    }
    Some(())
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
    // Nor is a value to blame without which it is the one that is missing.
    let is_other = |said: &str, path: &[String]| {
        said != message
            && !path.last().is_some_and(|key| is_missing && said == format!("missing field `{key}`"))
    };
    let blames = |path: &[String]| {
        if is_missing && !find(tree, path).is_some_and(|value| value.is_object() || value.is_array()) {
            return false;
        }
        let mut trial = tree.clone();
        remove(&mut trial, path)
            && serde_path_to_error::deserialize::<_, T>(&trial)
                .map_or_else(|error| is_other(&error.inner().to_string(), path), |_: T| true)
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
