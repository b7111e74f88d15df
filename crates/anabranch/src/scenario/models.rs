//! The models that a scenario can choose from, read from the schema.

use serde_json::Value;

/// Category (`loss`, `transport`, `codec`, ...) and its choices: the word that a scenario file uses and
/// the first sentence about it.
pub fn models() -> Vec<(String, Vec<(String, String)>)> {
    let schema = super::tables();
    let Some(definitions) = schema.get("$defs").and_then(Value::as_object) else { return Vec::new() };
    let mut models: Vec<_> = definitions
        .iter()
        .filter_map(|(name, definition)| {
            let variants = definition.get("oneOf")?.as_array()?;
            let choices: Vec<_> = variants.iter().flat_map(choices).collect();
            (!choices.is_empty()).then(|| (category(name), choices))
        })
        .collect();
    models.sort();
    models
}

/// A variant is a table with a constant `kind`, a constant, a list of constants without descriptions, or a
/// table whose only key is the word.
fn choices(variant: &Value) -> Vec<(String, String)> {
    let description = variant.get("description").and_then(Value::as_str).unwrap_or_default();
    let first = description.split_inclusive(". ").next().unwrap_or_default();
    let line = first.trim().trim_end_matches('.').replace('\n', " ");
    let constant = variant.get("const").or_else(|| variant.pointer("/properties/kind/const"));
    if let Some(word) = constant.and_then(Value::as_str) {
        return vec![(word.to_owned(), line)];
    }
    let list = |key: &str| variant.get(key).and_then(Value::as_array);
    let words =
        list("enum").or_else(|| list("required").filter(|words| words.len() == 1)).into_iter().flatten();
    words.filter_map(Value::as_str).map(|word| (word.to_owned(), line.clone())).collect()
}

/// `LossConfig` is `loss`, `JitterBufferConfig` is `jitter_buffer`.
pub(super) fn category(definition: &str) -> String {
    let stem = definition.strip_suffix("Config").unwrap_or(definition);
    let mut category = String::new();
    for c in stem.chars() {
        if c.is_ascii_uppercase() && !category.is_empty() {
            category.push('_');
        }
        category.push(c.to_ascii_lowercase());
    }
    category
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_with_a_table_of_its_own_is_there() {
        let models = models();
        let words = |category: &str| {
            let (_, choices) = models.iter().find(|(name, _)| name == category).unwrap();
            choices.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>()
        };
        assert!(words("scheduler").contains(&"weighted"), "{:?}", words("scheduler"));
        assert!(words("rejoin").contains(&"after"), "{:?}", words("rejoin"));
    }

    #[test]
    fn every_choice_is_described() {
        let models = models();
        assert!(models.iter().any(|(category, _)| category == "transport"), "{models:?}");
        for (category, choices) in models {
            for (word, line) in choices {
                assert!(!line.is_empty(), "{category}: `{word}` has no description");
            }
        }
    }
}
