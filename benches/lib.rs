//! What benchmarks run.

use std::path::Path;

use anabranch::scenario::Scenario;
use anabranch::study::Study;

/// The call that speed is stated for, with these settings changed (path, value).
pub fn standard_call(sets: &[(&str, &str)]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("voip_call.toml");
    let sets: Vec<(String, String)> =
        sets.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())).collect();
    let study = Study::load(&file, &sets).expect("the scenario is in the repository");
    study.cell(0).expect("the scenario has one cell")
}
