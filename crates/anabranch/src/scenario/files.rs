//! Files that a scenario names: traces of rates and of losses.

use std::path::Path;

use anabranch_transport::rng;
use serde_json::Value;

use crate::text_file;

/// The keys whose values are names of files.
const FILE_KEYS: [&str; 2] = ["file", "mahimahi"];

/// Makes relative file names start in the scenario's folder, and makes that folder absolute, so that a study
/// may be continued from anywhere.
pub(crate) fn resolve(tree: &mut Value, folder: &Path) {
    for_each_name(tree, &mut |name| {
        let path = folder.join(&*name);
        *name = std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
    });
}

/// Puts a hash of its contents in the place of every file's name, so that a study notices when one changes
/// and not when it is moved.
pub(crate) fn replace_by_contents(tree: &mut Value) {
    for_each_name(tree, &mut |name| {
        *name = format!("{:016x}", rng::fnv1a(&text_file::contents(name)));
    });
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
