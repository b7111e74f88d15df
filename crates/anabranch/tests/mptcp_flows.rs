//! MPTCP in simulations: what several paths give, applications over it, and what becomes of it when paths,
//! addresses and peers change.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

const TWO_PATHS: &str = "
    run.duration = '60 s'
    [links.first]
    ends = ['phone', 'server']
    rate = '10 Mbit/s'
    delay = '20 ms'
    queue = { kind = 'drop_tail', packets = 100 }
    [links.second]
    ends = ['phone', 'server']
    rate = '10 Mbit/s'
    delay = '20 ms'
    queue = { kind = 'drop_tail', packets = 100 }
    [paths.p0]
    via = ['first']
    [paths.p1]
    via = ['second']
    [flows.load]
    from = 'phone'
    to = 'server'
    paths = ['p0', 'p1']
    transport = { kind = 'mptcp' }
    app = { kind = 'bulk' }
";

fn study(sets: &[(&str, &str)]) -> Study {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Study::parse(TWO_PATHS, &sets, Path::new(".")).unwrap()
}

fn run(sets: &[(&str, &str)]) -> Row {
    Simulation::build(&study(sets).scenario, 0, false).unwrap().run(&mut || None).unwrap().row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn two_equal_paths_give_twice_one() {
    for profile in ["rfc8684", "linux_6", "kheirkhah_v1"] {
        let goodput = |paths: &str| {
            let profile = format!("{{ kind = 'mptcp', profile = '{profile}' }}");
            let row = run(&[("flows.load.paths", paths), ("flows.load.transport", &profile)]);
            value(&row, "load.goodput_kbit_per_s")
        };
        let (one, two) = (goodput("['p0']"), goodput("['p0', 'p1']"));
        assert!((1.9..2.05).contains(&(two / one)), "{profile}: {one} and {two} kbit/s");
        assert!(one > 9_000.0, "{profile}: {one} kbit/s");
    }
}

#[test]
fn applications_run_over_it() {
    let lossy = "{ kind = 'bernoulli', probability = '2 %' }";
    for app in [
        "{ kind = 'requests', connection = 'per_request', count = 50, think_time = '10 ms' }",
        "{ kind = 'requests', connection = 'persistent', count = 50, think_time = '10 ms' }",
    ] {
        let row = run(&[("flows.load.app", app), ("links.first.loss", lossy)]);
        assert_eq!(value(&row, "load.completed"), 50.0, "{app}: {row:?}");
        let connections = if app.contains("per_request") { 50.0 } else { 1.0 };
        assert_eq!(value(&row, "load.mptcp.a.connections"), connections);
    }
    let both = "{ kind = 'bulk', bytes = '3 MB', write_size = '700 B', direction = 'both' }";
    let row = run(&[("flows.load.app", both), ("links.first.loss", lossy)]);
    for direction in ["a_to_b", "b_to_a"] {
        assert_eq!(value(&row, &format!("load.{direction}.received_bytes")), 3e6);
    }
}

#[test]
fn a_path_may_die_and_return() {
    let up = "{ timetable = [['0 s', true], ['5 s', false], ['20 s', true]] }";
    let sets = [("links.second.up", up), ("links.second.down", "drop"), ("run.phases", "['5 s', '22 s']")];
    let row = run(&sets);
    let of = |phase, name: &str| value(&row, &format!("run.phase_{phase}.load.{name}"));
    assert!(of(1, "received_bytes") > 1.5 * 10e6 / 8.0 * 5.0, "both");
    assert!(of(2, "received_bytes") > 0.9 * 10e6 / 8.0 * 17.0, "the first one alone");
    assert!(of(3, "received_bytes") > 1.4 * 10e6 / 8.0 * 38.0, "both again");
    assert!(value(&row, "load.mptcp.a.bytes_reinjected") > 0.0);
}

#[test]
fn addresses_change_as_a_phone_moves() {
    let addresses =
        "[{ at = '5 s', add = 'p1' }, { at = '10 s', set_primary = 'p1' }, { at = '15 s', delete = 'p0' }]";
    let row = run(&[
        ("flows.load.addresses", addresses),
        ("run.phases", "['5 s', '10 s', '12 s', '15 s']"),
        ("flows.load.transport.receive_buffer", "4 MiB"),
    ]);
    let sent =
        |phase, path| value(&row, &format!("run.phase_{phase}.load.mptcp.a.subflow_{path}.bytes_sent"));
    assert_eq!(sent(1, 1), 0.0, "it is not there");
    assert!(sent(2, 0) > 1e6 && sent(2, 1) > 1e6, "both");
    assert_eq!(sent(4, 0), 0.0, "a backup");
    assert!(sent(4, 1) > 2e6);
    assert_eq!(sent(5, 0), 0.0);
    assert!(sent(5, 1) > 40e6, "the transfer goes on");
}

#[test]
fn a_peer_without_it_gets_tcp() {
    let tcp = "{ kind = 'tcp' }";
    for key in ["flows.load.transport", "flows.load.transport_to"] {
        let mptcp = ("flows.load.transport_to", "{ kind = 'mptcp' }");
        let row = run(&[mptcp, (key, tcp), ("flows.load.app", "{ kind = 'bulk', bytes = '2 MB' }")]);
        assert_eq!(value(&row, "load.received_bytes"), 2e6, "{key}");
    }
}
