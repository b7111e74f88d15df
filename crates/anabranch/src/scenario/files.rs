//! Files that a scenario names: traces of rates and of losses, and sources of plug-ins.

use std::path::{Path, PathBuf};

use anabranch_transport::{plugin, rng};
use serde_json::Value;

use crate::text_file;

/// The keys whose values are names of files.
const FILE_KEYS: [&str; 2] = ["file", "mahimahi"];

/// The key whose value is the class of a plug-in.
const CLASS_KEY: &str = "class";

/// Makes relative file names start in the scenario's folder, and makes that folder absolute, so that a study
/// may be continued from anywhere.
pub(crate) fn resolve(tree: &mut Value, folder: &Path) {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
    for_each_name(tree, &mut |named| match named {
        Named::File(name) => *name = absolute(folder.join(&*name)),
        Named::Class(class) => {
            let Some((module, name)) = class.rsplit_once(':') else { return };
            // A file's name has a suffix, the name of a module of Python none.
            let stem = module.strip_suffix(".py");
            let file = match stem {
                Some(_) => folder.join(module),
                None => folder.join(module.replace('.', "/")).with_extension("py"),
            };
            if stem.is_some() || file.is_file() {
                *class = format!("{}:{name}", absolute(file));
            }
        }
    });
}

/// Puts a hash of its contents in the place of every file's name, so that a study notices when one changes
/// and not when it is moved; and what names its source in the place of every class.
pub(crate) fn replace_by_contents(tree: &mut Value) {
    for_each_name(tree, &mut |named| match named {
        Named::File(name) => *name = format!("{:016x}", rng::fnv1a(&text_file::contents(name))),
        Named::Class(class) => *class = plugin::source(class),
    });
}

/// What a scenario names that lies outside of it.
enum Named<'a> {
    /// A file.
    File(&'a mut String),
    /// The class of a plug-in, `module:Class` or `file.py:Class`.
    Class(&'a mut String),
}

fn for_each_name(tree: &mut Value, visit: &mut impl FnMut(Named<'_>)) {
    match tree {
        Value::Object(table) => {
            for (key, value) in table {
                match value {
                    Value::String(name) if FILE_KEYS.contains(&key.as_str()) => visit(Named::File(name)),
                    Value::String(class) if key == CLASS_KEY => visit(Named::Class(class)),
                    value => for_each_name(value, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_name(item, visit)),
        _ => {}
    }
}
