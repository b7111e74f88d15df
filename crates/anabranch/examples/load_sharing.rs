//! The tables of `docs/load-sharing.md`: means and 95 % confidence intervals over 20 replications.
//! `cargo run --example load_sharing -- --full`, in the root of the repository; without `--full` there are
//! two replications.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

/// Replications, and Student's t for one degree of freedom less, 97.5 %.
const FULL: (u64, f64) = (20, 2.093);
const QUICK: (u64, f64) = (2, 12.706);

fn replications() -> (u64, f64) {
    if std::env::args().any(|argument| argument == "--full") { FULL } else { QUICK }
}

type Sets<'a> = &'a [(&'a str, &'a str)];

/// Means against blocking: `buffer_splitting`, `split_by` and `chunk_rescheduling`.
const WAYS: [(&str, &str, &str, &str); 5] = [
    ("neither", "off", "outstanding", "off"),
    ("splitting by what is buffered", "both", "buffered", "off"),
    ("splitting by what is outstanding", "both", "outstanding", "off"),
    ("rescheduling", "off", "outstanding", "both"),
    ("both (the defaults)", "both", "outstanding", "both"),
];

const TRANSPORT: &str = "flows.transfer.transport";

fn main() {
    println!("| | Mbit/s | blocked by a buffer (of 60 s) | chunks rescheduled |\n|---|---|---|---|");
    let long: Sets<'_> = &[("links.second.rate", "1 Mbit/s"), ("links.second.delay", "200 ms")];
    transfer("one path", &[], "4 MB", true, &[]);
    transfer("two equal paths", &[], "4 MB", false, &[]);
    transfer(
        "the slow path alone",
        &[("links.first.rate", "1 Mbit/s"), ("links.first.delay", "200 ms")],
        "4 MB",
        true,
        &[],
    );
    for buffer in ["100 kB", "200 kB", "400 kB", "1 MB", "4 MB"] {
        for (name, splitting, split_by, rescheduling) in WAYS {
            let means = [
                ("buffer_splitting", splitting),
                ("split_by", split_by),
                ("chunk_rescheduling", rescheduling),
            ];
            transfer(&format!("fast and slow path, {buffer}, {name}"), long, buffer, false, &means);
        }
    }
    // A deep queue on the slow path, and a scheduler that fills every window.
    println!("\n| | Mbit/s | blocked by a buffer (of 60 s) | chunks rescheduled |\n|---|---|---|---|");
    let deep: Sets<'_> = &[("links.second.rate", "1 Mbit/s"), ("links.second.queue.packets", "500")];
    for (order, nr_sack) in [("false", "false"), ("true", "false"), ("false", "true"), ("true", "true")] {
        for (name, splitting, split_by, rescheduling) in WAYS {
            let means = [
                ("scheduler", "round_robin"),
                ("nr_sack", nr_sack),
                ("buffer_splitting", splitting),
                ("split_by", split_by),
                ("chunk_rescheduling", rescheduling),
            ];
            let network = [deep, &[("flows.transfer.app.unordered", order)]].concat();
            let order = if order == "true" { "unordered" } else { "ordered" };
            let sack = if nr_sack == "true" { "NR-SACK" } else { "SACK" };
            transfer(&format!("{order}, {sack}, {name}"), &network, "400 kB", false, &means);
        }
    }
    println!(
        "\n| coupling | two paths, Mbit/s | single path, Mbit/s | share of the two | Jain's index | share under random loss |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, coupling) in [
        ("none", "{ kind = \"per_path\" }"),
        ("LIA", "{ kind = \"lia\" }"),
        ("OLIA", "{ kind = \"olia\" }"),
        ("BALIA", "{ kind = \"balia\" }"),
        ("weighted Vegas", "{ kind = \"wvegas\" }"),
        ("Linked_Increases", "{ kind = \"linked_increases\" }"),
        ("RTT_Compensator", "{ kind = \"rtt_compensator\" }"),
        ("Fully_Coupled", "{ kind = \"fully_coupled\" }"),
        ("CMT/RPv1", "{ kind = \"resource_pooling\", version = \"v1\" }"),
        ("CMT/RPv2", "{ kind = \"resource_pooling\", version = \"v2\" }"),
    ] {
        let sets = [("flows.multi.transport.load_sharing.coupling".to_owned(), coupling.to_owned())];
        let without_queue = [
            ("links.bottleneck.rate".to_owned(), "100 Mbit/s".to_owned()),
            ("links.bottleneck.loss.probability".to_owned(), "0.001".to_owned()),
        ];
        let random = rows("scenarios/shared-bottleneck.toml", &[&sets[..], &without_queue].concat());
        let rows = rows("scenarios/shared-bottleneck.toml", &sets);
        let value = |row: &Row, flow: &str| mbit_per_s(row, flow);
        let of = |flow: &str| interval(rows.iter().map(|row| value(row, flow)), 2);
        let part = |row: &Row| value(row, "multi") / (value(row, "multi") + value(row, "single"));
        let share = interval(rows.iter().map(part), 3);
        let random = interval(random.iter().map(part), 3);
        let jain = interval(
            rows.iter().map(|row| {
                let (a, b) = (value(row, "multi"), value(row, "single"));
                (a + b) * (a + b) / (2.0 * (a * a + b * b))
            }),
            3,
        );
        println!("| {name} | {} | {} | {share} | {jain} | {random} |", of("multi"), of("single"));
    }
}

/// A row of the first table.
fn transfer(name: &str, network: Sets<'_>, buffer: &str, is_single: bool, means: Sets<'_>) {
    let mut sets: Vec<(String, String)> =
        network.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())).collect();
    for key in ["receive_buffer", "send_buffer"] {
        sets.push((format!("{TRANSPORT}.{key}"), buffer.to_owned()));
    }
    for (key, value) in means {
        sets.push((format!("{TRANSPORT}.load_sharing.{key}"), (*value).to_owned()));
    }
    if is_single {
        sets.push(("flows.transfer.paths".to_owned(), "[\"p0\"]".to_owned()));
    }
    let rows = rows("scenarios/load-sharing.toml", &sets);
    let sum = |row: &Row, names: &[&str]| {
        names.iter().filter_map(|name| row.value(&format!("transfer.sctp.a.{name}"))).sum::<f64>()
    };
    let goodput = interval(rows.iter().map(|row| mbit_per_s(row, "transfer")), 2);
    let blocked = ["blocked_by_receive_window_s", "blocked_by_send_buffer_s"];
    let blocked = interval(rows.iter().map(|row| sum(row, &blocked)), 1);
    let rescheduled = interval(rows.iter().map(|row| sum(row, &["data_chunks_rescheduled"])), 0);
    println!("| {name} | {goodput} | {blocked} s | {rescheduled} |");
}

fn rows(file: &str, sets: &[(String, String)]) -> Vec<Row> {
    let scenario = Study::load(Path::new(file), sets).expect("the scenario can be read").scenario;
    (0..replications().0)
        .map(|replication| {
            let simulation = Simulation::build(&scenario, replication, false).expect("it can be built");
            simulation.run(&mut || None).expect("it can be run").row
        })
        .collect()
}

fn mbit_per_s(row: &Row, flow: &str) -> f64 {
    row.value(&format!("{flow}.goodput_kbit_per_s")).expect("a bulk transfer has a goodput") / 1e3
}

/// Mean and half-width of the confidence interval.
fn interval(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    format!("{mean:.digits$} ± {:.digits$}", replications().1 * (variance / count).sqrt())
}
