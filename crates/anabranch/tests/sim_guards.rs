//! Where runs end: guards, `run.duration`, applications that are done, warm-ups, and values at the edges.

use std::path::Path;

use anabranch::sim::{Outcome, RunError, Simulation};
use anabranch::study::Study;
use anabranch_transport::report::Row;

const BASE: &str = "
run.duration = '20 s'
links.wan = { ends = ['a', 'b'], rate = '1 Mbit/s', delay = '10 ms', queue = { kind = 'drop_tail', packets = 50 } }
paths.only.via = ['wan']
[flows.call]
from = 'a'
to = 'b'
paths = ['only']
transport = { kind = 'udp' }
app = { kind = 'voip', start = '1 s', duration = '10 s' }
";

fn try_run(sets: &[(&str, &str)], trace: bool) -> Result<Outcome, RunError> {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    let study = Study::parse(BASE, &sets, Path::new(".")).unwrap();
    Simulation::build(&study.scenario, 0, trace).unwrap().run(&mut || None)
}

fn run(sets: &[(&str, &str)]) -> Row {
    try_run(sets, false).unwrap().row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

const LOAD: (&str, &str) = (
    "flows.call.app",
    "{ kind = 'datagrams', size = '100 B', rate = '80 kbit/s', intervals = { kind = 'cbr' } }",
);

#[test]
fn guards_stop_a_run_with_one_sentence() {
    let message = |sets: &[(&str, &str)], trace| try_run(sets, trace).unwrap_err().to_string();
    let events = message(&[("run.max_events", "100")], false);
    assert!(
        events.starts_with("the run was stopped at ") && events.ends_with("run.max_events = 100 is reached"),
        "{events}"
    );
    assert!(events.contains(" after 100 events: "), "{events}");
    assert!(message(&[("run.max_events", "0")], false).ends_with("run.max_events = 0 is reached"));
    let many = [LOAD, ("flows.call.app.rate", "80 Mbit/s"), ("run.max_memory", "100 kB")];
    let memory = message(&many, true);
    assert!(memory.ends_with("run.max_memory = 100000 B is reached"), "{memory}");
    // The outside guard is asked every 8,192 steps.
    let study =
        Study::parse(BASE, &[(LOAD.0.to_owned(), LOAD.1.replace("80 kbit/s", "80 Mbit/s"))], Path::new("."))
            .unwrap();
    let mut asked = 0;
    let simulation = Simulation::build(&study.scenario, 0, false).unwrap();
    let error = simulation
        .run(&mut || {
            asked += 1;
            (asked == 3).then(|| "it took too long".to_owned())
        })
        .unwrap_err()
        .to_string();
    // Each step is an event: a packet arrives, or the application wakes up to send one.
    assert!(error.contains("after 24575 events: it took too long"), "{error}");
}

/// A packet that continues as 1,250 fragments is more work than its steps show.
#[test]
fn fragments_count_towards_the_guard() {
    let load = [
        (LOAD.0, "{ kind = 'datagrams', size = '60 kB', rate = '4.8 Mbit/s', intervals = { kind = 'cbr' } }"),
        ("paths.only.mtu", "65535 B"),
        ("links.wan.mtu", "69 B"),
        ("links.wan.rate", "1 kbit/s"),
    ];
    let sets: Vec<_> = load.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())).collect();
    let study = Study::parse(BASE, &sets, Path::new(".")).unwrap();
    let mut asked = 0.0;
    let simulation = Simulation::build(&study.scenario, 0, false).unwrap();
    let mut guard = || {
        asked += 1.0;
        None
    };
    let outcome = simulation.run(&mut guard).unwrap();
    let (steps, fragments) = (outcome.steps as f64, value(&outcome.row, "link.wan.forward.arrived_packets"));
    assert!(steps < 1_000.0 && fragments > 200_000.0, "{steps} {fragments}");
    // The guard is asked only between steps, and a packet's fragments come to it together.
    let expected = (steps + fragments) / 8192.0;
    assert!((asked / expected - 1.0).abs() < 0.1, "{asked} {expected}");
}

#[test]
fn the_duration_ends_a_call_that_is_longer() {
    let row = run(&[("run.duration", "5 s")]);
    assert_eq!(value(&row, "run.simulated_s"), 5.0);
    // Frames are made from 1 s on, every 20 ms, and what the run has no time for does not count as lost.
    assert!((199.0..=201.0).contains(&value(&row, "call.sent")), "{}", value(&row, "call.sent"));
    assert!(value(&row, "call.lost") <= 2.0, "{}", value(&row, "call.lost"));
    assert!(value(&row, "call.mos") > 4.0, "{}", value(&row, "call.mos"));
    // The run is shorter than the time before the call, so there is no call.
    let row = run(&[("run.duration", "0.5 s")]);
    assert_eq!((value(&row, "call.sent"), value(&row, "run.packets_sent")), (0.0, 0.0));
    assert!(value(&row, "call.mos").is_nan());
    let row = run(&[("run.duration", "0 s")]);
    assert_eq!((value(&row, "run.simulated_s"), value(&row, "call.sent")), (0.0, 0.0));
}

#[test]
fn a_run_ends_when_its_applications_are_done() {
    let row = run(&[("run.duration", "1e9 s")]);
    assert_eq!(value(&row, "call.played"), 500.0);
    assert!(value(&row, "run.simulated_s") < 13.0);
    // Background loads do not end a run, and do not delay its end: alone they last the whole run.
    let row = run(&[LOAD]);
    assert_eq!(value(&row, "run.simulated_s"), 20.0);
    assert_eq!(value(&row, "call.sent"), 2_000.0);
    let row = run(&[LOAD, ("flows.call.app.duration", "1 s")]);
    assert_eq!((value(&row, "run.simulated_s"), value(&row, "call.sent")), (20.0, 100.0));
    let row = run(&[LOAD, ("flows.call.app.duration", "1 s"), ("flows.call.app.measure", "true")]);
    assert!(value(&row, "run.simulated_s") < 2.5);
}

#[test]
fn values_at_the_edges_are_harmless() {
    for sets in [
        [("links.wan.delay", "1e9 s"), ("links.wan.jitter", "1e9 s")],
        [("links.wan.rate", "1 bit/s"), ("links.wan.queue.packets", "4294967295")],
        [("links.wan.rate", "10 Tbit/s"), ("links.wan.delay", "0 s")],
        [("links.wan.queue.packets", "0"), ("links.wan.rate", "64 kbit/s")],
        [("flows.call.app.start", "1e9 s"), ("run.duration", "1e9 s")],
        [("links.wan.up", "false"), ("links.wan.down", "hold")],
    ] {
        let row = run(&sets);
        let (sent, played) = (value(&row, "call.sent"), value(&row, "call.played"));
        assert!(played <= sent && sent <= 500.0, "{sets:?}: {played} of {sent}");
    }
    for duration in ["1 ns", "20 ms", "39 ms"] {
        let sets = [("flows.call.app.duration".to_owned(), duration.to_owned())];
        let frames = Study::parse(BASE, &sets, Path::new(".")).map(|study| {
            value(
                &Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row,
                "call.sent",
            )
        });
        match frames {
            Ok(frames) => assert_eq!(frames, 1.0, "{duration}"),
            Err(error) => assert!(duration == "1 ns" && error.to_string().contains("is 0 frames"), "{error}"),
        }
    }
}

/// With a warm-up, counters and means are those of the whole run less those of a run that ends where the
/// warm-up does.
#[test]
fn a_warm_up_is_taken_off() {
    let load = |more: &[(&str, &str)]| {
        let mut sets = vec![
            ("flows.call.app", "{ kind = 'datagrams', size = '472 B', rate = '500 kbit/s' }"),
            ("links.wan.loss", "{ kind = 'gilbert', p = 0.01, r = 0.2 }"),
            ("links.wan.cross_traffic", "[{ kind = 'poisson', rate = '300 kbit/s' }]"),
            ("links.wan.queue.packets", "5"),
        ];
        sets.extend_from_slice(more);
        run(&sets)
    };
    let (whole, first) = (load(&[]), load(&[("run.duration", "8 s")]));
    let rest = load(&[("run.warm_up", "8 s")]);
    let mut counters = 0;
    for name in [
        "link.wan.forward.arrived_packets",
        "link.wan.forward.delivered_packets",
        "link.wan.forward.delivered_bytes",
        "link.wan.forward.lost_packets",
        "link.wan.forward.queue_full_packets",
        "link.wan.forward.cross_arrived_packets",
        "link.wan.forward.cross_queue_full_packets",
        "run.packets_sent",
        "run.packets_delivered",
        "run.packets_dropped",
        "call.sent",
        "call.received",
        "call.udp.a.sent_packets",
    ] {
        let Some(rest) = rest.value(name) else { continue };
        counters += 1;
        assert_eq!(rest, value(&whole, name) - value(&first, name), "{name}");
        assert!(rest > 0.0, "{name}");
    }
    assert!(counters >= 12, "{counters}");
    // The waiting times of packets, from sums: mean x number.
    let waits = |row: &Row| {
        let served =
            value(row, "link.wan.forward.delivered_packets") + value(row, "link.wan.forward.lost_packets");
        value(row, "link.wan.forward.mean_wait_ms") * served
    };
    let (sum, expected) = (waits(&rest), waits(&whole) - waits(&first));
    assert!((sum - expected).abs() < 1e-6 * expected, "{sum} {expected}");
    // Packets that were on their way when the warm-up ended are counted where they arrived.
    let in_link = value(&whole, "link.wan.forward.in_link_packets");
    assert_eq!(value(&rest, "link.wan.forward.in_link_packets"), in_link);
    // A run that is over before its warm-up has nothing to show.
    let short = run(&[("run.warm_up", "20 s")]);
    assert_eq!(value(&short, "run.packets_sent"), 0.0);
    assert_eq!(value(&short, "link.wan.forward.arrived_packets"), 0.0);
}

/// Phases are the differences of runs that end where they do, their counters add up, and cutting changes
/// nothing.
#[test]
fn phases_are_reported_one_by_one() {
    let load = |more: &[(&str, &str)]| {
        let mut sets = vec![
            ("flows.call.app", "{ kind = 'datagrams', size = '472 B', rate = '500 kbit/s' }"),
            ("links.wan.loss", "{ kind = 'gilbert', p = 0.01, r = 0.2 }"),
            ("links.wan.cross_traffic", "[{ kind = 'poisson', rate = '300 kbit/s' }]"),
        ];
        sets.extend_from_slice(more);
        run(&sets)
    };
    let (whole, early) = (load(&[]), load(&[("run.duration", "4 s")]));
    let cut = load(&[("run.warm_up", "1 s"), ("run.phases", "['4 s', '9 s']")]);
    let rest = load(&[("run.warm_up", "4 s")]);
    let names = ["call.received", "call.sent", "link.wan.forward.delivered_bytes", "run.packets_delivered"];
    for name in names {
        let phase = |number| value(&cut, &format!("run.phase_{number}.{name}"));
        assert_eq!(phase(1) + phase(2) + phase(3), value(&cut, name), "{name}");
        assert_eq!(phase(2) + phase(3), value(&whole, name) - value(&early, name), "{name}");
        assert_eq!(phase(2) + phase(3), value(&rest, name), "{name}");
        assert!(phase(2) > 0.0, "{name}");
    }
    let of_phases = |(name, _): &(&str, f64)| name.starts_with("run.phase_");
    let scalars: Vec<_> = cut.scalars().filter(|scalar| !of_phases(scalar)).collect();
    assert_eq!(
        format!("{scalars:?}"),
        format!("{:?}", load(&[("run.warm_up", "1 s")]).scalars().collect::<Vec<_>>())
    );
    // A phase that the run does not reach is empty.
    let short = run(&[("run.phases", "['8 s', '9 s']"), ("flows.call.app.duration", "2 s")]);
    assert_eq!(value(&short, "run.phase_3.run.packets_sent"), 0.0);
}
