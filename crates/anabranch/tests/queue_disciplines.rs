//! Queue disciplines that shape, isolate hosts or know L4S, under TCP.

use anabranch::report::Row;
use anabranch::scenario::Study;
use anabranch::sim::Simulation;

/// Loads over one link, from these nodes with these settings of TCP, for 30 s.
fn run(queue: &str, loads: &[(&str, &str)]) -> Row {
    let mut text = format!(
        "[run]\nduration = '30 s'\n[links]\nwan = {{ ends = ['edge', 'b'], rate = '100 Mbit/s', delay = '10 ms', queue = \
         {queue} }}\n"
    );
    for (index, (from, tcp)) in loads.iter().enumerate() {
        text += &format!(
            "[links.lan_{index}]\nends = ['{from}', 'edge']\ndelay = '1 ms'\n[paths.p{index}]\nvia = ['lan_{index}', \
             'wan']\n[flows.f{index}]\nfrom = '{from}'\nto = 'b'\npaths = ['p{index}']\ntransport = {{ kind = 'tcp', \
             {tcp} }}\napp = {{ kind = 'bulk' }}\n"
        );
    }
    let study = Study::parse(&text, &[], ".".as_ref()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row
}

/// Of one load, in Mbit/s.
fn goodput(row: &Row, load: usize) -> f64 {
    row.value(&format!("f{load}.tcp.b.bytes_delivered")).unwrap() * 8.0 / 30e6
}

fn scalar(row: &Row, name: &str) -> f64 {
    row.value(&format!("link.wan.forward.{name}")).unwrap_or_else(|| panic!("{name}"))
}

const RENO: &str = "cc = { kind = 'reno' }";

/// What is shaped to 10 Mbit/s is full at 10 Mbit/s, on a link ten times as fast.
#[test]
fn shapers_are_full_at_their_rate() {
    for queue in [
        "{ kind = 'token_bucket', rate = '10 Mbit/s', burst = '6 kB', child = { kind = 'codel' } }",
        "{ kind = 'token_bucket', rate = '10 Mbit/s', burst = '6 kB', latency = '50 ms' }",
        "{ kind = 'cake', bandwidth = '10 Mbit/s' }",
    ] {
        let row = run(queue, &[("a", RENO), ("a", RENO)]);
        let total = goodput(&row, 0) + goodput(&row, 1);
        let full = 10.0 * 1448.0 / 1500.0;
        assert!((total / full - 1.0).abs() < 0.03, "{queue}: {total} of {full}");
        assert!(scalar(&row, "max_sojourn_ms") > 5.0, "{queue}");
    }
}

/// A queue that holds for at most 20 ms: what waits longest came to a full one.
#[test]
fn a_token_buckets_latency_is_the_longest_wait() {
    let queue = "{ kind = 'token_bucket', rate = '10 Mbit/s', burst = '6 kB', latency = '20 ms' }";
    let row = run(queue, &[("a", RENO)]);
    // The packet in front of the queue waits for tokens besides: 1500 B at 10 Mbit/s are 1.2 ms.
    let longest = scalar(&row, "max_sojourn_ms");
    assert!((20.0..=20.0 + 4.8 + 1.3).contains(&longest), "{longest}");
    assert!(scalar(&row, "queue_full_packets") > 0.0);
}

/// One host has three flows and another has one: with hosts isolated each has half of the link, otherwise a quarter.
#[test]
fn cake_isolates_hosts() {
    let loads = [("a", RENO), ("a", RENO), ("a", RENO), ("c", RENO)];
    let share = |isolation: &str| {
        let queue = format!("{{ kind = 'cake', bandwidth = '10 Mbit/s', isolation = '{isolation}' }}");
        let row = run(&queue, &loads);
        goodput(&row, 3) / (0..4).map(|load| goodput(&row, load)).sum::<f64>()
    };
    for (isolation, expected) in [("triple_isolate", 0.5), ("dual_srchost", 0.5), ("flows", 0.25)] {
        let share = share(isolation);
        assert!((share - expected).abs() < 0.03, "{isolation}: {share}");
    }
}

/// RFC 9332 section 1.2: a scalable flow and a classic one of the same round-trip time have about the same rate, and
/// the first waits for a step instead of a target.
#[test]
fn dualpi2_couples_classic_and_l4s() {
    let l4s = "ecn = 'l4s', cc = { kind = 'dctcp' }";
    let row = run("{ kind = 'dualpi2' }", &[("a", RENO), ("c", l4s)]);
    let (classic, scalable) = (goodput(&row, 0), goodput(&row, 1));
    assert!((0.5..2.0).contains(&(scalable / classic)), "{scalable} {classic}");
    assert!(scalable + classic > 85.0, "{scalable} {classic}");
    let wait = |load: usize| row.value(&format!("f{load}.tcp.a.mean_rtt_ms")).unwrap() - 22.0;
    assert!(wait(0) > 5.0 && wait(1) < 2.0, "{} {}", wait(0), wait(1));
    // With one queue for both, the classic one is pushed aside.
    let row = run("{ kind = 'drop_tail', packets = 500, mark_packets = 8 }", &[("a", RENO), ("c", l4s)]);
    assert!(goodput(&row, 1) < 0.3 * goodput(&row, 0), "{} {}", goodput(&row, 1), goodput(&row, 0));
}
