//! Runs of scenarios with a radio, and their results.

use std::path::Path;

use anabranch::scenario::ScenarioError;
use anabranch::sim::{Outcome, Simulation};
use anabranch::study::Study;
use anabranch_transport::report::Row;
use proptest::prelude::*;

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

/// More keys of a link over a bearer: disciplines, and what a link does beside its radio.
pub(crate) fn any_bearer_settings() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            "",
            "queue = { kind = 'codel', target = '10 ms', interval = '100 ms' }",
            "queue = { kind = 'head_drop', packets = 5 }",
            "queue = { kind = 'lifo_codel', packets = 9 }",
            "queue = { kind = 'drop_tail', packets = 0 }\njitter = '1 ms'",
            "delay = '3 ms'\nduplicate = '10 %'\nmtu = '700 B'\noverhead = '8 B'",
            "loss = { kind = 'bernoulli', probability = '5 %' }\nup = { timetable = [['0 s', true], ['1 s', false]] }\ndown = 'blackhole'",
        ][..],
    )
}

/// Whether the same seed gives the same bits, traced or not, fused or not, and every packet has one fate.
pub(crate) fn conserves_and_repeats(text: &str, seconds: f64) -> Result<(), TestCaseError> {
    let row = run(text, seconds);
    for other in [
        run(text, seconds),
        run_of(text, seconds, 0, false, false).row,
        run_of(text, seconds, 0, true, true).row,
    ] {
        for ((name, left), (_, right)) in row.scalars().zip(other.scalars()) {
            prop_assert!(left.to_bits() == right.to_bits(), "{name}: {left} {right}");
        }
    }
    for (name, _) in row.scalars().filter(|(name, _)| name.ends_with(".arrived_packets")) {
        let count = |key: &str| value(&row, &name.replace("arrived_packets", key));
        let drops: f64 =
            ["lost_packets", "queue_full_packets", "down_packets", "aqm_packets"].map(count).iter().sum();
        prop_assert_eq!(
            count("arrived_packets") + count("duplicated_packets"),
            count("delivered_packets") + drops + count("in_link_packets"),
            "{}",
            name
        );
    }
    Ok(())
}
