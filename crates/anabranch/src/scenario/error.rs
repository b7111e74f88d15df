//! One sentence for every mistake in a scenario.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A scenario that cannot be run. Displays as one sentence: which key, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    /// An error from its sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Text that is not TOML: the line and what the parser says of it.
    pub(super) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().replace('\n', ", ");
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Self(format!("line {line}: {message}"))
    }
}

/// Reads a part of a scenario, naming the key in the error.
pub(super) fn from_value<T: DeserializeOwned>(tree: &Value, root: &str) -> Result<T, ScenarioError> {
    serde_path_to_error::deserialize::<_, T>(tree).map_err(|error| {
        let mut path: Vec<String> = error.path().iter().map(ToString::to_string).collect();
        path.retain(|segment| segment != "." && segment != "?");
        narrow::<T>(tree, &mut path, &error.inner().to_string());
        let key = std::iter::once(root.to_owned()).chain(path).filter(|part| !part.is_empty());
        let key = key.collect::<Vec<_>>().join(".");
        let message = error.inner();
        ScenarioError(if key.is_empty() { message.to_string() } else { format!("{key}: {message}") })
    })
}

/// Serde loses the path inside a table with a `kind`: find the key whose removal changes the message,
/// again and again. Runs on mistakes only.
fn narrow<T: DeserializeOwned>(tree: &Value, path: &mut Vec<String>, message: &str) {
    let blames = |path: &[String]| {
        let mut trial = tree.clone();
        remove(&mut trial, path)
            && serde_path_to_error::deserialize::<_, T>(&trial)
                .map_or_else(|error| error.inner().to_string() != message, |_: T| true)
    };
    loop {
        let keys: Vec<String> = match find(tree, path) {
            Some(Value::Object(table)) => table.keys().cloned().collect(),
            Some(Value::Array(items)) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => return,
        };
        let culprit = keys.into_iter().find(|key| {
            path.push(key.clone());
            let blamed = key != "kind" && blames(path);
            path.pop();
            blamed
        });
        match culprit {
            Some(key) => path.push(key),
            None => return,
        }
    }
}

fn find<'a>(tree: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(tree, |node, key| match node {
        Value::Object(table) => table.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

fn remove(tree: &mut Value, path: &[String]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let parent = parents.iter().try_fold(tree, |node, key| match node {
        Value::Object(table) => table.get_mut(key),
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    });
    match parent {
        Some(Value::Object(table)) => table.remove(last).is_some(),
        // Removing an item would move the others; a null in its place changes the message all the same.
        Some(Value::Array(items)) => last.parse::<usize>().is_ok_and(|index| index < items.len()),
        _ => false,
    }
}
