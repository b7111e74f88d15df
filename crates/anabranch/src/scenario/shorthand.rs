//! Shorter forms of a scenario's tables: `queue = "codel"` for `queue = { kind = "codel" }` wherever a table
//! with a `kind` stands, and `loss = "1 %"` for independent losses. The schema says where such tables are, so
//! no model knows of this; what reads a scenario's tree sees tables only.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// The types of which a quantity alone stands for a key of one kind: type, kind, key and the quantity's type.
const ALONE: [(&str, &str, &str, &str); 1] = [("LossConfig", "bernoulli", "probability", "Probability")];

/// The schema of scenario files in their longer form.
static TABLES: LazyLock<Value> = LazyLock::new(super::tables);

/// Replaces shorter forms by the tables that they stand for: those on the way along these keys and below its
/// end; with no keys, all of them.
pub(crate) fn expand(tree: &mut Value, keys: &[&str]) {
    walk(tree, &TABLES, "", keys);
}

fn walk(node: &mut Value, schema: &Value, name: &str, keys: &[&str]) {
    if let Some((name, definition)) = referenced(schema) {
        walk(node, definition, name, keys);
    }
    let forms = list(schema, "anyOf");
    // Text that is a value already stays: a size where a distribution of sizes may stand, too.
    if !(node.is_string() && forms.iter().any(takes_text)) {
        for form in forms {
            walk(node, form, "", keys);
        }
    }
    if is_tagged(schema) {
        if keys.is_empty()
            && let Some(table) = table_of(node, name)
        {
            *node = table;
        }
        if let Some(variant) = variant_of(node, schema) {
            walk(node, variant, "", keys);
        }
    }
    let (first, rest) = match keys.split_first() {
        Some((first, rest)) => (Some(*first), rest),
        None => (None, keys),
    };
    match node {
        Value::Object(table) => {
            for (key, value) in table.iter_mut().filter(|(key, _)| first.is_none_or(|first| first == *key)) {
                if let Some(schema) = property(schema, key) {
                    walk(value, schema, "", rest);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            let index: Option<usize> = first.and_then(|first| first.parse().ok());
            for (_, item) in
                items.iter_mut().enumerate().filter(|(at, _)| first.is_none() || index == Some(*at))
            {
                walk(item, schema, "", rest);
            }
        }
        _ => {}
    }
}

/// The table that a shorter form of this type stands for.
fn table_of(short: &Value, name: &str) -> Option<Value> {
    let alone = ALONE.iter().find(|(of, ..)| *of == name);
    let is_word = short.as_str().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_alphabetic()));
    match (short, alone) {
        (Value::String(_) | Value::Number(_), Some((_, kind, key, _))) if !is_word => {
            Some(json!({ "kind": kind, *key: short }))
        }
        (Value::String(kind), _) => Some(json!({ "kind": kind })),
        _ => None,
    }
}

/// The category of `anabranch list` that has the keys of the table at this path, or the kinds of what is
/// there: its words, such as `queue codel`.
pub(super) fn category(tree: &Value, path: &[&str]) -> Option<String> {
    let (mut node, mut schema, mut name) = (Some(tree), &*TABLES, "");
    let mut keys = path.iter();
    loop {
        // One form of several is a table or a list, or else there is none to choose from.
        while let Some((of, inner)) = referenced(schema).or_else(|| {
            let mut forms = list(schema, "anyOf").iter().filter_map(referenced);
            forms.find(|(_, form)| form.get("properties").is_some() || is_tagged(form) || choices(form))
        }) {
            (name, schema) = (of, inner);
            if schema.get("properties").is_some() {
                break;
            }
        }
        let variant = node.filter(|_| is_tagged(schema)).and_then(|node| variant_of(node, schema));
        let Some(key) = keys.next() else {
            let kind = variant.and_then(kind_of).map_or(String::new(), |kind| format!(" {kind}"));
            return (!name.is_empty()).then(|| super::models::category(name) + &kind);
        };
        schema = match variant {
            Some(variant) => property(variant, key)
                .or_else(|| referenced(variant).and_then(|(_, inner)| property(inner, key)))?,
            None => property(schema, key).or_else(|| schema.get("items"))?,
        };
        node = node.and_then(|node| match node {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            node => node.get(key),
        });
        name = "";
    }
}

/// Adds the shorter forms to the schema of scenario files.
pub(super) fn allow(schema: &mut Value) {
    let Some(Value::Object(definitions)) = schema.get_mut("$defs") else { return };
    let with_required: Vec<String> = definitions
        .iter()
        .filter(|(_, definition)| !list(definition, "required").is_empty())
        .map(|(name, _)| format!("#/$defs/{name}"))
        .collect();
    for (name, definition) in definitions {
        if !is_tagged(definition) {
            continue;
        }
        let Some(Value::Array(variants)) = definition.get_mut("oneOf") else { continue };
        let is_enough = |variant: &&Value| {
            let inner = variant.get("$ref").and_then(Value::as_str);
            list(variant, "required").len() < 2
                && inner.is_none_or(|name| !with_required.iter().any(|one| one == name))
        };
        let kinds: Vec<&str> = variants.iter().filter(is_enough).filter_map(kind_of).collect();
        let mut added = Vec::new();
        if let Some(kind) = kinds.first() {
            added.push(json!({
                "description": format!("A kind alone: `\"{kind}\"` stands for `{{ kind = \"{kind}\" }}`."),
                "enum": kinds,
            }));
        }
        if let Some((_, kind, key, quantity)) = ALONE.iter().find(|(of, ..)| of == name) {
            added.push(json!({
                "description": format!("A value alone is the `{key}` of the kind `{kind}`."),
                "$ref": format!("#/$defs/{quantity}"),
            }));
        }
        variants.extend(added);
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn referenced(schema: &Value) -> Option<(&'static str, &'static Value)> {
    let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
    let definitions: &'static Map<String, Value> = TABLES.get("$defs")?.as_object()?;
    definitions.get_key_value(name).map(|(name, definition)| (name.as_str(), definition))
}

fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let by_name = schema.get("properties").and_then(|properties| properties.get(key));
    by_name.or_else(|| schema.get("additionalProperties").filter(|values| values.is_object()))
}

fn kind_of(variant: &Value) -> Option<&str> {
    variant.pointer("/properties/kind/const")?.as_str()
}

/// Whether a type is one of several tables, told apart by their `kind`.
fn is_tagged(schema: &Value) -> bool {
    list(schema, "oneOf").iter().any(|variant| kind_of(variant).is_some())
}

/// Whether a type is one of several words.
fn choices(schema: &Value) -> bool {
    !list(schema, "oneOf").is_empty()
}

fn variant_of<'a>(node: &Value, schema: &'a Value) -> Option<&'a Value> {
    let kind = node.get("kind")?.as_str();
    list(schema, "oneOf").iter().find(|variant| kind_of(variant).is_some_and(|one| Some(one) == kind))
}

/// Whether text can be a value of this type.
fn takes_text(form: &Value) -> bool {
    let form = referenced(form).map_or(form, |(_, definition)| definition);
    form.get("type").is_some_and(|kind| kind == "string")
        || list(form, "anyOf").iter().any(takes_text)
        || list(form, "oneOf").iter().any(|word| word.get("const").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_for_its_kind_wherever_a_kind_is_chosen() {
        let mut tree = json!({
            "links": { "a": {
                "queue": { "kind": "token_bucket", "child": "codel" },
                "loss": "1 %",
                "radio": "wimax",
                "down": "hold",
                "delay": "10 ms",
                "reverse": { "queue": "red", "loss": 0.5 },
                "cross_traffic": ["poisson", { "kind": "cbr" }],
            } },
            "flows": { "f": {
                "transport": { "kind": "tcp", "cc": "bbr", "loss_detection": "rack" },
                "app": { "kind": "web", "object_size": "1 kB", "think_time": { "kind": "exponential" } },
            }, "g": { "transport": "udp", "app": { "kind": "voip", "jitter_buffer": "adaptive" } } },
            "unknown": { "queue": "codel" },
        });
        expand(&mut tree, &[]);
        let expected = json!({
            "links": { "a": {
                "queue": { "kind": "token_bucket", "child": { "kind": "codel" } },
                "loss": { "kind": "bernoulli", "probability": "1 %" },
                "radio": { "kind": "wimax" },
                "down": "hold",
                "delay": "10 ms",
                "reverse": { "queue": { "kind": "red" }, "loss": { "kind": "bernoulli", "probability": 0.5 } },
                "cross_traffic": [{ "kind": "poisson" }, { "kind": "cbr" }],
            } },
            "flows": { "f": {
                "transport": { "kind": "tcp", "cc": { "kind": "bbr" }, "loss_detection": "rack" },
                "app": { "kind": "web", "object_size": "1 kB", "think_time": { "kind": "exponential" } },
            }, "g": { "transport": { "kind": "udp" }, "app": { "kind": "voip", "jitter_buffer": { "kind": "adaptive" } } } },
            "unknown": { "queue": "codel" },
        });
        assert_eq!(tree, expected);
    }

    #[test]
    fn only_what_is_on_the_way_is_expanded() {
        let mut tree =
            json!({ "links": { "a": { "queue": "codel", "loss": "none" }, "b": { "queue": "red" } } });
        expand(&mut tree, &["links", "a", "queue"]);
        let expected = json!({ "links": {
            "a": { "queue": { "kind": "codel" }, "loss": "none" }, "b": { "queue": "red" },
        } });
        assert_eq!(tree, expected);
    }

    #[test]
    fn the_schema_of_files_has_the_shorter_forms_and_nothing_else_new() {
        let mut schema = super::super::tables();
        allow(&mut schema);
        let forms = |name: &str| schema["$defs"][name]["oneOf"].as_array().unwrap().clone();
        let loss = forms("LossConfig");
        assert_eq!(loss[loss.len() - 2]["enum"], json!(["bernoulli", "gilbert", "none", "trace"]));
        assert_eq!(loss[loss.len() - 1]["$ref"], "#/$defs/Probability");
        let controls = forms("CongestionControlConfig");
        let words = controls.last().unwrap()["enum"].as_array().unwrap();
        assert!(words.contains(&json!("bbr")) && !words.contains(&json!("python")), "{words:?}");
        assert_eq!(schema["$defs"]["WhenDown"], super::super::tables()["$defs"]["WhenDown"]);
    }

    #[test]
    fn a_table_is_found_in_the_lists() {
        let tree = json!({
            "links": { "a": { "queue": { "kind": "codel" }, "reverse": {}, "loss": { "kind": "gilbret" } } },
            "flows": { "f": { "transport": { "kind": "tcp", "cc": { "kind": "bbr" } } } },
        });
        for (path, words) in [
            ("links.a", Some("link")),
            ("links.a.queue", Some("queue codel")),
            ("links.a.loss", Some("loss")),
            ("links.a.radio", Some("radio")),
            ("links.a.reverse", Some("reverse")),
            ("links.a.down", Some("when_down")),
            ("flows.f.transport", Some("transport tcp")),
            ("flows.f.transport.cc", Some("congestion_control bbr")),
            ("flows.f.transport.loss_detection", Some("loss_detection")),
            ("run", Some("run")),
            ("sweep", Some("sweep")),
            ("sweep.axes.x", Some("axis")),
            ("nothing", None),
            ("links.a.nothing.more", None),
        ] {
            let path: Vec<&str> = path.split('.').collect();
            assert_eq!(category(&tree, &path).as_deref(), words, "{path:?}");
        }
    }
}
