//! Many runs of a study on several threads.
//!
//! Runs are independent, and results stand in the order of the jobs, so they are the same for any
//! number of threads.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use rayon::prelude::*;

use crate::scenario::{Scenario, ScenarioError, Study};
use crate::sim::{Guard, Outcome, RunError, Simulation};

/// One run of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// The cell of the sweep.
    pub cell: u64,
    /// The replication, which chooses the random numbers.
    pub replication: u64,
}

/// What can go wrong in a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A run was given up.
    #[error("cell {}, replication {}: {error}", job.cell, job.replication)]
    Run {
        /// The run.
        job: Job,
        /// Why.
        error: RunError,
    },
    /// A cell cannot be built.
    #[error("cell {cell}: {error}")]
    Scenario {
        /// The cell.
        cell: u64,
        /// Why.
        error: ScenarioError,
    },
    /// The threads cannot be had.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// What the system says.
        reason: String,
    },
}

/// Scalars of many runs: for each metric one value per job, NaN where a run does not have it.
pub type Columns = IndexMap<String, Vec<f64>>;

/// Runs the jobs on so many threads. `guard` makes the watch of one run, given its simulation.
///
/// # Errors
/// The first job, in the order of the jobs, that failed.
pub fn run<G: FnMut() -> Option<String>>(
    study: &Study,
    seed: Option<u64>,
    jobs: &[Job],
    threads: usize,
    guard: impl Fn(&Simulation) -> G + Sync,
) -> Result<Columns, BatchError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| BatchError::Threads { threads, reason: error.to_string() })?;
    let outcomes: Vec<Result<Outcome, BatchError>> = pool.install(|| {
        let scenarios = scenarios(study, seed, jobs);
        let run = |job: &Job| {
            let in_cell =
                |error: &ScenarioError| BatchError::Scenario { cell: job.cell, error: error.clone() };
            let scenario = scenarios[&job.cell].as_ref().map_err(in_cell)?;
            let simulation =
                Simulation::build(scenario, job.replication, false).map_err(|error| in_cell(&error))?;
            let mut guard = guard(&simulation);
            let guard: &mut Guard<'_> = &mut guard;
            simulation.run(guard).map_err(|error| BatchError::Run { job: *job, error })
        };
        jobs.par_iter().with_max_len(1).map(run).collect()
    });
    collect(study, jobs, outcomes)
}

fn scenarios(
    study: &Study,
    seed: Option<u64>,
    jobs: &[Job],
) -> BTreeMap<u64, Result<Scenario, ScenarioError>> {
    let mut cells: Vec<u64> = jobs.iter().map(|job| job.cell).collect();
    cells.sort_unstable();
    cells.dedup();
    let scenario = |cell: u64| {
        let mut scenario = study.cell(cell)?;
        scenario.seed = seed.unwrap_or(scenario.seed);
        Ok(scenario)
    };
    cells.into_par_iter().map(|cell| (cell, scenario(cell))).collect()
}

fn collect(
    study: &Study,
    jobs: &[Job],
    outcomes: Vec<Result<Outcome, BatchError>>,
) -> Result<Columns, BatchError> {
    let mut columns = Columns::new();
    columns.insert("cell".into(), jobs.iter().map(|job| job.cell as f64).collect());
    columns.insert("replication".into(), jobs.iter().map(|job| job.replication as f64).collect());
    for (index, outcome) in outcomes.into_iter().enumerate() {
        for (name, value) in outcome?.row.scalars() {
            if !columns.contains_key(name) {
                if !study.sweep.keeps(name) {
                    continue;
                }
                columns.insert(name.to_owned(), Vec::new());
            }
            let column = &mut columns[name];
            column.resize(index, f64::NAN);
            column.push(value);
        }
    }
    for column in columns.values_mut() {
        column.resize(jobs.len(), f64::NAN);
    }
    Ok(columns)
}
