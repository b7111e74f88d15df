//! Runs of scenarios with a radio, and their results.

use std::path::Path;

use anabranch::scenario::ScenarioError;
use anabranch::sim::{Outcome, Simulation};
use anabranch::study::Study;
use anabranch_transport::report::Row;

/// The study of a text, with settings; names of files start in the folder for tests' files.
pub(crate) fn study(text: &str, sets: &[(&str, &str)]) -> Result<Study, ScenarioError> {
    let sets: Vec<_> = sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Study::parse(text, &sets, Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A run of this many seconds.
pub(crate) fn run_of(text: &str, seconds: f64, replication: u64, trace: bool, fuse: bool) -> Outcome {
    let text = format!("run = {{ duration = '{seconds} s' }}\n{text}");
    let study = study(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let simulation = Simulation::build_fused(&study.scenario, replication, trace, fuse).unwrap();
    simulation.run(&mut || None).unwrap()
}

/// The scalars of a run.
pub(crate) fn run(text: &str, seconds: f64) -> Row {
    run_of(text, seconds, 0, false, true).row
}

pub(crate) fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}
