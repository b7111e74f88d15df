//! Runs a scenario file from Rust and prints its scalars:
//! `cargo run --example run_scenario -- [FILE [REPLICATIONS] [path=value]...]`
//!
//! Without a file it runs `benches/voip_call.toml`. With more than one replication it prints the mean of each
//! scalar. The instruction counts in `docs/performance.md` come from it as well.

use std::path::Path;
use std::process::ExitCode;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use indexmap::IndexMap;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("run_scenario: error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let default = [concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/voip_call.toml").to_owned()];
    let (file, rest) = arguments.split_first().or_else(|| default.split_first()).expect("a default");
    let sets: Vec<(String, String)> = rest
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .collect();
    let replications = match rest.first().filter(|argument| !argument.contains('=')) {
        Some(count) => count.parse().map_err(|_| format!("`{count}` is not a number of replications"))?,
        None => 1_u64,
    };
    let study = Study::load(Path::new(file), &sets).map_err(|error| error.to_string())?;
    let scenario = study.cell(0).map_err(|error| error.to_string())?;
    let mut sums: IndexMap<String, f64> = IndexMap::new();
    for replication in 0..replications {
        let simulation =
            Simulation::build(&scenario, replication, false).map_err(|error| error.to_string())?;
        let outcome = simulation.run(&mut || None).map_err(|error| error.to_string())?;
        for (name, value) in outcome.row.scalars() {
            *sums.entry(name.to_owned()).or_default() += value;
        }
    }
    for (name, sum) in sums {
        println!("{name} = {}", sum / replications as f64);
    }
    Ok(())
}
