//! Results under version control: every scenario of the library and corners of the voip-sctp study's grid,
//! with all digits; each of them also twice, and on several threads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::golden::assert_golden;
use anabranch::batch::{self, Columns, Job, Options};
use anabranch::sim::Simulation;
use anabranch::study::Study;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn load(file: &Path, sets: &[(&str, &str)]) -> Study {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Study::load(file, &sets).unwrap()
}

/// The scenario files of the library, in the order of their names.
pub(crate) fn library() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root().join("scenarios")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Writes the scalars of one run that are not zero and do not depend on how it was computed.
fn write_run(table: &mut String, title: &str, study: &Study) {
    let run = || Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row;
    let row = run();
    let again = run();
    writeln!(table, "[{title}]").unwrap();
    for ((name, value), (_, again)) in row.scalars().zip(again.scalars()) {
        assert_eq!(value.to_bits(), again.to_bits(), "{title}: {name} repeats itself");
        if name != "run.events" && value != 0.0 {
            writeln!(table, "{name} = {value}").unwrap();
        }
    }
}

#[test]
fn scenarios_give_the_known_results() {
    let mut table = String::new();
    for file in library() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        write_run(&mut table, &name, &load(&file, &[]));
    }
    assert_golden("scenarios.txt", &table);
}

#[test]
fn the_voip_sctp_study_gives_the_known_results() {
    let file = root().join("python/anabranch/papers/voip_sctp/scenario.toml");
    let call = "flows.call.transport";
    let mut table = String::new();
    for (title, clock, mean_loss, pmr, rto_max, policy) in [
        ("loss 2 %, pmr 0, RTO.Max 0.1 s, delay-centric", "on_arrival", "2 %", "0", "0.1 s", "delay_centric"),
        (
            "loss 10 %, pmr 1, RTO.Max 0.1 s, delay-centric",
            "on_arrival",
            "10 %",
            "1",
            "0.1 s",
            "delay_centric",
        ),
        ("loss 10 %, pmr 1, RTO.Max 0.1 s, failover", "on_arrival", "10 %", "1", "0.1 s", "failover"),
        ("loss 10 %, pmr 5, RTO.Max 60 s, failover", "on_arrival", "10 %", "5", "60 s", "failover"),
        ("slots, loss 10 %, pmr 1, RTO.Max 1 s, failover", "slot", "10 %", "1", "1 s", "failover"),
        (
            "slots, loss 2 %, pmr 0, RTO.Max 0.1 s, delay-centric",
            "slot",
            "2 %",
            "0",
            "0.1 s",
            "delay_centric",
        ),
    ] {
        let (pmr_key, rto_key) = (format!("{call}.path_max_retrans"), format!("{call}.rto_max"));
        let policy_key = format!("{call}.policy.kind");
        let sets = [
            ("links.p0-last.loss.clock", clock),
            ("links.p1-last.loss.clock", clock),
            ("links.p0-last.loss.mean_loss", mean_loss),
            ("links.p1-last.loss.mean_loss", mean_loss),
            (pmr_key.as_str(), pmr),
            (rto_key.as_str(), rto_max),
            (policy_key.as_str(), policy),
        ];
        write_run(&mut table, title, &load(&file, &sets));
    }
    assert_golden("voip_sctp.txt", &table);
}

fn run_batch(study: &Study, seed: Option<u64>, jobs: &[Job], threads: usize) -> Columns {
    let options = Options { seed, threads, ..Options::default() };
    batch::run(study, jobs, &options, |_| || None).unwrap().columns
}

/// Columns as bits: NaN equals itself.
fn bits(columns: &Columns) -> Vec<(&str, Vec<u64>)> {
    let column = |values: &Vec<f64>| values.iter().map(|value| value.to_bits()).collect();
    columns.iter().map(|(name, values)| (name.as_str(), column(values))).collect()
}

#[test]
fn threads_and_the_order_of_jobs_change_nothing() {
    for file in library() {
        let mut study = load(&file, &[]);
        if study.sweep.parts()[0].is_open() {
            let axes = study.sweep.columns().len();
            study = study.with_points("main", &[vec![0.25; axes], vec![0.75; axes]], &|| false).unwrap();
        }
        let cells = study.sweep.cell_count().min(3);
        let mut jobs: Vec<Job> =
            (0..cells).flat_map(|cell| (0..2).map(move |replication| Job { cell, replication })).collect();
        let one = run_batch(&study, None, &jobs, 1);
        assert_eq!(bits(&one), bits(&run_batch(&study, None, &jobs, 3)), "{}", file.display());
        jobs.reverse();
        let mut reversed = run_batch(&study, None, &jobs, 2);
        reversed.values_mut().for_each(|column| column.reverse());
        let sorted = |columns: &Columns| {
            let mut columns = columns.clone();
            columns.sort_keys();
            columns
        };
        assert_eq!(bits(&sorted(&one)), bits(&sorted(&reversed)), "{}", file.display());
        // Another seed is another study, and its replications differ too.
        let other = run_batch(&study, Some(99), &jobs, 2);
        let differs = |name: &str| other[name].iter().rev().ne(one[name].iter());
        assert!(one.keys().any(|name| differs(name)), "{}", file.display());
    }
}
