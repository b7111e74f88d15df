//! What the settings of a transport say of scripts, for the tests of those who set them.

use std::collections::BTreeSet;

use schemars::{JsonSchema, schema_for};
use serde::Serialize;

/// The settings of which `x-known-by` says that a script can set them.
pub(crate) fn settings_of_scripts<C: JsonSchema>() -> BTreeSet<String> {
    let schema = schema_for!(C);
    let properties =
        schema.get("properties").and_then(serde_json::Value::as_object).expect("it has settings");
    let is_known =
        |known: &serde_json::Value| known.as_array().is_some_and(|by| by.contains(&"drill".into()));
    properties.iter().filter(|(_, its)| is_known(&its["x-known-by"])).map(|(key, _)| key.clone()).collect()
}

/// The settings that are given in this.
pub(crate) fn given<C: Serialize>(config: &C) -> BTreeSet<String> {
    let value = serde_json::to_value(config).expect("it is written");
    value.as_object().expect("it has settings").keys().cloned().collect()
}
