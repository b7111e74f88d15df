//! Many runs of a study on several threads; one after the other without feature `threads`.
//!
//! Runs are independent, and results stand in the order of the jobs, so they are the same for any
//! number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use indexmap::IndexMap;

use crate::parallel;
use crate::scenario::{Scenario, ScenarioError};
use crate::sim::{Guard, Outcome, RunError, Simulation};
use crate::study::Study;
use crate::trace::Table;

/// A run of a study.
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
        /// Why it was given up.
        error: RunError,
    },
    /// A cell cannot be built.
    #[error("cell {cell}: {error}")]
    Scenario {
        /// The cell.
        cell: u64,
        /// Why it cannot be built.
        error: ScenarioError,
    },
    /// The threads cannot be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// The number of threads that were wanted.
        threads: usize,
        /// The system's error.
        reason: String,
    },
}

/// Scalars of many runs: for each metric one value per job, NaN where a run does not have it.
pub type Columns = IndexMap<String, Vec<f64>>;

/// How a batch is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The seed that is used instead of the scenario's.
    pub seed: Option<u64>,
    /// The number of threads; 0 means as many as there are cores, 1 the calling thread.
    pub threads: usize,
    /// The tables of the traces that are kept for every run.
    pub traces: &'a [String],
    /// Once this is true, runs in progress are given up and no other is begun.
    pub cancel: Option<&'a AtomicBool>,
}

/// The results of a batch; if it was cancelled, those of the finished jobs.
#[derive(Clone, Debug)]
pub struct Results {
    /// The scalars; the first columns, `cell` and `replication`, say to which jobs they belong.
    pub columns: Columns,
    /// The tables that were asked for, for each finished job; empty if none were.
    pub traces: Vec<(Job, Vec<Table>)>,
}

/// Runs the jobs. `guard` makes the watch of one run, given its simulation.
///
/// # Errors
/// The first job, in the order of the jobs, that failed.
pub fn run<G: FnMut() -> Option<String>>(
    study: &Study,
    jobs: &[Job],
    options: &Options<'_>,
    guard: impl Fn(&Simulation) -> G + Sync,
) -> Result<Results, BatchError> {
    let threads = options.threads;
    let is_cancelled = || options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
    let outcomes: Result<Vec<Option<Result<Outcome, BatchError>>>, String> =
        parallel::in_pool(threads, || {
            let scenarios = scenarios(study, options, jobs, is_cancelled);
            let run = |job: &Job| {
                let in_cell =
                    |error: &ScenarioError| BatchError::Scenario { cell: job.cell, error: error.clone() };
                let scenario = scenarios[&job.cell].as_ref().map_err(in_cell)?;
                let simulation = Simulation::build(scenario, job.replication, !options.traces.is_empty())
                    .map_err(|error| in_cell(&error))?;
                let mut watch = guard(&simulation);
                let mut guard = || if is_cancelled() { Some("cancelled".to_owned()) } else { watch() };
                let guard: &mut Guard<'_> = &mut guard;
                let mut outcome =
                    simulation.run(guard).map_err(|error| BatchError::Run { job: *job, error })?;
                outcome.tables.retain(|table| options.traces.iter().any(|name| name == table.name));
                Ok(outcome)
            };
            let run = |job: &Job| {
                if is_cancelled() {
                    return None;
                }
                let outcome = run(job);
                // The error of a cancelled run is not reported.
                if outcome.is_err() && is_cancelled() { None } else { Some(outcome) }
            };
            parallel::map_on(threads, jobs.iter().collect(), run)
        });
    let outcomes = outcomes.map_err(|reason| BatchError::Threads { threads, reason })?;
    let finished = jobs.iter().zip(outcomes).filter_map(|(job, outcome)| {
        let outcome = outcome?;
        Some(outcome.map(|outcome| (*job, outcome)))
    });
    Ok(collect(study, finished.collect::<Result<_, _>>()?))
}

/// The scenarios of the jobs' cells. Some are missing if the batch was cancelled in the meantime; its results
/// are then dropped.
fn scenarios(
    study: &Study,
    options: &Options<'_>,
    jobs: &[Job],
    is_cancelled: impl Fn() -> bool + Sync,
) -> BTreeMap<u64, Result<Scenario, ScenarioError>> {
    let mut cells: Vec<u64> = jobs.iter().map(|job| job.cell).collect();
    cells.sort_unstable();
    cells.dedup();
    let scenario = |cell: u64| {
        let mut scenario = study.cell(cell)?;
        scenario.seed = options.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    };
    let unless_cancelled = |cell: u64| (!is_cancelled()).then(|| (cell, scenario(cell)));
    parallel::map_on(options.threads, cells, unless_cancelled).into_iter().flatten().collect()
}

fn collect(study: &Study, finished: Vec<(Job, Outcome)>) -> Results {
    let mut columns = Columns::new();
    let of_jobs = |number: fn(&Job) -> u64| finished.iter().map(|(job, _)| number(job) as f64).collect();
    columns.insert("cell".into(), of_jobs(|job| job.cell));
    columns.insert("replication".into(), of_jobs(|job| job.replication));
    for (index, (_, outcome)) in finished.iter().enumerate() {
        for (name, value) in outcome.row.scalars() {
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
        column.resize(finished.len(), f64::NAN);
    }
    let with_traces = finished.into_iter().filter(|(_, outcome)| !outcome.tables.is_empty());
    Results { columns, traces: with_traces.map(|(job, outcome)| (job, outcome.tables)).collect() }
}
