//! TCP over simulated links against what can be computed by hand: a full link, a window that limits, the
//! 1/sqrt(p) law; and that tracing and fusing change nothing.

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

/// A load that always has something to send, over one link.
const BASE: &str = r#"
run.duration = "30 s"
links.wan = { ends = ["a", "b"], delay = "20 ms" }
paths.only.via = ["wan"]

[flows.load]
from = "a"
to = "b"
paths = ["only"]
transport = { kind = "tcp", cc = { kind = "reno" } }
app = { kind = "bulk" }
"#;

fn run(sets: &[(&str, &str)], replication: u64) -> Row {
    let sets: Vec<(String, String)> =
        sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let study = Study::parse(BASE, &sets, ".".as_ref()).expect("the scenario is possible");
    let traced = Simulation::build_fused(&study.scenario, replication, true, false).expect("possible");
    let traced = traced.run(&mut || None).expect("it ends").row;
    let fused = Simulation::build(&study.scenario, replication, false).expect("possible");
    let row = fused.run(&mut || None).expect("it ends").row;
    for (name, value) in row.scalars() {
        let other = traced.value(name).expect("the same scalars");
        assert!(value.to_bits() == other.to_bits(), "{name} = {value}, traced and evented {other}");
    }
    row
}

/// The goodput in bit/s over a run of 30 s.
fn goodput(row: &Row) -> f64 {
    row.value("load.tcp.b.bytes_delivered").expect("it is counted") * 8.0 / 30.0
}

#[test]
fn a_link_without_loss_is_filled() {
    let row = run(&[("links.wan.rate", "10 Mbit/s")], 0);
    let expected = 10e6 * 1448.0 / 1500.0;
    assert!((goodput(&row) / expected - 1.0).abs() < 0.01, "{}", goodput(&row));
    assert_eq!(row.value("load.tcp.a.timeouts"), Some(0.0));
}

#[test]
fn the_model_fills_a_link_with_segments_of_its_size() {
    // The bottleneck of the paper mptcp-aqm: a queue of 50 packets.
    let sets = [
        ("links.wan.rate", "0.75 Mbit/s"),
        ("links.wan.queue", "{ kind = \"drop_tail\", packets = 50 }"),
        ("flows.load.transport", "{ kind = \"tcp\", profile = \"kheirkhah_v1\", mss = \"1400 B\" }"),
    ];
    let row = run(&sets, 0);
    let expected = 0.75e6 * 1400.0 / 1460.0;
    assert!((goodput(&row) / expected - 1.0).abs() < 0.01, "{}", goodput(&row));
    // 46 segments of 1400 B are the whole window, and the queue holds them.
    assert_eq!(row.value("load.tcp.a.data_segments_retransmitted"), Some(0.0));
    let few = run(
        &[&sets[..1], &[("links.wan.queue", "{ kind = \"drop_tail\", packets = 20 }")], &sets[2..]].concat(),
        0,
    );
    // The first slow start loses some twenty segments, of which recovery sends one again per round trip.
    assert!(goodput(&few) / expected > 0.85, "{}", goodput(&few));
    assert!(few.value("load.tcp.a.fast_retransmits").is_some_and(|count| count > 2.0));
}

#[test]
fn a_receive_buffer_limits_to_one_window_per_round_trip() {
    // 41 segments, of which one is kept for the segment that opens the window.
    let row = run(&[("flows.load.transport.receive_buffer", "59368 B")], 0);
    let expected = 57_920.0 * 8.0 / 0.04;
    assert!((goodput(&row) / expected - 1.0).abs() < 0.02, "{}", goodput(&row));
}

#[test]
fn a_send_buffer_limits_to_one_buffer_per_round_trip() {
    let row = run(&[("flows.load.transport.send_buffer", "57920 B")], 0);
    let expected = 57_920.0 * 8.0 / 0.04;
    // Data that the application writes in pieces of a third of the buffer is not always there in time.
    let share = goodput(&row) / expected;
    assert!(share < 1.0 && share > 0.6, "{share}");
}

#[test]
fn reno_follows_the_square_root_law() {
    // M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", ACM CCR 27(3),
    // 1997: sqrt(3/2) segments per round trip and sqrt(p), when every segment counts.
    for p in [0.0005, 0.002, 0.005] {
        let loss = format!("{{ kind = \"bernoulli\", probability = {p} }}");
        // Without a queue the first slow start overshoots far; the time after it counts.
        let sets = [
            ("links.wan.loss", loss.as_str()),
            ("links.wan.reverse", "{ loss = { kind = \"none\" } }"),
            ("run.duration", "50 s"),
            ("run.warm_up", "20 s"),
        ];
        let mean = (0..20).map(|replication| goodput(&run(&sets, replication))).sum::<f64>() / 20.0;
        let expected = (1.5_f64 / p).sqrt() * 1448.0 * 8.0 / 0.04;
        assert!((mean / expected - 1.0).abs() < 0.1, "p = {p}: {mean} for {expected}");
    }
}
