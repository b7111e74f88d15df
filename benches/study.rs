//! Speed of the voip-sctp study, as `docs/performance.md` states it: `cargo bench -p anabranch-bench --bench
//! study`.
//!
//! CPU time of the standard call (median of several rounds), the mean over a random sample of the
//! study's 7,128 configurations, and what follows for its 712,800 calls.

#![allow(clippy::disallowed_types, reason = "a benchmark measures wall-clock time")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anabranch::scenario::Scenario;
use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_bench::standard_call;
use anabranch_transport::rng::{Draw as _, Streams};

const ROUNDS: usize = 9;
const CALLS_PER_ROUND: u64 = 100;
const SAMPLE: u64 = 600;
const CALLS_OF_THE_STUDY: f64 = 712_800.0;

fn main() {
    let standard = standard_call(&[]);
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for replication in 0..CALLS_PER_ROUND {
                run(&standard, replication);
            }
            started.elapsed().as_secs_f64() / CALLS_PER_ROUND as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (fastest, median, slowest) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!(
        "standard call: {:.0} calls/s on one core, {:.2} ms each (median of {ROUNDS} rounds of {CALLS_PER_ROUND}; \
         {:.2} to {:.2} ms)",
        1.0 / median,
        median * 1e3,
        fastest * 1e3,
        slowest * 1e3
    );

    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/anabranch/papers/voip_sctp/scenario.toml");
    let study = Study::load(&file, &[]).expect("the scenario is part of the repository");
    let mut rng = Streams { seed: 1, replication: 0 }.stream("bench/study");
    let started = Instant::now();
    for replication in 0..SAMPLE {
        let cell = rng.below(study.sweep.cell_count());
        run(&study.cell(cell).expect("every cell of the study is valid"), replication);
    }
    let mean = started.elapsed().as_secs_f64() / SAMPLE as f64;
    println!(
        "study: {:.2} ms a call, mean of {SAMPLE} random configurations and replications; all {CALLS_OF_THE_STUDY} \
         calls take {:.1} min on two cores",
        mean * 1e3,
        mean * CALLS_OF_THE_STUDY / 2.0 / 60.0
    );
}

fn run(scenario: &Scenario, replication: u64) {
    let simulation = Simulation::build(scenario, replication, false).expect("the scenario is valid");
    black_box(simulation.run(&mut || None).expect("no guard stops it"));
}
