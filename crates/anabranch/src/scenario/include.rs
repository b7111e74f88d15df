//! `include = ["wifi.toml"]`: links and paths that a scenario takes from other files, such as the path
//! profiles that `anabranch profile` writes.

use std::path::Path;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::{MAX_FILE_MEGABYTES, PathConfig, ScenarioError, edit, error, files, shorthand, tree};
use crate::net::LinkConfig;
use crate::text_file;

/// The contents of an included file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Included {
    links: IndexMap<String, LinkConfig>,
    paths: IndexMap<String, PathConfig>,
}

/// Takes `include` out of the tree and puts the files' links and paths behind its own. Names of files start
/// in `folder`, those in an included file in that file's own folder.
pub(crate) fn resolve(
    base: &mut Value,
    sets: &[(String, String)],
    folder: &Path,
) -> Result<(), ScenarioError> {
    for (_, value) in sets.iter().filter(|(path, _)| path == KEY) {
        edit::set(base, KEY, edit::value_of(value))?;
    }
    let Some(names) = base.as_object_mut().and_then(|table| table.remove(KEY)) else { return Ok(()) };
    let names: Vec<String> = error::from_value(&names, KEY)?;
    for name in names {
        let place = format!("include, `{name}`");
        let included = read(Path::new(&name), folder).map_err(|error| error.at(&place))?;
        let Value::Object(sections) = included else { unreachable!("TOML is a table") };
        for (section, items) in sections {
            merge(base, &section, items).map_err(|error| error.at(&place))?;
        }
    }
    Ok(())
}

/// The key in the scenario file.
pub(crate) const KEY: &str = "include";

fn read(name: &Path, folder: &Path) -> Result<Value, ScenarioError> {
    let text = text_file::read(&folder.join(name), MAX_FILE_MEGABYTES).map_err(ScenarioError::new)?;
    let mut included = tree::parse(&text)?;
    if included.get(KEY).is_some() {
        return Err(ScenarioError::new("an included file cannot include others; name them in the scenario"));
    }
    let own_folder = name.parent().unwrap_or(Path::new(""));
    files::resolve(&mut included, &folder.join(own_folder));
    // This is checked here, where the mistake is known to be in this file. Traces are read with their types.
    shorthand::expand(&mut included, &[]);
    let _: Included = error::from_value(&included, "").map_err(|error| error.with_lines(&text, &[]))?;
    Ok(included)
}

/// Adds the items of `links` or `paths`; anything else, such as a value that is no table, is left for the
/// reader to report.
fn merge(base: &mut Value, section: &str, items: Value) -> Result<(), ScenarioError> {
    let (Value::Object(table), Value::Object(items)) = (base, items) else { return Ok(()) };
    let Value::Object(own) = table.entry(section).or_insert_with(|| Value::Object(serde_json::Map::new()))
    else {
        return Ok(());
    };
    for (name, item) in items {
        if own.contains_key(&name) {
            return Err(ScenarioError::new(format!(
                "{section}: `{name}` is there already; use another name in one of the files"
            )));
        }
        own.insert(name, item);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::study::Study;

    const SCENARIO: &str = "
        include = [\"sub/wifi.toml\"]
        [links.own]
        ends = [\"a\", \"b\"]
        [flows.f]
        from = \"a\"
        to = \"b\"
        paths = [\"wifi\"]
        transport = { kind = \"udp\" }
        app = { kind = \"datagrams\", rate = \"1 Mbit/s\" }
    ";
    const WIFI: &str = "
        [links.wifi]
        ends = [\"a\", \"b\"]
        rate = { mahimahi = \"trace.mahi\" }
        [paths.wifi]
        via = [\"wifi\"]
    ";

    #[test]
    fn links_and_paths_of_another_file_are_as_if_written_here() {
        let folder = std::env::temp_dir().join(format!("anabranch-include-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/trace.mahi"), "1\n2\n3\n").unwrap();
        let write = |text: &str| fs::write(folder.join("sub/wifi.toml"), text).unwrap();
        let parse = |sets: &[(&str, &str)]| {
            let sets: Vec<_> = sets.iter().map(|&(path, value)| (path.into(), value.into())).collect();
            Study::parse(SCENARIO, &sets, &folder)
        };
        write(WIFI);
        let study = parse(&[("links.wifi.delay", "7 ms")]).unwrap();
        assert_eq!(study.scenario.links.keys().collect::<Vec<_>>(), ["own", "wifi"]);
        // Its TOML text needs no other file, and is the same scenario.
        let whole = study.to_toml();
        assert!(!whole.contains("include =") && whole.contains("delay = \"7 ms\""), "{whole}");
        assert_eq!(Study::parse(&whole, &[], &folder).unwrap().hash(), study.hash());
        // Another file takes its place, as with `--set`.
        fs::write(folder.join("lte.toml"), WIFI.replace("trace.mahi", "sub/trace.mahi")).unwrap();
        assert!(parse(&[("include", "[\"lte.toml\"]")]).is_ok());

        let message = |text: &str| {
            write(text);
            parse(&[]).unwrap_err().to_string()
        };
        let named = "line 2: include, `sub/wifi.toml`: ";
        assert_eq!(
            message("include = [\"x.toml\"]"),
            format!("{named}an included file cannot include others; name them in the scenario")
        );
        assert_eq!(
            message("[links.own]\nends = [\"a\", \"b\"]"),
            format!("{named}links: `own` is there already; use another name in one of the files")
        );
        assert_eq!(
            message("seed = 3"),
            format!("{named}line 1: seed: unknown field `seed`, expected `links` or `paths`")
        );
        let unknown = message(&WIFI.replace("rate", "speed"));
        let sentence = format!("{named}line 4: links.wifi.speed: unknown field `speed`");
        assert!(unknown.starts_with(&sentence), "{unknown}");
        assert!(message("links = [").starts_with(&format!("{named}line 1: ")));
        fs::remove_file(folder.join("sub/wifi.toml")).unwrap();
        assert!(parse(&[]).unwrap_err().to_string().starts_with(&format!("{named}cannot read ")));
        assert_eq!(
            parse(&[("include", "3")]).unwrap_err().to_string(),
            "include: invalid type: integer `3`, expected a list"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
