//! Time accounts where one cause is known: the account of the sender names it.

use anabranch::sim::{Outcome, Simulation};
use anabranch::study::Study;
use anabranch::trace::{Column, Table};
use anabranch_transport::observed::LimitedBy;

/// A transfer over one path or two of 10 Mbit/s and 20 ms there and back each.
fn run(sets: &[(&str, &str)]) -> Outcome {
    run_of(0, sets)
}

/// The same with the random numbers of another run.
fn run_of(number: u64, sets: &[(&str, &str)]) -> Outcome {
    let text = r#"
        [run]
        duration = "20 s"
        time_accounts = true
        [links.first]
        ends = ["server", "client"]
        rate = "10 Mbit/s"
        delay = "10 ms"
        queue = { kind = "drop_tail", packets = 50 }
        [links.second]
        ends = ["server", "client"]
        rate = "10 Mbit/s"
        delay = "10 ms"
        queue = { kind = "drop_tail", packets = 50 }
        [paths.p0]
        via = ["first"]
        [paths.p1]
        via = ["second"]
        [flows.transfer]
        from = "server"
        to = "client"
        paths = ["p0", "p1"]
        transport = { kind = "sctp", receive_buffer = "1 MB", send_buffer = "1 MB", load_sharing = {} }
        app = { kind = "bulk" }
    "#;
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    let scenario = Study::parse(text, &sets, std::path::Path::new(".")).unwrap().scenario;
    Simulation::build(&scenario, number, false).unwrap().run(&mut || None).unwrap()
}

const TCP: &[(&str, &str)] = &[
    ("flows.transfer.paths", "['p0']"),
    ("flows.transfer.transport", "{ kind = 'tcp', send_buffer = '1 MB', receive_buffer = '1 MB' }"),
];
const MPTCP: &[(&str, &str)] =
    &[("flows.transfer.transport", "{ kind = 'mptcp', send_buffer = '1 MB', receive_buffer = '1 MB' }")];
const ONE_PATH: &[(&str, &str)] = &[
    ("flows.transfer.paths", "['p0']"),
    ("flows.transfer.transport", "{ kind = 'sctp', send_buffer = '1 MB', receive_buffer = '1 MB' }"),
];

fn share(outcome: &Outcome, section: &str, limit: LimitedBy) -> f64 {
    let name = format!("transfer.{section}.{}_share", limit.name());
    outcome.row.value(&name).unwrap_or_else(|| panic!("{name}"))
}

#[track_caller]
fn assert_mostly(outcome: &Outcome, section: &str, limit: LimitedBy, least: f64) {
    let shares: Vec<_> =
        LimitedBy::ALL.iter().map(|&limit| (limit.name(), share(outcome, section, limit))).collect();
    assert!(share(outcome, section, limit) >= least, "{section}: {shares:.3?}");
}

fn column<'a>(outcome: &'a Outcome, table: &str, column: &str) -> &'a Column {
    let is_named = |candidate: &&Table| candidate.name == table;
    let table = outcome.tables.iter().find(is_named).unwrap();
    &table.columns.iter().find(|(name, _)| *name == column).unwrap().1
}

#[test]
fn a_transfer_without_obstacles_is_limited_by_its_congestion_window() {
    for (sets, section) in [(TCP, "tcp.a"), (ONE_PATH, "sctp.a"), (&[][..], "sctp.a"), (MPTCP, "mptcp.a")] {
        let outcome = run(sets);
        assert_mostly(&outcome, section, LimitedBy::CongestionWindow, 0.6);
        assert_mostly(&outcome, &format!("{section}.path0"), LimitedBy::CongestionWindow, 0.6);
        let receiver = section.replace(".a", ".b");
        assert_mostly(&outcome, &receiver, LimitedBy::Application, 0.99);
    }
}

#[test]
fn a_tiny_receive_buffer_is_named() {
    // One bandwidth-delay product is 25 kB.
    for (sets, section) in [(TCP, "tcp.a"), (ONE_PATH, "sctp.a"), (MPTCP, "mptcp.a")] {
        let small = ("flows.transfer.transport.receive_buffer", "8 kB");
        let outcome = run(&[sets, &[("flows.transfer.paths", "['p0']"), small]].concat());
        assert_mostly(&outcome, section, LimitedBy::ReceiveWindow, 0.95);
        let receiver = section.replace(".a", ".b");
        let blocked = outcome.row.value(&format!("transfer.{receiver}.head_of_line_blocked_share"));
        assert_eq!(blocked, Some(0.0), "nothing is lost");
    }
}

#[test]
fn a_small_send_buffer_is_named() {
    for (sets, section) in [(TCP, "tcp.a"), (ONE_PATH, "sctp.a")] {
        let small =
            [("flows.transfer.transport.send_buffer", "8 kB"), ("flows.transfer.app.write_size", "1 kB")];
        let outcome = run(&[sets, &small].concat());
        assert_mostly(&outcome, section, LimitedBy::SendBuffer, 0.8);
    }
}

#[test]
fn a_slow_application_is_named() {
    // 1 kB every 20 ms of a path of 10 Mbit/s.
    for (sets, section) in [(TCP, "tcp.a"), (ONE_PATH, "sctp.a"), (&[][..], "sctp.a.path1")] {
        let slow = [("flows.transfer.app.write_size", "1 kB"), ("flows.transfer.app.write_cost", "20 ms")];
        assert_mostly(&run(&[sets, &slow].concat()), section, LimitedBy::Application, 0.99);
    }
}

#[test]
fn losses_are_named() {
    for (sets, section) in [(TCP, "tcp.a"), (ONE_PATH, "sctp.a")] {
        // One run of 20 s says too little: the shares of several have a standard deviation of 0.07.
        let repair = |sets: &[(&str, &str)]| {
            let outcomes = (0..10).map(|number| run_of(number, sets));
            let of_one = |it: Outcome| {
                share(&it, section, LimitedBy::Recovery) + share(&it, section, LimitedBy::Timeout)
            };
            outcomes.map(of_one).sum::<f64>() / 10.0
        };
        let calm = repair(sets);
        let lossy =
            repair(&[sets, &[("links.first.loss", "{ kind = 'bernoulli', probability = 0.1 }")]].concat());
        assert!(lossy > 0.3, "{section}: {lossy}");
        assert!(lossy > 5.0 * calm, "{section}: {lossy}, {calm}");
    }
}

#[test]
fn a_failed_path_and_one_that_stands_by_are_told_apart() {
    let outcome = run(&[
        (
            "flows.transfer.transport",
            "{ kind = 'sctp', send_buffer = '1 MB', path_max_retrans = 0, rto_initial = '1 s' }",
        ),
        ("links.first.up", "{ timetable = [['0 s', true], ['10 s', false]] }"),
    ]);
    for (path, down, standby) in [("path0", 0.3..0.5, 0.0..0.001), ("path1", 0.0..0.001, 0.5..0.7)] {
        let section = format!("sctp.a.{path}");
        let shares = [LimitedBy::PathDown, LimitedBy::Standby].map(|limit| share(&outcome, &section, limit));
        assert!(down.contains(&shares[0]) && standby.contains(&shares[1]), "{path}: {shares:?}");
    }
}

#[test]
fn a_slow_path_that_blocks_the_receiver_is_named() {
    // Without the countermeasures of load sharing and MPTCP.
    let small = ("flows.transfer.transport.receive_buffer", "100 kB");
    let load_sharing = "{ buffer_splitting = 'off', chunk_rescheduling = 'off' }";
    let sctp = ("flows.transfer.transport.load_sharing", load_sharing);
    let mptcp = ("flows.transfer.transport.opportunistic_retransmission", "false");
    let slow = ("links.second.delay", "250 ms");
    check_blocking(&run(&[slow, small, sctp]), "sctp");
    check_blocking(&run(&[MPTCP, &[slow, small, mptcp]].concat()), "mptcp");
}

fn check_blocking(outcome: &Outcome, transport: &str) {
    assert_mostly(outcome, &format!("{transport}.a"), LimitedBy::ReceiveWindow, 0.5);
    assert_mostly(outcome, &format!("{transport}.a.path0"), LimitedBy::ReceiveWindow, 0.5);
    let numbers = |table, name| match column(outcome, table, name) {
        Column::Numbers(values) => values.clone(),
        _ => panic!("{name} is numbers"),
    };
    let integers = |table, name| match column(outcome, table, name) {
        Column::Integers(values) => values.clone(),
        _ => panic!("{name} is integers"),
    };
    let (start, end) = (numbers("limits", "start_s"), numbers("limits", "end_s"));
    let (path, waits_for) = (integers("limits", "path"), integers("limits", "waits_for"));
    let waited = |other: i64| -> f64 {
        let rows = (0..path.len()).filter(|&row| path[row] == 0 && waits_for[row] == other);
        rows.map(|row| end[row] - start[row]).sum()
    };
    assert!(waited(1) > 10.0 * waited(0), "{} {}", waited(1), waited(0));
    // While what the slow path carries is on its way, what comes later waits; not while its SACK is.
    let blocked = outcome.row.value(&format!("transfer.{transport}.b.head_of_line_blocked_share")).unwrap();
    assert!((0.4..0.55).contains(&blocked), "{blocked}");
    let (missing, waiting) =
        (integers("head_of_line", "missing_path"), numbers("head_of_line", "waiting_byte_s"));
    let of_path = |path: i64| -> f64 {
        missing.iter().zip(&waiting).filter(|(own, _)| **own == path).map(|(_, waiting)| waiting).sum()
    };
    assert!(of_path(1) > 10.0 * of_path(0), "{} {}", of_path(1), of_path(0));
    let mean = outcome.row.value(&format!("transfer.{transport}.b.mean_head_of_line_bytes")).unwrap();
    assert!((mean - (of_path(0) + of_path(1)) / 20.0).abs() < 1e-6 * mean, "the same in both");
}
