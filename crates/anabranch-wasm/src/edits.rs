//! Edits of scenario text that leave comments, order and layout as they are.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value as Toml};

/// The text with this value at a key's path, or without the key if the value is null. Tables on the way are
/// made if they are missing.
///
/// # Errors
/// When the text is not TOML, or when something on the way is not a table or a list.
pub(crate) fn edited(text: &str, path: &[String], value: &Value) -> Result<String, String> {
    let mut document = parsed(text)?;
    let Some((last, way)) = path.split_last() else { return Err("the path is empty".into()) };
    let mut item = document.as_item_mut();
    for (depth, key) in way.iter().enumerate() {
        let is_removal = value.is_null();
        item = match below(item, key, depth == 0, is_removal) {
            Some(item) => item,
            None if is_removal => return Ok(text.to_owned()),
            None => return Err(format!("{}: there is no table here", path[..=depth].join("."))),
        };
        if !is_removal {
            widen(item);
        }
    }
    set(item, last, value).ok_or_else(|| format!("{}: it cannot be set", path.join(".")))?;
    Ok(document.to_string())
}

/// Writes a table with a `kind` in its longer form where it is a word alone, so that it can have other keys.
fn widen(item: &mut Item) {
    let Some(kind) = item.as_str().filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())) else {
        return;
    };
    let mut table = InlineTable::new();
    table.insert("kind", kind.into());
    *item = Item::Value(Toml::InlineTable(table));
}

fn parsed(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("line {line}: {}", error.message().replace('\n', ", "))
    })
}

/// The text with another name for what is at this path.
///
/// # Errors
/// When the text is not TOML, when nothing is at the path, and when the name is one of its neighbours'.
pub(crate) fn renamed(text: &str, path: &[String], name: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    let Some((last, way)) = path.split_last() else { return Err("the path is empty".into()) };
    let mut item = document.as_item_mut();
    for (depth, key) in way.iter().enumerate() {
        item = below(item, key, depth == 0, true)
            .ok_or_else(|| format!("{}: there is no table here", path[..=depth].join(".")))?;
    }
    let sentence = || format!("{}: it is not in the text", path.join("."));
    let table = item.as_table_like_mut().ok_or_else(sentence)?;
    if table.contains_key(name) {
        return Err(format!("{}.{name}: there is one of this name already", way.join(".")));
    }
    // Tables keep their place in the document, whatever they are called.
    let value = table.remove(last).ok_or_else(sentence)?;
    table.insert(name, value);
    Ok(document.to_string())
}

/// What is at a key of a table or at a position of a list.
fn below<'a>(item: &'a mut Item, key: &str, is_top: bool, is_removal: bool) -> Option<&'a mut Item> {
    if let Some(list) = item.as_array_of_tables() {
        let index: usize = key.parse().ok().filter(|index| *index < list.len())?;
        return item.get_mut(index);
    }
    if item.as_array().is_some() {
        let index: usize = key.parse().ok()?;
        return item.get_mut(index);
    }
    let is_inline = item.is_inline_table();
    let table = item.as_table_like_mut()?;
    if !table.contains_key(key) {
        if is_removal {
            return None;
        }
        let made = if is_inline || !is_top {
            let mut made = InlineTable::new();
            made.set_dotted(!is_inline);
            Item::Value(Toml::InlineTable(made))
        } else {
            let mut made = Table::new();
            made.set_implicit(true);
            Item::Table(made)
        };
        table.insert(key, made);
        space_evenly(item);
    }
    item.as_table_like_mut()?.get_mut(key)
}

/// A new key at the end of an inline table takes the space that was there before the end.
fn space_evenly(item: &mut Item) {
    if let Some(table) = item.as_inline_table_mut() {
        table.fmt();
    }
}

/// Sets a key of a table or a position of a list, or removes it.
fn set(item: &mut Item, key: &str, value: &Value) -> Option<()> {
    if let Some(list) = item.as_array_mut() {
        let index: usize = key.parse().ok().filter(|index| *index < list.len())?;
        match toml(value) {
            Some(value) => drop(list.replace(index, value)),
            None => drop(list.remove(index)),
        }
        return Some(());
    }
    let table = item.as_table_like_mut()?;
    let Some(mut value) = toml(value) else {
        table.remove(key);
        return Some(());
    };
    if let Some(Item::Value(old)) = table.get_mut(key) {
        // A comment behind the old value is kept.
        *value.decor_mut() = old.decor().clone();
        *old = value;
    } else {
        table.insert(key, Item::Value(value));
        space_evenly(item);
    }
    Some(())
}

/// A value in TOML; [`None`] for null.
fn toml(value: &Value) -> Option<Toml> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(toml).collect::<Array>().into(),
        Value::Object(table) => {
            let pairs = table.iter().filter_map(|(key, value)| Some((key.as_str(), toml(value)?)));
            pairs.collect::<InlineTable>().into()
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
# A call.
seed = 1 # any

[links.wan]
ends = [\"a\", \"b\"]
rate = \"1 Mbit/s\" # slow
loss = { kind = \"bernoulli\", p = 0.01 }

[[links.wan.cross_traffic]]
kind = \"poisson\"
";

    fn edit(path: &str, value: &Value) -> Result<String, String> {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        edited(TEXT, &path, value)
    }

    #[test]
    fn a_word_becomes_the_table_that_it_stands_for() {
        let text = "[links.wan]\nqueue = \"codel\"\nrate = \"1 Mbit/s\"\n";
        let path = |keys: &str| keys.split('.').map(str::to_owned).collect::<Vec<_>>();
        let at = |keys: &str, value: Value| edited(text, &path(keys), &value);
        let wider = text.replace("\"codel\"", "{ kind = \"codel\", target = \"9 ms\" }");
        assert_eq!(at("links.wan.queue.target", json!("9 ms")), Ok(wider));
        assert!(at("links.wan.rate.repeat", json!("9 s")).is_err());
    }

    #[test]
    fn all_but_the_value_stays() {
        let replaced = |from: &str, to: &str| Ok(TEXT.replace(from, to));
        assert_eq!(edit("links.wan.rate", &json!("2 Mbit/s")), replaced("\"1 Mbit/s\"", "\"2 Mbit/s\""));
        assert_eq!(edit("links.wan.loss.p", &json!(0.5)), replaced("0.01", "0.5"));
        assert_eq!(edit("seed", &json!(2)), replaced("seed = 1 #", "seed = 2 #"));
        assert_eq!(
            edit("links.wan.cross_traffic.0.kind", &json!("on_off")),
            replaced("\"poisson\"", "\"on_off\"")
        );
        assert_eq!(edit("links.wan.rate", &Value::Null), replaced("rate = \"1 Mbit/s\" # slow\n", ""));
        assert_eq!(edit("flows.f.app", &Value::Null), Ok(TEXT.to_owned()));
        assert_eq!(edit("links.wan.loss.at", &json!("wire")), replaced("0.01 }", "0.01, at = \"wire\" }"));
    }

    #[test]
    fn what_is_missing_is_made_and_is_what_was_meant() {
        for (path, value) in [
            ("links.wan.delay", json!("3 ms")),
            ("links.wan.queue.packets", json!(5)),
            ("run.duration", json!("5 s")),
            ("links.other", json!({ "ends": ["a", "c"] })),
            ("links.wan.loss.clock.kind", json!("slots")),
            ("paths.only.via", json!(["wan"])),
        ] {
            let text = edit(path, &value).unwrap();
            let tree: toml_edit::DocumentMut = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut item = tree.as_item();
            for key in path.split('.') {
                item = item.get(key).unwrap_or_else(|| panic!("{path} in {text}"));
            }
            assert_eq!(item.to_string().trim(), toml(&value).unwrap().to_string().trim(), "{text}");
            assert!(text.contains("# A call.") && text.contains("# slow"), "{text}");
        }
    }

    #[test]
    fn a_part_gets_another_name_and_stays_where_it_was() {
        let rename = |path: &str, name: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            renamed(TEXT, &path, name)
        };
        assert_eq!(rename("links.wan", "lan"), Ok(TEXT.replace("links.wan", "links.lan")));
        assert!(rename("links.lan", "wan").unwrap_err().starts_with("links.wan: there is one"));
        assert_eq!(rename("links.none", "lan"), Err("links.none: it is not in the text".into()));
        assert_eq!(rename("paths.none", "p"), Err("paths: there is no table here".into()));
        assert_eq!(rename("seed.one", "two"), Err("seed.one: it is not in the text".into()));
    }

    #[test]
    fn what_cannot_be_is_a_sentence() {
        assert_eq!(edit("seed.more", &json!(1)), Err("seed.more: it cannot be set".into()));
        assert_eq!(edit("seed.more.yet", &json!(1)), Err("seed.more: there is no table here".into()));
        assert!(edited("a = ", &["a".into()], &json!(1)).unwrap_err().starts_with("line 1: "));
    }
}
