//! Files that a scenario names: traces of rates and of losses.

use std::path::Path;

use serde_json::Value;

use crate::rng;

/// The keys whose values are names of files.
const FILE_KEYS: [&str; 2] = ["file", "mahimahi"];

/// Makes relative file names start in the scenario's folder.
pub(super) fn resolve(tree: &mut Value, folder: &Path) {
    for_each_name(tree, &mut |name| *name = folder.join(&*name).to_string_lossy().into_owned());
}

/// A hash of the contents of every file, so that a study notices when one of them changes.
pub(super) fn contents(tree: &Value) -> Vec<String> {
    let mut hashes = Vec::new();
    for_each_name(&mut tree.clone(), &mut |name| {
        let contents = std::fs::read(&*name).unwrap_or_default();
        hashes.push(format!("{:016x}", rng::fnv1a(&contents)));
    });
    hashes
}

fn for_each_name(tree: &mut Value, visit: &mut impl FnMut(&mut String)) {
    match tree {
        Value::Object(table) => {
            for (key, value) in table {
                match value {
                    Value::String(name) if FILE_KEYS.contains(&key.as_str()) => visit(name),
                    value => for_each_name(value, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_name(item, visit)),
        _ => {}
    }
}
