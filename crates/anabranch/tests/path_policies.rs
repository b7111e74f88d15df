//! Every path policy in simulation: two paths whose properties change by timetables; it leaves its primary
//! path for its own reason, and only then.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch::trace::Column;
use anabranch_transport::report::Row;

/// A change of the primary path: when, in seconds, and the text of the trace.
type Change = (f64, String);

/// A run with a bulk transfer or a call over two paths (`transport` and `app` as in a scenario file).
fn run(first: &str, second: &str, transport: &str, app: &str) -> (Vec<Change>, Row) {
    let text = format!(
        "run = {{ duration = '60 s' }}\n\
         links.first = {{ ends = ['a', 'b'], {first} }}\n\
         links.second = {{ ends = ['a', 'b'], {second} }}\n\
         paths.p0.via = ['first']\npaths.p1.via = ['second']\n\
         [flows.f]\nfrom = 'a'\nto = 'b'\npaths = ['p0', 'p1']\n\
         transport = {{ kind = 'sctp', {transport} }}\napp = {app}\n"
    );
    let study = Study::parse(&text, &[], Path::new(".")).expect("a scenario");
    let simulation = Simulation::build(&study.scenario, 0, true).expect("a simulation");
    let outcome = simulation.run(&mut || None).expect("a run");
    let table = outcome.tables.iter().find(|table| table.name == "events").expect("events are traced");
    let column = |wanted: &str| &table.columns.iter().find(|(name, _)| *name == wanted).expect("a column").1;
    let text = |name: &str| match column(name) {
        Column::Text(texts) => texts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        _ => panic!("{name} is text"),
    };
    let Column::Numbers(times) = column("time_s") else { panic!("times are numbers") };
    let changes = times
        .iter()
        .zip(text("event"))
        .zip(text("side").into_iter().zip(text("detail")))
        .filter(|((_, event), (side, _))| event == "primary_changed" && side == "a")
        .map(|((time, _), (_, detail))| (*time, detail))
        .collect();
    (changes, outcome.row)
}

const QUEUE: &str = "queue = { kind = 'drop_tail', bytes = '20 kB' }";
const BULK: &str = "{ kind = 'bulk' }";
const CALL: &str = "{ kind = 'voip', codec = 'g711+plc', start = '1 s', duration = '58 s' }";

/// A link of this rate and one-way delay; both may be timetables.
fn link(rate: &str, delay: &str) -> String {
    format!("rate = {rate}, delay = {delay}, {QUEUE}")
}

/// The texts without their times.
fn texts(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|(_, text)| &**text).collect()
}

fn count(row: &Row, name: &str) -> f64 {
    row.value(&format!("f.sctp.a.{name}")).expect("it is counted")
}

#[test]
fn throughput_checkpoint_moves_to_the_faster_path() {
    let policy = "policy = { kind = 'throughput_checkpoint' }, max_burst = 'off'";
    let second = link("'2 Mbit/s'", "'20 ms'");
    let slower = link("{ timetable = [['0 s', '3 Mbit/s'], ['25 s', '0.8 Mbit/s']] }", "'20 ms'");
    let (changes, row) = run(&slower, &second, policy, BULK);
    let [(at, text)] = &changes[..] else { panic!("one change: {changes:?}") };
    assert!((25.0..35.0).contains(at), "once the path is slower: {at} s");
    assert!(text.starts_with("path0 -> path1: measured throughput: "), "{text}");
    assert_eq!([count(&row, "primary_changes"), count(&row, "switches_reverted")], [1.0, 0.0]);
    // A window of some packets each, on top of the data that went the other way.
    let (checkpoints, bytes) = (count(&row, "checkpoints"), count(&row, "probe_bytes"));
    assert!(checkpoints >= 2.0 && bytes > checkpoints * 4.0 * 1_452.0, "{checkpoints}, {bytes} B");

    let (changes, row) = run(&link("'3 Mbit/s'", "'20 ms'"), &second, policy, BULK);
    assert_eq!(changes, [], "the path in use is the faster one");
    assert!(count(&row, "checkpoints") >= 1.0, "and was compared");
}

#[test]
fn throughput_checkpoint_delivers_everything_once() {
    let policy = "policy = { kind = 'throughput_checkpoint', retry = '1 s', hold = '1 s', required_rate = '1 Gbit/s' }";
    let app = "{ kind = 'bulk', bytes = '4 MB' }";
    let second =
        format!("{}, loss = {{ kind = 'bernoulli', probability = '2 %' }}", link("'2 Mbit/s'", "'30 ms'"));
    let (_, row) = run(&link("'2 Mbit/s'", "'20 ms'"), &second, policy, app);
    assert!(count(&row, "checkpoints") > 10.0);
    assert_eq!(row.value("f.received_bytes"), Some(4e6));
}

#[test]
fn round_trip_times_decide_for_the_policies_that_compare_them() {
    let slower = link("'3 Mbit/s'", "{ timetable = [['0 s', '20 ms'], ['20 s', '80 ms']] }");
    let (first, second) = (link("'3 Mbit/s'", "'20 ms'"), link("'3 Mbit/s'", "'40 ms'"));
    for (kind, words) in [
        ("delay_centric", "smaller delay"),
        ("rtt_based", "smaller round-trip time"),
        ("adaptive_primary", "smaller round-trip time"),
    ] {
        let transport = format!("hb_interval = '1 s', rto_min = '0.1 s', policy = {{ kind = '{kind}' }}");
        let (changes, _) = run(&slower, &second, &transport, CALL);
        let (at, text) = changes.first().expect("a change");
        assert!((20.0..30.0).contains(at), "{kind}: {at} s");
        // Without hysteresis, it changes back and forth until both averages have settled.
        let (last, _) = changes.last().expect("a change");
        assert!(changes.len() % 2 == 1 && *last < 30.0, "{kind}: {changes:?}");
        assert!(kind == "delay_centric" || changes.len() == 1, "{kind}: {changes:?}");
        assert!(text.starts_with(&format!("path0 -> path1: {words}: ")), "{text}");
        assert_eq!(run(&first, &second, &transport, CALL).0, [], "{kind}: it is the faster one");
    }
}

#[test]
fn echo_weighs_loss_against_delay() {
    let transport = "hb_interval = '1 s', rto_min = '0.1 s', policy = { kind = 'echo' }";
    let lossy = format!(
        "{}, loss = {{ kind = 'bernoulli', probability = {{ timetable = [['0 s', '0 %'], ['20 s', '5 %']] }} }}",
        link("'3 Mbit/s'", "'20 ms'")
    );
    let clean = link("'3 Mbit/s'", "'20 ms'");
    let (changes, _) = run(&lossy, &link("'3 Mbit/s'", "'60 ms'"), transport, CALL);
    let [(at, text)] = &changes[..] else { panic!("one change: {changes:?}") };
    assert!(
        (20.0..32.0).contains(at) && text.starts_with("path0 -> path1: higher rating R: "),
        "{at} s: {text}"
    );
    assert_eq!(run(&clean, &link("'3 Mbit/s'", "'60 ms'"), transport, CALL).0, [], "no loss");
    assert_eq!(
        run(&lossy, &link("'3 Mbit/s'", "'350 ms'"), transport, CALL).0,
        [],
        "the other one is too slow"
    );
}

#[test]
fn heartbeat_pairs_see_the_rate_of_both_paths() {
    let policy = "policy = { kind = 'heartbeat_pair' }";
    let slower = link("{ timetable = [['0 s', '5 Mbit/s'], ['20 s', '1 Mbit/s']] }", "'20 ms'");
    let (changes, row) = run(&slower, &link("'3 Mbit/s'", "'20 ms'"), policy, CALL);
    let [(at, text)] = &changes[..] else { panic!("one change: {changes:?}") };
    assert!((20.0..40.0).contains(at), "{at} s");
    let rate: f64 = text.split([':', ' ']).find_map(|word| word.parse().ok()).expect("a rate");
    assert!((2.7..3.3).contains(&rate), "the rate of the link: {text}");
    // 59 pairs on each path, on the second one less those before it was confirmed.
    let overhead = count(&row, "probe_bytes") / (2.0 * 2.0 * 1_500.0);
    assert!((57.0..=60.0).contains(&overhead), "{overhead} pairs on each path");
    let (changes, _) = run(&link("'2.5 Mbit/s'", "'20 ms'"), &link("'9 Mbit/s'", "'20 ms'"), policy, CALL);
    assert_eq!(changes, [], "a faster path is no reason while the primary path is as required");
}

#[test]
fn primary_path_switchover_makes_the_change_last() {
    let outage = format!(
        "{}, up = {{ timetable = [['0 s', true], ['20 s', false], ['30 s', true]] }}",
        link("'3 Mbit/s'", "'20 ms'")
    );
    let second = link("'3 Mbit/s'", "'20 ms'");
    let transport = |key: &str| {
        format!(
            "hb_interval = '1 s', rto_min = '0.1 s', rto_max = '1 s', pf_max_retrans = 0, policy = {{ kind = 'failover'{key} }}"
        )
    };
    let (changes, _) = run(&outage, &second, &transport(", primary_switchover_max_retrans = 2"), CALL);
    assert_eq!(texts(&changes), ["path0 -> path1: primary path switchover: 3 errors > 2 errors"]);
    assert!((20.0..22.0).contains(&changes[0].0), "{} s", changes[0].0);
    assert_eq!(run(&outage, &second, &transport(""), CALL).0, [], "the standard returns");
    assert_eq!(run(&second, &second, &transport(", primary_switchover_max_retrans = 0"), CALL).0, []);
}

#[test]
fn retransmissions_follow_the_measured_paths() {
    let lossy =
        format!("{}, loss = {{ kind = 'bernoulli', probability = '3 %' }}", link("'3 Mbit/s'", "'20 ms'"));
    let clean = link("'3 Mbit/s'", "'20 ms'");
    let sent_on_second = |retransmit_on: &str| {
        let transport = format!("policy = {{ kind = 'failover', retransmit_on = '{retransmit_on}' }}");
        let (_, row) = run(&lossy, &clean, &transport, BULK);
        (
            row.value("link.second.forward.arrived_packets").expect("counted"),
            count(&row, "data_chunks_retransmitted"),
        )
    };
    let (same, _) = sent_on_second("same");
    let (by_loss, retransmitted) = sent_on_second("smallest_loss_rate");
    assert!(same < 10.0, "heartbeats only: {same}");
    assert!(by_loss > 0.5 * retransmitted, "{by_loss} of {retransmitted}");
}
